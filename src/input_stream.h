/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one input in pieces, for arrays that need not fit into memory: a plain file, a member of a tar, a stored or deflated
 * member of a zip. The same checks as input.h; those at the end are made by input_stream_end.
 *
 *      input_stream_begin -> input_stream_read until all is read -> input_stream_end
 */
#ifndef INPUT_STREAM_H
#define INPUT_STREAM_H

#include "base/hash.h"
#include "item.h"

struct input_stream; /* opaque; with its buffers some 600 KiB, reused from input to input */

struct input_stream *input_stream_new(void); /* NULL without memory */
void input_stream_free(struct input_stream *s);

/* in and fd must stay until the end. Begins at the first byte, also a second time. */
enum slimset_status input_stream_begin(struct input_stream *s, const struct item_input *in, int fd, struct slimset_error *err);

/* The next n bytes, exactly. SLIMSET_BAD_INPUT: truncated, corrupt. */
enum slimset_status input_stream_read(struct input_stream *s, void *to, size_t n, struct slimset_error *err);

/* Unpacked bytes of the input as its listing announced them, and how many were read so far. */
uint64_t input_stream_bytes(const struct input_stream *s);
uint64_t input_stream_at(const struct input_stream *s);

/* Reads what is left, checks CRC, size and time, and hands out the hash of all bytes. */
enum slimset_status input_stream_end(struct input_stream *s, uint64_t *hash, struct slimset_error *err);

#endif
