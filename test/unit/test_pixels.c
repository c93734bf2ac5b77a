/* SPDX-License-Identifier: Apache-2.0
 *
 * pixels.h: every operation against values from Pillow, or against the formula in plain arithmetic.
 */
#include "pixels.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

static struct slimset_error err;
static struct image im, scratch;

static uint16_t get(unsigned plane, uint32_t x, uint32_t y)
{
    const uint8_t *row = im.plane[plane].data + (size_t)y * im.plane[plane].stride_bytes;
    uint16_t v = row[x];
    if (im.bits == 16)
        memcpy(&v, row + 2 * (size_t)x, 2);
    return v;
}

static void set(unsigned plane, uint32_t x, uint32_t y, uint16_t v)
{
    uint8_t *row = im.plane[plane].data + (size_t)y * im.plane[plane].stride_bytes;
    if (im.bits == 16)
        memcpy(row + 2 * (size_t)x, &v, 2);
    else
        row[x] = (uint8_t)v;
}

static void make(enum image_colour colour, bool alpha, uint8_t bits, uint32_t w, uint32_t h)
{
    CHECK_INT(image_setup(&im, colour, alpha, bits, w, h, &err), SLIMSET_OK);
    for (unsigned i = 0; i < im.n_planes; i++)
        for (uint32_t y = 0; y < h; y++)
            memset(im.plane[i].data + y * im.plane[i].stride_bytes, 0, im.plane[i].stride_bytes);
}

/* The same value everywhere. */
static void fill(unsigned plane, uint16_t v)
{
    for (uint32_t y = 0; y < im.h; y++)
        for (uint32_t x = 0; x < im.w; x++)
            set(plane, x, y, v);
}

/* --- colour ----------------------------------------------------------------------------------- */

/* Pillow 9.4: Image.convert("RGB") of CMYK ink values. */
static void test_cmyk(void)
{
    static const uint8_t ink[][4] = {{0, 0, 0, 0},       {255, 0, 0, 0},       {0, 255, 0, 0},
                                     {0, 0, 255, 0},     {0, 0, 0, 255},       {10, 20, 30, 40},
                                     {200, 100, 50, 25}, {255, 255, 255, 255}, {1, 254, 128, 127},
                                     {77, 33, 11, 99}};
    static const uint8_t rgb[][3] = {
        {255, 255, 255}, {0, 255, 255},  {255, 0, 255}, {255, 255, 0}, {0, 0, 0},
        {207, 198, 190}, {50, 140, 185}, {0, 0, 0},     {127, 1, 64},  {109, 136, 149}};
    enum { N = sizeof ink / sizeof ink[0] };
    for (int alpha = 0; alpha < 2; alpha++) {
        make(IMAGE_CMYK, alpha, 8, N, 2);
        for (uint32_t x = 0; x < N; x++)
            for (unsigned i = 0; i < 4; i++)
                set(i, x, 1, 255 - ink[x][i]); /* stored: 255 = no ink */
        if (alpha)
            fill(4, 123);
        pixels_cmyk_to_rgb(&im);
        CHECK_INT(im.colour, IMAGE_RGB);
        CHECK_INT(im.n_planes, 3 + alpha);
        for (uint32_t x = 0; x < N; x++) {
            for (unsigned i = 0; i < 3; i++)
                CHECK_INT(get(i, x, 1), rgb[x][i]);
            if (alpha)
                CHECK_INT(get(3, x, 1), 123);
        }
    }
}

static const uint8_t some_rgb[][3] = {{0, 0, 0},    {255, 255, 255}, {255, 0, 0},   {0, 255, 0},
                                      {0, 0, 255},  {1, 2, 3},       {77, 150, 29}, {128, 128, 127},
                                      {250, 3, 99}, {12, 200, 255}};
enum { N_RGB = sizeof some_rgb / sizeof some_rgb[0] };

