/* Micro-benchmarks: bus bandwidths, quantiles, and run files that hold them, hold none, or hold damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sim/bench/micro_tree.h"
#include "sim/files/run_file.h"
#include "sim/measure/point_tree.h"

static char folder[64], path[96];

static int set_up(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/sg_micro_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(path, sizeof path, "%s/run.h5", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static const sg_machine_record machine = {.hostname = "bench", .cpu = "a CPU", .cores = 2, .clock_mhz = 2500};

static sg_micro make_micro(int64_t n) {
    sg_micro micro = {.config = {.bench = "gemm",
                                 .what = "product",
                                 .device = "cpu",
                                 .device_name = "a CPU",
                                 .dtype = "f32",
                                 .compute = "f32",
                                 .host = "native",
                                 .m = n,
                                 .n = n,
                                 .k = n,
                                 .batch = 1,
                                 .ranks = 1,
                                 .threads = 2},
                      .iterations = 12,
                      .warmup = 2,
                      .calls = 4,
                      .s = {0.5, 0.51, 0.49, 0.53},
                      .p99_s = 0.6,
                      .flops = 2.0 * (double)(n * n * n),
                      .bytes_moved = 12.0 * (double)(n * n),
                      .algbw = NAN,
                      .busbw = NAN,
                      .alone_s = NAN,
                      .checked = true,
                      .error = 0.25,
                      .fits_rates = true,
                      .disturbed = true,
                      .disturbed_why = "another program ran",
                      .load_average = 1.5,
                      .clock_mhz = 2400,
                      .library = "a library 1.2",
                      .driver = "",
                      .program_version = "0.1.0",
                      .date = "2026-11-30T12:00:00Z"};
    micro.flop_per_s = micro.flops / micro.s.median;
    micro.bytes_per_s = micro.bytes_moved / micro.s.median;
    return micro;
}

static sg_run_writer *open_writer(void) {
    sg_run_writer *writer;
    sg_status status = {0};
    if (sg_run_writer_open(path, &machine, &writer, &status) != SG_OK) fail_msg("%s", status.text);
    return writer;
}

static sg_run read_run(void) {
    sg_run run;
    sg_status status = {0};
    if (sg_run_file_read(path, &run, &status) != SG_OK) fail_msg("%s", status.text);
    return run;
}

static void append(const sg_micro *micros, size_t n) {
    sg_run_writer *writer = open_writer();
    sg_status status = {0};
    if (sg_run_writer_append_micros(writer, micros, n, &status) != SG_OK) fail_msg("%s", status.text);
    sg_run_writer_close(writer);
}

static void same_real(double a, double b) {
    if (!(a == b || (isnan(a) && isnan(b)))) fail_msg("%g is not %g", a, b);
}

static void same(const sg_micro *a, const sg_micro *b) {
    assert_memory_equal(&a->config, &b->config, sizeof a->config);
    assert_true(b->key == sg_micro_key(&a->config));
    assert_true(a->iterations == b->iterations && a->warmup == b->warmup && a->calls == b->calls);
    assert_memory_equal(&a->s, &b->s, sizeof a->s);
    same_real(a->p99_s, b->p99_s);
    same_real(a->flops, b->flops);
    same_real(a->bytes_moved, b->bytes_moved);
    same_real(a->flop_per_s, b->flop_per_s);
    same_real(a->bytes_per_s, b->bytes_per_s);
    same_real(a->algbw, b->algbw);
    same_real(a->busbw, b->busbw);
    same_real(a->alone_s, b->alone_s);
    same_real(a->error, b->error);
    same_real(a->load_average, b->load_average);
    same_real(a->clock_mhz, b->clock_mhz);
    assert_true(a->checked == b->checked && a->fits_rates == b->fits_rates && a->disturbed == b->disturbed);
    assert_string_equal(a->disturbed_why, b->disturbed_why);
    assert_string_equal(a->library, b->library);
    assert_string_equal(a->driver, b->driver);
    assert_string_equal(a->program_version, b->program_version);
    assert_string_equal(a->date, b->date);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static void bus_bandwidth_of_given_times(void **state) {
    (void)state;
    /* 64 MiB in 2 ms; nccl-tests prints 33.55 GB/s and these */
    double algbw = (64 << 20) / 2e-3;
    assert_float_equal(sg_busbw("all_reduce", 2, algbw), algbw, 1);
    assert_float_equal(sg_busbw("all_reduce", 4, algbw), 1.5 * algbw, 1);
    assert_float_equal(sg_busbw("all_reduce", 8, algbw), 1.75 * algbw, 1);
    assert_float_equal(sg_busbw("all_gather", 2, algbw), 0.5 * algbw, 1);
    assert_float_equal(sg_busbw("reduce_scatter", 8, algbw), 0.875 * algbw, 1);
    assert_true(sg_busbw("all_reduce", 1, algbw) == 0);
}

