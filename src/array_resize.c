/* SPDX-License-Identifier: Apache-2.0 */
#include "array_resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array_convert.h"

enum { SIDE_MAX = 65500 };

/* Which axis is the height; the width is the next one. -1: the array has other dimensions. */
static int height_axis(const struct npy *a, enum slimset_array_layout axes)
{
    static const struct {
        unsigned ndim;
        int height;
    } known[] = {[SLIMSET_ARRAY_HW] = {2, 0}, [SLIMSET_ARRAY_HWC] = {3, 0}, [SLIMSET_ARRAY_CHW] = {3, 1},
                 [SLIMSET_ARRAY_NHWC] = {4, 1}, [SLIMSET_ARRAY_NCHW] = {4, 2}};
    return axes != SLIMSET_ARRAY_NONE && a->ndim == known[axes].ndim ? known[axes].height : -1;
}

bool array_size(const struct npy *a, enum slimset_array_layout axes, uint32_t *w, uint32_t *h)
{
    int y = height_axis(a, axes);
    if (y < 0 || a->data_bytes == 0 || a->shape[y] > SIDE_MAX || a->shape[y + 1] > SIDE_MAX)
        return false;
    *h = (uint32_t)a->shape[y];
    *w = (uint32_t)a->shape[y + 1];
    return true;
}

struct npy array_resized(const struct npy *a, enum slimset_array_layout axes, const struct geometry *g)
{
    struct npy to = *a;
    int y = height_axis(a, axes);
    to.shape[y] = g->h;
    to.shape[y + 1] = g->w;
    to.count = 1;
    for (unsigned i = 0; i < to.ndim; i++)
        to.count *= to.shape[i];
    to.data_bytes = to.count * to.itemsize;
    return to;
}

/* --- one axis --------------------------------------------------------------------------------------------------------- */

struct taps {
    uint32_t begin, n;
    double *weight;
};

struct axis {
    struct taps *out;   /* per output sample */
    double *weights;    /* all of them */
    uint32_t n;
    bool copies;        /* the same samples: no pass is needed */
};

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * 3.14159265358979323846) / (x * 3.14159265358979323846);
}

static void axis_fini(struct axis *a)
{
    free(a->out);
    free(a->weights);
}

static enum slimset_status axis_init(struct axis *a, uint32_t n_src, double from, double length, uint32_t n, struct slimset_error *err)
{
    double scale = length / n, filter = scale < 1 ? 1 : scale, support = 3 * filter;
    size_t most = (size_t)ceil(support) * 2 + 1;
    *a = (struct axis){.n = n, .copies = from == 0 && length == n && n == n_src};
    if (a->copies)
        return SLIMSET_OK;
    a->out = calloc(n, sizeof *a->out);
    a->weights = calloc(n * most, sizeof *a->weights);
    if (a->out == NULL || a->weights == NULL)
        return err_nomem(err, n * most * sizeof *a->weights);
    for (uint32_t i = 0; i < n; i++) {
        double centre = from + (i + 0.5) * scale, sum = 0;
        int64_t begin = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
        begin = begin < 0 ? 0 : begin;
        end = end > n_src ? n_src : end;
        struct taps *t = &a->out[i];
        *t = (struct taps){.begin = (uint32_t)begin, .n = (uint32_t)(end - begin), .weight = a->weights + i * most};
        for (uint32_t k = 0; k < t->n; k++) {
            double x = ((double)(begin + k) - centre + 0.5) * (1.0 / filter);
            t->weight[k] = x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
            sum += t->weight[k];
        }
        for (uint32_t k = 0; k < t->n; k++)
            t->weight[k] /= sum;
    }
    return SLIMSET_OK;
}

/* Rows of n samples of `inner` values each; every output sample from its taps. */
static void pass_across(const struct axis *a, const double *src, double *dst, uint32_t rows, uint32_t n, size_t inner, bool to_float)
{
    for (uint32_t y = 0; y < rows; y++, src += n * inner, dst += a->n * inner)
        for (uint32_t i = 0; i < a->n; i++)
            for (size_t c = 0; c < inner; c++) {
                const struct taps *t = &a->out[i];
                double sum = 0;
                for (uint32_t k = 0; k < t->n; k++)
                    sum += src[(t->begin + k) * inner + c] * t->weight[k];
                dst[i * inner + c] = to_float ? (double)(float)sum : sum;
            }
}

