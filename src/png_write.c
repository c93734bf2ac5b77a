/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows are interleaved from the planes, filtered, and deflated straight into the caller's buffer,
 * behind a gap that becomes the chunk's head. Filter and zlib strategy follow from the kind of
 * image, never from a trial: unfiltered rows repeat bytes, which the default strategy finds; the
 * residues of filtered rows are small numbers with few repeats, which is what Z_FILTERED is for.
 */
#include "png_write.h"

#include <stdlib.h>
#include <string.h>

#include <isa-l/crc.h>
#include <zlib.h>

#include "png_chunks.h"
#include "png_unfilter.h"

enum {
    IDAT_BYTES = 256 * 1024, /* body of an IDAT chunk at most */
    MEM_LEVEL = 9,           /* zlib's largest: 256 KiB, once per worker */
    FEW_VALUES = 64          /* gray images of at most this many values are maps, not pictures */
};

struct png_writer {
    z_stream z;
    bool z_ready;
    int level, strategy; /* of z */
    struct buf rows;     /* see struct row_set */
    uint8_t seen[65536 / 8];
};

/* How an image will be stored. */
struct form {
    uint8_t colour, depth; /* as in IHDR */
    bool filtered;
    size_t row_bytes; /* without the filter byte */
    unsigned bpp;     /* bytes per pixel for the filters */
};

/* Rows of row_bytes + 1; the first byte is the filter. */
struct row_set {
    uint8_t *now, *before;
    uint8_t *trial[PNG_FILTERS]; /* [0] is not used: that is now */
};

struct png_writer *png_writer_new(void) { return calloc(1, sizeof(struct png_writer)); }

void png_writer_free(struct png_writer *w)
{
    if (w == NULL)
        return;
    if (w->z_ready)
        deflateEnd(&w->z);
    buf_fini(&w->rows);
    free(w);
}

/* Whether a gray plane holds few enough values to be a map. */
static bool few_values(struct png_writer *w, const struct image *im)
{
    unsigned n = 0;
    memset(w->seen, 0, sizeof w->seen);
    for (uint32_t y = 0; y < im->h; y++) {
        const uint8_t *row = im->plane[0].data + (size_t)y * im->plane[0].stride_bytes;
        const uint16_t *row16 = (const uint16_t *)(const void *)row;
        for (uint32_t x = 0; x < im->w; x++) {
            unsigned v = im->bits == 16 ? row16[x] : row[x];
            if ((w->seen[v / 8] >> v % 8 & 1) != 0)
                continue;
            w->seen[v / 8] |= (uint8_t)(1u << v % 8);
            if (++n > FEW_VALUES)
                return false;
        }
    }
    return true;
}

static uint8_t largest_value(const struct image *im)
{
    uint8_t largest = 0;
    for (uint32_t y = 0; y < im->h; y++) {
        const uint8_t *row = im->plane[0].data + (size_t)y * im->plane[0].stride_bytes;
        for (uint32_t x = 0; x < im->w; x++)
            largest = row[x] > largest ? row[x] : largest;
    }
    return largest;
}

static enum slimset_status check_image(const struct image *im, int level, struct slimset_error *err)
{
    bool colour_ok = im->colour == IMAGE_GRAY || im->colour == IMAGE_RGB ||
                     (im->colour == IMAGE_INDEX && !im->alpha);
    bool bits_ok = im->bits == 8 || (im->bits == 16 && im->colour != IMAGE_INDEX);
    if (!colour_ok || !bits_ok || im->n_planes != image_colour_planes(im->colour) + im->alpha)
        return err_set(err, SLIMSET_INTERNAL,
                       "PNG cannot hold colour kind %d with %u planes of %u bits", im->colour,
                       im->n_planes, im->bits);
    if (level < 1 || level > 9)
        return err_set(err, SLIMSET_INTERNAL, "PNG level %d is not in 1..9", level);
    if (im->w == 0 || im->h == 0 || im->w > INT32_MAX || im->h > INT32_MAX)
        return err_set(err, SLIMSET_INTERNAL, "PNG cannot hold %u x %u pixels", im->w, im->h);
    for (unsigned i = 0; i < im->n_planes; i++)
        if (im->plane[i].w != im->w || im->plane[i].h != im->h)
            return err_set(err, SLIMSET_INTERNAL,
                           "PNG cannot hold plane %u of %u x %u in an image of %u x %u", i,
                           im->plane[i].w, im->plane[i].h, im->w, im->h);
    return SLIMSET_OK;
}

