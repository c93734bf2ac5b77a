/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator's side of the workers: hand in requests, take out answers, in whatever order they come.
 *
 * Fast workers are started at pool_open, slow ones (libvips) when the first answer says NEED_SLOW. A request that a fast worker cannot
 * serve goes to a slow one by itself. A worker that dies of its own signal is replaced and the request it was
 * at is tried once more, alone in a fresh worker; the second death is answered as reject decoder-crash. A worker that is
 * killed from outside, runs out of memory or hangs twice on one request stops the run. All answers have passed
 * item_answer_check on a private copy. Single-threaded.
 */
#ifndef POOL_H
#define POOL_H

#include "item.h"

struct pool; /* opaque */

struct pool_settings {
    const struct slimset_recipe *recipe;
    unsigned jobs;                /* fast workers; also the most slow ones */
    int spill_dir;                /* where nameless files for large payloads are made; -1: /tmp */
    bool spills;                  /* requests may bring has_spill: workers then may write files that they are given */
    bool in_process;              /* no processes: convert in pool_next */
    unsigned cpu_seconds;         /* a request that uses more, and half a second for each MiB, is a hang; default 120 when 0 */
    unsigned crash_limit;         /* crashes in a row without a good answer that stop the run; default 20 when 0 */
};

enum slimset_status pool_open(const struct pool_settings *settings, struct pool **out, struct slimset_error *err);
void pool_close(struct pool *p); /* kills what still runs; NULL is fine */

/* May another request be handed in now? */
bool pool_has_room(const struct pool *p);

/* Requests handed in and not yet taken out. */
unsigned pool_in_flight(const struct pool *p);

/* Hands in a request (copied) with its n_fds descriptors, which the pool closes in any case. Needs room. With has_spill the pool makes the
 * spill and adds its descriptor. */
enum slimset_status pool_submit(struct pool *p, const struct item_request *req, const int *fds, struct slimset_error *err);

/* One finished request; blob is the caller's to free(). */
struct pool_answer {
    uint64_t ticket;
    struct item_answer *answer; /* the checked blob; decoder-crash and such are answers too */
    int spill_fd;               /* of ITEM_CONVERT: where large payloads lie, the caller's to close; -1 none */
};

/* Waits up to timeout_ms for an answer. *got false: none yet. SLIMSET_LIMIT, SLIMSET_NO_MEMORY, SLIMSET_IO: the run cannot go on;
 * *culprit is the ticket it failed on. */
enum slimset_status pool_next(struct pool *p, int timeout_ms, struct pool_answer *out, bool *got, uint64_t *culprit,
                              struct slimset_error *err);

/* Counts for the report: worker crashes seen, sandbox layers of the first worker (0 until known). */
void pool_facts(const struct pool *p, unsigned *crashes, unsigned *layers);

/* libvips as slow workers tell it (see struct worker_answer); 0 while none has answered, and where there is none. */
uint32_t pool_vips_version(const struct pool *p);

#endif
