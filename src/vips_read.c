/* SPDX-License-Identifier: Apache-2.0
 *
 * Header and pixels through libvips. What a file is (bands, alpha, bits, frames) comes from our own
 * walk over its tags, chunks or boxes; libvips must then agree with it, or the file is refused.
 */
#include "vips_read.h"

#ifdef HAVE_VIPS

#include "container.h"
#include "tiff_mend.h"
#include "tiff_tags.h"
#include "vips_load.h"

#include <string.h>

/* What a header says beyond struct image_info; needed again at decode. */
struct source {
    struct image_info info;
    unsigned shift_from; /* stored bits that libvips moved to the top of 8 or 16; 0: full range
                            already */
    bool premultiplied;
    bool by_plane;           /* a TIFF whose planes are read one by one */
    struct tiff_tags tiff;
    struct container_facts box; /* of the others; a palette of JPEG 2000 */
    bool ink_is_high;           /* CMYK samples grow with the ink */
    uint8_t spare;              /* bands behind the planes that libvips adds and nobody gets */
    enum slimset_reject refuse; /* pixels that cannot be handed out: why */
    char why[160];
};

static void refuse(struct source *s, enum slimset_reject reject, const char *why)
{
    if (s->refuse == SLIMSET_REJECT_NONE) {
        s->refuse = reject;
        vips_load_one_line(s->why, sizeof s->why, why);
    }
}

static uint8_t to_u8(uint32_t v) { return (uint8_t)(v > 255 ? 255 : v); }

/* ---- TIFF: from its tags alone ---- */

static const char *tiff_unsupported(const struct tiff_tags *t)
{
    static const uint32_t codecs[] = {1,     2,     3,     4,     5,     7,     8,    32773,
                                      32946, 33003, 33005, 34712, 34925, 50000, 50001};
    bool known = false;
    for (unsigned i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        known = known || codecs[i] == t->compression;
    if (t->compression == 6)
        return "TIFF with old-style JPEG compression";
    if (!known)
        return "TIFF with a compression that is not supported";
    if (t->photometric == TIFF_YCBCR && t->compression != 7)
        return "TIFF with YCbCr samples outside JPEG";
    if (t->photometric > TIFF_YCBCR || t->photometric == 4)
        return "TIFF in CIELAB, LogLuv, CFA or another colour space that is not RGB, gray or CMYK";
    if (t->photometric == TIFF_SEPARATED && t->ink_set != 1)
        return "TIFF with inks other than CMYK";
    if (t->planar == 2 && t->samples > 1 &&
        (t->photometric == TIFF_YCBCR || t->photometric == TIFF_PALETTE))
        return "TIFF with YCbCr or a palette in separate planes";
    if (t->sample_format > 3)
        return "TIFF with complex samples";
    if (t->sample_format == 2)
        return "TIFF with signed samples: their zero point is not known";
    if (t->sample_format == 1 && t->bits > 16)
        return "TIFF with integers of more than 16 bits";
    if (t->sample_format == 1 && t->bits != 1 && t->bits != 2 && t->bits != 4 && t->bits != 8 &&
        t->bits != 16)
        return "TIFF with an odd number of bits per sample";
    return NULL;
}

static enum slimset_status tiff_header(const uint8_t *data, size_t n, struct source *s,
                                       struct slimset_error *err)
{
    struct tiff_tags t;
    enum slimset_status st = tiff_tags_read(data, n, vips_load_limits(), &t, err);
    if (st != SLIMSET_OK)
        return st;
    const char *why = tiff_unsupported(&t);
    if (why != NULL)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                       "%s (compression %u, photometric %u, %u bits)", why, t.compression,
                       t.photometric, t.bits);
    struct image_info *info = &s->info;
    info->w = t.w;
    info->h = t.h;
    info->orientation = t.orientation;
    info->bits = to_u8(t.bits);
    info->is_float = t.sample_format == 3;
    info->palette = t.photometric == TIFF_PALETTE;
    info->frames = t.pages;
    info->icc = t.icc;
    info->icc_bytes = t.icc_bytes;
    info->has_metadata = t.has_metadata;
    info->notes = t.notes;
    uint32_t colours = 1;
    info->colour = IMAGE_GRAY;
    if (t.photometric == TIFF_RGB || t.photometric == TIFF_YCBCR || info->palette) {
        colours = info->palette ? 1 : 3; /* samples */
        info->colour = info->palette && t.gray_palette ? IMAGE_GRAY : IMAGE_RGB;
    } else if (t.photometric == TIFF_SEPARATED) {
        colours = 4;
        info->colour = IMAGE_CMYK;
        s->ink_is_high = true;
    }
    if (t.samples < colours)
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "TIFF with %u samples per pixel where %u are needed", t.samples, colours);
    /* libvips divides colour by associated alpha itself, but not rightly for 16-bit CMYK. */
    bool associated = t.extra_first == 1 && info->colour != IMAGE_CMYK;
    /* libvips interleaves the planes of RGB and CMYK in strips rightly, but refuses tiles and skips
     * rows of other kinds. */
    s->by_plane = t.planar == 2 &&
                  (t.tiled || (t.samples > 1 && t.photometric != TIFF_RGB &&
                               t.photometric != TIFF_SEPARATED));
    s->tiff = t;
    info->alpha = t.samples == colours + 1 && t.extra_n == 1 && (associated || t.extra_first == 2);
    s->premultiplied = s->by_plane && info->alpha && associated;
    uint32_t bands = image_colour_planes(info->colour) + t.samples - colours - info->alpha;
    info->channels = to_u8(bands);
    if (info->is_float)
        refuse(s, SLIMSET_REJECT_FLOAT, "TIFF with float samples");
    if (bands != image_colour_planes(info->colour))
        refuse(s, SLIMSET_REJECT_BANDS,
               "TIFF with more bands than its colour has, and no declared alpha (tag 338)");
    return SLIMSET_OK;
}

