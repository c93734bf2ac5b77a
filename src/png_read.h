/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG in: a small strict reader of our own over inflate.h, with SIMD unfilter. Reads
 * every colour type, bit depth and both interlace methods; the 8-bit non-interlaced ones fast.
 * APNG: the default image. One reader per worker keeps its buffers; not thread-safe.
 *
 * Acceptance. Rejected: a bad CRC of IHDR, PLTE, tRNS or IDAT, a bad Adler-32, a filter byte above
 * 4, a palette index beyond the palette, critical chunks out of order or twice, a second tRNS
 * (corrupt); truncation before the last row, a zlib stream that does not end (truncated); an
 * unknown critical chunk (unsupported); image data that goes on for more than twice the image
 * (ratio). Accepted with NOTE_WARNING: a bad CRC of another ancillary chunk (its content is then
 * ignored), no IEND or a damaged one, too much image data, a PLTE or tRNS that is too long or has
 * no place in the colour type (ignored). With NOTE_TAIL_BYTES: bytes behind IEND. tRNS counts as
 * holding pixels: without it an image would silently turn opaque.
 */
#ifndef PNG_READ_H
#define PNG_READ_H

#include "image.h"

struct png_reader; /* opaque */

struct png_reader *png_reader_new(const struct image_limits *limits); /* NULL without memory */
void png_reader_free(struct png_reader *r);

/* Walks all chunks (eXIf may follow IDAT). Fills *info: size, bits, palette, alpha (type 4, 6 or
 * tRNS), interlace (progressive), orientation from eXIf, ICC presence (iCCP, compressed: info->icc
 * stays NULL), gAMA other than 45455 -> NOTE_GAMMA, frames (acTL). Limits are checked here.
 * SLIMSET_BAD_INPUT with class and text. */
enum slimset_status png_read_header(struct png_reader *r, const uint8_t *data, size_t n,
                                    struct image_info *info, struct slimset_error *err);

/* Decodes to planes. keep_index false (images): palette becomes RGB (+ alpha when tRNS), 1/2/4-bit
 * gray is scaled to 8, tRNS of gray and RGB becomes an alpha plane; 16-bit stays 16, native endian.
 * keep_index true (masks): palette gives IMAGE_INDEX with the palette, 1/2/4-bit gray keeps its raw
 * values, tRNS of gray/RGB is ignored. SLIMSET_BAD_INPUT per the acceptance table. */
enum slimset_status png_decode(struct png_reader *r, const uint8_t *data, size_t n,
                               const struct image_info *info, bool keep_index, struct image *out,
                               uint32_t *notes, struct slimset_error *err);

/* The acceptance table alone: everything is inflated and checked, no pixels are handed out. */
enum slimset_status png_check(struct png_reader *r, const uint8_t *data, size_t n,
                              const struct image_info *info, uint32_t *notes,
                              struct slimset_error *err);

/* Appends to *out the file without metadata: keeps IHDR PLTE tRNS IDAT IEND (and sBIT), byte for
 * byte; an IEND is added where there is none. Checks the chunks (no limits on size), not the image
 * data: png_check does. SLIMSET_BAD_INPUT as png_read_header; *out is unchanged on failure. */
enum slimset_status png_strip(const uint8_t *data, size_t n, struct buf *out,
                              struct slimset_error *err);

/* The decompressed ICC profile of the file, appended to *out (at most 4 MiB); *out unchanged when
 * there is none. SLIMSET_BAD_INPUT where it is corrupt. */
enum slimset_status png_icc(struct png_reader *r, const uint8_t *data, size_t n, struct buf *out,
                            struct slimset_error *err);

#endif
