/* SPDX-License-Identifier: Apache-2.0
 *
 * Coefficient tables, the portable kernels, and the driver. The arithmetic of the 8-bit kernels is
 * defined in resample_kernel.h.
 *
 * A table is made of integers only, so that no compiler, libm or fused multiply-add can change a
 * bit of it: positions are Q32, the filter is looked up in a table of its values with linear
 * interpolation (2048 steps per lobe: off by 1e-7 at most, far below the 6e-5 of a Q14
 * coefficient), and a row is rounded by differences of its rounded running sum. So each row sums to
 * exactly one, and the rounding errors have no low frequencies, which is where pictures live. It
 * takes about 3 ns a tap: a set of images that all differ in size costs little more than one of
 * equal sizes.
 */
#include "resample_kernel.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "resample.h"

__extension__ typedef __int128 wide_int; /* products of 64-bit integers */

enum {
    LUT_STEPS = 2048, /* per unit of the filter's argument */
    LUT_N = 3 * LUT_STEPS,
    AXES = 8, /* cached tables: luma and chroma of two geometries */
    WIDE_COEF_BITS = 22,
    WIDE_MID_BITS = 6,
    SCALAR_STRIP = 128
};

static const int64_t one_q32 = (int64_t)1 << 32;

/* A cached table with its key. The arrays are kept when an entry is reused for another key. */
struct axis_slot {
    struct axis axis;
    int64_t x_q32, w_q32;
    bool is_wide;
    uint64_t last_use; /* 0: empty */
    struct buf first, shift, coef;
};

struct resampler {
    int32_t lut[LUT_N + 2]; /* the filter at i / LUT_STEPS, Q30 */
    struct axis_slot slot[AXES];
    uint64_t clock;
    int level;
    struct buf raw; /* int32: the weights of a row; later a row of coefficients */
    struct buf ring, mid, cols;
};

/* sinc(t) * sinc(t / 3) for t in [0, 3]. sin(pi t / 3) by turning a unit vector, sin(pi t) from the
 * triple-angle formula, all in Q62. */
static void fill_lut(int32_t lut[LUT_N + 2])
{
    const int64_t cos_step = 4611685415552689898, sin_step = 2358079147920790; /* pi / LUT_N, Q62 */
    const int64_t scale = 83552864666; /* 3 LUT_STEPS^2 / pi^2, Q16 */
    int64_t c = (int64_t)1 << 62, s = 0;
    lut[0] = 1 << 30;
    for (int64_t i = 1; i <= LUT_N; i++) {
        int64_t turned = (int64_t)(((wide_int)c * cos_step - (wide_int)s * sin_step) >> 62);
        s = (int64_t)(((wide_int)s * cos_step + (wide_int)c * sin_step) >> 62);
        c = turned;
        int64_t cube = (int64_t)(((((wide_int)s * s) >> 62) * s) >> 62);
        int64_t s3 = (int64_t)((wide_int)3 * s - (wide_int)4 * cube);
        wide_int v = ((wide_int)s3 * s >> 62) * scale / (i * i);
        lut[i] = i % LUT_STEPS == 0 ? 0 : (int32_t)((v + ((wide_int)1 << 47)) >> 48);
    }
    lut[LUT_N + 1] = 0;
}

struct resampler *resampler_new(void)
{
    struct resampler *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    fill_lut(r->lut);
    resampler_set_kernel(r, -1);
    return r;
}

void resampler_free(struct resampler *r)
{
    if (r == NULL)
        return;
    for (unsigned i = 0; i < AXES; i++) {
        buf_fini(&r->slot[i].first);
        buf_fini(&r->slot[i].shift);
        buf_fini(&r->slot[i].coef);
    }
    buf_fini(&r->raw);
    buf_fini(&r->ring);
    buf_fini(&r->mid);
    buf_fini(&r->cols);
    free(r);
}

void resampler_set_kernel(struct resampler *r, int level)
{
    r->level = 0;
#if defined(__x86_64__)
    if (level != 0 && __builtin_cpu_supports("avx2"))
        r->level = 2;
#else
    (void)level;
#endif
}

