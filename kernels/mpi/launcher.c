#include "kernels/mpi/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *set(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The address in a PMIx server's contact string, "name;tcp4://127.0.0.1:44671"; false when it has another form. */
static bool parse_address(const char *contact, struct sockaddr_storage *address, socklen_t *bytes) {
    const char *at = strstr(contact, ";tcp");
    const char *colon = at ? strrchr(at, ':') : NULL;
    char host[64];
    if (!at || strlen(at) < 10 || strncmp(at + 5, "://", 3) != 0 || colon < at + 8) return false;
    size_t length = (size_t)(colon - at) - 8;
    if (length == 0 || length >= sizeof host) return false;
    memcpy(host, at + 8, length);
    host[length] = 0;
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (port == 0 || port > 65535) return false;
    memset(address, 0, sizeof *address);
    if (at[4] == '4') {
        struct sockaddr_in *v4 = (struct sockaddr_in *)address;
        *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        *bytes = sizeof *v4;
        return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    *bytes = sizeof *v6;
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

/* True when something accepts connections there within two seconds. */
static bool answers(const struct sockaddr_storage *address, socklen_t bytes) {
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    int failure = connect(fd, (const struct sockaddr *)address, bytes) == 0 ? 0 : errno;
    if (failure == EINPROGRESS) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        socklen_t length = sizeof failure;
        if (poll(&ready, 1, 2000) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length) != 0)
            failure = ETIMEDOUT;
    }
    (void)close(fd);
    return failure == 0;
}

/* True unless the launcher says where its server is and nobody is there. */
static bool server_answers(void) {
    static const char *const names[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                        "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
    bool named = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sockaddr_storage address;
        socklen_t bytes;
        if (!set(names[i]) || !parse_address(set(names[i]), &address, &bytes)) continue;
        named = true;
        if (answers(&address, bytes)) return true;
    }
    return !named && (set("PMIX_SERVER_URI") || set("PMIX_SERVER_TMPDIR"));
}

sg_code sg_mpi_check_launcher(int expected, sg_status *status) {
    bool pmix = set("PMIX_RANK") && set("PMIX_NAMESPACE");
    if (pmix && server_answers()) return SG_OK;
    static const char *const traces[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",  "PMI_RANK",
                                         "SLURM_PROCID",         "PMIX_RANK", "WORLD_SIZE"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        if (!set(traces[i])) continue;
        const char *remedy = strncmp(traces[i], "SLURM", 5) == 0
                                 ? "start with srun --mpi=pmix"
                                 : "start with --ranks N or mpirun -n N, without that variable";
        return sg_fail(status, SG_MACHINE, "%s=%.20s is set, but no launcher that Open MPI knows %s: %s", traces[i],
                       set(traces[i]), pmix ? "answers any more" : "is behind it", remedy);
    }
    return sg_fail(status, SG_MACHINE,
                   "%d ranks are expected, but this process was started alone: use --ranks %d or mpirun -n %d",
                   expected, expected, expected);
}
