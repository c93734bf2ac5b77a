/* SPDX-License-Identifier: Apache-2.0
 *
 * Planes moved without arithmetic: nearest, and the eight EXIF orientations. Turned planes go
 * through in square tiles, so that neither the rows read nor the columns written leave the cache
 * after each sample; 8-bit tiles of 16 are transposed in registers where SSE2 is part of the
 * machine (every x86-64).
 */
#include <assert.h>
#include <string.h>

#include "resample.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { TILE = 16 };

/* floor((2 i + 1) src / (2 dst)) for i = 0, 1, 2..., without a division each. */
struct walk {
    uint64_t at, rest, step, step_rest, of;
};

static struct walk walk_start(uint32_t n_src, uint32_t n_dst)
{
    uint64_t of = 2 * (uint64_t)n_dst;
    return (struct walk){.at = n_src / of,
                         .rest = n_src % of,
                         .step = n_src / n_dst,
                         .step_rest = 2 * (uint64_t)(n_src % n_dst),
                         .of = of};
}

static inline void walk_next(struct walk *w)
{
    w->at += w->step;
    w->rest += w->step_rest;
    if (w->rest >= w->of) {
        w->rest -= w->of;
        w->at++;
    }
}

void resample_nearest(const struct image_plane *src, struct image_plane *dst, uint8_t bits)
{
    assert((bits == 8 || bits == 16) && src->w > 0 && src->h > 0 && dst->w > 0 && dst->h > 0);
    size_t row_bytes = (size_t)dst->w * (bits / 8u);
    struct walk wy = walk_start(src->h, dst->h);
    uint64_t before = UINT64_MAX;
    for (uint32_t y = 0; y < dst->h; y++, walk_next(&wy)) {
        const uint8_t *from = src->data + wy.at * src->stride_bytes;
        uint8_t *to = dst->data + y * dst->stride_bytes;
        if (wy.at == before) {
            memcpy(to, to - dst->stride_bytes, row_bytes);
            continue;
        }
        before = wy.at;
        if (src->w == dst->w) {
            memcpy(to, from, row_bytes);
            continue;
        }
        struct walk wx = walk_start(src->w, dst->w);
        if (bits == 8)
            for (uint32_t x = 0; x < dst->w; x++, walk_next(&wx))
                to[x] = from[wx.at];
        else
            for (uint32_t x = 0; x < dst->w; x++, walk_next(&wx))
                memcpy(to + 2 * (size_t)x, from + 2 * wx.at, 2);
    }
}

static void reverse_row(const uint8_t *from, uint8_t *to, uint32_t w, uint8_t bits)
{
    uint32_t x = 0;
    if (bits == 16) {
        for (; x < w; x++)
            memcpy(to + 2 * (size_t)x, from + 2 * (size_t)(w - 1 - x), 2);
        return;
    }
    for (; x + 8 <= w; x += 8) {
        uint64_t v;
        memcpy(&v, from + (w - x - 8), 8);
        v = __builtin_bswap64(v);
        memcpy(to + x, &v, 8);
    }
    for (; x < w; x++)
        to[x] = from[w - 1 - x];
}

#if defined(__x86_64__)
static void transpose_tile(const uint8_t *from, ptrdiff_t from_step, uint8_t *to, ptrdiff_t to_step)
{
    __m128i a[TILE], b[TILE];
    for (int i = 0; i < TILE; i++)
        a[i] = _mm_loadu_si128((const void *)(from + i * from_step));
    for (int stage = 0; stage < 4; stage++) { /* interleaving i with i + 8 four times transposes */
        for (int i = 0; i < TILE / 2; i++) {
            b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + TILE / 2]);
            b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + TILE / 2]);
        }
        memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < TILE; i++)
        _mm_storeu_si128((void *)(to + i * to_step), a[i]);
}
#else
static void transpose_tile(const uint8_t *from, ptrdiff_t from_step, uint8_t *to, ptrdiff_t to_step)
{
    for (int y = 0; y < TILE; y++)
        for (int x = 0; x < TILE; x++)
            to[x * to_step + y] = from[y * from_step + x];
}
#endif

/* w x h samples (of src) to h x w; steps are bytes from row to row and may be negative. */
static void transpose_8(const uint8_t *from, ptrdiff_t from_step, uint32_t w, uint32_t h,
                        uint8_t *to, ptrdiff_t to_step)
{
    for (uint32_t y = 0; y < h; y += TILE)
        for (uint32_t x = 0; x < w; x += TILE) {
            const uint8_t *f = from + (ptrdiff_t)y * from_step + x;
            uint8_t *t = to + (ptrdiff_t)x * to_step + y;
            uint32_t nx = w - x < TILE ? w - x : TILE, ny = h - y < TILE ? h - y : TILE;
            if (nx == TILE && ny == TILE) {
                transpose_tile(f, from_step, t, to_step);
                continue;
            }
            for (uint32_t j = 0; j < nx; j++)
                for (uint32_t i = 0; i < ny; i++)
                    t[(ptrdiff_t)j * to_step + i] = f[(ptrdiff_t)i * from_step + j];
        }
}

static void transpose_16(const uint8_t *from, ptrdiff_t from_step, uint32_t w, uint32_t h,
                         uint8_t *to, ptrdiff_t to_step)
{
    for (uint32_t y = 0; y < h; y += TILE)
        for (uint32_t x = 0; x < w; x += TILE) {
            uint32_t nx = w - x < TILE ? w - x : TILE, ny = h - y < TILE ? h - y : TILE;
            for (uint32_t j = x; j < x + nx; j++)
                for (uint32_t i = y; i < y + ny; i++)
                    memcpy(to + (ptrdiff_t)j * to_step + 2 * (ptrdiff_t)i,
                           from + (ptrdiff_t)i * from_step + 2 * (ptrdiff_t)j, 2);
        }
}

void resample_orient(const struct image_plane *src, int orientation, struct image_plane *dst,
                     uint8_t bits)
{
    assert((bits == 8 || bits == 16) && orientation >= 1 && orientation <= 8);
    bool swaps = orientation >= 5;
    assert(dst->w == (swaps ? src->h : src->w) && dst->h == (swaps ? src->w : src->h));
    ptrdiff_t from_step = (ptrdiff_t)src->stride_bytes, to_step = (ptrdiff_t)dst->stride_bytes;
    const uint8_t *from = src->data;
    uint8_t *to = dst->data;
    /* A picture read from its last row up is flipped before, one written so after the turn. */
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) {
        from += (ptrdiff_t)(src->h - 1) * from_step;
        from_step = -from_step;
    }
    if (orientation == 7 || orientation == 8) {
        to += (ptrdiff_t)(dst->h - 1) * to_step;
        to_step = -to_step;
    }
    if (swaps) {
        (bits == 8 ? transpose_8 : transpose_16)(from, from_step, src->w, src->h, to, to_step);
        return;
    }
    bool reverse = orientation == 2 || orientation == 3;
    for (uint32_t y = 0; y < src->h; y++, from += from_step, to += to_step)
        if (reverse)
            reverse_row(from, to, src->w, bits);
        else
            memcpy(to, from, (size_t)src->w * (bits / 8u));
}
