/* SPDX-License-Identifier: Apache-2.0
 *
 * What needs no outside judge: marker walking against a plain reference, the writer's memory,
 * limits of buffers, values known by arithmetic. jpeg_judge.py compares pixels and bytes with
 * Pillow.
 */
#include <stdlib.h>

#include "check.h"
#include "jpeg_markers.h"
#include "jpeg_read.h"
#include "jpeg_write.h"

static struct jpeg_reader *reader;
static struct jpeg_writer *writer;
static struct slimset_error err;

/* A repeatable stream of numbers. */
static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* w x h with planes of the size 4:2:0 wants (gray: one plane); plane i begins at value[i], each
 * pixel adds slope and noise below spread. */
static void make(struct image *im, enum image_colour colour, uint32_t w, uint32_t h,
                 const uint8_t value[3], unsigned slope, unsigned spread)
{
    uint32_t pw[3] = {w, w, w}, ph[3] = {h, h, h}, state = 7;
    if (colour == IMAGE_YCC) {
        pw[1] = pw[2] = (w + 1) / 2;
        ph[1] = ph[2] = (h + 1) / 2;
    }
    CHECK_INT(
        image_setup_planes(im, colour, false, 8, w, h, image_colour_planes(colour), pw, ph, &err),
        SLIMSET_OK);
    for (unsigned i = 0; i < im->n_planes; i++)
        for (uint32_t y = 0; y < ph[i]; y++)
            for (uint32_t x = 0; x < pw[i]; x++)
                im->plane[i].data[y * im->plane[i].stride_bytes + x] =
                    (uint8_t)(value[i] + slope * (x + y) + (spread ? noise(&state) % spread : 0));
}

static struct jpeg_settings settings(int quality, bool optimise)
{
    return (struct jpeg_settings){
        .quality = quality, .subsampling = JPEG_420, .optimise = optimise};
}

static void encode(const struct image *im, int quality, bool optimise, struct buf *out)
{
    struct jpeg_settings s = settings(quality, optimise);
    CHECK_INT(jpeg_write(writer, im, &s, out, &err), SLIMSET_OK);
}

static void test_skip_scan(void)
{
    /* every kind of byte behind 0xFF, at every distance to the vector size and to the end */
    static const uint8_t after[] = {0, 0, 0, 0xFF, 0xD0, 0xD7, 0xD9, 0x01, 0xC4};
    uint32_t state = 1;
    for (int round = 0; round < 3000; round++) {
        size_t n = noise(&state) % 80;
        uint8_t *data = malloc(n + 1); /* its own block: a sanitizer sees a read beyond */
        for (size_t i = 0; i < n; i++)
            data[i] = noise(&state) % 8 == 0 ? 0xFF : (uint8_t)(noise(&state) % 128);
        for (size_t i = 1; i < n; i++)
            if (data[i - 1] == 0xFF)
                data[i] = after[noise(&state) % (noise(&state) % 3 ? 6 : sizeof after)];
        data = realloc(data, n != 0 ? n : 1);
        size_t from = n != 0 ? noise(&state) % n : 0, want = from;
        while (want < n && !(want + 1 < n && data[want] == 0xFF && data[want + 1] != 0 &&
                             data[want + 1] != 0xFF && (data[want + 1] & 0xF8) != 0xD0))
            want++;
        struct jpeg_cursor c = {.data = data, .n = n, .pos = from};
        jpeg_cursor_skip_scan(&c);
        CHECK_INT(c.pos, want);
        free(data);
    }
}

