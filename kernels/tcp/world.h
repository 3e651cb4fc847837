/* world.h: one rank's side of ranks over TCP, inside kernels/tcp. */
#ifndef SG_KERNELS_TCP_WORLD_H
#define SG_KERNELS_TCP_WORLD_H

#include "kernels/tcp/tcp.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

/* Each pair of ranks that talks has one connection per purpose, so that no thread waits for another's message. */
typedef enum sg_tcp_channel { SG_TCP_WATCH, SG_TCP_CONTROL, SG_TCP_DATA, SG_TCP_CHANNELS } sg_tcp_channel;

enum { SG_TCP_RANKS_MOST = 4096, SG_TCP_HOST_BYTES = 64, SG_TCP_WHY_BYTES = 512 };

/* Messages of the watch channel: a head, then `bytes` bytes of text. */
typedef enum sg_tcp_news {
    SG_TCP_ALIVE = 1, /* every heartbeat */
    SG_TCP_GO,        /* rank 0: everyone has joined */
    SG_TCP_LOST,      /* rank 0: what was lost */
    SG_TCP_ABORT,     /* to rank 0: my reason */
    SG_TCP_BYE        /* I need nobody any more; from rank 0: nobody needs anybody */
} sg_tcp_news;

typedef struct sg_tcp_head {
    uint32_t news, bytes;
} sg_tcp_head;

enum { SG_TCP_NEWS_BYTES = sizeof(sg_tcp_head) + SG_TCP_WHY_BYTES };

/* The other end of this rank's connections. */
typedef struct sg_tcp_peer {
    int rank;
    int64_t pid;
    uint64_t visit; /* while joining: which attempt of that rank is here */
    char host[SG_TCP_HOST_BYTES];
    int fd[SG_TCP_CHANNELS]; /* -1: not connected */
    /* of the watching thread */
    double heard_s;
    bool said_bye, gone;
    unsigned char in[SG_TCP_NEWS_BYTES], out[4 * SG_TCP_NEWS_BYTES];
    size_t n_in, n_out;
} sg_tcp_peer;

typedef struct sg_tcp_world {
    sg_transport base;
    sg_tcp_peer *peer; /* rank 0: everyone else, in order; others: rank 0 */
    int n_peers;
    char host[SG_TCP_HOST_BYTES]; /* this one */
    double timeout_s, patience_s, silence_s;

    pthread_t watcher;
    bool is_watched;
    int lost_event; /* eventfd, readable for ever once something was lost: it ends every wait */
    int wake_event; /* eventfd, wakes the watcher */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* under the mutex */
    char why[SG_TCP_WHY_BYTES]; /* what was lost; empty: nothing */
    char abort_why[SG_TCP_WHY_BYTES];
    bool wants_abort, wants_leave, wants_end, has_aborted, has_left;
    _Atomic bool is_lost; /* `why` is there to be read */

    uint64_t calls[SG_TCP_CHANNELS]; /* so far, per channel: ranks out of step are found by it */
    unsigned char *scratch;          /* of the data channel's thread */
    size_t scratch_bytes;
} sg_tcp_world;

static inline double sg_tcp_now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- address.c ---------------------------------------------------------------------------------------------------- */

/* Listens where rank 0 of these options does. */
sg_code sg_tcp_listen_first(const sg_tcp_options *options, int *listener, int *bound, sg_status *status);
/* Nonblocking, without Nagle's delay, close-on-exec. */
void sg_tcp_tune(int fd);
/* Calls `attempt` with one address after the other of `host`:`port` until it returns true. SG_MACHINE: the name does not
 * resolve. */
sg_code sg_tcp_each_address(const char *host, int port,
                            bool (*attempt)(void *user, const struct sockaddr *address, socklen_t bytes), void *user,
                            sg_status *status);
/* A connected nonblocking socket, or -1 with errno, within limit_s. */
int sg_tcp_connect(const struct sockaddr *address, socklen_t bytes, double limit_s);

/* ---- meet.c, visit.c: joining --------------------------------------------------------------------------------------- */

/* Rank 0: accepts until everyone is there. Closes the listener. */
sg_code sg_tcp_meet(sg_tcp_world *world, const sg_tcp_options *options, int listener, int port, sg_status *status);
/* Other ranks: connect to rank 0 and wait for its word that everyone is there. */
sg_code sg_tcp_visit(sg_tcp_world *world, const sg_tcp_options *options, sg_status *status);

/* ---- watch.c ---------------------------------------------------------------------------------------------------------- */

sg_code sg_tcp_watch_start(sg_tcp_world *world, sg_status *status);
void sg_tcp_watch_end(sg_tcp_world *world);
/* Everybody's calls fail from now on. The first reason stays. */
void sg_tcp_lose(sg_tcp_world *world, const char *why);
/* SG_MACHINE with what was lost, if anything was. */
sg_code sg_tcp_check(sg_tcp_world *world, sg_status *status);
bool sg_tcp_lost(sg_transport *self, char *why, size_t bytes);
void sg_tcp_abort(sg_transport *self, const char *why);
/* Says goodbye and waits until everyone has, for timeout_s at most. */
void sg_tcp_part(sg_tcp_world *world);
/* "rank 2 (host, pid 41)" */
typedef struct sg_tcp_name {
    char text[SG_TCP_HOST_BYTES + 64];
} sg_tcp_name;
sg_tcp_name sg_tcp_name_of(int rank, const char *host, int64_t pid);

/* ---- transfer.c ------------------------------------------------------------------------------------------------------- */

/* Bytes on their way to or from one peer. */
typedef struct sg_tcp_transfer {
    sg_tcp_peer *peer;
    unsigned char *data;
    size_t bytes, done;
    bool sends;
} sg_tcp_transfer;

/* Completes all transfers over one channel, however they overlap. Fails when something is lost, or when nothing moved for
 * patience_s: then the world is lost too, and the reason names the ranks that were waited for. */
sg_code sg_tcp_move(sg_tcp_world *world, sg_tcp_channel channel, sg_tcp_transfer *transfer, int n, const char *what,
                    sg_status *status);

/* ---- collective.c ----------------------------------------------------------------------------------------------------- */

sg_code sg_tcp_all_reduce_mean(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status);
sg_code sg_tcp_all_gather(sg_transport *self, const void *part, void *whole, int64_t part_count, sg_dtype dtype,
                          sg_status *status);
sg_code sg_tcp_reduce_scatter_mean(sg_transport *self, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status);
sg_code sg_tcp_barrier(sg_transport *self, sg_status *status);
sg_code sg_tcp_broadcast(sg_transport *self, void *data, uint64_t bytes, int root, sg_status *status);
sg_code sg_tcp_gather_doubles(sg_transport *self, const double *values, int count, double *out, sg_status *status);

#endif
