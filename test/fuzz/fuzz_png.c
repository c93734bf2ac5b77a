/* SPDX-License-Identifier: Apache-2.0
 * The PNG reader: decode and check agree, a strip changes no pixel. */
#include "fuzz.h"

#include "png_chunks.h"
#include "png_read.h"

/* Mutation breaks the checksums of chunks, and nothing behind them would be reached: they are
 * mended, in every second input. */
static void mend(uint8_t *p, size_t n)
{
    for (size_t at = PNG_SIGNATURE_BYTES; n >= PNG_CHUNK_EXTRA && at <= n - PNG_CHUNK_EXTRA;) {
        uint32_t len = get_be32(p + at), crc = 0xffffffffu;
        if (len > n - at - PNG_CHUNK_EXTRA)
            return;
        for (size_t i = 0; i < len + 4u; i++) {
            crc ^= p[at + 4 + i];
            for (int k = 0; k < 8; k++)
                crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
        }
        put_be32(p + at + 8 + len, ~crc);
        at += PNG_CHUNK_EXTRA + (size_t)len;
    }
}

static void all(struct png_reader *r, const uint8_t *data, size_t n)
{
    static struct image a, b, labels;
    struct slimset_error err = {0};
    struct image_info info, info2;
    struct buf strip = {0}, icc = {0};
    uint32_t notes = 0, notes2 = 0, ignored = 0;
    memset(&info, 0, sizeof info);
    enum slimset_status head = png_read_header(r, data, n, &info, &err);
    fuzz_fault(head, &err);
    if (head != SLIMSET_OK)
        return;
    MUST((uint64_t)info.w * info.h <= fuzz_limits.max_pixels && info.w != 0 && info.h != 0);
    enum slimset_status st = png_decode(r, data, n, &info, false, &a, &notes, &err);
    fuzz_fault(st, &err);
    enum slimset_status check = png_check(r, data, n, &info, &notes2, &err);
    fuzz_fault(check, &err);
    MUST(st == check && (st != SLIMSET_OK || (notes & ~NOTE_EXPANDED) == notes2));
    enum slimset_status label = png_decode(r, data, n, &info, true, &labels, &ignored, &err);
    fuzz_fault(label, &err);
    MUST(label == st);
    fuzz_fault(png_icc(r, data, n, &icc, &err), &err);
    MUST(icc.len <= 4u << 20);
    if (st == SLIMSET_OK) {
        MUST(png_strip(data, n, &strip, &err) == SLIMSET_OK);
        memset(&info2, 0, sizeof info2);
        MUST(png_read_header(r, strip.data, strip.len, &info2, &err) == SLIMSET_OK);
        MUST(info2.w == info.w && info2.h == info.h && info2.bits == info.bits && info2.alpha == info.alpha);
        MUST(png_decode(r, strip.data, strip.len, &info2, false, &b, &ignored, &err) == SLIMSET_OK);
        MUST(fuzz_hash(&a) == fuzz_hash(&b));
    }
    buf_fini(&icc);
    buf_fini(&strip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct png_reader *r;
    if (r == NULL)
        r = png_reader_new(&fuzz_limits);
    all(r, data, n);
    uint8_t *mended = malloc(n + 1);
    MUST(mended != NULL);
    memcpy(mended, data, n);
    mend(mended, n);
    if (memcmp(mended, data, n) != 0)
        all(r, mended, n);
    free(mended);
    return 0;
}
