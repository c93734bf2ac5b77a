/* SPDX-License-Identifier: Apache-2.0
 *
 * resample.h against its definition: a slow Lanczos-3 in long double that shares no code with the
 * kernels, the nearest formula, and the eight orientations written out sample by sample. Pillow is
 * asked by resample_judge.py.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "resample.h"

#include "check.h"

static uint32_t seed = 12345;

static uint32_t rnd(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* Exactly the slack that is promised behind the rows, so that ASan sees a read beyond it. */
static struct image_plane plane_new(uint32_t w, uint32_t h, unsigned bits)
{
    struct image_plane p = {.w = w, .h = h, .per_px_x = 1, .per_px_y = 1};
    p.stride_bytes = (size_t)w * (bits / 8) + IMAGE_ROW_SLACK;
    p.data = malloc(p.stride_bytes * h);
    memset(p.data, 0xA5, p.stride_bytes * h);
    return p;
}

static unsigned get(const struct image_plane *p, uint32_t x, uint32_t y, unsigned bits)
{
    const uint8_t *row = p->data + y * p->stride_bytes;
    uint16_t v;
    if (bits == 8)
        return row[x];
    memcpy(&v, row + 2 * (size_t)x, 2);
    return v;
}

static void set(struct image_plane *p, uint32_t x, uint32_t y, unsigned bits, unsigned value)
{
    uint8_t *row = p->data + y * p->stride_bytes;
    uint16_t v = (uint16_t)value;
    if (bits == 8)
        row[x] = (uint8_t)value;
    else
        memcpy(row + 2 * (size_t)x, &v, 2);
}

/* Noise, or hard black and white, or smooth: by style. */
static void fill(struct image_plane *p, unsigned bits, unsigned style)
{
    unsigned top = (1u << bits) - 1;
    for (uint32_t y = 0; y < p->h; y++)
        for (uint32_t x = 0; x < p->w; x++) {
            double wave = 0.5 + 0.25 * sin(x * 0.05 + 1) + 0.25 * cos(y * 0.07);
            set(p, x, y, bits,
                style == 0   ? rnd(top + 1)
                : style == 1 ? rnd(2) * top
                             : (unsigned)(wave * top));
        }
}

static struct resample_region all_of(const struct image_plane *p)
{
    return (struct resample_region){0, 0, p->w, p->h};
}

static bool run(struct resampler *r, const struct image_plane *src, struct resample_region region,
                struct image_plane *dst, unsigned bits)
{
    struct slimset_error err;
    return resample_lanczos(r, src, region, dst, (uint8_t)bits, &err) == SLIMSET_OK;
}

/* Nothing but the samples was written. */
static bool edges_whole(const struct image_plane *p, unsigned bits)
{
    for (uint32_t y = 0; y < p->h; y++)
        for (size_t i = (size_t)p->w * (bits / 8); i < p->stride_bytes; i++)
            if (p->data[y * p->stride_bytes + i] != 0xA5)
                return false;
    return true;
}

static bool equal(const struct image_plane *a, const struct image_plane *b, unsigned bits)
{
    for (uint32_t y = 0; y < a->h; y++)
        if (memcmp(a->data + y * a->stride_bytes, b->data + y * b->stride_bytes,
                   (size_t)a->w * (bits / 8)) != 0)
            return false;
    return true;
}

/* The filter as defined: weights of one destination sample over the whole source axis. */
static void slow_weights(long double *w, uint32_t n, double start, double extent, uint32_t n_dst,
                         uint32_t i)
{
    long double ratio = (long double)extent / n_dst, scale = ratio > 1 ? ratio : 1, sum = 0;
    long double c = start + (i + 0.5L) * ratio, pi = 3.14159265358979323846264338327950288L;
    c = c < 0 ? 0 : c > n ? n : c;
    for (uint32_t x = 0; x < n; x++) {
        long double t = pi * fabsl(x + 0.5L - c) / scale;
        w[x] = t >= 3 * pi ? 0 : t < 1e-9L ? 1 : 3 * sinl(t) * sinl(t / 3) / (t * t);
        sum += w[x];
    }
    for (uint32_t x = 0; x < n; x++)
        w[x] /= sum;
}

