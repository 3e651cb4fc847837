/* graph.c: life of a graph, its modules, programs and schedule. */
#include "models/graph_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failure --------------------------------------------------------------------------------------------------- */

void sg_graph_fail(sg_graph *g, sg_code code, const char *format, ...) {
    if (g->failed) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(g->status.text, sizeof g->status.text, format, args);
    va_end(args);
    g->status.code = code;
    g->failed = true;
}

bool sg_graph_failed(const sg_graph *g) {
    return g->failed;
}

/* The three members of any SG_LIST, reached through memcpy: lists of different types are different types to C. */
bool sg_list_grow(sg_graph *g, void *list, size_t item_bytes, size_t more) {
    struct {
        void *at;
        size_t count, capacity;
    } raw;
    memcpy(&raw, list, sizeof raw);
    size_t want = 0, bytes = 0;
    void *at = NULL;
    if (!g->failed && !__builtin_add_overflow(raw.count, more, &want)) {
        if (want < raw.capacity * 2) want = raw.capacity * 2;
        if (want < 16) want = 16;
        if (!__builtin_mul_overflow(want, item_bytes, &bytes)) at = realloc(raw.at, bytes);
    }
    if (!at) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate %zu bytes of host memory for the step program", bytes);
        return false;
    }
    raw.at = at;
    raw.capacity = want;
    memcpy(list, &raw, sizeof raw);
    return true;
}

const char *sg_graph_text(sg_graph *g, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : sg_arena_alloc(g->arena, (size_t)n + 1);
    if (text)
        (void)vsnprintf(text, (size_t)n + 1, format, again);
    else
        sg_graph_fail(g, SG_MACHINE, "cannot allocate %d bytes of host memory for a name", n + 1);
    va_end(again);
    return text ? text : "";
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static bool start(sg_graph *g) {
    g->arena = sg_arena_new();
    g->training = g->arena ? sg_arena_alloc(g->arena, sizeof *g->training) : NULL;
    if (!g->training || !SG_ROOM(g, &g->modules, 1) || !SG_ROOM(g, &g->module_state, 1)) return false;
    g->modules.at[g->modules.count++] = (sg_module){"", -1};
    g->module_state.at[g->module_state.count++] = (sg_module_state){-1, -1, ""};
    g->training->arena = g->arena;
    g->training->policy = g->training->framework = "";
    g->training->batch = g->batch;
    g->training->accumulation = g->accumulation;
    g->training->optimizer_steps = 1;
    g->training->loss = SG_NO_TENSOR;
    return true;
}

sg_graph *sg_graph_new(const sg_profile *profile, int64_t batch, int64_t accumulation, int64_t ranks,
                       sg_status *status) {
    if (batch < 1 || accumulation < 1 || ranks < 1) {
        (void)sg_fail(status, SG_BAD_INPUT,
                      "batch, accumulation and ranks must be at least 1 (they are %lld, %lld, %lld)", (long long)batch,
                      (long long)accumulation, (long long)ranks);
        return NULL;
    }
    sg_graph *g = calloc(1, sizeof *g);
    if (!g) {
        (void)sg_fail_memory(status, sizeof *g, "a step program");
        return NULL;
    }
    g->profile = *profile;
    g->batch = batch;
    g->accumulation = accumulation;
    g->ranks = ranks;
    g->pass = SG_PASS_FORWARD;
    g->last_mark = -1;
    g->scale = g->scale_tracker = SG_NO_TENSOR;
    g->open_scatter = g->segment = -1;
    if (!start(g)) {
        sg_graph_free(g);
        (void)sg_fail_memory(status, sizeof(sg_training), "a step program");
        return NULL;
    }
    return g;
}

void sg_graph_free(sg_graph *g) {
    if (!g) return;
    for (size_t i = 0; i < g->programs.count; i++) {
        free(g->programs.at[i].entries.at);
        free(g->programs.at[i].holds.at);
        free(g->programs.at[i].frees.at);
    }
    void *const lists[] = {
        g->ops.at,           g->op_hash.at,       g->op_slots,         g->tensors.at,       g->tensor_state.at,
        g->storages.at,      g->storage_state.at, g->args.at,          g->parameters.at,    g->parameter_state.at,
        g->inputs.at,        g->modules.at,       g->module_state.at,  g->constants.at,     g->programs.at,
        g->blocks.at,        g->steps.at,         g->tape.at,          g->tape_args.at,     g->writes.at,
        g->forward_holds.at, g->program_holds.at, g->casts.at,         g->shards.at,        g->scratch.at,
        g->grads.at,         g->segments.at,      g->newest_tensor.at, g->newest_storage.at};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]);
    sg_arena_free(g->arena);
    free(g);
}

