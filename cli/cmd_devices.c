/* devices: what is here, and is it ready to train; if not, why, and what to do. */
#include "cli/commands.h"
#include "cli/show.h"
#include "kernels/module.h"
#include "sim/measure.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct device_row {
    char kind[16], name[160], state[400];
    bool ready;
} device_row;

/* Bytes that new programs may use, or 0 when the system does not say. */
static double memory_available(void) {
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) return 0;
    char line[128];
    double kib = 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "MemAvailable:", 13) == 0) kib = strtod(line + 13, NULL);
    (void)fclose(file);
    return kib * 1024;
}

static void look_at_cpu(device_row *row) {
    (void)snprintf(row->kind, sizeof row->kind, "cpu");
    sg_status status;
    const sg_device_api *api;
    sg_device *device;
    sg_device_info info;
    sg_device_options options = {0};
    if (sg_module_device("cpu", &api, &status) != SG_OK || api->open(&options, &device, &status) != SG_OK) {
        (void)snprintf(row->state, sizeof row->state, "not ready: %.380s", status.text);
        return;
    }
    if (api->info(device, &info, &status) == SG_OK) {
        (void)snprintf(row->name, sizeof row->name, "%s", info.name);
        (void)snprintf(row->state, sizeof row->state, "ready: %d threads, %s, bf16 %s, %s of %s free", info.units,
                       info.library, info.bf16_native ? "in hardware" : "computed as fp32",
                       sg_show_bytes(memory_available()).s, sg_show_bytes((double)info.memory_bytes).s);
        row->ready = true;
    } else {
        (void)snprintf(row->state, sizeof row->state, "not ready: %.380s", status.text);
    }
    api->close(device);
}

/* Without the CUDA device there is still an answer: is there a GPU and a driver at all? */
static void look_at_gpus(device_row *row) {
    (void)snprintf(row->kind, sizeof row->kind, "cuda");
    glob_t nodes;
    size_t gpus = glob("/dev/nvidia[0-9]*", 0, NULL, &nodes) == 0 ? nodes.gl_pathc : 0;
    if (gpus) globfree(&nodes);
    bool driver = access("/proc/driver/nvidia/version", R_OK) == 0;
    if (!gpus && !driver)
        (void)snprintf(row->state, sizeof row->state,
                       "none: no NVIDIA device node and no driver; 'predict --machine NAME' and "
                       "'plan' answer for GPUs that are elsewhere");
    else if (!driver)
        (void)snprintf(row->state, sizeof row->state,
                       "not ready: %zu device node(s) but no NVIDIA driver is loaded: install "
                       "the driver and load it (modprobe nvidia)",
                       gpus);
    else
        (void)snprintf(row->state, sizeof row->state,
                       "%zu NVIDIA GPU(s) with a driver; this build measures on CPUs only: import "
                       "a training log of the GPU ('fit --log') or predict from its data sheet",
                       gpus);
}

static void look_at_ranks(device_row *row) {
    (void)snprintf(row->kind, sizeof row->kind, "ranks");
    sg_status status;
    const sg_transport_api *transport;
    if (sg_module_transport("mpi", &transport, &status) == SG_OK) {
        (void)snprintf(row->state, sizeof row->state,
                       "ready: data parallel on the CPU through MPI ('measure --ranks N')");
        row->ready = true;
    } else {
        (void)snprintf(row->state, sizeof row->state, "not ready: %.380s", status.text);
    }
}

int sg_cmd_devices(const sg_args *args) {
    sg_machine_record machine = {0};
    sg_machine_describe(&machine);
    device_row rows[3];
    memset(rows, 0, sizeof rows);
    look_at_cpu(&rows[0]);
    look_at_gpus(&rows[1]);
    look_at_ranks(&rows[2]);
    if (args->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < 3; i++)
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:b, s:s}", "kind", rows[i].kind, "name", rows[i].name,
                                                  "ready", (int)rows[i].ready, "state", rows[i].state));
        json_t *object = json_pack("{s:{s:s, s:s, s:s, s:I, s:I, s:I, s:f}, s:o}", "machine", "hostname",
                                   machine.hostname, "cpu", machine.cpu, "os", machine.os, "cores",
                                   (json_int_t)machine.cores, "threads", (json_int_t)machine.threads, "memory_bytes",
                                   (json_int_t)machine.memory_bytes, "clock_mhz", machine.clock_mhz, "devices", list);
        return sg_json_print(object, rows[0].ready ? SG_OK : SG_NO);
    }
    printf("%s: %s, %lld cores, %s, %s\n\n", machine.hostname, machine.cpu, (long long)machine.cores,
           sg_show_bytes((double)machine.memory_bytes).s, machine.os);
    for (size_t i = 0; i < 3; i++)
        printf("  %-6s %s%s%s\n", rows[i].kind, rows[i].name, rows[i].name[0] ? "\n         " : "", rows[i].state);
    return rows[0].ready ? SG_OK : SG_NO;
}
