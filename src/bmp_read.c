/* SPDX-License-Identifier: Apache-2.0
 *
 * BMP in. One parse (struct bmp) serves header and decode, so that the two can never disagree.
 * Every offset is 64-bit and compared with the file's size before it is used. RLE is first expanded
 * to a plane of indices, in which a row may be left early only where the stream itself ends the
 * bitmap.
 */
#include "bmp_read.h"

#include <stdlib.h>
#include <string.h>

enum {
    FILE_HEADER_BYTES = 14,
    CORE_HEADER_BYTES = 12, /* OS/2 1.x */
    OS2_SHORT_BYTES = 16,   /* OS/2 2.x cut after the bit count */
    INFO_HEADER_BYTES = 40,
    OS2_HEADER_BYTES = 64,
    V5_HEADER_BYTES = 124,
    COMP_RGB = 0,
    COMP_RLE8 = 1,
    COMP_RLE4 = 2,
    COMP_BITFIELDS = 3,
    COMP_JPEG = 4,
    COMP_PNG = 5,
    COMP_ALPHABITFIELDS = 6
};

/* One channel inside a 16- or 32-bit pixel. */
struct bmp_mask {
    uint32_t bits; /* 0: the channel is not there */
    unsigned shift;
    uint32_t max; /* largest value: bits >> shift */
};

struct bmp {
    uint32_t header_bytes; /* of the DIB header */
    uint32_t w, h;
    bool top_down;
    unsigned bpp;
    uint32_t comp;
    struct bmp_mask mask[4]; /* R G B A, for 16 and 32 bits */
    unsigned palette_n;
    uint8_t palette[256][3]; /* R G B */
    bool gray;               /* identity gray palette */
    uint64_t pixels;         /* offset of the pixel data */
    uint64_t stride;         /* bytes of a stored row */
    size_t icc, icc_bytes;   /* V5 embedded profile, 0 bytes if none */
    uint8_t out_bits;        /* 8, or 16 where a mask is wider than 8 bits */
    uint32_t notes;
};

static enum slimset_status set_mask(struct bmp *b, unsigned i, uint32_t bits,
                                    struct slimset_error *err)
{
    struct bmp_mask *m = &b->mask[i];
    memset(m, 0, sizeof *m);
    if (bits == 0)
        return SLIMSET_OK;
    m->bits = bits;
    m->shift = (unsigned)__builtin_ctz(bits);
    m->max = bits >> m->shift;
    if ((m->max & (m->max + 1u)) != 0 || (b->bpp == 16 && bits > 0xffffu))
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP colour mask %08x", bits);
    if (m->max > 0xffffu)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "BMP colour mask %08x of more than 16 bits",
                       bits);
    for (unsigned k = 0; k < i; k++)
        if ((b->mask[k].bits & bits) != 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP colour masks overlap");
    if (m->max > 0xff)
        b->out_bits = 16;
    return SLIMSET_OK;
}

/* Masks of a 16- or 32-bit image. *after: where the colour table begins, moved past masks that
 * follow a 40-byte header. */
