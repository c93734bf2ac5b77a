/* SPDX-License-Identifier: Apache-2.0
 *
 * Decompression of whole streams: a feed of bytes from a range of a file, a sink at the end of
 * another file, and four decoders between them. Memory is bounded by the buffers here, by a 128 MiB
 * zstd window and by 256 MiB for xz; output by the sink's limit.
 */
#include "archive_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <isa-l/igzip_lib.h>
#include <lzma.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/io.h"

enum {
    IN_BYTES = 256 * 1024,
    OUT_BYTES = 256 * 1024,
    BACK_BYTES = 16, /* kept before the read position: a decoder may give back what it took */
    ZSTD_WINDOW_LOG = 27
};
static const uint64_t SPACE_STEP = 64ull << 20, XZ_MEMORY = 256ull << 20;

/* ---- input ---- */

struct feed {
    struct view v;
    uint64_t at;     /* of the view that is read so far */
    uint8_t *buf;    /* BACK_BYTES + IN_BYTES */
    size_t pos, len; /* unread: buf[pos .. len) */
};

static enum slimset_status feed_init(struct feed *f, const struct view *v,
                                     struct slimset_error *err)
{
    *f = (struct feed){.v = *v, .pos = BACK_BYTES, .len = BACK_BYTES};
    f->buf = calloc(1, BACK_BYTES + IN_BYTES);
    return f->buf != NULL ? SLIMSET_OK : err_nomem(err, BACK_BYTES + IN_BYTES);
}

/* Makes at least n bytes (of IN_BYTES / 2 at most) unread unless the range ends before. */
static enum slimset_status feed_fill(struct feed *f, size_t n, struct slimset_error *err)
{
    if (f->len - f->pos >= n || f->at == f->v.bytes)
        return SLIMSET_OK;
    memmove(f->buf, f->buf + f->pos - BACK_BYTES, f->len - f->pos + BACK_BYTES);
    f->len -= f->pos - BACK_BYTES;
    f->pos = BACK_BYTES;
    size_t want = BACK_BYTES + IN_BYTES - f->len;
    if (want > f->v.bytes - f->at)
        want = (size_t)(f->v.bytes - f->at);
    enum slimset_status st = view_read(&f->v, f->at, f->buf + f->len, want, err);
    if (st != SLIMSET_OK)
        return st;
    f->at += want;
    f->len += want;
    return SLIMSET_OK;
}

static uint64_t feed_offset(const struct feed *f) { return f->v.start + f->at - (f->len - f->pos); }

/* ---- output ---- */

struct sink {
    int fd;
    uint64_t written, max_bytes, asked;
    archive_space_fn *check_space;
    void *arg;
    uint8_t *buf; /* OUT_BYTES for the decoder to write into */
};

enum slimset_status archive_check_space(void *arg, uint64_t next_bytes, struct slimset_error *err)
{
    const int *fd = arg;
    struct statvfs v;
    if (fstatvfs(*fd, &v) != 0 || v.f_blocks == 0)
        return SLIMSET_OK; /* it does not say: the write will tell */
    if ((uint64_t)v.f_bavail * v.f_frsize >= next_bytes + SPACE_STEP)
        return SLIMSET_OK;
    errno = ENOSPC;
    return err_os(err, "unpacking the archive into the work folder");
}

static enum slimset_status sink_init(struct sink *s, int fd, uint64_t max_bytes,
                                     archive_space_fn *check_space, void *arg,
                                     struct slimset_error *err)
{
    *s = (struct sink){.fd = fd, .max_bytes = max_bytes, .check_space = check_space, .arg = arg};
    if (lseek(fd, 0, SEEK_END) < 0)
        return err_os(err, "seek to the end of the spool file");
    s->buf = malloc(OUT_BYTES);
    return s->buf != NULL ? SLIMSET_OK : err_nomem(err, OUT_BYTES);
}

/* Writes the first n bytes of s->buf. */
static enum slimset_status sink_put(struct sink *s, size_t n, struct slimset_error *err)
{
    enum slimset_status st;
    if (n == 0)
        return SLIMSET_OK;
    if (n > s->max_bytes - s->written)
        return err_bad(err, SLIMSET_REJECT_RATIO, "unpacks to more than %llu bytes",
                       (unsigned long long)s->max_bytes);
    if (s->check_space != NULL && s->written + n > s->asked) {
        const uint64_t left = s->max_bytes - s->asked;
        const uint64_t next = left < SPACE_STEP ? left : SPACE_STEP;
        if ((st = s->check_space(s->arg, next, err)) != SLIMSET_OK)
            return st;
        s->asked += next;
    }
    if ((st = io_write(s->fd, s->buf, n, "spool file", err)) != SLIMSET_OK)
        return st;
    s->written += n;
    return SLIMSET_OK;
}

