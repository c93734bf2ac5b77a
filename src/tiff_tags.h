/* SPDX-License-Identifier: Apache-2.0
 *
 * The first directory of a TIFF (classic and Big, both byte orders), read without libtiff: libvips
 * does not say whether a fourth band is alpha, which sample format was stored, or where the profile
 * lies; and a file that was cut short is found here before any decoder sees it. Also finds the
 * orientation inside an EXIF block, which is a TIFF. Pure functions on the caller's bytes; work is
 * bounded by the size of the file.
 */
#ifndef TIFF_TAGS_H
#define TIFF_TAGS_H

#include "image.h"

enum {
    TIFF_MIN_IS_WHITE = 0,
    TIFF_MIN_IS_BLACK = 1,
    TIFF_RGB = 2,
    TIFF_PALETTE = 3,
    TIFF_SEPARATED = 5,
    TIFF_YCBCR = 6,
    TIFF_CIELAB = 8 /* photometric interpretations, tag 262 */
};

struct tiff_tags {
    uint32_t w, h;
    uint32_t bits;          /* per sample, the same for all; else the file is refused */
    uint32_t samples;       /* per pixel */
    uint32_t sample_format; /* 1 unsigned, 2 signed, 3 float */
    uint32_t photometric;
    uint32_t compression;
    uint32_t planar;      /* 1 interleaved, 2 separate */
    uint32_t ink_set;     /* 1: CMYK */
    uint32_t extra_n;     /* entries of ExtraSamples */
    uint32_t extra_first; /* its first entry: 0 unspecified, 1 associated alpha, 2 unassociated */
    bool gray_palette;    /* photometric 3: every entry has R = G = B */
    bool tiled;
    uint64_t per_plane;   /* strips or tiles of one plane */
    uint8_t orientation;  /* 1..8 */
    uint8_t orientation_bytes;
    size_t orientation_at; /* where a value lies that is none of 1..8, in so many bytes; 0: nowhere */
    uint32_t pages;       /* directories in the chain */
    const uint8_t *icc;   /* inside the file, or NULL */
    size_t icc_bytes;
    bool has_metadata; /* EXIF, GPS, XMP, IPTC, Photoshop, ICC or text */
    uint32_t notes;    /* NOTE_WARNING: something not needed for the pixels is damaged */
};

/* Reads and checks the first directory: all strips or tiles must lie inside the file and there must
 * be enough of them. SLIMSET_BAD_INPUT: truncated, corrupt, unsupported (bits that differ between
 * samples), too-many-pixels. */
enum slimset_status tiff_tags_read(const uint8_t *data, size_t n, const struct image_limits *limits,
                                   struct tiff_tags *t, struct slimset_error *err);

/* Orientation 1..8 from an EXIF block (with or without "Exif\0\0" in front); 1 where there is none.
 */
uint8_t tiff_exif_orientation(const uint8_t *data, size_t n);

#endif