static enum slimset_status read_masks(struct bmp *b, const uint8_t *data, size_t n, uint64_t *after,
                                      struct slimset_error *err)
{
    static const uint32_t rgb16[3] = {0x7c00, 0x03e0, 0x001f}, rgb32[3] = {0xff0000, 0xff00, 0xff};
    uint32_t bits[4] = {0, 0, 0, 0};
    if (b->comp == COMP_RGB) {
        memcpy(bits, b->bpp == 16 ? rgb16 : rgb32, sizeof rgb16);
    } else {
        /* A V2 header (52 bytes) holds three masks, V3 and later four; before that they follow it.
         */
        unsigned k = b->comp == COMP_ALPHABITFIELDS || b->header_bytes >= 56 ? 4 : 3;
        size_t at = FILE_HEADER_BYTES + INFO_HEADER_BYTES;
        if (n < at + k * 4u)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP ends inside its colour masks");
        for (unsigned i = 0; i < k; i++)
            bits[i] = get_le32(data + at + i * 4);
        if (b->header_bytes == INFO_HEADER_BYTES)
            *after += k * 4u;
        if ((bits[0] | bits[1] | bits[2]) == 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP colour masks are all zero");
    }
    for (unsigned i = 0; i < 4; i++) {
        enum slimset_status st = set_mask(b, i, bits[i], err);
        if (st != SLIMSET_OK)
            return st;
    }
    return SLIMSET_OK;
}

/* used: entries the header speaks of; off: the header's pixel offset or 0. *after moves past the
 * table. */
static enum slimset_status read_palette(struct bmp *b, const uint8_t *data, size_t n, uint32_t used,
                                        uint64_t off, uint64_t *after, struct slimset_error *err)
{
    unsigned entry_bytes = b->header_bytes == CORE_HEADER_BYTES ? 3 : 4;
    uint32_t most = 1u << b->bpp;
    uint32_t count = used == 0 ? most : used;
    uint64_t start = *after;
    *after = start + (uint64_t)count * entry_bytes;
    if (count > most)
        count = most;
    /* Some writers promise 256 entries and let the pixels begin after fewer: the pixels are right.
     */
    if (off > start && (off - start) / entry_bytes < count)
        count = (uint32_t)((off - start) / entry_bytes);
    if (start + (uint64_t)count * entry_bytes > n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP ends inside its colour table");
    b->palette_n = count;
    b->gray = count != 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *p = data + start + (uint64_t)i * entry_bytes;
        b->palette[i][0] = p[2];
        b->palette[i][1] = p[1];
        b->palette[i][2] = p[0];
        uint8_t identity = (uint8_t)(count == 2 ? i * 255u : i);
        b->gray = b->gray && p[0] == identity && p[1] == identity && p[2] == identity;
    }
    return SLIMSET_OK;
}

static void read_profile(struct bmp *b, const uint8_t *data, size_t n)
{
    if (b->header_bytes < V5_HEADER_BYTES)
        return;
    const uint8_t *h = data + FILE_HEADER_BYTES;
    if (get_le32(h + 56) != 0x4d424544u) /* PROFILE_EMBEDDED, "MBED" */
        return;
    uint64_t at = (uint64_t)FILE_HEADER_BYTES + get_le32(h + 112), bytes = get_le32(h + 116);
    if (bytes == 0 || at + bytes > n) {
        b->notes |= NOTE_PROFILE_BAD;
        return;
    }
    b->icc = (size_t)at;
    b->icc_bytes = (size_t)bytes;
}

/* Width, height, depth and compression of any DIB header; *used: its colour count. */
static enum slimset_status read_dib(struct bmp *b, const uint8_t *data, size_t n, uint32_t *used,
                                    struct slimset_error *err)
{
    if (n < FILE_HEADER_BYTES + 4)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP of %zu bytes ends inside its header", n);
    if (data[0] != 'B' || data[1] != 'M')
        return err_bad(err, SLIMSET_REJECT_UNKNOWN_FORMAT, "not a BMP");
    const uint8_t *h = data + FILE_HEADER_BYTES;
    b->header_bytes = get_le32(h);
    bool core = b->header_bytes == CORE_HEADER_BYTES;
    bool known = core || b->header_bytes == OS2_SHORT_BYTES || b->header_bytes == OS2_HEADER_BYTES;
    known = known || b->header_bytes == INFO_HEADER_BYTES || b->header_bytes == 52 ||
            b->header_bytes == 56;
    known = known || b->header_bytes == 108 || b->header_bytes == V5_HEADER_BYTES;
    if (!known)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "BMP header of %u bytes", b->header_bytes);
    if (n < (uint64_t)FILE_HEADER_BYTES + b->header_bytes)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP of %zu bytes ends inside its header", n);
    *used = 0;
    b->comp = COMP_RGB;
    if (core) {
        b->w = get_le16(h + 4);
        b->h = get_le16(h + 6);
        b->bpp = get_le16(h + 10);
        return SLIMSET_OK;
    }
    uint32_t w = get_le32(h + 4), ht = get_le32(h + 8);
    b->top_down = ht > 0x7fffffffu;
    b->w = w;
    b->h = b->top_down ? 0u - ht : ht;
    if (w > 0x7fffffffu || b->h > 0x7fffffffu)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP header with a negative width or height");
    b->bpp = get_le16(h + 14);
    if (b->header_bytes >= INFO_HEADER_BYTES) {
        b->comp = get_le32(h + 16);
        *used = get_le32(h + 32);
    }
    return SLIMSET_OK;
}

