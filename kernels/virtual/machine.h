/* machine.h: what the virtual device needs to know of a machine: named parameters, each with its uncertainty and source.
 *
 * A plain struct. calibration/ reads it from YAML data sheets and fitted machine files and fits it; the virtual device
 * consumes it. Values are positive; uncertainty is kept in log units (0.10 = about 10 %). */
#ifndef SG_KERNELS_VIRTUAL_MACHINE_H
#define SG_KERNELS_VIRTUAL_MACHINE_H

#include "kernels/device.h"
#include "kernels/virtual/measured.h"

/* Bandwidth-bound kernels beyond bytes at a share of the bandwidth (price_rows.c). Each may be missing: its term is then
 * left out. "Nominal": the distinct bytes of inputs and outputs. Forms after facts measured on seven GPUs, float32. */
#define SG_MACHINE_ROW_PARAMETERS(X)                                                                                   \
    X(ELEMENTWISE_TWO, "elementwise_two_inputs", "", "share of the bandwidth with two tensors read / with one")        \
    X(POWER_TRAFFIC, "power_traffic", "", "time of a general power / of other element-wise ops")                       \
    X(CACHE_GAIN, "cache_gain", "", "speed of element-wise ops within half of the last-level cache / beyond")          \
    X(LAYER_NORM_TRAFFIC, "layer_norm_traffic", "", "layer norm forward: bytes / nominal while rows stay cached")      \
    X(LAYER_NORM_BACKWARD, "layer_norm_backward", "", "layer norm backward: bytes / nominal")                          \
    X(LAYER_NORM_ROW_S, "layer_norm_row_s", "s", "layer norm forward: time per row")                                   \
    X(LAYER_NORM_REREAD, "layer_norm_reread", "", "bytes added when a row's second read misses the cache")             \
    X(LAYER_NORM_COLUMNS, "layer_norm_columns", "", "columns where half miss / (cache per SM / 64 B)")                 \
    X(LAYER_NORM_STEEP, "layer_norm_steep", "", "steepness of that step in log columns")                               \
    X(SOFTMAX_TRAFFIC, "softmax_traffic", "", "softmax forward: bytes / nominal while rows stay cached")               \
    X(SOFTMAX_BACKWARD, "softmax_backward", "", "softmax backward: bytes / nominal")                                   \
    X(SOFTMAX_ROW_S, "softmax_row_s", "s", "softmax forward: time per row")                                            \
    X(SOFTMAX_REREAD, "softmax_reread", "", "bytes added when a row's second read misses the cache")                   \
    X(SOFTMAX_COLUMNS, "softmax_columns", "", "columns where half miss / (cache per SM / 64 B)")                       \
    X(SOFTMAX_STEEP, "softmax_steep", "", "steepness of that step in log columns")                                     \
    X(SOFTMAX_UNALIGNED, "softmax_unaligned", "", "time added where a row is no multiple of 16 bytes")                 \
    X(SOFTMAX_LOOP, "softmax_loop", "", "time of rows that a block loops over / that stay in registers")               \
    X(SOFTMAX_BLOCK, "softmax_block", "", "exponent of the block's use in that loop")                                  \
    X(EVENT_ELEMENTWISE_S, "event_elementwise_s", "s", "start of an element-wise kernel alone, event to event")        \
    X(EVENT_NORM_S, "event_norm_s", "s", "... of a layer norm")                                                        \
    X(EVENT_SOFTMAX_S, "event_softmax_s", "s", "... of a softmax")                                                     \
    X(CONV_LOW_PRECISION, "conv_low_precision", "",                                                                    \
      "image convolutions in bf16 or fp16 / in tf32, where there is tf32")                                             \
    X(CONV_LOW_SHARE, "conv_low_share", "", "... fp16 without tf32: share of the peak beside eff_conv")                \
    X(ATTENTION_BACKWARD, "attention_backward", "", "share of the peak in fused attention backward / forward")         \
    X(ATTENTION_MASKED, "attention_masked", "", "... with an explicit mask / without")

