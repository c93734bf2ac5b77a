/* SPDX-License-Identifier: Apache-2.0 */
#include "encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jpeg_write.h"
#include "png_write.h"
#include "vips_read.h"

struct encoder {
    bool slow;
    struct jpeg_writer *jpeg;
    struct png_writer *png;
};

struct encoder *encoder_new(bool slow)
{
    struct encoder *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->slow = slow;
    e->jpeg = jpeg_writer_new();
    e->png = png_writer_new();
    if (e->jpeg == NULL || e->png == NULL) {
        encoder_free(e);
        return NULL;
    }
    return e;
}

void encoder_free(struct encoder *e)
{
    if (e == NULL)
        return;
    jpeg_writer_free(e->jpeg);
    png_writer_free(e->png);
    free(e);
}

/* A 128-byte version 1 header and the samples interleaved. */
static enum slimset_status write_npy(const struct image *im, struct buf *out, struct slimset_error *err)
{
    enum { HEADER = 128 };
    size_t size = im->bits / 8u, bytes;
    if (!mul_size((size_t)im->w * im->h, im->n_planes * size, &bytes))
        return err_nomem(err, SIZE_MAX);
    enum slimset_status st = buf_reserve(out, HEADER + bytes, err);
    if (st != SLIMSET_OK)
        return st;
    uint8_t *to = out->data + out->len;
    memset(to, ' ', HEADER);
    memcpy(to, "\x93NUMPY\x01\x00", 8);
    put_le16(to + 8, HEADER - 10);
    int n = snprintf((char *)to + 10, HEADER - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%u, %u, %u), }",
                     im->bits == 16 ? "<u2" : "|u1", im->h, im->w, im->n_planes);
    to[10 + n] = ' ';
    to[HEADER - 1] = '\n';
    to += HEADER;
    for (uint32_t y = 0; y < im->h; y++)
        for (unsigned i = 0; i < im->n_planes; i++) {
            const uint8_t *from = im->plane[i].data + (size_t)y * im->plane[i].stride_bytes;
            uint8_t *pixel = to + ((size_t)y * im->w * im->n_planes + i) * size;
            for (uint32_t x = 0; x < im->w; x++)
                memcpy(pixel + (size_t)x * im->n_planes * size, from + x * size, size);
        }
    out->len += HEADER + bytes;
    return SLIMSET_OK;
}

enum slimset_status encode_image(struct encoder *e, const struct image *im, enum slimset_codec codec,
                                 const struct slimset_recipe *recipe, int label_bits, struct buf *out,
                                 struct slimset_error *err)
{
    switch (codec) {
    case SLIMSET_CODEC_JPEG: {
        struct jpeg_settings s = {.quality = recipe->quality,
                                  .subsampling = (enum jpeg_subsampling)recipe->subsampling,
                                  .optimise = recipe->optimise};
        return jpeg_write(e->jpeg, im, &s, out, err);
    }
    case SLIMSET_CODEC_PNG:
        return png_write(e->png, im, recipe->png_level, 0, label_bits, out, err);
    case SLIMSET_CODEC_WEBP:
        if (!e->slow)
            return err_set(err, SLIMSET_NEED_SLOW, "WebP needs libvips");
        return vips_write_webp(im, recipe->quality, recipe->lossless, out, err);
    case SLIMSET_CODEC_NPY:
        return write_npy(im, out, err);
    default:
        break;
    }
    return err_set(err, SLIMSET_INTERNAL, "no encoder for codec %d", codec);
}
