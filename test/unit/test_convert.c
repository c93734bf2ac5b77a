/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.h: one sample through all of a worker's work: what is passed through, what is encoded
 * anew, what is refused, and which notes say so. Every answer must pass item_answer_check.
 */
#include "convert.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "check.h"
#include "decode.h"
#include "jpeg_write.h"
#include "png_write.h"

static struct slimset_error err;
static struct slimset_recipe recipe;
static struct item_request request;
static int fds[ITEM_INPUTS_MAX];
static struct buf blob;
static struct decoder *decoder;
static struct image picture, decoded;
static struct image_info info;

/* --- inputs ----------------------------------------------------------------------------------- */

static void begin(const char *resize)
{
    for (uint32_t i = 0; i < request.n_fds; i++)
        close(fds[i]);
    memset(&request, 0, sizeof request);
    request.ticket = 9;
    request.op = ITEM_CONVERT;
    slimset_recipe_init(&recipe);
    if (resize != NULL)
        CHECK_INT(slimset_recipe_resize(&recipe, resize, &err), SLIMSET_OK);
}

static struct item_input *add(enum slimset_role role, enum slimset_codec codec, const void *data,
                              size_t n)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    struct item_input *in = &request.input[request.n_inputs++];
    CHECK_INT(io_write(fd, data, n, "input", &err), SLIMSET_OK);
    *in = (struct item_input){.packed_bytes = n,
                              .bytes = n,
                              .fd_index = (uint8_t)request.n_fds,
                              .role = (uint8_t)role,
                              .codec = (uint8_t)codec};
    fds[request.n_fds++] = fd;
    return in;
}

static struct item_input *add_buf(enum slimset_role role, enum slimset_codec codec,
                                  const struct buf *b)
{
    return add(role, codec, b->data, b->len);
}

/* A smooth picture with some texture. */
static void make(enum image_colour colour, bool alpha, uint8_t bits, uint32_t w, uint32_t h)
{
    CHECK_INT(image_setup(&picture, colour, alpha, bits, w, h, &err), SLIMSET_OK);
    for (unsigned i = 0; i < picture.n_planes; i++)
        for (uint32_t y = 0; y < h; y++)
            for (uint32_t x = 0; x < w; x++) {
                uint32_t v = (40 + x * 150 / w + y * 50 / h + i * 5 + (x * 7 + y * 11) % 5) & 255;
                uint16_t v16 = (uint16_t)(v * 257);
                uint8_t *row = picture.plane[i].data + (size_t)y * picture.plane[i].stride_bytes;
                if (bits == 16)
                    memcpy(row + 2 * (size_t)x, &v16, 2);
                else
                    row[x] = (uint8_t)v;
            }
}

static void set(unsigned plane, uint32_t x, uint32_t y, uint8_t v)
{
    picture.plane[plane].data[(size_t)y * picture.plane[plane].stride_bytes + x] = v;
}

static struct buf jpeg_of(int quality)
{
    struct jpeg_writer *w = jpeg_writer_new();
    struct jpeg_settings s = {.quality = quality, .subsampling = JPEG_420, .optimise = true};
    struct buf b = {0};
    CHECK_INT(jpeg_write(w, &picture, &s, &b, &err), SLIMSET_OK);
    jpeg_writer_free(w);
    return b;
}

static struct buf png_of(int raw_gray_bits)
{
    struct png_writer *w = png_writer_new();
    struct buf b = {0};
    CHECK_INT(png_write(w, &picture, 6, 0, raw_gray_bits, &b, &err), SLIMSET_OK);
    png_writer_free(w);
    return b;
}

static struct buf jpeg_picture(uint32_t w, uint32_t h, int quality)
{
    make(IMAGE_RGB, false, 8, w, h);
    return jpeg_of(quality);
}

/* Puts an EXIF segment with this orientation behind the SOI. */
static void add_exif(struct buf *b, uint8_t orientation)
{
    uint8_t app1[] = {0xff, 0xe1, 0, 34, 'E',         'x', 'i', 'f', 0,    0, 'I', 'I',
                      42,   0,    8, 0,  0,           0,   1,   0,   0x12, 1, 3,   0,
                      1,    0,    0, 0,  orientation, 0,   0,   0,   0,    0, 0,   0};
    struct buf out = {0};
    CHECK_INT(buf_append(&out, b->data, 2, &err), SLIMSET_OK);
    CHECK_INT(buf_append(&out, app1, sizeof app1, &err), SLIMSET_OK);
    CHECK_INT(buf_append(&out, b->data + 2, b->len - 2, &err), SLIMSET_OK);
    buf_fini(b);
    *b = out;
}

/* --- answers ---------------------------------------------------------------------------------- */

static const struct item_answer *answer(void)
{
    return (const struct item_answer *)(const void *)blob.data;
}

static const struct item_field *field(unsigned i) { return item_fields(answer()) + i; }

static const uint8_t *payload(unsigned i)
{
    const uint8_t *p = item_payload(answer());
    for (unsigned k = 0; k < i; k++)
        p += field(k)->payload_bytes;
    return p;
}

static enum slimset_status run(void)
{
    struct converter *c = converter_new(&recipe, false);
    memset(&err, 0, sizeof err);
    CHECK_INT(convert_item(c, &request, fds, &blob, &err), SLIMSET_OK);
    converter_free(c);
    enum slimset_status st = item_answer_check(&request, blob.data, blob.len, &err);
    if (st != SLIMSET_OK)
        printf("  %s\n", err.text);
    CHECK_INT(st, SLIMSET_OK);
    if (answer()->status != SLIMSET_OK)
        CHECK(answer()->text_bytes > 0 &&
              memchr(item_text(answer()), '\n', answer()->text_bytes) == NULL);
    return answer()->status;
}

