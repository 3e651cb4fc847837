/* nvml_api.h: the functions of the NVIDIA management library that nvml.c uses, with the layouts of their structs.
 *
 * After the NVML API reference guide (docs.nvidia.com/deploy/nvml-api): a function whose signature or struct changed got a
 * new symbol with _v2, _v3, and old symbols stay; structs that grow carry their size and version in `version`. */
#ifndef SG_KERNELS_NVIDIA_NVML_API_H
#define SG_KERNELS_NVIDIA_NVML_API_H

typedef int nvml_return;
typedef struct nvml_device_opaque *nvml_device;

enum {
    NVML_SUCCESS = 0,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_LIB_RM_VERSION_MISMATCH = 18,
    NVML_UNKNOWN = 999
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0, NVML_NVLINKS_MAX = 36 };
enum { NVML_UNCORRECTED = 1, NVML_VOLATILE = 0, NVML_AGGREGATE = 1 };
enum { NVML_LINK_TO_GPU = 0, NVML_LINK_TO_SWITCH = 2 };

/* usedGpuMemory where the operating system manages the memory */
#define NVML_VALUE_NOT_AVAILABLE (~0ULL)

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_utilization {
    unsigned gpu, memory;
} nvml_utilization;

typedef struct nvml_pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} nvml_pci_info;

typedef struct nvml_process_v1 {
    unsigned pid;
    unsigned long long used_gpu_memory;
} nvml_process_v1;

typedef struct nvml_process { /* of _v2 and _v3 */
    unsigned pid;
    unsigned long long used_gpu_memory;
    unsigned gpu_instance_id, compute_instance_id;
} nvml_process;

typedef struct nvml_temperature {
    unsigned version, sensor;
    int temperature;
} nvml_temperature;
#define NVML_TEMPERATURE_VERSION ((unsigned)sizeof(nvml_temperature) | 1u << 24)

/* X(member, symbol, older symbol with the same signature or NULL, parameters) */
#define NVML_FUNCTIONS(X)                                                                                              \
    X(init, "nvmlInit_v2", "nvmlInit", (void))                                                                         \
    X(shutdown, "nvmlShutdown", NULL, (void))                                                                          \
    X(driver_version, "nvmlSystemGetDriverVersion", NULL, (char *, unsigned))                                          \
    X(cuda_version_of, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion", (int *))                 \
    X(count_of, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (unsigned *))                                           \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", (unsigned, nvml_device *))              \
    X(name, "nvmlDeviceGetName", NULL, (nvml_device, char *, unsigned))                                                \
    X(uuid, "nvmlDeviceGetUUID", NULL, (nvml_device, char *, unsigned))                                                \
    X(pci, "nvmlDeviceGetPciInfo_v3", NULL, (nvml_device, nvml_pci_info *))                                            \
    X(capability, "nvmlDeviceGetCudaComputeCapability", NULL, (nvml_device, int *, int *))                             \
    X(memory, "nvmlDeviceGetMemoryInfo", NULL, (nvml_device, nvml_memory *))                                           \
    X(clock, "nvmlDeviceGetClockInfo", NULL, (nvml_device, unsigned, unsigned *))                                      \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", NULL, (nvml_device, unsigned, unsigned *))                               \
    X(temperature, "nvmlDeviceGetTemperature", NULL, (nvml_device, unsigned, unsigned *))                              \
    X(temperature_v, "nvmlDeviceGetTemperatureV", NULL, (nvml_device, nvml_temperature *))                             \
    X(power, "nvmlDeviceGetPowerUsage", NULL, (nvml_device, unsigned *))                                               \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit", (nvml_device, unsigned *))  \
    X(power_default, "nvmlDeviceGetPowerManagementDefaultLimit", NULL, (nvml_device, unsigned *))                      \
    X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",                  \
      (nvml_device, unsigned long long *))                                                                             \
    X(utilization, "nvmlDeviceGetUtilizationRates", NULL, (nvml_device, nvml_utilization *))                           \
    X(performance_state, "nvmlDeviceGetPerformanceState", NULL, (nvml_device, int *))                                  \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",                 \
      (nvml_device, unsigned *, nvml_process *))                                                                       \
    X(processes_v1, "nvmlDeviceGetComputeRunningProcesses", NULL, (nvml_device, unsigned *, nvml_process_v1 *))        \
    X(ecc_mode, "nvmlDeviceGetEccMode", NULL, (nvml_device, int *, int *))                                             \
    X(ecc_errors, "nvmlDeviceGetTotalEccErrors", NULL, (nvml_device, int, int, unsigned long long *))                  \
    X(remapped_rows, "nvmlDeviceGetRemappedRows", NULL, (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *)) \
    X(mig_mode, "nvmlDeviceGetMigMode", NULL, (nvml_device, unsigned *, unsigned *))                                   \
    X(persistence, "nvmlDeviceGetPersistenceMode", NULL, (nvml_device, int *))                                         \
    X(compute_mode, "nvmlDeviceGetComputeMode", NULL, (nvml_device, int *))                                            \
    X(pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration", NULL, (nvml_device, unsigned *))                         \
    X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", NULL, (nvml_device, unsigned *))                                   \
    X(pcie_max_generation, "nvmlDeviceGetMaxPcieLinkGeneration", NULL, (nvml_device, unsigned *))                      \
    X(pcie_gpu_generation, "nvmlDeviceGetGpuMaxPcieLinkGeneration", NULL, (nvml_device, unsigned *))                   \
    X(pcie_max_width, "nvmlDeviceGetMaxPcieLinkWidth", NULL, (nvml_device, unsigned *))                                \
    X(link_state, "nvmlDeviceGetNvLinkState", NULL, (nvml_device, unsigned, int *))                                    \
    X(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", NULL, (nvml_device, unsigned, nvml_pci_info *))              \
    X(link_kind, "nvmlDeviceGetNvLinkRemoteDeviceType", NULL, (nvml_device, unsigned, int *))                          \
    X(ancestor, "nvmlDeviceGetTopologyCommonAncestor", NULL, (nvml_device, nvml_device, int *))

#endif
