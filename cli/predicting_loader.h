/* predicting_loader.h: the loader's part of a prediction, as text and as JSON. */
#ifndef SG_CLI_PREDICTING_LOADER_H
#define SG_CLI_PREDICTING_LOADER_H

#include "calibration/predict/predict.h"
#include "cli/show.h"

/* One line: what the loader gives, how it stalls, what it rests on. Nothing where nothing is loaded. */
void sg_show_outlook(const sg_loader_outlook *loader);
/* "stalls" and "loader" of a prediction's object. */
void sg_json_outlook(json_t *object, const sg_prediction *prediction);

#endif
