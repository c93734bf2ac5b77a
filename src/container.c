/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include <string.h>

/* ---- WebP ---- */

static bool is_chunk(const uint8_t *p, const char *name) { return memcmp(p, name, 4) == 0; }

static enum slimset_status webp_frame_size(const uint8_t *p, size_t len, struct container_facts *k,
                                           struct slimset_error *err)
{
    if (is_chunk(p, "VP8 ")) {
        if (len < 10 || p[8 + 3] != 0x9d || p[8 + 4] != 0x01 || p[8 + 5] != 0x2a)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "WebP with a damaged VP8 header");
        k->w = get_le16(p + 8 + 6) & 0x3fffu;
        k->h = get_le16(p + 8 + 8) & 0x3fffu;
    } else {
        if (len < 5 || p[8] != 0x2f)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "WebP with a damaged VP8L header");
        uint32_t v = get_le32(p + 9);
        k->w = (v & 0x3fffu) + 1;
        k->h = (v >> 14 & 0x3fffu) + 1;
    }
    return SLIMSET_OK;
}

static enum slimset_status webp_check(const uint8_t *data, size_t n, struct container_facts *k,
                                      struct slimset_error *err)
{
    if (n < 20)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "WebP of %zu bytes ends inside its header",
                       n);
    uint64_t end = (uint64_t)get_le32(data + 4) + 8;
    if (end > n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "WebP has %zu of %llu bytes", n,
                       (unsigned long long)end);
    if (n > end + (end & 1))
        k->notes |= NOTE_TAIL_BYTES;
    bool extended = false, pixels = false;
    k->frames = 0;
    for (uint64_t at = 12; at + 8 <= end;) {
        const uint8_t *p = data + at;
        uint64_t len = get_le32(p + 4);
        if (at + 8 + len > end)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "WebP chunk at byte %llu reaches beyond the end",
                           (unsigned long long)at);
        if (is_chunk(p, "VP8X") && at == 12) {
            if (len < 10)
                return err_bad(err, SLIMSET_REJECT_CORRUPT, "WebP with a damaged VP8X header");
            extended = true;
            k->animated = (p[8] & 0x02) != 0;
            k->w = (get_le32(p + 12) & 0xffffffu) + 1;
            k->h = (get_le32(p + 14) >> 8) + 1;
        } else if (is_chunk(p, "VP8 ") || is_chunk(p, "VP8L")) {
            if (!extended && !pixels) {
                enum slimset_status st = webp_frame_size(p, (size_t)len, k, err);
                if (st != SLIMSET_OK)
                    return st;
            }
            k->lossless = pixels ? k->lossless : is_chunk(p, "VP8L");
            pixels = true;
        } else if (is_chunk(p, "ANMF")) { /* 16 bytes of its own, then chunks as above */
            k->lossless = pixels ? k->lossless : len >= 24 && is_chunk(p + 8 + 16, "VP8L");
            k->frames++;
            pixels = true;
        } else if (is_chunk(p, "ICCP") && k->icc == NULL) {
            k->icc = p + 8;
            k->icc_bytes = (size_t)len;
        } else if (is_chunk(p, "EXIF") || is_chunk(p, "XMP ")) {
            k->has_metadata = true;
        }
        at += 8 + len + (len & 1);
    }
    if (!pixels)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "WebP without pixels");
    if (k->frames == 0)
        k->frames = 1;
    k->bits = 8;
    return SLIMSET_OK;
}

static bool webp_is_picture(const uint8_t *p)
{
    static const char *const kinds[] = {"VP8 ", "VP8L", "ALPH", "ANIM", "ANMF"};
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_chunk(p, kinds[i]))
            return true;
    return false;
}

