/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

static const double redraw_s = 0.2, json_s = 1, log_s = 30, log_often_s = 2;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_init(struct progress *p, const struct progress_options *options)
{
    memset(p, 0, sizeof *p);
    p->options = *options;
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool terminal = isatty(STDERR_FILENO) == 1 && term != NULL && term[0] != '\0' &&
                    strcmp(term, "dumb") != 0;
    p->redraw = terminal && !options->json;
    p->color = terminal && !options->no_color && (no_color == NULL || no_color[0] == '\0');
    p->started = now();
    p->next = p->redraw || options->json ? p->started
                                         : p->started + (options->show > 0 ? log_often_s : log_s);
}

static void erase(struct progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

/* One write a line, so that lines of several processes on one terminal stay whole. */
static void say(struct progress *p, const char *color, const char *label, const char *text)
{
    char line[TEXT_PATH_BYTES + 2048];
    snprintf(line, sizeof line, "%s%s%s%s%s\n", p->color ? color : "", label,
             p->color ? "\033[0m" : "", label[0] != '\0' ? " " : "", text);
    erase(p);
    fputs(line, stderr);
}

static void json_text(const char *type, const char *path, const char *text)
{
    printf("{\"message_type\":\"%s\"", type);
    if (path != NULL) {
        fputs(",\"path\":", stdout);
        text_json(stdout, path, strlen(path));
    }
    fputs(",\"text\":", stdout);
    text_json(stdout, text, strlen(text));
    fputs("}\n", stdout);
    fflush(stdout);
}

void progress_note(struct progress *p, const char *text)
{
    char clean[2048];
    if (p->options.json)
        json_text("note", NULL, text);
    else if (!p->options.quiet)
        say(p, "\033[36m", "note:", text_clean(clean, sizeof clean, text));
}

static void warning(struct progress *p, const char *text)
{
    char clean[2048];
    if (p->options.json)
        json_text("warning", NULL, text);
    else
        say(p, "\033[33m", "warning:", text_clean(clean, sizeof clean, text));
}

static void reject(struct progress *p, const char *path, const char *text)
{
    if (p->options.json) {
        json_text("reject", path, text);
        return;
    }
    if (p->options.quiet || (!p->options.verbose && p->rejects_shown >= PROGRESS_REJECTS_SHOWN)) {
        p->rejects_hidden++;
        return;
    }
    p->rejects_shown++;
    char line[TEXT_PATH_BYTES + 1024], clean[1024];
    text_quote(line, TEXT_PATH_BYTES, path);
    size_t n = strlen(line);
    snprintf(line + n, sizeof line - n, ": %s", text_clean(clean, sizeof clean, text));
    say(p, "\033[31m", "reject:", line);
}

void progress_error(struct progress *p, int exit_status, const char *text, const char *hint)
{
    if (p->options.json) {
        printf("{\"message_type\":\"exit_error\",\"code\":%d,\"message\":", exit_status);
        text_json(stdout, text, strlen(text));
        fputs("}\n", stdout);
        fflush(stdout);
    }
    char label[64], clean[1024];
    snprintf(label, sizeof label, "slimset %s:", p->options.verb);
    say(p, "\033[1;31m", label, text_clean(clean, sizeof clean, text));
    if (hint != NULL)
        say(p, "", "", hint);
}

/* Numbers of one moment, worked out. */
struct moment {
    double percent;       /* < 0 unknown */
    double samples_per_s, bytes_per_s; /* of the last half minute */
    double remaining_s;   /* < 0 unknown */
};

static void mark_add(struct progress *p, double t, const struct slimset_event *e)
{
    enum { MAX = sizeof p->mark / sizeof p->mark[0] };
    if (p->n_marks > 0 && t - p->mark[p->n_marks - 1].at < 1)
        return;
    if (p->n_marks == MAX) {
        memmove(p->mark, p->mark + 1, (MAX - 1) * sizeof p->mark[0]);
        p->n_marks--;
    }
    p->mark[p->n_marks++] = (struct progress_mark){t, e->samples_done, e->in_bytes_done};
}

static struct moment work_out(struct progress *p, double t, const struct slimset_event *e)
{
    struct moment m = {-1, 0, 0, -1};
    const struct progress_mark *old = &p->mark[0];
    double span = t - old->at;
    if (span > 0.5 && e->samples_done >= old->samples && e->in_bytes_done >= old->bytes) {
        m.samples_per_s = (double)(e->samples_done - old->samples) / span;
        m.bytes_per_s = (double)(e->in_bytes_done - old->bytes) / span;
    }
    if (e->in_bytes_total > 0)
        m.percent = 100.0 * (double)e->in_bytes_done / (double)e->in_bytes_total;
    else if (e->samples_total > 0)
        m.percent = 100.0 * (double)e->samples_done / (double)e->samples_total;
    if (m.percent > 100)
        m.percent = 100;
    /* By bytes, over the whole phase: samples differ too much in size, and short spans jump. */
    double spent = t - p->phase_started;
    if (spent > 1 && e->in_bytes_done > p->bytes_at_start && e->in_bytes_total >= e->in_bytes_done)
        m.remaining_s = spent * (double)(e->in_bytes_total - e->in_bytes_done) /
                        (double)(e->in_bytes_done - p->bytes_at_start);
    return m;
}

static void json_status(const struct progress *p, double t, const struct slimset_event *e,
                        const struct moment *m)
{
    fputs("{\"message_type\":\"status\",\"phase\":", stdout);
    text_json(stdout, p->phase, strlen(p->phase));
    printf(",\"seconds_elapsed\":%.1f", t - p->started);
    if (m->remaining_s >= 0)
        printf(",\"seconds_remaining\":%.0f", m->remaining_s);
    if (m->percent >= 0)
        printf(",\"percent_done\":%.1f", m->percent);
    printf(",\"samples_done\":%llu,\"total_samples\":%llu,\"bytes_done\":%llu,\"total_bytes\":%llu,"
           "\"bytes_written\":%llu,\"rejects\":%llu}\n",
           (unsigned long long)e->samples_done, (unsigned long long)e->samples_total,
           (unsigned long long)e->in_bytes_done, (unsigned long long)e->in_bytes_total,
           (unsigned long long)e->out_bytes, (unsigned long long)e->rejects);
    fflush(stdout);
}

/* Appends a piece of the line if the width allows it. */
__attribute__((format(printf, 4, 5))) static void
piece(char *line, size_t room, size_t width, const char *fmt, ...)
{
    char text[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t n = strlen(line);
    if (n + 2 + strlen(text) < (width < room ? width : room))
        snprintf(line + n, room - n, "%s%s", n > 0 ? "  " : "", text);
}

/* The most wanted pieces first: what does not fit is left away. */
static void compose(const struct progress *p, char *line, size_t room, size_t width,
                    const struct slimset_event *e, const struct moment *m)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    line[0] = '\0';
    piece(line, room, width, "%s", p->phase);
    if (m->percent >= 0)
        piece(line, room, width, "%3.0f%%",
              m->percent >= 99.5 && m->percent < 100 ? 99 : m->percent);
    if (e->samples_total > 0)
        piece(line, room, width, "%s/%s samples", text_count(a, e->samples_done),
              text_count(b, e->samples_total));
    else
        piece(line, room, width, "%s found", text_count(a, e->samples_done));
    if (m->samples_per_s > 0)
        piece(line, room, width, m->samples_per_s < 10 ? "%.1f/s" : "%.0f/s", m->samples_per_s);
    if (m->remaining_s >= 0)
        piece(line, room, width, "ETA %s", text_duration(a, m->remaining_s));
    if (e->rejects > 0)
        piece(line, room, width, "rejects %s", text_count(a, e->rejects));
    if (m->bytes_per_s >= 1)
        piece(line, room, width, "in %s/s", text_bytes(a, (uint64_t)m->bytes_per_s));
    if (e->out_bytes > 0)
        piece(line, room, width, "out %s", text_bytes(a, e->out_bytes));
}

static size_t terminal_width(void)
{
    struct winsize w;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
        return w.ws_col;
    return 80;
}

static void advance(struct progress *p, const struct slimset_event *e)
{
    double t = now();
    const char *phase = e->phase != NULL ? e->phase : "pack";
    if (strncmp(p->phase, phase, sizeof p->phase - 1) != 0) {
        snprintf(p->phase, sizeof p->phase, "%s", phase);
        p->phase_started = t;
        p->bytes_at_start = e->in_bytes_done;
        p->n_marks = 0;
    }
    mark_add(p, t, e);
    if (t < p->next || p->options.show < 0)
        return;
    struct moment m = work_out(p, t, e);
    if (p->options.json) {
        json_status(p, t, e, &m);
        p->next = t + json_s;
        return;
    }
    if (p->options.quiet)
        return;
    char line[512];
    compose(p, line, sizeof line, p->redraw ? terminal_width() : sizeof line, e, &m);
    if (p->redraw) {
        char screen[540];
        snprintf(screen, sizeof screen, "\r%s\033[K", line);
        fputs(screen, stderr);
        p->drawn = true;
        p->next = t + redraw_s;
    } else {
        say(p, "", "", line);
        p->next = t + (p->options.show > 0 ? log_often_s : log_s);
    }
}

void progress_event(void *arg, const struct slimset_event *e)
{
    struct progress *p = arg;
    const char *text = e->text != NULL ? e->text : "";
    switch (e->kind) {
    case SLIMSET_EVENT_NOTE: progress_note(p, text); break;
    case SLIMSET_EVENT_WARNING: warning(p, text); break;
    case SLIMSET_EVENT_REJECT: reject(p, e->path != NULL ? e->path : "?", text); break;
    case SLIMSET_EVENT_PROGRESS: advance(p, e); break;
    }
}

void progress_end(struct progress *p)
{
    erase(p);
    if (p->rejects_hidden > 0 && !p->options.quiet) {
        char a[TEXT_NUMBER_BYTES], line[80];
        snprintf(line, sizeof line, "%s more", text_count(a, p->rejects_hidden));
        say(p, "\033[31m", "reject:", line);
    }
    p->rejects_hidden = 0;
}
