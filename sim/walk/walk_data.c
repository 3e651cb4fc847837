/* walk_data.c: what tensors hold: initial weights, zeros, synthetic inputs; and reading and writing them as doubles. */
#include <stdlib.h>
#include <string.h>

#include "sim/walk/convert.h"
#include "sim/walk/synthetic.h"
#include "sim/walk/walk_internal.h"

enum { KEY_WEIGHT = 1 }; /* apart from keys of other things */

static const uint64_t ZERO_CHUNK = 1u << 20;

/* ---- to the device ----------------------------------------------------------------------------------------------- */

static sg_code copy_in(sg_walker *w, void *to, const void *from, uint64_t bytes, sg_status *status) {
    sg_code code = w->api->copy(w->device, to, from, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status);
    return code ? code : w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
}

static sg_code zero(sg_walker *w, int32_t storage, void *zeros, sg_status *status) {
    uint64_t bytes = w->training->storages[storage].bytes;
    for (uint64_t at = 0; at < bytes; at += ZERO_CHUNK) {
        uint64_t n = bytes - at < ZERO_CHUNK ? bytes - at : ZERO_CHUNK;
        sg_code code = w->api->copy(w->device, w->live[storage].address + at, zeros, n, SG_COPY_TO_DEVICE,
                                    SG_STREAM_COMPUTE, status);
        if (code) return code;
    }
    return SG_OK;
}

/* All persistent storages that hold optimizer state (or all others), zeroed where the device executes. */
static sg_code take_persistent(sg_walker *w, bool state, sg_status *status) {
    const sg_training *t = w->training;
    void *zeros = w->info.executes ? calloc(1, ZERO_CHUNK) : NULL;
    if (w->info.executes && !zeros) return sg_fail_memory(status, ZERO_CHUNK, "zeros");
    sg_code code = SG_OK;
    for (size_t i = 0; i < t->n_storages && !code; i++) {
        if (!t->storages[i].persistent || w->live[i].address || (t->storages[i].role == SG_ROLE_OPTIMIZER) != state)
            continue;
        code = sg_walk_alloc(w, (int32_t)i, status);
        if (!code && zeros) code = zero(w, (int32_t)i, zeros, status);
    }
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    free(zeros);
    return code;
}