/* count * each bytes in b, aligned to 64; all zero when the buffer had to grow. NULL without memory
 * (*err filled). */
static uint8_t *scratch(struct buf *b, size_t count, size_t each, struct slimset_error *err)
{
    size_t n;
    if (!mul_size(count, each, &n) || !add_size(n, 64, &n)) {
        (void)err_nomem(err, SIZE_MAX);
        return NULL;
    }
    b->len = 0;
    if (b->cap < n) {
        if (buf_reserve(b, n, err) != SLIMSET_OK)
            return NULL;
        memset(b->data, 0, b->cap);
    }
    return b->data + (-(uintptr_t)b->data & 63);
}

/* The positions of a row's taps: the filter's argument of tap x is a start + x * step. */
struct tap_window {
    uint32_t begin, n;
    int64_t t, step; /* in lut steps, Q32 */
};

/* centre, filter scale (>= 1) and 1/scale as lut steps per sample, all Q32. */
static struct tap_window tap_window(int64_t centre, int64_t scale, int64_t step, uint32_t n_src)
{
    int64_t half = one_q32 / 2;
    int64_t begin = (centre - 3 * scale + half) >> 32, end = (centre + 3 * scale + half) >> 32;
    if (begin < 0)
        begin = 0;
    if (end > n_src)
        end = n_src;
    int64_t offset = begin * one_q32 + half - centre; /* of the first tap from the centre */
    return (struct tap_window){.begin = (uint32_t)begin,
                               .n = (uint32_t)(end - begin),
                               .t = (int64_t)((wide_int)offset * step >> 32),
                               .step = step};
}

/* The weights of a row before rounding, Q30; their sum, and the largest. */
static int64_t weigh(const int32_t *lut, struct tap_window win, int32_t *raw, int32_t *peak)
{
    int64_t sum = 0;
    int32_t most = 0;
    for (uint32_t j = 0; j < win.n; j++, win.t += win.step) {
        int64_t t = win.t < 0 ? -win.t : win.t, at = t >> 32;
        if (at > LUT_N)
            at = LUT_N;
        int32_t a = lut[at];
        int64_t slope = lut[at + 1] - a;
        int32_t v = a + (int32_t)(slope * (int64_t)(t >> 16 & 0xFFFF) >> 16);
        raw[j] = v;
        sum += v;
        if (v > most)
            most = v;
    }
    *peak = most;
    return sum;
}

/* Rounds the weights so that they sum to exactly 2^bits. n > 256 means up to 2^46 in the sum: eight
 * bits less leave more than enough and keep the product inside 64 bits. */
static void round_row(int32_t *raw, uint32_t n, int64_t sum, unsigned bits)
{
    unsigned less = n > 2 * KERNEL_CHUNK ? 8 : 0, down = 62 - bits;
    int64_t inverse = ((int64_t)1 << 62) / (sum >> less), half = (int64_t)1 << (down - 1);
    int64_t running = 0;
    int32_t before = 0;
    for (uint32_t j = 0; j < n; j++) {
        running += raw[j];
        int32_t rounded = (int32_t)(((running >> less) * inverse + half) >> down);
        raw[j] = rounded - before;
        before = rounded;
    }
    raw[n - 1] += (1 << bits) - before;
}

/* How many bits finer than Q14 a row of many taps is kept: as many as leave its peak at 256. */
static unsigned finer(uint32_t n, int32_t peak, int64_t sum)
{
    unsigned k = 0;
    if (n > 2 * KERNEL_CHUNK) {
        int64_t q14 = ((int64_t)peak << KERNEL_COEF_BITS) / sum + 2; /* and room for rounding */
        while (k < 8 && q14 << (k + 1) <= 256)
            k++;
    }
    return k;
}

/* Moves every row to its place in pairs, zeros around it. On entry rows lie stride coefficients
 * apart, each with its n[i] taps, from sample first[i] on; on return 2 * pairs apart, from pair
 * first[i] on. In place, as a row never moves up; spare holds one row meanwhile. */