/* Runs and expects the reject of this input. */
static void rejects(enum slimset_reject reject, uint32_t failed)
{
    enum slimset_status st = run();
    CHECK_INT(st, SLIMSET_BAD_INPUT);
    if (answer()->reject != reject)
        printf("  \"%.*s\"\n", (int)answer()->text_bytes, item_text(answer()));
    CHECK_INT(answer()->reject, reject);
    CHECK_INT(answer()->failed_input, failed);
}

/* Decodes payload i into `decoded`. */
static void decode(unsigned i, enum decode_want want)
{
    uint32_t notes = 0;
    CHECK_INT(decode_header(decoder, payload(i), field(i)->payload_bytes, &info, &err), SLIMSET_OK);
    CHECK_INT(decode_image(decoder, payload(i), field(i)->payload_bytes, &info, want, 1, false,
                           &decoded, &notes, &err),
              SLIMSET_OK);
    CHECK(decoded.w == field(i)->w && decoded.h == field(i)->h && info.orientation == 1);
    CHECK_INT(info.format, field(i)->format);
}

static uint8_t pixel(unsigned plane, uint32_t x, uint32_t y)
{
    return decoded.plane[plane].data[(size_t)y * decoded.plane[plane].stride_bytes + x];
}

static bool same_bytes(unsigned i, const struct buf *b)
{
    return field(i)->payload_bytes == b->len && memcmp(payload(i), b->data, b->len) == 0;
}

/* --- bytes kept ------------------------------------------------------------------------------- */

static void test_copy(void)
{
    static const char npy[] = "\x93NUMPY\1\0\x3a\0{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\nabc";
    begin("64");
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "a label", 7);
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "", 0);
    add(SLIMSET_ROLE_ARRAY, SLIMSET_CODEC_KEEP, npy, sizeof npy - 1);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->payload_bytes == 7 && memcmp(payload(0), "a label", 7) == 0);
    CHECK(field(0)->in_bytes == 7 && field(0)->in_hash == hash_bytes("a label", 7));
    CHECK(field(0)->w == 0 && field(0)->notes == 0 && field(0)->format == FORMAT_TEXT &&
          field(0)->frames == 1);
    CHECK(field(1)->payload_bytes == 0 && field(1)->in_hash == hash_bytes("", 0));
    CHECK(field(2)->payload_bytes == sizeof npy - 1 && memcmp(payload(2), npy, sizeof npy - 1) == 0 &&
          field(2)->format == FORMAT_NPY && field(2)->array_bytes == strlen("|u1 (3,)"));
}

/* Without --resize or a codec nothing is encoded anew, metadata included. */
static void test_lossless(void)
{
    struct buf jpeg = jpeg_picture(64, 40, 95);
    add_exif(&jpeg, 6);
    make(IMAGE_RGB, true, 16, 33, 21);
    struct buf png = png_of(0);
    begin(NULL);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &jpeg);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(same_bytes(0, &jpeg) && same_bytes(1, &png));
    CHECK(field(0)->notes & NOTE_COPIED &&
          !(field(0)->notes & (NOTE_REENCODED | NOTE_STRIPPED | NOTE_ROTATED)));
    CHECK(field(0)->w == 40 && field(0)->h == 64 && field(0)->in_w == 40 &&
          field(0)->in_h == 64); /* upright */
    CHECK(field(0)->orientation == 6 && field(0)->quality == 0 && field(0)->format == FORMAT_JPEG);
    CHECK(field(1)->bits == 16 && field(1)->channels == 4 && field(1)->notes & NOTE_KEPT_16BIT);
    CHECK(field(1)->w == 33 && field(1)->h == 21);
    buf_fini(&jpeg);
    buf_fini(&png);
}

static void test_lossless_still_refuses_damage(void)
{
    struct buf jpeg = jpeg_picture(300, 300, 95);
    begin(NULL);
    add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, jpeg.data, jpeg.len / 2);
    rejects(SLIMSET_REJECT_TRUNCATED, 0);
    struct buf png = png_of(0);
    png.data[png.len / 2] ^= 1;
    begin(NULL);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &png);
    rejects(SLIMSET_REJECT_CORRUPT, 0);
    begin(NULL); /* a file that is only copied is not looked into */
    add_buf(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(same_bytes(0, &png));
    buf_fini(&jpeg);
    buf_fini(&png);
}

static void test_already_fits(void)
{
    struct buf jpeg = jpeg_picture(64, 40, 95), plain = {0};
    CHECK_INT(buf_append(&plain, jpeg.data, jpeg.len, &err), SLIMSET_OK);
    add_exif(&jpeg, 1);
    begin("512");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK((field(0)->notes & (NOTE_COPIED | NOTE_STRIPPED | NOTE_REENCODED)) ==
          (NOTE_COPIED | NOTE_STRIPPED));
    CHECK(same_bytes(0, &plain)); /* without the segment, else every byte */
    recipe.keep_metadata = true;
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(same_bytes(0, &jpeg) && !(field(0)->notes & NOTE_STRIPPED));
    recipe.keep_metadata = false;
    jpeg.data[jpeg.len / 2] = 0xff; /* a small file that is damaged does not slip through */
    jpeg.data[jpeg.len / 2 + 1] = 0xd9;
    begin("512");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_BAD_INPUT);
    buf_fini(&jpeg);
    buf_fini(&plain);
}

