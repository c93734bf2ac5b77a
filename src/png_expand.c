/* SPDX-License-Identifier: Apache-2.0 */
#include "png_expand.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "png_unfilter.h"

void png_expand_init(struct png_expand *e, const struct png_chunks *c, bool keep_index, bool simd)
{
    memset(e, 0, sizeof *e);
    e->colour = c->colour;
    e->depth = c->depth;
    e->keep_index = keep_index;
    e->simd = simd && png_simd_supported();
    bool opacity = c->trns != NULL && !keep_index;
    e->alpha = opacity || c->colour == PNG_GRAY_ALPHA || c->colour == PNG_RGB_ALPHA;
    e->key = opacity && c->colour != PNG_PALETTE;
    if (e->key) {
        uint32_t mask =
            (1u << c->depth) - 1; /* higher bits of the 16 stored ones have no meaning */
        for (uint32_t i = 0; i < c->trns_n / 2; i++)
            e->key_value[i] = (uint16_t)(get_be16(c->trns + 2 * i) & mask);
    }
    e->palette_n = c->plte_n;
    for (uint32_t i = 0; i < c->plte_n; i++) {
        memcpy(e->palette[i], c->plte + 3 * i, 3);
        e->palette[i][3] = i < c->trns_n ? c->trns[i] : 255;
    }
}

enum image_colour png_expand_colour(const struct png_expand *e)
{
    if (e->colour == PNG_PALETTE)
        return e->keep_index ? IMAGE_INDEX : IMAGE_RGB;
    return e->colour == PNG_GRAY || e->colour == PNG_GRAY_ALPHA ? IMAGE_GRAY : IMAGE_RGB;
}

uint8_t png_expand_bits(const struct png_expand *e) { return e->depth == 16 ? 16 : 8; }

/* Packed samples, leftmost in the high bits, to one byte each. */
static void unpack(const uint8_t *row, uint32_t w, unsigned depth, uint8_t *to)
{
    const unsigned per_byte = 8 / depth, mask = (1u << depth) - 1;
    uint32_t x = 0;
    for (; x + per_byte <= w; x += per_byte, row++)
        for (unsigned k = 0; k < per_byte; k++)
            to[x + k] = (uint8_t)(*row >> (8 - depth * (k + 1)) & mask);
    for (unsigned k = 0; x < w; x++, k++)
        to[x] = (uint8_t)(*row >> (8 - depth * (k + 1)) & mask);
}

static void gray_row(const struct png_expand *e, const uint8_t *row, uint32_t w,
                     uint8_t *const *plane)
{
    uint8_t *gray = plane[0];
    if (e->depth == 8)
        memcpy(gray, row, w);
    else
        unpack(row, w, e->depth, gray);
    if (e->key)
        for (uint32_t x = 0; x < w; x++)
            plane[1][x] = gray[x] == e->key_value[0] ? 0 : 255;
    if (e->depth < 8 && !e->keep_index) {
        const unsigned scale = 255u / ((1u << e->depth) - 1);
        for (uint32_t x = 0; x < w; x++)
            gray[x] = (uint8_t)(gray[x] * scale);
    }
}

static bool palette_row(const struct png_expand *e, const uint8_t *row, uint32_t w,
                        uint8_t *const *plane)
{
    if (e->depth < 8) {
        unpack(row, w, e->depth, plane[0]);
        row = plane[0];
    }
    uint8_t largest = 0;
    if (e->palette_n < 1u << e->depth)
        for (uint32_t x = 0; x < w; x++)
            largest = row[x] > largest ? row[x] : largest;
    if (largest >= e->palette_n)
        return false;
    if (e->keep_index) {
        if (row != plane[0])
            memcpy(plane[0], row, w);
        return true;
    }
    uint8_t *r = plane[0], *g = plane[1], *b = plane[2];
    if (e->alpha)
        for (uint32_t x = 0; x < w; x++)
            plane[3][x] = e->palette[row[x]][3];
    for (uint32_t x = 0; x < w; x++) {
        const uint8_t *entry =
            e->palette[row[x]]; /* row may be plane[0]: read before it is written */
        r[x] = entry[0];
        g[x] = entry[1];
        b[x] = entry[2];
    }
    return true;
}

#if defined(__x86_64__)

