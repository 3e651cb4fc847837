#include "datasets/catalogue/hdf5_demos.h"

#include "datasets/catalogue/catalogue_kinds.h"
#include "datasets/catalogue/image_header.h"
#include "datasets/catalogue/path_template.h"

#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A scan under way. */
typedef struct scan {
    sg_bytes *answer;
    sg_status *status;
    sg_demos_head head; /* of the first demonstration; all others are like it */
    sg_camera *cameras; /* [SG_CAMERAS_MOST] */
    bool begun;         /* head and cameras are in the answer */
    const char *path;   /* of the file that is open */
    uint32_t file;
} scan;

/* What a data set is: dims [T, ...]. */
typedef struct extent {
    int rank;
    hsize_t dims[4];
    bool bytes; /* unsigned or signed, of 8 bits */
    bool numbers;
} extent;

static sg_code refuse(scan *s, const char *where, const char *why) {
    return sg_fail(s->status, SG_BAD_INPUT, "%.400s: %.200s %s", s->path, where, why);
}

/* ---- objects that lie in this file: no links to other places ---- */

static bool has(hid_t parent, const char *name) {
    H5L_info_t info;
    return H5Lexists(parent, name, H5P_DEFAULT) > 0 && H5Lget_info(parent, name, &info, H5P_DEFAULT) >= 0 &&
           info.type == H5L_TYPE_HARD;
}

static hid_t open_as(hid_t parent, const char *name, H5I_type_t type) {
    if (!has(parent, name)) return -1;
    hid_t object = H5Oopen(parent, name, H5P_DEFAULT);
    if (object < 0 || H5Iget_type(object) == type) return object;
    (void)H5Oclose(object);
    return -1;
}

static void leave(hid_t object) {
    if (object >= 0) (void)H5Oclose(object);
}

/* false: no data set, of another rank than 1 to 4, or with its values in other files. */
static bool measure(hid_t set, extent *e) {
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), style = H5Dget_create_plist(set);
    memset(e, 0, sizeof *e);
    bool good = space >= 0 && type >= 0 && style >= 0 && H5Pget_layout(style) != H5D_VIRTUAL &&
                H5Pget_external_count(style) == 0;
    e->rank = good ? H5Sget_simple_extent_ndims(space) : -1;
    good = good && e->rank >= 1 && e->rank <= 4 && H5Sget_simple_extent_dims(space, e->dims, NULL) == e->rank;
    H5T_class_t class = good ? H5Tget_class(type) : H5T_NO_CLASS;
    e->bytes = class == H5T_INTEGER && H5Tget_size(type) == 1;
    e->numbers = class == H5T_INTEGER || class == H5T_FLOAT;
    if (style >= 0) (void)H5Pclose(style);
    if (type >= 0) (void)H5Tclose(type);
    if (space >= 0) (void)H5Sclose(space);
    return good;
}

static bool measure_named(hid_t parent, const char *name, extent *e) {
    hid_t set = open_as(parent, name, H5I_DATASET);
    bool good = set >= 0 && measure(set, e);
    leave(set);
    return good;
}

/* [T, n] numbers, or [T] of one. */
static bool is_rows(const extent *e) {
    return e->numbers && (e->rank == 1 || (e->rank == 2 && e->dims[1] >= 1 && e->dims[1] <= 1000000));
}

static int64_t width_of(const extent *e) {
    return e->rank == 1 ? 1 : (int64_t)e->dims[1];
}

static bool is_raw(const extent *e) {
    return e->bytes && e->rank == 4 && e->dims[3] == 3 && e->dims[1] >= 1 && e->dims[1] <= 100000 && e->dims[2] >= 1 &&
           e->dims[2] <= 100000;
}

static bool is_encoded(const extent *e) {
    enum { MOST = 64 << 20 }; /* no camera's picture has more */
    return e->bytes && e->rank == 2 && e->dims[1] >= 16 && e->dims[1] <= MOST;
}

/* ---- the first demonstration: cameras and state ---- */

