/* loader_framework.h: from a law of our own loader to that of the loader which a framework trains with: LeRobotDataset behind
 * torch's DataLoader. Its frames take a factor of ours and something on top; what its Python does per sample and per batch stands
 * beside them. */
#ifndef SG_CALIBRATION_LOADER_FRAMEWORK_H
#define SG_CALIBRATION_LOADER_FRAMEWORK_H

#include "calibration/loader/loader_law.h"

/* What a sample asks of it. */
typedef struct sg_loader_ask {
    const char *codec;   /* "av1", "h264", "png", "jpeg", "raw" */
    const char *backend; /* of videos: "torchcodec" (NULL), which LeRobot takes where it is installed; "pyav" */
    double frames;       /* cameras x frames of each */
    double at_once;      /* frames of one camera */
    double action_rows;  /* of the chunk */
    double pixels;       /* of all its frames */
} sg_loader_ask;

typedef struct sg_loader_peer {
    double frame_factor;    /* frame_s of its loader / of ours, all in all */
    char source[120];       /* of that factor */
    sg_evidence evidence;   /* the weakest that the law now rests on */
    double bytes_per_value; /* of frames that travel: 1; images of tables come as floats, 4 */
} sg_loader_peer;

/* False, and the law as it was: the machine knows no framework's loader (its loader_ parameters are the framework's, see
 * sg_framework_apply). The doubt of the factors goes into the law's. SG_BAD_INPUT: an unknown backend. */
sg_code sg_loader_law_by_framework(const sg_machine *machine, const sg_loader_ask *ask, sg_loader_law *law,
                                   sg_loader_peer *peer, bool *applied, sg_status *status);

/* Factor of a video backend, whose seconds on top are the next parameter; SG_M_COUNT: there is none of this name. */
sg_machine_id sg_loader_backend(const char *backend);
/* Seconds of a frame by it that takes ours frame_s, where so many of a camera are asked for at once. factor: of a backend, or
 * SG_M_LOADER_IMAGE. */
double sg_loader_peer_frame_s(const sg_machine_parameter p[SG_M_COUNT], sg_machine_id factor, double frame_s,
                              double pixels_of_frame, double at_once);

#endif
