/* Parquet tables: what was written reads back, every refusal has its reason, and arrays that lie are seen through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/tables/tables.h"
#include "datasets/tables/tables_arrow.h"
#include "formats/child.h"
#include "tests/support/scratch.h"

enum { ROWS = 250, WIDTH = 3 }; /* with images: three row groups */

static void need_library(void) {
    char why[512];
    if (sg_tables_possible(why, sizeof why)) return;
    print_message("%s\n", why);
    skip();
}

static void in_folder(const sg_scratch *scratch, const char *name, char *path, size_t bytes) {
    (void)snprintf(path, bytes, "%s/%s", scratch->path, name);
}

/* ---- a table of every kind of column ------------------------------------------------------------------------------- */

typedef struct made {
    double state[ROWS * WIDTH], numbers[ROWS], counts[ROWS * 2];
    char names[ROWS][16], pictures[ROWS][24];
    const char *texts[ROWS];
    const uint8_t *bytes[ROWS];
    size_t n_bytes[ROWS];
} made;

static void fill(made *m) {
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < WIDTH; j++) m->state[i * WIDTH + j] = i * 0.125 + j;
        m->numbers[i] = i / 7.0;
        m->counts[2 * i] = 9007199254740992.0 - i;
        m->counts[2 * i + 1] = -i;
        (void)snprintf(m->names[i], sizeof m->names[i], "name %d", i);
        m->texts[i] = m->names[i];
        int n = snprintf(m->pictures[i], sizeof m->pictures[i], "%c%c picture %d", 0xff, 0, i);
        m->bytes[i] = (const uint8_t *)m->pictures[i];
        m->n_bytes[i] = i == 4 ? 0 : (size_t)n;
    }
}

static sg_code write_made(const char *path, const made *m, size_t n_columns, sg_status *status) {
    const sg_table_column_data columns[] = {
        {.name = "observation.state", .kind = SG_COLUMN_FLOAT, .width = WIDTH, .numbers = m->state},
        {.name = "time", .kind = SG_COLUMN_DOUBLE, .width = 1, .numbers = m->numbers},
        {.name = "counts", .kind = SG_COLUMN_INT64, .width = 2, .numbers = m->counts},
        {.name = "task", .kind = SG_COLUMN_TEXT, .texts = m->texts},
        {.name = "picture", .kind = SG_COLUMN_IMAGE, .bytes = m->bytes, .n_bytes = m->n_bytes, .texts = m->texts},
        {.name = "unnamed", .kind = SG_COLUMN_IMAGE, .bytes = m->bytes, .n_bytes = m->n_bytes},
    };
    return sg_table_write(path, columns, n_columns, ROWS, status);
}

static sg_table *open_table(const char *path) {
    sg_table *table = NULL;
    sg_status status;
    if (sg_table_open(path, &table, &status) != SG_OK) fail_msg("%s", status.text);
    return table;
}

static void expect_numbers(sg_table *table, const char *name, int64_t row, const double *values, size_t n_values) {
    double read[8];
    size_t n = 0;
    sg_status status;
    if (sg_table_numbers(table, sg_table_column(table, name), row, read, 8, &n, &status) != SG_OK)
        fail_msg("%s", status.text);
    assert_int_equal(n, n_values);
    assert_memory_equal(read, values, n * sizeof *read);
}

static void expect_bytes(sg_table *table, const char *name, int64_t row, const void *values, size_t n_values) {
    const uint8_t *read = NULL;
    size_t n = 0;
    sg_status status;
    if (sg_table_bytes(table, sg_table_column(table, name), row, &read, &n, &status) != SG_OK)
        fail_msg("%s", status.text);
    assert_int_equal(n, n_values);
    assert_memory_equal(read, values, n);
}