static enum slimset_status choose_form(struct png_writer *w, const struct image *im, int min_bits,
                                       int raw_gray_bits, struct form *f, struct slimset_error *err)
{
    f->depth = im->bits;
    if (im->colour == IMAGE_INDEX) {
        if (im->palette_n == 0 || im->palette_n > 256 || largest_value(im) >= im->palette_n)
            return err_set(err, SLIMSET_INTERNAL, "PNG palette of %u does not cover index %u",
                           im->palette_n, largest_value(im));
        f->colour = PNG_PALETTE;
        f->depth = 1;
        while (1u << f->depth < im->palette_n || f->depth < min_bits)
            f->depth = (uint8_t)(f->depth * 2);
        f->filtered = false;
    } else if (im->colour == IMAGE_RGB) {
        f->colour = im->alpha ? PNG_RGB_ALPHA : PNG_RGB;
        f->filtered = true;
    } else {
        f->colour = im->alpha ? PNG_GRAY_ALPHA : PNG_GRAY;
        if (raw_gray_bits == 1 || raw_gray_bits == 2 || raw_gray_bits == 4) {
            if (im->alpha || im->bits != 8 || largest_value(im) >= 1u << raw_gray_bits)
                return err_set(err, SLIMSET_INTERNAL, "gray plane does not fit a PNG of %d bits",
                               raw_gray_bits);
            f->depth = (uint8_t)raw_gray_bits;
        }
        f->filtered = f->depth >= 8 && !few_values(w, im);
    }
    size_t pixel_bits = (size_t)png_channels(f->colour) * f->depth, row_bits;
    if (!mul_size(im->w, pixel_bits, &row_bits) || row_bits > SIZE_MAX - 7)
        return err_nomem(err, SIZE_MAX);
    f->row_bytes = (row_bits + 7) / 8;
    f->bpp = pixel_bits < 8 ? 1 : (unsigned)pixel_bits / 8;
    return SLIMSET_OK;
}

static enum slimset_status append_chunk(struct buf *out, uint32_t type, const uint8_t *body,
                                        uint32_t n, struct slimset_error *err)
{
    enum slimset_status st = buf_reserve(out, (size_t)n + PNG_CHUNK_EXTRA, err);
    if (st != SLIMSET_OK)
        return st;
    uint8_t *p = out->data + out->len;
    put_be32(p, n);
    put_be32(p + 4, type);
    if (n != 0)
        memcpy(p + 8, body, n);
    put_be32(p + 8 + n, crc32_gzip_refl(0, p + 4, (uint64_t)n + 4));
    out->len += (size_t)n + PNG_CHUNK_EXTRA;
    return SLIMSET_OK;
}

/* Signature, IHDR, and PLTE and tRNS of a palette image. */
static enum slimset_status append_head(const struct image *im, const struct form *f,
                                       struct buf *out, struct slimset_error *err)
{
    static const uint8_t signature[PNG_SIGNATURE_BYTES] = {0x89, 'P',  'N',  'G',
                                                           '\r', '\n', 0x1a, '\n'};
    uint8_t ihdr[13] = {0};
    put_be32(ihdr, im->w);
    put_be32(ihdr + 4, im->h);
    ihdr[8] = f->depth;
    ihdr[9] = f->colour;
    enum slimset_status st = buf_append(out, signature, sizeof signature, err);
    if (st == SLIMSET_OK)
        st = append_chunk(out, PNG_IHDR, ihdr, sizeof ihdr, err);
    if (st != SLIMSET_OK || im->colour != IMAGE_INDEX)
        return st;
    uint8_t rgb[3 * 256], alpha[256];
    uint32_t n_alpha = 0; /* entries behind the last transparent one are opaque by default */
    for (uint32_t i = 0; i < im->palette_n; i++) {
        memcpy(rgb + 3 * i, im->palette[i], 3);
        alpha[i] = im->palette[i][3];
        if (alpha[i] != 255)
            n_alpha = i + 1;
    }
    st = append_chunk(out, PNG_PLTE, rgb, 3 * im->palette_n, err);
    if (st == SLIMSET_OK && n_alpha != 0)
        st = append_chunk(out, PNG_TRNS, alpha, n_alpha, err);
    return st;
}

