/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins files of several folders to samples: --field image='val/{}.png' --field mask='valannot/{}.png'.
 *
 * A file belongs to the last --field whose pattern matches its path (or, where there are several sources, its path below its
 * source). One NAME leads: image, else, of several, the first that is not mask, depth, label, array or copy, else array where it comes first of several.
 * A file of the leading NAME stays in its sample with what else the rule of keys.h puts there; the sample is now called as the stem.
 * Files of the other NAMEs go to the sample of their stem and are its field NAME.ext. Where no NAME leads, samples
 * keep their names, and a file goes to the sample whose path, or end of the path behind a "/", is its stem.
 *
 * Nothing is lost silently: a file whose stem no sample has, or several have, is left out and counted in a warning; of two
 * files for one field of a sample the second is a reject; samples that miss a field are counted in a warning.
 */
#ifndef JOIN_H
#define JOIN_H

#include "listing.h"
#include "pattern.h"

/* keys_group, with the recipe's --field options: sets name, key_bytes, join and attached of the entries and orders them into samples.
 * SLIMSET_USAGE: a pattern that makes no sense or matches nothing; SLIMSET_LIMIT: a sample misses a field, with --strict. */
enum slimset_status join_group(struct listing *l, const struct slimset_recipe *recipe, const struct slimset_run *run,
                               struct slimset_error *err);

/* Is every --field well formed? SLIMSET_USAGE. */
enum slimset_status join_check(const struct slimset_recipe *recipe, struct slimset_error *err);

/* The role a joined entry has by its NAME, -1 when the name says nothing or the entry is not joined. */
int join_role(const struct slimset_recipe *recipe, const struct entry *e);

#endif
