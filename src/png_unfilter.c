/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time goes: sub, average and paeth depend on the pixel just finished, so the length of
 * that dependency chain, not the number of instructions, decides the speed.
 *
 * Paeth without its chain: the filter picks among a (left), b (above) and c (above left) the one
 * nearest to a + b - c, ties in that order. For fixed b and c the choice is a step function of a.
 * With d = b - c:
 *   a is not strictly between b and c - 2d   -> a
 *   else b where a lies within |d| / 2 of c, counted from b's side, or beyond c towards b; else c.
 * The second line is one comparison with a threshold t: a > t ? max(b, c) : min(b, c), where
 * t = c - |d|/2 - 1 for d >= 0 and c + |d|/2 for d < 0. All limits come from the row above alone;
 * what is left on the chain is compare, select, select, add. The unit test compares all 2^24
 * triples with the definition.
 */
#include "png_unfilter.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void none_row(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    (void)row;
    (void)prev;
    (void)n;
    (void)bpp;
}

static void sub_row(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    (void)prev;
    for (size_t i = bpp; i < n; i++)
        row[i] = (uint8_t)(row[i] + row[i - bpp]);
}

static void up_row(uint8_t *restrict row, const uint8_t *restrict prev, size_t n, unsigned bpp)
{
    (void)bpp;
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(row[i] + prev[i]);
}

static void average_row(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    for (size_t i = 0; i < bpp && i < n; i++)
        row[i] = (uint8_t)(row[i] + prev[i] / 2);
    for (size_t i = bpp; i < n; i++)
        row[i] = (uint8_t)(row[i] + (row[i - bpp] + prev[i]) / 2);
}

static inline int paeth(int a, int b, int c)
{
    int d = b - c;
    int half = (d < 0 ? -d : d) >> 1;
    int threshold = d < 0 ? c + half : c - half - 1;
    int min = b < c ? b : c, max = b < c ? c : b;
    int far = c - 2 * d;
    int low = far < b ? far : b, high = far < b ? b : far;
    int nearest = a > threshold ? max : min;
    return ((a > low) & (a < high)) != 0 ? nearest : a;
}

static void paeth_row(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    for (size_t i = 0; i < bpp && i < n; i++)
        row[i] = (uint8_t)(row[i] + prev[i]); /* a and c are zero: b is nearest */
    for (size_t i = bpp; i < n; i++)
        row[i] = (uint8_t)(row[i] + paeth(row[i - bpp], prev[i], prev[i - bpp]));
}

#if defined(__x86_64__)

#define SSE41 __attribute__((target("sse4.1")))
#define SSE41_INLINE static inline __attribute__((always_inline, target("sse4.1")))

/* One pixel into the low bytes of a register. 3 and 6 bytes read the next pixel along, which costs
 * less than composing; those lanes are never stored. */
SSE41_INLINE __m128i load_pixel(const uint8_t *p, unsigned bpp)
{
    if (bpp == 1)
        return _mm_cvtsi32_si128(*p);
    if (bpp == 2) {
        uint16_t v;
        memcpy(&v, p, 2);
        return _mm_cvtsi32_si128(v);
    }
    if (bpp <= 4) {
        int v;
        memcpy(&v, p, 4);
        return _mm_cvtsi32_si128(v);
    }
    return _mm_loadl_epi64((const __m128i *)p);
}

SSE41_INLINE void store_pixel(uint8_t *p, __m128i v, unsigned bpp)
{
    uint64_t bytes = (uint64_t)_mm_cvtsi128_si64(v);
    switch (bpp) {
    case 1:
        *p = (uint8_t)bytes;
        break;
    case 2:
        memcpy(p, &bytes, 2);
        break;
    case 3:
        memcpy(p, &bytes, 2);
        p[2] = (uint8_t)(bytes >> 16);
        break;
    case 4:
        memcpy(p, &bytes, 4);
        break;
    case 6:
        memcpy(p, &bytes, 6);
        break;
    default:
        memcpy(p, &bytes, 8);
    }
}

