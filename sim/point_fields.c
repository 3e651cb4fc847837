#include "sim/point_fields.h"

#define FIELD(type, member, kind)                                                                                      \
    { #member, kind, offsetof(type, member), sizeof(((type *)0)->member) }
#define TABLE(table) ((sg_fields){table, sizeof(table) / sizeof *(table)})

sg_fields sg_config_fields(void) {
#define X(member, kind) FIELD(sg_point_config, member, kind)
    static const sg_field table[] = {
        X(accumulation, SG_FIELD_I64), X(batch, SG_FIELD_I64),        X(cameras, SG_FIELD_I64),
        X(device, SG_FIELD_TEXT),      X(envs, SG_FIELD_I64),         X(framework, SG_FIELD_TEXT),
        X(host, SG_FIELD_TEXT),        X(image_height, SG_FIELD_I64), X(image_width, SG_FIELD_I64),
        X(policy, SG_FIELD_TEXT),      X(precision, SG_FIELD_TEXT),   X(ranks, SG_FIELD_I64),
        X(seed, SG_FIELD_U64),         X(settings, SG_FIELD_TEXT),    X(steps_per_env, SG_FIELD_I64),
        X(threads, SG_FIELD_I64),      X(workers, SG_FIELD_I64),
    };
#undef X
    return TABLE(table);
}

sg_fields sg_point_fields(void) {
#define X(member, kind) FIELD(sg_point, member, kind)
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
        X(source, SG_FIELD_TEXT),
        X(origin, SG_FIELD_TEXT),
        X(flops, SG_FIELD_F64),
        X(bytes, SG_FIELD_F64),
        X(ops_forward, SG_FIELD_I64),
        X(ops_backward, SG_FIELD_I64),
        X(frame_s, SG_FIELD_F64),
    };
#undef X
    return TABLE(table);
}

sg_fields sg_machine_fields(void) {
#define X(member, kind) FIELD(sg_machine_record, member, kind)
    static const sg_field table[] = {
        X(hostname, SG_FIELD_TEXT), X(cpu, SG_FIELD_TEXT),     X(device, SG_FIELD_TEXT),
        X(os, SG_FIELD_TEXT),       X(library, SG_FIELD_TEXT), X(program_version, SG_FIELD_TEXT),
        X(cores, SG_FIELD_I64),     X(threads, SG_FIELD_I64),  X(memory_bytes, SG_FIELD_I64),
        X(clock_mhz, SG_FIELD_F64),
    };
#undef X
    return TABLE(table);
}
