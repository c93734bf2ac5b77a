/* SPDX-License-Identifier: Apache-2.0
 *
 * One input that holds arrays (.npy, .npz, or raw values that the recipe describes) into fields. Small arrays go through memory, large ones
 * through it in pieces; what is stored is the same. Everything is checked before it is stored: the header's arithmetic against the
 * size, checksums of archives, types.
 */
#ifndef ARRAY_ITEM_H
#define ARRAY_ITEM_H

#include "item.h"

/* Fields and payloads as they come into being. Payloads go behind blob, or into the spill. */
struct item_out {
    struct buf *blob;
    struct buf *fields;   /* struct item_field, one behind the other */
    struct buf *text;     /* their names and dtypes */
    int spill_fd;         /* -1: none */
    uint64_t spill_at;    /* its end so far */
    uint64_t spill_max;   /* where it must end; 0: anywhere */
};

struct array_item; /* opaque: buffers, contexts */

struct array_item *array_item_new(const struct slimset_recipe *recipe); /* looked at with each call, may change between them; NULL without memory */
void array_item_free(struct array_item *x);

/* True for inputs that array_item_convert takes: role array, and masks and depth maps that are arrays by their first bytes. */
bool array_item_is(struct array_item *x, const struct item_input *in, int fd);

/* op CONVERT: fields with payloads; PROBE: fields with sizes of trials; HASH: one field. number: of the input in the request.
 * SLIMSET_BAD_INPUT names the member and the byte. */
enum slimset_status array_item_convert(struct array_item *x, enum item_op op, const struct item_input *in, uint32_t number, int fd,
                                       struct item_out *out, struct slimset_error *err);

/* An input of any kind, its bytes unchanged into the spill (files that are copied but too large for a slot); or only hashed. */
enum slimset_status array_item_copy(struct array_item *x, enum item_op op, const struct item_input *in, uint32_t number, int fd,
                                    struct item_out *out, struct slimset_error *err);

/* ITEM_CHECK: does a stored array (in->array.codec says how, at in->offset) decompress, and is it whole? The field's text is its dtype and
 * shape. Faults are SLIMSET_BAD_INPUT. */
enum slimset_status array_item_check(struct array_item *x, const struct item_input *in, uint32_t number, int fd, struct item_out *out,
                                     struct slimset_error *err);

#endif
