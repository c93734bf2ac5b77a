/* SPDX-License-Identifier: Apache-2.0
 * BMP and PNM. */
#include "fuzz.h"

#include "bmp_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct image a, b;
    struct slimset_error err = {0};
    struct image_info info;
    for (int pnm = 0; pnm < 2; pnm++) {
        uint32_t notes = 0;
        memset(&info, 0, sizeof info);
        enum slimset_status st = pnm ? pnm_read_header(data, n, &fuzz_limits, &info, &err)
                                     : bmp_read_header(data, n, &fuzz_limits, &info, &err);
        fuzz_fault(st, &err);
        if (st != SLIMSET_OK)
            continue;
        MUST((uint64_t)info.w * info.h <= fuzz_limits.max_pixels && info.w != 0 && info.h != 0);
        st = pnm ? pnm_decode(data, n, &info, &a, &notes, &err) : bmp_decode(data, n, &info, &a, &notes, &err);
        fuzz_fault(st, &err);
        if (st != SLIMSET_OK)
            continue;
        uint64_t hash = fuzz_hash(&a);
        st = pnm ? pnm_decode(data, n, &info, &b, &notes, &err) : bmp_decode(data, n, &info, &b, &notes, &err);
        MUST(st == SLIMSET_OK && hash == fuzz_hash(&b));
    }
    return 0;
}
