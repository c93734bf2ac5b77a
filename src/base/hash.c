/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "base/hash_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) + 63 <= sizeof(struct hash_stream),
               "room for an aligned state");

/* The library reads its state with aligned vector loads, which malloc's 16 bytes do not promise. */
static XXH3_state_t *state_of(const struct hash_stream *h)
{
    uintptr_t at = ((uintptr_t)h->room + 63) & ~(uintptr_t)63;
    return (XXH3_state_t *)at;
}

uint64_t hash_bytes(const void *p, size_t n)
{
#if defined(__x86_64__)
    if (n >= HASH_WIDE_BYTES && __builtin_cpu_supports("avx2"))
        return hash_bytes_avx2(p, n);
#endif
    return XXH3_64bits(n != 0 ? p : "", n);
}

void hash_init(struct hash_stream *h)
{
    XXH3_64bits_reset(state_of(h));
}

void hash_update(struct hash_stream *h, const void *p, size_t n)
{
    if (n != 0)
        XXH3_64bits_update(state_of(h), p, n);
}

uint64_t hash_value(const struct hash_stream *h)
{
    return XXH3_64bits_digest(state_of(h));
}
