/* report_figures.c: times and memory of a published training.
 *
 * Times: update_s is the update; without it step_s, "N step/s" in the note, or samples_per_s are whole steps; without these
 * the wall-clock over the steps. Memory: mem_gb of LeRobot's log is the allocator's peak in GiB, printed with two decimals;
 * readings of nvidia-smi and figures with fewer decimals are the driver's, unless the text says allocated; requirements and
 * "OOM" are no peaks. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/reports/report_row.h"
#include "calibration/reports/report_text.h"

/* Waiting that makes a log's samples per second a figure of its loader. */
static const double LOADER_SHARE = 0.1;
/* Figures of one row that differ by more than this contradict each other. */
static const double CONTRADICTION = 1.25;

static void cell(const sg_csv_table *t, size_t index, const char *column, char *out, size_t bytes) {
    sg_report_fold(sg_csv_table_text(t, index, column), out, bytes);
}

static bool range(const sg_csv_table *t, size_t index, const char *column, double *low, double *high) {
    char text[64];
    cell(t, index, column, text, sizeof text);
    return sg_report_range(text, low, high);
}

/* Steps of the run: "at step N" of the wall-clock, the column, or epochs over frames. */
static double steps_of(const sg_csv_table *t, size_t index, const sg_report_row *row, const char *wall) {
    static const char *const epochs_unit[] = {"epochs", "epoch"}, *const frames_unit[] = {"frames"};
    char text[64];
    double steps = 0, epochs, frames;
    if (sg_report_number_after(wall, "at step", &steps) && steps >= 1) return steps;
    cell(t, index, "steps", text, sizeof text);
    if (sg_report_number(text, true, &steps, NULL) && steps >= 1) return steps;
    if (row->request.batch > 0 && sg_report_number_before(row->details, epochs_unit, 2, &epochs) &&
        sg_report_number_before(row->details, frames_unit, 1, &frames))
        return epochs * frames / ((double)row->request.batch * row->ranks);
    return 0;
}

/* Seconds per step of the whole run. False: none, with the reason. */
static bool wall_of(const sg_csv_table *t, size_t index, const sg_report_row *row, double *low, double *high,
                    char why[SG_REPORT_REASON]) {
    char wall[256];
    why[0] = 0;
    *low = *high = 0;
    cell(t, index, "wall_clock", wall, sizeof wall);
    if (!wall[0]) return false;
    double steps = steps_of(t, index, row, wall);
    if (sg_report_find(wall, "eta"))
        (void)snprintf(why, SG_REPORT_REASON, "an announced duration, no measured one: %.60s", wall);
    else if (sg_report_find(wall, "estimate") || sg_report_find(wall, "estimated"))
        (void)snprintf(why, SG_REPORT_REASON, "an estimate of its author: %.60s", wall);
    else if (!sg_report_duration(wall, low, high))
        (void)snprintf(why, SG_REPORT_REASON, "no duration: %.60s", wall);
    else if (!(steps >= 1))
        (void)snprintf(why, SG_REPORT_REASON, "a wall-clock without its number of steps");
    if (why[0]) return false;
    *low /= steps;
    *high /= steps;
    return true;
}

/* Seconds per step from rates: the note's "2.78 step/s", or samples per second. 0: none. */
static double rate_s(const sg_csv_table *t, size_t index, const sg_report_row *row) {
    static const char *const units[] = {"step/s", "steps/s", "it/s"};
    double rate, high;
    double samples_s = range(t, index, "samples_per_s", &rate, &high) && row->request.batch > 0
                           ? (double)row->request.batch * row->ranks / rate
                           : 0;
    if (sg_report_number_before(row->note, units, 3, &rate) && rate > 0) {
        double step_s = 1 / rate;
        /* the note may speak of another run: it must agree with the column */
        if (samples_s == 0 || fabs(log(step_s / samples_s)) < 0.1) return step_s;
    }
    return samples_s;
}

