/* reader.h: samples of a data set, read as the trainer's worker reads them: frames of every camera at the moments that the
 * policy looks at, the row of state, the rows of the action chunk. One reader per worker; it is the worker's alone.
 *
 * Files are decoded by libraries that may die of what others put into them: a reader of such files lives in a child process
 * with limits. Videos, tables and HDF5 files stay open, the least recently used goes. */
#ifndef SG_DATASETS_READER_READER_H
#define SG_DATASETS_READER_READER_H

#include "datasets/catalogue/catalogue.h"

typedef struct sg_reader_options {
    int64_t frames_per_sample; /* observation steps: this frame and those before it, 1 / fps apart; 0 = 1 */
    int64_t action_rows;   /* of the chunk, from this frame on; rows behind the episode's end repeat the last; 0 = 1 */
    int64_t cameras;       /* the first so many; 0: all */
    int64_t decoders_kept; /* open videos at most, the least recently used goes; 0 = 100 (LeRobot's bound) */
    double
        tolerance_s; /* of a frame's time; 0 = 1e-4 (LeRobot), widened to half a frame where a tick of the file's clock is longer */
} sg_reader_options;

/* What reading cost, added to. */
typedef struct sg_read_cost {
    int64_t samples, frames, frames_decoded, seeks, opened; /* opened: files */
    int64_t bytes_read; /* by this thread, from the disk or the page cache; 0 where the kernel does not count */
    double frame_cpu_s, frame_wall_s; /* of all frames */
    double table_cpu_s, table_wall_s;
} sg_read_cost;

/* Where the parts of a sample go; NULL: not wanted (it is read all the same). Frames lie camera by camera, oldest first; those
 * from before the episode's start repeat its first, as do rows of state. State and action are zeros where the data set has no
 * tables. */
typedef struct sg_sample {
    uint8_t **frames; /* [cameras x frames_per_sample]: each [3, height, width] */
    float *state;     /* [frames_per_sample x state_dim] */
    float *action;    /* [action_rows x action_dim] */
} sg_sample;

typedef struct sg_reader sg_reader;
sg_code sg_reader_open(const sg_catalogue *catalogue, const sg_reader_options *options, sg_reader **reader,
                       sg_status *status);
void sg_reader_close(sg_reader *reader); /* NULL is allowed */
/* frame: counted over all episodes. The cost of a sample that fails is not added. SG_BAD_INPUT: a damaged file, with its path;
 * the reader can go on. SG_MACHINE: memory, or a library that is missing, with the remedy. */
sg_code sg_reader_sample(sg_reader *reader, int64_t frame, const sg_sample *sample, sg_read_cost *cost,
                         sg_status *status);

#endif
