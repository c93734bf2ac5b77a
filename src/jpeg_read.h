/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG in: libjpeg-turbo straight to planes, with acceptance by message code of our own.
 *
 * jpeg_reader_header (no libjpeg: a marker walk) -> jpeg_decode or jpeg_check -> jpeg_strip. A
 * reader keeps buffers from file to file but nothing of a file; one per worker, not thread-safe.
 * All bytes of a file are in memory. Nothing here allocates from sizes that the limits have not
 * passed.
 *
 * Acceptance (doc/pixels.md has the table): data that runs out before the last row is complete,
 * JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE, bad progression and
 * every error: reject. JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR, JWRN_NOT_SEQUENTIAL (Samsung SOS),
 * JWRN_ADOBE_XFORM, bytes after EOI, a missing EOI with all rows there: accepted, NOTE_WARNING /
 * NOTE_TAIL_BYTES. How "all rows there" is known without EOI: the Huffman decoders warn
 * (JWRN_HIT_MARKER) as soon as they need one bit that is not in the file; a progressive file must
 * besides have sent every bit of every coefficient; an arithmetic-coded one cannot be told and is
 * rejected.
 *
 * Every name here that begins with jpeg_ must not be one of libjpeg's: a function of ours with such
 * a name would take its place in libvips and libtiff too. So the header reader is not called
 * jpeg_read_header.
 */
#ifndef JPEG_READ_H
#define JPEG_READ_H

#include "image.h"

struct jpeg_reader; /* opaque; owns a jpeg_decompress_struct and row buffers */

/* NULL without memory. */
struct jpeg_reader *jpeg_reader_new(const struct image_limits *limits);
void jpeg_reader_free(struct jpeg_reader *r);

/* Walks the markers up to the end (scans are counted by SOS markers: scan limits are decided here,
 * by arithmetic, as is the coefficient memory of progressive files: 6 bytes x max_pixels are
 * allowed). Fills *info: size, sampling factors, colour, EXIF orientation (first APP1 Exif wins;
 * SHORT, LONG and BYTE, both byte orders; XMP is not looked at), ICC (all APP2 chunks; info->icc
 * only when in one piece, else jpeg_icc joins them), metadata, tail bytes, frames = 1 + further
 * images of an MPO that are really there. SOF3 (lossless), 12-bit, SOF5-7, 11, 13-15, 2 or more
 * than 4 components, sampling factors that do not divide the largest: unsupported.
 * SLIMSET_BAD_INPUT else with class and text. */
enum slimset_status jpeg_reader_header(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                       struct image_info *info, struct slimset_error *err);

/* Decodes at 1/denom (1, 2, 4 or 8) into *out. info comes from jpeg_reader_header on the same
 * bytes. 8-bit YCbCr: IMAGE_YCC by raw output, planes as stored (per_px set from sampling factors
 * and scaled block size; w, h = the valid samples, ceil-ed as libjpeg does; out->w/h stay the
 * full-size pixels); 4:4:4 at the wanted scale when luma is stored smaller than chroma. Gray:
 * IMAGE_GRAY. RGB-coded: IMAGE_RGB. CMYK and YCCK: IMAGE_CMYK with Adobe's inversion as stored (255
 * = no ink; a CMYK file without Adobe marker is taken the same way, as Pillow and libvips do).
 * ISLOW DCT, no block smoothing. A caller who wants RGB of a YCbCr file sets info->colour to
 * IMAGE_RGB in a copy: libjpeg's smooth chroma upsampling and conversion. *notes gets bits.
 * SLIMSET_BAD_INPUT per the acceptance table; *out then has no meaning. */
enum slimset_status jpeg_decode(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                const struct image_info *info, unsigned denom, struct image *out,
                                uint32_t *notes, struct slimset_error *err);

/* The acceptance table alone, by a full entropy decode at 1/8. Statuses and notes as jpeg_decode.
 */
enum slimset_status jpeg_check(struct jpeg_reader *r, const uint8_t *data, size_t n,
                               const struct image_info *info, uint32_t *notes,
                               struct slimset_error *err);

/* Appends to *out the file without metadata: APPn other than JFIF APP0 (without thumbnail) and
 * Adobe APP14, COM, and bytes after the first EOI are left out; entropy data is byte for byte the
 * same. A missing EOI is added, so call it only on what jpeg_check or jpeg_decode accepted.
 * SLIMSET_BAD_INPUT where the markers cannot be followed; *out is then as it was. */
enum slimset_status jpeg_strip(const uint8_t *data, size_t n, struct buf *out,
                               struct slimset_error *err);

/* Appends the ICC profile to *out, joined from its APP2 chunks in the order of their numbers.
 * SLIMSET_NOT_FOUND without one; SLIMSET_BAD_INPUT/corrupt when chunks are missing or contradict
 * each other. */
enum slimset_status jpeg_icc(const uint8_t *data, size_t n, struct buf *out,
                             struct slimset_error *err);

#endif
