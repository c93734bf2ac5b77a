/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG out: no metadata, not interlaced, lossless for every image this project holds (gray,
 * gray+alpha, RGB, RGBA in 8 and 16 bits; palette indices with palette and tRNS at the smallest
 * depth that holds them). Filters: none for indices and for gray images of few values, else the
 * minimum-sum-of-absolute-differences choice of the PNG specification. Deflate by zlib. One writer
 * per worker; not thread-safe.
 */
#ifndef PNG_WRITE_H
#define PNG_WRITE_H

#include "image.h"

struct png_writer; /* opaque */

struct png_writer *png_writer_new(void); /* NULL without memory */
void png_writer_free(struct png_writer *w);

/* Appends a PNG of im to *out; level 1..9 (zlib). min_bits: 0 picks the smallest gray or index
 * depth that is exact, else at least 1, 2, 4 or 8 (a mask keeps the depth it came with). Gray
 * written at less than 8 bits would be read back scaled, so gray always has 8 or 16 bits unless
 * raw_gray_bits is 1, 2 or 4: then the plane holds raw values below 2^bits and is written at that
 * depth (label maps). SLIMSET_INTERNAL for subsampled, CMYK or YCC images. */
enum slimset_status png_write(struct png_writer *w, const struct image *im, int level, int min_bits,
                              int raw_gray_bits, struct buf *out, struct slimset_error *err);

#endif
