/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_impl.h"

#include "min_ssim.h"
#include "pixels.h"
#include "resize.h"

/* The codec that keeps a source format, or the nearest one that can. */
static enum slimset_codec codec_for(enum image_format f)
{
    switch (f) {
    case FORMAT_JPEG:
    case FORMAT_HEIF:
    case FORMAT_AVIF:
    case FORMAT_JXL:
    case FORMAT_JP2:
        return SLIMSET_CODEC_JPEG;
    case FORMAT_WEBP:
        return SLIMSET_CODEC_WEBP;
    default:
        return SLIMSET_CODEC_PNG;
    }
}

static enum image_format format_of(enum slimset_codec codec)
{
    switch (codec) {
    case SLIMSET_CODEC_JPEG:
        return FORMAT_JPEG;
    case SLIMSET_CODEC_PNG:
        return FORMAT_PNG;
    case SLIMSET_CODEC_WEBP:
        return FORMAT_WEBP;
    case SLIMSET_CODEC_NPY:
        return FORMAT_NPY;
    default: /* an image's bytes, and what only arrays become */
        break;
    }
    return FORMAT_UNKNOWN;
}

enum slimset_status convert_prepare(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                    struct slimset_error *err)
{
    enum slimset_status st = decode_header(c->decoder, data, n, &w->info, err);
    if (st != SLIMSET_OK)
        return st;
    bool swaps = w->info.orientation >= 5;
    w->up_w = swaps ? w->info.h : w->info.w;
    w->up_h = swaps ? w->info.w : w->info.h;
    w->geometry = geometry_of(&c->recipe, w->up_w, w->up_h);
    w->labels = convert_is_labels(w->in->role);
    w->codec = w->in->codec == SLIMSET_CODEC_KEEP ? codec_for(w->info.format) : (enum slimset_codec)w->in->codec;
    if (w->labels && w->codec != SLIMSET_CODEC_NPY)
        w->codec = SLIMSET_CODEC_PNG;
    if (c->recipe.depth == SLIMSET_DEPTH_8_RANGE) {
        w->depth_lo = c->recipe.depth_lo;
        w->depth_hi = c->recipe.depth_hi;
    } else if (w->in->depth_lo < w->in->depth_hi) {
        w->depth_lo = w->in->depth_lo;
        w->depth_hi = w->in->depth_hi;
    }
    struct item_field *f = w->field;
    f->in_w = w->up_w;
    f->in_h = w->up_h;
    f->in_format = (uint8_t)w->info.format;
    f->in_bits = w->info.bits;
    f->in_channels = (uint8_t)(w->info.channels + w->info.alpha);
    f->orientation = w->info.orientation;
    f->frames = w->info.frames;
    f->in_lossless = w->info.lossless;
    f->notes |= w->info.notes;
    return SLIMSET_OK;
}

/* Would the source's own bytes do as the output (before the entropy check)? */
static bool already_fits(const struct converter *c, const struct work *w)
{
    const struct image_info *i = &w->info;
    const struct slimset_recipe *r = &c->recipe;
    if (format_of(w->codec) != i->format || w->geometry.resized || i->orientation != 1 || i->frames > 1)
        return false;
    if (w->labels)
        return true;
    if (r->color == SLIMSET_COLOR_SRGB && i->icc_bytes > 0)
        return false;
    if (r->channels != 0 && (i->channels != r->channels || i->palette || i->alpha))
        return false;
    if (i->alpha && (r->alpha == SLIMSET_ALPHA_REJECT || r->alpha == SLIMSET_ALPHA_FLATTEN))
        return false;
    if (i->bits == 16 && r->depth != SLIMSET_DEPTH_KEEP)
        return false;
    if (i->format == FORMAT_JPEG)
        return (i->colour == IMAGE_YCC || i->colour == IMAGE_GRAY) && !i->arithmetic;
    return true;
}

