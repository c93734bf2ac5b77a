/* SPDX-License-Identifier: Apache-2.0
 *
 * geometry.h: every mode by hand, the rounding rule by brute force, orientation rectangles for all
 * eight values against the definition in the EXIF standard, pixel by pixel.
 */
#include "geometry.h"

#include <math.h>

#include "check.h"

static struct slimset_recipe recipe_for(const char *resize, bool upscale)
{
    struct slimset_recipe r;
    struct slimset_error err;
    slimset_recipe_init(&r);
    r.upscale = upscale;
    if (resize[0] != '\0')
        CHECK_INT(slimset_recipe_resize(&r, resize, &err), SLIMSET_OK);
    return r;
}

static void test_sizes(void)
{
    static const struct {
        const char *resize;
        bool upscale;
        uint32_t w, h, out_w, out_h;
        bool resized;
    } cases[] = {
        {"", false, 640, 480, 640, 480, false},
        {"512", false, 1024, 768, 512, 384, true},
        {"512", false, 768, 1024, 384, 512, true},
        {"512", false, 512, 100, 512, 100, false},
        {"512", false, 100, 60, 100, 60, false},
        {"512", true, 100, 60, 512, 307, true}, /* 307.2 */
        {"512", false, 4000, 2, 512, 1, true},  /* 0.256 becomes 1 */
        {"1", false, 65500, 65500, 1, 1, true},
        {"500", false, 1000, 333, 500, 167, true},      /* 166.5 goes up */
        {"500", false, 1000, 331, 500, 166, true},      /* 165.5 */
        {"short:256", false, 500, 375, 341, 256, true}, /* 341.33 */
        {"short:256", false, 375, 500, 256, 341, true},
        {"short:256", false, 256, 9000, 256, 9000, false},
        {"short:256", false, 200, 9000, 200, 9000, false},
        {"short:256", true, 128, 200, 256, 400, true},
        {"exact:224x112", false, 640, 480, 224, 112, true},
        {"exact:224x112", false, 100, 480, 100, 112, true}, /* neither side is enlarged */
        {"exact:224x112", true, 100, 50, 224, 112, true},
        {"exact:224x112", false, 224, 112, 224, 112, false},
        {"crop:224x224", false, 640, 480, 224, 224, true},
        {"crop:224x224", false, 224, 224, 224, 224, false},
        {"crop:224x224", false, 300, 100, 224, 100, true}, /* cut, not enlarged */
        {"crop:224x224", false, 100, 100, 100, 100, false},
        {"crop:224x224", true, 100, 50, 224, 224, true},
        {"pad:224x224", false, 640, 480, 224, 224, true},
        {"pad:224x224", false, 224, 224, 224, 224, false},
        {"pad:224x224", false, 100, 50, 224, 224, true},
        {"area:250000", false, 1000, 1000, 500, 500, true},
        {"area:250000", false, 500, 500, 500, 500, false},
        {"area:250000", false, 100, 100, 100, 100, false},
        {"area:250000", true, 100, 100, 500, 500, true},
        {"area:1", false, 3000, 2, 39, 1, true}, /* 3000 / sqrt(6000) = 38.73 */
        {"scale:0.5", false, 101, 99, 51, 50, true},
        {"scale:0.5", false, 1, 1, 1, 1, false},
        {"scale:0.001", false, 640, 480, 1, 1, true},
        {"scale:1", false, 640, 480, 640, 480, false},
        {"scale:2", false, 640, 480, 640, 480, false},
        {"scale:2", true, 640, 480, 1280, 960, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct slimset_recipe r = recipe_for(cases[i].resize, cases[i].upscale);
        struct geometry g = geometry_of(&r, cases[i].w, cases[i].h);
        if (g.w != cases[i].out_w || g.h != cases[i].out_h || g.resized != cases[i].resized)
            printf("  %s of %u x %u: %u x %u resized %d\n", cases[i].resize, cases[i].w, cases[i].h,
                   g.w, g.h, g.resized);
        CHECK(g.w == cases[i].out_w && g.h == cases[i].out_h && g.resized == cases[i].resized);
    }
}

/* max(1, floor(x * num / den + 0.5)) found by counting, not by a formula. */
static uint32_t by_counting(uint64_t x, uint64_t num, uint64_t den)
{
    uint64_t n = x * num / den;
    while (2 * n * den + den <= 2 * x * num)
        n++;
    while (n > 0 && 2 * (n - 1) * den + den > 2 * x * num)
        n--;
    return n < 1 ? 1 : (uint32_t)n;
}

static void test_rounding(void)
{
    for (uint32_t a = 1; a <= 61; a += 3) {
        struct slimset_recipe longest = recipe_for("512", false),
                              shortest = recipe_for("short:5", false);
        longest.resize_a = shortest.resize_a = a;
        for (uint32_t w = 1; w <= 70; w++)
            for (uint32_t h = 1; h <= 70; h++) {
                uint32_t m = w > h ? w : h, s = w < h ? w : h;
                struct geometry g = geometry_of(&longest, w, h);
                CHECK_INT(g.w, a >= m ? w : by_counting(w, a, m));
                CHECK_INT(g.h, a >= m ? h : by_counting(h, a, m));
                g = geometry_of(&shortest, w, h);
                CHECK_INT(g.w, a >= s ? w : by_counting(w, a, s));
                CHECK_INT(g.h, a >= s ? h : by_counting(h, a, s));
            }
    }
    struct slimset_recipe r = recipe_for("65500", true); /* the largest numbers stay exact */
    struct geometry g = geometry_of(&r, 3, 65499);
    CHECK_INT(g.w, 3);
    CHECK_INT(g.h, 65500);
}

/* What holds for every size: something is there, all of it lies inside, nothing is enlarged. */
static void test_invariants(void)
{
    static const char *const modes[] = {"",           "40",        "short:30", "exact:31x17",
                                        "crop:31x17", "pad:31x17", "area:700", "scale:0.37",
                                        "crop:17x31", "pad:17x31"};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
        for (int up = 0; up < 2; up++) {
            struct slimset_recipe r = recipe_for(modes[m], up);
            for (uint32_t w = 1; w <= 90; w++)
                for (uint32_t h = 1; h <= 90; h++) {
                    struct geometry g = geometry_of(&r, w, h);
                    bool inside = g.src_x >= 0 && g.src_y >= 0 && g.src_x + g.src_w <= w + 1e-9 &&
                                  g.src_y + g.src_h <= h + 1e-9 && g.src_w > 0 && g.src_h > 0;
                    bool placed = g.dst_w >= 1 && g.dst_h >= 1 && g.dst_x + g.dst_w <= g.w &&
                                  g.dst_y + g.dst_h <= g.h;
                    bool grows = g.dst_w > g.src_w + 1e-9 || g.dst_h > g.src_h + 1e-9;
                    if (!inside || !placed || (grows && !up)) {
                        printf("  %s of %u x %u, upscale %d\n", modes[m], w, h, up);
                        CHECK(inside && placed && !(grows && !up));
                        return;
                    }
                    bool same = g.w == w && g.h == h && g.dst_w == w && g.dst_h == h &&
                                g.src_w == w && g.src_h == h;
                    CHECK_INT(g.resized, !same);
                }
        }
}

/* Upright sizes that are swapped give swapped results, so that orientation cannot change a size. */
static void test_symmetry(void)
{
    static const char *const modes[] = {"40",         "short:30",   "area:700",
                                        "scale:0.37", "crop:24x24", "pad:24x24"};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        struct slimset_recipe r = recipe_for(modes[m], false);
        for (uint32_t w = 1; w <= 90; w++)
            for (uint32_t h = 1; h <= 90; h++) {
                struct geometry a = geometry_of(&r, w, h), b = geometry_of(&r, h, w);
                CHECK(a.w == b.h && a.h == b.w && a.src_x == b.src_y && a.src_w == b.src_h);
            }
    }
}

