#include "cli/show.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

sg_text sg_show_seconds(double s) {
    sg_text t;
    if (!isfinite(s))
        (void)snprintf(t.s, sizeof t.s, "-");
    else if (s == 0)
        (void)snprintf(t.s, sizeof t.s, "0 s");
    else if (fabs(s) < 1e-3)
        (void)snprintf(t.s, sizeof t.s, "%.3g us", s * 1e6);
    else if (fabs(s) < 1)
        (void)snprintf(t.s, sizeof t.s, "%.3g ms", s * 1e3);
    else if (fabs(s) < 1000)
        (void)snprintf(t.s, sizeof t.s, "%.3g s", s);
    else
        (void)snprintf(t.s, sizeof t.s, "%.0f s", s);
    return t;
}

sg_text sg_show_duration(double s) {
    sg_text t;
    if (!isfinite(s)) {
        (void)snprintf(t.s, sizeof t.s, "-");
        return t;
    }
    if (s < 60) return sg_show_seconds(s);
    double minutes = floor(s / 60 + 0.5);
    if (minutes < 60)
        (void)snprintf(t.s, sizeof t.s, "%.0f min", minutes);
    else if (minutes < 48 * 60)
        (void)snprintf(t.s, sizeof t.s, "%.0f h %02.0f min", floor(minutes / 60), fmod(minutes, 60));
    else
        (void)snprintf(t.s, sizeof t.s, "%.1f days", s / 86400);
    return t;
}

sg_text sg_show_bytes(double bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    sg_text t;
    if (!isfinite(bytes)) {
        (void)snprintf(t.s, sizeof t.s, "-");
        return t;
    }
    size_t i = 0;
    while (fabs(bytes) >= 1024 && i < 4) {
        bytes /= 1024;
        i++;
    }
    (void)snprintf(t.s, sizeof t.s, i == 0 ? "%.0f %s" : "%.2f %s", bytes, unit[i]);
    return t;
}

sg_text sg_show_count(int64_t count) {
    sg_text t;
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)count), at = 0;
    for (int i = 0; i < n; i++) {
        t.s[at++] = digits[i];
        int left = n - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-') t.s[at++] = ',';
    }
    t.s[at] = '\0';
    return t;
}

sg_text sg_show_si(double value, const char *unit) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    sg_text t;
    size_t i = 0;
    while (fabs(value) >= 1000 && i < 6) {
        value /= 1000;
        i++;
    }
    (void)snprintf(t.s, sizeof t.s, "%.4g %s%s", value, prefix[i], unit);
    return t;
}

void sg_show_figure(const char *label, const sg_figure *figure, sg_text (*format)(double)) {
    if (!isfinite(figure->value)) return;
    printf("  %-22s %-12s (%s .. %s, %s)\n", label, format(figure->value).s, format(figure->low).s,
           format(figure->high).s, sg_evidence_name(figure->evidence));
}

/* Bytes of the character at s (RFC 3629, table of well-formed sequences); 0: none that may be shown. */
static size_t shown_bytes(const unsigned char *s) {
    if (s[0] < 0x80) return (s[0] >= 0x20 && s[0] != 0x7f) || s[0] == '\n' || s[0] == '\t';
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    size_t n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned low = 0x80, high = 0xbf; /* of the second byte */
    if (s[0] == 0xc2) low = 0xa0;     /* U+0080 to U+009F are control characters */
    if (s[0] == 0xe0) low = 0xa0;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf0) low = 0x90;
    if (s[0] == 0xf4) high = 0x8f;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return n;
}

void sg_show_clean(const char *text, char *out, size_t bytes) {
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;
    while (*s) {
        size_t n = shown_bytes(s), takes = n ? n : 1;
        if (used + takes >= bytes) break;
        if (n)
            memcpy(out + used, s, n);
        else
            out[used] = '?';
        used += takes;
        s += takes;
    }
    out[used] = '\0';
}

int sg_show_error(const sg_args *args, const sg_status *status) {
    char text[sizeof status->text];
    sg_show_clean(status->text, text, sizeof text);
    fprintf(stderr, "stepgauge: %s\n", text);
    if (args && args->json) {
        json_t *object = json_object();
        if (json_object_set_new(object, "error", json_string(text)) == 0)
            (void)sg_json_print(object, (int)status->code);
        else
            json_decref(object);
    }
    return (int)status->code;
}

void sg_show_warning(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "stepgauge: warning: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

static double clock_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

sg_progress sg_progress_start(const sg_args *args) {
    return (sg_progress){.on = !args->quiet && isatty(STDERR_FILENO), .start_s = clock_s(), .shown_s = 0};
}

void sg_progress_show(sg_progress *p, double fraction, const char *what) {
    if (!p->on) return;
    double now = clock_s();
    if (now - p->shown_s < 0.1 && fraction < 1) return;
    p->shown_s = now;
    enum { WIDTH = 24 };
    if (!(fraction >= 0)) fraction = 0;
    if (fraction > 1) fraction = 1;
    char bar[WIDTH + 1];
    int full = (int)(fraction * WIDTH);
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = '\0';
    double left_s = fraction > 0.02 ? (now - p->start_s) * (1 - fraction) / fraction : NAN;
    fprintf(stderr, "\r[%s] %3.0f %%  %s left  %-40.40s", bar, 100 * fraction, sg_show_duration(left_s).s, what);
}

void sg_progress_end(sg_progress *p) {
    if (p->on) fprintf(stderr, "\r%*s\r", 96, "");
    p->on = false;
}
