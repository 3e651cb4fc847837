/* priced.c: machines that ship and what they say. */
#include "tests/support/priced.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "calibration/predict/predict.h"
#include "kernels/virtual/price.h"

sg_machine sg_sheet(const char *name) {
    sg_machine m;
    sg_status status = {0};
    if (sg_machine_load(name, SG_SOURCE_DIR "/configs", &m, &status)) fail_msg("%s", status.text);
    sg_machine_clear(&m);
    return m;
}

static double price_s(sg_pricer price, const sg_machine *m, const sg_op *op) {
    double seconds;
    sg_status status = {0};
    if (price(m, op, &seconds, NULL, &status)) fail_msg("%s", status.text);
    return seconds;
}

double sg_op_price_s(const sg_machine *m, const sg_op *op) {
    return price_s(sg_machine_price, m, op);
}

double sg_all_reduce_s(const sg_machine *m, int ranks, double bytes) {
    sg_priced p;
    sg_status status;
    if (sg_price_collective(m, SG_ALL_REDUCE, bytes, ranks, &p, &status)) fail_msg("%s", status.text);
    return p.seconds;
}

void sg_expect_price_gradient(const sg_machine *m, const sg_op *op, sg_pricer price) {
    const double h = 1e-5;
    double gradient[SG_M_COUNT], seconds;
    assert_int_equal(price(m, op, &seconds, gradient, NULL), SG_OK);
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (!(m->p[i].value > 0)) continue;
        sg_machine up = *m, down = *m;
        up.p[i].value *= exp(h);
        down.p[i].value *= exp(-h);
        double numeric = (price_s(price, &up, op) - price_s(price, &down, op)) / (2 * h);
        if (!(fabs(gradient[i] / seconds - numeric / seconds) <= 1e-6))
            fail_msg("%s: d log %s is %.9g, not %.9g", sg_op_kind_name((sg_op_kind)op->kind),
                     sg_machine_key((sg_machine_id)i), gradient[i] / seconds, numeric / seconds);
    }
}
