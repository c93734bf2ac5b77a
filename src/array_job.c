/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "array_convert.h"
#include "array_impl.h"
#include "array_resize.h"
#include "geometry.h"
#include "input.h"

enum {
    WHOLE_BYTES = 64 << 20, /* arrays up to here are held in memory, and turned from Fortran order */
    TRIAL_BYTES = 4 << 20,  /* of an array that the probe tries filters on */
    KEEP_BYTES = 64 << 20
};

/* --- header ----------------------------------------------------------------------------------------------------- */

enum slimset_status array_stream_into(struct input_stream *s, struct buf *to, size_t n, struct slimset_error *err)
{
    enum slimset_status st = buf_reserve(to, n, err);
    if (st == SLIMSET_OK)
        st = input_stream_read(s, to->data + to->len, n, err);
    if (st == SLIMSET_OK)
        to->len += n;
    return st;
}

/* Of a file without a header, as --raw describes it: its bytes from --raw-offset on. */
static enum slimset_status raw_header(struct job *j, struct slimset_error *err)
{
    const struct slimset_recipe *r = j->x->recipe;
    uint64_t bytes = input_stream_bytes(j->x->stream), left = bytes > r->raw_offset ? bytes - r->raw_offset : 0;
    enum slimset_status st = npy_parse_raw(r->raw, left, &j->source, err);
    if (st != SLIMSET_OK)
        return st;
    if (bytes < r->raw_offset || j->source.data_bytes != left)
        return err_bad(err, left < j->source.data_bytes ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_ARRAY,
                       "%llu bytes from byte %llu on, but --raw %s has %llu", (unsigned long long)left,
                       (unsigned long long)r->raw_offset, r->raw, (unsigned long long)j->source.data_bytes);
    for (uint64_t at = 0; st == SLIMSET_OK && at < r->raw_offset; at += ARRAY_PIECE_BYTES) {
        j->x->data.len = 0;
        st = array_stream_into(j->x->stream, &j->x->data, r->raw_offset - at < ARRAY_PIECE_BYTES ? (size_t)(r->raw_offset - at) : ARRAY_PIECE_BYTES, err);
    }
    return st;
}

/* Begins at the first byte and reads up to the data: the source's shape is known then, and its size has agreed with it. */
static enum slimset_status begin(struct job *j, struct slimset_error *err)
{
    struct array_item *x = j->x;
    enum slimset_status st = input_stream_begin(x->stream, j->in, j->fd, err);
    if (st != SLIMSET_OK)
        return st;
    if (j->in->raw)
        return raw_header(j, err);
    uint64_t bytes = input_stream_bytes(x->stream), head;
    x->head.len = 0;
    if (bytes == 0)
        return err_bad(err, SLIMSET_REJECT_EMPTY, "zero bytes");
    st = array_stream_into(x->stream, &x->head, bytes < NPY_PREFIX ? (size_t)bytes : NPY_PREFIX, err);
    head = npy_announced(x->head.data, x->head.len);
    if (st == SLIMSET_OK && head > NPY_PREFIX && head <= NPY_HEADER_MAX && head <= bytes)
        st = array_stream_into(x->stream, &x->head, (size_t)head - NPY_PREFIX, err);
    return st == SLIMSET_OK ? npy_parse(x->head.data, x->head.len, bytes, &j->source, err) : st;
}

/* --- what becomes of the values ----------------------------------------------------------------------------------- */

static bool changed(const struct npy *a, const struct npy *b)
{
    return a->descr != b->descr || a->fortran != b->fortran || memcmp(a->shape, b->shape, sizeof a->shape) != 0;
}

/* The type that --cast gives an array; false where it does not apply: other kinds of values, labels, types that are as small already. */
static bool cast_type(const struct job *j, const struct npy *from, struct npy *to)
{
    const struct slimset_recipe *r = j->x->recipe;
    if (r->cast == SLIMSET_CAST_NONE || j->labels || !npy_is_number(from) || from->kind == 'b')
        return false;
    *to = *from;
    if (r->cast == SLIMSET_CAST_UINT8) {
        npy_set_type(to, 'u', 1);
        return from->itemsize > 1;
    }
    npy_set_type(to, 'f', r->cast == SLIMSET_CAST_FLOAT16 ? 2 : 4);
    return from->kind == 'f' && from->itemsize > to->itemsize;
}

