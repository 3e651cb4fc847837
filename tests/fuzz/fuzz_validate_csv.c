/* Any bytes as a table of measurements of every kind that validate takes: refused with a reason, or every row is predicted
 * or skipped with one. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "calibration/validate/validate.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const sg_validation *v) {
    for (size_t i = 0; i < v->n; i++) {
        const sg_validated *r = &v->rows[i];
        if (!sg_validated_scored(r)) continue;
        if (!(r->predicted >= 0) || !(r->low <= r->predicted) || !(r->predicted <= r->high)) abort();
    }
    sg_validate_summary *summaries;
    size_t n, rows = 0;
    sg_status status;
    if (sg_validate_summarise(v, &summaries, &n, &status) != SG_OK) abort();
    for (size_t i = 0; i < n; i++)
        if (summaries[i].device[0] == 'a' && summaries[i].device[1] == 'l' && summaries[i].device[2] == 'l' &&
            !summaries[i].device[3] && !summaries[i].part[0])
            rows += summaries[i].n + summaries[i].skipped;
    if (rows < v->n) abort();
    free(summaries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[SG_MEMORY_PATH];
    sg_csv_table table;
    sg_status status;
    int fd = sg_memory_file(data, size, ".csv", path);
    sg_code code = sg_csv_table_read(path, &table, &status);
    sg_memory_file_close(fd, path);
    if (code) return 0;
    for (int left_out = SG_LEFT_OUT_NOTHING; left_out <= SG_LEFT_OUT_DEVICES; left_out++) {
        const sg_validate_options options = {.left_out = (sg_left_out)left_out, .folds = 2};
        sg_validation v = {0};
        (void)sg_validate_collectives(&table, &options, &v, &status);
        (void)sg_validate_gemm(&table, &options, &v, &status);
        (void)sg_validate_memory_bound(&table, &options, &v, &status);
        (void)sg_validate_parallel(&table, &options, &v, &status);
        (void)sg_validate_reports(&table, &options, &v, &status);
        (void)sg_validate_steps(&table, &table, &options, &v, &status);
        check(&v);
        sg_validation_clear(&v);
    }
    sg_csv_table_clear(&table);
    return 0;
}
