/* catalogue_fixture.h: catalogues of data sets that a test wrote, and what is expected of them. */
#ifndef SG_TESTS_DATASETS_CATALOGUE_FIXTURE_H
#define SG_TESTS_DATASETS_CATALOGUE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "datasets/catalogue/catalogue.h"
#include "datasets/tables/tables.h"
#include "tests/support/contains.h"
#include "tests/support/scratch.h"

static inline void path_in(const sg_scratch *s, const char *name, char out[512]) {
    (void)snprintf(out, 512, "%s%s%s", s->path, *name ? "/" : "", name);
}

static inline sg_catalogue *opened(const sg_scratch *s, const char *name) {
    char path[512];
    sg_catalogue *c = NULL;
    sg_status status;
    path_in(s, name, path);
    if (sg_catalogue_open(path, &c, &status) != SG_OK) fail_msg("%s", status.text);
    return c;
}

static inline void refused(const sg_scratch *s, const char *name, const char *says) {
    char path[512];
    sg_catalogue *c = NULL;
    sg_status status;
    path_in(s, name, path);
    sg_code code = sg_catalogue_open(path, &c, &status);
    if (code == SG_OK) fail_msg("%s was opened: '%s' was expected", path, says);
    assert_null(c);
    sg_assert_contains(status.text, says);
}

static inline sg_frame_place frame_at(const sg_catalogue *c, size_t camera, int64_t episode, int64_t frame) {
    sg_frame_place place;
    sg_status status;
    if (sg_catalogue_place(c, camera, episode, frame, &place, &status) != SG_OK) fail_msg("%s", status.text);
    return place;
}

static inline sg_row_place row_at(const sg_catalogue *c, int64_t episode, int64_t frame) {
    sg_row_place place;
    sg_status status;
    if (sg_catalogue_row(c, episode, frame, &place, &status) != SG_OK) fail_msg("%s", status.text);
    return place;
}

static inline void ends_in(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    if (n < m || strcmp(text + n - m, ending) != 0) fail_msg("'%s' does not end in '%s'", text, ending);
}

static inline void described_as(const sg_catalogue *c, const char *begins) {
    char text[256];
    for (size_t room = 1; room < sizeof text; room++) { /* whatever the room, never beyond it */
        memset(text, '#', sizeof text);
        sg_catalogue_describe(c, text, room);
        assert_non_null(memchr(text, 0, room));
        assert_int_equal(text[room], '#');
    }
    sg_catalogue_describe(c, text, sizeof text);
    if (strncmp(text, begins, strlen(begins)) != 0) fail_msg("'%s' does not begin with '%s'", text, begins);
    sg_assert_contains(text, c->name);
    assert_null(strchr(text, '/'));
}

static inline bool tables_here(void) {
    char why[256];
    return sg_tables_possible(why, sizeof why);
}

#endif
