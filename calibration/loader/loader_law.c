#include "calibration/loader/loader_law.h"

#include "calibration/loader/dataset_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const double SG_LOADER_CONTENT_LOG_SD = 0.15, SG_LOADER_SAMPLE_LOG_SD = 0.8;

/* A host that nobody measured. Contention: doubling the workers of shared boxes gave 0.8 to 1 of twice the frames below the
 * number of vCPUs, and nothing above it (published runs, 2026-08). A sample beside its frames: rows of a Parquet table,
 * collation by copying 0.9 MB per camera at some GB/s. Handing over a ready batch (queue, pinned copy, Python): 3-4 ms for
 * 15-29 MB, 11-15 ms for 88 MB in published LeRobot logs whose workers keep up. Batches of shuffled frames differ by how far
 * their key frames are. */
static const double SIGMA = 0.02, SIGMA_LOG_SD = 1.0;
static const double KAPPA = 1e-4;
static const double SAMPLE_S = 1e-3;
static const double HANDOVER_S = 1.5e-3, HANDOVER_BANDWIDTH = 8e9;
static const double BATCH_LOG_SD = 0.1;
static const double FRAME_S = 0.0115, FRAME_LOG_SD = 0.65; /* configs/priors/cuda.yaml */

enum { PROCESSORS_MAX = 1024 };

sg_loader_law sg_loader_law_prior(void) {
    return (sg_loader_law){.frame_s = FRAME_S,
                           .sample_s = SAMPLE_S,
                           .batch_log_sd = BATCH_LOG_SD,
                           .sigma = SIGMA,
                           .kappa = KAPPA,
                           .handover_s = HANDOVER_S,
                           .handover_bandwidth = HANDOVER_BANDWIDTH,
                           .step_weight = 1,
                           .work_log_sd = FRAME_LOG_SD,
                           .contention_log_sd = SIGMA_LOG_SD,
                           .frames_per_camera = 1,
                           .evidence = SG_EVIDENCE_DATA_SHEET};
}

static double value_of(const sg_machine *m, sg_machine_id id, double prior) {
    return isfinite(m->p[id].value) ? m->p[id].value : prior;
}

static double doubt_of(const sg_machine *m, sg_machine_id id, double prior) {
    return isfinite(m->p[id].value) ? m->p[id].log_sd : prior;
}

sg_loader_law sg_loader_law_of_machine(const sg_machine *machine, double relative, double relative_log_sd) {
    sg_loader_law law = sg_loader_law_prior();
    law.frame_s = relative * value_of(machine, SG_M_FRAME_S, FRAME_S);
    law.sample_s = value_of(machine, SG_M_SAMPLE_S, SAMPLE_S);
    law.sigma = value_of(machine, SG_M_LOADER_SIGMA, SIGMA);
    law.kappa = value_of(machine, SG_M_LOADER_KAPPA, KAPPA);
    law.handover_s = value_of(machine, SG_M_HANDOVER_S, HANDOVER_S);
    law.handover_bandwidth = value_of(machine, SG_M_HANDOVER_BANDWIDTH, HANDOVER_BANDWIDTH);
    double of_frames = hypot(doubt_of(machine, SG_M_FRAME_S, FRAME_LOG_SD), relative_log_sd);
    double of_rest = doubt_of(machine, SG_M_SAMPLE_S, SG_LOADER_SAMPLE_LOG_SD);
    double share = law.frame_s / (law.frame_s + law.sample_s);
    law.work_log_sd = hypot(share * of_frames, (1 - share) * of_rest);
    law.contention_log_sd = doubt_of(machine, SG_M_LOADER_SIGMA, SIGMA_LOG_SD);
    if (isfinite(machine->p[SG_M_LOADER_KAPPA].value))
        law.contention_log_sd = fmax(law.contention_log_sd, machine->p[SG_M_LOADER_KAPPA].log_sd);
    if (isfinite(machine->p[SG_M_FRAME_S].value)) law.evidence = machine->p[SG_M_FRAME_S].evidence;
    return law;
}

sg_loader_course sg_loader_course_of(const sg_loader_law *law, const sg_loader_load *load) {
    double frames = (double)load->cameras * (double)load->frames_per_camera;
    /* in line on a CPU nothing is copied, and no worker has to leave the processor first: the batch's time is all */
    bool at_once = load->workers == 0 && load->step_on_processors;
    double handover_s = at_once ? 0 : law->handover_s + load->batch_bytes / law->handover_bandwidth;
    return (sg_loader_course){.workers = load->workers,
                              .prefetch = load->prefetch,
                              .epoch = load->epoch,
                              .processors = load->processors,
                              .batch_cpu_s = (double)load->batch * (law->sample_s + frames * law->frame_s),
                              .batch_wait_s = (double)load->batch * law->wait_s,
                              .batch_log_sd = law->batch_log_sd,
                              .sigma = law->sigma,
                              .kappa = law->kappa,
                              .step_s = load->step_s,
                              .step_threads = load->step_threads,
                              .step_weight = law->step_weight,
                              .step_on_processors = load->step_on_processors,
                              .handover_s = handover_s};
}

