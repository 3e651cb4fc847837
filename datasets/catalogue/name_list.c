#include "datasets/catalogue/name_list.h"

#include "datasets/catalogue/path_template.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Letters of all names together at most, which 32-bit places can tell. */
static const size_t MOST_LETTERS = (size_t)2 << 30;

static size_t digits_at(const char *text) {
    return strspn(text, "0123456789");
}

int sg_names_compare(const char *a, const char *b) {
    const char *p = a, *q = b;
    while (*p && *q) {
        size_t n = digits_at(p), m = digits_at(q);
        if (n == 0 || m == 0) {
            if (*p != *q) return (unsigned char)*p < (unsigned char)*q ? -1 : 1;
            p++;
            q++;
            continue;
        }
        const char *p_end = p + n, *q_end = q + m;
        while (n > 0 && *p == '0') p++, n--;
        while (m > 0 && *q == '0') q++, m--;
        if (n != m) return n < m ? -1 : 1;
        int order = memcmp(p, q, n);
        if (order != 0) return order;
        p = p_end;
        q = q_end;
    }
    if (*p || *q) return *p ? 1 : -1;
    return strcmp(a, b); /* numbers of one value with other zeros */
}

/* Names while they are collected. */
typedef struct gathered {
    char *letters;
    size_t bytes, room;
    char **name; /* of `letters`, made when all are there */
    uint32_t *start;
    size_t n, starts;
} gathered;

static void gathered_free(gathered *g) {
    free(g->letters);
    free(g->name);
    free(g->start);
}

static sg_code gather(gathered *g, const char *name, sg_status *status) {
    size_t length = strlen(name) + 1;
    if (g->bytes + length > MOST_LETTERS)
        return sg_fail(status, SG_BAD_INPUT, "the folder holds more names than are read");
    if (length > g->room - g->bytes) {
        size_t room = 2 * g->room + length + 256;
        char *bigger = realloc(g->letters, room);
        if (!bigger) return sg_fail_memory(status, room, "names of files");
        g->letters = bigger;
        g->room = room;
    }
    if (g->n == g->starts) {
        size_t starts = 2 * g->starts + 16;
        uint32_t *bigger = realloc(g->start, starts * sizeof *bigger);
        if (!bigger) return sg_fail_memory(status, starts * sizeof *bigger, "names of files");
        g->start = bigger;
        g->starts = starts;
    }
    g->start[g->n++] = (uint32_t)g->bytes;
    memcpy(g->letters + g->bytes, name, length);
    g->bytes += length;
    return SG_OK;
}

static bool ends_so(const char *name, const char *const *endings) {
    size_t n = strlen(name);
    for (; *endings; endings++) {
        size_t m = strlen(*endings);
        if (n > m && strcasecmp(name + n - m, *endings) == 0) return true;
    }
    return false;
}

/* File systems that tell the type with the name save a look at each. */
static bool is_kind(int folder, const struct dirent *entry, sg_name_kind kind) {
    if (entry->d_type == DT_REG) return kind == SG_NAMES_FILES;
    if (entry->d_type == DT_DIR) return kind == SG_NAMES_FOLDERS;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) return false;
    struct stat info;
    if (fstatat(folder, entry->d_name, &info, 0) != 0) return false;
    return kind == SG_NAMES_FILES ? S_ISREG(info.st_mode) : S_ISDIR(info.st_mode);
}

static sg_code gather_folder(DIR *folder, const char *path, sg_name_kind kind, const char *const *endings, gathered *g,
                             sg_status *status) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno != 0) return sg_fail(status, SG_MACHINE, "cannot list %.400s: %s", path, strerror(errno));
        if (!entry) return SG_OK;
        const char *name = entry->d_name;
        if (name[0] == '.' || !sg_path_part_is_sound(name)) continue;
        if (endings && !ends_so(name, endings)) continue;
        if (!is_kind(dirfd(folder), entry, kind)) continue;
        sg_code code = gather(g, name, status);
        if (code != SG_OK) return code;
    }
}

