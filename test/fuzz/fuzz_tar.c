/* SPDX-License-Identifier: Apache-2.0
 * A tar from header to header, and its members. The checksums of headers are mended in a second try. */
#include "fuzz_archive.h"

static void mend(uint8_t *p, size_t n)
{
    for (size_t at = 0; at + 512 <= n; at += 512) {
        unsigned sum = 0;
        char text[9];
        if (memcmp(p + at + 257, "ustar", 5) != 0)
            continue;
        for (size_t i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? ' ' : p[at + i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(p + at + 148, text, 7);
        p[at + 155] = ' ';
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *mended = malloc(n + 1);
    MUST(mended != NULL);
    memcpy(mended, data, n);
    mend(mended, n);
    MUST(fuzz_list(data, n, FORMAT_TAR) == fuzz_list(data, n, FORMAT_TAR));
    fuzz_list(mended, n, FORMAT_TAR);
    free(mended);
    return 0;
}
