/* SPDX-License-Identifier: Apache-2.0 */
#include "array_read.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#ifdef HAVE_BLOSC
#include <blosc.h>
#endif

enum { IN_BYTES = 256 << 10, BLOSC_HEADER = 16 };

struct array_reader {
    enum image_format format;
    array_get_fn *get;
    void *arg;
    uint64_t stored, at;      /* bytes of the field; of them taken */
    uint64_t npy_bytes, out;  /* of the .npy; of them handed out */
    struct buf head;
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer in;
    bool ended;               /* zstd: the frame is at its end, its checksum was right */
    struct buf whole;         /* blosc: all of the .npy */
    struct buf packed;
    uint8_t piece[IN_BYTES];
};

struct array_reader *array_reader_new(void)
{
    return calloc(1, sizeof(struct array_reader));
}

void array_reader_free(struct array_reader *r)
{
    if (r == NULL)
        return;
    ZSTD_freeDCtx(r->zstd);
    buf_fini(&r->head);
    buf_fini(&r->whole);
    buf_fini(&r->packed);
    free(r);
}

enum slimset_status array_get_bytes(void *arg, uint64_t at, void *to, size_t n, struct slimset_error *err)
{
    const struct array_bytes *b = arg;
    if (at > b->n || n > b->n - at)
        return err_set(err, SLIMSET_DAMAGED, "a stored array is cut off");
    if (n > 0)
        memcpy(to, b->p + at, n);
    return SLIMSET_OK;
}

/* --- zstd ------------------------------------------------------------------------------------------------------- */

static enum slimset_status fill(struct array_reader *r, struct slimset_error *err)
{
    size_t n = r->stored - r->at < sizeof r->piece ? (size_t)(r->stored - r->at) : sizeof r->piece;
    enum slimset_status st = r->get(r->arg, r->at, r->piece, n, err);
    r->in = (ZSTD_inBuffer){.src = r->piece, .size = st == SLIMSET_OK ? n : 0};
    r->at += n;
    return st;
}

static enum slimset_status begin_zstd(struct array_reader *r, struct slimset_error *err)
{
    r->in = (ZSTD_inBuffer){0};
    r->ended = false;
    if (r->zstd == NULL && (r->zstd = ZSTD_createDCtx()) == NULL)
        return err_nomem(err, 1 << 17);
    ZSTD_DCtx_reset(r->zstd, ZSTD_reset_session_and_parameters);
    ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, ARRAY_WINDOW_LOG_MAX);
    enum slimset_status st = fill(r, err);
    if (st != SLIMSET_OK)
        return st;
    unsigned long long bytes = ZSTD_getFrameContentSize(r->piece, r->in.size);
    if (bytes == ZSTD_CONTENTSIZE_UNKNOWN || bytes == ZSTD_CONTENTSIZE_ERROR)
        return err_set(err, SLIMSET_DAMAGED, "a stored array is no zstd frame that says its size");
    r->npy_bytes = bytes;
    return SLIMSET_OK;
}

static enum slimset_status read_zstd(struct array_reader *r, void *to, size_t n, struct slimset_error *err)
{
    ZSTD_outBuffer out = {.dst = to, .size = n};
    while (out.pos < n || (n == 0 && !r->ended)) {
        if (r->in.pos == r->in.size && r->at < r->stored) {
            enum slimset_status st = fill(r, err);
            if (st != SLIMSET_OK)
                return st;
        }
        size_t in_before = r->in.pos, out_before = out.pos;
        size_t left = r->ended ? 0 : ZSTD_decompressStream(r->zstd, &out, &r->in);
        if (ZSTD_isError(left))
            return err_set(err, SLIMSET_DAMAGED, "a stored array does not decompress: %s", ZSTD_getErrorName(left));
        r->ended = left == 0;
        if (r->ended && out.pos < n)
            return err_set(err, SLIMSET_DAMAGED, "a stored array ends before its data do");
        if (!r->ended && r->in.pos == in_before && out.pos == out_before && r->at == r->stored)
            return err_set(err, SLIMSET_DAMAGED, "a stored array is cut off");
    }
    return SLIMSET_OK;
}

/* --- blosc ------------------------------------------------------------------------------------------------------- */

static enum slimset_status begin_blosc(struct array_reader *r, struct slimset_error *err)
{
#ifdef HAVE_BLOSC
    uint8_t head[BLOSC_HEADER];
    size_t bytes = 0;
    if (r->stored < sizeof head || r->stored > (uint64_t)ARRAY_BLOSC_BYTES_MAX + BLOSC_MAX_OVERHEAD)
        return err_set(err, SLIMSET_DAMAGED, "a stored array has %llu bytes, which no blosc buffer here has", (unsigned long long)r->stored);
    enum slimset_status st = r->get(r->arg, 0, head, sizeof head, err);
    if (st != SLIMSET_OK)
        return st;
    if (get_le32(head + 12) != r->stored || get_le32(head + 4) > ARRAY_BLOSC_BYTES_MAX)
        return err_set(err, SLIMSET_DAMAGED, "a stored array is no blosc buffer of its size");
    r->packed.len = r->whole.len = 0;
    st = buf_reserve(&r->packed, r->stored, err);
    if (st == SLIMSET_OK)
        st = r->get(r->arg, 0, r->packed.data, r->stored, err);
    if (st != SLIMSET_OK)
        return st;
    if (blosc_cbuffer_validate(r->packed.data, r->stored, &bytes) != 0 || bytes != get_le32(head + 4))
        return err_set(err, SLIMSET_DAMAGED, "a stored array is no whole blosc buffer");
    st = buf_reserve(&r->whole, bytes + 1, err);
    if (st != SLIMSET_OK)
        return st;
    if (blosc_decompress_ctx(r->packed.data, r->whole.data, bytes, 1) != (int)bytes)
        return err_set(err, SLIMSET_DAMAGED, "a stored array does not decompress: blosc");
    r->whole.len = r->npy_bytes = bytes;
    r->at = r->stored;
    return SLIMSET_OK;
#else
    (void)r;
    return err_set(err, SLIMSET_USAGE, "this build has no c-blosc, which this array was stored with");
#endif
}

