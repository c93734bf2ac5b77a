/* SPDX-License-Identifier: Apache-2.0
 *
 * BMP and PNM files written out by hand, with the pixels that their specifications give. Everything
 * that needs another program as judge is in vips_judge.py.
 */
#include "bmp_read.h"
#include "check.h"

#include <stdlib.h>

static struct slimset_error err;
static struct image_info info;
static struct image out;
static uint32_t notes;

/* Decodes an exactly sized heap copy, so that a sanitizer sees every read beyond the end. */
static enum slimset_status decode(const void *bytes, size_t n)
{
    uint8_t *data = malloc(n != 0 ? n : 1);
    memcpy(data, bytes, n);
    notes = 0;
    bool bmp = n < 1 || data[0] == 'B';
    enum slimset_status st = bmp ? bmp_read_header(data, n, &image_limits_default, &info, &err)
                                 : pnm_read_header(data, n, &image_limits_default, &info, &err);
    if (st == SLIMSET_OK)
        st = bmp ? bmp_decode(data, n, &info, &out, &notes, &err)
                 : pnm_decode(data, n, &info, &out, &notes, &err);
    free(data);
    return st;
}

static int at(unsigned c, unsigned x, unsigned y)
{
    const uint8_t *row = out.plane[c].data + y * out.plane[c].stride_bytes;
    return out.bits == 16 ? ((const uint16_t *)(const void *)row)[x] : row[x];
}

#define CHECK_RGB(x, y, r, g, b)                                                                   \
    do {                                                                                           \
        CHECK_INT(at(0, x, y), r);                                                                 \
        CHECK_INT(at(1, x, y), g);                                                                 \
        CHECK_INT(at(2, x, y), b);                                                                 \
    } while (0)

/* 2 x 2, 24 bits, bottom row first: blue green / red white. */
static const uint8_t bmp24[] = {
    'B', 'M', 70,  0,   0,   0,   0, 0, 0, 0, 54, 0, 0, 0, /* file header */
    40,  0,   0,   0,   2,   0,   0, 0, 2, 0, 0,  0, 1, 0,
    24,  0,   0,   0,   0,   0, /* size, w, h, bits */
    16,  0,   0,   0,   0,   0,   0, 0, 0, 0, 0,  0, 0, 0,
    0,   0,   0,   0,   0,   0,         /* bytes, ppm, colours */
    0,   0,   255, 255, 255, 255, 0, 0, /* red white */
    255, 0,   0,   0,   255, 0,   0, 0, /* blue green */
};

static void test_bmp_24(void)
{
    CHECK_INT(decode(bmp24, sizeof bmp24), SLIMSET_OK);
    CHECK_INT(info.w, 2);
    CHECK_INT(info.h, 2);
    CHECK_INT(info.channels, 3);
    CHECK_INT(info.orientation, 1);
    CHECK_INT(info.alpha, 0);
    CHECK_INT(notes, 0);
    CHECK_RGB(0, 0, 0, 0, 255);
    CHECK_RGB(1, 0, 0, 255, 0);
    CHECK_RGB(0, 1, 255, 0, 0);
    CHECK_RGB(1, 1, 255, 255, 255);
    uint8_t copy[sizeof bmp24 + 5];
    memcpy(copy, bmp24, sizeof bmp24);
    put_le32(copy + 22, (uint32_t)-2); /* top-down */
    CHECK_INT(decode(copy, sizeof bmp24), SLIMSET_OK);
    CHECK_RGB(0, 0, 255, 0, 0);
    memset(copy + sizeof bmp24, 0, 5);
    CHECK_INT(decode(copy, sizeof copy), SLIMSET_OK);
    CHECK_INT(notes, NOTE_TAIL_BYTES);
    /* only the last row's two bytes of padding may be missing */
    CHECK_INT(decode(bmp24, sizeof bmp24 - 2), SLIMSET_OK);
    for (size_t n = 0; n < sizeof bmp24 - 2; n++) {
        CHECK_INT(decode(bmp24, n), SLIMSET_BAD_INPUT);
        CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    }
}

