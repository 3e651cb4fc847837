#include "cli/dataset_show.h"

#include "datasets/codec/video_look.h"

#include <stdio.h>
#include <string.h>

static const char *store_name(uint8_t store) {
    switch ((sg_frame_store)store) {
    case SG_STORE_VIDEO: return "video";
    case SG_STORE_IMAGE_FILE: return "image files";
    case SG_STORE_TABLE: return "images in tables";
    case SG_STORE_HDF5_RAW: return "HDF5, raw";
    case SG_STORE_HDF5_ENCODED: return "HDF5, encoded";
    }
    return "unknown";
}

static int64_t frames_of(const sg_catalogue *catalogue) {
    return catalogue->n_episodes ? catalogue->first_frame[catalogue->n_episodes] : 0;
}

static void look_at(const sg_catalogue *catalogue, size_t c, sg_seen_camera *seen) {
    const sg_camera *camera = &catalogue->cameras[c];
    sg_frame_place place;
    sg_video_info info;
    sg_status status;
    sg_code code = sg_catalogue_place(catalogue, c, 0, 0, &place, &status);
    if (code == SG_OK) code = sg_video_look(place.path, &info, &status);
    if (code != SG_OK) {
        (void)snprintf(seen->warning, sizeof seen->warning, "%.500s", status.text);
        return;
    }
    seen->gop = info.gop;
    if (info.height != camera->height || info.width != camera->width)
        (void)snprintf(seen->warning, sizeof seen->warning,
                       "frames of %.95s are %lldx%lld, the data set says %lldx%lld: they will not be read",
                       camera->name, (long long)info.height, (long long)info.width, (long long)camera->height,
                       (long long)camera->width);
    else if (camera->gop > 0 && info.gop > 0 && info.gop != camera->gop)
        (void)snprintf(seen->warning, sizeof seen->warning,
                       "videos of %.95s have a key frame every %lld frames, the data set says every %lld", camera->name,
                       (long long)info.gop, (long long)camera->gop);
}

void sg_dataset_look(const sg_catalogue *catalogue, sg_seen_camera *seen) {
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        memset(&seen[c], 0, sizeof seen[c]);
        if (catalogue->cameras[c].store == SG_STORE_VIDEO) look_at(catalogue, c, &seen[c]);
    }
}

static int64_t gop_of(const sg_camera *camera, const sg_seen_camera *seen) {
    return seen->gop > 0 ? seen->gop : camera->gop;
}

static void print_cameras(const sg_catalogue *catalogue, const sg_seen_camera *seen) {
    static const char *const header[] = {"camera", "size", "kept as", "codec", "key frame every"};
    sg_table *table = sg_table_new(5, header);
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        const sg_camera *camera = &catalogue->cameras[c];
        char size[48], gop[48] = "-", name[sizeof camera->name], codec[sizeof camera->codec];
        sg_show_clean(camera->name, name, sizeof name);
        sg_show_clean(*camera->codec ? camera->codec : "-", codec, sizeof codec);
        (void)snprintf(size, sizeof size, "%lldx%lld", (long long)camera->height, (long long)camera->width);
        int64_t frames = gop_of(camera, &seen[c]);
        if (frames > 0)
            (void)snprintf(gop, sizeof gop, "%lld frame%s", (long long)frames, frames == 1 ? "" : "s");
        else if (camera->store == SG_STORE_VIDEO)
            (void)snprintf(gop, sizeof gop, "not known");
        const char *const cells[] = {camera->name, size, store_name(camera->store),
                                     *camera->codec ? camera->codec : "-", gop};
        sg_table_row(table, cells);
    }
    sg_table_print(table);
}

static void print_plural(const char *before, int64_t count, const char *what) {
    printf("%s%s %s%s", before, sg_show_count(count).s, what, count == 1 ? "" : "s");
}

