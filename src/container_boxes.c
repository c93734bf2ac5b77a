/* SPDX-License-Identifier: Apache-2.0
 *
 * HEIF, AVIF, JPEG XL and JPEG 2000: all may be a row of ISO boxes (u32 size, four-letter type;
 * size 1: a 64-bit size follows; size 0: to the end of the file), the last two also a bare
 * codestream.
 */
#include "container.h"

#include <string.h>

struct box {
    char type[5];
    uint64_t body, len; /* of the contents */
    bool to_end;
};

/* Reads the box at *at inside [*at, end) and moves *at behind it. */
static enum slimset_status next_box(const uint8_t *data, uint64_t *at, uint64_t end, struct box *b,
                                    struct slimset_error *err)
{
    uint64_t head = 8, size;
    if (end - *at < 8)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "file ends inside a box header at byte %llu",
                       (unsigned long long)*at);
    size = get_be32(data + *at);
    memcpy(b->type, data + *at + 4, 4);
    b->type[4] = '\0';
    b->to_end = size == 0;
    if (size == 1) {
        head = 16;
        if (end - *at < 16)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "file ends inside a box header at byte %llu", (unsigned long long)*at);
        size = (uint64_t)get_be32(data + *at + 8) << 32 | get_be32(data + *at + 12);
    } else if (size == 0) {
        size = end - *at;
    }
    if (size < head)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "box of %llu bytes at byte %llu",
                       (unsigned long long)size, (unsigned long long)*at);
    if (size > end - *at)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "box at byte %llu has %llu of %llu bytes",
                       (unsigned long long)*at, (unsigned long long)(end - *at),
                       (unsigned long long)size);
    b->body = *at + head;
    b->len = size - head;
    *at += size;
    return SLIMSET_OK;
}

static bool is(const struct box *b, const char *type) { return memcmp(b->type, type, 4) == 0; }

/* ---- HEIF, AVIF: the boxes must be whole; all else is libheif's ---- */

/* Moves [*at, *end) to the contents of the first box of that type in it. */
static bool enter_box(const uint8_t *data, const char *type, uint64_t *at, uint64_t *end)
{
    struct slimset_error ignored;
    struct box b;
    while (*at < *end && next_box(data, at, *end, &b, &ignored) == SLIMSET_OK)
        if (is(&b, type)) {
            *at = b.body;
            *end = b.body + b.len;
            return true;
        }
    return false;
}

/* Is one of the pictures PQ or HLG by its colr box (ISO/IEC 23091-2 numbers)? What cannot be read says nothing. */
static bool heif_is_hdr(const uint8_t *data, const struct box *meta)
{
    uint64_t at = meta->body + 4, end = meta->body + meta->len; /* behind version and flags */
    if (meta->len < 4 || !enter_box(data, "iprp", &at, &end) || !enter_box(data, "ipco", &at, &end))
        return false;
    for (uint64_t inner = end; enter_box(data, "colr", &at, &inner); at = inner, inner = end) {
        unsigned transfer = inner - at >= 8 && memcmp(data + at, "nclx", 4) == 0 ? get_be16(data + at + 6) : 0;
        if (transfer == 16 || transfer == 18)
            return true;
    }
    return false;
}

static enum slimset_status heif_check(const uint8_t *data, size_t n, struct container_facts *k,
                                      struct slimset_error *err)
{
    struct box b = {0};
    bool meta = false, pixels = false;
    for (uint64_t at = 0; at < n;) {
        enum slimset_status st = next_box(data, &at, n, &b, err);
        if (st != SLIMSET_OK && meta && pixels) {
            /* Rubbish that a phone appended. Were it pixels, libheif would miss them. */
            k->notes |= NOTE_TAIL_BYTES;
            return SLIMSET_OK;
        }
        if (st != SLIMSET_OK)
            return st;
        if (is(&b, "meta") && !meta) {
            meta = true;
            k->notes |= heif_is_hdr(data, &b) ? NOTE_GAMMA : 0;
        }
        pixels = pixels || is(&b, "mdat");
    }
    if (!meta)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "HEIF of %zu bytes without a meta box", n);
    return SLIMSET_OK;
}

/* ---- JPEG 2000 ---- */