static void test_cursor(void)
{
    static const uint8_t data[] = {0xFF, 0xFF, 0xFF, 0xE0, 0,
                                   4,    'a',  'b',            /* fill bytes, then APP0 */
                                   0xFF, 0xD3,                 /* RST: no body */
                                   'x',  'y',  0xFF, 0,        /* garbage */
                                   0xFF, 0xFE, 0,    2,        /* an empty comment */
                                   0xFF, 0xDB, 0,    9,    1}; /* longer than the file */
    struct jpeg_cursor c = {.data = data, .n = sizeof data};
    struct jpeg_segment s;
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_SEGMENT);
    CHECK_INT(s.code, MARKER_APP0);
    CHECK(s.body_bytes == 2 && memcmp(s.body, "ab", 2) == 0);
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_SEGMENT);
    CHECK_INT(s.code, 0xD3);
    CHECK(s.body == NULL && !c.garbage);
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_SEGMENT);
    CHECK_INT(s.code, MARKER_COM);
    CHECK(s.body_bytes == 0 && c.garbage);
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_CUT);

    static const uint8_t zero_length[] = {0xFF, 0xDB, 0, 1, 0}, reserved[] = {0xFF, 0x02, 0, 2};
    c = (struct jpeg_cursor){.data = zero_length, .n = sizeof zero_length};
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_BAD);
    static const uint8_t no_length[] = {0xFF, 0xFE, 0, 0, 0xFF, 0xE5, 0, 1, 0xFF, 0xD9};
    c = (struct jpeg_cursor){.data = no_length, .n = sizeof no_length}; /* libjpeg skips these two */
    CHECK(jpeg_cursor_next(&c, &s) == JPEG_STEP_SEGMENT && s.code == MARKER_COM && s.body_bytes == 0 && c.pos == 4);
    CHECK(jpeg_cursor_next(&c, &s) == JPEG_STEP_SEGMENT && s.code == 0xE5 && s.body_bytes == 0 && c.pos == 8);
    CHECK(jpeg_cursor_next(&c, &s) == JPEG_STEP_SEGMENT && s.code == MARKER_EOI && !c.garbage);
    c = (struct jpeg_cursor){.data = reserved, .n = sizeof reserved};
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_BAD);
    c = (struct jpeg_cursor){.data = reserved, .n = 1}; /* a lone 0xFF */
    CHECK_INT(jpeg_cursor_next(&c, &s), JPEG_STEP_END);
}