static void test_crop(void)
{
    struct slimset_recipe r = recipe_for("crop:200x100", false);
    struct geometry g = geometry_of(&r, 1000, 1000); /* scale 1/5: 1000 x 500 in the middle */
    CHECK(g.src_x == 0 && g.src_w == 1000 && g.src_y == 250 && g.src_h == 500);
    g = geometry_of(&r, 1001, 300); /* scale 1/3 by height: 600 x 300 */
    CHECK(g.src_y == 0 && g.src_h == 300 && g.src_w == 600 && fabs(g.src_x - 200.5) < 1e-9);
    g = geometry_of(&r, 301,
                    151); /* box smaller on both sides: no 1:1 cut here, scale 200/301 > 100/151 */
    CHECK(g.w == 200 && g.h == 100 && g.src_w == 301 && fabs(g.src_h - 150.5) < 1e-9);
    g = geometry_of(&r, 200, 157); /* a pure cut begins on a whole pixel */
    CHECK(g.src_x == 0 && g.src_w == 200 && g.src_h == 100 && g.src_y == 28);
    for (uint32_t w = 1; w < 500; w += 7) /* one scale for both axes */
        for (uint32_t h = 1; h < 500; h += 5) {
            g = geometry_of(&r, w, h);
            CHECK(fabs(g.src_w / g.w - g.src_h / g.h) < 1e-9);
            CHECK(w < 200 || h < 100 || (g.w == 200 && g.h == 100));
        }
}

