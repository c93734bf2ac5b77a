/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding what is already packed, for `slimset verify --decode`: whether a field's bytes are an
 * image and of what size. The decoding happens in sandboxed workers; the bytes are not trusted.
 */
#ifndef VERIFY_DECODE_H
#define VERIFY_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct verify_decoder; /* opaque */

/* Starts up to `jobs` workers (0: as many as CPUs). NULL on failure, with the reason in *err. */
struct verify_decoder *verify_decoder_open(unsigned jobs, struct slimset_error *err);
void verify_decoder_close(struct verify_decoder *decoder); /* NULL is fine */

/* Decodes n bytes of the index's format number and hands out the upright size in pixels.
 * SLIMSET_BAD_INPUT: they do not decode; any other fault is one of the machine. */
enum slimset_status verify_decode_field(struct verify_decoder *decoder, const uint8_t *data,
                                        size_t n, uint8_t format, uint32_t *w, uint32_t *h,
                                        struct slimset_error *err);

/* A stored array that lies in fd: decompressed and checked in a worker. *text: its dtype and shape, the caller's to free. */
enum slimset_status verify_decode_array(struct verify_decoder *d, int fd, uint64_t offset, uint64_t n, uint8_t format, char **text,
                                        struct slimset_error *err);

#endif
