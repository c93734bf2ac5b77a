/* SPDX-License-Identifier: Apache-2.0 */
#include "icc_name.h"

#include <string.h>

#include "base/buf.h"

enum {
    HEADER = 128,
    TAGS_MAX = 200, /* real profiles have a dozen */
    RECORD = 12     /* of the tag table, and of a multi-language text */
};

/* Appends a character where it fits whole. */
static void put(char name[ICC_NAME_BYTES], size_t *at, uint32_t c)
{
    uint8_t utf8[4];
    size_t n = 0;
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        c = ' ';
    if (c < 0x80) {
        utf8[n++] = (uint8_t)c;
    } else if (c < 0x800) {
        utf8[n++] = (uint8_t)(0xc0 | c >> 6);
        utf8[n++] = (uint8_t)(0x80 | (c & 63));
    } else {
        if (c >= 0xd800 && c < 0xe000) /* half of a pair: no name needs one */
            c = '?';
        utf8[n++] = (uint8_t)(0xe0 | c >> 12);
        utf8[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        utf8[n++] = (uint8_t)(0x80 | (c & 63));
    }
    if (*at + n >= ICC_NAME_BYTES) {
        *at = ICC_NAME_BYTES; /* nothing behind a character that was left out */
        return;
    }
    memcpy(name + *at, utf8, n);
    *at += n;
}

/* textDescriptionType: a count with the NUL, and ASCII. */
static void read_ascii(const uint8_t *tag, size_t n, char name[ICC_NAME_BYTES])
{
    if (n < 12)
        return;
    size_t count = get_be32(tag + 8), at = 0;
    if (count == 0 || count > n - 12 || tag[12 + count - 1] != 0)
        return;
    for (size_t i = 0; i + 1 < count && tag[12 + i] != 0 && at < ICC_NAME_BYTES; i++)
        put(name, &at, tag[12 + i] < 0x80 ? tag[12 + i] : '?');
}

/* multiLocalizedUnicodeType: records of language, country, length and offset, then UTF-16. */
static void read_unicode(const uint8_t *tag, size_t n, char name[ICC_NAME_BYTES])
{
    if (n < 16 || get_be32(tag + 12) != RECORD)
        return;
    size_t records = get_be32(tag + 8), chosen = 0, at = 0;
    if (records == 0 || records > (n - 16) / RECORD)
        return;
    for (size_t i = records; i-- > 0;)
        if (memcmp(tag + 16 + i * RECORD, "en", 2) == 0)
            chosen = i;
    const uint8_t *r = tag + 16 + chosen * RECORD;
    size_t bytes = get_be32(r + 4), offset = get_be32(r + 8);
    if (offset > n || bytes > n - offset || bytes % 2 != 0)
        return;
    for (size_t i = 0; i < bytes && at < ICC_NAME_BYTES; i += 2) {
        uint32_t c = (uint32_t)(tag[offset + i] << 8 | tag[offset + i + 1]);
        if (c == 0)
            break;
        put(name, &at, c);
    }
}

void icc_name(const uint8_t *icc, size_t n, char name[ICC_NAME_BYTES])
{
    memset(name, 0, ICC_NAME_BYTES);
    if (n < HEADER + 4 || memcmp(icc + 36, "acsp", 4) != 0 || get_be32(icc) > n)
        return;
    size_t tags = get_be32(icc + HEADER);
    if (tags > TAGS_MAX || tags > (n - HEADER - 4) / RECORD)
        return;
    for (size_t i = 0; i < tags; i++) {
        const uint8_t *r = icc + HEADER + 4 + i * RECORD;
        size_t offset = get_be32(r + 4), bytes = get_be32(r + 8);
        if (memcmp(r, "desc", 4) != 0)
            continue;
        if (offset > n || bytes > n - offset || bytes < 8)
            return;
        if (memcmp(icc + offset, "desc", 4) == 0)
            read_ascii(icc + offset, bytes, name);
        else if (memcmp(icc + offset, "mluc", 4) == 0)
            read_unicode(icc + offset, bytes, name);
        return;
    }
}