/* The source's bytes become the output: whole, or without metadata. They must decode. */
static enum slimset_status pass_through(struct converter *c, const uint8_t *data, size_t n, struct work *w, bool strip,
                                        struct buf *out, struct slimset_error *err)
{
    struct item_field *f = w->field;
    enum slimset_status st = decode_check(c->decoder, data, n, &w->info, &c->decoded, &f->notes, err);
    size_t start = out->len;
    if (st == SLIMSET_OK)
        st = strip ? decode_strip(data, n, &w->info, out, err) : buf_append(out, data, n, err);
    if (st != SLIMSET_OK)
        return st;
    f->payload_bytes = out->len - start;
    f->notes |= NOTE_COPIED;
    if (f->payload_bytes < n)
        f->notes |= NOTE_STRIPPED;
    if (w->info.format == FORMAT_JPEG && w->info.progressive)
        f->notes |= NOTE_PROGRESSIVE;
    if (w->info.icc_bytes > 0 && strip && f->payload_bytes < n)
        f->notes |= NOTE_PROFILE_DROPPED;
    if (w->info.bits == 16)
        f->notes |= NOTE_KEPT_16BIT;
    f->w = w->up_w;
    f->h = w->up_h;
    f->format = (uint8_t)w->info.format;
    f->channels = f->in_channels;
    f->bits = w->info.bits;
    return SLIMSET_OK;
}

/* The largest scaled decode that leaves the resampler at least a factor of 2, so that quality stays that of a full decode. */
static unsigned scale_denom(const struct work *w)
{
    if (w->labels || w->info.format != FORMAT_JPEG)
        return 1;
    double rx = w->geometry.src_w / w->geometry.dst_w, ry = w->geometry.src_h / w->geometry.dst_h;
    double ratio = rx < ry ? rx : ry;
    unsigned denom = 1;
    while (denom < 8 && ratio >= 4.0 * denom)
        denom *= 2;
    return denom;
}

/* Colour, alpha and channel decisions on the decoded picture, before it is resized. */
static enum slimset_status settle_colours(struct converter *c, struct work *w, struct slimset_error *err)
{
    struct image *im = &c->decoded;
    const struct slimset_recipe *r = &c->recipe;
    enum slimset_status st = SLIMSET_OK;
    if (im->colour == IMAGE_CMYK) {
        pixels_cmyk_to_rgb(im);
        w->field->notes |= NOTE_CMYK;
    }
    if (im->colour == IMAGE_INDEX)
        st = pixels_expand(im, &c->scratch, err);
    if (st == SLIMSET_OK && im->alpha && pixels_alpha_opaque(im)) {
        pixels_drop_alpha(im);
        w->field->notes |= NOTE_ALPHA_DROPPED;
    }
    if (st == SLIMSET_OK && im->bits == 16 && w->depth_lo < w->depth_hi && pixels_outside(im, w->depth_lo, w->depth_hi))
        w->field->notes |= NOTE_CLIPPED;
    if (st == SLIMSET_OK && im->alpha) {
        bool format_holds = w->codec == SLIMSET_CODEC_PNG || w->codec == SLIMSET_CODEC_WEBP;
        bool holds = format_holds && r->alpha != SLIMSET_ALPHA_FLATTEN && r->channels == 0;
        bool can_hold = format_holds || w->codec == SLIMSET_CODEC_NPY;
        if (r->alpha == SLIMSET_ALPHA_REJECT)
            return err_bad(err, SLIMSET_REJECT_ALPHA, "has an alpha channel that is not opaque (--alpha reject)");
        if (r->alpha == SLIMSET_ALPHA_KEEP && !can_hold)
            return err_bad(err, SLIMSET_REJECT_ALPHA, "has real alpha, which JPEG cannot hold (--alpha keep)");
        if (r->alpha != SLIMSET_ALPHA_KEEP && !holds) {
            st = pixels_flatten(im, r->background, &c->scratch, err);
            w->field->notes |= NOTE_FLATTENED;
        }
    }
    if (st == SLIMSET_OK && r->channels == 1 && im->colour != IMAGE_GRAY) {
        if (im->colour == IMAGE_YCC) {
            im->colour = IMAGE_GRAY;
            im->n_planes = 1;
        } else {
            pixels_to_gray(im);
        }
        w->field->notes |= NOTE_CHANNELS;
    }
    return st;
}

