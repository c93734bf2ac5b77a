/* SPDX-License-Identifier: Apache-2.0
 *
 * Flow: png_chunks_walk finds everything; IDAT bodies are inflated as they lie in the file (small
 * ones are gathered first) into a window of a few dozen rows that stays in the
 * second-level cache; each row is unfiltered there in place, with the row before it as its
 * neighbour, and then split into planes. The window keeps one finished row, so memory is the image
 * and a little more.
 */
#include "png_read.h"

#include <stdlib.h>
#include <string.h>

#include "exif.h"
#include "inflate.h"
#include "png_chunks.h"
#include "png_expand.h"
#include "png_unfilter.h"

enum {
    WINDOW_BYTES = 128 * 1024, /* inflated at once: in L2 with the inflater's own 100 KiB of state */
    STAGE_BYTES = 64 * 1024,   /* each call of the inflater costs as much as some KiB of data: */
    STAGE_BELOW = 32 * 1024,   /* IDAT chunks smaller than this are gathered, others fed in place */
    SURPLUS_BYTES =
        1024 * 1024, /* inflated beyond the image that are still drained, plus the image's size */
    DEFLATE_RATIO = 1032, /* no deflate stream expands more: 258 bytes from 2 bits */
    PNG_PASSES = 7
};

struct png_reader {
    struct image_limits limits;
    struct buf window; /* zeros for a first row, then the bytes being unfiltered */
    struct buf
        samples; /* one row of samples per plane, when the image's own rows cannot take them */
    struct inflater *z;
    struct inflate_io io; /* its input; output is set for each call */
    bool ended;           /* the stream has, Adler-32 and all */
    uint8_t stage[STAGE_BYTES];
};

/* Compressed bytes: a run of IDAT chunks, or one piece that was given to z whole (at == end). */
struct source {
    const char *what; /* for messages */
    const uint8_t *data;
    size_t at, end; /* offset of the next IDAT chunk, end of the last */
};

/* Inflated bytes of the image. */
struct stream {
    struct png_reader *r;
    struct source source;
    uint8_t *base; /* the window */
    size_t cap;
    size_t pos, len; /* bytes consumed, bytes valid */
    uint64_t left;   /* bytes of the image not yet inflated */
};

/* One pass of Adam7; the whole image when it is not interlaced. */
struct pass {
    uint8_t x0, y0, dx, dy;
};
static const struct pass adam7[PNG_PASSES] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8},
                                              {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
                                              {0, 1, 1, 2}};
static const struct pass whole[1] = {{0, 0, 1, 1}};

struct png_reader *png_reader_new(const struct image_limits *limits)
{
    struct png_reader *r = malloc(sizeof *r);
    if (r == NULL)
        return NULL;
    r->limits = *limits;
    memset(&r->window, 0, sizeof r->window);
    memset(&r->samples, 0, sizeof r->samples);
    r->z = inflater_new();
    if (r->z == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

void png_reader_free(struct png_reader *r)
{
    if (r == NULL)
        return;
    buf_fini(&r->window);
    buf_fini(&r->samples);
    inflater_free(r->z);
    free(r);
}

static enum slimset_status truncated(const struct source *s, struct slimset_error *err)
{
    return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNG %s: the zlib stream ends too early",
                   s->what);
}

/* The body of the next IDAT chunk; its CRC is checked here, just before the bytes are used. */
static enum slimset_status next_idat(struct source *s, const uint8_t **body, uint32_t *len,
                                     struct slimset_error *err)
{
    const uint8_t *p = s->data + s->at;
    *len = get_be32(p);
    *body = p + 8;
    if (!png_chunk_crc_ok(p, *len))
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "PNG chunk IDAT at byte %zu: CRC does not match", s->at);
    s->at += (size_t)*len + PNG_CHUNK_EXTRA;
    return SLIMSET_OK;
}

