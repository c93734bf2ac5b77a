/* SPDX-License-Identifier: Apache-2.0
 *
 * SSIM (Wang et al. 2004; C1 = (0.01 * 255)^2, C2 = (0.03 * 255)^2) of windows of 8 x 8 pixels that do not overlap and are the
 * blocks of the JPEG. An orthonormal DCT keeps sums of products, so mean, variance and covariance of a window follow from its
 * coefficients, before and after quantisation: each block is transformed once, and to look at a quality is to round 64 numbers a
 * block. Left out are the rounding and clamping of the decoded pixels, which are small beside the quantisation.
 * Floats in a fixed order, no libm: the same quality everywhere.
 */
#include "min_ssim.h"

#include <string.h>

enum { BLOCKS_MAX = 16384 /* of larger pictures every n-th: a megapixel tells */ };

/* Annex K of the JPEG standard, luma, row by row. */
static const uint8_t base_table[64] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,  14, 13, 16, 24, 40,  57,
    69, 56, 14, 17, 22,  29,  51,  87,  80, 62, 18, 22, 37,  56,  68,  109, 103, 77, 24, 35, 55,  64,
    81, 104, 113, 92, 49, 64,  78,  87,  103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};

/* cos((2 x + 1) u pi / 16) / 2, and 1 / sqrt(8) for u = 0. */
static const float basis[8][8] = {
    {0.353553391f, 0.353553391f, 0.353553391f, 0.353553391f, 0.353553391f, 0.353553391f, 0.353553391f, 0.353553391f},
    {0.490392640f, 0.415734806f, 0.277785117f, 0.097545161f, -0.097545161f, -0.277785117f, -0.415734806f, -0.490392640f},
    {0.461939766f, 0.191341716f, -0.191341716f, -0.461939766f, -0.461939766f, -0.191341716f, 0.191341716f, 0.461939766f},
    {0.415734806f, -0.097545161f, -0.490392640f, -0.277785117f, 0.277785117f, 0.490392640f, 0.097545161f, -0.415734806f},
    {0.353553391f, -0.353553391f, -0.353553391f, 0.353553391f, 0.353553391f, -0.353553391f, -0.353553391f, 0.353553391f},
    {0.277785117f, -0.490392640f, 0.097545161f, 0.415734806f, -0.415734806f, -0.097545161f, 0.490392640f, -0.277785117f},
    {0.191341716f, -0.461939766f, 0.461939766f, -0.191341716f, -0.191341716f, 0.461939766f, -0.461939766f, 0.191341716f},
    {0.097545161f, -0.277785117f, 0.415734806f, -0.490392640f, 0.490392640f, -0.415734806f, 0.277785117f, -0.097545161f}};

/* Luma less 128; beyond the picture its last row and column go on. */
static void read_block(const struct image *im, uint32_t x0, uint32_t y0, float block[64])
{
    for (unsigned y = 0; y < 8; y++) {
        const uint8_t *row[3] = {NULL, NULL, NULL};
        for (unsigned i = 0; i < (im->colour == IMAGE_RGB ? 3u : 1u); i++)
            row[i] = im->plane[i].data + (size_t)(y0 + y < im->h ? y0 + y : im->h - 1) * im->plane[i].stride_bytes;
        for (unsigned x = 0; x < 8; x++) {
            uint32_t at = x0 + x < im->w ? x0 + x : im->w - 1, v = row[0][at];
            if (im->colour == IMAGE_RGB)
                v = (v * 19595u + row[1][at] * 38470u + row[2][at] * 7471u + 0x8000u) >> 16;
            block[8 * y + x] = (float)v - 128.0f;
        }
    }
}

