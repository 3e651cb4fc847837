#include "cli/predicting_loader.h"

#include <math.h>
#include <stdio.h>

void sg_show_outlook(const sg_loader_outlook *l) {
    if (!l->modelled) return;
    printf("Loader: feeds up to %.3g samples/s, %.3g could be taken; first batch after %s", l->samples_per_s.value,
           l->demand_samples_per_s, sg_show_seconds(l->first_batch_s).s);
    /* the same wait each time, with batches to spare: they are ready, and taking one is what takes */
    bool ready = l->samples_per_s.value >= l->demand_samples_per_s && l->wait_max_s <= 1.05 * l->wait_p50_s;
    if (l->stalled_share > 0 && ready)
        printf("; taking a ready batch takes %s", sg_show_seconds(l->wait_p50_s).s);
    else if (l->stalled_share > 0)
        printf("; %.0f %% of the steps stall, for up to %s", 100 * l->stalled_share, sg_show_seconds(l->wait_max_s).s);
    if (!ready && l->stall_every > 1.5) printf(", one in %.0f", l->stall_every);
    if (l->update_stretch > 1.005) printf("; workers stretch the update by %.0f %%", 100 * (l->update_stretch - 1));
    printf(".\n        It rests on: %s.\n", l->source);
}

/* 0: no number. */
static json_t *count_of(int value) {
    return value > 0 ? json_integer(value) : json_null();
}

void sg_json_outlook(json_t *object, const sg_prediction *p) {
    const sg_loader_outlook *l = &p->loader;
    if (!l->modelled) return;
    json_t *stalls = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "p50", l->wait_p50_s, "p90", l->wait_p90_s, "p99",
                               l->wait_p99_s, "max", l->wait_max_s, "share", l->stalled_share, "every", l->stall_every);
    json_t *loader = json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:s}", "samples_per_s",
                               sg_json_figure(&l->samples_per_s), "demand_samples_per_s", l->demand_samples_per_s,
                               "batch_cpu_s", l->batch_cpu_s, "first_batch_s", l->first_batch_s, "epoch_end_s",
                               l->epoch_end_s, "update_stretch", l->update_stretch, "source", l->source);
    (void)json_object_set_new(loader, "vcpus", l->processors > 0 ? json_real(l->processors) : json_null());
    (void)json_object_set_new(loader, "framework_frame_factor",
                              l->by_framework ? json_real(l->frame_factor) : json_null());
    (void)json_object_set_new(loader, "vcpus_needed", count_of(l->processors_needed));
    (void)json_object_set_new(loader, "workers_needed", count_of(l->workers_needed));
    (void)json_object_set_new(loader, "decoded_samples_per_s",
                              l->decoded_samples_per_s > 0 ? json_real(l->decoded_samples_per_s) : json_null());
    (void)json_object_set_new(object, "stalls", stalls);
    (void)json_object_set_new(object, "loader", loader);
}
