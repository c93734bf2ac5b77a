/* SPDX-License-Identifier: Apache-2.0
 *
 * array_write.h and array_read.h: what is written comes back, whatever the pieces it came in; and every frame that is not what this
 * project writes is refused: without its size, with a window that is too large, cut off, flipped, with something behind it.
 */
#include "array_read.h"

#include <stdlib.h>
#include <zstd.h>

#include "array_write.h"
#include "check.h"

static struct slimset_error err;
static struct array_writer *writer;
static struct array_reader *reader;
static struct buf npy, stored; /* a .npy of 300,000 values; what is stored of it */

static void make_npy(void)
{
    struct npy a = {.major = 1, .ndim = 2, .shape = {300, 1000}, .count = 300000};
    npy_set_type(&a, 'u', 2);
    npy.len = 0;
    CHECK_INT(npy_header(&a, &npy, &err), SLIMSET_OK);
    CHECK_INT((long long)npy.len, 128);
    for (uint32_t i = 0; i < 300000; i++) {
        uint8_t v[2] = {(uint8_t)(i * 7919 >> 3), (uint8_t)(i >> 12)};
        CHECK_INT(buf_append(&npy, v, 2, &err), SLIMSET_OK);
    }
}

static void store(struct array_codec c, size_t piece)
{
    struct array_sink sink = {.buf = &stored, .fd = -1};
    uint64_t bytes = 0;
    stored.len = 0;
    CHECK_INT(array_writer_begin(writer, c, npy.len, 2, "a.npy", &sink, &err), SLIMSET_OK);
    for (size_t at = 0; at < npy.len; at += piece)
        CHECK_INT(array_writer_put(writer, npy.data + at, npy.len - at < piece ? npy.len - at : piece, &err), SLIMSET_OK);
    CHECK_INT(array_writer_end(writer, &bytes, &err), SLIMSET_OK);
    CHECK_INT((long long)bytes, (long long)stored.len);
}

/* Reads n bytes as the format, in pieces; what comes out of a good one must be npy. */
static enum slimset_status load(enum image_format format, const uint8_t *p, size_t n, size_t piece)
{
    struct array_bytes from = {p, n};
    struct npy a;
    uint8_t *got = malloc(1 << 20);
    bool same = true;
    enum slimset_status st = array_reader_begin(reader, format, array_get_bytes, &from, n, &a, &err);
    for (uint64_t at = 0; st == SLIMSET_OK && at < a.data_bytes; at += piece) {
        size_t step = a.data_bytes - at < piece ? (size_t)(a.data_bytes - at) : piece;
        st = array_reader_read(reader, got, step, &err);
        if (st == SLIMSET_OK)
            same = same && memcmp(got, npy.data + 128 + at, step) == 0;
    }
    if (st == SLIMSET_OK)
        st = array_reader_end(reader, &err);
    if (st == SLIMSET_OK)
        CHECK(same && a.count == 300000 && a.ndim == 2 && a.itemsize == 2 && a.shape[1] == 1000);
    free(got);
    return st;
}

static const struct array_codec zstd = {.codec = SLIMSET_CODEC_NPY_ZST, .level = ARRAY_LEVEL_DEFAULT};
static const struct array_codec blosc = {.codec = SLIMSET_CODEC_NPY_BLOSC, .filter = ARRAY_SHUFFLE, .level = ARRAY_LEVEL_DEFAULT};

static void test_there_and_back(void)
{
    static const uint8_t levels[] = {ARRAY_LEVEL_FAST, ARRAY_LEVEL_DEFAULT, ARRAY_LEVEL_MAX, 1, 5, 9, 19};
    for (size_t i = 0; i < sizeof levels; i++) {
        struct array_codec c = zstd;
        c.level = levels[i];
        store(c, npy.len);
        CHECK_INT(load(FORMAT_NPY_ZST, stored.data, stored.len, 1 << 20), SLIMSET_OK);
        CHECK_INT(load(FORMAT_NPY_ZST, stored.data, stored.len, 999), SLIMSET_OK);
        CHECK(stored.len < npy.len / 2);
    }
    CHECK_INT(load(FORMAT_NPY, npy.data, npy.len, 1000), SLIMSET_OK);
    for (uint8_t filter = ARRAY_SHUFFLE; filter <= ARRAY_BITSHUFFLE && array_codec_usable(SLIMSET_CODEC_NPY_BLOSC); filter++) {
        struct array_codec c = blosc;
        c.filter = filter;
        store(c, 5000);
        CHECK_INT(load(FORMAT_NPY_BLOSC, stored.data, stored.len, 4096), SLIMSET_OK);
    }
}

