/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's own inflate and CRC, judged by zlib: what zlib made must come out, in whatever
 * pieces; what zlib refuses must be refused; what is damaged must never come out as right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "check.h"
#include "inflate.h"

static uint64_t seed = 1;
static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Contents of several kinds, n bytes. */
static void fill(uint8_t *p, size_t n, unsigned kind)
{
    for (size_t i = 0; i < n; i++)
        switch (kind) {
        case 0: /* noise */
            p[i] = (uint8_t)rnd(256);
            break;
        case 1: /* one byte */
            p[i] = 7;
            break;
        case 2: /* far and near repetition */
            p[i] = i > 40000 && rnd(8) != 0 ? p[i - 32768] : i > 9 && rnd(5) != 0 ? p[i - 1 - rnd(9)] : (uint8_t)rnd(256);
            break;
        case 3: /* few symbols */
            p[i] = (uint8_t)(rnd(7) * rnd(7));
            break;
        default: /* a picture's differences */
            p[i] = (uint8_t)(rnd(5) + rnd(5) + rnd(5) - 6);
        }
}

/* A zlib stream without its two leading bytes. */
static size_t deflate_to(uint8_t *to, size_t cap, const uint8_t *p, size_t n, int level, int strategy)
{
    z_stream s = {0};
    CHECK_INT(deflateInit2(&s, level, Z_DEFLATED, 15, 9, strategy), Z_OK);
    s.next_in = (Bytef *)p;
    s.avail_in = (uInt)n;
    s.next_out = to;
    s.avail_out = (uInt)cap;
    CHECK_INT(deflate(&s, Z_FINISH), Z_STREAM_END);
    size_t made = s.total_out;
    deflateEnd(&s);
    memmove(to, to + 2, made - 2);
    return made - 2;
}

/* Inflates in pieces of at most in_piece and out_piece bytes (0: any). How it ended; *n bytes. */
static enum inflate_step run(struct inflater *z, const uint8_t *in, size_t in_n, size_t in_piece, uint8_t *out,
                             size_t cap, size_t out_piece, size_t *n)
{
    size_t taken = 0, idle = 0;
    *n = 0;
    inflater_start(z);
    for (;;) {
        size_t a = in_n - taken, b = cap - *n;
        if (in_piece != 0 && a > in_piece)
            a = 1 + rnd((uint32_t)in_piece);
        if (out_piece != 0 && b > out_piece)
            b = 1 + rnd((uint32_t)out_piece);
        struct inflate_io io = {in + taken, a, out + *n, b};
        enum inflate_step step = inflater_run(z, &io);
        size_t moved = (size_t)(io.in - in) - taken + (size_t)(io.out - out) - *n;
        taken = (size_t)(io.in - in);
        *n = (size_t)(io.out - out);
        if (step == INFLATE_DONE) /* what was taken too much lies before what is left */
            CHECK(taken - inflater_surplus(z) <= in_n);
        if (step != INFLATE_GOING)
            return step;
        idle = moved == 0 ? idle + 1 : 0;
        if (idle > 2)
            return INFLATE_GOING;
    }
}

enum { SIZE = 300000 };
static uint8_t plain[SIZE], packed[SIZE + 4096], out[SIZE + 65536], bad[SIZE + 4096];

static void test_what_zlib_makes(void)
{
    struct inflater *z = inflater_new();
    static const int levels[] = {0, 1, 6, 9};
    static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
    static const size_t pieces[] = {0, 1, 7, 1000, 70000};
    for (unsigned kind = 0; kind < 5; kind++)
        for (unsigned l = 0; l < 4; l++)
            for (unsigned s = 0; s < 5; s++) {
                size_t n = s == 0 ? SIZE : 1 + rnd(50000), got;
                fill(plain, n, kind);
                size_t m = deflate_to(packed, sizeof packed, plain, n, levels[l], strategies[s]);
                for (unsigned p = 0; p < 5; p++) {
                    size_t in_piece = pieces[p], out_piece = pieces[rnd(5)];
                    CHECK_INT(run(z, packed, m, in_piece, out, sizeof out, out_piece, &got), INFLATE_DONE);
                    CHECK_INT(got, n);
                    CHECK(memcmp(out, plain, n) == 0);
                    CHECK_INT(inflater_surplus(z), 0);
                }
            }
    inflater_free(z);
}

static void test_short_ones(void)
{
    struct inflater *z = inflater_new();
    for (size_t n = 0; n < 300; n++) {
        size_t got;
        fill(plain, n, (unsigned)(n % 5));
        size_t m = deflate_to(packed, sizeof packed, plain, n, (int)(n % 10), Z_DEFAULT_STRATEGY);
        for (size_t cut = 0; cut < m; cut++) /* every truncation wants more */
            CHECK_INT(run(z, packed, cut, 0, out, sizeof out, 0, &got), INFLATE_GOING);
        CHECK_INT(run(z, packed, m, 0, out, sizeof out, 0, &got), INFLATE_DONE);
        CHECK_INT(got, n);
        CHECK(memcmp(out, plain, n) == 0);
        memcpy(packed + m, "behind the end", 14); /* is left, or told */
        CHECK_INT(run(z, packed, m + 14, 0, out, sizeof out, 0, &got), INFLATE_DONE);
        CHECK_INT(got, n);
        packed[m - 1] ^= 1;
        CHECK_INT(run(z, packed, m, 0, out, sizeof out, 0, &got), INFLATE_BAD_SUM);
    }
    inflater_free(z);
}

