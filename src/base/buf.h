/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable byte buffer that is born with a maximum, and checked arithmetic for sizes that come
 * from files. A zeroed struct buf with max set is a valid empty buffer; buf_fini takes any state.
 * Not thread-safe; one owner.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
    uint8_t *data; /* owned; NULL while cap is 0 */
    size_t len;    /* bytes in use */
    size_t cap;    /* bytes allocated */
    size_t max;    /* never grows beyond this many bytes; 0 means SIZE_MAX / 2 */
};

void buf_fini(struct buf *b);

/* Makes room for n more bytes behind len (len does not change, contents stay).
 * SLIMSET_NO_MEMORY when the machine has none; SLIMSET_BAD_INPUT/too-large beyond max. */
enum slimset_status buf_reserve(struct buf *b, size_t n, struct slimset_error *err);

/* Appends n bytes. Statuses as buf_reserve; on failure the buffer is unchanged. */
enum slimset_status buf_append(struct buf *b, const void *bytes, size_t n, struct slimset_error *err);

/* Gives memory back when more than keep bytes are allocated; empties the buffer in any case. */
void buf_reset(struct buf *b, size_t keep_bytes);

/* *out = a + b, a * b; false on overflow. */
static inline bool add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Integers at unaligned addresses, little- and big-endian. */
static inline uint16_t get_le16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t get_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t get_le64(const uint8_t *p) { return get_le32(p) | (uint64_t)get_le32(p + 4) << 32; }
static inline uint16_t get_be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}
static inline void put_le16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)v; p[1] = (uint8_t)(v >> 8); }
static inline void put_le32(uint8_t *p, uint32_t v) { put_le16(p, (uint16_t)v); put_le16(p + 2, (uint16_t)(v >> 16)); }
static inline void put_le64(uint8_t *p, uint64_t v) { put_le32(p, (uint32_t)v); put_le32(p + 4, (uint32_t)(v >> 32)); }
static inline void put_be16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static inline void put_be32(uint8_t *p, uint32_t v) { put_be16(p, (uint16_t)(v >> 16)); put_be16(p + 2, (uint16_t)v); }

#endif
