/* frame_scene.c: what the synthetic cameras see: a table under uneven light, with texture at several scales, a few moving
 * things with sharp edges, and sensor noise. Enough like a robot's view that a frame costs as many bits. */
#include "sim/loader/frame_planes.h"

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

enum { THINGS = 9, OCTAVES = 4 };

typedef struct thing {
    int x, y, half_width, half_height; /* samples of luma */
    int luma, u, v;
    sg_motion motion;
} thing;

typedef struct scene {
    uint64_t key;
    sg_motion camera;
    thing things[THINGS];
} scene;

static int between(uint64_t *state, int low, int high) {
    *state = mix(*state);
    return low + (int)(*state >> 33) % (high - low + 1);
}

static sg_motion any_motion(uint64_t *state) {
    return (sg_motion){(int8_t)between(state, -9, 9), (int8_t)between(state, -5, 5)};
}

static scene make(uint64_t seed, int number, int width, int height) {
    scene s = {.key = mix(seed ^ mix((uint64_t)number))};
    uint64_t state = s.key;
    s.camera = any_motion(&state);
    sg_motion moving[SCENE_MOTIONS - 1];
    for (int i = 0; i < SCENE_MOTIONS - 1; i++) moving[i] = any_motion(&state);
    for (int i = 0; i < THINGS; i++) {
        thing *t = &s.things[i];
        t->x = between(&state, 0, width);
        t->y = between(&state, 0, height);
        t->half_width = between(&state, width / 40 + 1, width / 8 + 1);
        t->half_height = between(&state, height / 40 + 1, height / 8 + 1);
        t->luma = between(&state, 20, 230);
        t->u = between(&state, 90, 165);
        t->v = between(&state, 90, 165);
        t->motion = moving[i % (SCENE_MOTIONS - 1)];
    }
    return s;
}

void sg_planes_motions(uint64_t seed, int number, sg_motion motions[SCENE_MOTIONS]) {
    scene s = make(seed, number, 1, 1);
    motions[0] = s.camera;
    for (int i = 0; i < SCENE_MOTIONS - 1; i++) motions[i + 1] = s.things[i].motion;
}

/* Values on a lattice of `spacing` samples, bilinear between: [-128, 127]. */
static int lattice(uint64_t key, int x, int y, int spacing) {
    int column = x >= 0 ? x / spacing : -((-x + spacing - 1) / spacing);
    int row = y >= 0 ? y / spacing : -((-y + spacing - 1) / spacing);
    int fx = x - column * spacing, fy = y - row * spacing, corner[2][2];
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++) {
            uint64_t place = (uint64_t)(uint32_t)(row + r) << 32 | (uint32_t)(column + c);
            corner[r][c] = (int)(mix(key ^ place) >> 56) - 128;
        }
    int top = corner[0][0] * (spacing - fx) + corner[0][1] * fx;
    int bottom = corner[1][0] * (spacing - fx) + corner[1][1] * fx;
    return (top * (spacing - fy) + bottom * fy) / (spacing * spacing);
}

/* Amplitudes fall with the scale, as in photographs. */
static int texture(uint64_t key, int x, int y) {
    static const int spacing[OCTAVES] = {64, 19, 7, 3}, weight[OCTAVES] = {36, 16, 8, 5};
    int sum = 0;
    for (int i = 0; i < OCTAVES; i++) sum += lattice(key + (uint64_t)i, x, y, spacing[i]) * weight[i];
    return sum / 128;
}

/* Half samples of motion are drawn as whole ones every other time: what is left over is for the residual. */
static int moved(int position, int halves, int t) {
    return position - halves * t / 2;
}

static void draw_luma(const scene *s, int t, sg_planes *planes) {
    int w = planes->width[0], h = planes->height[0];
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int cx = moved(x, s->camera.x, t), cy = moved(y, s->camera.y, t);
            int light = 120 + 60 * cx / w - 40 * cy / h;
            int noise = (int)(mix(s->key ^ ((uint64_t)(t * h + y) << 32 | (uint32_t)x)) >> 62) - 1;
            planes->at[0][(ptrdiff_t)y * w + x] = sg_clamp_u8(light + texture(s->key, cx, cy) + noise);
        }
}

static void draw_thing(const scene *s, const thing *it, int t, sg_planes *planes) {
    for (int p = 0; p < PLANES; p++) {
        int scale = p ? 2 : 1, w = planes->width[p], h = planes->height[p];
        int x0 = (it->x - it->half_width + it->motion.x * t / 2) / scale;
        int y0 = (it->y - it->half_height + it->motion.y * t / 2) / scale;
        int columns = 2 * it->half_width / scale, rows = 2 * it->half_height / scale;
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
                int x = x0 + c, y = y0 + r;
                if (x < 0 || y < 0 || x >= w || y >= h) continue;
                int v = p == 0 ? it->luma + texture(s->key + 99, c, r) / 3 : p == 1 ? it->u : it->v;
                planes->at[p][(ptrdiff_t)y * w + x] = sg_clamp_u8(v);
            }
    }
}

void sg_planes_draw_scene(uint64_t seed, int number, int t, sg_planes *planes) {
    scene s = make(seed, number, planes->width[0], planes->height[0]);
    draw_luma(&s, t, planes);
    for (int p = 1; p < PLANES; p++)
        for (int y = 0; y < planes->height[p]; y++)
            for (int x = 0; x < planes->width[p]; x++) {
                int v =
                    128 +
                    lattice(s.key + 7 * (uint64_t)p, moved(2 * x, s.camera.x, t), moved(2 * y, s.camera.y, t), 48) / 6;
                planes->at[p][(ptrdiff_t)y * planes->width[p] + x] = sg_clamp_u8(v);
            }
    for (int i = 0; i < THINGS; i++) draw_thing(&s, &s.things[i], t, planes);
}