/* A flat colour has only DC coefficients: at quality 100 (all divisors 1) it comes back exactly. */
static void test_flat_colour(void)
{
    static const uint8_t value[3] = {50, 200, 90};
    static const struct {
        uint32_t w, h, denom, want_w, want_h;
    } cases[] = {{1, 1, 1, 1, 1},    {37, 21, 1, 37, 21}, {37, 21, 2, 19, 11},
                 {37, 21, 4, 10, 6}, {37, 21, 8, 5, 3},   {500, 3, 8, 63, 1}};
    struct image im = {0}, back = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int gray = 0; gray < 2; gray++) {
            struct buf out = {0};
            struct image_info info;
            uint32_t notes = 0;
            make(&im, gray ? IMAGE_GRAY : IMAGE_YCC, cases[i].w, cases[i].h, value, 0, 0);
            encode(&im, 100, true, &out);
            CHECK_INT(jpeg_reader_header(reader, out.data, out.len, &info, &err), SLIMSET_OK);
            CHECK_INT(info.w, cases[i].w);
            CHECK_INT(info.h, cases[i].h);
            CHECK_INT(info.colour, gray ? IMAGE_GRAY : IMAGE_YCC);
            CHECK_INT(info.h_samp[0], gray ? 1 : 2);
            CHECK_INT(info.orientation, 1);
            CHECK(!info.has_metadata && !info.progressive && info.bits == 8 && info.frames == 1);
            CHECK_INT(
                jpeg_decode(reader, out.data, out.len, &info, cases[i].denom, &back, &notes, &err),
                SLIMSET_OK);
            CHECK_INT(notes, 0);
            CHECK_INT(back.n_planes, gray ? 1 : 3);
            CHECK_INT(back.plane[0].w, cases[i].want_w);
            CHECK_INT(back.plane[0].h, cases[i].want_h);
            CHECK(back.plane[0].per_px_x == 1.0 / cases[i].denom);
            for (unsigned p = 0; p < back.n_planes; p++)
                for (uint32_t y = 0; y < back.plane[p].h; y++)
                    for (uint32_t x = 0; x < back.plane[p].w; x++)
                        if (back.plane[p].data[y * back.plane[p].stride_bytes + x] != value[p])
                            CHECK_INT(back.plane[p].data[y * back.plane[p].stride_bytes + x],
                                      value[p]);
            buf_fini(&out);
        }
    /* BT.601: R = Y + 1.402 (Cr - 128), G = Y - .344136 (Cb - 128) - .714136 (Cr - 128), B = Y
     * + 1.772 (Cb - 128) */
    struct buf out = {0};
    struct image_info info;
    uint32_t notes = 0;
    static const uint8_t ycc[3] = {100, 108, 178}, rgb[3] = {170, 71, 65};
    make(&im, IMAGE_YCC, 40, 20, ycc, 0, 0);
    encode(&im, 100, true, &out);
    CHECK_INT(jpeg_reader_header(reader, out.data, out.len, &info, &err), SLIMSET_OK);
    info.colour = IMAGE_RGB;
    CHECK_INT(jpeg_decode(reader, out.data, out.len, &info, 1, &back, &notes, &err), SLIMSET_OK);
    CHECK_INT(back.colour, IMAGE_RGB);
    for (unsigned p = 0; p < 3; p++) {
        CHECK_INT(back.plane[p].w, 40);
        CHECK_INT(back.plane[p].data[0], rgb[p]);
        CHECK_INT(back.plane[p].data[19 * back.plane[p].stride_bytes + 39], rgb[p]);
    }
    info.colour = IMAGE_CMYK; /* nobody can make that of it */
    CHECK_INT(jpeg_decode(reader, out.data, out.len, &info, 1, &back, &notes, &err),
              SLIMSET_INTERNAL);
    CHECK_INT(jpeg_decode(reader, out.data, out.len, &info, 3, &back, &notes, &err),
              SLIMSET_INTERNAL);
    buf_fini(&out);
    image_fini(&im);
    image_fini(&back);
}

/* What was written before must not show in a file: not the tables, not the buffer. */
static void test_writer_has_no_memory(void)
{
    static const uint8_t value[3] = {10, 100, 150};
    struct image a = {0}, b = {0};
    struct buf first = {0}, again = {0}, other = {0};
    make(&a, IMAGE_YCC, 100, 70, value, 3, 40);
    make(&b, IMAGE_GRAY, 33, 9, value, 0, 2);
    encode(&a, 80, false, &first);
    for (int k = 0; k < 4; k++) {
        other.len = again.len = 0;
        encode(&b, 20 + k, true, &other);
        encode(&a, 80, false, &again);
        CHECK(again.len == first.len && memcmp(again.data, first.data, first.len) == 0);
    }
    size_t one = again.len; /* appends */
    encode(&a, 80, false, &again);
    CHECK(again.len == 2 * one && memcmp(again.data + one, first.data, one) == 0);
    struct jpeg_writer *fresh = jpeg_writer_new();
    struct jpeg_settings s = settings(80, false);
    other.len = 0;
    CHECK_INT(jpeg_write(fresh, &a, &s, &other, &err), SLIMSET_OK);
    CHECK(other.len == one && memcmp(other.data, first.data, one) == 0);
    jpeg_writer_free(fresh);
    buf_fini(&first);
    buf_fini(&again);
    buf_fini(&other);
    image_fini(&a);
    image_fini(&b);
}

/* A buffer that may hold the file and one byte is enough (libjpeg asks for room as soon as the last
 * byte is used); one that is too small says so and changes nothing. */
