/* SPDX-License-Identifier: Apache-2.0
 *
 * From a source size to an output size: one function for every format and role, so that a JPEG and its
 * PNG mask always agree. Integer arithmetic where the mode allows it. Pure functions.
 */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#include "slimset/pack.h"

/* All in upright pixels (after EXIF orientation). */
struct geometry {
    uint32_t w, h;                     /* of the output */
    double src_x, src_y, src_w, src_h; /* the part of the source that is shown */
    uint32_t dst_x, dst_y, dst_w, dst_h; /* where it goes in the output (pad: inside; else all of it) */
    bool resized;                      /* pixels move: anything but a 1:1 copy of the whole */
};

/* The output geometry of a w x h source. Sizes are max(1, floor(x * s + 0.5)). Never enlarges unless
 * recipe->upscale. */
struct geometry geometry_of(const struct slimset_recipe *recipe, uint32_t w, uint32_t h);

/* A rectangle of the upright picture as one of the stored picture under EXIF orientation 1..8;
 * up_w, up_h: size of the upright picture. */
struct geometry_rect {
    double x, y, w, h;
};
struct geometry_rect geometry_stored(int orientation, uint32_t up_w, uint32_t up_h, struct geometry_rect upright);

/* Which stored axes run against the upright ones (the side at which an odd chroma plane is anchored). */
bool geometry_flips_x(int orientation);
bool geometry_flips_y(int orientation);

#endif
