/* SPDX-License-Identifier: Apache-2.0 */
#include "png_chunks.h"

#include <string.h>

#include "inflate.h"
#include "png_read.h"

enum {
    IHDR_BYTES = 13,
    GAMMA_SRGB = 45455 /* gAMA of 1/2.2, in 1/100000 */
};

static const uint8_t signature[PNG_SIGNATURE_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

/* One chunk as found in the file. */
struct chunk {
    const uint8_t *body;
    uint32_t len;
    uint32_t type;
    bool crc_ok; /* true for IDAT, which is not computed here */
};

unsigned png_channels(enum png_colour colour)
{
    switch (colour) {
    case PNG_RGB:
        return 3;
    case PNG_GRAY_ALPHA:
        return 2;
    case PNG_RGB_ALPHA:
        return 4;
    case PNG_GRAY:
    case PNG_PALETTE:
        break;
    }
    return 1;
}

uint64_t png_row_bytes(const struct png_chunks *c, uint32_t w)
{
    return ((uint64_t)w * png_channels(c->colour) * c->depth + 7) / 8;
}

bool png_chunk_crc_ok(const uint8_t *p, uint32_t len)
{
    return inflate_crc32(p + 4, (size_t)len + 4) == get_be32(p + 8 + len);
}

static bool is_letters(const uint8_t *type)
{
    for (int i = 0; i < 4; i++)
        if (!((type[i] >= 'A' && type[i] <= 'Z') || (type[i] >= 'a' && type[i] <= 'z')))
            return false;
    return true;
}

static bool is_critical(uint32_t type) { return (type & 0x20000000u) == 0; }

static bool depth_allowed(unsigned colour, unsigned depth)
{
    switch (colour) {
    case PNG_GRAY:
        return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case PNG_PALETTE:
        return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case PNG_RGB:
    case PNG_GRAY_ALPHA:
    case PNG_RGB_ALPHA:
        return depth == 8 || depth == 16;
    default:
        return false;
    }
}

static enum slimset_status take_ihdr(struct png_chunks *c, const struct chunk *k,
                                     const struct image_limits *limits, struct slimset_error *err)
{
    if (k->type != PNG_IHDR || k->len != IHDR_BYTES)
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "PNG does not begin with an IHDR chunk of 13 bytes");
    if (!k->crc_ok)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG chunk IHDR: CRC does not match");
    const uint8_t *b = k->body;
    c->w = get_be32(b);
    c->h = get_be32(b + 4);
    c->depth = b[8];
    c->colour = b[9];
    c->interlaced = b[12] == 1;
    if (!depth_allowed(c->colour, c->depth) || b[10] != 0 || b[11] != 0 || b[12] > 1)
        return err_bad(
            err, SLIMSET_REJECT_CORRUPT,
            "PNG header says colour type %u, %u bits, compression %u, filter %u, interlace %u",
            b[9], b[8], b[10], b[11], b[12]);
    if (c->w > INT32_MAX || c->h > INT32_MAX)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG header says %u x %u pixels", c->w, c->h);
    return image_limits_check(limits, c->w, c->h, err);
}

