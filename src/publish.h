/* SPDX-License-Identifier: Apache-2.0
 *
 * From staged files to a dataset, all at once. What lies in OUT/.slimset during a run:
 *
 *   plan           decisions of the unfinished run (index format, kind PLAN)
 *   stage/         finished and unfinished output files, under their final names
 *   frag-S-N       records of the finished shard N of split S (kind FRAGMENT); its files in stage/ are durable
 *   publish        the complete new index: from here on the next run rolls forward
 *   index.old      the withdrawn old index, until what it alone names has been deleted
 *   stat           see known.h; the only thing that stays
 *
 * publish_roll: old index withdrawn -> staged files that the new index names renamed into OUT -> new index renamed to
 * OUT/slimset.index -> files that only the old one names deleted (in a tree before the renaming: a file may become a folder). Each step can
 * be interrupted anywhere and be repeated. Between the first and the third there is no index, so no reader sees a mixture.
 */
#ifndef PUBLISH_H
#define PUBLISH_H

#include "index.h"

#define PUBLISH_WORK ".slimset"

struct out_dirs {
    int out, work, stage; /* descriptors, -1 closed; `out` carries the lock */
    bool work_existed, out_created;
};

/* Opens OUT (creating it), takes the lock, makes .slimset and stage. SLIMSET_USAGE: not empty and not ours, or in use by another run. */
enum slimset_status publish_open(const char *out, struct out_dirs *d, struct slimset_error *err);
void publish_close(struct out_dirs *d);

/* Finishes a publication that an earlier run began, if there is one. */
enum slimset_status publish_roll(struct out_dirs *d, bool *rolled, struct slimset_error *err);

/* Empties the stage folder but for the files that these fragments name (of shards an interrupted run finished): what else lies there is
 * of work that was given up, and must never reach OUT. fragments: names in .slimset. */
enum slimset_status publish_restage(struct out_dirs *d, char (*fragments)[320], size_t n, struct slimset_error *err);

/* Removes the plan, fragments and the stage folder: after publishing, or for --force. keep_stat: leave stat. */
enum slimset_status publish_clean(struct out_dirs *d, struct slimset_error *err);

#endif
