/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays into the caller's memory, with the type that they had before packing: one that was narrowed
 * is widened on the way. One that was put into C order stays in it: its values are at the same
 * indices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array_convert.h"
#include "array_read.h"
#include "reader_decode.h"

enum { PIECE_BYTES = 64 << 10 };

static enum slimset_status describe(const struct npy *a, struct slimset_array *array,
                                    struct slimset_error *err)
{
    size_t n = a->descr_bytes;
    bool plain = !a->structured && n >= 2 && n - 2 < sizeof array->dtype && a->descr[0] == '\'';
    if ((!plain && (!a->structured || n >= sizeof array->descr)) || a->ndim > SLIMSET_ARRAY_DIMS_MAX)
        return err_set(err, SLIMSET_USAGE, "an array of dtype %.*s and %u dimensions is read as bytes only",
                       (int)(n < 60 ? n : 60), a->descr, a->ndim);
    *array = (struct slimset_array){.fortran = a->fortran,
                                    .dims = a->ndim,
                                    .item_bytes = a->itemsize,
                                    .bytes = a->data_bytes};
    if (plain) {
        memcpy(array->dtype, a->descr + 1, n - 2);
    } else {
        snprintf(array->dtype, sizeof array->dtype, "|V%llu", (unsigned long long)a->itemsize);
        memcpy(array->descr, a->descr, n);
    }
    memcpy(array->shape, a->shape, a->ndim * sizeof a->shape[0]);
    return SLIMSET_OK;
}

static enum slimset_status put_widened(struct array_reader *r, const struct npy *stored,
                                       const struct npy *source, uint8_t *to,
                                       struct slimset_error *err)
{
    uint64_t piece[PIECE_BYTES / sizeof(uint64_t)];
    size_t step = sizeof piece / stored->itemsize;
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t left = stored->count; st == SLIMSET_OK && left > 0; left -= step) {
        step = left < step ? (size_t)left : step;
        st = array_reader_read(r, piece, step * stored->itemsize, err);
        if (st == SLIMSET_OK)
            array_convert(stored, (const uint8_t *)piece, source, to, step, NULL, NULL);
        to += step * source->itemsize;
    }
    return st;
}

/* What an array is stored as, and what the dataset says of it ("" and 0: nothing). */
struct stored {
    struct array_bytes bytes;
    enum image_format format;
    struct slimset_text text;
    uint32_t notes;
};

static enum slimset_status array_into(struct array_reader *r, struct stored *s,
                                      struct slimset_array *array, void *buf, size_t cap,
                                      struct slimset_error *err)
{
    struct npy stored, source;
    enum slimset_status st =
        array_reader_begin(r, s->format, array_get_bytes, &s->bytes, s->bytes.n, &stored, err);
    if (st != SLIMSET_OK)
        return st;
    bool widen = array_source(&stored, s->text.bytes, s->text.n, s->notes & ~(uint32_t)NOTE_C_ORDER,
                              &source);
    st = describe(&source, array, err);
    if (st != SLIMSET_OK || (buf == NULL && cap == 0))
        return st;
    if (array->bytes > cap)
        return err_set(err, SLIMSET_LIMIT, "the array has %llu bytes, the buffer %zu",
                       (unsigned long long)array->bytes, cap);
    st = widen ? put_widened(r, &stored, &source, buf, err)
               : array_reader_read(r, buf, stored.data_bytes, err);
    return st == SLIMSET_OK ? array_reader_end(r, err) : st;
}

static enum slimset_status array_of_field(struct slimset_reader *r, struct reader_decoder *d,
                                          const struct reader_field *f, struct slimset_array *array,
                                          void *buf, size_t cap, struct slimset_error *err)
{
    struct stored s = {.bytes = {f->ram, reader_bytes(r, f->f)},
                       .format = (enum image_format)f->f->format,
                       .notes = f->f->notes};
    if (s.format != FORMAT_NPY && s.format != FORMAT_NPY_ZST && s.format != FORMAT_NPY_BLOSC)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "holds no array");
    enum slimset_status st = reader_text(r, f->f->array, &s.text, err);
    if (st == SLIMSET_OK && f->ram != NULL) {
        st = reader_check_ram(r, f, err);
    } else if (st == SLIMSET_OK) {
        d->bytes.len = 0;
        st = buf_reserve(&d->bytes, s.bytes.n + 1, err);
        if (st == SLIMSET_OK)
            st = reader_fetch(r, f, d->bytes.data, err);
        s.bytes.p = d->bytes.data;
    }
    if (st != SLIMSET_OK)
        return st;
    if (d->array == NULL && (d->array = array_reader_new()) == NULL)
        return err_nomem(err, 0);
    st = array_into(d->array, &s, array, buf, cap, err);
    return st == SLIMSET_OK || st == SLIMSET_LIMIT || st == SLIMSET_NO_MEMORY
               ? st
               : reader_blame(r, f->i, f->k, err);
}

enum slimset_status slimset_reader_array(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                         struct slimset_array *array, void *buf, size_t cap,
                                         struct slimset_error *err)
{
    struct reader_field f;
    struct reader_decoder *d = reader_decoder_take(reader);
    if (d == NULL)
        return err_nomem(err, sizeof *d);
    enum slimset_status st = reader_field_open(reader, i, k, &f, err);
    if (st == SLIMSET_OK) {
        st = array_of_field(reader, d, &f, array, buf, cap, err);
        if (st == SLIMSET_BAD_INPUT)
            st = reader_blame(reader, i, k, err);
        reader_field_fini(&f);
    }
    reader_decoder_give(reader, d);
    return st;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && memcmp(s + n - m, end, m) == 0;
}

enum slimset_status slimset_array_decode(const void *data, size_t n, const char *name, size_t name_n,
                                         struct slimset_array *array, void *buf, size_t cap,
                                         struct slimset_error *err)
{
    static const uint8_t npy[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'}, zstd[4] = {0x28, 0xb5, 0x2f, 0xfd};
    struct stored s = {.bytes = {data, n}, .format = FORMAT_UNKNOWN, .text = {"", 0}};
    if (n >= sizeof npy && memcmp(data, npy, sizeof npy) == 0)
        s.format = FORMAT_NPY;
    else if (n >= sizeof zstd && memcmp(data, zstd, sizeof zstd) == 0)
        s.format = FORMAT_NPY_ZST;
    else if (ends_with(name, name_n, "blosc"))
        s.format = FORMAT_NPY_BLOSC;
    if (s.format == FORMAT_UNKNOWN)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "%.*s holds no array", (int)(name_n < 100 ? name_n : 100), name);
    struct array_reader *r = array_reader_new();
    if (r == NULL)
        return err_nomem(err, 0);
    enum slimset_status st = array_into(r, &s, array, buf, cap, err);
    array_reader_free(r);
    return st;
}