static enum slimset_status check_coding(const struct bmp *b, struct slimset_error *err)
{
    bool os2 = b->header_bytes == OS2_HEADER_BYTES;
    bool fits;
    switch (b->comp) {
    case COMP_RGB:
        fits = b->bpp == 1 || b->bpp == 2 || b->bpp == 4 || b->bpp == 8 || b->bpp == 16 ||
               b->bpp == 24 || b->bpp == 32;
        break;
    case COMP_RLE8:
        fits = b->bpp == 8;
        break;
    case COMP_RLE4:
        fits = b->bpp == 4;
        break;
    case COMP_BITFIELDS: /* OS/2 uses the number for Huffman coding */
    case COMP_ALPHABITFIELDS:
        if (os2)
            return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "OS/2 BMP with compression %u",
                           b->comp);
        fits = b->bpp == 16 || b->bpp == 32;
        break;
    default:
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "BMP with compression %u%s", b->comp,
                       b->comp == COMP_JPEG  ? " (JPEG)"
                       : b->comp == COMP_PNG ? " (PNG)"
                                             : "");
    }
    if (!fits)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP with %u bits and compression %u", b->bpp,
                       b->comp);
    return SLIMSET_OK;
}

static enum slimset_status parse(const uint8_t *data, size_t n, const struct image_limits *limits,
                                 struct bmp *b, struct slimset_error *err)
{
    uint32_t used;
    memset(b, 0, sizeof *b);
    b->out_bits = 8;
    enum slimset_status st = read_dib(b, data, n, &used, err);
    if (st == SLIMSET_OK)
        st = check_coding(b, err);
    if (st == SLIMSET_OK && limits != NULL)
        st = image_limits_check(limits, b->w, b->h, err);
    if (st != SLIMSET_OK)
        return st;
    uint64_t off = get_le32(data + 10), after = (uint64_t)FILE_HEADER_BYTES + b->header_bytes;
    if (off != 0 && off < after)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP pixels at byte %llu, inside its header",
                       (unsigned long long)off);
    if (b->bpp == 16 || b->bpp == 32)
        st = read_masks(b, data, n, &after, err);
    else if (b->bpp <= 8)
        st = read_palette(b, data, n, used, off, &after, err);
    if (st != SLIMSET_OK)
        return st;
    b->pixels = off != 0 ? off : after;
    b->stride = ((uint64_t)b->w * b->bpp + 31) / 32 * 4;
    read_profile(b, data, n);
    if (b->bpp <= 8 && b->palette_n == 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP without a colour table");
    if (b->pixels >= n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP pixels begin at byte %llu of %zu",
                       (unsigned long long)b->pixels, n);
    if (b->comp == COMP_RLE8 || b->comp == COMP_RLE4)
        return SLIMSET_OK;
    /* The padding of the last row may be missing: no pixel is in it. */
    uint64_t need = b->stride * (b->h - 1u) + ((uint64_t)b->w * b->bpp + 7) / 8;
    if (b->h != 0 && n - b->pixels < need)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP has %llu of %llu bytes of pixels",
                       (unsigned long long)(n - b->pixels), (unsigned long long)need);
    if (n > b->pixels + b->stride * b->h && n > (uint64_t)b->icc + b->icc_bytes)
        b->notes |= NOTE_TAIL_BYTES;
    return SLIMSET_OK;
}

