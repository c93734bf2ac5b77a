/* SPDX-License-Identifier: Apache-2.0
 *
 * The run proper. Samples of the shards to do are taken in plan order: opened and read ahead, handed to workers, answered in any order,
 * and written in plan order. The window between the first unwritten sample and the last opened one is bounded in samples and in bytes;
 * the first one is always with a worker, so it always gets on.
 *
 *      opened ──► submitted ──► answered ──► written
 *       (readahead)   (pool)      (copies held)   (shard.h)
 *
 * A finished shard is synced while the next ones are made; then its fragment is written. Nothing is published here.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "plan.h"
#include "pool.h"
#include "publish.h"

struct pipeline_job {
    const struct plan *plan;
    struct pool *pool;
    const struct slimset_run *run;
    const struct out_dirs *dirs;
    const size_t *todo;            /* shards, in order */
    size_t n_todo;
    unsigned jobs;                 /* workers, for the budget of descriptors */
    uint64_t rejects;              /* in: found so far (unreadable inputs, kept shards); out: with this run's */
    uint64_t samples_total, samples_done, in_bytes_total;
    uint64_t out_bytes;
    uint64_t cast_arrays, cast_inf, cast_zero, cast_nan, cast_clipped; /* --cast, this run: arrays, and values that it could not keep */
};

enum slimset_status pipeline_run(struct pipeline_job *job, struct slimset_error *err);

/* SLIMSET_LIMIT when the budget of rejects (--strict, --max-rejects) is used up. what: the reject, for --strict's message. */
enum slimset_status pipeline_budget(const struct slimset_run *run, uint64_t rejects, uint64_t samples, const char *what,
                                    struct slimset_error *err);

/* Name of a shard's fragment, and what ties it to the inputs as they are: a hash of keys, paths, sizes, times. */
void pipeline_fragment_name(const struct plan *p, size_t shard, char name[320]);
uint64_t pipeline_inputs_stat(const struct plan *p, size_t shard);

#endif
