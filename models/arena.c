#include "models/arena.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 16 };

/* A block of memory: a chunk to hand out from, or one that was adopted. */
typedef struct block {
    struct block *next;
    void *memory;
} block;

struct sg_arena {
    block *blocks;
    char *chunk;
    size_t used, size;
};

sg_arena *sg_arena_new(void) {
    return calloc(1, sizeof(sg_arena));
}

void sg_arena_free(sg_arena *arena) {
    if (!arena) return;
    for (block *b = arena->blocks; b;) {
        block *next = b->next;
        free(b->memory);
        free(b);
        b = next;
    }
    free(arena);
}

bool sg_arena_adopt(sg_arena *arena, void *memory) {
    if (!memory) return true;
    block *b = malloc(sizeof *b);
    if (!b) return false;
    *b = (block){arena->blocks, memory};
    arena->blocks = b;
    return true;
}

static void *owned(sg_arena *arena, size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory && !sg_arena_adopt(arena, memory)) {
        free(memory);
        return NULL;
    }
    return memory;
}

void *sg_arena_alloc(sg_arena *arena, size_t bytes) {
    const size_t align = _Alignof(max_align_t);
    if (bytes > (size_t)-1 - align) return NULL;
    bytes = bytes ? (bytes + align - 1) / align * align : align;
    if (bytes > CHUNK_BYTES / 4) return owned(arena, bytes);
    if (arena->size - arena->used < bytes) {
        char *chunk = owned(arena, CHUNK_BYTES);
        if (!chunk) return NULL;
        arena->chunk = chunk;
        arena->size = CHUNK_BYTES;
        arena->used = 0;
    }
    void *at = arena->chunk + arena->used;
    arena->used += bytes;
    return at;
}
