#include "sim/measure/point_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELD(type, member, kind)                                                                                      \
    { #member, kind, offsetof(type, member), sizeof(((type *)0)->member), false }
#define OPTIONAL(type, name, member, kind)                                                                             \
    { name, kind, offsetof(type, member), sizeof(((type *)0)->member), true }
#define TABLE(table) ((sg_fields){table, sizeof(table) / sizeof *(table)})

sg_fields sg_config_fields(void) {
#define X(member, kind) FIELD(sg_point_config, member, kind)
    static const sg_field table[] = {
        X(accumulation, SG_FIELD_I64),
        X(batch, SG_FIELD_I64),
        X(cameras, SG_FIELD_I64),
        OPTIONAL(sg_point_config, "dataset", dataset, SG_FIELD_TEXT),
        X(device, SG_FIELD_TEXT),
        X(envs, SG_FIELD_I64),
        OPTIONAL(sg_point_config, "execution", execution, SG_FIELD_TEXT),
        X(framework, SG_FIELD_TEXT),
        X(host, SG_FIELD_TEXT),
        OPTIONAL(sg_point_config, "host_op_ns", host_op_ns, SG_FIELD_I64),
        X(image_height, SG_FIELD_I64),
        X(image_width, SG_FIELD_I64),
        OPTIONAL(sg_point_config, "layer", layer, SG_FIELD_TEXT),
        X(policy, SG_FIELD_TEXT),
        X(precision, SG_FIELD_TEXT),
        OPTIONAL(sg_point_config, "prefetch", prefetch, SG_FIELD_I64),
        X(ranks, SG_FIELD_I64),
        X(seed, SG_FIELD_U64),
        X(settings, SG_FIELD_TEXT),
        X(steps_per_env, SG_FIELD_I64),
        X(threads, SG_FIELD_I64),
        X(workers, SG_FIELD_I64),
    };
#undef X
    return TABLE(table);
}

sg_fields sg_point_fields(void) {
#define X(member, kind)      FIELD(sg_point, member, kind)
#define GPU(member, kind)    OPTIONAL(sg_point, "gpu_" #member, gpu.member, kind)
#define LOADER(member, kind) OPTIONAL(sg_point, "loader_" #member, loader.member, kind)
    static const sg_field table[] = {
        X(iterations, SG_FIELD_I64),
        X(warmup, SG_FIELD_I64),
        X(samples_per_s, SG_FIELD_F64),
        X(env_steps_per_s, SG_FIELD_F64),
        X(peak_allocated_bytes, SG_FIELD_U64),
        X(peak_reserved_bytes, SG_FIELD_U64),
        X(resident_bytes, SG_FIELD_U64),
        X(rank_spread, SG_FIELD_F64),
        X(disturbed, SG_FIELD_BOOL),
        X(disturbed_why, SG_FIELD_TEXT),
        X(fits_rates, SG_FIELD_BOOL),
        X(load_average, SG_FIELD_F64),
        X(clock_mhz, SG_FIELD_F64),
        OPTIONAL(sg_point, "other_processors", other_processors, SG_FIELD_F64),
        OPTIONAL(sg_point, "withheld_share", withheld_share, SG_FIELD_F64),
        X(source, SG_FIELD_TEXT),
        X(origin, SG_FIELD_TEXT),
        X(flops, SG_FIELD_F64),
        X(bytes, SG_FIELD_F64),
        X(ops_forward, SG_FIELD_I64),
        X(ops_backward, SG_FIELD_I64),
        X(frame_s, SG_FIELD_F64),
        OPTIONAL(sg_point, "n_ops", n_ops, SG_FIELD_I64),
        OPTIONAL(sg_point, "ops_hash", ops_hash, SG_FIELD_U64),
        GPU(sm_clock_mhz, SG_FIELD_F64),
        GPU(memory_clock_mhz, SG_FIELD_F64),
        GPU(temperature_c, SG_FIELD_F64),
        GPU(power_w, SG_FIELD_F64),
        GPU(power_limit_w, SG_FIELD_F64),
        GPU(samples, SG_FIELD_I64),
        GPU(other_processes, SG_FIELD_I64),
        GPU(pcie_generation, SG_FIELD_I64),
        GPU(pcie_width, SG_FIELD_I64),
        GPU(name, SG_FIELD_TEXT),
        GPU(driver, SG_FIELD_TEXT),
        GPU(bus, SG_FIELD_TEXT),
        GPU(libraries, SG_FIELD_TEXT),
        GPU(throttle, SG_FIELD_TEXT),
        LOADER(batches, SG_FIELD_I64),
        LOADER(frames, SG_FIELD_I64),
        LOADER(frames_decoded, SG_FIELD_I64),
        LOADER(bytes_read, SG_FIELD_I64),
        LOADER(frame_cpu_s, SG_FIELD_F64),
        LOADER(frame_s, SG_FIELD_F64),
        LOADER(sample_cpu_s, SG_FIELD_F64),
        LOADER(batch_s, SG_FIELD_F64),
        LOADER(batch_cpu_s, SG_FIELD_F64),
        LOADER(batch_log_sd, SG_FIELD_F64),
        LOADER(first_batch_s, SG_FIELD_F64),
        LOADER(epochs, SG_FIELD_I64),
        LOADER(epoch_s, SG_FIELD_F64),
        LOADER(stalled_share, SG_FIELD_F64),
        LOADER(wait_p50_s, SG_FIELD_F64),
        LOADER(wait_p90_s, SG_FIELD_F64),
        LOADER(wait_p99_s, SG_FIELD_F64),
        LOADER(wait_max_s, SG_FIELD_F64),
        LOADER(step_cpu_s, SG_FIELD_F64),
        LOADER(update_s, SG_FIELD_F64),
        LOADER(worker_bytes, SG_FIELD_I64),
        LOADER(processors, SG_FIELD_I64),
        LOADER(prefetch, SG_FIELD_I64),
    };
#undef LOADER
#undef GPU
#undef X
    return TABLE(table);
}

sg_fields sg_machine_fields(void) {
#define X(member, kind)   FIELD(sg_machine_record, member, kind)
#define GPU(member, kind) OPTIONAL(sg_machine_record, #member, member, kind)
    static const sg_field table[] = {
        X(hostname, SG_FIELD_TEXT), X(cpu, SG_FIELD_TEXT),          X(device, SG_FIELD_TEXT),
        X(os, SG_FIELD_TEXT),       X(library, SG_FIELD_TEXT),      X(program_version, SG_FIELD_TEXT),
        X(cores, SG_FIELD_I64),     X(threads, SG_FIELD_I64),       X(memory_bytes, SG_FIELD_I64),
        X(clock_mhz, SG_FIELD_F64), GPU(gpus, SG_FIELD_I64),        GPU(gpu_memory_bytes, SG_FIELD_I64),
        GPU(gpu, SG_FIELD_TEXT),    GPU(gpu_driver, SG_FIELD_TEXT), GPU(gpu_topology, SG_FIELD_TEXT),
    };
#undef GPU
#undef X
    return TABLE(table);
}

static uint64_t fnv1a(uint64_t hash, const char *text) {
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text, size_t bytes) {
    hash = fnv1a(hash, "\"");
    for (size_t i = 0; i < bytes && text[i]; i++) {
        char escaped[8] = {text[i]};
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            (void)snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < ' ')
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
        hash = fnv1a(hash, escaped);
    }
    return fnv1a(hash, "\"");
}

