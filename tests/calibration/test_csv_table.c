/* Tables: plain and compressed, quoted fields, short rows, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "formats/csv_table.h"
#include "tests/support/scratch.h"

static const char TEXT[] = "name,note,value\n\"a,b\",\"say \"\"x\"\"\",1.5\nlast,,\nshort\n";

static void check_table(const sg_csv_table *t) {
    assert_int_equal(t->n_rows, 3);
    assert_int_equal(t->n_columns, 3);
    assert_string_equal(sg_csv_table_text(t, 0, "name"), "a,b");
    assert_string_equal(sg_csv_table_text(t, 0, "note"), "say \"x\"");
    double v = 0;
    assert_true(sg_csv_table_number(t, 0, "value", &v));
    assert_true(v == 1.5);
    assert_false(sg_csv_table_number(t, 0, "name", &v));
    assert_false(sg_csv_table_number(t, 1, "value", &v));
    assert_string_equal(sg_csv_table_text(t, 2, "value"), "");
    assert_string_equal(sg_csv_table_text(t, 9, "value"), "");
    assert_string_equal(sg_csv_table_text(t, 0, "other"), "");
    assert_true(sg_csv_table_has(t, "note"));
    assert_false(sg_csv_table_has(t, "other"));
}

static void reads(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    sg_scratch_file(&s, "t.csv", TEXT);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/t.csv", s.path);
    sg_status status = {0};
    sg_csv_table t;
    assert_int_equal(sg_csv_table_read(path, &t, &status), SG_OK);
    check_table(&t);
    static const char *const wanted[] = {"name", "missing"};
    assert_int_equal(sg_csv_table_need(&t, wanted, 1, &status), SG_OK);
    assert_int_equal(sg_csv_table_need(&t, wanted, 2, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "missing"));
    sg_csv_table_clear(&t);
    (void)snprintf(path, sizeof path, "%s/t.csv.gz", s.path);
    gzFile z = gzopen(path, "wb");
    assert_non_null(z);
    assert_int_equal(gzwrite(z, TEXT, sizeof TEXT - 1), (int)sizeof TEXT - 1);
    assert_int_equal(gzclose(z), Z_OK);
    assert_int_equal(sg_csv_table_read(path, &t, &status), SG_OK);
    check_table(&t);
    sg_csv_table_clear(&t);
    assert_int_equal(truncate(path, 40), 0);
    assert_int_equal(sg_csv_table_read(path, &t, &status), SG_BAD_INPUT);
    sg_scratch_free(&s);
}

/* Cut anywhere, a compressed table is refused, also where what is left ends with a row. */
static void refuses_what_is_cut_short(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/t.csv.gz", s.path);
    gzFile z = gzopen(path, "wb");
    assert_non_null(z);
    for (unsigned i = 0, x = 1; i < 20000; i++, x = x * 1664525U + 1013904223U)
        assert_true(gzprintf(z, i ? "%u,%u\n" : "a,b\n", x >> 8, i) > 0);
    assert_int_equal(gzclose(z), Z_OK);
    sg_status status = {0};
    sg_csv_table t;
    assert_int_equal(sg_csv_table_read(path, &t, &status), SG_OK);
    assert_int_equal(t.n_rows, 19999);
    sg_csv_table_clear(&t);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long bytes = ftell(file);
    (void)fclose(file);
    const long kept[] = {bytes - 1, bytes - 9, bytes - 100, bytes / 2, 30};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_int_equal(truncate(path, kept[i]), 0);
        assert_int_equal(sg_csv_table_read(path, &t, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "cut short"));
        assert_null(t.cells);
    }
    sg_scratch_free(&s);
}

static void skips_the_mark_of_utf8(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/t.csv", s.path);
    sg_scratch_file(&s, "t.csv", "\xEF\xBB\xBF\"a\",b\n1,2\n");
    sg_status status = {0};
    sg_csv_table t;
    assert_int_equal(sg_csv_table_read(path, &t, &status), SG_OK);
    assert_string_equal(sg_csv_table_text(&t, 0, "a"), "1");
    sg_csv_table_clear(&t);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("a,b\n1,2\n\0\0,3\n", 1, 13, file), 13);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(sg_csv_table_read(path, &t, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "no text"));
    sg_scratch_free(&s);
}

static void refuses(void **state) {
    (void)state;
    static const char *const bad[] = {"", "a,b\n1,2,3\n", "a,b\n\"open,2\n", "a,b\n\"x\"y,2\n"};
    sg_scratch s = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/t.csv", s.path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_scratch_file(&s, "t.csv", bad[i]);
        sg_status status = {0};
        sg_csv_table t;
        assert_int_equal(sg_csv_table_read(path, &t, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "t.csv"));
        assert_null(t.cells);
    }
    sg_status status = {0};
    sg_csv_table t;
    assert_int_equal(sg_csv_table_read("/nowhere/at/all.csv", &t, &status), SG_BAD_INPUT);
    assert_int_equal(sg_csv_table_read(s.path, &t, &status), SG_BAD_INPUT);
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads), cmocka_unit_test(refuses),
                                       cmocka_unit_test(refuses_what_is_cut_short),
                                       cmocka_unit_test(skips_the_mark_of_utf8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