static void test_reencode_all(void)
{
    struct buf jpeg = jpeg_picture(200, 120, 20); /* anew at 90 it would be larger */
    begin("512");
    recipe.reencode_all = true;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->payload_bytes > jpeg.len);
    CHECK(field(0)->notes & NOTE_NOT_SMALLER && field(0)->notes & NOTE_REENCODED && !(field(0)->notes & NOTE_COPIED));
    CHECK_INT(field(0)->quality, 90);
    begin(NULL); /* also where nothing else is asked for */
    recipe.reencode_all = true;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_REENCODED && field(0)->quality == 90);
    buf_fini(&jpeg);
    jpeg = jpeg_picture(200, 120, 100);
    begin("512");
    recipe.reencode_all = true;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->payload_bytes < jpeg.len && field(0)->notes & NOTE_REENCODED &&
          field(0)->quality == 90);
    buf_fini(&jpeg);
}

/* --- encoded anew ----------------------------------------------------------------------------- */

static void test_resize_jpeg(void)
{
    struct buf jpeg = jpeg_picture(201, 99, 95);
    begin("64");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->w == 64 && field(0)->h == 32 && field(0)->in_w == 201 && field(0)->in_h == 99);
    CHECK((field(0)->notes & (NOTE_REENCODED | NOTE_RESIZED | NOTE_COPIED)) ==
          (NOTE_REENCODED | NOTE_RESIZED));
    CHECK(field(0)->quality == 90 && field(0)->channels == 3 && field(0)->bits == 8 &&
          field(0)->in_hash == hash_bytes(jpeg.data, jpeg.len));
    decode(0, DECODE_RGB);
    for (uint32_t x = 4; x < 60; x++) { /* still that picture */
        int want = 40 + (int)((x + 0.5) * 150 / 64) + 25 + 2;
        CHECK(abs(pixel(0, x, 16) - want) <= 6);
    }
    CHECK_INT(info.h_samp[0], 2);
    CHECK_INT(info.v_samp[0], 2);
    CHECK(!info.progressive && !info.has_metadata);
    buf_fini(&jpeg);
}

static void test_orientation(void)
{
    make(IMAGE_RGB, false, 8, 96, 64);
    for (uint32_t y = 0; y < 64; y++)
        for (uint32_t x = 0; x < 96; x++)
            for (unsigned i = 0; i < 3; i++)
                set(i, x, y, x < 48 && y < 32 ? 250 : 5); /* the stored top left quarter is white */
    /* where the stored top left corner is seen, for the eight values: right?, bottom? */
    static const uint8_t right[] = {0, 0, 1, 1, 0, 0, 1, 1, 0},
                         bottom[] = {0, 0, 0, 1, 1, 0, 0, 1, 1};
    for (uint8_t o = 2; o <= 8; o++)
        for (int resize = 0; resize < 2; resize++) {
            struct buf jpeg = jpeg_of(95);
            add_exif(&jpeg, o);
            begin(resize ? "48" : "512");
            add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
            CHECK_INT(run(), SLIMSET_OK);
            uint32_t w = o >= 5 ? 64 : 96, h = o >= 5 ? 96 : 64;
            CHECK(field(0)->in_w == w && field(0)->in_h == h);
            CHECK(field(0)->w == (resize ? w / 2 : w) && field(0)->h == (resize ? h / 2 : h));
            CHECK(field(0)->orientation == o && field(0)->notes & NOTE_ROTATED);
            decode(0, DECODE_RGB);
            for (int r = 0; r < 2; r++)
                for (int b = 0; b < 2; b++) {
                    bool bright = r == right[o] && b == bottom[o];
                    int v = pixel(0, decoded.w * (r ? 3u : 1u) / 4, decoded.h * (b ? 3u : 1u) / 4);
                    CHECK(bright ? v > 240 : v < 15);
                }
            buf_fini(&jpeg);
        }
}

static void test_png_to_jpeg_and_png(void)
{
    make(IMAGE_RGB, false, 8, 80, 60);
    struct buf png = png_of(0);
    begin("40");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->format == FORMAT_JPEG && field(0)->in_format == FORMAT_PNG &&
          field(0)->w == 40 && field(0)->h == 30);
    decode(0, DECODE_RGB);
    begin("40");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_PNG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->format == FORMAT_PNG && field(0)->quality == 0 && field(0)->w == 40);
    decode(0, DECODE_RGB);
    buf_fini(&png);
}

static void test_npy(void)
{
    make(IMAGE_RGB, false, 8, 5, 3);
    struct buf png = png_of(0);
    begin(NULL);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_NPY, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK_INT(field(0)->payload_bytes, 128 + 45);
    CHECK(memcmp(payload(0), "\x93NUMPY\1\0\x76\0{", 11) == 0 && payload(0)[127] == '\n');
    CHECK(memmem(payload(0), 128, "'descr': '|u1'", 14) != NULL &&
          memmem(payload(0), 128, "(3, 5, 3)", 9) != NULL &&
          memmem(payload(0), 128, "'fortran_order': False", 22) != NULL);
    for (uint32_t y = 0; y < 3; y++)
        for (uint32_t x = 0; x < 5; x++)
            for (unsigned i = 0; i < 3; i++)
                CHECK_INT(payload(0)[128 + (y * 5 + x) * 3 + i],
                          picture.plane[i].data[y * picture.plane[i].stride_bytes + x]);
    CHECK(field(0)->format == FORMAT_NPY && field(0)->w == 5 && field(0)->h == 3 &&
          field(0)->channels == 3);
    make(IMAGE_GRAY, false, 16, 4, 2);
    buf_fini(&png);
    png = png_of(0);
    begin(NULL);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_NPY, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(memmem(payload(0), 128, "'descr': '<u2'", 14) != NULL &&
          memmem(payload(0), 128, "(2, 4, 1)", 9) != NULL);
    CHECK_INT(field(0)->payload_bytes, 128 + 16);
    CHECK(memcmp(payload(0) + 128, picture.plane[0].data, 8) == 0);
    buf_fini(&png);
}

