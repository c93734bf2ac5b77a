/* SPDX-License-Identifier: Apache-2.0
 *
 * png_read, png_write, png_unfilter, png_expand, exif. Without arguments: the tests below, whose
 * right values come from the PNG and TIFF specifications written down plainly, or from files made
 * by Pillow. With the argument "serve": a slave of png_judge.py (see serve()), which compares with
 * Pillow and numpy.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "exif.h"
#include "png_chunks.h"
#include "png_expand.h"
#include "png_read.h"
#include "png_unfilter.h"
#include "png_write.h"

static const unsigned pixel_bytes[] = {1, 2, 3, 4, 6, 8};

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The predictors as the specification words them. */
static int spec_paeth(int a, int b, int c)
{
    int p = a + b - c;
    int pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    if (pa <= pb && pa <= pc)
        return a;
    if (pb <= pc)
        return b;
    return c;
}

static int spec_predict(unsigned filter, int a, int b, int c)
{
    switch (filter) {
    case 1:
        return a;
    case 2:
        return b;
    case 3:
        return (a + b) / 2;
    case 4:
        return spec_paeth(a, b, c);
    default:
        return 0;
    }
}

/* Filters samples, lets u undo it and compares; the bytes around the row must stay. */
static int round_trip(const struct png_unfilter *u, unsigned filter, const uint8_t *samples,
                      const uint8_t *prev, size_t n, unsigned bpp)
{
    uint8_t *row = malloc(n + 2 * PNG_UNFILTER_SLACK);
    memset(row, 0xa5, n + 2 * PNG_UNFILTER_SLACK);
    uint8_t *r = row + PNG_UNFILTER_SLACK;
    for (size_t i = 0; i < n; i++) {
        int a = i >= bpp ? samples[i - bpp] : 0, c = i >= bpp ? prev[i - bpp] : 0;
        r[i] = (uint8_t)(samples[i] - spec_predict(filter, a, prev[i], c));
    }
    u->row[filter](r, prev, n, bpp);
    int bad = memcmp(r, samples, n) != 0;
    for (size_t i = 0; i < PNG_UNFILTER_SLACK; i++)
        bad |= row[i] != 0xa5 || r[n + i] != 0xa5;
    free(row);
    return bad;
}

static void test_unfilter_random(void)
{
    uint32_t seed = 1;
    for (unsigned k = 0; k < sizeof pixel_bytes / sizeof *pixel_bytes; k++)
        for (int simd = 0; simd < 2; simd++) {
            unsigned bpp = pixel_bytes[k];
            struct png_unfilter u;
            png_unfilter_init(&u, bpp, simd);
            for (unsigned px = 1; px < 70; px++)
                for (unsigned filter = 0; filter < PNG_FILTERS; filter++) {
                    uint8_t samples[70 * 8], prev[70 * 8 + PNG_UNFILTER_SLACK] = {0};
                    for (unsigned i = 0; i < px * bpp; i++) {
                        samples[i] = (uint8_t)random_next(&seed);
                        prev[i] = (uint8_t)random_next(&seed);
                    }
                    if (round_trip(&u, filter, samples, prev, (size_t)px * bpp, bpp)) {
                        printf("  bpp %u simd %d px %u filter %u\n", bpp, simd, px, filter);
                        check_failures_here++;
                    }
                }
        }
}

/* Four paeth rows together, rows of every length, against the specification; what is between rows
 * stays. */
