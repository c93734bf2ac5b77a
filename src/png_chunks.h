/* SPDX-License-Identifier: Apache-2.0
 *
 * The chunk level of PNG: one walk that checks bounds, order, CRC and limits and says where
 * everything is. Nothing is inflated or copied; all pointers point into the caller's file bytes. No
 * state.
 *
 * Where damage is told apart: a chunk that holds pixels (IHDR, PLTE, tRNS, IDAT) must be right. Any
 * other ancillary chunk with a bad CRC is skipped with NOTE_WARNING. A bad CRC covers the type too,
 * so a damaged chunk whose type differs from tRNS in one byte counts as a damaged tRNS.
 */
#ifndef PNG_CHUNKS_H
#define PNG_CHUNKS_H

#include "image.h"

enum png_colour {
    PNG_GRAY = 0,
    PNG_RGB = 2,
    PNG_PALETTE = 3,
    PNG_GRAY_ALPHA = 4,
    PNG_RGB_ALPHA = 6
};

enum {
    PNG_SIGNATURE_BYTES = 8,
    PNG_CHUNK_EXTRA = 12 /* bytes of a chunk besides its body: length 4, type 4, CRC 4 */
};

#define PNG_TYPE(a, b, c, d)                                                                       \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define PNG_IHDR PNG_TYPE('I', 'H', 'D', 'R')
#define PNG_PLTE PNG_TYPE('P', 'L', 'T', 'E')
#define PNG_IDAT PNG_TYPE('I', 'D', 'A', 'T')
#define PNG_IEND PNG_TYPE('I', 'E', 'N', 'D')
#define PNG_TRNS PNG_TYPE('t', 'R', 'N', 'S')

struct png_chunks {
    uint32_t w, h;       /* px, within the limits */
    uint8_t colour;      /* enum png_colour */
    uint8_t depth;       /* bits per sample, one that the colour type allows */
    bool interlaced;     /* Adam7 */
    const uint8_t *plte; /* palette images: RGB triples; NULL for every other colour type */
    uint32_t plte_n;     /* entries, 1..2^depth */
    const uint8_t *trns; /* NULL without a usable tRNS */
    uint32_t trns_n;     /* bytes: 2 gray, 6 RGB, 1..plte_n palette */
    const uint8_t *exif; /* first sound eXIf: a TIFF structure, or NULL */
    size_t exif_bytes;
    const uint8_t *iccp; /* first sound iCCP (name, method, zlib stream), or NULL */
    size_t iccp_bytes;
    size_t idat_at;      /* offset of the first IDAT chunk (its length field) */
    size_t idat_end;     /* offset behind the last IDAT chunk; all between are whole IDAT chunks */
    uint64_t idat_bytes; /* sum of the IDAT bodies */
    uint32_t frames;     /* acTL, 1 without */
    bool other;          /* there is something that png_strip leaves out */
    uint32_t notes;      /* enum image_note bits */
};

/* Bytes of a row without its filter byte; w > 0. */
uint64_t png_row_bytes(const struct png_chunks *c, uint32_t w);

/* 1..4 */
unsigned png_channels(enum png_colour colour);

/* CRC of a whole chunk at p (its length field), whose body has len bytes, against the stored one.
 * */
bool png_chunk_crc_ok(const uint8_t *p, uint32_t len);

/* Fills *c. The CRC of IDAT chunks is left to who inflates them. SLIMSET_BAD_INPUT: truncated,
 * corrupt, unsupported (an unknown critical chunk), too-many-pixels. */
enum slimset_status png_chunks_walk(const uint8_t *data, size_t n,
                                    const struct image_limits *limits, struct png_chunks *c,
                                    struct slimset_error *err);

#endif