static void test_channels(void)
{
    struct buf colour = jpeg_picture(64, 40, 90);
    make(IMAGE_GRAY, false, 8, 64, 40);
    struct buf gray = jpeg_of(90);
    begin("32");
    recipe.channels = 1;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &colour);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_PNG, &colour);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &gray);
    CHECK_INT(run(), SLIMSET_OK);
    for (unsigned i = 0; i < 3; i++) {
        decode(i, DECODE_RGB);
        CHECK(decoded.colour == IMAGE_GRAY && field(i)->channels == 1);
        CHECK_INT(!(field(i)->notes & NOTE_CHANNELS), i == 2);
    }
    begin("512"); /* it would fit but for the channels */
    recipe.channels = 3;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &gray);
    CHECK_INT(run(), SLIMSET_OK);
    decode(0, DECODE_RGB);
    CHECK(decoded.colour == IMAGE_RGB && field(0)->channels == 3 &&
          field(0)->notes & NOTE_CHANNELS);
    buf_fini(&colour);
    buf_fini(&gray);
}

/* --- alpha and depth -------------------------------------------------------------------------- */

static void test_alpha(void)
{
    make(IMAGE_RGB, true, 8, 64, 64);
    for (uint32_t y = 0; y < 64; y++)
        for (uint32_t x = 0; x < 64; x++) { /* left: red that cannot be seen; right: blue */
            set(0, x, y, x < 32 ? 255 : 0);
            set(1, x, y, 0);
            set(2, x, y, x < 32 ? 0 : 255);
            set(3, x, y, x < 32 ? 0 : 255);
        }
    struct buf png = png_of(0);
    begin("32");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_FLATTENED && field(0)->channels == 3);
    decode(0, DECODE_RGB);
    CHECK(pixel(0, 4, 16) > 245 && pixel(1, 4, 16) > 245 &&
          pixel(2, 4, 16) > 245); /* white, and before resizing: */
    for (uint32_t x = 0; x < 32; x++)
        CHECK(pixel(0, x, 16) <= pixel(2, x, 16) + 12); /* no red anywhere */
    recipe.background[1] = recipe.background[2] = 0;    /* --alpha #ff0000 */
    CHECK_INT(run(), SLIMSET_OK);
    decode(0, DECODE_RGB);
    CHECK(pixel(0, 4, 16) > 240 && pixel(1, 4, 16) < 15);
    recipe.alpha = SLIMSET_ALPHA_REJECT;
    rejects(SLIMSET_REJECT_ALPHA, 0);
    recipe.alpha = SLIMSET_ALPHA_KEEP;
    rejects(SLIMSET_REJECT_ALPHA, 0); /* JPEG cannot */
    request.input[0].codec = SLIMSET_CODEC_PNG;
    for (int k = 0; k < 2;
         k++) { /* PNG holds it, whatever is asked for; hidden red does not bleed */
        recipe.alpha = k ? SLIMSET_ALPHA_KEEP : SLIMSET_ALPHA_COLOUR;
        CHECK_INT(run(), SLIMSET_OK);
        decode(0, DECODE_RGB);
        CHECK(decoded.alpha && field(0)->channels == 4 && !(field(0)->notes & NOTE_FLATTENED));
        CHECK(pixel(3, 4, 16) == 0 && pixel(3, 28, 16) == 255);
        for (uint32_t x = 0; x < 32; x++)
            CHECK(pixel(3, x, 16) == 0 || (pixel(0, x, 16) == 0 && pixel(2, x, 16) == 255));
    }
    buf_fini(&png);
    for (uint32_t y = 0; y < 64; y++)
        memset(picture.plane[3].data + y * picture.plane[3].stride_bytes, 255, 64);
    png = png_of(0);
    begin("32");
    recipe.alpha = SLIMSET_ALPHA_REJECT; /* opaque everywhere is no alpha */
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &png);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_PNG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_ALPHA_DROPPED && field(0)->channels == 3 &&
          !(field(0)->notes & NOTE_FLATTENED));
    CHECK(field(1)->notes & NOTE_ALPHA_DROPPED && field(1)->channels == 3);
    buf_fini(&png);
}

static void test_16_bits(void)
{
    make(IMAGE_GRAY, false, 16, 64, 64);
    for (uint32_t y = 0; y < 64; y++)
        for (uint32_t x = 0; x < 64; x++) {
            uint16_t v = (uint16_t)(1000 + x * 10);
            memcpy(picture.plane[0].data + (size_t)y * picture.plane[0].stride_bytes +
                       2 * (size_t)x,
                   &v, 2);
        }
    struct buf png = png_of(0);
    begin("32");
    struct item_input *in = add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &png);
    rejects(SLIMSET_REJECT_DEPTH, 0); /* never silently */
    in->flags = ITEM_SHIFT_16;
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_SCALED_8BIT && field(0)->bits == 8);
    in->flags = 0;
    in->codec = SLIMSET_CODEC_PNG;
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_KEPT_16BIT && field(0)->bits == 16);
    decode(0, DECODE_RGB);
    uint16_t v;
    memcpy(&v, decoded.plane[0].data + 2 * 16, 2);
    CHECK(decoded.bits == 16 && abs(v - 1325) <= 2);
    recipe.depth = SLIMSET_DEPTH_8_RANGE;
    recipe.depth_lo = 1000;
    recipe.depth_hi = 1640;
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_SCALED_8BIT && field(0)->bits == 8 &&
          !(field(0)->notes & NOTE_KEPT_16BIT));
    decode(0, DECODE_RGB);
    CHECK(abs(pixel(0, 16, 5) - (int)(325 * 255 / 640)) <= 1);
    buf_fini(&png);
}

/* --- masks and depth maps --------------------------------------------------------------------- */

static void make_labels(uint32_t w, uint32_t h, unsigned n)
{
    make(IMAGE_GRAY, false, 8, w, h);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            set(0, x, y, (uint8_t)((x / 9 + y / 7) % n));
}