/* The same down the columns; a row has `row` values. */
static void pass_down(const struct axis *a, const double *src, double *dst, size_t row)
{
    for (uint32_t i = 0; i < a->n; i++, dst += row) {
        const struct taps *t = &a->out[i];
        memset(dst, 0, row * sizeof *dst);
        for (uint32_t k = 0; k < t->n; k++)
            for (size_t x = 0; x < row; x++)
                dst[x] += src[(t->begin + k) * row + x] * t->weight[k];
    }
}

/* --- images ----------------------------------------------------------------------------------------------------------- */

struct images {
    size_t outer, inner;     /* images one behind the other; values of a pixel */
    uint32_t w, h;
};

static struct images images_of(const struct npy *a, enum slimset_array_layout axes)
{
    int y = height_axis(a, axes);
    struct images m = {.outer = 1, .inner = 1, .w = (uint32_t)a->shape[y + 1], .h = (uint32_t)a->shape[y]};
    for (int i = 0; i < y; i++)
        m.outer *= a->shape[i];
    for (unsigned i = (unsigned)y + 2; i < a->ndim; i++)
        m.inner *= a->shape[i];
    return m;
}

static uint32_t nearest(uint32_t i, double from, double length, uint32_t n, uint32_t n_src)
{
    if (from == 0 && length == n_src) /* whole numbers: exact */
        return (uint32_t)((2 * (uint64_t)i + 1) * n_src / (2 * (uint64_t)n));
    double x = floor(from + (i + 0.5) * length / n);
    return x < 0 ? 0 : x >= n_src ? n_src - 1 : (uint32_t)x;
}

static void resize_nearest(const struct images *m, const struct geometry *g, size_t pixel, const uint8_t *src, uint8_t *dst)
{
    for (size_t o = 0; o < m->outer; o++, src += (size_t)m->w * m->h * pixel, dst += (size_t)g->w * g->h * pixel)
        for (uint32_t y = 0; y < g->dst_h; y++) {
            const uint8_t *row = src + (size_t)nearest(y, g->src_y, g->src_h, g->dst_h, m->h) * m->w * pixel;
            uint8_t *to = dst + ((size_t)(g->dst_y + y) * g->w + g->dst_x) * pixel;
            for (uint32_t x = 0; x < g->dst_w; x++)
                memcpy(to + x * pixel, row + nearest(x, g->src_x, g->src_w, g->dst_w, m->w) * pixel, pixel);
        }
}

static enum slimset_status resize_lanczos(const struct npy *a, const struct images *m, const struct geometry *g, const uint8_t *src,
                                          uint8_t *dst, struct slimset_error *err)
{
    size_t in = (size_t)m->w * m->h * m->inner, mid = (size_t)g->dst_w * m->h * m->inner, row = g->dst_w * m->inner;
    struct axis across = {0}, down = {0};
    double *from = malloc(in * sizeof *from), *half = malloc(mid * sizeof *half), *made = malloc(row * g->dst_h * sizeof *made);
    enum slimset_status st = from != NULL && half != NULL && made != NULL ? SLIMSET_OK : err_nomem(err, (in + mid) * sizeof *from);
    if (st == SLIMSET_OK)
        st = axis_init(&across, m->w, g->src_x, g->src_w, g->dst_w, err);
    if (st == SLIMSET_OK)
        st = axis_init(&down, m->h, g->src_y, g->src_h, g->dst_h, err);
    for (size_t o = 0; st == SLIMSET_OK && o < m->outer; o++) {
        const double *now = from;
        array_to_doubles(a, src + o * in * a->itemsize, from, in);
        if (!across.copies) {
            pass_across(&across, from, half, m->h, m->w, m->inner, a->kind == 'f' && a->itemsize <= 4);
            now = half;
        }
        if (!down.copies) {
            pass_down(&down, now, made, row);
            now = made;
        }
        for (uint32_t y = 0; y < g->dst_h; y++) {
            size_t at = ((o * g->h + g->dst_y + y) * g->w + g->dst_x) * m->inner;
            array_from_doubles(a, now + y * row, dst + at * a->itemsize, row);
        }
    }
    axis_fini(&across);
    axis_fini(&down);
    free(from);
    free(half);
    free(made);
    return st;
}

enum slimset_status array_resize(const struct npy *a, enum slimset_array_layout axes, const struct geometry *g, bool nearest_only,
                                 const uint8_t *src, uint8_t *dst, struct slimset_error *err)
{
    struct images m = images_of(a, axes);
    memset(dst, 0, m.outer * g->w * g->h * m.inner * a->itemsize);
    if (!nearest_only)
        return resize_lanczos(a, &m, g, src, dst, err);
    resize_nearest(&m, g, m.inner * a->itemsize, src, dst);
    return SLIMSET_OK;
}
