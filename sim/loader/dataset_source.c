#include "sim/loader/dataset_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where one camera's frames go. */
typedef struct camera_place {
    size_t input;
    int64_t first; /* its place among the input's cameras */
} camera_place;

struct sg_dataset_source {
    const sg_catalogue *catalogue;
    const sg_training *training;
    sg_sample_source samples;
    sg_reader_options reader;
    bool *fills;
    camera_place *cameras; /* [reader.cameras] */
    int state, action;     /* inputs, or -1 */
    int64_t state_first;   /* of the reader's rows of state, the first that the input holds */
};

/* A worker's. */
typedef struct hand {
    const sg_dataset_source *source;
    sg_reader *reader;
    sg_sample sample;
} hand;

/* Decoders and tables of a worker: LeRobot keeps 100 decoders, of some 20 MB each at 640 x 480 (dav1d, measured). */
static const uint64_t WORKER_BYTES = UINT64_C(4) << 30;

static const sg_desc *desc_of(const sg_training *t, size_t input) {
    return &t->tensors[t->inputs[input].tensor].desc;
}

/* ---- what goes where --------------------------------------------------------------------------------------------- */

static bool holds_frames(const sg_training *t, size_t input) {
    const sg_desc *d = desc_of(t, input);
    return t->inputs[input].source == SG_INPUT_IMAGE && d->dtype == SG_U8 && d->ndim >= 4 && d->size[d->ndim - 3] == 3;
}

/* Frames that an image input holds for each sample. */
static int64_t frames_per_row(const sg_training *t, size_t input) {
    const sg_desc *d = desc_of(t, input);
    int64_t images = 1;
    for (int k = 0; k < d->ndim - 3; k++) images *= d->size[k];
    return images / t->batch;
}

static sg_code place_cameras(sg_dataset_source *s, sg_status *status) {
    const sg_training *t = s->training;
    int64_t frames = s->reader.frames_per_sample, n = 0;
    for (size_t i = 0; i < t->n_inputs; i++)
        if (holds_frames(t, i)) n += frames_per_row(t, i) / frames;
    if (n == 0)
        return sg_fail(status, SG_BAD_INPUT, "%s looks at no camera: nothing of a data set is loaded for it",
                       t->policy);
    if (s->catalogue->n_cameras == 0)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s looks at %" PRId64 " cameras, data set %s has none that can be read%s%s", t->policy, n,
                       s->catalogue->name, s->catalogue->warning[0] ? ": " : "", s->catalogue->warning);
    if ((size_t)n > s->catalogue->n_cameras)
        return sg_fail(status, SG_BAD_INPUT, "%s looks at %" PRId64 " cameras, data set %s has %zu: take --cameras %zu",
                       t->policy, n, s->catalogue->name, s->catalogue->n_cameras, s->catalogue->n_cameras);
    s->reader.cameras = n;
    s->cameras = calloc((size_t)n, sizeof *s->cameras);
    if (!s->cameras) return sg_fail_memory(status, (size_t)n * sizeof *s->cameras, "cameras");
    size_t camera = 0;
    for (size_t i = 0; i < t->n_inputs; i++)
        for (int64_t k = 0; holds_frames(t, i) && k < frames_per_row(t, i) / frames; k++) {
            s->cameras[camera++] = (camera_place){i, k};
            s->fills[i] = true;
        }
    return SG_OK;
}

/* An input of floats with so many for each sample. */
static bool is_input(const sg_training *t, size_t i, const char *name, int64_t values) {
    const sg_desc *d = desc_of(t, i);
    return strcmp(t->inputs[i].name, name) == 0 && t->inputs[i].source == SG_INPUT_UNIFORM && d->dtype == SG_F32 &&
           d->ndim >= 2 && d->size[0] == t->batch && values > 0 && sg_desc_count(d) == t->batch * values &&
           sg_desc_span_bytes(d) == (uint64_t)sg_desc_count(d) * sizeof(float);
}

