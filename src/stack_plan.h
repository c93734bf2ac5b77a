/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout `npy`, while packing: what a row is, and which samples may be one.
 */
#ifndef STACK_PLAN_H
#define STACK_PLAN_H

#include "item.h"
#include "plan.h"
#include "pool.h"

/* SLIMSET_USAGE for options that --to npy cannot follow: it leaves no choice of codecs. */
enum slimset_status stack_check(const struct slimset_recipe *r, struct slimset_error *err);

/* Settles p->row: as an earlier run had it, else as the first sample of the plan that can be made comes out. It is frozen with the rules. */
enum slimset_status stack_settle(struct plan *p, struct pool *pool, const struct slimset_run *run, struct slimset_error *err);

/* The field of an answer that becomes the row: *field, its number; *header, bytes before its values. SLIMSET_BAD_INPUT with the reason when
 * the sample cannot be a row; *failed: the entry to blame. row NULL: any shape will do; *found: its dtype and shape. */
enum slimset_status stack_pick(const struct plan *p, const struct plan_sample *s, const struct item_answer *a, int spill_fd,
                               const struct npy *row, uint32_t *field, uint64_t *header, struct npy *found, uint32_t *failed,
                               struct slimset_error *err);

/* Does the entry's file become a row? Other files of a sample are left out. */
bool stack_takes(const struct plan *p, const struct entry *e);

#endif
