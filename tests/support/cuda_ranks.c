#include "tests/support/cuda_ranks.h"

#include "kernels/tcp/tcp.h"

#include <pthread.h>
#include <string.h>

typedef struct running {
    sg_cuda_rank rank;
    int listener, port;
    sg_code (*body)(void *user, sg_cuda_rank *rank);
    void *user;
} running;

sg_code sg_cuda_rank_open(sg_cuda_rank *r, double timeout_s) {
    sg_code code = r->api->open(&(sg_device_options){.index = r->rank}, &r->device, &r->status);
    const sg_comm_options join = {
        .rank = r->rank, .ranks = r->ranks, .bootstrap = r->transport, .timeout_s = timeout_s};
    if (code == SG_OK && r->ranks > 1) code = r->api->comm_create(r->device, &join, &r->comm, &r->status);
    return code;
}

static void *live(void *user) {
    running *me = user;
    sg_cuda_rank *r = &me->rank;
    const sg_tcp_options join = {.rank = r->rank,
                                 .ranks = r->ranks,
                                 .address = "127.0.0.1",
                                 .port = me->port,
                                 .listener = r->rank == 0 ? me->listener : 0,
                                 .secret = "ranks of one test",
                                 .timeout_s = 20};
    r->code = sg_tcp_join(&join, &r->transport, &r->status);
    if (r->code == SG_OK) r->code = me->body(me->user, r);
    /* as a process that ends with an error would */
    if (r->code != SG_OK && r->transport) r->transport->api->abort(r->transport, r->status.text);
    if (r->comm) r->api->comm_destroy(r->device, r->comm);
    if (r->device) r->api->close(r->device);
    if (r->transport) r->transport->api->leave(r->transport);
    return NULL;
}

sg_code sg_cuda_ranks_run(int ranks, const sg_device_api *api, sg_code (*body)(void *user, sg_cuda_rank *rank),
                          void *user, sg_status *status) {
    running all[SG_CUDA_RANKS_MOST];
    pthread_t thread[SG_CUDA_RANKS_MOST];
    int listener = 0, port = 0;
    sg_code code = sg_tcp_listen("127.0.0.1", 0, &listener, &port, status);
    if (code != SG_OK) return code;
    memset(all, 0, sizeof all);
    for (int i = 0; i < ranks; i++) {
        all[i] = (running){.rank = {.rank = i, .ranks = ranks, .api = api},
                           .listener = listener,
                           .port = port,
                           .body = body,
                           .user = user};
        if (pthread_create(&thread[i], NULL, live, &all[i]) != 0)
            return sg_fail(status, SG_MACHINE, "no thread for rank %d", i);
    }
    for (int i = 0; i < ranks; i++) (void)pthread_join(thread[i], NULL);
    for (int i = 0; i < ranks && code == SG_OK; i++) {
        code = all[i].rank.code;
        if (code != SG_OK) *status = all[i].rank.status;
    }
    return code;
}
