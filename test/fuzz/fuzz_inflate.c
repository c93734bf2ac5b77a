/* SPDX-License-Identifier: Apache-2.0
 * The library's own inflate (inflate.c), judged by zlib: what zlib accepts comes out the same, what
 * it refuses is refused; in pieces as in one. */
#include "fuzz.h"

#include <zlib.h>

#include "inflate.h"

enum { OUT_BYTES = 1 << 20 };

/* How it ended; *n bytes came out. Pieces of at most in_piece and out_piece bytes. */
static enum inflate_step own(struct inflater *z, const uint8_t *in, size_t in_n, size_t in_piece, size_t out_piece, uint8_t *out,
                             size_t *n, size_t *used)
{
    struct inflate_io io = {.in = in, .out = out};
    enum inflate_step step = INFLATE_GOING;
    unsigned idle = 0;
    inflater_start(z);
    while (step == INFLATE_GOING && idle < 3) {
        size_t in_left = in_n - (size_t)(io.in - in), out_left = OUT_BYTES - (size_t)(io.out - out);
        const uint8_t *in_before = io.in, *out_before = io.out;
        io.in_n = in_left < in_piece ? in_left : in_piece;
        io.out_n = out_left < out_piece ? out_left : out_piece;
        step = inflater_run(z, &io);
        MUST(io.in >= in_before && io.in <= in + in_n && io.out >= out_before && io.out <= out + OUT_BYTES);
        idle = io.in == in_before && io.out == out_before ? idle + 1 : 0;
    }
    *n = (size_t)(io.out - out);
    *used = (size_t)(io.in - in);
    if (step == INFLATE_DONE) {
        MUST(inflater_surplus(z) <= *used);
        *used -= inflater_surplus(z);
    }
    return step;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct inflater *z;
    static uint8_t a[OUT_BYTES], b[OUT_BYTES];
    static const uint8_t head[2] = {0x78, 0x9c};
    size_t whole, pieces, whole_used, pieces_used;
    if (n < 2)
        return 0;
    if (z == NULL)
        MUST((z = inflater_new()) != NULL);
    enum inflate_step first = own(z, data + 2, n - 2, n, OUT_BYTES, a, &whole, &whole_used);
    enum inflate_step second = own(z, data + 2, n - 2, 1 + data[0] % 32u, 1 + data[1] * 8u, b, &pieces, &pieces_used);
    MUST(first == second && (first == INFLATE_BAD || (whole == pieces && memcmp(a, b, whole) == 0)));
    z_stream s = {.next_in = (Bytef *)(uintptr_t)head, .avail_in = 2, .next_out = b, .avail_out = OUT_BYTES};
    MUST(inflateInit(&s) == Z_OK);
    int code = inflate(&s, Z_NO_FLUSH);
    s.next_in = (Bytef *)(uintptr_t)(data + 2);
    s.avail_in = (uInt)(n - 2);
    if (code == Z_OK || code == Z_BUF_ERROR)
        code = inflate(&s, Z_NO_FLUSH);
    if (s.total_out < OUT_BYTES && whole < OUT_BYTES) { /* else one may have looked farther than the other */
        MUST((code == Z_STREAM_END) == (first == INFLATE_DONE));
        MUST((code == Z_DATA_ERROR) == (first == INFLATE_BAD || first == INFLATE_BAD_SUM));
    }
    if (code == Z_STREAM_END && first == INFLATE_DONE)
        MUST(s.total_out == whole && memcmp(a, b, whole) == 0 && s.total_in - 2 == whole_used);
    inflateEnd(&s);
    return 0;
}
