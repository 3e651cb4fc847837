#include "datasets/make/scene.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { THINGS = 9, OCTAVES = 4, CHANNELS = 3, MOST_PIXELS_A_SIDE = 16384, SWAY = 12, TILE = 64 };

static const double TWO_PI = 6.283185307179586;

typedef struct thing {
    double x, y, reach_x, reach_y, speed_x, speed_y, phase; /* pixels; turns per frame */
    int half_width, half_height;
    int color[CHANNELS];
    bool round;
} thing;

struct sg_scene {
    int64_t height, width;
    uint64_t key;
    int64_t margin; /* of the table around the picture, for a camera that sways */
    thing things[THINGS];
    int8_t tile[TILE][TILE]; /* texture of the things */
    uint8_t table[];         /* [3, height + 2 margin, width + 2 margin] */
};

/* ---- random numbers by place -------------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double between(uint64_t *state, double low, double high) {
    *state = mix(*state);
    return low + (high - low) * (double)(*state >> 11) * 0x1p-53;
}

static uint8_t clamp(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* ---- what stands still -------------------------------------------------------------------------------------------- */

/* Values at the corners of a lattice, bilinear between: [-128, 127]. */
static int lattice(uint64_t key, int64_t x, int64_t y, int spacing) {
    int64_t column = x / spacing, row = y / spacing;
    int fx = (int)(x % spacing), fy = (int)(y % spacing), corner[2][2];
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++)
            corner[r][c] = (int)(mix(key ^ ((uint64_t)(row + r) << 32 | (uint64_t)(column + c))) >> 56) - 128;
    int top = corner[0][0] * (spacing - fx) + corner[0][1] * fx;
    int bottom = corner[1][0] * (spacing - fx) + corner[1][1] * fx;
    return (top * (spacing - fy) + bottom * fy) / (spacing * spacing);
}

/* Amplitudes fall with the scale, as in photographs. */
static int texture(uint64_t key, int64_t x, int64_t y) {
    static const int spacing[OCTAVES] = {64, 19, 7, 3}, weight[OCTAVES] = {36, 18, 14, 13};
    int sum = 0;
    for (int i = 0; i < OCTAVES; i++) sum += lattice(key + (uint64_t)i, x, y, spacing[i]) * weight[i];
    return sum / 128;
}

static void lay_table(sg_scene *s) {
    int64_t h = s->height + 2 * s->margin, w = s->width + 2 * s->margin;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            int light = 110 + (int)(60 * x / w) - (int)(40 * y / h) + texture(s->key, x, y);
            for (int c = 0; c < CHANNELS; c++) {
                int tint = lattice(s->key + 7 + (uint64_t)c, x, y, 48) / 8;
                s->table[((int64_t)c * h + y) * w + x] = clamp(light + tint);
            }
        }
}

static void place_things(sg_scene *s) {
    uint64_t state = s->key;
    double w = (double)s->width, h = (double)s->height;
    for (int i = 0; i < THINGS; i++) {
        thing *t = &s->things[i];
        t->x = between(&state, 0, w);
        t->y = between(&state, 0, h);
        t->reach_x = between(&state, 0, w / 4);
        t->reach_y = between(&state, 0, h / 4);
        t->speed_x = between(&state, 0.002, 0.02);
        t->speed_y = between(&state, 0.002, 0.02);
        t->phase = between(&state, 0, 1);
        t->half_width = (int)between(&state, w / 40 + 1, w / 8 + 1);
        t->half_height = (int)between(&state, h / 40 + 1, h / 8 + 1);
        for (int c = 0; c < CHANNELS; c++) t->color[c] = (int)between(&state, 20, 230);
        t->round = i % 3 == 0;
    }
    for (int y = 0; y < TILE; y++)
        for (int x = 0; x < TILE; x++) s->tile[y][x] = (int8_t)(texture(s->key + 99, x, y) / 3);
}