struct jp2 {
    unsigned components;
    uint32_t enum_colour; /* 12 CMYK, 16 sRGB, 17 gray, 18 sYCC; 0: not said */
    int alpha;            /* component declared as opacity, -1 none */
    bool premultiplied;
};

/* Codestream: main header with SIZ first, then tile-parts whose lengths must lead to the end
 * marker. */
static enum slimset_status j2k_check(const uint8_t *c, uint64_t n, struct jp2 *j,
                                     struct container_facts *k, struct slimset_error *err)
{
    if (n < 40 + 3 || get_be32(c) != 0xff4fff51u)
        return err_bad(err, n < 43 ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_CORRUPT,
                       "JPEG 2000 codestream without a SIZ marker");
    uint32_t x1 = get_be32(c + 8), y1 = get_be32(c + 12), x0 = get_be32(c + 16),
             y0 = get_be32(c + 20);
    unsigned components = get_be16(c + 40), len = get_be16(c + 4);
    if (x1 <= x0 || y1 <= y0 || components == 0 || len != 38 + 3 * components)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "JPEG 2000 with a damaged SIZ marker");
    if (n < 4 + (uint64_t)len)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "JPEG 2000 ends inside its header");
    for (unsigned i = 0; i < components; i++) {
        uint8_t depth = c[42 + 3 * i];
        if ((depth & 0x80) != 0)
            return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "JPEG 2000 with signed samples");
        if ((depth & 0x7f) + 1 > 16)
            return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "JPEG 2000 with %d bits per sample",
                           (depth & 0x7f) + 1);
        if (i == 0)
            k->bits = (uint8_t)((depth & 0x7f) + 1);
        else if (k->bits != (depth & 0x7f) + 1)
            return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                           "JPEG 2000 whose components differ in bits");
    }
    /* The decoder hands out the size of the first component. */
    uint32_t dx = c[43] != 0 ? c[43] : 1, dy = c[44] != 0 ? c[44] : 1;
    k->w = (x1 - 1) / dx + 1 - (x0 == 0 ? 0 : (x0 - 1) / dx + 1);
    k->h = (y1 - 1) / dy + 1 - (y0 == 0 ? 0 : (y0 - 1) / dy + 1);
    j->components = components;
    uint64_t at = 2;
    while (n - at >= 4) {
        unsigned marker = get_be16(c + at);
        uint64_t step = 2u + get_be16(c + at + 2);
        if (marker == 0xffd9)
            return SLIMSET_OK;
        if (marker == 0xff90) {
            if (n - at < 12)
                break;
            step = get_be32(c + at + 6);
            if (step == 0) /* reaches to the end marker, which is last */
                return get_be16(c + n - 2) == 0xffd9 ? SLIMSET_OK
                                                     : err_bad(err, SLIMSET_REJECT_TRUNCATED,
                                                               "JPEG 2000 without its end marker");
            if (step < 14)
                return err_bad(err, SLIMSET_REJECT_CORRUPT, "JPEG 2000 tile-part of %llu bytes",
                               (unsigned long long)step);
        } else if (marker < 0xff00 || step < 4) {
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "JPEG 2000 with marker %04x at byte %llu",
                           marker, (unsigned long long)at);
        }
        if (step > n - at)
            break;
        at += step;
    }
    if (n - at >= 2 && get_be16(c + at) == 0xffd9)
        return SLIMSET_OK;
    return err_bad(err, SLIMSET_REJECT_TRUNCATED, "JPEG 2000 ends before its last tile-part");
}

/* Entries, columns, bits of each column, and the table. */
static enum slimset_status jp2_palette(const uint8_t *p, uint64_t len, struct container_facts *k,
                                       struct slimset_error *err)
{
    unsigned n = len >= 3 ? get_be16(p) : 0, columns = len >= 3 ? p[2] : 0;
    if (n == 0 || n > 1024 || columns == 0 || len < 3 + columns + (uint64_t)n * columns)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "JPEG 2000 with a damaged palette");
    bool bytes = columns == 1 || columns == 3;
    for (unsigned i = 0; i < columns; i++)
        bytes = bytes && p[3 + i] == 7; /* bits less one, and no sign */
    if (!bytes)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                       "JPEG 2000 with a palette that is not gray or RGB of 8 bits");
    k->palette = p + 3 + columns;
    k->palette_n = (uint16_t)n;
    k->palette_columns = (uint8_t)columns;
    return SLIMSET_OK;
}

