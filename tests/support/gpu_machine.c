#include "tests/support/gpu_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>

#include "sim/files/run_file.h"
#include "sim/ranks/process_tree.h"

sg_scratch sg_gpu_scratch;
char sg_gpu_run_path[96];

/* ---- a machine with four GPUs ------------------------------------------------------------------------------------- */

void sg_gpu_driver(const char *libraries, const char *cuda, const char *nvml) {
    assert_int_equal(setenv("LD_LIBRARY_PATH", libraries, 1), 0);
    assert_int_equal(setenv("SG_CUDA_DRIVER_EMULATION", cuda, 1), 0);
    assert_int_equal(setenv("SG_NVML_EMULATION", nvml, 1), 0);
}

void sg_gpu_emulation(const char *settings) {
    assert_int_equal(setenv("STEPGAUGE_EMULATION", settings, 1), 0);
}

int sg_gpu_machine(void **state) {
    (void)state;
    sg_gpu_scratch = sg_scratch_new();
    (void)snprintf(sg_gpu_run_path, sizeof sg_gpu_run_path, "%s/run.h5", sg_gpu_scratch.path);
    sg_gpu_driver(LIBRARIES, "0,13000,4", FOUR_GPUS);
    sg_gpu_emulation("gpus=4");
    (void)setenv("STEPGAUGE_CUDA_LIBS", LIBRARIES, 1);
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

/* Nothing may be left behind: no lock, no unfinished file, no process of ours. */
int sg_gpu_nothing_left(void **state) {
    (void)state;
    int result = 0;
    pid_t child;
    DIR *folder = opendir(sg_gpu_scratch.path);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (strstr(e->d_name, ".lock") || strstr(e->d_name, ".tmp")) {
            print_error("%s was left behind\n", e->d_name);
            result = -1;
        }
    if (folder) (void)closedir(folder);
    if (sg_process_children(getpid(), &child, 1) > 0) {
        print_error("process %d was left behind\n", (int)child);
        result = -1;
    }
    sg_scratch_free(&sg_gpu_scratch);
    return result;
}

void sg_gpu_expect(sg_said said, int status, const char *in_err) {
    if (said.status != status) fail_msg("exit status %d instead of %d: %s", said.status, status, said.err);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    sg_said_clear(&said);
}

size_t sg_gpu_points_in(const char *path) {
    sg_run run;
    if (sg_run_file_read(path, &run, NULL) != SG_OK) return SIZE_MAX;
    size_t n = run.n_points;
    sg_run_clear(&run);
    return n;
}

/* The points of a command that must succeed; json_decref the root. */
json_t *sg_gpu_points_of(sg_said said, const json_t **points, size_t n) {
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    *points = json_object_get(root, "points");
    assert_int_equal(json_array_size(*points), n);
    sg_said_clear(&said);
    return root;
}

const char *sg_gpu_text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no text %s", key);
    return text;
}

void sg_gpu_is_told(const json_t *point, const char *host) {
    assert_string_equal(sg_gpu_text_of(point, "device"), "cuda");
    assert_string_equal(sg_gpu_text_of(point, "host"), host);
    assert_true(sg_json_number(point, "update_s") > 0);
    assert_true(sg_json_number(point, "update_device_s") > 0);
    const json_t *gpu = json_object_get(point, "gpu");
    assert_non_null(strstr(sg_gpu_text_of(gpu, "name"), "Emulated GPU"));
    assert_non_null(strstr(sg_gpu_text_of(gpu, "libraries"), "cuBLAS 13."));
}

/* The file of an ACT whose step takes the emulation no more than a second. */
const char *sg_gpu_small_act(void) {
    static char path[96];
    (void)snprintf(path, sizeof path, "%s/act.yaml", sg_gpu_scratch.path);
    sg_scratch_file(&sg_gpu_scratch, "act.yaml",
                    "policy: act\ncameras: 1\nimage_height: 32\nimage_width: 32\nchunk_size: 4\nbackbone_width: 3\n"
                    "dim_model: 16\nn_heads: 2\ndim_feedforward: 16\nn_encoder_layers: 1\nn_decoder_layers: 1\n"
                    "n_vae_encoder_layers: 1\n");
    return path;
}