/* Gets more input when there is none. Without more: in_n stays 0. */
static enum slimset_status feed(struct png_reader *r, struct source *s, struct slimset_error *err)
{
    size_t staged = 0;
    while (r->io.in_n == 0 && s->at < s->end) {
        uint32_t next = get_be32(s->data + s->at);
        if (staged != 0 && (next >= STAGE_BELOW || next > sizeof r->stage - staged))
            break;
        const uint8_t *body;
        uint32_t len;
        enum slimset_status st = next_idat(s, &body, &len, err);
        if (st != SLIMSET_OK)
            return st;
        if (len >= STAGE_BELOW) {
            r->io.in = body;
            r->io.in_n = len;
            return SLIMSET_OK;
        }
        memcpy(r->stage + staged, body, len);
        staged += len;
    }
    if (staged != 0) {
        r->io.in = r->stage;
        r->io.in_n = staged;
    }
    return SLIMSET_OK;
}

/* Takes the two bytes of the zlib header. The window size that the
 * header declares is not enforced on distances: old encoders wrote too small ones, and the Adler-32
 * decides. */
static enum slimset_status start(struct png_reader *r, struct source *s, struct slimset_error *err)
{
    uint8_t head[2];
    for (int i = 0; i < 2; i++) {
        enum slimset_status st = feed(r, s, err);
        if (st != SLIMSET_OK)
            return st;
        if (r->io.in_n == 0)
            return truncated(s, err);
        head[i] = *r->io.in++;
        r->io.in_n--;
    }
    if ((head[0] & 15) != 8 || head[0] >> 4 > 7 || get_be16(head) % 31 != 0 ||
        (head[1] & 0x20) != 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG %s: zlib header %02x %02x is not valid",
                       s->what, head[0], head[1]);
    return SLIMSET_OK;
}

static void input_none(struct png_reader *r)
{
    inflater_start(r->z);
    r->io = (struct inflate_io){.in = r->stage};
    r->ended = false;
}

/* Inflates until want bytes are there or the stream has ended, Adler-32 and all. */
static enum slimset_status inflate_some(struct png_reader *r, struct source *s, uint8_t *out,
                                        size_t want, size_t *got, struct slimset_error *err)
{
    *got = 0;
    while (*got < want && !r->ended) {
        enum slimset_status st = feed(r, s, err);
        if (st != SLIMSET_OK)
            return st;
        size_t in_before = r->io.in_n;
        r->io.out = out + *got;
        r->io.out_n = want - *got;
        enum inflate_step step = inflater_run(r->z, &r->io);
        if (step == INFLATE_BAD_SUM)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG %s: Adler-32 does not match", s->what);
        if (step == INFLATE_BAD)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG %s: damaged deflate stream", s->what);
        size_t new = (size_t)(r->io.out - out) - *got;
        *got += new;
        r->ended = step == INFLATE_DONE;
        if (in_before == 0 && new == 0 && !r->ended)
            return truncated(s, err); /* no input left and nothing comes any more */
    }
    return SLIMSET_OK;
}

/* The next bytes of the image, with kept bytes before them still in place: *row. */
static enum slimset_status next_bytes(struct stream *s, size_t bytes, size_t kept, uint8_t **row,
                                      struct slimset_error *err)
{
    if (s->len - s->pos < bytes) {
        size_t from = s->pos - kept;
        memmove(s->base, s->base + from, s->len - from);
        s->pos = kept;
        s->len -= from;
        size_t want = s->cap - s->len, got;
        if (want > s->left)
            want = (size_t)s->left;
        enum slimset_status st = inflate_some(s->r, &s->source, s->base + s->len, want, &got, err);
        if (st != SLIMSET_OK)
            return st;
        s->len += got;
        s->left -= got;
        if (s->len - s->pos < bytes)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                           "PNG image data holds fewer rows than the header says");
    }
    *row = s->base + s->pos;
    s->pos += bytes;
    return SLIMSET_OK;
}

/* Behind the last row: the stream must end with a right Adler-32, all IDAT CRCs must match. Surplus
 * rows or bytes are only a warning, up to as much again as the image. */
