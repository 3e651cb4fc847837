/* meta/info.json in its three versions and either channel order; every way in which it can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/catalogue/dataset.h"

static void read_shipped(const char *name, sg_dataset *d) {
    char path[512];
    sg_status status;
    (void)snprintf(path, sizeof path, "%s/configs/datasets/%s", SG_SOURCE_DIR, name);
    if (sg_dataset_read(path, d, &status) != SG_OK) fail_msg("%s", status.text);
}

static void shipped_sets(void **state) {
    (void)state;
    sg_dataset d;
    read_shipped("svla_so101_pickplace", &d);
    assert_int_equal(d.frames, 11939);
    assert_int_equal(d.cameras, 2);
    assert_int_equal(d.image_height, 480);
    assert_int_equal(d.image_width, 640);
    assert_int_equal(d.state_dim, 6);
    assert_int_equal(d.action_dim, 6);
    assert_string_equal(d.codec, "av1");
    read_shipped("pusht", &d);
    assert_int_equal(d.cameras, 1);
    assert_int_equal(d.image_height, 96);
    read_shipped("aloha_static_vinh_cup_left", &d);
    assert_string_equal(d.version, "v2.0");
    assert_int_equal(d.cameras, 4);
    assert_int_equal(d.action_dim, 14);
    read_shipped("aloha_sim_insertion_scripted_image", &d);
    assert_string_equal(d.codec, "image");
}

static sg_code read_text(const char *text, sg_dataset *d, sg_status *status) {
    char path[] = "/tmp/stepgauge-info-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    sg_code code = sg_dataset_read(path, d, status);
    (void)unlink(path);
    return code;
}

#define HEAD "{\"codebase_version\": \"v2.1\", \"total_frames\": 100, \"features\": "

static void either_channel_order(void **state) {
    (void)state;
    sg_dataset d;
    sg_status status;
    assert_int_equal(
        read_text(HEAD "{\"observation.images.a\": {\"dtype\": \"video\", \"shape\": [3, 240, 320], \"names\": "
                       "[\"channels\", \"height\", \"width\"]}, \"observation.images.b\": {\"dtype\": \"video\", "
                       "\"shape\": [3, 480, 640], \"names\": null}}}",
                  &d, &status),
        SG_OK);
    assert_int_equal(d.image_height, 240);
    assert_int_equal(d.image_width, 320);
    assert_true(d.mixed_sizes);
    assert_int_equal(read_text(HEAD "{\"i\": {\"dtype\": \"image\", \"shape\": [240, 320, 3], \"names\": {\"x\": 1}}}}",
                               &d, &status),
                     SG_OK);
    assert_int_equal(d.image_height, 240);
}

static void bad_files_say_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"codebase_version\": \"v2.1\",,}", ":1:"},
        {"[]", ""},
        {"{}", "codebase_version"},
        {"{\"codebase_version\": \"v9.0\", \"total_frames\": 1, \"features\": {}}", "v9.0"},
        {"{\"codebase_version\": \"v2.1\", \"total_frames\": 0, \"features\": {}}", "nothing to train on"},
        {"{\"codebase_version\": \"v2.1\", \"total_frames\": -5, \"features\": {}}", "total_frames"},
        {"{\"codebase_version\": \"v2.1\", \"total_frames\": 5}", "features"},
        {HEAD "{\"c\": {\"dtype\": \"video\", \"shape\": [3, 240]}}}", "shape"},
        {HEAD "{\"c\": {\"dtype\": \"video\", \"shape\": [3, 240, 1e99]}}}", "whole numbers"},
        {HEAD "{\"action\": {\"dtype\": \"float32\", \"shape\": [0]}}}", "whole numbers"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sg_dataset d;
        sg_status status;
        assert_int_equal(read_text(bad[i].text, &d, &status), SG_BAD_INPUT);
        if (!strstr(status.text, bad[i].says))
            fail_msg("case %zu: '%s' does not say '%s'", i, status.text, bad[i].says);
    }
}

static void no_such_folder(void **state) {
    (void)state;
    sg_dataset d;
    sg_status status;
    assert_int_equal(sg_dataset_read("/nonexistent/data", &d, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "does not exist"));
    assert_int_equal(sg_dataset_read("/usr", &d, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "no LeRobot data set"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_sets),
        cmocka_unit_test(either_channel_order),
        cmocka_unit_test(bad_files_say_what_is_wrong),
        cmocka_unit_test(no_such_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
