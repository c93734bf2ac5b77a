/* SPDX-License-Identifier: Apache-2.0
 *
 * From file names to samples: which files of a folder belong together, and what the sample is called where WebDataset reads it.
 *
 * Files whose names agree once the last extension is removed are one sample. A longer stem joins a shorter one at a dot when
 * that shorter stem exists in the folder and the part between is not all digits: 0001.seg.png joins 0001.jpg, clip.001.jpg stays alone.
 */
#ifndef KEYS_H
#define KEYS_H

#include "listing.h"

/* Sorts the entries [first, n) of one listing into samples: sets key_bytes of each and orders them by (folder, key, name). Entries of
 * WebDataset sources keep their own keys. SLIMSET_NO_MEMORY. */
enum slimset_status keys_group(struct listing *l, struct slimset_error *err);

/* Entries a and b belong to one sample. */
bool keys_same(const struct entry *a, const struct entry *b);

/* The field part of an entry's path: behind the key and its dot ("seg.png", any case); 0 bytes where there is none. */
const char *keys_field(const struct entry *e, size_t *n);

enum { KEYS_TEXT_MAX = 4400 };

/* The sample's key as it is written: for tree the path's own bytes; for shards without dots and blanks in the last component, without control
 * characters, not hidden to WebDataset, and short enough for ustar with field_bytes of field name behind it; suffix: append the hash of the path (two
 * samples would have the same key otherwise). exact: keep (WebDataset input). Returns its bytes; *changed when the key
 * differs from the path's own. text holds KEYS_TEXT_MAX. */
size_t keys_text(const struct entry *first, bool tree, bool exact, bool suffix, size_t field_bytes, char *text, bool *changed);

#endif
