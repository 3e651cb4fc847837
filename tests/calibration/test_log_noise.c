/* Logs as files hold them: escapes, carriage returns, NUL bytes, UTF-16, endless lines, gzip, huge files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "calibration/log/log.h"
#include "tests/support/scratch.h"

static sg_logs parse(const char *text, size_t bytes) {
    sg_logs logs;
    sg_status status;
    if (sg_logs_parse(text, bytes, "noise.log", &logs, &status) != SG_OK) fail_msg("%s", status.text);
    return logs;
}

static void expect(const char *text, size_t bytes, size_t windows) {
    sg_logs logs = parse(text, bytes);
    assert_int_equal(logs.n, 1);
    assert_int_equal(logs.logs[0].n_windows, windows);
    for (size_t i = 0; i < windows; i++) {
        if (logs.logs[0].windows[i].step != (double)(i + 1)) fail_msg("step %g", logs.logs[0].windows[i].step);
        if (logs.logs[0].windows[i].value[SG_LOG_UPDATE_S] != 0.25) fail_msg("window %zu", i);
    }
    sg_logs_clear(&logs);
}

static void escapes_and_returns(void **state) {
    (void)state;
    const char coloured[] = "\x1b[32mINFO\x1b[0m step:1 \x1b[1;31mupdt_s:0.25\x1b[0m data_s:0.1\n"
                            "\x1b]0;title\astep:2 updt_s:0.25\x1b[K\r\n";
    expect(coloured, sizeof coloured - 1, 2);
    const char bars[] = "Training: 0%| | 1/9 [00:01<00:08, 1.0s/it]\rTraining: 0%| | 1/9 [00:01<00:08, 1.0s/it]INFO "
                        "step:1 updt_s:0.25\rTraining: 1%|\rINFO step:2 updt_s:0.25\r\r\r";
    expect(bars, sizeof bars - 1, 2);
}

static void bytes_that_are_no_text(void **state) {
    (void)state;
    const char text[] = "\xe2\x88 step:1\0updt_s:0.25\0\0\xff\xfe step:2 updt_s:0.25 loss:\xc0\x80\0";
    expect(text, sizeof text, 2);
    const char plain[] = "\xff\xfeINFO step:1 updt_s:0.25 data_s:0.1\nINFO step:2 updt_s:0.25\n";
    char wide[256];
    size_t n = 2;
    memcpy(wide, plain, 2);
    for (size_t i = 2; i + 1 < sizeof plain; i++) {
        wide[n++] = plain[i];
        wide[n++] = '\0';
    }
    expect(wide, n, 2);
}

/* Millions of characters without an end of line, in words and as one word. */
static void endless_lines(void **state) {
    (void)state;
    const size_t bytes = 3u << 20;
    char *text = malloc(bytes + 128);
    assert_non_null(text);
    memset(text, 'x', bytes);
    const char tail[] = " step:1 updt_s:0.25 step:2 updt_s:0.25";
    memcpy(text + bytes, tail, sizeof tail - 1);
    expect(text, bytes + sizeof tail - 1, 2);
    const char frame[] = "Training:  12%|#### | 280/100000 [02:45<14:28,  1.9step/s] ";
    size_t used = 0, step = 0;
    while (used + 256 < bytes) {
        memcpy(text + used, frame, sizeof frame - 1);
        used += sizeof frame - 1;
        if (used % 1000 < sizeof frame)
            used += (size_t)snprintf(text + used, 128, "INFO step:%zu updt_s:0.25 data_s:0.001 ", ++step);
    }
    assert_true(step > 1000);
    expect(text, used, step);
    free(text);
}

static void write_gzip(const char *path, const char *text, size_t repeats) {
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    for (size_t i = 0; i < repeats; i++) assert_true(gzwrite(file, text, (unsigned)strlen(text)) > 0);
    assert_int_equal(gzclose(file), Z_OK);
}

static void compressed_files(void **state) {
    (void)state;
    sg_scratch scratch = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/a.log.gz", scratch.path);
    sg_scratch_file(&scratch, "a.log.gz", "");
    char *text = calloc(4000, 64);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 1; i <= 4000; i++)
        used +=
            (size_t)snprintf(text + used, 64, "step:%d updt_s:0.%03d data_s:0.00%d\n", i, 100 + i * 7919 % 90, i % 10);
    write_gzip(path, text, 1);
    sg_logs logs;
    sg_status status;
    assert_int_equal(sg_logs_read(path, &logs, &status), SG_OK);
    assert_int_equal(logs.logs[0].n_windows, 4000);
    sg_logs_clear(&logs);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long whole = ftell(file);
    (void)fclose(file);
    assert_int_equal(truncate(path, whole / 2), 0); /* still being written */
    assert_int_equal(sg_logs_read(path, &logs, &status), SG_OK);
    assert_in_range(logs.logs[0].n_windows, 1000, 3500);
    assert_non_null(strstr(logs.logs[0].warnings[logs.logs[0].n_warnings - 1], "middle"));
    sg_logs_clear(&logs);
    file = fopen(path, "rb+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 100, SEEK_SET), 0);
    for (int i = 0; i < 64; i++) (void)fputc(0xff, file);
    (void)fclose(file);
    assert_int_equal(sg_logs_read(path, &logs, &status), SG_BAD_INPUT);
    free(text);
    sg_scratch_free(&scratch);
}

