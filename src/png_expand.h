/* SPDX-License-Identifier: Apache-2.0
 *
 * An unfiltered PNG row to one row of samples per plane (image.h): unpacking of 1, 2 and 4 bits,
 * deinterleaving, palette look-up, tRNS, byte order. Set up once per image with png_expand_init,
 * then png_expand_row per row. SIMD and portable code give the same samples. Const after init; any
 * thread.
 */
#ifndef PNG_EXPAND_H
#define PNG_EXPAND_H

#include "png_chunks.h"

enum {
    PNG_EXPAND_SLACK =
        IMAGE_ROW_SLACK /* bytes readable behind a row, and writable behind a plane's row */
};

struct png_expand {
    enum png_colour colour;
    uint8_t depth;
    bool keep_index; /* see png_decode */
    bool simd;
    bool alpha;              /* an alpha plane comes out */
    bool key;                /* it comes from a gray or RGB tRNS: */
    uint16_t key_value[3];   /* samples at the stored depth that are transparent */
    uint32_t palette_n;      /* palette images: indices at or above it are an error */
    uint8_t palette[256][4]; /* RGBA */
};

void png_expand_init(struct png_expand *e, const struct png_chunks *c, bool keep_index, bool simd);

/* What the planes will be. */
enum image_colour png_expand_colour(const struct png_expand *e);
uint8_t png_expand_bits(const struct png_expand *e);

/* row: w pixels as stored. plane[i]: w samples of png_expand_bits(e), 2-byte aligned where those
 * are 16. False when a palette index has no palette entry. */
bool png_expand_row(const struct png_expand *e, const uint8_t *row, uint32_t w,
                    uint8_t *const *plane);

#endif
