#include "sim/files/run_file.h"
#include "formats/durable_file.h"
#include "sim/bench/micro_tree.h"
#include "sim/files/hdf5_image.h"
#include "sim/measure/point_tree.h"

#include <stdlib.h>
#include <string.h>

const sg_file_format sg_run_format = {"stepgauge-run", "run file", 1};

struct sg_run_writer {
    char *path;
    sg_file_lock lock;
    sg_h5tree *tree; /* what the file holds, and the machine of this writer */
    sg_h5tree *points;
    int64_t next_sequence;
};

/* ---- reading ---- */

typedef struct sg_ordered_point {
    sg_point point;
    int64_t sequence;
} ordered_point;

static int by_sequence(const void *a, const void *b) {
    const ordered_point *x = a, *y = b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* Points in the order in which they were measured; groups come by name. */
static sg_code points_from_tree(const sg_h5tree *points, sg_run *run, sg_status *status) {
    size_t n = points->n_groups;
    if (n == 0) return SG_OK;
    ordered_point *ordered = calloc(n, sizeof *ordered);
    sg_point *list = calloc(n, sizeof *list);
    if (!ordered || !list) {
        free(ordered);
        free(list);
        return sg_fail_memory(status, (unsigned long long)n * sizeof *ordered, "measured points");
    }
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < n; i++)
        code = sg_point_from_tree(points->groups[i], &ordered[i].point, &ordered[i].sequence, status);
    if (code == SG_OK) {
        qsort(ordered, n, sizeof *ordered, by_sequence);
        for (size_t i = 0; i < n; i++) list[i] = ordered[i].point;
        run->points = list;
        run->n_points = n;
    } else {
        for (size_t i = 0; i < n; i++) sg_point_clear(&ordered[i].point);
        free(list);
    }
    free(ordered);
    return code;
}

typedef struct sg_ordered_micro {
    sg_micro micro;
    int64_t sequence;
} ordered_micro;

