#include "sim/clock.h"
#include "sim/hdf5_image.h"
#include "sim/user_block.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SG_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SG_SHADOW_MEMORY 1
#endif
#endif

/* What the child sends before the flat form (or before the text of its refusal). */
typedef struct sg_child_head {
    uint64_t code, bytes, crc;
} child_head;

static bool write_all(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Bytes of address space this process has now; 0 when /proc does not tell. */
static unsigned long long address_space(void) {
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    return strtoull(text, NULL, 10) * (unsigned long long)sysconf(_SC_PAGESIZE);
}

static void limit(int resource, unsigned long long value) {
    struct rlimit limits;
    if (getrlimit(resource, &limits) != 0) return;
    if (limits.rlim_max != RLIM_INFINITY && value > limits.rlim_max) value = limits.rlim_max;
    limits.rlim_cur = limits.rlim_max = (rlim_t)value;
    (void)setrlimit(resource, &limits);
}

/* The child's cage. Crashes must end it silently, whatever handlers the parent has; it must not outlive the parent, nor hold
 * what that had open (a lock, the other end of the pipe). `out` is moved to file 3, which is returned. */
static int confine(size_t image_bytes, unsigned cpu_s, pid_t parent, int out) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it died before that took effect */
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,  SIGABRT, SIGTRAP,
                                 SIGALRM, SIGINT, SIGTERM, SIGPIPE, SIGXCPU};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) (void)signal(deadly[i], SIG_DFL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, cpu_s);
    limit(RLIMIT_FSIZE, 0);
#ifndef SG_SHADOW_MEMORY
    unsigned long long now = address_space();
    if (now) limit(RLIMIT_AS, now + 6ull * image_bytes + (256ull << 20));
#else
    (void)image_bytes;
    (void)address_space;
#endif
    /* first far away: `out` or /dev/null may have got the numbers of standard files that the parent had closed */
    enum { FAR = 16 };
    int nowhere = open("/dev/null", O_RDWR);
    if (nowhere >= 0) nowhere = fcntl(nowhere, F_DUPFD, FAR);
    out = fcntl(out, F_DUPFD, FAR);
    for (int fd = 0; fd < 3; fd++)
        if (nowhere < 0 || dup2(nowhere, fd) < 0) (void)close(fd);
    if (out < 0 || dup2(out, 3) < 0) _exit(1);
    (void)close_range(4, ~0u, 0);
    return 3;
}

static void child_main(int out, const void *image, size_t n, size_t flat_limit) {
    sg_bytes flat = {.limit = flat_limit};
    sg_status why = {0};
    child_head head = {.code = (uint64_t)sg_hdf5_flatten(image, n, &flat, &why)};
    const void *data = head.code == SG_OK ? (const void *)flat.data : (const void *)why.text;
    head.bytes = head.code == SG_OK ? flat.n : strlen(why.text);
    head.crc = sg_crc64(0, data, (size_t)head.bytes);
    bool sent = write_all(out, &head, sizeof head) && write_all(out, data, (size_t)head.bytes);
    _exit(sent ? 0 : 1);
}

/* Reads until the child closes its end; false when it takes longer than wall_s or sends more than it may. */
static bool receive(int in, sg_bytes *message, double wall_s) {
    double end = sg_clock_s() + wall_s;
    unsigned char piece[65536];
    for (;;) {
        double left = end - sg_clock_s();
        if (left <= 0) return false;
        struct pollfd ready = {.fd = in, .events = POLLIN};
        int n_ready = poll(&ready, 1, (int)(left * 1000) + 1);
        if (n_ready < 0 && errno != EINTR) return false;
        if (n_ready <= 0) continue;
        ssize_t n = read(in, piece, sizeof piece);
        if (n == 0) return true;
        if (n < 0 && errno != EINTR) return false;
        if (n > 0 && !sg_bytes_add(message, piece, (size_t)n)) return false;
    }
}

static void reap(pid_t child) {
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* A complete message is what counts: a child that died or was corrupted cannot have sent its checksum. */
static sg_code take_message(sg_bytes *message, sg_bytes *flat, sg_status *status) {
    child_head head;
    if (message->n < sizeof head)
        return sg_fail(status, SG_BAD_INPUT, "HDF5 cannot read it: its content is damaged or hostile");
    memcpy(&head, message->data, sizeof head);
    unsigned char *data = message->data + sizeof head;
    if (head.bytes != message->n - sizeof head || head.crc != sg_crc64(0, data, (size_t)head.bytes))
        return sg_fail(status, SG_BAD_INPUT, "HDF5 cannot read it: its content is damaged or hostile");
    if (head.code != SG_OK) return sg_fail(status, SG_BAD_INPUT, "%.*s", (int)head.bytes, (const char *)data);
    memmove(message->data, data, (size_t)head.bytes);
    *flat = *message;
    flat->n = (size_t)head.bytes;
    *message = (sg_bytes){0};
    return SG_OK;
}

sg_code sg_hdf5_flatten_apart(const void *image, size_t n, sg_bytes *flat, sg_status *status) {
    /* HDF5 spends more bytes on every value than the flat form does; the product only leaves room. */
    size_t flat_limit = 2 * n + 65536;
    unsigned cpu_s = 2 + (unsigned)(n >> 22);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sg_fail(status, SG_MACHINE, "cannot make a pipe to read HDF5 through: %s", strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        int out = confine(n, cpu_s, parent, ends[1]);
        child_main(out, image, n, flat_limit);
    }
    int failure = errno;
    (void)close(ends[1]);
    if (child < 0) {
        (void)close(ends[0]);
        return sg_fail(status, SG_MACHINE, "cannot start a process to read HDF5 in: %s", strerror(failure));
    }
    sg_bytes message = {.limit = flat_limit + sizeof(child_head)};
    bool received = receive(ends[0], &message, 10.0 + 10.0 * cpu_s);
    (void)close(ends[0]);
    reap(child);
    sg_code code = received ? take_message(&message, flat, status)
                            : sg_fail(status, SG_BAD_INPUT, "HDF5 does not finish reading it: its content is hostile");
    free(message.data);
    return code;
}