static void test_writer_limit(void)
{
    static const uint8_t value[3] = {10, 100, 150};
    struct image a = {0};
    struct buf out = {0};
    make(&a, IMAGE_YCC, 700, 500, value, 3, 200); /* over the first step of 64 KiB */
    for (int optimise = 0; optimise < 2; optimise++) {
        out.len = 0;
        encode(&a, 95, optimise, &out);
        size_t n = out.len;
        CHECK(n > 2 * 65536);
        for (size_t max = n - 1; max <= n + 1; max += 2) {
            struct buf tight = {.max = max + 3};
            struct jpeg_settings s = settings(95, optimise);
            CHECK_INT(buf_append(&tight, "abc", 3, &err), SLIMSET_OK);
            enum slimset_status st = jpeg_write(writer, &a, &s, &tight, &err);
            CHECK_INT(st, max < n ? SLIMSET_BAD_INPUT : SLIMSET_OK);
            if (max < n)
                CHECK_INT(err.reject, SLIMSET_REJECT_TOO_LARGE);
            CHECK_INT(tight.len, max < n ? 3 : n + 3);
            CHECK(memcmp(tight.data, "abc", 3) == 0);
            if (max >= n)
                CHECK(memcmp(tight.data + 3, out.data, n) == 0);
            buf_fini(&tight);
        }
    }
    buf_fini(&out);
    image_fini(&a);
}

