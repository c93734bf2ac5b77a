/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one .npy file out: as they are, as one zstd frame, through c-blosc, or as the only member of an .npz. The size is known
 * beforehand and there is one path for all sizes, so equal arrays give equal bytes.
 *
 *      array_writer_begin -> array_writer_put until npy_bytes are in -> array_writer_end
 */
#ifndef ARRAY_WRITE_H
#define ARRAY_WRITE_H

#include "array_codec.h"
#include "base/buf.h"

/* Where the bytes go: behind buf's, or to a file from an offset on. */
struct array_sink {
    struct buf *buf; /* NULL: fd */
    int fd;
    uint64_t at;     /* fd: where the next byte goes */
    uint64_t max;    /* fd: none goes from here on; 0: anywhere */
};

struct array_writer; /* opaque: contexts and buffers, reused from array to array */

struct array_writer *array_writer_new(void); /* NULL without memory */
void array_writer_free(struct array_writer *w);

/* itemsize: of an element, for blosc's filters. name: of the member of an .npz, with ".npy". Blosc
 * for more than ARRAY_BLOSC_BYTES_MAX is not: see array_writer_codec. */
enum slimset_status array_writer_begin(struct array_writer *w, struct array_codec codec, uint64_t npy_bytes, uint64_t itemsize,
                                       const char *name, const struct array_sink *sink, struct slimset_error *err);
enum slimset_status array_writer_put(struct array_writer *w, const void *data, size_t n, struct slimset_error *err);

/* *bytes: what was stored. */
enum slimset_status array_writer_end(struct array_writer *w, uint64_t *bytes, struct slimset_error *err);

/* The codec that an array of this size really gets: a zstd frame where blosc would need it whole and it is too large for that. */
struct array_codec array_writer_codec(struct array_codec codec, uint64_t npy_bytes);

#endif
