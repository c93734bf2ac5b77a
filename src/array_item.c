/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive.h"
#include "array_impl.h"
#include "array_read.h"
#include "base/io.h"
#include "sniff.h"

struct array_item *array_item_new(const struct slimset_recipe *recipe)
{
    struct array_item *x = calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    x->recipe = recipe;
    x->writer = array_writer_new();
    x->stream = input_stream_new();
    if (x->writer == NULL || x->stream == NULL) {
        array_item_free(x);
        return NULL;
    }
    return x;
}

static void forget_members(struct array_item *x)
{
    for (size_t i = 0; i < x->n_members; i++)
        free(x->member[i].name);
    free(x->member);
    x->member = NULL;
    x->n_members = 0;
}

void array_item_free(struct array_item *x)
{
    if (x == NULL)
        return;
    forget_members(x);
    array_writer_free(x->writer);
    input_stream_free(x->stream);
    buf_fini(&x->head);
    buf_fini(&x->fresh);
    buf_fini(&x->data);
    buf_fini(&x->other);
    buf_fini(&x->trial);
    free(x);
}

/* --- .npz ------------------------------------------------------------------------------------------------------------- */

static enum slimset_status take_member(void *arg, const struct archive_member *m, struct slimset_error *err)
{
    struct array_item *x = arg;
    int shown = m->name_bytes < 100 ? (int)m->name_bytes : 100;
    if (m->problem != SLIMSET_REJECT_NONE)
        return err_bad(err, m->problem, "member %.*s cannot be read", shown, m->name);
    if (m->name_bytes < 4 || memcmp(m->name + m->name_bytes - 4, ".npy", 4) != 0)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "member %.*s is no array", shown, m->name);
    struct member *grown = realloc(x->member, (x->n_members + 1) * sizeof *grown);
    if (grown == NULL)
        return err_nomem(err, (x->n_members + 1) * sizeof *grown);
    x->member = grown;
    struct member *to = &grown[x->n_members];
    *to = (struct member){.name = strndup(m->name, m->name_bytes), .name_bytes = m->name_bytes};
    if (to->name == NULL)
        return err_nomem(err, m->name_bytes);
    to->in = (struct item_input){.offset = m->offset, .packed_bytes = m->packed_bytes, .bytes = m->bytes, .crc32 = m->crc32,
                                 .has_crc = m->has_crc, .deflated = (uint8_t)m->method, .zip_local = m->zip_local};
    x->n_members++;
    return SLIMSET_OK;
}

/* Puts "member NAME: " in front of a fault. */
static enum slimset_status blame_member(const struct member *m, enum slimset_status st, struct slimset_error *err)
{
    struct slimset_error why = *err;
    char name[100];
    size_t n = 0;
    for (; n < m->name_bytes && n < sizeof name - 1; n++)
        name[n] = (unsigned char)m->name[n] < 0x20 || m->name[n] == 0x7f ? '?' : m->name[n];
    name[n] = '\0';
    snprintf(err->text, sizeof err->text, "member %.90s: %.400s", name, why.text);
    return st;
}

/* The whole .npz is read once: its hash, and its checksum where it lies in an archive. Then its bytes lie in *fd from *at on. */
static enum slimset_status settle_container(struct array_item *x, const struct item_input *in, struct item_out *out, int *fd,
                                            uint64_t *at, uint64_t *hash, struct slimset_error *err)
{
    bool unpack = in->deflated != ARCHIVE_PLAIN;
    enum slimset_status st = input_stream_begin(x->stream, in, *fd, err);
    if (st == SLIMSET_OK && unpack && out->spill_fd < 0)
        st = err_set(err, SLIMSET_INTERNAL, "no room was given to unpack an .npz");
    *at = in->offset;
    if (st == SLIMSET_OK && in->zip_local && !unpack) {
        struct archive_member m = {.offset = in->offset, .zip_local = true, .packed_bytes = in->packed_bytes};
        st = archive_data_offset(*fd, &m, at, err);
    }
    if (unpack)
        *at = out->spill_at;
    for (uint64_t left = input_stream_bytes(x->stream); st == SLIMSET_OK && left > 0; left -= x->data.len) {
        x->data.len = 0;
        st = array_stream_into(x->stream, &x->data, left < ARRAY_PIECE_BYTES ? (size_t)left : ARRAY_PIECE_BYTES, err);
        if (st == SLIMSET_OK && unpack)
            st = io_pwrite(out->spill_fd, x->data.data, x->data.len, out->spill_at, "an unpacked .npz", err);
        out->spill_at += unpack ? x->data.len : 0;
    }
    if (st == SLIMSET_OK)
        st = input_stream_end(x->stream, hash, err);
    if (unpack)
        *fd = out->spill_fd;
    return st;
}

