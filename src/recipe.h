/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe as text: what an index remembers of it, and what names a difference. Every field of struct slimset_recipe that changes bytes is a
 * line "recipe.NAME=VALUE"; the tool's and the codecs' versions are lines of their own.
 */
#ifndef RECIPE_H
#define RECIPE_H

#include "base/buf.h"
#include "index.h"
#include "slimset/pack.h"

/* Appends the lines. */
enum slimset_status recipe_text(const struct slimset_recipe *r, struct buf *out, struct slimset_error *err);

/* True when the recipe, or settings of some files, resize. */
bool recipe_resizes(const struct slimset_recipe *r);

/* "none", "long:512"... */
void recipe_resize_text(const struct slimset_recipe *r, char *text, size_t n);

/* Compares with what a file of an earlier run says. SLIMSET_DIFFERS: the text names each difference. */
enum slimset_status recipe_compare(const struct buf *text, const struct index *ix, const char *out, struct slimset_error *err);

/* The word for its layout in META: "shards", "tree", "npy". */
const char *recipe_layout(const struct slimset_recipe *r);

#endif