/* Inputs of another size (padded, or of a policy whose sizes were given) keep their synthetic values; the rows are read all
 * the same. */
static void place_rows(sg_dataset_source *s) {
    const sg_training *t = s->training;
    const sg_dataset *info = &s->catalogue->info;
    s->state = s->action = -1;
    for (size_t i = 0; i < t->n_inputs; i++) {
        const sg_desc *d = desc_of(t, i);
        bool chunk = strcmp(t->inputs[i].name, "action") == 0 && d->ndim == 3;
        if (chunk) s->reader.action_rows = d->size[1];
        if (!s->catalogue->has_tables) continue;
        bool one = is_input(t, i, "observation.state", info->state_dim);
        if (one || is_input(t, i, "observation.state", s->reader.frames_per_sample * info->state_dim))
            s->state = (int)i;
        if (one) s->state_first = s->reader.frames_per_sample - 1;
        int64_t rows = chunk ? d->size[1] : 1;
        if (is_input(t, i, "action", rows * info->action_dim)) s->action = (int)i;
    }
    if (s->state >= 0) s->fills[s->state] = true;
    if (s->action >= 0) s->fills[s->action] = true;
}

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

static void close_hand(hand *h) {
    int64_t frames = h->source->reader.cameras * h->source->reader.frames_per_sample;
    sg_reader_close(h->reader);
    for (int64_t i = 0; h->sample.frames && i < frames; i++) free(h->sample.frames[i]);
    free(h->sample.frames);
    free(h->sample.state);
    free(h->sample.action);
    free(h);
}

static sg_code take_memory(hand *h, sg_status *status) {
    const sg_dataset_source *s = h->source;
    const sg_dataset *info = &s->catalogue->info;
    size_t frames = (size_t)s->reader.frames_per_sample, n = (size_t)s->reader.cameras * frames;
    h->sample.frames = calloc(n, sizeof *h->sample.frames);
    size_t state = frames * (size_t)(info->state_dim > 0 ? info->state_dim : 1);
    size_t action = (size_t)(s->reader.action_rows > 0 ? s->reader.action_rows : 1) *
                    (size_t)(info->action_dim > 0 ? info->action_dim : 1);
    h->sample.state = calloc(state, sizeof(float));
    h->sample.action = calloc(action, sizeof(float));
    bool all = h->sample.frames && h->sample.state && h->sample.action;
    for (size_t i = 0; all && i < n; i++) {
        const sg_camera *c = &s->catalogue->cameras[i / frames];
        h->sample.frames[i] = calloc(3, (size_t)c->height * (size_t)c->width);
        all = h->sample.frames[i] != NULL;
    }
    return all ? SG_OK : sg_fail_memory(status, (state + action) * sizeof(float), "a sample");
}

static sg_code open_hand(void *user, void **opened, sg_status *status) {
    const sg_dataset_source *s = user;
    hand *h = calloc(1, sizeof *h);
    if (!h) return sg_fail_memory(status, sizeof *h, "a loader's worker");
    h->source = s;
    sg_code code = take_memory(h, status);
    if (!code) code = sg_reader_open(s->catalogue, &s->reader, &h->reader, status);
    if (code)
        close_hand(h);
    else
        *opened = h;
    return code;
}

/* One frame [3, height, width] into an input's image number `image`, in whatever strides that has. */
static void lay_frame(const sg_desc *d, int64_t image, const uint8_t *from, const sg_camera *camera, uint8_t *to) {
    int axis = d->ndim - 3;
    for (int k = axis - 1; k >= 0; k--) {
        to += image % d->size[k] * d->stride[k];
        image /= d->size[k];
    }
    int64_t height = camera->height < d->size[axis + 1] ? camera->height : d->size[axis + 1];
    int64_t width = camera->width < d->size[axis + 2] ? camera->width : d->size[axis + 2];
    const int64_t *stride = &d->stride[axis];
    for (int64_t c = 0; c < 3; c++)
        for (int64_t y = 0; y < height; y++) {
            const uint8_t *row = from + (c * camera->height + y) * camera->width;
            uint8_t *at = to + c * stride[0] + y * stride[1];
            if (stride[2] == 1)
                memcpy(at, row, (size_t)width);
            else
                for (int64_t x = 0; x < width; x++) at[x * stride[2]] = row[x];
        }
}