/* 16 pixels a step; the last step reads and writes into the slack. */
__attribute__((target("ssse3"))) static void split3_simd(const uint8_t *row, uint32_t w,
                                                         uint8_t *const *plane)
{
    uint8_t pick[3][3]
                [16]; /* [plane][16 input bytes of 48]: which of them, where; 0x80 gives zero */
    memset(pick, 0x80, sizeof pick);
    for (unsigned p = 0; p < 3; p++)
        for (unsigned x = 0; x < 16; x++)
            pick[p][(3 * x + p) / 16][x] = (uint8_t)((3 * x + p) % 16);
    __m128i m[3][3];
#pragma GCC unroll 3
    for (unsigned p = 0; p < 3; p++)
#pragma GCC unroll 3
        for (unsigned k = 0; k < 3; k++)
            m[p][k] = _mm_loadu_si128((const __m128i *)pick[p][k]);
    for (size_t x = 0; x < w; x += 16) {
        const __m128i *from = (const __m128i *)(row + 3 * x);
        __m128i v0 = _mm_loadu_si128(from), v1 = _mm_loadu_si128(from + 1),
                v2 = _mm_loadu_si128(from + 2);
#pragma GCC unroll 3 /* keeps m[][] in registers at -O2, too */
        for (unsigned p = 0; p < 3; p++) {
            __m128i v = _mm_or_si128(_mm_shuffle_epi8(v0, m[p][0]), _mm_shuffle_epi8(v1, m[p][1]));
            v = _mm_or_si128(v, _mm_shuffle_epi8(v2, m[p][2]));
            _mm_storeu_si128((__m128i *)(plane[p] + x), v);
        }
    }
}

/* As split3_simd: bytes of a kind together in each register, then a 4x4 transpose of 32-bit groups.
 * */
__attribute__((target("ssse3"))) static void split4_simd(const uint8_t *row, uint32_t w,
                                                         uint8_t *const *plane)
{
    const __m128i group = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (size_t x = 0; x < w; x += 16) {
        const __m128i *from = (const __m128i *)(row + 4 * x);
        __m128i v0 = _mm_shuffle_epi8(_mm_loadu_si128(from), group);
        __m128i v1 = _mm_shuffle_epi8(_mm_loadu_si128(from + 1), group);
        __m128i v2 = _mm_shuffle_epi8(_mm_loadu_si128(from + 2), group);
        __m128i v3 = _mm_shuffle_epi8(_mm_loadu_si128(from + 3), group);
        __m128i rg01 = _mm_unpacklo_epi32(v0, v1), rg23 = _mm_unpacklo_epi32(v2, v3);
        __m128i ba01 = _mm_unpackhi_epi32(v0, v1), ba23 = _mm_unpackhi_epi32(v2, v3);
        _mm_storeu_si128((__m128i *)(plane[0] + x), _mm_unpacklo_epi64(rg01, rg23));
        _mm_storeu_si128((__m128i *)(plane[1] + x), _mm_unpackhi_epi64(rg01, rg23));
        _mm_storeu_si128((__m128i *)(plane[2] + x), _mm_unpacklo_epi64(ba01, ba23));
        _mm_storeu_si128((__m128i *)(plane[3] + x), _mm_unpackhi_epi64(ba01, ba23));
    }
}

#endif

static void split8(const struct png_expand *e, const uint8_t *row, uint32_t w, unsigned n,
                   uint8_t *const *plane)
{
#if defined(__x86_64__)
    if (e->simd && n == 3) {
        split3_simd(row, w, plane);
        return;
    }
    if (e->simd && n == 4) {
        split4_simd(row, w, plane);
        return;
    }
#else
    (void)e;
#endif
    for (unsigned p = 0; p < n; p++)
        for (size_t x = 0; x < w; x++)
            plane[p][x] = row[x * n + p];
}

static void split16(const uint8_t *row, uint32_t w, unsigned n, uint8_t *const *plane)
{
    for (unsigned p = 0; p < n; p++) {
        uint16_t *to = (uint16_t *)(void *)plane[p];
        const uint8_t *from = row + 2 * (size_t)p;
        for (size_t x = 0; x < w; x++)
            to[x] = get_be16(from + 2 * x * n);
    }
}

/* Alpha behind n colour planes: 0 where all samples are the key's. */
static void key_alpha(const struct png_expand *e, uint32_t w, unsigned n, uint8_t *const *plane)
{
    if (e->depth == 16) {
        uint16_t *alpha = (uint16_t *)(void *)plane[n];
        for (uint32_t x = 0; x < w; x++)
            alpha[x] = 0;
        for (unsigned p = 0; p < n; p++) {
            const uint16_t *from = (const uint16_t *)(void *)plane[p];
            for (uint32_t x = 0; x < w; x++)
                alpha[x] |= from[x] == e->key_value[p] ? 0 : 65535;
        }
        return;
    }
    memset(plane[n], 0, w);
    for (unsigned p = 0; p < n; p++)
        for (uint32_t x = 0; x < w; x++)
            plane[n][x] |= plane[p][x] == e->key_value[p] ? 0 : 255;
}

bool png_expand_row(const struct png_expand *e, const uint8_t *row, uint32_t w,
                    uint8_t *const *plane)
{
    if (e->colour == PNG_PALETTE)
        return palette_row(e, row, w, plane);
    if (e->colour == PNG_GRAY && e->depth <= 8) {
        gray_row(e, row, w, plane);
        return true;
    }
    unsigned n = png_channels(e->colour);
    if (e->depth == 16)
        split16(row, w, n, plane);
    else
        split8(e, row, w, n, plane);
    if (e->key)
        key_alpha(e, w, n, plane);
    return true;
}
