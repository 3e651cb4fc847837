/* sample_source.h: where the samples of real batches come from. The loader's worker processes read them; it does not care what
 * they are. */
#ifndef SG_SIM_LOADER_SAMPLE_SOURCE_H
#define SG_SIM_LOADER_SAMPLE_SOURCE_H

#include "datasets/reader/reader.h"

typedef struct sg_sample_source {
    void *user;
    int64_t samples;   /* 0 .. samples - 1 */
    const bool *fills; /* per input of the training: it is filled by `read`; the others get synthetic values */
    /* In a worker process, once, before its first sample: what it alone holds (decoders, open files). */
    sg_code (*open)(void *user, void **hand, sg_status *status);
    /* Reads one sample and lays it into row `row` of the batch: data[input]. Adds to *cost. A failure names the file. */
    sg_code (*read)(void *hand, int64_t sample, int64_t row, void *const *data, sg_read_cost *cost, sg_status *status);
    /* Where a sample lies, for messages ("episode 3, frame 17: videos/..mp4"). In the training process. */
    void (*where)(void *user, int64_t sample, char *text, size_t bytes);
    uint64_t memory_bytes; /* that a worker may take at most beside what it was born with; 0: no limit */
} sg_sample_source;

#endif