static enum slimset_status take_plte(struct png_chunks *c, const struct chunk *k, bool *seen,
                                     struct slimset_error *err)
{
    if (!k->crc_ok)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG chunk PLTE: CRC does not match");
    if (*seen)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG has a second PLTE chunk");
    *seen = true;
    if (c->colour != PNG_PALETTE) { /* a mere suggestion for RGB, forbidden for gray */
        if (c->colour == PNG_GRAY || c->colour == PNG_GRAY_ALPHA || k->len % 3 != 0)
            c->notes |= NOTE_WARNING;
        return SLIMSET_OK;
    }
    if (c->idat_at != 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG chunk PLTE comes after the image data");
    if (k->len == 0 || k->len % 3 != 0 || k->len > 3 * 256)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG chunk PLTE has %u bytes", k->len);
    c->plte = k->body;
    c->plte_n = k->len / 3;
    if (c->plte_n > 1u << c->depth) {
        c->plte_n = 1u << c->depth;
        c->notes |= NOTE_WARNING;
    }
    return SLIMSET_OK;
}

/* Only notes where it is: for palette images its length is judged once the palette is known. */
static enum slimset_status take_trns(struct png_chunks *c, const struct chunk *k,
                                     struct slimset_error *err)
{
    if (c->idat_at != 0 || c->colour == PNG_GRAY_ALPHA || c->colour == PNG_RGB_ALPHA) {
        c->notes |= NOTE_WARNING; /* not allowed there, so without meaning */
        c->other = true;
        return SLIMSET_OK;
    }
    if (c->trns != NULL)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG has a second tRNS chunk");
    c->trns = k->body;
    c->trns_n = k->len;
    if (c->colour == PNG_PALETTE && c->plte == NULL)
        c->notes |= NOTE_WARNING;
    return SLIMSET_OK;
}

/* Type bytes that a damaged tRNS chunk may show. */
static bool resembles_trns(uint32_t type)
{
    uint32_t x = type ^ PNG_TRNS;
    int differ = 0;
    for (; x != 0; x >>= 8)
        differ += (x & 0xff) != 0;
    return differ <= 1;
}

static enum slimset_status take_ancillary(struct png_chunks *c, const struct chunk *k,
                                          struct slimset_error *err)
{
    if (!k->crc_ok) {
        if (resembles_trns(k->type))
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG chunk tRNS: CRC does not match");
        c->notes |= NOTE_WARNING;
        c->other = true;
        if (k->type == PNG_TYPE('i', 'C', 'C', 'P'))
            c->notes |= NOTE_PROFILE_BAD;
        return SLIMSET_OK;
    }
    switch (k->type) {
    case PNG_TRNS:
        return take_trns(c, k, err);
    case PNG_TYPE('s', 'B', 'I', 'T'):
        return SLIMSET_OK;
    case PNG_TYPE('e', 'X', 'I', 'f'):
        if (c->exif == NULL) {
            c->exif = k->body;
            c->exif_bytes = k->len;
        }
        break;
    case PNG_TYPE('c', 'I', 'C', 'P'):
        /* Transfer curves that are those of sRGB and video, or near enough; others (PQ, HLG) are not applied either. */
        if (k->len == 4 && memchr("\1\6\15\16\17", k->body[1], 5) == NULL)
            c->notes |= NOTE_GAMMA;
        break;
    case PNG_TYPE('i', 'C', 'C', 'P'):
        if (k->len == 0) {
            c->notes |= NOTE_PROFILE_BAD;
        } else if (c->iccp == NULL && c->idat_at == 0) {
            c->iccp = k->body;
            c->iccp_bytes = k->len;
        } else {
            c->notes |= NOTE_WARNING;
        }
        break;
    case PNG_TYPE('g', 'A', 'M', 'A'):
        if (k->len == 4 && get_be32(k->body) != GAMMA_SRGB)
            c->notes |= NOTE_GAMMA;
        break;
    case PNG_TYPE('a', 'c', 'T', 'L'):
        if (k->len == 8 && get_be32(k->body) != 0)
            c->frames = get_be32(k->body);
        else
            c->notes |= NOTE_WARNING;
        break;
    default:
        break;
    }
    c->other = true;
    return SLIMSET_OK;
}

static enum slimset_status take_idat(struct png_chunks *c, const struct chunk *k, size_t at,
                                     struct slimset_error *err)
{
    if (c->idat_at == 0)
        c->idat_at = c->idat_end = at;
    if (c->idat_end != at)
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "PNG has IDAT chunks that do not follow each other");
    c->idat_end = at + k->len + PNG_CHUNK_EXTRA;
    c->idat_bytes += k->len;
    return SLIMSET_OK;
}

/* What can be said only when all chunks were seen. */
static enum slimset_status finish(struct png_chunks *c, struct slimset_error *err)
{
    if (c->idat_at == 0)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNG ends without image data");
    if (c->colour == PNG_PALETTE && c->plte == NULL)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG with palette indices has no PLTE chunk");
    if (c->frames > 1)
        c->notes |= NOTE_FIRST_FRAME;
    if (c->trns == NULL)
        return SLIMSET_OK;
    bool usable = true;
    if (c->colour == PNG_GRAY)
        usable = c->trns_n == 2;
    else if (c->colour == PNG_RGB)
        usable = c->trns_n == 6;
    else if (c->trns_n > c->plte_n) { /* entries of no colour: the others keep their meaning */
        c->trns_n = c->plte_n;
        c->notes |= NOTE_WARNING;
    } else
        usable = c->trns_n != 0;
    if (!usable) {
        c->trns = NULL;
        c->trns_n = 0;
        c->notes |= NOTE_WARNING;
        c->other = true;
    }
    return SLIMSET_OK;
}

static enum slimset_status check_signature(const uint8_t *data, size_t n, struct slimset_error *err)
{
    size_t there = n < PNG_SIGNATURE_BYTES ? n : PNG_SIGNATURE_BYTES;
    if (there != 0 && memcmp(data, signature, there) != 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG signature is damaged");
    if (n < PNG_SIGNATURE_BYTES + IHDR_BYTES + PNG_CHUNK_EXTRA)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNG of %zu bytes ends in its header", n);
    return SLIMSET_OK;
}

enum walk_step { STEP_CHUNK, STEP_STOP, STEP_ERROR };

/* The chunk at an offset. Behind the image data a file may end in any way: STEP_STOP. */
static enum walk_step next_chunk(const uint8_t *data, size_t n, size_t at, struct png_chunks *c,
                                 struct chunk *k, struct slimset_error *err)
{
    size_t left = n - at;
    bool image_seen = c->idat_at != 0;
    if (left < PNG_CHUNK_EXTRA) {
        c->notes |= NOTE_WARNING; /* no IEND */
        c->other |= left != 0;
        return STEP_STOP;
    }
    const uint8_t *p = data + at;
    k->len = get_be32(p);
    k->type = get_be32(p + 4);
    k->body = p + 8;
    if (!is_letters(p + 4)) {
        c->notes |= NOTE_WARNING;
        c->other = true;
        if (image_seen)
            return STEP_STOP;
        err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG has no chunk at byte %zu where one should be",
                at);
        return STEP_ERROR;
    }
    if (k->len > left - PNG_CHUNK_EXTRA) {
        c->notes |= NOTE_WARNING;
        c->other = true;
        if (image_seen && k->type != PNG_IDAT)
            return STEP_STOP;
        err_bad(err, k->len > INT32_MAX ? SLIMSET_REJECT_CORRUPT : SLIMSET_REJECT_TRUNCATED,
                "PNG chunk %.4s at byte %zu has %u bytes, the file has %zu more",
                (const char *)p + 4, at, k->len, left - PNG_CHUNK_EXTRA);
        return STEP_ERROR;
    }
    k->crc_ok = k->type == PNG_IDAT || png_chunk_crc_ok(p, k->len);
    return STEP_CHUNK;
}