/* zlib's word on a raw deflate stream followed by an Adler-32: 0 right, 1 wants more, 2 bad. */
static int zlib_says(const uint8_t *in, size_t in_n, uint8_t *to, size_t cap, size_t *n)
{
    static const uint8_t head[2] = {0x78, 0x9c};
    z_stream s = {0};
    inflateInit(&s);
    s.next_in = (Bytef *)head;
    s.avail_in = 2;
    s.next_out = to;
    s.avail_out = (uInt)cap;
    inflate(&s, Z_NO_FLUSH);
    s.next_in = (Bytef *)in;
    s.avail_in = (uInt)in_n;
    int rc = inflate(&s, Z_NO_FLUSH);
    *n = s.total_out;
    int left = s.avail_in != 0;
    inflateEnd(&s);
    return rc == Z_STREAM_END ? 0 : rc == Z_OK || (rc == Z_BUF_ERROR && !left) ? 1 : 2;
}

/* Bits flipped anywhere: the same judgement as zlib's, and the same bytes where it is right. */
static void test_damage(void)
{
    struct inflater *z = inflater_new();
    static uint8_t theirs[SIZE + 65536];
    for (unsigned round = 0; round < 8000; round++) {
        size_t n = 1 + rnd(2000), got, their_n;
        fill(plain, n, rnd(5));
        size_t m = deflate_to(packed, sizeof packed, plain, n, 1 + (int)rnd(9), (int)rnd(5));
        memcpy(bad, packed, m);
        size_t at = rnd(3) != 0 ? rnd((uint32_t)(m < 60 ? m : 60)) : rnd((uint32_t)m); /* tables lie in front */
        bad[at] ^= (uint8_t)(1u << rnd(8));
        int says = zlib_says(bad, m, theirs, 100000, &their_n);
        enum inflate_step step = run(z, bad, m, rnd(2) != 0 ? 0 : 5, out, 100000, 0, &got);
        if (their_n == 100000 || got == 100000)
            continue; /* stopped by room */
        if (says == 0) {
            CHECK_INT(step, INFLATE_DONE);
            CHECK_INT(got, their_n);
            CHECK(memcmp(out, theirs, got) == 0);
        } else if (says == 1) {
            CHECK_INT(step, INFLATE_GOING);
        } else { /* where input ends inside an invalid code, waiting for more is right as well */
            CHECK(step == INFLATE_BAD || step == INFLATE_BAD_SUM || step == INFLATE_GOING);
        }
    }
    inflater_free(z);
}

/* Made by hand: what encoders do not write. */
static void test_made_by_hand(void)
{
    struct inflater *z = inflater_new();
    size_t got;
    static const struct {
        uint8_t bytes[8];
        size_t n;
        enum inflate_step step;
    } cases[] = {
        {{0x07}, 1, INFLATE_BAD},                                  /* block type 3 */
        {{0x01, 1, 0, 0xfe, 0xfe}, 5, INFLATE_BAD},                /* sizes that do not agree */
        {{0x03, 0x00, 0, 0, 0, 1}, 6, INFLATE_DONE},               /* an empty fixed block */
        {{0x01, 0, 0, 0xff, 0xff, 0, 0, 0}, 8, INFLATE_GOING},     /* an empty stored one, no trailer */
        {{0xfd, 0xff, 0xff, 0xff}, 4, INFLATE_BAD},                /* 288 + 32 symbols */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static uint8_t theirs[100];
        size_t their_n;
        int says = zlib_says(cases[i].bytes, cases[i].n, theirs, sizeof theirs, &their_n);
        enum inflate_step step = run(z, cases[i].bytes, cases[i].n, 0, out, sizeof out, 0, &got);
        CHECK_INT(step == INFLATE_DONE ? 0 : step == INFLATE_GOING ? 1 : 2, says);
        CHECK_INT(step, cases[i].step);
    }
    inflater_free(z);
}

static void test_crc(void)
{
    fill(plain, 5000, 0);
    CHECK_INT(inflate_crc32((const uint8_t *)"123456789", 9), 0xCBF43926);
    for (size_t n = 0; n < 400; n++)
        for (size_t at = 0; at < 9; at++)
            CHECK_INT(inflate_crc32(plain + at, n), crc32(0, plain + at, (uInt)n));
}

int main(void)
{
    RUN(test_what_zlib_makes);
    RUN(test_short_ones);
    RUN(test_damage);
    RUN(test_made_by_hand);
    RUN(test_crc);
    return check_done();
}
