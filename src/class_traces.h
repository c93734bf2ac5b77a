/* SPDX-License-Identifier: Apache-2.0
 *
 * Does something that was done to images, or the format they came in, go with their class? A network then learns that instead of
 * what the pictures show: cats that were passed through and dogs that were encoded again can be told apart without a look at
 * either. Counted in one pass over the index, in memory of classes x traits.
 */
#ifndef CLASS_TRACES_H
#define CLASS_TRACES_H

#include "index.h"
#include "slimset/pack.h"

struct class_traces; /* opaque */

/* NULL without memory. */
struct class_traces *class_traces_new(uint64_t n_classes);
void class_traces_free(struct class_traces *t);

/* Counts an image of a class (0 .. n_classes-1; others are not counted). */
void class_traces_add(struct class_traces *t, int32_t cls, const struct slimset_field *f);

/* Fills report->trace with what goes with the class, the strongest first; class names come from the index. */
enum slimset_status class_traces_report(const struct class_traces *t, struct index *ix, struct slimset_report *report,
                                        struct slimset_error *err);

#endif
