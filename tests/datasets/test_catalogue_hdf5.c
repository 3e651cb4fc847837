/* Catalogues of HDF5 demonstrations: robomimic, LIBERO, ALOHA, and what is refused. */
#include "tests/datasets/catalogue_fixture.h"

#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

#include "datasets/make/make.h"

/* ---- HDF5 ---- */

/* A data set of zeros. */
static void put(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims) {
    hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(rank, dims, NULL);
    assert_true(H5Pset_create_intermediate_group(links, 1) >= 0);
    hid_t set = H5Dcreate2(file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0);
    (void)H5Dclose(set);
    (void)H5Sclose(space);
    (void)H5Pclose(links);
}

static hid_t create(const sg_scratch *s, const char *name) {
    char path[512];
    path_in(s, name, path);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static void put_demo(hid_t file, int number, hsize_t frames, hsize_t width, const char *ending) {
    char name[96];
    const hsize_t image[] = {frames, 24, width, 3}, action[] = {frames, 7}, three[] = {frames, 3}, four[] = {frames, 4};
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/agentview%s", number, ending);
    put(file, name, H5T_STD_U8LE, 4, image);
    (void)snprintf(name, sizeof name, "/data/demo_%d/actions", number);
    put(file, name, H5T_IEEE_F64LE, 2, action);
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/robot0_eef_pos", number);
    put(file, name, H5T_IEEE_F64LE, 2, three);
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/robot0_eef_quat", number);
    put(file, name, H5T_IEEE_F64LE, 2, four);
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/agentview_depth", number);
    const hsize_t depth[] = {frames, 24, width, 1};
    put(file, name, H5T_IEEE_F32LE, 4, depth);
}

static void robomimic(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    hid_t file = create(&s, "demo.hdf5");
    put_demo(file, 10, 6, 32, "_image");
    put_demo(file, 2, 5, 32, "_image");
    (void)H5Fclose(file);
    for (int whole = 0; whole < 2; whole++) {
        sg_catalogue *c = opened(&s, whole ? "" : "demo.hdf5");
        assert_int_equal(c->kind, SG_DATASET_ROBOMIMIC);
        assert_int_equal(c->n_episodes, 2);
        assert_int_equal(c->first_frame[1], 5); /* two comes before ten */
        assert_int_equal(c->info.state_dim, 7);
        assert_int_equal(c->info.action_dim, 7);
        described_as(c, "robomimic;raw;24x32;cameras=1;name=");
        sg_frame_place place = frame_at(c, 0, 1, 4);
        assert_int_equal(place.store, SG_STORE_HDF5_RAW);
        ends_in(place.path, "/demo.hdf5");
        assert_string_equal(place.inner, "/data/demo_10/obs/agentview_image");
        assert_int_equal(place.row, 4);
        sg_row_place row = row_at(c, 0, 3);
        assert_true(row.hdf5);
        assert_string_equal(row.state, "/data/demo_2/obs/robot0_eef_pos\n/data/demo_2/obs/robot0_eef_quat");
        assert_string_equal(row.action, "/data/demo_2/actions");
        sg_catalogue_close(c);
    }
    char path[512];
    sg_dataset info;
    sg_status status;
    path_in(&s, "demo.hdf5", path);
    assert_int_equal(sg_dataset_read(path, &info, &status), SG_OK);
    assert_int_equal(info.image_width, 32);
    assert_int_equal(info.frames, 11);
    assert_string_equal(info.codec, "raw");
    sg_scratch_free(&s);
}

/* Images that are no camera's are told of. */
static void images_of_other_shapes(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    const hsize_t turned[] = {5, 3, 24, 32}, action[] = {5, 7};
    hid_t file = create(&s, "demo.hdf5");
    put(file, "/data/demo_0/obs/agentview_image", H5T_IEEE_F32LE, 4, turned);
    put(file, "/data/demo_0/actions", H5T_IEEE_F64LE, 2, action);
    (void)H5Fclose(file);
    sg_catalogue *c = opened(&s, "demo.hdf5");
    assert_int_equal(c->n_cameras, 0);
    assert_string_equal(c->warning, "agentview_image is [5, 3, 24, 32] and no uint8, cameras are uint8 [T, H, W, 3]");
    sg_catalogue_close(c);
    sg_scratch_free(&s);
}

static void demonstrations_made(void **state) {
    (void)state;
    static const struct {
        const char *kind, *codec, *described, *camera, *state;
    } sets[] = {
        {"libero", NULL, "libero;raw;24x32;cameras=2;name=", "/data/demo_1/obs/eye_in_hand_rgb",
         "/data/demo_1/obs/joint_states"},
        {"aloha", NULL, "aloha;raw;24x32;cameras=2;name=", "/observations/images/cam_left_wrist", "/observations/qpos"},
        {"aloha", "jpeg", "aloha;jpeg;24x32;cameras=2;name=", "/observations/images/cam_left_wrist",
         "/observations/qpos"}};
    for (size_t i = 0; i < 3; i++) {
        sg_scratch s = sg_scratch_new();
        sg_make_options options = {.kind = sets[i].kind,
                                   .codec = sets[i].codec,
                                   .episodes = 2,
                                   .frames_per_episode = 3,
                                   .height = 24,
                                   .width = 32};
        sg_status status;
        sg_code code = sg_dataset_make(s.path, &options, &status);
        if (code == SG_MACHINE && sets[i].codec) { /* the module for JPEG is not built */
            sg_scratch_free(&s);
            continue;
        }
        if (code != SG_OK) fail_msg("%s", status.text);
        sg_catalogue *c = opened(&s, "");
        described_as(c, sets[i].described);
        assert_int_equal(c->info.frames, 6);
        assert_int_equal(c->info.state_dim, 6);
        sg_frame_place place = frame_at(c, 1, 1, 2);
        assert_string_equal(place.inner, sets[i].camera);
        assert_int_equal(place.row, 2);
        assert_string_equal(row_at(c, 1, 0).state, sets[i].state);
        if (i > 0) ends_in(place.path, "/episode_1.hdf5");
        sg_catalogue_close(c);
        sg_scratch_free(&s);
    }
}

static void hdf5_refusals(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    hid_t file = create(&s, "a.hdf5");
    (void)H5Fclose(file);
    refused(&s, "a.hdf5", "no /data/demo_0 (robomimic, LIBERO) and no /observations (ALOHA)");
    file = create(&s, "a.hdf5");
    put_demo(file, 0, 3, 32, "_rgb");
    put_demo(file, 1, 3, 16, "_rgb");
    (void)H5Fclose(file);
    refused(&s, "", "agentview_rgb is missing, or is no camera of the same size");
    file = create(&s, "a.hdf5");
    put_demo(file, 0, 3, 32, "_rgb");
    assert_true(H5Lcreate_external("/etc/passwd", "/", file, "/data/demo_1", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/data/demo_0", file, "/data/demo_2", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    (void)H5Fclose(file);
    sg_catalogue *c = opened(&s, "a.hdf5"); /* links are no demonstrations */
    assert_int_equal(c->n_episodes, 1);
    assert_int_equal(c->kind, SG_DATASET_LIBERO);
    sg_catalogue_close(c);
    file = create(&s, "b.hdf5");
    const hsize_t dims[] = {3, 4};
    put(file, "/observations/qpos", H5T_IEEE_F32LE, 2, dims);
    put(file, "/action", H5T_IEEE_F32LE, 2, dims);
    (void)H5Fclose(file);
    refused(&s, "", "of another kind than the files before it");
    char path[512];
    path_in(&s, "b.hdf5", path);
    assert_int_equal(truncate(path, 700), 0);
    refused(&s, "b.hdf5", "damaged or not complete");
    sg_scratch_file(&s, "b.hdf5", "no HDF5");
    refused(&s, "", "b.hdf5 is no HDF5 file");
    refused(&s, "b.hdf5", "is no HDF5 file: give a data set's folder");
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_other_shapes),
        cmocka_unit_test(robomimic),
        cmocka_unit_test(demonstrations_made),
        cmocka_unit_test(hdf5_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
