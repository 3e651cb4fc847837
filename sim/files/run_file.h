/* run_file.h: measured points on disk (docs/run-file.md). HDF5 behind a 512-byte user block with checksum.
 *
 * Reading verifies format, version, length and checksum before HDF5 sees a byte. Writing holds a lock, writes a temporary
 * in the same folder, fsyncs and renames: a point is durable when sg_run_file_append returns SG_OK, and a kill at any
 * moment leaves the old or the new file. */
#ifndef SG_SIM_FILES_RUN_FILE_H
#define SG_SIM_FILES_RUN_FILE_H

#include "kernels/status.h"
#include "sim/bench/micro.h"
#include "sim/measure/point.h"

typedef struct sg_run {
    sg_machine_record machine; /* of the last writer */
    sg_point *points;
    size_t n_points;
    sg_micro *micros; /* micro-benchmarks; files from before they existed have none */
    size_t n_micros;
} sg_run;

/* Points and micro-benchmarks in the order in which they were measured. SG_BAD_INPUT: not a sound run file (sg_h5tree_load), or a point lacks
 * something, is infinite or has another configuration than its key says. *run is empty on failure. */
sg_code sg_run_file_read(const char *path, sg_run *run, sg_status *status);
void sg_run_clear(sg_run *run);

typedef struct sg_run_writer sg_run_writer;
/* Creates the file (at once, without points) or opens it for appending; takes the lock until close (SG_BAD_INPUT names the
 * other writer). An existing file that sg_run_file_read would refuse is refused and left as it is. */
sg_code sg_run_writer_open(const char *path, const sg_machine_record *machine, sg_run_writer **writer,
                           sg_status *status);
/* A point whose key exists already replaces it and keeps its place in the order. Durable when SG_OK comes back; otherwise
 * the file is as before: SG_BAD_INPUT names the field that a file cannot hold, SG_MACHINE the disk's failure. point->key
 * is not read: the key follows from the configuration. NAN
 * means not recorded: it is left out and reads as NAN again. raw arrays have point->iterations values. */
sg_code sg_run_writer_append(sg_run_writer *writer, const sg_point *point, sg_status *status);
/* The same for n micro-benchmarks at once: all of them are durable, or the file is as before. */
sg_code sg_run_writer_append_micros(sg_run_writer *writer, const sg_micro *micros, size_t n, sg_status *status);
/* True when the file holds a point with this key, times by op class included: a killed run resumes where it stopped, and
 * an interrupted point, which lacks them, is measured again. */
bool sg_run_writer_has(const sg_run_writer *writer, uint64_t key);
/* Gives the lock back. NULL is fine. */
void sg_run_writer_close(sg_run_writer *writer);

#endif