static void files_that_cannot_be_read(void **state) {
    (void)state;
    sg_logs logs;
    sg_status status;
    assert_int_equal(sg_logs_read("/nonexistent.log", &logs, &status), SG_BAD_INPUT);
    assert_int_equal(sg_logs_read("/dev/null", &logs, &status), SG_BAD_INPUT);
    assert_int_equal(sg_logs_read("/", &logs, &status), SG_BAD_INPUT);
}

static long peak_kib(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* What is kept is bounded, and the medians hold: 300,000 windows, then as many runs as there are lines. */
static void memory_is_bounded(void **state) {
    (void)state;
    const size_t lines = 300000;
    char *text = malloc(lines * 48);
    assert_non_null(text);
    size_t used = 0;
    for (size_t i = 1; i <= lines; i++)
        used += (size_t)snprintf(text + used, 48, "step:%zu updt_s:0.%03zu\n", i, 200 + i * 7919 % 101);
    long before = peak_kib();
    sg_logs logs = parse(text, used);
    assert_int_equal(logs.logs[0].windows_seen, lines);
    assert_in_range(logs.logs[0].n_windows, 65536, 131072);
    assert_true(fabs(logs.logs[0].steady[SG_LOG_UPDATE_S] - 0.25) < 0.002);
    for (size_t i = 0; i < logs.logs[0].n_windows; i++)
        assert_true(logs.logs[0].windows[i].step == (double)(1 + i * logs.logs[0].every));
    sg_logs_clear(&logs);
    used = 0;
    for (size_t i = 1; i <= lines; i++) used += (size_t)snprintf(text + used, 48, "step:1 updt_s:0.250\n");
    logs = parse(text, used);
    assert_int_equal(logs.n, 1024);
    sg_logs_clear(&logs);
    assert_true(peak_kib() - before < 128 * 1024);
    free(text);
}

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A pass over the bytes, as counting words makes it: what no reader that looks at every byte can be much faster than. */
static size_t count_words(const char *text, size_t bytes) {
    size_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < bytes; i++) {
        bool blank = (unsigned char)text[i] <= ' ';
        words += inside && blank;
        inside = !blank;
    }
    return words;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool instrumented = true;
#else
static const bool instrumented = false;
#endif

/* Carriage returns alone must not make it slow either: the time is that of a few passes (about 6). */
static void time_is_that_of_passes(void **state) {
    (void)state;
    if (instrumented) skip(); /* the time is that of the sanitizer's own checks, which differ between the two */
    static const char *const lines[] = {
        "INFO 2026-08-08 15:23:49 ot_train.py:606 step:%zu smpl:%zu ep:229 epch:2.12 loss:0.111 grdn:1.272 lr:9.8e-05 "
        "updt_s:0.413 data_s:0.043 smp/s:140 mem_gb:19.87\n",
        "Training:  12%%|#### | %zu/%zu [02:45<14:28:47,  1.92step/s]\r"};
    const size_t bytes = 8u << 20;
    char *text = malloc(bytes + 512);
    assert_non_null(text);
    for (size_t k = 0; k < 2; k++) {
        size_t used = 0, words = 0;
        for (size_t i = 1; used < bytes; i++) used += (size_t)snprintf(text + used, 512, lines[k], i, 64 * i);
        const char record[] = "\nstep:9999999 updt_s:0.5\n";
        memcpy(text + used, record, sizeof record - 1);
        double pass_s = 1e9, read_s = 1e9;
        for (int repeat = 0; repeat < 3; repeat++) {
            double start = seconds();
            words += count_words(text, used);
            pass_s = fmin(pass_s, seconds() - start);
            start = seconds();
            sg_logs logs = parse(text, used + sizeof record - 1);
            read_s = fmin(read_s, seconds() - start);
            sg_logs_clear(&logs);
        }
        assert_true(words > 0);
        if (read_s > 12 * pass_s) fail_msg("%.3f s, a pass takes %.3f s", read_s, pass_s);
    }
    free(text);
}

/* "-": a pipe, plain or gzip'd, which cannot be read twice. */
static void standard_input(void **state) {
    (void)state;
    static const char text[] = "step:1 updt_s:0.25\nstep:2 updt_s:0.25\n";
    for (int zipped = 0; zipped < 2; zipped++) {
        int ends[2], old = dup(STDIN_FILENO);
        assert_true(old >= 0);
        assert_int_equal(pipe(ends), 0);
        gzFile file = gzdopen(ends[1], zipped ? "wb" : "wbT");
        assert_non_null(file);
        assert_int_equal(gzwrite(file, text, sizeof text - 1), sizeof text - 1);
        assert_int_equal(gzclose(file), Z_OK);
        assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
        (void)close(ends[0]);
        sg_logs logs;
        sg_status status;
        sg_code code = sg_logs_read("-", &logs, &status);
        assert_true(dup2(old, STDIN_FILENO) >= 0);
        (void)close(old);
        if (code != SG_OK) fail_msg("%s", status.text);
        assert_int_equal(logs.logs[0].n_windows, 2);
        sg_logs_clear(&logs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_and_returns),    cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(endless_lines),          cmocka_unit_test(compressed_files),
        cmocka_unit_test(memory_is_bounded),      cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(time_is_that_of_passes), cmocka_unit_test(standard_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
