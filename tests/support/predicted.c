/* predicted.c: a small policy and what is said about it. */
#include "tests/support/predicted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const sg_setting small[] = {
    {"cameras", "2", "test"},    {"image_height", "96", "test"},     {"image_width", "96", "test"},
    {"dim_model", "64", "test"}, {"dim_feedforward", "128", "test"}, {"chunk_size", "10", "test"},
    {"n_heads", "4", "test"},
};

sg_policy_request sg_small_act(int64_t batch) {
    return (sg_policy_request){
        .policy = "act", .batch = batch, .settings = small, .n_settings = sizeof small / sizeof *small};
}

sg_predict_options sg_knowing(void) {
    return (sg_predict_options){.workers = 4,
                                .cameras_known = true,
                                .host_known = true,
                                .language_known = true,
                                .config_dir = SG_SOURCE_DIR "/configs"};
}

sg_prediction sg_predicted(const sg_policy_request *r, const sg_machine *m, const sg_predict_options *o) {
    sg_prediction p;
    sg_status status;
    if (sg_predict(r, m, o, &p, &status)) fail_msg("%s", status.text);
    return p;
}