/* ---- deflate ---- */

/* Inflates up to n bytes into out from the feed. *got; *end when the stream ended (the feed then
 * stands right behind it). A stream that the input cuts off is SLIMSET_BAD_INPUT/truncated. */
static enum slimset_status inflate_some(struct inflate_state *z, struct feed *f, uint8_t *out,
                                        size_t n, size_t *got, bool *end, struct slimset_error *err)
{
    *got = 0;
    *end = false;
    z->next_out = out;
    z->avail_out = (uint32_t)n;
    while (z->avail_out != 0) {
        enum slimset_status st = feed_fill(f, 1, err);
        if (st != SLIMSET_OK)
            return st;
        const uint32_t before_in = (uint32_t)(f->len - f->pos), before_out = z->avail_out;
        z->next_in = f->buf + f->pos;
        z->avail_in = before_in;
        const int ret = isal_inflate(z);
        *got = n - z->avail_out;
        f->pos = (size_t)(z->next_in - f->buf);
        if (ret < 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "damaged deflate data before byte %llu",
                           (unsigned long long)feed_offset(f));
        if (z->block_state == ISAL_BLOCK_FINISH) {
            /* Whole bytes still in its bit buffer are not the stream's. */
            f->pos -= (size_t)(z->read_in_length > 0 ? z->read_in_length / 8 : 0);
            z->read_in_length = 0;
            *end = true;
            return SLIMSET_OK;
        }
        /* It reports no error when input runs out: no progress is the sign. */
        if (z->avail_in == 0 && f->at == f->v.bytes && z->avail_out == before_out)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED, "compressed data ends too early");
        if (z->avail_in == before_in && z->avail_out == before_out)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "deflate data makes no progress");
    }
    return SLIMSET_OK;
}

/* Skips n bytes; *whole is false when the range ends before. */
static enum slimset_status feed_skip(struct feed *f, size_t n, bool *whole,
                                     struct slimset_error *err)
{
    enum slimset_status st = feed_fill(f, n, err);
    const size_t have = f->len - f->pos;
    *whole = st == SLIMSET_OK && have >= n;
    f->pos += have < n ? have : n;
    return st;
}

/* A gzip member's header (RFC 1952, 2.3). *whole is false when the range ends inside. */
static enum slimset_status gzip_header(struct feed *f, bool *whole, struct slimset_error *err)
{
    enum { FHCRC = 2, FEXTRA = 4, FNAME = 8, FCOMMENT = 16 };
    const uint64_t here = feed_offset(f);
    enum slimset_status st = feed_fill(f, 12, err);
    *whole = f->len - f->pos >= 10;
    if (st != SLIMSET_OK || !*whole)
        return st;
    const uint8_t *h = f->buf + f->pos;
    const unsigned flags = h[3];
    if (h[0] != 0x1f || h[1] != 0x8b || h[2] != 8 || (flags & 0xe0))
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "no gzip header at byte %llu",
                       (unsigned long long)here);
    if (flags & FEXTRA) {
        if ((*whole = f->len - f->pos >= 12))
            st = feed_skip(f, 12 + (size_t)get_le16(h + 10), whole, err);
    } else {
        f->pos += 10;
    }
    for (unsigned bit = FNAME; bit <= FCOMMENT && st == SLIMSET_OK && *whole; bit <<= 1) {
        for (bool more = (flags & bit) != 0; more && *whole;) {
            if ((st = feed_fill(f, 1, err)) != SLIMSET_OK)
                return st;
            *whole = f->len != f->pos;
            more = *whole && f->buf[f->pos++] != 0;
        }
    }
    if (st == SLIMSET_OK && *whole && (flags & FHCRC))
        st = feed_skip(f, 2, whole, err);
    return st;
}

