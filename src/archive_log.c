/* SPDX-License-Identifier: Apache-2.0
 *
 * The record log: all entries of an archive in order, in some 30 bytes each. A record is
 *   flags u8, problem u8, common u, rest u, rest bytes (name against the name before),
 *   offset s (against the end of the record before), packed u, bytes s (against packed),
 *   crc32 4 bytes (only RECORD_CRC), mtime s (against the one before),
 *   target length u and bytes (only RECORD_LINK)
 * with u a base-128 number and s the same with the sign in the lowest bit. RECORD_RESTART says that
 * "before" means nothing: a reader may begin here. Records never straddle chunks, and chunks never
 * move, so that a problem can be changed in place.
 */
#include "archive_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    CHUNK_BYTES = 256 * 1024, /* more than two names of ARCHIVE_NAME_CAP */
    RECORD_NUMBERS_MAX = 96   /* bytes of a record without its strings */
};

/* 10 million members with names that differ in 60 bytes each fit; a hostile directory of 4 KiB
 * names ends here instead of with the machine's memory. */
static const uint64_t LOG_MAX_BYTES = 1ull << 30;

struct log_chunk {
    struct log_chunk *next;
    size_t len;
    uint8_t data[CHUNK_BYTES];
};

static uint8_t *put_u(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

static const uint8_t *get_u(const uint8_t *p, uint64_t *v)
{
    uint64_t x = 0;
    unsigned shift = 0;
    while (*p & 0x80) {
        x |= (uint64_t)(*p++ & 0x7f) << shift;
        shift += 7;
    }
    *v = x | (uint64_t)*p++ << shift;
    return p;
}

/* Differences wrap around in 64 bits, and so do their sums: every value comes back. */
static uint64_t fold_sign(uint64_t d) { return d << 1 ^ (0 - (d >> 63)); }

static uint64_t unfold_sign(uint64_t z) { return z >> 1 ^ (0 - (z & 1)); }

enum slimset_status log_init(struct record_log *l, struct slimset_error *err)
{
    memset(l, 0, sizeof *l);
    l->name = malloc(ARCHIVE_NAME_CAP);
    return l->name != NULL ? SLIMSET_OK : err_nomem(err, ARCHIVE_NAME_CAP);
}

void log_fini(struct record_log *l)
{
    for (struct log_chunk *c = l->first, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(l->name);
    memset(l, 0, sizeof *l);
}

static enum slimset_status room(struct record_log *l, size_t n, struct slimset_error *err)
{
    if (l->last != NULL && l->last->len + n <= CHUNK_BYTES)
        return SLIMSET_OK;
    if (l->bytes + sizeof(struct log_chunk) > LOG_MAX_BYTES)
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE,
                       "names of the archive's members take more than %llu MiB",
                       (unsigned long long)(LOG_MAX_BYTES >> 20));
    struct log_chunk *c = malloc(sizeof *c);
    if (c == NULL)
        return err_nomem(err, sizeof *c);
    c->next = NULL;
    c->len = 0;
    if (l->last != NULL)
        l->last->next = c;
    else
        l->first = c;
    l->last = c;
    l->bytes += sizeof *c;
    return SLIMSET_OK;
}

enum slimset_status log_append(struct record_log *l, const struct record *r,
                               struct slimset_error *err)
{
    assert(r->name_bytes <= ARCHIVE_NAME_CAP && r->target_bytes <= ARCHIVE_NAME_CAP);
    enum slimset_status st =
        room(l, (size_t)r->name_bytes + r->target_bytes + RECORD_NUMBERS_MAX, err);
    if (st != SLIMSET_OK)
        return st;
    uint32_t common = 0;
    while (common < r->name_bytes && common < l->base.name_bytes &&
           r->name[common] == l->name[common])
        common++;
    uint32_t rest = r->name_bytes - common;
    uint8_t *p = l->last->data + l->last->len;
    *p++ = l->restart ? r->flags | RECORD_RESTART : r->flags;
    l->restart = false;
    *p++ = r->problem;
    p = put_u(p, common);
    p = put_u(p, rest);
    if (rest != 0) {
        memcpy(p, r->name + common, rest);
        memcpy(l->name + common, r->name + common, rest);
    }
    p += rest;
    p = put_u(p, fold_sign(r->offset - l->base.end));
    p = put_u(p, r->packed_bytes);
    p = put_u(p, fold_sign(r->bytes - r->packed_bytes));
    if (r->flags & RECORD_CRC) {
        put_le32(p, r->crc32);
        p += 4;
    }
    p = put_u(p, fold_sign((uint64_t)r->mtime_s - (uint64_t)l->base.mtime_s));
    if (r->flags & RECORD_LINK) {
        p = put_u(p, r->target_bytes);
        if (r->target_bytes != 0)
            memcpy(p, r->target, r->target_bytes);
        p += r->target_bytes;
    }
    l->last->len = (size_t)(p - l->last->data);
    l->base.end = r->offset + r->packed_bytes;
    l->base.mtime_s = r->mtime_s;
    l->base.name_bytes = r->name_bytes;
    l->records++;
    l->links += (r->flags & RECORD_LINK) != 0;
    l->containers += (r->flags & RECORD_CONTAINER) != 0;
    l->seed = XXH3_64bits_withSeed(l->name, r->name_bytes, l->seed);
    return SLIMSET_OK;
}

struct log_mark log_mark_here(struct record_log *l)
{
    memset(&l->base, 0, sizeof l->base);
    l->restart = true;
    return (struct log_mark){.chunk = l->last, .at = l->last != NULL ? l->last->len : 0};
}

enum slimset_status log_reader_init(struct log_reader *rd, const struct record_log *l,
                                    const struct log_mark *mark, struct slimset_error *err)
{
    memset(rd, 0, sizeof *rd);
    rd->name = malloc(ARCHIVE_NAME_CAP);
    if (rd->name == NULL)
        return err_nomem(err, ARCHIVE_NAME_CAP);
    /* A mark set in the empty log has no chunk yet: it stands for the start. */
    if (mark != NULL && mark->chunk != NULL) {
        rd->chunk = mark->chunk;
        rd->at = mark->at;
    } else {
        rd->chunk = l->first;
    }
    return SLIMSET_OK;
}

void log_reader_fini(struct log_reader *rd)
{
    free(rd->name);
    memset(rd, 0, sizeof *rd);
}

bool log_read(struct log_reader *rd, struct record *r)
{
    while (rd->chunk != NULL && rd->at == rd->chunk->len) {
        rd->chunk = rd->chunk->next;
        rd->at = 0;
    }
    if (rd->chunk == NULL)
        return false;
    const uint8_t *p = rd->chunk->data + rd->at;
    uint64_t common, rest, v;
    memset(r, 0, sizeof *r);
    r->flags = *p++;
    if (r->flags & RECORD_RESTART)
        memset(&rd->base, 0, sizeof rd->base);
    rd->problem = rd->chunk->data + (p - rd->chunk->data);
    r->problem = *p++;
    p = get_u(p, &common);
    p = get_u(p, &rest);
    assert(common + rest <= ARCHIVE_NAME_CAP);
    memcpy(rd->name + common, p, rest);
    p += rest;
    r->name = rd->name;
    r->name_bytes = (uint32_t)(common + rest);
    p = get_u(p, &v);
    r->offset = rd->base.end + unfold_sign(v);
    p = get_u(p, &r->packed_bytes);
    p = get_u(p, &v);
    r->bytes = r->packed_bytes + unfold_sign(v);
    if (r->flags & RECORD_CRC) {
        r->crc32 = get_le32(p);
        p += 4;
    }
    p = get_u(p, &v);
    r->mtime_s = (int64_t)((uint64_t)rd->base.mtime_s + unfold_sign(v));
    if (r->flags & RECORD_LINK) {
        p = get_u(p, &v);
        r->target_bytes = (uint32_t)v;
        r->target = (const char *)p;
        p += v;
    }
    rd->at = (size_t)(p - rd->chunk->data);
    rd->base.end = r->offset + r->packed_bytes;
    rd->base.mtime_s = r->mtime_s;
    rd->base.name_bytes = r->name_bytes;
    return true;
}
