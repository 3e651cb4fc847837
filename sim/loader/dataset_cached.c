/* dataset_cached.c: the files of a data set, read once. Their bytes pass through this process, which looks into none of them. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/loader/dataset_source.h"
#include "sim/measure/host_state.h"

enum { PIECE = 1 << 20 };

/* Of what is free of memory, what the page cache may be filled to: the training needs the rest. */
static const double SHARE_OF_MEMORY = 0.6;

typedef struct visit {
    volatile const int *stop;
    char *piece; /* NULL: sizes are summed up only */
    uint64_t bytes;
} visit;

static bool is_stopped(const visit *v) {
    return v->stop && *v->stop;
}

/* A file that is missing or cannot be read is the workers' to tell. */
static void visit_file(visit *v, const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return;
    v->bytes += (uint64_t)info.st_size;
    if (!v->piece) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n;
    do n = read(fd, v->piece, PIECE);
    while (n > 0 && !is_stopped(v));
    (void)close(fd);
}

/* An episode's frames of one camera lie in one file, where images are not files of their own. */
static void visit_episode(visit *v, const sg_catalogue *c, size_t camera, int64_t episode, sg_frame_place *last) {
    int64_t frames = c->first_frame[episode + 1] - c->first_frame[episode];
    int64_t step = c->cameras[camera].store == SG_STORE_IMAGE_FILE ? 1 : frames > 1 ? frames - 1 : 1;
    sg_frame_place place;
    for (int64_t f = 0; f < frames && !is_stopped(v); f += step) {
        if (sg_catalogue_place(c, camera, episode, f, &place, NULL) != SG_OK) continue;
        if (strcmp(place.path, last->path) == 0) continue;
        *last = place;
        visit_file(v, place.path);
    }
}

/* Rows of state and action, where they lie in tables: files that frames of videos do not touch. */
static void visit_tables(visit *v, const sg_catalogue *c) {
    sg_row_place place = {.path = ""};
    char last[sizeof place.path] = "";
    for (size_t e = 0; c->has_tables && e < c->n_episodes && !is_stopped(v); e++) {
        if (sg_catalogue_row(c, (int64_t)e, 0, &place, NULL) != SG_OK || place.hdf5 || strcmp(place.path, last) == 0)
            continue;
        memcpy(last, place.path, sizeof last);
        visit_file(v, place.path);
    }
}

static bool frames_in_tables(const sg_catalogue *c) {
    for (size_t camera = 0; camera < c->n_cameras; camera++)
        if (c->cameras[camera].store == SG_STORE_TABLE) return true;
    return false;
}

static void visit_all(visit *v, const sg_catalogue *c) {
    v->bytes = 0;
    for (size_t camera = 0; camera < c->n_cameras; camera++) {
        sg_frame_place last = {.path = ""};
        for (size_t e = 0; e < c->n_episodes && !is_stopped(v); e++) visit_episode(v, c, camera, (int64_t)e, &last);
    }
    if (!frames_in_tables(c)) visit_tables(v, c);
}

sg_code sg_dataset_make_cached(const sg_catalogue *catalogue, volatile const int *stop, sg_status *status) {
    visit v = {.stop = stop};
    visit_all(&v, catalogue);
    double free_bytes = (double)sg_host_available_bytes();
    if (free_bytes > 0 && (double)v.bytes > SHARE_OF_MEMORY * free_bytes)
        return sg_fail(
            status, SG_NO,
            "data set %s takes %.1f GiB, %.1f GiB of memory are free: its files cannot all be cached; 'cold' is "
            "what a training will see (--layers cold)",
            catalogue->name, (double)v.bytes / 0x1p30, free_bytes / 0x1p30);
    v.piece = malloc(PIECE);
    if (!v.piece) return sg_fail_memory(status, PIECE, "reading a data set");
    visit_all(&v, catalogue);
    free(v.piece);
    return is_stopped(&v) ? sg_fail(status, SG_MACHINE, "interrupted") : SG_OK;
}
