/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one input, wherever they lie: a plain file, a member of a tar, a stored or deflated member of a
 * zip. Used by workers only; the descriptor comes from the coordinator.
 */
#ifndef INPUT_H
#define INPUT_H

#include "item.h"

enum { INPUT_BYTES_MAX = 1 << 30 }; /* of one input held in memory */

/* Appends the unpacked bytes to *out; packed: scratch. A plain file must have the size and time the walk saw, before and after
 * reading (reject changed). Zip members must match their CRC (reject checksum).
 * SLIMSET_BAD_INPUT, SLIMSET_IO, SLIMSET_NO_MEMORY. */
enum slimset_status input_read(const struct item_input *in, int fd, struct buf *packed, struct buf *out,
                               struct slimset_error *err);

/* Is a plain file still the one the walk saw? SLIMSET_BAD_INPUT/changed. */
enum slimset_status input_same(const struct item_input *in, int fd, struct slimset_error *err);

#endif
