/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files behind array_item.h share: array_item.c takes an input apart, array_job.c makes a field of one array.
 */
#ifndef ARRAY_IMPL_H
#define ARRAY_IMPL_H

#include "array_item.h"
#include "array_write.h"
#include "input_stream.h"
#include "npy.h"

enum { ARRAY_PIECE_BYTES = 1 << 20 };

struct member {
    struct item_input in;
    char *name;
    size_t name_bytes;
};

struct array_item {
    const struct slimset_recipe *recipe; /* of the input at work */
    struct array_writer *writer;
    struct input_stream *stream;
    struct buf head;             /* header of the array at work, as its file has it */
    struct buf fresh;            /* a header of our own */
    struct buf data, other;      /* values, and where they go when they change */
    struct buf trial;
    struct member *member;       /* of the .npz at work */
    size_t n_members;
};

/* One array on its way from a stream to a field. */
struct job {
    struct array_item *x;
    enum item_op op;
    const struct item_input *in; /* where its bytes come from */
    int fd;
    const char *name;            /* of an .npz's member; "" for a file */
    size_t name_bytes;
    struct array_codec codec;
    bool labels;                 /* a mask or depth map */
    struct npy source, stored;
    struct item_field *f;
    struct item_out *out;
};

/* The next n bytes of the stream behind what to holds. */
enum slimset_status array_stream_into(struct input_stream *s, struct buf *to, size_t n, struct slimset_error *err);

/* Where the next payload goes, and what the field says of it once its bytes are there. */
struct array_sink array_sink_of(struct item_out *out);
void array_payload_done(struct item_out *out, struct item_field *f, uint64_t bytes);

/* The array in j->in becomes a field behind j->out->fields. */
enum slimset_status array_job_run(struct job *j, struct slimset_error *err);

#endif