static void test_mask(void)
{
    static const int depths[] = {0, 1, 2, 4};
    for (int k = 0; k < 4; k++) {
        int bits = depths[k];
        make_labels(91, 57, bits == 0 ? 200 : 1u << bits);
        struct buf png = png_of(bits);
        begin("40");
        add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_JPEG, &png); /* whatever is asked for: lossless */
        CHECK_INT(run(), SLIMSET_OK);
        CHECK(field(0)->format == FORMAT_PNG && field(0)->w == 40 && field(0)->h == 25 &&
              field(0)->quality == 0);
        CHECK(field(0)->notes & NOTE_NEAREST && field(0)->notes & NOTE_RESIZED);
        CHECK_INT(field(0)->bits, bits == 0 ? 8 : bits); /* the depth it came with */
        decode(0, DECODE_LABELS);
        unsigned wrong = 0;
        for (uint32_t y = 0; y < 25; y++)
            for (uint32_t x = 0; x < 40; x++) {
                uint32_t sx = (2 * x + 1) * 91 / 80, sy = (2 * y + 1) * 57 / 50;
                wrong += pixel(0, x, y) !=
                         picture.plane[0].data[sy * picture.plane[0].stride_bytes + sx];
            }
        CHECK_INT(wrong, 0);
        buf_fini(&png);
    }
}

static void test_palette_mask(void)
{
    CHECK_INT(image_setup(&picture, IMAGE_INDEX, false, 8, 60, 60, &err), SLIMSET_OK);
    picture.palette_n = 21;
    for (unsigned i = 0; i < 21; i++)
        memcpy(picture.palette[i],
               (uint8_t[]){(uint8_t)(i * 12), (uint8_t)(255 - i), (uint8_t)(i & 1 ? 200 : 3), 255},
               4);
    for (uint32_t y = 0; y < 60; y++)
        for (uint32_t x = 0; x < 60; x++)
            set(0, x, y, (uint8_t)((x / 6 + y / 6) % 21));
    struct buf png = png_of(0);
    begin("30");
    add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_KEEP, &png);
    CHECK_INT(run(), SLIMSET_OK);
    decode(0, DECODE_LABELS);
    CHECK_INT(decoded.colour, IMAGE_INDEX); /* indices and colours stay */
    for (unsigned i = 0; i < 19; i++)
        CHECK(memcmp(decoded.palette[i], picture.palette[i], 3) == 0);
    for (uint32_t y = 0; y < 30; y++)
        for (uint32_t x = 0; x < 30; x++)
            CHECK_INT(pixel(0, x, y), ((2 * x + 1) / 6 + (2 * y + 1) / 6) % 21);
    buf_fini(&png);
}

static void test_lost_classes(void)
{
    make_labels(90, 90, 3);
    struct buf png = png_of(0);
    begin("30");
    add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(!(field(0)->notes & NOTE_CLASSES_LOST));
    buf_fini(&png);
    set(0, 0, 0, 77); /* one pixel of a class, between the samples taken */
    png = png_of(0);
    begin("30");
    add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->notes & NOTE_CLASSES_LOST);
    buf_fini(&png);
}

/* Depth maps: nearest, 16 bits as they are, no scaling to 8 by any flag. */
static void test_depth_map(void)
{
    make(IMAGE_GRAY, false, 16, 50, 30);
    for (uint32_t y = 0; y < 30; y++)
        for (uint32_t x = 0; x < 50; x++) {
            uint16_t v = (uint16_t)(x % 3 == 0 ? 0 : 500 + x * 1000 + y);
            memcpy(picture.plane[0].data + (size_t)y * picture.plane[0].stride_bytes +
                       2 * (size_t)x,
                   &v, 2);
        }
    struct buf png = png_of(0);
    begin("25");
    add_buf(SLIMSET_ROLE_DEPTH, SLIMSET_CODEC_PNG, &png)->flags = ITEM_SHIFT_16;
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->bits == 16 && field(0)->w == 25 && field(0)->h == 15 &&
          field(0)->notes & NOTE_NEAREST);
    decode(0, DECODE_RGB);
    for (uint32_t y = 0; y < 15; y++)
        for (uint32_t x = 0; x < 25; x++) {
            uint16_t v;
            uint32_t sx = 2 * x + 1, sy = 2 * y + 1;
            memcpy(&v, decoded.plane[0].data + y * decoded.plane[0].stride_bytes + 2 * (size_t)x,
                   2);
            CHECK_INT(v, sx % 3 == 0 ? 0 : 500 + sx * 1000 + sy);
        }
    buf_fini(&png);
}

/* A depth map of few bits keeps its values as well. */
static void test_depth_map_of_few_bits(void)
{
    make_labels(40, 40, 16);
    struct buf png = png_of(4);
    begin("20");
    add_buf(SLIMSET_ROLE_DEPTH, SLIMSET_CODEC_PNG, &png);
    CHECK_INT(run(), SLIMSET_OK);
    if (answer()->status == SLIMSET_OK) {
        decode(0, DECODE_LABELS);
        unsigned wrong = 0;
        for (uint32_t y = 0; y < 20; y++)
            for (uint32_t x = 0; x < 20; x++)
                wrong += pixel(0, x, y) != ((2 * x + 1) / 9 + (2 * y + 1) / 7) % 16;
        CHECK_INT(wrong, 0);
    } else {
        printf("  \"%.*s\"\n", (int)answer()->text_bytes, item_text(answer()));
    }
    buf_fini(&png);
}