static struct array_codec choice_of(const struct item_input *in, const struct member *m)
{
    char clean[ARRAY_NAME_MAX + 1];
    array_name_clean(m->name, m->name_bytes, clean);
    uint32_t hash = array_name_hash(clean);
    for (unsigned i = 0; i < in->n_choices && i < ITEM_CHOICES_MAX; i++)
        if (in->choice[i].name_hash == hash)
            return in->choice[i].codec;
    return in->array;
}

static enum slimset_status all_members(struct array_item *x, enum item_op op, const struct item_input *in, uint32_t number, int fd,
                                       struct item_out *out, struct slimset_error *err)
{
    uint64_t bytes = in->deflated != ARCHIVE_PLAIN ? in->bytes : in->packed_bytes, at, hash;
    struct archive_limits limits = archive_limits_default;
    struct archive_result result;
    forget_members(x);
    limits.max_members = ITEM_FIELDS_MAX;
    enum slimset_status st = settle_container(x, in, out, &fd, &at, &hash, err);
    if (st == SLIMSET_OK)
        st = archive_list(fd, at, bytes, FORMAT_ZIP, 0, -1, &limits, take_member, x, &result, err);
    if (st == SLIMSET_OK && result.damaged)
        st = err_bad(err, SLIMSET_REJECT_CORRUPT, "%s", result.damage);
    if (st == SLIMSET_OK && x->n_members == 0)
        st = err_bad(err, SLIMSET_REJECT_ARRAY, "an .npz without arrays");
    for (size_t i = 0; st == SLIMSET_OK && i < x->n_members; i++) {
        struct item_field f = {.input = number, .in_format = FORMAT_NPZ, .frames = 1};
        struct job j = {.x = x, .op = op, .in = &x->member[i].in, .fd = fd, .name = x->member[i].name,
                        .name_bytes = x->member[i].name_bytes - 4, .codec = choice_of(in, &x->member[i]), .f = &f, .out = out,
                        .labels = in->role != SLIMSET_ROLE_ARRAY};
        st = array_job_run(&j, err);
        if (st != SLIMSET_OK)
            return blame_member(&x->member[i], st, err);
        struct item_field *kept = (struct item_field *)(void *)(out->fields->data + out->fields->len) - 1;
        kept->in_hash = hash;
        if (op != ITEM_PROBE)
            kept->in_bytes = bytes;
    }
    return st;
}

/* --- one input ---------------------------------------------------------------------------------------------------------- */

enum slimset_status array_item_copy(struct array_item *x, enum item_op op, const struct item_input *in, uint32_t number, int fd,
                                    struct item_out *out, struct slimset_error *err)
{
    struct item_field f = {.input = number, .frames = 1};
    struct array_sink sink = array_sink_of(out);
    struct array_codec keep = {.codec = SLIMSET_CODEC_KEEP};
    enum slimset_status st = input_stream_begin(x->stream, in, fd, err);
    f.in_bytes = input_stream_bytes(x->stream);
    if (st == SLIMSET_OK && op == ITEM_CONVERT)
        st = array_writer_begin(x->writer, keep, f.in_bytes, 1, "", &sink, err);
    for (uint64_t left = f.in_bytes; st == SLIMSET_OK && left > 0; left -= x->data.len) {
        x->data.len = 0;
        st = array_stream_into(x->stream, &x->data, left < ARRAY_PIECE_BYTES ? (size_t)left : ARRAY_PIECE_BYTES, err);
        if (st == SLIMSET_OK && left == f.in_bytes)
            f.format = f.in_format = (uint8_t)sniff(x->data.data, x->data.len);
        if (st == SLIMSET_OK && op == ITEM_CONVERT)
            st = array_writer_put(x->writer, x->data.data, x->data.len, err);
    }
    uint64_t bytes = 0;
    if (st == SLIMSET_OK)
        st = input_stream_end(x->stream, &f.in_hash, err);
    if (st == SLIMSET_OK && op == ITEM_CONVERT)
        st = array_writer_end(x->writer, &bytes, err);
    if (st == SLIMSET_OK && op == ITEM_CONVERT)
        array_payload_done(out, &f, bytes);
    if (op == ITEM_PROBE)
        f.probe_bytes = f.in_bytes;
    return st == SLIMSET_OK ? buf_append(out->fields, &f, sizeof f, err) : st;
}

/* What the input is by its first bytes. */
static enum slimset_status look(struct array_item *x, const struct item_input *in, int fd, enum image_format *format,
                                struct slimset_error *err)
{
    enum slimset_status st = input_stream_begin(x->stream, in, fd, err);
    uint64_t bytes = st == SLIMSET_OK ? input_stream_bytes(x->stream) : 0;
    if (st == SLIMSET_OK && bytes == 0)
        st = err_bad(err, SLIMSET_REJECT_EMPTY, "zero bytes");
    x->data.len = 0;
    if (st == SLIMSET_OK)
        st = array_stream_into(x->stream, &x->data, bytes < SNIFF_BYTES ? (size_t)bytes : SNIFF_BYTES, err);
    if (st == SLIMSET_OK)
        *format = sniff(x->data.data, x->data.len);
    return st;
}

