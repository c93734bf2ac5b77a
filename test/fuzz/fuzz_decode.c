/* SPDX-License-Identifier: Apache-2.0
 * slimset_decode_bytes as a program that trains calls it: any options, any bytes; with the library's own inflate. */
#include "fuzz.h"

#include "slimset/reader.h"

enum { HEAD = 12, PIXELS_MAX = 1 << 20 };

static void choose(struct slimset_decode_options *o, const uint8_t *p)
{
    slimset_decode_options_init(o);
    o->channels = p[0] % 8 < 5 ? p[0] % 8 : 0;
    o->layout = p[0] & 128 ? SLIMSET_CHW : SLIMSET_HWC;
    o->scale = p[1] % 8 < 4 ? (uint8_t)(1 << p[1] % 4) : p[1] % 8 < 7 ? 0 : p[1];
    o->min_w = p[2];
    o->min_h = p[3];
    if (p[4] & 1)
        o->crop = (struct slimset_box){p[5], p[6], p[7], p[8]};
    if (p[4] & 2)
        o->stride_bytes = p[9] + p[10] * 256u;
    if (p[4] == 255)
        o->stride_bytes = SIZE_MAX - p[9];
}

static void stands(enum slimset_status st, const struct slimset_error *err)
{
    if (st == SLIMSET_OK)
        return;
    MUST(st == SLIMSET_BAD_INPUT || st == SLIMSET_NEED_SLOW || st == SLIMSET_USAGE || st == SLIMSET_LIMIT || st == SLIMSET_DAMAGED ||
         st == SLIMSET_NOT_FOUND);
    MUST(err->text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_decode_options o;
    struct slimset_pixels all, size, made;
    struct slimset_error err = {0};
    if (n < HEAD)
        return 0;
    uint8_t *copy = malloc(n - HEAD + 1); /* of the exact size, so that reading beyond is seen */
    MUST(copy != NULL);
    memcpy(copy, data + HEAD, n - HEAD);
    choose(&o, data);
    enum slimset_status st = slimset_decode_bytes(copy, n - HEAD, NULL, NULL, 0, &all, &err);
    stands(st, &err);
    if (st == SLIMSET_OK && (uint64_t)all.w * all.h <= PIXELS_MAX) {
        MUST(all.w > 0 && all.h > 0 && all.channels >= 1 && all.channels <= 4 && (all.bits == 8 || all.bits == 16));
        MUST(all.bytes == (size_t)all.w * all.h * all.channels * (all.bits / 8));
        st = slimset_decode_bytes(copy, n - HEAD, &o, NULL, 0, &size, &err);
        stands(st, &err);
    }
    if (st == SLIMSET_OK && (uint64_t)all.w * all.h <= PIXELS_MAX && size.bytes <= 64u << 20) {
        MUST(size.bytes > 0 && size.w <= all.w && size.h <= all.h && (o.channels == 0 || size.channels == o.channels));
        uint8_t *buf = malloc(size.bytes), *again = malloc(size.bytes);
        MUST(buf != NULL && again != NULL);
        memset(buf, 0x55, size.bytes);
        memset(again, 0xaa, size.bytes);
        st = slimset_decode_bytes(copy, n - HEAD, &o, buf, size.bytes, &made, &err);
        stands(st, &err);
        MUST(slimset_decode_bytes(copy, n - HEAD, &o, again, size.bytes, &made, &err) == st);
        if (st == SLIMSET_OK) { /* every byte was written, or belongs to a gap between rows */
            MUST(made.w == size.w && made.h == size.h && made.channels == size.channels && made.bytes == size.bytes);
            MUST(o.stride_bytes != 0 || memcmp(buf, again, size.bytes) == 0);
            MUST(slimset_decode_bytes(copy, n - HEAD, &o, buf, size.bytes - 1, &made, &err) == SLIMSET_LIMIT);
        }
        free(buf);
        free(again);
    }
    free(copy);
    return 0;
}