static enum slimset_status drain(struct stream *s, uint64_t image_bytes, uint32_t *notes,
                                 struct slimset_error *err)
{
    uint64_t surplus = 0;
    while (!s->r->ended) {
        size_t got;
        enum slimset_status st = inflate_some(s->r, &s->source, s->base, s->cap, &got, err);
        if (st != SLIMSET_OK)
            return st;
        surplus += got;
        if (surplus > image_bytes + SURPLUS_BYTES)
            return err_bad(err, SLIMSET_REJECT_RATIO,
                           "PNG image data goes on for more than twice the image's size");
    }
    bool more = surplus != 0 || s->r->io.in_n != 0 || inflater_surplus(s->r->z) != 0;
    while (s->source.at < s->source.end) {
        const uint8_t *body;
        uint32_t len;
        enum slimset_status st = next_idat(&s->source, &body, &len, err);
        if (st != SLIMSET_OK)
            return st;
        more |= len != 0;
    }
    if (more)
        *notes |= NOTE_WARNING;
    return SLIMSET_OK;
}

/* Pixels of a pass along one axis. */
static uint32_t pass_size(uint32_t size, unsigned from, unsigned step)
{
    return size > from ? (uint32_t)(((uint64_t)size - from + step - 1) / step) : 0;
}

static const struct pass *passes_of(const struct png_chunks *c, unsigned *n)
{
    *n = c->interlaced ? PNG_PASSES : 1;
    return c->interlaced ? adam7 : whole;
}

/* Bytes of all rows with their filter bytes; false on overflow. */
static bool image_bytes_of(const struct png_chunks *c, uint64_t *bytes)
{
    unsigned n;
    const struct pass *p = passes_of(c, &n);
    *bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        uint32_t w = pass_size(c->w, p[i].x0, p[i].dx), h = pass_size(c->h, p[i].y0, p[i].dy);
        uint64_t part;
        if (w == 0)
            continue; /* a pass without columns has no filter bytes either */
        if (__builtin_mul_overflow(png_row_bytes(c, w) + 1, (uint64_t)h, &part) ||
            __builtin_add_overflow(*bytes, part, bytes))
            return false;
    }
    return true;
}

