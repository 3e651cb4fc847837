#include "calibration/plan/memory_plan.h"

#include "kernels/virtual/machine.h"

#include <stdio.h>

/* A machine on which everything fits and every price is defined: only the allocator's course is of interest. */
static void endless_machine(sg_machine *machine, bool caching) {
    sg_machine_init(machine);
    (void)snprintf(machine->name, sizeof machine->name, "endless");
    (void)snprintf(machine->device_class, sizeof machine->device_class, "%s", caching ? "cuda" : "cpu");
    machine->bf16 = machine->fp16 = machine->tf32 = true;
    machine->caching_allocator = caching;
    machine->memory_bytes = UINT64_C(1) << 60;
    for (int i = 0; i < SG_M_COUNT; i++) machine->p[i].value = 1;
}

static sg_code walk_twice(const sg_training *training, sg_device *device, sg_memory_peak *peak, sg_status *status) {
    sg_walk_options options = {.api = sg_virtual_device(), .device = device, .seed = 1, .ranks = 1};
    sg_walker *walker;
    sg_code code = SG_OK;
    if (training->n_shards) { /* what a rank holds depends on how many there are */
        options.ranks = (int)training->shard_ranks;
        code = options.api->comm_create(device, &(sg_comm_options){.ranks = options.ranks}, &options.comm, status);
    }
    if (code == SG_OK) code = sg_walker_open(training, &options, &walker, status);
    if (code != SG_OK) {
        if (options.comm) options.api->comm_destroy(device, options.comm);
        return code;
    }
    sg_step_times times;
    code = sg_walker_iteration(walker, &times, status);
    sg_walker_reset_peak(walker);
    if (code == SG_OK) code = sg_walker_iteration(walker, &times, status);
    if (code == SG_OK) sg_walker_peak(walker, peak);
    sg_walker_close(walker);
    if (options.comm) options.api->comm_destroy(device, options.comm);
    return code;
}

sg_code sg_memory_plan(const sg_training *training, bool caching, sg_memory_peak *peak, sg_status *status) {
    sg_machine machine;
    endless_machine(&machine, caching);
    sg_device_options options = {.machine = &machine};
    sg_device *device;
    sg_code code = sg_virtual_device()->open(&options, &device, status);
    if (code == SG_OK) {
        code = walk_twice(training, device, peak, status);
        sg_virtual_device()->close(device);
    }
    sg_machine_clear(&machine);
    return code;
}
