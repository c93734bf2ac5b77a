/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"

#include <math.h>

/* floor(x * num / den + 0.5), at least 1; exact: sides stay below 2^17, num and den below 2^32. */
static uint32_t scaled(uint32_t x, uint64_t num, uint64_t den)
{
    unsigned __int128 v = (2 * (unsigned __int128)x * num + den) / (2 * (unsigned __int128)den);
    return v < 1 ? 1 : (uint32_t)v;
}

static uint32_t scaled_by(uint32_t x, double s)
{
    double v = floor(x * s + 0.5);
    return v < 1 ? 1 : (uint32_t)v;
}

static struct geometry whole(uint32_t w, uint32_t h, uint32_t out_w, uint32_t out_h)
{
    return (struct geometry){
        .w = out_w, .h = out_h,
        .src_w = w, .src_h = h,
        .dst_w = out_w, .dst_h = out_h,
        .resized = out_w != w || out_h != h,
    };
}

/* Scale num/den on both axes, clamped to 1 unless enlarging is wanted. */
static struct geometry by_ratio(const struct slimset_recipe *r, uint32_t w, uint32_t h, uint64_t num, uint64_t den)
{
    if (num >= den && !r->upscale)
        return whole(w, h, w, h);
    return whole(w, h, scaled(w, num, den), scaled(h, num, den));
}

static struct geometry by_factor(const struct slimset_recipe *r, uint32_t w, uint32_t h, double s)
{
    if (s >= 1 && !r->upscale)
        return whole(w, h, w, h);
    return whole(w, h, scaled_by(w, s), scaled_by(h, s));
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static struct geometry cropped(const struct slimset_recipe *r, uint32_t w, uint32_t h)
{
    /* the larger of a/w and b/h fills the box */
    bool by_width = (uint64_t)r->resize_a * h >= (uint64_t)r->resize_b * w;
    uint64_t num = by_width ? r->resize_a : r->resize_b, den = by_width ? w : h;
    if (num >= den && !r->upscale)
        num = den = 1;
    struct geometry g = whole(w, h, smaller(r->resize_a, scaled(w, num, den)), smaller(r->resize_b, scaled(h, num, den)));
    g.src_w = (double)g.w * (double)den / (double)num;
    g.src_h = (double)g.h * (double)den / (double)num;
    if (g.src_w > w)
        g.src_w = w;
    if (g.src_h > h)
        g.src_h = h;
    g.src_x = (w - g.src_w) / 2;
    g.src_y = (h - g.src_h) / 2;
    if (num == den) { /* a pure crop stays on whole pixels */
        g.src_x = floor(g.src_x);
        g.src_y = floor(g.src_y);
    }
    return g;
}

static struct geometry padded(const struct slimset_recipe *r, uint32_t w, uint32_t h)
{
    bool by_width = (uint64_t)r->resize_a * h <= (uint64_t)r->resize_b * w;
    struct geometry g = by_ratio(r, w, h, by_width ? r->resize_a : r->resize_b, by_width ? w : h);
    g.dst_w = smaller(g.w, r->resize_a);
    g.dst_h = smaller(g.h, r->resize_b);
    g.w = r->resize_a;
    g.h = r->resize_b;
    g.dst_x = (g.w - g.dst_w) / 2 & ~1u; /* even: subsampled chroma starts there too */
    g.dst_y = (g.h - g.dst_h) / 2 & ~1u;
    g.resized = g.w != w || g.h != h;
    return g;
}

struct geometry geometry_of(const struct slimset_recipe *r, uint32_t w, uint32_t h)
{
    switch (r->resize) {
    case SLIMSET_RESIZE_NONE:
        break;
    case SLIMSET_RESIZE_LONG:
        return by_ratio(r, w, h, r->resize_a, w > h ? w : h);
    case SLIMSET_RESIZE_SHORT:
        return by_ratio(r, w, h, r->resize_a, smaller(w, h));
    case SLIMSET_RESIZE_EXACT:
        return r->upscale ? whole(w, h, r->resize_a, r->resize_b)
                          : whole(w, h, smaller(w, r->resize_a), smaller(h, r->resize_b));
    case SLIMSET_RESIZE_CROP:
        return cropped(r, w, h);
    case SLIMSET_RESIZE_PAD:
        return padded(r, w, h);
    case SLIMSET_RESIZE_AREA:
        return by_factor(r, w, h, sqrt((double)r->resize_pixels / ((double)w * h)));
    case SLIMSET_RESIZE_SCALE:
        return by_factor(r, w, h, r->resize_factor);
    }
    return whole(w, h, w, h);
}

bool geometry_flips_x(int orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

bool geometry_flips_y(int orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

struct geometry_rect geometry_stored(int orientation, uint32_t up_w, uint32_t up_h, struct geometry_rect u)
{
    struct geometry_rect s = u;
    double w = up_w, h = up_h;
    if (orientation >= 5) { /* the stored x axis is the upright y axis */
        s = (struct geometry_rect){.x = u.y, .y = u.x, .w = u.h, .h = u.w};
        w = up_h;
        h = up_w;
    }
    if (geometry_flips_x(orientation))
        s.x = w - s.x - s.w;
    if (geometry_flips_y(orientation))
        s.y = h - s.y - s.h;
    return s;
}
