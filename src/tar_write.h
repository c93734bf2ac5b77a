/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain ustar out: mode 0644, owner 0, time 0, no names of users, two zero blocks at the end and nothing behind. Equal input gives
 * equal bytes. The whole file is hashed on the way. Member names of up to 100 bytes, longer ones through the prefix field.
 */
#ifndef TAR_WRITE_H
#define TAR_WRITE_H

#include "base/buf.h"
#include "base/hash.h"

struct tar_writer {
    int fd;                    /* owned; -1 closed */
    char name[300];            /* for messages */
    uint64_t bytes;            /* written so far, with what is buffered */
    uint64_t started;          /* bytes whose writing to the disk was begun */
    struct buf buffer;
    struct hash_stream hash;
};

/* Creates dirfd/name. */
enum slimset_status tar_create(struct tar_writer *t, int dirfd, const char *name, struct slimset_error *err);

/* Header, data, padding. *offset: of the data. SLIMSET_INTERNAL for a name that ustar cannot hold. */
enum slimset_status tar_append(struct tar_writer *t, const char *name, size_t name_bytes, const void *data, uint64_t n,
                               uint64_t *offset, struct slimset_error *err);

/* The same with n bytes of fd from `from` on, read in pieces; *data_hash is theirs. first_fn: given the first ones, and may refuse them. */
typedef enum slimset_status tar_first_fn(void *arg, const uint8_t *first, size_t n, struct slimset_error *err);
enum slimset_status tar_append_file(struct tar_writer *t, const char *name, size_t name_bytes, int fd, uint64_t from, uint64_t n,
                                    tar_first_fn *first_fn, void *arg, uint64_t *offset, uint64_t *data_hash, struct slimset_error *err);

/* What a member of n bytes takes; and the end of the archive. */
uint64_t tar_member_bytes(uint64_t n);
enum { TAR_END_BYTES = 1024 };

/* Writes the end and flushes. The descriptor stays open for the caller to sync: *fd is then his. */
enum slimset_status tar_finish(struct tar_writer *t, int *fd, uint64_t *bytes, uint64_t *hash, struct slimset_error *err);
void tar_abort(struct tar_writer *t);

#endif