/* Each channel must be the column of its number, taken for component 0. */
static bool jp2_mapping_is_plain(const uint8_t *p, uint64_t len)
{
    for (uint64_t i = 0; i < len / 4; i++)
        if (get_be16(p + 4 * i) != 0 || p[4 * i + 2] != 1 || p[4 * i + 3] != i)
            return false;
    return true;
}

static enum slimset_status jp2_header(const uint8_t *data, const struct box *outer, struct jp2 *j,
                                      struct container_facts *k, struct slimset_error *err)
{
    struct box b;
    bool colour = false, channels = false;
    for (uint64_t at = outer->body; at < outer->body + outer->len;) {
        enum slimset_status st = next_box(data, &at, outer->body + outer->len, &b, err);
        if (st != SLIMSET_OK)
            return st;
        const uint8_t *p = data + b.body;
        if (is(&b, "colr") && b.len >= 3 && !colour) {
            colour = true;
            if (p[0] == 1 && b.len >= 7) {
                j->enum_colour = get_be32(p + 3);
            } else if (p[0] == 2) {
                k->icc = p + 3;
                k->icc_bytes = (size_t)b.len - 3;
            }
        } else if (is(&b, "pclr")) {
            st = jp2_palette(p, b.len, k, err);
            if (st != SLIMSET_OK)
                return st;
        } else if (is(&b, "cmap")) {
            if (!jp2_mapping_is_plain(p, b.len))
                return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                               "JPEG 2000 with an unusual mapping of its channels");
        } else if (is(&b, "cdef") && channels) {
            return err_bad(err, SLIMSET_REJECT_CORRUPT,
                           "JPEG 2000 with two definitions of its channels");
        } else if (is(&b, "cdef") && b.len >= 2) {
            channels = true;
            unsigned count = get_be16(p);
            for (unsigned i = 0; i < count && 2 + 6 * (uint64_t)(i + 1) <= b.len; i++) {
                const uint8_t *e = p + 2 + 6 * i;
                unsigned kind = get_be16(e + 2);
                if (kind == 1 || kind == 2) {
                    j->alpha = get_be16(e);
                    j->premultiplied = kind == 2;
                }
            }
        }
    }
    return SLIMSET_OK;
}

static enum slimset_status jp2_check(const uint8_t *data, size_t n, struct container_facts *k,
                                     struct slimset_error *err)
{
    struct jp2 j = {.alpha = -1};
    struct box b = {0};
    bool pixels = false;
    enum slimset_status st = SLIMSET_OK;
    if (n >= 4 && get_be32(data) == 0xff4fff51u) {
        st = j2k_check(data, n, &j, k, err);
        pixels = true;
    }
    for (uint64_t at = pixels ? n : 0; at < n && st == SLIMSET_OK;) {
        st = next_box(data, &at, n, &b, err);
        if (st != SLIMSET_OK && pixels) {
            k->notes |= NOTE_TAIL_BYTES;
            st = SLIMSET_OK;
            break;
        }
        if (st == SLIMSET_OK && is(&b, "jp2h"))
            st = jp2_header(data, &b, &j, k, err);
        if (st == SLIMSET_OK && is(&b, "jp2c") && !pixels) {
            st = j2k_check(data + b.body, b.len, &j, k, err);
            k->codestream = data + b.body;
            k->codestream_bytes = (size_t)b.len;
            pixels = true;
        }
        if (st == SLIMSET_OK && (is(&b, "xml ") || is(&b, "uuid")))
            k->has_metadata = true;
    }
    if (st != SLIMSET_OK)
        return st;
    if (!pixels)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "JPEG 2000 of %zu bytes ends before its codestream", n);
    k->frames = 1;
    if (k->palette != NULL) {
        if (j.components != 1 || k->bits > 8 || j.alpha >= 0)
            return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                           "JPEG 2000 with a palette and %u components of %u bits", j.components,
                           k->bits);
        k->colours = 1; /* of the codestream */
        k->extra_known = true;
        return SLIMSET_OK;
    }
    bool cmyk = j.enum_colour == 12 || (k->icc_bytes >= 20 && memcmp(k->icc + 16, "CMYK", 4) == 0);
    k->colours = j.components < 3 || j.enum_colour == 17 ? 1 : cmyk ? 4 : 3;
    if (j.components < k->colours)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "JPEG 2000 with %u components", j.components);
    unsigned extra = j.components - k->colours;
    k->extra = (uint8_t)(extra > 255 ? 255 : extra);
    k->extra_known = true;
    k->alpha = extra == 1 && j.alpha == (int)k->colours;
    k->premultiplied = k->alpha && j.premultiplied;
    return SLIMSET_OK;
}

