/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of inflate.c: from the next bits of a stream to what they stand for.
 */
#ifndef INFLATE_TABLE_H
#define INFLATE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

enum { CODE_BITS_MAX = 15 };

/* An entry of a table: bits 0-3 the length of the code, bits 4-7 the number of extra bits behind it (or
 * of bits that index the second table), flags, and in the upper half a literal, the base of a length or
 * distance, or the place of the second table. */
#define ENTRY_LITERAL 0x100u
#define ENTRY_SUB 0x200u
#define ENTRY_END 0x400u
#define ENTRY_BAD 0x800u
#define ENTRY_PAIR 0x1000u /* with LITERAL: two of them, the first in the lower byte */
#define CODE_LEN(e) ((e)&15)
#define EXTRA(e) ((e) >> 4 & 15)
#define VALUE(e) ((e) >> 16)
#define LITERALS(e) (1 + ((e) >> 12 & 1))

/* A table for the canonical code of the given lengths; entry[s] is what symbol s stands for, without
 * code length. False for a code with too many codes, or with too few unless there is at most one,
 * of one bit, and that may be. */
bool inflate_table(uint32_t *table, unsigned cap, unsigned root, const uint8_t *lengths, unsigned n,
                  const uint32_t *entry, bool one_may_be);

#endif