const sg_profile *sg_graph_profile(const sg_graph *g) {
    return &g->profile;
}

sg_dtype sg_float(const sg_graph *g) {
    return g->profile.float_dtype;
}

sg_training *sg_graph_training(sg_graph *g) {
    return g->training;
}

/* ---- finishing ------------------------------------------------------------------------------------------------- */

/* Hands a list's memory to the arena; the graph forgets it. */
#define HAND_OVER(g, list, field, counter)                                                                             \
    do {                                                                                                               \
        if (!sg_arena_adopt((g)->arena, (list).at)) {                                                                  \
            sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for the step program");                          \
            return false;                                                                                              \
        }                                                                                                              \
        (g)->training->field = (list).at;                                                                              \
        (g)->training->counter = (list).count;                                                                         \
        (list).at = NULL;                                                                                              \
    } while (0)

static bool hand_over_programs(sg_graph *g) {
    size_t n = g->programs.count;
    sg_program *programs = sg_arena_alloc(g->arena, n * sizeof *programs);
    for (size_t i = 0; i < n && programs; i++) {
        sg_draft *draft = &g->programs.at[i];
        if (!sg_arena_adopt(g->arena, draft->entries.at)) {
            programs = NULL;
            break;
        }
        programs[i] = (sg_program){draft->name, draft->entries.at, draft->entries.count, draft->ends_optimizer_step};
        draft->entries.at = NULL;
    }
    if (!programs) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for the step program");
        return false;
    }
    g->training->programs = programs;
    g->training->n_programs = n;
    return true;
}

static bool hand_over(sg_graph *g) {
    if (!hand_over_programs(g)) return false;
    HAND_OVER(g, g->ops, ops, n_ops);
    HAND_OVER(g, g->tensors, tensors, n_tensors);
    HAND_OVER(g, g->storages, storages, n_storages);
    HAND_OVER(g, g->args, args, n_args);
    HAND_OVER(g, g->parameters, parameters, n_parameters);
    HAND_OVER(g, g->inputs, inputs, n_inputs);
    HAND_OVER(g, g->modules, modules, n_modules);
    HAND_OVER(g, g->blocks, blocks, n_blocks);
    return true;
}

static void check_complete(sg_graph *g) {
    if (g->in_program)
        sg_graph_fail(g, SG_BAD_INPUT, "program %s was not ended", g->programs.at[g->programs.count - 1].name);
    if (g->in_block) sg_graph_fail(g, SG_BAD_INPUT, "a block of the schedule was not ended");
    if (g->programs.count == 0) sg_graph_fail(g, SG_BAD_INPUT, "the training has no program");
    if (g->module != 0) sg_graph_fail(g, SG_BAD_INPUT, "module %s was not ended", g->modules.at[g->module].name);
}

sg_code sg_graph_finish(sg_graph *g, sg_training **training, sg_status *status) {
    *training = NULL;
    check_complete(g);
    if (g->failed || !sg_graph_place_lifetimes(g) || !sg_shard_place_gathers(g) || !hand_over(g)) {
        sg_code code = sg_fail(status, g->status.code, "%s", g->status.text);
        sg_graph_free(g);
        return code;
    }
    sg_training *built = g->training;
    g->arena = NULL;
    sg_graph_free(g);
    sg_code code = sg_training_verify(built, status);
    if (code != SG_OK) {
        sg_training_free(built);
        return code;
    }
    *training = built;
    return SG_OK;
}

void sg_training_free(sg_training *training) {
    if (training) sg_arena_free(training->arena);
}

/* ---- modules --------------------------------------------------------------------------------------------------- */

static int32_t find_child(const sg_graph *g, int32_t parent, const char *name) {
    int32_t i = g->module_state.at[parent].first_child;
    while (i >= 0 && strcmp(g->module_state.at[i].local_name, name) != 0) i = g->module_state.at[i].next_sibling;
    return i;
}

static int32_t add_child(sg_graph *g, int32_t parent, const char *name) {
    if (!SG_ROOM(g, &g->modules, 1) || !SG_ROOM(g, &g->module_state, 1)) return -1;
    const char *above = g->modules.at[parent].name;
    const char *full = sg_graph_text(g, "%s%s%s", above, *above ? "." : "", name);
    const char *local = full + strlen(full) - (g->failed ? 0 : strlen(name));
    int32_t id = (int32_t)g->modules.count;
    g->modules.at[g->modules.count++] = (sg_module){full, parent};
    g->module_state.at[g->module_state.count++] = (sg_module_state){-1, g->module_state.at[parent].first_child, local};
    g->module_state.at[parent].first_child = id;
    return id;
}

void sg_module_begin(sg_graph *g, const char *format, ...) {
    if (g->failed) return;
    char text[256];
    const char *name = text;
    int n = 0;
    va_list args;
    va_start(args, format);
    if (strcmp(format, "%s") == 0) { /* as in every pass through a layer */
        name = va_arg(args, const char *);
        n = (int)strnlen(name, sizeof text);
    } else {
        n = vsnprintf(text, sizeof text, format, args);
    }
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) {
        sg_graph_fail(g, SG_BAD_INPUT, "a module's name has more than %zu characters", sizeof text - 1);
        return;
    }
    int32_t id = find_child(g, g->module, name);
    if (id < 0) id = add_child(g, g->module, name);
    if (id >= 0) g->module = id;
}

