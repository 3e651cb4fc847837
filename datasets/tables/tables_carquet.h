/* tables_carquet.h: the functions of carquet's shared library (Parquet in C), opened on first need. For tables*.c alone.
 *
 * Searched: the file that $STEPGAUGE_CARQUET names, and nothing else where it is set; carquet/carquet/libcarquet.so in
 * $STEPGAUGE_MODULES, <folder of the program>/modules, <folder of the program>/../lib/stepgauge and, as scripts/setup.sh
 * installs it, <folder of the program>/.. . */
#ifndef SG_DATASETS_TABLES_TABLES_CARQUET_H
#define SG_DATASETS_TABLES_TABLES_CARQUET_H

#include "datasets/tables/tables_arrow.h"

/* carquet_error_t of 0.7, and room for what a later one of that line may add. */
typedef struct sg_carquet_error {
    int code;
    char message[256];
    const char *file;
    int line;
    const char *function;
    int64_t offset;
    int32_t column, row_group;
    char more[128];
} sg_carquet_error;

typedef struct sg_carquet_reader_options { /* carquet_reader_options_t */
    bool use_mmap, verify_checksums;
    size_t buffer_bytes;
    int32_t threads;
    char more[256];
} sg_carquet_reader_options;

typedef struct sg_carquet_writer_options { /* carquet_writer_options_t begins so */
    int compression;
    int32_t compression_level;
    char more[504];
} sg_carquet_writer_options;

enum { SG_CARQUET_SNAPPY = 1 }; /* carquet_compression_t, the number of the Parquet format */

typedef struct sg_carquet_group { /* carquet_row_group_metadata_t */
    int64_t rows, bytes, compressed_bytes;
    char more[64];
} sg_carquet_group;

/* int results: carquet_status_t, 0 is good. */
typedef struct sg_carquet {
    const char *(*version)(void);
    void (*reader_options_init)(sg_carquet_reader_options *);
    void *(*reader_open)(const char *, const sg_carquet_reader_options *, sg_carquet_error *);
    void (*reader_close)(void *);
    const void *(*reader_schema)(const void *);
    int64_t (*reader_rows)(const void *);
    int32_t (*reader_groups)(const void *);
    int (*reader_group)(const void *, int32_t, sg_carquet_group *);
    int (*reader_read)(void *, int32_t, sg_arrow_schema *, sg_arrow_array *, sg_carquet_error *);
    int (*export_schema)(const void *, sg_arrow_schema *, sg_carquet_error *);
    int (*import_schema)(sg_arrow_schema *, void **, sg_carquet_error *); /* releases what it is given */
    void (*schema_free)(void *);
    void (*writer_options_init)(sg_carquet_writer_options *);
    void *(*writer_create)(const char *, const void *, const sg_carquet_writer_options *, sg_carquet_error *);
    int (*writer_write)(void *, sg_arrow_array *, sg_arrow_schema *, sg_carquet_error *); /* releases both */
    int (*writer_new_group)(void *);
    int (*writer_add_metadata)(void *, const char *key, const char *value);
    int (*writer_close)(void *);
    void (*writer_abort)(void *);
} sg_carquet;

/* SG_MACHINE: the library is missing, does not load, or is of a version that is not known, with the remedy. It stays open:
 * dlopen counts references and gives the same one again. */
sg_code sg_carquet_open(sg_carquet *carquet, sg_status *status);

#endif