static void quantiles_are_order_statistics(void **state) {
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++) values[i] = (double)((i * 37) % 100 + 1);
    assert_true(sg_quantile(values, 100, 0.99) == 99);
    assert_true(sg_quantile(values, 100, 0.5) == 50);
    assert_true(sg_quantile(values, 100, 1) == 100);
    assert_true(sg_quantile(values, 100, 0.001) == 1);
    assert_true(sg_quantile(values, 3, 0.99) == 75); /* of 1, 38, 75 */
    assert_true(isnan(sg_quantile(values, 0, 0.5)));
}

static void keys_tell_configurations_apart(void **state) {
    (void)state;
    sg_micro a = make_micro(256), b = a;
    b.s.median = 7;
    assert_true(sg_micro_key(&a.config) == sg_micro_key(&b.config));
    b.config.k = 512;
    assert_true(sg_micro_key(&a.config) != sg_micro_key(&b.config));
    b = a;
    b.config.beside[0] = 'x';
    assert_true(sg_micro_key(&a.config) != sg_micro_key(&b.config));
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void what_goes_in_comes_out_in_order(void **state) {
    (void)state;
    sg_micro micros[] = {make_micro(4096), make_micro(256), make_micro(1024)};
    append(micros, 3);
    sg_run run = read_run();
    assert_int_equal(run.n_points, 0);
    assert_int_equal(run.n_micros, 3);
    for (size_t i = 0; i < 3; i++) same(&micros[i], &run.micros[i]);
    sg_run_clear(&run);
}

static void running_again_replaces(void **state) {
    (void)state;
    sg_micro micros[] = {make_micro(4096), make_micro(256)};
    append(micros, 2);
    micros[0].s.median = 0.25;
    sg_micro again[] = {micros[0], make_micro(512)};
    append(again, 2);
    sg_run run = read_run();
    assert_int_equal(run.n_micros, 3);
    same(&micros[0], &run.micros[0]);
    same(&micros[1], &run.micros[1]);
    same(&again[1], &run.micros[2]);
    sg_run_clear(&run);
}

static void files_without_the_group_are_read(void **state) {
    (void)state;
    sg_run_writer *writer = open_writer();
    sg_run_writer_close(writer);
    sg_run run = read_run();
    assert_int_equal(run.n_micros, 0);
    assert_null(run.micros);
    sg_run_clear(&run);
    sg_micro micro = make_micro(256); /* and grow one */
    append(&micro, 1);
    run = read_run();
    assert_int_equal(run.n_micros, 1);
    sg_run_clear(&run);
}

static void what_no_file_can_hold_changes_nothing(void **state) {
    (void)state;
    sg_micro micros[] = {make_micro(256), make_micro(512), make_micro(1024)};
    sg_run_writer *writer = open_writer();
    sg_status status = {0};
    assert_int_equal(sg_run_writer_append_micros(writer, micros, 1, &status), SG_OK);
    sg_micro bad[] = {micros[0], micros[1], micros[2]};
    bad[0].s.median = 9;
    bad[2].busbw = INFINITY;
    assert_int_equal(sg_run_writer_append_micros(writer, bad, 3, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "busbw"));
    bad[2].busbw = 0;
    bad[2].config.what[0] = '\x01';
    assert_int_equal(sg_run_writer_append_micros(writer, bad, 3, &status), SG_BAD_INPUT);
    assert_int_equal(sg_run_writer_append_micros(writer, &micros[1], 1, &status), SG_OK);
    sg_run_writer_close(writer);
    sg_run run = read_run();
    assert_int_equal(run.n_micros, 2);
    same(&micros[0], &run.micros[0]);
    same(&micros[1], &run.micros[1]);
    sg_run_clear(&run);
}

static void a_full_disk_leaves_the_file_as_it_was(void **state) {
    (void)state;
    sg_micro micros[40];
    for (int i = 0; i < 40; i++) micros[i] = make_micro(256 + i);
    append(micros, 1);
    sg_run_writer *writer = open_writer();
    struct rlimit before, small = {4096, 0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    sg_status status = {0};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    sg_code code = sg_run_writer_append_micros(writer, micros, 40, &status);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, SG_MACHINE);
    assert_int_equal(sg_run_writer_append_micros(writer, &micros[1], 1, &status), SG_OK);
    sg_run_writer_close(writer);
    sg_run run = read_run();
    assert_int_equal(run.n_micros, 2);
    sg_run_clear(&run);
}

static void damaged_records_are_refused(void **state) {
    (void)state;
    sg_h5tree *group = sg_h5tree_new(NULL), *config;
    sg_micro micro = make_micro(256), read;
    int64_t sequence;
    sg_status status = {0};
    assert_non_null(group);
    free(group->name);
    char name[SG_POINT_NAME_BYTES];
    sg_point_group_name(sg_micro_key(&micro.config), name);
    group->name = strdup(name);
    assert_int_equal(sg_micro_to_tree(&micro, 3, group, &status), SG_OK);
    assert_int_equal(sg_micro_from_tree(group, &read, &sequence, &status), SG_OK);
    assert_int_equal(sequence, 3);
    assert_int_equal(sg_h5tree_group(group, "config", &config, &status), SG_OK);
    assert_int_equal(sg_h5tree_set_i64(config, "m", 257, &status), SG_OK);
    assert_int_equal(sg_micro_from_tree(group, &read, &sequence, &status), SG_BAD_INPUT);
    assert_int_equal(sg_h5tree_set_i64(config, "m", -1, &status), SG_OK);
    assert_int_equal(sg_micro_from_tree(group, &read, &sequence, &status), SG_BAD_INPUT);
    assert_int_equal(sg_h5tree_set_i64(config, "m", 256, &status), SG_OK);
    assert_int_equal(sg_h5tree_set_i64(group, "checked", 2, &status), SG_OK);
    assert_int_equal(sg_micro_from_tree(group, &read, &sequence, &status), SG_BAD_INPUT);
    sg_h5tree_remove(group, "config");
    assert_int_equal(sg_micro_from_tree(group, &read, &sequence, &status), SG_BAD_INPUT);
    sg_h5tree_free(group);
}

int main(void) {
    (void)signal(SIGXFSZ, SIG_IGN); /* a file too large is an error here, not a death */
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bus_bandwidth_of_given_times),
        cmocka_unit_test(quantiles_are_order_statistics),
        cmocka_unit_test(keys_tell_configurations_apart),
        IN_FOLDER(what_goes_in_comes_out_in_order),
        IN_FOLDER(running_again_replaces),
        IN_FOLDER(files_without_the_group_are_read),
        IN_FOLDER(what_no_file_can_hold_changes_nothing),
        IN_FOLDER(a_full_disk_leaves_the_file_as_it_was),
        cmocka_unit_test(damaged_records_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
