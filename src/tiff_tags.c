/* SPDX-License-Identifier: Apache-2.0 */
#include "tiff_tags.h"

#include <string.h>

enum {
    PAGES_MAX = 65536, /* directories counted; a loop in the chain ends there */
    TAG_WIDTH = 256,
    TAG_HEIGHT = 257,
    TAG_BITS = 258,
    TAG_COMPRESSION = 259,
    TAG_PHOTOMETRIC = 262,
    TAG_DESCRIPTION = 270,
    TAG_STRIP_OFFSETS = 273,
    TAG_ORIENTATION = 274,
    TAG_SAMPLES = 277,
    TAG_ROWS_PER_STRIP = 278,
    TAG_STRIP_BYTES = 279,
    TAG_PLANAR = 284,
    TAG_COLOUR_MAP = 320,
    TAG_TILE_WIDTH = 322,
    TAG_TILE_HEIGHT = 323,
    TAG_TILE_OFFSETS = 324,
    TAG_TILE_BYTES = 325,
    TAG_INK_SET = 332,
    TAG_EXTRA = 338,
    TAG_SAMPLE_FORMAT = 339,
    TAG_XMP = 700,
    TAG_IPTC = 33723,
    TAG_PHOTOSHOP = 34377,
    TAG_EXIF = 34665,
    TAG_ICC = 34675,
    TAG_GPS = 34853
};

struct file {
    const uint8_t *data;
    size_t n;
    bool big_endian;
    bool big_tiff;
};

/* One directory entry, its values checked to lie inside the file. */
struct entry {
    uint16_t tag, type;
    uint64_t count;
    uint64_t at; /* offset of the values */
    bool inside; /* false: they reach beyond the file */
};

static uint16_t u16(const struct file *f, uint64_t at)
{
    return f->big_endian ? get_be16(f->data + at) : get_le16(f->data + at);
}

static uint32_t u32(const struct file *f, uint64_t at)
{
    return f->big_endian ? get_be32(f->data + at) : get_le32(f->data + at);
}

static uint64_t u64(const struct file *f, uint64_t at)
{
    if (!f->big_endian)
        return get_le64(f->data + at);
    return (uint64_t)get_be32(f->data + at) << 32 | get_be32(f->data + at + 4);
}