enum slimset_status container_webp_strip(const uint8_t *data, size_t n, struct buf *out,
                                         struct slimset_error *err)
{
    enum { FLAGS_KEPT = 0x12 }; /* of VP8X: alpha, animation */
    size_t begin = out->len, kept = 0, riff = (size_t)get_le32(data + 4) + 8;
    uint8_t head[12];
    memcpy(head, "RIFF\0\0\0\0WEBP", 12);
    n = riff < n ? riff : n;
    enum slimset_status st = buf_append(out, head, sizeof head, err);
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t at = 12; st == SLIMSET_OK && at < n && n - at >= 8;) {
            const uint8_t *p = data + at;
            size_t body = get_le32(p + 4), len = 8 + body;
            if (len > n - at)
                break;
            at += len + (len & 1);
            bool picture = webp_is_picture(p), extended = is_chunk(p, "VP8X") && body >= 10;
            if (pass == 0)
                kept += picture;
            if (pass == 0 || (!picture && !(extended && kept > 1)))
                continue;
            st = buf_append(out, p, len, err);
            if (st == SLIMSET_OK && extended)
                out->data[out->len - len + 8] &= FLAGS_KEPT;
            if (st == SLIMSET_OK && (len & 1))
                st = buf_append(out, "", 1, err);
        }
    }
    if (st == SLIMSET_OK)
        put_le32(out->data + begin + 4, (uint32_t)(out->len - begin - 8));
    else
        out->len = begin;
    return st;
}

/* ---- GIF ---- */

/* Reads the LZW codes of an image out of its chain of sub-blocks. */
struct gif_bits {
    const uint8_t *data;
    size_t n, at;      /* at: next byte */
    unsigned in_block; /* bytes left in the sub-block */
    bool ended;        /* the terminator was reached */
    uint32_t acc;
    unsigned have;
};

/* -1: the file ends here; -2: the sub-blocks do. */
static int gif_code(struct gif_bits *b, unsigned width)
{
    while (b->have < width) {
        if (b->in_block == 0) {
            if (b->at >= b->n)
                return -1;
            b->in_block = b->data[b->at++];
            if (b->in_block == 0) {
                b->ended = true;
                return -2;
            }
        }
        if (b->at >= b->n)
            return -1;
        b->acc |= (uint32_t)b->data[b->at++] << b->have;
        b->have += 8;
        b->in_block--;
    }
    int code = (int)(b->acc & ((1u << width) - 1u));
    b->acc >>= width;
    b->have -= width;
    return code;
}

/* Follows the LZW codes and adds up how many pixels they stand for, without writing any: libnsgif
 * leaves what is missing as it was. */
static enum slimset_status gif_count_pixels(struct gif_bits *b, unsigned min_bits, uint64_t want,
                                            struct slimset_error *err)
{
    if (min_bits < 1 || min_bits > 11)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "GIF with LZW codes of %u bits", min_bits);
    uint16_t length[4096];
    unsigned clear = 1u << min_bits, next = clear + 2, width = min_bits + 1;
    uint64_t got = 0;
    int before = -1;
    for (unsigned i = 0; i < clear; i++)
        length[i] = 1;
    while (got < want) {
        int code = gif_code(b, width);
        if (code < 0 || (unsigned)code == clear + 1)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED, "GIF frame has %llu of %llu pixels",
                           (unsigned long long)got, (unsigned long long)want);
        if ((unsigned)code == clear) {
            next = clear + 2;
            width = min_bits + 1;
            before = -1;
            continue;
        }
        if ((unsigned)code >= next + (before >= 0 && next < 4096) ||
            (before < 0 && (unsigned)code > clear))
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "GIF with LZW code %d of %u", code, next);
        if (before >= 0 && next < 4096) {
            /* A string is at most 4096 - 2 long: no overflow of 16 bits. */
            length[next++] = (uint16_t)(length[before] + 1);
            if (next == 1u << width && width < 12)
                width++;
        }
        got += length[code];
        before = code;
    }
    return SLIMSET_OK;
}

/* *at: behind the block of sub-blocks; false when the file ends before it does. */
static bool gif_skip_blocks(const uint8_t *data, size_t n, size_t *at)
{
    while (*at < n) {
        unsigned len = data[(*at)++];
        if (len == 0)
            return true;
        if (n - *at < len)
            return false;
        *at += len;
    }
    return false;
}