static enum slimset_status check_loss(const struct job *j, const struct array_loss *loss, struct slimset_error *err)
{
    struct item_field *f = j->f;
    uint64_t lost = loss->inf + loss->zero + loss->nan + loss->clipped;
    f->cast_inf = loss->inf;
    f->cast_zero = loss->zero;
    f->cast_nan = loss->nan;
    f->cast_clipped = loss->clipped;
    f->classes_lost = lost < UINT32_MAX ? (uint32_t)lost : UINT32_MAX;
    f->notes |= NOTE_CAST;
    if ((double)lost <= j->x->recipe->max_cast_loss * (double)j->source.count)
        return SLIMSET_OK;
    return err_bad(err, SLIMSET_REJECT_CAST_LOSS, "--cast would lose %llu of %llu values (%llu would be infinite, %llu zero, %llu were NaN, "
                   "%llu lie outside of the range), more than --max-cast-loss %g allows", (unsigned long long)lost,
                   (unsigned long long)j->source.count, (unsigned long long)loss->inf, (unsigned long long)loss->zero,
                   (unsigned long long)loss->nan, (unsigned long long)loss->clipped, j->x->recipe->max_cast_loss);
}

static struct array_scale scale_of(const struct slimset_recipe *r)
{
    return (struct array_scale){r->cast_lo, r->cast_hi};
}

/* Makes room in other for a converted array and makes it the data. */
static enum slimset_status convert_whole(struct job *j, const struct npy *to, bool scaled, struct array_loss *loss,
                                         struct slimset_error *err)
{
    struct array_item *x = j->x;
    struct array_scale scale = scale_of(x->recipe);
    x->other.len = 0;
    enum slimset_status st = buf_reserve(&x->other, to->data_bytes, err);
    if (st != SLIMSET_OK)
        return st;
    array_convert(&j->stored, x->data.data, to, x->other.data, j->stored.count, scaled ? &scale : NULL, loss);
    x->other.len = to->data_bytes;
    struct buf swap = x->data;
    x->data = x->other;
    x->other = swap;
    j->stored = *to;
    return SLIMSET_OK;
}

/* Only where the user said which axes are height and width. */
static bool resizes(const struct job *j, struct geometry *g)
{
    const struct slimset_recipe *r = j->x->recipe;
    uint32_t w, h;
    if (r->resize == SLIMSET_RESIZE_NONE || !array_size(&j->source, r->array_layout, &w, &h))
        return false;
    *g = geometry_of(r, w, h);
    return g->resized;
}

/* Values that are labels more often than measures are never mixed. */
static bool by_nearest(const struct job *j)
{
    const struct npy *a = &j->source;
    return j->labels || a->kind == 'b' || ((a->kind == 'i' || a->kind == 'u') && a->itemsize > 2);
}

static bool turns(const struct job *j)
{
    struct geometry g;
    if (!j->source.fortran || j->source.ndim < 2 || j->codec.codec == SLIMSET_CODEC_KEEP)
        return false;
    return resizes(j, &g) || (!j->x->recipe->keep_order && j->source.data_bytes <= WHOLE_BYTES);
}

static enum slimset_status resize_whole(struct job *j, const struct geometry *g, struct slimset_error *err)
{
    struct array_item *x = j->x;
    enum slimset_array_layout axes = x->recipe->array_layout;
    bool nearest = by_nearest(j);
    struct npy to = array_resized(&j->stored, axes, g);
    if (!nearest && !npy_is_number(&j->stored))
        return err_bad(err, SLIMSET_REJECT_ARRAY, "values of this dtype cannot be mixed: --mask GLOB resizes by nearest neighbour");
    x->other.len = 0;
    enum slimset_status st = buf_reserve(&x->other, to.data_bytes, err);
    if (st == SLIMSET_OK)
        st = array_resize(&j->stored, axes, g, nearest, x->data.data, x->other.data, err);
    if (st != SLIMSET_OK)
        return st;
    x->other.len = to.data_bytes;
    struct buf swap = x->data;
    x->data = x->other;
    x->other = swap;
    array_size(&j->stored, axes, &j->f->in_w, &j->f->in_h);
    j->f->w = g->w;
    j->f->h = g->h;
    j->f->notes |= NOTE_RESIZED | (nearest ? NOTE_NEAREST : 0);
    j->stored = to;
    return SLIMSET_OK;
}