/* 16 bits into a codec that has 8: only on a decision, never silently. */
static enum slimset_status settle_depth(struct converter *c, struct work *w, struct image *im, struct slimset_error *err)
{
    const struct slimset_recipe *r = &c->recipe;
    if (im->bits != 16 || w->labels)
        return SLIMSET_OK;
    bool only_8 = w->codec == SLIMSET_CODEC_JPEG || w->codec == SLIMSET_CODEC_WEBP;
    if (r->depth != SLIMSET_DEPTH_KEEP && !(w->depth_lo < w->depth_hi)) {
        return err_bad(err, SLIMSET_REJECT_DEPTH, "16 bits per sample, and none of the files that were looked at for --depth 8:auto "
                       "had so many: --replan looks again, --depth 8:LO,HI gives the range");
    } else if (r->depth != SLIMSET_DEPTH_KEEP) {
        pixels_to_8bit(im, false, w->depth_lo, w->depth_hi);
        w->field->notes |= NOTE_SCALED_8BIT;
    } else if (only_8 && (w->in->flags & ITEM_SHIFT_16)) {
        pixels_to_8bit(im, true, 0, 65535);
        w->field->notes |= NOTE_SCALED_8BIT;
    } else if (only_8) {
        return err_bad(err, SLIMSET_REJECT_DEPTH,
                       "16 bits per sample, and 8 bits would lose values: choose --depth 8:auto, --depth 8:LO,HI or --codec png");
    } else {
        w->field->notes |= NOTE_KEPT_16BIT;
    }
    return SLIMSET_OK;
}

/* Masks only: a depth map has values like pixels. */
static enum slimset_status note_lost_labels(struct converter *c, const struct image *before, const struct image *after,
                                            struct work *w, struct slimset_error *err)
{
    if (w->in->role != SLIMSET_ROLE_MASK)
        return SLIMSET_OK;
    enum slimset_status st = pixels_values_lost(before, after, &c->values, &w->field->classes_lost, err);
    if (w->field->classes_lost > 0)
        w->field->notes |= NOTE_CLASSES_LOST;
    return st;
}

/* Labels are never blended, and depth maps never counted either. */
static enum resize_filter filter_of(const struct converter *c, const struct work *w)
{
    if (!w->labels)
        return RESIZE_LANCZOS;
    return w->in->role == SLIMSET_ROLE_MASK && c->recipe.mask_filter == SLIMSET_MASK_MAJORITY ? RESIZE_MAJORITY : RESIZE_NEAREST;
}

/* Is the decoded picture already what resize_image would make of it? */
static bool needs_no_resize(const struct work *w, const struct image *im, const struct resize_job *job)
{
    if (w->geometry.resized || job->orientation != 1)
        return false;
    for (unsigned i = 0; i < im->n_planes; i++) {
        bool chroma = im->colour == IMAGE_YCC && (i == 1 || i == 2);
        if (im->plane[i].per_px_x != 1.0 / (chroma ? job->sub_x : 1) ||
            im->plane[i].per_px_y != 1.0 / (chroma ? job->sub_y : 1))
            return false;
    }
    return true;
}

static const uint8_t no_label[3] = {0, 0, 0}; /* what a mask is padded with */

/* c->decoded into *result: right size, upright. */
static enum slimset_status to_size(struct converter *c, struct work *w, struct image **result, struct slimset_error *err)
{
    struct image *im = &c->decoded;
    const struct slimset_recipe *r = &c->recipe;
    struct resize_job job = {
        .geometry = &w->geometry, .orientation = w->info.orientation, .filter = filter_of(c, w),
        .sub_x = r->subsampling == SLIMSET_SUBSAMPLING_444 ? 1 : 2,
        .sub_y = r->subsampling == SLIMSET_SUBSAMPLING_420 ? 2 : 1,
        .background = w->labels ? no_label : r->background};
    if (w->geometry.resized)
        w->field->notes |= NOTE_RESIZED | (job.filter == RESIZE_NEAREST ? NOTE_NEAREST
                                           : job.filter == RESIZE_MAJORITY ? NOTE_MAJORITY : 0);
    if (w->info.orientation != 1)
        w->field->notes |= NOTE_ROTATED;
    *result = im;
    if (needs_no_resize(w, im, &job))
        return SLIMSET_OK;
    uint8_t bits = im->bits;
    bool premultiplied = im->alpha && !w->labels && w->geometry.resized; /* turning mixes nothing */
    enum slimset_status st = premultiplied ? pixels_premultiply(im, &c->scratch, err) : SLIMSET_OK;
    if (st == SLIMSET_OK)
        st = resize_image(c->resampler, im, &job, &c->scratch, &c->sized, err);
    if (st != SLIMSET_OK)
        return st;
    if (premultiplied)
        pixels_unpremultiply(&c->sized, bits);
    *result = &c->sized;
    return w->labels ? note_lost_labels(c, im, &c->sized, w, err) : SLIMSET_OK;
}

