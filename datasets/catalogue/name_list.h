/* name_list.h: the names of files in a folder, in the order in which people count, without a copy of each where they follow
 * a pattern ("frame_000000.png" to "frame_000299.png"): a million episodes of frames stay small. */
#ifndef SG_DATASETS_CATALOGUE_NAME_LIST_H
#define SG_DATASETS_CATALOGUE_NAME_LIST_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_name_list {
    size_t n;
    char *
        letters; /* of a pattern: what is before and behind the number, each with its NUL; else all names with theirs */
    uint32_t *start; /* of each name in `letters`; NULL: a pattern */
    int64_t first;   /* the first number of a pattern */
    int width;       /* its digits at least */
} sg_name_list;

/* What a list is made of. */
typedef enum sg_name_kind { SG_NAMES_FILES, SG_NAMES_FOLDERS } sg_name_kind;

/* Names of the folder's files that end in one of `endings` (letters of either case; NULL-terminated), or of its folders
 * (endings: NULL), but for hidden ones; symbolic links count as what they lead to. SG_NO: no such folder. */
sg_code sg_names_read(const char *folder, sg_name_kind kind, const char *const *endings, sg_name_list *list,
                      sg_status *status);
void sg_names_free(sg_name_list *list);
/* The name of an index below n; false: it does not fit. */
bool sg_names_get(const sg_name_list *list, size_t index, char *out, size_t room);
/* Order of names: numbers in them by their value, "e2" before "e10". */
int sg_names_compare(const char *a, const char *b);

#endif
