/* SPDX-License-Identifier: Apache-2.0
 *
 * One sample: its input bytes in, its fields out. This is all the work a worker does; it runs in
 * the same way in the coordinator with --in-process. Everything here is a pure function of the bytes, the
 * request and the recipe.
 */
#ifndef CONVERT_H
#define CONVERT_H

#include "item.h"

/* Nothing in the recipe touches pixels: a field of codec KEEP keeps its bytes and its name. */
bool convert_keeps_pixels(const struct slimset_recipe *r);

struct converter; /* opaque: decoders, encoders, resampler, buffers of one worker */

/* slow: libvips is started in this process. The recipe is copied (its strings and rules are not used). NULL without memory. */
struct converter *converter_new(const struct slimset_recipe *recipe, bool slow);
void converter_free(struct converter *c);

/* Reads the inputs through fds and writes the answer blob (see item.h) into *blob (emptied first). Faults of the
 * sample are inside the blob; the return value is SLIMSET_OK, or SLIMSET_NO_MEMORY where even the blob cannot be held. */
enum slimset_status convert_item(struct converter *c, const struct item_request *req, const int *fds, struct buf *blob,
                                 struct slimset_error *err);

#endif
