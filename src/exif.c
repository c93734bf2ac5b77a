/* SPDX-License-Identifier: Apache-2.0 */
#include "exif.h"

#include <stdbool.h>

#include "base/buf.h"

enum {
    TIFF_HEADER_BYTES = 8,
    TIFF_MAGIC = 42,
    IFD_ENTRY_BYTES = 12, /* tag 2, type 2, count 4, value or offset 4 */
    TAG_ORIENTATION = 274,
    TYPE_BYTE = 1,
    TYPE_SHORT = 3,
    TYPE_LONG = 4
};

static uint32_t get16(const uint8_t *p, bool big) { return big ? get_be16(p) : get_le16(p); }

static uint32_t get32(const uint8_t *p, bool big) { return big ? get_be32(p) : get_le32(p); }

/* The value of an entry of one element, which sits left-aligned in the entry itself; 0 for any
 * other. */
static uint32_t inline_value(const uint8_t *entry, bool big)
{
    if (get32(entry + 4, big) != 1)
        return 0;
    switch (get16(entry + 2, big)) {
    case TYPE_BYTE:
        return entry[8];
    case TYPE_SHORT:
        return get16(entry + 8, big);
    case TYPE_LONG:
        return get32(entry + 8, big);
    default:
        return 0;
    }
}

int exif_orientation(const uint8_t *tiff, size_t n)
{
    if (n < TIFF_HEADER_BYTES + 2)
        return 1;
    bool big = tiff[0] == 'M' && tiff[1] == 'M';
    if (!big && (tiff[0] != 'I' || tiff[1] != 'I'))
        return 1;
    if (get16(tiff + 2, big) != TIFF_MAGIC)
        return 1;
    size_t at = get32(tiff + 4, big);
    if (at < TIFF_HEADER_BYTES || at > n - 2)
        return 1;
    size_t entries = get16(tiff + at, big);
    const uint8_t *entry = tiff + at + 2;
    size_t fit =
        (n - at - 2) / IFD_ENTRY_BYTES; /* a directory cut short: what is there still counts */
    if (entries > fit)
        entries = fit;
    for (; entries > 0; entries--, entry += IFD_ENTRY_BYTES) {
        if (get16(entry, big) != TAG_ORIENTATION)
            continue;
        uint32_t value = inline_value(entry, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