sg_code sg_scene_new(int64_t height, int64_t width, uint64_t seed, sg_scene **scene, sg_status *status) {
    *scene = NULL;
    if (height < 1 || width < 1 || height > MOST_PIXELS_A_SIDE || width > MOST_PIXELS_A_SIDE)
        return sg_fail(status, SG_BAD_INPUT, "a scene of %lld x %lld pixels: 1 .. %d a side are drawn",
                       (long long)height, (long long)width, MOST_PIXELS_A_SIDE);
    size_t bytes = sizeof(sg_scene) +
                   (size_t)CHANNELS * (size_t)(height + 2 * (int64_t)SWAY) * (size_t)(width + 2 * (int64_t)SWAY);
    sg_scene *s = calloc(1, bytes);
    if (!s) return sg_fail_memory(status, bytes, "a scene");
    s->height = height;
    s->width = width;
    s->key = mix(seed);
    s->margin = SWAY;
    lay_table(s);
    place_things(s);
    *scene = s;
    return SG_OK;
}

void sg_scene_free(sg_scene *scene) {
    free(scene);
}

/* ---- one frame ---------------------------------------------------------------------------------------------------- */

static void draw_table(const sg_scene *s, int64_t frame, uint8_t *rgb) {
    double turn = TWO_PI * (double)frame;
    int64_t dx = s->margin + lrint((double)s->margin * sin(0.011 * turn));
    int64_t dy = s->margin + lrint((double)s->margin * sin(0.007 * turn));
    int64_t h = s->height + 2 * s->margin, w = s->width + 2 * s->margin;
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t y = 0; y < s->height; y++)
            memcpy(rgb + (c * s->height + y) * s->width, s->table + (c * h + y + dy) * w + dx, (size_t)s->width);
}

static void draw_thing(const sg_scene *s, const thing *t, int64_t frame, uint8_t *rgb) {
    double f = (double)frame;
    int64_t cx = lrint(t->x + t->reach_x * sin(TWO_PI * (t->speed_x * f + t->phase)));
    int64_t cy = lrint(t->y + t->reach_y * sin(TWO_PI * (t->speed_y * f)));
    int64_t a = t->half_width, b = t->half_height;
    for (int64_t y = cy - b < 0 ? 0 : cy - b; y < cy + b && y < s->height; y++)
        for (int64_t x = cx - a < 0 ? 0 : cx - a; x < cx + a && x < s->width; x++) {
            int64_t u = x - cx, v = y - cy;
            if (t->round && u * u * b * b + v * v * a * a > a * a * b * b) continue;
            int shade = s->tile[(v + b) % TILE][(u + a) % TILE] - (int)(20 * v / b);
            for (int64_t c = 0; c < CHANNELS; c++) rgb[(c * s->height + y) * s->width + x] = clamp(t->color[c] + shade);
        }
}

/* Half the bits of a random byte are expected to be set: their number less 4 is noise with a deviation of 1.4 grey levels,
 * as webcams have it in daylight. */
static void add_noise(const sg_scene *s, int64_t frame, uint8_t *rgb) {
    int64_t n = CHANNELS * s->height * s->width;
    uint64_t key = mix(s->key ^ mix((uint64_t)frame));
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t bits = mix(key + (uint64_t)i);
        /* set bits of each byte at once */
        bits -= bits >> 1 & 0x5555555555555555u;
        bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
        bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
        int64_t end = n - i < 8 ? n - i : 8;
        for (int64_t k = 0; k < end; k++) rgb[i + k] = clamp(rgb[i + k] + (int)(bits >> 8 * k & 15) - 4);
    }
}

void sg_scene_draw(const sg_scene *scene, int64_t frame, uint8_t *rgb) {
    draw_table(scene, frame, rgb);
    for (int i = 0; i < THINGS; i++) draw_thing(scene, &scene->things[i], frame, rgb);
    add_noise(scene, frame, rgb);
}
