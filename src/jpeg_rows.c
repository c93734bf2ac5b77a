/* SPDX-License-Identifier: Apache-2.0
 *
 * libjpeg-turbo can leave out columns (in units of MCUs) and rows. At the cuts it would upsample
 * chroma as if the picture ended there, so a margin of one MCU is decoded around the window and
 * dropped.
 */
#include <string.h>

#include "jpeg_impl.h"
#include "jpeg_rows.h"

/* Leaves out columns; what is decoded then starts at column *x and is *w wide. */
static void crop_columns(struct jpeg_reader *r, const struct jpeg_window *win, uint32_t *x,
                         uint32_t *w)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    uint32_t mcu = (uint32_t)cinfo->max_h_samp_factor * MIN_BLOCK_SIZE(cinfo);
    uint32_t from = win->x > mcu ? win->x - mcu : 0;
    uint32_t to = win->x + win->w;
    to = cinfo->output_width - to > mcu ? to + mcu : cinfo->output_width;
    *x = 0;
    *w = cinfo->output_width;
    if (from < mcu && to == cinfo->output_width)
        return;
    JDIMENSION x0 = from, width = to - from;
    jpeg_crop_scanline(cinfo, &x0, &width);
    *x = x0;
    *w = width;
}

/* Leaves out whole MCU rows, but for the margin. */
static void skip_rows(struct jpeg_reader *r, const struct jpeg_window *win)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    uint32_t mcu = (uint32_t)cinfo->max_v_samp_factor * MIN_BLOCK_SIZE(cinfo);
    uint32_t skip = win->y / mcu;
    if (skip > 1)
        jpeg_skip_scanlines(cinfo, (skip - 1) * mcu);
}

enum slimset_status jpeg_rows(struct jpeg_reader *r, const uint8_t *data, size_t n,
                              const struct image_info *info, const struct jpeg_window *win,
                              uint32_t *notes, struct slimset_error *err)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    struct image_info wanted = *info;
    if (win->pixel_bytes > 1 && info->colour == IMAGE_YCC)
        wanted.colour = IMAGE_RGB;
    jpeg_prepare(r, data, n, &wanted, err);
    if (setjmp(r->jump) != 0)
        return jpeg_failed(r);
    jpeg_begin(r);
    cinfo->scale_num = 1;
    cinfo->scale_denom = win->denom;
    cinfo->out_color_space = win->pixel_bytes == 1   ? JCS_GRAYSCALE
                             : win->pixel_bytes == 3 ? JCS_EXT_RGB
                                                     : JCS_EXT_RGBA;
    jpeg_start_decompress(cinfo);
    uint32_t x, w;
    crop_columns(r, win, &x, &w);
    skip_rows(r, win);
    size_t skip = (size_t)(win->x - x) * win->pixel_bytes;
    bool direct = x == win->x && w == win->w; /* no row goes through a buffer */
    r->row.len = 0;
    if (buf_reserve(&r->row, (size_t)w * win->pixel_bytes, err) != SLIMSET_OK)
        jpeg_fail(r);
    while (cinfo->output_scanline < win->y + win->h) {
        uint32_t y = cinfo->output_scanline;
        uint8_t *to = y >= win->y ? win->to + (size_t)(y - win->y) * win->stride_bytes : NULL;
        JSAMPROW row = direct && to != NULL ? to : r->row.data;
        if (jpeg_read_scanlines(cinfo, &row, 1) != 1) {
            err_set(err, SLIMSET_INTERNAL, "libjpeg gave no row");
            jpeg_fail(r);
        }
        if (to != NULL && !direct)
            memcpy(to, row + skip, (size_t)win->w * win->pixel_bytes);
    }
    if (cinfo->output_scanline < cinfo->output_height)
        return jpeg_cut_short(r, notes);
    return jpeg_end(r, notes);
}