static void test_pad(void)
{
    struct slimset_recipe r = recipe_for("pad:224x224", false);
    struct geometry g = geometry_of(&r, 640, 480);
    CHECK(g.dst_w == 224 && g.dst_h == 168 && g.dst_x == 0 && g.dst_y == 28);
    g = geometry_of(&r, 100, 50); /* small ones lie in the middle, at an even place */
    CHECK(g.dst_w == 100 && g.dst_h == 50 && g.dst_x == 62 && g.dst_y == 86);
    g = geometry_of(&r, 224, 221);
    CHECK(g.dst_h == 221 && g.dst_y == 0);
    CHECK(g.src_x == 0 && g.src_y == 0 && g.src_w == 224 && g.src_h == 221);
    r.upscale = true;
    g = geometry_of(&r, 100, 50);
    CHECK(g.dst_w == 224 && g.dst_h == 112 && g.dst_x == 0 && g.dst_y == 56);
}

/* --- orientation ------------------------------------------------------------------------------ */

/* EXIF: where the visual side of the 0th row and of the 0th column are, for values 1 to 8. */
static const char *const row_side = "-ttbblrrl", *const column_side = "-lrrlttbb";

/* The stored pixel (x, y) of the upright pixel (ux, uy). */
static void stored_pixel(int o, uint32_t up_w, uint32_t up_h, uint32_t ux, uint32_t uy, uint32_t *x,
                         uint32_t *y)
{
    switch (row_side[o]) { /* rows count away from this side */
    case 't':
        *y = uy;
        break;
    case 'b':
        *y = up_h - 1 - uy;
        break;
    case 'l':
        *y = ux;
        break;
    default:
        *y = up_w - 1 - ux;
        break;
    }
    switch (column_side[o]) {
    case 'l':
        *x = ux;
        break;
    case 'r':
        *x = up_w - 1 - ux;
        break;
    case 't':
        *x = uy;
        break;
    default:
        *x = up_h - 1 - uy;
        break;
    }
}

static void test_orientation_rectangles(void)
{
    enum { W = 5, H = 4 };
    for (int o = 1; o <= 8; o++)
        for (uint32_t x0 = 0; x0 < W; x0++)
            for (uint32_t y0 = 0; y0 < H; y0++)
                for (uint32_t x1 = x0 + 1; x1 <= W; x1++)
                    for (uint32_t y1 = y0 + 1; y1 <= H; y1++) {
                        uint32_t left = 99, top = 99, right = 0, bottom = 0, x, y;
                        for (uint32_t uy = y0; uy < y1; uy++)
                            for (uint32_t ux = x0; ux < x1; ux++) {
                                stored_pixel(o, W, H, ux, uy, &x, &y);
                                left = x < left ? x : left;
                                top = y < top ? y : top;
                                right = x + 1 > right ? x + 1 : right;
                                bottom = y + 1 > bottom ? y + 1 : bottom;
                            }
                        struct geometry_rect s = geometry_stored(
                            o, W, H, (struct geometry_rect){x0, y0, x1 - x0, y1 - y0});
                        CHECK(s.x == left && s.y == top && s.x + s.w == right &&
                              s.y + s.h == bottom);
                    }
}

static void test_orientation_fractions(void)
{
    for (int o = 1; o <= 8; o++) { /* a quarter of the area stays a quarter, and inside */
        struct geometry_rect s =
            geometry_stored(o, 101, 57, (struct geometry_rect){0.25, 1.5, 50.5, 28.5});
        CHECK(fabs(s.w * s.h - 50.5 * 28.5) < 1e-9);
        double w = o >= 5 ? 57 : 101, h = o >= 5 ? 101 : 57;
        CHECK(s.x >= 0 && s.y >= 0 && s.x + s.w <= w && s.y + s.h <= h);
    }
}

static void test_orientation_flips(void)
{
    for (int o = 1; o <= 8; o++) {
        uint32_t ax, ay, bx, by;
        stored_pixel(o, 5, 4, 0, 0, &ax, &ay); /* both upright axes grow: do the stored ones? */
        stored_pixel(o, 5, 4, 1, 1, &bx, &by);
        CHECK_INT(geometry_flips_x(o), bx < ax);
        CHECK_INT(geometry_flips_y(o), by < ay);
    }
}

int main(void)
{
    RUN(test_sizes);
    RUN(test_rounding);
    RUN(test_invariants);
    RUN(test_symmetry);
    RUN(test_crop);
    RUN(test_pad);
    RUN(test_orientation_rectangles);
    RUN(test_orientation_fractions);
    RUN(test_orientation_flips);
    return check_done();
}