static enum slimset_status gzip_member(struct feed *f, struct sink *s, struct inflate_state *z,
                                       struct slimset_error *err)
{
    bool whole = false, end = false;
    enum slimset_status st = gzip_header(f, &whole, err);
    uint32_t crc = 0, size = 0;
    if (st == SLIMSET_OK && !whole)
        goto cut;
    isal_inflate_init(z);
    while (st == SLIMSET_OK && !end) {
        size_t got;
        st = inflate_some(z, f, s->buf, OUT_BYTES, &got, &end, err);
        crc = archive_crc32(crc, s->buf, got);
        size += (uint32_t)got;
        /* What came before a fault is written as well. */
        struct slimset_error write_err;
        const enum slimset_status put = sink_put(s, got, &write_err);
        if (put != SLIMSET_OK) {
            *err = write_err;
            return put;
        }
    }
    if (st != SLIMSET_OK || (st = feed_fill(f, 8, err)) != SLIMSET_OK)
        return st;
    if (f->len - f->pos < 8)
        goto cut;
    if (get_le32(f->buf + f->pos) != crc || get_le32(f->buf + f->pos + 4) != size)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "gzip checksum differs before byte %llu",
                       (unsigned long long)feed_offset(f));
    f->pos += 8;
    return SLIMSET_OK;
cut:
    return err_bad(err, SLIMSET_REJECT_TRUNCATED, "gzip data ends too early");
}

/* Members one behind another; zero padding is allowed between and behind them (tapes, block
 * devices). */
static enum slimset_status spool_gzip(struct feed *f, struct sink *s, struct slimset_error *err)
{
    struct inflate_state *z = malloc(sizeof *z);
    if (z == NULL)
        return err_nomem(err, sizeof *z);
    enum slimset_status st = gzip_member(f, s, z, err);
    while (st == SLIMSET_OK) {
        if ((st = feed_fill(f, 1, err)) != SLIMSET_OK || f->pos == f->len)
            break;
        if (f->buf[f->pos] == 0)
            f->pos++;
        else
            st = gzip_member(f, s, z, err);
    }
    free(z);
    return st;
}

enum slimset_status spool_peek_deflate(const struct view *v, uint8_t *out, size_t n, size_t *got,
                                       struct slimset_error *err)
{
    struct feed f = {0};
    bool end;
    *got = 0;
    struct inflate_state *z = malloc(sizeof *z);
    if (z == NULL)
        return err_nomem(err, sizeof *z);
    enum slimset_status st = feed_init(&f, v, err);
    if (st != SLIMSET_OK)
        goto out;
    isal_inflate_init(z);
    st = inflate_some(z, &f, out, n, got, &end, err);
    if (st == SLIMSET_BAD_INPUT)
        st = SLIMSET_OK;
out:
    free(f.buf);
    free(z);
    return st;
}

enum slimset_status spool_deflate(const struct view *v, uint64_t bytes, uint32_t crc32, int out_fd,
                                  archive_space_fn *check_space, void *arg,
                                  struct slimset_error *err)
{
    struct feed f = {0};
    struct sink s = {0};
    uint32_t crc = 0;
    bool end = false;
    struct inflate_state *z = malloc(sizeof *z);
    if (z == NULL)
        return err_nomem(err, sizeof *z);
    enum slimset_status st = feed_init(&f, v, err);
    if (st != SLIMSET_OK ||
        (st = sink_init(&s, out_fd, bytes, check_space, arg, err)) != SLIMSET_OK)
        goto out;
    isal_inflate_init(z);
    while (!end) {
        size_t got;
        if ((st = inflate_some(z, &f, s.buf, OUT_BYTES, &got, &end, err)) != SLIMSET_OK)
            goto out;
        crc = archive_crc32(crc, s.buf, got);
        st = sink_put(&s, got, err);
        if (st == SLIMSET_BAD_INPUT)
            st = err_bad(err, SLIMSET_REJECT_CORRUPT,
                         "unpacks to more bytes than the zip directory says");
        if (st != SLIMSET_OK)
            goto out;
    }
    if (s.written != bytes || f.pos != f.len || f.at != f.v.bytes)
        st = err_bad(err, SLIMSET_REJECT_CORRUPT,
                     "unpacks to other sizes than the zip directory says");
    else if (crc != crc32)
        st = err_bad(err, SLIMSET_REJECT_CHECKSUM, "checksum differs from the zip directory's");
out:
    free(f.buf);
    free(s.buf);
    free(z);
    return st;
}

/* ---- zstd, xz ---- */