/* Pillow: Image.convert("L") of these. */
static const uint8_t gray[] = {0, 255, 76, 150, 29, 2, 114, 128, 88, 150};

static void test_gray(void)
{
    for (int bits = 8; bits <= 16; bits += 8)
        for (int alpha = 0; alpha < 2; alpha++) {
            make(IMAGE_RGB, alpha, (uint8_t)bits, N_RGB, 1);
            for (uint32_t x = 0; x < N_RGB; x++)
                for (unsigned i = 0; i < 3; i++)
                    set(i, x, 0, (uint16_t)(some_rgb[x][i] * (bits == 16 ? 257 : 1)));
            if (alpha)
                fill(3, 99);
            pixels_to_gray(&im);
            CHECK(im.colour == IMAGE_GRAY && im.n_planes == 1 + alpha && im.alpha == alpha);
            for (uint32_t x = 0; x < N_RGB; x++) {
                double exact = (19595.0 * some_rgb[x][0] + 38470.0 * some_rgb[x][1] +
                                7471.0 * some_rgb[x][2]) /
                               65536;
                if (bits == 8)
                    CHECK_INT(get(0, x, 0), gray[x]);
                else
                    CHECK(fabs(get(0, x, 0) - exact * 257) <= 0.5);
                if (alpha)
                    CHECK_INT(get(1, x, 0), 99);
            }
        }
    make(IMAGE_RGB, false, 16, 1, 1); /* the largest sum does not wrap */
    for (unsigned i = 0; i < 3; i++)
        fill(i, 65535);
    pixels_to_gray(&im);
    CHECK_INT(get(0, 0, 0), 65535);
}

static void test_background(void)
{
    for (unsigned k = 0; k < N_RGB; k++) {
        const uint8_t *b = some_rgb[k];
        make(IMAGE_YCC, false, 8, 2, 2);
        CHECK_INT(pixels_background(&im, 0, b), gray[k]);
        double cb = 128 - 0.168735892 * b[0] - 0.331264108 * b[1] + 0.5 * b[2]; /* JFIF */
        double cr = 128 + 0.5 * b[0] - 0.418687589 * b[1] - 0.081312411 * b[2];
        CHECK(fabs(pixels_background(&im, 1, b) - cb) <= 0.5001);
        CHECK(fabs(pixels_background(&im, 2, b) - cr) <= 0.5001);
        make(IMAGE_RGB, true, 8, 2, 2);
        for (unsigned i = 0; i < 3; i++)
            CHECK_INT(pixels_background(&im, i, b), b[i]);
        CHECK_INT(pixels_background(&im, 3, b), 255); /* padding is opaque */
        make(IMAGE_RGB, true, 16, 2, 2);
        for (unsigned i = 0; i < 3; i++)
            CHECK_INT(pixels_background(&im, i, b), b[i] * 257);
        CHECK_INT(pixels_background(&im, 3, b), 65535);
        make(IMAGE_GRAY, false, 8, 2, 2);
        CHECK_INT(pixels_background(&im, 0, b), gray[k]);
        make(IMAGE_GRAY, true, 16, 2, 2);
        CHECK_INT(pixels_background(&im, 0, b), gray[k] * 257);
        CHECK_INT(pixels_background(&im, 1, b), 65535);
        make(IMAGE_INDEX, false, 8, 2, 2);
        CHECK_INT(pixels_background(&im, 0, b), 0); /* a mask is padded with 0 */
    }
    const uint8_t neutral[] = {200, 200, 200};
    make(IMAGE_YCC, false, 8, 2, 2);
    CHECK(pixels_background(&im, 0, neutral) == 200 && pixels_background(&im, 1, neutral) == 128 &&
          pixels_background(&im, 2, neutral) == 128);
}

