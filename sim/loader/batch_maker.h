/* batch_maker.h: makes batches in host memory: camera frames are decoded, other inputs drawn. For the loader. */
#ifndef SG_SIM_LOADER_BATCH_MAKER_H
#define SG_SIM_LOADER_BATCH_MAKER_H

#include "kernels/device.h"
#include "models/training.h"
#include "sim/loader/frame_codec.h"

/* What threads share; read-only once made. */
typedef struct sg_batch_maker {
    const sg_training *training;
    uint64_t seed;
    int rank, ranks;
    bool fixed; /* every step gets the batch of the first */
    /* batches lie in this device's pinned memory, where it has such; NULL: any memory */
    const sg_device_api *api;
    sg_device *device;
    sg_frame_codec **codec; /* per input: NULL where it holds no camera frames; inputs of one size share one */
} sg_batch_maker;

/* One thread's hands. */
typedef struct sg_batch_hand {
    sg_frame_decoder **decoder; /* per input, shared as codecs are */
    double *frame_s;            /* processor seconds of this hand's latest frames, a ring */
    int64_t frames;             /* decoded so far */
} sg_batch_hand;
enum { SG_BATCH_FRAMES_KEPT = 64 };

sg_code sg_batch_maker_open(const sg_training *training, uint64_t seed, int rank, int ranks, sg_batch_maker *maker,
                            sg_status *status);
void sg_batch_maker_close(sg_batch_maker *maker);
sg_code sg_batch_hand_open(const sg_batch_maker *maker, sg_batch_hand *hand, sg_status *status);
void sg_batch_hand_close(const sg_batch_maker *maker, sg_batch_hand *hand);

/* Host memory of a batch: data[input], NULL where the input stays on the device. */
sg_code sg_batch_new(const sg_batch_maker *maker, void ***data, sg_status *status);
void sg_batch_free(const sg_batch_maker *maker, void **data);
/* Fills it with batch `index` (0 = first micro-step of step 1). Reads *stop between frames and leaves when it is true. */
void sg_batch_make(const sg_batch_maker *maker, sg_batch_hand *hand, int64_t index, void **data,
                   bool (*stop)(void *user), void *user);

#endif
