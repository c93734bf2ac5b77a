/* SPDX-License-Identifier: Apache-2.0 */
#include "resize.h"

#include <math.h>
#include <string.h>

#include "majority.h"
#include "pixels.h"

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Nearest over a part of the plane; the whole plane goes through the exact integer form. */
static void nearest_region(const struct image_plane *src, struct resample_region region, struct image_plane *dst,
                           uint8_t bits)
{
    if (region.x == 0 && region.y == 0 && region.w == src->w && region.h == src->h) {
        resample_nearest(src, dst, bits);
        return;
    }
    for (uint32_t y = 0; y < dst->h; y++) {
        double sy = floor(region.y + (y + 0.5) * region.h / dst->h);
        uint32_t iy = sy < 0 ? 0 : sy >= src->h ? src->h - 1 : (uint32_t)sy;
        const uint8_t *from = src->data + (size_t)iy * src->stride_bytes;
        uint8_t *to = dst->data + (size_t)y * dst->stride_bytes;
        for (uint32_t x = 0; x < dst->w; x++) {
            double sx = floor(region.x + (x + 0.5) * region.w / dst->w);
            uint32_t ix = sx < 0 ? 0 : sx >= src->w ? src->w - 1 : (uint32_t)sx;
            if (bits == 16)
                memcpy(to + 2 * (size_t)x, from + 2 * (size_t)ix, 2);
            else
                to[x] = from[ix];
        }
    }
}

static void fill(struct image_plane *p, uint8_t bits, uint16_t v)
{
    for (uint32_t y = 0; y < p->h; y++) {
        uint8_t *r = p->data + (size_t)y * p->stride_bytes;
        if (bits == 8)
            memset(r, v, p->w);
        else
            for (uint32_t x = 0; x < p->w; x++)
                memcpy(r + 2 * (size_t)x, &v, 2);
    }
}

/* The source region of a plane whose destination is n_x x n_y blocks of sub_x x sub_y stored pixels. For a
 * plane that is not subsampled this is the rectangle itself; a subsampled one covers up to one pixel
 * more, at the side that is the far one in the upright picture. */
static struct resample_region plane_region(const struct image_plane *p, struct geometry_rect s, uint32_t dst_w,
                                           uint32_t dst_h, uint32_t n_x, uint32_t n_y, unsigned sub_x, unsigned sub_y,
                                           int orientation)
{
    double w = s.w * (n_x * sub_x) / dst_w, h = s.h * (n_y * sub_y) / dst_h; /* exact where nothing is rounded up */
    double x = geometry_flips_x(orientation) ? s.x + s.w - w : s.x;
    double y = geometry_flips_y(orientation) ? s.y + s.h - h : s.y;
    return (struct resample_region){
        .x = x * p->per_px_x, .y = y * p->per_px_y, .w = w * p->per_px_x, .h = h * p->per_px_y};
}

struct plan_of_plane {
    unsigned sub_x, sub_y;  /* upright */
    uint32_t w, h;          /* upright samples of the shown part */
};

static struct plan_of_plane plan_plane(const struct image *in, unsigned i, const struct resize_job *job)
{
    bool chroma = in->colour == IMAGE_YCC && (i == 1 || i == 2);
    struct plan_of_plane p = {.sub_x = chroma ? job->sub_x : 1, .sub_y = chroma ? job->sub_y : 1};
    p.w = ceil_div(job->geometry->dst_w, p.sub_x);
    p.h = ceil_div(job->geometry->dst_h, p.sub_y);
    return p;
}

static enum slimset_status set_up(const struct image *in, const struct resize_job *job, bool stored, struct image *im,
                                  struct slimset_error *err)
{
    const struct geometry *g = job->geometry;
    bool swap = stored && job->orientation >= 5;
    uint32_t pw[IMAGE_PLANES_MAX], ph[IMAGE_PLANES_MAX];
    for (unsigned i = 0; i < in->n_planes; i++) {
        struct plan_of_plane p = plan_plane(in, i, job);
        uint32_t w = stored ? p.w : ceil_div(g->w, p.sub_x), h = stored ? p.h : ceil_div(g->h, p.sub_y);
        pw[i] = swap ? h : w;
        ph[i] = swap ? w : h;
    }
    enum slimset_status st = image_setup_planes(im, in->colour, in->alpha, in->bits, swap ? g->h : g->w,
                                                swap ? g->w : g->h, in->n_planes, pw, ph, err);
    if (st != SLIMSET_OK)
        return st;
    im->palette_n = in->palette_n;
    memcpy(im->palette, in->palette, sizeof im->palette);
    for (unsigned i = 0; i < in->n_planes; i++) {
        struct plan_of_plane p = plan_plane(in, i, job);
        im->plane[i].per_px_x = 1.0 / p.sub_x;
        im->plane[i].per_px_y = 1.0 / p.sub_y;
    }
    return SLIMSET_OK;
}

enum slimset_status resize_image(struct resampler *r, const struct image *in, const struct resize_job *job,
                                 struct image *tmp, struct image *out, struct slimset_error *err)
{
    const struct geometry *g = job->geometry;
    bool pads = g->dst_w != g->w || g->dst_h != g->h, turns = job->orientation != 1, swaps = job->orientation >= 5;
    enum slimset_status st = set_up(in, job, false, out, err);
    if (st == SLIMSET_OK && turns)
        st = set_up(in, job, true, tmp, err);
    uint32_t up_w = swaps ? in->h : in->w, up_h = swaps ? in->w : in->h;
    struct geometry_rect s = geometry_stored(job->orientation, up_w, up_h,
        (struct geometry_rect){.x = g->src_x, .y = g->src_y, .w = g->src_w, .h = g->src_h});
    struct image_plane shown[IMAGE_PLANES_MAX], to[IMAGE_PLANES_MAX];
    struct resample_region region[IMAGE_PLANES_MAX];
    for (unsigned i = 0; st == SLIMSET_OK && i < in->n_planes; i++) {
        struct plan_of_plane p = plan_plane(in, i, job);
        shown[i] = out->plane[i]; /* the part of the output that shows the picture */
        shown[i].w = p.w;
        shown[i].h = p.h;
        if (pads) {
            fill(&out->plane[i], in->bits, pixels_background(in, i, job->background));
            shown[i].data += (size_t)(g->dst_y / p.sub_y) * shown[i].stride_bytes + (g->dst_x / p.sub_x) * (in->bits / 8u);
        }
        to[i] = turns ? tmp->plane[i] : shown[i];
        region[i] = swaps
            ? plane_region(&in->plane[i], s, g->dst_h, g->dst_w, p.h, p.w, p.sub_y, p.sub_x, job->orientation)
            : plane_region(&in->plane[i], s, g->dst_w, g->dst_h, p.w, p.h, p.sub_x, p.sub_y, job->orientation);
    }
    if (st == SLIMSET_OK && job->filter == RESIZE_MAJORITY)
        st = resize_majority(in, region[0], to, err);
    for (unsigned i = 0; st == SLIMSET_OK && i < in->n_planes; i++) {
        if (job->filter == RESIZE_NEAREST)
            nearest_region(&in->plane[i], region[i], &to[i], in->bits);
        else if (job->filter == RESIZE_LANCZOS)
            st = resample_lanczos(r, &in->plane[i], region[i], &to[i], in->bits, err);
        if (st == SLIMSET_OK && turns)
            resample_orient(&to[i], job->orientation, &shown[i], in->bits);
    }
    return st;
}