static void lay_rows(const sg_training *t, int input, int64_t row, const float *from, void *const *data) {
    if (input < 0) return;
    size_t values = (size_t)(sg_desc_count(desc_of(t, (size_t)input)) / t->batch);
    memcpy((float *)data[input] + (size_t)row * values, from, values * sizeof(float));
}

static sg_code read_sample(void *user, int64_t sample, int64_t row, void *const *data, sg_read_cost *cost,
                           sg_status *status) {
    const hand *h = user;
    const sg_dataset_source *s = h->source;
    sg_code code = sg_reader_sample(h->reader, sample, &h->sample, cost, status);
    if (code) return code;
    int64_t frames = s->reader.frames_per_sample;
    for (int64_t c = 0; c < s->reader.cameras; c++) {
        const camera_place *place = &s->cameras[c];
        const sg_desc *d = desc_of(s->training, place->input);
        int64_t first = row * frames_per_row(s->training, place->input) + place->first * frames;
        for (int64_t f = 0; f < frames; f++)
            lay_frame(d, first + f, h->sample.frames[c * frames + f], &s->catalogue->cameras[c], data[place->input]);
    }
    lay_rows(s->training, s->state, row, h->sample.state + s->state_first * s->catalogue->info.state_dim, data);
    lay_rows(s->training, s->action, row, h->sample.action, data);
    return SG_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void where(void *user, int64_t sample, char *text, size_t bytes) {
    const sg_dataset_source *s = user;
    int64_t episode = sg_catalogue_episode(s->catalogue, sample);
    if (episode < 0 || (size_t)episode >= s->catalogue->n_episodes) return;
    int64_t frame = sample - s->catalogue->first_frame[episode];
    sg_frame_place place;
    if (sg_catalogue_place(s->catalogue, 0, episode, frame, &place, NULL) != SG_OK) place.path[0] = '\0';
    (void)snprintf(text, bytes, "episode %" PRId64 ", frame %" PRId64 "%s%s", episode, frame, place.path[0] ? ": " : "",
                   place.path);
}

sg_code sg_dataset_source_open(const sg_catalogue *catalogue, const sg_training *training, sg_dataset_source **source,
                               sg_status *status) {
    *source = NULL;
    sg_dataset_source *s = calloc(1, sizeof *s);
    if (!s) return sg_fail_memory(status, sizeof *s, "a data set");
    *s = (sg_dataset_source){.catalogue = catalogue, .training = training};
    s->reader.frames_per_sample = training->frames_per_sample > 0 ? training->frames_per_sample : 1;
    s->fills = calloc(training->n_inputs + 1, sizeof *s->fills);
    if (!s->fills) {
        free(s);
        return sg_fail_memory(status, training->n_inputs * sizeof(bool), "inputs");
    }
    sg_code code = training->batch > 0 ? place_cameras(s, status)
                                       : sg_fail(status, SG_BAD_INPUT, "%s takes no batches", training->policy);
    if (code) {
        sg_dataset_source_close(s);
        return code;
    }
    place_rows(s);
    s->samples = (sg_sample_source){.user = s,
                                    .samples = catalogue->first_frame[catalogue->n_episodes],
                                    .fills = s->fills,
                                    .open = open_hand,
                                    .read = read_sample,
                                    .where = where,
                                    .memory_bytes = WORKER_BYTES};
    *source = s;
    return SG_OK;
}

void sg_dataset_source_close(sg_dataset_source *s) {
    if (!s) return;
    free(s->fills);
    free(s->cameras);
    free(s);
}

const sg_sample_source *sg_dataset_source_samples(const sg_dataset_source *s) {
    return &s->samples;
}