/* --- the door ----------------------------------------------------------------------------------------------------- */

/* The next n bytes of the .npy, header included. */
static enum slimset_status read_npy(struct array_reader *r, void *to, size_t n, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (n > r->npy_bytes - r->out)
        return err_set(err, SLIMSET_DAMAGED, "a stored array ends before its data do");
    if (n == 0)
        return SLIMSET_OK;
    switch (r->format) {
    case FORMAT_NPY_ZST:
        st = read_zstd(r, to, n, err);
        break;
    case FORMAT_NPY_BLOSC:
        memcpy(to, r->whole.data + r->out, n);
        break;
    default:
        st = r->get(r->arg, r->at, to, n, err);
        r->at += n;
        break;
    }
    r->out += n;
    return st;
}

static enum slimset_status read_head(struct array_reader *r, size_t n, struct slimset_error *err)
{
    enum slimset_status st = buf_reserve(&r->head, n, err);
    if (st == SLIMSET_OK)
        st = read_npy(r, r->head.data + r->head.len, n, err);
    r->head.len += st == SLIMSET_OK ? n : 0;
    return st;
}

enum slimset_status array_reader_begin(struct array_reader *r, enum image_format format, array_get_fn *get, void *arg,
                                       uint64_t stored_bytes, struct npy *a, struct slimset_error *err)
{
    r->format = format;
    r->get = get;
    r->arg = arg;
    r->stored = stored_bytes;
    r->at = r->out = 0;
    r->head.len = 0;
    enum slimset_status st = SLIMSET_OK;
    if (format == FORMAT_NPY_ZST)
        st = begin_zstd(r, err);
    else if (format == FORMAT_NPY_BLOSC)
        st = begin_blosc(r, err);
    else if (format == FORMAT_NPY)
        r->npy_bytes = stored_bytes;
    else
        return err_set(err, SLIMSET_USAGE, "the field is no array");
    if (st == SLIMSET_OK)
        st = read_head(r, r->npy_bytes < NPY_PREFIX ? (size_t)r->npy_bytes : NPY_PREFIX, err);
    uint64_t head = npy_announced(r->head.data, r->head.len);
    if (st == SLIMSET_OK && head > NPY_PREFIX && head <= NPY_HEADER_MAX && head <= r->npy_bytes)
        st = read_head(r, (size_t)head - NPY_PREFIX, err);
    if (st == SLIMSET_OK)
        st = npy_parse(r->head.data, r->head.len, r->npy_bytes, a, err);
    if (st == SLIMSET_BAD_INPUT) {
        err->status = st = SLIMSET_DAMAGED;
        err->reject = SLIMSET_REJECT_NONE;
    }
    return st;
}

const struct buf *array_reader_header(const struct array_reader *r)
{
    return &r->head;
}

enum slimset_status array_reader_read(struct array_reader *r, void *to, size_t n, struct slimset_error *err)
{
    return read_npy(r, to, n, err);
}

enum slimset_status array_reader_end(struct array_reader *r, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (r->out != r->npy_bytes)
        return err_set(err, SLIMSET_DAMAGED, "a stored array is longer than its data");
    if (r->format == FORMAT_NPY_ZST) {
        uint8_t none;
        st = read_zstd(r, &none, 0, err);
        if (st == SLIMSET_OK && (r->in.pos != r->in.size || r->at != r->stored))
            st = err_set(err, SLIMSET_DAMAGED, "bytes follow the zstd frame of a stored array");
    }
    return st;
}

bool array_source(const struct npy *stored, const char *text, size_t n, uint32_t notes, struct npy *source)
{
    struct slimset_error ignored;
    *source = *stored;
    if ((notes & (NOTE_CAST | NOTE_RESIZED)) || !(notes & (NOTE_NARROWED | NOTE_C_ORDER)))
        return false;
    if (notes & NOTE_NARROWED) {
        if (npy_parse_text(text, n, source, &ignored) != SLIMSET_OK || !npy_is_number(stored) || source->count != stored->count ||
            source->ndim != stored->ndim || memcmp(source->shape, stored->shape, stored->ndim * sizeof stored->shape[0]) != 0)
            return false;
        source->fortran = stored->fortran;
    }
    if (notes & NOTE_C_ORDER)
        source->fortran = true;
    return true;
}
