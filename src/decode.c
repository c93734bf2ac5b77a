/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

#include "bmp_read.h"
#include "container.h"
#include "jpeg_read.h"
#include "png_read.h"
#include "sniff.h"
#include "vips_read.h"

struct decoder {
    struct image_limits limits;
    bool slow;
    struct jpeg_reader *jpeg;
    struct png_reader *png;
    struct image before;   /* pixels before a colour conversion */
    struct buf icc;
};

struct decoder *decoder_new(const struct image_limits *limits, bool slow)
{
    struct decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->limits = *limits;
    d->slow = slow;
    d->jpeg = jpeg_reader_new(limits);
    d->png = png_reader_new(limits);
    d->icc.max = 4u << 20;
    if (d->jpeg == NULL || d->png == NULL) {
        decoder_free(d);
        return NULL;
    }
    return d;
}

void decoder_free(struct decoder *d)
{
    if (d == NULL)
        return;
    jpeg_reader_free(d->jpeg);
    png_reader_free(d->png);
    image_fini(&d->before);
    buf_fini(&d->icc);
    free(d);
}

static enum slimset_status need_slow(struct slimset_error *err, enum image_format f)
{
    return err_set(err, SLIMSET_NEED_SLOW, "%s needs libvips", sniff_format_name(f));
}

enum slimset_status decode_header(struct decoder *d, const uint8_t *data, size_t n, struct image_info *info,
                                  struct slimset_error *err)
{
    enum image_format f = sniff(data, n);
    enum slimset_status st = sniff_refuse(f, n, err);
    if (st != SLIMSET_OK)
        return st;
    switch (f) {
    case FORMAT_JPEG:
        return jpeg_reader_header(d->jpeg, data, n, info, err);
    case FORMAT_PNG:
        return png_read_header(d->png, data, n, info, err);
    case FORMAT_BMP:
        return bmp_read_header(data, n, &d->limits, info, err);
    case FORMAT_PNM:
        return pnm_read_header(data, n, &d->limits, info, err);
    case FORMAT_TIFF:
    case FORMAT_WEBP:
    case FORMAT_GIF:
    case FORMAT_HEIF:
    case FORMAT_AVIF:
    case FORMAT_JXL:
    case FORMAT_JP2:
        if (!d->slow)
            return need_slow(err, f);
        return vips_read_header(data, n, f, info, err);
    default:
        return err_bad(err, SLIMSET_REJECT_UNKNOWN_FORMAT, "%s where an image was expected", sniff_format_name(f));
    }
}

/* The profile's bytes, from wherever the format keeps them. */
static enum slimset_status profile_of(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                      const uint8_t **icc, size_t *icc_bytes, struct slimset_error *err)
{
    *icc = info->icc;
    *icc_bytes = info->icc != NULL ? info->icc_bytes : 0;
    bool png = info->format == FORMAT_PNG;
    if (info->icc_bytes > IMAGE_ICC_BYTES_MAX) { /* stays empty, like a corrupt one */
        *icc = NULL;
        *icc_bytes = 0;
        return SLIMSET_OK;
    }
    if (info->icc_bytes == 0 || *icc != NULL || (!png && info->format != FORMAT_JPEG))
        return SLIMSET_OK;
    d->icc.len = 0;
    enum slimset_status st = png ? png_icc(d->png, data, n, &d->icc, err) : jpeg_icc(data, n, &d->icc, err);
    if (st != SLIMSET_OK && st != SLIMSET_BAD_INPUT)
        return st;
    *icc = d->icc.data; /* a corrupt one stays empty and is told as such */
    *icc_bytes = st == SLIMSET_OK ? d->icc.len : 0;
    return SLIMSET_OK;
}

enum slimset_status decode_profile_name(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                        char name[ICC_NAME_BYTES], struct slimset_error *err)
{
    const uint8_t *icc;
    size_t icc_bytes;
    memset(name, 0, ICC_NAME_BYTES);
    enum slimset_status st = profile_of(d, data, n, info, &icc, &icc_bytes, err);
    if (st == SLIMSET_OK)
        icc_name(icc, icc_bytes, name);
    return st;
}

static enum slimset_status decode_fast(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                       enum decode_want want, unsigned denom, struct image *out, uint32_t *notes,
                                       struct slimset_error *err)
{
    switch (info->format) {
    case FORMAT_JPEG: {
        struct image_info as = *info;
        if (want != DECODE_NATIVE && as.colour == IMAGE_YCC)
            as.colour = IMAGE_RGB;
        return jpeg_decode(d->jpeg, data, n, &as, denom, out, notes, err);
    }
    case FORMAT_PNG:
        return png_decode(d->png, data, n, info, want == DECODE_LABELS, out, notes, err);
    case FORMAT_BMP:
        return bmp_decode(data, n, info, out, notes, err);
    default:
        return pnm_decode(data, n, info, out, notes, err);
    }
}

static bool is_fast(enum image_format f)
{
    return f == FORMAT_JPEG || f == FORMAT_PNG || f == FORMAT_BMP || f == FORMAT_PNM;
}

enum slimset_status decode_image(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                 enum decode_want want, unsigned denom, bool srgb, struct image *out, uint32_t *notes,
                                 struct slimset_error *err)
{
    bool convert = srgb && info->icc_bytes > 0 && want != DECODE_LABELS;
    if ((convert || !is_fast(info->format)) && !d->slow)
        return need_slow(err, info->format);
    if (!is_fast(info->format)) {
        *notes |= NOTE_SLOW_PATH;
        return vips_decode(data, n, info, convert, out, notes, err);
    }
    if (!convert)
        return decode_fast(d, data, n, info, want, denom, out, notes, err);
    enum slimset_status st = decode_fast(d, data, n, info, DECODE_RGB, 1, &d->before, notes, err);
    const uint8_t *icc;
    size_t icc_bytes;
    if (st == SLIMSET_OK)
        st = profile_of(d, data, n, info, &icc, &icc_bytes, err);
    if (st == SLIMSET_OK)
        st = vips_to_srgb(&d->before, icc, icc_bytes, out, notes, err);
    *notes |= NOTE_SLOW_PATH;
    return st;
}

enum slimset_status decode_check(struct decoder *d, const uint8_t *data, size_t n, const struct image_info *info,
                                 struct image *scratch, uint32_t *notes, struct slimset_error *err)
{
    if (info->format == FORMAT_JPEG)
        return jpeg_check(d->jpeg, data, n, info, notes, err);
    if (info->format == FORMAT_PNG)
        return png_check(d->png, data, n, info, notes, err);
    return decode_image(d, data, n, info, DECODE_LABELS, 1, false, scratch, notes, err);
}

enum slimset_status decode_strip(const uint8_t *data, size_t n, const struct image_info *info, struct buf *out,
                                 struct slimset_error *err)
{
    if (info->format == FORMAT_JPEG)
        return jpeg_strip(data, n, out, err);
    if (info->format == FORMAT_PNG)
        return png_strip(data, n, out, err);
    if (info->format == FORMAT_WEBP)
        return container_webp_strip(data, n, out, err);
    return buf_append(out, data, n, err);
}
