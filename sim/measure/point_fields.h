/* point_fields.h: the plain fields of a point as tables, so that files, keys and checks name each of them once. */
#ifndef SG_SIM_MEASURE_POINT_FIELDS_H
#define SG_SIM_MEASURE_POINT_FIELDS_H

#include "sim/measure/point.h"

typedef enum sg_field_kind { SG_FIELD_TEXT, SG_FIELD_I64, SG_FIELD_U64, SG_FIELD_F64, SG_FIELD_BOOL } sg_field_kind;

typedef struct sg_field {
    const char *name; /* in files and JSON */
    sg_field_kind kind;
    size_t offset, bytes;
    bool optional; /* absent in a file where it is empty or 0: files older than the field, hosts without a GPU */
} sg_field;

typedef struct sg_fields {
    const sg_field *field;
    size_t n;
} sg_fields;

sg_fields sg_config_fields(void);  /* of sg_point_config, by name: the order of the canonical JSON */
sg_fields sg_point_fields(void);   /* of sg_point, without config, key, statistics, raw times and times by op class */
sg_fields sg_machine_fields(void); /* of sg_machine_record */

/* FNV-1a (64 bits) over the fields as JSON without white space, in the table's order. Texts and whole numbers only; optional
 * texts that are empty are left out. */
uint64_t sg_fields_key(sg_fields fields, const void *from);

#endif
