/* reserved_bytes.c: what a caching allocator takes for a training, found without computing anything: the program is walked on
 * a device that only keeps account; and the largest batch that this leaves room for. */
#include "kernels/virtual/machine.h"
#include "sim/measure/measure.h"

/* Every price is 1 s: only the allocator matters. */
static void bookkeeper(sg_machine *machine) {
    sg_machine_init(machine);
    machine->caching_allocator = machine->bf16 = machine->fp16 = machine->tf32 = true;
    machine->memory_bytes = UINT64_C(1) << 62;
    for (int i = 0; i < SG_M_COUNT; i++) machine->p[i].value = 1;
}

/* The second iteration finds the optimizer's state there, the third finds what the second left. */
static sg_code walk(const sg_training *training, const sg_walk_options *options, uint64_t *bytes, sg_status *status) {
    enum { ITERATIONS = 3 };
    sg_walker *walker = NULL;
    sg_memory_peak peak;
    sg_code code = sg_walker_open(training, options, &walker, status);
    for (int i = 0; i < ITERATIONS && !code; i++) code = sg_walker_iteration(walker, NULL, status);
    if (!code) {
        sg_walker_peak(walker, &peak);
        *bytes = peak.reserved_bytes;
    }
    sg_walker_close(walker);
    return code;
}

sg_code sg_training_reserved_bytes(const sg_training *training, int ranks, uint64_t *bytes, sg_status *status) {
    sg_machine machine;
    bookkeeper(&machine);
    const sg_device_api *api = sg_virtual_device();
    sg_walk_options options = {.api = api, .ranks = ranks > 1 ? ranks : 1};
    sg_code code = api->open(&(sg_device_options){.machine = &machine}, &options.device, status);
    if (code) return code;
    if (ranks > 1) code = api->comm_create(options.device, &(sg_comm_options){.ranks = ranks}, &options.comm, status);
    if (!code) code = walk(training, &options, bytes, status);
    if (options.comm) api->comm_destroy(options.device, options.comm);
    api->close(options.device);
    return code;
}

static sg_code reserved_at(const sg_policy_request *request, int64_t batch, uint64_t *bytes, sg_status *status) {
    sg_policy_request asked = *request;
    sg_training *training = NULL;
    asked.batch = batch;
    sg_code code = sg_policy_build(&asked, &training, status);
    if (!code) code = sg_training_reserved_bytes(training, (int)request->ranks, bytes, status);
    sg_training_free(training);
    return code;
}

/* Doubling until it no longer fits, then halving the interval. Reserved bytes do not fall as the batch grows, but for
 * rounding to segments, which the interval ends inside of. */
sg_code sg_measure_largest_batch(const sg_policy_request *request, uint64_t bytes, int64_t most, int64_t *batch,
                                 sg_status *status) {
    int64_t fits = 0, fails = most + 1;
    for (int64_t next = 1; fits + 1 < fails;) {
        uint64_t needed = 0;
        sg_code code = reserved_at(request, next, &needed, status);
        if (code) return code;
        if (needed <= bytes)
            fits = next;
        else
            fails = next;
        next = fails > most ? 2 * fits : fits + (fails - fits) / 2;
        if (next > most) next = most;
    }
    *batch = fits;
    return SG_OK;
}
