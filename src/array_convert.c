/* SPDX-License-Identifier: Apache-2.0 */
#include "array_convert.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32, PIECE = 512 };

/* --- order ------------------------------------------------------------------------------------------------- */

/* rows x cols elements: from[r * from_row + c * from_col] to to[r * to_row + c]; in blocks, so that both sides stay in the cache. */
static void transpose(const uint8_t *from, uint8_t *to, size_t rows, size_t cols, size_t from_row, size_t from_col, size_t to_row,
                      size_t size)
{
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK)
        for (size_t c0 = 0; c0 < cols; c0 += BLOCK) {
            size_t r1 = r0 + BLOCK < rows ? r0 + BLOCK : rows, c1 = c0 + BLOCK < cols ? c0 + BLOCK : cols;
            for (size_t r = r0; r < r1; r++) {
                const uint8_t *p = from + (r * from_row + c0 * from_col) * size;
                uint8_t *q = to + (r * to_row + c0) * size;
                for (size_t c = c0; c < c1; c++, p += from_col * size, q += size) {
                    if (size == 4)
                        memcpy(q, p, 4);
                    else if (size == 8)
                        memcpy(q, p, 8);
                    else
                        memcpy(q, p, size);
                }
            }
        }
}

void array_reorder(const struct npy *a, bool to_c, const uint8_t *src, uint8_t *dst)
{
    size_t n = a->ndim, size = a->itemsize, shape[NPY_DIMS_MAX], at[NPY_DIMS_MAX] = {0};
    if (a->data_bytes == 0)
        return;
    if (n < 2) {
        memcpy(dst, src, a->data_bytes);
        return;
    }
    /* C to Fortran order is Fortran to C order of the axes in reverse. */
    for (size_t i = 0; i < n; i++)
        shape[i] = a->shape[to_c ? i : n - 1 - i];
    size_t from_step[NPY_DIMS_MAX], to_step[NPY_DIMS_MAX], step = 1;
    for (size_t i = 0; i < n; i++, step *= shape[i - 1])
        from_step[i] = step;
    step = 1;
    for (size_t i = n; i-- > 0; step *= shape[i])
        to_step[i] = step;
    for (;;) { /* the axes between the first and the last, one after the other */
        size_t from = 0, to = 0, axis = 1;
        for (size_t i = 1; i + 1 < n; i++) {
            from += at[i] * from_step[i];
            to += at[i] * to_step[i];
        }
        transpose(src + from * size, dst + to * size, shape[0], shape[n - 1], from_step[0], from_step[n - 1], to_step[0], size);
        while (axis + 1 < n && ++at[axis] == shape[axis])
            at[axis++] = 0;
        if (axis + 1 >= n)
            return;
    }
}

/* --- float16 -------------------------------------------------------------------------------------------------- */

static double half_to_double(uint16_t h)
{
    uint64_t sign = (uint64_t)(h >> 15) << 63, bits;
    unsigned e = h >> 10 & 31, m = h & 1023;
    double v;
    if (e == 0) { /* also subnormal */
        v = ldexp((double)m, -24);
        memcpy(&bits, &v, 8);
        bits |= sign;
    } else {
        bits = sign | (uint64_t)(e == 31 ? 2047 : e + 1008) << 52 | (uint64_t)m << 42;
    }
    memcpy(&v, &bits, 8);
    return v;
}

static uint16_t double_to_half(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000), h;
    int e = (int)(bits >> 52 & 2047) - 1023;
    uint64_t m = bits & ((UINT64_C(1) << 52) - 1), rest, tie;
    if (e == 1024)
        return (uint16_t)(sign | 0x7c00 | (m != 0 ? 0x200 | m >> 42 : 0));
    if (e >= 16)
        return sign | 0x7c00;
    if (e < -25)
        return sign;
    unsigned drop = 42;
    if (e < -14) {
        drop += (unsigned)(-14 - e);
        m |= UINT64_C(1) << 52;
        h = (uint16_t)(m >> drop);
    } else {
        h = (uint16_t)((unsigned)(e + 15) << 10 | (unsigned)(m >> 42));
    }
    rest = m & ((UINT64_C(1) << drop) - 1);
    tie = UINT64_C(1) << (drop - 1);
    if (rest > tie || (rest == tie && (h & 1)))
        h++; /* may carry into the exponent, up to infinity: as it should */
    return sign | h;
}

/* --- elements ---------------------------------------------------------------------------------------------------- */

static bool is_float(const struct npy *a)
{
    return a->kind == 'f';
}

/* n elements with their bytes in little-endian order; scratch is where they go if they have to be turned. */
static const uint8_t *native(const struct npy *a, const uint8_t *src, size_t n, uint8_t *scratch)
{
    if (a->order != '>')
        return src;
    size_t size = a->itemsize;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < size; k++)
            scratch[i * size + k] = src[i * size + size - 1 - k];
    return scratch;
}

