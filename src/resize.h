/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole image into its output geometry: every plane resampled once, EXIF orientation baked in, padding
 * filled. JPEG planes stay planes: each chroma plane gets the source region that keeps its siting right at odd sizes,
 * whatever the subsampling on both sides and the scale of the decode.
 */
#ifndef RESIZE_H
#define RESIZE_H

#include "geometry.h"
#include "image.h"
#include "resample.h"

enum resize_filter {
    RESIZE_LANCZOS = 0,
    RESIZE_NEAREST,        /* masks, depth maps */
    RESIZE_MAJORITY        /* masks (majority.h) */
};

struct resize_job {
    const struct geometry *geometry;
    int orientation;       /* 1..8, of the stored picture */
    enum resize_filter filter;
    unsigned sub_x, sub_y; /* wanted chroma subsampling of YCC output: 1 or 2 */
    const uint8_t *background; /* RGB, for padding */
};

/* in: as decoded (contents stay). tmp: scratch. out: upright, geometry->w x h. SLIMSET_NO_MEMORY; what
 * resize_majority says. */
enum slimset_status resize_image(struct resampler *r, const struct image *in, const struct resize_job *job,
                                 struct image *tmp, struct image *out, struct slimset_error *err);

#endif