SSE41 static void up_row_sse(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i v = _mm_add_epi8(_mm_loadu_si128((const __m128i *)(row + i)),
                                 _mm_loadu_si128((const __m128i *)(prev + i)));
        _mm_storeu_si128((__m128i *)(row + i), v);
    }
    up_row(row + i, prev + i, n - i, bpp);
}

/* 16 bytes a step (12 for 3 and 6) by prefix sums: each shifted addition doubles the run of pixels
 * that are summed up, then the last pixel of the step before is added to all. The shifts are
 * written out because the instruction takes a constant only. */
SSE41_INLINE void sub_pixels(uint8_t *row, size_t n, unsigned bpp)
{
    const size_t step = bpp == 3 || bpp == 6 ? 12 : 16;
    uint8_t pick[16];
    for (unsigned k = 0; k < 16; k++)
        pick[k] = (uint8_t)(step - bpp + k % bpp);
    const __m128i spread = _mm_loadu_si128((const __m128i *)pick);
    __m128i left = _mm_setzero_si128();
    size_t i = 0;
    for (; i + step <= n; i += step) {
        __m128i v = _mm_loadu_si128((const __m128i *)(row + i));
        if (bpp == 1)
            v = _mm_add_epi8(v, _mm_slli_si128(v, 1));
        if (bpp <= 2)
            v = _mm_add_epi8(v, _mm_slli_si128(v, 2));
        if (bpp == 3)
            v = _mm_add_epi8(v, _mm_slli_si128(v, 3));
        if (bpp <= 2 || bpp == 4)
            v = _mm_add_epi8(v, _mm_slli_si128(v, 4));
        if (step == 12)
            v = _mm_add_epi8(v, _mm_slli_si128(v, 6));
        else
            v = _mm_add_epi8(v, _mm_slli_si128(v, 8));
        v = _mm_add_epi8(v, left);
        left = _mm_shuffle_epi8(v, spread);
        if (step == 12) {
            _mm_storel_epi64((__m128i *)(row + i), v);
            int last = _mm_extract_epi32(v, 2);
            memcpy(row + i + 8, &last, 4);
        } else {
            _mm_storeu_si128((__m128i *)(row + i), v);
        }
    }
    for (; i < n; i++)
        row[i] = (uint8_t)(row[i] + (i >= bpp ? row[i - bpp] : 0));
}

/* The instruction for averages rounds up, the filter rounds down. Kept in complement the chain
 * needs no correction: with x' = ~x, ~(raw + floor((a + b) / 2)) is ceil((a' + b') / 2) - raw. */
SSE41_INLINE void average_pixels(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    const __m128i ones = _mm_set1_epi8(-1);
    __m128i left = ones;
    for (size_t i = 0; i + bpp <= n; i += bpp) {
        __m128i above = _mm_xor_si128(load_pixel(prev + i, bpp), ones);
        left = _mm_sub_epi8(_mm_avg_epu8(left, above), load_pixel(row + i, bpp));
        store_pixel(row + i, _mm_xor_si128(left, ones), bpp);
    }
}

/* What of a paeth choice is known before a is: see the head of this file; 16-bit lanes. */
struct paeth_limits {
    __m128i threshold, min, max, low, high, raw;
};

SSE41_INLINE struct paeth_limits paeth_limits(__m128i raw, __m128i b, __m128i c)
{
    __m128i d = _mm_sub_epi16(b, c);
    __m128i half = _mm_srli_epi16(_mm_abs_epi16(d), 1);
    __m128i not_negative = _mm_cmpgt_epi16(d, _mm_set1_epi16(-1));
    __m128i far = _mm_sub_epi16(c, _mm_add_epi16(d, d));
    struct paeth_limits k;
    k.threshold =
        _mm_add_epi16(c, _mm_xor_si128(half, not_negative)); /* c - half - 1 where d >= 0 */
    k.min = _mm_min_epi16(b, c);
    k.max = _mm_max_epi16(b, c);
    k.low = _mm_min_epi16(far, b);
    k.high = _mm_max_epi16(far, b);
    k.raw = raw;
    return k;
}