/* *covers: whether the image reaches over the whole screen of k->w x k->h. */
static enum slimset_status gif_first_image(const uint8_t *data, size_t n, size_t *at, bool global,
                                           const struct container_facts *k, bool *covers,
                                           struct slimset_error *err)
{
    const uint8_t *p = data + *at; /* the descriptor, behind its 0x2c */
    if (n - *at < 10)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "GIF ends before its first image");
    uint64_t want = (uint64_t)get_le16(p + 4) * get_le16(p + 6);
    *covers = get_le16(p) == 0 && get_le16(p + 2) == 0 && get_le16(p + 4) >= k->w &&
              get_le16(p + 6) >= k->h;
    size_t table = (p[8] & 0x80) != 0 ? (size_t)3 << ((p[8] & 7) + 1) : 0;
    *at += 9;
    if (table == 0 && !global)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "GIF without a colour table");
    if (n - *at <= table)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "GIF ends before its first image");
    *at += table;
    struct gif_bits b = {.data = data, .n = n, .at = *at + 1};
    enum slimset_status st = gif_count_pixels(&b, data[*at], want, err);
    *at += 1;
    return st;
}

static enum slimset_status gif_check(const uint8_t *data, size_t n, struct container_facts *k,
                                     struct slimset_error *err)
{
    if (n < 14)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "GIF of %zu bytes ends inside its header", n);
    k->w = get_le16(data + 6);
    k->h = get_le16(data + 8);
    k->bits = 8;
    bool global = (data[10] & 0x80) != 0, whole = false;
    bool transparent = false; /* the first image has a transparent colour */
    bool covers = false;
    size_t at = 13 + (global ? (size_t)3 << ((data[10] & 7) + 1) : 0);
    k->frames = 0;
    while (at < n) {
        uint8_t kind = data[at++];
        if (kind == 0x3b) {
            whole = true;
            break;
        }
        if (kind == 0x21) {
            if (at < n && (data[at] == 0xfe || data[at] == 0x01)) /* comment, plain text */
                k->has_metadata = true;
            if (n - at >= 3 && data[at] == 0xf9 && k->frames == 0) /* graphic control */
                transparent = transparent || (data[at + 2] & 1) != 0;
            at++;
        } else if (kind == 0x2c && k->frames == 0) {
            enum slimset_status st = gif_first_image(data, n, &at, global, k, &covers, err);
            if (st != SLIMSET_OK)
                return st;
            k->frames = 1;
        } else if (kind == 0x2c) {
            if (n - at < 10)
                break;
            at += 9 + ((data[at + 8] & 0x80) != 0 ? (size_t)3 << ((data[at + 8] & 7) + 1) : 0) + 1;
            k->frames++;
        } else if (k->frames == 0) {
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "GIF with block 0x%02x at byte %zu", kind,
                           at - 1);
        } else {
            break;
        }
        if (at > n || !gif_skip_blocks(data, n, &at))
            break;
    }
    if (k->frames == 0)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "GIF of %zu bytes ends before its first image", n);
    k->animated = k->frames > 1;
    if (covers && !transparent) { /* else pixels may be see-through: only the decoder can tell */
        k->colours = 3;
        k->extra_known = true;
    }
    if (!whole) /* the first frame, which is the one used, is complete */
        k->notes |= NOTE_WARNING;
    else if (at < n)
        k->notes |= NOTE_TAIL_BYTES;
    return SLIMSET_OK;
}

enum slimset_status container_check(const uint8_t *data, size_t n, enum image_format f,
                                    const struct image_limits *limits,
                                    struct container_facts *facts, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    *facts = (struct container_facts){0};
    if (f == FORMAT_WEBP)
        st = webp_check(data, n, facts, err);
    else if (f == FORMAT_GIF)
        st = gif_check(data, n, facts, err);
    else
        st = container_boxes(data, n, f, facts, err);
    if (st == SLIMSET_OK && (facts->w != 0 || facts->h != 0 || f == FORMAT_GIF))
        st = image_limits_check(limits, facts->w, facts->h, err);
    if (facts->frames > 1)
        facts->notes |= NOTE_FIRST_FRAME;
    return st;
}