static void test_bmp_rle8(void)
{
    /* 4 x 3, palette of 3: black, (1,2,3), (9,8,7). As stored, bottom row first: a run of four 1;
     * absolute 2 1 2 and end of line; a delta of 3 columns, one 2, end of bitmap. */
    static const uint8_t data[] = {
        'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 66, 0, 0, 0, 40, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 8,
        0,   1,   0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        3,   2,   1, 0, 7, 8, 9, 0, 4, 1, 0,  0, 0, 3, 2,  1, 2, 0, 0, 0, 0, 2, 3, 0, 1, 2, 0, 1,
    };
    CHECK_INT(decode(data, sizeof data), SLIMSET_OK);
    for (unsigned x = 0; x < 4; x++)
        CHECK_RGB(x, 2, 1, 2, 3);
    CHECK_RGB(0, 1, 9, 8, 7);
    CHECK_RGB(1, 1, 1, 2, 3);
    CHECK_RGB(2, 1, 9, 8, 7);
    CHECK_RGB(3, 1, 0, 0, 0);
    CHECK_RGB(0, 0, 0, 0, 0);
    CHECK_RGB(3, 0, 9, 8, 7);
    CHECK_INT(notes, NOTE_EXPANDED);
    CHECK_INT(info.palette, 1);
    /* without the end marker the last pixel is there, so it is only a warning */
    CHECK_INT(decode(data, sizeof data - 2), SLIMSET_OK);
    CHECK_INT(notes, NOTE_EXPANDED | NOTE_WARNING);
    CHECK_INT(decode(data, sizeof data - 4), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    uint8_t copy[sizeof data];
    memcpy(copy, data, sizeof data);
    copy[66] = 5; /* a run of 5 in a row of 4 */
    CHECK_INT(decode(copy, sizeof copy), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    copy[66] = 4;
    copy[67] = 3; /* a colour the table does not have */
    CHECK_INT(decode(copy, sizeof copy), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
}

static void test_bmp_gray_palette(void)
{
    /* 1 bit, table black white: gray. With the two exchanged: RGB. */
    uint8_t data[] = {
        'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 62, 0, 0, 0, 40,  0,   0,   0, 3,    0, 0, 0,
        1,   0,   0, 0, 1, 0, 1, 0, 0, 0, 0,  0, 0, 0, 0,   0,   0,   0, 0,    0, 0, 0,
        0,   0,   0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 255, 255, 255, 0, 0xa0, 0, 0, 0,
    };
    CHECK_INT(decode(data, sizeof data), SLIMSET_OK);
    CHECK_INT(info.colour, IMAGE_GRAY);
    CHECK_INT(info.bits, 1);
    CHECK_INT(out.n_planes, 1);
    CHECK_INT(at(0, 0, 0), 255);
    CHECK_INT(at(0, 1, 0), 0);
    CHECK_INT(at(0, 2, 0), 255);
    memset(data + 54, 255, 4);
    memset(data + 58, 0, 4);
    CHECK_INT(decode(data, sizeof data), SLIMSET_OK);
    CHECK_INT(info.colour, IMAGE_RGB);
    CHECK_RGB(0, 0, 0, 0, 0);
    CHECK_RGB(1, 0, 255, 255, 255);
}

static void test_bmp_hostile(void)
{
    static const struct {
        unsigned at;
        uint32_t value;
        enum slimset_reject reject;
    } cases[] = {
        {0, 0x4d42u + 1, SLIMSET_REJECT_UNKNOWN_FORMAT},
        {14, 41, SLIMSET_REJECT_UNSUPPORTED},
        {14, 0xffffffffu, SLIMSET_REJECT_UNSUPPORTED},
        {18, 0, SLIMSET_REJECT_CORRUPT},
        {18, 0x80000000u, SLIMSET_REJECT_CORRUPT},
        {22, 0x80000000u, SLIMSET_REJECT_CORRUPT},
        {18, 0x7fffffffu, SLIMSET_REJECT_TOO_MANY_PIXELS},
        {30, 5, SLIMSET_REJECT_UNSUPPORTED},
        {30, 1, SLIMSET_REJECT_CORRUPT},
        {10, 20, SLIMSET_REJECT_CORRUPT},
        {10, 0xffffffffu, SLIMSET_REJECT_TRUNCATED},
        {28, 8, SLIMSET_REJECT_TRUNCATED},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t copy[sizeof bmp24];
        memcpy(copy, bmp24, sizeof copy);
        put_le32(copy + cases[i].at, cases[i].value);
        if (cases[i].at == 28) { /* 8 bits: a table of 256 does not fit the file */
            put_le32(copy + 28, 8);
            put_le32(copy + 10, 0);
        }
        CHECK_INT(decode(copy, sizeof copy), SLIMSET_BAD_INPUT);
        CHECK_INT(err.reject, cases[i].reject);
        CHECK(err.text[0] != '\0');
    }
}

#define PNM(text) (text), sizeof(text) - 1

static void test_pnm(void)
{
    CHECK_INT(decode(PNM("P1\n# c\n3 2\n0 1 0 111")), SLIMSET_OK);
    CHECK_INT(info.bits, 1);
    CHECK_INT(at(0, 0, 0), 255);
    CHECK_INT(at(0, 1, 0), 0);
    CHECK_INT(at(0, 2, 1), 0);
    CHECK_INT(decode(PNM("P4 9 1\n\x40\x80")), SLIMSET_OK);
    CHECK_INT(at(0, 0, 0), 255);
    CHECK_INT(at(0, 1, 0), 0);
    CHECK_INT(at(0, 8, 0), 0);
    CHECK_INT(decode(PNM("P2 3 1 15 0 7 15")), SLIMSET_OK);
    CHECK_INT(at(0, 1, 0), 119); /* 7 * 255 / 15 */
    CHECK_INT(at(0, 2, 0), 255);
    CHECK_INT(decode(PNM("P5 2 1 100\n\x32\x64")), SLIMSET_OK);
    CHECK_INT(at(0, 0, 0), 128); /* 127.5 rounded up */
    CHECK_INT(at(0, 1, 0), 255);
    CHECK_INT(decode(PNM("P5 2 1 1000\n\x01\xf4\x03\xe8")), SLIMSET_OK);
    CHECK_INT(out.bits, 16);
    CHECK_INT(at(0, 0, 0), 32768); /* 500 * 65535 / 1000 = 32767.5 */
    CHECK_INT(at(0, 1, 0), 65535);
    CHECK_INT(decode(PNM("P6 1 1 255\n\x0a\x14\x1e")), SLIMSET_OK);
    CHECK_RGB(0, 0, 10, 20, 30);
    CHECK_INT(decode(PNM("P3#a\n1#b\n1#c\n255#d\n10#e\n20 30#f")), SLIMSET_OK);
    CHECK_RGB(0, 0, 10, 20, 30);
    CHECK_INT(notes, 0);
    CHECK_INT(decode(PNM("P5 2 1 100\n\x32\x65")), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    CHECK_INT(decode(PNM("P2 3 1 15 0 7")), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    CHECK_INT(decode(PNM("P6 1 1 255\n\x0a\x14")), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    CHECK_INT(decode(PNM("P5 1 1 70000\n\x0a\x14")), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    CHECK_INT(decode(PNM("P2 30000 5000 255 1")), SLIMSET_BAD_INPUT); /* before any allocation */
    CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    CHECK_INT(decode(PNM("P7 1 1 255\n\x0a")), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_UNKNOWN_FORMAT);
}

int main(void)
{
    RUN(test_bmp_24);
    RUN(test_bmp_rle8);
    RUN(test_bmp_gray_palette);
    RUN(test_bmp_hostile);
    RUN(test_pnm);
    image_fini(&out);
    return check_done();
}
