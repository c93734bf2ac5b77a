/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that call libjpeg to read share: the reader, and the way out of it. libjpeg
 * reports through callbacks that may not return, so everything a callback needs lives in the
 * reader. Who decodes arms the one jump buffer,
 *
 *   jpeg_prepare(r, data, n, info, err);
 *   if (setjmp(r->jump) != 0)
 *       return jpeg_failed(r);
 *   jpeg_begin(r);                     // header read, settings made
 *   ... libjpeg's calls, jpeg_fail ...
 *   return jpeg_end(r, notes);         // or jpeg_cut_short
 *
 * and whatever goes wrong below comes back there with *r->err filled. Nothing between setjmp and
 * the jump may own memory outside of the reader and what the caller gave.
 */
#ifndef JPEG_IMPL_H
#define JPEG_IMPL_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "jpeg_read.h"

/* libjpeg 7 gave the two axes scaled block sizes of their own; libjpeg-turbo is built with either
 * interface (Debian: 62, Ubuntu: 80), and in both the two are equal. */
#if JPEG_LIB_VERSION >= 70
#define BLOCK_SIZE(comp) ((unsigned)(comp)->DCT_h_scaled_size)
#define MIN_BLOCK_SIZE(cinfo) ((unsigned)(cinfo)->min_DCT_v_scaled_size)
#else
#define BLOCK_SIZE(comp) ((unsigned)(comp)->DCT_scaled_size)
#define MIN_BLOCK_SIZE(cinfo) ((unsigned)(cinfo)->min_DCT_scaled_size)
#endif

enum {
    COMPONENTS_MAX = 4,
    ROWS_MAX = 4 * DCTSIZE, /* of a component in one row of MCUs: sampling factor 4 */
    /* 16-bit coefficients of three full-size components; what files of the pixel limit need. */
    COEFFICIENT_BYTES_PER_PX = 6,
    /* For libjpeg's own check, which counts its other buffers too. */
    MEMORY_SLACK_BYTES = 64 << 20
};

struct jpeg_reader {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct image_limits limits;
    struct buf row; /* one row of pixels, or the row nobody reads in raw output */
    JSAMPROW rows[COMPONENTS_MAX][ROWS_MAX];
    /* of the file that is being decoded */
    const uint8_t *data;
    size_t n;
    size_t piece_bytes; /* handed to libjpeg at once: all, or little so that it decodes with care */
    size_t given;       /* bytes handed out so far */
    const struct image_info *info;
    struct slimset_error *err;
    uint32_t notes;
    bool dry;       /* the source ran out of bytes before EOI */
    bool left_over; /* a scan had more data than it needed */
};

/* A new libjpeg object with the file's bytes behind it; clears what is remembered of the file before. */
void jpeg_prepare(struct jpeg_reader *r, const uint8_t *data, size_t n,
                  const struct image_info *info, struct slimset_error *err);

/* libjpeg-turbo's fast Huffman decoder says nothing of codes that do not exist, and it is used where
 * a few KiB of data are at hand. True after a decode that ended well but left something to wonder
 * about; jpeg_slowly between jpeg_prepare and jpeg_begin makes the next one report every code. */
bool jpeg_is_doubtful(const struct jpeg_reader *r);
void jpeg_slowly(struct jpeg_reader *r);

/* Reads the header, which must agree with info, and sets what every decode wants: ISLOW, no guessing. */
void jpeg_begin(struct jpeg_reader *r);

/* Jumps; *r->err must be filled. */
_Noreturn void jpeg_fail(struct jpeg_reader *r);

/* Behind the last row: the rest of the file, and whether all of the picture was there. */
enum slimset_status jpeg_end(struct jpeg_reader *r, uint32_t *notes);

/* Instead, when not all rows were wanted. */
enum slimset_status jpeg_cut_short(struct jpeg_reader *r, uint32_t *notes);

/* After the jump. */
enum slimset_status jpeg_failed(struct jpeg_reader *r);

#endif
