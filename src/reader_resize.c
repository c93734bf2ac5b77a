/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoded and resized in one go. A JPEG in YCbCr stays in its planes until it has the wanted size:
 * chroma is resampled from its own resolution, and colour is converted at the small size, so that
 * the whole costs about as much as a plain decode to RGB.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pixel_out.h"
#include "pixels.h"
#include "reader_decode.h"

enum { THREADS_MAX = 256 };

void slimset_resize_options_init(struct slimset_resize_options *options)
{
    *options = (struct slimset_resize_options){.channels = 3};
}

/* The part of the picture that is shown, in pixels at full size. */
static enum slimset_status region_of(const struct coded *c, const struct slimset_resize_options *o,
                                     const struct slimset_box *box, struct resample_region *region,
                                     struct slimset_error *err)
{
    struct slimset_box b = {0, 0, c->info.w, c->info.h};
    if (box != NULL && box->w != 0 && box->h != 0)
        b = *box;
    if (b.x > c->info.w || b.w > c->info.w - b.x || b.y > c->info.h || b.h > c->info.h - b.y)
        return err_set(err, SLIMSET_USAGE,
                       "a box of %u x %u at %u, %u is not inside of a picture of %u x %u", b.w, b.h,
                       b.x, b.y, c->info.w, c->info.h);
    *region = (struct resample_region){b.x, b.y, b.w, b.h};
    if (o->fit != SLIMSET_FIT_CROP)
        return SLIMSET_OK;
    double w = b.w, h = b.h, wanted = (double)o->w / o->h;
    if (w > h * wanted)
        w = h * wanted;
    else
        h = w / wanted;
    *region = (struct resample_region){b.x + (b.w - w) / 2, b.y + (b.h - h) / 2, w, h};
    return SLIMSET_OK;
}

/* The smallest scale that leaves `times` the wanted size. */
static unsigned scale_for(const struct coded *c, const struct slimset_resize_options *o,
                          const struct resample_region *region)
{
    unsigned denom = 1, times = o->fast ? 1 : 2;
    if (c->info.format != FORMAT_JPEG || o->nearest)
        return 1;
    while (denom < 8 && region->w / (2 * denom) >= (double)times * o->w &&
           region->h / (2 * denom) >= (double)times * o->h)
        denom *= 2;
    return denom;
}

/* The region in samples of a plane. */
static struct resample_region in_plane(const struct resample_region *r, const struct image_plane *p)
{
    return (struct resample_region){r->x * p->per_px_x, r->y * p->per_px_y, r->w * p->per_px_x,
                                    r->h * p->per_px_y};
}

static void nearest(const struct image_plane *src, struct resample_region r,
                    struct image_plane *dst, unsigned bytes)
{
    for (uint32_t y = 0; y < dst->h; y++) {
        int64_t sy = (int64_t)floor(r.y + (y + 0.5) * r.h / dst->h);
        sy = sy < 0 ? 0 : sy >= src->h ? src->h - 1 : sy;
        const uint8_t *from = src->data + (size_t)sy * src->stride_bytes;
        uint8_t *to = dst->data + (size_t)y * dst->stride_bytes;
        for (uint32_t x = 0; x < dst->w; x++) {
            int64_t sx = (int64_t)floor(r.x + (x + 0.5) * r.w / dst->w);
            sx = sx < 0 ? 0 : sx >= src->w ? src->w - 1 : sx;
            memcpy(to + x * bytes, from + (size_t)sx * bytes, bytes);
        }
    }
}

/* Every plane of d->picture into d->made. */
static enum slimset_status resample_all(struct reader_decoder *d, const struct slimset_resize_options *o,
                                        const struct resample_region *region,
                                        struct slimset_error *err)
{
    struct image *im = &d->picture, *to = &d->made;
    if (reader_decoder_resampler(d) == NULL)
        return err_nomem(err, 0);
    enum slimset_status st = image_setup(to, im->colour, im->alpha, im->bits, o->w, o->h, err);
    for (unsigned i = 0; st == SLIMSET_OK && i < im->n_planes; i++) {
        struct resample_region r = in_plane(region, &im->plane[i]);
        if (o->nearest)
            nearest(&im->plane[i], r, &to->plane[i], im->bits / 8u);
        else
            st = resample_lanczos(d->resampler, &im->plane[i], r, &to->plane[i], im->bits, err);
    }
    return st;
}

