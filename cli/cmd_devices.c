/* devices: what is here, and is it ready to train; if not, why, and what to do. */
#include "cli/commands.h"
#include "cli/gpus.h"
#include "cli/show.h"
#include "kernels/module.h"
#include "sim/measure/measure.h"
#include "sim/ranks/launch_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct device_row {
    char kind[16], name[160], state[1200];
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

static void look_at_gpus(const sg_gpu_survey *survey, device_row *row) {
    (void)snprintf(row->kind, sizeof row->kind, "cuda");
    (void)snprintf(row->name, sizeof row->name, "%s", survey->name);
    (void)snprintf(row->state, sizeof row->state, "%s", survey->state);
    row->ready = survey->ready;
}

static void look_at_ranks(device_row *row) {
    (void)snprintf(row->kind, sizeof row->kind, "ranks");
    sg_status status;
    const sg_transport_api *transport;
    row->ready = true; /* TCP needs nothing */
    if (sg_launch_ranks_possible() && sg_module_transport("mpi", &transport, &status) == SG_OK)
        (void)snprintf(row->state, sizeof row->state,
                       "ready: data parallel on the CPU through MPI ('measure --ranks N')");
    else
        (void)snprintf(row->state, sizeof row->state,
                       "ready: data parallel on the CPU over TCP ('measure --ranks N'); with Open MPI gradients move "
                       "faster (Debian: apt install openmpi-bin)");
}

/* A row's text may hold a path or a variable of any bytes. */
static json_t *json_row(const device_row *row) {
    json_t *object = json_pack("{s:s, s:s, s:b}", "kind", row->kind, "name", row->name, "ready", (int)row->ready);
    json_t *state = json_string(row->state);
    (void)json_object_set_new(object, "state", state ? state : json_string("(not UTF-8)"));
    return object;
}

enum { CPU, CUDA, RANKS, ROWS };

static int show_json(const sg_machine_record *machine, const device_row *rows, const sg_gpu_survey *survey) {
    json_t *list = json_array();
    for (size_t i = 0; i < ROWS; i++) {
        json_t *row = json_row(&rows[i]);
        if (i == CUDA) sg_gpu_survey_json(survey, row);
        (void)json_array_append_new(list, row);
    }
    json_t *object = json_pack("{s:{s:s, s:s, s:s, s:I, s:I, s:I, s:f}, s:o}", "machine", "hostname", machine->hostname,
                               "cpu", machine->cpu, "os", machine->os, "cores", (json_int_t)machine->cores, "threads",
                               (json_int_t)machine->threads, "memory_bytes", (json_int_t)machine->memory_bytes,
                               "clock_mhz", machine->clock_mhz, "devices", list);
    return sg_json_print(object, rows[CPU].ready ? SG_OK : SG_NO);
}

static int show_text(const sg_machine_record *machine, const device_row *rows, const sg_gpu_survey *survey) {
    printf("%s: %s, %lld cores, %s, %s\n\n", machine->hostname, machine->cpu, (long long)machine->cores,
           sg_show_bytes((double)machine->memory_bytes).s, machine->os);
    for (size_t i = 0; i < ROWS; i++)
        printf("  %-6s %s%s%s\n", rows[i].kind, rows[i].name, rows[i].name[0] ? "\n         " : "", rows[i].state);
    sg_gpu_survey_print(survey);
    return rows[CPU].ready ? SG_OK : SG_NO;
}

int sg_cmd_devices(const sg_args *args) {
    sg_machine_record machine = {0};
    device_row rows[ROWS];
    sg_status status = {0};
    sg_gpu_survey *survey = malloc(sizeof *survey);
    if (!survey) {
        (void)sg_fail_memory(&status, sizeof *survey, "what is known of the GPUs");
        return sg_show_error(args, &status);
    }
    if (sg_gpu_survey_make(args->cuda_libs, survey, &status) != SG_OK) {
        free(survey);
        return sg_show_error(args, &status);
    }
    sg_machine_describe(&machine);
    memset(rows, 0, sizeof rows);
    look_at_cpu(&rows[CPU]);
    look_at_gpus(survey, &rows[CUDA]);
    look_at_ranks(&rows[RANKS]);
    int result = args->json ? show_json(&machine, rows, survey) : show_text(&machine, rows, survey);
    sg_gpu_survey_clear(survey);
    free(survey);
    return result;
}