/* ---- all formats: what libvips says, held against the container ---- */

static bool vips_int(VipsImage *im, const char *name, int *out)
{
    const struct vips_api *v = vips_load_api();
    return v->vips_image_get_typeof_(im, name) != 0 && v->vips_image_get_int_(im, name, out) == 0;
}

static size_t vips_icc(VipsImage *im, const void **icc)
{
    const struct vips_api *v = vips_load_api();
    size_t bytes = 0;
    if (v->vips_image_get_typeof_(im, VIPS_META_ICC_NAME) == 0 ||
        v->vips_image_get_blob_(im, VIPS_META_ICC_NAME, icc, &bytes) != 0)
        return 0;
    return bytes;
}

/* Colours, alpha and bits of *im where it is not a TIFF. */
static void take_bands(VipsImage *im, const struct container_facts *k, struct source *s)
{
    const struct vips_api *v = vips_load_api();
    struct image_info *info = &s->info;
    unsigned bands = (unsigned)v->vips_image_get_bands_(im);
    if (info->format == FORMAT_GIF && k->extra_known && bands == k->colours + k->extra + 1u) {
        /* libvips adds alpha when any frame has a transparent colour; here the first has none. */
        s->spare = 1;
        bands--;
    }
    unsigned extra = k->extra_known ? k->extra : bands == 2 || bands == 4 ? 1 : 0;
    unsigned colours = bands > extra ? bands - extra : 0;
    info->alpha = extra == 1 && (k->alpha || !k->extra_known);
    info->colour = colours == 1 ? IMAGE_GRAY : k->colours == 4 ? IMAGE_CMYK : IMAGE_RGB;
    info->channels = to_u8(bands - info->alpha);
    s->premultiplied = k->premultiplied;
    s->ink_is_high = info->colour == IMAGE_CMYK;
    if (info->channels != image_colour_planes(info->colour))
        refuse(s, SLIMSET_REJECT_BANDS,
               "bands that are neither gray, RGB, CMYK nor declared alpha");
    VipsBandFormat format = v->vips_image_get_format_(im);
    info->is_float = k->is_float || format == VIPS_FORMAT_FLOAT || format == VIPS_FORMAT_DOUBLE;
    info->bits = info->is_float ? 32 : format == VIPS_FORMAT_USHORT ? 16 : 8;
    if (info->is_float)
        refuse(s, SLIMSET_REJECT_FLOAT, "float samples");
    else if (format != VIPS_FORMAT_UCHAR && format != VIPS_FORMAT_USHORT)
        refuse(s, SLIMSET_REJECT_UNSUPPORTED, "samples that are signed or of more than 16 bits");
}