static enum slimset_status take_chunk(struct png_chunks *c, const struct chunk *k, size_t at,
                                      bool *plte_seen, struct slimset_error *err)
{
    if (k->type == PNG_IDAT)
        return take_idat(c, k, at, err);
    if (k->type == PNG_PLTE)
        return take_plte(c, k, plte_seen, err);
    if (!is_critical(k->type))
        return take_ancillary(c, k, err);
    if (k->type == PNG_IHDR || !k->crc_ok)
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "PNG chunk %.4s at byte %zu is damaged or out of place",
                       (const char *)k->body - 4, at);
    return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                   "PNG has a critical chunk %.4s that no PNG reader knows",
                   (const char *)k->body - 4);
}

enum slimset_status png_chunks_walk(const uint8_t *data, size_t n,
                                    const struct image_limits *limits, struct png_chunks *c,
                                    struct slimset_error *err)
{
    memset(c, 0, sizeof *c);
    c->frames = 1;
    enum slimset_status st = check_signature(data, n, err);
    if (st != SLIMSET_OK)
        return st;
    size_t at = PNG_SIGNATURE_BYTES;
    bool plte_seen = false;
    for (;;) {
        struct chunk k;
        enum walk_step step = next_chunk(data, n, at, c, &k, err);
        if (step == STEP_ERROR)
            return SLIMSET_BAD_INPUT;
        if (step == STEP_STOP)
            break;
        if (at == PNG_SIGNATURE_BYTES) {
            st = take_ihdr(c, &k, limits, err);
        } else if (k.type == PNG_IEND) {
            if (k.len != 0 || !k.crc_ok)
                c->notes |= NOTE_WARNING;
            if (n - at > (size_t)k.len + PNG_CHUNK_EXTRA) {
                c->notes |= NOTE_TAIL_BYTES;
                c->other = true;
            }
            break;
        } else {
            st = take_chunk(c, &k, at, &plte_seen, err);
        }
        if (st != SLIMSET_OK)
            return st;
        at += (size_t)k.len + PNG_CHUNK_EXTRA;
    }
    return finish(c, err);
}

/* What png_strip takes along, given that the walk accepted the file. */
static bool keeps(const struct png_chunks *c, const struct chunk *k)
{
    switch (k->type) {
    case PNG_IHDR:
    case PNG_PLTE:
    case PNG_IDAT:
        return true;
    case PNG_TRNS:
        return k->body == c->trns;
    case PNG_TYPE('s', 'B', 'I', 'T'):
        return k->crc_ok;
    default:
        return false;
    }
}

enum slimset_status png_strip(const uint8_t *data, size_t n, struct buf *out,
                              struct slimset_error *err)
{
    static const struct image_limits any = {.max_pixels = UINT64_MAX, .max_side = UINT32_MAX};
    static const uint8_t iend[PNG_CHUNK_EXTRA] = {0,   0,   0,    0,    'I',  'E',
                                                  'N', 'D', 0xae, 0x42, 0x60, 0x82};
    struct png_chunks c;
    enum slimset_status st = png_chunks_walk(data, n, &any, &c, err);
    if (st != SLIMSET_OK)
        return st;
    size_t before = out->len;
    st = buf_append(out, data, PNG_SIGNATURE_BYTES, err);
    size_t at = PNG_SIGNATURE_BYTES;
    struct chunk k;
    while (st == SLIMSET_OK && next_chunk(data, n, at, &c, &k, err) == STEP_CHUNK &&
           k.type != PNG_IEND) {
        size_t whole = (size_t)k.len + PNG_CHUNK_EXTRA;
        if (keeps(&c, &k))
            st = buf_append(out, data + at, whole, err);
        at += whole;
    }
    if (st == SLIMSET_OK)
        st = buf_append(out, iend, sizeof iend, err);
    if (st != SLIMSET_OK)
        out->len = before;
    return st;
}