/* Around a padded mask stands 0, whatever the background of images: no label is made of white. */
static void test_padded_mask(void)
{
    for (int k = 0; k < 3; k++) {
        if (k == 0)
            make_labels(60, 30, 5);
        else
            make(k == 1 ? IMAGE_RGB : IMAGE_GRAY, false, k == 1 ? 8 : 16, 60, 30);
        struct buf png = png_of(0);
        begin("pad:64x64");
        add_buf(k == 2 ? SLIMSET_ROLE_DEPTH : SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &png);
        CHECK_INT(run(), SLIMSET_OK);
        decode(0, DECODE_LABELS);
        for (unsigned i = 0; i < decoded.n_planes; i++)
            for (uint32_t x = 0; x < 64; x++)
                CHECK(pixel(i, x, 0) == 0 && pixel(i, x, 63) == 0);
        CHECK(k != 1 || (pixel(0, 10, 32) != 0 && pixel(2, 10, 32) != 0));
        buf_fini(&png);
    }
}

static void test_pairs(void)
{
    struct buf jpeg = jpeg_picture(80, 60, 90);
    make_labels(80, 60, 5);
    struct buf mask = png_of(0);
    begin("40");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &mask);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->w == field(1)->w && field(0)->h == field(1)->h);
    add_exif(&jpeg, 6); /* the picture is upright 60 x 80, the mask lies */
    begin("40");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &mask);
    rejects(SLIMSET_REJECT_PAIR, 1);
    make_labels(60, 80, 5);
    buf_fini(&mask);
    mask = png_of(0);
    begin("40"); /* in any order */
    add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &mask);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->w == 30 && field(0)->h == 40 && field(1)->w == 30 && field(1)->h == 40);
    make_labels(61, 80, 5);
    buf_fini(&mask);
    mask = png_of(0);
    begin("40");
    add_buf(SLIMSET_ROLE_DEPTH, SLIMSET_CODEC_PNG, &mask);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    rejects(SLIMSET_REJECT_PAIR, 0);
    buf_fini(&jpeg);
    buf_fini(&mask);
}

/* A JPEG and its mask get the same size in every mode, odd sizes and turned pictures included. */
static void test_sizes_agree(void)
{
    static const char *const modes[] = {"40",        "short:33", "exact:31x17", "crop:31x17",
                                        "pad:64x64", "area:700", "scale:0.37"};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
        for (uint8_t o = 1; o <= 8; o += 5) {
            struct buf jpeg = jpeg_picture(101, 67, 90);
            add_exif(&jpeg, o);
            make_labels(o >= 5 ? 67 : 101, o >= 5 ? 101 : 67, 5);
            struct buf mask = png_of(0);
            begin(modes[m]);
            add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
            add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &mask);
            CHECK_INT(run(), SLIMSET_OK);
            CHECK(field(0)->w == field(1)->w && field(0)->h == field(1)->h);
            decode(0, DECODE_RGB);
            decode(1, DECODE_LABELS);
            buf_fini(&jpeg);
            buf_fini(&mask);
        }
}

/* --- other operations ------------------------------------------------------------------------- */

static void test_probe(void)
{
    struct buf jpeg = jpeg_picture(100, 80, 95);
    begin("40");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    CHECK_INT(run(), SLIMSET_OK);
    uint64_t converted = field(0)->payload_bytes;
    make_labels(70, 70, 7);
    struct buf mask = png_of(0);
    make(IMAGE_RGB, true, 8, 30, 30);
    struct buf rgba = png_of(0);
    make(IMAGE_GRAY, false, 16, 30, 30);
    struct buf deep = png_of(0);
    static const char voc[] = "<annotation><object><bndbox/></object></annotation>";
    static const char coco[] = "{\"annotations\": [{\"bbox\": [1, 2, 3, 4]}]}";
    static const char labelme[] = "{\"shapes\": [{\"points\": []}]}";
    request.op = ITEM_PROBE;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_PNG, &mask);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &rgba);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &deep);
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, voc, strlen(voc));
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, coco, strlen(coco));
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, labelme, strlen(labelme));
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "{}", 2);
    CHECK_INT(run(), SLIMSET_OK);
    for (unsigned i = 0; i < 8; i++)
        CHECK(field(i)->payload_bytes == 0 && (i >= 4 || field(i)->probe_bytes == 0));
    for (unsigned i = 0; i < 8; i++)
        request.input[i].flags = ITEM_PROBE_SIZE; /* only on demand: it costs a conversion */
    CHECK_INT(run(), SLIMSET_OK);
    CHECK_INT(field(0)->probe_bytes, converted);
    for (unsigned i = 0; i < 8; i++)
        CHECK(field(i)->payload_bytes == 0 && field(i)->probe_bytes > 0);
    CHECK(field(0)->in_w == 100 && field(0)->in_h == 80 && field(0)->values == 0);
    CHECK(field(1)->values == 7 && field(1)->max_value == 6 && field(1)->in_channels == 1);
    CHECK(field(1)->zero_permille > 100 && field(1)->equal_permille > 800);
    CHECK(field(2)->real_alpha == 1 && field(0)->real_alpha == 0 && field(2)->in_channels == 4);
    CHECK(field(3)->in_bits == 16 &&
          field(3)->max_value > 255); /* 16 bits into JPEG is the plan's question, no fault */
    CHECK(field(4)->boxes == 1 && field(5)->boxes == 2 && field(6)->boxes == 3 &&
          field(7)->boxes == 0);
    CHECK_INT(field(7)->probe_bytes, 2);
    for (int refuse = 0; refuse < 2; refuse++) { /* what travels beside images is looked into, too */
        for (int resize = 0; resize < 2; resize++) {
            begin(resize ? "50" : NULL);
            recipe.boxes = refuse ? SLIMSET_BOXES_REFUSE : SLIMSET_BOXES_KEEP;
            add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, labelme, strlen(labelme));
            add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "{}", 2);
            CHECK_INT(run(), SLIMSET_OK);
            CHECK_INT(field(0)->boxes, refuse ? 3 : 0); /* the pipeline asks whether pixels move */
            CHECK_INT(field(0)->payload_bytes, strlen(labelme));
            CHECK_INT(field(1)->boxes, 0);
        }
    }
    buf_fini(&jpeg);
    buf_fini(&mask);
    buf_fini(&rgba);
    buf_fini(&deep);
}

