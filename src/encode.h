/* SPDX-License-Identifier: Apache-2.0
 *
 * One door to all encoders. An encoder set belongs to one worker.
 */
#ifndef ENCODE_H
#define ENCODE_H

#include "image.h"
#include "slimset/pack.h"

struct encoder; /* opaque */
struct encoder *encoder_new(bool slow); /* NULL without memory; slow: libvips is started (WebP) */
void encoder_free(struct encoder *e);

/* Appends im in the codec (JPEG, PNG, WEBP, NPY) with the recipe's settings. label_bits: 0, or the stored depth of raw label values
 * (PNG gray of 1, 2, 4 bits). NPY: uint8 or uint16, C order, shape (h, w, channels).
 * SLIMSET_NEED_SLOW for WebP without libvips; SLIMSET_BAD_INPUT where the codec cannot hold the size. */
enum slimset_status encode_image(struct encoder *e, const struct image *im, enum slimset_codec codec,
                                 const struct slimset_recipe *recipe, int label_bits, struct buf *out,
                                 struct slimset_error *err);

#endif
