/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Fields of a ustar header: offset and width. */
enum {
    NAME_AT = 0, NAME_N = 100,
    MODE_AT = 100, MODE_N = 8,
    UID_AT = 108, UID_N = 8,
    GID_AT = 116, GID_N = 8,
    SIZE_AT = 124, SIZE_N = 12,
    MTIME_AT = 136, MTIME_N = 12,
    SUM_AT = 148, SUM_N = 8,
    TYPE_AT = 156,
    LINK_AT = 157, LINK_N = 100,
    MAGIC_AT = 257,
    PREFIX_AT = 345, PREFIX_N = 155,
    PAD_AT = 500
};

/* width - 1 octal digits and a NUL: what every reader takes, some (wids) take nothing else. */
static bool octal(const uint8_t *p, size_t width, uint64_t *value)
{
    uint64_t v = 0;
    for (size_t i = 0; i + 1 < width; i++) {
        if (p[i] < '0' || p[i] > '7')
            return false;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    *value = v;
    return p[width - 1] == '\0';
}

/* A size: eleven octal digits, or, only where those do not suffice (8 GiB), 0x80 and eleven bytes
 * of a big-endian number. */
static bool size_field(const uint8_t *p, uint64_t *value)
{
    if (octal(p, SIZE_N, value))
        return true;
    if (p[0] != 0x80 || p[1] != 0 || p[2] != 0 || p[3] != 0)
        return false;
    uint64_t v = 0;
    for (size_t i = 4; i < SIZE_N; i++)
        v = v << 8 | p[i];
    *value = v;
    return v >= (uint64_t)1 << 33;
}

/* Six octal digits, NUL, blank: the spelling of the checksum that all writers share. */
static bool checksum_field(const uint8_t *p, uint64_t *value)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 6; i++) {
        if (p[i] < '0' || p[i] > '7')
            return false;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    *value = v;
    return p[6] == '\0' && p[7] == ' ';
}

static size_t text_n(const uint8_t *p, size_t width)
{
    const uint8_t *end = memchr(p, '\0', width);
    return end != NULL ? (size_t)(end - p) : width;
}

/* Name, or prefix + "/" + name. */
static bool name_is(const uint8_t *block, const char *name, size_t n)
{
    size_t base_n = text_n(block + NAME_AT, NAME_N), prefix_n = text_n(block + PREFIX_AT, PREFIX_N);
    if (prefix_n == 0)
        return base_n == n && memcmp(block + NAME_AT, name, n) == 0;
    return prefix_n + 1 + base_n == n && memcmp(block + PREFIX_AT, name, prefix_n) == 0 &&
           name[prefix_n] == '/' && memcmp(block + NAME_AT, name + prefix_n + 1, base_n) == 0;
}

bool tar_check_zeros(const uint8_t *p, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

bool tar_check_header(const uint8_t block[TAR_CHECK_BLOCK], const char *name, size_t name_n,
                      uint64_t bytes, char *why)
{
    uint64_t sum = 0, want, size, number;
    for (size_t i = 0; i < TAR_CHECK_BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_N ? ' ' : block[i];
    if (tar_check_zeros(block, TAR_CHECK_BLOCK))
        snprintf(why, TAR_CHECK_WHY, "zeros where its tar header should be");
    else if (!checksum_field(block + SUM_AT, &want) || want != sum)
        snprintf(why, TAR_CHECK_WHY, "its tar header does not match the header's checksum");
    else if (memcmp(block + MAGIC_AT, "ustar\0" "00", 8) != 0)
        snprintf(why, TAR_CHECK_WHY, "its tar header is not of the ustar kind");
    else if (block[TYPE_AT] != '0')
        snprintf(why, TAR_CHECK_WHY, "its tar header is not one of a plain file (type 0x%02x)",
                 block[TYPE_AT]);
    else if (!name_is(block, name, name_n))
        snprintf(why, TAR_CHECK_WHY, "its tar header bears another name");
    else if (!size_field(block + SIZE_AT, &size))
        snprintf(why, TAR_CHECK_WHY, "the size in its tar header is not written as it has to be");
    else if (size != bytes)
        snprintf(why, TAR_CHECK_WHY, "its tar header says %" PRIu64 " bytes, the index %" PRIu64,
                 size, bytes);
    else if (!octal(block + MODE_AT, MODE_N, &number) || !octal(block + UID_AT, UID_N, &number) ||
             !octal(block + GID_AT, GID_N, &number) || !octal(block + MTIME_AT, MTIME_N, &number))
        snprintf(why, TAR_CHECK_WHY, "mode, owner or time in its tar header is not octal");
    else if (!tar_check_zeros(block + LINK_AT, LINK_N) ||
             !tar_check_zeros(block + PAD_AT, TAR_CHECK_BLOCK - PAD_AT))
        snprintf(why, TAR_CHECK_WHY, "bytes in its tar header where none belong");
    else
        return true;
    return false;
}