static enum slimset_status other_header(const uint8_t *data, size_t n, struct source *s,
                                        struct slimset_error *err)
{
    const struct vips_api *v = vips_load_api();
    struct container_facts k;
    struct image_info *info = &s->info;
    enum image_format f = info->format;
    VipsImage *im = NULL;
    enum slimset_status st = container_check(data, n, f, vips_load_limits(), &k, err);
    if (st == SLIMSET_OK && k.palette != NULL) /* the indices alone: the table is applied here */
        st = vips_load_open(k.codestream, k.codestream_bytes, f, &im, err);
    else if (st == SLIMSET_OK)
        st = vips_load_open(data, n, f, &im, err);
    if (st != SLIMSET_OK)
        return st;
    int value;
    const void *icc = NULL;
    info->w = (uint32_t)v->vips_image_get_width_(im);
    info->h = (uint32_t)v->vips_image_get_height_(im);
    info->frames = k.frames != 0                                          ? k.frames
                   : vips_int(im, VIPS_META_N_PAGES, &value) && value > 0 ? (uint32_t)value
                                                                          : 1;
    info->orientation = 1; /* HEIF, AVIF, JPEG XL: applied by the decoder */
    if (f == FORMAT_WEBP && vips_int(im, VIPS_META_ORIENTATION, &value) && value >= 1 && value <= 8)
        info->orientation = (uint8_t)value;
    info->icc_bytes = vips_icc(im, &icc);
    if (k.icc_bytes != 0 && k.icc_bytes == info->icc_bytes)
        info->icc = k.icc;
    info->lossless = k.lossless;
    info->has_metadata = k.has_metadata || info->icc_bytes != 0 ||
                         v->vips_image_get_typeof_(im, VIPS_META_EXIF_NAME) != 0 ||
                         v->vips_image_get_typeof_(im, VIPS_META_XMP_NAME) != 0;
    info->palette = f == FORMAT_GIF;
    info->notes = k.notes | (info->frames > 1 ? NOTE_FIRST_FRAME : 0);
    take_bands(im, &k, s);
    s->box = k;
    if (k.palette != NULL && s->refuse == SLIMSET_REJECT_NONE && k.palette_columns == 3) {
        info->colour = IMAGE_RGB;
        info->channels = 3;
    }
    info->palette = info->palette || k.palette != NULL;
    if (f == FORMAT_JP2 && k.bits != 8 && k.bits != 16)
        s->shift_from = k.bits;
    /* "heif-bitdepth" until libvips 8.14, deprecated since */
    if ((f == FORMAT_HEIF || f == FORMAT_AVIF) &&
        (vips_int(im, "bits-per-sample", &value) || vips_int(im, "heif-bitdepth", &value)) &&
        value > 8 && value < 16)
        s->shift_from = (unsigned)value;
    if (f == FORMAT_JXL && k.animated && vips_int(im, VIPS_META_N_PAGES, &value) == false)
        /* this libvips lets every frame overwrite the one before: the last would come out */
        refuse(s, SLIMSET_REJECT_UNSUPPORTED, "animated JPEG XL needs a newer libvips");
    if (k.w != 0 && (k.w != info->w || k.h != info->h))
        st = err_bad(err, SLIMSET_REJECT_CORRUPT,
                     "its container says %u x %u pixels, libvips %u x %u", k.w, k.h, info->w,
                     info->h);
    else
        st = image_limits_check(vips_load_limits(), info->w, info->h, err);
    vips_load_close(&im);
    return st;
}

static enum slimset_status read_source(const uint8_t *data, size_t n, enum image_format f,
                                       struct source *s, struct slimset_error *err)
{
    enum slimset_status st = vips_load_can(f, err);
    if (st != SLIMSET_OK)
        return st;
    memset(s, 0, sizeof *s);
    s->info.format = f;
    vips_load_begin();
    st = f == FORMAT_TIFF ? tiff_header(data, n, s, err) : other_header(data, n, s, err);
    if (s->info.palette || s->info.bits < 8)
        s->info.notes |= NOTE_EXPANDED;
    return st;
}

enum slimset_status vips_read_header(const uint8_t *data, size_t n, enum image_format f,
                                     struct image_info *info, struct slimset_error *err)
{
    struct source s;
    enum slimset_status st = read_source(data, n, f, &s, err);
    if (st == SLIMSET_OK)
        *info = s.info;
    return st;
}