static void test_to_rgb(void)
{
    for (int bits = 8; bits <= 16; bits += 8)
        for (int alpha = 0; alpha < 2; alpha++) {
            make(IMAGE_GRAY, alpha, (uint8_t)bits, 5, 3);
            for (uint32_t x = 0; x < 5; x++)
                for (uint32_t y = 0; y < 3; y++) {
                    set(0, x, y, (uint16_t)(x * 40 + y));
                    if (alpha)
                        set(1, x, y, (uint16_t)(200 - x));
                }
            CHECK_INT(pixels_to_rgb(&im, &scratch, &err), SLIMSET_OK);
            CHECK(im.colour == IMAGE_RGB && im.n_planes == 3 + alpha && im.bits == bits &&
                  im.w == 5 && im.h == 3);
            for (uint32_t x = 0; x < 5; x++)
                for (uint32_t y = 0; y < 3; y++) {
                    for (unsigned i = 0; i < 3; i++)
                        CHECK_INT(get(i, x, y), x * 40 + y);
                    if (alpha)
                        CHECK_INT(get(3, x, y), 200 - x);
                }
        }
}

static void test_expand(void)
{
    for (int transparent = 0; transparent < 2; transparent++) {
        make(IMAGE_INDEX, false, 8, 4, 2);
        im.palette_n = 3;
        memset(im.palette, 0, sizeof im.palette);
        for (unsigned i = 0; i < 3; i++)
            memcpy(im.palette[i],
                   (uint8_t[]){(uint8_t)(10 + i), (uint8_t)(20 + i), (uint8_t)(30 + i),
                               (uint8_t)(transparent && i == 2 ? 7 : 255)},
                   4);
        for (uint32_t x = 0; x < 3; x++)
            set(0, x, 1, (uint16_t)x);
        CHECK_INT(pixels_expand(&im, &scratch, &err), SLIMSET_OK);
        CHECK(im.colour == IMAGE_RGB && im.alpha == transparent && im.n_planes == 3 + transparent &&
              im.bits == 8);
        for (uint32_t x = 0; x < 3; x++) {
            CHECK(get(0, x, 1) == 10 + x && get(1, x, 1) == 20 + x && get(2, x, 1) == 30 + x);
            if (transparent)
                CHECK_INT(get(3, x, 1), x == 2 ? 7 : 255);
        }
    }
}

/* --- alpha ------------------------------------------------------------------------------------ */

static void test_opaque(void)
{
    for (int bits = 8; bits <= 16; bits += 8) {
        uint16_t full = bits == 16 ? 65535 : 255;
        make(IMAGE_RGB, true, (uint8_t)bits, 7, 5);
        fill(3, full);
        CHECK(pixels_alpha_opaque(&im));
        for (uint32_t x = 0; x < 7; x++)
            for (uint32_t y = 0; y < 5; y++) { /* one sample, one bit less */
                set(3, x, y, (uint16_t)(full - 1));
                CHECK(!pixels_alpha_opaque(&im));
                set(3, x, y, (uint16_t)(full & ~(full >> 1)));
                CHECK(!pixels_alpha_opaque(&im));
                set(3, x, y, full);
            }
        pixels_drop_alpha(&im);
        CHECK(!im.alpha && im.n_planes == 3);
    }
}

static void test_flatten_values(void)
{
    make(IMAGE_RGB, true, 8, 256, 256);
    static const uint8_t background[] = {255, 0, 77};
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++) {
            for (unsigned i = 0; i < 3; i++)
                set(i, c, a, (uint16_t)c);
            set(3, c, a, (uint16_t)a);
        }
    CHECK_INT(pixels_flatten(&im, background, &scratch, &err), SLIMSET_OK);
    CHECK(!im.alpha && im.n_planes == 3);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++)
            for (unsigned i = 0; i < 3; i++)
                CHECK_INT(get(i, c, a),
                          (long)floor((c * a + background[i] * (255.0 - a)) / 255 + 0.5));
    make(IMAGE_RGB, true, 16, 256, 256);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++) {
            for (unsigned i = 0; i < 3; i++)
                set(i, c, a, (uint16_t)(c * 257));
            set(3, c, a, (uint16_t)(a * 257 - (a > 0)));
        }
    CHECK_INT(pixels_flatten(&im, background, &scratch, &err), SLIMSET_OK);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++)
            for (unsigned i = 0; i < 3; i++) {
                double alpha = a * 257.0 - (a > 0);
                CHECK_INT(get(i, c, a), (long)floor((c * 257.0 * alpha +
                                                     background[i] * 257.0 * (65535 - alpha)) /
                                                        65535 +
                                                    0.5));
            }
}

