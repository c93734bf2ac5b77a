/* SPDX-License-Identifier: Apache-2.0
 *
 * A finished dataset on disk, as reader and verify see it: the folder, its index and its files.
 * Nothing in the index may lead outside of the folder: names are checked before they are opened,
 * and only regular files are.
 */
#ifndef DATASET_H
#define DATASET_H

#include "index.h"
#include "npy.h"

enum { DATASET_PATH_MAX = 4096 /* bytes with the terminator, as the kernel's PATH_MAX */ };

struct dataset {
    int dirfd;        /* OUT; -1 when closed */
    struct index ix;
    bool tree;        /* META layout=tree */
    bool stacked;     /* META layout=npy (stack.h) */
    struct npy row;   /* stacked: what every row is */
};

/* Opens the folder only. SLIMSET_NOT_FOUND when there is none. */
enum slimset_status dataset_open_folder(const char *out, struct dataset *d,
                                        struct slimset_error *err);

/* Opens the index in the folder. SLIMSET_NOT_FOUND says whether OUT is an unfinished pack or no
 * dataset at all. */
enum slimset_status dataset_open_index(const char *out, struct dataset *d,
                                       struct slimset_error *err);

/* Whether the index in the folder is another one by now, or gone: the dataset was packed again or
 * is being packed. Shards that were opened before this said false belong to the index. */
bool dataset_replaced(const struct dataset *d);

/* What may have happened to a part that is missing, for the end of a message; "" when unknown. */
const char *dataset_missing_hint(const struct dataset *d, const char *part);

void dataset_close(struct dataset *d);

/* The one place where the name of a field's data is made, in a tar and in a tree, for who writes and
 * who reads: "key.name", or "key" when name is empty.
 * false when it is no plain path below OUT (absolute, "..", NUL inside, too long). path has
 * DATASET_PATH_MAX bytes. */
bool dataset_path(const char *key, size_t key_n, const char *name, size_t name_n, char *path);

/* A part's file name: one plain path component. false as dataset_path. */
bool dataset_part_name(const char *name, size_t n, char *path);

/* Opens a regular file below OUT for reading and says its size. SLIMSET_NOT_FOUND when it is
 * missing; SLIMSET_DAMAGED when something else than a file stands there. */
enum slimset_status dataset_open_file(const struct dataset *d, const char *path, int *fd,
                                      uint64_t *bytes, struct slimset_error *err);

#endif
