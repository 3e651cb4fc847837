/* reader.c: whole samples, and what reading them cost. */
#include "datasets/reader/reader_own.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* LeRobot's defaults: decoders in its cache, and the tolerance of a frame's time (facts of its loader, 2026-08). FILES_KEPT:
 * Parquet and HDF5 files, each. */
enum { DECODERS_KEPT = 100, FILES_KEPT = 100, STEPS_MAX = 100000, SIDE_MAX = 65536 };
#define TOLERANCE_S     1e-4
#define FRAME_BYTES_MAX ((size_t)1 << 30)

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static sg_code check_options(const sg_reader_options *o, size_t n_cameras, sg_status *status) {
    if (o->frames_per_sample < 1 || o->frames_per_sample > STEPS_MAX || o->action_rows < 1 ||
        o->action_rows > STEPS_MAX)
        return sg_fail(status, SG_BAD_INPUT,
                       "%lld frames per sample and %lld rows of actions: there are 1 to %d of each",
                       (long long)o->frames_per_sample, (long long)o->action_rows, STEPS_MAX);
    if (o->cameras < 0 || (uint64_t)o->cameras > n_cameras)
        return sg_fail(status, SG_BAD_INPUT, "%lld cameras asked for, the data set has %zu", (long long)o->cameras,
                       n_cameras);
    if (o->decoders_kept < 1 || o->decoders_kept > STEPS_MAX || !(o->tolerance_s > 0))
        return sg_fail(status, SG_BAD_INPUT, "%lld decoders kept, tolerance of %g s: both are positive",
                       (long long)o->decoders_kept, o->tolerance_s);
    return SG_OK;
}

static sg_code frame_room(const sg_catalogue *catalogue, size_t n_cameras, size_t *bytes, sg_status *status) {
    *bytes = 1;
    for (size_t i = 0; i < n_cameras; i++) {
        const sg_camera *camera = &catalogue->cameras[i];
        bool sound = camera->height > 0 && camera->height <= SIDE_MAX && camera->width > 0 && camera->width <= SIDE_MAX;
        size_t own = sound ? 3 * (size_t)camera->height * (size_t)camera->width : 0;
        if (!sound || own > FRAME_BYTES_MAX)
            return sg_fail(status, SG_BAD_INPUT, "camera %s of %.300s has frames of %lld x %lld: that is no size",
                           camera->name, catalogue->path, (long long)camera->height, (long long)camera->width);
        if (own > *bytes) *bytes = own;
    }
    return SG_OK;
}

/* Zeros where there is nothing to read. */
static float *rows_room(int64_t rows, int64_t dim) {
    return dim < 0 || dim > SIDE_MAX ? NULL : calloc((size_t)rows * (size_t)dim + 1, sizeof(float));
}

static sg_code make_room(sg_reader *reader, sg_status *status) {
    const sg_dataset *info = &reader->catalogue->info;
    size_t bytes = 0;
    sg_code code = frame_room(reader->catalogue, reader->n_cameras, &bytes, status);
    if (code != SG_OK) return code;
    reader->frame = malloc(bytes);
    reader->turned = malloc(bytes);
    reader->state = rows_room(reader->options.frames_per_sample, info->state_dim);
    reader->action = rows_room(reader->options.action_rows, info->action_dim);
    reader->numbers = calloc((size_t)SIDE_MAX, sizeof *reader->numbers);
    if (reader->frame && reader->turned && reader->state && reader->action && reader->numbers) return SG_OK;
    return sg_fail_memory(status, 2 * (unsigned long long)bytes, "a reader's frames and rows");
}

static void close_table(void *table) {
    sg_table_close(table);
}

sg_code sg_reader_open(const sg_catalogue *catalogue, const sg_reader_options *options, sg_reader **reader,
                       sg_status *status) {
    *reader = NULL;
    sg_reader *opened = calloc(1, sizeof *opened);
    if (!opened) return sg_fail_memory(status, sizeof *opened, "a reader");
    opened->catalogue = catalogue;
    opened->options = *options;
    sg_reader_options *o = &opened->options;
    if (o->frames_per_sample == 0) o->frames_per_sample = 1;
    if (o->action_rows == 0) o->action_rows = 1;
    if (o->decoders_kept == 0) o->decoders_kept = DECODERS_KEPT;
    if (o->tolerance_s == 0) o->tolerance_s = TOLERANCE_S;
    opened->n_cameras = o->cameras ? (size_t)o->cameras : catalogue->n_cameras;
    sg_code code = check_options(o, catalogue->n_cameras, status);
    if (code == SG_OK) code = make_room(opened, status);
    if (code == SG_OK) code = sg_keep_start(&opened->tables, FILES_KEPT, close_table, status);
    if (code == SG_OK) code = sg_keep_start(&opened->files, FILES_KEPT, sg_hdf5_rows_close, status);
    if (code == SG_OK)
        *reader = opened;
    else
        sg_reader_close(opened);
    return code;
}

