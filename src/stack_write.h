/* SPDX-License-Identifier: Apache-2.0
 *
 * One part of layout `npy` (stack.h) out: rows one behind the other, and the header when it is known how many there are.
 */
#ifndef STACK_WRITE_H
#define STACK_WRITE_H

#include "stack.h"

struct stack_writer {
    int fd;              /* owned; -1 closed */
    char name[300];      /* for messages */
    struct npy row;
    uint64_t rows;
    uint64_t bytes;      /* of the file, with what is buffered */
    uint64_t started;    /* bytes whose writing to the disk was begun */
    struct buf buffer;
};

/* Creates dirfd/name. */
enum slimset_status stack_create(struct stack_writer *w, int dirfd, const char *name, const struct npy *row, struct slimset_error *err);

/* The values of one row, row.data_bytes of them; *offset: where they lie in the file. */
enum slimset_status stack_append(struct stack_writer *w, const void *data, uint64_t *offset, struct slimset_error *err);

/* The same from `from` on in fd, in pieces; *hash: of the row. */
enum slimset_status stack_append_file(struct stack_writer *w, int fd, uint64_t from, uint64_t *offset, uint64_t *hash,
                                      struct slimset_error *err);

/* Header and flush; hash: of the whole file. The descriptor stays open for the caller to sync: *fd is then his. */
enum slimset_status stack_finish(struct stack_writer *w, int *fd, uint64_t *bytes, uint64_t *hash, struct slimset_error *err);
void stack_abort(struct stack_writer *w);

#endif
