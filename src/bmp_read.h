/* SPDX-License-Identifier: Apache-2.0
 *
 * BMP and PNM (PBM, PGM, PPM, PAM-less; ASCII and binary) in: readers of our own, because libvips
 * would hand BMP to ImageMagick and blocks PNM as untrusted. Pure functions on the caller's bytes.
 *
 * BMP: OS/2 and Windows headers, 1/2/4/8-bit palette, RLE4/RLE8, 16/24/32-bit, BITFIELDS, top-down;
 * 32-bit alpha only where a mask declares it (V3 and later headers, ALPHABITFIELDS). A palette
 * comes out as RGB, or as GRAY when it is the identity (entry i is i; two entries: 0 and 255).
 * Masks wider than 8 bits give 16-bit planes. Missing pixel data, run-length data that stops early:
 * reject truncated. A colour outside the palette or a run outside the image: reject corrupt. PNM:
 * P1..P6, maxval 1..65535 (scaled to the full 8- or 16-bit range, rounded, as netpbm defines);
 * comments. A sample above maxval: reject corrupt.
 */
#ifndef BMP_READ_H
#define BMP_READ_H

#include "image.h"

enum slimset_status bmp_read_header(const uint8_t *data, size_t n,
                                    const struct image_limits *limits, struct image_info *info,
                                    struct slimset_error *err);
enum slimset_status bmp_decode(const uint8_t *data, size_t n, const struct image_info *info,
                               struct image *out, uint32_t *notes, struct slimset_error *err);
enum slimset_status pnm_read_header(const uint8_t *data, size_t n,
                                    const struct image_limits *limits, struct image_info *info,
                                    struct slimset_error *err);
enum slimset_status pnm_decode(const uint8_t *data, size_t n, const struct image_info *info,
                               struct image *out, uint32_t *notes, struct slimset_error *err);

#endif