static void pair_rows(struct axis *a, uint8_t *coef, size_t each, size_t stride, uint32_t *first,
                      const uint32_t *n, uint8_t *spare)
{
    uint32_t most[2] = {1, 1};
    for (uint32_t i = 0; i < a->n_dst; i++)
        for (uint32_t p = 0; p < 2; p++) {
            uint32_t pairs = (first[i] + n[i] - 1 + p) / 2 - (first[i] + p) / 2 + 1;
            if (pairs > most[p])
                most[p] = pairs;
        }
    a->parity = most[1] < most[0];
    a->pairs = most[a->parity];
    a->lo = UINT32_MAX;
    a->hi = 0;
    for (uint32_t i = 0; i < a->n_dst; i++) {
        uint32_t lo = (first[i] + a->parity) / 2, hi = (first[i] + n[i] - 1 + a->parity) / 2 + 1;
        a->lo = lo < a->lo ? lo : a->lo;
        a->hi = hi > a->hi ? hi : a->hi;
    }
    size_t row = 2 * (size_t)a->pairs * each;
    uint32_t furthest = 0;
    a->window = 0;
    for (uint32_t i = 0; i < a->n_dst; i++) {
        uint32_t at = (first[i] + a->parity) / 2;
        if (at > a->hi - a->pairs)
            at = a->hi - a->pairs;
        size_t skip = (first[i] + a->parity - 2 * (size_t)at) * each;
        memset(spare, 0, row);
        memcpy(spare + skip, coef + i * stride * each, n[i] * each);
        memcpy(coef + i * row, spare, row);
        first[i] = at;
        /* Trimmed zeros: a row may start later than the next. */
        furthest = at + a->pairs > furthest ? at + a->pairs : furthest;
        a->window = furthest - at > a->window ? furthest - at : a->window;
    }
}

/* Fills the slot's table for its key. */
static enum slimset_status build(struct resampler *r, struct axis_slot *s,
                                 struct slimset_error *err)
{
    struct axis *a = &s->axis;
    int64_t n = a->n_dst, ratio = s->w_q32 / n, scale = ratio > one_q32 ? ratio : one_q32;
    int64_t step = (int64_t)(((wide_int)LUT_STEPS << 64) / scale);
    uint64_t reach = ((uint64_t)scale * 6 >> 32) + 2;
    size_t most = reach < a->n_src ? reach : a->n_src, each = s->is_wide ? sizeof(double) : 2;
    size_t stride = (most + 3) / 2 * 2; /* room for one more tap, in pairs */
    uint32_t *first = (uint32_t *)scratch(&s->first, a->n_dst, 2 * sizeof *first, err);
    uint8_t *shift = first == NULL ? NULL : scratch(&s->shift, a->n_dst, 1, err);
    uint8_t *coef = shift == NULL ? NULL : scratch(&s->coef, a->n_dst, stride * each, err);
    int32_t *raw = coef == NULL ? NULL : (int32_t *)scratch(&r->raw, stride, sizeof(double), err);
    if (raw == NULL)
        return err->status;
    uint32_t *taps = first + n; /* only needed here */

