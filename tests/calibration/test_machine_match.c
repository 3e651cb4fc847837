/* Which data sheet a device's name and memory mean; near ones do not count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/machine_match.h"

#define CONFIGS SG_SOURCE_DIR "/configs"
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

/* The chip's name alone: the memory tells the module. */
static void modules_by_memory(void **state) {
    (void)state;
    finds("Orin", 61.4, "jetson-agx-orin-64gb");
    finds("Orin", 15.3, "jetson-orin-nx-16gb");
    finds("Orin", 7.4, "jetson-orin-nano-super");
    finds("Orin", 30, NULL);
    finds("Orin", 0, NULL);
    finds("NVIDIA Thor", 122.8, "jetson-agx-thor");
    finds("NVIDIA GB10", 121.6, "gb10");
}

static void means(const char *name, const char *sheet) {
    char found[64];
    sg_status status = {0};
    if (sg_machine_name_find(CONFIGS, name, found, sizeof found, &status)) fail_msg("'%s': %s", name, status.text);
    if (strcmp(found, sheet) != 0) fail_msg("'%s' is taken for %s, not %s", name, found, sheet);
}

static void may_be(const char *name, const char *list) {
    char found[64];
    sg_status status = {0};
    if (!sg_machine_name_find(CONFIGS, name, found, sizeof found, &status))
        fail_msg("'%s' is taken for %s", name, found);
    if (!strstr(status.text, list)) fail_msg("'%s': %s", name, status.text);
}

/* As people write them, as files of measurements and drivers state them. */
static void written_names(void **state) {
    (void)state;
    means("4090", "rtx-4090");
    means("rtx4090", "rtx-4090");
    means("RTX 4090 24GB", "rtx-4090");
    means("4090 laptop", "rtx-4090-laptop");
    means("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super");
    means("3080", "rtx-3080");
    means("RTX 3080 12GB", "rtx-3080-12gb");
    means("h100 pcie", "h100-pcie");
    means("H100 SXM5", "h100-sxm");
    means("NVIDIA H100 80GB HBM3", "h100-sxm");
    means("A100 SXM4 80GB", "a100-sxm-80gb");
    means("NVIDIA A100 80GB PCIe", "a100-pcie-80gb");
    means("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb");
    means("Tesla V100-PCIE-32GB", "v100-pcie-32gb");
    means("Tesla P100-PCIE-16GB", "p100-pcie");
    means("Tesla P4", "p4");
    means("Tesla T4", "t4");
    means("NVIDIA L4", "l4");
    means("NVIDIA GH200 480GB", "gh200");
    means("A10", "a10");
    means("v100-32gb", "v100-sxm-32gb");
    means("m4 max", "apple-m4-max");
    means("DGX Spark GB10", "gb10");
    means("thor", "jetson-agx-thor");
    means("mi300x", "mi300x");
    means("6000 ada", "rtx-6000-ada");
}

static void names_that_may_be_several(void **state) {
    (void)state;
    may_be("h100", "one of h100-nvl, h100-pcie, h100-sxm?");
    may_be("h100 80gb", "one of h100-pcie, h100-sxm?");
    may_be("a100", "one of a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb, a100-sxm-80gb?");
    may_be("A100-80GB", "one of a100-pcie-80gb, a100-sxm-80gb?");
    may_be("v100", "one of v100-pcie-16gb, v100-pcie-32gb, v100-sxm-16gb, v100-sxm-32gb?");
    may_be("orin", "one of jetson-agx-orin-64gb, jetson-orin-nano-super, jetson-orin-nx-16gb?");
    may_be("rtx-4091", "did you mean \"rtx-4090\"");
    may_be("h101-sxm", "did you mean \"h100-sxm\"");
    may_be("RTX 4090 48GB", "unknown name");
    may_be("H200 NVL", "unknown name");
    may_be("nvidia", "unknown name");
    may_be("", "unknown name");
    may_be("../machines/t4", "unknown name");
}

