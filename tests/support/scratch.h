/* scratch.h: a folder of its own for a test, filled with files and emptied again. */
#ifndef SG_TESTS_SUPPORT_SCRATCH_H
#define SG_TESTS_SUPPORT_SCRATCH_H

typedef struct sg_scratch {
    char path[64];
} sg_scratch;

sg_scratch sg_scratch_new(void); /* fails the test when there is no room for it */
void sg_scratch_free(const sg_scratch *scratch);

/* Paths are relative to the folder; folders on the way are made. */
void sg_scratch_file(const sg_scratch *scratch, const char *path, const char *text);
void sg_scratch_link(const sg_scratch *scratch, const char *path, const char *to);
void sg_scratch_folder(const sg_scratch *scratch, const char *path);

#endif
