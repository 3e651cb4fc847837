#include "cli/device_choice.h"

#include "calibration/machine/framework_file.h"
#include "calibration/machine/machine_match.h"
#include "calibration/predict/predict.h"
#include "kernels/module.h"
#include "kernels/nvidia/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which ------------------------------------------------------------------------------------------------------- */

static bool gpu_is_ready(char *why, size_t bytes) {
    sg_nvidia_driver driver;
    const sg_device_api *api;
    sg_status status;
    why[0] = '\0';
    sg_nvidia_driver_look(NULL, &driver);
    if (driver.problem == SG_DRIVER_NO_GPU) return false;
    bool has_module = sg_module_device("cuda", &api, &status) == SG_OK;
    if (driver.problem == SG_DRIVER_READY && driver.devices > 0 && has_module) return true;
    (void)snprintf(why, bytes, "%s", driver.problem == SG_DRIVER_READY ? status.text : driver.text);
    return false;
}

sg_code sg_device_ready(const sg_device_choice *choice, int64_t gpus, sg_status *status) {
    if (choice->device_class != SG_DEVICE_CLASS_CUDA) return SG_OK;
    sg_nvidia_driver driver;
    sg_nvidia_driver_look(NULL, &driver);
    if (driver.problem != SG_DRIVER_READY)
        return sg_fail(status, SG_MACHINE,
                       "no GPU can be used: %s; or take the processor, with --device cpu and --ranks", driver.text);
    if (gpus <= driver.devices) return SG_OK;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return sg_fail(status, SG_BAD_INPUT, "--gpus %lld: %d can be seen here%s%.64s%s: use --gpus %d or fewer%s",
                   (long long)gpus, driver.devices, visible ? " (CUDA_VISIBLE_DEVICES is '" : "",
                   visible ? visible : "", visible ? "')" : "", driver.devices,
                   visible ? ", or name more GPUs there" : "");
}

static sg_code check_words(const sg_args *a, sg_status *status) {
    static const char *const hosts[] = {"emulated", "native"}, *const convs[] = {"benchmark", "heuristic"};
    if (a->host && strcmp(a->host, hosts[0]) != 0 && strcmp(a->host, hosts[1]) != 0)
        return sg_fail(status, SG_BAD_INPUT, "--host '%.64s': emulated or native is expected", a->host);
    if (a->conv && strcmp(a->conv, convs[0]) != 0 && strcmp(a->conv, convs[1]) != 0)
        return sg_fail(status, SG_BAD_INPUT, "--conv '%.64s': benchmark or heuristic is expected", a->conv);
    return SG_OK;
}

sg_code sg_device_choose(const sg_args *a, sg_device_choice *choice, sg_status *status) {
    *choice = (sg_device_choice){.device = "cpu", .device_class = SG_DEVICE_CLASS_CPU};
    bool cpu = a->device && strcmp(a->device, "cpu") == 0, cuda = a->device && strcmp(a->device, "cuda") == 0;
    if (a->device && !cpu && !cuda)
        return sg_fail(status, SG_BAD_INPUT, "--device '%.64s': cpu or cuda is expected", a->device);
    if (cpu && a->gpus.n)
        return sg_fail(status, SG_BAD_INPUT,
                       "--gpus with --device cpu: a CPU has ranks, give their number with --ranks");
    bool asks_cuda = a->cuda_graph || a->host || a->conv || a->cuda_libs;
    if (cpu && asks_cuda)
        return sg_fail(status, SG_BAD_INPUT,
                       "--cuda-graph, --host, --conv and --cuda-libs are about GPUs: leave them out with --device cpu");
    sg_code code = check_words(a, status);
    if (code != SG_OK) return code;
    if (cuda || a->gpus.n || (!cpu && asks_cuda) ||
        (!cpu && gpu_is_ready(choice->passed_over, sizeof choice->passed_over))) {
        choice->device = "cuda";
        choice->device_class = SG_DEVICE_CLASS_CUDA;
    }
    return SG_OK;
}

/* ---- whose host --------------------------------------------------------------------------------------------------- */

sg_code sg_device_look(const sg_args *a, int index, sg_device_info *info, sg_status *status) {
    const sg_device_api *api;
    sg_device *device;
    sg_code code = sg_module_device("cuda", &api, status);
    if (code == SG_OK)
        code = api->open(&(sg_device_options){.index = index, .library_dir = a->cuda_libs}, &device, status);
    if (code != SG_OK) return code;
    code = api->info(device, info, status);
    api->close(device);
    return code;
}

sg_code sg_device_has_sheet(const sg_args *a, const sg_device_choice *choice, int index, sg_status *status) {
    if (a->machine || choice->device_class != SG_DEVICE_CLASS_CUDA) return SG_OK;
    sg_device_info info;
    sg_machine machine;
    sg_code code = sg_device_look(a, index, &info, status);
    if (code != SG_OK) return code;
    if (sg_machine_match(NULL, "cuda", info.name, info.memory_bytes, &machine, NULL) != SG_OK)
        return sg_fail(status, SG_BAD_INPUT,
                       "GPU '%.90s' has no data sheet of its own: name the nearest with --machine", info.name);
    sg_machine_clear(&machine);
    return SG_OK;
}

static sg_code load_machine(const sg_args *a, int index, sg_machine *machine, sg_device_choice *choice,
                            sg_status *status) {
    if (a->machine) {
        sg_code code = sg_machine_load(a->machine, NULL, machine, status);
        if (code == SG_OK) (void)snprintf(choice->host_from, sizeof choice->host_from, "machine %s", machine->name);
        return code;
    }
    sg_device_info info;
    sg_status ignored;
    sg_code code = sg_device_look(a, index, &info, status);
    if (code != SG_OK) return code;
    if (sg_machine_match(NULL, "cuda", info.name, info.memory_bytes, machine, &ignored) == SG_OK) {
        (void)snprintf(choice->host_from, sizeof choice->host_from, "the usual host of machine %s", machine->name);
        return SG_OK;
    }
    sg_machine_init(machine);
    (void)snprintf(machine->name, sizeof machine->name, "here");
    (void)snprintf(choice->host_from, sizeof choice->host_from, "the framework's usual host");
    return SG_OK;
}

sg_code sg_device_choose_host(const sg_args *a, sg_framework framework, int index, sg_device_choice *choice,
                              sg_status *status) {
    if (!sg_framework_runs(framework))
        return sg_fail(status, SG_BAD_INPUT,
                       "--framework %s: its steps can be predicted (stepgauge predict, plan), not run by this program: "
                       "measure pytorch-eager, with --cuda-graph where the update is to be captured, or native",
                       sg_framework_name(framework));
    if (choice->device_class != SG_DEVICE_CLASS_CUDA) return SG_OK;
    bool emulated = a->host ? strcmp(a->host, "emulated") == 0 : framework == SG_FRAMEWORK_PYTORCH_EAGER;
    if (!emulated) return SG_OK;
    sg_machine machine;
    sg_framework_numbers numbers;
    sg_code code = load_machine(a, index, &machine, choice, status);
    if (code != SG_OK) return code;
    code = sg_framework_load(sg_framework_name(framework), "cuda", NULL, &numbers, status);
    if (code == SG_OK) {
        sg_framework_apply(&numbers, &machine);
        code = sg_machine_host_s(&machine, choice->host_s, status);
    }
    sg_machine_clear(&machine);
    choice->emulates_host = code == SG_OK;
    return code == SG_OK ? code : sg_fail_in(status, "the host's time (--host native measures without it)");
}
