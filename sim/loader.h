/* loader.h: the data loader: worker threads that decode synthetic frames and collate batches ahead of the step.
 *
 * Like PyTorch's DataLoader: a worker makes a whole batch, batches are delivered in order, and at most prefetch x workers
 * are under way or ready. A frame costs what a real one costs: it is entropy-decoded, inverse-transformed and converted
 * to RGB (sim/frame_codec.h). Simulated, the same queue is played through on the caller's clock without threads. */
#ifndef SG_SIM_LOADER_H
#define SG_SIM_LOADER_H

#include "kernels/device.h"
#include "models/training.h"

typedef struct sg_loader sg_loader;

typedef struct sg_loader_options {
    const sg_training *training; /* inputs that travel; frames = batch x cameras x frames_per_sample */
    int workers;                 /* threads; 0: batches are made in line by the caller */
    int prefetch;                /* batches per worker; 0 = 4 (LeRobot's prefetch_factor) */
    uint64_t seed;
    int rank, ranks;
    /* the device that batches go to: its pinned memory holds them, where it has such; NULL: any memory */
    const sg_device_api *api;
    sg_device *device;
    bool fixed;      /* tests: every step gets the batch of the first */
    bool simulated;  /* nothing runs; a batch costs frames x frame_s + sample_s x batch of one worker */
    double frame_s;  /* simulated: seconds per frame of one worker */
    double sample_s; /* simulated: seconds per sample beside its frames */
} sg_loader_options;

sg_code sg_loader_open(const sg_loader_options *options, sg_loader **loader, sg_status *status);
/* Stops and joins the workers. NULL is allowed. */
void sg_loader_close(sg_loader *loader);

/* Waits for the next batch: those of the micro-steps of optimizer step 1, then of step 2, and so on.
 * *data: per input of the training its host memory in the layout of the input's tensor, NULL where it stays on the device;
 * valid until the next call; NULL altogether when simulated. now: the caller's clock. *wait_s: seconds that the caller
 * still has to let pass on that clock (simulated), else 0. One caller at a time. */
sg_code sg_loader_next(sg_loader *loader, double now, void *const **data, double *wait_s, sg_status *status);

/* Median processor seconds of one worker per frame, of the latest 64 (simulated: as given); 0 before the first frame. */
double sg_loader_frame_s(sg_loader *loader);

#endif