static int micros_by_sequence(const void *a, const void *b) {
    const ordered_micro *x = a, *y = b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static sg_code micros_from_tree(const sg_h5tree *micros, sg_run *run, sg_status *status) {
    size_t n = micros ? micros->n_groups : 0;
    if (n == 0) return SG_OK;
    ordered_micro *ordered = calloc(n, sizeof *ordered);
    run->micros = calloc(n, sizeof *run->micros);
    sg_code code = SG_OK;
    if (!ordered || !run->micros)
        code = sg_fail_memory(status, (unsigned long long)n * sizeof *ordered, "micro-benchmarks");
    for (size_t i = 0; code == SG_OK && i < n; i++)
        code = sg_micro_from_tree(micros->groups[i], &ordered[i].micro, &ordered[i].sequence, status);
    if (code == SG_OK) {
        qsort(ordered, n, sizeof *ordered, micros_by_sequence);
        for (size_t i = 0; i < n; i++) run->micros[i] = ordered[i].micro;
        run->n_micros = n;
    }
    free(ordered);
    return code;
}

static sg_code run_from_tree(const sg_h5tree *tree, sg_run *run, sg_status *status) {
    const sg_h5tree *machine = sg_h5tree_find(tree, "machine"), *points = sg_h5tree_find(tree, "points");
    if (!machine || !points)
        return sg_fail(status, SG_BAD_INPUT, "the group '%s' is missing", machine ? "points" : "machine");
    sg_code code = sg_machine_record_from_tree(machine, &run->machine, status);
    if (code == SG_OK) code = points_from_tree(points, run, status);
    return code == SG_OK ? micros_from_tree(sg_h5tree_find(tree, "micro"), run, status) : code;
}

sg_code sg_run_from_tree(const char *path, const sg_h5tree *tree, sg_run *run, sg_status *status) {
    *run = (sg_run){0};
    sg_code code = run_from_tree(tree, run, status);
    if (code == SG_OK) return code;
    sg_run_clear(run);
    return sg_fail_in(status, "reading %s", path);
}

sg_code sg_run_file_read(const char *path, sg_run *run, sg_status *status) {
    *run = (sg_run){0};
    sg_h5tree *tree;
    sg_code code = sg_h5tree_load(path, &sg_run_format, &tree, status);
    if (code == SG_OK) code = sg_run_from_tree(path, tree, run, status);
    sg_h5tree_free(tree);
    return code;
}

void sg_run_clear(sg_run *run) {
    for (size_t i = 0; i < run->n_points; i++) sg_point_clear(&run->points[i]);
    free(run->points);
    free(run->micros);
    *run = (sg_run){0};
}

/* ---- writing ---- */

/* The tree of an existing file, refused unless every point in it is sound: appending to damage would spread it. */
static sg_code load_existing(sg_run_writer *writer, sg_status *status) {
    sg_code code = sg_h5tree_load(writer->path, &sg_run_format, &writer->tree, status);
    if (code != SG_OK) return code;
    sg_run run;
    code = sg_run_from_tree(writer->path, writer->tree, &run, status);
    if (code != SG_OK) return code;
    sg_run_clear(&run);
    code = sg_h5tree_group(writer->tree, "points", &writer->points, status);
    for (size_t i = 0; code == SG_OK && i < writer->points->n_groups; i++) {
        int64_t sequence = 0;
        code = sg_h5tree_get_i64(writer->points->groups[i], "sequence", &sequence, status);
        if (sequence >= writer->next_sequence && sequence < INT64_MAX) writer->next_sequence = sequence + 1;
    }
    return code;
}

static sg_code set_machine(sg_run_writer *writer, const sg_machine_record *machine, sg_status *status) {
    sg_h5tree *group;
    sg_code code = sg_h5tree_group(writer->tree, "machine", &group, status);
    return code == SG_OK ? sg_machine_record_to_tree(machine, group, status) : code;
}

/* An empty run file, written at once: a folder or disk that refuses it should say so before hours of measuring. */
static sg_code make_new(sg_run_writer *writer, const sg_machine_record *machine, sg_status *status) {
    writer->tree = sg_h5tree_new(status);
    if (!writer->tree) return SG_MACHINE;
    sg_code code = sg_h5tree_group(writer->tree, "points", &writer->points, status);
    if (code == SG_OK) code = set_machine(writer, machine, status);
    return code == SG_OK ? sg_h5tree_store(writer->path, &sg_run_format, writer->tree, status) : code;
}

static sg_code open_writer(sg_run_writer *writer, const char *path, const sg_machine_record *machine,
                           sg_status *status) {
    bool exists;
    writer->path = strdup(path);
    if (!writer->path) return sg_fail_memory(status, strlen(path), "a path");
    sg_code code = sg_file_exists(path, &exists, status);
    if (code == SG_OK) code = sg_file_lock_take(path, &writer->lock, status);
    /* Asked again under the lock: another writer may have made it in between. */
    if (code == SG_OK) code = sg_file_exists(path, &exists, status);
    if (code != SG_OK) return code;
    if (!exists) return make_new(writer, machine, status);
    code = load_existing(writer, status);
    return code == SG_OK ? set_machine(writer, machine, status) : code;
}

sg_code sg_run_writer_open(const char *path, const sg_machine_record *machine, sg_run_writer **writer,
                           sg_status *status) {
    *writer = NULL;
    sg_run_writer *made = calloc(1, sizeof *made);
    if (!made) return sg_fail_memory(status, sizeof *made, "a run file's writer");
    made->lock.fd = -1;
    sg_code code = open_writer(made, path, machine, status);
    if (code == SG_OK)
        *writer = made;
    else
        sg_run_writer_close(made);
    return code;
}

sg_code sg_run_writer_append(sg_run_writer *writer, const sg_point *point, sg_status *status) {
    char name[SG_POINT_NAME_BYTES];
    sg_point_group_name(sg_point_key(&point->config), name);
    int64_t sequence = writer->next_sequence;
    /* The old group stands aside until the file is durable, so that a failure leaves memory as the file is. */
    sg_h5tree *old = sg_h5tree_take(writer->points, name), *group;
    if (old) (void)sg_h5tree_get_i64(old, "sequence", &sequence, NULL);
    sg_code code = sg_h5tree_group(writer->points, name, &group, status);
    if (code == SG_OK) code = sg_point_to_tree(point, sequence, group, status);
    if (code == SG_OK) code = sg_h5tree_store(writer->path, &sg_run_format, writer->tree, status);
    if (code != SG_OK) {
        sg_h5tree_remove(writer->points, name);
        sg_h5tree_put_back(writer->points, old);
        return code;
    }
    if (!old) writer->next_sequence++;
    sg_h5tree_free(old);
    return SG_OK;
}

/* ---- micro-benchmarks ---- */

static int64_t next_micro_sequence(const sg_h5tree *micros) {
    int64_t next = 0;
    for (size_t i = 0; i < micros->n_groups; i++) {
        int64_t sequence = -1;
        (void)sg_h5tree_get_i64(micros->groups[i], "sequence", &sequence, NULL);
        if (sequence >= next && sequence < INT64_MAX) next = sequence + 1;
    }
    return next;
}

/* Puts one in; *old: the group of its name before, which the caller frees or puts back. */
static sg_code put_micro(sg_h5tree *micros, const sg_micro *micro, sg_h5tree **old, sg_status *status) {
    char name[SG_POINT_NAME_BYTES];
    sg_point_group_name(sg_micro_key(&micro->config), name);
    int64_t sequence = next_micro_sequence(micros);
    *old = sg_h5tree_take(micros, name);
    if (*old) (void)sg_h5tree_get_i64(*old, "sequence", &sequence, NULL);
    sg_h5tree *group;
    sg_code code = sg_h5tree_group(micros, name, &group, status);
    return code == SG_OK ? sg_micro_to_tree(micro, sequence, group, status) : code;
}

static void take_back(sg_h5tree *micros, const sg_micro *micro, sg_h5tree *old) {
    char name[SG_POINT_NAME_BYTES];
    sg_point_group_name(sg_micro_key(&micro->config), name);
    sg_h5tree_remove(micros, name);
    sg_h5tree_put_back(micros, old);
}

sg_code sg_run_writer_append_micros(sg_run_writer *writer, const sg_micro *micros, size_t n, sg_status *status) {
    if (n == 0) return SG_OK;
    sg_h5tree *group, **old = calloc(n, sizeof *old);
    if (!old) return sg_fail_memory(status, n * sizeof *old, "micro-benchmarks");
    size_t done = 0;
    sg_code code = sg_h5tree_group(writer->tree, "micro", &group, status);
    while (code == SG_OK && done < n) {
        code = put_micro(group, &micros[done], &old[done], status);
        done++;
    }
    if (code == SG_OK) code = sg_h5tree_store(writer->path, &sg_run_format, writer->tree, status);
    for (size_t i = done; i-- > 0;) {
        if (code == SG_OK)
            sg_h5tree_free(old[i]);
        else
            take_back(group, &micros[i], old[i]);
    }
    free(old);
    return code;
}

bool sg_run_writer_has(const sg_run_writer *writer, uint64_t key) {
    char name[SG_POINT_NAME_BYTES];
    sg_point_group_name(key, name);
    const sg_h5tree *point = sg_h5tree_find(writer->points, name);
    return point && sg_point_tree_has_class_times(point);
}

void sg_run_writer_close(sg_run_writer *writer) {
    if (!writer) return;
    sg_file_lock_release(&writer->lock);
    sg_h5tree_free(writer->tree);
    free(writer->path);
    free(writer);
}