/* The next pixel from its left neighbour: the chain. */
SSE41_INLINE __m128i paeth_next(__m128i a, const struct paeth_limits *k)
{
    __m128i nearest = _mm_blendv_epi8(k->min, k->max, _mm_cmpgt_epi16(a, k->threshold));
    __m128i inside = _mm_and_si128(_mm_cmpgt_epi16(a, k->low), _mm_cmpgt_epi16(k->high, a));
    return _mm_add_epi8(_mm_blendv_epi8(a, nearest, inside), k->raw);
}

SSE41_INLINE void paeth_pixels(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    __m128i a = _mm_setzero_si128(), c = a;
    size_t i = 0;
    if (bpp == 3 || bpp == 4) {
        /* Four pixels a step, two of four 16-bit lanes in each register; the limits of all four at
         * once. a holds the last pixel twice, so that it meets the lanes of the next one wherever
         * they are. */
        const __m128i first =
            bpp == 3 ? _mm_setr_epi8(0, -1, 1, -1, 2, -1, -1, -1, 3, -1, 4, -1, 5, -1, -1, -1)
                     : _mm_setr_epi8(0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, -1);
        const __m128i second =
            bpp == 3 ? _mm_setr_epi8(6, -1, 7, -1, 8, -1, -1, -1, 9, -1, 10, -1, 11, -1, -1, -1)
                     : _mm_setr_epi8(8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15, -1);
        const __m128i close = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
        __m128i before = c; /* the two pixels above, left of this step's */
        for (; i + 4 * bpp <= n; i += 4 * bpp) {
            __m128i filtered = _mm_loadu_si128((const __m128i *)(row + i));
            __m128i above = _mm_loadu_si128((const __m128i *)(prev + i));
            __m128i b01 = _mm_shuffle_epi8(above, first), b23 = _mm_shuffle_epi8(above, second);
            struct paeth_limits k01 = paeth_limits(_mm_shuffle_epi8(filtered, first), b01,
                                                   _mm_alignr_epi8(b01, before, 8));
            struct paeth_limits k23 =
                paeth_limits(_mm_shuffle_epi8(filtered, second), b23, _mm_alignr_epi8(b23, b01, 8));
            before = b23;
            __m128i p0 = paeth_next(a, &k01);
            __m128i p1 = paeth_next(_mm_unpacklo_epi64(p0, p0), &k01);
            __m128i p2 = paeth_next(_mm_unpackhi_epi64(p1, p1), &k23);
            __m128i p3 = paeth_next(_mm_unpacklo_epi64(p2, p2), &k23);
            a = _mm_unpackhi_epi64(p3, p3);
            __m128i out =
                _mm_packus_epi16(_mm_blend_epi16(p0, p1, 0xf0), _mm_blend_epi16(p2, p3, 0xf0));
            if (bpp == 3) {
                out = _mm_shuffle_epi8(out, close);
                _mm_storel_epi64((__m128i *)(row + i), out);
                int last = _mm_extract_epi32(out, 2);
                memcpy(row + i + 8, &last, 4);
            } else {
                _mm_storeu_si128((__m128i *)(row + i), out);
            }
        }
        c = _mm_unpackhi_epi64(before, before);
    }
    for (; i + bpp <= n; i += bpp) {
        __m128i b = _mm_cvtepu8_epi16(load_pixel(prev + i, bpp));
        struct paeth_limits k = paeth_limits(_mm_cvtepu8_epi16(load_pixel(row + i, bpp)), b, c);
        a = paeth_next(a, &k);
        c = b;
        store_pixel(row + i, _mm_packus_epi16(a, a), bpp);
    }
}

#define SIMD_ROWS(bytes)                                                                           \
    SSE41 static void sub_row_##bytes(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)   \
    {                                                                                              \
        (void)prev;                                                                                \
        (void)bpp;                                                                                 \
        sub_pixels(row, n, bytes);                                                                 \
    }                                                                                              \
    SSE41 static void average_row_##bytes(uint8_t *row, const uint8_t *prev, size_t n,             \
                                          unsigned bpp)                                            \
    {                                                                                              \
        (void)bpp;                                                                                 \
        average_pixels(row, prev, n, bytes);                                                       \
    }                                                                                              \
    SSE41 static void paeth_row_##bytes(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp) \
    {                                                                                              \
        (void)bpp;                                                                                 \
        paeth_pixels(row, prev, n, bytes);                                                         \
    }
