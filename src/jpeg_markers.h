/* SPDX-License-Identifier: Apache-2.0
 *
 * The structure of a JPEG file without decoding it: segments, scans, and what they declare. Follows
 * the bytes exactly as libjpeg's marker reader does (garbage between segments is skipped, fill
 * bytes allowed, RSTn and TEM have no body), so that what is counted here is what libjpeg will
 * meet. Linear in the size of the file; pure functions on the caller's bytes.
 */
#ifndef JPEG_MARKERS_H
#define JPEG_MARKERS_H

#include "image.h"

/* Marker codes, ITU-T T.81 table B.1 (libjpeg's header has macros called JPEG_...). */
enum {
    MARKER_TEM = 0x01,
    MARKER_SOF0 = 0xC0,
    MARKER_DHT = 0xC4,
    MARKER_JPG = 0xC8,
    MARKER_DAC = 0xCC,
    MARKER_SOF15 = 0xCF,
    MARKER_RST0 = 0xD0,
    MARKER_RST7 = 0xD7,
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_DQT = 0xDB,
    MARKER_DNL = 0xDC,
    MARKER_DRI = 0xDD,
    MARKER_APP0 = 0xE0,
    MARKER_APP1 = 0xE1,
    MARKER_APP2 = 0xE2,
    MARKER_APP14 = 0xEE,
    MARKER_APP15 = 0xEF,
    MARKER_COM = 0xFE
};

struct jpeg_cursor {
    const uint8_t *data;
    size_t n;
    size_t pos;   /* next byte to look at */
    bool garbage; /* bytes that belong to no segment were skipped */
};

struct jpeg_segment {
    uint8_t code;
    const uint8_t *body; /* behind the length field; NULL for markers that have none */
    size_t body_bytes;
};

enum jpeg_step {
    JPEG_STEP_SEGMENT, /* *s is filled, pos is behind it */
    JPEG_STEP_END,     /* the bytes end where a marker should be */
    JPEG_STEP_CUT,     /* the segment claims more bytes than there are */
    JPEG_STEP_BAD      /* a length below 2 or a marker code that no JPEG decoder knows */
};

enum jpeg_step jpeg_cursor_next(struct jpeg_cursor *c, struct jpeg_segment *s);

/* From behind an SOS segment to the 0xFF of the first marker that is not RSTn (or to the end). */
void jpeg_cursor_skip_scan(struct jpeg_cursor *c);

/* What the file declares. Pointers point into the file. */
struct jpeg_facts {
    uint8_t sof; /* marker code of the frame header */
    uint8_t bits;
    uint8_t n_components; /* 1, 3 or 4 */
    uint8_t id[4], h_samp[4], v_samp[4];
    uint16_t w, h;
    bool jfif, adobe;
    uint8_t adobe_transform;
    bool multi_scan; /* libjpeg keeps all coefficients in memory */
    uint32_t scans;
    bool all_components; /* every component has a (DC) scan */
    bool eoi;
    size_t end;          /* bytes up to and with the first EOI; n when it is missing */
    bool garbage;        /* bytes between segments */
    bool metadata;       /* a strip would remove something */
    const uint8_t *exif; /* TIFF bytes of the first Exif segment, or NULL */
    size_t exif_bytes;
    const uint8_t *icc; /* only when in one piece */
    size_t icc_bytes;   /* of all chunks */
    bool icc_bad;       /* chunks missing, twice, or contradicting each other */
    uint32_t images;    /* 1 + further images of an MPO index that are there */
};

/* SLIMSET_BAD_INPUT with unknown-format (no SOI), truncated, corrupt or unsupported. Damage behind
 * the first SOS is left to the decoder, which can tell better what it means. */
enum slimset_status jpeg_facts_read(const uint8_t *data, size_t n, struct jpeg_facts *f,
                                    struct slimset_error *err);

bool jpeg_sof_progressive(uint8_t sof);
bool jpeg_sof_arithmetic(uint8_t sof);

/* What libjpeg will take the components for; 0 is never returned. YCCK counts as IMAGE_CMYK. */
enum image_colour jpeg_facts_colour(const struct jpeg_facts *f);

#endif
