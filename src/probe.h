/* SPDX-License-Identifier: Apache-2.0
 *
 * The probe: a fixed, hash-chosen subset of files is looked at first, and what it shows settles the role and the codec of each
 * kind of field. The decisions are frozen in the plan and the index; later runs on the same OUT do not probe again.
 */
#ifndef PROBE_H
#define PROBE_H

#include "plan.h"
#include "pool.h"

/* Settles every rule of the plan that is not settled yet, and refuses (SLIMSET_USAGE) where resizing would leave boxes behind. Notes say what
 * was decided and why, lossy steps first. */
enum slimset_status probe_run(struct plan *p, struct pool *pool, const struct slimset_run *run, struct slimset_error *err);

#endif
