/* SPDX-License-Identifier: Apache-2.0
 *
 * resize.h: regions, orientation, padding and the siting of chroma, by pictures whose result is
 * known without a filter.
 */
#include "resize.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "pixels.h"

static struct slimset_error err;
static struct resampler *resampler;
static struct image in, tmp, out;
static const uint8_t white[] = {255, 255, 255};

static uint8_t *at(struct image *im, unsigned plane, uint32_t x, uint32_t y)
{
    const struct image_plane *p = &im->plane[plane];
    return p->data + (size_t)y * p->stride_bytes + (size_t)x * (im->bits / 8u);
}

static uint16_t get(struct image *im, unsigned plane, uint32_t x, uint32_t y)
{
    uint16_t v = *at(im, plane, x, y);
    if (im->bits == 16)
        memcpy(&v, at(im, plane, x, y), 2);
    return v;
}

static void set(struct image *im, unsigned plane, uint32_t x, uint32_t y, uint16_t v)
{
    if (im->bits == 16)
        memcpy(at(im, plane, x, y), &v, 2);
    else
        *at(im, plane, x, y) = (uint8_t)v;
}

static struct geometry geometry_for(const char *resize, bool upscale, uint32_t w, uint32_t h)
{
    struct slimset_recipe r;
    slimset_recipe_init(&r);
    r.upscale = upscale;
    if (resize[0] != '\0')
        CHECK_INT(slimset_recipe_resize(&r, resize, &err), SLIMSET_OK);
    return geometry_of(&r, w, h);
}

static void run(const struct geometry *g, int orientation, bool nearest, unsigned sub_x,
                unsigned sub_y, const uint8_t *background)
{
    struct resize_job job = {.geometry = g,
                             .orientation = orientation,
                             .filter = nearest ? RESIZE_NEAREST : RESIZE_LANCZOS,
                             .sub_x = sub_x,
                             .sub_y = sub_y,
                             .background = background};
    CHECK_INT(resize_image(resampler, &in, &job, &tmp, &out, &err), SLIMSET_OK);
    CHECK(out.w == g->w && out.h == g->h && out.colour == in.colour && out.bits == in.bits &&
          out.alpha == in.alpha);
}

/* --- orientation ------------------------------------------------------------------------------ */

/* Where the visual side of the 0th row and of the 0th column are: the EXIF standard's table. */
static const char *const row_side = "-ttbblrrl", *const column_side = "-lrrlttbb";

static void stored_pixel(int o, uint32_t up_w, uint32_t up_h, uint32_t ux, uint32_t uy, uint32_t *x,
                         uint32_t *y)
{
    char r = row_side[o], c = column_side[o];
    *y = r == 't' ? uy : r == 'b' ? up_h - 1 - uy : r == 'l' ? ux : up_w - 1 - ux;
    *x = c == 'l' ? ux : c == 'r' ? up_w - 1 - ux : c == 't' ? uy : up_h - 1 - uy;
}

/* Turned without a change of size: every pixel goes to its place, by both filters, at 8 and 16
 * bits. */
static void test_orientation_moves_pixels(void)
{
    enum { W = 37, H = 19 };
    for (int bits = 8; bits <= 16; bits += 8)
        for (int o = 1; o <= 8; o++)
            for (int nearest = 0; nearest < 2; nearest++) {
                bool swaps = o >= 5;
                CHECK_INT(image_setup(&in, IMAGE_RGB, true, (uint8_t)bits, swaps ? H : W,
                                      swaps ? W : H, &err),
                          SLIMSET_OK);
                for (unsigned i = 0; i < 4; i++)
                    for (uint32_t y = 0; y < in.h; y++)
                        for (uint32_t x = 0; x < in.w; x++)
                            set(&in, i, x, y, (uint16_t)(x * 7 + y * 13 + i * 31 + x * y));
                struct geometry g = geometry_for("", false, W, H);
                run(&g, o, nearest, 1, 1, white);
                unsigned wrong = 0;
                for (unsigned i = 0; i < 4; i++)
                    for (uint32_t y = 0; y < H; y++)
                        for (uint32_t x = 0; x < W; x++) {
                            uint32_t sx, sy;
                            stored_pixel(o, W, H, x, y, &sx, &sy);
                            wrong += get(&out, i, x, y) != get(&in, i, sx, sy);
                        }
                if (wrong != 0)
                    printf("  orientation %d, %d bits, nearest %d\n", o, bits, nearest);
                CHECK_INT(wrong, 0);
            }
}

