/* Which data sheet a device's name and memory mean; near ones do not count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "calibration/machine_match.h"

static const double GIB = 0x1p30;

static void finds(const char *device, double memory_gib, const char *sheet) {
    sg_machine machine;
    sg_status status = {0};
    sg_code code = sg_machine_match(NULL, "cuda", device, (uint64_t)(memory_gib * GIB), &machine, &status);
    if (!sheet) {
        if (code == SG_OK) fail_msg("'%s' is taken for %s", device, machine.name);
        assert_int_equal(code, SG_NO);
        assert_non_null(strstr(status.text, device));
        return;
    }
    if (code != SG_OK) fail_msg("'%s': %s", device, status.text);
    if (strcmp(machine.name, sheet) != 0) fail_msg("'%s' is taken for %s, not %s", device, machine.name, sheet);
    sg_machine_clear(&machine);
}

/* Names as drivers report them, memory as nvidia-smi shows it. */
static void devices_have_their_sheets(void **state) {
    (void)state;
    finds("NVIDIA H100 80GB HBM3", 79.6, "h100-sxm");
    finds("NVIDIA H100 PCIe", 79.6, "h100-pcie");
    finds("NVIDIA H100 NVL", 93.6, "h100-nvl");
    finds("NVIDIA A100-SXM4-80GB", 80, "a100-sxm-80gb");
    finds("NVIDIA A100-SXM4-40GB", 40, "a100-sxm-40gb");
    finds("NVIDIA A100 80GB PCIe", 80, "a100-pcie-80gb");
    finds("NVIDIA A100-PCIE-40GB", 40, "a100-pcie-40gb");
    finds("Tesla V100-SXM2-16GB", 16, "v100-sxm-16gb");
    finds("Tesla T4", 15, "t4");
    finds("NVIDIA L4", 22.5, "l4");
    finds("NVIDIA A10G", 22.5, "a10g");
    finds("NVIDIA A10", 22.5, "a10");
    finds("NVIDIA L40S", 45, "l40s");
    finds("NVIDIA GeForce RTX 4090", 24, "rtx-4090");
    finds("NVIDIA GeForce RTX 4090 Laptop GPU", 16, "rtx-4090-laptop");
    finds("NVIDIA GeForce RTX 4070 Ti SUPER", 16, "rtx-4070-ti-super");
    finds("NVIDIA GeForce RTX 4070 Ti", 12, "rtx-4070-ti");
    finds("NVIDIA GeForce RTX 4070", 12, "rtx-4070");
    finds("NVIDIA RTX 6000 Ada Generation", 48, "rtx-6000-ada");
    finds("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95.6, "rtx-pro-6000");
    finds("NVIDIA RTX A6000", 48, "rtx-a6000");
    finds("NVIDIA GeForce RTX 3060", 0, "rtx-3060"); /* memory unknown */
}

static void near_is_not_the_same(void **state) {
    (void)state;
    finds("NVIDIA H200 NVL", 140, NULL);          /* the sheet is of the SXM module */
    finds("NVIDIA GeForce RTX 4090 D", 10, NULL); /* another memory */
    finds("NVIDIA GeForce RTX 3070 Laptop GPU", 8, NULL);
    finds("NVIDIA GeForce GTX 1660 Ti", 6, NULL);
    finds("AMD EPYC", 24, NULL);
    finds("", 24, NULL);
    sg_machine machine;
    assert_int_equal(sg_machine_match(NULL, "cpu", "NVIDIA L4", 0, &machine, NULL), SG_NO); /* of another class */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_their_sheets),
        cmocka_unit_test(near_is_not_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
