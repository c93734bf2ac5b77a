/* SPDX-License-Identifier: Apache-2.0
 *
 * Resampling of single planes. Lanczos-3 with antialiasing (the filter is widened when shrinking,
 * as Pillow does), in the gamma-encoded domain, two passes in fixed point, the second one rounding
 * to whole samples: the same bytes from every kernel (portable C, AVX2) and on every architecture,
 * because only integers meet the samples, and the coefficients are made of integers too.
 *
 * A resampler keeps its coefficient tables (cached by geometry) and its scratch from plane to
 * plane. One per worker; not thread-safe. Memory: the tables of the last eight axes, each up to
 * about 16 bytes (16-bit planes: 64) per sample of the longer of both sides, and scratch of about
 * 100 bytes per sample of a row and 130 per row that one destination sample spans.
 */
#ifndef RESAMPLE_H
#define RESAMPLE_H

#include "image.h"

struct resampler;                      /* opaque */
struct resampler *resampler_new(void); /* NULL without memory */
void resampler_free(struct resampler *r);

/* The part of the source plane that the destination covers, in source samples; sample i covers
 * [i, i+1). The whole plane: {0, 0, w, h}. Filter taps that fall outside of the plane are left out
 * and the others scaled up to a sum of 1 (Pillow's rule); taps between the region and the plane's
 * edge count. The region may reach beyond the plane: a destination sample whose centre lies
 * outside is taken at the plane's edge. Finite; w and h above 0. */
struct resample_region {
    double x, y, w, h;
};

/* dst (w, h, stride, data set by the caller, any alignment) from region of src. bits: 8 or 16, of
 * both; 16-bit rows must be aligned to 2 bytes. dst may not overlap src, and both are at least
 * 1 x 1. Any ratio, up or down, axes independent; a ratio of exactly 1 with an integer offset
 * copies; a constant plane stays that constant. Of src IMAGE_ROW_SLACK bytes behind each row are
 * read, without meaning; of dst only w samples of each row are written. SLIMSET_NO_MEMORY only. */
enum slimset_status resample_lanczos(struct resampler *r, const struct image_plane *src,
                                     struct resample_region region, struct image_plane *dst,
                                     uint8_t bits, struct slimset_error *err);

/* Nearest: dst(i) = src(floor((i + 0.5) * W / T)) on both axes, exactly, in integer arithmetic.
 * bits 8 or 16. Whole planes. */
void resample_nearest(const struct image_plane *src, struct image_plane *dst, uint8_t bits);

/* dst = src transposed or flipped into the upright position of EXIF orientation 1..8; dst->w/h are
 * swapped against src for 5..8. bits 8 or 16. dst may not overlap src. */
void resample_orient(const struct image_plane *src, int orientation, struct image_plane *dst,
                     uint8_t bits);

/* Forces the portable kernel (0), or the best of this machine (-1, the default), for tests. */
void resampler_set_kernel(struct resampler *r, int level);

#endif
