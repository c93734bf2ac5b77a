/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to whole images between decoding and encoding: colour, alpha, depth, channels. Plain C
 * on planes; everything here works on full-size planes (no subsampling) unless said. In place where the name
 * says nothing else; planes are dropped by lowering n_planes. Only integers meet the samples.
 */
#ifndef PIXELS_H
#define PIXELS_H

#include "image.h"

/* True when the alpha plane is at its maximum everywhere. */
bool pixels_alpha_opaque(const struct image *im);

/* Takes the alpha plane off. */
void pixels_drop_alpha(struct image *im);

/* Composites on an RGB background (8-bit numbers, spread to 16 where the image has 16) and takes alpha off. A gray image on a
 * coloured background becomes RGB in *scratch, which is then swapped with *im. */
enum slimset_status pixels_flatten(struct image *im, const uint8_t background[3], struct image *scratch,
                                   struct slimset_error *err);

/* CMYK (255 = no ink) to RGB by the plain formula, as Pillow's convert('RGB'): in place, planes 0..2. 8 bits. */
void pixels_cmyk_to_rgb(struct image *im);

/* 16-bit samples to 8 bits: lo..hi to 0..255 with rounding and clamping; >> 8 for shift. In place. */
void pixels_to_8bit(struct image *im, bool shift, double lo, double hi);

/* Is there a colour sample of a 16-bit image outside of lo..hi? */
bool pixels_outside(const struct image *im, double lo, double hi);

/* RGB to gray by Pillow's ITU-R 601-2 luma, 8 or 16 bits, in place (alpha moves down). */
void pixels_to_gray(struct image *im);

/* Gray to RGB, R = G = B, through *scratch (swapped). */
enum slimset_status pixels_to_rgb(struct image *im, struct image *scratch, struct slimset_error *err);

/* Palette indices to RGB (+ alpha) through *scratch (swapped). */
enum slimset_status pixels_expand(struct image *im, struct image *scratch, struct slimset_error *err);

/* Colour planes times alpha, 16 bits out, so that a filter does not bleed hidden colours; and back. */
enum slimset_status pixels_premultiply(struct image *im, struct image *scratch, struct slimset_error *err);
void pixels_unpremultiply(struct image *im, uint8_t bits);

/* One pixel's colour in the image's own model: background for padding (YCC, RGB, gray, 8 or 16 bits). */
uint16_t pixels_background(const struct image *im, unsigned plane, const uint8_t background[3]);

struct pixels_stats {
    uint32_t values;         /* distinct values of a one-channel image, up to 65; 0 for more channels */
    uint32_t min_value, max_value; /* of colours; of 8-bit images from the rows looked at (at most about 64), as are the shares */
    uint32_t upper_permille; /* of 16 bits: samples in the upper half of the range, */
    uint32_t levels;         /* high bytes that a thousandth of the samples or more have, */
    bool merges;             /* and whether dropping the low byte makes different values equal */
    uint32_t zero_permille;  /* pixels that are 0 in the first plane */
    uint32_t equal_permille; /* horizontal neighbours equal in all colour planes */
};
void pixels_stats(const struct image *im, struct pixels_stats *stats);

/* How many values of `before` are not in `after`: of one plane with 8 or 16 bits, or of three with 8 (a value is then the whole
 * colour; alpha is not looked at). Others: 0. *room holds a bit for each possible value. SLIMSET_NO_MEMORY. */
enum slimset_status pixels_values_lost(const struct image *before, const struct image *after, struct buf *room, uint32_t *lost,
                                       struct slimset_error *err);

#endif