/* Product names of the table of accelerators that the sheets were made from (2026-08). */
static void products(void **state) {
    (void)state;
    static const char *const known[][2] = {
        {"GTX 1080 Ti", "gtx-1080-ti"},
        {"RTX 2080 Ti", "rtx-2080-ti"},
        {"RTX 3060 12GB", "rtx-3060"},
        {"RTX 3070", "rtx-3070"},
        {"RTX 3080 10GB", "rtx-3080"},
        {"RTX 3090", "rtx-3090"},
        {"RTX 3060 Laptop 6GB", "rtx-3060-laptop"},
        {"RTX 4060", "rtx-4060"},
        {"RTX 4070", "rtx-4070"},
        {"RTX 4070 Super", "rtx-4070-super"},
        {"RTX 4070 Ti", "rtx-4070-ti"},
        {"RTX 4070 Ti Super", "rtx-4070-ti-super"},
        {"RTX 4080", "rtx-4080"},
        {"RTX 4090", "rtx-4090"},
        {"RTX 4090 Laptop", "rtx-4090-laptop"},
        {"RTX 5070 Ti", "rtx-5070-ti"},
        {"RTX 5080", "rtx-5080"},
        {"RTX 5090", "rtx-5090"},
        {"RTX A4000", "rtx-a4000"},
        {"RTX A5000", "rtx-a5000"},
        {"RTX A6000", "rtx-a6000"},
        {"RTX 6000 Ada", "rtx-6000-ada"},
        {"RTX PRO 6000 Blackwell (Workstation/Server)", "rtx-pro-6000"},
        {"T4", "t4"},
        {"V100 SXM2 16GB", "v100-sxm-16gb"},
        {"V100 SXM2 32GB", "v100-sxm-32gb"},
        {"V100 PCIe 16/32GB", "v100-pcie-32gb"},
        {"P100 SXM2 16GB", "p100-sxm"},
        {"P100 PCIe 16GB", "p100-pcie"},
        {"L4", "l4"},
        {"L40S", "l40s"},
        {"A10", "a10"},
        {"A10G", "a10g"},
        {"A100 PCIe 40GB", "a100-pcie-40gb"},
        {"A100 SXM4 40GB", "a100-sxm-40gb"},
        {"A100 PCIe 80GB", "a100-pcie-80gb"},
        {"A100 SXM4 80GB", "a100-sxm-80gb"},
        {"H100 PCIe 80GB", "h100-pcie"},
        {"H100 SXM5 80GB", "h100-sxm"},
        {"H100 NVL 94GB", "h100-nvl"},
        {"H200 SXM 141GB", "h200"},
        {"B200 SXM 180GB", "b200"},
        {"GH200 (96GB HBM3 / 141-144GB HBM3e)", "gh200"},
        {"Jetson AGX Orin 64GB", "jetson-agx-orin-64gb"},
        {"Jetson Orin NX 16GB", "jetson-orin-nx-16gb"},
        {"Jetson Orin Nano 8GB (Super)", "jetson-orin-nano-super"},
        {"Jetson AGX Thor (T5000)", "jetson-agx-thor"},
        {"DGX Spark GB10", "gb10"},
        {"Apple M1 Max (MPS)", "apple-m1-max"},
        {"Apple M2 Max (MPS)", "apple-m2-max"},
        {"Apple M3 Max (MPS)", "apple-m3-max"},
        {"Apple M4 Max (MPS)", "apple-m4-max"},
        {"AMD Instinct MI300X", "mi300x"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) means(known[i][0], known[i][1]);
}

/* Every sheet is found by its own name, and by no shorter name that another sheet bears. */
static void sheets_find_themselves(void **state) {
    (void)state;
    sg_names names;
    assert_int_equal(sg_config_list(CONFIGS, "machines", ".yaml", &names, NULL), SG_OK);
    for (size_t i = 0; i < names.count; i++) means(names.name[i], names.name[i]);
    sg_names_clear(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_their_sheets), cmocka_unit_test(near_is_not_the_same),
        cmocka_unit_test(modules_by_memory),         cmocka_unit_test(written_names),
        cmocka_unit_test(names_that_may_be_several), cmocka_unit_test(products),
        cmocka_unit_test(sheets_find_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
