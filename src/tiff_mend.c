/* SPDX-License-Identifier: Apache-2.0 */
#include "tiff_mend.h"

#include <string.h>

#include "tiff_file.h"

enum {
    TYPE_SHORT = 3,
    TAG_BITS = 258,
    TAG_PHOTOMETRIC = 262,
    TAG_STRIP_OFFSETS = 273,
    TAG_SAMPLES = 277,
    TAG_STRIP_BYTES = 279,
    TAG_PLANAR = 284,
    TAG_COLOUR_MAP = 320,
    TAG_TILE_OFFSETS = 324,
    TAG_TILE_BYTES = 325,
    TAG_SAMPLE_FORMAT = 339
};

/* Writes the low bytes of v in the file's byte order. */
static void put(const struct tiff_file *f, uint8_t *to, unsigned bytes, uint64_t v)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(v >> 8 * (f->big_endian ? bytes - 1 - i : i));
}

/* Says how the pixels are coded, the same for every plane; where there is but one, also what it means. */
static bool stays(uint16_t tag, uint32_t samples)
{
    static const uint16_t tags[] = {256, 257, 259, 266, 278, 317, 322, 323, 347};
    if (samples == 1 && (tag == TAG_PHOTOMETRIC || tag == TAG_COLOUR_MAP))
        return true;
    for (unsigned i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (tags[i] == tag)
            return true;
    return false;
}

/* Entry e of the file as one of the plane's directory, at *to; false: it is left out. */
static bool entry_of_plane(const struct tiff_file *f, const struct tiff_tags *t, unsigned plane,
                           const struct tiff_entry *e, const uint8_t *from, uint8_t *to)
{
    const unsigned word = f->big_tiff ? 8 : 4;
    uint64_t count = 1, number = 0;
    if (stays(e->tag, t->samples)) {
        memcpy(to, from, 4 + 2 * word);
        return true;
    }
    put(f, to, 2, e->tag);
    switch (e->tag) {
    case TAG_BITS:
        number = t->bits;
        break;
    case TAG_PHOTOMETRIC: /* only gray itself can be inverted */
        number = t->photometric == TIFF_MIN_IS_WHITE && plane == 0 ? TIFF_MIN_IS_WHITE
                                                                   : TIFF_MIN_IS_BLACK;
        break;
    case TAG_SAMPLES:
    case TAG_PLANAR:
        number = 1;
        break;
    case TAG_SAMPLE_FORMAT:
        number = t->sample_format;
        break;
    case TAG_STRIP_OFFSETS:
    case TAG_STRIP_BYTES:
    case TAG_TILE_OFFSETS:
    case TAG_TILE_BYTES: {
        uint64_t each = tiff_type_bytes(e->type), at = e->at + plane * t->per_plane * each;
        count = t->per_plane;
        put(f, to + 2, 2, e->type);
        put(f, to + 4, word, count);
        memset(to + 4 + word, 0, word);
        if (count * each <= word)
            memcpy(to + 4 + word, f->data + at, (size_t)(count * each));
        else
            put(f, to + 4 + word, word, at);
        return true;
    }
    default:
        return false;
    }
    put(f, to + 2, 2, TYPE_SHORT);
    put(f, to + 4, word, count);
    memset(to + 4 + word, 0, word);
    put(f, to + 4 + word, 2, number);
    return true;
}

static enum slimset_status copy_file(const uint8_t *data, size_t n, struct buf *out,
                                     struct slimset_error *err)
{
    out->len = 0;
    enum slimset_status st = buf_append(out, data, n, err);
    return st == SLIMSET_OK && (n & 1) != 0 ? buf_append(out, "", 1, err) : st;
}

enum slimset_status tiff_mend_plane(const uint8_t *data, size_t n, const struct tiff_tags *t,
                                    unsigned plane, struct buf *out, struct slimset_error *err)
{
    struct tiff_file f;
    uint64_t first, entries, count, next;
    uint8_t entry[20], number[8] = {0};
    size_t even = n + (n & 1);
    if (!tiff_file_open(&f, data, n, &first) ||
        !tiff_file_directory(&f, first, &entries, &count, &next))
        return err_set(err, SLIMSET_INTERNAL, "a TIFF that was accepted cannot be read");
    const unsigned word = f.big_tiff ? 8 : 4, each = 4 + 2 * word, head = f.big_tiff ? 8 : 2;
    enum slimset_status st = out->len < even ? copy_file(data, n, out, err) : SLIMSET_OK;
    if (st != SLIMSET_OK)
        return st;
    out->len = even;
    put(&f, out->data + (f.big_tiff ? 8 : 4), word, even);
    st = buf_append(out, number, head, err);
    uint64_t kept = 0;
    uint32_t before = UINT32_MAX;
    for (uint64_t i = 0; i < count && st == SLIMSET_OK; i++) {
        struct tiff_entry e = tiff_file_entry(&f, entries, i);
        if (e.tag == before ||
            !entry_of_plane(&f, t, plane, &e, data + entries + i * each, entry))
            continue;
        before = e.tag;
        kept++;
        st = buf_append(out, entry, each, err);
    }
    if (st == SLIMSET_OK)
        st = buf_append(out, number, word, err); /* no further directory */
    if (st == SLIMSET_OK)
        put(&f, out->data + even, head, kept);
    return st;
}

enum slimset_status tiff_mend_orientation(const uint8_t *data, size_t n, const struct tiff_tags *t,
                                          struct buf *out, struct slimset_error *err)
{
    struct tiff_file f;
    uint64_t first;
    enum slimset_status st = copy_file(data, n, out, err);
    if (st == SLIMSET_OK && tiff_file_open(&f, data, n, &first) && t->orientation_at != 0)
        put(&f, out->data + t->orientation_at, t->orientation_bytes, 1);
    return st;
}
