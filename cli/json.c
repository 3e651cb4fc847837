#include "cli/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* JSON has no NaN: what does not apply is null. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *sg_json_figure(const sg_figure *figure) {
    if (!isfinite(figure->value)) return json_null();
    json_t *parts = json_pack("{s:o, s:o, s:o}", "parameters", number(figure->parts.parameters), "model",
                              number(figure->parts.model), "inputs", number(figure->parts.inputs));
    return json_pack("{s:o, s:o, s:o, s:s, s:o}", "value", number(figure->value), "low", number(figure->low), "high",
                     number(figure->high), "evidence", sg_evidence_name(figure->evidence), "parts", parts);
}

void sg_json_statistic(json_t *object, const char *name, const sg_statistic *statistic) {
    char key[96];
    (void)json_object_set_new(object, name, number(statistic->median));
    (void)snprintf(key, sizeof key, "%s_mean", name);
    (void)json_object_set_new(object, key, number(statistic->mean));
    (void)snprintf(key, sizeof key, "%s_low", name);
    (void)json_object_set_new(object, key, number(statistic->low));
    (void)snprintf(key, sizeof key, "%s_high", name);
    (void)json_object_set_new(object, key, number(statistic->high));
}

int sg_json_print(json_t *object, int exit_status) {
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(object);
    if (!text) {
        fprintf(stderr, "stepgauge: the answer could not be put into JSON: no memory\n");
        return SG_MACHINE;
    }
    puts(text);
    free(text);
    return exit_status;
}
