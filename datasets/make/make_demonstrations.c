/* HDF5 demonstrations as robomimic, LIBERO and ALOHA lay them out. */
#include "datasets/make/make_hdf5.h"

#include <stdlib.h>

/* What belongs to an episode, [frames, width]. */
static const double *episode_rows(const sg_make *make, const double *numbers, int64_t width, int64_t episode) {
    return numbers + episode * make->o.frames_per_episode * width;
}

/* robomimic and LIBERO: 1 in the last frame, where the task is done. */
static void write_ends(sg_h5_file *h5, int64_t demo) {
    int64_t n = h5->make->o.frames_per_episode;
    double *ends = calloc((size_t)n, sizeof *ends);
    if (!ends) {
        h5->code = sg_fail_memory(&h5->status, (size_t)n * sizeof *ends, "rewards");
        return;
    }
    ends[n - 1] = 1;
    sg_h5_numbers(h5, demo, "rewards", SG_H5_DOUBLE, ends, n, 0);
    sg_h5_numbers(h5, demo, "dones", SG_H5_INT64, ends, n, 0);
    free(ends);
}

/* What the two differ in. */
typedef struct layout {
    const char *file, *state, *cameras[2], *camera_ending;
} layout;

static void write_demo(sg_h5_file *h5, int64_t data, const layout *how, int64_t episode) {
    const sg_make *make = h5->make;
    const sg_make_options *o = &make->o;
    const double *state = episode_rows(make, make->rows.state, o->state_dim, episode);
    char name[SG_MAKE_NAME_BYTES];
    (void)snprintf(name, sizeof name, "demo_%lld", (long long)episode);
    int64_t demo = sg_h5_group(h5, data, name);
    sg_h5_integer(h5, demo, "num_samples", o->frames_per_episode);
    sg_h5_numbers(h5, demo, "actions", SG_H5_DOUBLE, episode_rows(make, make->rows.action, o->action_dim, episode),
                  o->frames_per_episode, o->action_dim);
    sg_h5_numbers(h5, demo, "states", SG_H5_DOUBLE, state, o->frames_per_episode, o->state_dim);
    if (h5->code == SG_OK) write_ends(h5, demo);
    int64_t obs = sg_h5_group(h5, demo, "obs");
    sg_h5_numbers(h5, obs, how->state, SG_H5_DOUBLE, state, o->frames_per_episode, o->state_dim);
    for (int64_t c = 0; c < o->cameras; c++) {
        (void)snprintf(name, sizeof name, "camera%lld%s", (long long)c + 1, how->camera_ending);
        sg_h5_frames(h5, obs, c < 2 ? how->cameras[c] : name, c, episode, false);
    }
    sg_h5_leave(h5, obs);
    sg_h5_leave(h5, demo);
}

static sg_code write_demos(sg_make *make, const layout *how, const char *const (*texts)[2], sg_status *status) {
    sg_h5_file h5;
    sg_h5_open(&h5, make, how->file);
    int64_t data = sg_h5_group(&h5, h5.file, "data");
    sg_h5_integer(&h5, data, "total", make->frames);
    sg_h5_integer(&h5, data, "num_demos", make->o.episodes);
    for (size_t i = 0; texts[i][0]; i++) sg_h5_text(&h5, data, texts[i][0], texts[i][1]);
    for (int64_t e = 0; e < make->o.episodes; e++) write_demo(&h5, data, how, e);
    sg_h5_leave(&h5, data);
    return sg_h5_close(&h5, status);
}

sg_code sg_make_robomimic(sg_make *make, sg_status *status) {
    static const layout how = {
        "demo.hdf5", "robot0_joint_pos", {"agentview_image", "robot0_eye_in_hand_image"}, "_image"};
    static const char *const texts[][2] = {
        {"env_args", "{\"env_name\": \"Lift\", \"type\": 1, \"env_kwargs\": {\"robots\": [\"Panda\"]}}"}, {NULL, NULL}};
    return write_demos(make, &how, texts, status);
}