/* Products by tiles (product.h, docs/kernel-model.md). */
#define SG_MACHINE_PRODUCT_PARAMETERS(X)                                                                               \
    X(EFF_PRODUCT_TF32, "eff_product_tf32", "", "share of the peak of a 128x128 tile in tf32, gemm and bmm")           \
    X(EFF_PRODUCT_BF16, "eff_product_bf16", "", "... in bf16")                                                         \
    X(EFF_PRODUCT_F16, "eff_product_f16", "", "... in fp16")                                                           \
    X(FLOP_ENERGY_J, "flop_energy_j", "J", "board energy per fp32 FLOP on fp32 lanes: board power / it is sustained")  \
    X(TENSOR_FLOP_ENERGY_J, "tensor_flop_energy_j", "J", "... per bf16 or fp16 FLOP of tensor cores; tf32: twice")     \
    X(NODE_GAIN, "node_gain", "", "energy per FLOP before / after the step to 4-5 nm (tensor cores: to 7 nm)")         \
    X(LANE_SHARE, "lane_share", "", "share of the fp32 lanes fed where two halves share an SM's issue slots")          \
    X(TILE_POWER, "tile_power", "", "loss of a tile grows as (128 x 128 / its area) to this power")                    \
    X(TILE_FILL, "tile_fill", "", "start and end of a tile, as columns of contraction")                                \
    X(WAVE_SHARE, "wave_share", "", "of the SMs' idle time in a last wave that is lost")                               \
    X(PRODUCT_TRAFFIC_SHARE, "product_traffic_share", "", "share of the bandwidth of operands read and written once")  \
    X(PRODUCT_JOIN, "product_join", "", "power that joins compute and traffic time of a tile, > 1")                    \
    X(DRIFT_LENGTH, "drift_length", "", "contraction at which blocks stop sharing 4 MiB of L2")                        \
    X(DRIFT_SHARE, "drift_share", "", "share of the bandwidth of operands read again")                                 \
    X(DRIFT_WAVES, "drift_waves", "", "... waves shorten that contraction by this power")                              \
    X(CLOCK_FADE, "clock_fade", "", "sustained / first time of long linear products, minus 1")                         \
    X(CLOCK_FADE_BMM, "clock_fade_bmm", "", "... of batched products")                                                 \
    X(CLOCK_FADE_S, "clock_fade_s", "s", "time by which half of it has come")                                          \
    X(UNALIGNED, "unaligned_factor", "", "fp32 products whose contraction is no multiple of 4 / others")               \
    X(SPLIT_K_S, "split_k_s", "s", "fixed cost of dividing a contraction among blocks; unknown: never done")           \
    X(EVENT_PRODUCT_S, "event_product_s", "s", "start of a product alone, event to event, as kernel tables have it")

/* X(NAME, "key in files", unit, what). EFF_x multiplies the peak of the compute mode (products) or the memory bandwidth
 * (everything else). FACTOR_x: the framework factor, framework seconds / our seconds for the op class (1 when the
 * efficiencies were fitted to the framework itself). HOST_*: see sg_host_class; multiples are of HOST_OP_S. */
