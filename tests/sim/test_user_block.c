#include "sim/files/user_block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const sg_file_format run = {"stepgauge-run", "run file", 3};

enum { BODY = 1000, WHOLE = BODY + SG_USER_BLOCK_BYTES };

static void make_file(const sg_file_format *format, unsigned char file[WHOLE]) {
    for (int i = 0; i < BODY; i++) file[SG_USER_BLOCK_BYTES + i] = (unsigned char)(i * 37 + i / 251);
    sg_user_block_make(format, file + SG_USER_BLOCK_BYTES, BODY, file);
}

static void expect(const unsigned char *file, size_t n, const char *part) {
    sg_status status = {0};
    assert_int_equal(sg_user_block_check("x.h5", &run, file, n, &status), SG_BAD_INPUT);
    assert_int_equal(status.code, SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
}

static void test_crc64_known_value(void **state) {
    (void)state;
    assert_true(sg_crc64(0, "123456789", 9) == UINT64_C(0x995DC9BBDF1939FA));
    assert_true(sg_crc64(0, "", 0) == 0);
}

static void test_crc64_any_length_and_start(void **state) {
    (void)state;
    unsigned char data[64];
    for (int i = 0; i < 64; i++) data[i] = (unsigned char)(i * i + 3);
    for (size_t n = 0; n <= 40; n++)
        for (size_t at = 0; at < 8; at++) {
            uint64_t crc = UINT64_MAX;
            for (size_t i = 0; i < n; i++) {
                crc ^= data[at + i];
                for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ UINT64_C(0xC96C5795D7870F42) : crc >> 1;
            }
            assert_true(sg_crc64(0, data + at, n) == ~crc);
            assert_true(sg_crc64(sg_crc64(0, data + at, n / 3), data + at + n / 3, n - n / 3) == ~crc);
        }
}

static void test_sound_file(void **state) {
    (void)state;
    unsigned char file[WHOLE];
    make_file(&run, file);
    sg_status status;
    assert_int_equal(sg_user_block_check("x.h5", &run, file, WHOLE, &status), SG_OK);
    assert_non_null(strchr((char *)file, '\n'));
    assert_memory_equal(file, "stepgauge-run 3 1512 crc64 ", 27);
}

static void test_older_version_is_fine(void **state) {
    (void)state;
    unsigned char file[WHOLE];
    sg_file_format older = run;
    older.version = 1;
    make_file(&older, file);
    sg_status status;
    assert_int_equal(sg_user_block_check("x.h5", &run, file, WHOLE, &status), SG_OK);
}

static void test_every_altered_byte(void **state) {
    (void)state;
    unsigned char file[WHOLE];
    make_file(&run, file);
    for (size_t i = 0; i < WHOLE; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            file[i] ^= (unsigned char)(1u << bit);
            assert_int_equal(sg_user_block_check("x.h5", &run, file, WHOLE, NULL), SG_BAD_INPUT);
            file[i] ^= (unsigned char)(1u << bit);
        }
    file[WHOLE - 1] ^= 1;
    expect(file, WHOLE, "altered");
}

static void test_every_truncation(void **state) {
    (void)state;
    unsigned char file[WHOLE + 1] = {0};
    make_file(&run, file);
    for (size_t n = 0; n < WHOLE; n++) assert_int_equal(sg_user_block_check("x.h5", &run, file, n, NULL), SG_BAD_INPUT);
    expect(file, 0, "empty");
    expect(file, 100, "truncated");
    expect(file, WHOLE - 1, "truncated: 1511 of 1512");
    expect(file, WHOLE + 1, "1 bytes follow its end");
}

static void test_other_files(void **state) {
    (void)state;
    unsigned char file[WHOLE];
    sg_file_format other = {"stepgauge-machine", "machine file", 1};
    make_file(&other, file);
    expect(file, WHOLE, "stepgauge-machine file, but a run file");
    other = run;
    other.version = 4;
    make_file(&other, file);
    expect(file, WHOLE, "version 4, newer than version 3, which this program reads: update");
    other.version = 0;
    make_file(&other, file);
    expect(file, WHOLE, "version 0");
    expect((const unsigned char *)"\x89HDF\r\n\x1a\n and more", 17, "is an HDF5 file, but not");
    expect((const unsigned char *)"policy: act\n", 12, "is not a run file");
    expect((const unsigned char *)"stepgauge-run", 13, "truncated");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc64_known_value),  cmocka_unit_test(test_crc64_any_length_and_start),
        cmocka_unit_test(test_sound_file),         cmocka_unit_test(test_older_version_is_fine),
        cmocka_unit_test(test_every_altered_byte), cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