/* One row of the image as PNG orders its bytes. */
static void compose(const struct image *im, const struct form *f, uint32_t y, uint8_t *to)
{
    unsigned n = im->n_planes;
    if (f->depth < 8) {
        const uint8_t *from = im->plane[0].data + (size_t)y * im->plane[0].stride_bytes;
        memset(to, 0, f->row_bytes);
        const unsigned per_byte = 8u / f->depth;
        for (uint32_t x = 0; x < im->w; x++)
            to[x / per_byte] |= (uint8_t)(from[x] << (8 - f->depth * (x % per_byte + 1)));
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *from = im->plane[i].data + (size_t)y * im->plane[i].stride_bytes;
        const uint16_t *from16 = (const uint16_t *)(const void *)from;
        if (f->depth == 16)
            for (size_t x = 0; x < im->w; x++) {
                to[2 * (x * n + i)] = (uint8_t)(from16[x] >> 8);
                to[2 * (x * n + i) + 1] = (uint8_t)from16[x];
            }
        else
            for (size_t x = 0; x < im->w; x++)
                to[x * n + i] = from[x];
    }
}

static inline uint8_t paeth(int a, int b, int c)
{
    int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    if (pa <= pb && pa <= pc)
        return (uint8_t)a;
    return (uint8_t)(pb <= pc ? b : c);
}

/* to = row filtered; both begin with the filter byte. */
static void filter_row(unsigned filter, const uint8_t *restrict row, const uint8_t *restrict before,
                       size_t n, size_t bpp, uint8_t *restrict to)
{
    *to++ = (uint8_t)filter;
    row++;
    before++;
    size_t head = n < bpp ? n : bpp; /* the first pixel has no left neighbour */
    for (size_t i = 0; i < head; i++) {
        static const uint8_t shift[PNG_FILTERS] = {8, 8, 0, 1, 0};
        to[i] = (uint8_t)(row[i] - (before[i] >> shift[filter]));
    }
    switch (filter) {
    case 1:
        for (size_t i = head; i < n; i++)
            to[i] = (uint8_t)(row[i] - row[i - bpp]);
        break;
    case 2:
        for (size_t i = head; i < n; i++)
            to[i] = (uint8_t)(row[i] - before[i]);
        break;
    case 3:
        for (size_t i = head; i < n; i++)
            to[i] = (uint8_t)(row[i] - (row[i - bpp] + before[i]) / 2);
        break;
    default:
        for (size_t i = head; i < n; i++)
            to[i] = (uint8_t)(row[i] - paeth(row[i - bpp], before[i], before[i - bpp]));
        break;
    }
}

/* Sum of the bytes' distances from zero, taken as signed. */
static uint64_t cost(const uint8_t *filtered, size_t n)
{
    uint64_t sum = 0;
    for (size_t from = 1; from <= n;) {
        size_t to = n + 1 - from > 65536 ? from + 65536 : n + 1;
        uint32_t part = 0;
        for (; from < to; from++)
            part += filtered[from] < 128 ? filtered[from] : 256u - filtered[from];
        sum += part;
    }
    return sum;
}

/* The cheapest of the five forms of the row; the lowest filter number among equals. */
static const uint8_t *filtered_row(const struct form *f, const struct row_set *rows)
{
    const uint8_t *best = rows->now;
    uint64_t best_cost = cost(best, f->row_bytes);
    for (unsigned filter = 1; filter < PNG_FILTERS; filter++) {
        filter_row(filter, rows->now, rows->before, f->row_bytes, f->bpp, rows->trial[filter]);
        uint64_t c = cost(rows->trial[filter], f->row_bytes);
        if (c < best_cost) {
            best_cost = c;
            best = rows->trial[filter];
        }
    }
    return best;
}

