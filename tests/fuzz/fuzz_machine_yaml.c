/* Any text as a data sheet: it loads or says why not. */
#include <stddef.h>
#include <stdint.h>

#include "calibration/machine/machine_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sg_tree *tree = NULL;
    sg_status status;
    if (sg_tree_parse_yaml("fuzz.yaml", (const char *)data, size, &tree, &status)) return 0;
    sg_machine machine;
    if (sg_machine_from_tree(tree, "fuzz", "/nowhere", &machine, &status) == SG_OK) sg_machine_clear(&machine);
    sg_tree_free(tree);
    if (sg_tree_parse_json("fuzz.json", (const char *)data, size, &tree, &status)) return 0;
    if (sg_machine_from_tree(tree, "fuzz", "/nowhere", &machine, &status) == SG_OK) sg_machine_clear(&machine);
    sg_tree_free(tree);
    return 0;
}
