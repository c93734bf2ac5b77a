/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three files of the whole job share: pack.c (from top to bottom), pack_state.c (which shards are to do) and
 * pack_index.c (the new index).
 */
#ifndef PACK_IMPL_H
#define PACK_IMPL_H

#include "known.h"
#include "plan.h"
#include "pool.h"
#include "publish.h"
#include "shard.h"

enum shard_state { SHARD_EMPTY = 0, SHARD_KEPT, SHARD_RESUMED, SHARD_TO_DO };

struct pack {
    const struct slimset_recipe *recipe;
    const struct slimset_run *run;
    struct slimset_report *report;
    struct out_dirs dirs;
    struct buf recipe_text;
    struct index old;             /* OUT/slimset.index; zero when there is none that counts */
    struct plan plan;
    unsigned jobs;
    struct pool *pool;
    struct known known;
    enum shard_state *state;      /* one a plan shard */
    size_t *old_shard;            /* its number in the old index, SIZE_MAX none */
    uint64_t rejects_before;      /* inputs that could not even be listed */
    uint64_t rejects_resumed;     /* in shards that an interrupted run finished */
};

/* Sorts the shards into p->state: a shard is kept when its inputs have the content that the old index names (by size and time, or by
 * reading them) and its files are there; resumed when an interrupted run left a fragment for these very inputs. */
enum slimset_status pack_sort_shards(struct pack *p, struct slimset_error *err);

/* Did an interrupted run leave a fragment for just these inputs, and are its files staged? */
bool pack_fragment_is_good(struct pack *p, size_t shard);

/* run->repair with an index to go by, in place of pack_sort_shards' comparison and of what follows the pipeline (repair.c): shards
 * whose files are whole are kept, the others are to do; those that come out as the index says are published.
 * SLIMSET_DAMAGED when some did not. */
static inline bool pack_repairs(const struct pack *p)
{
    return p->run->repair && p->old.base != NULL;
}
enum slimset_status repair_sort(struct pack *p, struct slimset_error *err);
enum slimset_status repair_finish(struct pack *p, struct slimset_error *err);

/* Writes the new index as OUT/.slimset/publish: records of kept shards from the old index, of others from their fragments. */
enum slimset_status pack_write_index(struct pack *p, struct slimset_error *err);

/* Do all files of these samples of a tree lie below dir with their sizes? */
bool pack_tree_files(struct index *ix, int dir, uint64_t first, uint64_t n_samples);

#endif