#define SG_MACHINE_PARAMETERS(X)                                                                                       \
    X(PEAK_F32, "peak_f32_flops", "FLOP/s", "dense fp32 products")                                                     \
    X(PEAK_TF32, "peak_tf32_flops", "FLOP/s", "dense tf32 products")                                                   \
    X(PEAK_BF16, "peak_bf16_flops", "FLOP/s", "dense bf16 products, fp32 accumulation")                                \
    X(PEAK_F16, "peak_f16_flops", "FLOP/s", "dense fp16 products, fp32 accumulation")                                  \
    X(BANDWIDTH, "memory_bandwidth", "B/s", "device memory")                                                           \
    X(EFF_GEMM, "eff_gemm", "", "share of the peak in large matrix products")                                          \
    X(EFF_BMM, "eff_bmm", "", "... batched matrix products")                                                           \
    X(EFF_CONV, "eff_conv", "", "... convolution forward")                                                             \
    X(EFF_CONV_BWD_DATA, "eff_conv_bwd_data", "", "... convolution backward by data")                                  \
    X(EFF_CONV_BWD_WEIGHTS, "eff_conv_bwd_weights", "", "... convolution backward by weights")                         \
    X(EFF_ATTENTION, "eff_attention", "", "... fused attention")                                                       \
    X(EFF_NORM, "eff_norm", "", "share of the bandwidth in norms")                                                     \
    X(EFF_SOFTMAX, "eff_softmax", "", "... softmax")                                                                   \
    X(EFF_ELEMENTWISE, "eff_elementwise", "", "... element-wise ops")                                                  \
    X(EFF_COPY, "eff_copy", "", "... copies, casts, concatenations")                                                   \
    X(EFF_POOL, "eff_pool", "", "... pooling and resizing")                                                            \
    X(EFF_REDUCE, "eff_reduce", "", "... reductions")                                                                  \
    X(EFF_EMBEDDING, "eff_embedding", "", "... embedding and gathers")                                                 \
    X(EFF_RANDOM, "eff_random", "", "... random numbers and dropout")                                                  \
    X(EFF_OPTIMIZER, "eff_optimizer", "", "... optimizer and clipping passes")                                         \
    X(KERNEL_START_S, "kernel_start_s", "s", "fixed time per product kernel inside a step")                            \
    X(KERNEL_FLOOR_S, "kernel_floor_s", "s", "fixed time per bandwidth-bound kernel inside a step")                    \
    X(FACTOR_GEMM, "factor_gemm", "", "framework factor")                                                              \
    X(FACTOR_BMM, "factor_bmm", "", "framework factor")                                                                \
    X(FACTOR_CONV, "factor_conv", "", "framework factor")                                                              \
    X(FACTOR_CONV_BWD_DATA, "factor_conv_bwd_data", "", "framework factor")                                            \
    X(FACTOR_CONV_BWD_WEIGHTS, "factor_conv_bwd_weights", "", "framework factor")                                      \
    X(FACTOR_ATTENTION, "factor_attention", "", "framework factor")                                                    \
    X(FACTOR_NORM, "factor_norm", "", "framework factor")                                                              \
    X(FACTOR_SOFTMAX, "factor_softmax", "", "framework factor")                                                        \
    X(FACTOR_ELEMENTWISE, "factor_elementwise", "", "framework factor")                                                \
    X(FACTOR_COPY, "factor_copy", "", "framework factor")                                                              \
    X(FACTOR_POOL, "factor_pool", "", "framework factor")                                                              \
    X(FACTOR_REDUCE, "factor_reduce", "", "framework factor")                                                          \
    X(FACTOR_EMBEDDING, "factor_embedding", "", "framework factor")                                                    \
    X(FACTOR_RANDOM, "factor_random", "", "framework factor")                                                          \
    X(FACTOR_OPTIMIZER, "factor_optimizer", "", "framework factor")                                                    \
    X(FACTOR_LOW_PRECISION, "factor_low_precision", "",                                                                \
      "of products in bf16 and fp16, beside the factor of their class")                                                \
    X(FUSED_BYTES, "fused_bytes", "",                                                                                  \
      "time of element-wise ops, norms, softmax, copies, sums and draws / one by one: what fusion leaves; the "        \
      "framework's")                                                                                                   \
    X(HOST_OP_S, "host_op_s", "s", "host time per forward op of the framework")                                        \
    X(HOST_BACKWARD, "host_backward_multiple", "", "backward op / forward op")                                         \
    X(HOST_VIEW, "host_view_multiple", "", "forward view / forward op")                                                \
    X(HOST_KEPT, "host_kept", "",                                                                                      \
      "host time of the policy's calls / in eager mode: what compiling them leaves; the framework's")                  \
    X(HOST_SPEED, "host_speed", "", "single-thread speed of its CPU / of the hosts that host_op_s is of")              \
    X(HOST_OPTIMIZER_OPS, "host_optimizer_ops", "", "optimizer bookkeeping per tensor / forward op")                   \
    X(HOST_OPTIMIZER_S, "host_optimizer_s", "s", "optimizer bookkeeping per step")                                     \
    X(HOST_SYNC_S, "host_sync_s", "s", "one blocking read, beyond waiting")                                            \
    X(HOST_SEGMENT_S, "host_segment_s", "s",                                                                           \
      "one allocation from the driver (cudaMalloc); not stated: none is counted")                                      \
    X(STEP_STRETCH, "step_stretch", "",                                                                                \
      "kernel time inside whole steps / alone: the clock that is sustained over a run")                                \
    X(COPY_BANDWIDTH, "host_to_device_bandwidth", "B/s", "pinned copies")                                              \
    X(COLLECTIVE_BUSBW, "collective_busbw", "B/s", "all-reduce bus bandwidth of a large vector within one node")       \
    X(COLLECTIVE_LATENCY_S, "collective_latency_s", "s", "all-reduce start")                                           \
    X(COLLECTIVE_RANK_S, "collective_rank_s", "s", "... more per rank of the node")                                    \
    X(COLLECTIVE_LOCAL, "collective_local", "B/s", "bytes that each rank copies and adds, however many ranks")         \
    X(COLLECTIVE_POWER, "collective_power", "", "time of a vector of up to 1 GiB by bytes to this power")              \
    X(COLLECTIVE_SWITCH, "collective_switch", "B/s", "per GPU where the switch adds (NVLink SHARP)")                   \
    X(COLLECTIVE_SMALL_S, "collective_small_s", "s", "start of the low-latency protocol")                              \
    X(COLLECTIVE_SMALL, "collective_small", "B/s", "bus bandwidth of the low-latency protocol")                        \
    X(COLLECTIVE_PAIR, "collective_pair", "B/s", "bus bandwidth of two GPUs with a bridge")                            \
    X(NETWORK, "network_busbw", "B/s", "bus bandwidth between nodes, all adapters of a node")                          \
    X(NETWORK_LATENCY_S, "network_latency_s", "s", "all-reduce, more per doubling of the nodes")                       \
    X(OVERLAP_STRETCH, "overlap_stretch", "", "compute time under a collective / alone")                               \
    X(COLLECTIVE_STRETCH, "collective_stretch", "", "collective time beside compute / alone")                          \
    X(RANK_JITTER, "rank_jitter", "", "log sd of a rank's step: the slowest of several ranks decides")                 \
    X(FRAME_S, "frame_s", "s", "decode of one 480x640 frame by one loader worker")                                     \
    X(SAMPLE_S, "sample_s", "s", "a loader worker's time per sample beside its frames: tables, collation")             \
    X(LOADER_SIGMA, "loader_sigma", "",                                                                                \
      "by how much each further running thread slows loader workers: contention for caches and memory")                \
    X(LOADER_KAPPA, "loader_kappa", "", "... and each pair of them")                                                   \
    X(HANDOVER_S, "handover_s", "s", "taking a batch that is ready out of the loader's queue")                         \
    X(HANDOVER_BANDWIDTH, "handover_bandwidth", "B/s", "... its bytes")                                                \
    X(LOADER_TORCHCODEC, "loader_torchcodec", "", "a frame of video by the framework's loader, torchcodec / by ours")  \
    X(LOADER_TORCHCODEC_S, "loader_torchcodec_s", "s", "... and on top, once for a camera of 480x640")                 \
    X(LOADER_PYAV, "loader_pyav", "", "a frame of video by the framework's loader, PyAV / by ours")                    \
    X(LOADER_PYAV_S, "loader_pyav_s", "s", "... and on top, once for a camera of 480x640")                             \
    X(LOADER_IMAGE, "loader_image", "", "an encoded image by the framework's loader / by ours")                        \
    X(LOADER_PYTHON_S, "loader_python_s", "s", "the framework's time per sample beside frames, chunk and collation")   \
    X(LOADER_ROW_S, "loader_row_s", "s", "... per row of the action chunk")                                            \
    X(LOADER_COLLATION, "loader_collation", "B/s", "bytes of samples that the framework collates")                     \
    X(LOADER_TAKE_S, "loader_take_s", "s", "the framework's trainer: taking a batch that is ready")                    \
    X(LOADER_TAKE_BANDWIDTH, "loader_take_bandwidth", "B/s", "... its bytes")                                          \
    X(CONTEXT_BYTES, "context_bytes", "B", "device memory outside the framework's allocator")                          \
    X(WORKSPACE_BYTES, "workspace_bytes", "B", "library workspaces inside the framework's allocator")                  \
    X(ENV_STEP_S, "env_step_s", "s", "one environment step of one environment (PPO)")                                  \
    SG_MACHINE_ROW_PARAMETERS(X)                                                                                       \
    SG_MACHINE_PRODUCT_PARAMETERS(X)