bool array_item_is(struct array_item *x, const struct item_input *in, int fd)
{
    struct slimset_error ignored;
    enum image_format format;
    if (in->role == SLIMSET_ROLE_ARRAY)
        return true;
    return (in->role == SLIMSET_ROLE_MASK || in->role == SLIMSET_ROLE_DEPTH) && look(x, in, fd, &format, &ignored) == SLIMSET_OK &&
           (format == FORMAT_NPY || format == FORMAT_ZIP);
}

enum slimset_status array_item_convert(struct array_item *x, enum item_op op, const struct item_input *in, uint32_t number, int fd,
                                       struct item_out *out, struct slimset_error *err)
{
    enum image_format format = FORMAT_UNKNOWN;
    if (op == ITEM_HASH)
        return array_item_copy(x, op, in, number, fd, out, err);
    enum slimset_status st = look(x, in, fd, &format, err);
    if (st != SLIMSET_OK)
        return st;
    bool npz = format == FORMAT_ZIP || format == FORMAT_NPZ;
    if (npz && in->array.codec == SLIMSET_CODEC_KEEP && op == ITEM_CONVERT) {
        st = array_item_copy(x, op, in, number, fd, out, err);
        if (st == SLIMSET_OK)
            ((struct item_field *)(void *)(out->fields->data + out->fields->len) - 1)->format = FORMAT_NPZ;
        return st;
    }
    if (npz)
        return all_members(x, op, in, number, fd, out, err);
    struct item_input raw = *in;
    raw.raw = format != FORMAT_NPY && x->recipe->raw[0] != '\0';
    if (format != FORMAT_NPY && !raw.raw) {
        st = format == FORMAT_UNKNOWN || format == FORMAT_TEXT ? SLIMSET_OK : sniff_refuse(format, x->data.len, err);
        return st != SLIMSET_OK ? st : err_bad(err, SLIMSET_REJECT_ARRAY, "no array: .npy and .npz begin otherwise (--raw says what values "
                                               "without a header are)");
    }
    struct item_field f = {.input = number, .in_format = (uint8_t)(raw.raw ? FORMAT_UNKNOWN : FORMAT_NPY), .frames = 1};
    struct job j = {.x = x, .op = op, .in = &raw, .fd = fd, .name = "", .codec = in->array, .f = &f, .out = out,
                    .labels = in->role != SLIMSET_ROLE_ARRAY};
    return array_job_run(&j, err);
}

/* --- what was stored ------------------------------------------------------------------------------------------------------ */

struct stored {
    int fd;
    uint64_t offset, bytes;
};

static enum slimset_status get_stored(void *arg, uint64_t at, void *to, size_t n, struct slimset_error *err)
{
    const struct stored *s = arg;
    size_t got = 0;
    if (at > s->bytes || n > s->bytes - at)
        return err_set(err, SLIMSET_DAMAGED, "a stored array is cut off");
    enum slimset_status st = n > 0 ? io_pread(s->fd, to, n, s->offset + at, &got, "a shard", err) : SLIMSET_OK;
    return st == SLIMSET_OK && got != n ? err_set(err, SLIMSET_DAMAGED, "a stored array is cut off") : st;
}

enum slimset_status array_item_check(struct array_item *x, const struct item_input *in, uint32_t number, int fd, struct item_out *out,
                                     struct slimset_error *err)
{
    struct stored from = {fd, in->offset, in->packed_bytes};
    struct item_field f = {.input = number, .frames = 1, .in_bytes = in->packed_bytes};
    struct npy a;
    struct array_reader *r = array_reader_new();
    f.format = f.in_format = (uint8_t)array_codec_format(in->array.codec);
    enum slimset_status st = r != NULL ? buf_reserve(&x->data, ARRAY_PIECE_BYTES, err) : err_nomem(err, ARRAY_PIECE_BYTES);
    if (st == SLIMSET_OK)
        st = array_reader_begin(r, (enum image_format)f.format, get_stored, &from, from.bytes, &a, err);
    for (uint64_t left = st == SLIMSET_OK ? a.data_bytes : 0; st == SLIMSET_OK && left > 0;) {
        size_t n = left < ARRAY_PIECE_BYTES ? (size_t)left : ARRAY_PIECE_BYTES;
        st = array_reader_read(r, x->data.data, n, err);
        left -= n;
    }
    if (st == SLIMSET_OK)
        st = array_reader_end(r, err);
    if (st == SLIMSET_OK)
        st = npy_text(&a, out->text, err);
    f.array_bytes = (uint32_t)out->text->len;
    array_reader_free(r);
    if (st == SLIMSET_DAMAGED || st == SLIMSET_USAGE) {
        err->status = st = SLIMSET_BAD_INPUT;
        err->reject = SLIMSET_REJECT_ARRAY;
    }
    return st == SLIMSET_OK ? buf_append(out->fields, &f, sizeof f, err) : st;
}