/* A picture that is a part of a larger one: what lies beside it is neither read nor written. */
static void test_writer_part(void)
{
    static const uint8_t value[3] = {10, 100, 150}, other[3] = {255, 0, 255};
    struct image a = {0}, big = {0};
    struct buf one = {0}, two = {0};
    make(&a, IMAGE_YCC, 43, 29, value, 2, 30);
    make(&big, IMAGE_YCC, 100, 80, other, 0, 0);
    struct image part = a;
    for (unsigned i = 0; i < 3; i++) {
        part.plane[i].data = big.plane[i].data + 5 * big.plane[i].stride_bytes + 11;
        part.plane[i].stride_bytes = big.plane[i].stride_bytes;
        for (uint32_t y = 0; y < a.plane[i].h; y++)
            memcpy(part.plane[i].data + y * part.plane[i].stride_bytes,
                   a.plane[i].data + y * a.plane[i].stride_bytes, a.plane[i].w);
    }
    encode(&a, 90, true, &one);
    encode(&part, 90, true, &two);
    CHECK(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    CHECK_INT(big.plane[0].data[6 * big.plane[0].stride_bytes + 11 + 43], 255);
    buf_fini(&one);
    buf_fini(&two);
    image_fini(&a);
    image_fini(&big);
}

/* A bad file leaves nothing behind in the reader. */
static void test_reader_after_faults(void)
{
    static const uint8_t value[3] = {10, 100, 150};
    struct image a = {0}, want = {0}, got = {0};
    struct buf file = {0}, bad = {0};
    struct image_info info;
    uint32_t notes = 0, state = 3;
    make(&a, IMAGE_YCC, 90, 60, value, 2, 60);
    encode(&a, 90, true, &file);
    CHECK_INT(jpeg_reader_header(reader, file.data, file.len, &info, &err), SLIMSET_OK);
    CHECK_INT(jpeg_decode(reader, file.data, file.len, &info, 1, &want, &notes, &err), SLIMSET_OK);
    CHECK_INT(notes, 0);
    for (int k = 0; k < 200; k++) {
        struct image_info other;
        bad.len = 0;
        CHECK_INT(buf_append(&bad, file.data, file.len, &err), SLIMSET_OK);
        for (unsigned i = noise(&state) % 4 + 1; i > 0; i--)
            bad.data[noise(&state) % bad.len] ^= (uint8_t)(1u << noise(&state) % 8);
        size_t n = k % 3 == 0 ? noise(&state) % bad.len : bad.len;
        err.text[0] = 0;
        enum slimset_status st = jpeg_reader_header(reader, bad.data, n, &other, &err);
        if (st == SLIMSET_OK)
            st = jpeg_decode(reader, bad.data, n, &other, 1u << k % 4, &got, &notes, &err);
        CHECK(st == SLIMSET_OK ||
              (st == SLIMSET_BAD_INPUT && err.text[0] != 0 && err.reject != SLIMSET_REJECT_NONE));
        notes = 0;
        CHECK_INT(jpeg_decode(reader, file.data, file.len, &info, 1, &got, &notes, &err),
                  SLIMSET_OK);
        CHECK_INT(notes, 0);
        for (unsigned i = 0; i < 3; i++)
            for (uint32_t y = 0; y < want.plane[i].h; y++)
                CHECK(memcmp(got.plane[i].data + y * got.plane[i].stride_bytes,
                             want.plane[i].data + y * want.plane[i].stride_bytes,
                             want.plane[i].w) == 0);
    }
    buf_fini(&file);
    buf_fini(&bad);
    image_fini(&a);
    image_fini(&want);
    image_fini(&got);
}

/* The file without the segments of one marker. */
static void without(const struct buf *file, uint8_t code, struct buf *out)
{
    struct jpeg_cursor c = {.data = file->data, .n = file->len, .pos = 2};
    struct jpeg_segment s = {0};
    out->len = 0;
    CHECK_INT(buf_append(out, file->data, 2, &err), SLIMSET_OK);
    while (s.code != MARKER_SOS && jpeg_cursor_next(&c, &s) == JPEG_STEP_SEGMENT)
        if (s.code != code)
            CHECK_INT(buf_append(out, s.body - 4, s.body_bytes + 4, &err), SLIMSET_OK);
    CHECK_INT(buf_append(out, file->data + c.pos, file->len - c.pos, &err), SLIMSET_OK);
}

/* Tables of one file must not be used for the next: without its own it has the standard Huffman
 * tables (a frame of Motion JPEG), and without quantisation tables it is broken. */
static void test_reader_has_no_memory(void)
{
    static const uint8_t value[3] = {10, 100, 150};
    struct image a = {0}, want = {0}, got = {0};
    struct buf plain = {0}, optimised = {0}, bare = {0};
    struct image_info info;
    uint32_t notes = 0;
    make(&a, IMAGE_YCC, 64, 48, value, 2, 9);
    encode(&a, 60, false, &plain);
    encode(&a, 60, true, &optimised);
    CHECK_INT(jpeg_reader_header(reader, plain.data, plain.len, &info, &err), SLIMSET_OK);
    CHECK_INT(jpeg_decode(reader, plain.data, plain.len, &info, 1, &want, &notes, &err),
              SLIMSET_OK);
    for (int k = 0; k < 2; k++) {
        without(&plain, k == 0 ? MARKER_DHT : MARKER_DQT, &bare);
        CHECK(bare.len + 100 < plain.len);
        CHECK_INT(jpeg_decode(reader, optimised.data, optimised.len, &info, 1, &got, &notes, &err),
                  SLIMSET_OK);
        CHECK_INT(jpeg_decode(reader, bare.data, bare.len, &info, 1, &got, &notes, &err),
                  k == 0 ? SLIMSET_OK : SLIMSET_BAD_INPUT);
        for (uint32_t y = 0; y < 48 && k == 0; y++)
            CHECK(memcmp(got.plane[0].data + y * got.plane[0].stride_bytes,
                         want.plane[0].data + y * want.plane[0].stride_bytes, 64) == 0);
    }
    buf_fini(&plain);
    buf_fini(&optimised);
    buf_fini(&bare);
    image_fini(&a);
    image_fini(&want);
    image_fini(&got);
}

/* Cut anywhere: a header and a decode either say truncated, or only the end marker was lost. */
static void test_every_cut(void)
{
    static const uint8_t value[3] = {10, 100, 150};
    struct image a = {0}, got = {0};
    struct buf file = {0};
    make(&a, IMAGE_YCC, 35, 40, value, 2, 60);
    encode(&a, 90, true, &file);
    for (size_t n = 2; n < file.len; n++) {
        uint8_t *copy = malloc(n);
        memcpy(copy, file.data, n);
        struct image_info info;
        uint32_t notes = 0;
        enum slimset_status st = jpeg_reader_header(reader, copy, n, &info, &err);
        if (st == SLIMSET_OK)
            st = jpeg_decode(reader, copy, n, &info, 1, &got, &notes, &err);
        if (n < file.len - 2) {
            CHECK_INT(st, SLIMSET_BAD_INPUT);
            CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
        } else {
            CHECK_INT(st, SLIMSET_OK);
            CHECK_INT(notes, NOTE_WARNING);
        }
        free(copy);
    }
    buf_fini(&file);
    image_fini(&a);
    image_fini(&got);
}

/* Scans behind a comment whose length says 0: libjpeg reads them, so they count. */
static void test_hidden_scans_count(void)
{
    static const uint8_t value[3] = {10, 100, 150}, comment[] = {0xFF, 0xFE, 0, 0};
    struct image a = {0};
    struct buf file = {0}, bomb = {0};
    struct jpeg_facts f;
    make(&a, IMAGE_GRAY, 8, 8, value, 2, 60);
    encode(&a, 90, true, &file);
    size_t sos = 2;
    while (file.data[sos + 1] != MARKER_SOS)
        sos += 2u + get_be16(file.data + sos + 2);
    const size_t scan_bytes = file.len - 2 - sos;
    CHECK_INT(buf_append(&bomb, file.data, file.len - 2, &err), SLIMSET_OK);
    CHECK_INT(buf_append(&bomb, comment, sizeof comment, &err), SLIMSET_OK);
    for (int i = 0; i < 300; i++)
        CHECK_INT(buf_append(&bomb, file.data + sos, scan_bytes, &err), SLIMSET_OK);
    CHECK_INT(buf_append(&bomb, file.data + file.len - 2, 2, &err), SLIMSET_OK);
    CHECK_INT(jpeg_facts_read(bomb.data, bomb.len, &f, &err), SLIMSET_OK);
    CHECK_INT(f.scans, 301);
    buf_fini(&bomb);
    buf_fini(&file);
    image_fini(&a);
}

static void test_strip_and_icc_limits(void)
{
    static const uint8_t value[3] = {10, 100, 150};
    struct image a = {0};
    struct buf file = {0}, out = {.max = 40};
    make(&a, IMAGE_GRAY, 8, 8, value, 2, 60);
    encode(&a, 90, true, &file);
    CHECK_INT(buf_append(&out, "abc", 3, &err), SLIMSET_OK);
    CHECK_INT(jpeg_strip(file.data, file.len, &out, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TOO_LARGE);
    CHECK_INT(out.len, 3);
    CHECK_INT(jpeg_icc(file.data, file.len, &out, &err), SLIMSET_NOT_FOUND);
    CHECK_INT(jpeg_icc(file.data, 0, &out, &err), SLIMSET_NOT_FOUND);
    CHECK_INT(jpeg_strip(file.data, 1, &out, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(jpeg_strip(file.data, 20, &out, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(out.len, 3);
    out.max = 0;
    CHECK_INT(jpeg_strip(file.data, file.len, &out, &err), SLIMSET_OK);
    CHECK(out.len == file.len + 3 && memcmp(out.data + 3, file.data, file.len) == 0);
    buf_fini(&out);
    buf_fini(&file);
    image_fini(&a);
}

int main(void)
{
    reader = jpeg_reader_new(&image_limits_default);
    writer = jpeg_writer_new();
    if (reader == NULL || writer == NULL)
        return 1;
    RUN(test_skip_scan);
    RUN(test_cursor);
    RUN(test_flat_colour);
    RUN(test_writer_has_no_memory);
    RUN(test_writer_limit);
    RUN(test_writer_part);
    RUN(test_reader_after_faults);
    RUN(test_reader_has_no_memory);
    RUN(test_every_cut);
    RUN(test_hidden_scans_count);
    RUN(test_strip_and_icc_limits);
    jpeg_reader_free(reader);
    jpeg_writer_free(writer);
    jpeg_reader_free(NULL);
    jpeg_writer_free(NULL);
    return check_done();
}