/* The largest difference of dst from the definition. */
static double slow_difference(const struct image_plane *src, struct resample_region region,
                              const struct image_plane *dst, unsigned bits)
{
    long double *wx = malloc(sizeof *wx * src->w), *wy = malloc(sizeof *wy * src->h);
    long double *mid = malloc(sizeof *mid * src->w);
    double most = 0, top = (1u << bits) - 1;
    for (uint32_t y = 0; y < dst->h; y++) {
        slow_weights(wy, src->h, region.y, region.h, dst->h, y);
        for (uint32_t x = 0; x < src->w; x++) {
            mid[x] = 0;
            for (uint32_t k = 0; k < src->h; k++)
                mid[x] += wy[k] * get(src, x, k, bits);
        }
        for (uint32_t x = 0; x < dst->w; x++) {
            slow_weights(wx, src->w, region.x, region.w, dst->w, x);
            long double v = 0;
            for (uint32_t k = 0; k < src->w; k++)
                v += wx[k] * mid[k];
            v = v < 0 ? 0 : v > top ? top : v;
            double d = fabs((double)v - get(dst, x, y, bits));
            most = d > most ? d : most;
        }
    }
    free(wx);
    free(wy);
    free(mid);
    return most;
}

static struct resample_region random_region(const struct image_plane *p)
{
    struct resample_region all = all_of(p), r;
    if (rnd(2) == 0)
        return all;
    r.w = all.w * (0.05 + rnd(1000) / 1000.0);
    r.h = all.h * (0.05 + rnd(1000) / 1000.0);
    r.x = (all.w - r.w) * (rnd(1000) / 800.0 - 0.1);
    r.y = (all.h - r.h) * (rnd(1000) / 800.0 - 0.1);
    return r;
}

static uint32_t random_side(void)
{
    static const uint32_t most[] = {4, 20, 70, 300, 900};
    return 1 + rnd(most[rnd(5)]);
}

static void test_kernels_equal(void)
{
    struct resampler *fast = resampler_new(), *plain = resampler_new();
    resampler_set_kernel(plain, 0);
    unsigned bad = 0;
    for (int i = 0; i < 500; i++) {
        struct image_plane src = plane_new(random_side(), random_side(), 8);
        uint32_t w = random_side(), h = random_side();
        struct image_plane a = plane_new(w, h, 8), b = plane_new(w, h, 8);
        struct resample_region region = random_region(&src);
        fill(&src, 8, i % 3);
        bool ok = run(fast, &src, region, &a, 8) && run(plain, &src, region, &b, 8);
        if (!ok || !equal(&a, &b, 8) || !edges_whole(&a, 8) || !edges_whole(&b, 8)) {
            if (bad++ < 5)
                printf("  %ux%u (%g %g %g %g) -> %ux%u\n", src.w, src.h, region.x, region.y,
                       region.w, region.h, w, h);
        }
        free(src.data);
        free(a.data);
        free(b.data);
    }
    CHECK_INT(bad, 0);
    resampler_free(fast);
    resampler_free(plain);
}

static void test_definition(void)
{
    struct resampler *r = resampler_new();
    for (int i = 0; i < 120; i++) {
        unsigned bits = i % 2 ? 16 : 8;
        struct image_plane src = plane_new(1 + rnd(60), 1 + rnd(60), bits);
        struct image_plane dst = plane_new(1 + rnd(40), 1 + rnd(40), bits);
        struct resample_region region = random_region(&src);
        fill(&src, bits, rnd(3));
        CHECK(run(r, &src, region, &dst, bits));
        double d = slow_difference(&src, region, &dst, bits);
        bool close = d <= (bits == 8 ? 0.53 : 0.6);
        CHECK(close);
        if (!close)
            printf("  %u bits %ux%u (%g %g %g %g) -> %ux%u: off by %g\n", bits, src.w, src.h,
                   region.x, region.y, region.w, region.h, dst.w, dst.h, d);
        CHECK(edges_whole(&dst, bits));
        free(src.data);
        free(dst.data);
    }
    resampler_free(r);
}