/* One path for all sizes: the bytes do not depend on how they came. */
static void test_pieces_do_not_matter(void)
{
    struct buf first = {0};
    store(zstd, npy.len);
    CHECK_INT(buf_append(&first, stored.data, stored.len, &err), SLIMSET_OK);
    static const size_t pieces[] = {1 << 20, 131072, 131071, 4096, 77777};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        store(zstd, pieces[i]);
        CHECK(stored.len == first.len && memcmp(stored.data, first.data, first.len) == 0);
    }
    CHECK_INT((long long)ZSTD_getFrameContentSize(first.data, first.len), (long long)npy.len);
    CHECK(first.data[4] & 4); /* a checksum follows */
    buf_fini(&first);
}

#define DAMAGED(format, p, n)                                                                                                    \
    do {                                                                                                                         \
        err.text[0] = '\0';                                                                                                      \
        CHECK_INT(load(format, p, n, 1 << 16), SLIMSET_DAMAGED);                                                                 \
        CHECK(err.text[0] != '\0');                                                                                              \
    } while (0)

static size_t frame(uint8_t *to, size_t cap, int window, int size_flag, int checksum, const void *data, size_t n)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, size_flag);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checksum);
    size_t made = ZSTD_compress2(c, to, cap, data, n);
    ZSTD_freeCCtx(c);
    return made;
}

static void test_other_frames(void)
{
    size_t cap = 4 << 20, n;
    uint8_t *p = calloc(1, cap);
    n = frame(p, cap, 0, 1, 1, npy.data, npy.len);
    CHECK_INT(load(FORMAT_NPY_ZST, p, n, 1 << 20), SLIMSET_OK); /* the helper is sound */
    DAMAGED(FORMAT_NPY_ZST, p, n - 1);
    DAMAGED(FORMAT_NPY_ZST, p, n / 2);
    DAMAGED(FORMAT_NPY_ZST, p, 3);
    DAMAGED(FORMAT_NPY_ZST, p, n + 1);  /* a byte behind it */
    memcpy(p + n, p, n);
    DAMAGED(FORMAT_NPY_ZST, p, 2 * n);  /* a second frame */
    p[n - 1] ^= 1;
    DAMAGED(FORMAT_NPY_ZST, p, n);      /* another checksum */
    n = frame(p, cap, 0, 0, 1, npy.data, npy.len);
    DAMAGED(FORMAT_NPY_ZST, p, n);      /* no size */
    n = frame(p, cap, 0, 1, 1, npy.data, npy.len - 1);
    DAMAGED(FORMAT_NPY_ZST, p, n);      /* shorter than its header promises */
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
    memcpy(p, skippable, sizeof skippable);
    n = frame(p + 8, cap - 8, 0, 1, 1, npy.data, npy.len);
    DAMAGED(FORMAT_NPY_ZST, p, n + 8);
    /* A frame that declares 2^62 bytes, and a window of 2^28. */
    static const uint8_t huge[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe4, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0};
    DAMAGED(FORMAT_NPY_ZST, huge, sizeof huge);
    static const uint8_t window[] = {0x28, 0xb5, 0x2f, 0xfd, 0xc4, 0x90, 0x80, 0x13, 9, 0, 0, 0, 0, 0, 1, 0, 0};
    DAMAGED(FORMAT_NPY_ZST, window, sizeof window);
    DAMAGED(FORMAT_NPY_ZST, npy.data, npy.len);
    free(p);
}

static void test_flipped_bits(void)
{
    store(zstd, npy.len);
    for (size_t at = 0; at < stored.len; at += stored.len / 200 + 1) {
        stored.data[at] ^= 16;
        CHECK(load(FORMAT_NPY_ZST, stored.data, stored.len, 1 << 16) == SLIMSET_DAMAGED);
        stored.data[at] ^= 16;
    }
    CHECK_INT(load(FORMAT_NPY_ZST, stored.data, stored.len, 1 << 16), SLIMSET_OK);
}

