/* loader.h: the data loader: workers that decode frames and collate batches ahead of the step.
 *
 * Like PyTorch's DataLoader: a worker makes a whole batch, batches are delivered in order, and at most prefetch x workers
 * are under way or ready. Three kinds:
 * - synthetic: workers are threads. A frame costs what a real one costs: it is entropy-decoded, inverse-transformed and
 *   converted to RGB (sim/loader/frame_codec.h);
 * - real (`source`): workers are processes, which read the samples of a data set, shuffled anew in each epoch, into shared
 *   memory; on a device with pinned memory a thread copies each batch there (sim/loader/loader_real.c). Files are read in workers
 *   alone: without workers the caller waits while a process makes its batch;
 * - simulated: the same queue is played through on the caller's clock, and nothing runs. */
#ifndef SG_SIM_LOADER_LOADER_H
#define SG_SIM_LOADER_LOADER_H

#include "kernels/device.h"
#include "models/training.h"

struct sg_loader_record; /* sim/measure/point.h */
struct sg_sample_source; /* sim/loader/sample_source.h */

typedef struct sg_loader sg_loader;

/* Requests to a worker process and its answers wait in its socket, which holds some 90 answers (Linux: 212992 bytes, 2304 for
 * each): with more under way, both sides would wait for each other. */
enum { SG_PREFETCH_MAX = 64 };

typedef struct sg_loader_options {
    const sg_training *training; /* inputs that travel; frames = batch x cameras x frames_per_sample */
    int workers;                 /* threads or processes; 0: each batch is made when the caller asks for it */
    int prefetch;                /* batches per worker; 0 = 4 (LeRobot's prefetch_factor) */
    uint64_t seed;
    int rank, ranks;
    /* the device that batches go to: its pinned memory holds them, where it has such; NULL: any memory. Not for real
     * batches, whose workers had better start before a device is opened: sg_loader_use_device. */
    const sg_device_api *api;
    sg_device *device;
    const struct sg_sample_source *source; /* of real batches; must outlive the loader; NULL: synthetic ones */
    double hang_s;                         /* real: a worker that reads nothing for so long is given up; 0 = 120 */
    volatile const int
        *stop;       /* real: set by a signal handler, then a batch that is not nearly there is not waited for */
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
 * valid until the next call; NULL altogether when simulated. Real batches can fail: SG_BAD_INPUT names a file that cannot be
 * read, SG_MACHINE a worker that died or hangs, or says "interrupted". now: the caller's clock. *wait_s: seconds that the caller
 * still has to let pass on that clock (simulated), else 0. One caller at a time. */
sg_code sg_loader_next(sg_loader *loader, double now, void *const **data, double *wait_s, sg_status *status);

/* Real batches: from here on they come in the pinned memory of this device, where it has such. Before the first is taken. */
sg_code sg_loader_use_device(sg_loader *loader, const sg_device_api *api, sg_device *device, sg_status *status);
/* Real batches: the epoch of the next one, from 0. */
int64_t sg_loader_epoch(const sg_loader *loader);
/* Real batches: what is recorded begins anew; then the loader's part of the record, over the batches taken since. Zeros for
 * other batches. */
void sg_loader_count_from_here(sg_loader *loader);
void sg_loader_tell(const sg_loader *loader, struct sg_loader_record *record);
/* Real batches: processor seconds that the worker processes have taken so far; else 0: threads are this process. */
double sg_loader_processes_s(const sg_loader *loader);
/* Real batches: process id of a worker (tests); else 0. */
int sg_loader_process(const sg_loader *loader, int worker);

/* Median processor seconds of one worker per frame, of the latest 64 (simulated: as given); 0 before the first frame. */
double sg_loader_frame_s(sg_loader *loader);

#endif
