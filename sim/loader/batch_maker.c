/* batch_maker.c: see batch_maker.h. */
#include "sim/loader/batch_maker.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "sim/walk/synthetic.h"

static const sg_desc *desc_of(const sg_training *t, size_t input) {
    return &t->tensors[t->inputs[input].tensor].desc;
}

/* u8 [samples, .., 3, height, width], in whatever strides. */
static bool holds_frames(const sg_training *t, size_t input) {
    const sg_desc *d = desc_of(t, input);
    return t->inputs[input].source == SG_INPUT_IMAGE && d->dtype == SG_U8 && d->ndim >= 4 && d->size[d->ndim - 3] == 3;
}

static bool same_size(const sg_training *t, size_t a, size_t b) {
    const sg_desc *x = desc_of(t, a), *y = desc_of(t, b);
    return x->size[x->ndim - 1] == y->size[y->ndim - 1] && x->size[x->ndim - 2] == y->size[y->ndim - 2];
}

/* The first input that shares this one's codec, or itself. */
static size_t owner_of(const sg_batch_maker *m, size_t input) {
    for (size_t i = 0; i < input; i++)
        if (m->codec[i] == m->codec[input]) return i;
    return input;
}

static sg_code make_codec(sg_batch_maker *m, size_t input, sg_status *status) {
    const sg_training *t = m->training;
    for (size_t i = 0; i < input; i++)
        if (m->codec[i] && same_size(t, i, input)) {
            m->codec[input] = m->codec[i];
            return SG_OK;
        }
    const sg_desc *d = desc_of(t, input);
    return sg_frame_codec_new(d->size[d->ndim - 2], d->size[d->ndim - 1], m->seed, &m->codec[input], status);
}

sg_code sg_batch_maker_open(const sg_training *training, uint64_t seed, int rank, int ranks, sg_batch_maker *maker,
                            sg_status *status) {
    *maker = (sg_batch_maker){.training = training, .seed = seed, .rank = rank, .ranks = ranks};
    maker->codec = calloc(training->n_inputs + 1, sizeof(sg_frame_codec *));
    if (!maker->codec) return sg_fail_memory(status, training->n_inputs * sizeof(sg_frame_codec *), "a loader");
    for (size_t i = 0; i < training->n_inputs; i++) {
        if (!holds_frames(training, i)) continue;
        sg_code code = make_codec(maker, i, status);
        if (code) {
            sg_batch_maker_close(maker);
            return sg_fail_in(status, "frames of input %s", training->inputs[i].name);
        }
    }
    return SG_OK;
}

void sg_batch_maker_close(sg_batch_maker *m) {
    if (!m->codec) return;
    for (size_t i = m->training->n_inputs; i-- > 0;)
        if (m->codec[i] && owner_of(m, i) == i) sg_frame_codec_free(m->codec[i]);
    free(m->codec);
    m->codec = NULL;
}

sg_code sg_batch_hand_open(const sg_batch_maker *m, sg_batch_hand *hand, sg_status *status) {
    size_t n = m->training->n_inputs;
    *hand = (sg_batch_hand){.decoder = calloc(n + 1, sizeof(sg_frame_decoder *)),
                            .frame_s = calloc(SG_BATCH_FRAMES_KEPT, sizeof *hand->frame_s)};
    sg_code code = SG_OK;
    if (!hand->decoder || !hand->frame_s)
        code = sg_fail_memory(status, n * sizeof(sg_frame_decoder *), "a loader's worker");
    for (size_t i = 0; i < n && !code; i++) {
        if (!m->codec[i]) continue;
        size_t owner = owner_of(m, i);
        if (owner < i)
            hand->decoder[i] = hand->decoder[owner];
        else
            code = sg_frame_decoder_new(m->codec[i], &hand->decoder[i], status);
    }
    if (code) sg_batch_hand_close(m, hand);
    return code;
}

void sg_batch_hand_close(const sg_batch_maker *m, sg_batch_hand *hand) {
    for (size_t i = 0; hand->decoder && i < m->training->n_inputs; i++)
        if (m->codec[i] && owner_of(m, i) == i) sg_frame_decoder_free(hand->decoder[i]);
    free(hand->decoder);
    free(hand->frame_s);
    *hand = (sg_batch_hand){0};
}