static void test_other_buffers(void)
{
    if (!array_codec_usable(SLIMSET_CODEC_NPY_BLOSC)) {
        printf("skip test_other_buffers: this build has no c-blosc\n");
        return;
    }
    store(blosc, npy.len);
    uint8_t *p = malloc(stored.len + 1);
    memcpy(p, stored.data, stored.len);
    DAMAGED(FORMAT_NPY_BLOSC, p, stored.len - 1);
    DAMAGED(FORMAT_NPY_BLOSC, p, 16);
    DAMAGED(FORMAT_NPY_BLOSC, p, 15);
    DAMAGED(FORMAT_NPY_BLOSC, p, stored.len + 1);
    put_le32(p + 4, 0x7fffff00); /* unpacks to 2 GiB, it says */
    DAMAGED(FORMAT_NPY_BLOSC, p, stored.len);
    put_le32(p + 4, (uint32_t)npy.len - 1);
    CHECK(load(FORMAT_NPY_BLOSC, p, stored.len, 1 << 16) == SLIMSET_DAMAGED);
    memset(p, 0xff, stored.len);
    put_le32(p + 12, (uint32_t)stored.len);
    DAMAGED(FORMAT_NPY_BLOSC, p, stored.len);
    free(p);
}

static void test_what_it_was(void)
{
    struct npy a, source;
    CHECK_INT(npy_parse_text("|u1 (3, 4)", 10, &a, &err), SLIMSET_OK);
    CHECK(array_source(&a, "<i8 (3, 4)", 10, NOTE_NARROWED, &source) && source.itemsize == 8 && source.kind == 'i' && !source.fortran);
    CHECK(array_source(&a, "<i8 (3, 4)", 10, NOTE_NARROWED | NOTE_C_ORDER, &source) && source.fortran);
    CHECK(!array_source(&a, "|u1 (3, 4)", 10, 0, &source));
    CHECK(!array_source(&a, "<i8 (3, 4)", 10, NOTE_NARROWED | NOTE_RESIZED, &source));
    CHECK(!array_source(&a, "<f4 (3, 4)", 10, NOTE_CAST, &source));
    CHECK(!array_source(&a, "<i8 (3, 5)", 10, NOTE_NARROWED, &source)); /* the index says what cannot be */
    CHECK(!array_source(&a, "|O (3, 4)", 9, NOTE_NARROWED, &source));
    CHECK(!array_source(&a, "", 0, NOTE_NARROWED, &source));
}

static void test_words(void)
{
    struct array_codec c;
    bool automatic;
    char text[64];
    static const char *const good[] = {"zstd:default", "zstd:7", "blosc:shuffle:max", "blosc:bitshuffle:3", "npy", "npz", "keep"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK(array_codec_parse(good[i], &c, &automatic) && !automatic);
        array_codec_text(c, text, sizeof text);
        CHECK_STR(text, good[i]);
    }
    CHECK(array_codec_parse("auto:max", &c, &automatic) && automatic && c.level == ARRAY_LEVEL_MAX);
    CHECK(array_codec_parse("blosc", &c, &automatic) && c.codec == SLIMSET_CODEC_NPY_BLOSC && c.filter == ARRAY_SHUFFLE);
    static const char *const bad[] = {"", "zstd:", "zstd:0", "zstd:20", "zstd:3x", "blosc:10", "blosc:shuffle:0", "bloscx", "auto:3", "NPY", "zst"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!array_codec_parse(bad[i], &c, &automatic));
    char clean[ARRAY_NAME_MAX + 1];
    CHECK(array_name_clean("a/b.c d.npy", 11, clean) == 7 && strcmp(clean, "a_b_c_d") == 0);
    CHECK(array_name_clean("", 0, clean) == 1 && strcmp(clean, "_") == 0);
    CHECK(array_name_clean("0123456789012345678901234567890123456789", 40, clean) == 32 && strncmp(clean, "01234567890123456789012-", 24) == 0);
}

int main(void)
{
    writer = array_writer_new();
    reader = array_reader_new();
    make_npy();
    RUN(test_there_and_back);
    RUN(test_pieces_do_not_matter);
    RUN(test_other_frames);
    RUN(test_flipped_bits);
    RUN(test_other_buffers);
    RUN(test_what_it_was);
    RUN(test_words);
    array_writer_free(writer);
    array_reader_free(reader);
    buf_fini(&npy);
    buf_fini(&stored);
    return check_done();
}
