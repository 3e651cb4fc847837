/* The loader of data sets on disk: batches hold what the reader reads, and files that change under way are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datasets/make/make.h"
#include "sim/loader/dataset_source.h"
#include "sim/loader/loader.h"
#include "sim/loader/sample_order.h"
#include "sim/loader/sample_source.h"
#include "sim/measure/point.h"

enum {
    BATCH = 4,
    EPISODES = 3,
    LENGTH = 5,
    FRAMES = EPISODES * LENGTH,
    CAMERAS = 2,
    DH = 24,
    DW = 32,
    DFRAME = 3 * DH * DW,
    ROWS = 4
};

static sg_loader *opened(const sg_loader_options *o) {
    sg_loader *l;
    sg_status status = {0};
    if (sg_loader_open(o, &l, &status)) fail_msg("%s", status.text);
    return l;
}

static sg_code next(sg_loader *l, void *const **data, sg_status *status) {
    double wait_s;
    return sg_loader_next(l, 0, data, &wait_s, status);
}

/* The error after at most `most` batches. */
static sg_code error_of(sg_loader *l, int most, sg_status *status) {
    void *const *data;
    sg_code code = SG_OK;
    for (int b = 0; b < most && !code; b++) code = next(l, &data, status);
    return code;
}

static char folder[64];
static sg_catalogue *catalogue;

static void remove_data(void) {
    pid_t remover = fork();
    if (remover == 0) {
        (void)execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
        _exit(127);
    }
    (void)waitpid(remover, NULL, 0);
}

/* HDF5 demonstrations: their frames are read without a decoder. */
static int make_data(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-loader-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    sg_status status = {0};
    const sg_make_options options = {.kind = "robomimic",
                                     .episodes = EPISODES,
                                     .frames_per_episode = LENGTH,
                                     .cameras = CAMERAS,
                                     .height = DH,
                                     .width = DW,
                                     .state_dim = 4,
                                     .action_dim = 3};
    if (sg_dataset_make(folder, &options, &status) || sg_catalogue_open(folder, &catalogue, &status)) {
        print_error("%s\n", status.text);
        return -1;
    }
    return 0;
}

static int drop_data(void **state) {
    (void)state;
    sg_catalogue_close(catalogue);
    remove_data();
    return 0;
}

/* Two cameras, of which the second lies channel by channel, state, a chunk of actions. */
typedef struct inputs {
    sg_training training;
    sg_tensor tensors[4];
    sg_input inputs[4];
} inputs;

static void make_inputs(inputs *t) {
    int64_t state = catalogue->info.state_dim, action = catalogue->info.action_dim;
    *t = (inputs){0};
    t->tensors[0].desc = sg_desc_make(SG_U8, 4, (const int64_t[]){BATCH, 3, DH, DW});
    t->tensors[1].desc = sg_desc_channels_last(SG_U8, BATCH, 3, DH, DW);
    t->tensors[2].desc = sg_desc_make(SG_F32, 2, (const int64_t[]){BATCH, state});
    t->tensors[3].desc = sg_desc_make(SG_F32, 3, (const int64_t[]){BATCH, ROWS, action});
    t->inputs[0] = (sg_input){.name = "observation.images.camera1", .tensor = 0, .source = SG_INPUT_IMAGE};
    t->inputs[1] = (sg_input){.name = "observation.images.camera2", .tensor = 1, .source = SG_INPUT_IMAGE};
    t->inputs[2] = (sg_input){.name = "observation.state", .tensor = 2, .source = SG_INPUT_UNIFORM, .high = 1};
    t->inputs[3] = (sg_input){.name = "action", .tensor = 3, .source = SG_INPUT_UNIFORM, .high = 1};
    t->training = (sg_training){.policy = "inputs",
                                .batch = BATCH,
                                .accumulation = 1,
                                .cameras = CAMERAS,
                                .image_height = DH,
                                .image_width = DW,
                                .frames_per_sample = 1,
                                .n_tensors = 4,
                                .n_inputs = 4};
    t->training.tensors = t->tensors;
    t->training.inputs = t->inputs;
}

