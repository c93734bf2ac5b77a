/* SPDX-License-Identifier: Apache-2.0
 *
 * The libraries in this program, for people. libvips is not among them: only a slow worker can tell (pool_vips_version).
 */
#ifndef VERSIONS_H
#define VERSIONS_H

#include <stdbool.h>

struct library_version {
    const char *name, *text; /* static */
};

/* The i-th; false behind the last. */
bool library_version(unsigned i, struct library_version *v);

#endif
