/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow path: TIFF, WebP, GIF, HEIF/AVIF, JPEG XL, JPEG 2000 and ICC conversion through libvips,
 * loaded at run time (dlopen) so that only the slow worker ever carries it. Without libvips (at
 * build or at run time) every function answers SLIMSET_BAD_INPUT/no-decoder and says so.
 *
 * vips_start once per process, before the sandbox closes: it initialises libvips with one thread,
 * no cache, no vector unit, no temporary files, untrusted loaders blocked except JXL and JPEG 2000.
 * libvips is used for load, colour conversion and save only: sizes, orientation, alpha, acceptance
 * are ours.
 */
#ifndef VIPS_READ_H
#define VIPS_READ_H

#include "image.h"

/* Loads and initialises libvips and decodes a tiny sample of every format, so that no file is
 * opened afterwards. Changes the environment (VIPS_*, G_DEBUG, G_MESSAGES_DEBUG) and GLib's log
 * handler. A second call only sets the limits. SLIMSET_BAD_INPUT/no-decoder with the reason where
 * it is missing or older than 8.13. */
enum slimset_status vips_start(const struct image_limits *limits, struct slimset_error *err);

/* libvips' version as text, or NULL when it is not there. */
const char *vips_version_text(void);

/* True when this build of libvips can load the format. After vips_start. */
bool vips_can_load(enum image_format f);

/* The i-th of the tiny files that vips_start decodes: 8 x 8 pixels of about (200, 60, 30). False behind the last, and where libvips
 * was left out of the build. */
bool vips_sample_bytes(unsigned i, enum image_format *f, const uint8_t **data, size_t *n);

/* Header only: size, channels, bits (10 and 12 are reported as 16), float, alpha, orientation (1
 * for HEIF/AVIF/JXL: the decoder has applied it), frames, ICC (info->icc_bytes > 0). Limits are
 * checked, and that the file is whole as far as its tags, chunks or boxes tell. Alpha: only where
 * the format declares it (a 4-band TIFF without ExtraSamples associated/unassociated alpha has
 * channels = 4+, alpha = false). Float or too many bands are not faults here, only at decode. */
enum slimset_status vips_read_header(const uint8_t *data, size_t n, enum image_format f,
                                     struct image_info *info, struct slimset_error *err);

/* Decodes page/frame 0 into *out: GRAY or RGB or CMYK, alpha plane where there is one (colour not
 * multiplied with it), 8 or 16 bits; 1, 2, 4, 10 and 12 bits are scaled to the full range. Fails
 * (truncated/corrupt) on the first error of the loader. Of an animated GIF only frame 0 must be
 * whole. Float pixels: reject float. More than 4 bands, or an undeclared 4th: reject bands. Signed,
 * 32-bit, CIELAB, YCbCr outside JPEG, planes that libvips misreads: reject unsupported.
 * srgb: convert through the embedded profile to sRGB where the profile fits (8 bits out). */
enum slimset_status vips_decode(const uint8_t *data, size_t n, const struct image_info *info,
                                bool srgb, struct image *out, uint32_t *notes,
                                struct slimset_error *err);

/* Converts 8- or 16-bit GRAY/RGB/CMYK planes with this ICC profile to 8-bit sRGB in *out (gray
 * profiles give GRAY), NOTE_PROFILE_USED. A profile of the wrong kind or corrupt: *out is a plain
 * copy, NOTE_PROFILE_BAD. in and out must differ. */
enum slimset_status vips_to_srgb(const struct image *in, const uint8_t *icc, size_t icc_bytes,
                                 struct image *out, uint32_t *notes, struct slimset_error *err);

/* Appends a WebP of an 8-bit GRAY/RGB image (alpha allowed) to *out, quality 1..100, lossless
 * optional. SLIMSET_BAD_INPUT/too-many-pixels over 16,383 a side. */
enum slimset_status vips_write_webp(const struct image *im, int quality, bool lossless,
                                    struct buf *out, struct slimset_error *err);

#endif
