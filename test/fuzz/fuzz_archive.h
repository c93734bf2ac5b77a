/* SPDX-License-Identifier: Apache-2.0
 * A zip or tar listed as a lister does it; every member without a problem is read as a worker does. */
#ifndef FUZZ_ARCHIVE_H
#define FUZZ_ARCHIVE_H

#include "archive.h"
#include "fuzz.h"

struct fuzz_members {
    int fd, spool;
    uint64_t bytes, read, n;
    struct hash_stream hash;
};

static void fuzz_name(const struct archive_member *m)
{
    MUST(m->name_bytes > 0 && m->name[0] != '/' && memchr(m->name, '\0', m->name_bytes) == NULL);
    for (uint32_t at = 0; at < m->name_bytes;) { /* no component leads up */
        const char *c = m->name + at, *slash = memchr(c, '/', m->name_bytes - at);
        size_t len = slash != NULL ? (size_t)(slash - c) : m->name_bytes - at;
        MUST(len != 0 && !(len == 1 && c[0] == '.') && !(len == 2 && c[0] == '.' && c[1] == '.'));
        at += (uint32_t)len + 1;
    }
}

static enum slimset_status fuzz_member(void *arg, const struct archive_member *m, struct slimset_error *err)
{
    struct fuzz_members *to = arg;
    to->n++;
    hash_update(&to->hash, m->name, m->name_bytes);
    hash_update(&to->hash, &m->problem, sizeof m->problem);
    hash_update(&to->hash, &m->bytes, sizeof m->bytes);
    MUST(m->problem < SLIMSET_REJECT_COUNT);
    if (m->problem != SLIMSET_REJECT_NONE)
        return SLIMSET_OK;
    fuzz_name(m);
    int fd = m->in_spool ? to->spool : to->fd;
    uint64_t at;
    enum slimset_status st = archive_data_offset(fd, m, &at, err);
    fuzz_fault(st, err);
    MUST(m->method == ARCHIVE_DEFLATE || m->bytes == m->packed_bytes);
    if (st != SLIMSET_OK || m->bytes > 1 << 20 || (to->read += m->bytes) > 4 << 20)
        return SLIMSET_OK;
    uint8_t *packed = malloc(m->packed_bytes + 1), *out = malloc(m->bytes + 1);
    MUST(packed != NULL && out != NULL);
    ssize_t got = pread(fd, packed, m->packed_bytes, (off_t)at);
    MUST(got == (ssize_t)m->packed_bytes); /* archive_data_offset has looked */
    if (m->method == ARCHIVE_DEFLATE)
        fuzz_fault(archive_inflate(packed, m->packed_bytes, out, m->bytes, err), err);
    free(packed);
    free(out);
    return SLIMSET_OK;
}

static uint64_t fuzz_list(const uint8_t *data, size_t n, enum image_format format)
{
    struct slimset_error err = {0};
    struct archive_result result;
    struct archive_limits limits = archive_limits_default;
    struct fuzz_members m = {.fd = fuzz_file(data, n), .spool = fuzz_file(NULL, 0), .bytes = n};
    limits.max_members = 5000;
    limits.max_total_bytes = 1 << 24;
    limits.max_member_bytes = 1 << 22;
    hash_init(&m.hash);
    memset(&result, 0, sizeof result);
    enum slimset_status st = archive_list(m.fd, 0, n, format, 1, m.spool, &limits, fuzz_member, &m, &result, &err);
    fuzz_fault(st, &err);
    MUST(st == SLIMSET_OK ? m.n == result.members : m.n == 0);
    MUST(m.n <= limits.max_members);
    struct stat spool;
    MUST(fstat(m.spool, &spool) == 0 && spool.st_size <= 2 << 24);
    close(m.fd);
    close(m.spool);
    return hash_value(&m.hash) + st;
}

#endif