typedef enum sg_machine_id {
#define X(name, key, unit, what) SG_M_##name,
    SG_MACHINE_PARAMETERS(X)
#undef X
        SG_M_COUNT
} sg_machine_id;

/* Evidence, strongest first (docs/design.md, "Evidence and intervals"). */
typedef enum sg_evidence {
    SG_EVIDENCE_OBSERVED,
    SG_EVIDENCE_MEASURED,
    SG_EVIDENCE_CALIBRATED,
    SG_EVIDENCE_DATA_SHEET,
    SG_EVIDENCE_COUNT
} sg_evidence;
const char *sg_evidence_name(sg_evidence evidence); /* "observed", "measured", "calibrated", "data sheet" */

typedef struct sg_machine_parameter {
    double value; /* > 0; NAN: unknown, an op that needs it is refused with its name */
    double log_sd;
    uint8_t evidence; /* sg_evidence */
    uint8_t group;    /* correlation group: parameters of one group (> 0) err together; 0: independent */
    char source[120];
} sg_machine_parameter;

/* How the GPUs of a node are joined, which decides how NCCL goes about a collective. */
typedef enum sg_topology {
    SG_TOPOLOGY_BUS,    /* nothing known: one bus bandwidth whatever the ranks */
    SG_TOPOLOGY_SWITCH, /* NVSwitch: every ring at full rate, and the switch may add */
    SG_TOPOLOGY_MESH,   /* NVLinks between some GPUs: the rings that fit decide (by_ranks) */
    SG_TOPOLOGY_PAIRS,  /* bridges join two GPUs each, PCIe the pairs */
    SG_TOPOLOGY_PEER,   /* PCIe with peer access */
    SG_TOPOLOGY_HOST,   /* PCIe, through the memory of the host */
    SG_TOPOLOGY_COUNT
} sg_topology;
const char *sg_topology_name(sg_topology topology); /* "bus", "switch", "mesh", "pairs", "peer", "host" */
int sg_link_size(double bytes);                     /* position in sg_link.spread */

