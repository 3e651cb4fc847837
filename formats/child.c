#include "formats/child.h"

#include "kernels/clock.h"

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

/* What the child sends before its answer (or before the text of its refusal). */
typedef struct sg_child_head {
    uint64_t code, bytes, crc;
} child_head;

/* Exit status of a child that could not be confined; no library ends a process with it. */
enum { NO_DESCRIPTORS = 113 };

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

#ifndef SG_SHADOW_MEMORY
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
#endif

/* grace: between the limit that a signal tells of and the one that kills. */
static void limit(int resource, unsigned long long value, unsigned grace) {
    struct rlimit limits;
    if (getrlimit(resource, &limits) != 0) return;
    unsigned long long most = limits.rlim_max == RLIM_INFINITY ? ~0ull : limits.rlim_max;
    if (value > most) value = most;
    limits.rlim_cur = (rlim_t)value;
    limits.rlim_max = (rlim_t)(grace > most - value ? most : value + grace);
    (void)setrlimit(resource, &limits);
}

static void set_limits(const sg_child_limits *limits) {
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_FSIZE, limits->file_bytes, 0);
    if (limits->cpu_s) limit(RLIMIT_CPU, limits->cpu_s, 1);
#ifndef SG_SHADOW_MEMORY
    unsigned long long now = address_space();
    if (now && limits->memory_bytes) limit(RLIMIT_AS, now + limits->memory_bytes, 0);
#endif
}

/* Handlers and masks of the parent are none of the child's. */
static void forget_signals(void) {
    static const int deadly[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT, SIGTRAP, SIGALRM,
                                 SIGINT,  SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ, SIGHUP,  SIGQUIT};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) (void)signal(deadly[i], SIG_DFL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The kept descriptors first go behind the last place: one of them or /dev/null may have got the number that another is to
 * have. No further away, for descriptors may be few (ulimit -n). */
static bool keep_descriptors(const int *keep, size_t n_keep) {
    enum { MOST = 16 };
    int kept[MOST], behind = 3 + (int)n_keep;
    if (n_keep > MOST) return false;
    int nowhere = open("/dev/null", O_RDWR);
    if (nowhere >= 0) nowhere = fcntl(nowhere, F_DUPFD, behind);
    for (size_t i = 0; i < n_keep; i++) {
        kept[i] = fcntl(keep[i], F_DUPFD, behind);
        if (kept[i] < 0) return false;
    }
    for (int fd = 0; fd < 3; fd++)
        if (nowhere < 0 || dup2(nowhere, fd) < 0) (void)close(fd);
    for (size_t i = 0; i < n_keep; i++)
        if (dup2(kept[i], 3 + (int)i) < 0) return false;
    return close_range(3 + (unsigned)n_keep, ~0u, 0) == 0;
}

void sg_child_confine(pid_t parent, const sg_child_limits *limits, const int *keep, size_t n_keep) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it died before that took effect */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    forget_signals();
    if (!keep_descriptors(keep, n_keep)) _exit(NO_DESCRIPTORS);
    set_limits(limits);
}

static void child_main(int out, sg_child_work work, void *user, size_t most) {
    sg_bytes answer = {.limit = most};
    sg_status why = {0};
    child_head head = {.code = (uint64_t)work(user, &answer, &why)};
    const void *data = head.code == SG_OK ? (const void *)answer.data : (const void *)why.text;
    head.bytes = head.code == SG_OK ? answer.n : strlen(why.text);
    head.crc = sg_crc64(0, data, (size_t)head.bytes);
    bool sent = write_all(out, &head, sizeof head) && write_all(out, data, (size_t)head.bytes);
    _exit(sent ? 0 : 1);
}

typedef enum sg_receipt { RECEIVED, TOO_LATE, TOO_MUCH, NO_MEMORY, NOT_READ } receipt;

/* Reads until the child closes its end. */
static receipt receive(int in, sg_bytes *message, double wall_s) {
    double end = sg_clock_s() + wall_s;
    unsigned char piece[65536];
    for (;;) {
        double left = end - sg_clock_s();
        if (left <= 0) return TOO_LATE;
        struct pollfd ready = {.fd = in, .events = POLLIN};
        int n_ready = poll(&ready, 1, left > 1e6 ? 1000000000 : (int)(left * 1000) + 1);
        if (n_ready < 0 && errno != EINTR) return NOT_READ;
        if (n_ready <= 0) continue;
        ssize_t n = read(in, piece, sizeof piece);
        if (n == 0) return RECEIVED;
        if (n < 0 && errno != EINTR) return NOT_READ;
        if (n > 0 && !sg_bytes_add(message, piece, (size_t)n))
            return message->n + (size_t)n > message->limit ? TOO_MUCH : NO_MEMORY;
    }
}

