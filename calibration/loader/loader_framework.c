#include "calibration/loader/loader_framework.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sg_machine_id sg_loader_backend(const char *backend) {
    if (!backend || strcmp(backend, "torchcodec") == 0) return SG_M_LOADER_TORCHCODEC;
    return strcmp(backend, "pyav") == 0 ? SG_M_LOADER_PYAV : SG_M_COUNT;
}

/* What it does on top of decoding, once for the frames of a camera (2 at once: torchcodec 1.4 ms of each in place of 2.4, PyAV
 * 3.1 in place of 7.5; bench/peers/lerobot_loader.py, 2026-11): opening, seeking by Python, colours. As with codecs
 * (configs/loaders.yaml) a third goes not with the pixels. */
double sg_loader_peer_frame_s(const sg_machine_parameter p[SG_M_COUNT], sg_machine_id factor, double frame_s,
                              double pixels_of_frame, double at_once) {
    static const double FIXED = 0.3, REFERENCE_PIXELS = 480.0 * 640;
    double on_top = factor == SG_M_LOADER_IMAGE ? 0 : p[factor + 1].value / fmax(1, at_once);
    return p[factor].value * frame_s + on_top * (FIXED + (1 - FIXED) * pixels_of_frame / REFERENCE_PIXELS);
}

static bool is_image(const char *codec) {
    return strcmp(codec, "png") == 0 || strcmp(codec, "jpeg") == 0;
}

static bool knows_all(const sg_machine *m, sg_machine_id factor) {
    static const sg_machine_id rest[] = {SG_M_LOADER_PYTHON_S, SG_M_LOADER_ROW_S, SG_M_LOADER_COLLATION,
                                         SG_M_LOADER_TAKE_S, SG_M_LOADER_TAKE_BANDWIDTH};
    if (!isfinite(m->p[factor].value)) return false;
    if (factor != SG_M_LOADER_IMAGE && !isfinite(m->p[factor + 1].value)) return false;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (!isfinite(m->p[rest[i]].value)) return false;
    return true;
}

/* Parts of a sample's time and their doubts. */
typedef struct parts {
    double frames_s, frames_log_sd, python_s, python_log_sd;
} parts;

/* Of our frame_s; what is on top of it has its own doubt. */
static double frames_log_sd(const sg_machine *m, sg_machine_id factor, const sg_loader_law *law, double frame_s) {
    double own_s = m->p[factor].value * law->frame_s, own_sd = hypot(law->work_log_sd, m->p[factor].log_sd);
    if (factor == SG_M_LOADER_IMAGE) return own_sd;
    double share = fmin(1, own_s / frame_s);
    return hypot(share * own_sd, (1 - share) * m->p[factor + 1].log_sd);
}

static void set_python(const sg_machine *m, const sg_loader_ask *ask, double bytes_per_value, parts *p) {
    const sg_machine_parameter *python = &m->p[SG_M_LOADER_PYTHON_S], *row = &m->p[SG_M_LOADER_ROW_S],
                               *collation = &m->p[SG_M_LOADER_COLLATION];
    double rows_s = ask->action_rows * row->value;
    double collation_s = 3 * ask->pixels * bytes_per_value / collation->value;
    p->python_s = python->value + rows_s + collation_s;
    /* one processor and one interpreter are behind all three: they err together */
    p->python_log_sd =
        (python->value * python->log_sd + rows_s * row->log_sd + collation_s * collation->log_sd) / p->python_s;
}

/* Weakest evidence of what makes a tenth of the time; factors that this machine's own probe found leave the law's. */
static sg_evidence weakest(const sg_machine *m, const parts *p, sg_machine_id factor, const sg_loader_law *law) {
    sg_evidence found = (sg_evidence)law->evidence;
    double all = p->frames_s + p->python_s;
    sg_evidence of_factor = (sg_evidence)m->p[factor].evidence,
                of_python = (sg_evidence)m->p[SG_M_LOADER_ROW_S].evidence;
    if (of_factor == SG_EVIDENCE_OBSERVED) of_factor = found;
    if (of_python == SG_EVIDENCE_OBSERVED) of_python = found;
    /* stated factors of another machine beside what was measured here: the loader is known, the framework's is not */
    if (of_factor == SG_EVIDENCE_DATA_SHEET) of_factor = SG_EVIDENCE_CALIBRATED;
    if (of_python == SG_EVIDENCE_DATA_SHEET) of_python = SG_EVIDENCE_CALIBRATED;
    if (p->frames_s > 0.1 * all && of_factor > found) found = of_factor;
    if (p->python_s > 0.1 * all && of_python > found) found = of_python;
    return found;
}

sg_code sg_loader_law_by_framework(const sg_machine *machine, const sg_loader_ask *ask, sg_loader_law *law,
                                   sg_loader_peer *peer, bool *applied, sg_status *status) {
    sg_machine_id factor = sg_loader_backend(ask->backend);
    bool image = is_image(ask->codec), raw = strcmp(ask->codec, "raw") == 0;
    *applied = false;
    if (factor == SG_M_COUNT)
        return sg_fail(status, SG_BAD_INPUT, "video backend '%.40s': torchcodec or pyav is expected", ask->backend);
    if (image || raw) factor = SG_M_LOADER_IMAGE;
    if (!knows_all(machine, factor)) return SG_OK;
    const sg_machine_parameter *own = &machine->p[factor];
    *peer = (sg_loader_peer){.bytes_per_value = image ? 4 : 1};
    double frame_s = law->frame_s;
    if (!raw)
        frame_s =
            sg_loader_peer_frame_s(machine->p, factor, law->frame_s, ask->pixels / fmax(1, ask->frames), ask->at_once);
    parts p = {.frames_log_sd = frames_log_sd(machine, factor, law, frame_s)};
    /* The tables' rows of an action chunk are read whole, and an image in each is decoded with it: LeRobot 0.6.1
     * beside datasets 4.8, 2026-11 (bench/loader.py): 12 ms per image without a chunk, 197 ms with one of 16. */
    if (image && ask->action_rows > 1) frame_s *= 1 + ask->action_rows;
    p.frames_s = ask->frames * frame_s;
    set_python(machine, ask, peer->bytes_per_value, &p);
    peer->frame_factor = law->frame_s > 0 ? frame_s / law->frame_s : 1;
    (void)snprintf(peer->source, sizeof peer->source, "%.119s", own->source);
    peer->evidence = weakest(machine, &p, factor, law);
    double all = p.frames_s + p.python_s;
    law->frame_s = frame_s;
    law->sample_s = p.python_s;
    law->work_log_sd = hypot(p.frames_s / all * p.frames_log_sd, p.python_s / all * p.python_log_sd);
    law->handover_s = fmax(law->handover_s, machine->p[SG_M_LOADER_TAKE_S].value);
    law->handover_bandwidth = fmin(law->handover_bandwidth, machine->p[SG_M_LOADER_TAKE_BANDWIDTH].value);
    *applied = true;
    return SG_OK;
}