/* ---- pixels ---- */

static void split8(const uint8_t *row, unsigned bands, uint32_t w, unsigned c, uint8_t *q)
{
    for (uint32_t x = 0; x < w; x++)
        q[x] = row[(size_t)x * bands + c];
}

static void split16(const uint16_t *row, unsigned bands, uint32_t w, unsigned c, uint16_t *q)
{
    for (uint32_t x = 0; x < w; x++)
        q[x] = row[(size_t)x * bands + c];
}

/* Where the interleaved rows of libvips go. */
struct split {
    const struct image *out;
    unsigned first, planes; /* of out that get them */
    unsigned bands;         /* of libvips: the planes and perhaps a spare one */
};

static void split_rows(void *user, const uint8_t *row, size_t stride_bytes, uint32_t y,
                       uint32_t rows)
{
    const struct split *to = user;
    const struct image *out = to->out;
    for (uint32_t i = 0; i < rows; i++, row += stride_bytes)
        for (unsigned c = 0; c < to->planes; c++) {
            const struct image_plane *p = &out->plane[to->first + c];
            uint8_t *q = p->data + (size_t)(y + i) * p->stride_bytes;
            if (out->bits == 16)
                split16((const uint16_t *)(const void *)row, to->bands, out->w, c,
                        (uint16_t *)(void *)q);
            else
                split8(row, to->bands, out->w, c, q);
        }
}

static uint32_t get(const struct image *im, const uint8_t *row, uint32_t x)
{
    return im->bits == 16 ? ((const uint16_t *)(const void *)row)[x] : row[x];
}

static void put(const struct image *im, uint8_t *row, uint32_t x, uint32_t v)
{
    if (im->bits == 16)
        ((uint16_t *)(void *)row)[x] = (uint16_t)v;
    else
        row[x] = (uint8_t)v;
}

/* Samples of `from` bits that stand at the top of 8 or 16 become full range. */
static void widen(const struct image *im, unsigned from)
{
    uint32_t full = im->bits == 16 ? 65535u : 255u, max = (1u << from) - 1u;
    unsigned shift = im->bits - from;
    for (unsigned c = 0; c < im->n_planes; c++)
        for (uint32_t y = 0; y < im->h; y++) {
            uint8_t *row = im->plane[c].data + (size_t)y * im->plane[c].stride_bytes;
            for (uint32_t x = 0; x < im->w; x++)
                put(im, row, x,
                    (uint32_t)(((uint64_t)(get(im, row, x) >> shift) * full + max / 2) / max));
        }
}

static void divide_by_alpha(const struct image *im)
{
    uint32_t full = im->bits == 16 ? 65535u : 255u;
    const struct image_plane *a = &im->plane[im->n_planes - 1];
    for (unsigned c = 0; c + 1 < im->n_planes; c++)
        for (uint32_t y = 0; y < im->h; y++) {
            uint8_t *row = im->plane[c].data + (size_t)y * im->plane[c].stride_bytes;
            const uint8_t *alpha = a->data + (size_t)y * a->stride_bytes;
            for (uint32_t x = 0; x < im->w; x++) {
                uint32_t d = get(im, alpha, x);
                uint64_t v = d == 0 ? 0 : ((uint64_t)get(im, row, x) * full + d / 2) / d;
                put(im, row, x, v > full ? full : (uint32_t)v);
            }
        }
}

/* The indices in plane 0 become colours. */
static enum slimset_status apply_palette(const struct image *im, const struct source *s,
                                         struct slimset_error *err)
{
    const struct container_facts *k = &s->box;
    unsigned shift = s->shift_from != 0 ? 8 - s->shift_from : 0;
    for (uint32_t y = 0; y < im->h; y++) {
        uint8_t *row[3];
        for (unsigned c = 0; c < k->palette_columns; c++)
            row[c] = im->plane[c].data + (size_t)y * im->plane[c].stride_bytes;
        for (uint32_t x = 0; x < im->w; x++) {
            unsigned i = row[0][x] >> shift;
            if (i >= k->palette_n)
                return err_bad(err, SLIMSET_REJECT_CORRUPT,
                               "JPEG 2000 with an index beyond the palette of %u", k->palette_n);
            for (unsigned c = 0; c < k->palette_columns; c++)
                row[c][x] = k->palette[i * k->palette_columns + c];
        }
    }
    return SLIMSET_OK;
}

