/* SPDX-License-Identifier: Apache-2.0
 *
 * From entries of the plan to a request a worker can serve: inputs opened, descriptors collected.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "plan.h"

/* A request under construction. Zero it, or request_init. */
struct request {
    struct item_request item;
    int fds[ITEM_INPUTS_MAX + 1];
};

/* Opens the n entries from first on and fills *r for op. On a fault nothing stays open, *failed is the entry's number
 * (0 .. n-1). SLIMSET_BAD_INPUT: the sample is a reject; other statuses: the machine's. A request whose descriptors
 * were not handed to the pool is closed with request_close. */
enum slimset_status request_open(struct request *r, const struct plan *p, uint32_t first, uint32_t n, enum item_op op,
                                 uint64_t ticket, uint32_t *failed, struct slimset_error *err);
void request_close(struct request *r);

/* Tells the kernel that these bytes are wanted soon. */
void request_readahead(const struct request *r);

#endif