static void swap_made(struct reader_decoder *d)
{
    struct image was = d->picture;
    d->picture = d->made;
    d->made = was;
}

static enum slimset_status resized(struct reader_decoder *d, const struct coded *c,
                                   const struct slimset_resize_options *o,
                                   const struct resample_region *region, struct pixel_out *out,
                                   struct slimset_error *err)
{
    bool ycc = c->info.colour == IMAGE_YCC && o->channels >= 3 && !o->nearest;
    enum slimset_status st = reader_decoder_planes(d, c, scale_for(c, o, region), false, ycc, err);
    if (st != SLIMSET_OK)
        return st;
    if (ycc) {
        st = resample_all(d, o, region, err);
        if (st == SLIMSET_OK)
            pixel_out_ycc(out, d->made.plane);
        return st;
    }
    const struct image_plane *picked[IMAGE_PLANES_MAX];
    unsigned n;
    /* Colours that alpha hides must not bleed: Pillow does the same. */
    bool blend = d->picture.alpha && o->channels == 4 && !o->nearest;
    if (blend)
        st = pixels_premultiply(&d->picture, &d->scratch, err);
    if (st == SLIMSET_OK && !blend) { /* fewer planes to resample */
        reader_decoder_pick(d, o->channels, picked, &n);
        if (d->picture.alpha && o->channels != 4)
            pixels_drop_alpha(&d->picture);
    }
    if (st == SLIMSET_OK)
        st = resample_all(d, o, region, err);
    if (st != SLIMSET_OK)
        return st;
    swap_made(d);
    if (blend)
        pixels_unpremultiply(&d->picture, 8);
    reader_decoder_pick(d, o->channels, picked, &n);
    pixel_out_planes(out, picked, 0, 0);
    return SLIMSET_OK;
}

/* w x h pixels from the middle as they are, 0 around them. */
static enum slimset_status centred(struct reader_decoder *d, const struct coded *c,
                                   const struct slimset_resize_options *o,
                                   const struct resample_region *region, struct pixel_out out,
                                   size_t bytes, struct slimset_error *err)
{
    const struct image_plane *picked[IMAGE_PLANES_MAX];
    unsigned n;
    enum slimset_status st = reader_decoder_planes(d, c, 1, false, false, err);
    if (st != SLIMSET_OK)
        return st;
    reader_decoder_pick(d, o->channels, picked, &n);
    uint32_t bw = (uint32_t)region->w, bh = (uint32_t)region->h;
    uint32_t x = (uint32_t)region->x + (bw > o->w ? (bw - o->w) / 2 : 0);
    uint32_t y = (uint32_t)region->y + (bh > o->h ? (bh - o->h) / 2 : 0);
    uint32_t to_x = bw < o->w ? (o->w - bw) / 2 : 0, to_y = bh < o->h ? (o->h - bh) / 2 : 0;
    if (bw < o->w || bh < o->h)
        memset(out.to, 0, bytes);
    size_t plane = pixel_out_plane_bytes(&out);
    struct pixel_out part = out;
    part.w = bw < o->w ? bw : o->w;
    part.h = bh < o->h ? bh : o->h;
    part.to += to_y * out.stride_bytes + to_x * (o->layout == SLIMSET_CHW ? 1u : out.channels);
    if (o->layout == SLIMSET_HWC) {
        pixel_out_planes(&part, picked, x, y);
        return SLIMSET_OK;
    }
    part.channels = 1; /* planes lie further apart than the part is high */
    for (unsigned i = 0; i < n; i++, part.to += plane)
        pixel_out_planes(&part, &picked[i], x, y);
    return SLIMSET_OK;
}

/* Whether pixels need not move: the wanted size is that of the part that is shown, or a middle of it
 * is wanted. *crop: where they are. */
static bool as_they_are(const struct slimset_resize_options *o,
                        const struct resample_region *region, struct slimset_box *crop)
{
    uint32_t w = (uint32_t)region->w, h = (uint32_t)region->h;
    bool centre = o->fit == SLIMSET_FIT_CENTRE && w >= o->w && h >= o->h;
    if (!centre && (region->w != o->w || region->h != o->h || region->x != floor(region->x) ||
                    region->y != floor(region->y)))
        return false;
    *crop = (struct slimset_box){(uint32_t)region->x + (w - o->w) / 2,
                                 (uint32_t)region->y + (h - o->h) / 2, o->w, o->h};
    return true;
}