/* Size and codec of the image in the first row. */
static bool look_at_image(hid_t set, const extent *e, sg_camera *camera) {
    hsize_t start[2] = {0, 0}, count[2] = {1, e->dims[1]};
    uint8_t *bytes = malloc((size_t)e->dims[1]);
    hid_t file = H5Dget_space(set), memory = H5Screate_simple(2, count, NULL);
    sg_image_header header;
    bool good = bytes && e->dims[0] > 0 && file >= 0 && memory >= 0 &&
                H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dread(set, H5T_NATIVE_UINT8, memory, file, H5P_DEFAULT, bytes) >= 0 &&
                sg_image_header_read(bytes, (size_t)e->dims[1], &header);
    if (good) {
        camera->height = header.height;
        camera->width = header.width;
        (void)snprintf(camera->codec, sizeof camera->codec, "%.7s", header.codec);
    }
    if (memory >= 0) (void)H5Sclose(memory);
    if (file >= 0) (void)H5Sclose(file);
    free(bytes);
    return good;
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

/* Images by rank and name, and none that are read: the first is told of. */
static void note_amiss(scan *s, const char *name, const extent *e) {
    bool named = ends_with(name, "_image") || ends_with(name, "_rgb") || s->head.kind == SG_DATASET_ALOHA;
    if (s->head.amiss[0] || !named || ends_with(name, "_depth")) return;
    char shape[100] = "";
    size_t n = 0;
    for (int i = 0; i < e->rank && n < sizeof shape; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%llu", i ? ", " : "", (unsigned long long)e->dims[i]);
    (void)snprintf(s->head.amiss, sizeof s->head.amiss, "%.40s is [%.60s]%s, cameras are uint8 [T, H, W, 3]%s", name,
                   shape, e->bytes ? "" : " and no uint8",
                   s->head.kind == SG_DATASET_ALOHA ? " or encoded [T, bytes]" : "");
}

/* Anything that is no sequence of colour images is no camera. */
static herr_t on_camera(hid_t group, const char *name, const H5L_info_t *info, void *user) {
    scan *s = user;
    extent e;
    if (info->type != H5L_TYPE_HARD || !sg_path_part_is_sound(name)) return 0;
    sg_camera camera = {0};
    if (strlen(name) >= sizeof camera.name) return 0;
    hid_t set = open_as(group, name, H5I_DATASET);
    bool good = set >= 0 && measure(set, &e);
    if (good && is_raw(&e)) {
        camera.store = SG_STORE_HDF5_RAW;
        camera.height = (int64_t)e.dims[1];
        camera.width = (int64_t)e.dims[2];
        (void)snprintf(camera.codec, sizeof camera.codec, "raw");
    } else {
        camera.store = SG_STORE_HDF5_ENCODED;
        good = good && s->head.kind == SG_DATASET_ALOHA && is_encoded(&e) && look_at_image(set, &e, &camera);
    }
    if (!good && set >= 0 && measure(set, &e)) note_amiss(s, name, &e);
    leave(set);
    if (!good) return 0;
    if (s->head.n_cameras == SG_CAMERAS_MOST) return -1;
    (void)snprintf(camera.name, sizeof camera.name, "%s", name);
    s->cameras[s->head.n_cameras++] = camera;
    return 0;
}

static sg_code find_cameras(scan *s, hid_t images) {
    hsize_t at = 0;
    if (H5Literate(images, H5_INDEX_NAME, H5_ITER_INC, &at, on_camera, s) >= 0) return SG_OK;
    return refuse(s, "its cameras", "cannot be listed");
}

static void add_state(scan *s, hid_t group, const char *name) {
    extent e;
    size_t i = 0;
    while (i < 3 && s->head.state[i][0]) i++;
    if (i == 3 || !measure_named(group, name, &e) || !is_rows(&e)) return;
    (void)snprintf(s->head.state[i], sizeof s->head.state[i], "%s", name);
    s->head.state_dim += width_of(&e);
}

/* What trainings of these data sets take for the state: robomimic's default low_dim keys; in LIBERO the pose of the hand as
 * LeRobot's conversion does. Where they are not there, the joints. */
static void find_state(scan *s, hid_t obs) {
    static const char *const names[][3] = {{"robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos"},
                                           {"ee_states", "gripper_states", NULL},
                                           {"robot0_joint_pos", "robot0_gripper_qpos", NULL},
                                           {"joint_states", "gripper_states", NULL}};
    for (size_t k = 0; k < 4; k++) {
        if (s->head.state_dim > 0 || !has(obs, names[k][0])) continue;
        for (size_t i = 0; i < 3 && names[k][i]; i++) add_state(s, obs, names[k][i]);
    }
}

/* LIBERO's cameras end in _rgb, robomimic's in _image; without cameras the names of its numbers tell. */
static sg_dataset_kind demo_kind(const scan *s, hid_t obs) {
    for (uint32_t c = 0; c < s->head.n_cameras; c++)
        if (ends_with(s->cameras[c].name, "_rgb")) return SG_DATASET_LIBERO;
    bool libero = s->head.n_cameras == 0 && (has(obs, "ee_states") || has(obs, "joint_states"));
    return libero ? SG_DATASET_LIBERO : SG_DATASET_ROBOMIMIC;
}

/* ---- every demonstration ---- */

static sg_code put_head(scan *s) {
    s->begun = true;
    if (sg_bytes_add(s->answer, &s->head, sizeof s->head) &&
        sg_bytes_add(s->answer, s->cameras, s->head.n_cameras * sizeof *s->cameras))
        return SG_OK;
    return sg_fail_memory(s->status, sizeof s->head, "what demonstrations hold");
}

static void least(int64_t *frames, const extent *e) {
    if ((uint64_t)e->dims[0] < (uint64_t)*frames) *frames = (int64_t)e->dims[0];
}

/* Frames that all of its parts have; all parts must be like the first demonstration's. */
static sg_code count_frames(scan *s, hid_t images, hid_t state, hid_t actions_in, const char *action, int64_t *frames) {
    extent e;
    *frames = SG_FRAMES_MOST;
    for (uint32_t c = 0; c < s->head.n_cameras; c++) {
        const sg_camera *camera = &s->cameras[c];
        bool raw = camera->store == SG_STORE_HDF5_RAW;
        if (!measure_named(images, camera->name, &e) || !(raw ? is_raw(&e) : is_encoded(&e)) ||
            (raw && ((int64_t)e.dims[1] != camera->height || (int64_t)e.dims[2] != camera->width)))
            return refuse(s, camera->name,
                          "is missing, or is no camera of the same size, in one of the demonstrations");
        least(frames, &e);
    }
    int64_t dim = 0;
    for (size_t i = 0; i < 3 && s->head.state[i][0]; i++) {
        if (!measure_named(state, s->head.state[i], &e) || !is_rows(&e))
            return refuse(s, s->head.state[i], "is missing in one of the demonstrations");
        dim += width_of(&e);
        least(frames, &e);
    }
    if (!measure_named(actions_in, action, &e) || !is_rows(&e))
        return refuse(s, action, "is missing, or no table of numbers, in one of the demonstrations");
    least(frames, &e);
    if (!s->begun) s->head.action_dim = width_of(&e);
    if (dim != s->head.state_dim || width_of(&e) != s->head.action_dim)
        return refuse(s, "one of the demonstrations", "has another number of joints than the first");
    return SG_OK;
}

static sg_code put_demo(scan *s, uint32_t number, int64_t frames) {
    sg_demo demo = {s->file, number, frames};
    sg_code code = s->begun ? SG_OK : put_head(s);
    if (code != SG_OK) return code;
    if (frames < 1) return refuse(s, "one of the demonstrations", "has no frames");
    if (sg_bytes_add(s->answer, &demo, sizeof demo)) return SG_OK;
    return sg_fail(s->status, SG_BAD_INPUT, "%.400s: more demonstrations than are read", s->path);
}

/* ---- robomimic and LIBERO ---- */

static sg_code scan_demo(scan *s, hid_t data, uint32_t number) {
    char name[32];
    (void)snprintf(name, sizeof name, "demo_%" PRIu32, number);
    hid_t demo = open_as(data, name, H5I_GROUP), obs = demo >= 0 ? open_as(demo, "obs", H5I_GROUP) : -1;
    sg_code code = obs >= 0 ? SG_OK : refuse(s, name, "has no observations (obs)");
    if (code == SG_OK && !s->begun) {
        code = find_cameras(s, obs);
        if (code == SG_OK) find_state(s, obs);
        s->head.kind = demo_kind(s, obs);
    }
    int64_t frames = 0;
    if (code == SG_OK) code = count_frames(s, obs, obs, demo, "actions", &frames);
    leave(obs);
    leave(demo);
    return code == SG_OK ? put_demo(s, number, frames) : code;
}

/* Numbers of the groups demo_N. */
static herr_t on_demo(hid_t group, const char *name, const H5L_info_t *info, void *user) {
    (void)group;
    if (info->type != H5L_TYPE_HARD || strncmp(name, "demo_", 5) != 0) return 0;
    size_t digits = strspn(name + 5, "0123456789");
    bool canonical = digits > 0 && digits < 10 && !name[5 + digits] && (name[5] != '0' || digits == 1);
    if (!canonical) return 0;
    uint32_t number = (uint32_t)strtoul(name + 5, NULL, 10);
    return sg_bytes_add(user, &number, sizeof number) ? 0 : -1;
}

static int by_number(const void *a, const void *b) {
    uint32_t p, q;
    memcpy(&p, a, sizeof p);
    memcpy(&q, b, sizeof q);
    return (p > q) - (p < q);
}

static sg_code scan_demos(scan *s, hid_t data) {
    sg_bytes numbers = {.limit = (size_t)1 << 30};
    hsize_t at = 0;
    sg_code code = SG_OK;
    if (H5Literate(data, H5_INDEX_NAME, H5_ITER_INC, &at, on_demo, &numbers) < 0)
        code = refuse(s, "data", "cannot be listed");
    size_t n = numbers.n / sizeof(uint32_t);
    if (code == SG_OK && n == 0) code = refuse(s, "data", "holds no demonstrations (demo_0, demo_1, ...)");
    if (code == SG_OK) qsort(numbers.data, n, sizeof(uint32_t), by_number);
    for (size_t i = 0; code == SG_OK && i < n; i++) {
        uint32_t number;
        memcpy(&number, numbers.data + i * sizeof number, sizeof number);
        code = scan_demo(s, data, number);
    }
    free(numbers.data);
    return code;
}

/* ---- ALOHA ---- */

static sg_code scan_aloha(scan *s, hid_t file, hid_t observations) {
    hid_t images = open_as(observations, "images", H5I_GROUP);
    sg_code code = SG_OK;
    if (!s->begun) {
        s->head.kind = SG_DATASET_ALOHA;
        if (images >= 0) code = find_cameras(s, images);
        add_state(s, observations, "qpos");
    }
    int64_t frames = 0;
    if (code == SG_OK) code = count_frames(s, images, observations, file, "action", &frames);
    leave(images);
    return code == SG_OK ? put_demo(s, 0, frames) : code;
}

/* ---- files ---- */

static sg_code scan_content(scan *s, hid_t file) {
    hid_t data = open_as(file, "data", H5I_GROUP), observations = open_as(file, "observations", H5I_GROUP);
    bool may_be_demos = !s->begun || s->head.kind != SG_DATASET_ALOHA;
    bool may_be_aloha = !s->begun || s->head.kind == SG_DATASET_ALOHA;
    sg_code code;
    if (data >= 0 && may_be_demos)
        code = scan_demos(s, data);
    else if (observations >= 0 && may_be_aloha)
        code = scan_aloha(s, file, observations);
    else if (s->begun)
        code = sg_fail(s->status, SG_BAD_INPUT, "%.400s is of another kind than the files before it", s->path);
    else
        code = sg_fail(s->status, SG_BAD_INPUT,
                       "%.400s holds no demonstrations of a known kind: no /data/demo_0 (robomimic, LIBERO) and no "
                       "/observations (ALOHA)",
                       s->path);
    leave(observations);
    leave(data);
    return code;
}

static sg_code scan_file(scan *s) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    if (access >= 0) {
        (void)H5Pset_file_locking(access, false, true); /* read-only mounts have no locks */
        file = H5Fopen(s->path, H5F_ACC_RDONLY, access);
        (void)H5Pclose(access);
    }
    if (file < 0)
        return sg_fail(s->status, SG_BAD_INPUT, "%.400s is no HDF5 file, or it is damaged or not complete", s->path);
    sg_code code = scan_content(s, file);
    (void)H5Fclose(file);
    return code;
}

static sg_code scan_folder(scan *s, const char *folder, const sg_name_list *files) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < files->n; i++) {
        char name[260], path[800];
        if (!sg_names_get(files, i, name, sizeof name)) continue;
        code = sg_catalogue_join(path, sizeof path, folder, name, s->status);
        s->path = path;
        s->file = (uint32_t)i;
        if (code == SG_OK) code = scan_file(s);
        s->path = folder;
    }
    return code;
}

sg_code sg_demos_scan(const char *path, const sg_name_list *files, sg_bytes *answer, sg_status *status) {
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    (void)H5PLset_loading_state(0);
    scan s = {.answer = answer, .status = status, .path = path};
    s.cameras = calloc(SG_CAMERAS_MOST, sizeof *s.cameras);
    if (!s.cameras) return sg_fail_memory(status, SG_CAMERAS_MOST * sizeof *s.cameras, "cameras");
    sg_code code = files ? scan_folder(&s, path, files) : scan_file(&s);
    free(s.cameras);
    return code;
}