/* A host image of the tensor's span, filled and copied in. */
static sg_code fill(sg_walker *w, int32_t tensor, const sg_synthetic *what, sg_status *status) {
    const sg_tensor *x = &w->training->tensors[tensor];
    uint64_t bytes = sg_desc_span_bytes(&x->desc);
    char *address = w->live[x->storage].address;
    if (!bytes || !address) return SG_OK;
    void *host = calloc(1, bytes);
    if (!host) return sg_fail_memory(status, bytes, "values of a tensor");
    sg_synthetic_fill(host, &x->desc, what);
    sg_code code = copy_in(w, address + x->offset_bytes, host, bytes, status);
    free(host);
    return code;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Bound of the random part that `random_weights` adds to constants. */
static const double RANDOM_PART = 0.1;

/* A buffer without dims is a number in the program's formulas. */
static bool may_vary(const sg_parameter *p, const sg_desc *desc) {
    return sg_dtype_is_float((sg_dtype)desc->dtype) && !(p->is_buffer && desc->ndim == 0);
}

static sg_synthetic weight_values(const sg_walker *w, size_t i) {
    const sg_parameter *p = &w->training->parameters[i];
    sg_synthetic what = {.key = sg_synthetic_key(w->options.seed, KEY_WEIGHT, i), .first_sample = -1};
    switch (p->init_kind) {
    case SG_INIT_UNIFORM:
        what.kind = SG_SYNTHETIC_UNIFORM;
        what.low = -p->init_scale;
        what.high = p->init_scale;
        break;
    case SG_INIT_NORMAL:
        what.kind = SG_SYNTHETIC_NORMAL;
        what.high = p->init_scale;
        break;
    default:
        what.kind = SG_SYNTHETIC_CONSTANT;
        what.low = p->init_scale;
        if (w->options.random_weights && may_vary(p, &w->training->tensors[p->tensor].desc)) {
            what.kind = SG_SYNTHETIC_UNIFORM;
            what.low = p->init_scale - RANDOM_PART;
            what.high = p->init_scale + RANDOM_PART;
        }
        break;
    }
    return what;
}

static bool is_sharded(const sg_training *t, size_t parameter) {
    return t->n_shards > 0 && t->parameters[parameter].shard >= 0;
}

/* This rank's part of what the whole would hold. */
static sg_code fill_shard(sg_walker *w, size_t shard, sg_status *status) {
    const sg_training *t = w->training;
    const sg_shard *s = &t->shards[shard];
    const sg_tensor *part = &t->tensors[s->part], *whole = &t->tensors[s->whole];
    uint64_t bytes = sg_desc_span_bytes(&whole->desc), part_bytes = sg_desc_span_bytes(&part->desc);
    char *host = calloc(1, bytes ? bytes : 1);
    if (!host) return sg_fail_memory(status, bytes, "values of a shard");
    for (size_t i = 0; i < t->n_parameters; i++) {
        if (!is_sharded(t, i) || t->parameters[i].shard != (int32_t)shard) continue;
        const sg_tensor *x = &t->tensors[t->parameters[i].tensor];
        sg_synthetic what = weight_values(w, i);
        sg_synthetic_fill(host + x->offset_bytes, &x->desc, &what);
    }
    sg_code code = copy_in(w, w->live[part->storage].address + part->offset_bytes,
                           host + part_bytes * (uint64_t)w->options.rank, part_bytes, status);
    free(host);
    return code ? sg_fail_in(status, "initial values of shard %s", s->unit) : SG_OK;
}

static sg_code fill_weight(sg_walker *w, size_t i, sg_status *status) {
    const sg_parameter *p = &w->training->parameters[i];
    if (is_sharded(w->training, i)) return SG_OK;
    sg_synthetic what = weight_values(w, i);
    sg_code code = fill(w, p->tensor, &what, status);
    return code ? sg_fail_in(status, "initial values of %s", p->name) : SG_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static sg_synthetic input_values(const sg_walker *w, size_t input) {
    return sg_synthetic_input(w->training, input, w->options.seed, w->options.fixed_random ? 1 : w->step, w->draws,
                              w->options.rank, w->options.ranks);
}

sg_code sg_walk_draw(sg_walker *w, sg_status *status) {
    const sg_training *t = w->training;
    if (!w->info.executes) {
        w->draws++;
        return SG_OK;
    }
    if (w->copies_in_flight) { /* staging is still read */
        sg_code code = w->api->stream_wait(w->device, SG_STREAM_COPY, status);
        if (code) return code;
        w->copies_in_flight = false;
    }
    for (size_t i = 0; i < t->n_inputs; i++) {
        if (t->inputs[i].source == SG_INPUT_STORAGE) continue;
        sg_synthetic what = input_values(w, i);
        if (w->travels[i]) {
            if (w->staging[i]) sg_synthetic_fill(w->staging[i], &t->tensors[t->inputs[i].tensor].desc, &what);
            continue;
        }
        sg_code code = fill(w, t->inputs[i].tensor, &what, status);
        if (code) return sg_fail_in(status, "filling input %s", t->inputs[i].name);
    }
    w->draws++;
    return SG_OK;
}

static sg_code alloc_host(const sg_walker *w, uint64_t bytes, void **memory, sg_status *status) {
    if (w->api->host_alloc && w->api->host_free) {
        sg_code code = w->api->host_alloc(w->device, bytes ? bytes : 1, memory, status);
        if (!code) memset(*memory, 0, bytes);
        return code;
    }
    *memory = calloc(1, bytes ? bytes : 1);
    return *memory ? SG_OK : sg_fail_memory(status, bytes, "a batch");
}

void sg_walk_free_host(const sg_walker *w, void *memory) {
    if (w->api->host_alloc && w->api->host_free) {
        if (memory) w->api->host_free(w->device, memory);
    } else {
        free(memory);
    }
}

static sg_code make_staging(sg_walker *w, sg_status *status) {
    const sg_training *t = w->training;
    w->staging = calloc(t->n_inputs + 1, sizeof *w->staging);
    if (!w->staging) return sg_fail_memory(status, t->n_inputs * sizeof *w->staging, "staging");
    w->batch = w->staging;
    if (!w->info.executes || w->options.loader) return SG_OK;
    for (size_t i = 0; i < t->n_inputs; i++) {
        if (!w->travels[i]) continue;
        uint64_t bytes = sg_desc_span_bytes(&t->tensors[t->inputs[i].tensor].desc);
        sg_code code = alloc_host(w, bytes, &w->staging[i], status);
        if (code) return sg_fail_in(status, "host memory of input %s", t->inputs[i].name);
    }
    return SG_OK;
}

/* ---- persistent storages ------------------------------------------------------------------------------------------ */

sg_code sg_walk_persist(sg_walker *w, sg_status *status) {
    const sg_training *t = w->training;
    sg_code code = take_persistent(w, false, status);
    if (!code) code = make_staging(w, status);
    if (code || !w->info.executes) return code;
    for (size_t i = 0; i < t->n_parameters && !code; i++) code = fill_weight(w, i, status);
    for (size_t i = 0; i < t->n_shards && !code; i++) code = fill_shard(w, i, status);
    for (size_t i = 0; i < t->n_inputs && !code; i++) {
        if (t->inputs[i].source != SG_INPUT_STORAGE) continue;
        sg_synthetic what = input_values(w, i);
        code = fill(w, t->inputs[i].tensor, &what, status);
    }
    if (code) return code;
    /* single programs may run before any batch was asked for */
    code = sg_walk_draw(w, status);
    w->draws = 0;
    return code;
}

sg_code sg_walk_give_birth(sg_walker *w, sg_status *status) {
    sg_code code = take_persistent(w, true, status);
    if (!code) w->state_born = true;
    return code;
}

/* ---- reading and writing ------------------------------------------------------------------------------------------ */

static sg_code host_image(sg_walker *w, int32_t tensor, size_t count, void **image, uint64_t *bytes,
                          sg_status *status) {
    const sg_training *t = w->training;
    *image = NULL;
    *bytes = 0;
    if (tensor < 0 || (size_t)tensor >= t->n_tensors)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d of %zu", tensor, t->n_tensors);
    const sg_tensor *x = &t->tensors[tensor];
    if (!w->info.executes)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d: a %s device holds no values", tensor, w->info.kind);
    if (!w->live[x->storage].address)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d is not live: its storage %d was freed or not yet allocated",
                       tensor, x->storage);
    if (sg_desc_count(&x->desc) < 0 || (size_t)sg_desc_count(&x->desc) != count)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d has %lld elements, not %zu", tensor,
                       (long long)sg_desc_count(&x->desc), count);
    *bytes = sg_desc_span_bytes(&x->desc);
    *image = calloc(1, *bytes ? *bytes : 1);
    if (!*image) {
        (void)sg_fail_memory(status, *bytes, "values of a tensor");
        return SG_MACHINE;
    }
    sg_code code = w->api->copy(w->device, *image, w->live[x->storage].address + x->offset_bytes, *bytes,
                                SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status);
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    if (code) {
        free(*image);
        *image = NULL;
    }
    return code;
}