void sg_reader_close(sg_reader *reader) {
    if (!reader) return;
    sg_keep_end(&reader->videos);
    sg_keep_end(&reader->tables);
    sg_keep_end(&reader->files);
    free(reader->frame);
    free(reader->turned);
    free(reader->encoded);
    free(reader->numbers);
    free(reader->state);
    free(reader->action);
    free(reader);
}

/* ---- what it costs ------------------------------------------------------------------------------------------------- */

static double clock_s(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes that this thread has read so far, from files or the page cache; 0 where the kernel does not count. `own`: those of
 * asking. */
static int64_t bytes_read(int64_t *own) {
    char text[256];
    int fd = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    *own = n;
    return strncmp(text, "rchar:", 6) == 0 ? strtoll(text + 6, NULL, 10) : 0;
}

/* ---- samples ------------------------------------------------------------------------------------------------------- */

static sg_code read_frames(sg_reader *reader, int64_t episode, int64_t frame, const sg_sample *sample,
                           sg_status *status) {
    int64_t steps = reader->options.frames_per_sample;
    for (size_t camera = 0; camera < reader->n_cameras; camera++)
        for (int64_t step = 0; step < steps; step++) {
            int64_t wanted = frame - (steps - 1 - step);
            uint8_t *to = sample->frames ? sample->frames[camera * (size_t)steps + (size_t)step] : NULL;
            sg_code code =
                sg_reader_frame(reader, camera, episode, wanted < 0 ? 0 : wanted, to ? to : reader->frame, status);
            if (code != SG_OK) return code;
        }
    return SG_OK;
}

static void hand_rows(const sg_reader *reader, const sg_sample *sample) {
    const sg_dataset *info = &reader->catalogue->info;
    size_t state = (size_t)reader->options.frames_per_sample * (size_t)info->state_dim;
    size_t action = (size_t)reader->options.action_rows * (size_t)info->action_dim;
    if (sample->state && state) memcpy(sample->state, reader->state, state * sizeof(float));
    if (sample->action && action) memcpy(sample->action, reader->action, action * sizeof(float));
}

sg_code sg_reader_sample(sg_reader *reader, int64_t frame, const sg_sample *sample, sg_read_cost *cost,
                         sg_status *status) {
    int64_t episode = sg_catalogue_episode(reader->catalogue, frame), asking = 0;
    if (episode < 0 || (size_t)episode >= reader->catalogue->n_episodes)
        return sg_fail(status, SG_BAD_INPUT, "%.400s has %lld frames: there is no frame %lld", reader->catalogue->path,
                       (long long)reader->catalogue->first_frame[reader->catalogue->n_episodes], (long long)frame);
    int64_t within = frame - reader->catalogue->first_frame[episode], opened = reader->opened;
    sg_decode_count decoded = reader->decoded;
    int64_t bytes = bytes_read(&asking);
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    sg_code code = sg_reader_rows(reader, episode, within, status);
    double cpu_rows = clock_s(CLOCK_THREAD_CPUTIME_ID), wall_rows = clock_s(CLOCK_MONOTONIC);
    if (code == SG_OK) code = read_frames(reader, episode, within, sample, status);
    if (code != SG_OK) return code;
    cost->frame_cpu_s += clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu_rows;
    cost->frame_wall_s += clock_s(CLOCK_MONOTONIC) - wall_rows;
    cost->table_cpu_s += cpu_rows - cpu;
    cost->table_wall_s += wall_rows - wall;
    cost->samples++;
    cost->frames += (int64_t)reader->n_cameras * reader->options.frames_per_sample;
    cost->frames_decoded += reader->decoded.frames_decoded - decoded.frames_decoded;
    cost->seeks += reader->decoded.seeks - decoded.seeks;
    cost->opened += reader->opened - opened;
    int64_t now = bytes_read(&(int64_t){0});
    if (now > bytes + asking) cost->bytes_read += now - bytes - asking;
    hand_rows(reader, sample);
    return SG_OK;
}