static enum slimset_status open_stream(struct png_reader *r, const uint8_t *data,
                                       const struct png_chunks *c, uint64_t image_bytes,
                                       struct stream *s, const uint8_t **zeros,
                                       struct slimset_error *err)
{
    size_t row = (size_t)png_row_bytes(c, c->w) + 1;
    size_t zero_bytes = row + PNG_UNFILTER_SLACK, cap, total;
    if (!mul_size(row, 2, &cap) || !add_size(cap, WINDOW_BYTES, &cap) ||
        !add_size(cap, zero_bytes, &total) ||
        !add_size(total, PNG_EXPAND_SLACK + PNG_UNFILTER_SLACK, &total))
        return err_nomem(err, SIZE_MAX);
    r->window.len = 0;
    enum slimset_status st = buf_reserve(&r->window, total, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_BAD_INPUT ? err_nomem(err, total) : st;
    memset(r->window.data, 0, zero_bytes);
    *zeros = r->window.data;
    *s = (struct stream){
        .r = r,
        .source = {.what = "image data", .data = data, .at = c->idat_at, .end = c->idat_end},
        .base = r->window.data + zero_bytes,
        .cap = cap,
        .left = image_bytes};
    input_none(r);
    return start(r, &s->source, err);
}

/* Where rows of samples go. */
struct target {
    struct image *out;                  /* NULL: nowhere, rows are only checked */
    uint8_t *samples[IMAGE_PLANES_MAX]; /* a row each, for interlaced images and for checks */
};

/* Samples of an interlaced row to their places. */
static void scatter(const struct target *t, const struct pass *p, uint32_t w, uint32_t y)
{
    for (unsigned i = 0; i < t->out->n_planes; i++) {
        const struct image_plane *plane = &t->out->plane[i];
        uint8_t *to = plane->data + (size_t)y * plane->stride_bytes;
        if (t->out->bits == 16) {
            const uint16_t *from = (const uint16_t *)(void *)t->samples[i];
            uint16_t *to16 = (uint16_t *)(void *)to;
            for (size_t x = 0; x < w; x++)
                to16[p->x0 + x * p->dx] = from[x];
        } else {
            for (size_t x = 0; x < w; x++)
                to[p->x0 + x * p->dx] = t->samples[i][x];
        }
    }
}

static bool put_row(const struct target *t, const struct png_expand *e, const struct pass *p,
                    const uint8_t *row, uint32_t w, uint32_t y)
{
    if (t->out == NULL || p->dx > 1 || p->dy > 1) {
        if (!png_expand_row(e, row, w, t->samples))
            return false;
        if (t->out != NULL)
            scatter(t, p, w, y);
        return true;
    }
    uint8_t *plane[IMAGE_PLANES_MAX];
    for (unsigned i = 0; i < t->out->n_planes; i++)
        plane[i] = t->out->plane[i].data + (size_t)y * t->out->plane[i].stride_bytes;
    return png_expand_row(e, row, w, plane);
}

/* What the rows of a pass have in common. */
struct pass_rows {
    uint32_t w;
    size_t row_bytes;
    unsigned bpp;
    const uint8_t *zeros; /* above the first row */
};

/* Undoes the filter of the row at row[0], and of the rows behind it where the window holds them
 * whole and all are paeth rows. How many are done. */
static uint32_t unfilter(const struct stream *s, const struct png_unfilter *u,
                         const struct pass_rows *p, uint8_t *row, bool first, uint32_t rows_left)
{
    const uint8_t *above = first ? p->zeros : row - p->row_bytes;
    const size_t stride = p->row_bytes + 1;
    size_t ready = 1;
    if (u->paeth_rows != NULL && rows_left >= PNG_PAETH_ROWS &&
        s->len - s->pos >= (PNG_PAETH_ROWS - 1) * stride)
        for (ready = 0; ready < PNG_PAETH_ROWS && row[ready * stride] == PNG_FILTER_PAETH; ready++)
            ;
    if (ready == PNG_PAETH_ROWS) {
        u->paeth_rows(row + 1, stride, above, p->row_bytes, p->bpp);
        return PNG_PAETH_ROWS;
    }
    u->row[row[0]](row + 1, above, p->row_bytes, p->bpp);
    return 1;
}

/* All rows of a pass. e NULL: only the filter bytes are looked at. */
static enum slimset_status read_pass(struct stream *s, const struct png_chunks *c,
                                     const struct pass *p, const struct png_unfilter *u,
                                     const struct png_expand *e, const struct target *t,
                                     const uint8_t *zeros, struct slimset_error *err)
{
    const uint32_t h = pass_size(c->h, p->y0, p->dy);
    const unsigned pixel_bits = png_channels(c->colour) * c->depth;
    struct pass_rows rows = {.w = pass_size(c->w, p->x0, p->dx),
                             .bpp = pixel_bits < 8 ? 1 : pixel_bits / 8,
                             .zeros = zeros};
    if (rows.w == 0)
        return SLIMSET_OK;
    rows.row_bytes = (size_t)png_row_bytes(c, rows.w);
    uint32_t done = 0; /* rows whose filter is undone */
    for (uint32_t i = 0; i < h; i++) {
        uint8_t *row = NULL;
        enum slimset_status st =
            next_bytes(s, rows.row_bytes + 1, i == 0 ? 0 : rows.row_bytes, &row, err);
        if (st != SLIMSET_OK)
            return st;
        uint32_t y = p->y0 + i * p->dy;
        if (row[0] >= PNG_FILTERS)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNG row %u has filter type %u", y, row[0]);
        if (e == NULL)
            continue;
        if (i == done)
            done += unfilter(s, u, &rows, row, i == 0, h - i);
        if (!put_row(t, e, p, row + 1, rows.w, y))
            return err_bad(err, SLIMSET_REJECT_CORRUPT,
                           "PNG row %u has a palette index beyond the palette of %u", y,
                           e->palette_n);
    }
    return SLIMSET_OK;
}

/* One aligned row of samples for each plane. */
static enum slimset_status setup_samples(struct png_reader *r, uint32_t w, unsigned bits,
                                         struct target *t, struct slimset_error *err)
{
    size_t row, total;
    if (!add_size(2 * IMAGE_STRIDE_ALIGN + PNG_EXPAND_SLACK, (size_t)w * (bits / 8), &row) ||
        !mul_size(row / IMAGE_STRIDE_ALIGN * IMAGE_STRIDE_ALIGN, IMAGE_PLANES_MAX, &total) ||
        !add_size(total, IMAGE_STRIDE_ALIGN, &total))
        return err_nomem(err, SIZE_MAX);
    row = row / IMAGE_STRIDE_ALIGN * IMAGE_STRIDE_ALIGN;
    r->samples.len = 0;
    enum slimset_status st = buf_reserve(&r->samples, total, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_BAD_INPUT ? err_nomem(err, total) : st;
    size_t skew =
        (IMAGE_STRIDE_ALIGN - (uintptr_t)r->samples.data % IMAGE_STRIDE_ALIGN) % IMAGE_STRIDE_ALIGN;
    for (unsigned i = 0; i < IMAGE_PLANES_MAX; i++)
        t->samples[i] = r->samples.data + skew + i * row;
    return SLIMSET_OK;
}

/* Inflates and checks everything; pixels go to out unless it is NULL. */
static enum slimset_status read_image(struct png_reader *r, const uint8_t *data, size_t n,
                                      bool keep_index, struct image *out, uint32_t *notes,
                                      struct slimset_error *err)
{
    struct png_chunks c;
    enum slimset_status st = png_chunks_walk(data, n, &r->limits, &c, err);
    if (st != SLIMSET_OK)
        return st;
    uint64_t image_bytes;
    if (!image_bytes_of(&c, &image_bytes))
        return err_nomem(err, SIZE_MAX);
    if (image_bytes / DEFLATE_RATIO > c.idat_bytes)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "PNG image data of %llu bytes cannot hold the %llu bytes of the image",
                       (unsigned long long)c.idat_bytes, (unsigned long long)image_bytes);

