/* Trees in memory, their files, and hostile HDF5 behind a valid checksum. */
#include "formats/durable_file.h"
#include "sim/files/hdf5_image.h"
#include "sim/files/user_block.h"

#include <fcntl.h>
#include <hdf5.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const sg_file_format machine = {"stepgauge-machine", "machine file", 1};

/* A fresh folder per test, removed with what is in it. */
typedef struct sg_scene {
    char folder[64], path[96];
} scene;

static int set_up(void **state) {
    scene *s = calloc(1, sizeof *s);
    if (!s) return -1;
    (void)snprintf(s->folder, sizeof s->folder, "/tmp/sg_h5tree_XXXXXX");
    if (!mkdtemp(s->folder)) return -1;
    (void)snprintf(s->path, sizeof s->path, "%s/a.h5", s->folder);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    scene *s = *state;
    static const char *const names[] = {"a.h5", "a.h5.lock", "a.h5.tmp", "link.h5", "other"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", s->folder, names[i]);
        (void)unlink(path);
    }
    int left = rmdir(s->folder);
    free(s);
    return left; /* a file that nobody expected fails the test */
}

static sg_h5tree *make_tree(void) {
    sg_h5tree *tree = sg_h5tree_new(NULL), *group, *deeper;
    double values[1000];
    for (int i = 0; i < 1000; i++) values[i] = i / 7.0;
    assert_non_null(tree);
    assert_int_equal(sg_h5tree_set_text(tree, "title", "Grün: 5 µs\nsecond line", NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_text(tree, "empty", "", NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_i64(tree, "low", INT64_MIN, NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_u64(tree, "high", UINT64_MAX, NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_f64(tree, "third", 1.0 / 3, NULL), SG_OK);
    assert_int_equal(sg_h5tree_group(tree, "points", &group, NULL), SG_OK);
    assert_int_equal(sg_h5tree_group(group, "b", &deeper, NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_doubles(deeper, "raw", values, 1000, NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_f64(deeper, "raw_median", 3, NULL), SG_OK);
    assert_int_equal(sg_h5tree_group(group, "a", &deeper, NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_doubles(deeper, "none", NULL, 0, NULL), SG_OK);
    return tree;
}

static void check_tree(const sg_h5tree *tree) {
    char text[64];
    int64_t i64;
    uint64_t u64;
    double f64;
    const double *values;
    size_t n;
    assert_int_equal(sg_h5tree_get_text(tree, "title", text, sizeof text, NULL), SG_OK);
    assert_string_equal(text, "Grün: 5 µs\nsecond line");
    assert_int_equal(sg_h5tree_get_text(tree, "empty", text, sizeof text, NULL), SG_OK);
    assert_string_equal(text, "");
    assert_int_equal(sg_h5tree_get_i64(tree, "low", &i64, NULL), SG_OK);
    assert_true(i64 == INT64_MIN);
    assert_int_equal(sg_h5tree_get_u64(tree, "high", &u64, NULL), SG_OK);
    assert_true(u64 == UINT64_MAX);
    assert_int_equal(sg_h5tree_get_f64(tree, "third", &f64, NULL), SG_OK);
    assert_true(f64 == 1.0 / 3);
    const sg_h5tree *points = sg_h5tree_find(tree, "points");
    assert_non_null(points);
    assert_int_equal(points->n_groups, 2);
    assert_string_equal(points->groups[0]->name, "a");
    assert_int_equal(sg_h5tree_get_doubles(points->groups[0], "none", &values, &n, NULL), SG_OK);
    assert_int_equal(n, 0);
    assert_int_equal(sg_h5tree_get_doubles(points->groups[1], "raw", &values, &n, NULL), SG_OK);
    assert_int_equal(n, 1000);
    for (int i = 0; i < 1000; i++) assert_true(values[i] == i / 7.0);
}

static void test_round_trip(void **state) {
    scene *s = *state;
    sg_status status = {0};
    sg_h5tree *tree = make_tree(), *back = NULL;
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, &status), SG_OK);
    assert_int_equal(sg_h5tree_load(s->path, &machine, &back, &status), SG_OK);
    check_tree(back);
    /* the same tree gives the same bytes, also after a round */
    unsigned char *first, *second;
    size_t n_first, n_second;
    assert_int_equal(sg_h5tree_save(s->path, &machine, back, &status), SG_OK);
    assert_int_equal(sg_file_read(s->path, 1u << 20, &first, &n_first, &status), SG_OK);
    sg_h5tree_free(back);
    assert_int_equal(sg_h5tree_load(s->path, &machine, &back, &status), SG_OK);
    assert_int_equal(sg_h5tree_save(s->path, &machine, back, &status), SG_OK);
    assert_int_equal(sg_file_read(s->path, 1u << 20, &second, &n_second, &status), SG_OK);
    assert_int_equal(n_first, n_second);
    assert_memory_equal(first, second, n_first);
    free(first);
    free(second);
    sg_h5tree_free(back);
    sg_h5tree_free(tree);
}

/* The library is told a file's name although all is in memory: what the working folder holds must not matter. */
static void test_any_folder(void **state) {
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(SG_BINARY_DIR), 0); /* it holds a file named stepgauge */
    test_round_trip(state);
    assert_int_equal(chdir(before), 0);
}

static void test_set_replaces(void **state) {
    (void)state;
    sg_h5tree *tree = make_tree();
    int64_t i64;
    assert_int_equal(sg_h5tree_set_i64(tree, "title", 5, NULL), SG_OK);
    assert_int_equal(sg_h5tree_get_i64(tree, "title", &i64, NULL), SG_OK);
    assert_int_equal(i64, 5);
    assert_null(sg_h5tree_value_of(tree, "title", SG_H5TREE_TEXT));
    assert_int_equal(tree->n_values, 5);
    sg_h5tree_remove(tree, "nothing");
    sg_h5tree_remove(tree, "points");
    assert_null(sg_h5tree_find(tree, "points"));
    sg_h5tree_free(tree);
}

static void test_refused_values(void **state) {
    (void)state;
    sg_h5tree *tree = make_tree(), *group;
    sg_status status = {0};
    static const char *const names[] = {"", ".", "a/b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(sg_h5tree_set_i64(tree, names[i], 1, &status), SG_BAD_INPUT);
        assert_int_equal(sg_h5tree_group(tree, names[i], &group, &status), SG_BAD_INPUT);
    }
    static const char *const texts[] = {"\x1b[31m",         "\x7f",     "\x80", "\xc0\x80", "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80", "\xe2\x82", "\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(sg_h5tree_set_text(tree, "t", texts[i], &status), SG_BAD_INPUT);
    char *longest = calloc(1, SG_H5TREE_TEXT_BYTES + 1);
    assert_non_null(longest);
    memset(longest, 'x', SG_H5TREE_TEXT_BYTES);
    assert_int_equal(sg_h5tree_set_text(tree, "t", longest, &status), SG_BAD_INPUT);
    longest[SG_H5TREE_TEXT_BYTES - 1] = 0;
    assert_int_equal(sg_h5tree_set_text(tree, "t", longest, &status), SG_OK);
    free(longest);
    char small[4];
    double f64;
    assert_int_equal(sg_h5tree_get_text(tree, "title", small, sizeof small, &status), SG_BAD_INPUT);
    assert_int_equal(sg_h5tree_get_f64(tree, "title", &f64, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "lacks 'title' (double)"));
    sg_h5tree_free(tree);
}

static void test_large_text_round_trip(void **state) {
    scene *s = *state;
    sg_h5tree *tree = make_tree(), *back;
    char *longest = calloc(1, SG_H5TREE_TEXT_BYTES), *got = calloc(1, SG_H5TREE_TEXT_BYTES);
    assert_non_null(longest);
    assert_non_null(got);
    memset(longest, 'x', SG_H5TREE_TEXT_BYTES - 1);
    assert_int_equal(sg_h5tree_set_text(tree, "t", longest, NULL), SG_OK);
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, NULL), SG_OK);
    assert_int_equal(sg_h5tree_load(s->path, &machine, &back, NULL), SG_OK);
    assert_int_equal(sg_h5tree_get_text(back, "t", got, SG_H5TREE_TEXT_BYTES, NULL), SG_OK);
    assert_string_equal(got, longest);
    free(got);
    free(longest);
    sg_h5tree_free(back);
    sg_h5tree_free(tree);
}

/* ---- places that are no file ---- */

static void expect_load(const char *path, sg_code code, const char *part) {
    sg_status status = {0};
    sg_h5tree *tree;
    assert_int_equal(sg_h5tree_load(path, &machine, &tree, &status), code);
    assert_null(tree);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
}

static void test_bad_places(void **state) {
    scene *s = *state;
    sg_status status = {0};
    sg_h5tree *tree = make_tree();
    expect_load(s->path, SG_BAD_INPUT, "does not exist");
    expect_load(s->folder, SG_BAD_INPUT, "is a folder");
    expect_load("/dev/null", SG_BAD_INPUT, "no regular file");
    assert_int_equal(mkfifo(s->path, 0600), 0);
    expect_load(s->path, SG_BAD_INPUT, "no regular file");
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, &status), SG_BAD_INPUT);
    assert_int_equal(sg_h5tree_save(s->folder, &machine, tree, &status), SG_BAD_INPUT);
    assert_int_equal(sg_h5tree_save("/nowhere/at/all.h5", &machine, tree, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "folder does not exist"));
    sg_h5tree_free(tree);
}

static void test_unwritable_folder(void **state) {
    scene *s = *state;
    sg_status status = {0};
    sg_h5tree *tree = make_tree();
    pid_t child = fork();
    if (child == 0) {
        if (chmod(s->folder, 0555) != 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(9);
        sg_code code = sg_h5tree_save(s->path, &machine, tree, &status);
        _exit(strstr(status.text, "Permission denied") ? (int)code : 8);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(chmod(s->folder, 0755), 0);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), SG_MACHINE);
    sg_h5tree_free(tree);
}

static void test_full_disk(void **state) {
    scene *s = *state;
    sg_status status = {0};
    sg_h5tree *tree = make_tree(), *back;
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, &status), SG_OK);
    struct rlimit before, small = {4096, 4096};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    /* twice: the signal of the first must not be left pending */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sg_h5tree_save(s->path, &machine, tree, &status), SG_MACHINE);
        assert_non_null(strstr(status.text, "untouched"));
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(sg_h5tree_load(s->path, &machine, &back, &status), SG_OK);
    check_tree(back);
    sg_h5tree_free(back);
    sg_h5tree_free(tree);
}