/* Smaller, cropped, padded: the turned picture gives what the upright one gives. */
static void test_orientation_agrees_with_upright(void)
{
    enum { W = 61, H = 43 };
    static const char *const modes[] = {"30", "crop:20x24", "pad:32x32", "exact:17x40",
                                        "scale:0.37"};
    static struct image upright, want;
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
        for (int o = 1; o <= 8; o++) {
            bool swaps = o >= 5;
            struct geometry g = geometry_for(modes[m], false, W, H);
            CHECK_INT(image_setup(&upright, IMAGE_GRAY, false, 8, W, H, &err), SLIMSET_OK);
            CHECK_INT(image_setup(&in, IMAGE_GRAY, false, 8, swaps ? H : W, swaps ? W : H, &err),
                      SLIMSET_OK);
            for (uint32_t y = 0; y < H; y++)
                for (uint32_t x = 0; x < W; x++) {
                    uint32_t sx, sy;
                    uint8_t v = (uint8_t)(128 + 100 * sin(x * 0.21) * cos(y * 0.17 + x * 0.05));
                    stored_pixel(o, W, H, x, y, &sx, &sy);
                    *at(&upright, 0, x, y) = v;
                    *at(&in, 0, sx, sy) = v;
                }
            run(&g, o, false, 1, 1, white);
            struct image keep = out;
            out = want;
            want = keep; /* the turned result */
            keep = in;
            in = upright;
            run(&g, 1, false, 1, 1, white);
            in = keep;
            int worst = 0;
            for (uint32_t y = 0; y < g.h; y++)
                for (uint32_t x = 0; x < g.w; x++) {
                    int d = abs(get(&out, 0, x, y) - get(&want, 0, x, y));
                    worst = d > worst ? d : worst;
                }
            if (worst > 1) /* the order of the two passes rounds differently */
                printf("  %s, orientation %d: %d levels\n", modes[m], o, worst);
            CHECK(worst <= 1);
        }
    image_fini(&upright);
    image_fini(&want);
}

/* --- nearest ---------------------------------------------------------------------------------- */

/* src = floor((i + 0.5) * W / T), over the whole picture, in exact integers. */
static void test_nearest_whole(void)
{
    for (uint32_t w = 1; w < 60; w += 3)
        for (uint32_t t = 1; t < 70; t += 4) {
            CHECK_INT(image_setup(&in, IMAGE_GRAY, false, 16, w, 60 - w, &err), SLIMSET_OK);
            for (uint32_t y = 0; y < in.h; y++)
                for (uint32_t x = 0; x < w; x++)
                    set(&in, 0, x, y, (uint16_t)(y * 256 + x));
            struct geometry g = geometry_for("", false, w, 60 - w);
            g.w = g.dst_w = t;
            g.h = g.dst_h = 71 - t;
            run(&g, 1, true, 1, 1, white);
            for (uint32_t y = 0; y < g.h; y++)
                for (uint32_t x = 0; x < g.w; x++) {
                    uint32_t sx = (2 * x + 1) * w / (2 * t), sy = (2 * y + 1) * in.h / (2 * g.h);
                    CHECK_INT(get(&out, 0, x, y), sy * 256 + sx);
                }
        }
}

/* The same over a part of the picture, for a turned one too. */
static void test_nearest_crop(void)
{
    enum { W = 50, H = 31 };
    for (int o = 1; o <= 8; o++) {
        bool swaps = o >= 5;
        struct geometry g =
            geometry_for("crop:16x16", false, W, H); /* 31 x 31 in the middle: from x 9.5 */
        CHECK_INT(image_setup(&in, IMAGE_GRAY, false, 16, swaps ? H : W, swaps ? W : H, &err),
                  SLIMSET_OK);
        for (uint32_t y = 0; y < H; y++)
            for (uint32_t x = 0; x < W; x++) {
                uint32_t sx, sy;
                stored_pixel(o, W, H, x, y, &sx, &sy);
                set(&in, 0, sx, sy, (uint16_t)(y * 256 + x));
            }
        run(&g, o, true, 1, 1, white);
        for (uint32_t y = 0; y < 16; y++)
            for (uint32_t x = 0; x < 16; x++) {
                double fx = 9.5 + (x + 0.5) * 31 / 16, fy = (y + 0.5) * 31 / 16;
                unsigned gx = get(&out, 0, x, y) % 256, gy = get(&out, 0, x, y) / 256;
                bool near_edge_x = fabs(fx - round(fx)) < 1e-9,
                     near_edge_y = fabs(fy - round(fy)) < 1e-9;
                CHECK(near_edge_x ||
                      gx == (unsigned)floor(fx)); /* on an edge both neighbours are nearest */
                CHECK(near_edge_y || gy == (unsigned)floor(fy));
            }
    }
}

