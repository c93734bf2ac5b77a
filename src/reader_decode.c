/* SPDX-License-Identifier: Apache-2.0 */
#include "reader_decode.h"

#include <stdlib.h>
#include <string.h>

#include "jpeg_rows.h"
#include "pixel_out.h"
#include "pixels.h"
#include "sniff.h"

/* ---- decoders ---- */

struct reader_decoder *reader_decoder_take(struct slimset_reader *r)
{
    for (unsigned i = 0; i < READER_DECODERS; i++) {
        if (__atomic_load_n(&r->decoders[i], __ATOMIC_RELAXED) == NULL)
            continue;
        struct reader_decoder *d = __atomic_exchange_n(&r->decoders[i], NULL, __ATOMIC_ACQ_REL);
        if (d != NULL)
            return d;
    }
    return calloc(1, sizeof(struct reader_decoder));
}

void reader_decoder_give(struct slimset_reader *r, struct reader_decoder *d)
{
    for (unsigned i = 0; i < READER_DECODERS; i++) {
        struct reader_decoder *none = NULL;
        if (__atomic_compare_exchange_n(&r->decoders[i], &none, d, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return;
    }
    reader_decoder_free(d);
}

void reader_decoder_free(struct reader_decoder *d)
{
    if (d == NULL)
        return;
    jpeg_reader_free(d->jpeg);
    png_reader_free(d->png);
    resampler_free(d->resampler);
    array_reader_free(d->array);
    buf_fini(&d->bytes);
    buf_fini(&d->rows);
    image_fini(&d->picture);
    image_fini(&d->made);
    image_fini(&d->scratch);
    free(d);
}

void reader_decoders_fini(struct slimset_reader *r)
{
    for (unsigned i = 0; i < READER_DECODERS; i++)
        reader_decoder_free(r->decoders[i]);
}

struct resampler *reader_decoder_resampler(struct reader_decoder *d)
{
    if (d->resampler == NULL)
        d->resampler = resampler_new();
    return d->resampler;
}

/* ---- the field ---- */

static enum slimset_status read_bytes(struct slimset_reader *r, struct reader_decoder *d,
                                      const struct reader_field *f, struct coded *coded,
                                      struct slimset_error *err)
{
    coded->n = reader_bytes(r, f->f);
    coded->mask = f->f->role == SLIMSET_ROLE_MASK;
    if (f->ram != NULL) {
        coded->data = f->ram;
        return reader_check_ram(r, f, err);
    }
    d->bytes.len = 0;
    enum slimset_status st = buf_reserve(&d->bytes, coded->n + 1, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_BAD_INPUT ? err_nomem(err, coded->n) : st;
    coded->data = d->bytes.data;
    return reader_fetch(r, f, d->bytes.data, err);
}

static enum slimset_status read_header(struct reader_decoder *d, struct coded *coded,
                                       struct slimset_error *err)
{
    enum image_format format = sniff(coded->data, coded->n);
    switch (format) {
    case FORMAT_JPEG:
        if (d->jpeg == NULL)
            d->jpeg = jpeg_reader_new(&image_limits_default);
        return d->jpeg != NULL
                   ? jpeg_reader_header(d->jpeg, coded->data, coded->n, &coded->info, err)
                   : err_nomem(err, 0);
    case FORMAT_PNG:
        if (d->png == NULL)
            d->png = png_reader_new(&image_limits_default);
        return d->png != NULL ? png_read_header(d->png, coded->data, coded->n, &coded->info, err)
                              : err_nomem(err, 0);
    default:
        return err_bad(err, SLIMSET_REJECT_NO_DECODER, "is %s, only JPEG and PNG are decoded here",
                       sniff_format_name(format));
    }
}

enum slimset_status reader_decoder_open(struct slimset_reader *r, struct reader_decoder *d, uint64_t i, uint32_t k,
                                 struct coded *coded, struct slimset_error *err)
{
    struct reader_field f;
    enum slimset_status st = reader_field_open(r, i, k, &f, err);
    if (st != SLIMSET_OK)
        return st;
    st = read_bytes(r, d, &f, coded, err);
    if (st == SLIMSET_OK) {
        st = read_header(d, coded, err);
        if (st == SLIMSET_BAD_INPUT)
            reader_blame(r, i, k, err);
    }
    reader_field_fini(&f);
    return st;
}

/* ---- pixels ---- */

/* Indices of a palette, and gray values of a mask, where what is stored is wanted. */
static bool keeps_indices(const struct coded *c)
{
    return c->info.format == FORMAT_PNG && (c->info.palette || (c->mask && c->info.bits < 8));
}

/* Adobe's CMYK is stored as 255 - ink; Pillow hands out ink. */
static void invert(struct image *im)
{
    for (unsigned i = 0; i < 4; i++)
        for (uint32_t y = 0; y < im->plane[i].h; y++) {
            uint8_t *row = im->plane[i].data + (size_t)y * im->plane[i].stride_bytes;
            for (uint32_t x = 0; x < im->plane[i].w; x++)
                row[x] = (uint8_t)~row[x];
        }
}

enum slimset_status reader_decoder_planes(struct reader_decoder *d, const struct coded *coded, unsigned denom,
                                   bool indices, bool ycc, struct slimset_error *err)
{
    uint32_t notes = 0;
    if (coded->info.format == FORMAT_PNG) {
        return png_decode(d->png, coded->data, coded->n, &coded->info,
                          indices && keeps_indices(coded), &d->picture, &notes, err);
    }
    struct image_info info = coded->info;
    if (info.colour == IMAGE_YCC && !ycc)
        info.colour = IMAGE_RGB;
    enum slimset_status st =
        jpeg_decode(d->jpeg, coded->data, coded->n, &info, denom, &d->picture, &notes, err);
    if (st == SLIMSET_OK && denom > 1) { /* from here on planes are pictures of their own */
        d->picture.w = d->picture.plane[0].w;
        d->picture.h = d->picture.plane[0].h;
    }
    return st;
}

void reader_decoder_pick(struct reader_decoder *d, unsigned channels, const struct image_plane **picked,
                  unsigned *n)
{
    struct image *im = &d->picture;
    if (im->colour == IMAGE_CMYK && channels != 0)
        pixels_cmyk_to_rgb(im);
    else if (im->colour == IMAGE_CMYK)
        invert(im);
    if (channels == 1 && im->colour == IMAGE_RGB)
        pixels_to_gray(im);
    unsigned colours = im->n_planes - (im->alpha ? 1u : 0u);
    *n = channels != 0 ? channels : im->n_planes;
    for (unsigned c = 0; c < *n; c++) {
        if (c < 3 || channels == 0)
            picked[c] = &im->plane[channels != 0 && c >= colours ? 0 : c];
        else
            picked[c] = im->alpha ? &im->plane[colours] : NULL;
    }
}

/* ---- what is wanted ---- */

void slimset_decode_options_init(struct slimset_decode_options *options)
{
    *options = (struct slimset_decode_options){0};
}

/* A decode thought through: scale, the window in the scaled picture, and the output but for its place. */
struct job {
    unsigned scale;
    uint32_t x, y, scaled_w, scaled_h;
    struct pixel_out out;
    size_t bytes;
};

static uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

static unsigned channels_stored(const struct coded *c)
{
    return keeps_indices(c) ? 1u : c->info.channels + (c->info.alpha ? 1u : 0u);
}

static enum slimset_status think(const struct coded *c, const struct slimset_decode_options *o,
                                 struct job *j, struct slimset_error *err)
{
    const struct image_info *info = &c->info;
    struct slimset_box box = o->crop;
    if (box.w == 0 || box.h == 0)
        box = (struct slimset_box){0, 0, info->w, info->h};
    if (box.x > info->w || box.w > info->w - box.x || box.y > info->h || box.h > info->h - box.y)
        return err_set(err, SLIMSET_USAGE,
                       "a crop of %u x %u at %u, %u is not inside of a picture of %u x %u", box.w,
                       box.h, box.x, box.y, info->w, info->h);
    if (o->channels == 2 || o->channels > 4 || (o->scale & (o->scale - 1)) != 0 || o->scale > 8)
        return err_set(err, SLIMSET_USAGE, "%u channels at 1/%u is not possible", o->channels,
                       o->scale);
    j->scale = o->scale;
    if (j->scale == 0) {
        j->scale = 1;
        while (info->format == FORMAT_JPEG && (o->min_w != 0 || o->min_h != 0) && j->scale < 8 &&
               box.w / (2 * j->scale) >= o->min_w && box.h / (2 * j->scale) >= o->min_h)
            j->scale *= 2;
    }
    j->scaled_w = ceil_div(info->w, j->scale);
    j->scaled_h = ceil_div(info->h, j->scale);
    j->x = box.x / j->scale;
    j->y = box.y / j->scale;
    unsigned channels = o->channels != 0 ? o->channels : channels_stored(c);
    j->out = (struct pixel_out){.w = ceil_div(box.x + box.w, j->scale) - j->x,
                                .h = ceil_div(box.y + box.h, j->scale) - j->y,
                                .channels = (uint8_t)channels,
                                .bits = info->bits > 8 ? 16 : 8,
                                .layout = o->layout};
    size_t row = (size_t)j->out.w * (j->out.bits / 8u) * (o->layout == SLIMSET_CHW ? 1 : channels);
    j->out.stride_bytes = o->stride_bytes != 0 ? o->stride_bytes : row;
    if (j->out.stride_bytes < row || j->out.stride_bytes % (j->out.bits / 8u) != 0)
        return err_set(err, SLIMSET_USAGE, "a stride of %zu bytes is not enough for rows of %zu",
                       j->out.stride_bytes, row);
    size_t rows = j->out.h * (o->layout == SLIMSET_CHW ? (size_t)channels : 1);
    if (!mul_size(j->out.stride_bytes, rows, &j->bytes))
        return err_set(err, SLIMSET_USAGE, "a stride of %zu bytes is too much for %zu rows", j->out.stride_bytes, rows);
    return SLIMSET_OK;
}

/* Whether libjpeg's own rows are what is wanted, but for their layout. */
static bool rows_will_do(const struct coded *c, unsigned channels)
{
    if (c->info.format != FORMAT_JPEG || c->info.colour == IMAGE_CMYK)
        return false;
    return channels >= 3 || c->info.colour == IMAGE_GRAY || channels == 1;
}

static enum slimset_status decode_rows(struct reader_decoder *d, const struct coded *c, const struct job *j,
                                       struct slimset_error *err)
{
    const struct pixel_out *out = &j->out;
    unsigned n = out->channels == 1 && c->info.colour != IMAGE_GRAY ? 3 : out->channels;
    uint32_t notes = 0;
    struct jpeg_window win = {.denom = j->scale,
                              .x = j->x,
                              .y = j->y,
                              .w = out->w,
                              .h = out->h,
                              .pixel_bytes = n,
                              .to = out->to,
                              .stride_bytes = out->stride_bytes};
    bool direct = n == out->channels && (out->layout == SLIMSET_HWC || n == 1);
    size_t bytes;
    if (!direct) {
        win.stride_bytes = (size_t)out->w * n;
        d->rows.len = 0;
        if (!mul_size(win.stride_bytes, out->h, &bytes) ||
            buf_reserve(&d->rows, bytes, err) != SLIMSET_OK)
            return err_nomem(err, win.stride_bytes * out->h);
        win.to = d->rows.data;
    }
    enum slimset_status st = jpeg_rows(d->jpeg, c->data, c->n, &c->info, &win, &notes, err);
    if (st == SLIMSET_OK && !direct)
        pixel_out_rows(out, win.to, win.stride_bytes, n);
    return st;
}

/* d->picture resampled to the scaled size, in d->made and then swapped. */
static enum slimset_status shrink(struct reader_decoder *d, const struct job *j, struct slimset_error *err)
{
    struct image *im = &d->picture;
    if (reader_decoder_resampler(d) == NULL)
        return err_nomem(err, 0);
    enum slimset_status st =
        image_setup(&d->made, im->colour, im->alpha, im->bits, j->scaled_w, j->scaled_h, err);
    for (unsigned i = 0; st == SLIMSET_OK && i < im->n_planes; i++) {
        struct resample_region all = {0, 0, im->plane[i].w, im->plane[i].h};
        if (im->colour == IMAGE_INDEX)
            resample_nearest(&im->plane[i], &d->made.plane[i], im->bits);
        else
            st = resample_lanczos(d->resampler, &im->plane[i], all, &d->made.plane[i], im->bits,
                                  err);
    }
    struct image was = *im;
    *im = d->made;
    d->made = was;
    return st;
}

static enum slimset_status decode_planes(struct reader_decoder *d, const struct coded *c,
                                         const struct job *j, unsigned channels,
                                         struct slimset_error *err)
{
    const struct image_plane *picked[IMAGE_PLANES_MAX];
    unsigned n;
    bool png = c->info.format == FORMAT_PNG;
    enum slimset_status st =
        reader_decoder_planes(d, c, png ? 1 : j->scale, channels == 0, false, err);
    if (st == SLIMSET_OK && png && j->scale > 1)
        st = shrink(d, j, err);
    if (st != SLIMSET_OK)
        return st;
    reader_decoder_pick(d, channels, picked, &n);
    if (n != j->out.channels || d->picture.bits != j->out.bits ||
        d->picture.plane[0].w != j->scaled_w || d->picture.plane[0].h != j->scaled_h)
        return err_set(err, SLIMSET_INTERNAL, "header and decoder do not agree on a picture");
    pixel_out_planes(&j->out, picked, j->x, j->y);
    return SLIMSET_OK;
}

static void answer(const struct job *j, struct slimset_pixels *pixels)
{
    *pixels = (struct slimset_pixels){.w = j->out.w,
                                      .h = j->out.h,
                                      .channels = j->out.channels,
                                      .bits = j->out.bits,
                                      .bytes = j->bytes};
}

enum slimset_status reader_decoder_decode(struct reader_decoder *d, const struct coded *c,
                                          const struct slimset_decode_options *o, void *buf,
                                          size_t cap, bool size_only, struct slimset_pixels *pixels,
                                          struct slimset_error *err)
{
    struct job j;
    enum slimset_status st = think(c, o, &j, err);
    if (st != SLIMSET_OK)
        return st;
    answer(&j, pixels);
    if (size_only)
        return SLIMSET_OK;
    if (cap < j.bytes)
        return err_set(err, SLIMSET_LIMIT, "the pixels have %zu bytes, the buffer %zu", j.bytes,
                       cap);
    j.out.to = buf;
    return rows_will_do(c, j.out.channels) ? decode_rows(d, c, &j, err)
                                           : decode_planes(d, c, &j, o->channels, err);
}

/* With a decoder of the reader's, and defaults for NULL. */
static enum slimset_status with_decoder(struct slimset_reader *r, uint64_t i, uint32_t k,
                                        const struct slimset_decode_options *options, void *buf,
                                        size_t cap, bool size_only, struct slimset_pixels *pixels,
                                        struct slimset_error *err)
{
    struct slimset_decode_options defaults;
    slimset_decode_options_init(&defaults);
    struct reader_decoder *d = reader_decoder_take(r);
    if (d == NULL)
        return err_nomem(err, sizeof *d);
    struct coded c = {0};
    enum slimset_status st = reader_decoder_open(r, d, i, k, &c, err);
    if (st == SLIMSET_OK) {
        st = reader_decoder_decode(d, &c, options != NULL ? options : &defaults, buf, cap,
                                   size_only, pixels, err);
        if (st == SLIMSET_BAD_INPUT)
            st = reader_blame(r, i, k, err);
    }
    reader_decoder_give(r, d);
    return st;
}

enum slimset_status slimset_reader_decode_size(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                               const struct slimset_decode_options *options,
                                               struct slimset_pixels *pixels,
                                               struct slimset_error *err)
{
    return with_decoder(reader, i, k, options, NULL, 0, true, pixels, err);
}

enum slimset_status slimset_reader_decode(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                          const struct slimset_decode_options *options, void *buf,
                                          size_t cap, struct slimset_pixels *pixels,
                                          struct slimset_error *err)
{
    return with_decoder(reader, i, k, options, buf, cap, false, pixels, err);
}

enum slimset_status slimset_decode_bytes(const void *data, size_t n,
                                         const struct slimset_decode_options *options, void *buf,
                                         size_t cap, struct slimset_pixels *pixels,
                                         struct slimset_error *err)
{
    struct slimset_decode_options defaults;
    struct coded c = {.data = data, .n = n};
    slimset_decode_options_init(&defaults);
    struct reader_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return err_nomem(err, sizeof *d);
    enum slimset_status st = read_header(d, &c, err);
    if (st == SLIMSET_OK)
        st = reader_decoder_decode(d, &c, options != NULL ? options : &defaults, buf, cap,
                                   buf == NULL && cap == 0, pixels, err);
    reader_decoder_free(d);
    return st;
}
