/* shapes_file.h: products measured on a machine, in a text file beside its data sheet: <sheet>.shapes.
 *
 *   # 699 linear and 1778 batched fp32 products, PyTorch 2.1, CUDA 12.1: NeuSight artefact, 2026-11
 *   parameters 1.23456
 *   l 4096 1024 4096 -31        rows, contraction, columns; 1000 log(measured / formula)
 *   b 64 512 64 512 12          batch, rows, contraction, columns; ...
 * `parameters` is a number made of the machine's parameters of products: with others the ratios mean nothing, and are left
 * out. The first line says what was measured, by whom and when. */
#ifndef SG_CALIBRATION_SHAPES_FILE_H
#define SG_CALIBRATION_SHAPES_FILE_H

#include "kernels/virtual/machine.h"

/* Adds the shapes beside a data sheet (its path) to *machine, where there are any. SG_BAD_INPUT names file and line. */
sg_code sg_shapes_load_beside(const char *sheet_path, sg_machine *machine, sg_status *status);
/* The same from a text of so many bytes, ended by NUL. `name` stands for the file in messages. */
sg_code sg_shapes_parse(const char *name, const char *text, sg_machine *machine, sg_status *status);
/* Writes the machine's measured fp32 products. `source`: the first line. */
sg_code sg_shapes_save(const char *path, const sg_machine *machine, const char *source, sg_status *status);

#endif