    /* centre = x + (2 i + 1) w / (2 n), exactly: whole part and remainder are carried along. */
    int64_t centre = s->x_q32 + s->w_q32 / (2 * n), rest = s->w_q32 % (2 * n);
    for (uint32_t i = 0; i < a->n_dst; i++) {
        int64_t last = (int64_t)a->n_src << 32, c = centre < 0 ? 0 : centre > last ? last : centre;
        struct tap_window win = tap_window(c, scale, step, a->n_src);
        int32_t peak;
        int64_t sum = weigh(r->lut, win, raw, &peak);
        unsigned k = s->is_wide ? 0 : finer(win.n, peak, sum);
        round_row(raw, win.n, sum, s->is_wide ? WIDE_COEF_BITS : KERNEL_COEF_BITS + k);
        uint32_t b = 0, e = win.n;
        while (raw[b] == 0)
            b++;
        while (raw[e - 1] == 0)
            e--;
        first[i] = win.begin + b;
        taps[i] = e - b;
        shift[i] = (uint8_t)k;
        for (uint32_t j = b; j < e; j++)
            if (s->is_wide)
                ((double *)coef)[i * stride + (j - b)] = raw[j];
            else
                ((int16_t *)coef)[i * stride + (j - b)] = (int16_t)raw[j];
        centre += ratio;
        rest += 2 * (s->w_q32 % n);
        if (rest >= 2 * n) {
            rest -= 2 * n;
            centre++;
        }
    }
    pair_rows(a, coef, each, stride, first, taps, (uint8_t *)raw);
    a->first = first;
    a->shift = shift;
    a->coef = s->is_wide ? NULL : (const int16_t *)coef;
    a->wide = s->is_wide ? (const double *)coef : NULL;
    return SLIMSET_OK;
}

static int64_t to_q32(double v, double least)
{
    const double most = 1 << 20; /* far above any plane: sums of these stay inside 64 bits */
    assert(isfinite(v));
    v = v > -most ? v : -most;
    v = v < most ? v : most;
    v = v > least ? v : least;
    return (int64_t)floor(v * 4294967296.0 + 0.5);
}

/* The table of an axis, from the cache or new. NULL without memory. It stays valid for as long as
 * fewer than AXES others are asked for. */
static const struct axis *axis_get(struct resampler *r, uint32_t n_src, double x, double w,
                                   uint32_t n_dst, bool is_wide, struct slimset_error *err)
{
    int64_t x_q32 = to_q32(x, -(1 << 20)), w_q32 = to_q32(w, 1.0 / 65536);
    struct axis_slot *s = &r->slot[0];
    for (unsigned i = 0; i < AXES; i++) {
        struct axis_slot *t = &r->slot[i];
        if (t->last_use != 0 && t->axis.n_src == n_src && t->axis.n_dst == n_dst &&
            t->x_q32 == x_q32 && t->w_q32 == w_q32 && t->is_wide == is_wide) {
            t->last_use = ++r->clock;
            return &t->axis;
        }
        if (t->last_use < s->last_use)
            s = t;
    }
    s->last_use = 0; /* not to be found while it is half made */
    s->axis = (struct axis){.n_src = n_src, .n_dst = n_dst};
    s->x_q32 = x_q32;
    s->w_q32 = w_q32;
    s->is_wide = is_wide;
    if (build(r, s, err) != SLIMSET_OK)
        return NULL;
    s->last_use = ++r->clock;
    return &s->axis;
}

static const uint8_t *src_row(const struct image_plane *p, int64_t y)
{
    y = y < 0 ? 0 : y >= p->h ? p->h - 1 : y; /* the odd one of a pair at the edge, times zero */
    return p->data + (size_t)y * p->stride_bytes;
}

/* The samples [x0, x1) that the horizontal table reaches, and where its pair lo starts. */
struct span {
    int64_t start, x0, x1;
};

static struct span span_of(const struct axis *h)
{
    struct span s = {.start = 2 * (int64_t)h->lo - h->parity, .x1 = 2 * (int64_t)h->hi - h->parity};
    s.x0 = s.start < 0 ? 0 : s.start;
    if (s.x1 > h->n_src)
        s.x1 = h->n_src;
    return s;
}