/* Texts and whole numbers. */
static bool says_nothing(const sg_field *field, const char *at) {
    int64_t number = 0;
    if (field->kind == SG_FIELD_TEXT) return !*at;
    memcpy(&number, at, sizeof number);
    return number == 0;
}

uint64_t sg_fields_key(sg_fields fields, const void *from) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < fields.n; i++) {
        const sg_field *field = &fields.field[i];
        const char *at = (const char *)from + field->offset;
        if (field->optional && says_nothing(field, at)) continue;
        char text[96];
        (void)snprintf(text, sizeof text, "%s\"%s\":", i ? "," : "{", field->name);
        hash = fnv1a(hash, text);
        int64_t i64 = 0;
        uint64_t u64 = 0;
        switch (field->kind) {
        case SG_FIELD_I64:
            memcpy(&i64, at, sizeof i64);
            (void)snprintf(text, sizeof text, "%" PRId64, i64);
            hash = fnv1a(hash, text);
            break;
        case SG_FIELD_U64:
            memcpy(&u64, at, sizeof u64);
            (void)snprintf(text, sizeof text, "%" PRIu64, u64);
            hash = fnv1a(hash, text);
            break;
        default: hash = hash_text(hash, at, field->bytes); break;
        }
    }
    return fnv1a(hash, "}");
}