void sg_print_dataset(const sg_catalogue *catalogue, const sg_seen_camera *seen) {
    const sg_dataset *info = &catalogue->info;
    char text[1024];
    sg_show_clean(catalogue->name, text, sizeof text);
    printf("%s: %s%s%s", text, sg_dataset_kind_name(catalogue->kind), *info->version ? " " : "", info->version);
    print_plural(", ", (int64_t)catalogue->n_episodes, "episode");
    print_plural(", ", frames_of(catalogue), "frame");
    if (info->fps > 0) printf(" at %g frames per second", info->fps);
    printf("\n");
    bool has_rows = info->state_dim > 0 || info->action_dim > 0;
    if (info->state_dim > 0) printf("State of %lld, ", (long long)info->state_dim);
    if (info->action_dim > 0)
        printf("%s of %lld, ", info->state_dim > 0 ? "action" : "Action", (long long)info->action_dim);
    if (catalogue->has_tables)
        printf("%s can be read\n\n", has_rows ? "both" : "Rows");
    else
        printf("%s are not read: %s\n\n", has_rows ? "rows" : "Rows", catalogue->tables_why);
    print_cameras(catalogue, seen);
    char loading[512];
    sg_catalogue_describe(catalogue, loading, sizeof loading);
    sg_show_clean(loading, text, sizeof text);
    printf("\nLoading depends on: %s\n", text);
    if (*catalogue->warning) sg_show_warning("%s", catalogue->warning);
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        sg_show_clean(seen[c].warning, text, sizeof text);
        if (*text) sg_show_warning("%s", text);
    }
}

static json_t *number(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static json_t *whole(int64_t value) {
    return value > 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *words(const char *text) {
    char clean[1024];
    sg_show_clean(text, clean, sizeof clean);
    return *clean ? json_string(clean) : json_null();
}

static json_t *warnings(const sg_catalogue *catalogue, const sg_seen_camera *seen) {
    json_t *list = json_array();
    if (*catalogue->warning) (void)json_array_append_new(list, words(catalogue->warning));
    for (size_t c = 0; c < catalogue->n_cameras; c++)
        if (*seen[c].warning) (void)json_array_append_new(list, words(seen[c].warning));
    return list;
}

static json_t *cameras(const sg_catalogue *catalogue, const sg_seen_camera *seen) {
    json_t *list = json_array();
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        const sg_camera *camera = &catalogue->cameras[c];
        json_t *row = json_pack("{s:o, s:I, s:I, s:s, s:o, s:o, s:o}", "name", words(camera->name), "height",
                                (json_int_t)camera->height, "width", (json_int_t)camera->width, "store",
                                store_name(camera->store), "codec", words(camera->codec), "gop",
                                whole(gop_of(camera, &seen[c])), "fps", number(camera->fps));
        (void)json_array_append_new(list, row);
    }
    return list;
}

json_t *sg_json_dataset(const sg_catalogue *catalogue, const sg_seen_camera *seen) {
    const sg_dataset *info = &catalogue->info;
    char text[512];
    sg_catalogue_describe(catalogue, text, sizeof text);
    json_t *object =
        json_pack("{s:o, s:o, s:s, s:o, s:I, s:I}", "path", words(catalogue->path), "name", words(catalogue->name),
                  "kind", sg_dataset_kind_name(catalogue->kind), "version", words(info->version), "episodes",
                  (json_int_t)catalogue->n_episodes, "frames", (json_int_t)frames_of(catalogue));
    if (!object) return NULL;
    (void)json_object_set_new(object, "fps", number(info->fps));
    (void)json_object_set_new(object, "state_dim", whole(info->state_dim));
    (void)json_object_set_new(object, "action_dim", whole(info->action_dim));
    (void)json_object_set_new(object, "tables", json_boolean(catalogue->has_tables));
    (void)json_object_set_new(object, "tables_why", catalogue->has_tables ? json_null() : words(catalogue->tables_why));
    (void)json_object_set_new(object, "cameras", cameras(catalogue, seen));
    (void)json_object_set_new(object, "loading", words(text));
    (void)json_object_set_new(object, "warnings", warnings(catalogue, seen));
    return object;
}