SIMD_ROWS(1)
SIMD_ROWS(2)
SIMD_ROWS(3)
SIMD_ROWS(4)
SIMD_ROWS(6)
SIMD_ROWS(8)

#define SIMD_TABLE(bytes)                                                                          \
    [bytes] = {none_row, sub_row_##bytes, up_row_sse, average_row_##bytes, paeth_row_##bytes}

/* --- four paeth rows at once ---------------------------------------------------------------------
 *
 * A register holds one pixel of each of four rows in 16-bit lanes, each row LAG pixels behind the
 * row above it: when a row comes to a pixel, the pixel above was finished LAG steps ago and only
 * moves one place along in the register. So one chain serves four rows, and with a lag of 2 the
 * limits, too, are ready when the chain needs them. Rows not yet begun run on zeros and give zeros,
 * which are just the neighbours that their first pixel must see. */

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

#define EVERY_ROW                                                                                  \
    _Pragma("GCC unroll 4") for (unsigned k = 0; k < PNG_PAETH_ROWS; k++) /* at -O2, too */

enum { LAG = 2, LAG_LAST = LAG * (PNG_PAETH_ROWS - 1) };

struct paeth_front {
    uint8_t *row; /* the first of the four */
    size_t stride_bytes, px;
    __m256i a, a_before, c; /* results of the last two steps; what was above in the last */
};

AVX2_INLINE int load_few(const uint8_t *p, unsigned bpp)
{
    return _mm_cvtsi128_si32(load_pixel(p, bpp));
}

/* The filtered pixels of step t; checked: rows that are outside at t give zeros. */
AVX2_INLINE __m256i front_load(const struct paeth_front *f, size_t t, unsigned bpp, bool checked)
{
    int v[PNG_PAETH_ROWS];
    EVERY_ROW
    v[k] = checked && (t < LAG * k || t - LAG * k >= f->px)
               ? 0
               : load_few(f->row + k * f->stride_bytes + (t - LAG * k) * bpp, bpp);
    __m128i four = _mm_insert_epi32(_mm_cvtsi32_si128(v[0]), v[1], 1);
    return _mm256_cvtepu8_epi16(_mm_insert_epi32(_mm_insert_epi32(four, v[2], 2), v[3], 3));
}

/* The results of step t to their rows. Unchecked, a pixel of 3 bytes is stored as 4: the first byte
 * of the pixel behind it, which was loaded before, gets its value at the next step. */
AVX2_INLINE void front_store(const struct paeth_front *f, size_t t, unsigned bpp, bool checked)
{
    __m256i bytes = _mm256_packus_epi16(f->a, f->a);
    __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    const int v[PNG_PAETH_ROWS] = {_mm_cvtsi128_si32(low), _mm_extract_epi32(low, 1),
                                   _mm_cvtsi128_si32(high), _mm_extract_epi32(high, 1)};
    const size_t size = bpp == 3 && !checked ? 4 : bpp;
    EVERY_ROW
    if (!checked || (t >= LAG * k && t - LAG * k < f->px))
        memcpy(f->row + k * f->stride_bytes + (t - LAG * k) * bpp, &v[k], size);
}

/* paeth_limits and paeth_next in one, for 16 lanes. above: the pixel above the first row. */
AVX2_INLINE void front_step(struct paeth_front *f, __m256i raw, int above)
{
    __m256i first = _mm256_castsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(above)));
    __m256i b = _mm256_blend_epi32(_mm256_permute4x64_epi64(f->a_before, 0x90), first, 0x03);
    __m256i a = f->a, c = f->c;
    __m256i d = _mm256_sub_epi16(b, c);
    __m256i half = _mm256_srli_epi16(_mm256_abs_epi16(d), 1);
    __m256i not_negative = _mm256_cmpgt_epi16(d, _mm256_set1_epi16(-1));
    __m256i threshold = _mm256_add_epi16(c, _mm256_xor_si256(half, not_negative));
    __m256i min = _mm256_min_epi16(b, c), max = _mm256_max_epi16(b, c);
    __m256i far = _mm256_sub_epi16(c, _mm256_add_epi16(d, d));
    __m256i low = _mm256_min_epi16(far, b), high = _mm256_max_epi16(far, b);
    __m256i nearest = _mm256_blendv_epi8(min, max, _mm256_cmpgt_epi16(a, threshold));
    __m256i inside = _mm256_and_si256(_mm256_cmpgt_epi16(a, low), _mm256_cmpgt_epi16(high, a));
    f->a_before = a;
    f->a = _mm256_add_epi8(_mm256_blendv_epi8(a, nearest, inside), raw);
    f->c = b;
}

