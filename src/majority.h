/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks made smaller by majority: an output pixel gets the most frequent pixel of its footprint.
 */
#ifndef MAJORITY_H
#define MAJORITY_H

#include "image.h"
#include "resample.h"

/* to: one plane for each plane of in, all of one size, written from the region of in (whose planes all have one size). The
 * footprint of an output pixel are the source pixels whose centres lie in it, so each source pixel counts once; where it holds
 * none, the pixel under its middle. Of several most frequent ones the smallest wins: of several planes the first counts most.
 * SLIMSET_BAD_INPUT/unsupported for more than 65,536 different pixels in several planes; SLIMSET_NO_MEMORY. */
enum slimset_status resize_majority(const struct image *in, struct resample_region region, struct image_plane *to,
                                    struct slimset_error *err);

#endif
