/* SPDX-License-Identifier: Apache-2.0 */
#include "pixel_out.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

size_t pixel_out_plane_bytes(const struct pixel_out *out) { return out->stride_bytes * out->h; }

/* Where sample (channel c, row y) goes, and how many samples lie from pixel to pixel. */
static uint8_t *place(const struct pixel_out *out, unsigned c, uint32_t y, unsigned *step)
{
    uint8_t *row = out->to + (size_t)y * out->stride_bytes;
    *step = out->layout == SLIMSET_CHW ? 1 : out->channels;
    return out->layout == SLIMSET_CHW ? row + c * pixel_out_plane_bytes(out)
                                      : row + c * (out->bits / 8u);
}

static void put8(uint8_t *to, unsigned step, const uint8_t *from, uint32_t w)
{
    if (step == 1 && from != NULL)
        memcpy(to, from, w);
    else
        for (uint32_t x = 0; x < w; x++)
            to[(size_t)x * step] = from != NULL ? from[x] : 255;
}

static void put16(uint16_t *to, unsigned step, const uint16_t *from, uint32_t w)
{
    for (uint32_t x = 0; x < w; x++)
        to[(size_t)x * step] = from != NULL ? from[x] : 65535;
}

/* Three planes side by side in one go: what nearly every row is. */
static void put_rgb(uint8_t *restrict to, const uint8_t *restrict r, const uint8_t *restrict g,
                    const uint8_t *restrict b, uint32_t w)
{
    uint32_t x = 0;
#if defined(__x86_64__)
    /* Four bytes a pixel, of which the next one overwrites the last: so not for the last pixels. */
    for (; x + 17 <= w; x += 16) {
        __m128i vr = _mm_loadu_si128((const __m128i *)(const void *)(r + x));
        __m128i vg = _mm_loadu_si128((const __m128i *)(const void *)(g + x));
        __m128i vb = _mm_loadu_si128((const __m128i *)(const void *)(b + x));
        __m128i rg[2] = {_mm_unpacklo_epi8(vr, vg), _mm_unpackhi_epi8(vr, vg)};
        __m128i b0[2] = {_mm_unpacklo_epi8(vb, vb), _mm_unpackhi_epi8(vb, vb)};
        uint32_t px[16];
        for (unsigned i = 0; i < 2; i++) {
            _mm_storeu_si128((__m128i *)(void *)&px[8 * i], _mm_unpacklo_epi16(rg[i], b0[i]));
            _mm_storeu_si128((__m128i *)(void *)&px[8 * i + 4], _mm_unpackhi_epi16(rg[i], b0[i]));
        }
        for (unsigned i = 0; i < 16; i++)
            memcpy(to + 3 * ((size_t)x + i), &px[i], 4);
    }
#endif
    for (; x < w; x++) {
        to[3 * (size_t)x] = r[x];
        to[3 * (size_t)x + 1] = g[x];
        to[3 * (size_t)x + 2] = b[x];
    }
}

void pixel_out_planes(const struct pixel_out *out, const struct image_plane *const *plane,
                      uint32_t x, uint32_t y)
{
    const size_t bytes = out->bits / 8u;
    for (uint32_t j = 0; j < out->h; j++) {
        const uint8_t *from[IMAGE_PLANES_MAX];
        for (unsigned c = 0; c < out->channels; c++)
            from[c] = plane[c] != NULL
                          ? plane[c]->data + (size_t)(y + j) * plane[c]->stride_bytes + x * bytes
                          : NULL;
        if (out->channels == 3 && bytes == 1 && out->layout == SLIMSET_HWC) {
            put_rgb(out->to + (size_t)j * out->stride_bytes, from[0], from[1], from[2], out->w);
            continue;
        }
        for (unsigned c = 0; c < out->channels; c++) {
            unsigned step;
            uint8_t *to = place(out, c, j, &step);
            if (bytes == 1)
                put8(to, step, from[c], out->w);
            else
                put16((uint16_t *)(void *)to, step, (const uint16_t *)(const void *)from[c],
                      out->w);
        }
    }
}