/* Sizes of vectors: below 4, 16, 64 and 256 MiB, and from there on. */
enum { SG_LINK_RANKS = 16, SG_LINK_SIZES = 5 };
typedef struct sg_link {
    uint8_t topology;  /* sg_topology */
    int gpus_per_node; /* 0: all ranks in one node */
    int switch_ranks;  /* least ranks for which NCCL lets the switch add; 0: never */
    /* What was measured at a number of ranks in one node, against the law over all of them: factors of the start and of the
     * time per byte, and what the power differs by. Unmeasured: 1, 1, 0. */
    struct {
        double start, time, power;
    } by_ranks[SG_LINK_RANKS + 1];
    /* Half width in log units that held 90 % of measured times which the fit had not seen, by size; 0: unknown. */
    double spread[SG_LINK_SIZES];
} sg_link;

/* Output tiles that a library has for one kind of product: rows (along m) x columns (along n). */
enum { SG_MACHINE_TILES = 16 };
typedef enum sg_tile_kind { SG_TILES_LINEAR, SG_TILES_BATCHED, SG_TILE_KIND_COUNT } sg_tile_kind;
const char *sg_tile_kind_name(sg_tile_kind kind); /* "linear", "batched" */
typedef struct sg_tiles {
    int n; /* 0: unknown, products are priced without tiles */
    struct {
        int16_t rows, columns; /* 8 to 512 */
    } tile[SG_MACHINE_TILES];
} sg_tiles;

