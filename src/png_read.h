/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG in: a small strict reader of our own over ISA-L inflate and CRC, with SIMD unfilter. Reads every
 * colour type, bit depth and both interlace methods; the 8-bit non-interlaced ones fast. APNG: the default
 * image. One reader per worker keeps its buffers; not thread-safe.
 *
 * Acceptance: bad IHDR, IDAT CRC or PLTE CRC, Adler-32, truncation before the last row, bad filter
 * byte, a zlib stream that does not end, critical chunks out of order or unknown: reject. A bad CRC of an
 * ancillary chunk, no IEND, bytes behind IEND, too much image data: accepted with NOTE_WARNING or
 * NOTE_TAIL_BYTES.
 */
#ifndef PNG_READ_H
#define PNG_READ_H

#include "image.h"

struct png_reader; /* opaque */
struct png_reader *png_reader_new(const struct image_limits *limits); /* NULL without memory */
void png_reader_free(struct png_reader *r);

/* Walks all chunks (eXIf may follow IDAT). Fills *info: size, bits, palette, alpha (type 4, 6 or
 * tRNS), interlace (progressive), orientation from eXIf, ICC presence (iCCP, compressed: info->icc stays NULL),
 * gAMA other than 45455 -> NOTE_GAMMA, frames (acTL). Limits are checked here.
 * SLIMSET_BAD_INPUT with class and text. */
enum slimset_status png_read_header(struct png_reader *r, const uint8_t *data, size_t n,
                                    struct image_info *info, struct slimset_error *err);

/* Decodes to planes. keep_index false (images): palette becomes RGB (+ alpha when tRNS), 1/2/4-bit gray is
 * scaled to 8, tRNS of gray and RGB becomes an alpha plane; 16-bit stays 16, native endian.
 * keep_index true (masks): palette gives IMAGE_INDEX with the palette, 1/2/4-bit gray keeps its raw
 * values, tRNS of gray/RGB is ignored. SLIMSET_BAD_INPUT per the acceptance table. */
enum slimset_status png_decode(struct png_reader *r, const uint8_t *data, size_t n,
                               const struct image_info *info, bool keep_index, struct image *out,
                               uint32_t *notes, struct slimset_error *err);

/* The acceptance table alone: everything is inflated and checked, no pixels are handed out. */
enum slimset_status png_check(struct png_reader *r, const uint8_t *data, size_t n,
                              const struct image_info *info, uint32_t *notes, struct slimset_error *err);

/* Appends to *out the file without metadata: keeps IHDR PLTE tRNS IDAT IEND (and sBIT), byte for byte. */
enum slimset_status png_strip(const uint8_t *data, size_t n, struct buf *out, struct slimset_error *err);

/* The decompressed ICC profile of the file, appended to *out (at most 4 MiB); *out unchanged when there
 * is none. SLIMSET_BAD_INPUT where it is corrupt. */
enum slimset_status png_icc(struct png_reader *r, const uint8_t *data, size_t n, struct buf *out,
                            struct slimset_error *err);

#endif
