/* convolution.c: convolutions and their gradients on the host, accumulated in double. */
#include "tests/emulation/convolution.h"
#include "tests/emulation/emulation.h"

#include <stdlib.h>
#include <string.h>

static size_t span_bytes(const sg_emu_tensor *t) {
    int64_t last = 1;
    for (int d = 0; d < 4; d++) last += (t->size[d] - 1) * t->stride[d];
    return (size_t)last * sg_emu_type_bytes(t->type);
}

bool sg_emu_convolution_is_sound(const sg_emu_convolution *c) {
    for (int i = 0; i < SG_EMU_TENSORS; i++)
        if (!sg_emu_is_device_memory(c->tensor[i].at, span_bytes(&c->tensor[i]))) return false;
    return sg_emu_is_device_memory(c->workspace, c->workspace_bytes);
}

static int64_t count_of(const sg_emu_tensor *t) {
    return t->size[0] * t->size[1] * t->size[2] * t->size[3];
}

static int64_t place(const sg_emu_tensor *t, int64_t i) {
    int64_t at = 0;
    for (int d = 3; d >= 0; d--) {
        at += i % t->size[d] * t->stride[d];
        i /= t->size[d];
    }
    return at;
}

static double *take(const sg_emu_tensor *t, bool empty, sg_emu_rounding rounding) {
    double *values = calloc((size_t)count_of(t), sizeof *values);
    for (int64_t i = 0; values && !empty && i < count_of(t); i++)
        values[i] = sg_emu_round(sg_emu_read(t->at, t->type, place(t, i)), rounding);
    return values;
}

/* One plane of x with one plane of y, through one tap of the weights: v[0] x, v[1] the weight, v[2] y. */
static void pair(const sg_emu_convolution *c, double *x, double *w, double *y, int64_t r, int64_t s) {
    int64_t height = c->tensor[SG_EMU_X].size[2], width = c->tensor[SG_EMU_X].size[3];
    int64_t rows = c->tensor[SG_EMU_Y].size[2], columns = c->tensor[SG_EMU_Y].size[3];
    for (int64_t i = 0; i < rows; i++) {
        int64_t h = i * c->stride[0] + r - c->pad[0];
        if (h < 0 || h >= height) continue;
        for (int64_t j = 0; j < columns; j++) {
            int64_t v = j * c->stride[1] + s - c->pad[1];
            if (v < 0 || v >= width) continue;
            double *xs = &x[h * width + v], *ys = &y[i * columns + j];
            switch (c->direction) {
            case SG_EMU_FORWARD: *ys += *xs * *w; break;
            case SG_EMU_TO_DATA: *xs += *ys * *w; break;
            case SG_EMU_TO_WEIGHTS: *w += *ys * *xs; break;
            }
        }
    }
}

static void compute(const sg_emu_convolution *c, double *v[SG_EMU_TENSORS]) {
    const int64_t *x = c->tensor[SG_EMU_X].size, *w = c->tensor[SG_EMU_W].size, *y = c->tensor[SG_EMU_Y].size;
    for (int64_t n = 0; n < x[0]; n++)
        for (int64_t o = 0; o < w[0]; o++)
            for (int64_t k = 0; k < w[1]; k++)
                for (int64_t r = 0; r < w[2]; r++)
                    for (int64_t s = 0; s < w[3]; s++)
                        pair(c, v[SG_EMU_X] + (n * x[1] + k) * x[2] * x[3],
                             v[SG_EMU_W] + ((o * w[1] + k) * w[2] + r) * w[3] + s,
                             v[SG_EMU_Y] + (n * y[1] + o) * y[2] * y[3], r, s);
}

static bool run(void *work) {
    sg_emu_convolution *c = work;
    static const int results[] = {SG_EMU_Y, SG_EMU_X, SG_EMU_W};
    int result = results[c->direction];
    if (!sg_emu_convolution_is_sound(c)) {
        sg_emu_report_fault("a convolution reads or writes memory that was freed");
        return false;
    }
    if (c->workspace) memset(c->workspace, 0xff, c->workspace_bytes);
    bool fine = true;
    for (int repeat = 0; repeat < c->repeats && fine; repeat++) {
        double *v[SG_EMU_TENSORS];
        for (int i = 0; i < SG_EMU_TENSORS; i++) {
            v[i] = take(&c->tensor[i], i == result, c->rounding);
            fine = fine && v[i];
        }
        if (fine) compute(c, v);
        const sg_emu_tensor *t = &c->tensor[result];
        for (int64_t i = 0; fine && i < count_of(t); i++) sg_emu_write(t->at, t->type, place(t, i), v[result][i]);
        for (int i = 0; i < SG_EMU_TENSORS; i++) free(v[i]);
    }
    return fine;
}

cudaError_t sg_emu_convolution_enqueue(const sg_emu_convolution *c, cudaStream_t stream) {
    sg_emu_convolution *copy = malloc(sizeof *copy);
    if (!copy) return cudaErrorMemoryAllocation;
    *copy = *c;
    return sg_emu_enqueue(stream, "convolution", run, free, copy);
}
