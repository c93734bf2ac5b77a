/* SPDX-License-Identifier: Apache-2.0
 *
 * The plane resampler against zimg's Lanczos-3 (one grey graph a plane), both on one thread:
 * median nanoseconds a plane. "built" graphs and tables are made once, "varying" ones for every
 * call, as for a set of images of which no two have the same size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zimg.h>

#include "../../src/resample.h"

enum { ROUNDS = 101, VARY = 16 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static zimg_filter_graph *graph_new(const struct image_plane *src, const struct image_plane *dst)
{
    zimg_image_format in, out;
    zimg_graph_builder_params params;
    zimg_image_format_default(&in, ZIMG_API_VERSION);
    in.width = src->w;
    in.height = src->h;
    in.pixel_type = ZIMG_PIXEL_BYTE;
    in.color_family = ZIMG_COLOR_GREY;
    in.pixel_range = ZIMG_RANGE_FULL;
    out = in;
    out.width = dst->w;
    out.height = dst->h;
    zimg_graph_builder_params_default(&params, ZIMG_API_VERSION);
    params.resample_filter = ZIMG_RESIZE_LANCZOS;
    params.filter_param_a = 3;
    params.dither_type = ZIMG_DITHER_NONE;
    params.cpu_type = ZIMG_CPU_AUTO_64B;
    zimg_filter_graph *g = zimg_filter_graph_build(&in, &out, &params);
    if (g == NULL) {
        fprintf(stderr, "zimg refused the graph\n");
        exit(1);
    }
    return g;
}

static void graph_run(zimg_filter_graph *g, const struct image_plane *src, struct image_plane *dst)
{
    static void *tmp;
    static size_t tmp_bytes;
    size_t need;
    zimg_filter_graph_get_tmp_size(g, &need);
    if (need > tmp_bytes) {
        free(tmp);
        tmp = aligned_alloc(64, (need + 63) & ~(size_t)63);
        tmp_bytes = need;
    }
    zimg_image_buffer_const in = {.version = ZIMG_API_VERSION};
    zimg_image_buffer out = {.version = ZIMG_API_VERSION};
    in.plane[0].data = src->data;
    in.plane[0].stride = (ptrdiff_t)src->stride_bytes;
    in.plane[0].mask = ZIMG_BUFFER_MAX;
    out.plane[0].data = dst->data;
    out.plane[0].stride = (ptrdiff_t)dst->stride_bytes;
    out.plane[0].mask = ZIMG_BUFFER_MAX;
    zimg_filter_graph_process(g, &in, &out, tmp, NULL, NULL, NULL, NULL);
}

static struct image_plane plane_new(uint32_t w, uint32_t h)
{
    struct image_plane p = {.stride_bytes = (w + 63) / 64 * 64 + 64, .w = w, .h = h};
    p.data = aligned_alloc(64, p.stride_bytes * h + 64);
    uint32_t x = 1;
    for (size_t i = 0; i < p.stride_bytes * h; i++) {
        x = x * 1664525 + 1013904223;
        p.data[i] = (uint8_t)(i / 7 + (x >> 27));
    }
    return p;
}

static void ours(struct resampler *r, const struct image_plane *src, struct image_plane *dst)
{
    struct slimset_error err;
    struct resample_region all = {0, 0, src->w, src->h};
    if (resample_lanczos(r, src, all, dst, 8, &err) != SLIMSET_OK)
        exit(1);
}

/* A case: sizes shrink a little with the round when varying, so that nothing can be kept. */
static void compare(struct resampler *r, const char *name, uint32_t sw, uint32_t sh, uint32_t dw,
                    uint32_t dh, bool varying)
{
    struct image_plane src = plane_new(sw, sh), dst = plane_new(dw, dh);
    double t[2][ROUNDS];
    zimg_filter_graph *g = graph_new(&src, &dst);
    for (int i = -5; i < ROUNDS; i++) { /* five to warm up */
        if (varying) {
            uint32_t k = (uint32_t)(i + VARY);
            src.w = sw - k % VARY;
            src.h = sh - k / 2 % VARY;
            dst.w = dw - k % VARY;
        }
        double t0 = now_ns();
        if (varying) {
            zimg_filter_graph_free(g);
            g = graph_new(&src, &dst);
        }
        graph_run(g, &src, &dst);
        double t1 = now_ns();
        ours(r, &src, &dst);
        if (i >= 0) {
            t[0][i] = t1 - t0;
            t[1][i] = now_ns() - t1;
        }
    }
    zimg_filter_graph_free(g);
    qsort(t[0], ROUNDS, sizeof t[0][0], by_value);
    qsort(t[1], ROUNDS, sizeof t[1][0], by_value);
    printf("%-28s zimg %8.0f (best %8.0f) ns   ours %8.0f (best %8.0f) ns   x%.2f\n", name,
           t[0][ROUNDS / 2], t[0][0], t[1][ROUNDS / 2], t[1][0],
           t[0][ROUNDS / 2] / t[1][ROUNDS / 2]);
    free(src.data);
    free(dst.data);
}

int main(int argc, char **argv)
{
    struct resampler *r = resampler_new();
    if (r == NULL)
        return 1;
    if (argc > 1)
        resampler_set_kernel(r, atoi(argv[1]));
    compare(r, "1024x1024 -> 512x512 built", 1024, 1024, 512, 512, false);
    compare(r, "512x512 -> 256x256 built", 512, 512, 256, 256, false);
    compare(r, "500x375 -> 341x256 built", 500, 375, 341, 256, false);
    compare(r, "500x375 -> 341x256 varying", 500, 375, 341, 256, true);
    resampler_free(r);
    return 0;
}
