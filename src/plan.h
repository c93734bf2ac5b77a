/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: which samples there are, in which split, shard and order, and what is done to each field. A pure function of the
 * listing, the recipe and the frozen decisions (rules, splits and shard limits, class numbers), which a first run makes and every later run on the same OUT
 * takes over from its index.
 *
 *   plan_samples   listing -> samples with splits, rules for their fields (roles as names suggest)
 *   probe_run      (probe.h) looks at a fixed subset and settles the rules
 *   plan_shards    splits, classes, places, shards
 */
#ifndef PLAN_H
#define PLAN_H

#include "index.h"
#include "listing.h"
#include "npy.h"

/* How one kind of source field is treated; frozen. */
struct plan_rule {
    char *name;            /* "png", "seg.png": lower case; owned */
    char *reason;          /* for people; owned; NULL until settled */
    char *params;          /* of the codec, as the index has them; owned; NULL none */
    uint8_t hint;          /* enum role_hint, or what a rule of the user's gives (plan.c); with the name it tells rules apart */
    uint8_t role;          /* enum slimset_role */
    uint8_t codec;         /* enum slimset_codec */
    uint8_t flags;         /* ITEM_SHIFT_16 */
    bool settled;          /* taken over from an earlier run, or decided */
    bool by_user;          /* role given by --image and the like */
    uint32_t probed;
    double ratio;          /* output per input byte, for shard sizes */
    uint64_t n_files, bytes;
};

struct plan_sample {
    uint64_t place;        /* seeded hash of its path: the order within a shuffled split */
    uint32_t first;        /* entry */
    uint16_t n;            /* entries */
    uint16_t split;
    int32_t cls;           /* -1 none */
    uint8_t suffix;        /* its key needs the path's hash to be distinct */
    uint8_t duplicate;     /* another sample has its key: a reject */
    uint8_t zero[2];
};

struct plan_split {
    char *name;
    enum slimset_order order;
    size_t first_sample, n_samples; /* in plan->samples */
    size_t first_shard, n_shards;   /* in plan->shards */
    uint64_t bytes;                 /* estimated output */
};

struct plan_shard {
    uint32_t split, number;
    uint64_t first_hash;            /* shuffled: the smallest place in it; the first shard has 0 */
    char *first_path;               /* source order: the smallest key path in it; "" for the first; owned */
    size_t first_sample, n_samples; /* in plan->samples */
};

struct plan {
    const struct slimset_recipe *recipe;
    struct listing listing;
    struct plan_sample *samples;
    size_t n_samples;
    struct plan_rule *rules;
    size_t n_rules;
    struct plan_split *splits;
    size_t n_splits;
    char **classes;
    size_t n_classes;
    struct plan_shard *shards;
    size_t n_shards;
    bool class_trees;               /* samples carry a cls field */
    struct npy row;                 /* layout npy, when row_known: what every sample becomes (stack_plan.h) */
    bool row_known;
    bool frozen;                    /* decisions came from an earlier run */
    uint64_t recipe_hash;           /* of the recipe's text: part of what ties a shard to how it was made */
};

/* Which settings the rule's files are made with (item_input.settings), and what these are. */
uint8_t plan_rule_settings(const struct plan_rule *r);
const struct slimset_recipe *plan_settings(const struct plan *p, const struct plan_rule *r);

void plan_init(struct plan *p, const struct slimset_recipe *recipe);
void plan_fini(struct plan *p);

/* Takes rules, splits with their shards, and classes from the index or plan file of an earlier run. Before plan_samples. */
enum slimset_status plan_freeze(struct plan *p, struct index *ix, struct slimset_error *err);

/* Groups the listing into samples and finds the rule of every entry. Samples without anything to convert are not in the plan (listing->left_out). */
enum slimset_status plan_samples(struct plan *p, const struct slimset_run *run, struct slimset_error *err);

/* Places samples into splits, classes and shards; rules must be settled. */
enum slimset_status plan_shards(struct plan *p, const struct slimset_run *run, struct slimset_error *err);

/* The shard-stage key of a sample (see keys_text). */
size_t plan_key(const struct plan *p, const struct plan_sample *s, char *text);

/* Writes the decisions as a plan file (kind PLAN) or hands them to an index being written: rules, classes. */
enum slimset_status plan_put_decisions(const struct plan *p, struct index_writer *w, struct slimset_error *err);
enum slimset_status plan_put_shard(const struct plan *p, size_t shard, struct slimset_shard *record, struct index_writer *w,
                                   struct slimset_error *err);

#endif