static enum slimset_status setup_rows(struct png_writer *w, const struct form *f,
                                      struct row_set *rows, struct slimset_error *err)
{
    size_t row = f->row_bytes + 1, total;
    if (!mul_size(row, 2 + PNG_FILTERS - 1, &total))
        return err_nomem(err, SIZE_MAX);
    w->rows.len = 0;
    enum slimset_status st = buf_reserve(&w->rows, total, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_BAD_INPUT ? err_nomem(err, total) : st;
    uint8_t *p = w->rows.data;
    memset(p, 0, 2 * row);
    rows->now = p;
    rows->before = p + row;
    rows->trial[0] = NULL;
    for (unsigned i = 1; i < PNG_FILTERS; i++)
        rows->trial[i] = p + (i + 1) * row;
    return SLIMSET_OK;
}

static enum slimset_status setup_deflate(struct png_writer *w, int level, int strategy,
                                         struct slimset_error *err)
{
    if (w->z_ready && w->level == level && w->strategy == strategy) {
        if (deflateReset(&w->z) != Z_OK)
            return err_set(err, SLIMSET_INTERNAL, "deflate cannot be reset");
        return SLIMSET_OK;
    }
    if (w->z_ready)
        deflateEnd(&w->z);
    memset(&w->z, 0, sizeof w->z);
    w->z_ready = false;
    int rc = deflateInit2(&w->z, level, Z_DEFLATED, MAX_WBITS, MEM_LEVEL, strategy);
    if (rc != Z_OK)
        return rc == Z_MEM_ERROR ? err_nomem(err, 256 * 1024)
                                 : err_set(err, SLIMSET_INTERNAL, "deflate says %d", rc);
    w->z_ready = true;
    w->level = level;
    w->strategy = strategy;
    return SLIMSET_OK;
}

/* Room for the next IDAT body, with its head left open in front. */
static enum slimset_status open_idat(z_stream *z, struct buf *out, struct slimset_error *err)
{
    enum slimset_status st = buf_reserve(out, IDAT_BYTES + PNG_CHUNK_EXTRA, err);
    if (st != SLIMSET_OK)
        return st;
    z->next_out = out->data + out->len + 8;
    z->avail_out = IDAT_BYTES;
    return SLIMSET_OK;
}

static void close_idat(const z_stream *z, struct buf *out)
{
    uint32_t n = IDAT_BYTES - z->avail_out;
    if (n == 0)
        return;
    uint8_t *p = out->data + out->len;
    put_be32(p, n);
    put_be32(p + 4, PNG_IDAT);
    put_be32(p + 8 + n, crc32_gzip_refl(0, p + 4, (uint64_t)n + 4));
    out->len += (size_t)n + PNG_CHUNK_EXTRA;
}

/* Deflates n bytes (and, with Z_FINISH, ends the stream), opening and closing IDAT chunks on the
 * way. */
static enum slimset_status put_bytes(z_stream *z, const uint8_t *bytes, size_t n, int flush,
                                     struct buf *out, struct slimset_error *err)
{
    int rc = Z_OK;
    while (n != 0 || (flush == Z_FINISH && rc != Z_STREAM_END)) {
        uInt part = n < 1u << 30 ? (uInt)n : 1u << 30;
        z->next_in = (Bytef *)bytes; /* zlib only reads there */
        z->avail_in = part;
        rc = deflate(z, n == part ? flush : Z_NO_FLUSH);
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return err_set(err, SLIMSET_INTERNAL, "deflate says %d", rc);
        if (part != 0)
            bytes += part - z->avail_in;
        n -= part - z->avail_in;
        if (z->avail_out == 0 && rc != Z_STREAM_END) {
            close_idat(z, out);
            enum slimset_status st = open_idat(z, out, err);
            if (st != SLIMSET_OK)
                return st;
        }
    }
    return SLIMSET_OK;
}

static enum slimset_status append_pixels(struct png_writer *w, const struct image *im,
                                         const struct form *f, int level, struct buf *out,
                                         struct slimset_error *err)
{
    struct row_set rows = {0};
    enum slimset_status st = setup_rows(w, f, &rows, err);
    if (st == SLIMSET_OK)
        st = setup_deflate(w, level, f->filtered ? Z_FILTERED : Z_DEFAULT_STRATEGY, err);
    if (st == SLIMSET_OK)
        st = open_idat(&w->z, out, err);
    for (uint32_t y = 0; st == SLIMSET_OK && y < im->h; y++) {
        compose(im, f, y, rows.now + 1);
        const uint8_t *row = f->filtered ? filtered_row(f, &rows) : rows.now;
        st = put_bytes(&w->z, row, f->row_bytes + 1, Z_NO_FLUSH, out, err);
        uint8_t *swap = rows.now;
        rows.now = rows.before;
        rows.before = swap;
    }
    if (st == SLIMSET_OK)
        st = put_bytes(&w->z, NULL, 0, Z_FINISH, out, err);
    if (st == SLIMSET_OK)
        close_idat(&w->z, out);
    return st;
}

enum slimset_status png_write(struct png_writer *w, const struct image *im, int level, int min_bits,
                              int raw_gray_bits, struct buf *out, struct slimset_error *err)
{
    struct form f = {0};
    size_t before = out->len;
    enum slimset_status st = check_image(im, level, err);
    if (st == SLIMSET_OK && min_bits != 0 && min_bits != 1 && min_bits != 2 && min_bits != 4 &&
        min_bits != 8)
        st = err_set(err, SLIMSET_INTERNAL, "PNG has no index depth %d", min_bits);
    if (st == SLIMSET_OK)
        st = choose_form(w, im, min_bits, raw_gray_bits, &f, err);
    if (st == SLIMSET_OK)
        st = append_head(im, &f, out, err);
    if (st == SLIMSET_OK)
        st = append_pixels(w, im, &f, level, out, err);
    if (st == SLIMSET_OK)
        st = append_chunk(out, PNG_IEND, NULL, 0, err);
    if (st != SLIMSET_OK)
        out->len = before;
    return st;
}