void sg_module_end(sg_graph *g) {
    if (g->failed) return;
    if (g->module == 0)
        sg_graph_fail(g, SG_BAD_INPUT, "a module was ended that had not begun");
    else
        g->module = g->modules.at[g->module].parent;
}

/* ---- programs -------------------------------------------------------------------------------------------------- */

int32_t sg_program_begin(sg_graph *g, const char *name) {
    if (g->failed) return -1;
    if (g->in_program) {
        sg_graph_fail(g, SG_BAD_INPUT, "program %s began inside another one", name);
        return -1;
    }
    if (!SG_ROOM(g, &g->programs, 1)) return -1;
    g->programs.at[g->programs.count++] = (sg_draft){.name = sg_graph_text(g, "%s", name)};
    g->in_program = true;
    g->pass = SG_PASS_FORWARD;
    g->last_mark = -1;
    return (int32_t)g->programs.count - 1;
}

void sg_program_end(sg_graph *g) {
    if (!sg_graph_draft(g)) return;
    if (g->last_mark >= 0 && g->last_mark != SG_MARK_END) sg_mark_here(g, SG_MARK_END);
    sg_forward_end(g);
    g->program_holds.count = 0;
    if (g->segment >= 0) sg_graph_fail(g, SG_BAD_INPUT, "a checkpointed segment was not ended");
    sg_checkpoint_clear(g);
    g->tape.count = g->tape_args.count = 0;
    g->in_program = false;
}

void sg_pass_set(sg_graph *g, sg_pass pass) {
    g->pass = (uint8_t)pass;
}

void sg_mark_here(sg_graph *g, sg_mark mark) {
    if (g->failed || !sg_graph_draft(g) || g->last_mark == (int)mark) return;
    if (sg_graph_entry(g, SG_ENTRY_MARK, (int32_t)mark, 0)) g->last_mark = (int)mark;
}