sg_code sg_make_libero(sg_make *make, sg_status *status) {
    static const layout how = {"pick_up_the_cube_and_place_it_in_the_box_demo.hdf5",
                               "joint_states",
                               {"agentview_rgb", "eye_in_hand_rgb"},
                               "_rgb"};
    static const char *const texts[][2] = {
        {"problem_info", "{\"problem_name\": \"libero_tabletop_manipulation\", \"language_instruction\": "
                         "\"pick up the cube and place it in the box\"}"},
        {"bddl_file_name", "pick_up_the_cube_and_place_it_in_the_box.bddl"},
        {"env_args", "{\"type\": 1, \"env_name\": \"Libero_Tabletop_Manipulation\"}"},
        {"tag", "libero-v1"},
        {NULL, NULL}};
    return write_demos(make, &how, texts, status);
}

static const char *aloha_camera(int64_t camera, char name[SG_MAKE_NAME_BYTES]) {
    static const char *const named[] = {"cam_high", "cam_left_wrist", "cam_right_wrist", "cam_low"};
    (void)snprintf(name, SG_MAKE_NAME_BYTES, "cam_%lld", (long long)camera + 1);
    return camera < 4 ? named[camera] : name;
}

/* Encoded: the lengths of the images lie beside them, [cameras, frames]. */
static void write_aloha_images(sg_h5_file *h5, int64_t observations, int64_t episode) {
    const sg_make_options *o = &h5->make->o;
    char name[SG_MAKE_NAME_BYTES];
    int64_t images = sg_h5_group(h5, observations, "images");
    if (o->codec[0] == 'r') {
        for (int64_t c = 0; c < o->cameras; c++) sg_h5_frames(h5, images, aloha_camera(c, name), c, episode, true);
        sg_h5_leave(h5, images);
        return;
    }
    double *lengths = calloc((size_t)(o->cameras * o->frames_per_episode), sizeof *lengths);
    if (!lengths && h5->code == SG_OK)
        h5->code =
            sg_fail_memory(&h5->status, (size_t)(o->cameras * o->frames_per_episode) * sizeof *lengths, "lengths");
    for (int64_t c = 0; lengths && c < o->cameras; c++)
        sg_h5_images(h5, images, aloha_camera(c, name), c, episode, lengths + c * o->frames_per_episode);
    sg_h5_leave(h5, images);
    if (lengths) sg_h5_numbers(h5, h5->file, "compress_len", SG_H5_DOUBLE, lengths, o->cameras, o->frames_per_episode);
    free(lengths);
}

/* Speeds of the joints, [frames, state_dim]. */
static void write_speeds(sg_h5_file *h5, int64_t observations, const double *state) {
    const sg_make_options *o = &h5->make->o;
    int64_t frames = o->frames_per_episode, width = o->state_dim;
    double *speed = calloc((size_t)(frames * width), sizeof *speed);
    if (!speed && h5->code == SG_OK)
        h5->code = sg_fail_memory(&h5->status, (size_t)(frames * width) * sizeof *speed, "speeds");
    for (int64_t i = width; speed && i < frames * width; i++) speed[i] = (state[i] - state[i - width]) * o->fps;
    if (speed) sg_h5_numbers(h5, observations, "qvel", SG_H5_DOUBLE, speed, frames, width);
    free(speed);
}

static sg_code write_aloha_episode(sg_make *make, int64_t episode, sg_status *status) {
    const sg_make_options *o = &make->o;
    char name[SG_MAKE_NAME_BYTES];
    (void)snprintf(name, sizeof name, "episode_%lld.hdf5", (long long)episode);
    const double *state = episode_rows(make, make->rows.state, o->state_dim, episode);
    sg_h5_file h5;
    sg_h5_open(&h5, make, name);
    sg_h5_flag(&h5, h5.file, "sim", false);
    sg_h5_flag(&h5, h5.file, "compress", o->codec[0] != 'r');
    int64_t observations = sg_h5_group(&h5, h5.file, "observations");
    sg_h5_numbers(&h5, observations, "qpos", SG_H5_DOUBLE, state, o->frames_per_episode, o->state_dim);
    write_speeds(&h5, observations, state);
    write_aloha_images(&h5, observations, episode);
    sg_h5_leave(&h5, observations);
    sg_h5_numbers(&h5, h5.file, "action", SG_H5_DOUBLE, episode_rows(make, make->rows.action, o->action_dim, episode),
                  o->frames_per_episode, o->action_dim);
    return sg_h5_close(&h5, status);
}

sg_code sg_make_aloha(sg_make *make, sg_status *status) {
    sg_code code = SG_OK;
    for (int64_t e = 0; e < make->o.episodes && code == SG_OK; e++) code = write_aloha_episode(make, e, status);
    return code;
}