/* All values are in memory: order, cast, narrowing. */
static enum slimset_status change_whole(struct job *j, struct slimset_error *err)
{
    struct array_item *x = j->x;
    struct npy to;
    enum slimset_status st = SLIMSET_OK;
    if (j->codec.codec == SLIMSET_CODEC_KEEP)
        return st;
    if (turns(j)) {
        x->other.len = 0;
        st = buf_reserve(&x->other, x->data.len, err);
        if (st != SLIMSET_OK)
            return st;
        array_reorder(&j->stored, true, x->data.data, x->other.data);
        x->other.len = x->data.len;
        struct buf swap = x->data;
        x->data = x->other;
        x->other = swap;
        j->stored.fortran = false;
        j->f->notes |= NOTE_C_ORDER;
    }
    struct geometry g;
    if (resizes(j, &g))
        st = resize_whole(j, &g, err);
    if (st != SLIMSET_OK)
        return st;
    if (cast_type(j, &j->stored, &to)) {
        struct array_loss loss = {0};
        st = convert_whole(j, &to, x->recipe->cast == SLIMSET_CAST_UINT8, &loss, err);
        if (st == SLIMSET_OK)
            st = check_loss(j, &loss, err);
    } else if (x->recipe->narrow && npy_is_number(&j->stored)) {
        struct array_range range = {0};
        array_range_add(&range, &j->stored, x->data.data, j->stored.count);
        if (array_range_narrow(&range, &j->stored, &to)) {
            st = convert_whole(j, &to, false, NULL, err);
            j->f->notes |= NOTE_NARROWED;
        }
    }
    return st;
}

/* --- out ----------------------------------------------------------------------------------------------------------- */

struct array_sink array_sink_of(struct item_out *out)
{
    return out->spill_fd >= 0 ? (struct array_sink){.fd = out->spill_fd, .at = out->spill_at, .max = out->spill_max}
                              : (struct array_sink){.buf = out->blob, .fd = -1};
}

void array_payload_done(struct item_out *out, struct item_field *f, uint64_t bytes)
{
    f->payload_bytes = bytes;
    f->spilled = out->spill_fd >= 0;
    f->spill_at = f->spilled ? out->spill_at : 0;
    out->spill_at += f->spilled ? bytes : 0;
}

/* The header of what is stored: the source's own bytes where nothing changes. */
static enum slimset_status stored_header(struct job *j, const struct buf **head, struct slimset_error *err)
{
    struct array_item *x = j->x;
    *head = &x->head;
    if (!j->in->raw && !changed(&j->source, &j->stored))
        return SLIMSET_OK;
    x->fresh.len = 0;
    *head = &x->fresh;
    return npy_header(&j->stored, &x->fresh, err);
}

static enum slimset_status open_writer(struct job *j, struct slimset_error *err)
{
    char name[ARRAY_NAME_MAX + 5];
    const struct buf *head;
    enum slimset_status st = stored_header(j, &head, err);
    if (st != SLIMSET_OK)
        return st;
    uint64_t bytes = head->len + j->stored.data_bytes;
    struct array_codec codec = array_writer_codec(j->codec, bytes);
    struct array_sink sink = array_sink_of(j->out);
    if (j->name_bytes > 0)
        array_name_clean(j->name, j->name_bytes, name);
    snprintf(name + (j->name_bytes > 0 ? strlen(name) : 0), 12, "%s", j->name_bytes > 0 ? ".npy" : "arr_0.npy");
    j->f->format = (uint8_t)(codec.codec == SLIMSET_CODEC_KEEP ? FORMAT_NPY : array_codec_format(codec.codec));
    if (codec.codec == SLIMSET_CODEC_KEEP)
        j->f->notes |= NOTE_COPIED;
    st = array_writer_begin(j->x->writer, codec, bytes, j->stored.itemsize, name, &sink, err);
    return st == SLIMSET_OK ? array_writer_put(j->x->writer, head->data, head->len, err) : st;
}

static enum slimset_status close_writer(struct job *j, struct slimset_error *err)
{
    uint64_t bytes = 0;
    enum slimset_status st = array_writer_end(j->x->writer, &bytes, err);
    if (st == SLIMSET_OK)
        array_payload_done(j->out, j->f, bytes);
    return st;
}

