/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <sys/stat.h>

#include "archive.h"
#include "base/io.h"

enum slimset_status input_same(const struct item_input *in, int fd, struct slimset_error *err)
{
    if (in->mtime_ns == 0)
        return SLIMSET_OK;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_os(err, "stat");
    int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if ((uint64_t)st.st_size != in->bytes || mtime_ns != in->mtime_ns)
        return err_bad(err, SLIMSET_REJECT_CHANGED, "changed since it was listed (%llu bytes then, %llu now)",
                       (unsigned long long)in->bytes, (unsigned long long)st.st_size);
    return SLIMSET_OK;
}

static enum slimset_status read_exactly(int fd, uint64_t offset, uint64_t n, struct buf *out, struct slimset_error *err)
{
    if (n > INPUT_BYTES_MAX)
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "%llu bytes, more than the %d that one input may have",
                       (unsigned long long)n, INPUT_BYTES_MAX);
    size_t got;
    enum slimset_status st = buf_reserve(out, n, err);
    if (st == SLIMSET_OK)
        st = io_pread(fd, out->data + out->len, n, offset, &got, "input", err);
    if (st != SLIMSET_OK)
        return st;
    if (got != n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "ends after %zu of %llu bytes", got, (unsigned long long)n);
    out->len += n;
    return SLIMSET_OK;
}

static enum slimset_status inflate_member(const struct item_input *in, const struct buf *packed, struct buf *out,
                                          struct slimset_error *err)
{
    if (in->bytes > INPUT_BYTES_MAX)
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "%llu bytes unpacked, more than the %d that one input may have",
                       (unsigned long long)in->bytes, INPUT_BYTES_MAX);
    enum slimset_status st = buf_reserve(out, in->bytes, err);
    if (st == SLIMSET_OK)
        st = archive_inflate(packed->data, packed->len, out->data + out->len, in->bytes, err);
    if (st == SLIMSET_OK)
        out->len += in->bytes;
    return st;
}

enum slimset_status input_read(const struct item_input *in, int fd, struct buf *packed, struct buf *out,
                               struct slimset_error *err)
{
    size_t start = out->len;
    uint64_t offset = in->offset;
    enum slimset_status st = input_same(in, fd, err);
    if (st == SLIMSET_OK && in->zip_local) {
        struct archive_member m = {.offset = in->offset, .zip_local = true, .packed_bytes = in->packed_bytes};
        st = archive_data_offset(fd, &m, &offset, err);
    }
    if (st != SLIMSET_OK)
        return st;
    if (in->deflated == ARCHIVE_DEFLATE) {
        packed->len = 0;
        st = read_exactly(fd, offset, in->packed_bytes, packed, err);
        if (st == SLIMSET_OK)
            st = inflate_member(in, packed, out, err);
    } else {
        st = read_exactly(fd, offset, in->packed_bytes, out, err);
    }
    if (st == SLIMSET_OK && in->has_crc) {
        uint32_t crc = archive_crc32(0, out->data + start, out->len - start);
        if (crc != in->crc32)
            st = err_bad(err, SLIMSET_REJECT_CHECKSUM, "CRC-32 is %08x, the archive says %08x", crc, in->crc32);
    }
    if (st == SLIMSET_OK)
        st = input_same(in, fd, err);
    return st;
}
