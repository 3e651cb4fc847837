#include "calibration/machine/framework_file.h"

#include <math.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/machine_file.h"

enum { MAX_DEPTH = 4 }; /* of bases */

static sg_code read_buckets(const sg_tree *tree, const sg_node *root, sg_framework_numbers *numbers,
                            sg_status *status) {
    static const char *const keys[] = {"first_bytes", "bytes"};
    const sg_node *buckets = NULL;
    int64_t first = 0, bytes = 0;
    sg_code code = sg_node_child(tree, root, "buckets", SG_NODE_MAP, &buckets, status);
    if (!code) code = sg_node_known(tree, buckets, keys, 2, status);
    if (!code) code = sg_node_int(tree, buckets, "first_bytes", 1, (int64_t)1 << 40, &first, status);
    if (!code) code = sg_node_int(tree, buckets, "bytes", 1, (int64_t)1 << 40, &bytes, status);
    if (!code) numbers->buckets = (sg_bucket_options){(uint64_t)first, (uint64_t)bytes};
    return code;
}

/* What the file states comes over what its base has, which is there already. */
static sg_code read_numbers(const sg_tree *tree, const char *device_class, sg_framework_numbers *numbers,
                            sg_status *status) {
    static const char *const keys[] = {"base", "buckets", "framework_factors", "cuda", "cpu", "mps"};
    const sg_node *root = sg_tree_root(tree), *parameters = NULL;
    bool based = sg_node_get(root, "base") != NULL;
    sg_machine machine;
    sg_machine_init(&machine);
    for (int i = 0; i < SG_M_COUNT; i++) machine.p[i].value = NAN;
    sg_code code = sg_node_known(tree, root, keys, sizeof keys / sizeof *keys, status);
    if (!code && (!based || sg_node_get(root, "buckets"))) code = read_buckets(tree, root, numbers, status);
    if (!code && (!based || sg_node_get(root, "framework_factors")))
        code = sg_node_bool(tree, root, "framework_factors", &numbers->factors, status);
    if (!code && sg_node_get(root, device_class)) {
        code = sg_node_child(tree, root, device_class, SG_NODE_MAP, &parameters, status);
        if (!code) code = sg_machine_parameters_read(tree, parameters, &machine, status);
    }
    if (code) return code;
    for (int i = 0; i < SG_M_COUNT; i++)
        if (!based || isfinite(machine.p[i].value)) numbers->p[i] = machine.p[i];
    return SG_OK;
}

static sg_code load(const char *name, const char *device_class, const char *dir, int depth,
                    sg_framework_numbers *numbers, sg_status *status) {
    char path[SG_PATH_BYTES];
    char base[64] = "";
    sg_tree *tree = NULL;
    if (depth >= MAX_DEPTH)
        return sg_fail(status, SG_BAD_INPUT, "framework %s: more than %d bases, one upon the other", name, MAX_DEPTH);
    sg_code code = sg_config_find(dir, "frameworks", name, ".yaml", path, sizeof path, status);
    if (!code) code = sg_tree_read(path, &tree, status);
    if (!code && sg_node_get(sg_tree_root(tree), "base"))
        code = sg_node_text(tree, sg_tree_root(tree), "base", base, sizeof base, status);
    if (!code && base[0]) code = load(base, device_class, dir, depth + 1, numbers, status);
    if (!code) code = read_numbers(tree, device_class, numbers, status);
    sg_tree_free(tree);
    return code;
}

sg_code sg_framework_load(const char *name, const char *device_class, const char *config_dir,
                          sg_framework_numbers *numbers, sg_status *status) {
    char dir[SG_PATH_BYTES];
    memset(numbers, 0, sizeof *numbers);
    for (int i = 0; i < SG_M_COUNT; i++) numbers->p[i].value = NAN;
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    return code ? code : load(name, device_class, dir, 0, numbers, status);
}

static void set_parameter(sg_machine *machine, int i, const sg_machine_parameter *p) {
    machine->p[i] = *p;
    if (!machine->covariance) return;
    for (int k = 0; k < SG_M_COUNT; k++)
        machine->covariance[i * SG_M_COUNT + k] = machine->covariance[k * SG_M_COUNT + i] = 0;
    machine->covariance[i * SG_M_COUNT + i] = p->log_sd * p->log_sd;
}

void sg_framework_impose(const sg_framework_numbers *numbers, sg_machine *machine) {
    for (int i = 0; i < SG_M_COUNT; i++)
        if (isfinite(numbers->p[i].value)) set_parameter(machine, i, &numbers->p[i]);
    sg_framework_apply(numbers, machine);
}

/* What a compiler leaves is the framework's alone: a machine knows nothing of it. */
static void set_compiling(const sg_framework_numbers *numbers, sg_machine *machine) {
    static const sg_machine_id ids[] = {SG_M_HOST_KEPT, SG_M_FUSED_BYTES};
    sg_machine_parameter none = {.value = 1, .evidence = SG_EVIDENCE_OBSERVED};
    memcpy(none.source, "nothing is compiled", sizeof "nothing is compiled");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        set_parameter(machine, ids[i], isfinite(numbers->p[ids[i]].value) ? &numbers->p[ids[i]] : &none);
}

/* Host times that were measured on the machine have its speed in them. */
static bool knows_its_host(const sg_framework_numbers *numbers, const sg_machine *machine) {
    const sg_machine_parameter *own = &machine->p[SG_M_HOST_OP_S];
    return isfinite(own->value) && own->evidence != SG_EVIDENCE_DATA_SHEET &&
           own->value != numbers->p[SG_M_HOST_OP_S].value;
}

void sg_framework_apply(const sg_framework_numbers *numbers, sg_machine *machine) {
    static const sg_machine_parameter measured_there = {
        .value = 1, .evidence = SG_EVIDENCE_OBSERVED, .source = "host times are of this machine"};
    set_compiling(numbers, machine);
    if (knows_its_host(numbers, machine)) set_parameter(machine, SG_M_HOST_SPEED, &measured_there);
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (!isfinite(numbers->p[i].value)) continue;
        if (!isfinite(machine->p[i].value) || machine->p[i].evidence == SG_EVIDENCE_DATA_SHEET)
            set_parameter(machine, i, &numbers->p[i]);
    }
    for (int c = 0; c < SG_CLASS_COUNT && !numbers->factors; c++) {
        sg_machine_parameter one = {.value = 1, .evidence = SG_EVIDENCE_OBSERVED};
        memcpy(one.source, "the engine itself", sizeof "the engine itself");
        set_parameter(machine, sg_machine_factor_of((sg_op_class)c), &one);
        set_parameter(machine, SG_M_FACTOR_LOW_PRECISION, &one);
    }
}