/* ---- JPEG XL: the beginning of the codestream, a bit at a time ---- */

struct bits {
    const uint8_t *data;
    uint64_t n, at; /* bits */
};

static uint32_t take(struct bits *b, unsigned count)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < count; i++, b->at++)
        if (b->at < b->n)
            v |= (uint32_t)(b->data[b->at / 8] >> (b->at % 8) & 1) << i;
    return v;
}

/* One of four codings, chosen by two bits: a constant plus as many bits. */
struct choice {
    uint16_t add;
    uint8_t bits;
};

static uint32_t take_u32(struct bits *b, const struct choice c[4])
{
    const struct choice *k = &c[take(b, 2)];
    return k->add + take(b, k->bits);
}

static uint32_t jxl_width(uint32_t h, unsigned ratio)
{
    static const uint8_t num[8] = {0, 1, 12, 4, 3, 16, 5, 2}, den[8] = {1, 1, 10, 3, 2, 9, 4, 1};
    return (uint32_t)((uint64_t)h * num[ratio] / den[ratio]);
}

static void jxl_size(struct bits *b, uint32_t *w, uint32_t *h)
{
    static const struct choice side[4] = {{1, 9}, {1, 13}, {1, 18}, {1, 30}};
    bool div8 = take(b, 1);
    *h = div8 ? (take(b, 5) + 1) * 8 : take_u32(b, side);
    unsigned ratio = take(b, 3);
    if (ratio != 0)
        *w = jxl_width(*h, ratio);
    else
        *w = div8 ? (take(b, 5) + 1) * 8 : take_u32(b, side);
}

static void jxl_skip_preview(struct bits *b)
{
    static const struct choice div[4] = {{16, 0}, {32, 0}, {1, 5}, {33, 9}};
    static const struct choice side[4] = {{1, 6}, {65, 8}, {321, 10}, {1345, 12}};
    bool div8 = take(b, 1);
    take_u32(b, div8 ? div : side);
    if (take(b, 3) == 0)
        take_u32(b, div8 ? div : side);
}

static void jxl_skip_animation(struct bits *b)
{
    static const struct choice num[4] = {{100, 0}, {1000, 0}, {1, 10}, {1, 30}};
    static const struct choice den[4] = {{1, 0}, {1001, 0}, {1, 8}, {1, 10}};
    static const struct choice loops[4] = {{0, 0}, {0, 3}, {0, 16}, {0, 32}};
    take_u32(b, num);
    take_u32(b, den);
    take_u32(b, loops);
    take(b, 1);
}

/* Bits per sample, 0 for float. */
static uint32_t jxl_depth(struct bits *b)
{
    static const struct choice whole[4] = {{8, 0}, {10, 0}, {12, 0}, {1, 6}};
    static const struct choice real[4] = {{32, 0}, {16, 0}, {24, 0}, {1, 6}};
    if (take(b, 1) == 0)
        return take_u32(b, whole);
    take_u32(b, real);
    take(b, 4);
    return 0;
}

/* One extra channel; returns its type (0 alpha, 4 black). */
static uint32_t jxl_extra(struct bits *b, struct container_facts *k)
{
    static const struct choice kind[4] = {{0, 0}, {1, 0}, {2, 4}, {18, 6}};
    static const struct choice shift[4] = {{0, 0}, {3, 0}, {4, 0}, {1, 3}};
    static const struct choice name[4] = {{0, 0}, {0, 4}, {16, 5}, {48, 10}};
    static const struct choice cfa[4] = {{1, 0}, {0, 2}, {3, 4}, {19, 8}};
    if (take(b, 1) != 0) /* all default: 8-bit alpha */
        return 0;
    uint32_t type = take_u32(b, kind);
    if (jxl_depth(b) == 0)
        k->is_float = true;
    take_u32(b, shift);
    b->at += 8u * (uint64_t)take_u32(b, name);
    if (type == 0)
        k->premultiplied = take(b, 1);
    else if (type == 2) /* spot colour: four half floats */
        b->at += 64;
    else if (type == 5)
        take_u32(b, cfa);
    return type;
}

