/* SPDX-License-Identifier: Apache-2.0
 *
 * The 8-bit kernel for AVX2; arithmetic as defined in resample_kernel.h.
 *
 * A block is up to 32 destination rows, in groups of eight. The vertical pass goes through the
 * source in strips narrow enough for L1: two rows at a time are widened into 16-bit pairs (a, b),
 * once for all destination rows that use them, and each destination row is a chain of
 * multiply-adds over them. Eight finished rows are then transposed as 32-bit pairs of neighbouring
 * samples into mid, laid out [pair][group][8 rows][2]: so in the horizontal pass a pair of taps of
 * eight rows is one load and one multiply-add with a broadcast pair of coefficients, and no sums
 * across a register are needed. Its result, 32 rows of one column, is one register of bytes; a last
 * byte transpose makes rows of them.
 */
#include "resample_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE AVX2 __attribute__((always_inline)) static inline

AVX2_INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

AVX2_INLINE void store(void *p, __m256i v) { _mm256_storeu_si256(p, v); }

AVX2_INLINE __m256i load_pair_of_coefs(const int16_t *coef)
{
    int32_t both;
    memcpy(&both, coef, sizeof both);
    return _mm256_set1_epi32(both);
}

/* Keeps the compiler from turning a chain of additions into a tree: gcc does, and then spills most
 * of the products. */