static uint8_t clamp8(int32_t v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* ITU-R BT.601, full range: jdcolor.c's constants in 16-bit fractions and its rounding. Whole parts are
 * taken out of the factors, so that what is left fits 16 bits: 1.402 = 1 + 26345 / 65536, and so on. */
static void ycc_row(const uint8_t *restrict y, const uint8_t *restrict cb,
                    const uint8_t *restrict cr, uint8_t *restrict r, uint8_t *restrict g,
                    uint8_t *restrict b, uint32_t w)
{
    enum { R_CR = 26345, G_CB = -22554, G_CR = 18734, B_CB = -14942, HALF = 32768 };
    uint32_t x = 0;
#if defined(__x86_64__)
    const __m128i zero = _mm_setzero_si128(), middle = _mm_set1_epi16(128);
    const __m128i half = _mm_set1_epi32(HALF);
    const __m128i factor[3] = {_mm_set1_epi32((int)((uint32_t)R_CR << 16)),
                               _mm_set1_epi32((int)((uint32_t)G_CR << 16 | (uint16_t)G_CB)),
                               _mm_set1_epi32((uint16_t)B_CB)};
    for (; x + 8 <= w; x += 8) {
        __m128i l = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)(y + x)), zero);
        __m128i u = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)(cb + x)), zero);
        __m128i v = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)(cr + x)), zero);
        u = _mm_sub_epi16(u, middle);
        v = _mm_sub_epi16(v, middle);
        __m128i lo = _mm_unpacklo_epi16(u, v), hi = _mm_unpackhi_epi16(u, v), out[3];
        for (unsigned i = 0; i < 3; i++) {
            __m128i a = _mm_srai_epi32(_mm_add_epi32(_mm_madd_epi16(lo, factor[i]), half), 16);
            __m128i c = _mm_srai_epi32(_mm_add_epi32(_mm_madd_epi16(hi, factor[i]), half), 16);
            out[i] = _mm_add_epi16(l, _mm_packs_epi32(a, c));
        }
        out[0] = _mm_add_epi16(out[0], v);
        out[1] = _mm_sub_epi16(out[1], v);
        out[2] = _mm_add_epi16(out[2], _mm_add_epi16(u, u));
        _mm_storel_epi64((__m128i *)(void *)(r + x), _mm_packus_epi16(out[0], zero));
        _mm_storel_epi64((__m128i *)(void *)(g + x), _mm_packus_epi16(out[1], zero));
        _mm_storel_epi64((__m128i *)(void *)(b + x), _mm_packus_epi16(out[2], zero));
    }
#endif
    for (; x < w; x++) {
        int32_t l = y[x], u = cb[x] - 128, v = cr[x] - 128;
        r[x] = clamp8(l + v + ((R_CR * v + HALF) >> 16));
        g[x] = clamp8(l - v + ((G_CB * u + G_CR * v + HALF) >> 16));
        b[x] = clamp8(l + 2 * u + ((B_CB * u + HALF) >> 16));
    }
}

void pixel_out_ycc(const struct pixel_out *out, const struct image_plane plane[3])
{
    enum { PIECE = 512 };
    uint8_t rgb[3][PIECE];
    for (uint32_t j = 0; j < out->h; j++)
        for (uint32_t x = 0; x < out->w; x += PIECE) {
            uint32_t n = out->w - x < PIECE ? out->w - x : PIECE;
            const uint8_t *p[3];
            for (unsigned i = 0; i < 3; i++)
                p[i] = plane[i].data + (size_t)j * plane[i].stride_bytes + x;
            ycc_row(p[0], p[1], p[2], rgb[0], rgb[1], rgb[2], n);
            unsigned step;
            uint8_t *to = place(out, 0, j, &step) + (size_t)x * step;
            if (step == 3) {
                put_rgb(to, rgb[0], rgb[1], rgb[2], n);
                continue;
            }
            for (unsigned c = 0; c < out->channels; c++)
                put8(place(out, c, j, &step) + (size_t)x * step, step, c < 3 ? rgb[c] : NULL, n);
        }
}

void pixel_out_rows(const struct pixel_out *out, const uint8_t *from, size_t from_stride_bytes,
                    unsigned n)
{
    for (uint32_t j = 0; j < out->h; j++, from += from_stride_bytes)
        for (unsigned c = 0; c < out->channels; c++) {
            unsigned step;
            uint8_t *to = place(out, c, j, &step);
            for (uint32_t x = 0; x < out->w; x++) {
                const uint8_t *p = from + (size_t)x * n;
                to[(size_t)x * step] =
                    out->channels == n ? p[c]
                                       : (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u +
                                                    0x8000u) >> 16);
            }
        }
}
