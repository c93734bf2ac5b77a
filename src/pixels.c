/* SPDX-License-Identifier: Apache-2.0 */
#include "pixels.h"

#include <string.h>

static uint8_t *row8(const struct image_plane *p, uint32_t y)
{
    return p->data + (size_t)y * p->stride_bytes;
}

static uint16_t *row16(const struct image_plane *p, uint32_t y)
{
    return (uint16_t *)(void *)(p->data + (size_t)y * p->stride_bytes);
}

static const struct image_plane *alpha_plane(const struct image *im)
{
    return &im->plane[im->n_planes - 1];
}

/* a * b / 255 rounded, exact for 8-bit values; the same for 16 bits with 65535. */
static uint32_t mul255(uint32_t a, uint32_t b)
{
    uint32_t t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

static uint32_t mul65535(uint32_t a, uint32_t b)
{
    uint64_t t = (uint64_t)a * b + 32768;
    return (uint32_t)(((t >> 16) + t) >> 16);
}

bool pixels_alpha_opaque(const struct image *im)
{
    const struct image_plane *p = alpha_plane(im);
    for (uint32_t y = 0; y < p->h; y++) {
        uint32_t low = im->bits == 16 ? 65535 : 255;
        if (im->bits == 16) {
            const uint16_t *r = row16(p, y);
            for (uint32_t x = 0; x < p->w; x++)
                low &= r[x];
            if (low != 65535)
                return false;
        } else {
            const uint8_t *r = row8(p, y);
            for (uint32_t x = 0; x < p->w; x++)
                low &= r[x];
            if (low != 255)
                return false;
        }
    }
    return true;
}

void pixels_drop_alpha(struct image *im)
{
    im->alpha = false;
    im->n_planes--;
}

static void swap_images(struct image *a, struct image *b)
{
    struct image t = *a;
    *a = *b;
    *b = t;
}

enum slimset_status pixels_to_rgb(struct image *im, struct image *scratch, struct slimset_error *err)
{
    enum slimset_status st = image_setup(scratch, IMAGE_RGB, im->alpha, im->bits, im->w, im->h, err);
    if (st != SLIMSET_OK)
        return st;
    for (unsigned i = 0; i < scratch->n_planes; i++) {
        const struct image_plane *from = i < 3 ? &im->plane[0] : alpha_plane(im);
        struct image_plane *to = &scratch->plane[i];
        for (uint32_t y = 0; y < to->h; y++)
            memcpy(row8(to, y), row8(from, y), (size_t)to->w * (im->bits / 8u));
    }
    swap_images(im, scratch);
    return SLIMSET_OK;
}

enum slimset_status pixels_flatten(struct image *im, const uint8_t background[3], struct image *scratch,
                                   struct slimset_error *err)
{
    bool coloured = background[0] != background[1] || background[1] != background[2];
    if (im->colour == IMAGE_GRAY && coloured) {
        enum slimset_status st = pixels_to_rgb(im, scratch, err);
        if (st != SLIMSET_OK)
            return st;
    }
    const struct image_plane *ap = alpha_plane(im);
    for (unsigned i = 0; i + 1 < im->n_planes; i++) {
        struct image_plane *p = &im->plane[i];
        uint32_t bg = im->colour == IMAGE_GRAY ? background[0] : background[i];
        for (uint32_t y = 0; y < p->h; y++) {
            if (im->bits == 16) {
                uint16_t *c = row16(p, y);
                const uint16_t *a = row16(ap, y);
                for (uint32_t x = 0; x < p->w; x++)
                    c[x] = (uint16_t)((c[x] * (uint64_t)a[x] + bg * 257u * (uint64_t)(65535u - a[x]) + 32767) / 65535);
            } else {
                uint8_t *c = row8(p, y);
                const uint8_t *a = row8(ap, y);
                for (uint32_t x = 0; x < p->w; x++)
                    c[x] = (uint8_t)((c[x] * (uint32_t)a[x] + bg * (255u - a[x]) + 127) / 255);
            }
        }
    }
    pixels_drop_alpha(im);
    return SLIMSET_OK;
}

static void cmyk_row16(uint16_t *c, const uint16_t *k, uint32_t w)
{
    for (uint32_t x = 0; x < w; x++)
        c[x] = (uint16_t)(((uint64_t)c[x] * k[x] + 32767) / 65535);
}

void pixels_cmyk_to_rgb(struct image *im)
{
    for (uint32_t y = 0; y < im->h && im->bits == 16; y++)
        for (unsigned i = 0; i < 3; i++)
            cmyk_row16(row16(&im->plane[i], y), row16(&im->plane[3], y), im->w);
    for (uint32_t y = 0; y < im->h && im->bits == 8; y++) {
        const uint8_t *k = row8(&im->plane[3], y);
        for (unsigned i = 0; i < 3; i++) {
            uint8_t *c = row8(&im->plane[i], y);
            for (uint32_t x = 0; x < im->w; x++)
                c[x] = (uint8_t)(k[x] - mul255(255u - c[x], k[x]));
        }
    }
    if (im->alpha) /* alpha follows the colour planes */
        im->plane[3] = im->plane[4];
    im->colour = IMAGE_RGB;
    im->n_planes--;
}

void pixels_to_8bit(struct image *im, bool shift, double lo, double hi)
{
    for (unsigned i = 0; i < im->n_planes; i++) {
        struct image_plane *p = &im->plane[i];
        bool plain = shift || (im->alpha && i == im->n_planes - 1u);
        for (uint32_t y = 0; y < p->h; y++) {
            const uint16_t *from = row16(p, y);
            uint8_t *to = row8(p, y);
            for (uint32_t x = 0; x < p->w; x++) {
                if (plain) {
                    to[x] = (uint8_t)(from[x] >> 8);
                    continue;
                }
                double v = (from[x] - lo) * 255.0 / (hi - lo) + 0.5;
                to[x] = (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v);
            }
        }
    }
    im->bits = 8;
}

static uint32_t sample_at(const struct image *im, unsigned plane, uint32_t x, uint32_t y)
{
    return im->bits == 16 ? row16(&im->plane[plane], y)[x] : row8(&im->plane[plane], y)[x];
}

/* Smallest and largest sample of the colour planes. */
static void value_range(const struct image *im, uint32_t *min, uint32_t *max)
{
    *min = UINT32_MAX;
    *max = 0;
    for (unsigned i = 0; i < image_colour_planes(im->colour); i++)
        for (uint32_t y = 0; y < im->h; y++)
            for (uint32_t x = 0; x < im->w; x++) {
                uint32_t v = sample_at(im, i, x, y);
                *min = v < *min ? v : *min;
                *max = v > *max ? v : *max;
            }
}

bool pixels_outside(const struct image *im, double lo, double hi)
{
    uint32_t min, max;
    value_range(im, &min, &max);
    return min < lo || max > hi;
}

void pixels_to_gray(struct image *im)
{
    for (uint32_t y = 0; y < im->h; y++) {
        if (im->bits == 16) {
            uint16_t *r = row16(&im->plane[0], y);
            const uint16_t *g = row16(&im->plane[1], y), *b = row16(&im->plane[2], y);
            for (uint32_t x = 0; x < im->w; x++)
                r[x] = (uint16_t)((r[x] * 19595u + (uint64_t)g[x] * 38470u + b[x] * 7471u + 0x8000u) >> 16);
        } else {
            uint8_t *r = row8(&im->plane[0], y);
            const uint8_t *g = row8(&im->plane[1], y), *b = row8(&im->plane[2], y);
            for (uint32_t x = 0; x < im->w; x++)
                r[x] = (uint8_t)((r[x] * 19595u + g[x] * 38470u + b[x] * 7471u + 0x8000u) >> 16);
        }
    }
    if (im->alpha)
        im->plane[1] = im->plane[3];
    im->colour = IMAGE_GRAY;
    im->n_planes = im->alpha ? 2 : 1;
}

enum slimset_status pixels_expand(struct image *im, struct image *scratch, struct slimset_error *err)
{
    bool alpha = false;
    for (uint32_t i = 0; i < im->palette_n; i++)
        alpha |= im->palette[i][3] != 255;
    enum slimset_status st = image_setup(scratch, IMAGE_RGB, alpha, 8, im->w, im->h, err);
    if (st != SLIMSET_OK)
        return st;
    for (unsigned i = 0; i < scratch->n_planes; i++)
        for (uint32_t y = 0; y < im->h; y++) {
            const uint8_t *from = row8(&im->plane[0], y);
            uint8_t *to = row8(&scratch->plane[i], y);
            for (uint32_t x = 0; x < im->w; x++)
                to[x] = im->palette[from[x]][i];
        }
    swap_images(im, scratch);
    return SLIMSET_OK;
}

enum slimset_status pixels_premultiply(struct image *im, struct image *scratch, struct slimset_error *err)
{
    enum slimset_status st = image_setup(scratch, im->colour, true, 16, im->w, im->h, err);
    if (st != SLIMSET_OK)
        return st;
    unsigned last = im->n_planes - 1u;
    for (uint32_t y = 0; y < im->h; y++) {
        uint16_t *a = row16(&scratch->plane[last], y);
        for (unsigned k = 0; k <= last; k++) {
            unsigned i = k == 0 ? last : k - 1; /* alpha first: the others need it */
            uint16_t *to = row16(&scratch->plane[i], y);
            const uint8_t *from8 = row8(&im->plane[i], y);
            const uint16_t *from16 = row16(&im->plane[i], y);
            for (uint32_t x = 0; x < im->w; x++) {
                uint32_t v = im->bits == 16 ? from16[x] : from8[x] * 257u;
                to[x] = (uint16_t)(i == last ? v : mul65535(v, a[x]));
            }
        }
    }
    swap_images(im, scratch);
    return SLIMSET_OK;
}

void pixels_unpremultiply(struct image *im, uint8_t bits)
{
    unsigned last = im->n_planes - 1u;
    for (uint32_t y = 0; y < im->h; y++) {
        const uint16_t *a = row16(&im->plane[last], y);
        for (unsigned i = 0; i <= last; i++) { /* alpha last: it is overwritten too */
            uint16_t *c = row16(&im->plane[i], y);
            uint8_t *c8 = row8(&im->plane[i], y);
            for (uint32_t x = 0; x < im->w; x++) {
                uint32_t v = c[x];
                if (i != last)
                    v = a[x] == 0 ? 0 : (uint32_t)((v * (uint64_t)65535 + a[x] / 2) / a[x]);
                if (v > 65535)
                    v = 65535;
                if (bits == 16)
                    c[x] = (uint16_t)v;
                else
                    c8[x] = (uint8_t)((v + 128) / 257);
            }
        }
    }
    im->bits = bits;
}

uint16_t pixels_background(const struct image *im, unsigned plane, const uint8_t b[3])
{
    uint32_t r = b[0], g = b[1], bl = b[2], v;
    uint32_t luma = (r * 19595u + g * 38470u + bl * 7471u + 0x8000u) >> 16;
    if (im->alpha && plane == im->n_planes - 1u)
        v = 255;
    else if (im->colour == IMAGE_GRAY || (im->colour == IMAGE_YCC && plane == 0))
        v = luma;
    else if (im->colour == IMAGE_YCC) /* JFIF: Cb, Cr with 16-bit fractions, as libjpeg */
        v = plane == 1 ? (32768u * bl + (128u << 16) + 32767u - 11059u * r - 21709u * g) >> 16
                       : (32768u * r + (128u << 16) + 32767u - 27439u * g - 5329u * bl) >> 16;
    else if (im->colour == IMAGE_INDEX)
        v = 0;
    else
        v = b[plane];
    return (uint16_t)(im->bits == 16 ? v * 257u : v);
}

/* Sets, or with `clear` clears, the bit of every value. */
static void mark_values(const struct image *im, uint8_t *bits, bool clear)
{
    bool colour = image_colour_planes(im->colour) == 3;
    for (uint32_t y = 0; y < im->h; y++)
        for (uint32_t x = 0; x < im->w; x++) {
            uint32_t v = sample_at(im, 0, x, y);
            if (colour)
                v = v << 16 | sample_at(im, 1, x, y) << 8 | sample_at(im, 2, x, y);
            uint8_t bit = (uint8_t)(1u << (v & 7));
            bits[v >> 3] = (uint8_t)(clear ? bits[v >> 3] & ~bit : bits[v >> 3] | bit);
        }
}

enum slimset_status pixels_values_lost(const struct image *before, const struct image *after, struct buf *room, uint32_t *lost,
                                       struct slimset_error *err)
{
    unsigned colours = image_colour_planes(before->colour);
    *lost = 0;
    if ((colours != 1 && (colours != 3 || before->bits != 8)) || before->bits != after->bits || before->colour != after->colour)
        return SLIMSET_OK;
    size_t bytes = ((size_t)1 << (colours * before->bits)) / 8;
    room->len = 0;
    enum slimset_status st = buf_reserve(room, bytes, err);
    if (st != SLIMSET_OK)
        return st;
    memset(room->data, 0, bytes);
    mark_values(before, room->data, false);
    mark_values(after, room->data, true);
    for (size_t i = 0; i < bytes; i++)
        *lost += (uint32_t)__builtin_popcount(room->data[i]);
    return SLIMSET_OK;
}

/* Distinct values of plane 0, counted up to 65. */
static uint32_t distinct(const struct image *im)
{
    uint32_t seen[64], n = 0;
    for (uint32_t y = 0; y < im->h; y++)
        for (uint32_t x = 0; x < im->w; x++) {
            uint32_t v = sample_at(im, 0, x, y), i = 0;
            while (i < n && seen[i] != v)
                i++;
            if (i < n)
                continue;
            if (n == 64)
                return 65;
            seen[n++] = v;
        }
    return n;
}

/* What is left of 16-bit values without their low byte. Shares and not extremes: one hot pixel is no range. */
static void high_bytes(const struct image *im, struct pixels_stats *s)
{
    uint8_t seen[65536 / 8] = {0};
    uint64_t count[256] = {0}, all = 0, upper = 0;
    uint32_t values = 0, bytes = 0;
    for (unsigned i = 0; i < image_colour_planes(im->colour); i++)
        for (uint32_t y = 0; y < im->h; y++)
            for (uint32_t x = 0; x < im->w; x++) {
                uint32_t v = sample_at(im, i, x, y);
                seen[v >> 3] |= (uint8_t)(1u << (v & 7));
                count[v >> 8]++;
            }
    for (size_t i = 0; i < sizeof seen; i++)
        values += (uint32_t)__builtin_popcount(seen[i]);
    for (unsigned i = 0; i < 256; i++) {
        all += count[i];
        upper += i >= 128 ? count[i] : 0;
        bytes += count[i] > 0;
    }
    for (unsigned i = 0; i < 256; i++)
        s->levels += count[i] > 0 && count[i] * 1000 >= all;
    s->upper_permille = all > 0 ? (uint32_t)(upper * 1000 / all) : 0;
    s->merges = values > bytes;
}

enum { STAT_ROWS = 64 }; /* spread over the picture: enough for shares, cheap beside decoding it */

void pixels_stats(const struct image *im, struct pixels_stats *s)
{
    unsigned colours = image_colour_planes(im->colour);
    uint32_t step = im->h > STAT_ROWS ? im->h / STAT_ROWS : 1;
    uint64_t zero = 0, equal = 0, pairs = 0, pixels = 0;
    memset(s, 0, sizeof *s);
    s->min_value = UINT32_MAX;
    for (uint32_t y = 0; y < im->h; y += step)
        for (uint32_t x = 0; x < im->w; x++) {
            bool same = x > 0;
            zero += sample_at(im, 0, x, y) == 0;
            for (unsigned i = 0; i < colours; i++) {
                uint32_t c = sample_at(im, i, x, y);
                s->min_value = c < s->min_value ? c : s->min_value;
                s->max_value = c > s->max_value ? c : s->max_value;
                same = same && c == sample_at(im, i, x - 1, y);
            }
            equal += same;
            pairs += x > 0;
            pixels++;
        }
    if (im->bits == 16) {
        value_range(im, &s->min_value, &s->max_value);
        high_bytes(im, s);
    }
    if (colours == 1)
        s->values = distinct(im);
    s->zero_permille = pixels != 0 ? (uint32_t)(zero * 1000 / pixels) : 0;
    s->equal_permille = pairs != 0 ? (uint32_t)(equal * 1000 / pairs) : 0;
}