static void transform(const float in[64], float out[64])
{
    float half[64];
    for (unsigned y = 0; y < 8; y++) {
        float sum[8] = {0};
        for (unsigned k = 0; k < 8; k++)
            for (unsigned x = 0; x < 8; x++)
                sum[x] += basis[y][k] * in[8 * k + x];
        memcpy(half + 8 * y, sum, sizeof sum);
    }
    for (unsigned y = 0; y < 8; y++) {
        float sum[8] = {0};
        for (unsigned k = 0; k < 8; k++)
            for (unsigned x = 0; x < 8; x++)
                sum[x] += half[8 * y + k] * basis[x][k];
        memcpy(out + 8 * y, sum, sizeof sum);
    }
}

static void table_of(int quality, float step[64], float inverse[64])
{
    int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality; /* as libjpeg does */
    for (unsigned i = 0; i < 64; i++) {
        int v = (base_table[i] * scale + 50) / 100;
        step[i] = (float)(v < 1 ? 1 : v > 255 ? 255 : v);
        inverse[i] = 1.0f / step[i];
    }
}

static double ssim_at(const float *blocks, size_t n, int quality)
{
    const double c1 = 6.5025, c2 = 58.5225;
    float step[64], inverse[64];
    double sum = 0;
    table_of(quality, step, inverse);
    for (size_t b = 0; b < n; b++) {
        const float *x = blocks + 64 * b;
        float xx[8] = {0}, yy[8] = {0}, xy[8] = {0}, y[64];
        for (unsigned i = 0; i < 64; i++) {
            float q = x[i] * inverse[i];
            y[i] = (float)(int32_t)(q + __builtin_copysignf(0.5f, q)) * step[i];
        }
        for (unsigned r = 0; r < 64; r += 8)
            for (unsigned i = 0; i < 8; i++) {
                xx[i] += x[r + i] * x[r + i];
                yy[i] += y[r + i] * y[r + i];
                xy[i] += x[r + i] * y[r + i];
            }
        double a = 0, d = 0, e = 0, mx = x[0] / 8.0, my = y[0] / 8.0;
        for (unsigned i = 0; i < 8; i++) {
            a += xx[i];
            d += yy[i];
            e += xy[i];
        }
        double vx = a / 64 - mx * mx, vy = d / 64 - my * my, cov = e / 64 - mx * my;
        mx += 128;
        my += 128;
        sum += (2 * mx * my + c1) * (2 * cov + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2));
    }
    return sum / (double)n;
}

enum slimset_status min_ssim_quality(const struct image *im, double wanted, struct buf *room, int *quality, uint32_t *ssim_e6,
                                     struct slimset_error *err)
{
    uint64_t across = im->w / 8 > 0 ? im->w / 8 : 1, down = im->h / 8 > 0 ? im->h / 8 : 1; /* whole blocks, where there are any */
    uint64_t all = across * down, every = (all + BLOCKS_MAX - 1) / BLOCKS_MAX;
    if (every > 1 && across % every == 0) /* not the same columns in every row */
        every++;
    size_t n = 0;
    room->len = 0;
    enum slimset_status st = buf_reserve(room, (size_t)((all + every - 1) / every) * 64 * sizeof(float), err);
    if (st != SLIMSET_OK)
        return st;
    float *blocks = (float *)(void *)room->data, pixels[64];
    for (uint64_t i = 0; i < all; i += every) {
        read_block(im, (uint32_t)(i % across) * 8, (uint32_t)(i / across) * 8, pixels);
        transform(pixels, blocks + 64 * n++);
    }
    int low = MIN_SSIM_LOWEST, high = MIN_SSIM_HIGHEST;
    double reached = ssim_at(blocks, n, high);
    while (low < high && reached >= wanted) { /* `high` reaches it, or is the highest */
        int middle = (low + high) / 2;
        double s = ssim_at(blocks, n, middle);
        if (s >= wanted) {
            high = middle;
            reached = s;
        } else {
            low = middle + 1;
        }
    }
    *quality = high;
    *ssim_e6 = reached >= 1 ? 1000000 : reached <= 0 ? 1 : (uint32_t)(reached * 1e6);
    *ssim_e6 += *ssim_e6 == 0; /* 0 says that nothing was measured */
    return SLIMSET_OK;
}