/* A batch against what a reader of this process finds. */
static void check_batch(sg_reader *reader, void *const *data, const sg_sample_order *order, int64_t batch) {
    static uint8_t frames[CAMERAS][DFRAME];
    uint8_t *at[CAMERAS] = {frames[0], frames[1]};
    size_t state = (size_t)catalogue->info.state_dim, action = ROWS * (size_t)catalogue->info.action_dim;
    float *own_state = calloc(state, sizeof(float)), *own_action = calloc(action, sizeof(float));
    assert_true(own_state && own_action);
    const sg_sample sample = {at, own_state, own_action};
    int64_t per_epoch = sg_order_batches(order);
    for (int64_t row = 0; row < BATCH; row++) {
        sg_read_cost cost = {0};
        int64_t frame = sg_order_sample(order, batch / per_epoch, batch % per_epoch, row);
        assert_int_equal(sg_reader_sample(reader, frame, &sample, &cost, NULL), SG_OK);
        assert_memory_equal((uint8_t *)data[0] + row * DFRAME, frames[0], DFRAME);
        const uint8_t *last = (uint8_t *)data[1] + row * DFRAME;
        for (int p = 0; p < DH * DW; p++)
            for (int c = 0; c < 3; c++) assert_int_equal(last[3 * p + c], frames[1][c * DH * DW + p]);
        assert_memory_equal((float *)data[2] + (size_t)row * state, own_state, state * sizeof(float));
        assert_memory_equal((float *)data[3] + (size_t)row * action, own_action, action * sizeof(float));
    }
    free(own_state);
    free(own_action);
}

static void batches_are_the_data_sets(void **unused) {
    (void)unused;
    inputs t;
    make_inputs(&t);
    sg_dataset_source *source;
    sg_reader *reader;
    sg_status status = {0};
    if (sg_dataset_source_open(catalogue, &t.training, &source, &status)) fail_msg("%s", status.text);
    const sg_reader_options reading = {.action_rows = ROWS};
    assert_int_equal(sg_reader_open(catalogue, &reading, &reader, &status), SG_OK);
    assert_int_equal(sg_dataset_source_samples(source)->samples, FRAMES);
    for (int workers = 0; workers <= 3; workers += 3) {
        sg_loader *l = opened(&(sg_loader_options){.training = &t.training,
                                                   .workers = workers,
                                                   .prefetch = 2,
                                                   .seed = 6,
                                                   .source = sg_dataset_source_samples(source)});
        const sg_sample_order order = {FRAMES, BATCH, 6, 0, 1};
        for (int b = 0; b < 6; b++) { /* 4 in an epoch */
            void *const *data;
            if (next(l, &data, &status)) fail_msg("%s", status.text);
            check_batch(reader, data, &order, b);
        }
        sg_loader_record r;
        sg_loader_tell(l, &r);
        assert_int_equal(r.frames, 6 * BATCH * CAMERAS);
        assert_true(r.frame_cpu_s > 0 && r.sample_cpu_s > 0);
        sg_loader_close(l);
    }
    sg_reader_close(reader);
    sg_dataset_source_close(source);
}

static void files_can_be_cached(void **unused) {
    (void)unused;
    volatile int stop = 1;
    sg_status status = {0};
    if (sg_dataset_make_cached(catalogue, NULL, &status)) fail_msg("%s", status.text);
    assert_int_equal(sg_dataset_make_cached(catalogue, &stop, &status), SG_MACHINE);
    assert_string_equal(status.text, "interrupted");
}

static void cameras_must_be_there(void **unused) {
    (void)unused;
    inputs t;
    make_inputs(&t);
    sg_dataset_source *source;
    sg_status status = {0};
    t.inputs[0].source = t.inputs[1].source = SG_INPUT_STORAGE;
    assert_int_equal(sg_dataset_source_open(catalogue, &t.training, &source, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "no camera"));
    make_inputs(&t);
    size_t had = catalogue->n_cameras;
    catalogue->n_cameras = 1;
    assert_int_equal(sg_dataset_source_open(catalogue, &t.training, &source, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "--cameras 1"));
    catalogue->n_cameras = had;
}

/* Between the opening of the catalogue and the reading by a worker. The last test: the data set is broken afterwards. */
static void a_file_cut_under_way_is_told(void **unused) {
    (void)unused;
    inputs t;
    make_inputs(&t);
    sg_dataset_source *source;
    sg_status status = {0};
    assert_int_equal(sg_dataset_source_open(catalogue, &t.training, &source, &status), SG_OK);
    sg_loader *l = opened(&(sg_loader_options){.training = &t.training, .source = sg_dataset_source_samples(source)});
    sg_frame_place place;
    assert_int_equal(sg_catalogue_place(catalogue, 0, 0, 0, &place, &status), SG_OK);
    assert_int_equal(truncate(place.path, 2048), 0);
    sg_code code = error_of(l, 20, &status);
    assert_true(code == SG_BAD_INPUT || code == SG_MACHINE);
    assert_non_null(strstr(status.text, "worker"));
    assert_non_null(strstr(status.text, place.path));
    sg_loader_close(l);
    sg_dataset_source_close(source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_the_data_sets),
        cmocka_unit_test(files_can_be_cached),
        cmocka_unit_test(cameras_must_be_there),
        cmocka_unit_test(a_file_cut_under_way_is_told),
    };
    return cmocka_run_group_tests(tests, make_data, drop_data);
}