static void take_times(const sg_csv_table *t, size_t index, sg_report_row *row) {
    double low, high, rate = rate_s(t, index, row);
    if (range(t, index, "data_s", &low, &high)) row->data_s = sqrt(low * high);
    if (range(t, index, "update_s", &low, &high)) {
        row->time = SG_REPORT_UPDATE;
        row->update_s = sqrt(low * high);
    } else if (range(t, index, "step_s", &low, &high) && !sg_report_find(row->details, "iterations")) {
        row->time = SG_REPORT_STEP;
        if (row->data_s >= LOADER_SHARE * (low - row->data_s) &&
            low > row->data_s) { /* what waiting leaves is the update */
            row->time = SG_REPORT_UPDATE;
            low -= row->data_s;
            high -= row->data_s;
            row->update_s = sqrt(low * high);
        }
    } else if (rate > 0) {
        row->time = SG_REPORT_STEP;
        low = high = rate;
    }
    double wall_low, wall_high;
    char why[SG_REPORT_REASON];
    bool run = wall_of(t, index, row, &wall_low, &wall_high, why);
    if (run) row->run_step_s = sqrt(wall_low * wall_high);
    if (row->time == SG_REPORT_NO_TIME && run) {
        row->time = SG_REPORT_WALL;
        low = wall_low;
        high = wall_high;
    }
    if (row->time != SG_REPORT_NO_TIME) {
        row->low_s = low;
        row->high_s = high;
    } else {
        (void)snprintf(row->no_time, sizeof row->no_time, "%s", why);
    }
    if (row->time == SG_REPORT_NO_TIME && !row->no_time[0])
        (void)snprintf(row->no_time, sizeof row->no_time, "no time of a step");
}

/* What the row itself shows against its time. */
static void take_signs(const sg_csv_table *t, size_t index, sg_report_row *row) {
    double rate = rate_s(t, index, row), step_low = 0, step_high;
    if (!range(t, index, "step_s", &step_low, &step_high)) step_low = 0;
    double sum = row->update_s + row->data_s, other = step_low > 0 ? step_low : rate;
    static const char *const shared[] = {"colab", "shared", "8x box", "neighbours", "kaggle"};
    if (row->update_s > 0 && row->data_s >= LOADER_SHARE * row->update_s)
        (void)snprintf(row->sign, sizeof row->sign, "its loader limits: waiting %.3g s beside an update of %.3g s",
                       row->data_s, row->update_s);
    else if (row->update_s > 0 && other > 0 && fabs(log(other / sum)) > log(CONTRADICTION))
        (void)snprintf(row->sign, sizeof row->sign, "its own figures contradict: %.3g s and %.3g s a step", sum, other);
    for (size_t i = 0; i < sizeof shared / sizeof *shared && !row->sign[0]; i++)
        if (sg_report_find(row->hardware, shared[i]) || sg_report_find(row->note, shared[i]))
            (void)snprintf(row->sign, sizeof row->sign, "a shared host (%s)", shared[i]);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static size_t decimals(const char *text) {
    const char *dot = strchr(text, '.');
    size_t n = 0;
    while (dot && isdigit((unsigned char)dot[1 + n])) n++;
    return n;
}

static void take_memory(const sg_csv_table *t, size_t index, sg_report_row *row) {
    char text[64];
    double low, high, value;
    cell(t, index, "vram_gb", text, sizeof text);
    bool allocated = sg_report_number_after(row->note, "mem_gb", &value);
    if (allocated) row->allocated_bytes = value * 0x1p30;
    if (sg_report_number_after(row->note, "nvidia-smi peak", &value)) row->driver_bytes = value * 0x1p20;
    row->has_memory = text[0] || row->allocated_bytes > 0 || row->driver_bytes > 0;
    if (!text[0]) return;
    if (sg_report_find(row->note, "host ram") || sg_report_find(row->note, "jax") ||
        sg_report_find(row->framework, "jax"))
        (void)snprintf(row->no_memory, sizeof row->no_memory, "no memory that the training needs of its GPU");
    else if (!sg_report_range(text, &low, &high))
        (void)snprintf(row->no_memory, sizeof row->no_memory, "no peak: %.40s", text);
    else if (sg_report_find(row->note, "requirement") || sg_report_find(row->note, "recommended"))
        (void)snprintf(row->no_memory, sizeof row->no_memory, "an advertised requirement, no peak");
    else if (sg_report_find(row->note, "memory table") || sg_report_find(row->note, "allocator use"))
        (void)snprintf(row->no_memory, sizeof row->no_memory,
                       "a figure of other hardware, or of what an allocator kept");
    else if (row->allocated_bytes == 0 && row->driver_bytes == 0) {
        bool said = sg_report_find(row->note, "allocated") || sg_report_find(row->note, "mem_gb");
        double bytes = sqrt(low * high) * 0x1p30;
        if (said || decimals(text) >= 2)
            row->allocated_bytes = bytes;
        else
            row->driver_bytes = bytes;
    }
}

void sg_report_figures_read(const sg_csv_table *t, size_t index, sg_report_row *row) {
    double low, high;
    take_times(t, index, row);
    take_signs(t, index, row);
    take_memory(t, index, row);
    if (range(t, index, "gpu_util_pct", &low, &high) && high <= 100) row->busy_share = sqrt(low * high) / 100;
}
