/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that differ only in case, or in the Unicode form of a letter (an e with an accent, or an e and an accent). They are different
 * names here; a file system such as those of macOS and Windows holds one of them, so that unpacked files overwrite each other.
 */
#ifndef ALIKE_H
#define ALIKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A hash of the name that is the same for names that are alike. Bytes that are no UTF-8 stand for themselves. Case: of ASCII, Latin-1,
 * Greek and Cyrillic letters; forms: the canonical decomposition of Latin, Greek, Cyrillic, kana and Hangul. */
struct alike;
struct alike *alike_new(void); /* NULL without memory */
void alike_free(struct alike *a);
uint64_t alike_hash(const struct alike *a, const char *name, size_t n);

#endif
