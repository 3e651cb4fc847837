#include "sim/measure/agree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sg_verdict {
    int32_t code, rank;
} verdict;

/* SG_OK < SG_NO < SG_BAD_INPUT < SG_MACHINE are in that order. */
static verdict worst_of(const double *codes, int ranks) {
    verdict v = {SG_OK, 0};
    for (int r = 0; r < ranks; r++)
        if (codes[r] > (double)v.code) v = (verdict){(int32_t)lround(codes[r]), r};
    return v;
}

/* Rank 0 finds the verdict and tells it to all. */
static sg_code settle(sg_transport *t, sg_code code, verdict *v, sg_status *status) {
    double mine = (double)code, *all = NULL;
    *v = (verdict){code, t->rank};
    if (t->rank == 0 && !(all = calloc((size_t)t->ranks, sizeof *all)))
        return sg_fail_memory(status, (size_t)t->ranks * sizeof *all, "the ranks' answers");
    sg_code result = t->api->gather_doubles(t, &mine, 1, all, status);
    if (result == SG_OK && t->rank == 0) *v = worst_of(all, t->ranks);
    if (result == SG_OK) result = t->api->broadcast(t, v, sizeof *v, 0, status);
    free(all);
    return result;
}

sg_code sg_ranks_agree(sg_transport *transport, sg_code code, sg_status *status) {
    if (!transport || transport->ranks == 1 || !transport->api->broadcast) return code;
    verdict v;
    sg_status heard = {0};
    sg_code result = settle(transport, code, &v, &heard);
    if (result == SG_OK && v.code == SG_OK) return SG_OK;
    char text[sizeof heard.text] = "";
    if (result == SG_OK && v.rank == transport->rank && status) memcpy(text, status->text, sizeof text);
    if (result == SG_OK) result = transport->api->broadcast(transport, text, sizeof text, v.rank, &heard);
    /* what this rank knows itself says more than that the others are gone */
    if (result != SG_OK) return code != SG_OK ? code : sg_fail(status, result, "%s", heard.text);
    text[sizeof text - 1] = 0;
    if (v.rank == transport->rank) return (sg_code)v.code;
    if (v.code == SG_NO) return sg_fail(status, SG_NO, "%s", text);
    return sg_fail(status, (sg_code)v.code, "rank %d: %s", v.rank, text);
}