static void reads_what_was_written(void **state) {
    (void)state;
    need_library();
    static made m;
    char path[128];
    sg_status status;
    sg_scratch scratch = sg_scratch_new();
    in_folder(&scratch, "all.parquet", path, sizeof path);
    fill(&m);
    if (write_made(path, &m, 6, &status) != SG_OK) fail_msg("%s", status.text);
    sg_table *table = open_table(path);
    assert_int_equal(sg_table_rows(table), ROWS);
    assert_int_equal(sg_table_kept_bytes(table), 0);
    for (int k = 0; k < ROWS; k++) {
        int i = (k * 101 + 7) % ROWS; /* 101 and 250 have no common factor: every row once, groups mixed */
        expect_numbers(table, "observation.state", i, m.state + (ptrdiff_t)i * WIDTH, WIDTH);
        expect_numbers(table, "time", i, m.numbers + i, 1);
        expect_numbers(table, "counts", i, m.counts + (ptrdiff_t)2 * i, 2);
        expect_bytes(table, "task", i, m.texts[i], strlen(m.texts[i]));
        expect_bytes(table, "picture", i, m.bytes[i], m.n_bytes[i]);
        expect_bytes(table, "picture.path", i, m.texts[i], strlen(m.texts[i]));
        expect_bytes(table, "unnamed.bytes", i, m.bytes[i], m.n_bytes[i]);
    }
    assert_true(sg_table_kept_bytes(table) > ROWS * WIDTH * 4);
    sg_table_close(table);
    sg_scratch_free(&scratch);
}

static void one_row_group_is_read_for_one_row(void **state) {
    (void)state;
    need_library();
    static made m;
    char path[128];
    sg_status status;
    sg_scratch scratch = sg_scratch_new();
    in_folder(&scratch, "all.parquet", path, sizeof path);
    fill(&m);
    if (write_made(path, &m, 5, &status) != SG_OK) fail_msg("%s", status.text);
    sg_table *table = open_table(path);
    expect_numbers(table, "time", 249, m.numbers + 249, 1);
    int64_t last = sg_table_kept_bytes(table);
    expect_numbers(table, "time", 200, m.numbers + 200, 1);
    assert_int_equal(sg_table_kept_bytes(table), last);
    expect_numbers(table, "time", 0, m.numbers, 1);
    assert_true(sg_table_kept_bytes(table) > last);
    int64_t two = sg_table_kept_bytes(table);
    sg_table_keep(table, two);
    expect_numbers(table, "time", 249, m.numbers + 249,
                   1); /* the first row group is now the one not used for longest */
    expect_numbers(table, "time", 150, m.numbers + 150, 1);
    assert_true(sg_table_kept_bytes(table) <= two);
    sg_table_keep(table, 1); /* one is kept whatever its size */
    for (int i = 0; i < ROWS; i += 49) {
        expect_numbers(table, "time", i, m.numbers + i, 1);
        assert_true(sg_table_kept_bytes(table) > 0 && sg_table_kept_bytes(table) < two);
    }
    sg_table_close(table);
    sg_scratch_free(&scratch);
}

static void refusals_of_rows(void **state) {
    (void)state;
    need_library();
    static made m;
    char path[128];
    double read[2];
    size_t n = 0;
    const uint8_t *bytes = NULL;
    sg_status status;
    sg_scratch scratch = sg_scratch_new();
    in_folder(&scratch, "all.parquet", path, sizeof path);
    fill(&m);
    if (write_made(path, &m, 6, &status) != SG_OK) fail_msg("%s", status.text);
    sg_table *table = open_table(path);
    assert_int_equal(sg_table_column(table, "state"), -1);
    assert_int_equal(sg_table_numbers(table, -1, 0, read, 2, &n, &status), SG_BAD_INPUT);
    assert_int_equal(sg_table_numbers(table, 1, ROWS, read, 2, &n, &status), SG_BAD_INPUT);
    assert_int_equal(sg_table_numbers(table, 1, -1, read, 2, &n, &status), SG_BAD_INPUT);
    assert_int_equal(sg_table_numbers(table, sg_table_column(table, "task"), 0, read, 2, &n, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "numbers"));
    assert_int_equal(sg_table_bytes(table, sg_table_column(table, "time"), 0, &bytes, &n, &status), SG_BAD_INPUT);
    assert_int_equal(sg_table_bytes(table, sg_table_column(table, "unnamed.path"), 101, &bytes, &n, &status),
                     SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "row 101"));
    assert_non_null(strstr(status.text, "null"));
    /* A row longer than the room for it: its whole length is told. */
    assert_int_equal(sg_table_numbers(table, 0, 7, read, 2, &n, &status), SG_OK);
    assert_int_equal(n, WIDTH);
    assert_memory_equal(read, m.state + (ptrdiff_t)7 * WIDTH, sizeof read);
    sg_table_close(table);
    sg_scratch_free(&scratch);
}