/* Only the four inks; 255 must mean no ink. */
static void invert_inks(const struct image *im)
{
    for (unsigned c = 0; c < 4; c++)
        for (uint32_t y = 0; y < im->h; y++) {
            uint8_t *row = im->plane[c].data + (size_t)y * im->plane[c].stride_bytes;
            for (size_t x = 0; x < (size_t)im->w * (im->bits / 8u); x++)
                row[x] = (uint8_t)~row[x];
        }
}

/* libtiff's decoders report damage, go on and make something up: as an error, or (fax, JPEG) only
 * as a warning. Errors of the tag parser ("bad value 9 for orientation", a lost second page) stand
 * in the same text and do no harm. */
static bool tiff_damage(const char *errors)
{
    static const char *const decoders[] = {"Decode", "Fax", "JPEG", "Jpeg", "Fill"};
    for (const char *line = errors; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        for (unsigned i = 0; i < sizeof decoders / sizeof decoders[0]; i++)
            if (memmem(line, n, decoders[i], strlen(decoders[i])) != NULL)
                return true;
        line += n + (line[n] == '\n');
    }
    return vips_load_damaged();
}

/* The decoder must be about to do what the header promised. */
static enum slimset_status check_opened(VipsImage *im, const struct source *s, unsigned want_bands,
                                        struct slimset_error *err)
{
    const struct vips_api *v = vips_load_api();
    const struct image_info *info = &s->info;
    unsigned bands = (unsigned)v->vips_image_get_bands_(im);
    VipsBandFormat want = info->bits == 16 ? VIPS_FORMAT_USHORT : VIPS_FORMAT_UCHAR;
    if ((uint32_t)v->vips_image_get_width_(im) != info->w ||
        (uint32_t)v->vips_image_get_height_(im) != info->h ||
        v->vips_image_get_format_(im) != want ||
        bands != want_bands)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                       "libvips reads it as %d x %d with %u bands, its header says %u x %u with %u",
                       v->vips_image_get_width_(im), v->vips_image_get_height_(im), bands, info->w,
                       info->h, want_bands);
    return SLIMSET_OK;
}

/* Decodes data into the planes of out that *to names. */
static enum slimset_status pull_pixels(const uint8_t *data, size_t n, const struct source *s,
                                       struct split *to, struct buf *icc, uint32_t *notes,
                                       struct slimset_error *err)
{
    VipsImage *im = NULL;
    const void *profile = NULL;
    vips_load_begin();
    enum slimset_status st = vips_load_open(data, n, s->info.format, &im, err);
    if (st == SLIMSET_OK)
        st = check_opened(im, s, to->bands, err);
    if (st == SLIMSET_OK)
        st = vips_load_pull(im, split_rows, to, err);
    /* Of the other loaders the error text means nothing after success: libheif's failed seeks stand
     * in it. */
    if (st == SLIMSET_OK && s->info.format == FORMAT_TIFF &&
        tiff_damage(vips_load_api()->vips_error_buffer_()))
        st = vips_load_fault("pixels", err);
    if (st == SLIMSET_OK && vips_load_warning()[0] != '\0')
        *notes |= NOTE_WARNING;
    if (st == SLIMSET_OK && icc != NULL) {
        size_t bytes = vips_icc(im, &profile);
        st = buf_append(icc, profile, bytes, err);
    }
    vips_load_close(&im);
    return st;
}

