/* SPDX-License-Identifier: Apache-2.0
 *
 * From planes into libvips: ICC conversion to sRGB and the WebP encoder. The planes are interleaved
 * on demand, strip by strip, by a generator; only the WebP encoder keeps a whole second copy.
 */
#include "vips_read.h"

#ifdef HAVE_VIPS

#include "container.h"
#include "vips_load.h"

#include <stdlib.h>
#include <string.h>

enum {
    ICC_HEADER_BYTES = 132, /* with the tag count */
    WEBP_MAX_SIDE = 16383
};

/* Which planes go into the bands of a libvips image. */
struct feed {
    const struct image *im;
    unsigned bands;
    uint8_t plane[4];
    bool invert; /* CMYK for lcms: 0 is no ink */
};

static int feed_rows(VipsRegion *to, void *seq, void *a, void *b, gboolean *stop)
{
    const struct feed *f = a;
    (void)seq, (void)b, (void)stop;
    uint32_t left = (uint32_t)to->valid.left, top = (uint32_t)to->valid.top;
    uint32_t w = (uint32_t)to->valid.width, h = (uint32_t)to->valid.height;
    for (uint32_t y = 0; y < h; y++) {
        uint8_t *q = to->data + (size_t)y * (size_t)to->bpl;
        for (unsigned c = 0; c < f->bands; c++) {
            const struct image_plane *p = &f->im->plane[f->plane[c]];
            const uint8_t *row = p->data + (size_t)(top + y) * p->stride_bytes;
            if (f->im->bits == 16) {
                const uint16_t *s = (const uint16_t *)(const void *)row + left;
                uint16_t flip = f->invert ? 0xffff : 0;
                for (uint32_t x = 0; x < w; x++)
                    ((uint16_t *)(void *)q)[(size_t)x * f->bands + c] = s[x] ^ flip;
            } else {
                uint8_t flip = f->invert ? 0xff : 0;
                for (uint32_t x = 0; x < w; x++)
                    q[(size_t)x * f->bands + c] = row[left + x] ^ flip;
            }
        }
    }
    return 0;
}

/* A libvips image that reads from the planes; *f must outlive it. NULL on failure. */
static VipsImage *open_feed(struct feed *f, VipsInterpretation interpretation)
{
    const struct vips_api *v = vips_load_api();
    VipsImage *im = v->vips_image_new_();
    if (im == NULL)
        return NULL;
    v->vips_image_init_fields_(im, (int)f->im->w, (int)f->im->h, (int)f->bands,
                               f->im->bits == 16 ? VIPS_FORMAT_USHORT : VIPS_FORMAT_UCHAR,
                               VIPS_CODING_NONE, interpretation, 1.0, 1.0);
    if (v->vips_image_pipelinev_(im, VIPS_DEMAND_STYLE_THINSTRIP, NULL) != 0 ||
        v->vips_image_generate_(im, NULL, feed_rows, NULL, f, NULL) != 0)
        vips_load_close(&im);
    return im;
}

/* libvips 8.14 takes any profile for any image; so its header is read here. */
static bool profile_fits(const struct image *in, const uint8_t *icc, size_t n)
{
    if (n < ICC_HEADER_BYTES || n > IMAGE_ICC_BYTES_MAX || memcmp(icc + 36, "acsp", 4) != 0)
        return false;
    if (get_be32(icc) > n || get_be32(icc) < ICC_HEADER_BYTES)
        return false;
    static const char classes[4][5] = {"scnr", "mntr", "prtr", "spac"};
    bool device = false;
    for (unsigned i = 0; i < 4; i++)
        device = device || memcmp(icc + 12, classes[i], 4) == 0;
    const char *space = in->colour == IMAGE_GRAY   ? "GRAY"
                        : in->colour == IMAGE_CMYK ? "CMYK"
                                                   : "RGB ";
    return device && memcmp(icc + 16, space, 4) == 0;
}

static void copy_plane(const struct image *in, unsigned from, const struct image *out, unsigned to)
{
    const struct image_plane *p = &in->plane[from], *q = &out->plane[to];
    for (uint32_t y = 0; y < in->h; y++) {
        const uint8_t *s = p->data + (size_t)y * p->stride_bytes;
        uint8_t *d = q->data + (size_t)y * q->stride_bytes;
        if (in->bits == out->bits)
            memcpy(d, s, (size_t)in->w * (in->bits / 8u));
        else /* 16 to 8: round(v / 257) */
            for (uint32_t x = 0; x < in->w; x++)
                d[x] = (uint8_t)((((const uint16_t *)(const void *)s)[x] + 128u) / 257u);
    }
}

static enum slimset_status plain_copy(const struct image *in, struct image *out,
                                      struct slimset_error *err)
{
    enum slimset_status st = image_setup(out, in->colour, in->alpha, in->bits, in->w, in->h, err);
    for (unsigned c = 0; c < in->n_planes && st == SLIMSET_OK; c++)
        copy_plane(in, c, out, c);
    return st;
}

/* Takes the RGB rows of the conversion; of a gray profile the three are equal but for rounding. */
static void take_rows(void *user, const uint8_t *row, size_t stride_bytes, uint32_t y,
                      uint32_t rows)
{
    const struct image *out = user;
    unsigned planes = out->colour == IMAGE_GRAY ? 1 : 3;
    for (uint32_t i = 0; i < rows; i++, row += stride_bytes)
        for (unsigned c = 0; c < planes; c++) {
            uint8_t *q = out->plane[c].data + (size_t)(y + i) * out->plane[c].stride_bytes;
            const uint8_t *s = row + (planes == 1 ? 1 : c);
            for (uint32_t x = 0; x < out->w; x++)
                q[x] = s[(size_t)x * 3];
        }
}