/* Element offset of the row-major element `e`. */
static int64_t offset_of(const sg_desc *d, int64_t e) {
    int64_t offset = 0;
    for (int k = d->ndim - 1; k >= 0; k--) {
        offset += e % d->size[k] * d->stride[k];
        e /= d->size[k];
    }
    return offset;
}

sg_code sg_walker_read(sg_walker *w, int32_t tensor, double *out, size_t count, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    void *image;
    uint64_t bytes;
    sg_code code = host_image(w, tensor, count, &image, &bytes, status);
    if (code || !image) return sg_fail_in(status, "reading");
    const sg_desc *d = &w->training->tensors[tensor].desc;
    for (size_t i = 0; i < count; i++) out[i] = sg_element_get(image, (sg_dtype)d->dtype, offset_of(d, (int64_t)i));
    free(image);
    return SG_OK;
}

sg_code sg_walker_write(sg_walker *w, int32_t tensor, const double *values, size_t count, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    void *image;
    uint64_t bytes;
    sg_code code = host_image(w, tensor, count, &image, &bytes, status);
    if (code || !image) return sg_fail_in(status, "writing");
    const sg_tensor *x = &w->training->tensors[tensor];
    for (size_t i = 0; i < count; i++)
        sg_element_set(image, (sg_dtype)x->desc.dtype, offset_of(&x->desc, (int64_t)i), values[i]);
    code = copy_in(w, w->live[x->storage].address + x->offset_bytes, image, bytes, status);
    free(image);
    if (!code && w->api->weights_changed) w->api->weights_changed(w->device);
    return code ? sg_fail_in(status, "writing tensor %d", tensor) : SG_OK;
}

sg_code sg_walker_keep(sg_walker *w, int32_t tensor, sg_status *status) {
    if (tensor < 0 || (size_t)tensor >= w->training->n_tensors)
        return sg_fail(status, SG_BAD_INPUT, "keeping tensor %d of %zu", tensor, w->training->n_tensors);
    if (w->options.graph)
        return sg_fail(status, SG_BAD_INPUT, "keeping tensor %d: recorded storages share places", tensor);
    if (w->options.placed_storages)
        return sg_fail(status, SG_BAD_INPUT, "keeping tensor %d: storages with fixed places share them", tensor);
    w->live[w->training->tensors[tensor].storage].keep = true;
    return SG_OK;
}