enum slimset_status bmp_read_header(const uint8_t *data, size_t n,
                                    const struct image_limits *limits, struct image_info *info,
                                    struct slimset_error *err)
{
    struct bmp b;
    enum slimset_status st = parse(data, n, limits, &b, err);
    if (st != SLIMSET_OK)
        return st;
    memset(info, 0, sizeof *info);
    info->format = FORMAT_BMP;
    info->w = b.w;
    info->h = b.h;
    info->orientation = 1;
    info->palette = b.bpp <= 8;
    info->bits = (uint8_t)(b.bpp <= 8 ? b.bpp : b.out_bits);
    info->colour = info->palette && b.gray ? IMAGE_GRAY : IMAGE_RGB;
    info->channels = info->colour == IMAGE_GRAY ? 1 : 3;
    info->alpha = b.mask[3].bits != 0;
    info->frames = 1;
    info->icc = b.icc_bytes != 0 ? data + b.icc : NULL;
    info->icc_bytes = b.icc_bytes;
    info->has_metadata = b.icc_bytes != 0;
    info->notes = b.notes | (info->palette ? NOTE_EXPANDED : 0);
    return SLIMSET_OK;
}

static enum slimset_status rle_outside(const struct bmp *b, uint64_t x, uint64_t y,
                                       struct slimset_error *err)
{
    return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP run reaches column %llu, row %llu of %u x %u",
                   (unsigned long long)x, (unsigned long long)y, b->w, b->h);
}

/* Expands RLE4/RLE8 into w * h index bytes (zeroed by the caller), rows as stored. */
static enum slimset_status rle_expand(const struct bmp *b, const uint8_t *data, size_t n,
                                      uint8_t *index, uint32_t *notes, struct slimset_error *err)
{
    const uint8_t *p = data + b->pixels, *end = data + n;
    bool four = b->comp == COMP_RLE4;
    uint64_t x = 0, y = 0;
    while (end - p >= 2) {
        unsigned count = p[0], value = p[1];
        p += 2;
        if (count == 0 && value == 1) /* end of bitmap: what was not written is index 0 */
            return SLIMSET_OK;
        if (count == 0 && value == 0) {
            x = 0;
            y++;
            continue;
        }
        if (count == 0 && value == 2) {
            if (end - p < 2)
                break;
            x += p[0];
            y += p[1];
            p += 2;
            if (x > b->w || y > b->h)
                return rle_outside(b, x, y, err);
            continue;
        }
        unsigned k = count != 0 ? count : value;
        if (y >= b->h || x + k > b->w)
            return rle_outside(b, x + k, y, err);
        uint8_t *q = index + y * b->w + x;
        x += k;
        if (count != 0 && !four) {
            memset(q, (int)value, k);
        } else if (count != 0) {
            for (unsigned i = 0; i < k; i++)
                q[i] = (uint8_t)(i % 2 == 0 ? value >> 4 : value & 15u);
        } else {
            size_t bytes = four ? (k + 1) / 2 : k, padded = (bytes + 1) / 2 * 2;
            if ((size_t)(end - p) < bytes)
                break;
            for (unsigned i = 0; i < k; i++)
                q[i] = (uint8_t)(!four ? p[i] : i % 2 == 0 ? p[i / 2] >> 4 : p[i / 2] & 15);
            p += (size_t)(end - p) < padded ? bytes : padded;
        }
    }
    /* Without its end marker the stream must at least have brought the last pixel. */
    if (y >= b->h || (y + 1 == b->h && x == b->w)) {
        *notes |= NOTE_WARNING;
        return SLIMSET_OK;
    }
    return err_bad(err, SLIMSET_REJECT_TRUNCATED, "BMP run-length data ends in row %llu of %u",
                   (unsigned long long)y, b->h);
}

/* A row of indices (one byte each) through the palette. */
static enum slimset_status put_indices(const struct bmp *b, const uint8_t *index, uint32_t y,
                                       const struct image *out, struct slimset_error *err)
{
    for (unsigned c = 0; c < out->n_planes; c++) {
        uint8_t *q = out->plane[c].data + (size_t)y * out->plane[c].stride_bytes;
        for (uint32_t x = 0; x < b->w; x++) {
            if (index[x] >= b->palette_n)
                return err_bad(err, SLIMSET_REJECT_CORRUPT, "BMP colour %u of a table of %u",
                               index[x], b->palette_n);
            q[x] = b->palette[index[x]][c];
        }
    }
    return SLIMSET_OK;
}

