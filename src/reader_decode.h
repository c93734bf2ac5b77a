/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread needs to decode: decoders and buffers that are kept from picture to picture. A
 * reader keeps some for whoever decodes next, in slots that are emptied and filled by one atomic
 * exchange.
 */
#ifndef READER_DECODE_H
#define READER_DECODE_H

#include "array_read.h"
#include "jpeg_read.h"
#include "png_read.h"
#include "reader_impl.h"
#include "resample.h"

struct reader_decoder {
    struct jpeg_reader *jpeg; /* each when it is first needed */
    struct png_reader *png;
    struct resampler *resampler;
    struct array_reader *array;
    struct buf bytes;         /* the field */
    struct buf rows;          /* interleaved pixels on their way */
    struct image picture, made, scratch;
};

struct reader_decoder *reader_decoder_take(struct slimset_reader *r); /* NULL without memory */
void reader_decoder_give(struct slimset_reader *r, struct reader_decoder *d);
void reader_decoder_free(struct reader_decoder *d);

/* The picture in a field: its bytes, and what its header says. */
struct coded {
    const uint8_t *data;
    size_t n;
    struct image_info info;
    bool mask; /* the dataset says that it is one */
};

/* Reads field k of sample i and its header. Errors name the field. */
enum slimset_status reader_decoder_open(struct slimset_reader *r, struct reader_decoder *d, uint64_t i, uint32_t k,
                                 struct coded *coded, struct slimset_error *err);

/* Decodes it at 1/denom (PNG: 1) into d->picture. indices: of a palette hand out its indices, and the raw
 * values of gray below 8 bits where it is a mask; else colours. YCbCr stays that only where ycc is true. */
enum slimset_status reader_decoder_planes(struct reader_decoder *d, const struct coded *coded, unsigned denom, bool indices,
                                   bool ycc, struct slimset_error *err);

/* d->picture to 1, 3 or 4 channels; picked: which plane is which, NULL for full alpha. channels 0: as it
 * is. How many channels there are in *n. */
void reader_decoder_pick(struct reader_decoder *d, unsigned channels, const struct image_plane **picked, unsigned *n);

/* What slimset_decode_bytes does, with a picture that is open. size_only: *pixels alone. */
enum slimset_status reader_decoder_decode(struct reader_decoder *d, const struct coded *coded,
                                          const struct slimset_decode_options *o, void *buf,
                                          size_t cap, bool size_only, struct slimset_pixels *pixels,
                                          struct slimset_error *err);

/* One resampler for the thread; NULL without memory. */
struct resampler *reader_decoder_resampler(struct reader_decoder *d);

#endif
