/* SPDX-License-Identifier: Apache-2.0
 *
 * Every pixel of the source votes once, for the output pixel that its centre falls into. A pixel is
 * one value, whatever its planes: colours of a mask are not made up either. Votes are counted by
 * slot: the value itself where there is one plane, else the order of first appearance.
 */
#include "majority.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLOURS_MAX = 65536,      /* of a mask with several planes */
    TABLE = 2 * COLOURS_MAX   /* of the hash table, a power of 2 */
};

struct votes {
    const struct image *in;
    uint32_t *count;          /* by slot; all zero between output pixels */
    uint64_t *colour;         /* by slot, several planes only */
    uint32_t *table;          /* slot + 1; 0 free */
    uint32_t n_colours;
};

static uint64_t value_at(const struct image *im, uint32_t x, uint32_t y)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < im->n_planes; i++) {
        const uint8_t *row = im->plane[i].data + (size_t)y * im->plane[i].stride_bytes;
        v = im->bits == 16 ? v << 16 | ((const uint16_t *)(const void *)row)[x] : v << 8 | row[x];
    }
    return v;
}

/* COLOURS_MAX when there is no slot left. */
static uint32_t slot_of(struct votes *v, uint64_t value)
{
    if (v->table == NULL)
        return (uint32_t)value;
    uint64_t at = (value * UINT64_C(0x9e3779b97f4a7c15)) >> 40;
    for (;; at++) {
        uint32_t *slot = &v->table[at % TABLE];
        if (*slot == 0) {
            if (v->n_colours == COLOURS_MAX)
                return COLOURS_MAX;
            v->colour[v->n_colours] = value;
            *slot = ++v->n_colours;
        }
        if (v->colour[*slot - 1] == value)
            return *slot - 1;
    }
}

/* The first source sample whose centre is at or behind the left edge of output sample i, for i = 0 .. n_dst. */
static void first_samples(double from, double len, uint32_t n_src, uint32_t n_dst, uint32_t *first)
{
    bool whole = from == 0 && len == n_src;
    for (uint64_t i = 0; i <= n_dst; i++) {
        if (whole) { /* 2 x + 1 >= 2 i n_src / n_dst, exactly */
            uint64_t edge = 2 * i * n_src;
            first[i] = (uint32_t)(edge <= n_dst ? 0 : (edge - n_dst + 2 * (uint64_t)n_dst - 1) / (2 * (uint64_t)n_dst));
            continue;
        }
        double x = ceil(from + (double)i * len / n_dst - 0.5);
        first[i] = x <= 0 ? 0 : x >= n_src ? n_src : (uint32_t)x;
    }
}

/* A range that holds no centre (enlarging) is the sample under the middle of output sample i. */
static void range_of(const uint32_t *first, uint32_t i, double from, double len, uint32_t n_src, uint32_t n_dst, uint32_t *begin,
                     uint32_t *end)
{
    *begin = first[i];
    *end = first[i + 1];
    if (*begin < *end)
        return;
    double x = floor(from + (i + 0.5) * len / n_dst);
    *begin = x <= 0 ? 0 : x >= n_src ? n_src - 1 : (uint32_t)x;
    *end = *begin + 1;
}

/* The value that most pixels of the rectangle have, the smallest of those; false: too many colours. */
static bool elect(struct votes *v, uint32_t x0, uint32_t x1, uint32_t y0, uint32_t y1, uint64_t *winner)
{
    uint32_t most = 0;
    uint64_t first = value_at(v->in, x0, y0), same = 0;
    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = x0; x < x1; x++)
            same += value_at(v->in, x, y) == first;
    *winner = first;
    if (same == (uint64_t)(x1 - x0) * (y1 - y0)) /* the inside of a region, most of any mask */
        return true;
    bool fits = true;
    for (uint32_t y = y0; fits && y < y1; y++)
        for (uint32_t x = x0; fits && x < x1; x++) {
            uint64_t value = value_at(v->in, x, y);
            uint32_t slot = slot_of(v, value);
            fits = slot < COLOURS_MAX;
            if (!fits)
                break;
            uint32_t n = ++v->count[slot];
            if (n > most || (n == most && value < *winner)) {
                most = n;
                *winner = value;
            }
        }
    for (uint32_t y = y0; fits && y < y1; y++)
        for (uint32_t x = x0; x < x1; x++)
            v->count[slot_of(v, value_at(v->in, x, y))] = 0;
    return fits;
}

static void put(struct image_plane *to, unsigned n_planes, uint8_t bits, uint32_t x, uint32_t y, uint64_t value)
{
    for (unsigned i = n_planes; i-- > 0; value >>= bits) {
        uint8_t *row = to[i].data + (size_t)y * to[i].stride_bytes;
        if (bits == 16)
            ((uint16_t *)(void *)row)[x] = (uint16_t)value;
        else
            row[x] = (uint8_t)value;
    }
}

enum slimset_status resize_majority(const struct image *in, struct resample_region region, struct image_plane *to,
                                    struct slimset_error *err)
{
    struct votes v = {.in = in, .count = calloc(COLOURS_MAX, sizeof *v.count)};
    uint32_t src_w = in->plane[0].w, src_h = in->plane[0].h, w = to[0].w, h = to[0].h;
    uint32_t *first_x = calloc((size_t)w + 1, sizeof *first_x), *first_y = calloc((size_t)h + 1, sizeof *first_y);
    enum slimset_status st = SLIMSET_OK;
    if (in->n_planes > 1) {
        v.colour = malloc(COLOURS_MAX * sizeof *v.colour);
        v.table = calloc(TABLE, sizeof *v.table);
    }
    if (v.count == NULL || first_x == NULL || first_y == NULL || (in->n_planes > 1 && (v.colour == NULL || v.table == NULL))) {
        st = err_nomem(err, COLOURS_MAX * sizeof *v.colour);
        goto out;
    }
    first_samples(region.x, region.w, src_w, w, first_x);
    first_samples(region.y, region.h, src_h, h, first_y);
    for (uint32_t y = 0; st == SLIMSET_OK && y < h; y++) {
        uint32_t y0, y1;
        range_of(first_y, y, region.y, region.h, src_h, h, &y0, &y1);
        for (uint32_t x = 0; st == SLIMSET_OK && x < w; x++) {
            uint32_t x0, x1;
            uint64_t winner;
            range_of(first_x, x, region.x, region.w, src_w, w, &x0, &x1);
            if (!elect(&v, x0, x1, y0, y1, &winner))
                st = err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                             "more than %d colours: no label mask that --mask-filter majority can count", COLOURS_MAX);
            else
                put(to, in->n_planes, in->bits, x, y, winner);
        }
    }
out:
    free(v.count);
    free(v.colour);
    free(v.table);
    free(first_x);
    free(first_y);
    return st;
}
