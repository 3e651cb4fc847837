#include "sim/loader/loader_count.h"

#include <math.h>

static void add_cost(sg_read_cost *to, const sg_read_cost *from) {
    to->samples += from->samples;
    to->frames += from->frames;
    to->frames_decoded += from->frames_decoded;
    to->seeks += from->seeks;
    to->opened += from->opened;
    to->bytes_read += from->bytes_read;
    to->frame_cpu_s += from->frame_cpu_s;
    to->frame_wall_s += from->frame_wall_s;
    to->table_cpu_s += from->table_cpu_s;
    to->table_wall_s += from->table_wall_s;
}

void sg_loader_count_batch(sg_loader_count *c, const sg_made_batch *made) {
    double seconds = fmax(made->end_s - made->start_s, 1e-9);
    add_cost(&c->cost, &made->cost);
    c->batches++;
    c->batch_s += seconds;
    c->batch_cpu_s += made->cpu_s;
    c->log_s += log(seconds);
    c->log_s_squared += log(seconds) * log(seconds);
    if (made->cost.frames <= 0) return;
    int64_t at = c->with_frames++ % SG_LOADER_BATCHES_KEPT;
    c->frame_cpu_s[at] = made->cost.frame_cpu_s / (double)made->cost.frames;
    c->frame_wall_s[at] = made->cost.frame_wall_s / (double)made->cost.frames;
}

void sg_loader_count_tell(const sg_loader_count *c, sg_loader_record *r) {
    r->batches = c->batches;
    r->frames = c->cost.frames;
    r->frames_decoded = c->cost.frames_decoded;
    r->bytes_read = c->cost.bytes_read;
    size_t kept = (size_t)(c->with_frames < SG_LOADER_BATCHES_KEPT ? c->with_frames : SG_LOADER_BATCHES_KEPT);
    r->frame_cpu_s = sg_statistic_of(c->frame_cpu_s, kept).median;
    r->frame_s = sg_statistic_of(c->frame_wall_s, kept).median;
    double n = (double)c->batches;
    if (c->cost.samples > 0) r->sample_cpu_s = fmax(0, c->batch_cpu_s - c->cost.frame_cpu_s) / (double)c->cost.samples;
    if (n > 0) {
        r->batch_s = c->batch_s / n;
        r->batch_cpu_s = c->batch_cpu_s / n;
    }
    if (n > 1) r->batch_log_sd = sqrt(fmax(0, c->log_s_squared - c->log_s * c->log_s / n) / (n - 1));
    r->epochs = c->epochs;
    if (c->epochs > 0) r->epoch_s = c->epoch_wait_s / (double)c->epochs;
}