/* A mask never gets a value that it did not have, whatever is done. */
static void test_nearest_invents_nothing(void)
{
    static const char *const modes[] = {"30",          "short:20",   "crop:20x24",
                                        "exact:17x40", "scale:0.37", "scale:3"};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
        for (int o = 1; o <= 8; o++) {
            struct geometry g = geometry_for(modes[m], true, o >= 5 ? 44 : 63, o >= 5 ? 63 : 44);
            CHECK_INT(image_setup(&in, IMAGE_GRAY, false, 8, 63, 44, &err), SLIMSET_OK);
            for (uint32_t y = 0; y < 44; y++)
                for (uint32_t x = 0; x < 63; x++)
                    set(&in, 0, x, y, (uint16_t)((x / 5 + y / 3) % 3 * 100 + 7));
            run(&g, o, true, 1, 1, white);
            for (uint32_t y = 0; y < out.h; y++)
                for (uint32_t x = 0; x < out.w; x++) {
                    uint16_t v = get(&out, 0, x, y);
                    CHECK(v == 7 || v == 107 || v == 207);
                }
        }
}

/* --- padding ---------------------------------------------------------------------------------- */

static void test_padding(void)
{
    static const uint8_t background[] = {10, 200, 90};
    for (int alpha = 0; alpha < 2; alpha++)
        for (int bits = 8; bits <= 16; bits += 8) {
            unsigned one = bits == 16 ? 257 : 1;
            struct geometry g = geometry_for("pad:64x48", false, 33, 21); /* 1:1, from 14, 12 */
            CHECK(g.dst_x == 14 && g.dst_y == 12 && g.dst_w == 33 && g.dst_h == 21);
            CHECK_INT(image_setup(&in, IMAGE_RGB, alpha, (uint8_t)bits, 33, 21, &err), SLIMSET_OK);
            for (unsigned i = 0; i < in.n_planes; i++)
                for (uint32_t y = 0; y < 21; y++)
                    for (uint32_t x = 0; x < 33; x++)
                        set(&in, i, x, y, (uint16_t)((x * 5 + y * 3 + i) * one));
            run(&g, 1, false, 1, 1, background);
            unsigned wrong = 0;
            for (unsigned i = 0; i < in.n_planes; i++)
                for (uint32_t y = 0; y < 48; y++)
                    for (uint32_t x = 0; x < 64; x++) {
                        bool inside = x >= 14 && x < 47 && y >= 12 && y < 33;
                        unsigned want = inside ? ((x - 14) * 5 + (y - 12) * 3 + i) * one
                                               : (i == 3 ? 255 : background[i]) * one;
                        wrong += get(&out, i, x, y) != want;
                    }
            CHECK_INT(wrong, 0);
        }
}

/* Subsampled chroma is padded too, and an odd picture leaves no seam of the last picture's
 * bytes. */
