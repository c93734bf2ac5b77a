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
 * written as raw data; the last sample of rows and columns is repeated up to whole blocks.
 * IMAGE_RGB: libjpeg converts and subsamples. im is only read, and may be a part of a larger image.
 * The bytes depend on im and settings alone, not on what was written before.
 * SLIMSET_BAD_INPUT/too-many-pixels over 65,500 a side (before anything is written), /too-large
 * when out->max does not allow the file and one byte more; SLIMSET_INTERNAL for an image this
 * writer does not take; SLIMSET_NO_MEMORY. *out is then as it was. */
enum slimset_status jpeg_write(struct jpeg_writer *w, const struct image *im,
                               const struct jpeg_settings *settings, struct buf *out,
                               struct slimset_error *err);

#endif