static void refusals_of_files(void **state) {
    (void)state;
    need_library();
    static made m;
    char path[128];
    sg_table *table = NULL;
    sg_status status;
    sg_scratch scratch = sg_scratch_new();
    in_folder(&scratch, "none.parquet", path, sizeof path);
    assert_int_equal(sg_table_open(path, &table, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "none.parquet"));
    sg_scratch_file(&scratch, "text.parquet", "PAR1 but nothing of the kind, although long enough PAR1");
    in_folder(&scratch, "text.parquet", path, sizeof path);
    assert_int_equal(sg_table_open(path, &table, &status), SG_BAD_INPUT);
    sg_scratch_file(&scratch, "empty.parquet", "");
    in_folder(&scratch, "empty.parquet", path, sizeof path);
    assert_int_equal(sg_table_open(path, &table, &status), SG_BAD_INPUT);
    in_folder(&scratch, "cut.parquet", path, sizeof path);
    fill(&m);
    if (write_made(path, &m, 4, &status) != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(truncate(path, 3000), 0);
    assert_int_equal(sg_table_open(path, &table, &status), SG_BAD_INPUT);
    assert_null(table);
    in_folder(&scratch, "no/folder.parquet", path, sizeof path);
    assert_int_equal(write_made(path, &m, 4, &status), SG_MACHINE);
    sg_scratch_free(&scratch);
}

static void the_library_is_missing_or_another(void **state) {
    (void)state;
    char why[512], kept[512], path[128];
    const char *set = getenv("STEPGAUGE_CARQUET");
    (void)snprintf(kept, sizeof kept, "%s", set ? set : "");
    sg_scratch scratch = sg_scratch_new();
    assert_int_equal(setenv("STEPGAUGE_CARQUET", "/nowhere/libcarquet.so", 1), 0);
    assert_false(sg_tables_possible(why, sizeof why));
    assert_non_null(strstr(why, "/nowhere/libcarquet.so"));
    assert_non_null(strstr(why, "scripts/setup.sh"));
    sg_scratch_file(&scratch, "libcarquet.so", "not a library");
    in_folder(&scratch, "libcarquet.so", path, sizeof path);
    assert_int_equal(setenv("STEPGAUGE_CARQUET", path, 1), 0);
    assert_false(sg_tables_possible(why, sizeof why));
    assert_non_null(strstr(why, "does not load"));
    assert_false(sg_tables_possible(why, sizeof why));
    assert_int_equal(set ? setenv("STEPGAUGE_CARQUET", kept, 1) : unsetenv("STEPGAUGE_CARQUET"), 0);
    sg_scratch_free(&scratch);
}

/* ---- arrays that lie ----------------------------------------------------------------------------------------------- */

static void no_release(sg_arrow_array *array) {
    array->release = NULL;
}

/* One column of three texts, "ab", "", "c", or of three lists of numbers. */
typedef struct hand_made {
    int32_t offsets[4];
    float values[3];
    char text[4];
    const void *buffers_top[1], *buffers_own[3], *buffers_child[2];
    sg_arrow_array top, own, child, *tops[1], *owns[1];
    sg_arrow_schema schema, own_schema, child_schema, *top_schemas[1], *own_schemas[1];
} hand_made;

static void make_by_hand(hand_made *h, bool lists) {
    *h = (hand_made){.offsets = {0, 2, 2, 3}, .values = {1, 2, 3}, .text = "abc"};
    h->buffers_own[1] = h->offsets;
    h->buffers_own[2] = lists ? NULL : h->text;
    h->buffers_child[1] = h->values;
    h->tops[0] = &h->own;
    h->owns[0] = &h->child;
    h->top = (sg_arrow_array){.length = 3, .n_buffers = 1, .n_children = 1, .buffers = h->buffers_top};
    h->top.children = h->tops;
    h->top.release = no_release;
    h->own = (sg_arrow_array){.length = 3, .n_buffers = lists ? 2 : 3, .n_children = lists, .buffers = h->buffers_own};
    h->own.children = lists ? h->owns : NULL;
    h->child = (sg_arrow_array){.length = 3, .n_buffers = 2, .buffers = h->buffers_child};
    h->top_schemas[0] = &h->own_schema;
    h->own_schemas[0] = &h->child_schema;
    h->schema = (sg_arrow_schema){.format = "+s", .n_children = 1, .children = h->top_schemas};
    h->own_schema = (sg_arrow_schema){.format = lists ? "+l" : "u", .name = "own", .n_children = lists};
    h->own_schema.children = lists ? h->own_schemas : NULL;
    h->child_schema = (sg_arrow_schema){.format = "f", .name = "element"};
    assert_true(sg_arrow_schema_sound(&h->schema));
    assert_true(sg_arrow_check(&h->schema, &h->top, 3));
}

static void offsets_that_lie(void **state) {
    (void)state;
    for (int lists = 0; lists < 2; lists++) {
        hand_made h;
        make_by_hand(&h, lists);
        h.offsets[1] = 4; /* goes back after it */
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
        make_by_hand(&h, lists);
        h.offsets[0] = -1;
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
        make_by_hand(&h, lists);
        h.buffers_own[1] = NULL;
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
        make_by_hand(&h, lists);
        h.own.n_buffers = 1;
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
        make_by_hand(&h, lists);
        h.own.null_count = 1; /* and no bits that say which */
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
        make_by_hand(&h, lists);
        h.own.offset = INT64_MAX - 1;
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
        make_by_hand(&h, lists);
        assert_false(sg_arrow_check(&h.schema, &h.top, 4));
        h.own.length = 2;
        assert_false(sg_arrow_check(&h.schema, &h.top, 3));
    }
    hand_made h;
    make_by_hand(&h, true);
    h.child.length = 2; /* the last list ends behind it */
    assert_false(sg_arrow_check(&h.schema, &h.top, 3));
    make_by_hand(&h, true);
    h.buffers_child[1] = NULL;
    assert_false(sg_arrow_check(&h.schema, &h.top, 3));
    make_by_hand(&h, true);
    h.own.n_children = 0;
    assert_false(sg_arrow_check(&h.schema, &h.top, 3));
    make_by_hand(&h, true);
    h.own_schema.format = "+w:4611686018427387904"; /* no such width */
    h.own.n_buffers = 1;
    h.top.length = h.own.length = 2;
    double read[2];
    size_t n = 0;
    sg_status status;
    if (sg_arrow_check(&h.schema, &h.top, 2))
        assert_int_equal(sg_arrow_numbers(&h.own_schema, &h.own, 0, read, 2, &n, "own", &status), SG_BAD_INPUT);
}

static void fixed_lists_and_halves(void **state) {
    (void)state;
    hand_made h;
    double read[2];
    size_t n = 0;
    sg_status status;
    uint16_t halves[4] = {0x3c00, 0xc000, 0x0001, 0x7c00}; /* 1, -2, 2^-24, infinity */
    make_by_hand(&h, true);
    h.own_schema.format = "+w:2";
    h.own.n_buffers = 1;
    h.top.length = h.own.length = 2;
    assert_false(sg_arrow_check(&h.schema, &h.top, 2)); /* three values for two times two */
    h.child.length = 4;
    h.child_schema.format = "e";
    h.buffers_child[1] = halves;
    assert_true(sg_arrow_check(&h.schema, &h.top, 2));
    assert_int_equal(sg_arrow_numbers(&h.own_schema, &h.own, 0, read, 2, &n, "own", &status), SG_OK);
    assert_true(n == 2 && read[0] == 1.0 && read[1] == -2.0);
    assert_int_equal(sg_arrow_numbers(&h.own_schema, &h.own, 1, read, 2, &n, "own", &status), SG_OK);
    assert_true(read[0] == 0x1p-24 && read[1] > 1e300);
    uint8_t valid = 1;
    h.buffers_own[0] = &valid;
    h.own.null_count = -1; /* not counted */
    assert_true(sg_arrow_check(&h.schema, &h.top, 2));
    assert_int_equal(sg_arrow_numbers(&h.own_schema, &h.own, 0, read, 2, &n, "own", &status), SG_OK);
    assert_int_equal(sg_arrow_numbers(&h.own_schema, &h.own, 1, read, 2, &n, "own", &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "null"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In a child with little memory: a row group of 24 MB. */
static sg_code read_much(void *path, sg_bytes *answer, sg_status *status) {
    sg_table *table;
    const uint8_t *bytes;
    size_t n;
    (void)answer;
    sg_code code = sg_table_open(path, &table, status);
    if (code != SG_OK) return code;
    code = sg_table_bytes(table, sg_table_column(table, "picture.bytes"), 0, &bytes, &n, status);
    sg_table_close(table);
    return code;
}

static void memory_that_runs_out_is_no_damage(void **state) {
    (void)state;
    need_library();
    enum { PICTURE = 2 << 20, PICTURES = 12 };
    sg_scratch scratch = sg_scratch_new();
    char path[512];
    uint8_t *picture = malloc(PICTURE), *none = NULL;
    const uint8_t *bytes[PICTURES];
    size_t n_bytes[PICTURES], n;
    sg_status status;
    assert_non_null(picture);
    for (size_t i = 0; i < PICTURE; i++) picture[i] = (uint8_t)(i * i >> 7);
    for (int i = 0; i < PICTURES; i++) {
        bytes[i] = picture;
        n_bytes[i] = PICTURE;
    }
    const sg_table_column_data column = {
        .name = "picture", .kind = SG_COLUMN_IMAGE, .bytes = bytes, .n_bytes = n_bytes};
    in_folder(&scratch, "much.parquet", path, sizeof path);
    if (sg_table_write(path, &column, 1, PICTURES, &status) != SG_OK) fail_msg("%s", status.text);
    free(picture);
    (void)malloc_trim(0); /* the child would find memory in free lists */
    const sg_child_limits little = {.memory_bytes = 8 << 20, .cpu_s = 10},
                          enough = {.memory_bytes = 1 << 30, .cpu_s = 10};
    assert_int_equal(sg_child_run(path, read_much, path, &enough, &none, &n, &status), SG_OK);
    free(none);
    assert_int_not_equal(sg_child_run(path, read_much, path, &little, &none, &n, &status), SG_OK);
    if (!strstr(status.text, "memory may have run out")) fail_msg("%s", status.text);
    sg_scratch_free(&scratch);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(one_row_group_is_read_for_one_row),
        cmocka_unit_test(refusals_of_rows),
        cmocka_unit_test(refusals_of_files),
        cmocka_unit_test(the_library_is_missing_or_another),
        cmocka_unit_test(offsets_that_lie),
        cmocka_unit_test(fixed_lists_and_halves),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their memory has no limit */
        cmocka_unit_test(memory_that_runs_out_is_no_damage),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