static void test_padding_ycc(void)
{
    static const uint8_t red[] = {255, 0, 0};
    struct geometry g = geometry_for("pad:51x40", false, 33, 21);
    uint32_t pw[3] = {33, 17, 17}, ph[3] = {21, 11, 11};
    CHECK_INT(image_setup_planes(&in, IMAGE_YCC, false, 8, 33, 21, 3, pw, ph, &err), SLIMSET_OK);
    for (unsigned i = 0; i < 3; i++) {
        if (i > 0)
            in.plane[i].per_px_x = in.plane[i].per_px_y = 0.5;
        for (uint32_t y = 0; y < ph[i]; y++)
            memset(in.plane[i].data + y * in.plane[i].stride_bytes, 50 + (int)i, pw[i]);
    }
    for (int round = 0; round < 2; round++) {
        run(&g, 1, false, 2, 2, red);
        CHECK(out.plane[0].w == 51 && out.plane[0].h == 40 && out.plane[1].w == 26 &&
              out.plane[1].h == 20);
        for (unsigned i = 0; i < 3; i++) {
            static const unsigned padding[] = {76, 85, 255}; /* red in JFIF's YCbCr */
            unsigned s = i == 0 ? 1 : 2, wrong = 0;
            for (uint32_t y = 0; y < out.plane[i].h; y++)
                for (uint32_t x = 0; x < out.plane[i].w; x++) {
                    bool inside = x * s >= g.dst_x && x * s < g.dst_x + g.dst_w &&
                                  y * s >= g.dst_y && y * s < g.dst_y + g.dst_h;
                    unsigned v = *at(&out, i, x, y);
                    wrong += v != (inside ? 50 + i : padding[i]);
                    *at(&out, i, x, y) = 222; /* dirt for the second round */
                }
            CHECK_INT(wrong, 0);
        }
    }
}

/* --- chroma ----------------------------------------------------------------------------------- */

/* The value of a ramp at the centre of the stored pixel (x, y), in 16 bits so that a hundredth
 * of a pixel shows. */
static double ramp(double x, double y) { return 3000 + 300 * x + 200 * y; }

/* Planes of the ramp, averaged into blocks of sx x sy as an encoder does. */
static void make_ycc(uint32_t w, uint32_t h, unsigned sx, unsigned sy, uint8_t bits)
{
    uint32_t cw = (w + sx - 1) / sx, ch = (h + sy - 1) / sy;
    uint32_t pw[3] = {w, cw, cw}, ph[3] = {h, ch, ch};
    CHECK_INT(image_setup_planes(&in, IMAGE_YCC, false, bits, w, h, 3, pw, ph, &err), SLIMSET_OK);
    for (unsigned i = 0; i < 3; i++) {
        unsigned fx = i == 0 ? 1 : sx, fy = i == 0 ? 1 : sy;
        in.plane[i].per_px_x = 1.0 / fx;
        in.plane[i].per_px_y = 1.0 / fy;
        for (uint32_t y = 0; y < ph[i]; y++)
            for (uint32_t x = 0; x < pw[i]; x++)
                set(&in, i, x, y,
                    (uint16_t)floor(ramp((x + 0.5) * fx - 0.5, (y + 0.5) * fy - 0.5) + 0.5));
    }
}

/* Every chroma sample is the ramp's value at the place it covers, to a tenth of a source pixel
 * (what the filter's ripple leaves) and to a twentieth on average: at every ratio, odd size,
 * orientation, and subsampling on both sides. */
static void test_chroma_stays_in_place(void)
{
    static const unsigned subs[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}};
    static const uint32_t sizes[][2] = {{128, 96}, {129, 97}, {127, 96}, {128, 95}};
    static const uint32_t targets[][2] = {{64, 48}, {65, 49}, {63, 47},
                                          {43, 32}, {95, 71}, {29, 21}};
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < 3; b++)
            for (size_t s = 0; s < 4; s++)
                for (size_t t = 0; t < 6; t++)
                    for (int o = 1; o <= 8; o++) {
                        uint32_t w = sizes[s][0], h = sizes[s][1];
                        bool swaps = o >= 5;
                        uint32_t up_w = swaps ? h : w, up_h = swaps ? w : h;
                        uint32_t tw = targets[t][swaps], th = targets[t][!swaps];
                        struct geometry g = geometry_for("", false, up_w, up_h);
                        g.w = g.dst_w = tw;
                        g.h = g.dst_h = th;
                        g.resized = true;
                        make_ycc(w, h, subs[a][0], subs[a][1], 16);
                        unsigned ox = subs[b][0], oy = subs[b][1];
                        run(&g, o, false, ox, oy, white);
                        double worst = 0, sum = 0;
                        unsigned n = 0;
                        CHECK(out.plane[1].w == (tw + ox - 1) / ox &&
                              out.plane[1].h == (th + oy - 1) / oy);
                        for (uint32_t y = 3; y + 3 < out.plane[1].h; y++)
                            for (uint32_t x = 3; x + 3 < out.plane[1].w; x++) {
                                /* centre of the block in the upright picture, then in the stored
                                 * one */
                                double ux = (x + 0.5) * ox * up_w / tw,
                                       uy = (y + 0.5) * oy * up_h / th;
                                struct geometry_rect p = geometry_stored(
                                    o, up_w, up_h, (struct geometry_rect){ux, uy, 0, 0});
                                double d = get(&out, 1, x, y) - ramp(p.x - 0.5, p.y - 0.5);
                                worst = fabs(d) > worst ? fabs(d) : worst;
                                sum += d;
                                n++;
                            }
                        bool good =
                            n > 20 && worst <= 30 && fabs(sum / n) <= 15; /* 300 are a pixel */
                        if (!good)
                            printf("  %u x %u %ux%u to %u x %u %ux%u, orientation %d: worst %.1f, "
                                   "mean %.1f\n",
                                   w, h, subs[a][0], subs[a][1], tw, th, ox, oy, o, worst, sum / n);
                        CHECK(good);
                    }
}