static void test_flatten_gray(void)
{
    static const uint8_t white[] = {255, 255, 255}, red[] = {255, 0, 0};
    make(IMAGE_GRAY, true, 8, 3, 1);
    for (uint32_t x = 0; x < 3; x++) {
        set(0, x, 0, 100);
        set(1, x, 0, (uint16_t)(x * 127 + (x == 2)));
    }
    CHECK_INT(pixels_flatten(&im, white, &scratch, &err), SLIMSET_OK);
    CHECK(im.colour == IMAGE_GRAY && im.n_planes == 1); /* a gray background keeps it gray */
    CHECK(get(0, 0, 0) == 255 && get(0, 1, 0) == 178 && get(0, 2, 0) == 100);
    make(IMAGE_GRAY, true, 8, 2, 1);
    fill(0, 100);
    set(1, 1, 0, 255);
    CHECK_INT(pixels_flatten(&im, red, &scratch, &err), SLIMSET_OK);
    CHECK(im.colour == IMAGE_RGB && im.n_planes == 3 && !im.alpha);
    CHECK(get(0, 0, 0) == 255 && get(1, 0, 0) == 0 && get(2, 0, 0) == 0);
    CHECK(get(0, 1, 0) == 100 && get(1, 1, 0) == 100 && get(2, 1, 0) == 100);
}

/* Every pair of 8-bit colour and alpha comes back, where there is something to see. */
static void test_premultiply_8(void)
{
    make(IMAGE_RGB, true, 8, 256, 256);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++) {
            set(0, c, a, (uint16_t)c);
            set(1, c, a, (uint16_t)(255 - c));
            set(3, c, a, (uint16_t)a);
        }
    CHECK_INT(pixels_premultiply(&im, &scratch, &err), SLIMSET_OK);
    CHECK(im.bits == 16 && im.n_planes == 4 && im.alpha && im.colour == IMAGE_RGB);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++) {
            CHECK_INT(get(3, c, a), a * 257);
            CHECK(fabs(get(0, c, a) - c * 257.0 * a / 255) <= 0.5 + 1e-9);
        }
    pixels_unpremultiply(&im, 8);
    CHECK_INT(im.bits, 8);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t c = 0; c < 256; c++) {
            CHECK_INT(get(3, c, a), a);
            CHECK_INT(get(0, c, a), a > 0 ? c : 0); /* no colour of what cannot be seen */
            CHECK_INT(get(1, c, a), a > 0 ? 255 - c : 0);
        }
}

static void test_premultiply_16(void)
{
    make(IMAGE_GRAY, true, 16, 200, 100);
    for (uint32_t x = 0; x < 200; x++)
        for (uint32_t y = 0; y < 100; y++) {
            set(0, x, y, (uint16_t)(x * 329));
            set(1, x, y, (uint16_t)(65535 - y * 300));
        }
    CHECK_INT(pixels_premultiply(&im, &scratch, &err), SLIMSET_OK);
    for (uint32_t x = 0; x < 200; x++)
        for (uint32_t y = 0; y < 100; y++)
            CHECK(fabs(get(0, x, y) - x * 329.0 * (65535.0 - y * 300) / 65535) <= 0.5 + 1e-9);
    pixels_unpremultiply(&im, 16);
    for (uint32_t x = 0; x < 200; x++)
        for (uint32_t y = 0; y < 100; y++) {
            CHECK(abs(get(0, x, y) - (int)(x * 329)) <= 1);
            CHECK_INT(get(1, x, y), 65535 - y * 300);
        }
    make(IMAGE_GRAY, true, 16, 1, 1); /* a filter can leave more colour than alpha: clamped */
    set(0, 0, 0, 500);
    set(1, 0, 0, 100);
    pixels_unpremultiply(&im, 16);
    CHECK_INT(get(0, 0, 0), 65535);
}