static void test_paeth_rows(void)
{
    enum { STRIDE = 70 * 4 + 3, SIZE = STRIDE * (PNG_PAETH_ROWS + 1) + PNG_UNFILTER_SLACK };
    uint32_t seed = 3;
    for (unsigned bpp = 1; bpp <= 4; bpp++) {
        struct png_unfilter u;
        png_unfilter_init(&u, bpp, true);
        if (u.paeth_rows == NULL)
            continue;
        for (unsigned n = bpp; n <= 70 * bpp; n += bpp)
            for (int smooth = 0; smooth < 2; smooth++) {
                static uint8_t samples[SIZE], work[SIZE];
                for (int i = 0; i < SIZE; i++)
                    samples[i] =
                        (uint8_t)(smooth ? i / 3 + (random_next(&seed) & 7) : random_next(&seed));
                memcpy(work, samples, SIZE);
                for (int y = PNG_PAETH_ROWS; y > 0; y--)
                    for (unsigned i = 0; i < n; i++) {
                        const uint8_t *at = samples + y * STRIDE + i, *above = at - STRIDE;
                        int a = i >= bpp ? at[-(int)bpp] : 0, c = i >= bpp ? above[-(int)bpp] : 0;
                        work[y * STRIDE + i] = (uint8_t)(*at - spec_paeth(a, *above, c));
                    }
                u.paeth_rows(work + STRIDE, STRIDE, work, n, bpp);
                if (memcmp(work, samples, SIZE) != 0) {
                    printf("  bpp %u n %u smooth %d\n", bpp, n, smooth);
                    check_failures_here++;
                }
            }
    }
}

/* All 2^24 triples (a, b, c): pixels alternate between c above and b above. */
static void test_paeth_all(void)
{
    enum { ROW = 512 };
    for (int form = 0; form < 3; form++) {
        unsigned bpp = form == 0 ? 1 : form + 2;
        int bad = 0;
        struct png_unfilter u;
        png_unfilter_init(&u, bpp, form != 0);
        uint8_t samples[ROW * 4], prev[ROW * 4 + PNG_UNFILTER_SLACK] = {0};
        for (unsigned b = 0; b < 256; b++)
            for (unsigned c = 0; c < 256; c++) {
                for (unsigned i = 0; i < ROW; i++)
                    for (unsigned ch = 0; ch < bpp; ch++) {
                        prev[i * bpp + ch] = (uint8_t)(i % 2 != 0 ? b : c);
                        samples[i * bpp + ch] = (uint8_t)(i % 2 != 0 ? b + 3 * i : i / 2 + 85 * ch);
                    }
                bad += round_trip(&u, 4, samples, prev, (size_t)ROW * bpp, bpp);
            }
        CHECK_INT(bad, 0);
    }
}

static void test_expand_simd(void)
{
    uint32_t seed = 2;
    static const uint8_t colours[] = {PNG_RGB, PNG_RGB_ALPHA};
    for (unsigned k = 0; k < 2; k++)
        for (uint32_t w = 1; w < 100; w++) {
            struct png_chunks c = {.w = w, .h = 1, .colour = colours[k], .depth = 8};
            struct png_expand fast, plain;
            png_expand_init(&fast, &c, false, true);
            png_expand_init(&plain, &c, false, false);
            uint8_t row[100 * 4 + PNG_EXPAND_SLACK] = {0}, a[4][200], b[4][200];
            for (size_t i = 0; i < sizeof row; i++)
                row[i] = (uint8_t)random_next(&seed);
            uint8_t *pa[4] = {a[0], a[1], a[2], a[3]}, *pb[4] = {b[0], b[1], b[2], b[3]};
            CHECK(png_expand_row(&fast, row, w, pa) && png_expand_row(&plain, row, w, pb));
            unsigned n = png_channels(c.colour);
            for (unsigned p = 0; p < n; p++) {
                CHECK(memcmp(a[p], b[p], w) == 0);
                for (uint32_t x = 0; x < w; x++)
                    CHECK_INT(b[p][x], row[x * n + p]);
            }
        }
}

/* One entry of tag 274 in either byte order, behind another tag. */
static size_t make_tiff(uint8_t *t, int big, unsigned type, uint32_t count, uint32_t value)
{
    memset(t, 0, 64);
    memcpy(t, big ? "MM" : "II", 2);
    void (*p16)(uint8_t *, uint16_t) = big ? put_be16 : put_le16;
    void (*p32)(uint8_t *, uint32_t) = big ? put_be32 : put_le32;
    p16(t + 2, 42);
    p32(t + 4, 8);
    p16(t + 8, 2);
    p16(t + 10, 271);
    p16(t + 12, 2);
    p32(t + 14, 30);
    p16(t + 22, 274);
    p16(t + 24, (uint16_t)type);
    p32(t + 26, count);
    if (type == 1)
        t[30] = (uint8_t)value;
    else if (type == 3)
        p16(t + 30, (uint16_t)value);
    else
        p32(t + 30, value);
    return 38;
}

