/* SPDX-License-Identifier: Apache-2.0
 * gzip, zstd and xz into a file, with its limit. */
#include "archive.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const enum image_format formats[] = {FORMAT_GZIP, FORMAT_ZSTD, FORMAT_XZ};
    enum { LIMIT = 1 << 20 };
    int fd = fuzz_file(data, n);
    for (size_t i = 0; i < 3; i++) {
        struct slimset_error err = {0};
        uint64_t bytes = 0;
        struct stat s;
        int out = fuzz_file(NULL, 0);
        fuzz_fault(archive_spool(fd, 0, n, formats[i], out, LIMIT, NULL, NULL, &bytes, &err), &err);
        MUST(fstat(out, &s) == 0 && (uint64_t)s.st_size == bytes && bytes <= LIMIT);
        close(out);
    }
    close(fd);
    return 0;
}
