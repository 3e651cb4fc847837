/* count.c: operations, FLOPs, bytes and memory of a training, program by program. */
#include "models/training.h"

#include <string.h>

static int64_t elements(const sg_training *t, int32_t tensor) {
    return sg_desc_count(&t->tensors[tensor].desc);
}

static uint64_t storage_bytes(const sg_training *t, int32_t tensor) {
    return tensor < 0 ? 0 : t->storages[t->tensors[tensor].storage].bytes;
}

static void count_parameters(const sg_training *t, sg_counts *counts) {
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        bool sharded = t->n_shards > 0 && p->shard >= 0;
        if (!sharded) counts->weights_bytes += storage_bytes(t, p->tensor);
        if (p->is_buffer) continue;
        int64_t n = elements(t, p->tensor);
        counts->parameters += n;
        counts->tensors++;
        counts->trainable += p->trainable ? n : 0;
        counts->trainable_tensors += p->trainable;
        counts->with_gradient += p->gradient >= 0 ? n : 0;
        if (sharded) continue;
        /* A gradient's storage may be shared or larger; what counts here is the gradient itself. */
        if (p->gradient >= 0) counts->gradients_bytes += sg_desc_span_bytes(&t->tensors[p->gradient].desc);
        counts->optimizer_bytes += storage_bytes(t, p->state[0]) + storage_bytes(t, p->state[1]);
    }
    for (size_t i = 0; i < t->n_shards; i++) { /* what a rank keeps */
        counts->weights_bytes += storage_bytes(t, t->shards[i].part);
        counts->gradients_bytes += storage_bytes(t, t->shards[i].gradient);
        counts->optimizer_bytes += storage_bytes(t, t->shards[i].state[0]) + storage_bytes(t, t->shards[i].state[1]);
    }
}

static bool backward_reads(const sg_training *t, const sg_program *program, int32_t storage) {
    for (size_t i = 0; i < program->n_entries; i++) {
        const sg_entry *entry = &program->entries[i];
        if (entry->kind != SG_ENTRY_OP || entry->pass != SG_PASS_BACKWARD) continue;
        for (int32_t k = 0; k < t->ops[entry->index].n_in; k++)
            if (t->tensors[t->args[entry->args + (uint32_t)k]].storage == storage) return true;
    }
    return false;
}

/* What the program makes before its backward and reads in it has the role SAVED; of the batch, what the backward reads. */
static uint64_t count_saved(const sg_training *t, const sg_program *program) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < program->n_entries; i++) {
        const sg_entry *entry = &program->entries[i];
        if (entry->kind == SG_ENTRY_MARK && entry->index == SG_MARK_BACKWARD) break; /* the rest is made again in it */
        if (entry->kind == SG_ENTRY_ALLOC && t->storages[entry->index].role == SG_ROLE_SAVED)
            bytes += t->storages[entry->index].bytes;
    }
    for (size_t i = 0; i < t->n_inputs; i++) {
        int32_t storage = t->tensors[t->inputs[i].tensor].storage;
        if (backward_reads(t, program, storage)) bytes += t->storages[storage].bytes;
    }
    return bytes;
}

static void count_entry(const sg_training *t, const sg_entry *entry, sg_counts *counts) {
    sg_pass_counts *pass = &counts->pass[entry->pass];
    bool call = !(entry->flags & SG_ENTRY_SAME_DISPATCH);
    if (entry->kind == SG_ENTRY_WAIT) counts->waits++;
    if (entry->kind == SG_ENTRY_VIEW) pass->views += call;
    if (entry->kind != SG_ENTRY_OP) return;
    sg_cost cost = sg_op_cost(&t->ops[entry->index]);
    pass->ops += call;
    pass->launches += cost.launches;
    pass->flops += cost.flops;
    pass->bytes += cost.bytes_read + cost.bytes_written;
}

sg_counts sg_count_program(const sg_training *training, size_t program) {
    sg_counts counts = {0};
    count_parameters(training, &counts);
    if (program >= training->n_programs) return counts;
    const sg_program *p = &training->programs[program];
    for (size_t i = 0; i < p->n_entries; i++) count_entry(training, &p->entries[i], &counts);
    counts.saved_bytes = count_saved(training, p);
    return counts;
}

size_t sg_main_program(const sg_training *training) {
    for (size_t i = 0; i < training->n_programs; i++)
        if (training->programs[i].ends_optimizer_step) return i;
    return training->n_programs ? training->n_programs - 1 : 0;
}

/* ---- per module ------------------------------------------------------------------------------------------------- */

static void count_module_entry(const sg_training *t, const sg_entry *entry, sg_module_counts *out) {
    if (entry->kind != SG_ENTRY_OP || entry->module < 0) return;
    sg_module_counts *m = &out[entry->module];
    sg_cost cost = sg_op_cost(&t->ops[entry->index]);
    int64_t call = !(entry->flags & SG_ENTRY_SAME_DISPATCH);
    double bytes = cost.bytes_read + cost.bytes_written;
    if (entry->pass == SG_PASS_FORWARD) {
        m->forward_flops += cost.flops;
        m->forward_bytes += bytes;
        m->forward_ops += call;
    } else if (entry->pass == SG_PASS_BACKWARD) {
        m->backward_flops += cost.flops;
        m->backward_bytes += bytes;
        m->backward_ops += call;
    }
}

void sg_count_modules(const sg_training *training, size_t program, sg_module_counts *out) {
    memset(out, 0, training->n_modules * sizeof *out);
    for (size_t i = 0; i < training->n_parameters; i++) {
        const sg_parameter *p = &training->parameters[i];
        if (p->is_buffer || p->module < 0) continue;
        out[p->module].parameters += elements(training, p->tensor);
        if (p->trainable) out[p->module].trainable += elements(training, p->tensor);
    }
    for (size_t i = 0; program < training->n_programs && i < training->programs[program].n_entries; i++)
        count_module_entry(training, &training->programs[program].entries[i], out);
    /* A parent is registered before its children. */
    for (size_t i = training->n_modules; i-- > 1;) {
        int32_t parent = training->modules[i].parent;
        if (parent < 0 || (size_t)parent >= i) continue;
        sg_module_counts *to = &out[parent];
        const sg_module_counts *from = &out[i];
        to->parameters += from->parameters;
        to->trainable += from->trainable;
        to->forward_flops += from->forward_flops;
        to->backward_flops += from->backward_flops;
        to->forward_bytes += from->forward_bytes;
        to->backward_bytes += from->backward_bytes;
        to->forward_ops += from->forward_ops;
        to->backward_ops += from->backward_ops;
    }
}