/* Workers that wait for a disk leave the processors to the others: how many run is found by going round until it settles. */
double sg_loader_rate(const sg_loader_course *course, int workers, double processors) {
    if (!(processors > 0)) return 0;
    if (workers <= 0) return 1 / (course->batch_cpu_s / fmin(1, processors) + course->batch_wait_s);
    double running = workers, batch_s = 0;
    for (int i = 0; i < 30; i++) {
        double share = fmin(1, processors / running);
        double cpu_s =
            course->batch_cpu_s * sg_loader_contention(course->sigma, course->kappa, running, processors) / share;
        batch_s = cpu_s + course->batch_wait_s;
        running = 0.5 * running + 0.5 * fmax(1, workers * cpu_s / batch_s);
    }
    return workers / batch_s;
}

double sg_loader_left(const sg_loader_course *course, double processors) {
    return fmax(processors - course->step_threads, 0.5 * processors);
}

int sg_loader_workers_for(const sg_loader_course *course, double rate) {
    double left = sg_loader_left(course, course->processors);
    for (int n = 1; n <= SG_LOADER_WORKERS_MAX; n += n < 64 ? 1 : n / 16)
        if (sg_loader_rate(course, n, left) >= rate) return n;
    return 0;
}

int sg_loader_processors_for(const sg_loader_course *course, double rate) {
    bool enough = sg_loader_workers_for(course, rate) > 0;
    for (int n = 1; n <= PROCESSORS_MAX; n += n < 64 ? 1 : n / 16) {
        if (enough && n >= course->processors) return n;
        if (sg_loader_rate(course, n, sg_loader_left(course, n)) >= rate) return n;
    }
    return 0;
}

void sg_loader_decode_text(const char *codec, int64_t height, int64_t width, int64_t gop, char text[160]) {
    (void)snprintf(text, 160, "decode;%.23s;%" PRId64 "x%" PRId64 ";gop=%" PRId64, codec, height, width, gop);
}

const sg_loader_law *sg_loader_law_of_codec(const sg_loader_law *laws, size_t n, const char *codec, int64_t height,
                                            int64_t width, int64_t gop) {
    static const double OF_GOP = 0.1; /* sizes first: frames of a group cost about the same each */
    const sg_loader_law *found = NULL;
    double nearest = INFINITY, pixels = (double)height * (double)width, group = gop > 0 ? (double)gop : 2;
    for (size_t i = 0; i < n; i++) {
        sg_dataset_text text;
        if (strncmp(laws[i].dataset, "decode;", 7) != 0 || !sg_dataset_text_read(laws[i].dataset, &text)) continue;
        if (strcmp(text.codec, codec[0] ? codec : "av1") != 0) continue;
        double far = fabs(log((double)text.height * (double)text.width / pixels)) +
                     OF_GOP * fabs(log((text.gop > 0 ? (double)text.gop : 2) / group));
        if (far >= nearest) continue;
        nearest = far;
        found = &laws[i];
    }
    return found;
}

/* The same but for "name=". */
static bool differ_in_name(const char *a, const char *b) {
    const char *name_a = strstr(a, ";name="), *name_b = strstr(b, ";name=");
    size_t n = name_a ? (size_t)(name_a - a) : strlen(a);
    return n > 0 && n == (name_b ? (size_t)(name_b - b) : strlen(b)) && memcmp(a, b, n) == 0;
}

static bool has_layer(const sg_loader_law *law, const char *layer) {
    return strcmp(law->layer, layer) == 0;
}

const sg_loader_law *sg_loader_law_find(const sg_loader_law *laws, size_t n, const char *dataset, const char *layer,
                                        bool *other) {
    const sg_loader_law *found = NULL;
    int best = 0;
    for (size_t i = 0; i < n; i++) {
        const sg_loader_law *law = &laws[i];
        if (layer && !has_layer(law, layer)) continue;
        int same = strcmp(law->dataset, dataset) == 0 ? 4 : differ_in_name(law->dataset, dataset) ? 2 : 0;
        int rank = same ? same + has_layer(law, "cached") : 0;
        if (rank <= best) continue;
        best = rank;
        found = law;
    }
    *other = found && best < 4;
    return found;
}