static enum slimset_status spool_zstd(struct feed *f, struct sink *s, struct slimset_error *err)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (z == NULL)
        return err_nomem(err, 1u << 17);
    enum slimset_status st = SLIMSET_OK;
    size_t ret = 1; /* 0: a frame is complete and flushed */
    ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    for (;;) {
        if ((st = feed_fill(f, 1, err)) != SLIMSET_OK)
            break;
        ZSTD_inBuffer in = {f->buf + f->pos, f->len - f->pos, 0};
        ZSTD_outBuffer out = {s->buf, OUT_BYTES, 0};
        if (in.size == 0 && ret == 0)
            break;
        ret = ZSTD_decompressStream(z, &out, &in);
        f->pos += in.pos;
        if ((st = sink_put(s, out.pos, err)) != SLIMSET_OK)
            break;
        if (ZSTD_isError(ret)) {
            if (ZSTD_getErrorCode(ret) == ZSTD_error_memory_allocation)
                st = err_nomem(err, 1ull << ZSTD_WINDOW_LOG);
            else if (ZSTD_getErrorCode(ret) == ZSTD_error_frameParameter_windowTooLarge)
                st = err_bad(err, SLIMSET_REJECT_TOO_LARGE,
                             "zstd frame wants a window above 128 MiB");
            else
                st = err_bad(err, SLIMSET_REJECT_CORRUPT, "zstd: %s before byte %llu",
                             ZSTD_getErrorName(ret), (unsigned long long)feed_offset(f));
            break;
        }
        if (in.size == 0 && out.pos == 0) {
            st = err_bad(err, SLIMSET_REJECT_TRUNCATED, "zstd data ends too early");
            break;
        }
    }
    ZSTD_freeDCtx(z);
    return st;
}

static enum slimset_status xz_error(lzma_ret ret, const struct feed *f, struct slimset_error *err)
{
    switch (ret) {
    case LZMA_MEM_ERROR:
        return err_nomem(err, XZ_MEMORY);
    case LZMA_MEMLIMIT_ERROR:
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "xz data wants more than %llu MiB of memory",
                       (unsigned long long)(XZ_MEMORY >> 20));
    case LZMA_BUF_ERROR:
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "xz data ends too early");
    case LZMA_OPTIONS_ERROR:
    case LZMA_UNSUPPORTED_CHECK:
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "xz filter or check that is not supported");
    default:
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "damaged xz data before byte %llu",
                       (unsigned long long)feed_offset(f));
    }
}

static enum slimset_status spool_xz(struct feed *f, struct sink *s, struct slimset_error *err)
{
    lzma_stream z = LZMA_STREAM_INIT;
    lzma_ret ret = lzma_stream_decoder(&z, XZ_MEMORY, LZMA_CONCATENATED);
    enum slimset_status st = SLIMSET_OK;
    if (ret != LZMA_OK)
        return xz_error(ret, f, err);
    while (ret != LZMA_STREAM_END) {
        if ((st = feed_fill(f, 1, err)) != SLIMSET_OK)
            break;
        const bool last = f->at == f->v.bytes;
        z.next_in = f->buf + f->pos;
        z.avail_in = f->len - f->pos;
        z.next_out = s->buf;
        z.avail_out = OUT_BYTES;
        ret = lzma_code(&z, last ? LZMA_FINISH : LZMA_RUN);
        f->pos = f->len - z.avail_in;
        if ((st = sink_put(s, OUT_BYTES - z.avail_out, err)) != SLIMSET_OK)
            break;
        if (ret != LZMA_OK && ret != LZMA_STREAM_END) {
            st = xz_error(ret, f, err);
            break;
        }
    }
    lzma_end(&z);
    return st;
}

enum slimset_status archive_spool(int fd, uint64_t offset, uint64_t bytes, enum image_format format,
                                  int out_fd, uint64_t max_bytes, archive_space_fn *check_space,
                                  void *arg, uint64_t *out_bytes, struct slimset_error *err)
{
    struct feed f = {0};
    struct sink s = {0};
    const struct view v = {fd, offset, bytes};
    uint64_t end;
    *out_bytes = 0;
    if (__builtin_add_overflow(offset, bytes, &end) || end > INT64_MAX)
        return err_set(err, SLIMSET_USAGE, "a range of bytes beyond any file");
    if (bytes == 0)
        return err_bad(err, SLIMSET_REJECT_EMPTY, "compressed file of zero bytes");
    enum slimset_status st = feed_init(&f, &v, err);
    if (st != SLIMSET_OK ||
        (st = sink_init(&s, out_fd, max_bytes, check_space, arg, err)) != SLIMSET_OK)
        goto out;
    switch (format) {
    case FORMAT_GZIP:
        st = spool_gzip(&f, &s, err);
        break;
    case FORMAT_ZSTD:
        st = spool_zstd(&f, &s, err);
        break;
    case FORMAT_XZ:
        st = spool_xz(&f, &s, err);
        break;
    default:
        st = err_set(err, SLIMSET_USAGE, "format %d is not a compressed stream", (int)format);
        break;
    }
    *out_bytes = s.written;
out:
    free(f.buf);
    free(s.buf);
    return st;
}