/* Sizes of the array's beginning through every filter. */
static enum slimset_status try_filters(struct job *j, struct slimset_error *err)
{
    struct array_item *x = j->x;
    const struct buf *head;
    enum slimset_status st = stored_header(j, &head, err);
    size_t n = x->data.len < TRIAL_BYTES ? x->data.len : TRIAL_BYTES;
    for (uint8_t filter = ARRAY_PLAIN; st == SLIMSET_OK && filter <= ARRAY_BITSHUFFLE; filter++) {
        struct array_codec c = {.codec = filter == ARRAY_PLAIN ? SLIMSET_CODEC_NPY_ZST : SLIMSET_CODEC_NPY_BLOSC, .filter = filter,
                                .level = j->codec.level};
        struct array_sink sink = {.buf = &x->trial, .fd = -1};
        if (!array_codec_usable(c.codec) || (filter == ARRAY_SHUFFLE && j->stored.itemsize == 1))
            continue;
        x->trial.len = 0;
        st = array_writer_begin(x->writer, c, head->len + n, j->stored.itemsize, "", &sink, err);
        if (st == SLIMSET_OK)
            st = array_writer_put(x->writer, head->data, head->len, err);
        if (st == SLIMSET_OK)
            st = array_writer_put(x->writer, x->data.data, n, err);
        if (st == SLIMSET_OK)
            st = array_writer_end(x->writer, &j->f->trial[filter], err);
    }
    j->f->in_bytes = j->source.header_bytes + j->source.data_bytes; /* the probe relates the trial to all of it */
    j->f->probe_bytes = head->len + n;
    return st;
}

/* --- one array ----------------------------------------------------------------------------------------------------- */

static enum slimset_status small_array(struct job *j, struct slimset_error *err)
{
    struct array_item *x = j->x;
    x->data.len = 0;
    enum slimset_status st = array_stream_into(x->stream, &x->data, j->source.data_bytes, err);
    if (st == SLIMSET_OK)
        st = input_stream_end(x->stream, &j->f->in_hash, err);
    if (st == SLIMSET_OK)
        st = change_whole(j, err);
    if (st != SLIMSET_OK)
        return st;
    if (j->op == ITEM_PROBE)
        return try_filters(j, err);
    st = open_writer(j, err);
    if (st == SLIMSET_OK)
        st = array_writer_put(x->writer, x->data.data, x->data.len, err);
    return st == SLIMSET_OK ? close_writer(j, err) : st;
}

/* Elements that fit a piece: 1 at least. */
static size_t piece_of(const struct npy *a)
{
    return a->itemsize == 0 || a->itemsize > ARRAY_PIECE_BYTES ? 1 : ARRAY_PIECE_BYTES / a->itemsize;
}

/* The whole array once, to find the smallest type; the stream begins anew then. */
static enum slimset_status scan_large(struct job *j, struct slimset_error *err)
{
    struct array_item *x = j->x;
    struct array_range range = {0};
    struct npy to;
    enum slimset_status st = SLIMSET_OK;
    size_t step = piece_of(&j->source);
    for (uint64_t left = j->source.count; st == SLIMSET_OK && left > 0; left -= step) {
        step = left < step ? (size_t)left : step;
        x->data.len = 0;
        st = array_stream_into(x->stream, &x->data, step * j->source.itemsize, err);
        if (st == SLIMSET_OK)
            array_range_add(&range, &j->source, x->data.data, step);
    }
    if (st == SLIMSET_OK && array_range_narrow(&range, &j->stored, &to)) {
        j->stored = to;
        j->f->notes |= NOTE_NARROWED;
    }
    if (st != SLIMSET_OK)
        return st;
    struct npy stored = j->stored;
    st = begin(j, err); /* reads the header anew: stored keeps pointing at the same bytes */
    j->stored = stored;
    return st;
}