/* --- depth ------------------------------------------------------------------------------------ */

static void test_to_8bit_shift(void)
{
    make(IMAGE_RGB, true, 16, 256, 1);
    for (unsigned i = 0; i < 4; i++)
        for (uint32_t x = 0; x < 256; x++)
            set(i, x, 0, (uint16_t)(x * 256 + 255 - i));
    pixels_to_8bit(&im, true, 0, 65535);
    CHECK(im.bits == 8 && im.n_planes == 4);
    for (unsigned i = 0; i < 4; i++)
        for (uint32_t x = 0; x < 256; x++)
            CHECK_INT(get(i, x, 0), x);
}

static void test_to_8bit_range(void)
{
    static const struct {
        double lo, hi;
    } ranges[] = {{0, 65535}, {0, 4095}, {1000, 3000}, {100.5, 101.5}, {0, 255}, {4095, 0}};
    for (size_t k = 0; k < sizeof ranges / sizeof ranges[0]; k++) {
        make(IMAGE_GRAY, false, 16, 65536 / 16, 16);
        for (uint32_t v = 0; v < 65536; v++)
            set(0, v / 16, v % 16, (uint16_t)v);
        pixels_to_8bit(&im, false, ranges[k].lo, ranges[k].hi);
        for (uint32_t v = 0; v < 65536; v++) {
            double exact = (v - ranges[k].lo) * 255 / (ranges[k].hi - ranges[k].lo);
            exact = exact < 0 ? 0 : exact > 255 ? 255 : exact;
            CHECK(fabs(get(0, v / 16, v % 16) - exact) <= 0.5 + 1e-6);
        }
    }
    make(IMAGE_GRAY, true, 16, 1, 1); /* alpha is no measured value: its own range */
    set(0, 0, 0, 100);
    set(1, 0, 0, 65535);
    pixels_to_8bit(&im, false, 50, 150);
    CHECK(abs(get(0, 0, 0) - 127) <= 1 && get(1, 0, 0) == 255);
}

/* --- statistics ------------------------------------------------------------------------------- */

static void test_stats(void)
{
    struct pixels_stats s;
    make(IMAGE_GRAY, false, 8, 10, 10);
    pixels_stats(&im, &s);
    CHECK(s.values == 1 && s.max_value == 0 && s.zero_permille == 1000 && s.equal_permille == 1000);
    for (uint32_t i = 0; i < 100; i++)
        set(0, i % 10, i / 10, (uint16_t)(i % 64));
    pixels_stats(&im, &s);
    CHECK(s.values == 64 && s.max_value == 63 && s.zero_permille == 20 && s.equal_permille == 0);
    set(0, 9, 9, 64);
    pixels_stats(&im, &s);
    CHECK(s.values == 65 && s.max_value == 64);
    for (uint32_t i = 0; i < 100; i++)
        set(0, i % 10, i / 10, (uint16_t)(100 + i));
    pixels_stats(&im, &s);
    CHECK(s.values == 65 && s.max_value == 199 && s.zero_permille == 0); /* counted up to 65 */
    make(IMAGE_GRAY, false, 16, 4, 1);
    for (uint32_t x = 0; x < 4; x++)
        set(0, x, 0, (uint16_t)(x < 2 ? 0 : 40000 + x % 2));
    pixels_stats(&im, &s);
    CHECK(s.values == 3 && s.max_value == 40001 && s.zero_permille == 500 &&
          s.equal_permille == 333);
    make(IMAGE_RGB, false, 8, 4, 1); /* equal in the first plane only is not equal */
    for (uint32_t x = 0; x < 4; x++)
        set(2, x, 0, (uint16_t)(x / 2 * 9));
    pixels_stats(&im, &s);
    CHECK(s.values == 0 && s.max_value == 9 && s.zero_permille == 1000 && s.equal_permille == 666);
    make(IMAGE_RGB, true, 8, 3, 1); /* alpha is no colour */
    for (uint32_t x = 0; x < 3; x++)
        set(3, x, 0, (uint16_t)(100 + x));
    pixels_stats(&im, &s);
    CHECK(s.max_value == 0 && s.equal_permille == 1000);
    make(IMAGE_GRAY, false, 8, 1, 5); /* no neighbours */
    pixels_stats(&im, &s);
    CHECK(s.values == 1 && s.equal_permille == 0);
}

