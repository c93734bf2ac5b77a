/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG out: baseline, no metadata but the JFIF header, optimised Huffman tables unless told
 * otherwise. One writer per worker keeps its libjpeg object; not thread-safe.
 */
#ifndef JPEG_WRITE_H
#define JPEG_WRITE_H

#include "image.h"

enum jpeg_subsampling { JPEG_420 = 0, JPEG_422, JPEG_444 };

struct jpeg_settings {
    int quality;                       /* 1..100; default 90 */
    enum jpeg_subsampling subsampling; /* default 4:2:0 */
    bool optimise; /* Huffman tables for this picture: -4..7 % bytes; default true */
};

struct jpeg_writer;                        /* opaque */
struct jpeg_writer *jpeg_writer_new(void); /* NULL without memory */
void jpeg_writer_free(struct jpeg_writer *w);

/* Appends a JPEG of im (8 bits, no alpha) to *out. IMAGE_GRAY: one component. IMAGE_YCC: planes
 * must already have the sizes of the wanted subsampling (w x h, ceil(w/2) x ceil(h/2), ...),
 * written by jpeg_write_raw_data with edges replicated to whole MCUs. IMAGE_RGB: libjpeg converts
 * and subsamples. SLIMSET_BAD_INPUT/too-many-pixels over 65,500 a side (before anything is
 * written); SLIMSET_INTERNAL for an image this writer does not take. */
enum slimset_status jpeg_write(struct jpeg_writer *w, const struct image *im,
                               const struct jpeg_settings *settings, struct buf *out,
                               struct slimset_error *err);

#endif