/* One colour everywhere stays that colour, up to the last row and column. */
static void test_constant(void)
{
    for (uint32_t w = 1; w < 40; w += 3)
        for (int o = 1; o <= 8; o++) {
            uint32_t h = 41 - w, up_w = o >= 5 ? h : w, up_h = o >= 5 ? w : h;
            struct geometry g = geometry_for("scale:0.6", false, up_w, up_h);
            make_ycc(w, h, 2, 2, 8);
            for (unsigned i = 0; i < 3; i++)
                for (uint32_t y = 0; y < in.plane[i].h; y++)
                    memset(in.plane[i].data + y * in.plane[i].stride_bytes, 90 + (int)i,
                           in.plane[i].w);
            run(&g, o, false, 2, 2, white);
            for (unsigned i = 0; i < 3; i++)
                for (uint32_t y = 0; y < out.plane[i].h; y++)
                    for (uint32_t x = 0; x < out.plane[i].w; x++)
                        CHECK_INT(*at(&out, i, x, y), 90 + i);
        }
}

/* A decode at 1/2 scale hands over smaller planes that cover the same picture. */
static void test_scaled_decode(void)
{
    enum { W = 130, H = 98 };
    uint32_t pw[3] = {W / 2, W / 2, W / 2}, ph[3] = {H / 2, H / 2, H / 2};
    struct geometry g = geometry_for("30", false, W, H);
    CHECK_INT(image_setup_planes(&in, IMAGE_YCC, false, 8, W, H, 3, pw, ph, &err), SLIMSET_OK);
    for (unsigned i = 0; i < 3; i++) {
        in.plane[i].per_px_x = in.plane[i].per_px_y = 0.5;
        for (uint32_t y = 0; y < ph[i]; y++)
            for (uint32_t x = 0; x < pw[i]; x++)
                *at(&in, i, x, y) = (uint8_t)(x * 2 + y);
    }
    run(&g, 1, false, 1, 1, white);
    for (unsigned i = 0; i < 3; i++)
        for (uint32_t y = 2; y + 2 < out.h; y++)
            for (uint32_t x = 2; x + 2 < out.w; x++) {
                double px = (x + 0.5) * W / g.w / 2 - 0.5, py = (y + 0.5) * H / g.h / 2 - 0.5;
                CHECK(fabs(*at(&out, i, x, y) - (px * 2 + py)) <= 1);
            }
}

static void test_input_is_only_read(void)
{
    struct geometry g = geometry_for("pad:20x20", false, 64, 48);
    make_ycc(64, 48, 2, 2, 8);
    size_t n = in.store.len;
    uint8_t *before = malloc(n);
    memcpy(before, in.store.data, n);
    run(&g, 1, false, 2, 2, white);
    g = geometry_for("pad:20x20", false, 48, 64);
    run(&g, 6, true, 2, 2, white);
    CHECK(memcmp(before, in.store.data, n) == 0);
    free(before);
}

int main(void)
{
    resampler = resampler_new();
    RUN(test_orientation_moves_pixels);
    RUN(test_orientation_agrees_with_upright);
    RUN(test_nearest_whole);
    RUN(test_nearest_crop);
    RUN(test_nearest_invents_nothing);
    RUN(test_padding);
    RUN(test_padding_ycc);
    RUN(test_chroma_stays_in_place);
    RUN(test_constant);
    RUN(test_scaled_decode);
    RUN(test_input_is_only_read);
    resampler_free(resampler);
    image_fini(&in);
    image_fini(&tmp);
    image_fini(&out);
    return check_done();
}
