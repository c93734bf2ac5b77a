/* SPDX-License-Identifier: Apache-2.0
 *
 * One door to all decoders: by content, never by name. A decoder set belongs to one worker.
 */
#ifndef DECODE_H
#define DECODE_H

#include "icc_name.h"
#include "image.h"

struct decoder; /* opaque: the readers of all formats */

/* slow: libvips has been started in this process. NULL without memory. */
struct decoder *decoder_new(const struct image_limits *limits, bool slow);
void decoder_free(struct decoder *d);

/* Sniffs and reads the header. SLIMSET_NEED_SLOW when only libvips can and this process has not started it. */
enum slimset_status decode_header(struct decoder *d, const uint8_t *data, size_t n, struct image_info *info,
                                  struct slimset_error *err);

enum decode_want {
    DECODE_NATIVE, /* as stored: JPEG planes stay YCbCr, perhaps scaled */
    DECODE_RGB,    /* gray or RGB planes, never YCC */
    DECODE_LABELS  /* a mask: palette indices and raw small-depth values */
};

/* Decodes. denom: 1, 2, 4, 8; only JPEG heeds it (other formats decode in full). srgb: convert through the embedded profile
 * where there is one that fits. */
enum slimset_status decode_image(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                 enum decode_want want, unsigned denom, bool srgb, struct image *out, uint32_t *notes,
                                 struct slimset_error *err);

/* What the image's colour profile calls itself (see icc_name.h); "" where there is none, or it cannot be had from this format.
 * SLIMSET_NO_MEMORY only. */
enum slimset_status decode_profile_name(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                        char name[ICC_NAME_BYTES], struct slimset_error *err);

/* Only the acceptance table: everything is decoded, nothing handed out. scratch may be used. */
enum slimset_status decode_check(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                 struct image *scratch, uint32_t *notes, struct slimset_error *err);

/* The same picture without metadata, appended to *out; a plain copy for formats without a strip. */
enum slimset_status decode_strip(const uint8_t *data, size_t n, const struct image_info *info, struct buf *out,
                                 struct slimset_error *err);

#endif