/* True with the colour planes of *out filled; false: the profile is no good. */
static bool convert(const struct image *in, const uint8_t *icc, size_t icc_bytes, struct image *out,
                    enum slimset_status *st, struct slimset_error *err)
{
    const struct vips_api *v = vips_load_api();
    struct feed f = {.im = in,
                     .bands = image_colour_planes(in->colour),
                     .plane = {0, 1, 2, 3},
                     .invert = in->colour == IMAGE_CMYK};
    VipsInterpretation kind = VIPS_INTERPRETATION_CMYK;
    if (in->colour == IMAGE_GRAY)
        kind = in->bits == 16 ? VIPS_INTERPRETATION_GREY16 : VIPS_INTERPRETATION_B_W;
    else if (in->colour == IMAGE_RGB)
        kind = in->bits == 16 ? VIPS_INTERPRETATION_RGB16 : VIPS_INTERPRETATION_sRGB;
    VipsImage *im = open_feed(&f, kind), *srgb = NULL;
    bool good = false;
    if (im == NULL) {
        *st = vips_load_fault("ICC conversion", err);
        return false;
    }
    v->vips_image_set_blob_copy_(im, VIPS_META_ICC_NAME, icc, icc_bytes);
    /* Of a profile that lcms cannot use, libvips only warns, and takes its own instead. */
    vips_load_hush();
    int r = v->vips_icc_transform_(im, &srgb, "srgb", "embedded", TRUE, "depth", 8, NULL);
    vips_load_unhush();
    if (r == 0 && vips_load_warning()[0] == '\0' && v->vips_image_get_bands_(srgb) == 3 &&
        v->vips_image_get_format_(srgb) == VIPS_FORMAT_UCHAR) {
        *st = vips_load_pull(srgb, take_rows, out, err);
        good = *st == SLIMSET_OK;
    }
    vips_load_close(&srgb);
    vips_load_close(&im);
    return good;
}

enum slimset_status vips_to_srgb(const struct image *in, const uint8_t *icc, size_t icc_bytes,
                                 struct image *out, uint32_t *notes, struct slimset_error *err)
{
    if (vips_load_api() == NULL)
        return err_bad(err, SLIMSET_REJECT_NO_DECODER, "ICC conversion needs libvips");
    if (in->colour != IMAGE_GRAY && in->colour != IMAGE_RGB && in->colour != IMAGE_CMYK)
        return err_set(err, SLIMSET_INTERNAL,
                       "ICC conversion of planes that are not gray, RGB or CMYK");
    if (!profile_fits(in, icc, icc_bytes)) {
        *notes |= NOTE_PROFILE_BAD;
        return plain_copy(in, out, err);
    }
    enum image_colour colour = in->colour == IMAGE_GRAY ? IMAGE_GRAY : IMAGE_RGB;
    enum slimset_status st = image_setup(out, colour, in->alpha, 8, in->w, in->h, err);
    if (st != SLIMSET_OK)
        return st;
    vips_load_begin();
    if (!convert(in, icc, icc_bytes, out, &st, err)) {
        if (st == SLIMSET_NO_MEMORY)
            return st;
        *notes |= NOTE_PROFILE_BAD;
        return plain_copy(in, out, err);
    }
    *notes |= NOTE_PROFILE_USED | (in->bits == 16 ? NOTE_SCALED_8BIT : 0);
    if (in->alpha)
        copy_plane(in, in->n_planes - 1u, out, out->n_planes - 1u);
    return SLIMSET_OK;
}

enum slimset_status vips_write_webp(const struct image *im, int quality, bool lossless,
                                    struct buf *out, struct slimset_error *err)
{
    const struct vips_api *v = vips_load_api();
    if (v == NULL)
        return err_bad(err, SLIMSET_REJECT_NO_DECODER, "WebP needs libvips");
    if ((im->colour != IMAGE_GRAY && im->colour != IMAGE_RGB) || im->bits != 8)
        return err_set(err, SLIMSET_INTERNAL, "WebP of planes that are not 8-bit gray or RGB");
    if (im->w == 0 || im->h == 0 || im->w > WEBP_MAX_SIDE || im->h > WEBP_MAX_SIDE)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_PIXELS,
                       "%u x %u pixels, a side of a WebP may have %d", im->w, im->h, WEBP_MAX_SIDE);
    bool gray = im->colour == IMAGE_GRAY;
    struct feed f = {.im = im,
                     .bands = im->alpha ? 4 : 3,
                     .plane = {0, gray ? 0 : 1, gray ? 0 : 2, (uint8_t)(im->n_planes - 1)}};
    void *bytes = NULL;
    size_t n = 0;
    vips_load_begin();
    VipsImage *in = open_feed(&f, VIPS_INTERPRETATION_sRGB);
    enum slimset_status st = SLIMSET_OK;
    vips_load_hush();
    int r = in == NULL ? -1
                       : v->vips_webpsave_buffer_(in, &bytes, &n, "Q", quality, "lossless",
                                                  (int)lossless, "strip", TRUE, NULL);
    vips_load_unhush();
    if (r != 0)
        st = err_set(err, SLIMSET_INTERNAL, "the WebP encoder failed: %.300s",
                     v->vips_error_buffer_());
    if (st == SLIMSET_OK)
        st = container_webp_strip(bytes, n, out, err); /* libvips 8.14 writes EXIF in spite of "strip" */
    (v->g_free_)(bytes);
    vips_load_close(&in);
    vips_load_begin();
    return st;
}

#endif