static unsigned type_bytes(uint16_t type)
{
    static const uint8_t bytes[19] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* True when bytes [at, at + len) are inside the file. */
static bool inside(const struct file *f, uint64_t at, uint64_t len)
{
    return at <= f->n && len <= f->n - at;
}

/* Finds byte order and kind; *first: offset of the first directory. */
static bool open_file(struct file *f, const uint8_t *data, size_t n, uint64_t *first)
{
    *f = (struct file){.data = data, .n = n};
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

/* *entries: offset of the first entry, *next: offset of the next directory (0: none or outside). */
static bool open_directory(const struct file *f, uint64_t at, uint64_t *entries, uint64_t *count,
                           uint64_t *next)
{
    unsigned head = f->big_tiff ? 8 : 2, each = f->big_tiff ? 20 : 12, tail = f->big_tiff ? 8 : 4;
    if (!inside(f, at, head))
        return false;
    *count = f->big_tiff ? u64(f, at) : u16(f, at);
    *entries = at + head;
    if (*count > f->n / each || !inside(f, *entries, *count * each))
        return false;
    uint64_t end = *entries + *count * each;
    *next = !inside(f, end, tail) ? 0 : f->big_tiff ? u64(f, end) : u32(f, end);
    return true;
}

static struct entry read_entry(const struct file *f, uint64_t entries, uint64_t i)
{
    unsigned each = f->big_tiff ? 20 : 12, room = f->big_tiff ? 8 : 4;
    uint64_t at = entries + i * each;
    struct entry e = {.tag = u16(f, at), .type = u16(f, at + 2)};
    e.count = f->big_tiff ? u64(f, at + 4) : u32(f, at + 4);
    uint64_t value = at + (f->big_tiff ? 12 : 8), bytes;
    if (__builtin_mul_overflow(e.count, type_bytes(e.type), &bytes))
        return e;
    e.at = bytes <= room ? value : f->big_tiff ? u64(f, value) : u32(f, value);
    e.inside = inside(f, e.at, bytes);
    return e;
}

/* Value i of an entry as an unsigned integer; missing when it has none such. */
static uint64_t value(const struct file *f, const struct entry *e, uint64_t i, uint64_t missing)
{
    if (!e->inside || i >= e->count)
        return missing;
    uint64_t at = e->at + i * type_bytes(e->type);
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

static uint32_t value32(const struct file *f, const struct entry *e, uint64_t i, uint32_t missing)
{
    uint64_t v = value(f, e, i, missing);
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

uint8_t tiff_exif_orientation(const uint8_t *data, size_t n)
{
    struct file f;
    uint64_t first, entries, count, next;
    if (n >= 6 && memcmp(data, "Exif\0\0", 6) == 0) {
        data += 6;
        n -= 6;
    }
    if (!open_file(&f, data, n, &first) || !open_directory(&f, first, &entries, &count, &next))
        return 1;
    for (uint64_t i = 0; i < count; i++) {
        struct entry e = read_entry(&f, entries, i);
        uint64_t v = e.tag == TAG_ORIENTATION ? value(&f, &e, 0, 0) : 0;
        if (e.tag == TAG_ORIENTATION)
            return v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    return 1;
}

/* What read_layout needs from the directory. */
struct layout {
    struct entry offsets, sizes; /* of strips or tiles */
    struct entry bits, format;   /* per sample */
    struct entry colour_map;     /* all reds, all greens, all blues */
    bool tiled;
    uint32_t rows_per_strip, tile_w, tile_h;
};

/* A value that describes the pixels: where its bytes are missing, the file ends too early. */
static enum slimset_status needed(const struct file *f, const struct entry *e,
                                  struct slimset_error *err)
{
    if (e->inside)
        return SLIMSET_OK;
    return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                   "TIFF of %zu bytes ends before the values of tag %u at byte %llu", f->n, e->tag,
                   (unsigned long long)e->at);
}

static bool all_equal(const struct file *f, const struct entry *e, uint32_t samples, uint32_t *v)
{
    uint64_t n = e->count < samples ? e->count : samples;
    *v = value32(f, e, 0, 0);
    for (uint64_t i = 1; i < n; i++)
        if (value32(f, e, i, 0) != *v)
            return false;
    return true;
}

static bool is_metadata(uint16_t tag)
{
    switch (tag) {
    case TAG_DESCRIPTION:
    case TAG_XMP:
    case TAG_IPTC:
    case TAG_PHOTOSHOP:
    case TAG_EXIF:
    case TAG_ICC:
    case TAG_GPS:
        return true;
    default:
        return false;
    }
}

/* Where a number of the directory goes; NULL for tags of another kind. */
static uint32_t *number_of(uint16_t tag, struct tiff_tags *t, struct layout *l)
{
    const struct {
        uint16_t tag;
        uint32_t *to;
    } numbers[] = {
        {TAG_WIDTH, &t->w},
        {TAG_HEIGHT, &t->h},
        {TAG_COMPRESSION, &t->compression},
        {TAG_PHOTOMETRIC, &t->photometric},
        {TAG_SAMPLES, &t->samples},
        {TAG_PLANAR, &t->planar},
        {TAG_INK_SET, &t->ink_set},
        {TAG_ROWS_PER_STRIP, &l->rows_per_strip},
        {TAG_TILE_WIDTH, &l->tile_w},
        {TAG_TILE_HEIGHT, &l->tile_h},
        {TAG_EXTRA, &t->extra_first},
    };
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].tag == tag)
            return numbers[i].to;
    return NULL;
}

/* Where an array of the directory goes. */
static struct entry *array_of(uint16_t tag, struct layout *l)
{
    switch (tag) {
    case TAG_BITS:
        return &l->bits;
    case TAG_SAMPLE_FORMAT:
        return &l->format;
    case TAG_COLOUR_MAP:
        return &l->colour_map;
    case TAG_STRIP_OFFSETS:
    case TAG_TILE_OFFSETS:
        return &l->offsets;
    case TAG_STRIP_BYTES:
    case TAG_TILE_BYTES:
        return &l->sizes;
    default:
        return NULL;
    }
}

/* Takes one entry into *t and *l. */
static enum slimset_status take(const struct file *f, const struct entry *e, struct tiff_tags *t,
                                struct layout *l, struct slimset_error *err)
{
    uint32_t *number = number_of(e->tag, t, l);
    struct entry *array = array_of(e->tag, l);
    if (number != NULL)
        *number = value32(f, e, 0, 0);
    if (array != NULL)
        *array = *e;
    if (e->tag == TAG_TILE_OFFSETS)
        l->tiled = true;
    if (e->tag == TAG_EXTRA)
        t->extra_n = e->count > UINT32_MAX ? UINT32_MAX : (uint32_t)e->count;
    if (number != NULL || array != NULL)
        return needed(f, e, err);
    if (e->tag == TAG_ORIENTATION) {
        uint32_t v = value32(f, e, 0, 0);
        t->orientation = v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    t->has_metadata = t->has_metadata || is_metadata(e->tag);
    if (!e->inside) {
        t->notes |= NOTE_WARNING | (e->tag == TAG_ICC ? NOTE_PROFILE_BAD : 0);
    } else if (e->tag == TAG_ICC && type_bytes(e->type) == 1) {
        t->icc = f->data + e->at;
        t->icc_bytes = (size_t)e->count;
    }
    return SLIMSET_OK;
}

/* Bytes of strip or tile i without compression; 0 when that cannot be told. */
static uint64_t raw_bytes(const struct tiff_tags *t, const struct layout *l, uint64_t i,
                          uint64_t per_plane)
{
    uint64_t samples = t->planar == 2 ? 1 : t->samples;
    uint64_t row_bits = (uint64_t)(l->tiled ? l->tile_w : t->w) * samples * t->bits;
    uint64_t rows = l->tile_h;
    if (!l->tiled) {
        uint64_t top = i % per_plane * l->rows_per_strip;
        rows = t->h - top < l->rows_per_strip ? t->h - top : l->rows_per_strip;
    }
    return (row_bits + 7) / 8 * rows;
}

/* Every strip or tile must be there: a decoder that reaches the end of the file inside one might
 * fill up with gray. */
static enum slimset_status check_layout(const struct file *f, const struct tiff_tags *t,
                                        struct layout *l, struct slimset_error *err)
{
    if (l->offsets.count == 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF without pixels");
    if (l->tiled && (l->tile_w == 0 || l->tile_h == 0 || l->tile_w > 65536 || l->tile_h > 65536))
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF with tiles of %u x %u", l->tile_w,
                       l->tile_h);
    if (l->rows_per_strip == 0 || l->rows_per_strip > t->h)
        l->rows_per_strip = t->h;
    uint64_t per_plane = l->tiled
                             ? (uint64_t)((t->w - 1) / l->tile_w + 1) * ((t->h - 1) / l->tile_h + 1)
                             : (t->h - 1) / l->rows_per_strip + 1;
    uint64_t want = per_plane * (t->planar == 2 ? t->samples : 1);
    if (l->offsets.count < want || (l->sizes.count != 0 && l->sizes.count < want))
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF has %llu of %llu strips or tiles",
                       (unsigned long long)l->offsets.count, (unsigned long long)want);
    bool plain =
        t->compression == 1 && t->photometric != TIFF_YCBCR; /* subsampled: size not known */
    for (uint64_t i = 0; i < want; i++) {
        uint64_t at = value(f, &l->offsets, i, UINT64_MAX);
        uint64_t raw = plain ? raw_bytes(t, l, i, per_plane) : 0;
        uint64_t bytes = l->sizes.count != 0 ? value(f, &l->sizes, i, 0) : raw;
        if (bytes == 0 && l->sizes.count != 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF strip or tile %llu is empty",
                           (unsigned long long)i);
        if (plain && bytes < raw)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "TIFF strip or tile %llu has %llu of %llu bytes", (unsigned long long)i,
                           (unsigned long long)bytes, (unsigned long long)raw);
        if (plain)
            bytes = raw; /* some writers count full strips at the end of the image, too */
        if (!inside(f, at, bytes))
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "TIFF strip or tile %llu reaches byte %llu of %zu",
                           (unsigned long long)i, (unsigned long long)(at + bytes), f->n);
    }
    return SLIMSET_OK;
}