/* Ratios at the ends of what a picture can ask for: constants stay, noise keeps its mean. */
static void test_extreme_ratios(void)
{
    static const uint32_t cases[][4] = {
        {65500, 1, 1, 1},  {1, 65500, 1, 1},  {65500, 3, 2, 7},   {3, 65500, 7, 2},
        {1, 1, 512, 512},  {1, 2, 300, 1},    {4000, 2, 512, 1},  {2, 4000, 1, 512},
        {40000, 40, 1, 1}, {40, 40000, 3, 3}, {259, 1, 1, 9},     {520, 520, 2, 2},
        {1, 1, 1, 1},      {100000, 1, 1, 1}, {2000, 2000, 1, 1}, {1, 1, 65500, 1}};
    struct resampler *r = resampler_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int level = -1; level <= 0; level++)
            for (unsigned bits = 8; bits <= 16; bits += 8) {
                const uint32_t *c = cases[i];
                unsigned top = (1u << bits) - 1;
                struct image_plane src = plane_new(c[0], c[1], bits),
                                   dst = plane_new(c[2], c[3], bits);
                resampler_set_kernel(r, level);
                for (unsigned v = 0; v <= top; v += top / 5) {
                    for (uint32_t y = 0; y < src.h; y++)
                        for (uint32_t x = 0; x < src.w; x++)
                            set(&src, x, y, bits, v);
                    CHECK(run(r, &src, all_of(&src), &dst, bits));
                    for (uint32_t y = 0; y < dst.h; y++)
                        for (uint32_t x = 0; x < dst.w; x++)
                            if (get(&dst, x, y, bits) != v) {
                                CHECK_INT(get(&dst, x, y, bits), v);
                                y = dst.h - 1;
                                break;
                            }
                }
                if (src.w <= 1 || src.h <= 1 || (size_t)src.w * src.h < 200000) {
                    fill(&src, bits, 0);
                    CHECK(run(r, &src, all_of(&src), &dst, bits));
                    if ((size_t)dst.w * dst.h * src.h < 100 && src.w > 1) {
                        double d = slow_difference(&src, all_of(&src), &dst, bits);
                        CHECK(d < (bits == 8 ? 0.6 : 1.0 + top * 0.0002));
                        if (d >= (bits == 8 ? 0.6 : 1.0 + top * 0.0002))
                            printf("  case %zu bits %u off by %g\n", i, bits, d);
                    }
                }
                CHECK(edges_whole(&dst, bits));
                free(src.data);
                free(dst.data);
            }
    resampler_free(r);
}

static void test_ratio_one_copies(void)
{
    struct resampler *r = resampler_new();
    for (int level = -1; level <= 0; level++)
        for (unsigned bits = 8; bits <= 16; bits += 8) {
            struct image_plane src = plane_new(131, 77, bits), dst = plane_new(131, 77, bits);
            struct image_plane part = plane_new(61, 40, bits);
            fill(&src, bits, 0);
            resampler_set_kernel(r, level);
            CHECK(run(r, &src, all_of(&src), &dst, bits));
            CHECK(equal(&src, &dst, bits));
            CHECK(run(r, &src, (struct resample_region){7, 3, 61, 40}, &part, bits));
            unsigned bad = 0;
            for (uint32_t y = 0; y < 40; y++)
                for (uint32_t x = 0; x < 61; x++)
                    bad += get(&part, x, y, bits) != get(&src, x + 7, y + 3, bits);
            CHECK_INT(bad, 0);
            free(src.data);
            free(dst.data);
            free(part.data);
        }
    resampler_free(r);
}

/* A line through a ramp: the result must lie on it, to 0.05 source samples on average. */
static void test_ramp_is_not_shifted(void)
{
    static const struct {
        uint32_t n, n_dst;
        double start, extent;
    } cases[] = {{400, 200, 0, 400},   {400, 137, 0, 400},      {333, 400, 0, 333},
                 {512, 256, 0, 511.5}, {301, 100, 0.25, 300.5}, {200, 450, 10.3, 170.7},
                 {64, 31, 0.5, 62}};
    struct resampler *r = resampler_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int turn = 0; turn < 2; turn++) {
            uint32_t n = cases[i].n, m = cases[i].n_dst;
            double ratio = cases[i].extent / m, off = 0, most = 0;
            struct image_plane src = plane_new(turn ? 3 : n, turn ? n : 3, 16);
            struct image_plane dst = plane_new(turn ? 3 : m, turn ? m : 3, 16);
            struct resample_region region = all_of(&src);
            for (uint32_t y = 0; y < src.h; y++)
                for (uint32_t x = 0; x < src.w; x++)
                    set(&src, x, y, 16, 1000 + 100 * (turn ? y : x));
            *(turn ? &region.y : &region.x) = cases[i].start;
            *(turn ? &region.h : &region.w) = cases[i].extent;
            CHECK(run(r, &src, region, &dst, 16));
            uint32_t margin = (uint32_t)(4 / (ratio < 1 ? ratio : 1)) + 1;
            for (uint32_t k = margin; k < m - margin; k++) {
                double at = cases[i].start + (k + 0.5) * ratio - 0.5; /* in source samples */
                double d = (get(&dst, turn ? 1 : k, turn ? k : 1, 16) - 1000.0) / 100 - at;
                off += d / (m - 2 * margin);
                most = fabs(d) > most ? fabs(d) : most;
            }
            CHECK(fabs(off) < 0.01);
            CHECK(most < 0.05);
            free(src.data);
            free(dst.data);
        }
    resampler_free(r);
}

