/* SPDX-License-Identifier: Apache-2.0 */
#include "input_stream.h"

#include <stdlib.h>

#include <isa-l/igzip_lib.h>

#include "archive.h"
#include "base/io.h"
#include "input.h"

enum { PIECE_BYTES = 256 << 10 };

struct input_stream {
    const struct item_input *in;
    int fd;
    uint64_t offset, packed_left; /* of the packed bytes that were not read yet */
    uint64_t at;                  /* unpacked bytes handed out */
    uint32_t crc;
    struct hash_stream hash;
    struct inflate_state inflate;
    uint8_t piece[PIECE_BYTES];   /* packed bytes */
    uint8_t rest[PIECE_BYTES];    /* what nobody asked for, at the end */
};

struct input_stream *input_stream_new(void)
{
    return calloc(1, sizeof(struct input_stream));
}

void input_stream_free(struct input_stream *s)
{
    free(s);
}

enum slimset_status input_stream_begin(struct input_stream *s, const struct item_input *in, int fd, struct slimset_error *err)
{
    enum slimset_status st = input_same(in, fd, err);
    s->in = in;
    s->fd = fd;
    s->offset = in->offset;
    s->packed_left = in->packed_bytes;
    s->at = 0;
    s->crc = 0;
    hash_init(&s->hash);
    if (st == SLIMSET_OK && in->zip_local) {
        struct archive_member m = {.offset = in->offset, .zip_local = true, .packed_bytes = in->packed_bytes};
        st = archive_data_offset(fd, &m, &s->offset, err);
    }
    if (in->deflated == ARCHIVE_DEFLATE)
        isal_inflate_init(&s->inflate);
    return st;
}

uint64_t input_stream_bytes(const struct input_stream *s)
{
    return s->in->deflated == ARCHIVE_DEFLATE ? s->in->bytes : s->in->packed_bytes;
}

uint64_t input_stream_at(const struct input_stream *s)
{
    return s->at;
}

/* n of the packed bytes at most. */
static enum slimset_status read_packed(struct input_stream *s, void *to, size_t n, size_t *got, struct slimset_error *err)
{
    if (n > s->packed_left)
        n = (size_t)s->packed_left;
    enum slimset_status st = n > 0 ? io_pread(s->fd, to, n, s->offset, got, "input", err) : SLIMSET_OK;
    if (n == 0)
        *got = 0;
    if (st == SLIMSET_OK && *got < n)
        st = err_bad(err, SLIMSET_REJECT_TRUNCATED, "ends at byte %llu, before its size says", (unsigned long long)(s->offset + *got));
    s->offset += n;
    s->packed_left -= n;
    return st;
}

static enum slimset_status inflate(struct input_stream *s, uint8_t *to, size_t n, struct slimset_error *err)
{
    struct inflate_state *z = &s->inflate;
    while (n > 0) {
        size_t step = n < 1u << 30 ? n : 1u << 30, got;
        if (z->avail_in == 0 && s->packed_left > 0) {
            enum slimset_status st = read_packed(s, s->piece, sizeof s->piece, &got, err);
            if (st != SLIMSET_OK)
                return st;
            z->next_in = s->piece;
            z->avail_in = (uint32_t)got;
        }
        z->next_out = to;
        z->avail_out = (uint32_t)step;
        uint32_t in_before = z->avail_in;
        int ret = isal_inflate(z);
        size_t made = step - z->avail_out;
        if (ret < 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "damaged deflate data behind byte %llu", (unsigned long long)(s->at + made));
        to += made;
        n -= made;
        if (n > 0 && (z->block_state == ISAL_BLOCK_FINISH || (made == 0 && z->avail_in == in_before && s->packed_left == 0)))
            return err_bad(err, SLIMSET_REJECT_TRUNCATED, "deflate data end too early: before byte %llu of %llu",
                           (unsigned long long)s->in->bytes - n, (unsigned long long)s->in->bytes);
    }
    return SLIMSET_OK;
}

enum slimset_status input_stream_read(struct input_stream *s, void *to, size_t n, struct slimset_error *err)
{
    size_t got = 0;
    enum slimset_status st;
    if (n > input_stream_bytes(s) - s->at)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "ends after %llu bytes, %zu more are wanted",
                       (unsigned long long)input_stream_bytes(s), n);
    if (s->in->deflated == ARCHIVE_DEFLATE)
        st = inflate(s, to, n, err);
    else
        st = read_packed(s, to, n, &got, err);
    if (st != SLIMSET_OK || n == 0)
        return st;
    hash_update(&s->hash, to, n);
    if (s->in->has_crc)
        s->crc = archive_crc32(s->crc, to, n);
    s->at += n;
    return SLIMSET_OK;
}

/* Nothing may follow: neither output, nor input behind the stream's end. */
static enum slimset_status inflate_end(struct input_stream *s, struct slimset_error *err)
{
    struct inflate_state *z = &s->inflate;
    uint8_t more;
    while (z->block_state != ISAL_BLOCK_FINISH) {
        size_t got = 0;
        if (z->avail_in == 0) {
            enum slimset_status st = read_packed(s, s->piece, sizeof s->piece, &got, err);
            if (st != SLIMSET_OK)
                return st;
            z->next_in = s->piece;
            z->avail_in = (uint32_t)got;
        }
        uint32_t in_before = z->avail_in;
        z->next_out = &more;
        z->avail_out = 1;
        int ret = isal_inflate(z);
        if (z->avail_out == 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "deflate data unpack to more than %llu bytes", (unsigned long long)s->in->bytes);
        if (ret < 0)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "damaged deflate data at their end");
        if (z->block_state != ISAL_BLOCK_FINISH && z->avail_in == in_before && s->packed_left == 0)
            return err_bad(err, SLIMSET_REJECT_TRUNCATED, "deflate data have no end");
    }
    uint64_t behind = s->packed_left + z->avail_in + (uint64_t)(z->read_in_length > 0 ? z->read_in_length / 8 : 0);
    return behind == 0 ? SLIMSET_OK : err_bad(err, SLIMSET_REJECT_CORRUPT, "%llu bytes behind the end of deflate data",
                                              (unsigned long long)behind);
}

enum slimset_status input_stream_end(struct input_stream *s, uint64_t *hash, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    while (st == SLIMSET_OK && s->at < input_stream_bytes(s)) {
        uint64_t left = input_stream_bytes(s) - s->at;
        st = input_stream_read(s, s->rest, left < sizeof s->rest ? (size_t)left : sizeof s->rest, err);
    }
    if (st == SLIMSET_OK && s->in->deflated == ARCHIVE_DEFLATE)
        st = inflate_end(s, err);
    if (st == SLIMSET_OK && s->in->has_crc && s->crc != s->in->crc32)
        st = err_bad(err, SLIMSET_REJECT_CHECKSUM, "CRC-32 is %08x, the archive says %08x", s->crc, s->in->crc32);
    if (st == SLIMSET_OK)
        st = input_same(s->in, s->fd, err);
    *hash = hash_value(&s->hash);
    return st;
}