/* One destination row of the vertical pass into column r of mid[x - start][8]. */
static void scalar_vertical(const struct kernel_job *job, uint32_t y, struct span span,
                            int16_t *mid)
{
    const struct axis *v = job->v;
    const int16_t *coef = v->coef + (size_t)y * 2 * v->pairs;
    unsigned down = KERNEL_COEF_BITS + v->shift[y] - KERNEL_MID_BITS;
    int64_t row0 = 2 * (int64_t)v->first[y] - v->parity;
    for (int64_t x = span.x0; x < span.x1; x += SCALAR_STRIP) {
        int32_t acc[SCALAR_STRIP];
        unsigned n = span.x1 - x < SCALAR_STRIP ? (unsigned)(span.x1 - x) : SCALAR_STRIP;
        for (unsigned i = 0; i < n; i++)
            acc[i] = 1 << (down - 1);
        for (uint32_t t = 0; t < 2 * v->pairs; t++) {
            const uint8_t *row = src_row(job->src, row0 + t) + x;
            int16_t c = coef[t];
            if (c == 0)
                continue;
            for (unsigned i = 0; i < n; i++)
                acc[i] +=
                    c * (int16_t)row[i]; /* 16 bits each: a widening multiply where there is one */
        }
        int16_t *out = mid + (x - span.start) * 8;
        for (unsigned i = 0; i < n; i++) {
            int32_t m = acc[i] >> down;
            out[i * 8] = (int16_t)(m < INT16_MIN ? INT16_MIN : m > INT16_MAX ? INT16_MAX : m);
        }
    }
}

/* Eight rows at once in whatever registers the machine has; left to itself the compiler vectorises
 * over the taps. */
typedef int32_t eight_32 __attribute__((vector_size(32)));
typedef int16_t eight_16 __attribute__((vector_size(16)));

/* Destination column x of eight rows. */
static void scalar_horizontal(const struct axis *h, uint32_t x, const int16_t *mid, uint8_t out[8])
{
    const int16_t *coef = h->coef + (size_t)x * 2 * h->pairs;
    const int16_t *m = mid + (size_t)(h->first[x] - h->lo) * 16;
    const int bits = KERNEL_COEF_BITS + KERNEL_MID_BITS, k = h->shift[x];
    eight_32 sum = {0};
    sum += 1 << (bits - 1);
    for (uint32_t t = 0; t < 2 * h->pairs; t += 2 * KERNEL_CHUNK) {
        uint32_t end = 2 * h->pairs - t < 2 * KERNEL_CHUNK ? 2 * h->pairs : t + 2 * KERNEL_CHUNK;
        eight_32 acc = {0};
        for (uint32_t u = t; u < end; u++) {
            eight_16 v;
            memcpy(&v, m + (size_t)u * 8, sizeof v);
            acc += __builtin_convertvector(v, eight_32) * coef[u];
        }
        sum += acc >> k;
    }
    sum >>= bits;
    for (unsigned r = 0; r < 8; r++)
        out[r] = (uint8_t)(sum[r] < 0 ? 0 : sum[r] > 255 ? 255 : sum[r]);
}

static void kernel_block_scalar(const struct kernel_job *job, uint32_t y0, uint32_t rows)
{
    struct span span = span_of(job->h);
    int16_t *mid = (int16_t *)job->mid;
    for (uint32_t g = 0; g < rows; g += 8) {
        uint32_t n = rows - g < 8 ? rows - g : 8;
        for (uint32_t r = 0; r < n; r++)
            scalar_vertical(job, y0 + g + r, span, mid + r);
        uint8_t *to = job->dst->data + (size_t)(y0 + g) * job->dst->stride_bytes;
        for (uint32_t x = 0; x < job->dst->w; x++) {
            uint8_t col[8];
            scalar_horizontal(job->h, x, mid, col);
            for (uint32_t r = 0; r < n; r++)
                to[r * job->dst->stride_bytes + x] = col[r];
        }
    }
}

/* One destination row of a 16-bit plane. Doubles, because few machines multiply 64-bit integers in
 * vectors; but integers all the same: Q22 coefficients times 23 bits at most, sums below 2^47. No
 * operation rounds, so neither order nor fused operations matter. */