static enum slimset_status reencode(struct converter *c, const uint8_t *data, size_t n, struct work *w, struct buf *out,
                                    struct slimset_error *err)
{
    struct item_field *f = w->field;
    bool srgb = c->recipe.color == SLIMSET_COLOR_SRGB && !w->labels;
    enum decode_want want = w->labels ? DECODE_LABELS
                            : w->codec == SLIMSET_CODEC_JPEG ? DECODE_NATIVE : DECODE_RGB;
    struct image *im;
    enum slimset_status st = decode_image(c->decoder, data, n, &w->info, want, scale_denom(w), srgb, &c->decoded,
                                          &f->notes, err);
    if (st == SLIMSET_OK && !w->labels)
        st = settle_colours(c, w, err);
    if (st == SLIMSET_OK)
        st = to_size(c, w, &im, err);
    if (st == SLIMSET_OK)
        st = settle_depth(c, w, im, err);
    if (st == SLIMSET_OK && c->recipe.channels == 3 && im->colour == IMAGE_GRAY && !w->labels) {
        st = pixels_to_rgb(im, &c->scratch, err);
        f->notes |= NOTE_CHANNELS;
    }
    if (st != SLIMSET_OK)
        return st;
    int label_bits = w->labels && im->colour == IMAGE_GRAY && w->info.bits < 8 ? w->info.bits : 0;
    size_t start = out->len;
    struct slimset_recipe as = c->recipe;
    as.lossless |= w->in->codec == SLIMSET_CODEC_KEEP && w->info.lossless; /* the format is kept, and this is part of it */
    if (w->codec == SLIMSET_CODEC_JPEG && as.min_ssim > 0) {
        st = min_ssim_quality(im, as.min_ssim, &c->values, &as.quality, &f->ssim_e6, err);
        if (f->ssim_e6 < as.min_ssim * 1e6 - 1)
            f->notes |= NOTE_MISSED_SSIM;
    }
    if (st == SLIMSET_OK)
        st = encode_image(c->encoder, im, w->codec, &as, label_bits, out, err);
    if (st != SLIMSET_OK)
        return st;
    f->payload_bytes = out->len - start;
    f->notes |= NOTE_REENCODED;
    if (w->info.icc_bytes > 0 && !(f->notes & NOTE_PROFILE_USED))
        f->notes |= NOTE_PROFILE_DROPPED;
    f->w = im->w;
    f->h = im->h;
    f->format = (uint8_t)format_of(w->codec);
    f->channels = im->n_planes;
    f->bits = label_bits != 0 ? (uint8_t)label_bits : im->bits;
    bool lossy = w->codec == SLIMSET_CODEC_JPEG || (w->codec == SLIMSET_CODEC_WEBP && !as.lossless);
    f->quality = lossy ? (uint8_t)as.quality : 0;
    return SLIMSET_OK;
}

bool convert_keeps_pixels(const struct slimset_recipe *r)
{
    return r->resize == SLIMSET_RESIZE_NONE && r->channels == 0 && r->color == SLIMSET_COLOR_KEEP &&
           r->depth == SLIMSET_DEPTH_KEEP && r->alpha != SLIMSET_ALPHA_REJECT && r->alpha != SLIMSET_ALPHA_FLATTEN && !r->reencode_all;
}

enum slimset_status convert_image(struct converter *c, const uint8_t *data, size_t n, struct work *w, struct buf *out,
                                  struct slimset_error *err)
{
    enum slimset_status st = convert_prepare(c, data, n, w, err);
    if (st == SLIMSET_OK && w->info.icc_bytes > 0)
        st = decode_profile_name(c->decoder, data, n, &w->info, w->field->profile, err);
    if (st != SLIMSET_OK)
        return st;
    if (w->in->codec == SLIMSET_CODEC_KEEP && convert_keeps_pixels(&c->recipe))
        return pass_through(c, data, n, w, false, out, err);
    bool fits = already_fits(c, w);
    if (fits && !c->recipe.reencode_all)
        return pass_through(c, data, n, w, !c->recipe.keep_metadata, out, err);
    st = reencode(c, data, n, w, out, err);
    if (st == SLIMSET_OK && fits && w->field->payload_bytes >= n)
        w->field->notes |= NOTE_NOT_SMALLER;
    return st;
}
