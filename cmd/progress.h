/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything a run says while it works: notes, warnings, rejects and progress, for people on stderr
 * or as JSON lines on stdout.
 *
 *   struct progress p;
 *   progress_init(&p, &options);
 *   run.event = progress_event; run.event_arg = &p;
 *   ... slimset_pack ...
 *   progress_end(&p);        // erases the line, counts what was not shown
 *
 * On a terminal one line is redrawn at most 5 times a second and erased before anything else is
 * printed. Elsewhere (a log, a pipe, TERM=dumb) a full line comes every 30 seconds. Rejects are
 * shown as they come, the first 20 of them. No name of a file can break a line or reach the
 * terminal as a control sequence.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "slimset/pack.h"

enum { PROGRESS_REJECTS_SHOWN = 20 };

struct progress_options {
    const char *verb;  /* for error lines */
    bool json;
    bool quiet;        /* only warnings and errors */
    bool verbose;      /* every reject */
    bool no_color;
    int show;          /* -1 --no-progress, 1 --progress, 0 neither */
};

struct progress {
    struct progress_options options;
    bool redraw;          /* one line on a terminal */
    bool color;
    bool drawn;           /* that line is on the screen now */
    uint64_t rejects_shown, rejects_hidden;
    double started;       /* s, monotonic */
    double next;          /* when progress may be shown again */
    char phase[16];       /* of the numbers below */
    double phase_started;
    uint64_t bytes_at_start; /* done before this run: kept shards do not count as speed */
    unsigned n_marks;     /* the last half minute, for the rates */
    struct progress_mark {
        double at;
        uint64_t samples, bytes;
    } mark[31];
};

void progress_init(struct progress *p, const struct progress_options *options);

/* For struct slimset_run; arg is the struct progress. */
void progress_event(void *arg, const struct slimset_event *e);

/* A note of the command itself. */
void progress_note(struct progress *p, const char *text);

/* The error that ends the run: "slimset VERB: TEXT", or exit_error in JSON. `hint` is a second
 * line, may be NULL. */
void progress_error(struct progress *p, int exit_status, const char *text, const char *hint);

/* Erases the line; says how many rejects were not shown. */
void progress_end(struct progress *p);

#endif
