/* Machine files of someone who means harm: any bytes, and sound trees with some of their values replaced. They are read or
 * refused; what is read is a fit that can be used. HDF5's own structure is fuzz_run_file's: the reader is the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/fit.h"
#include "calibration/machine/machine_group.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int condition) {
    if (!condition) abort();
}

/* A tree as a fit writes it. */
static sg_h5tree *sound(void) {
    sg_machine machine;
    sg_machine_init(&machine);
    (void)snprintf(machine.name, sizeof machine.name, "here");
    (void)snprintf(machine.device_class, sizeof machine.device_class, "cpu");
    for (int i = 0; i < SG_M_COUNT; i++)
        machine.p[i] = (sg_machine_parameter){.value = 1 + i, .log_sd = 0.1, .source = "fuzz"};
    sg_h5tree *root = sg_h5tree_new(NULL), *laws = NULL, *law = NULL, *config = NULL;
    need(root && sg_machine_to_group(&machine, root, NULL) == SG_OK);
    need(sg_h5tree_group(root, "laws", &laws, NULL) == SG_OK && sg_h5tree_group(laws, "0000", &law, NULL) == SG_OK);
    need(sg_h5tree_group(law, "config", &config, NULL) == SG_OK);
    static const char *const texts[] = {"policy", "framework", "device", "precision", "host", "settings"};
    static const char *const counts[] = {"batch", "ranks",         "accumulation", "threads",      "workers",
                                         "envs",  "steps_per_env", "cameras",      "image_height", "image_width"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        need(sg_h5tree_set_text(config, texts[i], "mlp", NULL) == SG_OK);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        need(sg_h5tree_set_i64(config, counts[i], 1, NULL) == SG_OK);
    const double value[SG_LAW_TERMS] = {1, 1}, covariance[SG_LAW_TERMS * SG_LAW_TERMS] = {0};
    need(sg_h5tree_set_u64(config, "seed", 1, NULL) == SG_OK);
    need(sg_h5tree_set_text(law, "quantity", "update_s", NULL) == SG_OK);
    need(sg_h5tree_set_text(law, "next_point", "batch 8", NULL) == SG_OK);
    need(sg_h5tree_set_i64(law, "kind", SG_LAW_AFFINE, NULL) == SG_OK &&
         sg_h5tree_set_i64(law, "terms", 2, NULL) == SG_OK);
    need(sg_h5tree_set_i64(law, "fitted", 2, NULL) == SG_OK && sg_h5tree_set_i64(law, "points", 4, NULL) == SG_OK);
    need(sg_h5tree_set_doubles(law, "value", value, SG_LAW_TERMS, NULL) == SG_OK);
    need(sg_h5tree_set_doubles(law, "error", covariance, SG_LAW_TERMS, NULL) == SG_OK);
    need(sg_h5tree_set_doubles(law, "covariance", covariance, SG_LAW_TERMS * SG_LAW_TERMS, NULL) == SG_OK);
    need(sg_h5tree_set_f64(law, "low_x", 1, NULL) == SG_OK && sg_h5tree_set_f64(law, "high_x", 8, NULL) == SG_OK);
    need(sg_h5tree_set_f64(law, "residual_log_sd", 0.01, NULL) == SG_OK);
    need(sg_h5tree_set_f64(law, "left_out_log_sd", 0.01, NULL) == SG_OK);
    return root;
}

/* What is read can be asked: laws give positive times and say how sure they are. */
static void use(const sg_fit *fit) {
    for (size_t i = 0; i < fit->n_laws; i++) {
        const sg_law *law = &fit->laws[i];
        double value, log_sd;
        sg_law_at(law, 0.5 * (law->low_x + law->high_x), &value, &log_sd);
        need(!(value < 0) && !(log_sd < 0));
        need(sg_law_formula((sg_law_kind)law->kind)[0] != 0);
        for (size_t k = 0; k < law->n_terms; k++) need(sg_law_term((sg_law_kind)law->kind, k) != NULL);
        (void)sg_law_find(fit, law->quantity, &law->config);
    }
}

static void try_tree(const sg_h5tree *tree) {
    sg_fit fit;
    sg_status status;
    if (sg_fit_from_tree(tree, &fit, &status) != SG_OK) return;
    use(&fit);
    sg_fit_clear(&fit);
}

static void try_file(const unsigned char *file, size_t n) {
    sg_h5tree *tree = NULL;
    sg_status status;
    if (sg_h5tree_load_bytes("fuzz.h5", &sg_machine_format, file, n, &tree, &status) == SG_OK) try_tree(tree);
    sg_h5tree_free(tree);
}

/* The group, and below it those that further bytes choose. */
static sg_h5tree *choose(sg_h5tree *root, uint8_t path) {
    sg_h5tree *at = root;
    for (; at->n_groups > 0 && path % 4; path /= 4) at = at->groups[(path % 4 - 1) % at->n_groups];
    return at;
}

/* Ten bytes an edit: group, value, eight bytes of the new value; a value of that many doubles may also change its length. */
static void edit(sg_h5tree *root, const uint8_t *data) {
    sg_h5tree *group = choose(root, data[0]);
    if (group->n_values == 0) return;
    sg_h5tree_value *value = &group->values[data[1] % group->n_values];
    switch (value->kind) {
    case SG_H5TREE_I64: memcpy(&value->i64, data + 2, 8); break;
    case SG_H5TREE_U64: memcpy(&value->u64, data + 2, 8); break;
    case SG_H5TREE_F64: memcpy(&value->f64, data + 2, 8); break;
    case SG_H5TREE_DOUBLES:
        if (value->n == 0) break;
        if (data[1] & 128)
            value->n = data[2] % value->n;
        else
            memcpy(&value->doubles[data[1] % value->n], data + 2, 8);
        break;
    case SG_H5TREE_TEXT: {
        size_t n = strlen(value->text);
        for (size_t i = 0; i < n && i < 8; i++)
            if (data[2 + i]) value->text[i] = (char)data[2 + i];
        break;
    }
    case SG_H5TREE_KIND_COUNT: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    unsigned kind = *data++ % 16;
    size--;
    if (kind == 0) {
        try_file(data, size);
    } else {
        sg_h5tree *root = sound();
        if (size < 10) {
            sg_fit fit;
            need(sg_fit_from_tree(root, &fit, NULL) == SG_OK); /* unchanged, it is a fit */
            use(&fit);
            sg_fit_clear(&fit);
        }
        for (; size >= 10; data += 10, size -= 10) edit(root, data);
        try_tree(root);
        sg_h5tree_free(root);
    }
    return 0;
}
