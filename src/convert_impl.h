/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three files behind convert.h share: convert.c takes a sample apart, convert_image.c makes the output of one image,
 * convert_look.c looks at one input without making anything of it (probe, verify --decode).
 */
#ifndef CONVERT_IMPL_H
#define CONVERT_IMPL_H

#include "array_item.h"
#include "convert.h"
#include "decode.h"
#include "encode.h"
#include "geometry.h"
#include "resample.h"

struct converter {
    struct slimset_recipe recipe;        /* of the input at work */
    struct slimset_recipe settings[1 + SLIMSET_SETTINGS_MAX]; /* by item_input.settings */
    struct decoder *decoder;
    struct encoder *encoder;
    struct resampler *resampler;
    struct image decoded, scratch, sized;
    struct array_item *arrays;
    struct buf packed, in, probe;
    struct buf values;            /* which values a mask has */
    struct buf fields, text;      /* of the answer under construction */
};

/* What is known about the image under conversion. */
struct work {
    const struct item_input *in;
    struct item_field *field;
    struct image_info info;
    uint32_t up_w, up_h;          /* upright source */
    struct geometry geometry;
    enum slimset_codec codec;     /* of the output, never KEEP */
    double depth_lo, depth_hi;    /* what 16-bit values are scaled from; equal: no range */
    bool labels;                  /* mask or depth map: never blended, lossless */
};

static inline bool convert_is_labels(uint8_t role)
{
    return role == SLIMSET_ROLE_MASK || role == SLIMSET_ROLE_DEPTH;
}

/* Reads the header into *w (in and field set by the caller), and decides size and codec. */
enum slimset_status convert_prepare(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                    struct slimset_error *err);

/* Appends the output of an image to *out and fills *w->field. */
enum slimset_status convert_image(struct converter *c, const uint8_t *data, size_t n, struct work *w, struct buf *out,
                                  struct slimset_error *err);

/* ITEM_PROBE: statistics of an image into *w->field; with ITEM_PROBE_SIZE also what its output would have. */
enum slimset_status convert_probe(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                  struct slimset_error *err);

/* ITEM_CHECK: does what was stored decode, and to which size? */
enum slimset_status convert_check(struct converter *c, const uint8_t *data, size_t n, struct work *w,
                                  struct slimset_error *err);

/* Does a text hold box annotations? 0 none, 1 VOC XML, 2 COCO JSON, 3 labelme JSON. */
uint8_t convert_box_kind(const uint8_t *data, size_t n);

#endif