static void wide_row(const struct kernel_job *job, uint32_t y, struct span span, double *mid)
{
    const struct axis *v = job->v, *h = job->h;
    const double *coef = v->wide + (size_t)y * 2 * v->pairs;
    const double down = 1.0 / (1 << (WIDE_COEF_BITS - WIDE_MID_BITS));
    const int bias = 1 << 28; /* so that the conversion to int rounds down */
    for (int64_t x = span.x0; x < span.x1; x += SCALAR_STRIP) {
        double acc[SCALAR_STRIP] = {0};
        unsigned n = span.x1 - x < SCALAR_STRIP ? (unsigned)(span.x1 - x) : SCALAR_STRIP;
        for (uint32_t t = 0; t < 2 * v->pairs; t++) {
            int64_t from = 2 * (int64_t)v->first[y] - v->parity + t;
            const uint16_t *row = (const uint16_t *)(const void *)src_row(job->src, from) + x;
            double c = coef[t];
            if (c == 0)
                continue;
            for (unsigned i = 0; i < n; i++)
                acc[i] += c * (double)(int32_t)row[i];
        }
        for (unsigned i = 0; i < n; i++)
            mid[x - span.start + i] = (double)((int32_t)(acc[i] * down + (bias + 0.5)) - bias);
    }
    uint16_t *to = (uint16_t *)(void *)(job->dst->data + (size_t)y * job->dst->stride_bytes);
    for (uint32_t x = 0; x < job->dst->w; x++) {
        const double *m = mid + (size_t)(h->first[x] - h->lo) * 2;
        double even = 0, odd = 0;
        coef = h->wide + (size_t)x * 2 * h->pairs;
        for (uint32_t t = 0; t < 2 * h->pairs; t += 2) {
            even += coef[t] * m[t];
            odd += coef[t + 1] * m[t + 1];
        }
        double d = (even + odd) / ((int64_t)1 << (WIDE_COEF_BITS + WIDE_MID_BITS)) + 0.5;
        to[x] = (uint16_t)(d < 0 ? 0 : d > UINT16_MAX ? UINT16_MAX : d);
    }
}

enum slimset_status resample_lanczos(struct resampler *r, const struct image_plane *src,
                                     struct resample_region region, struct image_plane *dst,
                                     uint8_t bits, struct slimset_error *err)
{
    assert((bits == 8 || bits == 16) && src->w > 0 && src->h > 0 && dst->w > 0 && dst->h > 0);
    bool is_wide = bits == 16;
    struct kernel_job job = {.src = src, .dst = dst};
    job.h = axis_get(r, src->w, region.x, region.w, dst->w, is_wide, err);
    job.v = job.h == NULL ? NULL : axis_get(r, src->h, region.y, region.h, dst->h, is_wide, err);
    if (job.v == NULL)
        return SLIMSET_NO_MEMORY;
    struct span span = span_of(job.h);
    size_t pairs = job.h->hi - job.h->lo;
    if (is_wide) {
        double *mid = (double *)scratch(&r->mid, pairs, 2 * sizeof *mid, err);
        if (mid == NULL)
            return SLIMSET_NO_MEMORY;
        mid[0] = mid[2 * pairs - 1] =
            0; /* may lie outside of the span, and zero times NaN is not zero */
        for (uint32_t y = 0; y < dst->h; y++)
            wide_row(&job, y, span, mid);
        return SLIMSET_OK;
    }
    job.mid = scratch(&r->mid, kernel_mid_bytes(job.h), 1, err);
    if (job.mid == NULL)
        return SLIMSET_NO_MEMORY;
    kernel_block_fn *block = kernel_block_scalar;
#if defined(__x86_64__)
    if (r->level > 0) {
        block = kernel_block_avx2;
        job.ring = scratch(&r->ring, kernel_ring_bytes(job.v), 1, err);
        job.cols = job.ring == NULL ? NULL : scratch(&r->cols, kernel_cols_bytes(job.h), 1, err);
        if (job.cols == NULL)
            return SLIMSET_NO_MEMORY;
    }
#endif
    for (uint32_t y = 0; y < dst->h; y += KERNEL_ROWS)
        block(&job, y, dst->h - y < KERNEL_ROWS ? dst->h - y : KERNEL_ROWS);
    return SLIMSET_OK;
}
