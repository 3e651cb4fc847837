/* Catalogues: names, path templates, folders of images, and what no data set is. */
#include "tests/datasets/catalogue_fixture.h"

#include <stdlib.h>

#include "datasets/catalogue/name_list.h"
#include "datasets/catalogue/path_template.h"

/* ---- names and templates ---- */

static void names_in_the_order_of_people(void **state) {
    (void)state;
    static const char *const order[] = {"e", "e1", "e02", "e2", "e10", "e10a", "e11", "f0"};
    for (size_t i = 0; i + 1 < sizeof order / sizeof *order; i++) {
        assert_true(sg_names_compare(order[i], order[i + 1]) < 0);
        assert_true(sg_names_compare(order[i + 1], order[i]) > 0);
        assert_int_equal(sg_names_compare(order[i], order[i]), 0);
    }
    sg_scratch s = sg_scratch_new();
    static const char *const files[] = {"p/f9.png", "p/f10.png", "p/f11.PNG", "p/.f.png", "p/g.txt",
                                        "q/f8.png", "q/f10.png", "q/f9.png",  "r/a.png",  "r/f.png/x"};
    static const char *const endings[] = {".png", NULL};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) sg_scratch_file(&s, files[i], "x");
    char path[512], name[64];
    sg_name_list list;
    static const char *const want[3][4] = {
        {"f9.png", "f10.png", "f11.PNG"}, {"f8.png", "f9.png", "f10.png"}, {"a.png"}};
    for (int k = 0; k < 3; k++) {
        const char folder[] = {(char)('p' + k), 0};
        path_in(&s, folder, path);
        assert_int_equal(sg_names_read(path, SG_NAMES_FILES, endings, &list, NULL), SG_OK);
        assert_int_equal(list.n, k < 2 ? 3 : 1);
        assert_true((list.start == NULL) == (k == 1)); /* a pattern; PNG and no number make none */
        for (size_t i = 0; i < list.n; i++) {
            assert_true(sg_names_get(&list, i, name, sizeof name));
            assert_string_equal(name, want[k][i]);
            assert_false(sg_names_get(&list, i, name, 3));
        }
        sg_names_free(&list);
    }
    path_in(&s, "nothing", path);
    assert_int_equal(sg_names_read(path, SG_NAMES_FILES, endings, &list, NULL), SG_NO);
    path_in(&s, "", path);
    assert_int_equal(sg_names_read(path, SG_NAMES_FOLDERS, NULL, &list, NULL), SG_OK);
    assert_int_equal(list.n, 3);
    sg_names_free(&list);
    sg_scratch_free(&s);
}

static void templates(void **state) {
    (void)state;
    sg_template t;
    sg_status status;
    char path[128];
    sg_template_values values = {.video_key = "cam"};
    values.number[SG_FIELD_EPISODE_CHUNK] = 7;
    values.number[SG_FIELD_EPISODE_INDEX] = 1234567;
    assert_int_equal(sg_template_parse("t",
                                       "v/c-{episode_chunk:03d}/{video_key}/e{episode_index:06d}..{episode_index}.mp4",
                                       &t, &status),
                     SG_OK);
    assert_int_equal(sg_template_expand(&t, "/r", &values, path, sizeof path, &status), SG_OK);
    assert_string_equal(path, "/r/v/c-007/cam/e1234567..1234567.mp4");
    assert_int_equal(sg_template_expand(&t, "/r", &values, path, 36, &status), SG_BAD_INPUT);
    assert_true(sg_template_uses(&t, SG_FIELD_VIDEO_KEY));
    assert_false(sg_template_uses(&t, SG_FIELD_FILE_INDEX));
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "nothing"},
               {"/etc/{episode_index}", "absolute"},
               {"../{episode_index}", "way out"},
               {"a/../{episode_index}", "way out"},
               {"a/..", "way out"},
               {"a\n", "control"},
               {"{episode_index", "brace"},
               {"episode_index}", "brace"},
               {"{{episode_index}}", "brace"},
               {"{other}", "not known"},
               {"{episode_index:06x}", "not known"},
               {"{episode_index:99d}", "not known"},
               {"{video_key:03d}", "not known"},
               {"{episode_index.__class__}", "not known"},
               {"{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}"
                "{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}"
                "{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}",
                "more"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sg_template_parse("data_path", bad[i].text, &t, &status), SG_BAD_INPUT);
        sg_assert_contains(status.text, bad[i].says);
    }
}