static void unpack_indices(const uint8_t *row, unsigned bpp, uint32_t w, uint8_t *index)
{
    unsigned per_byte = 8 / bpp, mask = (1u << bpp) - 1u;
    for (uint32_t x = 0; x < w; x++)
        index[x] = (uint8_t)(row[x / per_byte] >> (8 - bpp - x % per_byte * bpp) & mask);
}

static void put_masked(const struct bmp *b, const uint8_t *row, uint32_t y, const struct image *out)
{
    uint32_t full = b->out_bits == 16 ? 65535u : 255u;
    for (unsigned c = 0; c < out->n_planes; c++) {
        const struct bmp_mask *m = &b->mask[c];
        uint8_t *q = out->plane[c].data + (size_t)y * out->plane[c].stride_bytes;
        for (uint32_t x = 0; x < b->w; x++) {
            uint32_t px =
                b->bpp == 16 ? get_le16(row + (size_t)x * 2) : get_le32(row + (size_t)x * 4);
            uint32_t v = (px & m->bits) >> m->shift;
            if (m->max != full && m->max != 0)
                v = (uint32_t)(((uint64_t)v * full + m->max / 2) / m->max);
            if (b->out_bits == 16)
                ((uint16_t *)(void *)q)[x] = (uint16_t)v;
            else
                q[x] = (uint8_t)v;
        }
    }
}

static void put_bgr(const struct bmp *b, const uint8_t *row, uint32_t y, const struct image *out)
{
    uint8_t *q[3];
    for (unsigned c = 0; c < 3; c++)
        q[c] = out->plane[c].data + (size_t)y * out->plane[c].stride_bytes;
    for (uint32_t x = 0; x < b->w; x++) {
        q[0][x] = row[(size_t)x * 3 + 2];
        q[1][x] = row[(size_t)x * 3 + 1];
        q[2][x] = row[(size_t)x * 3];
    }
}

enum slimset_status bmp_decode(const uint8_t *data, size_t n, const struct image_info *info,
                               struct image *out, uint32_t *notes, struct slimset_error *err)
{
    struct bmp b;
    uint8_t *index = NULL;
    enum slimset_status st = parse(data, n, NULL, &b, err);
    if (st != SLIMSET_OK)
        return st;
    if (b.w != info->w || b.h != info->h || b.w == 0 || b.h == 0)
        return err_set(err, SLIMSET_INTERNAL, "BMP is not the one whose header was read");
    st = image_setup(out, info->colour, info->alpha, b.out_bits, b.w, b.h, err);
    if (st != SLIMSET_OK)
        return st;
    bool rle = b.comp == COMP_RLE8 || b.comp == COMP_RLE4;
    if (b.bpp <= 8) {
        size_t bytes = rle ? (size_t)b.w * b.h : b.w;
        index = calloc(bytes, 1);
        if (index == NULL)
            return err_nomem(err, bytes);
    }
    if (rle)
        st = rle_expand(&b, data, n, index, notes, err);
    for (uint32_t i = 0; i < b.h && st == SLIMSET_OK; i++) {
        uint32_t y = b.top_down ? i : b.h - 1 - i;
        const uint8_t *row = rle ? index + (size_t)i * b.w : data + b.pixels + b.stride * i;
        if (rle || b.bpp == 8) {
            st = put_indices(&b, row, y, out, err);
        } else if (b.bpp < 8) {
            unpack_indices(row, b.bpp, b.w, index);
            st = put_indices(&b, index, y, out, err);
        } else if (b.bpp == 24) {
            put_bgr(&b, row, y, out);
        } else {
            put_masked(&b, row, y, out);
        }
    }
    free(index);
    if (st == SLIMSET_OK)
        *notes |= info->notes;
    return st;
}