static enum slimset_status check_palette(const struct file *f, struct tiff_tags *t,
                                         const struct entry *map, struct slimset_error *err)
{
    if (t->bits > 16)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF palette of %u bits", t->bits);
    uint64_t n = 1u << t->bits;
    if (map->type != 3 || map->count < 3 * n)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF with a palette of %llu of %llu values",
                       (unsigned long long)map->count, (unsigned long long)(3 * n));
    t->gray_palette = true;
    for (uint64_t i = 0; i < n && t->gray_palette; i++) {
        uint64_t green = value(f, map, n + i, 0);
        t->gray_palette = value(f, map, i, 0) == green && value(f, map, 2 * n + i, 0) == green;
    }
    return SLIMSET_OK;
}

static enum slimset_status check_values(const struct file *f, struct tiff_tags *t,
                                        const struct layout *l, const struct image_limits *limits,
                                        struct slimset_error *err)
{
    const struct entry *bits = &l->bits, *format = &l->format;
    if (t->photometric == UINT32_MAX)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF without a photometric interpretation");
    if (t->samples == 0 || t->samples > 65535)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF with %u samples per pixel", t->samples);
    if (bits->count != 0 && !all_equal(f, bits, t->samples, &t->bits))
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "TIFF whose samples differ in bits");
    if (format->count != 0 && !all_equal(f, format, t->samples, &t->sample_format))
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "TIFF whose samples differ in format");
    if (t->bits == 0 || t->bits > 128)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF with %u bits per sample", t->bits);
    if (t->sample_format == 4) /* void: some writers mean unsigned */
        t->sample_format = 1;
    if (t->extra_n > t->samples)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF with %u extra of %u samples", t->extra_n,
                       t->samples);
    enum slimset_status st = SLIMSET_OK;
    if (t->photometric == TIFF_PALETTE)
        st = check_palette(f, t, &l->colour_map, err);
    return st != SLIMSET_OK ? st : image_limits_check(limits, t->w, t->h, err);
}

