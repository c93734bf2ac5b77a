/* SPDX-License-Identifier: Apache-2.0
 *
 * From file names to samples: which files of a folder belong together, and what the sample is called where WebDataset reads it.
 *
 * Files whose names agree once the last extension is removed are one sample. A longer stem joins a shorter one at a dot when
 * that shorter stem exists in the folder and the part between is not all digits: 0001.seg.png joins 0001.jpg, clip.001.jpg stays alone.
 * A number is no extension: IM.0 and IM.1 are two samples.
 */
#ifndef KEYS_H
#define KEYS_H

#include "listing.h"

/* Sorts the entries [first, n) of one listing into samples: sets key_bytes of each and orders them by (folder, key, name), those with a
 * problem behind the others of their key. Names are
 * still the paths. Entries of WebDataset sources keep their own keys. SLIMSET_NO_MEMORY. */
enum slimset_status keys_group(struct listing *l, struct slimset_error *err);

/* Orders entries whose names and keys are set: by (folder, key), those with a problem last, those that were attached behind the
 * sample's own, then by name. SLIMSET_NO_MEMORY. */
enum slimset_status keys_sort(struct listing *l, struct slimset_error *err);

/* Entries a and b belong to one sample. */
bool keys_same(const struct entry *a, const struct entry *b);

/* The field part of an entry's name: behind the key and its dot ("seg.png", any case); 0 bytes where there is none. */
const char *keys_field(const struct entry *e, size_t *n);

enum {
    KEYS_TEXT_MAX = 4400,
    KEYS_FIELD_SOURCE = 60, /* bytes kept of a longer field name, its end (shard.c) */
    KEYS_FIELD_MAX = 79     /* a stored field name, with what a change of codec or another field of that name adds */
};

/* Layout tree: may there be a file of this path in OUT? Not one of slimset's own names (slimset.index, .slimset/...), no folder
 * name of more than 255 bytes, not over 150 folders, no path longer than system calls take. */
bool keys_tree_holds(const struct entry *e);

/* The sample's key as it is written: for tree the path's own bytes; for shards without dots and blanks in the last component, without control
 * characters, not hidden to WebDataset, and short enough for ustar with field_bytes of field name behind it; suffix: append the hash of the path (two
 * samples would have the same key otherwise; in a tree: a folder has the name, or it is too long and is cut). exact: keep (WebDataset input). Returns its bytes; *changed when the key
 * differs from the path's own. text holds KEYS_TEXT_MAX. */
size_t keys_text(const struct entry *first, bool tree, bool exact, bool suffix, size_t field_bytes, char *text, bool *changed);

#endif
