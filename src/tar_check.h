/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a block of a shard the ustar header that slimset writes? Stricter than any tar reader, because
 * a shard has to work in all of them: regular files only, name in the name and prefix fields, octal
 * numbers, right checksum. Pure functions on the caller's bytes.
 */
#ifndef TAR_CHECK_H
#define TAR_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TAR_CHECK_BLOCK = 512,
    TAR_CHECK_END = 1024,  /* two blocks of zeros end an archive; nothing follows */
    TAR_CHECK_WHY = 160    /* bytes of the explanation */
};

/* Zeros that fill a member of n bytes up to a whole block. */
static inline unsigned tar_check_padding(uint64_t n)
{
    return (unsigned)(-n % TAR_CHECK_BLOCK);
}

/* Checks one header block against the member it must announce: `name` of name_n bytes and its size.
 * On false `why` (TAR_CHECK_WHY bytes) says what is wrong. */
bool tar_check_header(const uint8_t block[TAR_CHECK_BLOCK], const char *name, size_t name_n,
                      uint64_t bytes, char *why);

/* Are all n bytes zero? */
bool tar_check_zeros(const uint8_t *p, size_t n);

#endif
