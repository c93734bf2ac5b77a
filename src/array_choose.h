/* SPDX-License-Identifier: Apache-2.0
 *
 * Which codec the arrays of a field get: decided by the probe from the sizes of trials (never from time), frozen as text in the plan and
 * in the index, and sent along with every request.
 *
 *      "zstd:default"                                       all arrays of the field
 *      "zstd:default;image=blosc:bitshuffle:default"        of an .npz: arrays of that name
 */
#ifndef ARRAY_CHOOSE_H
#define ARRAY_CHOOSE_H

#include "plan.h"

/* Fills in->array and in->choice with what the rule's params (or, before the probe has settled them, the recipe) say. Arrays of a
 * WebDataset source, and those of a tree, keep their bytes unless a codec was asked for. */
void array_choices(const struct plan *p, const struct plan_rule *rule, bool webdataset, struct item_input *in);

/* Sizes that the probe saw, by name of array. Zero it. */
struct array_trials {
    struct array_trial {
        char name[ARRAY_NAME_MAX + 1]; /* "" for a .npy file */
        uint64_t tried, size[3];       /* bytes that were tried, and what each enum array_filter made of them */
    } of[ITEM_CHOICES_MAX];
    unsigned n;
    uint64_t in_bytes, tried, stored;  /* for the ratio of the field */
    unsigned files;
};

/* Takes in the answer of one probed input. */
void array_trials_take(struct array_trials *t, const struct item_answer *a);

/* Decides codec, params and ratio of a rule of role array; *why for people. */
enum slimset_status array_trials_settle(const struct array_trials *t, const struct slimset_recipe *recipe, struct plan_rule *rule,
                                        const char **why, struct slimset_error *err);

#endif
