/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored arrays read back: .npy, a zstd frame or a c-blosc buffer with a .npy inside. In pieces, so that an array of any size takes little
 * memory (through c-blosc: twice its size, which array_codec.h bounds). Nothing is believed: the size that a frame declares, its window,
 * its checksum and its end are checked, and the header's arithmetic against them. Depends on libc, zstd, c-blosc where the build has it,
 * base/ and the npy and array_convert modules.
 *
 *      array_reader_begin (header known) -> array_reader_read until array->data_bytes are read -> array_reader_end
 */
#ifndef ARRAY_READ_H
#define ARRAY_READ_H

#include "array_codec.h"
#include "base/buf.h"
#include "npy.h"

/* Hands out stored bytes from `at` on: n of them, exactly. */
typedef enum slimset_status array_get_fn(void *arg, uint64_t at, void *to, size_t n, struct slimset_error *err);

struct array_reader; /* opaque: contexts and buffers, reused from array to array; one thread at a time */

struct array_reader *array_reader_new(void); /* NULL without memory */
void array_reader_free(struct array_reader *r);

/* format: FORMAT_NPY, NPY_ZST or NPY_BLOSC; stored_bytes: of the field. *a: the header; its descr lives until the next call. Faults are
 * SLIMSET_DAMAGED (SLIMSET_USAGE for another format, or without c-blosc). */
enum slimset_status array_reader_begin(struct array_reader *r, enum image_format format, array_get_fn *get, void *arg,
                                       uint64_t stored_bytes, struct npy *a, struct slimset_error *err);

/* The header's bytes as they were stored. */
const struct buf *array_reader_header(const struct array_reader *r);

/* The next n bytes of the data. */
enum slimset_status array_reader_read(struct array_reader *r, void *to, size_t n, struct slimset_error *err);

/* All data were read: is the frame at its end, and its checksum right? */
enum slimset_status array_reader_end(struct array_reader *r, struct slimset_error *err);

/* An array_get_fn over bytes in memory: arg is a struct array_bytes *. */
struct array_bytes {
    const uint8_t *p;
    size_t n;
};
enum slimset_status array_get_bytes(void *arg, uint64_t at, void *to, size_t n, struct slimset_error *err);

/* What the source array was, from what is stored and from the index (its text `array` and its notes): false when it is as stored, or when
 * a cast or a resize cannot be undone. *source: its header. Then the data are, in this order: converted element by element
 * (array_convert), and put back to Fortran order (array_reorder, the whole array; only arrays of up to 64 MiB are turned). */
bool array_source(const struct npy *stored, const char *text, size_t n, uint32_t notes, struct npy *source);

#endif