static void test_exif(void)
{
    uint8_t t[64];
    for (int big = 0; big < 2; big++) {
        static const unsigned types[] = {1, 3, 4};
        for (int i = 0; i < 3; i++)
            for (uint32_t v = 0; v < 12; v++)
                CHECK_INT(exif_orientation(t, make_tiff(t, big, types[i], 1, v)),
                          v >= 1 && v <= 8 ? v : 1);
        CHECK_INT(exif_orientation(t, make_tiff(t, big, 4, 1, 0x10006)), 1);
        CHECK_INT(exif_orientation(t, make_tiff(t, big, 2, 1, 6)), 1);
        CHECK_INT(exif_orientation(t, make_tiff(t, big, 3, 2, 6)), 1);
        size_t n = make_tiff(t, big, 3, 1, 6);
        for (size_t cut = 0; cut <= n; cut++) {
            uint8_t *exact = malloc(cut + !cut); /* so that ASan sees every overrun */
            memcpy(exact, t, cut);
            CHECK_INT(exif_orientation(exact, cut), cut >= 34 ? 6 : 1);
            free(exact);
        }
        t[2] = t[3] = 0;
        CHECK_INT(exif_orientation(t, n), 1);
    }
    make_tiff(t, 0, 3, 1, 6);
    put_le32(t + 4, 0xffffffffu);
    CHECK_INT(exif_orientation(t, 38), 1);
    CHECK_INT(exif_orientation(NULL, 0), 1);
}