AVX2_INLINE __m256i in_order(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* The samples from -1 on; what stands there meets only zeros. */
AVX2_INLINE __m256i shifted(const uint8_t *row)
{
    __m256i v = load(row);
    return _mm256_alignr_epi8(v, _mm256_permute2x128_si256(v, v, 0x08), 15);
}

/* 32 samples of two rows. */
AVX2_INLINE void widen_unit(__m256i a, __m256i b, uint8_t *to)
{
    __m256i zero = _mm256_setzero_si256();
    __m256i lo = _mm256_unpacklo_epi8(a, b), hi = _mm256_unpackhi_epi8(a, b);
    store(to, _mm256_unpacklo_epi8(lo, zero));
    store(to + 32, _mm256_unpackhi_epi8(lo, zero));
    store(to + 64, _mm256_unpacklo_epi8(hi, zero));
    store(to + 96, _mm256_unpackhi_epi8(hi, zero));
}

/* A strip: units of 32 samples from x on, with its ring of widened pairs of rows. */
struct strip {
    int64_t x;
    uint32_t units, mask;
    /* [pair & mask][unit][4 registers]: samples 0-3|16-19, 4-7|20-23, 8-11|24-27, 12-15|28-31 */
    uint8_t *ring;
};

AVX2_INLINE uint8_t *strip_pair(const struct strip *s, uint32_t pair)
{
    return s->ring + (size_t)(pair & s->mask) * s->units * 128;
}

AVX2 static void widen(const struct kernel_job *job, const struct strip *s, uint32_t pair)
{
    const struct image_plane *src = job->src;
    int64_t y = 2 * (int64_t)pair - job->v->parity, last = (int64_t)src->h - 1;
    const uint8_t *a = src->data + (size_t)(y < 0 ? 0 : y) * src->stride_bytes;
    const uint8_t *b = src->data + (size_t)(y < last ? y + 1 : last) * src->stride_bytes;
    uint8_t *to = strip_pair(s, pair), *end = to + (size_t)s->units * 128;
    int64_t x = s->x;
    if (x < 0) {
        widen_unit(shifted(a), shifted(b), to);
        x += KERNEL_UNIT;
        to += 128;
    }
    for (; to < end; to += 128, x += KERNEL_UNIT)
        widen_unit(load(a + x), load(b + x), to);
}

/* The sums of 32 samples, rounded to Q6, as 0-7|16-23, 8-15|24-31. */
AVX2_INLINE void store_mid(uint8_t *out, const __m256i sum[4], __m128i down)
{
    store(out, _mm256_packs_epi32(_mm256_sra_epi32(sum[0], down), _mm256_sra_epi32(sum[1], down)));
    store(out + 32,
          _mm256_packs_epi32(_mm256_sra_epi32(sum[2], down), _mm256_sra_epi32(sum[3], down)));
}

AVX2_INLINE void add_pair(__m256i sum[4], const uint8_t *p, __m256i c)
{
    for (int i = 0; i < 4; i++)
        sum[i] = in_order(_mm256_add_epi32(sum[i], _mm256_madd_epi16(load(p + 32 * i), c)));
}

/* A destination row of a strip from the n pairs of rows from first on; n is a constant. */
AVX2_INLINE void vertical_n(const struct strip *s, uint32_t first, const int16_t *coef, unsigned k,
                            uint8_t *out, const uint32_t n)
{
    int down = KERNEL_COEF_BITS - KERNEL_MID_BITS + (int)k;
    __m256i half = _mm256_set1_epi32(1 << (down - 1)), c[8];
    const uint8_t *row[8];
    for (uint32_t j = 0; j < n; j++) {
        c[j] = load_pair_of_coefs(coef + 2 * j);
        row[j] = strip_pair(s, first + j);
    }
    size_t units = s->units;
    for (size_t u = 0; u < units; u++, out += 64) {
        __m256i sum[4] = {half, half, half, half};
        for (uint32_t j = 0; j < n; j++)
            add_pair(sum, row[j] + u * 128, c[j]);
        store_mid(out, sum, _mm_cvtsi32_si128(down));
    }
}

AVX2 static void vertical_any(const struct strip *s, uint32_t first, const int16_t *coef,
                              unsigned k, uint8_t *out, uint32_t n)
{
    int down = KERNEL_COEF_BITS - KERNEL_MID_BITS + (int)k;
    __m256i half = _mm256_set1_epi32(1 << (down - 1));
    uint32_t to_wrap = s->mask + 1 - (first & s->mask), n1 = n < to_wrap ? n : to_wrap;
    size_t step = (size_t)s->units * 128;
    for (size_t u = 0; u < s->units; u++, out += 64) {
        __m256i sum[4] = {half, half, half, half};
        const uint8_t *p = strip_pair(s, first) + u * 128;
        uint32_t j = 0;
        for (; j < n1; j++, p += step)
            add_pair(sum, p, load_pair_of_coefs(coef + 2 * (size_t)j));
        for (p = s->ring + u * 128; j < n; j++, p += step)
            add_pair(sum, p, load_pair_of_coefs(coef + 2 * (size_t)j));
        store_mid(out, sum, _mm_cvtsi32_si128(down));
    }
}

AVX2 static void vertical(const struct strip *s, uint32_t first, const int16_t *coef, unsigned k,
                          uint8_t *out, uint32_t n)
{
    switch (n) {
    case 1:
        vertical_n(s, first, coef, k, out, 1);
        break;
    case 2:
        vertical_n(s, first, coef, k, out, 2);
        break;
    case 3:
        vertical_n(s, first, coef, k, out, 3);
        break;
    case 4:
        vertical_n(s, first, coef, k, out, 4);
        break;
    case 5:
        vertical_n(s, first, coef, k, out, 5);
        break;
    case 6:
        vertical_n(s, first, coef, k, out, 6);
        break;
    case 7:
        vertical_n(s, first, coef, k, out, 7);
        break;
    case 8:
        vertical_n(s, first, coef, k, out, 8);
        break;
    default:
        vertical_any(s, first, coef, k, out, n);
        break;
    }
}

/* Eight rows of eight 32-bit pairs, row_step bytes apart, into eight columns col_step apart: column
 * c of the left lane goes to c, of the right lane to c + 8 (the order that vertical left). */
AVX2_INLINE void transpose_pairs(const uint8_t *rows, size_t row_step, uint8_t *cols,
                                 size_t col_step)
{
    __m256i quad[2][4];
    for (int h = 0; h < 2; h++) {
        const uint8_t *p = rows + (size_t)h * 4 * row_step;
        __m256i a = load(p), b = load(p + row_step);
        __m256i c = load(p + 2 * row_step), d = load(p + 3 * row_step);
        __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
        __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
        quad[h][0] = _mm256_unpacklo_epi64(ab0, cd0);
        quad[h][1] = _mm256_unpackhi_epi64(ab0, cd0);
        quad[h][2] = _mm256_unpacklo_epi64(ab1, cd1);
        quad[h][3] = _mm256_unpackhi_epi64(ab1, cd1);
    }
    for (size_t c = 0; c < 4; c++) {
        store(cols + c * col_step, _mm256_permute2x128_si256(quad[0][c], quad[1][c], 0x20));
        store(cols + (c + 8) * col_step, _mm256_permute2x128_si256(quad[0][c], quad[1][c], 0x31));
    }
}

/* Eight destination rows of a strip, row_step bytes apart, into their place in mid. */
AVX2 static void group_to_mid(const uint8_t *rows, uint32_t units, uint8_t *mid, size_t col_step)
{
    size_t row_step = (size_t)units * 64;
    for (uint32_t u = 0; u < units; u++, rows += 64, mid += 16 * col_step) {
        transpose_pairs(rows, row_step, mid, col_step);
        transpose_pairs(rows + 32, row_step, mid + 4 * col_step, col_step);
    }
}

/* The vertical pass of a block into mid. */
AVX2 static void vertical_block(const struct kernel_job *job, uint32_t y0, uint32_t rows)
{
    const struct axis *v = job->v, *h = job->h;
    uint32_t all_units = (2 * (h->hi - h->lo) + KERNEL_UNIT - 1) / KERNEL_UNIT;
    uint32_t ring_pairs = kernel_ring_pairs(v), width = kernel_strip_units(ring_pairs);
    size_t col_step = (size_t)((rows + 7) / 8) * 32;
    uint32_t lo = UINT32_MAX;
    for (uint32_t y = y0; y < y0 + rows; y++)
        lo = v->first[y] < lo ? v->first[y] : lo;
    uint8_t *mid = job->mid;
    for (uint32_t at = 0; at < all_units; at += width) {
        struct strip s = {.x = 2 * (int64_t)h->lo - h->parity + (int64_t)at * KERNEL_UNIT,
                          .units = all_units - at < width ? all_units - at : width,
                          .mask = ring_pairs - 1,
                          .ring = job->ring};
        uint8_t *done = job->ring + (size_t)ring_pairs * s.units * 128; /* eight rows */
        uint32_t widened = lo;
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t y = y0 + r, first = v->first[y], n = v->pairs;
            const int16_t *coef = v->coef + (size_t)y * 2 * n;
            while (n > 1 && coef[2 * n - 2] == 0 && coef[2 * n - 1] == 0)
                n--;
            for (; widened < first + n; widened++)
                widen(job, &s, widened);
            vertical(&s, first, coef, v->shift[y], done + (r & 7) * (size_t)s.units * 64, n);
            if ((r & 7) == 7 || r == rows - 1)
                group_to_mid(done, s.units, mid + (size_t)(r / 8) * 32, col_step);
        }
        mid += (size_t)s.units * 16 * col_step;
    }
}

