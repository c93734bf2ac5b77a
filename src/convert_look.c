/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_impl.h"

#include <stdio.h>
#include <string.h>

#include "pixels.h"
#include "sniff.h"

static bool has(const uint8_t *data, size_t n, const char *word)
{
    return memmem(data, n, word, strlen(word)) != NULL;
}

/* Annotations whose numbers are pixels: they break where the pixels move. */
uint8_t convert_box_kind(const uint8_t *data, size_t n)
{
    if (has(data, n, "<annotation") && (has(data, n, "<bndbox") || has(data, n, "<polygon")))
        return 1;
    if (has(data, n, "\"annotations\"") && (has(data, n, "\"bbox\"") || has(data, n, "\"segmentation\"")))
        return 2;
    if (has(data, n, "\"shapes\"") && has(data, n, "\"points\""))
        return 3;
    return 0;
}

/* What the pixels show. A JPEG is taken for a photograph unseen, unless it is to be a mask: nothing depends on its pixels. */
static enum slimset_status look_at_pixels(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                          struct slimset_error *err)
{
    struct item_field *f = w->field;
    struct pixels_stats stats;
    if (w->info.format == FORMAT_JPEG && !w->labels)
        return SLIMSET_OK;
    enum slimset_status st = decode_image(c->decoder, data, n, &w->info, DECODE_LABELS, 1, false, &c->decoded, &f->notes, err);
    if (st != SLIMSET_OK)
        return st;
    pixels_stats(&c->decoded, &stats);
    f->values = stats.values;
    f->min_value = stats.min_value;
    f->max_value = stats.max_value;
    f->upper_permille = (uint16_t)stats.upper_permille;
    f->levels = (uint16_t)stats.levels;
    f->merges = stats.merges;
    f->zero_permille = stats.zero_permille;
    f->equal_permille = stats.equal_permille;
    f->real_alpha = c->decoded.alpha && !pixels_alpha_opaque(&c->decoded);
    for (uint32_t i = 0; i < c->decoded.palette_n; i++)
        f->real_alpha |= c->decoded.palette[i][3] != 255;
    return SLIMSET_OK;
}

enum slimset_status convert_probe(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                  struct slimset_error *err)
{
    struct item_field *f = w->field;
    enum slimset_status st = convert_prepare(c, data, n, w, err);
    if (st == SLIMSET_OK)
        st = look_at_pixels(c, data, n, w, err);
    if (st == SLIMSET_OK && (w->in->flags & ITEM_PROBE_SIZE)) {
        c->probe.len = 0;
        if (c->recipe.depth == SLIMSET_DEPTH_8_AUTO) { /* for the size of the output its own range is near enough */
            w->depth_lo = f->min_value;
            w->depth_hi = f->max_value;
        }
        st = convert_image(c, data, n, w, &c->probe, err);
        if (st == SLIMSET_BAD_INPUT && (err->reject == SLIMSET_REJECT_DEPTH || err->reject == SLIMSET_REJECT_ALPHA)) { /* the options decide */
            c->probe.len = n;
            st = SLIMSET_OK;
        }
        f->probe_bytes = c->probe.len;
    }
    f->payload_bytes = 0;
    f->notes = 0;
    f->format = f->in_format;
    return st;
}

/* An array of our own: its shape, for verify --decode. */
static enum slimset_status check_npy(const uint8_t *data, size_t n, struct item_field *f, struct slimset_error *err)
{
    char head[129] = {0};
    unsigned h = 0, w = 0, channels = 0, size = 0;
    memcpy(head, data, n < 128 ? n : 128);
    const char *shape = n >= 128 ? strstr(head + 10, "'shape': (") : NULL;
    const char *descr = n >= 128 ? strstr(head + 10, "'descr': '") : NULL;
    if (shape == NULL || descr == NULL || sscanf(shape, "'shape': (%u, %u, %u)", &h, &w, &channels) != 3 ||
        sscanf(descr, "'descr': '%*2c%u'", &size) != 1 || n != 128 + (uint64_t)h * w * channels * size)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "not the array that was written");
    f->w = w;
    f->h = h;
    return SLIMSET_OK;
}

enum slimset_status convert_check(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                  struct slimset_error *err)
{
    if (sniff(data, n) == FORMAT_NPY)
        return check_npy(data, n, w->field, err);
    enum slimset_status st = convert_prepare(c, data, n, w, err);
    if (st != SLIMSET_OK)
        return st;
    w->field->w = w->up_w;
    w->field->h = w->up_h;
    return decode_check(c->decoder, data, n, &w->info, &c->decoded, &w->field->notes, err);
}