static enum slimset_status decode_pixels(const uint8_t *data, size_t n, const struct source *s,
                                         struct buf *icc, struct image *out, uint32_t *notes,
                                         struct slimset_error *err)
{
    struct buf mended = {.max = n + (1 << 20)};
    enum slimset_status st = image_setup(out, s->info.colour, s->info.alpha,
                                         s->info.bits == 16 ? 16 : 8, s->info.w, s->info.h, err);
    struct split to = {
        .out = out, .planes = out->n_planes, .bands = out->n_planes + (unsigned)s->spare};
    if (st == SLIMSET_OK && s->by_plane) {
        if (s->tiff.samples > 1) /* one sample may be a palette's index, of which come three planes */
            to.planes = to.bands = 1;
        for (; to.first < out->n_planes && st == SLIMSET_OK; to.first += to.planes) {
            st = tiff_mend_plane(data, n, &s->tiff, to.first, &mended, err);
            if (st == SLIMSET_OK)
                st = pull_pixels(mended.data, mended.len, s, &to, NULL, notes, err);
        }
        if (st == SLIMSET_OK && icc != NULL)
            st = buf_append(icc, s->tiff.icc, s->tiff.icc_bytes, err);
    } else if (st == SLIMSET_OK && s->box.palette != NULL) {
        to.planes = to.bands = 1;
        st = pull_pixels(s->box.codestream, s->box.codestream_bytes, s, &to, NULL, notes, err);
        if (st == SLIMSET_OK)
            st = apply_palette(out, s, err);
    } else if (st == SLIMSET_OK && s->tiff.orientation_at != 0) {
        /* Some versions of libtiff and libvips take it for damage. */
        st = tiff_mend_orientation(data, n, &s->tiff, &mended, err);
        if (st == SLIMSET_OK)
            st = pull_pixels(mended.data, mended.len, s, &to, icc, notes, err);
    } else if (st == SLIMSET_OK) {
        st = pull_pixels(data, n, s, &to, icc, notes, err);
    }
    buf_fini(&mended);
    return st;
}

enum slimset_status vips_decode(const uint8_t *data, size_t n, const struct image_info *info,
                                bool srgb, struct image *out, uint32_t *notes,
                                struct slimset_error *err)
{
    struct source s;
    struct image plain = {0};
    struct buf icc = {.max = IMAGE_ICC_BYTES_MAX};
    enum slimset_status st = read_source(data, n, info->format, &s, err);
    if (st != SLIMSET_OK)
        return st;
    if (s.refuse != SLIMSET_REJECT_NONE)
        return err_bad(err, s.refuse, "%s (%u channels of %u bits)", s.why, s.info.channels,
                       s.info.bits);
    bool convert = srgb && s.info.icc_bytes != 0 && s.info.icc_bytes <= IMAGE_ICC_BYTES_MAX;
    if (srgb && s.info.icc_bytes > IMAGE_ICC_BYTES_MAX)
        *notes |= NOTE_PROFILE_BAD;
    struct image *to = convert ? &plain : out;
    st = decode_pixels(data, n, &s, convert ? &icc : NULL, to, notes, err);
    if (st != SLIMSET_OK)
        goto out;
    if (s.shift_from != 0 && s.box.palette == NULL)
        widen(to, s.shift_from);
    if (s.premultiplied)
        divide_by_alpha(to);
    if (s.ink_is_high)
        invert_inks(to);
    if (convert)
        st = vips_to_srgb(&plain, icc.data, icc.len, out, notes, err);
    if (st == SLIMSET_OK)
        *notes |= s.info.notes;
out:
    buf_fini(&icc);
    image_fini(&plain);
    return st;
}

#else /* no libvips in this build */

enum slimset_status vips_start(const struct image_limits *limits, struct slimset_error *err)
{
    (void)limits;
    return err_bad(err, SLIMSET_REJECT_NO_DECODER,
                   "no decoder in this build: it was made without libvips");
}

const char *vips_version_text(void) { return NULL; }

bool vips_can_load(enum image_format f)
{
    (void)f;
    return false;
}

enum slimset_status vips_read_header(const uint8_t *data, size_t n, enum image_format f,
                                     struct image_info *info, struct slimset_error *err)
{
    (void)data, (void)n, (void)f, (void)info;
    return vips_start(NULL, err);
}

enum slimset_status vips_decode(const uint8_t *data, size_t n, const struct image_info *info,
                                bool srgb, struct image *out, uint32_t *notes,
                                struct slimset_error *err)
{
    (void)data, (void)n, (void)info, (void)srgb, (void)out, (void)notes;
    return vips_start(NULL, err);
}

enum slimset_status vips_to_srgb(const struct image *in, const uint8_t *icc, size_t icc_bytes,
                                 struct image *out, uint32_t *notes, struct slimset_error *err)
{
    (void)in, (void)icc, (void)icc_bytes, (void)out, (void)notes;
    return vips_start(NULL, err);
}

enum slimset_status vips_write_webp(const struct image *im, int quality, bool lossless,
                                    struct buf *out, struct slimset_error *err)
{
    (void)im, (void)quality, (void)lossless, (void)out;
    return vips_start(NULL, err);
}

#endif
