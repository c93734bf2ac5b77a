/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG to interleaved pixels, as training wants them: whole, scaled, or a window of it that costs
 * about as much as it is large. The pixels are those that libjpeg gives for the whole picture,
 * cut. Acceptance as jpeg_decode; rows behind the window are not looked at.
 */
#ifndef JPEG_ROWS_H
#define JPEG_ROWS_H

#include "jpeg_read.h"

struct jpeg_window {
    unsigned denom;      /* 1, 2, 4 or 8 */
    uint32_t x, y, w, h; /* in pixels of the scaled picture, inside of it */
    unsigned pixel_bytes; /* 1: gray, of gray pictures only; 3: RGB; 4: RGB and 255 */
    uint8_t *to;
    size_t stride_bytes; /* between rows at `to` */
};

/* info from jpeg_reader_header; colour gray, YCC or RGB. */
enum slimset_status jpeg_rows(struct jpeg_reader *r, const uint8_t *data, size_t n,
                              const struct image_info *info, const struct jpeg_window *win,
                              uint32_t *notes, struct slimset_error *err);

#endif