/* The values of im that are not in scratch. */
static uint32_t lost(void)
{
    static struct buf room;
    uint32_t n = 99;
    CHECK_INT(pixels_values_lost(&im, &scratch, &room, &n, &err), SLIMSET_OK);
    return n;
}

static void test_values_lost(void)
{
    make(IMAGE_GRAY, false, 8, 70, 3);
    memset(im.plane[0].data + 70, 200,
           im.plane[0].stride_bytes - 70); /* behind a row nothing counts */
    set(0, 69, 2, 255);
    set(0, 0, 1, 7);
    CHECK_INT(image_setup(&scratch, IMAGE_GRAY, false, 8, 2, 1, &err), SLIMSET_OK);
    memcpy(scratch.plane[0].data, (const uint8_t[]){0, 9}, 2); /* a value of its own is no loss */
    CHECK_INT(lost(), 2);
    memcpy(scratch.plane[0].data, (const uint8_t[]){255, 7}, 2);
    CHECK_INT(lost(), 1);
    make(IMAGE_GRAY, false, 16, 3, 1);
    for (unsigned x = 0; x < 3; x++)
        set(0, x, 0, (uint16_t)(x * 256)); /* the same low byte */
    CHECK_INT(image_setup(&scratch, IMAGE_GRAY, false, 16, 1, 1, &err), SLIMSET_OK);
    memcpy(scratch.plane[0].data, (const uint8_t[]){0, 1}, 2);
    CHECK_INT(lost(), 2);
    make(IMAGE_RGB, false, 8, 4, 1); /* colours, not channels: (0,0,0) (1,0,0) (0,1,0) (1,1,0) */
    for (unsigned x = 0; x < 4; x++) {
        set(0, x, 0, x & 1);
        set(1, x, 0, (uint16_t)(x >> 1));
    }
    CHECK_INT(image_setup(&scratch, IMAGE_RGB, false, 8, 2, 1, &err), SLIMSET_OK);
    memcpy(scratch.plane[0].data, (const uint8_t[]){0, 1}, 2);
    memcpy(scratch.plane[1].data, (const uint8_t[]){0, 1}, 2);
    memcpy(scratch.plane[2].data, (const uint8_t[]){0, 0}, 2);
    CHECK_INT(lost(), 2);
}

int main(void)
{
    RUN(test_cmyk);
    RUN(test_gray);
    RUN(test_background);
    RUN(test_to_rgb);
    RUN(test_expand);
    RUN(test_opaque);
    RUN(test_flatten_values);
    RUN(test_flatten_gray);
    RUN(test_premultiply_8);
    RUN(test_premultiply_16);
    RUN(test_to_8bit_shift);
    RUN(test_to_8bit_range);
    RUN(test_stats);
    RUN(test_values_lost);
    image_fini(&im);
    image_fini(&scratch);
    return check_done();
}