#define EACH(type, expression)                                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                                            \
        type v;                                                                                                                 \
        memcpy(&v, src + i * sizeof v, sizeof v);                                                                               \
        dst[i] = (expression);                                                                                                  \
    }

/* Integers and bools; uint64 as its bits. */
static void load_ints(const struct npy *a, const uint8_t *src, int64_t *dst, size_t n)
{
    uint8_t turned[PIECE * 8];
    src = native(a, src, n, turned);
    switch (a->itemsize * 2 + (a->kind == 'i')) {
    case 2: EACH(uint8_t, v) break;
    case 3: EACH(int8_t, v) break;
    case 4: EACH(uint16_t, v) break;
    case 5: EACH(int16_t, v) break;
    case 8: EACH(uint32_t, v) break;
    case 9: EACH(int32_t, v) break;
    default: EACH(int64_t, v) break;
    }
}

static void load_doubles(const struct npy *a, const uint8_t *src, double *dst, size_t n)
{
    uint8_t turned[PIECE * 8];
    if (!is_float(a)) {
        int64_t v[PIECE];
        load_ints(a, src, v, n);
        for (size_t i = 0; i < n; i++)
            dst[i] = a->kind == 'u' && a->itemsize == 8 ? (double)(uint64_t)v[i] : (double)v[i];
        return;
    }
    src = native(a, src, n, turned);
    switch (a->itemsize) {
    case 2: EACH(uint16_t, half_to_double(v)) break;
    case 4: EACH(float, (double)v) break;
    default: EACH(double, v) break;
    }
}

#undef EACH
#define EACH(type, expression)                                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                                            \
        type v = (type)(expression);                                                                                            \
        memcpy(dst + i * sizeof v, &v, sizeof v);                                                                               \
    }

static void turn(const struct npy *a, uint8_t *p, size_t n)
{
    for (size_t i = 0; a->order == '>' && i < n; i++)
        for (size_t k = 0, size = a->itemsize; k < size / 2; k++) {
            uint8_t t = p[i * size + k];
            p[i * size + k] = p[i * size + size - 1 - k];
            p[i * size + size - 1 - k] = t;
        }
}

static void store_ints(const struct npy *a, const int64_t *src, uint8_t *dst, size_t n)
{
    switch (a->itemsize) {
    case 1: EACH(uint8_t, src[i]) break;
    case 2: EACH(uint16_t, src[i]) break;
    case 4: EACH(uint32_t, src[i]) break;
    default: EACH(int64_t, src[i]) break;
    }
    turn(a, dst, n);
}

static void store_doubles(const struct npy *a, const double *src, uint8_t *dst, size_t n)
{
    if (!is_float(a)) {
        int64_t v[PIECE];
        for (size_t i = 0; i < n; i++)
            v[i] = a->kind == 'u' && src[i] >= 0x1p63 ? (int64_t)(uint64_t)src[i] : (int64_t)src[i];
        store_ints(a, v, dst, n);
        return;
    }
    switch (a->itemsize) {
    case 2: EACH(uint16_t, double_to_half(src[i])) break;
    case 4: EACH(float, src[i]) break;
    default: EACH(double, src[i]) break;
    }
    turn(a, dst, n);
}

#undef EACH

/* --- narrowing --------------------------------------------------------------------------------------------------- */

static void range_ints(struct array_range *r, const struct npy *a, const int64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a->kind == 'u' && a->itemsize == 8 && (uint64_t)v[i] > r->top)
            r->top = (uint64_t)v[i];
        r->low = !r->any || v[i] < r->low ? v[i] : r->low;
        r->high = !r->any || v[i] > r->high ? v[i] : r->high;
        r->any = true;
    }
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void range_doubles(struct array_range *r, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = v[i];
        bool whole = x >= -0x1p53 && x <= 0x1p53 && x == floor(x) && !(x == 0 && signbit(x));
        int64_t k = whole ? (int64_t)x : 0;
        r->fraction |= !whole;
        r->not_f2 = r->not_f2 || !same_bits(half_to_double(double_to_half(x)), x);
        r->not_f4 = r->not_f4 || !(isnan(x) ? same_bits(fabs(x), (double)NAN) : same_bits((double)(float)x, x));
        r->low = !r->any || k < r->low ? k : r->low;
        r->high = !r->any || k > r->high ? k : r->high;
        r->any = true;
    }
}

/* A NaN of a float32 that is not the usual one: doubles made of it would no longer show that. */
static bool odd_nan(const struct npy *a, const uint8_t *src, size_t n)
{
    uint8_t turned[PIECE * 8];
    if (a->itemsize != 4)
        return false;
    src = native(a, src, n, turned);
    for (size_t i = 0; i < n; i++) {
        uint32_t b = get_le32(src + 4 * i) & 0x7fffffff;
        if (b > 0x7f800000 && b != 0x7fc00000)
            return true;
    }
    return false;
}

