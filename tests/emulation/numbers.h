/* numbers.h: elements of CUDA's types as doubles, for the emulated libraries. */
#ifndef SG_TESTS_EMULATION_NUMBERS_H
#define SG_TESTS_EMULATION_NUMBERS_H

#include "tests/emulation/include/cuda_runtime_api.h"
#include "tests/emulation/include/library_types.h"

/* 0: no type that is in use. */
size_t sg_emu_type_bytes(cudaDataType type);
double sg_emu_read(const void *memory, cudaDataType type, int64_t i);
/* Rounds to nearest, ties to even. */
void sg_emu_write(void *memory, cudaDataType type, int64_t i, double value);
/* How products take their factors: as they are, or rounded to fewer bits. */
typedef enum sg_emu_rounding {
    SG_EMU_AS_IS,
    SG_EMU_TO_TF32, /* 10 bits of fraction */
    SG_EMU_TO_BF16,
    SG_EMU_TO_F16
} sg_emu_rounding;
double sg_emu_round(double value, sg_emu_rounding rounding);

#endif