static enum slimset_status cut_out(struct reader_decoder *d, const struct coded *c,
                                   const struct slimset_resize_options *o, struct slimset_box crop,
                                   uint8_t *buf, size_t bytes, struct slimset_error *err)
{
    struct slimset_decode_options plain;
    struct slimset_pixels px;
    slimset_decode_options_init(&plain);
    plain.channels = o->channels;
    plain.layout = o->layout;
    plain.scale = 1;
    plain.crop = crop;
    return reader_decoder_decode(d, c, &plain, buf, bytes, false, &px, err);
}

static enum slimset_status check_options(const struct slimset_resize_options *o, size_t *bytes,
                                         struct slimset_error *err)
{
    if (o->w == 0 || o->h == 0 || o->w > image_limits_default.max_side ||
        o->h > image_limits_default.max_side ||
        (o->channels != 1 && o->channels != 3 && o->channels != 4))
        return err_set(err, SLIMSET_USAGE, "%u x %u with %u channels is not possible", o->w, o->h,
                       o->channels);
    if (!mul_size((size_t)o->w * o->channels, o->h, bytes))
        return err_nomem(err, SIZE_MAX);
    return SLIMSET_OK;
}

/* One sample; options are checked, buf has `bytes`. */
static enum slimset_status decode_one(struct slimset_reader *r, struct reader_decoder *d, uint64_t i,
                                      uint32_t k, const struct slimset_resize_options *o,
                                      const struct slimset_box *box, uint8_t *buf, size_t bytes,
                                      struct slimset_error *err)
{
    struct coded c = {0};
    struct resample_region region = {0};
    enum slimset_status st = reader_decoder_open(r, d, i, k, &c, err);
    if (st == SLIMSET_OK && c.info.bits > 8)
        st = err_set(err, SLIMSET_USAGE, "a picture of 16 bits is not resized to 8");
    if (st == SLIMSET_OK)
        st = region_of(&c, o, box, &region, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_USAGE ? reader_blame(r, i, k, err) : st;
    struct pixel_out out = {.to = buf,
                            .stride_bytes = (size_t)o->w * (o->layout == SLIMSET_CHW ? 1u : o->channels),
                            .w = o->w,
                            .h = o->h,
                            .channels = o->channels,
                            .bits = 8,
                            .layout = o->layout};
    struct slimset_box crop;
    st = as_they_are(o, &region, &crop)   ? cut_out(d, &c, o, crop, buf, bytes, err)
         : o->fit == SLIMSET_FIT_CENTRE ? centred(d, &c, o, &region, out, bytes, err)
                                      : resized(d, &c, o, &region, &out, err);
    return st == SLIMSET_BAD_INPUT ? reader_blame(r, i, k, err) : st;
}

enum slimset_status slimset_reader_decode_resized(struct slimset_reader *reader, uint64_t i,
                                                  uint32_t k,
                                                  const struct slimset_resize_options *options,
                                                  const struct slimset_box *box, void *buf,
                                                  size_t cap, struct slimset_error *err)
{
    size_t bytes = 0;
    enum slimset_status st = check_options(options, &bytes, err);
    if (st == SLIMSET_OK && cap < bytes)
        st = err_set(err, SLIMSET_LIMIT, "the pixels have %zu bytes, the buffer %zu", bytes, cap);
    if (st != SLIMSET_OK)
        return st;
    struct reader_decoder *d = reader_decoder_take(reader);
    if (d == NULL)
        return err_nomem(err, sizeof *d);
    st = decode_one(reader, d, i, k, options, box, buf, bytes, err);
    reader_decoder_give(reader, d);
    return st;
}

/* ---- batches ---- */

struct batch {
    struct slimset_reader *r;
    const uint64_t *samples;
    size_t n;
    const char *name;
    size_t name_n;
    const struct slimset_resize_options *options;
    const struct slimset_box *boxes;
    uint8_t *buf;
    size_t bytes; /* of one sample */
    size_t next;  /* atomic: the next one to do */
};

/* One thread's share, and the first failure in it. */
struct share {
    struct batch *b;
    pthread_t thread;
    size_t failed; /* n: none */
    struct slimset_error err;
};

/* The field of the batch in a sample. */
static enum slimset_status field_for(const struct batch *b, uint64_t i, uint32_t *k,
                                     struct slimset_error *err)
{
    const struct slimset_sample *s;
    const struct slimset_field *f;
    if (b->name != NULL)
        return slimset_reader_field_named(b->r, i, b->name, b->name_n, k, err);
    enum slimset_status st = index_sample(&b->r->d.ix, i, &s, &f, err);
    for (uint32_t j = 0; st == SLIMSET_OK && j < s->n_fields; j++)
        if (f[j].w != 0 && f[j].role != SLIMSET_ROLE_MASK) {
            *k = j;
            return SLIMSET_OK;
        }
    if (st == SLIMSET_OK)
        st = err_set(err, SLIMSET_NOT_FOUND, "sample %llu has no field that is an image",
                     (unsigned long long)i);
    return st;
}

static void *work(void *arg)
{
    struct share *share = arg;
    struct batch *b = share->b;
    struct reader_decoder *d = reader_decoder_take(b->r);
    for (;;) {
        size_t at = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED);
        struct slimset_error err;
        uint32_t k = 0;
        if (at >= b->n)
            break;
        enum slimset_status st = d == NULL ? err_nomem(&err, sizeof *d)
                                           : field_for(b, b->samples[at], &k, &err);
        if (st == SLIMSET_OK)
            st = decode_one(b->r, d, b->samples[at], k, b->options,
                            b->boxes != NULL ? &b->boxes[at] : NULL, b->buf + at * b->bytes,
                            b->bytes, &err);
        if (st != SLIMSET_OK && share->failed == b->n) { /* numbers only rise: the first is the lowest */
            share->failed = at;
            share->err = err;
        }
    }
    if (d != NULL)
        reader_decoder_give(b->r, d);
    return NULL;
}

