/* SPDX-License-Identifier: Apache-2.0
 *
 * The one hash of slimset: XXH3-64 with seed 0, as the index format stores it. The value depends on
 * the bytes alone, not on the machine or on how they were cut into pieces. It finds damage; it is
 * no defence against somebody who builds a collision on purpose.
 *
 * In pieces:
 *   struct hash_stream h; hash_init(&h); hash_update(&h, p, n)...; v = hash_value(&h);
 * hash_value does not end the stream: more bytes may follow. No allocation, nothing to free. The
 * stream must stay where hash_init found it (the state is aligned inside it): do not copy or move
 * it.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH3-64 of n bytes; p may be NULL when n is 0. */
uint64_t hash_bytes(const void *p, size_t n);

struct hash_stream {
    unsigned char room[640]; /* the library's 576-byte state and what aligning it to 64 can cost */
};

void hash_init(struct hash_stream *h);
void hash_update(struct hash_stream *h, const void *p, size_t n);
uint64_t hash_value(const struct hash_stream *h);

#endif