typedef struct sg_machine {
    char name[64], title[96]; /* "h100-sxm", "NVIDIA H100 SXM5 80 GB" */
    char device_class[8];     /* "cuda", "cpu", "mps" */
    bool bf16, fp16, tf32, caching_allocator;
    int units;                /* SMs or cores */
    int capability;           /* CUDA compute capability, 86 = 8.6; 0: none or unknown */
    int fp32_lanes;           /* fp32 units of one SM (64 or 128); 0: unknown */
    char memory_type[8];      /* "hbm2e", "gddr6x", "lpddr5", "" unknown */
    double l2_bytes, board_w; /* last-level cache; sustained board power. 0: unknown */
    double vcpus;
    uint64_t memory_bytes; /* what the driver reports as total */
    sg_link link;
    sg_machine_parameter p[SG_M_COUNT];
    sg_tiles tiles[SG_TILE_KIND_COUNT]; /* of fp32 products */
    /* Covariance of log parameters where a fit made one (row-major SG_M_COUNT squared), else NULL: then log_sd and groups
     * stand for it. Owned by whoever made the machine; sg_machine_clear frees it. */
    double *covariance;
    /* What the model misses at measured shapes; NULL: nothing was measured. Shared: a copy that is cleared must have its own
     * share (sg_measured_share). */
    sg_measured *measured;
    char fitted_from[256]; /* run file, date; empty for a data sheet */
} sg_machine;

void sg_machine_init(sg_machine *machine); /* NAN values, factor 1, no covariance */
void sg_machine_clear(sg_machine *machine);
/* Makes the covariance from log_sd and groups where there is none, for fits that set parts of it. */
sg_code sg_machine_covariance_make(sg_machine *machine, sg_status *status);
const char *sg_machine_key(sg_machine_id id);
const char *sg_machine_unit(sg_machine_id id);
/* Product rate parameter of a compute mode and efficiency parameter of an op class (SG_M_COUNT: none). */
sg_machine_id sg_machine_peak_of(sg_compute compute);
sg_machine_id sg_machine_eff_of(sg_op_class cls);
sg_machine_id sg_machine_factor_of(sg_op_class cls);

/* Variance of log(value) for a value with these derivatives by log parameter: the covariance, or log_sd and groups. */
double sg_machine_log_variance(const sg_machine *machine, const double *by_log, double value);

/* Products in bf16 or fp16: FACTOR_LOW_PRECISION applies to them beside the factor of their class. */
bool sg_machine_low_precision(const sg_op *op);

/* Price of one op: seconds and d seconds / d log parameter (gradient[SG_M_COUNT] or NULL). Products by tiles (product.h); on
 * machines without tiles max(FLOP / (efficiency peak), bytes / (element-wise efficiency bandwidth)) + kernel start; 2-D
 * convolutions the sum of both + kernel start; everything else bytes / (efficiency bandwidth) + launches x kernel
 * floor; each times the class's framework factor. SG_NO when the machine lacks a parameter that the op needs. */
sg_code sg_machine_price(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                         sg_status *status);
/* The same inside a whole step: times STEP_STRETCH. */
sg_code sg_machine_step_price(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                              sg_status *status);

/* Time of a bandwidth-bound op (element-wise, norm, softmax) measured alone, from event to event as kernel tables have it:
 * in place of a step's fixed time per kernel the start of its class comes on top, EVENT_x_S. SG_NO: the machine lacks it, or
 * the op is of another class. */
sg_code sg_machine_price_alone(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                               sg_status *status);

/* What the framework's host spends on this machine, as sg_device_options.host_s wants it. SG_NO when the machine lacks a
 * parameter for it. */
sg_code sg_machine_host_s(const sg_machine *machine, double host_s[SG_HOST_CLASS_COUNT + 1], sg_status *status);

typedef enum sg_collective_kind { SG_ALL_REDUCE, SG_ALL_GATHER, SG_REDUCE_SCATTER } sg_collective_kind;

/* The virtual device itself. options->machine is a const sg_machine *. */
const sg_device_api *sg_virtual_device(void);
/* The virtual device's host clock since its last reset; and its split. */
typedef struct sg_virtual_report {
    double host_s;                     /* host clock */
    double host_busy_s, device_busy_s; /* of which the host worked, the compute stream was busy */
    double collective_busy_s;
    double class_s[SG_CLASS_COUNT]; /* compute stream, by op class */
} sg_virtual_report;
void sg_virtual_read(const sg_device *device, sg_virtual_report *report);
void sg_virtual_reset(sg_device *device);

#endif
