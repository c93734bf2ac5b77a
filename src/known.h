/* SPDX-License-Identifier: Apache-2.0
 *
 * What an earlier run knew of the inputs: content hash, size, and (from OUT/.slimset/stat, which may be missing) time and inode. It lets a
 * rerun tell unchanged files without reading them. Sorted by path hash; 40 bytes an input.
 */
#ifndef KNOWN_H
#define KNOWN_H

#include "index.h"
#include "listing.h"

struct known_input {
    uint64_t path_hash, bytes, content_hash; /* content_hash 0: it was a reject */
    int64_t mtime_ns;
    uint64_t inode;
};

struct known {
    struct known_input *input;
    size_t n;
};

/* From the stat file where it is whole, else from the index (times unknown). A missing or damaged stat file is no fault. */
enum slimset_status known_load(struct known *k, int work_dir, struct index *ix, struct slimset_error *err);
void known_fini(struct known *k);
const struct known_input *known_find(const struct known *k, const struct entry *e);

/* Is the entry by size, time and inode still what it was? */
bool known_same_stat(const struct known_input *in, const struct entry *e);

/* Writes the stat file for the listing: hashes from the published index; and the words of the run. */
enum slimset_status known_save(const struct listing *l, struct index *ix, const struct slimset_run *run, int work_dir,
                               struct slimset_error *err);

#endif