/* More geometries than the cache holds, back and forth: the same as from a fresh resampler. */
static void test_cache(void)
{
    struct resampler *r = resampler_new();
    struct image_plane src = plane_new(150, 90, 8);
    fill(&src, 8, 0);
    for (int i = 0; i < 60; i++) {
        unsigned which = rnd(12), bits = 8;
        struct image_plane a = plane_new(20 + 7 * which, 30 + which % 5, 8),
                           b = plane_new(a.w, a.h, 8);
        struct resample_region region = {which % 3, 0.25 * (which % 2), 140 + which % 4, 80};
        struct resampler *fresh = resampler_new();
        CHECK(run(r, &src, region, &a, bits) && run(fresh, &src, region, &b, bits));
        CHECK(equal(&a, &b, 8));
        resampler_free(fresh);
        free(a.data);
        free(b.data);
    }
    free(src.data);
    resampler_free(r);
}

static void test_nearest(void)
{
    for (int i = 0; i < 300; i++) {
        unsigned bits = i % 2 ? 16 : 8, bad = 0;
        struct image_plane src = plane_new(random_side(), random_side(), bits);
        struct image_plane dst = plane_new(random_side(), random_side(), bits);
        fill(&src, bits, 0);
        resample_nearest(&src, &dst, (uint8_t)bits);
        for (uint64_t y = 0; y < dst.h; y++)
            for (uint64_t x = 0; x < dst.w; x++) {
                uint32_t sx = (uint32_t)((2 * x + 1) * src.w / (2 * (uint64_t)dst.w));
                uint32_t sy = (uint32_t)((2 * y + 1) * src.h / (2 * (uint64_t)dst.h));
                bad += get(&dst, (uint32_t)x, (uint32_t)y, bits) != get(&src, sx, sy, bits);
            }
        CHECK_INT(bad, 0);
        CHECK(edges_whole(&dst, bits));
        free(src.data);
        free(dst.data);
    }
}

/* EXIF 2.3, tag 274: which side of the upright picture the 0th row and column are. */
static void test_orient(void)
{
    for (int i = 0; i < 400; i++) {
        int o = 1 + i % 8;
        unsigned bits = i / 8 % 2 ? 16 : 8, bad = 0;
        struct image_plane src = plane_new(1 + rnd(150), 1 + rnd(150), bits);
        uint32_t w = src.w, h = src.h;
        struct image_plane dst = plane_new(o < 5 ? w : h, o < 5 ? h : w, bits);
        fill(&src, bits, 0);
        resample_orient(&src, o, &dst, (uint8_t)bits);
        for (uint32_t row = 0; row < h; row++)
            for (uint32_t col = 0; col < w; col++) {
                uint32_t right = w - 1 - col, below = h - 1 - row, x = 0, y = 0;
                switch (o) {
                case 1:
                    x = col;
                    y = row;
                    break; /* row 0 top, column 0 left */
                case 2:
                    x = right;
                    y = row;
                    break; /* top, right */
                case 3:
                    x = right;
                    y = below;
                    break; /* bottom, right */
                case 4:
                    x = col;
                    y = below;
                    break; /* bottom, left */
                case 5:
                    x = row;
                    y = col;
                    break; /* left, top */
                case 6:
                    x = below;
                    y = col;
                    break; /* right, top */
                case 7:
                    x = below;
                    y = right;
                    break; /* right, bottom */
                case 8:
                    x = row;
                    y = right;
                    break; /* left, bottom */
                }
                bad += get(&dst, x, y, bits) != get(&src, col, row, bits);
            }
        CHECK_INT(bad, 0);
        CHECK(edges_whole(&dst, bits));
        free(src.data);
        free(dst.data);
    }
}

int main(void)
{
    RUN(test_kernels_equal);
    RUN(test_definition);
    RUN(test_extreme_ratios);
    RUN(test_ratio_one_copies);
    RUN(test_ramp_is_not_shifted);
    RUN(test_cache);
    RUN(test_nearest);
    RUN(test_orient);
    return check_done();
}
