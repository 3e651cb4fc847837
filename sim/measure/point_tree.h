/* point_tree.h: points and machine records as groups of a run file (docs/run-file.md). */
#ifndef SG_SIM_MEASURE_POINT_TREE_H
#define SG_SIM_MEASURE_POINT_TREE_H

#include "sim/files/hdf5_tree.h"
#include "sim/files/run_file.h"

/* SG_BAD_INPUT names the field that a file cannot hold (infinite, negative count, configuration not UTF-8). */
sg_code sg_point_to_tree(const sg_point *point, int64_t sequence, sg_h5tree *group, sg_status *status);
/* False for a point whose measuring was interrupted before its operations were timed. */
bool sg_point_tree_has_class_times(const sg_h5tree *group);
/* *point starts at zero and is sg_point_clear'd by the caller, also on failure. */
sg_code sg_point_from_tree(const sg_h5tree *group, sg_point *point, int64_t *sequence, sg_status *status);

sg_code sg_machine_record_to_tree(const sg_machine_record *record, sg_h5tree *group, sg_status *status);
sg_code sg_machine_record_from_tree(const sg_h5tree *group, sg_machine_record *record, sg_status *status);

extern const sg_file_format sg_run_format;
/* A whole run file's tree; `path` is for messages. *run is empty on failure. */
sg_code sg_run_from_tree(const char *path, const sg_h5tree *tree, sg_run *run, sg_status *status);

enum { SG_POINT_NAME_BYTES = 17 };
/* The group's name: the key in hexadecimal. */
void sg_point_group_name(uint64_t key, char name[SG_POINT_NAME_BYTES]);

#endif
