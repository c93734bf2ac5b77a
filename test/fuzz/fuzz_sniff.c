/* SPDX-License-Identifier: Apache-2.0
 * Formats by their first bytes; EXIF; the tags of a TIFF; the chunks and boxes of other formats. */
#include "fuzz.h"

#include "container.h"
#include "exif.h"
#include "sniff.h"
#include "tiff_tags.h"

static void inside(const uint8_t *data, size_t n, const uint8_t *p, size_t bytes)
{
    MUST(p == NULL || (p >= data && bytes <= n && (size_t)(p - data) <= n - bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_error err = {0};
    enum image_format f = sniff(data, n);
    MUST(f < FORMAT_COUNT);
    MUST(f == sniff(data, n < SNIFF_BYTES ? n : SNIFF_BYTES));
    fuzz_fault(sniff_refuse(f, n, &err), &err);
    int exif = exif_orientation(data, n);
    uint8_t tiff = tiff_exif_orientation(data, n);
    MUST(exif >= 1 && exif <= 8 && tiff >= 1 && tiff <= 8);
    struct tiff_tags t;
    memset(&t, 0, sizeof t);
    enum slimset_status st = tiff_tags_read(data, n, &fuzz_limits, &t, &err);
    fuzz_fault(st, &err);
    if (st == SLIMSET_OK) {
        inside(data, n, t.icc, t.icc_bytes);
        MUST((uint64_t)t.w * t.h <= fuzz_limits.max_pixels && t.w != 0 && t.h != 0);
        MUST(t.orientation >= 1 && t.orientation <= 8);
    }
    static const enum image_format formats[] = {FORMAT_WEBP, FORMAT_GIF, FORMAT_HEIF, FORMAT_AVIF,
                                                FORMAT_JXL,  FORMAT_JP2};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct container_facts facts;
        memset(&facts, 0, sizeof facts);
        st = container_check(data, n, formats[i], &fuzz_limits, &facts, &err);
        fuzz_fault(st, &err);
        if (st == SLIMSET_OK)
            inside(data, n, facts.icc, facts.icc_bytes);
    }
    return 0;
}
