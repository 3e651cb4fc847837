#include "tests/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

sg_scratch sg_scratch_new(void) {
    sg_scratch s = {"/tmp/stepgauge-test-XXXXXX"};
    if (!mkdtemp(s.path)) fail_msg("no folder can be made in /tmp");
    return s;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

void sg_scratch_free(const sg_scratch *s) {
    if (nftw(s->path, remove_one, 16, FTW_DEPTH | FTW_PHYS)) fail_msg("%s cannot be removed", s->path);
}

/* The whole path, with every folder before its last part. */
static void prepare(const sg_scratch *s, const char *path, char whole[PATH_BYTES]) {
    int n = snprintf(whole, PATH_BYTES, "%s/%s", s->path, path);
    assert_true(n > 0 && n < PATH_BYTES);
    for (char *c = whole + strlen(s->path) + 1; (c = strchr(c, '/')) != NULL; c++) {
        *c = '\0';
        (void)mkdir(whole, 0755);
        *c = '/';
    }
}

void sg_scratch_file(const sg_scratch *s, const char *path, const char *text) {
    char whole[PATH_BYTES];
    prepare(s, path, whole);
    FILE *f = fopen(whole, "w");
    if (!f) fail_msg("%s cannot be written", whole);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void sg_scratch_link(const sg_scratch *s, const char *path, const char *to) {
    char whole[PATH_BYTES];
    prepare(s, path, whole);
    assert_int_equal(symlink(to, whole), 0);
}

void sg_scratch_folder(const sg_scratch *s, const char *path) {
    char whole[PATH_BYTES];
    prepare(s, path, whole);
    assert_int_equal(mkdir(whole, 0755), 0);
}