static bool is_pinned(const sg_batch_maker *m) {
    return m->api && m->api->host_alloc;
}

static sg_code take_memory(const sg_batch_maker *m, uint64_t bytes, void **memory, sg_status *status) {
    if (!bytes) bytes = 1;
    if (!is_pinned(m)) {
        *memory = calloc(1, bytes);
        return *memory ? SG_OK : sg_fail_memory(status, bytes, "a batch");
    }
    sg_code code = m->api->host_alloc(m->device, bytes, memory, status);
    if (!code) memset(*memory, 0, bytes);
    return code;
}

static void give_memory(const sg_batch_maker *m, void *memory) {
    if (is_pinned(m) && memory)
        m->api->host_free(m->device, memory);
    else
        free(memory);
}

sg_code sg_batch_new(const sg_batch_maker *m, void ***data, sg_status *status) {
    size_t n = m->training->n_inputs;
    void **d = calloc(n + 1, sizeof *d);
    if (!d) return sg_fail_memory(status, n * sizeof *d, "a batch");
    for (size_t i = 0; i < n; i++) {
        if (m->training->inputs[i].source == SG_INPUT_STORAGE) continue;
        sg_code code = take_memory(m, sg_desc_span_bytes(desc_of(m->training, i)), &d[i], status);
        if (code) {
            sg_batch_free(m, d);
            return sg_fail_in(status, "a batch's %s", m->training->inputs[i].name);
        }
    }
    *data = d;
    return SG_OK;
}

void sg_batch_free(const sg_batch_maker *m, void **data) {
    for (size_t i = 0; data && i < m->training->n_inputs; i++) give_memory(m, data[i]);
    free(data);
}

static void decode(const sg_batch_maker *m, sg_batch_hand *hand, size_t input, uint64_t choice, uint8_t *to) {
    const sg_desc *d = desc_of(m->training, input);
    double start = sg_clock_thread_s();
    sg_frame_decode(hand->decoder[input], (int)(choice % (uint64_t)sg_frame_codec_frames(m->codec[input])), to,
                    &d->stride[d->ndim - 3]);
    hand->frame_s[hand->frames++ % SG_BATCH_FRAMES_KEPT] = sg_clock_thread_s() - start;
}

/* Frames between the batch dim and the last three, counted in row-major order, of sample s. */
static void make_sample(const sg_batch_maker *m, sg_batch_hand *hand, size_t input, const sg_synthetic *what, int64_t s,
                        uint8_t *data) {
    const sg_desc *d = desc_of(m->training, input);
    int64_t frames = 1;
    for (int k = 1; k < d->ndim - 3; k++) frames *= d->size[k];
    for (int64_t f = 0; f < frames; f++) {
        int64_t offset = s * d->stride[0], rest = f;
        for (int k = d->ndim - 4; k >= 1; k--) {
            offset += rest % d->size[k] * d->stride[k];
            rest /= d->size[k];
        }
        uint64_t sample = (uint64_t)(what->first_sample + s);
        decode(m, hand, input, sg_synthetic_key(what->key, sample, (uint64_t)f), data + offset);
    }
}

void sg_batch_make(const sg_batch_maker *m, sg_batch_hand *hand, int64_t index, void **data, bool (*stop)(void *user),
                   void *user) {
    const sg_training *t = m->training;
    int64_t micro_steps = t->accumulation > 0 ? t->accumulation : 1;
    uint64_t step = m->fixed ? 1 : (uint64_t)(index / micro_steps) + 1;
    for (size_t i = 0; i < t->n_inputs; i++) {
        if (!data[i]) continue;
        sg_synthetic what = sg_synthetic_input(t, i, m->seed, step, index % micro_steps, m->rank, m->ranks);
        const sg_desc *d = desc_of(t, i);
        if (!m->codec[i]) {
            sg_synthetic_fill(data[i], d, &what);
            continue;
        }
        for (int64_t s = 0; s < d->size[0]; s++) {
            if (stop && stop(user)) return;
            make_sample(m, hand, i, &what, s, data[i]);
        }
    }
}
