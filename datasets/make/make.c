/* dataset make: what may be asked for, the folder, and that nothing half-made stays behind. */
#include "datasets/make/make_internal.h"
#include "datasets/tables/tables.h"
#include "kernels/nearest.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct make_kind {
    const char *name;
    const char *codecs[4]; /* the first is the default; NULL at the end */
    sg_code (*make)(sg_make *make, sg_status *status);
} make_kind;

static const make_kind kinds[] = {
    {"lerobot-v2.0", {"av1", "h264", "png"}, sg_make_lerobot},
    {"lerobot-v2.1", {"av1", "h264", "png"}, sg_make_lerobot},
    {"lerobot-v3.0", {"av1", "h264", "png"}, sg_make_lerobot},
    {"images", {"png", "jpeg"}, sg_make_images},
    {"robomimic", {"raw"}, sg_make_robomimic},
    {"aloha", {"raw", "jpeg"}, sg_make_aloha},
    {"libero", {"raw"}, sg_make_libero},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static sg_code find_kind(const char *name, const make_kind **kind, sg_status *status) {
    const char *known[KINDS];
    for (size_t i = 0; i < KINDS; i++) {
        known[i] = kinds[i].name;
        if (name && strcmp(name, known[i]) == 0) {
            *kind = &kinds[i];
            return SG_OK;
        }
    }
    const char *near = name ? sg_nearest(name, known, KINDS) : NULL;
    return sg_fail(status, SG_BAD_INPUT,
                   "--kind %.64s%s%s%s: lerobot-v2.0, lerobot-v2.1, lerobot-v3.0, images, robomimic, aloha and libero "
                   "can be made",
                   name ? name : "is missing", near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static sg_code find_codec(const make_kind *kind, const char **codec, sg_status *status) {
    char list[64] = "";
    size_t used = 0;
    for (size_t i = 0; kind->codecs[i]; i++) {
        if (!*codec) *codec = kind->codecs[0];
        if (strcmp(*codec, kind->codecs[i]) == 0) {
            *codec = kind->codecs[i];
            return SG_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", kind->codecs[i]);
    }
    return sg_fail(status, SG_BAD_INPUT, "--codec %.32s: %s is made with %s", *codec, kind->name, list);
}

/* *value: 0 stands for `normal`. */
static sg_code bounded(const char *option, int64_t *value, int64_t normal, int64_t low, int64_t high,
                       sg_status *status) {
    if (*value == 0) *value = normal;
    if (*value >= low && *value <= high) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s %lld: from %lld to %lld are expected", option, (long long)*value,
                   (long long)low, (long long)high);
}

/* The bounds keep a mistyped number from filling a disk; inside them every product of two fits 64 bits. */
static sg_code resolve(const make_kind *kind, sg_make_options *o, sg_status *status) {
    /* AV1_LEAST: SVT-AV1 1.4 refuses smaller frames (its EbEncSettings.c: "Source Width must be at least 64") */
    enum { FRAMES_MOST = 1000000, NUMBERS_MOST = 50000000, AV1_LEAST = 64 };
    sg_code code = find_codec(kind, &o->codec, status);
    if (code == SG_OK) code = bounded("--episodes", &o->episodes, 4, 1, 10000, status);
    if (code == SG_OK) code = bounded("--frames-per-episode", &o->frames_per_episode, 50, 1, 100000, status);
    if (code == SG_OK) code = bounded("--cameras", &o->cameras, 2, 1, 16, status);
    if (code == SG_OK) code = bounded("--image-size (height)", &o->height, 480, 16, 4096, status);
    if (code == SG_OK) code = bounded("--image-size (width)", &o->width, 640, 16, 4096, status);
    if (code == SG_OK) code = bounded("--state-dim", &o->state_dim, 6, 1, 1000, status);
    if (code == SG_OK) code = bounded("--action-dim", &o->action_dim, 6, 1, 1000, status);
    if (code == SG_OK) code = bounded("--gop", &o->gop, 2, 1, 1000, status);
    if (code != SG_OK) return code;
    if (o->fps == 0) o->fps = 30;
    if (!(o->fps >= 1 && o->fps <= 1000) || o->fps != floor(o->fps))
        return sg_fail(status, SG_BAD_INPUT, "--fps %g: a whole number from 1 to 1000 is expected", o->fps);
    int64_t frames = o->episodes * o->frames_per_episode;
    if (frames > FRAMES_MOST)
        return sg_fail(status, SG_BAD_INPUT, "--episodes %lld of --frames-per-episode %lld: at most %d frames are made",
                       (long long)o->episodes, (long long)o->frames_per_episode, FRAMES_MOST);
    if (frames * (o->state_dim + o->action_dim) > NUMBERS_MOST)
        return sg_fail(status, SG_BAD_INPUT,
                       "--state-dim %lld and --action-dim %lld in %lld frames: at most %d numbers are made",
                       (long long)o->state_dim, (long long)o->action_dim, (long long)frames, NUMBERS_MOST);
    bool video = strcmp(o->codec, "av1") == 0 || strcmp(o->codec, "h264") == 0;
    if (video && (o->height % 2 || o->width % 2))
        return sg_fail(status, SG_BAD_INPUT, "--image-size %lldx%lld: video (yuv420p) needs even numbers",
                       (long long)o->height, (long long)o->width);
    if (strcmp(o->codec, "av1") == 0 && (o->height < AV1_LEAST || o->width < AV1_LEAST))
        return sg_fail(
            status, SG_BAD_INPUT,
            "--image-size %lldx%lld: AV1's encoder takes %d pixels a side or more: --codec h264 is for smaller "
            "frames",
            (long long)o->height, (long long)o->width, AV1_LEAST);
    return SG_OK;
}

/* *existed: the folder was there, empty. */
static sg_code take_folder(const char *path, bool *existed, sg_status *status) {
    enum { LONGEST = 480 }; /* a catalogue's path with room for what lies below */
    if (!*path || strlen(path) > LONGEST)
        return sg_fail(status, SG_BAD_INPUT, "a folder's path of 1 to %d bytes is expected: '%.80s'", LONGEST, path);
    *existed = false;
    if (mkdir(path, 0777) == 0) return SG_OK;
    if (errno != EEXIST)
        return sg_fail(status, errno == ENOENT || errno == ENOTDIR || errno == EACCES ? SG_BAD_INPUT : SG_MACHINE,
                       "cannot make the folder %s: %s", path, strerror(errno));
    DIR *folder = opendir(path);
    if (!folder)
        return sg_fail(status, SG_BAD_INPUT, "%s is there and cannot be filled: %s: give a new folder", path,
                       strerror(errno));
    *existed = true;
    bool empty = true;
    for (const struct dirent *entry; empty && (entry = readdir(folder));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    (void)closedir(folder);
    if (empty) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "the folder %s is not empty: give a new one, nothing is overwritten", path);
}

/* Libraries are asked for before anything is written. */
static sg_code open_codec(sg_make *make, sg_status *status) {
    char why[512];
    if (strncmp(make->o.kind, "lerobot", 7) == 0 && !sg_tables_possible(why, sizeof why))
        return sg_fail(status, SG_MACHINE, "%s has its rows in Parquet tables: %s", make->o.kind, why);
    if (strcmp(make->o.codec, "raw") == 0) return SG_OK;
    bool image = strcmp(make->o.codec, "png") == 0 || strcmp(make->o.codec, "jpeg") == 0;
    return image ? sg_codec_open("image", &make->image, status) : sg_codec_open("video", &make->video, status);
}

static sg_code fill(sg_make *make, const make_kind *kind, sg_status *status) {
    size_t bytes = 3 * (size_t)make->o.height * (size_t)make->o.width;
    make->rgb = malloc(bytes);
    sg_code code = make->rgb ? sg_make_rows_new(make, status) : sg_fail_memory(status, bytes, "a frame");
    if (code == SG_OK) code = kind->make(make, status);
    sg_scene_free(make->scene);
    sg_make_rows_free(&make->rows);
    free(make->rgb);
    return code;
}

sg_code sg_dataset_make(const char *path, const sg_make_options *options, sg_status *status) {
    sg_make make = {.path = path, .o = *options};
    const make_kind *kind = NULL;
    sg_code code = find_kind(options->kind, &kind, status);
    if (code == SG_OK) code = resolve(kind, &make.o, status);
    if (code == SG_OK) code = open_codec(&make, status);
    bool existed = false;
    if (code == SG_OK) code = take_folder(path, &existed, status);
    if (code != SG_OK) return code;
    make.frames = make.o.episodes * make.o.frames_per_episode;
    code = fill(&make, kind, status);
    if (code != SG_OK) sg_make_remove(path, existed);
    return code;
}
