/* SPDX-License-Identifier: Apache-2.0 */
#include "versions.h"

#include <stdio.h> /* jpeglib.h wants FILE */

#include <isa-l.h>
#include <jpeglib.h>
#include <lzma.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#define STRING(x) #x
#define STRING_OF(x) STRING(x)

/* As they run where the library tells it, else as they were compiled against. */
bool library_version(unsigned i, struct library_version *v)
{
    switch (i) {
    case 0: *v = (struct library_version){"libjpeg-turbo", STRING_OF(LIBJPEG_TURBO_VERSION)}; return true;
    case 1: *v = (struct library_version){"zlib", zlibVersion()}; return true;
    case 2:
        *v = (struct library_version){"isa-l", STRING_OF(ISAL_MAJOR_VERSION) "." STRING_OF(ISAL_MINOR_VERSION) "."
                                               STRING_OF(ISAL_PATCH_VERSION)};
        return true;
    case 3: *v = (struct library_version){"zstd", ZSTD_versionString()}; return true;
    case 4: *v = (struct library_version){"liblzma", lzma_version_string()}; return true;
    case 5:
        *v = (struct library_version){"xxhash", STRING_OF(XXH_VERSION_MAJOR) "." STRING_OF(XXH_VERSION_MINOR) "."
                                                STRING_OF(XXH_VERSION_RELEASE)};
        return true;
    default: return false;
    }
}