static int by_name(const void *a, const void *b) {
    return sg_names_compare(*(char *const *)a, *(char *const *)b);
}

/* The last number in a name. */
static bool last_number(const char *name, size_t *from, size_t *n) {
    size_t end = strlen(name);
    while (end > 0 && !isdigit((unsigned char)name[end - 1])) end--;
    size_t begin = end;
    while (begin > 0 && isdigit((unsigned char)name[begin - 1])) begin--;
    *from = begin;
    *n = end - begin;
    return *n > 0 && *n <= 18;
}

/* Whether the names are one pattern whose number goes up by one. */
static bool find_pattern(gathered *g, sg_name_list *list) {
    const char *first = g->name[0];
    size_t from, digits;
    if (!last_number(first, &from, &digits)) return false;
    list->first = strtoll(first + from, NULL, 10);
    list->width = (int)digits;
    const char *tail = first + from + digits;
    for (size_t i = 0; i < g->n; i++) {
        char number[32];
        int n = snprintf(number, sizeof number, "%0*" PRId64, list->width, list->first + (int64_t)i);
        const char *name = g->name[i];
        if (n < 0 || strncmp(name, first, from) != 0 || strncmp(name + from, number, (size_t)n) != 0 ||
            strcmp(name + from + n, tail) != 0)
            return false;
    }
    return true;
}

static sg_code keep_pattern(const gathered *g, sg_name_list *list, sg_status *status) {
    const char *first = g->name[0];
    size_t from, digits;
    (void)last_number(first, &from, &digits);
    size_t tail = strlen(first + from + digits) + 1;
    list->letters = malloc(from + 1 + tail);
    if (!list->letters) return sg_fail_memory(status, from + 1 + tail, "a pattern of names");
    memcpy(list->letters, first, from);
    list->letters[from] = 0;
    memcpy(list->letters + from + 1, first + from + digits, tail);
    return SG_OK;
}

static sg_code keep(gathered *g, sg_name_list *list, sg_status *status) {
    list->n = g->n;
    if (g->n == 0) return SG_OK;
    g->name = malloc(g->n * sizeof *g->name);
    if (!g->name) return sg_fail_memory(status, g->n * sizeof *g->name, "names of files");
    for (size_t i = 0; i < g->n; i++) g->name[i] = g->letters + g->start[i];
    qsort(g->name, g->n, sizeof *g->name, by_name);
    if (find_pattern(g, list)) return keep_pattern(g, list, status);
    for (size_t i = 0; i < g->n; i++) g->start[i] = (uint32_t)(g->name[i] - g->letters);
    list->letters = g->letters;
    list->start = g->start;
    g->letters = NULL;
    g->start = NULL;
    return SG_OK;
}

sg_code sg_names_read(const char *folder, sg_name_kind kind, const char *const *endings, sg_name_list *list,
                      sg_status *status) {
    memset(list, 0, sizeof *list);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return SG_NO;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int error = errno;
        if (fd >= 0) (void)close(fd);
        return sg_fail(status, error == EACCES ? SG_BAD_INPUT : SG_MACHINE, "cannot list %.400s: %s", folder,
                       strerror(error));
    }
    gathered g = {0};
    sg_code code = gather_folder(dir, folder, kind, endings, &g, status);
    (void)closedir(dir);
    if (code == SG_OK) code = keep(&g, list, status);
    gathered_free(&g);
    if (code != SG_OK) sg_names_free(list);
    return code;
}

void sg_names_free(sg_name_list *list) {
    free(list->letters);
    free(list->start);
    memset(list, 0, sizeof *list);
}

bool sg_names_get(const sg_name_list *list, size_t index, char *out, size_t room) {
    int n;
    if (list->start)
        n = snprintf(out, room, "%s", list->letters + list->start[index]);
    else
        n = snprintf(out, room, "%s%0*" PRId64 "%s", list->letters, list->width, list->first + (int64_t)index,
                     list->letters + strlen(list->letters) + 1);
    return n >= 0 && (size_t)n < room;
}
