/* field_tree.h: structs whose fields stand in a table (sim/measure/point_fields.h), as attributes of a group of a run file. */
#ifndef SG_SIM_FILES_FIELD_TREE_H
#define SG_SIM_FILES_FIELD_TREE_H

#include "sim/files/hdf5_tree.h"
#include "sim/measure/point_fields.h"

/* exact: texts are kept as they are or refused (keys); otherwise what no file can hold becomes '?' (descriptions). Counts must
 * not be negative, reals not infinite (SG_BAD_INPUT names the field); a NAN is left out. */
sg_code sg_fields_to_tree(sg_h5tree *group, sg_fields fields, const void *from, bool exact, sg_status *status);
/* Everything but reals and optional fields must be there; a real that is not reads as NAN, an optional field as 0 or "". */
sg_code sg_fields_from_tree(const sg_h5tree *group, sg_fields fields, void *to, sg_status *status);

/* One real: NAN means "not recorded" and is left out of the file; infinity means a fault. */
sg_code sg_field_check_real(const char *name, double value, sg_status *status);
sg_code sg_field_put_real(sg_h5tree *group, const char *name, double value, sg_status *status);
sg_code sg_field_get_real(const sg_h5tree *group, const char *name, double *value, sg_status *status);

#endif