/* n pairs of taps of one column, for all groups, added to acc. */
AVX2_INLINE void taps(__m256i acc[4], const int16_t *coef, const uint8_t *m, uint32_t n, int groups)
{
    for (uint32_t j = 0; j < n; j++, m += (size_t)groups * 32) {
        __m256i c = load_pair_of_coefs(coef + 2 * j);
        for (int g = 0; g < groups; g++)
            acc[g] = in_order(_mm256_add_epi32(acc[g], _mm256_madd_epi16(load(m + g * 32), c)));
    }
}

AVX2_INLINE void horizontal(const struct kernel_job *job, int groups)
{
    const struct axis *h = job->h;
    const int bits = KERNEL_COEF_BITS + KERNEL_MID_BITS;
    uint32_t pairs = h->pairs;
    const int16_t *coef = h->coef;
    uint8_t *out = job->cols;
    __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    for (uint32_t x = 0; x < h->n_dst; x++, coef += 2 * pairs, out += KERNEL_ROWS) {
        const uint8_t *m = job->mid + (size_t)(h->first[x] - h->lo) * (size_t)groups * 32;
        __m256i sum[4] = {half, half, half, half};
        if (pairs <= KERNEL_CHUNK) {
            taps(sum, coef, m, pairs, groups);
        } else {
            __m128i k = _mm_cvtsi32_si128(h->shift[x]);
            for (uint32_t j = 0; j < pairs; j += KERNEL_CHUNK) {
                __m256i acc[4] = {0};
                uint32_t n = pairs - j < KERNEL_CHUNK ? pairs - j : KERNEL_CHUNK;
                taps(acc, coef + 2 * (size_t)j, m + (size_t)j * (size_t)groups * 32, n, groups);
                for (int g = 0; g < groups; g++)
                    sum[g] = _mm256_add_epi32(sum[g], _mm256_sra_epi32(acc[g], k));
            }
        }
        for (int g = 0; g < 4; g++)
            sum[g] = _mm256_srai_epi32(sum[g], bits);
        __m256i low = _mm256_packs_epi32(sum[0], sum[1]), high = _mm256_packs_epi32(sum[2], sum[3]);
        store(out, _mm256_packus_epi16(low, high));
    }
}

