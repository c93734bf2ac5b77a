/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine, kernel and build give a run. Reads and writes nothing of anybody's; starts worker processes, so
 * slimset_worker_main must be called first in main.
 */
#ifndef SLIMSET_DOCTOR_H
#define SLIMSET_DOCTOR_H

#include "slimset/status.h"

enum slimset_health {
    SLIMSET_HEALTH_FACT,    /* neither good nor bad: a version, a size */
    SLIMSET_HEALTH_GOOD,    /* tried, or asked for, and there */
    SLIMSET_HEALTH_LACKING, /* a run works without it, with less: the text says what */
    SLIMSET_HEALTH_BAD      /* a run does not work */
};

/* group: "sandbox", "machine", "build", "decode", "encode". All strings live during the call. */
typedef void slimset_health_fn(void *arg, const char *group, const char *name, enum slimset_health health, const char *text);

/* Looks at everything, and decodes and encodes a small picture of every format in sandboxed workers as a run does. SLIMSET_OK when
 * all that a run needs works, SLIMSET_INTERNAL when something is BAD; other statuses when it could not look. */
enum slimset_status slimset_doctor(slimset_health_fn *fn, void *arg, struct slimset_error *err);

#endif
