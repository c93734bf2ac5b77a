/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

enum { BLOCK = 512, BUFFER_BYTES = 1 << 20, NAME = 100, PREFIX = 155, WRITEBACK_BYTES = 16 << 20 };

static const uint8_t zeros[2 * BLOCK];

uint64_t tar_member_bytes(uint64_t n)
{
    return BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
}

enum slimset_status tar_create(struct tar_writer *t, int dirfd, const char *name, struct slimset_error *err)
{
    t->bytes = t->started = 0;
    t->buffer.len = 0;
    hash_init(&t->hash);
    snprintf(t->name, sizeof t->name, "%s", name);
    return io_create(dirfd, name, &t->fd, err);
}

static enum slimset_status flush(struct tar_writer *t, struct slimset_error *err)
{
    enum slimset_status st = io_write(t->fd, t->buffer.data, t->buffer.len, t->name, err);
    t->buffer.len = 0;
    if (st == SLIMSET_OK && t->bytes - t->started >= WRITEBACK_BYTES) { /* so that the sync at the end finds little to do */
        sync_file_range(t->fd, (off_t)t->started, (off_t)(t->bytes - t->started), SYNC_FILE_RANGE_WRITE);
        t->started = t->bytes;
    }
    return st;
}

static enum slimset_status put(struct tar_writer *t, const void *data, size_t n, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (n == 0)
        return st;
    hash_update(&t->hash, data, n);
    t->bytes += n;
    if (n >= BUFFER_BYTES) { /* large data go past the buffer */
        st = flush(t, err);
        return st == SLIMSET_OK ? io_write(t->fd, data, n, t->name, err) : st;
    }
    st = buf_append(&t->buffer, data, n, err);
    if (st == SLIMSET_OK && t->buffer.len >= BUFFER_BYTES)
        st = flush(t, err);
    return st;
}

/* Where to cut a long name: the prefix takes the folders, the name field the rest. 0: does not fit. */
static size_t cut(const char *name, size_t n)
{
    for (size_t i = n > NAME ? n - NAME - 1 : 0; i < n && i <= PREFIX; i++)
        if (name[i] == '/' && i > 0)
            return i;
    return 0;
}

static bool header(uint8_t h[BLOCK], const char *name, size_t n, uint64_t bytes)
{
    memset(h, 0, BLOCK);
    if (n <= NAME) {
        memcpy(h, name, n);
    } else {
        size_t at = cut(name, n);
        if (at == 0)
            return false;
        memcpy(h + 345, name, at);
        memcpy(h, name + at + 1, n - at - 1);
    }
    memcpy(h + 100, "0000644", 8);
    memcpy(h + 108, "0000000", 8);
    memcpy(h + 116, "0000000", 8);
    if (bytes < (uint64_t)1 << 33) {
        char size[16];
        snprintf(size, sizeof size, "%011llo", (unsigned long long)bytes);
        memcpy(h + 124, size, 12);
    } else { /* base-256, as GNU and star write what octal cannot say */
        h[124] = 0x80;
        for (int i = 0; i < 8; i++)
            h[135 - i] = (uint8_t)(bytes >> (8 * i));
    }
    memcpy(h + 136, "00000000000", 12);
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    memcpy(h + 329, "0000000", 8);
    memcpy(h + 337, "0000000", 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += h[i];
    char text[16];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(h + 148, text, 7);
    return true;
}

enum slimset_status tar_append(struct tar_writer *t, const char *name, size_t name_bytes, const void *data, uint64_t n,
                               uint64_t *offset, struct slimset_error *err)
{
    uint8_t h[BLOCK];
    if (name_bytes == 0 || !header(h, name, name_bytes, n))
        return err_set(err, SLIMSET_INTERNAL, "a member name of %zu bytes does not fit a tar header", name_bytes);
    enum slimset_status st = put(t, h, BLOCK, err);
    *offset = t->bytes;
    if (st == SLIMSET_OK)
        st = put(t, data, n, err);
    if (st == SLIMSET_OK)
        st = put(t, zeros, (size_t)(tar_member_bytes(n) - BLOCK - n), err);
    return st;
}

enum slimset_status tar_append_file(struct tar_writer *t, const char *name, size_t name_bytes, int fd, uint64_t from, uint64_t n,
                                    tar_first_fn *first_fn, void *arg, uint64_t *offset, uint64_t *data_hash, struct slimset_error *err)
{
    uint8_t h[BLOCK];
    if (name_bytes == 0 || !header(h, name, name_bytes, n))
        return err_set(err, SLIMSET_INTERNAL, "a member name of %zu bytes does not fit a tar header", name_bytes);
    uint8_t *piece = malloc(BUFFER_BYTES);
    if (piece == NULL)
        return err_nomem(err, BUFFER_BYTES);
    struct hash_stream hash;
    hash_init(&hash);
    enum slimset_status st = put(t, h, BLOCK, err);
    *offset = t->bytes;
    for (uint64_t at = 0; st == SLIMSET_OK && at < n;) {
        size_t got = 0, want = n - at < BUFFER_BYTES ? (size_t)(n - at) : BUFFER_BYTES;
        st = io_pread(fd, piece, want, from + at, &got, "a spilled payload", err);
        if (st == SLIMSET_OK && got != want)
            st = err_set(err, SLIMSET_INTERNAL, "a worker's payload is shorter than it says");
        if (st == SLIMSET_OK && at == 0)
            st = first_fn(arg, piece, got, err);
        if (st == SLIMSET_OK)
            st = put(t, piece, got, err);
        hash_update(&hash, piece, st == SLIMSET_OK ? got : 0);
        at += got;
    }
    free(piece);
    *data_hash = hash_value(&hash);
    if (st == SLIMSET_OK)
        st = put(t, zeros, (size_t)(tar_member_bytes(n) - BLOCK - n), err);
    return st;
}

enum slimset_status tar_finish(struct tar_writer *t, int *fd, uint64_t *bytes, uint64_t *hash, struct slimset_error *err)
{
    enum slimset_status st = put(t, zeros, TAR_END_BYTES, err);
    if (st == SLIMSET_OK)
        st = flush(t, err);
    if (st != SLIMSET_OK) {
        tar_abort(t);
        return st;
    }
    sync_file_range(t->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    *bytes = t->bytes;
    *hash = hash_value(&t->hash);
    *fd = t->fd;
    t->fd = -1;
    return SLIMSET_OK;
}

void tar_abort(struct tar_writer *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}