AVX2_INLINE void paeth_four(uint8_t *row, size_t stride_bytes, const uint8_t *prev, size_t n,
                            unsigned bpp)
{
    struct paeth_front f = {.row = row, .stride_bytes = stride_bytes, .px = n / bpp};
    f.a = f.a_before = f.c = _mm256_setzero_si256();
    size_t t = 0;
    __m256i raw = front_load(&f, 0, bpp, true);
    for (; t < LAG_LAST; t++) {
        __m256i next = front_load(&f, t + 1, bpp, true);
        front_step(&f, raw, t < f.px ? load_few(prev + t * bpp, bpp) : 0);
        front_store(&f, t, bpp, true);
        raw = next;
    }
    for (; t + 1 < f.px; t++) {
        __m256i next = front_load(&f, t + 1, bpp, false);
        front_step(&f, raw, load_few(prev + t * bpp, bpp));
        front_store(&f, t, bpp, false);
        raw = next;
    }
    for (; t < f.px + LAG_LAST; t++) {
        __m256i next = front_load(&f, t + 1, bpp, true);
        front_step(&f, raw, t < f.px ? load_few(prev + t * bpp, bpp) : 0);
        front_store(&f, t, bpp, true);
        raw = next;
    }
}

#define PAETH_ROWS(bytes)                                                                          \
    AVX2 static void paeth_rows_##bytes(uint8_t *row, size_t stride_bytes, const uint8_t *prev,    \
                                        size_t n, unsigned bpp)                                    \
    {                                                                                              \
        (void)bpp;                                                                                 \
        paeth_four(row, stride_bytes, prev, n, bytes);                                             \
    }
PAETH_ROWS(1)
PAETH_ROWS(2)
PAETH_ROWS(3)
PAETH_ROWS(4)

static void use_simd(struct png_unfilter *u, unsigned bpp)
{
    static png_unfilter_fn *const rows[9][PNG_FILTERS] = {
        SIMD_TABLE(1), SIMD_TABLE(2), SIMD_TABLE(3), SIMD_TABLE(4), SIMD_TABLE(6), SIMD_TABLE(8)};
    static png_paeth_rows_fn *const paeths[9] = {
        [1] = paeth_rows_1, [2] = paeth_rows_2, [3] = paeth_rows_3, [4] = paeth_rows_4};
    if (bpp > 8 || rows[bpp][0] == NULL)
        return;
    memcpy(u->row, rows[bpp], sizeof u->row);
    if (__builtin_cpu_supports("avx2"))
        u->paeth_rows = paeths[bpp];
}

#endif

bool png_simd_supported(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
#else
    return false;
#endif
}

void png_unfilter_init(struct png_unfilter *u, unsigned bpp, bool simd)
{
    u->row[0] = none_row;
    u->row[1] = sub_row;
    u->row[2] = up_row;
    u->row[3] = average_row;
    u->row[PNG_FILTER_PAETH] = paeth_row;
    u->paeth_rows = NULL;
#if defined(__x86_64__)
    if (simd && png_simd_supported())
        use_simd(u, bpp);
#else
    (void)simd;
    (void)bpp;
#endif
}
