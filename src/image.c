/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include <string.h>

const struct image_limits image_limits_default = {
    .max_pixels = 178956970,
    .max_side = 65500,
    .max_scans = 100,
    .max_scan_pixels = 5000000000u,
};

enum slimset_status image_limits_check(const struct image_limits *limits, uint64_t w, uint64_t h,
                                       struct slimset_error *err)
{
    if (w == 0 || h == 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "header says %llu x %llu pixels",
                       (unsigned long long)w, (unsigned long long)h);
    if (w > limits->max_side || h > limits->max_side)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_PIXELS, "%llu x %llu pixels, a side may have %u",
                       (unsigned long long)w, (unsigned long long)h, limits->max_side);
    if (w * h > limits->max_pixels)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_PIXELS,
                       "%llu x %llu = %llu pixels, limit %llu (--max-pixels)", (unsigned long long)w,
                       (unsigned long long)h, (unsigned long long)(w * h),
                       (unsigned long long)limits->max_pixels);
    return SLIMSET_OK;
}

unsigned image_colour_planes(enum image_colour colour)
{
    switch (colour) {
    case IMAGE_GRAY:
    case IMAGE_INDEX:
        return 1;
    case IMAGE_YCC:
    case IMAGE_RGB:
        return 3;
    case IMAGE_CMYK:
        return 4;
    }
    return 0;
}

enum slimset_status image_setup_planes(struct image *im, enum image_colour colour, bool alpha, uint8_t bits,
                                       uint32_t w, uint32_t h, unsigned n, const uint32_t *plane_w,
                                       const uint32_t *plane_h, struct slimset_error *err)
{
    size_t offset[IMAGE_PLANES_MAX], total = IMAGE_STRIDE_ALIGN;
    im->w = w;
    im->h = h;
    im->colour = colour;
    im->alpha = alpha;
    im->bits = bits;
    im->n_planes = (uint8_t)n;
    im->palette_n = 0;
    for (unsigned i = 0; i < n; i++) {
        struct image_plane *p = &im->plane[i];
        p->w = plane_w[i];
        p->h = plane_h[i];
        p->per_px_x = p->per_px_y = 1.0;
        size_t row = (size_t)p->w * (bits / 8u) + IMAGE_ROW_SLACK;
        p->stride_bytes = (row + IMAGE_STRIDE_ALIGN - 1) / IMAGE_STRIDE_ALIGN * IMAGE_STRIDE_ALIGN;
        offset[i] = total;
        size_t bytes;
        if (!mul_size(p->stride_bytes, p->h, &bytes) || !add_size(total, bytes, &total))
            return err_nomem(err, SIZE_MAX);
    }
    im->store.len = 0;
    if (total > im->store.cap) {
        buf_fini(&im->store); /* old contents are not wanted: no copy */
        enum slimset_status st = buf_reserve(&im->store, total, err);
        if (st != SLIMSET_OK)
            return st == SLIMSET_BAD_INPUT ? err_nomem(err, total) : st;
    }
    im->store.len = total;
    uintptr_t base = (uintptr_t)im->store.data;
    uint8_t *aligned = im->store.data + (IMAGE_STRIDE_ALIGN - base % IMAGE_STRIDE_ALIGN) % IMAGE_STRIDE_ALIGN;
    for (unsigned i = 0; i < n; i++)
        im->plane[i].data = aligned + (offset[i] - IMAGE_STRIDE_ALIGN);
    return SLIMSET_OK;
}

enum slimset_status image_setup(struct image *im, enum image_colour colour, bool alpha, uint8_t bits,
                                uint32_t w, uint32_t h, struct slimset_error *err)
{
    uint32_t pw[IMAGE_PLANES_MAX], ph[IMAGE_PLANES_MAX];
    unsigned n = image_colour_planes(colour) + alpha;
    for (unsigned i = 0; i < n; i++) {
        pw[i] = w;
        ph[i] = h;
    }
    return image_setup_planes(im, colour, alpha, bits, w, h, n, pw, ph, err);
}

void image_fini(struct image *im)
{
    buf_fini(&im->store);
    memset(im, 0, sizeof *im);
}
