/* SPDX-License-Identifier: Apache-2.0 */
#include "tiff_tags.h"

#include <string.h>

#include "tiff_file.h"

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

static uint32_t value32(const struct tiff_file *f, const struct tiff_entry *e, uint64_t i, uint32_t missing)
{
    uint64_t v = tiff_file_value(f, e, i, missing);
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

uint8_t tiff_exif_orientation(const uint8_t *data, size_t n)
{
    struct tiff_file f;
    uint64_t first, entries, count, next;
    if (n >= 6 && memcmp(data, "Exif\0\0", 6) == 0) {
        data += 6;
        n -= 6;
    }
    if (!tiff_file_open(&f, data, n, &first) || !tiff_file_directory(&f, first, &entries, &count, &next))
        return 1;
    for (uint64_t i = 0; i < count; i++) {
        struct tiff_entry e = tiff_file_entry(&f, entries, i);
        uint64_t v = e.tag == TAG_ORIENTATION ? tiff_file_value(&f, &e, 0, 0) : 0;
        if (e.tag == TAG_ORIENTATION)
            return v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    return 1;
}

/* What read_layout needs from the directory. */
struct layout {
    struct tiff_entry offsets, sizes; /* of strips or tiles */
    struct tiff_entry bits, format;   /* per sample */
    struct tiff_entry colour_map;     /* all reds, all greens, all blues */
    bool tiled;
    uint32_t rows_per_strip, tile_w, tile_h;
};

/* A value that describes the pixels: where its bytes are missing, the file ends too early. */
static enum slimset_status needed(const struct tiff_file *f, const struct tiff_entry *e,
                                  struct slimset_error *err)
{
    if (e->inside)
        return SLIMSET_OK;
    return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                   "TIFF of %zu bytes ends before the values of tag %u at byte %llu", f->n, e->tag,
                   (unsigned long long)e->at);
}

static bool all_equal(const struct tiff_file *f, const struct tiff_entry *e, uint32_t samples, uint32_t *v)
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
static struct tiff_entry *array_of(uint16_t tag, struct layout *l)
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
static enum slimset_status take(const struct tiff_file *f, const struct tiff_entry *e, struct tiff_tags *t,
                                struct layout *l, struct slimset_error *err)
{
    uint32_t *number = number_of(e->tag, t, l);
    struct tiff_entry *array = array_of(e->tag, l);
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
        t->orientation_bytes = (uint8_t)tiff_type_bytes(e->type);
        t->orientation_at = (v < 1 || v > 8) && e->inside && e->count > 0 ? (size_t)e->at : 0;
    }
    t->has_metadata = t->has_metadata || is_metadata(e->tag);
    if (!e->inside) {
        t->notes |= NOTE_WARNING | (e->tag == TAG_ICC ? NOTE_PROFILE_BAD : 0);
    } else if (e->tag == TAG_ICC && tiff_type_bytes(e->type) == 1) {
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
static enum slimset_status check_layout(const struct tiff_file *f, struct tiff_tags *t,
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
    t->per_plane = per_plane;
    t->tiled = l->tiled;
    uint64_t want = per_plane * (t->planar == 2 ? t->samples : 1);
    if (l->offsets.count < want || (l->sizes.count != 0 && l->sizes.count < want))
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF has %llu of %llu strips or tiles",
                       (unsigned long long)l->offsets.count, (unsigned long long)want);
    bool plain =
        t->compression == 1 && t->photometric != TIFF_YCBCR; /* subsampled: size not known */
    for (uint64_t i = 0; i < want; i++) {
        uint64_t at = tiff_file_value(f, &l->offsets, i, UINT64_MAX);
        uint64_t raw = plain ? raw_bytes(t, l, i, per_plane) : 0;
        uint64_t bytes = l->sizes.count != 0 ? tiff_file_value(f, &l->sizes, i, 0) : raw;
        if (bytes == 0 && l->sizes.count != 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF strip or tile %llu is empty",
                           (unsigned long long)i);
        if (plain && bytes < raw)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "TIFF strip or tile %llu has %llu of %llu bytes", (unsigned long long)i,
                           (unsigned long long)bytes, (unsigned long long)raw);
        if (plain)
            bytes = raw; /* some writers count full strips at the end of the image, too */
        if (!tiff_file_inside(f, at, bytes))
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "TIFF strip or tile %llu reaches byte %llu of %zu",
                           (unsigned long long)i, (unsigned long long)(at + bytes), f->n);
    }
    return SLIMSET_OK;
}

static enum slimset_status check_palette(const struct tiff_file *f, struct tiff_tags *t,
                                         const struct tiff_entry *map, struct slimset_error *err)
{
    if (t->bits > 16)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF palette of %u bits", t->bits);
    uint64_t n = 1u << t->bits;
    if (map->type != 3 || map->count < 3 * n)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "TIFF with a palette of %llu of %llu values",
                       (unsigned long long)map->count, (unsigned long long)(3 * n));
    t->gray_palette = true;
    for (uint64_t i = 0; i < n && t->gray_palette; i++) {
        uint64_t green = tiff_file_value(f, map, n + i, 0);
        t->gray_palette = tiff_file_value(f, map, i, 0) == green && tiff_file_value(f, map, 2 * n + i, 0) == green;
    }
    return SLIMSET_OK;
}

static enum slimset_status check_values(const struct tiff_file *f, struct tiff_tags *t,
                                        const struct layout *l, const struct image_limits *limits,
                                        struct slimset_error *err)
{
    const struct tiff_entry *bits = &l->bits, *format = &l->format;
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

static uint32_t count_pages(const struct tiff_file *f, uint64_t next)
{
    uint32_t pages = 1;
    uint64_t entries, count;
    while (next != 0 && pages < PAGES_MAX && tiff_file_directory(f, next, &entries, &count, &next))
        pages++;
    return pages;
}

enum slimset_status tiff_tags_read(const uint8_t *data, size_t n, const struct image_limits *limits,
                                   struct tiff_tags *t, struct slimset_error *err)
{
    struct tiff_file f;
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
    if (!tiff_file_open(&f, data, n, &first))
        return err_bad(err, n < 16 ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_CORRUPT,
                       "TIFF of %zu bytes with a damaged header", n);
    if (!tiff_file_directory(&f, first, &entries, &count, &next))
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "TIFF of %zu bytes ends before its directory at byte %llu", n,
                       (unsigned long long)first);
    for (uint64_t i = 0; i < count; i++) {
        struct tiff_entry e = tiff_file_entry(&f, entries, i);
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
