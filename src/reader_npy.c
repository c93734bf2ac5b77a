/* SPDX-License-Identifier: Apache-2.0
 *
 * The .npy file of an array field, in pieces. Where nothing was changed the bytes are the source's; a type that was narrowed is widened
 * again, and an array that was in Fortran order is put back into it.
 */
#include <stdlib.h>
#include <string.h>

#include "array_convert.h"
#include "array_read.h"
#include "base/hash.h"
#include "base/io.h"
#include "image.h"
#include "reader_impl.h"

enum { PIECE_BYTES = 1 << 20 };

struct npy_job {
    struct slimset_reader *reader;
    struct reader_field field;
    struct array_reader *array;
    struct npy stored, source;
    bool data_only;
    slimset_write_fn *write;
    void *arg;
    struct buf piece, other, head;
};

static enum slimset_status get_stored(void *arg, uint64_t at, void *to, size_t n, struct slimset_error *err)
{
    const struct npy_job *j = arg;
    const struct reader_field *f = &j->field;
    const struct buf *head = &j->reader->row_head;
    uint64_t all = reader_bytes(j->reader, f->f);
    if (at > all || n > all - at)
        return err_set(err, SLIMSET_DAMAGED, "a stored array is cut off");
    if (f->ram != NULL) {
        memcpy(to, f->ram + at, n);
        return SLIMSET_OK;
    }
    if (at < head->len) { /* of a row; it lies in no file */
        size_t first = head->len - at < n ? head->len - (size_t)at : n;
        memcpy(to, head->data + at, first);
        to = (uint8_t *)to + first;
        at += first;
        n -= first;
    }
    size_t got = n;
    if (n == 0)
        return SLIMSET_OK;
    enum slimset_status st = io_pread(f->fd, to, n, f->offset + at - head->len, &got, "a shard", err);
    return st == SLIMSET_OK && got != n ? err_set(err, SLIMSET_DAMAGED, "a stored array is cut off") : st;
}

/* All of it against its hash, before anything is handed out. */
static enum slimset_status check_hash(struct npy_job *j, struct slimset_error *err)
{
    const struct slimset_field *f = j->field.f;
    struct hash_stream h;
    hash_init(&h);
    enum slimset_status st = buf_reserve(&j->piece, PIECE_BYTES, err);
    for (uint64_t at = 0; st == SLIMSET_OK && at < f->bytes; at += PIECE_BYTES) {
        size_t n = f->bytes - at < PIECE_BYTES ? (size_t)(f->bytes - at) : PIECE_BYTES;
        st = get_stored(j, j->reader->row_head.len + at, j->piece.data, n, err);
        if (st == SLIMSET_OK)
            hash_update(&h, j->piece.data, n);
    }
    return st == SLIMSET_OK && hash_value(&h) != f->hash ? err_set(err, SLIMSET_DAMAGED, "does not match its checksum") : st;
}

static enum slimset_status put_header(struct npy_job *j, bool changed, struct slimset_error *err)
{
    const struct buf *head = array_reader_header(j->array);
    enum slimset_status st = SLIMSET_OK;
    if (j->data_only)
        return st;
    if (changed) {
        st = npy_header(&j->source, &j->head, err);
        head = &j->head;
    }
    return st == SLIMSET_OK ? j->write(j->arg, head->data, head->len, err) : st;
}

/* Element by element; the order of the axes stays. */
static enum slimset_status put_pieces(struct npy_job *j, bool widen, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    size_t step = widen ? PIECE_BYTES / (size_t)j->source.itemsize : PIECE_BYTES, size = widen ? (size_t)j->stored.itemsize : 1;
    uint64_t left = widen ? j->stored.count : j->stored.data_bytes;
    for (; st == SLIMSET_OK && left > 0; left -= step) {
        step = left < step ? (size_t)left : step;
        st = array_reader_read(j->array, j->piece.data, step * size, err);
        if (st == SLIMSET_OK && widen)
            array_convert(&j->stored, j->piece.data, &j->source, j->other.data, step, NULL, NULL);
        if (st == SLIMSET_OK)
            st = j->write(j->arg, widen ? j->other.data : j->piece.data, step * (widen ? (size_t)j->source.itemsize : 1), err);
    }
    return st == SLIMSET_OK ? array_reader_end(j->array, err) : st;
}

/* The whole array in memory, widened and turned: packing turns only those that fit well. */
static enum slimset_status put_turned(struct npy_job *j, struct slimset_error *err)
{
    enum slimset_status st = buf_reserve(&j->piece, j->stored.data_bytes, err);
    if (st == SLIMSET_OK)
        st = array_reader_read(j->array, j->piece.data, j->stored.data_bytes, err);
    if (st == SLIMSET_OK)
        st = array_reader_end(j->array, err);
    if (st == SLIMSET_OK)
        st = buf_reserve(&j->other, j->source.data_bytes, err);
    if (st != SLIMSET_OK)
        return st;
    if (j->source.descr != j->stored.descr && j->source.itemsize != j->stored.itemsize) {
        array_convert(&j->stored, j->piece.data, &j->source, j->other.data, j->stored.count, NULL, NULL);
        struct buf swap = j->piece;
        j->piece = j->other;
        j->other = swap;
        st = buf_reserve(&j->other, j->source.data_bytes, err);
    }
    if (st != SLIMSET_OK)
        return st;
    array_reorder(&j->source, false, j->piece.data, j->other.data);
    return j->write(j->arg, j->other.data, j->source.data_bytes, err);
}

enum slimset_status slimset_reader_npy(struct slimset_reader *reader, uint64_t i, uint32_t k, bool data_only, slimset_write_fn *write,
                                       void *arg, struct slimset_error *err)
{
    struct npy_job j = {.reader = reader, .data_only = data_only, .write = write, .arg = arg};
    struct slimset_text text;
    enum slimset_status st = reader_field_open(reader, i, k, &j.field, err);
    if (st != SLIMSET_OK)
        return st;
    const struct slimset_field *f = j.field.f;
    if (f->format != FORMAT_NPY && f->format != FORMAT_NPY_ZST && f->format != FORMAT_NPY_BLOSC) {
        reader_field_fini(&j.field);
        return err_set(err, SLIMSET_BAD_INPUT, "the field holds no array");
    }
    j.array = array_reader_new();
    if (j.array == NULL)
        st = err_nomem(err, PIECE_BYTES);
    if (st == SLIMSET_OK)
        st = reader_text(reader, f->array, &text, err);
    if (st == SLIMSET_OK)
        st = check_hash(&j, err);
    if (st == SLIMSET_OK)
        st = array_reader_begin(j.array, (enum image_format)f->format, get_stored, &j, reader_bytes(reader, f), &j.stored,
                                err);
    if (st == SLIMSET_OK) {
        bool changed = array_source(&j.stored, text.bytes, text.n, f->notes, &j.source);
        bool turned = changed && (f->notes & NOTE_C_ORDER) && j.stored.ndim > 1;
        bool widen = changed && (f->notes & NOTE_NARROWED);
        st = put_header(&j, changed, err);
        if (st == SLIMSET_OK && widen)
            st = buf_reserve(&j.other, PIECE_BYTES, err);
        if (st == SLIMSET_OK)
            st = turned ? put_turned(&j, err) : put_pieces(&j, widen, err);
    }
    if (st == SLIMSET_DAMAGED)
        st = reader_blame(reader, i, k, err);
    array_reader_free(j.array);
    buf_fini(&j.piece);
    buf_fini(&j.other);
    buf_fini(&j.head);
    reader_field_fini(&j.field);
    return st;
}
