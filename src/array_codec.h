/* SPDX-License-Identifier: Apache-2.0
 *
 * How an array is stored: the one place where words, levels and numbers of array codecs meet. A choice is made for a field of the
 * dataset (array_choose.c, by the probe) and is then the same for all its arrays.
 */
#ifndef ARRAY_CODEC_H
#define ARRAY_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "image.h"
#include "slimset/format.h"

enum array_filter { ARRAY_PLAIN = 0, ARRAY_SHUFFLE = 1, ARRAY_BITSHUFFLE = 2 }; /* as c-blosc numbers them */

enum {
    ARRAY_BLOSC_BYTES_MAX = 256 << 20, /* of an array: c-blosc wants it whole, and its output beside it; larger ones become a zstd frame */
    ARRAY_WINDOW_LOG_MAX = 27          /* of a zstd frame: what every decoder accepts */
};

struct array_codec {
    uint8_t codec;  /* enum slimset_codec: KEEP, NPY, NPY_ZST, NPY_BLOSC, NPZ */
    uint8_t filter; /* enum array_filter; NPY_BLOSC */
    uint8_t level;  /* zstd's 1..19; of NPY_BLOSC c-blosc's 1..9; or a word, enum array_level */
    uint8_t zero;
};

enum array_level { ARRAY_LEVEL_FAST = 101, ARRAY_LEVEL_DEFAULT = 102, ARRAY_LEVEL_MAX = 103 }; /* what they mean: array_write.c */

/* "auto", "zstd", "zstd:3", "blosc:bitshuffle:max", "npy", "npz", "keep" as --array-codec has it. *automatic: filter and codec are the
 * probe's to choose; level is one of the words above or a number. false: no such codec. */
bool array_codec_parse(const char *text, struct array_codec *c, bool *automatic);

/* "zstd:default", "blosc:shuffle:2", "npy": what the index calls params. */
void array_codec_text(struct array_codec c, char *text, size_t n);

/* Is this build able to write and read the codec (c-blosc is optional)? */
bool array_codec_usable(uint8_t codec);

/* Format of what is stored, and the other way round; FORMAT_UNKNOWN, KEEP for others. */
enum image_format array_codec_format(uint8_t codec);

/* The name of an .npz's member as part of a field's name: without ".npy", no control characters, blanks, dots, slashes, commas or signs of
 * the params; a long one is cut and has a hash behind it. Untrusted bytes in, 1 to ARRAY_NAME_MAX bytes and a NUL out. */
enum { ARRAY_NAME_MAX = 32 };
size_t array_name_clean(const char *name, size_t n, char out[ARRAY_NAME_MAX + 1]);

/* What stands for a cleaned name in a request. */
uint32_t array_name_hash(const char *clean);

#endif