static enum slimset_status large_array(struct job *j, struct slimset_error *err)
{
    struct array_item *x = j->x;
    struct array_scale scale = scale_of(x->recipe);
    struct array_loss loss = {0};
    struct npy to;
    bool keep = j->codec.codec == SLIMSET_CODEC_KEEP, casts = !keep && cast_type(j, &j->source, &to);
    enum slimset_status st = SLIMSET_OK;
    if (casts)
        j->stored = to;
    else if (!keep && x->recipe->narrow && npy_is_number(&j->source))
        st = scan_large(j, err);
    bool converts = j->stored.descr != j->source.descr;
    if (st == SLIMSET_OK)
        st = open_writer(j, err);
    size_t step = piece_of(&j->source);
    for (uint64_t left = j->source.count; st == SLIMSET_OK && left > 0; left -= step) {
        step = left < step ? (size_t)left : step;
        x->data.len = x->other.len = 0;
        st = array_stream_into(x->stream, &x->data, step * j->source.itemsize, err);
        if (st == SLIMSET_OK && converts)
            st = buf_reserve(&x->other, step * j->stored.itemsize, err);
        if (st == SLIMSET_OK && converts)
            array_convert(&j->source, x->data.data, &j->stored, x->other.data, step,
                          casts && x->recipe->cast == SLIMSET_CAST_UINT8 ? &scale : NULL, &loss);
        if (st == SLIMSET_OK)
            st = array_writer_put(x->writer, converts ? x->other.data : x->data.data, step * j->stored.itemsize, err);
    }
    if (st == SLIMSET_OK && casts)
        st = check_loss(j, &loss, err);
    if (st == SLIMSET_OK)
        st = input_stream_end(x->stream, &j->f->in_hash, err);
    return st == SLIMSET_OK ? close_writer(j, err) : st;
}

/* A large array under the probe: its beginning stands for it. */
static enum slimset_status probe_large(struct job *j, struct slimset_error *err)
{
    struct npy all = j->source;
    struct npy *a = &j->source;
    size_t n = TRIAL_BYTES < a->itemsize ? 1 : TRIAL_BYTES / (size_t)a->itemsize;
    j->x->data.len = 0;
    enum slimset_status st = array_stream_into(j->x->stream, &j->x->data, n * a->itemsize, err);
    if (st != SLIMSET_OK)
        return st;
    a->ndim = 1; /* no order to change */
    a->shape[0] = a->count = n;
    a->data_bytes = n * a->itemsize;
    j->stored = *a;
    st = change_whole(j, err);
    j->source = all;
    return st == SLIMSET_OK ? try_filters(j, err) : st;
}

static enum slimset_status add_field(struct job *j, struct slimset_error *err)
{
    struct item_out *out = j->out;
    size_t start = out->text->len;
    enum slimset_status st = buf_append(out->text, j->name, j->name_bytes, err);
    if (st == SLIMSET_OK)
        st = npy_text(&j->source, out->text, err);
    j->f->name_bytes = (uint32_t)j->name_bytes;
    j->f->array_bytes = (uint32_t)(out->text->len - start - j->name_bytes);
    return st == SLIMSET_OK ? buf_append(out->fields, j->f, sizeof *j->f, err) : st;
}

enum slimset_status array_job_run(struct job *j, struct slimset_error *err)
{
    enum slimset_status st = begin(j, err);
    if (st != SLIMSET_OK)
        return st;
    j->stored = j->source;
    j->f->in_bytes = input_stream_bytes(j->x->stream);
    j->f->bits = j->f->in_bits = j->source.itemsize < 32 ? (uint8_t)(j->source.itemsize * 8) : 0;
    struct geometry g;
    bool resized = j->codec.codec != SLIMSET_CODEC_KEEP && resizes(j, &g);
    if (resized && j->source.data_bytes > INPUT_BYTES_MAX)
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "%llu bytes, more than the %d that an array to be resized may have",
                       (unsigned long long)j->source.data_bytes, INPUT_BYTES_MAX);
    if (j->source.data_bytes <= WHOLE_BYTES || (resized && j->op != ITEM_PROBE))
        st = small_array(j, err);
    else if (j->op == ITEM_PROBE)
        st = probe_large(j, err);
    else
        st = large_array(j, err);
    j->f->bits = j->stored.itemsize < 32 ? (uint8_t)(j->stored.itemsize * 8) : 0;
    buf_reset(&j->x->data, KEEP_BYTES);
    buf_reset(&j->x->other, KEEP_BYTES);
    return st == SLIMSET_OK ? add_field(j, err) : st;
}