static void test_hash(void)
{
    begin("64");
    request.op = ITEM_HASH;
    add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, "no image at all", 15);
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "x", 1);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->in_hash == hash_bytes("no image at all", 15) &&
          field(1)->in_hash == hash_bytes("x", 1));
    CHECK(field(0)->payload_bytes == 0 &&
          blob.len == sizeof(struct item_answer) + 2 * sizeof(struct item_field));
}

static void test_check(void)
{
    struct buf jpeg = jpeg_picture(90, 50, 90);
    make(IMAGE_RGB, false, 8, 5, 3);
    struct buf png = png_of(0);
    begin(NULL);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_NPY, &png);
    CHECK_INT(run(), SLIMSET_OK);
    struct buf npy = {0};
    CHECK_INT(buf_append(&npy, payload(0), field(0)->payload_bytes, &err), SLIMSET_OK);
    begin(NULL);
    request.op = ITEM_CHECK;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &jpeg);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &png);
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &npy);
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->w == 90 && field(0)->h == 50 && field(1)->w == 5 && field(1)->h == 3);
    CHECK(field(2)->w == 5 && field(2)->h == 3);
    for (unsigned i = 0; i < 3; i++)
        CHECK_INT(field(i)->payload_bytes, 0);
    begin(NULL);
    request.op = ITEM_CHECK;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, &jpeg);
    add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, npy.data, npy.len - 1);
    rejects(SLIMSET_REJECT_ARRAY, 1);
    begin(NULL);
    request.op = ITEM_CHECK;
    add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_KEEP, jpeg.data, jpeg.len / 2);
    rejects(SLIMSET_REJECT_TRUNCATED, 0);
    buf_fini(&jpeg);
    buf_fini(&png);
    buf_fini(&npy);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void test_bad_inputs(void)
{
    static const struct {
        const char *bytes;
        enum slimset_reject reject;
    } cases[] = {{"", SLIMSET_REJECT_EMPTY},
                 {"<!DOCTYPE html><html><body>404</body></html>", SLIMSET_REJECT_HTML},
                 {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
                  SLIMSET_REJECT_LFS_POINTER},
                 {"%PDF-1.4 and so on", SLIMSET_REJECT_NOT_ALLOWED},
                 {"<svg xmlns='http://www.w3.org/2000/svg'/>", SLIMSET_REJECT_NOT_ALLOWED},
                 {"just some text", SLIMSET_REJECT_UNKNOWN_FORMAT},
                 {"\1\2\3\4\5\6\7", SLIMSET_REJECT_UNKNOWN_FORMAT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin("64");
        add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "x", 1);
        add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, cases[i].bytes, strlen(cases[i].bytes));
        rejects(cases[i].reject, 1);
    }
    struct buf jpeg = jpeg_picture(100, 100, 90);
    begin("64");
    recipe.max_pixels = 9999;
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    rejects(SLIMSET_REJECT_TOO_MANY_PIXELS, 0);
    recipe.max_pixels = 10000;
    CHECK_INT(run(), SLIMSET_OK);
    buf_fini(&jpeg);
}

/* What only libvips reads is handed on, not refused: also where only the second image needs it. */
static void test_need_slow(void)
{
    static const uint8_t gif[] =
        "GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;";
    struct buf jpeg = jpeg_picture(100, 100, 90);
    begin("64");
    add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, gif, sizeof gif - 1);
    CHECK_INT(run(), SLIMSET_NEED_SLOW);
    begin("64");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
    add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, gif, sizeof gif - 1);
    CHECK_INT(run(), SLIMSET_NEED_SLOW);
    begin("64");
    add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_WEBP, &jpeg); /* an encoder that only libvips has */
    CHECK_INT(run(), SLIMSET_NEED_SLOW);
    begin("64");
    add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, gif, sizeof gif - 1); /* copying needs nobody */
    CHECK_INT(run(), SLIMSET_OK);
    CHECK_INT(field(0)->format, FORMAT_GIF);
    buf_fini(&jpeg);
}

static void test_input_faults(void)
{
    struct stat st;
    begin("64");
    struct item_input *in = add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, "abcdef", 6);
    CHECK_INT(fstat(fds[0], &st), 0);
    in->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    CHECK_INT(run(), SLIMSET_OK);
    in->mtime_ns++;
    rejects(SLIMSET_REJECT_CHANGED, 0);
    in->mtime_ns--;
    in->bytes = in->packed_bytes = 5;
    rejects(SLIMSET_REJECT_CHANGED, 0);
    in->mtime_ns = 0; /* a part of an archive */
    in->offset = 2;
    in->bytes = in->packed_bytes = 3;
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(0)->payload_bytes == 3 && memcmp(payload(0), "cde", 3) == 0);
    in->packed_bytes = in->bytes = 5;
    rejects(SLIMSET_REJECT_TRUNCATED, 0);
    in->offset = 0;
    in->packed_bytes = in->bytes = 6;
    in->has_crc = 1;
    in->crc32 = 0x4b8e39ef; /* of "abcdef" */
    CHECK_INT(run(), SLIMSET_OK);
    in->crc32 ^= 1;
    rejects(SLIMSET_REJECT_CHECKSUM, 0);
    in->has_crc = 0;
    in->packed_bytes = in->bytes = (uint64_t)5 << 30;
    rejects(SLIMSET_REJECT_TOO_LARGE, 0);
}

