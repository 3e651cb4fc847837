/* arena.h: the memory of one training: handed out piece by piece, freed all at once. */
#ifndef SG_MODELS_ARENA_H
#define SG_MODELS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_arena sg_arena;

/* NULL when memory ends. */
sg_arena *sg_arena_new(void);
void sg_arena_free(sg_arena *arena);
/* Zeroed, aligned for any type; NULL when memory ends (bytes == 0 gives a valid pointer). */
void *sg_arena_alloc(sg_arena *arena, size_t bytes);
/* The arena frees `block` (from malloc, or NULL) from now on. On failure (false) the caller still owns it. */
bool sg_arena_adopt(sg_arena *arena, void *block);

#endif
