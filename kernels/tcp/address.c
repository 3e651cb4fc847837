#include "kernels/tcp/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long rank 0 waits for a port that another program has: one that just ended may still hold it. */
static const double BUSY_PORT_S = 3;

void sg_tcp_tune(int fd) {
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static sg_code resolve(const char *host, int port, int flags, struct addrinfo **list, sg_status *status) {
    char service[16];
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    (void)snprintf(service, sizeof service, "%d", port);
    int failure = getaddrinfo(host, service, &hints, list);
    if (failure == 0) return SG_OK;
    return sg_fail(status, SG_MACHINE, "cannot find the address of host %.200s: %s: give its number instead",
                   host ? host : "(any)", failure == EAI_SYSTEM ? strerror(errno) : gai_strerror(failure));
}

sg_code sg_tcp_each_address(const char *host, int port,
                            bool (*attempt)(void *user, const struct sockaddr *address, socklen_t bytes), void *user,
                            sg_status *status) {
    struct addrinfo *list = NULL;
    sg_code code = resolve(host, port, 0, &list, status);
    if (code != SG_OK) return code;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        if (attempt(user, a->ai_addr, a->ai_addrlen)) break;
    freeaddrinfo(list);
    return SG_OK;
}

int sg_tcp_connect(const struct sockaddr *address, socklen_t bytes, double limit_s) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    int failure = connect(fd, address, bytes) == 0 ? 0 : errno;
    double end = sg_tcp_now_s() + limit_s;
    while (failure == EINPROGRESS || failure == EINTR) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        double left = end - sg_tcp_now_s();
        int n = poll(&ready, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (n < 0 && errno == EINTR) continue;
        socklen_t length = sizeof failure;
        if (n != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length) != 0) failure = ETIMEDOUT;
    }
    if (failure == 0) {
        sg_tcp_tune(fd);
        return fd;
    }
    (void)close(fd);
    errno = failure;
    return -1;
}

/* ---- listening ------------------------------------------------------------------------------------------------------ */

/* A listening socket or -1 with errno. IPv6's any address takes IPv4 connections too. */
static int listen_at(const struct sockaddr *address, socklen_t bytes) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, off = 0;
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address, bytes) == 0 && listen(fd, 512) == 0) return fd;
    int failure = errno;
    (void)close(fd);
    errno = failure;
    return -1;
}

static int port_of(int fd) {
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) return 0;
    if (at.ss_family == AF_INET) return ntohs(((const struct sockaddr_in *)&at)->sin_port);
    return at.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&at)->sin6_port) : 0;
}

sg_code sg_tcp_listen(const char *address, int port, int *listener, int *bound, sg_status *status) {
    struct addrinfo *list = NULL;
    *listener = -1;
    *bound = 0;
    if (port < 0 || port > 65535) return sg_fail(status, SG_BAD_INPUT, "port %d is impossible", port);
    sg_code code = resolve(address, port, AI_PASSIVE, &list, status);
    if (code != SG_OK) return code;
    int failure = 0;
    /* IPv6 first: its any address serves both */
    for (int wanted = 0; wanted < 2 && *listener < 0; wanted++)
        for (const struct addrinfo *a = list; a && *listener < 0; a = a->ai_next) {
            if ((a->ai_family == AF_INET6) != (wanted == 0)) continue;
            *listener = listen_at(a->ai_addr, a->ai_addrlen);
            if (*listener < 0) failure = errno;
        }
    freeaddrinfo(list);
    if (*listener >= 0) {
        *bound = port_of(*listener);
        return SG_OK;
    }
    code = sg_fail(status, SG_MACHINE, "cannot listen for the other ranks on %.200s port %d: %s: choose another port",
                   address ? address : "this host", port, strerror(failure));
    errno = failure;
    return code;
}

/* Ranks of one host need not be reachable from outside. */
static bool is_loopback(const char *address) {
    return strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0 || strncmp(address, "127.", 4) == 0;
}

/* A host's own name often leads to a loopback address on that host alone (Debian: 127.0.1.1), so rank 0 listens on every
 * address unless a loopback one was asked for. */
sg_code sg_tcp_listen_first(const sg_tcp_options *o, int *listener, int *bound, sg_status *status) {
    const char *address = is_loopback(o->address) ? o->address : NULL;
    double end = sg_tcp_now_s() + (o->timeout_s < BUSY_PORT_S ? o->timeout_s : BUSY_PORT_S);
    for (;;) {
        sg_code code = SG_MACHINE;
        for (int i = 0; i < (o->ports > 1 ? o->ports : 1) && code != SG_OK && o->port + i <= 65535; i++)
            code = sg_tcp_listen(address, o->port + i, listener, bound, status);
        if (code == SG_OK || errno != EADDRINUSE || sg_tcp_now_s() > end) return code;
        const struct timespec nap = {0, 100000000};
        (void)nanosleep(&nap, NULL);
    }
}
