/* SPDX-License-Identifier: Apache-2.0 */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_useRowMatchFinder: what it is by itself depends on the processor */
#include "array_write.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>
#ifdef HAVE_BLOSC
#include <blosc.h>
#endif

#include "base/io.h"

enum { OUT_BYTES = 256 << 10, KEEP_BYTES = 16 << 20, ZIP_LOCAL = 30, ZIP_LOCAL_64 = 20, ZIP_CENTRAL = 46, ZIP_CENTRAL_64 = 28 };

enum { ZSTD_SETTINGS = 12, BLOSC_BLOCK_BYTES = 1 << 20 /* its own choice is smaller, slower and packs worse */ };

struct zstd_setting {
    ZSTD_cParameter name;
    int value;
};

struct array_writer {
    struct array_codec codec;
    struct array_sink sink;
    uint64_t npy_bytes, taken, made, itemsize;
    ZSTD_CCtx *zstd;
    z_stream deflate;
    bool deflating;           /* deflateInit was done */
    uint32_t crc;
    char name[300];
    struct buf whole;         /* blosc: input */
    struct buf packed;        /* blosc: output */
    uint8_t out[OUT_BYTES];
};

struct array_writer *array_writer_new(void)
{
    return calloc(1, sizeof(struct array_writer));
}

void array_writer_free(struct array_writer *w)
{
    if (w == NULL)
        return;
    ZSTD_freeCCtx(w->zstd);
    if (w->deflating)
        deflateEnd(&w->deflate);
    buf_fini(&w->whole);
    buf_fini(&w->packed);
    free(w);
}

static enum slimset_status sink_put(struct array_writer *w, const void *data, size_t n, struct slimset_error *err)
{
    struct array_sink *s = &w->sink;
    w->made += n;
    if (s->buf != NULL)
        return buf_append(s->buf, data, n, err);
    if (s->max != 0 && (s->at > s->max || n > s->max - s->at))
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "unpacks to more than the %llu MiB that it may have",
                       (unsigned long long)(s->max >> 20));
    enum slimset_status st = io_pwrite(s->fd, data, n, s->at, "a large array", err);
    s->at += n;
    return st;
}

static enum slimset_status zstd_fault(size_t code, struct slimset_error *err)
{
    return ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation ? err_nomem(err, 0)
                                                                   : err_set(err, SLIMSET_INTERNAL, "zstd: %s", ZSTD_getErrorName(code));
}

/* What the words mean. "default" and "max" find matches of four bytes, the size of an element, which zstd's own levels of those speeds do
 * not: on normalised photographs in float32 the frame is a tenth smaller for it. */
static unsigned zstd_settings(const struct array_writer *w, struct zstd_setting set[ZSTD_SETTINGS])
{
    unsigned n = 0;
    bool bytes = w->itemsize == 1, most = w->codec.level == ARRAY_LEVEL_MAX, words = most || w->codec.level == ARRAY_LEVEL_DEFAULT;
    int level = most ? 6 : words ? 3 : w->codec.level == ARRAY_LEVEL_FAST ? 1 : w->codec.level;
    set[n++] = (struct zstd_setting){ZSTD_c_compressionLevel, level};
    set[n++] = (struct zstd_setting){ZSTD_c_checksumFlag, 1};
    set[n++] = (struct zstd_setting){ZSTD_c_contentSizeFlag, 1};
    set[n++] = (struct zstd_setting){ZSTD_c_dictIDFlag, 0};
    set[n++] = (struct zstd_setting){ZSTD_c_nbWorkers, 0};
    set[n++] = (struct zstd_setting){ZSTD_c_useRowMatchFinder, ZSTD_ps_enable};
    if (!words)
        return n;
    set[n++] = (struct zstd_setting){ZSTD_c_strategy, most ? ZSTD_lazy : bytes ? ZSTD_fast : ZSTD_dfast};
    set[n++] = (struct zstd_setting){ZSTD_c_minMatch, 4};
    set[n++] = (struct zstd_setting){ZSTD_c_hashLog, most ? 17 : bytes ? 16 : 15};
    set[n++] = (struct zstd_setting){ZSTD_c_chainLog, most ? 17 : 14};
    set[n++] = (struct zstd_setting){ZSTD_c_searchLog, most ? (bytes ? 4 : 3) : 1};
    set[n++] = (struct zstd_setting){ZSTD_c_targetLength, most ? 8 : bytes ? 0 : 1};
    return n;
}

static enum slimset_status begin_zstd(struct array_writer *w, struct slimset_error *err)
{
    struct zstd_setting set[ZSTD_SETTINGS];
    unsigned n = zstd_settings(w, set);
    if (w->zstd == NULL && (w->zstd = ZSTD_createCCtx()) == NULL)
        return err_nomem(err, 1 << 20);
    size_t code = ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_and_parameters);
    for (unsigned i = 0; !ZSTD_isError(code) && i < n; i++)
        code = ZSTD_CCtx_setParameter(w->zstd, set[i].name, set[i].value);
    if (!ZSTD_isError(code))
        code = ZSTD_CCtx_setPledgedSrcSize(w->zstd, w->npy_bytes);
    return ZSTD_isError(code) ? zstd_fault(code, err) : SLIMSET_OK;
}

