/* LeRobot data sets v2.0, v2.1 and v3.0: files of episodes, then what describes them. */
#include "datasets/make/make_lerobot.h"

#include <stdlib.h>
#include <string.h>

void sg_lerobot_camera(int64_t camera, char name[SG_MAKE_NAME_BYTES]) {
    static const char *const named[] = {"observation.images.top", "observation.images.wrist"};
    if (camera < 2)
        (void)snprintf(name, SG_MAKE_NAME_BYTES, "%s", named[camera]);
    else
        (void)snprintf(name, SG_MAKE_NAME_BYTES, "observation.images.camera%lld", (long long)camera + 1);
}

int64_t sg_lerobot_span(const sg_make_lerobot_set *set, int64_t first) {
    int64_t left = set->make->o.episodes - first;
    return left < set->span ? left : set->span;
}

/* v3.0 fills files up to a size. Here the set is halved, so that small ones too have several episodes in a file and, from
 * three episodes on, several files; images in tables are held in memory until their file is written. */
static sg_code choose_span(sg_make_lerobot_set *set, sg_status *status) {
    const double most_bytes = 0x1p30;
    const sg_make_options *o = &set->make->o;
    double episode_bytes = 3.0 * (double)o->height * (double)o->width * (double)(o->cameras * o->frames_per_episode);
    set->span = set->v3 ? (o->episodes + 1) / 2 : 1;
    if (set->v3 && set->span < 2) set->span = 2;
    if (set->video) return SG_OK;
    if (episode_bytes > most_bytes)
        return sg_fail(status, SG_BAD_INPUT,
                       "--codec png: images in tables are made up to 1 GiB of pixels per episode, --frames-per-episode "
                       "%lld of --cameras %lld are more: give fewer, or --codec av1",
                       (long long)o->frames_per_episode, (long long)o->cameras);
    while (set->span > 1 && (double)set->span * episode_bytes > most_bytes) set->span--;
    return SG_OK;
}

static sg_code end_span(sg_make_lerobot_set *set, int64_t first, sg_status *status) {
    const sg_make_options *o = &set->make->o;
    if (!set->episodes_stats) return SG_OK;
    json_t *stats = sg_lerobot_stats(set, first * o->frames_per_episode, o->frames_per_episode, set->episode);
    for (int64_t c = 0; c < o->cameras; c++)
        for (int k = 0; k < 3; k++)
            for (int level = 0; level < 256; level++) set->total[c].count[k][level] += set->episode[c].count[k][level];
    memset(set->episode, 0, (size_t)o->cameras * sizeof *set->episode);
    json_t *row = stats ? json_pack("{s:I, s:o}", "episode_index", (json_int_t)first, "stats", stats) : NULL;
    return row && json_array_append_new(set->episodes_stats, row) == 0
               ? SG_OK
               : sg_fail(status, SG_MACHINE, "no memory for the statistics of the episodes");
}

static sg_code make_all(sg_make_lerobot_set *set, sg_status *status) {
    sg_code code = choose_span(set, status);
    for (int64_t e = 0; code == SG_OK && e < set->make->o.episodes; e += set->span) {
        int64_t n = sg_lerobot_span(set, e);
        code = sg_lerobot_data(set, e, n, status);
        for (int64_t c = 0; set->video && code == SG_OK && c < set->make->o.cameras; c++)
            code = sg_lerobot_video(set, c, e, n, status);
        if (code == SG_OK) code = end_span(set, e, status);
    }
    return code == SG_OK ? sg_lerobot_meta(set, status) : code;
}

sg_code sg_make_lerobot(sg_make *make, sg_status *status) {
    sg_make_lerobot_set set = {.make = make};
    size_t cameras = (size_t)make->o.cameras;
    bool of_episodes = strcmp(make->o.kind, "lerobot-v2.1") == 0;
    set.v3 = strcmp(make->o.kind, "lerobot-v3.0") == 0;
    set.video = strcmp(make->o.codec, "png") != 0;
    set.total = calloc(cameras, sizeof *set.total);
    set.episode = of_episodes ? calloc(cameras, sizeof *set.episode) : NULL;
    set.episodes_stats = of_episodes ? json_array() : NULL;
    bool there = set.total && (!of_episodes || (set.episode && set.episodes_stats));
    sg_code code = there ? make_all(&set, status) : sg_fail_memory(status, cameras * sizeof *set.total, "statistics");
    json_decref(set.episodes_stats);
    free(set.episode);
    free(set.total);
    return code;
}
