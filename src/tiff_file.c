/* SPDX-License-Identifier: Apache-2.0 */
#include "tiff_file.h"

static uint16_t u16(const struct tiff_file *f, uint64_t at)
{
    return f->big_endian ? get_be16(f->data + at) : get_le16(f->data + at);
}

static uint32_t u32(const struct tiff_file *f, uint64_t at)
{
    return f->big_endian ? get_be32(f->data + at) : get_le32(f->data + at);
}

static uint64_t u64(const struct tiff_file *f, uint64_t at)
{
    if (!f->big_endian)
        return get_le64(f->data + at);
    return (uint64_t)get_be32(f->data + at) << 32 | get_be32(f->data + at + 4);
}

unsigned tiff_type_bytes(uint16_t type)
{
    static const uint8_t bytes[19] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

bool tiff_file_inside(const struct tiff_file *f, uint64_t at, uint64_t len)
{
    return at <= f->n && len <= f->n - at;
}

bool tiff_file_open(struct tiff_file *f, const uint8_t *data, size_t n, uint64_t *first)
{
    *f = (struct tiff_file){.data = data, .n = n};
    if (n < 8 || data[0] != data[1] || (data[0] != 'I' && data[0] != 'M'))
        return false;
    f->big_endian = data[0] == 'M';
    uint16_t magic = u16(f, 2);
    f->big_tiff = magic == 43;
    if (f->big_tiff) {
        if (n < 16 || u16(f, 4) != 8)
            return false;
        *first = u64(f, 8);
        return true;
    }
    *first = u32(f, 4);
    return magic == 42;
}

bool tiff_file_directory(const struct tiff_file *f, uint64_t at, uint64_t *entries, uint64_t *count,
                         uint64_t *next)
{
    unsigned head = f->big_tiff ? 8 : 2, each = f->big_tiff ? 20 : 12, tail = f->big_tiff ? 8 : 4;
    if (!tiff_file_inside(f, at, head))
        return false;
    *count = f->big_tiff ? u64(f, at) : u16(f, at);
    *entries = at + head;
    if (*count > f->n / each || !tiff_file_inside(f, *entries, *count * each))
        return false;
    uint64_t end = *entries + *count * each;
    *next = !tiff_file_inside(f, end, tail) ? 0 : f->big_tiff ? u64(f, end) : u32(f, end);
    return true;
}

struct tiff_entry tiff_file_entry(const struct tiff_file *f, uint64_t entries, uint64_t i)
{
    unsigned each = f->big_tiff ? 20 : 12, room = f->big_tiff ? 8 : 4;
    uint64_t at = entries + i * each;
    struct tiff_entry e = {.tag = u16(f, at), .type = u16(f, at + 2)};
    e.count = f->big_tiff ? u64(f, at + 4) : u32(f, at + 4);
    uint64_t value = at + (f->big_tiff ? 12 : 8), bytes;
    if (__builtin_mul_overflow(e.count, tiff_type_bytes(e.type), &bytes))
        return e;
    e.at = bytes <= room ? value : f->big_tiff ? u64(f, value) : u32(f, value);
    e.inside = tiff_file_inside(f, e.at, bytes);
    return e;
}

uint64_t tiff_file_value(const struct tiff_file *f, const struct tiff_entry *e, uint64_t i,
                         uint64_t missing)
{
    if (!e->inside || i >= e->count)
        return missing;
    uint64_t at = e->at + i * tiff_type_bytes(e->type);
    switch (e->type) {
    case 1: /* BYTE */
    case 7: /* UNDEFINED */
        return f->data[at];
    case 3: /* SHORT */
        return u16(f, at);
    case 4:  /* LONG */
    case 13: /* IFD */
        return u32(f, at);
    case 16: /* LONG8 */
    case 18: /* IFD8 */
        return u64(f, at);
    default:
        return missing;
    }
}
