/* dataset make and dataset show as commands: every kind small, what it says of them, refusals, and that nothing half-made
 * stays behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "datasets/codec/codec.h"
#include "datasets/tables/tables.h"
#include "tests/support/contains.h"
#include "tests/support/near.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

static sg_scratch scratch;
static bool has_video, has_tables;

static int open_scratch(void **state) {
    (void)state;
    char why[256];
    const sg_codec_api *api;
    sg_status status;
    scratch = sg_scratch_new();
    has_video = sg_codec_open("video", &api, &status) == SG_OK;
    has_tables = sg_tables_possible(why, sizeof why);
    return 0;
}

static int remove_scratch(void **state) {
    (void)state;
    sg_scratch_free(&scratch);
    return 0;
}

static const char *below(const char *name) {
    static char path[4][128];
    static int next;
    char *to = path[next++ % 4];
    (void)snprintf(to, sizeof path[0], "%s/%s", scratch.path, name);
    return to;
}

static bool is_there(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

static int entries(const char *path) {
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int n = 0;
    while (readdir(folder)) n++;
    (void)closedir(folder);
    return n - 2;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

#define SMALL "--episodes", "2", "--frames-per-episode", "6", "--image-size", "96x128", "--cameras", "1"

/* ---- every kind ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *kind, *codec, *shown, *version, *store, *loading;
} all_kinds[] = {
    {"lerobot-v2.0", "h264", "lerobot", "v2.0", "video", "lerobot-v2.0;h264;96x128;gop=2"},
    {"lerobot-v2.1", "av1", "lerobot", "v2.1", "video", "lerobot-v2.1;av1;96x128;gop=2"},
    {"lerobot-v2.1", "png", "lerobot", "v2.1", "images in tables", "lerobot-v2.1;png;96x128"},
    {"lerobot-v3.0", "av1", "lerobot", "v3.0", "video", "lerobot-v3.0;av1;96x128;gop=2"},
    {"lerobot-v3.0", "png", "lerobot", "v3.0", "images in tables", "lerobot-v3.0;png;96x128"},
    {"images", "png", "images", "", "image files", "images;png;96x128"},
    {"images", "jpeg", "images", "", "image files", "images;jpeg;96x128"},
    {"robomimic", "raw", "robomimic", "", "HDF5, raw", "robomimic;raw;96x128"},
    {"libero", "raw", "libero", "", "HDF5, raw", "libero;raw;96x128"},
    {"aloha", "raw", "aloha", "", "HDF5, raw", "aloha;raw;96x128"},
    {"aloha", "jpeg", "aloha", "", "HDF5, encoded", "aloha;jpeg;96x128"},
};
enum { ALL_KINDS = sizeof all_kinds / sizeof all_kinds[0] };

static bool possible(size_t i) {
    bool video = strcmp(all_kinds[i].store, "video") == 0;
    return (has_video || !video) && (has_tables || strcmp(all_kinds[i].shown, "lerobot") != 0);
}

static void check_shown(const json_t *root, size_t i) {
    const json_t *camera = json_array_get(json_object_get(root, "cameras"), 0);
    bool video = strcmp(all_kinds[i].store, "video") == 0;
    assert_string_equal(text_of(root, "kind"), all_kinds[i].shown);
    assert_string_equal(text_of(root, "version"), all_kinds[i].version);
    assert_close(sg_json_number(root, "episodes"), 2);
    assert_close(sg_json_number(root, "frames"), 12);
    assert_int_equal(json_array_size(json_object_get(root, "cameras")), 1);
    assert_close(sg_json_number(camera, "height"), 96);
    assert_close(sg_json_number(camera, "width"), 128);
    assert_string_equal(text_of(camera, "store"), all_kinds[i].store);
    assert_string_equal(text_of(camera, "codec"), all_kinds[i].codec);
    if (video) assert_close(sg_json_number(camera, "gop"), 2);
    sg_assert_contains(text_of(root, "loading"), all_kinds[i].loading);
    bool rows = strcmp(all_kinds[i].shown, "images") != 0;
    assert_int_equal(json_is_true(json_object_get(root, "tables")), rows);
    if (!rows) return;
    assert_close(sg_json_number(root, "state_dim"), 7);
    assert_close(sg_json_number(root, "action_dim"), 5);
}

static void every_kind_is_made_and_shown(void **state) {
    (void)state;
    size_t made = 0;
    for (size_t i = 0; i < ALL_KINDS; i++) {
        if (!possible(i)) continue;
        char name[64];
        (void)snprintf(name, sizeof name, "%s_%s", all_kinds[i].kind, all_kinds[i].codec);
        json_t *root = sg_said_answer(sg_stepgauge("dataset", "make", below(name), "--kind", all_kinds[i].kind,
                                                   "--codec", all_kinds[i].codec, SMALL, "--state-dim", "7",
                                                   "--action-dim", "5", "--json", NULL),
                                      0);
        check_shown(root, i);
        json_decref(root);
        made++;
    }
    assert_true(made >= 6);
}

static void shown_in_words(void **state) {
    (void)state;
    json_decref(sg_said_answer(
        sg_stepgauge("dataset", "make", below("words"), "--kind", "aloha", SMALL, "--cameras", "2", "--json", NULL),
        0));
    sg_said said = sg_stepgauge("dataset", "show", below("words"), NULL);
    assert_int_equal(said.status, 0);
    assert_string_equal(said.err, "");
    sg_assert_contains(said.out, "words: aloha, 2 episodes, 12 frames");
    sg_assert_contains(said.out, "State of 6, action of 6");
    sg_assert_contains(said.out, "cam_high");
    sg_assert_contains(said.out, "cam_left_wrist");
    sg_assert_contains(said.out, "96x128");
    sg_assert_contains(said.out, "Loading depends on: aloha;raw;96x128");
    sg_said_clear(&said);
}

static void corrupt(const char *path, const char *from, const char *to) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    char *at = strstr(text, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* The video itself is asked: what info.json leaves out is told, what it says wrongly is warned of. */
static void videos_are_looked_into(void **state) {
    (void)state;
    if (!has_video || !has_tables) skip();
    char path[160];
    json_decref(sg_said_answer(sg_stepgauge("dataset", "make", below("look"), "--kind", "lerobot-v2.1", "--codec",
                                            "h264", SMALL, "--gop", "3", "--json", NULL),
                               0));
    (void)snprintf(path, sizeof path, "%s/meta/info.json", below("look"));
    corrupt(path, "\"video.g\": 3", "\"video.x\": 3");
    json_t *root = sg_said_answer(sg_stepgauge("dataset", "show", below("look"), "--json", NULL), 0);
    json_t *camera = json_array_get(json_object_get(root, "cameras"), 0);
    assert_close(sg_json_number(camera, "gop"), 3);
    assert_int_equal(json_array_size(json_object_get(root, "warnings")), 0);
    sg_assert_contains(json_string_value(json_object_get(root, "loading")), "h264;96x128;gop=3;");
    json_decref(root);
    corrupt(path, "\"shape\": [\n                96", "\"shape\": [\n                98");
    sg_said said = sg_stepgauge("dataset", "show", below("look"), NULL);
    assert_int_equal(said.status, 0);
    sg_assert_contains(said.err, "frames of observation.images.top are 96x128, the data set says 98x128");
    sg_said_clear(&said);
    (void)snprintf(path, sizeof path, "%s/videos/chunk-000/observation.images.top/episode_000000.mp4", below("look"));
    assert_int_equal(truncate(path, 40), 0);
    said = sg_stepgauge("dataset", "show", below("look"), NULL);
    assert_int_equal(said.status, 0);
    sg_assert_contains(said.err, "episode_000000.mp4");
    sg_said_clear(&said);
}

