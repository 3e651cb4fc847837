/* machine_file.h: machines as YAML data sheets (configs/machines/) and as fitted machine files (HDF5).
 *
 * A data sheet:
 *   title: NVIDIA L4                 # text
 *   device_class: cuda               # cuda | cpu | mps
 *   bf16: true                       # natively; false: emulated
 *   fp16: true
 *   tf32: true
 *   caching_allocator: true          # default: cuda yes, cpu no
 *   units: 58                        # SMs or cores
 *   vcpus: 8                         # optional: of the usual host
 *   memory_bytes: 24152899584        # as the driver reports it
 *   priors: [cuda]                   # optional: configs/priors/<name>.yaml, in order; own parameters win; a prior has
 *                                    # priors, tiles and parameters, as a sheet has them
 *   tiles: {linear: [128x128, 64x128], batched: [128x128]}   # optional, of fp32 products: calibration/machine/machine_tiles.h
 *   link: pcie4-host                 # optional: configs/links/<name>.yaml, or what such a file holds
 *   parameters:                      # names: kernels/virtual/machine.h
 *     memory_bandwidth: {value: 300e9, log_sd: 0.05, group: memory, source: "data sheet, 2024-11-15"}
 * Every parameter says its source. `group` (optional) names what it errs together with. */
#ifndef SG_CALIBRATION_MACHINE_FILE_H
#define SG_CALIBRATION_MACHINE_FILE_H

#include "calibration/predict/predict.h"
#include "formats/tree.h"

/* The parameters of a map "parameters" onto *machine. */
sg_code sg_machine_parameters_read(const sg_tree *tree, const sg_node *parameters, sg_machine *machine,
                                   sg_status *status);
/* The parameters of configs/priors/<name>.yaml onto *machine. */
sg_code sg_machine_prior_read(const char *name, const char *config_dir, sg_machine *machine, sg_status *status);
/* A file of configs/priors/ onto *machine. */
sg_code sg_machine_prior_load(const char *name, const char *config_dir, sg_machine *machine, sg_status *status);
/* A whole data sheet from an open tree; `name` becomes the machine's name. */
sg_code sg_machine_from_tree(const sg_tree *tree, const char *name, const char *config_dir, sg_machine *machine,
                             sg_status *status);

#endif
