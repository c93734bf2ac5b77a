/* SPDX-License-Identifier: Apache-2.0
 * JPEG: markers, decoding at every scale, check, strip, profile. */
#include "fuzz.h"

#include "jpeg_markers.h"
#include "jpeg_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct jpeg_reader *r;
    static struct image a, b;
    struct slimset_error err = {0};
    struct image_info info, info2;
    struct jpeg_facts facts;
    struct buf strip = {0}, icc = {0};
    uint32_t notes = 0, notes2 = 0, ignored = 0;
    if (r == NULL)
        r = jpeg_reader_new(&fuzz_limits);
    memset(&info, 0, sizeof info);
    fuzz_fault(jpeg_facts_read(data, n, &facts, &err), &err);
    enum slimset_status st = jpeg_icc(data, n, &icc, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_NOT_FOUND || st == SLIMSET_BAD_INPUT);
    buf_fini(&icc);
    st = jpeg_reader_header(r, data, n, &info, &err);
    fuzz_fault(st, &err);
    if (st != SLIMSET_OK)
        return 0;
    MUST((uint64_t)info.w * info.h <= fuzz_limits.max_pixels && info.orientation >= 1 && info.orientation <= 8);
    enum slimset_status check = jpeg_check(r, data, n, &info, &notes2, &err);
    fuzz_fault(check, &err);
    st = jpeg_decode(r, data, n, &info, 1, &a, &notes, &err);
    fuzz_fault(st, &err);
    MUST(st == check && (st != SLIMSET_OK || notes == notes2));
    for (unsigned denom = 2; denom <= 8; denom *= 2) {
        enum slimset_status scaled = jpeg_decode(r, data, n, &info, denom, &b, &ignored, &err);
        fuzz_fault(scaled, &err);
        MUST(scaled == st);
    }
    if (info.colour == IMAGE_YCC) {
        struct image_info rgb = info;
        rgb.colour = IMAGE_RGB;
        MUST(jpeg_decode(r, data, n, &rgb, 1, &b, &ignored, &err) == st);
    }
    if (st == SLIMSET_OK) {
        MUST(jpeg_strip(data, n, &strip, &err) == SLIMSET_OK);
        memset(&info2, 0, sizeof info2);
        MUST(jpeg_reader_header(r, strip.data, strip.len, &info2, &err) == SLIMSET_OK);
        MUST(info2.w == info.w && info2.h == info.h && info2.colour == info.colour);
        MUST(jpeg_decode(r, strip.data, strip.len, &info2, 1, &b, &ignored, &err) == SLIMSET_OK);
        MUST(fuzz_hash(&a) == fuzz_hash(&b));
    }
    buf_fini(&strip);
    return 0;
}