void sg_copy_inputs(sg_graph *g) {
    for (size_t i = 0; i < g->inputs.count && !g->failed; i++)
        if (g->inputs.at[i].source != SG_INPUT_STORAGE) (void)sg_graph_entry(g, SG_ENTRY_COPY, (int32_t)i, 0);
}

void sg_wait(sg_graph *g, sg_tid tensor) {
    if (sg_graph_has(g, tensor)) (void)sg_graph_entry(g, SG_ENTRY_WAIT, tensor, 0);
}

void sg_no_grad_begin(sg_graph *g) {
    g->no_grad++;
}

void sg_no_grad_end(sg_graph *g) {
    if (g->no_grad == 0)
        sg_graph_fail(g, SG_BAD_INPUT, "gradients were switched on again more often than off");
    else
        g->no_grad--;
}

void sg_hold_forward(sg_graph *g, sg_tid tensor) {
    if (!sg_graph_has(g, tensor) || !SG_ROOM(g, &g->forward_holds, 1)) return;
    g->forward_holds.at[g->forward_holds.count++] = tensor;
}

void sg_hold_program(sg_graph *g, sg_tid tensor) {
    if (!sg_graph_has(g, tensor) || !SG_ROOM(g, &g->program_holds, 1)) return;
    g->program_holds.at[g->program_holds.count++] = tensor;
    sg_graph_hold(g, g->tensors.at[tensor].storage, UINT32_MAX);
}

/* ---- schedule -------------------------------------------------------------------------------------------------- */

void sg_block_begin(sg_graph *g, const char *name, int64_t repeat) {
    if (g->failed) return;
    if (g->in_block || repeat < 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "block %s: %s", name,
                      g->in_block ? "began inside another one" : "repeat is below 0");
        return;
    }
    if (!SG_ROOM(g, &g->blocks, 1)) return;
    g->blocks.at[g->blocks.count++] = (sg_block){.name = sg_graph_text(g, "%s", name), .repeat = repeat};
    g->steps.count = 0;
    g->in_block = true;
}

static void add_step(sg_graph *g, sg_step_kind kind, int32_t index, int64_t env_steps) {
    if (g->failed) return;
    if (!g->in_block) {
        sg_graph_fail(g, SG_BAD_INPUT, "a step of the schedule stands outside of a block");
        return;
    }
    if (SG_ROOM(g, &g->steps, 1)) g->steps.at[g->steps.count++] = (sg_schedule_step){(uint8_t)kind, index, env_steps};
}

void sg_block_program(sg_graph *g, int32_t program) {
    if (!g->failed && (program < 0 || (size_t)program >= g->programs.count))
        sg_graph_fail(g, SG_BAD_INPUT, "the schedule names program %d, which does not exist", (int)program);
    add_step(g, SG_STEP_PROGRAM, program, 0);
}

void sg_block_loader(sg_graph *g) {
    add_step(g, SG_STEP_LOADER, -1, 0);
}

void sg_block_environment(sg_graph *g, int64_t env_steps) {
    add_step(g, SG_STEP_ENVIRONMENT, -1, env_steps);
}

void sg_block_end(sg_graph *g) {
    if (g->failed) return;
    if (!g->in_block) {
        sg_graph_fail(g, SG_BAD_INPUT, "a block was ended that had not begun");
        return;
    }
    size_t bytes = g->steps.count * sizeof *g->steps.at;
    sg_schedule_step *steps = sg_arena_alloc(g->arena, bytes);
    if (!steps) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate %zu bytes of host memory for the schedule", bytes);
        return;
    }
    if (bytes) memcpy(steps, g->steps.at, bytes);
    g->blocks.at[g->blocks.count - 1].steps = steps;
    g->blocks.at[g->blocks.count - 1].n_steps = g->steps.count;
    g->in_block = false;
}