static enum slimset_status jxl_codestream(const uint8_t *c, uint64_t n, struct container_facts *k,
                                          struct slimset_error *err)
{
    static const struct choice extras[4] = {{0, 0}, {1, 0}, {2, 4}, {1, 12}};
    struct bits b = {.data = c, .n = n * 8, .at = 16};
    uint32_t orientation = 1, w, h, extra = 0, depth = 8;
    if (n < 3 || c[0] != 0xff || c[1] != 0x0a)
        return err_bad(err, n < 3 ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_CORRUPT,
                       "JPEG XL without a codestream");
    jxl_size(&b, &w, &h);
    k->alpha = false;
    if (take(&b, 1) == 0) {
        if (take(&b, 1) != 0) {
            orientation = take(&b, 3) + 1;
            uint32_t ignored[2];
            if (take(&b, 1) != 0)
                jxl_size(&b, &ignored[0], &ignored[1]);
            if (take(&b, 1) != 0)
                jxl_skip_preview(&b);
            k->animated = take(&b, 1);
            if (k->animated)
                jxl_skip_animation(&b);
        }
        depth = jxl_depth(&b);
        take(&b, 1); /* 16-bit buffers suffice */
        extra = take_u32(&b, extras);
        for (uint32_t i = 0; i < extra && b.at < b.n; i++)
            k->alpha = jxl_extra(&b, k) == 0 && extra == 1;
    }
    if (b.at > b.n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "JPEG XL ends inside its header");
    k->w = orientation > 4 ? h : w; /* the decoder turns the picture */
    k->h = orientation > 4 ? w : h;
    k->is_float = k->is_float || depth == 0;
    k->bits = (uint8_t)(depth == 0 ? 32 : depth > 8 ? 16 : 8);
    k->extra = (uint8_t)(extra > 255 ? 255 : extra);
    k->extra_known = true;
    k->premultiplied = k->premultiplied && k->alpha;
    return SLIMSET_OK;
}

static enum slimset_status jxl_check(const uint8_t *data, size_t n, struct container_facts *k,
                                     struct slimset_error *err)
{
    struct box b = {0};
    bool pixels = false;
    if (n >= 2 && data[0] == 0xff && data[1] == 0x0a)
        return jxl_codestream(data, n, k, err);
    for (uint64_t at = 0; at < n;) {
        enum slimset_status st = next_box(data, &at, n, &b, err);
        if (st != SLIMSET_OK && pixels) { /* rubbish, or a missing part: libjxl will know */
            k->notes |= NOTE_TAIL_BYTES;
            break;
        }
        bool part = is(&b, "jxlp") && b.len >= 4; /* a part begins with its number */
        if (st == SLIMSET_OK && !pixels && (part || is(&b, "jxlc"))) {
            st = jxl_codestream(data + b.body + (part ? 4 : 0), b.len - (part ? 4 : 0), k, err);
            pixels = true;
        }
        if (st != SLIMSET_OK)
            return st;
        if (is(&b, "Exif") || is(&b, "xml ") || is(&b, "brob"))
            k->has_metadata = true;
    }
    if (!pixels)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "JPEG XL of %zu bytes ends before its codestream", n);
    return SLIMSET_OK;
}

enum slimset_status container_boxes(const uint8_t *data, size_t n, enum image_format f,
                                    struct container_facts *facts, struct slimset_error *err)
{
    switch (f) {
    case FORMAT_HEIF:
    case FORMAT_AVIF:
        return heif_check(data, n, facts, err);
    case FORMAT_JP2:
        return jp2_check(data, n, facts, err);
    case FORMAT_JXL:
        return jxl_check(data, n, facts, err);
    default:
        return SLIMSET_OK;
    }
}