static void test_two_writers(void **state) {
    scene *s = *state;
    sg_status status = {0};
    sg_h5tree *tree = make_tree();
    sg_file_lock lock;
    assert_int_equal(sg_file_lock_take(s->path, &lock, &status), SG_OK);
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, &status), SG_BAD_INPUT);
    char pid[48];
    (void)snprintf(pid, sizeof pid, "being written by process %ld", (long)getpid());
    assert_non_null(strstr(status.text, pid));
    sg_file_lock_release(&lock);
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, &status), SG_OK);
    sg_h5tree_free(tree);
}

static void test_symbolic_link_stays(void **state) {
    scene *s = *state;
    char link[128];
    (void)snprintf(link, sizeof link, "%s/link.h5", s->folder);
    sg_h5tree *tree = make_tree(), *back;
    assert_int_equal(sg_h5tree_save(s->path, &machine, tree, NULL), SG_OK);
    assert_int_equal(symlink("a.h5", link), 0);
    assert_int_equal(chmod(s->path, 0640), 0);
    assert_int_equal(sg_h5tree_set_i64(tree, "new", 1, NULL), SG_OK);
    assert_int_equal(sg_h5tree_save(link, &machine, tree, NULL), SG_OK);
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(s->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(sg_h5tree_load(s->path, &machine, &back, NULL), SG_OK);
    assert_non_null(sg_h5tree_value_of(back, "new", SG_H5TREE_I64));
    sg_h5tree_free(back);
    sg_h5tree_free(tree);
}

/* ---- hostile structure behind a valid checksum ---- */

static void expect_hostile(unsigned char *image, size_t n, const char *part) {
    sg_user_block_make(&machine, image + SG_USER_BLOCK_BYTES, n - SG_USER_BLOCK_BYTES, image);
    sg_status status = {0};
    sg_h5tree *tree = NULL;
    sg_code code = sg_h5tree_load_bytes("x.h5", &machine, image, n, &tree, &status);
    sg_h5tree_free(tree);
    assert_int_equal(code, SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
}

/* Writes an HDF5 file with `make`, puts a valid user block before it and expects its refusal. */
static void hostile(const scene *s, void (*make)(hid_t file), const char *part) {
    hid_t style = H5Pcreate(H5P_FILE_CREATE);
    assert_true(H5Pset_userblock(style, SG_USER_BLOCK_BYTES) >= 0);
    hid_t file = H5Fcreate(s->path, H5F_ACC_TRUNC, style, H5P_DEFAULT);
    assert_true(file >= 0);
    make(file);
    assert_true(H5Fclose(file) >= 0);
    assert_true(H5Pclose(style) >= 0);
    unsigned char *image;
    size_t n;
    assert_int_equal(sg_file_read(s->path, 1u << 24, &image, &n, NULL), SG_OK);
    expect_hostile(image, n, part);
    free(image);
}

static void make_soft_link(hid_t file) {
    assert_true(H5Lcreate_soft("/x", file, "l", 0, 0) >= 0);
}
static void make_external_link(hid_t file) {
    assert_true(H5Lcreate_external("/etc/passwd", "/x", file, "l", 0, 0) >= 0);
}
static void make_cycle(hid_t file) {
    hid_t group = H5Gcreate2(file, "g", 0, 0, 0);
    assert_true(H5Lcreate_hard(file, "g", group, "again", 0, 0) >= 0);
    (void)H5Gclose(group);
}
/* 2^7 visits of a group with many attributes that is stored once */
static void make_bomb(hid_t file) {
    hid_t at = H5Gcreate2(file, "0", 0, 0, 0);
    for (int depth = 1; depth < 8; depth++) {
        hid_t next = H5Gcreate2(at, "a", 0, 0, 0);
        for (char name[2] = "b"; name[0] < 'z'; name[0]++) assert_true(H5Lcreate_hard(at, "a", at, name, 0, 0) >= 0);
        (void)H5Gclose(at);
        at = next;
    }
    (void)H5Gclose(at);
}
static hid_t space_of(hsize_t n) {
    return H5Screate_simple(1, &n, NULL);
}
static void make_dataset(hid_t file, hid_t type, hid_t space, hid_t style) {
    hid_t dataset = H5Dcreate2(file, "d", type, space, H5P_DEFAULT, style, H5P_DEFAULT);
    assert_true(dataset >= 0);
    (void)H5Dclose(dataset);
    (void)H5Sclose(space);
    if (style != H5P_DEFAULT) (void)H5Pclose(style);
}
static void make_huge_dataset(hid_t file) {
    make_dataset(file, H5T_IEEE_F64LE, space_of((hsize_t)1 << 50), H5P_DEFAULT);
}
static void make_unwritten_dataset(hid_t file) {
    make_dataset(file, H5T_IEEE_F64LE, space_of(10), H5P_DEFAULT);
}
static void make_float_dataset(hid_t file) {
    make_dataset(file, H5T_IEEE_F32LE, space_of(10), H5P_DEFAULT);
}
static void make_scalar_dataset(hid_t file) {
    make_dataset(file, H5T_IEEE_F64LE, H5Screate(H5S_SCALAR), H5P_DEFAULT);
}
static void make_chunked_dataset(hid_t file) {
    hid_t style = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk = 10;
    assert_true(H5Pset_chunk(style, 1, &chunk) >= 0 && H5Pset_deflate(style, 9) >= 0);
    make_dataset(file, H5T_IEEE_F64LE, space_of(100), style);
}
static void make_external_dataset(hid_t file) {
    hid_t style = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_external(style, "/etc/passwd", 0, 80) >= 0);
    make_dataset(file, H5T_IEEE_F64LE, space_of(10), style);
}
static void make_attribute(hid_t file, hid_t type, hid_t space) {
    hid_t attribute = H5Acreate2(file, "x", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(attribute >= 0);
    (void)H5Aclose(attribute);
    (void)H5Sclose(space);
}
static void make_array_attribute(hid_t file) {
    make_attribute(file, H5T_IEEE_F64LE, space_of(3));
}
static void make_int_attribute(hid_t file) {
    make_attribute(file, H5T_STD_I32LE, H5Screate(H5S_SCALAR));
}
static void make_variable_text(hid_t file) {
    hid_t type = H5Tcopy(H5T_C_S1);
    assert_true(H5Tset_size(type, H5T_VARIABLE) >= 0);
    make_attribute(file, type, H5Screate(H5S_SCALAR));
    (void)H5Tclose(type);
}
static void make_escape_text(hid_t file) {
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    assert_true(H5Tset_size(type, 4) >= 0);
    hid_t attribute = H5Acreate2(file, "x", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, "\x1b[2J") >= 0);
    (void)H5Aclose(attribute);
    (void)H5Sclose(space);
    (void)H5Tclose(type);
}
static void make_named_type(hid_t file) {
    hid_t type = H5Tcopy(H5T_IEEE_F64LE);
    assert_true(H5Tcommit2(file, "t", type, 0, 0, 0) >= 0);
    (void)H5Tclose(type);
}
static void make_odd_name(hid_t file) {
    (void)H5Gclose(H5Gcreate2(file, "a b", 0, 0, 0));
}
static void make_deep(hid_t file) {
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    assert_true(H5Pset_create_intermediate_group(links, 1) >= 0);
    (void)H5Gclose(H5Gcreate2(file, "1/2/3/4/5/6/7/8/9", links, 0, 0));
    (void)H5Pclose(links);
}

static void test_hostile_structures(void **state) {
    const scene *s = *state;
    hostile(s, make_soft_link, "a link to another place");
    hostile(s, make_external_link, "a link to another place");
    hostile(s, make_cycle, "nested too deep");
    hostile(s, make_bomb, "more content than its size allows");
    hostile(s, make_huge_dataset, "no plain list");
    hostile(s, make_unwritten_dataset, "no plain list");
    hostile(s, make_float_dataset, "no plain list");
    hostile(s, make_scalar_dataset, "no plain list");
    hostile(s, make_chunked_dataset, "no plain list");
    hostile(s, make_external_dataset, "no plain list");
    hostile(s, make_array_attribute, "no single value");
    hostile(s, make_int_attribute, "a type that is not used");
    hostile(s, make_variable_text, "impossible length");
    hostile(s, make_escape_text, "impossible value");
    hostile(s, make_named_type, "neither group nor dataset");
    hostile(s, make_odd_name, "impossible name");
    hostile(s, make_deep, "nested too deep");
}

/* Mutated bytes make HDF5 1.10 crash and hang; here they only ever make an error or a different tree. */
static void test_mutated_images(void **state) {
    (void)state;
    sg_h5tree *tree = make_tree();
    unsigned char *image, *copy;
    size_t n;
    assert_int_equal(sg_hdf5_write(tree, &image, &n, NULL), SG_OK);
    sg_h5tree_free(tree);
    copy = malloc(n);
    assert_non_null(copy);
    uint64_t random = 88172645463325252u;
    int refused = 0;
    for (int round = 0; round < 300; round++) {
        memcpy(copy, image, n);
        for (int i = 0; i < 1 + round % 8; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            copy[SG_USER_BLOCK_BYTES + random % (n - SG_USER_BLOCK_BYTES)] = (unsigned char)(random >> 40);
        }
        sg_user_block_make(&machine, copy + SG_USER_BLOCK_BYTES, n - SG_USER_BLOCK_BYTES, copy);
        sg_status status = {0};
        sg_h5tree *got = NULL;
        sg_code code = sg_h5tree_load_bytes("x.h5", &machine, copy, n, &got, &status);
        assert_true(code == SG_OK || code == SG_BAD_INPUT);
        refused += code != SG_OK;
        sg_h5tree_free(got);
    }
    assert_true(refused > 100);
    free(copy);
    free(image);
}

static void test_flat_form(void **state) {
    (void)state;
    sg_h5tree *tree = NULL;
    sg_bytes flat = {.limit = 4096};
    double x = 1;
    assert_true(sg_flat_value(&flat, "b", SG_H5TREE_F64, &x, sizeof x) && sg_flat_group(&flat, "g") &&
                sg_flat_end(&flat));
    assert_int_equal(sg_h5tree_unflatten(flat.data, flat.n, &tree, NULL), SG_OK);
    assert_int_equal(tree->n_groups, 1);
    sg_h5tree_free(tree);
    for (size_t n = 1; n < flat.n; n++) {
        sg_code code = sg_h5tree_unflatten(flat.data, n, &tree, NULL);
        sg_h5tree_free(tree);
        assert_int_equal(code, n == 25 ? SG_OK : SG_BAD_INPUT); /* 25: the end of the value, a whole tree */
    }
    size_t whole = flat.n;
    assert_true(sg_flat_value(&flat, "c", SG_H5TREE_F64, &x, sizeof x));
    assert_int_equal(sg_h5tree_unflatten(flat.data, flat.n, &tree, NULL), SG_BAD_INPUT); /* a value after a group */
    flat.n = whole;
    assert_true(sg_flat_group(&flat, "g") && sg_flat_end(&flat));
    assert_int_equal(sg_h5tree_unflatten(flat.data, flat.n, &tree, NULL), SG_BAD_INPUT); /* twice */
    flat.n = 0;
    assert_true(sg_flat_value(&flat, "b", SG_H5TREE_F64, &x, 4));
    assert_int_equal(sg_h5tree_unflatten(flat.data, flat.n, &tree, NULL), SG_BAD_INPUT);
    flat.n = 0;
    assert_true(sg_flat_value(&flat, "b", SG_H5TREE_KIND_COUNT, &x, 8));
    assert_int_equal(sg_h5tree_unflatten(flat.data, flat.n, &tree, NULL), SG_BAD_INPUT);
    assert_true(!sg_bytes_add(&flat, &x, 5000));
    free(flat.data);
}

int main(void) {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SCENE(test_round_trip),           SCENE(test_large_text_round_trip),
        SCENE(test_any_folder),           cmocka_unit_test(test_set_replaces),
        SCENE(test_bad_places),           cmocka_unit_test(test_refused_values),
        SCENE(test_unwritable_folder),    SCENE(test_full_disk),
        SCENE(test_two_writers),          SCENE(test_symbolic_link_stays),
        SCENE(test_hostile_structures),   cmocka_unit_test(test_mutated_images),
        cmocka_unit_test(test_flat_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
