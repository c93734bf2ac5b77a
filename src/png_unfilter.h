/* SPDX-License-Identifier: Apache-2.0
 *
 * Undoing the five PNG row filters, in place, one row at a time while it is in the cache.
 *
 * Call png_unfilter_init once per image, then u.row[filter](row, prev, n, bpp) per row. Where
 * PNG_PAETH_ROWS paeth rows follow each other, u.paeth_rows, if not NULL, takes them together in
 * about half the time. SIMD and portable code give the same bytes. No state beyond the table
 * of functions; any thread.
 */
#ifndef PNG_UNFILTER_H
#define PNG_UNFILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PNG_FILTERS = 5, /* 0 none, 1 sub, 2 up, 3 average, 4 paeth: the values of a filter byte */
    PNG_FILTER_PAETH = 4,
    PNG_PAETH_ROWS = 4,
    PNG_UNFILTER_SLACK = 32 /* bytes that must be readable (any value) behind row and prev */
};

/* row: n filtered bytes, replaced by the samples; nothing behind row[n - 1] is written.
 * prev: n bytes of the row above, unfiltered; zeros for the first row (of a pass).
 * bpp: bytes per pixel, 1 for packed pixels: 1, 2, 3, 4, 6 or 8; n is a multiple of it. */
typedef void png_unfilter_fn(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp);

/* As png_unfilter_fn for PNG_PAETH_ROWS rows, each stride_bytes behind the one before; prev is
 * above the first. */
typedef void png_paeth_rows_fn(uint8_t *row, size_t stride_bytes, const uint8_t *prev, size_t n,
                               unsigned bpp);

struct png_unfilter {
    png_unfilter_fn *row[PNG_FILTERS];
    png_paeth_rows_fn *paeth_rows; /* NULL where this machine has none for this bpp */
};

/* The fastest functions for bpp on this machine; only portable ones when simd is false (tests). */
void png_unfilter_init(struct png_unfilter *u, unsigned bpp, bool simd);

/* Whether this machine has the SIMD instructions that png_unfilter and png_expand use. */
bool png_simd_supported(void);

#endif