static unsigned processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

/* The caller is one of the threads; where others cannot be had, fewer do the work. */
static enum slimset_status run_batch(struct batch *b, unsigned threads, size_t *failed,
                                     struct slimset_error *err)
{
    struct share *shares = calloc(threads, sizeof *shares);
    if (shares == NULL)
        return err_nomem(err, threads * sizeof *shares);
    unsigned started = 1;
    for (unsigned t = 0; t < threads; t++)
        shares[t] = (struct share){.b = b, .failed = b->n};
    while (started < threads &&
           pthread_create(&shares[started].thread, NULL, work, &shares[started]) == 0)
        started++;
    work(&shares[0]);
    const struct share *first = &shares[0];
    for (unsigned t = 1; t < started; t++) {
        pthread_join(shares[t].thread, NULL);
        if (shares[t].failed < first->failed)
            first = &shares[t];
    }
    enum slimset_status st = SLIMSET_OK;
    if (first->failed < b->n) {
        *err = first->err;
        st = err->status;
        if (failed != NULL)
            *failed = first->failed;
    }
    free(shares);
    return st;
}

enum slimset_status slimset_reader_decode_batch(struct slimset_reader *reader,
                                                const uint64_t *samples, size_t n, const char *name,
                                                size_t name_n,
                                                const struct slimset_resize_options *options,
                                                const struct slimset_box *boxes, unsigned threads,
                                                void *buf, size_t cap, size_t *failed,
                                                struct slimset_error *err)
{
    struct batch b = {.r = reader,
                      .samples = samples,
                      .n = n,
                      .name = name,
                      .name_n = name_n,
                      .options = options,
                      .boxes = boxes,
                      .buf = buf};
    size_t all;
    enum slimset_status st = check_options(options, &b.bytes, err);
    if (st != SLIMSET_OK)
        return st;
    if (!mul_size(b.bytes, n, &all) || all > cap)
        return err_set(err, SLIMSET_LIMIT, "%zu pictures of %zu bytes do not fit into %zu", n,
                       b.bytes, cap);
    if (threads == 0)
        threads = processors();
    if (threads > n)
        threads = n > 0 ? (unsigned)n : 1;
    return run_batch(&b, threads < THREADS_MAX ? threads : THREADS_MAX, failed, err);
}
