/* Trees of YAML and JSON: what is read, and where and what is wrong in bad text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "formats/child.h"
#include "formats/tree.h"
#include "tests/models/failing_memory.h"
#include "tests/support/contains.h"

static void yaml_fails(const char *text, const char *says) {
    sg_tree *tree;
    sg_status status = {0};
    assert_int_equal(sg_tree_parse_yaml("x.yaml", text, strlen(text), &tree, &status), SG_BAD_INPUT);
    assert_null(tree);
    sg_assert_contains(status.text, says);
}

static void test_yaml(void **state) {
    (void)state;
    const char *text = "a: 1\nb: {c: [2, 3.5, 'x'], d: ~}\n";
    sg_tree *tree;
    assert_int_equal(sg_tree_parse_yaml("x.yaml", text, strlen(text), &tree, NULL), SG_OK);
    const sg_node *root = sg_tree_root(tree), *b = sg_node_get(root, "b"), *c = sg_node_get(b, "c");
    assert_int_equal(c->kind, SG_NODE_LIST);
    assert_int_equal(c->n_children, 3);
    assert_string_equal(c->child->next->text, "3.5");
    assert_true(c->child->next->next->text_only);
    assert_int_equal(c->line, 2);
    assert_int_equal(sg_node_get(b, "d")->kind, SG_NODE_NULL);
    sg_status status;
    double real;
    int64_t whole;
    assert_int_equal(sg_node_int(tree, root, "a", 0, 9, &whole, &status), SG_OK);
    assert_int_equal(whole, 1);
    assert_int_equal(sg_node_int(tree, root, "a", 2, 9, &whole, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "x.yaml:1:4: a: 1 is outside of 2 to 9");
    assert_int_equal(sg_node_real(tree, root, "b", 0, 1, &real, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "x.yaml:2:4: b: a single value");
    assert_int_equal(sg_node_real(tree, b, "zzz", 0, 1, &real, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "\"zzz\" is missing");
    const char *const known[] = {"a", "bb"};
    assert_int_equal(sg_node_known(tree, root, known, 2, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "x.yaml:2:4: b: unknown key");
    sg_tree_free(tree);

    yaml_fails("a: [1, 2\nb: 3", "x.yaml:2:");
    yaml_fails("a: 1\na: 2\n", "x.yaml:2:1: this key stands here twice");
    yaml_fails("a: &x 1\nb: *x\n", "anchors");
    yaml_fails("a: 1\n---\nb: 2\n", "x.yaml:3:1: a second document");
    yaml_fails("{[1]: 2}", "a key must be plain text");
    yaml_fails("\x01", "x.yaml");
    yaml_fails("a: \xff\xfe", "x.yaml");
    char deep[400];
    memset(deep, '[', 200);
    deep[200] = 0;
    yaml_fails(deep, "x.yaml:1:");
    assert_int_equal(sg_tree_parse_yaml("x.yaml", "", 0, &tree, NULL), SG_OK);
    assert_int_equal(sg_tree_root(tree)->kind, SG_NODE_MAP);
    sg_tree_free(tree);
}

static void test_json(void **state) {
    (void)state;
    const char *text = "{\"n\": 12, \"x\": 0.1, \"t\": \"12\", \"ok\": true, \"list\": [1, {\"deep\": null}]}";
    sg_tree *tree;
    sg_status status;
    assert_int_equal(sg_tree_parse_json("x.json", text, strlen(text), &tree, NULL), SG_OK);
    const sg_node *root = sg_tree_root(tree);
    int64_t n;
    double x;
    bool ok;
    assert_int_equal(sg_node_int(tree, root, "n", 0, 99, &n, &status), SG_OK);
    assert_int_equal(sg_node_real(tree, root, "x", 0, 1, &x, &status), SG_OK);
    assert_true(n == 12 && x == 0.1);
    assert_int_equal(sg_node_bool(tree, root, "ok", &ok, &status), SG_OK);
    assert_true(ok);
    assert_int_equal(sg_node_int(tree, root, "t", 0, 99, &n, &status), SG_BAD_INPUT); /* a string is no number */
    sg_assert_contains(status.text, "x.json: t:");
    const sg_node *deep = sg_node_get(root, "list")->child->next;
    assert_int_equal(sg_node_fail(tree, sg_node_get(deep, "deep"), &status, "no"), SG_BAD_INPUT);
    sg_assert_contains(status.text, "x.json: list[1].deep: no");
    sg_tree_free(tree);
    const char *bad = "{\"a\": 1,\n \"b\": }";
    assert_int_equal(sg_tree_parse_json("x.json", bad, strlen(bad), &tree, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "x.json:2:");
    bad = "{\"a\": 1, \"a\": 2}";
    assert_int_equal(sg_tree_parse_json("x.json", bad, strlen(bad), &tree, &status), SG_BAD_INPUT);
    assert_int_equal(sg_tree_read("/nowhere/x.yaml", &tree, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "/nowhere/x.yaml");
    assert_int_equal(sg_tree_read("/", &tree, &status), SG_BAD_INPUT);
}

/* Memory that ends anywhere in a text is the machine's failure, not the text's, and nothing stays allocated. */
static void test_no_memory(void **state) {
    (void)state;
    if (!failing_is_possible()) skip();
    static const char text[] =
        "{\"version\": \"v3.0\", \"fps\": 30.5, \"names\": [\"joint_1\", {\"deep\": [1, true, null]}]}";
    sg_tree *tree = NULL;
    sg_status status = {0};
    sg_code code = SG_MACHINE;
    long n = 0, before = blocks_in_use();
    for (; code && n < 1000; n++) {
        fail_after(n);
        code = sg_tree_parse_json("x.json", text, strlen(text), &tree, &status);
        fail_after(-1);
        if (!code) break;
        if (code != SG_MACHINE) fail_msg("allocation %ld: code %d: %s", n, (int)code, status.text);
        assert_null(tree);
        assert_int_equal(blocks_in_use(), before);
    }
    assert_int_equal(code, SG_OK);
    assert_true(n > 20);
    sg_tree_free(tree);
    assert_int_equal(blocks_in_use(), before);
}

static sg_code answer_at_length(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)status;
    fail_after(-1); /* the child has memory */
    static const char piece[5000];
    return sg_bytes_add(answer, piece, sizeof piece) ? SG_OK : SG_MACHINE;
}

/* Neither is a child's file hostile when its answer finds no memory here. */
static void test_no_memory_for_an_answer(void **state) {
    (void)state;
    if (!failing_is_possible()) skip();
    const sg_child_limits limits = {.wall_s = 60};
    unsigned char *bytes = NULL;
    size_t n = 0;
    sg_status status = {0};
    long before = blocks_in_use();
    fail_after(0);
    sg_code code = sg_child_run("clip.mp4", answer_at_length, NULL, &limits, &bytes, &n, &status);
    fail_after(-1);
    if (code != SG_MACHINE) fail_msg("code %d: %s", (int)code, status.text);
    assert_null(bytes);
    assert_int_equal(blocks_in_use(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_for_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
