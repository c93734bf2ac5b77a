/* SPDX-License-Identifier: Apache-2.0
 *
 * What WebP, GIF, HEIF/AVIF, JPEG XL and JPEG 2000 files say of themselves, read by walking their
 * chunks and boxes, before libvips sees them. Two purposes: a file that was cut short is refused
 * here, since several decoders fill up with gray and call it success; and the facts that libvips
 * does not pass on (which bands are alpha, how many bits were stored, whether there are frames).
 * Pure functions on the caller's bytes.
 */
#ifndef CONTAINER_H
#define CONTAINER_H

#include "image.h"

struct container_facts {
    uint32_t w, h;   /* as the decoder will hand them out; 0: only the decoder can tell */
    uint32_t frames; /* 0: only the decoder can tell */
    uint8_t bits;    /* stored per sample; 0: only the decoder can tell */
    uint8_t colours; /* colour channels: 1, 3, 4 (CMYK); 0: only the decoder can tell */
    uint8_t extra;   /* channels besides; meaningless while colours is 0 unless extra_known */
    bool extra_known;
    bool alpha;         /* the one extra channel is declared as alpha */
    bool premultiplied; /* colour was multiplied with alpha */
    bool is_float;
    bool animated;
    bool has_metadata;  /* EXIF, XMP, text, comments */
    bool lossless;      /* WebP whose first frame is coded without loss */
    const uint8_t *icc; /* profile inside the file where it is contiguous, or NULL */
    size_t icc_bytes;
    /* JPEG 2000 with a palette: its bytes, entry by entry, and the codestream of the indices. */
    const uint8_t *palette; /* NULL: none */
    uint16_t palette_n;
    uint8_t palette_columns; /* 1 or 3 */
    const uint8_t *codestream;
    size_t codestream_bytes;
    uint32_t notes; /* NOTE_TAIL_BYTES, NOTE_WARNING, NOTE_FIRST_FRAME, NOTE_GAMMA */
};

/* SLIMSET_BAD_INPUT: truncated, corrupt, unsupported, too-many-pixels. Other formats: no facts,
 * SLIMSET_OK. */
enum slimset_status container_check(const uint8_t *data, size_t n, enum image_format f,
                                    const struct image_limits *limits,
                                    struct container_facts *facts, struct slimset_error *err);

/* Appends to *out the WebP without EXIF, XMP, profile, unknown chunks and what follows its end; as a simple file where one
 * chunk is left. The picture's chunks stay byte for byte. Call it only on what container_check accepted. */
enum slimset_status container_webp_strip(const uint8_t *data, size_t n, struct buf *out,
                                         struct slimset_error *err);

/* The part for files made of ISO boxes: HEIF, AVIF, JPEG XL (boxed or not) and JPEG 2000. */
enum slimset_status container_boxes(const uint8_t *data, size_t n, enum image_format f,
                                    struct container_facts *facts, struct slimset_error *err);

#endif