/* The end comes without input of its own: zstd would take another way for an input that comes in one piece. */
static enum slimset_status put_zstd(struct array_writer *w, const void *data, size_t n, bool end, struct slimset_error *err)
{
    ZSTD_inBuffer in = {.src = data, .size = n};
    size_t left;
    do {
        ZSTD_outBuffer out = {.dst = w->out, .size = sizeof w->out};
        left = ZSTD_compressStream2(w->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return zstd_fault(left, err);
        enum slimset_status st = sink_put(w, w->out, out.pos, err);
        if (st != SLIMSET_OK)
            return st;
    } while (end ? left > 0 : in.pos < in.size);
    return SLIMSET_OK;
}

static enum slimset_status end_blosc(struct array_writer *w, struct slimset_error *err)
{
#ifdef HAVE_BLOSC
    w->packed.len = 0;
    enum slimset_status st = buf_reserve(&w->packed, w->whole.len + BLOSC_MAX_OVERHEAD, err);
    if (st != SLIMSET_OK)
        return st;
    size_t typesize = w->itemsize >= 1 && w->itemsize <= BLOSC_MAX_TYPESIZE ? (size_t)w->itemsize : 1;
    int level = w->codec.level == ARRAY_LEVEL_FAST || w->codec.level == ARRAY_LEVEL_DEFAULT ? 1 : w->codec.level == ARRAY_LEVEL_MAX ? 3
                                                                                             : w->codec.level;
    int n = blosc_compress_ctx(level, w->codec.filter, typesize, w->whole.len, w->whole.data, w->packed.data,
                               w->whole.len + BLOSC_MAX_OVERHEAD, "zstd", BLOSC_BLOCK_BYTES, 1);
    if (n <= 0)
        return err_set(err, SLIMSET_INTERNAL, "blosc: error %d", n);
    st = sink_put(w, w->packed.data, (size_t)n, err);
    buf_reset(&w->whole, KEEP_BYTES);
    buf_reset(&w->packed, KEEP_BYTES);
    return st;
#else
    (void)w;
    return err_set(err, SLIMSET_INTERNAL, "this build has no c-blosc");
#endif
}

/* --- .npz ------------------------------------------------------------------------------------------------------ */

/* What local header and directory have in common, from "version needed" on; sizes stand in the zip64 field. */
static void zip_common(uint8_t *h, const struct array_writer *w)
{
    put_le16(h, 45);                /* zip64 */
    put_le16(h + 4, Z_DEFLATED);
    put_le32(h + 6, 33 << 16);      /* 1980-01-01 */
    put_le32(h + 10, w->crc);
    put_le32(h + 14, UINT32_MAX);
    put_le32(h + 18, UINT32_MAX);
    put_le16(h + 22, (uint16_t)strlen(w->name));
}

static enum slimset_status begin_npz(struct array_writer *w, struct slimset_error *err)
{
    static const uint8_t nothing[ZIP_LOCAL + ZIP_LOCAL_64 + sizeof w->name];
    w->crc = 0;
    if (!w->deflating && deflateInit2(&w->deflate, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_nomem(err, 1 << 18);
    w->deflating = true;
    deflateReset(&w->deflate);
    return sink_put(w, nothing, ZIP_LOCAL + strlen(w->name) + ZIP_LOCAL_64, err); /* written in the end, when the sizes are known */
}

static enum slimset_status put_npz(struct array_writer *w, const uint8_t *data, size_t n, bool end, struct slimset_error *err)
{
    int ret = Z_OK;
    do {
        size_t step = n < 1u << 30 ? n : 1u << 30;
        w->crc = (uint32_t)crc32(w->crc, data, (unsigned)step);
        w->deflate.next_in = (Bytef *)(uintptr_t)data;
        w->deflate.avail_in = (unsigned)step;
        do {
            w->deflate.next_out = w->out;
            w->deflate.avail_out = sizeof w->out;
            ret = deflate(&w->deflate, end ? Z_FINISH : Z_NO_FLUSH);
            enum slimset_status st = sink_put(w, w->out, sizeof w->out - w->deflate.avail_out, err);
            if (st != SLIMSET_OK)
                return st;
        } while (w->deflate.avail_out == 0 || (end && ret != Z_STREAM_END));
        data += step;
        n -= step;
    } while (n > 0);
    return SLIMSET_OK;
}

static enum slimset_status end_npz(struct array_writer *w, struct slimset_error *err)
{
    uint8_t local[ZIP_LOCAL + sizeof w->name + ZIP_LOCAL_64] = "PK\3\4", tail[ZIP_CENTRAL + sizeof w->name + ZIP_CENTRAL_64 + 56 + 20 + 22] = "PK\1\2";
    size_t name = strlen(w->name), head = ZIP_LOCAL + name + ZIP_LOCAL_64;
    enum slimset_status st = put_npz(w, (const uint8_t *)"", 0, true, err);
    if (st != SLIMSET_OK)
        return st;
    uint64_t start = w->made, packed = w->made - head; /* the directory begins at start */
    zip_common(local + 4, w);
    put_le16(local + 28, ZIP_LOCAL_64);
    memcpy(local + ZIP_LOCAL, w->name, name);
    uint8_t *p = local + ZIP_LOCAL + name;
    put_le16(p, 1);
    put_le16(p + 2, 16);
    put_le64(p + 4, w->npy_bytes);
    put_le64(p + 12, packed);
    put_le16(tail + 4, 45);
    zip_common(tail + 6, w);
    put_le16(tail + 30, ZIP_CENTRAL_64);
    put_le32(tail + 38, UINT32_C(0600) << 16);
    put_le32(tail + 42, UINT32_MAX);
    memcpy(tail + ZIP_CENTRAL, w->name, name);
    p = tail + ZIP_CENTRAL + name;
    put_le16(p, 1);
    put_le16(p + 2, 24);
    put_le64(p + 4, w->npy_bytes);
    put_le64(p + 12, packed);
    p += ZIP_CENTRAL_64;
    uint64_t directory = (uint64_t)(p - tail);
    memcpy(p, "PK\6\6", 4); /* zip64 end of the directory, its locator, the end */
    put_le64(p + 4, 44);
    put_le16(p + 12, 45);
    put_le16(p + 14, 45);
    put_le64(p + 24, 1);
    put_le64(p + 32, 1);
    put_le64(p + 40, directory);
    put_le64(p + 48, start);
    memcpy(p + 56, "PK\6\7", 4);
    put_le64(p + 64, start + directory);
    put_le32(p + 72, 1);
    memcpy(p + 76, "PK\5\6", 4);
    put_le16(p + 84, 1);
    put_le16(p + 86, 1);
    put_le32(p + 88, (uint32_t)directory);
    put_le32(p + 92, UINT32_MAX);
    st = sink_put(w, tail, (size_t)directory + 56 + 20 + 22, err);
    if (st != SLIMSET_OK)
        return st;
    if (w->sink.buf == NULL)
        return io_pwrite(w->sink.fd, local, head, w->sink.at - w->made, "a large array", err);
    memcpy(w->sink.buf->data + w->sink.buf->len - w->made, local, head);
    return SLIMSET_OK;
}

/* --- the door --------------------------------------------------------------------------------------------------- */

struct array_codec array_writer_codec(struct array_codec codec, uint64_t npy_bytes)
{
    if (codec.codec == SLIMSET_CODEC_NPY_BLOSC && npy_bytes > ARRAY_BLOSC_BYTES_MAX)
        return (struct array_codec){.codec = SLIMSET_CODEC_NPY_ZST, .level = ARRAY_LEVEL_DEFAULT};
    return codec;
}

enum slimset_status array_writer_begin(struct array_writer *w, struct array_codec codec, uint64_t npy_bytes, uint64_t itemsize,
                                       const char *name, const struct array_sink *sink, struct slimset_error *err)
{
    w->codec = codec;
    w->sink = *sink;
    w->npy_bytes = npy_bytes;
    w->itemsize = itemsize;
    w->taken = w->made = 0;
    switch (codec.codec) {
    case SLIMSET_CODEC_NPY_ZST:
        return begin_zstd(w, err);
    case SLIMSET_CODEC_NPY_BLOSC:
        w->whole.len = 0;
        return buf_reserve(&w->whole, npy_bytes, err);
    case SLIMSET_CODEC_NPZ:
        strncpy(w->name, name, sizeof w->name - 1);
        return begin_npz(w, err);
    default:
        return SLIMSET_OK;
    }
}

enum slimset_status array_writer_put(struct array_writer *w, const void *data, size_t n, struct slimset_error *err)
{
    if (n == 0)
        return SLIMSET_OK;
    w->taken += n;
    switch (w->codec.codec) {
    case SLIMSET_CODEC_NPY_ZST:
        return put_zstd(w, data, n, false, err);
    case SLIMSET_CODEC_NPY_BLOSC:
        return buf_append(&w->whole, data, n, err);
    case SLIMSET_CODEC_NPZ:
        return put_npz(w, data, n, false, err);
    default:
        return sink_put(w, data, n, err);
    }
}

enum slimset_status array_writer_end(struct array_writer *w, uint64_t *bytes, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (w->taken != w->npy_bytes)
        return err_set(err, SLIMSET_INTERNAL, "an array of %llu bytes was announced with %llu", (unsigned long long)w->taken,
                       (unsigned long long)w->npy_bytes);
    if (w->codec.codec == SLIMSET_CODEC_NPY_ZST)
        st = put_zstd(w, NULL, 0, true, err);
    else if (w->codec.codec == SLIMSET_CODEC_NPY_BLOSC)
        st = end_blosc(w, err);
    else if (w->codec.codec == SLIMSET_CODEC_NPZ)
        st = end_npz(w, err);
    *bytes = w->made;
    return st;
}
