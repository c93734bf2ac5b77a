/* SPDX-License-Identifier: Apache-2.0
 *
 * From planes, or from interleaved pixels, to what a caller of the reader wants: pixels side by side
 * (HWC) or planes one behind the other (CHW), in memory with a stride. Pure functions.
 */
#ifndef PIXEL_OUT_H
#define PIXEL_OUT_H

#include "image.h"
#include "slimset/reader.h"

/* Where pixels go: w x h of them with `channels` samples of `bits` (8 or 16). */
struct pixel_out {
    uint8_t *to;
    size_t stride_bytes; /* from row to row; CHW: within a plane */
    uint32_t w, h;
    uint8_t channels, bits;
    enum slimset_axes layout;
};

/* Bytes from one plane of a CHW output to the next. */
size_t pixel_out_plane_bytes(const struct pixel_out *out);

/* One sample plane for each channel of out, from column x, row y on; NULL: the largest value
 * everywhere (alpha of what has none). */
void pixel_out_planes(const struct pixel_out *out, const struct image_plane *const *plane,
                      uint32_t x, uint32_t y);

/* Y, Cb, Cr planes of out->w x out->h to RGB, as libjpeg converts. out has 3 channels, or 4 with the
 * last one full. 8 bits. */
void pixel_out_ycc(const struct pixel_out *out, const struct image_plane plane[3]);

/* Rows of interleaved 8-bit pixels of n samples, to the channels of out: as many, 3 to 1 by Pillow's
 * luma. */
void pixel_out_rows(const struct pixel_out *out, const uint8_t *from, size_t from_stride_bytes,
                    unsigned n);

#endif
