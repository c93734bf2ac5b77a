/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"

enum { PIECE_BYTES = 1 << 20, WRITEBACK_BYTES = 16 << 20 };

static const uint8_t nothing[STACK_DATA];

static enum slimset_status flush(struct stack_writer *w, struct slimset_error *err)
{
    enum slimset_status st = io_write(w->fd, w->buffer.data, w->buffer.len, w->name, err);
    w->buffer.len = 0;
    if (st == SLIMSET_OK && w->bytes - w->started >= WRITEBACK_BYTES) { /* so that the sync at the end finds little to do */
        sync_file_range(w->fd, (off_t)w->started, (off_t)(w->bytes - w->started), SYNC_FILE_RANGE_WRITE);
        w->started = w->bytes;
    }
    return st;
}

static enum slimset_status put(struct stack_writer *w, const void *data, size_t n, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (w->buffer.len + n > PIECE_BYTES)
        st = flush(w, err);
    w->bytes += n;
    if (st != SLIMSET_OK || n < PIECE_BYTES)
        return st == SLIMSET_OK ? buf_append(&w->buffer, data, n, err) : st;
    return io_write(w->fd, data, n, w->name, err);
}

enum slimset_status stack_create(struct stack_writer *w, int dirfd, const char *name, const struct npy *row, struct slimset_error *err)
{
    w->row = *row;
    w->bytes = w->started = w->rows = 0;
    w->buffer.len = 0;
    snprintf(w->name, sizeof w->name, "%s", name);
    enum slimset_status st = io_create(dirfd, name, &w->fd, err);
    return st == SLIMSET_OK ? put(w, nothing, STACK_DATA, err) : st; /* the header's place */
}

enum slimset_status stack_append(struct stack_writer *w, const void *data, uint64_t *offset, struct slimset_error *err)
{
    *offset = w->bytes;
    w->rows++;
    return w->row.data_bytes > 0 ? put(w, data, w->row.data_bytes, err) : SLIMSET_OK;
}

enum slimset_status stack_append_file(struct stack_writer *w, int fd, uint64_t from, uint64_t *offset, uint64_t *hash,
                                      struct slimset_error *err)
{
    uint64_t n = w->row.data_bytes;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (piece == NULL)
        return err_nomem(err, PIECE_BYTES);
    struct hash_stream h;
    hash_init(&h);
    *offset = w->bytes;
    w->rows++;
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t at = 0; st == SLIMSET_OK && at < n;) {
        size_t got = 0, want = n - at < PIECE_BYTES ? (size_t)(n - at) : PIECE_BYTES;
        st = io_pread(fd, piece, want, from + at, &got, "a spilled payload", err);
        if (st == SLIMSET_OK && got != want)
            st = err_set(err, SLIMSET_INTERNAL, "a worker's payload is shorter than it says");
        if (st == SLIMSET_OK)
            st = put(w, piece, got, err);
        hash_update(&h, piece, st == SLIMSET_OK ? got : 0);
        at += got;
    }
    *hash = hash_value(&h);
    free(piece);
    return st;
}

/* The header comes first in the file and last in time: what was written is read once more. */
static enum slimset_status hash_file(struct stack_writer *w, uint64_t *hash, struct slimset_error *err)
{
    struct hash_stream h;
    hash_init(&h);
    enum slimset_status st = buf_reserve(&w->buffer, PIECE_BYTES, err);
    for (uint64_t at = 0; st == SLIMSET_OK && at < w->bytes;) {
        size_t got = 0;
        st = io_pread(w->fd, w->buffer.data, PIECE_BYTES, at, &got, w->name, err);
        if (st == SLIMSET_OK && got == 0)
            st = err_set(err, SLIMSET_IO, "%s became shorter while it was written", w->name);
        hash_update(&h, w->buffer.data, st == SLIMSET_OK ? got : 0);
        at += got;
    }
    *hash = hash_value(&h);
    return st;
}

enum slimset_status stack_finish(struct stack_writer *w, int *fd, uint64_t *bytes, uint64_t *hash, struct slimset_error *err)
{
    enum slimset_status st = flush(w, err);
    if (st == SLIMSET_OK)
        st = stack_header(&w->row, w->rows, &w->buffer, err);
    if (st == SLIMSET_OK)
        st = io_pwrite(w->fd, w->buffer.data, STACK_DATA, 0, w->name, err);
    w->buffer.len = 0;
    if (st == SLIMSET_OK)
        st = hash_file(w, hash, err);
    if (st != SLIMSET_OK) {
        stack_abort(w);
        return st;
    }
    sync_file_range(w->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    *bytes = w->bytes;
    *fd = w->fd;
    w->fd = -1;
    return SLIMSET_OK;
}

void stack_abort(struct stack_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}
