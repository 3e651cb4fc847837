/* memory_rules.c: what fits, and what the numbers of memory mean. */
#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/explain/rules.h"

/* mem_gb is what PyTorch's allocator handed out; the driver shows its context and what the allocator keeps too: 3.73 and 4.7
 * GB, 6.85 and 8.2, 13.10 and 14.9 in the same runs (RTX 5060 Ti). */
static const double ABOVE_LOW_BYTES = 1.0 * 0x1p30, ABOVE_HIGH_BYTES = 1.8 * 0x1p30;

static double peak_of(const sg_log *log) {
    double most = NAN;
    for (size_t i = 0; i < log->n_windows; i++)
        if (log->windows[i].value[SG_LOG_PEAK_BYTES] > 0) most = fmax(most, log->windows[i].value[SG_LOG_PEAK_BYTES]);
    return most;
}

/* "... total capacity of 15.48 GiB": what PyTorch says when memory runs out. NAN: no such words. */
static double capacity_of(const char *text) {
    const char *at = strstr(text, "total capacity of ");
    if (!at) return NAN;
    char *end;
    double value = strtod(at + strlen("total capacity of "), &end);
    if (strncmp(end, " GiB", 4) != 0 || !(value > 0) || value > 1e6) return NAN;
    return value * 0x1p30;
}

/* Length of the whole sentences within `most` bytes, without the last full stop; of no sentence: all of it. */
static int whole_sentences(const char *text, int most) {
    int n = (int)strnlen(text, (size_t)most), end = n;
    for (int i = 0; i + 1 < n; i++)
        if (text[i] == '.' && text[i + 1] == ' ') end = i;
    return end;
}

static const sg_log_event *out_of_memory(const sg_log *log) {
    for (size_t i = 0; i < log->n_events; i++)
        if (log->events[i].kind == SG_LOG_OUT_OF_MEMORY) return &log->events[i];
    return NULL;
}

/* Peak bytes = fixed + per_sample x batch over this run and the others; false with fewer than two batches. */
static bool line_of_batches(const sg_explain_run *r, double *fixed, double *per_sample, double *largest) {
    size_t n = 0, room = r->facts->n_others + 1;
    double *x = malloc(2 * room * sizeof *x), *y = x ? x + room : NULL, c00, c01, c11, sum;
    if (!x) return false;
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < room; i++) {
        const sg_log *log = i ? r->facts->others[i - 1] : r->log;
        double peak = peak_of(log), batch = (double)log->config.batch;
        if (!(peak > 0) || !(batch >= 1)) continue;
        if (log->config.policy[0] && r->config->policy[0] && strcmp(log->config.policy, r->config->policy) != 0)
            continue;
        x[n] = batch;
        y[n++] = peak;
        low = fmin(low, batch);
        high = fmax(high, batch);
    }
    bool several = n >= 2 && high > low;
    if (several) (void)gsl_fit_linear(x, 1, y, 1, n, fixed, per_sample, &c00, &c01, &c11, &sum);
    *largest = high;
    free(x);
    return several && *per_sample > 0;
}

/* pi05 does not fit 48 GB as configured (lerobot#2216); ACT at batch 64 dies on 16 and 24 GB; openpi: checkpointing, no EMA,
 * more shards (openpi#667), and JAX takes 75 % of a card unless told otherwise (openpi#379). */
bool sg_rule_out_of_memory(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_log_event *event = out_of_memory(r->log);
    if (!event) return false;
    double capacity = capacity_of(event->text), fixed, per_sample, largest;
    if (isnan(capacity) && r->facts->machine && r->facts->machine->memory_bytes > 0)
        capacity = (double)r->facts->machine->memory_bytes;
    bool known = line_of_batches(r, &fixed, &per_sample, &largest) && isfinite(capacity);
    sg_say_text(d, "Memory ran out%s",
                r->config->batch > 0 && r->log->n_windows ? ", in this run or in the start of the next one" : "");
    sg_say_evidence(d, "%.300s", event->text);
    if (known) {
        double fits = floor((capacity - ABOVE_HIGH_BYTES - fixed) / per_sample);
        sg_say_evidence(d,
                        "%.*s. Peaks of the runs: %.2f GiB + %.3f GiB per sample, beside up to 1.8 GiB outside the "
                        "allocator; capacity %.2f GiB",
                        whole_sentences(event->text, 120), event->text, fixed / 0x1p30, per_sample / 0x1p30,
                        capacity / 0x1p30);
        if (fits >= 1)
            sg_say_remedy(d, "A batch of %.0f fits (the largest that ran: %.0f); accumulate gradients for a larger one",
                          fmax(fits, largest), largest);
    }
    if (!d->remedy[0])
        sg_say_remedy(d,
                      "A smaller batch with accumulation, gradient checkpointing, bf16; 'stepgauge predict --batch N' "
                      "tells what fits before it is tried%s",
                      strcmp(r->log->format, "openpi") == 0 ? "; JAX: XLA_PYTHON_CLIENT_MEM_FRACTION=0.9" : "");
    return true;
}

bool sg_rule_memory_reading(const sg_explain_run *r, sg_diagnosis *d) {
    if (!(r->peak_bytes > 0) || strcmp(r->config->device, "cpu") == 0 || strcmp(r->config->device, "mps") == 0)
        return false;
    sg_say_text(d, "mem_gb is less than what the driver shows: a card must hold more");
    sg_say_evidence(d, "Peak %.2f GiB by the allocator: expect %.1f to %.1f GiB in nvidia-smi", r->peak_bytes / 0x1p30,
                    (r->peak_bytes + ABOVE_LOW_BYTES) / 0x1p30, (r->peak_bytes + ABOVE_HIGH_BYTES) / 0x1p30);
    sg_say_remedy(d, "Choose the card by the larger number");
    return true;
}

/* What the rest of the card could hold. */
bool sg_rule_memory_room(const sg_explain_run *r, sg_diagnosis *d) {
    double fixed, per_sample, largest;
    double card = r->facts->machine ? (double)r->facts->machine->memory_bytes : 0;
    if (!(r->peak_bytes > 0) || !(card > 0) || out_of_memory(r->log)) return false;
    double use = (r->peak_bytes + ABOVE_HIGH_BYTES) / card;
    if (use > 1.02) return false; /* another card, or shards: nothing to tell */
    sg_say_text(d, "The run uses %.0f %% of the card's memory", 100 * use);
    sg_say_evidence(d, "Peak %.2f GiB and up to 1.8 GiB beside it, of %.2f GiB", r->peak_bytes / 0x1p30, card / 0x1p30);
    if (line_of_batches(r, &fixed, &per_sample, &largest))
        sg_say_remedy(d, "By the runs' peaks a batch of %.0f would fit",
                      fmax(1, floor((card - ABOVE_HIGH_BYTES - fixed) / per_sample)));
    else
        sg_say_remedy(d, "%s",
                      use > 0.9 ? "Little room: a larger batch needs checkpointing or lower precision"
                                : "Room for a larger batch, or a smaller and cheaper card");
    return true;
}