/* Sixteen columns of 32 bytes into rows of 16: row[i] holds two rows, byte i of either lane. */
AVX2_INLINE void transpose_bytes(const uint8_t *cols, __m256i row[16])
{
    __m256i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = load(cols + i * KERNEL_ROWS);
    /* Each stage pairs column i with i + 8: after four of them the lanes are transposed. */
    for (int i = 0; i < 8; i++) {
        b[2 * i] = _mm256_unpacklo_epi8(a[i], a[i + 8]);
        b[2 * i + 1] = _mm256_unpackhi_epi8(a[i], a[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
        a[2 * i] = _mm256_unpacklo_epi8(b[i], b[i + 8]);
        a[2 * i + 1] = _mm256_unpackhi_epi8(b[i], b[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
        b[2 * i] = _mm256_unpacklo_epi8(a[i], a[i + 8]);
        b[2 * i + 1] = _mm256_unpackhi_epi8(a[i], a[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
        row[2 * i] = _mm256_unpacklo_epi8(b[i], b[i + 8]);
        row[2 * i + 1] = _mm256_unpackhi_epi8(b[i], b[i + 8]);
    }
}

AVX2_INLINE void store_row(uint8_t *to, __m128i v, uint32_t n)
{
    if (n >= 16) {
        _mm_storeu_si128((void *)to, v);
    } else {
        uint8_t bytes[16];
        _mm_storeu_si128((void *)bytes, v);
        memcpy(to, bytes, n);
    }
}

AVX2 static void rows_from_columns(const struct kernel_job *job, uint32_t y0, uint32_t rows)
{
    uint8_t *to = job->dst->data + (size_t)y0 * job->dst->stride_bytes;
    for (uint32_t x = 0; x < job->dst->w; x += 16) {
        __m256i row[16];
        transpose_bytes(job->cols + (size_t)x * KERNEL_ROWS, row);
        uint32_t left = job->dst->w - x;
        for (uint32_t i = 0; i < 16; i++) {
            /* The two packs of horizontal left rows 0-3, 8-11, 16-19, 24-27 in the low lane and
             * the rows 4 further on in the high one. */
            uint32_t y = (i & 3) + (i >> 2) * 8;
            uint8_t *p = to + (size_t)y * job->dst->stride_bytes + x;
            if (y < rows)
                store_row(p, _mm256_castsi256_si128(row[i]), left);
            if (y + 4 < rows)
                store_row(p + 4 * job->dst->stride_bytes, _mm256_extracti128_si256(row[i], 1),
                          left);
        }
    }
}

AVX2 void kernel_block_avx2(const struct kernel_job *job, uint32_t y0, uint32_t rows)
{
    vertical_block(job, y0, rows);
    switch ((rows + 7) / 8) {
    case 1:
        horizontal(job, 1);
        break;
    case 2:
        horizontal(job, 2);
        break;
    case 3:
        horizontal(job, 3);
        break;
    default:
        horizontal(job, 4);
        break;
    }
    rows_from_columns(job, y0, rows);
}

#endif