static uint32_t count_pages(const struct file *f, uint64_t next)
{
    uint32_t pages = 1;
    uint64_t entries, count;
    while (next != 0 && pages < PAGES_MAX && open_directory(f, next, &entries, &count, &next))
        pages++;
    return pages;
}

enum slimset_status tiff_tags_read(const uint8_t *data, size_t n, const struct image_limits *limits,
                                   struct tiff_tags *t, struct slimset_error *err)
{
    struct file f;
    struct layout l = {.rows_per_strip = UINT32_MAX};
    uint64_t first, entries, count, next;
    uint32_t before = UINT32_MAX;
    *t = (struct tiff_tags){.bits = 1,
                            .samples = 1,
                            .sample_format = 1,
                            .photometric = UINT32_MAX,
                            .compression = 1,
                            .planar = 1,
                            .ink_set = 1,
                            .orientation = 1};
    if (!open_file(&f, data, n, &first))
        return err_bad(err, n < 16 ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_CORRUPT,
                       "TIFF of %zu bytes with a damaged header", n);
    if (!open_directory(&f, first, &entries, &count, &next))
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "TIFF of %zu bytes ends before its directory at byte %llu", n,
                       (unsigned long long)first);
    for (uint64_t i = 0; i < count; i++) {
        struct entry e = read_entry(&f, entries, i);
        if (e.tag == before) /* of a tag given twice the first counts, as in libtiff */
            continue;
        before = e.tag;
        enum slimset_status st = take(&f, &e, t, &l, err);
        if (st != SLIMSET_OK)
            return st;
    }
    enum slimset_status st = check_values(&f, t, &l, limits, err);
    if (st == SLIMSET_OK)
        st = check_layout(&f, t, &l, err);
    t->pages = count_pages(&f, next);
    if (t->pages > 1)
        t->notes |= NOTE_FIRST_FRAME;
    return st;
}