/* What the figures of a loader leave out. */
static void rows_that_are_not_read_are_told(void **state) {
    (void)state;
    json_decref(sg_said_answer(
        sg_stepgauge("dataset", "make", below("no_rows"), "--kind", "images", SMALL, "--json", NULL), 0));
    sg_said said = sg_stepgauge("measure", "act", "--dataset", below("no_rows"), "--batch", "2", "--workers", "1",
                                "--update-s", "0.002", "--layers", "cached", "--min-iterations", "3", "--time-budget",
                                "0.1", "--state-dim", "6", "--action-dim", "6", NULL);
    assert_int_equal(said.status, 0);
    sg_assert_contains(said.err, "state and action are synthetic");
    sg_said_clear(&said);
}

/* The same seed draws the same set, another one another. */
static void the_seed_decides(void **state) {
    (void)state;
    static const char *const names[] = {"seed_a", "seed_b", "seed_c"}, *const seeds[] = {"3", "3", "4"};
    char *bytes[3];
    for (int i = 0; i < 3; i++) {
        json_decref(sg_said_answer(sg_stepgauge("dataset", "make", below(names[i]), "--kind", "images", SMALL, "--seed",
                                                seeds[i], "--json", NULL),
                                   0));
        char path[160];
        (void)snprintf(path, sizeof path, "%s/episode_000001/top/000005.png", below(names[i]));
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        bytes[i] = calloc(1, 1 << 17);
        assert_non_null(bytes[i]);
        size_t n = fread(bytes[i], 1, 1 << 17, file);
        assert_true(n > 100 && n < 1 << 17);
        (void)fclose(file);
    }
    assert_memory_equal(bytes[0], bytes[1], 1 << 17);
    assert_memory_not_equal(bytes[0], bytes[2], 1 << 17);
    for (int i = 0; i < 3; i++) free(bytes[i]);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static void expect(sg_said said, int status, const char *in_err) {
    assert_int_equal(said.status, status);
    sg_assert_contains(said.err, in_err);
    sg_said_clear(&said);
}

static void bad_options_are_named(void **state) {
    (void)state;
    const char *to = below("never");
#define MAKE(...) sg_stepgauge("dataset", "make", to, __VA_ARGS__, NULL)
    expect(MAKE("--kind", "lerobot-v3"), 2, "did you mean lerobot-v3.0?");
    expect(sg_stepgauge("dataset", "sho", to, NULL), 2, "did you mean 'show'?");
    expect(MAKE("--quiet"), 2, "--kind is missing");
    expect(MAKE("--kind", "images", "--codec", "av1"), 2, "--codec av1: images is made with png, jpeg");
    expect(MAKE("--kind", "libero", "--codec", "jpeg"), 2, "--codec jpeg");
    expect(MAKE("--kind", "images", "--episodes", "0"), 2, "--episodes");
    expect(MAKE("--kind", "images", "--episodes", "20000"), 2, "--episodes 20000");
    expect(MAKE("--kind", "images", "--frames-per-episode", "200000"), 2, "--frames-per-episode 200000");
    expect(MAKE("--kind", "images", "--episodes", "5000", "--frames-per-episode", "5000"), 2, "at most 1000000 frames");
    expect(MAKE("--kind", "images", "--cameras", "17"), 2, "--cameras 17");
    expect(MAKE("--kind", "images", "--image-size", "8x128"), 2, "--image-size (height) 8");
    expect(MAKE("--kind", "images", "--image-size", "9999x128"), 2, "--image-size");
    expect(MAKE("--kind", "lerobot-v3.0", "--image-size", "97x128"), 2, "even");
    expect(MAKE("--kind", "images", "--state-dim", "2000"), 2, "--state-dim 2000");
    expect(MAKE("--kind", "images", "--gop", "0"), 2, "--gop");
    expect(MAKE("--kind", "lerobot-v2.1", "--image-size", "48x64"), 2, "64 pixels a side or more: --codec h264");
    expect(MAKE("--kind", "images", "--fps", "29.97"), 2, "--fps 29.97");
    expect(MAKE("--kind", "images", "--batch", "8"), 2, "'dataset' takes no --batch");
#undef MAKE
    assert_false(is_there(to));
}

static void bad_commands_are_told(void **state) {
    (void)state;
    expect(sg_stepgauge("dataset", NULL), 2, "dataset make DIR --kind K");
    expect(sg_stepgauge("dataset", "mend", "x", NULL), 2, "'mend'");
    expect(sg_stepgauge("dataset", "make", NULL), 2, "takes one folder");
    expect(sg_stepgauge("dataset", "show", "a", "b", NULL), 2, "takes one folder");
    sg_said said = sg_stepgauge("dataset", "show", "--help", NULL);
    assert_true(said.status == 0 && strstr(said.out, "dataset show DIR") && !strstr(said.out, "--kind"));
    sg_said_clear(&said);
    said = sg_stepgauge("dataset", "make", "--help", NULL);
    assert_true(said.status == 0 && strstr(said.out, "--kind") && !strstr(said.out, "dataset show DIR"));
    sg_said_clear(&said);
    expect(sg_stepgauge("dataset", "show", scratch.path, "--kind", "images", NULL), 2, "leave --kind out");
    expect(sg_stepgauge("dataset", "show", below("nowhere"), NULL), 2, "nowhere");
    sg_scratch_folder(&scratch, "hollow");
    expect(sg_stepgauge("dataset", "show", below("hollow"), NULL), 2, "hollow");
    sg_scratch_file(&scratch, "plain.txt", "no data set\n");
    expect(sg_stepgauge("dataset", "show", below("plain.txt"), NULL), 2, "plain.txt");
}

static void what_is_there_is_left_alone(void **state) {
    (void)state;
    sg_scratch_file(&scratch, "full/keep.txt", "mine\n");
    expect(sg_stepgauge("dataset", "make", below("full"), "--kind", "images", NULL), 2, "not empty");
    assert_int_equal(entries(below("full")), 1);
    expect(sg_stepgauge("dataset", "make", below("full/keep.txt"), "--kind", "images", NULL), 2, "keep.txt");
    expect(sg_stepgauge("dataset", "make", below("no/such/way"), "--kind", "images", NULL), 2, "no/such/way");
    assert_false(is_there(below("no")));
}

/* ---- nothing half-made --------------------------------------------------------------------------------------------- */

static void interrupted(const char *name, const char *kind, const char *codec) {
    sg_running running = sg_stepgauge_start("dataset", "make", below(name), "--kind", kind, "--codec", codec,
                                            "--episodes", "100", "--image-size", "240x320", NULL);
    for (int i = 0; i < 2000 && (!is_there(below(name)) || entries(below(name)) == 0); i++) {
        const struct timespec pause = {0, 1000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_int_equal(kill(running.pid, SIGINT), 0);
    expect(sg_running_wait(&running), 130, "interrupted");
}

static void an_interrupt_takes_all_away(void **state) {
    (void)state;
    interrupted("int_images", "images", "png");
    assert_false(is_there(below("int_images")));
    sg_scratch_folder(&scratch, "int_hdf5");
    interrupted("int_hdf5", "robomimic", "raw");
    assert_int_equal(entries(below("int_hdf5")), 0); /* the folder was there before */
    if (!has_video || !has_tables) return;
    interrupted("int_video", "lerobot-v3.0", "h264");
    assert_false(is_there(below("int_video")));
}

/* Asked for before anything is written. */
static void a_missing_library_is_told(void **state) {
    (void)state;
    char *modules = strdup(getenv("STEPGAUGE_MODULES") ? getenv("STEPGAUGE_MODULES") : "");
    assert_non_null(modules);
    char *carquet = getenv("STEPGAUGE_CARQUET") ? strdup(getenv("STEPGAUGE_CARQUET")) : NULL;
    sg_scratch_file(&scratch, "broken/stepgauge_image.so", "no library\n");
    assert_int_equal(setenv("STEPGAUGE_MODULES", below("broken"), 1), 0);
    expect(sg_stepgauge("dataset", "make", below("lack"), "--kind", "images", SMALL, NULL), 3, "image");
    assert_int_equal(setenv("STEPGAUGE_MODULES", modules, 1), 0);
    assert_int_equal(setenv("STEPGAUGE_CARQUET", below("no_library.so"), 1), 0);
    expect(sg_stepgauge("dataset", "make", below("lack"), "--kind", "lerobot-v3.0", SMALL, NULL), 3, "Parquet");
    if (carquet)
        assert_int_equal(setenv("STEPGAUGE_CARQUET", carquet, 1), 0);
    else
        assert_int_equal(unsetenv("STEPGAUGE_CARQUET"), 0);
    assert_false(is_there(below("lack")));
    free(modules);
    free(carquet);
}

/* A limit on file sizes (ulimit -f), which the program inherits: told, and nothing stays. */
static void a_limit_on_file_sizes_is_told(void **state) {
    (void)state;
    struct rlimit usual, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = (struct rlimit){20000, usual.rlim_max};
    static const char *const kinds[] = {"robomimic", "images", "lerobot-v2.1"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (i == 2 && !(has_video && has_tables)) continue;
        const char *folder = below("limited");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        sg_running running = sg_stepgauge_start("dataset", "make", folder, "--kind", kinds[i], SMALL,
                                                "--frames-per-episode", "40", "--image-size", "240x320", NULL);
        (void)setrlimit(RLIMIT_FSIZE, &usual);
        sg_said said = sg_running_wait(&running);
        if (said.status != 3) fail_msg("%s: status %d: %s", kinds[i], said.status, said.err);
        assert_non_null(strstr(said.err, "cannot write"));
        assert_false(is_there(folder));
        sg_said_clear(&said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_made_and_shown),
        cmocka_unit_test(shown_in_words),
        cmocka_unit_test(videos_are_looked_into),
        cmocka_unit_test(rows_that_are_not_read_are_told),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(bad_commands_are_told),
        cmocka_unit_test(what_is_there_is_left_alone),
        cmocka_unit_test(an_interrupt_takes_all_away),
        cmocka_unit_test(a_limit_on_file_sizes_is_told),
        cmocka_unit_test(a_missing_library_is_told),
    };
    return cmocka_run_group_tests(tests, open_scratch, remove_scratch);
}