void array_range_add(struct array_range *r, const struct npy *a, const uint8_t *data, size_t n)
{
    union {
        int64_t i[PIECE];
        double d[PIECE];
    } v;
    for (size_t step; n > 0; n -= step, data += step * a->itemsize) {
        step = n < PIECE ? n : PIECE;
        if (is_float(a)) {
            load_doubles(a, data, v.d, step);
            range_doubles(r, v.d, step);
            if (odd_nan(a, data, step))
                r->not_f2 = r->not_f4 = true;
        } else {
            load_ints(a, data, v.i, step);
            range_ints(r, a, v.i, step);
        }
    }
}

bool array_range_narrow(const struct array_range *r, const struct npy *a, struct npy *to)
{
    static const struct {
        char kind;
        uint8_t size;
        int64_t low, high;
    } smaller[] = {{'u', 1, 0, UINT8_MAX}, {'i', 1, INT8_MIN, INT8_MAX}, {'u', 2, 0, UINT16_MAX}, {'i', 2, INT16_MIN, INT16_MAX},
                   {'f', 2, 0, 0}, {'u', 4, 0, UINT32_MAX}, {'i', 4, INT32_MIN, INT32_MAX}, {'f', 4, 0, 0}};
    bool beyond = a->kind == 'u' && a->itemsize == 8 && r->top > INT64_MAX;
    if (!r->any || a->kind == 'b' || beyond)
        return false;
    for (size_t i = 0; i < sizeof smaller / sizeof smaller[0] && smaller[i].size < a->itemsize; i++) {
        bool fits = smaller[i].kind == 'f' ? is_float(a) && !(smaller[i].size == 2 ? r->not_f2 : r->not_f4)
                                           : !(is_float(a) && r->fraction) && r->low >= smaller[i].low && r->high <= smaller[i].high;
        if (fits) {
            *to = *a;
            npy_set_type(to, smaller[i].kind, smaller[i].size);
            return true;
        }
    }
    return false;
}

/* --- conversion ---------------------------------------------------------------------------------------------------- */

static void scale_piece(double *v, size_t n, const struct array_scale *s, struct array_loss *loss)
{
    double factor = 255 / (s->hi - s->lo);
    for (size_t i = 0; i < n; i++) {
        double x = v[i];
        loss->nan += isnan(x) != 0;
        loss->clipped += x < s->lo || x > s->hi;
        x = x <= s->lo || isnan(x) ? 0 : x >= s->hi ? 255 : floor((x - s->lo) * factor + 0.5);
        v[i] = x;
    }
}

static void count_loss(const struct npy *to, const double *v, const uint8_t *stored, size_t n, struct array_loss *loss)
{
    double back[PIECE];
    load_doubles(to, stored, back, n);
    for (size_t i = 0; i < n; i++) {
        loss->inf += isinf(back[i]) && !isinf(v[i]);
        loss->zero += back[i] == 0 && v[i] != 0;
    }
}

void array_convert(const struct npy *from, const uint8_t *src, const struct npy *to, uint8_t *dst, size_t n,
                   const struct array_scale *scale, struct array_loss *loss)
{
    struct array_loss ignored = {0};
    union {
        int64_t i[PIECE];
        double d[PIECE];
    } v;
    if (loss == NULL)
        loss = &ignored;
    for (size_t step; n > 0; n -= step, src += step * from->itemsize, dst += step * to->itemsize) {
        step = n < PIECE ? n : PIECE;
        if (!is_float(from) && !is_float(to) && scale == NULL) {
            load_ints(from, src, v.i, step);
            store_ints(to, v.i, dst, step);
            continue;
        }
        load_doubles(from, src, v.d, step);
        if (scale != NULL)
            scale_piece(v.d, step, scale, loss);
        store_doubles(to, v.d, dst, step);
        if (is_float(to) && to->itemsize < 8)
            count_loss(to, v.d, dst, step, loss);
    }
}

void array_to_doubles(const struct npy *a, const uint8_t *src, double *dst, size_t n)
{
    for (size_t step; n > 0; n -= step, src += step * a->itemsize, dst += step) {
        step = n < PIECE ? n : PIECE;
        load_doubles(a, src, dst, step);
    }
}

void array_from_doubles(const struct npy *a, const double *src, uint8_t *dst, size_t n)
{
    double v[PIECE], bits = (double)a->itemsize * 8;
    double low = a->kind == 'i' ? -ldexp(1, (int)bits - 1) : 0;
    double high = a->kind == 'b' ? 1 : a->kind == 'i' ? ldexp(1, (int)bits - 1) : ldexp(1, (int)bits); /* one beyond the last */
    for (size_t step; n > 0; n -= step, src += step, dst += step * a->itemsize) {
        step = n < PIECE ? n : PIECE;
        for (size_t i = 0; i < step; i++) {
            double x = src[i];
            if (!is_float(a)) {
                x = floor(x + 0.5);
                x = x < low ? low : x < high ? x : a->kind == 'b' ? 1 : a->itemsize == 8 ? nextafter(high, 0) : high - 1;
            }
            v[i] = x;
        }
        store_doubles(a, v, dst, step);
    }
}