/* ---- folders of images ---- */

/* The first bytes of a PNG of this size. */
static void write_png(const sg_scratch *s, const char *name, uint8_t height, uint8_t width) {
    const uint8_t bytes[] = {0x89, 'P', 'N', 'G', '\r',  '\n', 0x1a, '\n', 0,      0, 0, 13, 'I', 'H', 'D',
                             'R',  0,   0,   0,   width, 0,    0,    0,    height, 8, 2, 0,  0,   0};
    char path[512];
    sg_scratch_file(s, name, "");
    path_in(s, name, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fclose(file), 0);
}

static void images(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new(), flat = sg_scratch_new();
    for (int e = 1; e <= 11; e++)
        for (int f = 0; f < 12 - e; f++) {
            char name[64];
            (void)snprintf(name, sizeof name, "ep%d/left/%d.png", e, f);
            write_png(&s, name, 24, 32);
            (void)snprintf(name, sizeof name, "ep%d/right/frame%03d.png", e, f);
            write_png(&s, name, 12, 16);
            (void)snprintf(name, sizeof name, "ep%d/%d.png", e, 100 * f);
            write_png(&flat, name, 24, 32);
        }
    write_png(&s, "ep3/right/frame009.png", 12, 16); /* one more than the other camera has */
    sg_scratch_file(&s, "notes/about.txt", "nothing");
    sg_catalogue *c = opened(&s, "");
    assert_int_equal(c->kind, SG_DATASET_IMAGES);
    assert_int_equal(c->n_episodes, 11);
    assert_int_equal(c->info.frames, 66);
    assert_int_equal(c->first_frame[3] - c->first_frame[2], 9);
    assert_false(c->has_tables);
    described_as(c, "images;png;24x32+12x16;cameras=2;name=");
    ends_in(frame_at(c, 0, 9, 1).path, "/ep10/left/1.png"); /* ten comes behind nine */
    ends_in(frame_at(c, 1, 1, 9).path, "/ep2/right/frame009.png");
    sg_catalogue_close(c);
    c = opened(&flat, "");
    assert_int_equal(c->n_cameras, 1);
    ends_in(frame_at(c, 0, 0, 10).path, "/ep1/1000.png");
    assert_int_equal(c->cameras[0].width, 32);
    sg_catalogue_close(c);
    sg_dataset info;
    sg_status status;
    assert_int_equal(sg_dataset_read(flat.path, &info, &status), SG_OK);
    assert_int_equal(info.frames, 66);
    assert_int_equal(info.episodes, 11);
    assert_int_equal(info.image_height, 24);
    assert_string_equal(info.codec, "png");
    sg_scratch_file(&flat, "ep1/0.png", "no image at all");
    refused(&flat, "", "ep1/0.png is no PNG or JPEG");
    write_png(&s, "ep12/left/0.png", 24, 32);
    refused(&s, "", "ep12 has images of 1 of the 2 cameras");
    sg_scratch_free(&s);
    sg_scratch_free(&flat);
}

/* Hugging Face's cache: the folder's name is a checksum. */
static void names_in_a_cache(void **state) {
    (void)state;
    static const struct {
        const char *folder, *name;
    } sets[] = {{"datasets--lerobot--pusht/snapshots/0d5f1", "pusht"},
                {"datasets--pusht/snapshots/0d5f1", "pusht"},
                {"datasets--lerobot--pusht/snapshots/0d5f1/inner", "inner"},
                {"models--lerobot--act/snapshots/0d5f1", "0d5f1"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        sg_scratch s = sg_scratch_new();
        char name[128];
        (void)snprintf(name, sizeof name, "%s/ep1/top/0.png", sets[i].folder);
        write_png(&s, name, 24, 32);
        sg_catalogue *c = opened(&s, sets[i].folder);
        assert_string_equal(c->name, sets[i].name);
        sg_catalogue_close(c);
        sg_scratch_free(&s);
    }
}

static void nothing_known(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    sg_scratch_file(&s, "a/b/readme.txt", "text");
    refused(&s, "", "no LeRobot data set (it holds no meta/info.json), no HDF5 demonstrations");
    refused(&s, "missing", "does not exist");
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_the_order_of_people),
        cmocka_unit_test(templates),
        cmocka_unit_test(names_in_a_cache),
        cmocka_unit_test(images),
        cmocka_unit_test(nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