    struct png_expand e;
    png_expand_init(&e, &c, keep_index, true);
    const struct png_expand *expand = &e;
    struct target t = {.out = out};
    if (out != NULL) {
        st = image_setup(out, png_expand_colour(&e), e.alpha, png_expand_bits(&e), c.w, c.h, err);
        if (st == SLIMSET_OK && keep_index && c.colour == PNG_PALETTE) {
            out->palette_n = c.plte_n;
            memcpy(out->palette, e.palette, sizeof out->palette);
        }
    } else if (c.colour != PNG_PALETTE || c.plte_n == 1u << c.depth) {
        expand = NULL; /* any sample is a right one: no need to look */
    }
    if (st == SLIMSET_OK && expand != NULL && (out == NULL || c.interlaced))
        st = setup_samples(r, c.w, png_expand_bits(&e), &t, err);
    struct stream s;
    const uint8_t *zeros = NULL;
    if (st == SLIMSET_OK)
        st = open_stream(r, data, &c, image_bytes, &s, &zeros, err);

    unsigned n_passes, pixel_bits = png_channels(c.colour) * c.depth;
    const struct pass *passes = passes_of(&c, &n_passes);
    struct png_unfilter u;
    png_unfilter_init(&u, pixel_bits < 8 ? 1 : pixel_bits / 8, true);
    for (unsigned i = 0; st == SLIMSET_OK && i < n_passes; i++)
        st = read_pass(&s, &c, &passes[i], &u, expand, &t, zeros, err);
    if (st == SLIMSET_OK)
        st = drain(&s, image_bytes, notes, err);
    if (st != SLIMSET_OK)
        return st;
    *notes |= c.notes;
    if (out != NULL && !keep_index && (c.colour == PNG_PALETTE || c.depth < 8))
        *notes |= NOTE_EXPANDED;
    return SLIMSET_OK;
}

enum slimset_status png_read_header(struct png_reader *r, const uint8_t *data, size_t n,
                                    struct image_info *info, struct slimset_error *err)
{
    struct png_chunks c;
    enum slimset_status st = png_chunks_walk(data, n, &r->limits, &c, err);
    if (st != SLIMSET_OK)
        return st;
    memset(info, 0, sizeof *info);
    bool gray = c.colour == PNG_GRAY || c.colour == PNG_GRAY_ALPHA;
    info->format = FORMAT_PNG;
    info->w = c.w;
    info->h = c.h;
    info->channels = gray ? 1 : 3;
    info->bits = c.depth;
    info->alpha = c.trns != NULL || c.colour == PNG_GRAY_ALPHA || c.colour == PNG_RGB_ALPHA;
    info->palette = c.colour == PNG_PALETTE;
    info->progressive = c.interlaced;
    info->colour = gray ? IMAGE_GRAY : IMAGE_RGB;
    info->frames = c.frames;
    info->icc_bytes = c.iccp_bytes;
    info->has_metadata = c.other;
    info->notes = c.notes;
    const uint8_t *tiff = c.exif;
    size_t tiff_bytes = c.exif_bytes;
    if (tiff_bytes >= 6 && memcmp(tiff, "Exif\0\0", 6) == 0) { /* some writers keep JPEG's prefix */
        tiff += 6;
        tiff_bytes -= 6;
    }
    info->orientation = (uint8_t)exif_orientation(tiff, tiff_bytes);
    return SLIMSET_OK;
}

enum slimset_status png_decode(struct png_reader *r, const uint8_t *data, size_t n,
                               const struct image_info *info, bool keep_index, struct image *out,
                               uint32_t *notes, struct slimset_error *err)
{
    (void)info; /* the chunks are walked again: that costs less than trusting a copy of them */
    return read_image(r, data, n, keep_index, out, notes, err);
}

enum slimset_status png_check(struct png_reader *r, const uint8_t *data, size_t n,
                              const struct image_info *info, uint32_t *notes,
                              struct slimset_error *err)
{
    (void)info;
    return read_image(r, data, n, true, NULL, notes, err);
}

enum slimset_status png_icc(struct png_reader *r, const uint8_t *data, size_t n, struct buf *out,
                            struct slimset_error *err)
{
    struct png_chunks c;
    enum slimset_status st = png_chunks_walk(data, n, &r->limits, &c, err);
    if (st != SLIMSET_OK || c.iccp == NULL)
        return st;
    const uint8_t *end = memchr(c.iccp, 0, c.iccp_bytes < 80 ? c.iccp_bytes : 80);
    size_t head = end != NULL ? (size_t)(end - c.iccp) + 2 : 0; /* name, its NUL, the method */
    if (head < 3 || head > c.iccp_bytes || end[1] != 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "PNG chunk iCCP has no name or an unknown compression");
    struct source none = {.what = "chunk iCCP", .data = data};
    input_none(r);
    r->io.in = c.iccp + head;
    r->io.in_n = c.iccp_bytes - head;
    st = start(r, &none, err);
    size_t before = out->len;
    while (st == SLIMSET_OK && !r->ended) {
        size_t got;
        st = buf_reserve(out, STAGE_BYTES, err);
        if (st == SLIMSET_OK)
            st = inflate_some(r, &none, out->data + out->len, STAGE_BYTES, &got, err);
        if (st != SLIMSET_OK)
            break;
        out->len += got;
        if (out->len - before > IMAGE_ICC_BYTES_MAX)
            st = err_bad(err, SLIMSET_REJECT_CORRUPT,
                         "PNG chunk iCCP: the profile has more than 4 MiB");
    }
    if (st != SLIMSET_OK)
        out->len = before;
    return st;
}
