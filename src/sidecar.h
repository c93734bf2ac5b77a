/* SPDX-License-Identifier: Apache-2.0
 *
 * Files beside the shards that some loaders want (--dali-idx, --energon): an index for each shard, and
 * a folder of metadata. All of it follows from the index; the META line "beside" says which there are.
 * So nothing remembers them: publication writes, renames and removes what the index calls for, and
 * verify compares.
 */
#ifndef SIDECAR_H
#define SIDECAR_H

#include "index.h"
#include "slimset/pack.h"

#define SIDECAR_META "beside"
#define SIDECAR_FOLDER ".nv-meta" /* the only one that a sidecar lies in */

/* data and n: the content; NULL and 0 when only names were asked for. */
typedef enum slimset_status sidecar_fn(void *arg, const char *name, const void *data, size_t n,
                                       struct slimset_error *err);

/* Calls fn for each file that this index calls for: none without the META line, none for a tree.
 * SLIMSET_USAGE when a name cannot be said in DALI's index. */
enum slimset_status sidecar_each(struct index *ix, bool content, sidecar_fn *fn, void *arg,
                                 struct slimset_error *err);

/* The META line of a recipe, with its line feed; "" when it asks for nothing. */
const char *sidecar_meta(const struct slimset_recipe *recipe);

/* Can this name stand in DALI's index? A blank would end it there. */
bool sidecar_dali_name(const char *name, size_t n);

/* Are all of them in the folder dir, byte for byte? */
enum slimset_status sidecar_current(struct index *ix, int dir, bool *current, struct slimset_error *err);

/* Writes those that are not in the folder `out` as they should be into `stage`, durably. */
enum slimset_status sidecar_stage(struct index *ix, int out, int stage, struct slimset_error *err);

#endif