static void test_many_inputs(void)
{
    begin("64");
    for (int i = 0; i < ITEM_INPUTS_MAX; i++) {
        char text[16];
        add(SLIMSET_ROLE_COPY, SLIMSET_CODEC_KEEP, text,
            (size_t)snprintf(text, sizeof text, "%d", i));
    }
    CHECK_INT(run(), SLIMSET_OK);
    CHECK(field(199)->payload_bytes == 3 && memcmp(payload(199), "199", 3) == 0);
    request.input[150].packed_bytes = 99;
    rejects(SLIMSET_REJECT_TRUNCATED, 150);
}

/* --- the same bytes --------------------------------------------------------------------------- */

/* An answer does not depend on what the converter did before. */
static void test_no_memory_of_others(void)
{
    struct buf jpeg = jpeg_picture(301, 203, 95);
    make(IMAGE_RGB, true, 8, 150, 90);
    struct buf png = png_of(0);
    make_labels(301, 203, 30);
    struct buf mask = png_of(0), first = {0};
    begin("pad:128x128");
    struct converter *c = converter_new(&recipe, false);
    for (int round = 0; round < 3; round++) {
        begin("pad:128x128");
        add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &jpeg);
        add_buf(SLIMSET_ROLE_MASK, SLIMSET_CODEC_PNG, &mask);
        CHECK_INT(convert_item(c, &request, fds, &blob, &err), SLIMSET_OK);
        if (round == 0)
            CHECK_INT(buf_append(&first, blob.data, blob.len, &err), SLIMSET_OK);
        else
            CHECK(first.len == blob.len && memcmp(first.data, blob.data, blob.len) == 0);
        begin("pad:128x128"); /* others in between: another kind, a failure */
        add_buf(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, &png);
        CHECK_INT(convert_item(c, &request, fds, &blob, &err), SLIMSET_OK);
        begin("pad:128x128");
        add(SLIMSET_ROLE_IMAGE, SLIMSET_CODEC_JPEG, jpeg.data, jpeg.len / (unsigned)(round + 2));
        CHECK_INT(convert_item(c, &request, fds, &blob, &err), SLIMSET_OK);
        CHECK_INT(answer()->status, SLIMSET_BAD_INPUT);
    }
    converter_free(c);
    buf_fini(&jpeg);
    buf_fini(&png);
    buf_fini(&mask);
    buf_fini(&first);
}

/* Damaged inputs of all kinds: always an answer that the coordinator can take, and never the
 * machine's fault. */
static void test_damaged_inputs(void)
{
    uint32_t seed = 7;
    struct buf good[4];
    good[0] = jpeg_picture(64, 48, 80);
    add_exif(&good[0], 6);
    make(IMAGE_RGB, true, 8, 40, 30);
    good[1] = png_of(0);
    make_labels(48, 64, 4);
    good[2] = png_of(2);
    make(IMAGE_GRAY, false, 16, 48, 64);
    good[3] = png_of(0);
    for (int round = 0; round < 600; round++) {
        begin(round % 2 == 0 ? "pad:30x30" : NULL);
        request.op = round % 5 == 4 ? ITEM_PROBE : round % 5 == 3 ? ITEM_CHECK : ITEM_CONVERT;
        for (int k = 0; k < 2; k++) {
            struct buf bad = {0};
            seed = seed * 1664525 + 1013904223;
            const struct buf *from = &good[(seed >> 20) % 4];
            CHECK_INT(buf_append(&bad, from->data, from->len, &err), SLIMSET_OK);
            for (int n = (int)(seed >> 28); n > 0; n--) {
                seed = seed * 1664525 + 1013904223;
                bad.data[(seed >> 8) % bad.len] ^= (uint8_t)(1u << (seed >> 29));
            }
            seed = seed * 1664525 + 1013904223;
            size_t cut = (seed >> 24) < 40 ? (seed >> 4) % bad.len : bad.len;
            add(k == 0 ? SLIMSET_ROLE_IMAGE : SLIMSET_ROLE_MASK,
                (enum slimset_codec)((seed >> 10) % 3), bad.data, cut);
            buf_fini(&bad);
        }
        enum slimset_status st = run();
        if (st != SLIMSET_OK && st != SLIMSET_BAD_INPUT)
            printf("  round %d: status %d\n", round, st);
        CHECK(st == SLIMSET_OK || st == SLIMSET_BAD_INPUT);
    }
    for (int i = 0; i < 4; i++)
        buf_fini(&good[i]);
}

int main(void)
{
    decoder = decoder_new(&image_limits_default, false);
    RUN(test_copy);
    RUN(test_lossless);
    RUN(test_lossless_still_refuses_damage);
    RUN(test_already_fits);
    RUN(test_reencode_all);
    RUN(test_resize_jpeg);
    RUN(test_orientation);
    RUN(test_png_to_jpeg_and_png);
    RUN(test_npy);
    RUN(test_channels);
    RUN(test_alpha);
    RUN(test_16_bits);
    RUN(test_mask);
    RUN(test_palette_mask);
    RUN(test_lost_classes);
    RUN(test_depth_map);
    RUN(test_depth_map_of_few_bits);
    RUN(test_padded_mask);
    RUN(test_pairs);
    RUN(test_sizes_agree);
    RUN(test_probe);
    RUN(test_hash);
    RUN(test_check);
    RUN(test_bad_inputs);
    RUN(test_need_slow);
    RUN(test_input_faults);
    RUN(test_many_inputs);
    RUN(test_no_memory_of_others);
    RUN(test_damaged_inputs);
    begin(NULL);
    decoder_free(decoder);
    image_fini(&picture);
    image_fini(&decoded);
    buf_fini(&blob);
    return check_done();
}
