/* convolution.h: what the emulated cuDNN computes. */
#ifndef SG_TESTS_EMULATION_CONVOLUTION_H
#define SG_TESTS_EMULATION_CONVOLUTION_H

#include "tests/emulation/numbers.h"

#include <stdbool.h>

typedef enum sg_emu_direction { SG_EMU_FORWARD, SG_EMU_TO_DATA, SG_EMU_TO_WEIGHTS } sg_emu_direction;
enum { SG_EMU_X, SG_EMU_W, SG_EMU_Y, SG_EMU_TENSORS };

typedef struct sg_emu_tensor {
    void *at;
    cudaDataType type;
    int64_t size[4], stride[4];
} sg_emu_tensor;

typedef struct sg_emu_convolution {
    sg_emu_direction direction;
    sg_emu_tensor tensor[SG_EMU_TENSORS];
    int64_t pad[2], stride[2];
    sg_emu_rounding rounding;
    int repeats;     /* a slow engine computes more than once */
    void *workspace; /* overwritten, as a real one would be */
    size_t workspace_bytes;
} sg_emu_convolution;

/* All three tensors and the workspace lie in device memory. */
bool sg_emu_convolution_is_sound(const sg_emu_convolution *c);
/* Takes a copy and queues it. */
cudaError_t sg_emu_convolution_enqueue(const sg_emu_convolution *c, cudaStream_t stream);

#endif