/* A child that is dying already keeps the reason it dies of. */
int sg_child_reap(pid_t child, const sg_child_limits *limits, char *how, size_t bytes) {
    int state = 0;
    (void)kill(child, SIGKILL);
    pid_t got;
    do got = waitpid(child, &state, 0);
    while (got < 0 && errno == EINTR);
    if (got != child)
        (void)snprintf(how, bytes, "ended, nobody knows how");
    else if (WIFEXITED(state) && WEXITSTATUS(state) == NO_DESCRIPTORS)
        (void)snprintf(how, bytes, "got no file descriptors: raise their number (ulimit -n)");
    else if (WIFEXITED(state))
        (void)snprintf(how, bytes, "ended with status %d", WEXITSTATUS(state));
    else if (WTERMSIG(state) == SIGXCPU)
        (void)snprintf(how, bytes, "took more than %u s of processor time", limits->cpu_s);
    else if (WTERMSIG(state) == SIGXFSZ)
        (void)snprintf(how, bytes, "wrote more than a file may have");
    else if (WTERMSIG(state) == SIGKILL)
        (void)snprintf(how, bytes, "was killed from outside, as the kernel does where memory runs out");
    else
        (void)snprintf(how, bytes, "was killed: %s", strsignal(WTERMSIG(state)));
    if (got == child && WIFEXITED(state) && WEXITSTATUS(state) == NO_DESCRIPTORS) return SG_CHILD_UNCONFINED;
    return got == child && WIFSIGNALED(state) ? WTERMSIG(state) : 0;
}

/* A complete answer is what counts: a child that died or was corrupted cannot have sent its checksum. */
static sg_code take_answer(const char *what, int killed_by, const char *how, sg_bytes *message, unsigned char **bytes,
                           size_t *n, sg_status *status) {
    child_head head;
    bool begun = message->n >= sizeof head;
    if (begun) memcpy(&head, message->data, sizeof head);
    unsigned char *data = message->data + (begun ? sizeof head : 0);
    bool whole = begun && head.bytes == message->n - sizeof head && head.crc == sg_crc64(0, data, (size_t)head.bytes);
    if (!whole && killed_by == SG_CHILD_UNCONFINED)
        return sg_fail(status, SG_MACHINE, "%s was not read: the process for it %s", what, how);
    if (!whole && killed_by == SIGKILL)
        return sg_fail(status, SG_MACHINE,
                       "%s was not read: the process that read it %s: end other programs, then try anew", what, how);
    if (!whole)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s cannot be read: the process that read it %s; its content is damaged or hostile", what, how);
    if (head.code != SG_OK) {
        sg_code code = head.code == SG_NO || head.code == SG_MACHINE ? (sg_code)head.code : SG_BAD_INPUT;
        return sg_fail(status, code, "%.*s", (int)head.bytes, (const char *)data);
    }
    memmove(message->data, data, (size_t)head.bytes);
    *bytes = message->data;
    *n = (size_t)head.bytes;
    *message = (sg_bytes){0};
    return SG_OK;
}

static sg_code judge(const char *what, receipt got, int killed_by, const char *how, double wall_s, sg_bytes *message,
                     unsigned char **bytes, size_t *n, sg_status *status) {
    switch (got) {
    case TOO_LATE:
        return sg_fail(status, SG_BAD_INPUT,
                       "%s cannot be read: reading it does not end within %.3g s; its content is damaged or hostile",
                       what, wall_s);
    case TOO_MUCH:
        return sg_fail(status, SG_BAD_INPUT,
                       "%s cannot be read: it tells more than the %zu bytes that are taken; its content is damaged or "
                       "hostile",
                       what, message->limit);
    case NO_MEMORY: return sg_fail_memory(status, message->n, what);
    case NOT_READ:
        return sg_fail(status, SG_MACHINE, "cannot hear from the process that reads %s: %s", what, strerror(errno));
    case RECEIVED: break;
    }
    return take_answer(what, killed_by, how, message, bytes, n, status);
}

sg_code sg_child_run(const char *what, sg_child_work work, void *user, const sg_child_limits *limits,
                     unsigned char **bytes, size_t *n, sg_status *status) {
    *bytes = NULL;
    *n = 0;
    size_t most = limits->answer_bytes ? limits->answer_bytes : (size_t)64 << 20;
    double wall_s = limits->wall_s > 0 ? limits->wall_s : 10.0 + 10.0 * limits->cpu_s;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sg_fail(status, SG_MACHINE, "cannot make a pipe to read %s through: %s", what, strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        sg_child_confine(parent, limits, &ends[1], 1);
        child_main(3, work, user, most);
    }
    int failure = errno;
    (void)close(ends[1]);
    if (child < 0) {
        (void)close(ends[0]);
        return sg_fail(status, SG_MACHINE, "cannot start a process to read %s in: %s", what, strerror(failure));
    }
    sg_bytes message = {.limit = most + sizeof(child_head) + sizeof(((sg_status *)0)->text)};
    receipt got = receive(ends[0], &message, wall_s);
    failure = errno;
    (void)close(ends[0]);
    char how[128];
    int killed_by = sg_child_reap(child, limits, how, sizeof how);
    errno = failure;
    sg_code code = judge(what, got, killed_by, how, wall_s, &message, bytes, n, status);
    free(message.data);
    return code;
}
