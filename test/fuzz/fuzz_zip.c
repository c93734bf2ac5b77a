/* SPDX-License-Identifier: Apache-2.0
 * The directory of a zip, and its members. */
#include "fuzz_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    MUST(fuzz_list(data, n, FORMAT_ZIP) == fuzz_list(data, n, FORMAT_ZIP));
    return 0;
}
