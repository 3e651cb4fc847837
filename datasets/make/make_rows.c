/* What a robot that moves smoothly records: joints, commands, times and counters. */
#include "datasets/make/make_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char SG_MAKE_TASK[] = "Pick up the cube and place it in the box.";

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double share(uint64_t key) {
    return (double)(mix(key) >> 11) * 0x1p-53;
}

/* Radians of a joint: a sweep of a few seconds, another one in every episode; as a float32 keeps it. */
static double joint(const sg_make *make, int64_t episode, int64_t frame, int64_t number) {
    const double turn = 6.283185307179586;
    uint64_t key = mix(make->o.seed ^ mix((uint64_t)number)), start = mix(key ^ (uint64_t)episode);
    double period_s = 2 + 4 * share(key), sweep = 0.3 + share(key + 1), rest = share(key + 2) - 0.5;
    double angle = rest + sweep * sin(turn * ((double)frame / make->o.fps / period_s + share(start)));
    return (double)(float)angle;
}

static double *numbers(int64_t rows, int64_t width) {
    return malloc((size_t)(rows * width) * sizeof(double)); /* at most 50 million, see resolve() */
}

void sg_make_rows_free(sg_make_rows *rows) {
    free(rows->state);
    free(rows->action);
    free(rows->timestamp);
    free(rows->frame_index);
    free(rows->episode_index);
    free(rows->index);
    free(rows->task_index);
    memset(rows, 0, sizeof *rows);
}

static void fill_row(const sg_make *make, int64_t episode, int64_t frame) {
    const sg_make_rows *rows = &make->rows;
    int64_t row = episode * make->o.frames_per_episode + frame;
    for (int64_t j = 0; j < make->o.state_dim; j++)
        rows->state[row * make->o.state_dim + j] = joint(make, episode, frame, j);
    for (int64_t j = 0; j < make->o.action_dim; j++)
        rows->action[row * make->o.action_dim + j] = joint(make, episode, frame + 1, j);
    rows->timestamp[row] = (double)(float)((double)frame / make->o.fps);
    rows->frame_index[row] = (double)frame;
    rows->episode_index[row] = (double)episode;
    rows->index[row] = (double)row;
    rows->task_index[row] = 0;
}

sg_code sg_make_rows_new(sg_make *make, sg_status *status) {
    int64_t n = make->frames;
    make->rows = (sg_make_rows){.state = numbers(n, make->o.state_dim),
                                .action = numbers(n, make->o.action_dim),
                                .timestamp = numbers(n, 1),
                                .frame_index = numbers(n, 1),
                                .episode_index = numbers(n, 1),
                                .index = numbers(n, 1),
                                .task_index = numbers(n, 1)};
    const sg_make_rows *r = &make->rows;
    if (!r->state || !r->action || !r->timestamp || !r->frame_index || !r->episode_index || !r->index || !r->task_index)
        return sg_fail_memory(status, (unsigned long long)n * sizeof(double), "the rows of the data set");
    for (int64_t e = 0; e < make->o.episodes; e++)
        for (int64_t f = 0; f < make->o.frames_per_episode; f++) fill_row(make, e, f);
    return SG_OK;
}