/* Made by Pillow 9.4. */
static const uint8_t pillow_3x2[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
    0x52, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x08, 0x02, 0x00, 0x00, 0x00, 0x12,
    0x16, 0xf1, 0x4d, 0x00, 0x00, 0x00, 0x1d, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60,
    0x64, 0x62, 0x66, 0x61, 0x65, 0xfb, 0xff, 0xef, 0x2f, 0x23, 0x27, 0x07, 0xfb, 0xf7, 0x0a,
    0xcb, 0x13, 0x4f, 0x3e, 0x01, 0x00, 0x33, 0xfb, 0x07, 0x6f, 0x71, 0xcf, 0x44, 0xc9, 0x00,
    0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static void test_read_pillow(void)
{
    static const uint8_t want[3][2][3] = {
        {{1, 4, 255}, {9, 0, 200}}, {{2, 5, 254}, {8, 128, 100}}, {{3, 6, 253}, {7, 64, 50}}};
    struct png_reader *r = png_reader_new(&image_limits_default);
    struct image_info info;
    struct image im = {0};
    struct slimset_error err;
    uint32_t notes = 0;
    CHECK_INT(png_read_header(r, pillow_3x2, sizeof pillow_3x2, &info, &err), SLIMSET_OK);
    CHECK(info.w == 3 && info.h == 2 && info.bits == 8 && info.channels == 3 && !info.alpha &&
          !info.palette);
    CHECK(info.orientation == 1 && info.frames == 1 && !info.has_metadata && info.notes == 0);
    CHECK_INT(png_decode(r, pillow_3x2, sizeof pillow_3x2, &info, false, &im, &notes, &err),
              SLIMSET_OK);
    CHECK(im.colour == IMAGE_RGB && im.n_planes == 3 && im.bits == 8 && notes == 0);
    for (int p = 0; p < 3; p++)
        for (uint32_t y = 0; y < 2; y++)
            CHECK(memcmp(im.plane[p].data + y * im.plane[p].stride_bytes, want[p][y], 3) == 0);
    struct buf out = {0};
    CHECK_INT(png_strip(pillow_3x2, sizeof pillow_3x2, &out, &err), SLIMSET_OK);
    CHECK(out.len == sizeof pillow_3x2 && memcmp(out.data, pillow_3x2, out.len) == 0);
    buf_fini(&out);
    image_fini(&im);
    png_reader_free(r);
}

static void test_limits(void)
{
    struct image_limits limits = image_limits_default;
    limits.max_pixels = 5;
    struct png_reader *r = png_reader_new(&limits);
    struct image_info info;
    struct slimset_error err;
    CHECK_INT(png_read_header(r, pillow_3x2, sizeof pillow_3x2, &info, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TOO_MANY_PIXELS);
    png_reader_free(r);
}

static void test_write_refuses(void)
{
    struct png_writer *w = png_writer_new();
    struct slimset_error err;
    struct buf out = {0};
    struct image im = {0};
    CHECK_INT(image_setup(&im, IMAGE_YCC, false, 8, 4, 4, &err), SLIMSET_OK);
    CHECK_INT(png_write(w, &im, 6, 0, 0, &out, &err), SLIMSET_INTERNAL);
    CHECK_INT(image_setup(&im, IMAGE_CMYK, false, 8, 4, 4, &err), SLIMSET_OK);
    CHECK_INT(png_write(w, &im, 6, 0, 0, &out, &err), SLIMSET_INTERNAL);
    static const uint32_t ws[3] = {4, 2, 2};
    CHECK_INT(image_setup_planes(&im, IMAGE_RGB, false, 8, 4, 4, 3, ws, ws, &err), SLIMSET_OK);
    CHECK_INT(png_write(w, &im, 6, 0, 0, &out, &err), SLIMSET_INTERNAL);
    CHECK_INT(image_setup(&im, IMAGE_INDEX, false, 8, 4, 1, &err), SLIMSET_OK);
    memcpy(im.plane[0].data, "\0\1\2\3", 4);
    im.palette_n = 3;
    CHECK_INT(png_write(w, &im, 6, 0, 0, &out, &err), SLIMSET_INTERNAL);
    CHECK_INT(image_setup(&im, IMAGE_GRAY, false, 8, 4, 1, &err), SLIMSET_OK);
    memcpy(im.plane[0].data, "\0\1\2\4", 4);
    CHECK_INT(png_write(w, &im, 6, 0, 2, &out, &err), SLIMSET_INTERNAL);
    CHECK_INT(png_write(w, &im, 6, 0, 4, &out, &err), SLIMSET_OK);
    CHECK_INT(png_write(w, &im, 0, 0, 4, &out, &err), SLIMSET_INTERNAL);
    image_fini(&im);
    buf_fini(&out);
    png_writer_free(w);
}

/* --- serving png_judge.py
 * -------------------------------------------------------------------------------- */

/* A reply: status, reject, notes, text, payload; each length as little-endian u32. */
static void reply(enum slimset_status st, const struct slimset_error *err, uint32_t notes,
                  const struct buf *payload)
{
    uint8_t head[20];
    uint32_t text = st == SLIMSET_OK ? 0 : (uint32_t)strlen(err->text);
    uint32_t bytes = st == SLIMSET_OK ? (uint32_t)payload->len : 0;
    put_le32(head, st);
    put_le32(head + 4, st == SLIMSET_BAD_INPUT ? err->reject : 0);
    put_le32(head + 8, notes);
    put_le32(head + 12, text);
    put_le32(head + 16, bytes);
    fwrite(head, 1, sizeof head, stdout);
    if (text != 0)
        fwrite(err->text, 1, text, stdout);
    if (bytes != 0)
        fwrite(payload->data, 1, bytes, stdout);
    fflush(stdout);
}

static void dump_image(const struct image *im, struct buf *to)
{
    struct slimset_error err;
    uint8_t head[28];
    const uint32_t fields[7] = {im->w,        im->h,     im->colour,   im->bits,
                                im->n_planes, im->alpha, im->palette_n};
    for (int i = 0; i < 7; i++)
        put_le32(head + 4 * i, fields[i]);
    buf_append(to, head, sizeof head, &err);
    buf_append(to, im->palette, 4 * (size_t)im->palette_n, &err);
    for (unsigned p = 0; p < im->n_planes; p++)
        for (uint32_t y = 0; y < im->h; y++)
            buf_append(to, im->plane[p].data + y * im->plane[p].stride_bytes,
                       (size_t)im->w * (im->bits / 8), &err);
}

static void dump_info(const struct image_info *i, struct buf *to)
{
    struct slimset_error err;
    char text[300];
    int n = snprintf(text, sizeof text,
                     "{\"w\":%u,\"h\":%u,\"orientation\":%u,\"channels\":%u,\"bits\":%u,\"alpha\":%"
                     "d,\"palette\":%d,"
                     "\"progressive\":%d,\"colour\":%u,\"frames\":%u,\"icc_bytes\":%zu,"
                     "\"metadata\":%d,\"notes\":%u}",
                     i->w, i->h, i->orientation, i->channels, i->bits, i->alpha, i->palette,
                     i->progressive, i->colour, i->frames, i->icc_bytes, i->has_metadata, i->notes);
    buf_append(to, text, (size_t)n, &err);
}

/* Request 'w': colour, bits, alpha, level, min_bits, raw_gray_bits, w, h, palette_n as u32,
 * palette, planes. */
static enum slimset_status serve_write(struct png_writer *w, const uint8_t *p, struct buf *out,
                                       struct slimset_error *err)
{
    uint32_t v[9];
    for (int i = 0; i < 9; i++)
        v[i] = get_le32(p + 4 * i);
    p += 36;
    struct image im = {0};
    enum slimset_status st =
        image_setup(&im, (enum image_colour)v[0], v[2] != 0, (uint8_t)v[1], v[6], v[7], err);
    if (st == SLIMSET_OK) {
        im.palette_n = v[8];
        memcpy(im.palette, p, 4 * (size_t)v[8]);
        p += 4 * (size_t)v[8];
        size_t row = (size_t)v[6] * (v[1] / 8);
        for (unsigned i = 0; i < im.n_planes; i++)
            for (uint32_t y = 0; y < im.h; y++, p += row)
                memcpy(im.plane[i].data + y * im.plane[i].stride_bytes, p, row);
        st = png_write(w, &im, (int)v[3], (int)v[4], (int)v[5], out, err);
    }
    image_fini(&im);
    return st;
}

/* Requests on stdin: one letter (d decode, k decode keeping indices, c check, h header, s strip, i
 * ICC, w write), a little-endian u32 length, that many bytes. Each input sits in an allocation of
 * its own size. */
static int serve(void)
{
    struct png_reader *r = png_reader_new(&image_limits_default);
    struct png_writer *w = png_writer_new();
    struct image im = {0};
    struct image_info info;
    uint8_t head[5];
    while (fread(head, 1, 5, stdin) == 5) {
        size_t n = get_le32(head + 1);
        uint8_t *data = malloc(n + !n);
        if (fread(data, 1, n, stdin) != n)
            return 2;
        struct buf out = {0};
        struct slimset_error err = {0};
        uint32_t notes = 0;
        enum slimset_status st = SLIMSET_OK;
        if (strchr("dkch", head[0]) != NULL)
            st = png_read_header(r, data, n, &info, &err);
        if (st != SLIMSET_OK)
            ;
        else if (head[0] == 'd' || head[0] == 'k') {
            st = png_decode(r, data, n, &info, head[0] == 'k', &im, &notes, &err);
            if (st == SLIMSET_OK)
                dump_image(&im, &out);
        } else if (head[0] == 'c')
            st = png_check(r, data, n, &info, &notes, &err);
        else if (head[0] == 'h')
            dump_info(&info, &out);
        else if (head[0] == 's')
            st = png_strip(data, n, &out, &err);
        else if (head[0] == 'i')
            st = png_icc(r, data, n, &out, &err);
        else
            st = serve_write(w, data, &out, &err);
        reply(st, &err, notes, &out);
        buf_fini(&out);
        free(data);
    }
    image_fini(&im);
    png_writer_free(w);
    png_reader_free(r);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve();
    RUN(test_unfilter_random);
    RUN(test_paeth_rows);
    RUN(test_paeth_all);
    RUN(test_expand_simd);
    RUN(test_exif);
    RUN(test_read_pillow);
    RUN(test_limits);
    RUN(test_write_refuses);
    return check_done();
}
