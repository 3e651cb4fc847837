#include "datasets/catalogue/path_template.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const field_names[SG_FIELD_COUNT] = {
    [SG_FIELD_EPISODE_CHUNK] = "episode_chunk", [SG_FIELD_EPISODE_INDEX] = "episode_index",
    [SG_FIELD_CHUNK_INDEX] = "chunk_index",     [SG_FIELD_FILE_INDEX] = "file_index",
    [SG_FIELD_FRAME_INDEX] = "frame_index",     [SG_FIELD_VIDEO_KEY] = "video_key"};

static bool has_control(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 32 || *p == 127) return true;
    return false;
}

bool sg_path_part_is_sound(const char *name) {
    return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/') && !has_control(name);
}

/* A part ".." of a path, between slashes or at an end. */
static bool climbs(const char *path) {
    for (const char *at = path; (at = strstr(at, "..")); at += 2) {
        bool begins = at == path || at[-1] == '/', ends = at[2] == '/' || !at[2];
        if (begins && ends) return true;
    }
    return false;
}

/* "name", "name:06d" or "name:d" between braces; SG_FIELD_TEXT: none of these. */
static sg_template_field field_of(const char *inside, size_t n, uint8_t *width) {
    const char *colon = memchr(inside, ':', n);
    size_t name = colon ? (size_t)(colon - inside) : n;
    *width = 0;
    if (colon) {
        const char *p = colon + 1, *end = inside + n;
        unsigned digits = 0;
        for (; p < end && *p >= '0' && *p <= '9' && digits < 100; p++) digits = digits * 10 + (unsigned)(*p - '0');
        if (p + 1 != end || *p != 'd' || digits > 20) return SG_FIELD_TEXT;
        *width = (uint8_t)digits;
    }
    for (int f = SG_FIELD_TEXT + 1; f < SG_FIELD_COUNT; f++) {
        if (strlen(field_names[f]) != name || memcmp(field_names[f], inside, name) != 0) continue;
        return f == SG_FIELD_VIDEO_KEY && colon ? SG_FIELD_TEXT : (sg_template_field)f;
    }
    return SG_FIELD_TEXT;
}

static bool add_part(sg_template *out, sg_template_field field, uint8_t width, size_t from, size_t length) {
    if (out->n == SG_TEMPLATE_PARTS) return false;
    out->part[out->n].field = (uint8_t)field;
    out->part[out->n].width = width;
    out->part[out->n].from = (uint16_t)from;
    out->part[out->n].length = (uint16_t)length;
    out->n++;
    return true;
}

/* The parts of out->text; NULL: done, else what is wrong. */
static const char *split(sg_template *out) {
    const char *text = out->text;
    for (size_t at = 0; text[at];) {
        size_t length = strcspn(text + at, "{}");
        if (length > 0) {
            if (!add_part(out, SG_FIELD_TEXT, 0, at, length)) return "more fields than a path has";
            at += length;
            continue;
        }
        size_t inside = strcspn(text + at + 1, "{}");
        if (text[at] == '}' || text[at + 1 + inside] != '}') return "a brace without its other one";
        uint8_t width;
        sg_template_field field = field_of(text + at + 1, inside, &width);
        if (field == SG_FIELD_TEXT) return "a field that is not known";
        if (!add_part(out, field, width, 0, 0)) return "more fields than a path has";
        at += inside + 2;
    }
    return NULL;
}

sg_code sg_template_parse(const char *what, const char *text, sg_template *out, sg_status *status) {
    memset(out, 0, sizeof *out);
    size_t n = strlen(text);
    const char *why = NULL;
    if (n == 0)
        why = "nothing";
    else if (n >= sizeof out->text)
        why = "more letters than a path has";
    else if (text[0] == '/')
        why = "an absolute path";
    else if (climbs(text))
        why = "a way out of the data set's folder";
    else if (has_control(text))
        why = "control characters";
    if (!why) {
        memcpy(out->text, text, n + 1);
        why = split(out);
    }
    if (!why) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s '%.200s' has %s", what, text, why);
}

bool sg_template_uses(const sg_template *template, sg_template_field field) {
    for (size_t i = 0; i < template->n; i++)
        if (template->part[i].field == field) return true;
    return false;
}

sg_code sg_template_expand(const sg_template *template, const char *root, const sg_template_values *values, char *out,
                           size_t room, sg_status *status) {
    int n = snprintf(out, room, "%s/", root);
    size_t at = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < template->n && at < room; i++) {
        if (template->part[i].field == SG_FIELD_TEXT)
            n = snprintf(out + at, room - at, "%.*s", (int)template->part[i].length,
                         template->text + template->part[i].from);
        else if (template->part[i].field == SG_FIELD_VIDEO_KEY)
            n = snprintf(out + at, room - at, "%s", values->video_key ? values->video_key : "");
        else
            n = snprintf(out + at, room - at, "%0*" PRId64, (int)template->part[i].width,
                         values->number[template->part[i].field]);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < room) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "a path below %.200s has more than %zu letters", root, room - 1);
}
