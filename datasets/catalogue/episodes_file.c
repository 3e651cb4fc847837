#include "datasets/catalogue/episodes_file.h"

#include "formats/durable_file.h"
#include "formats/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lines are hundreds of bytes: an index, a length, sentences. */
enum { LINE_MOST = 1 << 20 };
static const int64_t FRAMES_MOST = INT64_C(1000000000000);

typedef struct listed {
    int64_t index, length;
} listed;

typedef struct list {
    listed *episode;
    size_t n, room;
} list;

static sg_code add(list *all, listed one, sg_status *status) {
    if (all->n == all->room) {
        size_t room = 2 * all->room + 64;
        listed *bigger = realloc(all->episode, room * sizeof *bigger);
        if (!bigger) return sg_fail_memory(status, room * sizeof *bigger, "the list of episodes");
        all->episode = bigger;
        all->room = room;
    }
    all->episode[all->n++] = one;
    return SG_OK;
}

static sg_code read_line(const char *place, const char *line, size_t n, listed *one, sg_status *status) {
    sg_tree *tree;
    sg_code code = sg_tree_parse_json(place, line, n, &tree, status);
    if (code != SG_OK) return code;
    const sg_node *root = sg_tree_root(tree);
    code = sg_node_int(tree, root, "episode_index", 0, FRAMES_MOST, &one->index, status);
    if (code == SG_OK) code = sg_node_int(tree, root, "length", 1, FRAMES_MOST, &one->length, status);
    sg_tree_free(tree);
    return code;
}

static bool is_blank(const char *line) {
    return line[strspn(line, " \t\r\n")] == 0;
}

/* One line with its NUL, at most LINE_MOST letters: *n, 0 at the end of the file. */
static sg_code next_line(FILE *file, const char *path, size_t number, char *line, size_t *n, sg_status *status) {
    *n = 0;
    for (int c; (c = getc_unlocked(file)) != EOF;) {
        if (*n + 1 >= LINE_MOST)
            return sg_fail(status, SG_BAD_INPUT, "%.400s:%zu: the line is longer than a description of an episode",
                           path, number);
        line[(*n)++] = (char)c;
        if (c == '\n') break;
    }
    line[*n] = 0;
    if (ferror(file)) return sg_fail(status, SG_MACHINE, "cannot read %.400s: %s", path, strerror(errno));
    return SG_OK;
}

static sg_code read_lines(FILE *file, const char *path, list *all, sg_status *status) {
    char *line = malloc(LINE_MOST);
    if (!line) return sg_fail_memory(status, LINE_MOST, "a line of a file");
    sg_code code = SG_OK;
    for (size_t number = 1; code == SG_OK; number++) {
        size_t n;
        code = next_line(file, path, number, line, &n, status);
        if (code != SG_OK || n == 0) break;
        if (is_blank(line)) continue;
        char place[700];
        (void)snprintf(place, sizeof place, "%.600s:%zu", path, number);
        listed one;
        code = read_line(place, line, n, &one, status);
        if (code == SG_OK) code = add(all, one, status);
    }
    free(line);
    return code;
}

static sg_code by_index(const char *path, const list *all, int64_t **lengths, sg_status *status) {
    int64_t *out = calloc(all->n ? all->n : 1, sizeof *out);
    if (!out) return sg_fail_memory(status, all->n * sizeof *out, "the episodes of a data set");
    for (size_t i = 0; i < all->n; i++) {
        int64_t index = all->episode[i].index;
        bool beyond = (uint64_t)index >= all->n;
        if (beyond || out[index] != 0) {
            free(out);
            return sg_fail(status, SG_BAD_INPUT, "%.400s: episode %" PRId64 " is %s", path, index,
                           beyond ? "listed, but not all before it" : "listed twice");
        }
        out[index] = all->episode[i].length;
    }
    *lengths = out;
    return SG_OK;
}

static FILE *open_regular(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
        (void)close(fd);
        errno = EINVAL; /* a folder, a pipe, a device */
        return NULL;
    }
    FILE *file = fdopen(fd, "r");
    int error = errno;
    if (!file) (void)close(fd);
    errno = error;
    return file;
}

sg_code sg_episodes_file_read(const char *path, int64_t **lengths, size_t *n, sg_status *status) {
    *lengths = NULL;
    *n = 0;
    FILE *file = open_regular(path);
    if (!file)
        return sg_fail(status, sg_file_code(errno),
                       "cannot read %.400s, which tells the length of every episode (%s): download the data set anew "
                       "where it is missing",
                       path, strerror(errno));
    list all = {0};
    sg_code code = read_lines(file, path, &all, status);
    (void)fclose(file);
    if (code == SG_OK) code = by_index(path, &all, lengths, status);
    if (code == SG_OK) *n = all.n;
    free(all.episode);
    return code;
}
