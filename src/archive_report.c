/* SPDX-License-Identifier: Apache-2.0
 *
 * What can only be said of an archive when all of it was seen: which of equal names is the last,
 * and what a hard link stands for. Both by 64-bit hashes of names; with 10 million members two
 * different names share one with a chance of 3 in a million, and the earlier would then be reported
 * (not lost) as a duplicate. The hash is seeded with a hash over all names in order, so that nobody
 * can choose names that crowd the table: changing one changes where all belong.
 */
#include "archive_impl.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

__extension__ typedef unsigned __int128 wide;

/* An open-addressed map from hash to a number; hash 0 marks a free slot. Arrays side by side
 * take 12 bytes a slot instead of 16. Never resized: the number of keys is known. */
struct name_map {
    uint64_t *hash;
    uint32_t *value;
    size_t slots;
    uint64_t seed;
};

static void map_fini(struct name_map *m)
{
    free(m->hash);
    free(m->value);
    memset(m, 0, sizeof *m);
}

static enum slimset_status map_init(struct name_map *m, uint64_t keys, uint64_t seed,
                                    struct slimset_error *err)
{
    m->seed = seed;
    m->slots = (size_t)(keys + keys / 3 + 8);
    m->hash = calloc(m->slots, sizeof *m->hash);
    m->value = calloc(m->slots, sizeof *m->value);
    if (m->hash != NULL && m->value != NULL)
        return SLIMSET_OK;
    map_fini(m);
    return err_nomem(err, (keys + keys / 3 + 8) * 12);
}

static void map_clear(struct name_map *m) { memset(m->hash, 0, m->slots * sizeof *m->hash); }

/* The slot of a name: its own, or the free one where it belongs. *hash: what to put there. */
static size_t map_slot(const struct name_map *m, const char *name, size_t n, uint64_t *hash)
{
    const uint64_t h = XXH3_64bits_withSeed(name, n, m->seed);
    *hash = h != 0 ? h : 1;
    size_t i = (size_t)((wide)*hash * m->slots >> 64);
    while (m->hash[i] != 0 && m->hash[i] != *hash)
        i = i + 1 < m->slots ? i + 1 : 0;
    return i;
}

static void map_put(struct name_map *m, const struct record *r, uint32_t value)
{
    uint64_t hash;
    const size_t i = map_slot(m, r->name, r->name_bytes, &hash);
    m->hash[i] = hash;
    m->value[i] = value;
}

/* Whether another record has claimed the name since. */
static bool map_superseded(const struct name_map *m, const struct record *r, uint32_t ordinal)
{
    uint64_t hash;
    const size_t i = map_slot(m, r->name, r->name_bytes, &hash);
    return m->hash[i] != 0 && m->value[i] != ordinal;
}

/* Reads records that are to be reported or opened: members of an inner archive only when it is good
 * itself. *ordinal counts all records of the log. */
struct live_reader {
    struct log_reader rd;
    uint32_t ordinal;
    bool dead; /* the container last seen */
};

static bool live_read(struct live_reader *lr, struct record *r)
{
    while (log_read(&lr->rd, r)) {
        lr->ordinal++;
        if (r->flags & RECORD_CONTAINER)
            lr->dead = r->problem != SLIMSET_REJECT_NONE;
        if (!(r->flags & RECORD_INNER) || !lr->dead)
            return true;
    }
    return false;
}

/* Inner archives with a later namesake are dead, and so is every outer member with one: first,
 * because what is inside a dead one claims no names. */
static enum slimset_status settle_containers(struct lister *l, struct name_map *m,
                                             struct slimset_error *err)
{
    for (int pass = 0; pass < 2; pass++) {
        struct log_reader rd;
        struct record r;
        enum slimset_status st = log_reader_init(&rd, &l->log, NULL, err);
        if (st != SLIMSET_OK)
            return st;
        for (uint32_t ordinal = 1; log_read(&rd, &r); ordinal++) {
            if ((r.flags & RECORD_INNER) || r.problem != SLIMSET_REJECT_NONE)
                continue;
            if (pass == 0)
                map_put(m, &r, ordinal);
            else if (map_superseded(m, &r, ordinal))
                *rd.problem = SLIMSET_REJECT_DUPLICATE;
        }
        log_reader_fini(&rd);
    }
    map_clear(m);
    return SLIMSET_OK;
}

/* The last readable member of a name has it. (An unreadable later one is reported as what it is;
 * that is no reason to give up the one before.) */
static enum slimset_status claim_names(struct lister *l, struct name_map *m,
                                       struct slimset_error *err)
{
    struct live_reader lr = {.ordinal = 0};
    struct record r;
    enum slimset_status st = log_reader_init(&lr.rd, &l->log, NULL, err);
    if (st != SLIMSET_OK)
        return st;
    while (live_read(&lr, &r)) {
        if (r.problem == SLIMSET_REJECT_NONE && !(r.flags & RECORD_CONTAINER))
            map_put(m, &r, lr.ordinal);
    }
    log_reader_fini(&lr.rd);
    return SLIMSET_OK;
}

/* ---- hard links ---- */

struct place {
    uint64_t offset, bytes;
    bool known, in_spool;
};

struct link_map {
    struct name_map names; /* of targets: index into place */
    struct place *place;
};

static void links_fini(struct link_map *k)
{
    map_fini(&k->names);
    free(k->place);
    k->place = NULL;
}

static enum slimset_status links_init(struct link_map *k, struct lister *l,
                                      struct slimset_error *err)
{
    struct live_reader lr = {.ordinal = 0};
    struct record r;
    uint32_t n = 0;
    if (l->log.links == 0)
        return SLIMSET_OK;
    enum slimset_status st = map_init(&k->names, l->log.links, l->log.seed, err);
    if (st != SLIMSET_OK)
        return st;
    k->place = calloc(l->log.links, sizeof *k->place);
    if (k->place == NULL)
        return err_nomem(err, l->log.links * sizeof *k->place);
    if ((st = log_reader_init(&lr.rd, &l->log, NULL, err)) != SLIMSET_OK)
        return st;
    while (live_read(&lr, &r)) {
        if (!(r.flags & RECORD_LINK))
            continue;
        uint64_t hash;
        const size_t i = map_slot(&k->names, r.target, r.target_bytes, &hash);
        if (k->names.hash[i] == 0) {
            k->names.hash[i] = hash;
            k->names.value[i] = n++;
        }
    }
    log_reader_fini(&lr.rd);
    return SLIMSET_OK;
}

static struct place *links_find(const struct link_map *k, const char *name, size_t n)
{
    if (k->place == NULL)
        return NULL;
    uint64_t hash;
    const size_t i = map_slot(&k->names, name, n, &hash);
    return k->names.hash[i] != 0 ? &k->place[k->names.value[i]] : NULL;
}

/* Turns a link into its target as last seen; notes members that links behind them may name. A
 * target that has a later namesake is still there: links mean bytes, not names. */
static void links_step(const struct link_map *k, struct lister *l, struct record *r)
{
    if ((r->flags & RECORD_LINK) && r->problem == SLIMSET_REJECT_NONE) {
        const struct place *to = links_find(k, r->target, r->target_bytes);
        if (to == NULL || !to->known) {
            r->problem = SLIMSET_REJECT_LINK;
        } else if (to->bytes > l->limits.max_total_bytes - l->total_bytes) {
            r->problem = SLIMSET_REJECT_TOO_LARGE;
        } else {
            l->total_bytes += to->bytes;
            r->offset = to->offset;
            r->bytes = r->packed_bytes = to->bytes;
            r->flags = (uint8_t)((r->flags & ~RECORD_SPOOL) | (to->in_spool ? RECORD_SPOOL : 0));
        }
    }
    struct place *own = links_find(k, r->name, r->name_bytes);
    if (own == NULL || (r->flags & (RECORD_DEFLATE | RECORD_ZIP_LOCAL)))
        return;
    own->known = r->problem == SLIMSET_REJECT_NONE || r->problem == SLIMSET_REJECT_DUPLICATE;
    own->offset = r->offset;
    own->bytes = r->bytes;
    own->in_spool = (r->flags & RECORD_SPOOL) != 0;
}

enum slimset_status archive_report(struct lister *l, archive_member_fn *fn, void *arg,
                                   struct slimset_error *err)
{
    struct name_map names = {0};
    struct link_map links = {0};
    struct live_reader lr = {.ordinal = 0};
    struct record r;
    enum slimset_status st = map_init(&names, l->log.records, l->log.seed, err);
    if (st != SLIMSET_OK)
        return st;
    if ((l->log.containers != 0 && (st = settle_containers(l, &names, err)) != SLIMSET_OK) ||
        (st = claim_names(l, &names, err)) != SLIMSET_OK ||
        (st = links_init(&links, l, err)) != SLIMSET_OK ||
        (st = log_reader_init(&lr.rd, &l->log, NULL, err)) != SLIMSET_OK)
        goto out;
    while (live_read(&lr, &r)) {
        links_step(&links, l, &r);
        if ((r.flags & RECORD_CONTAINER) && r.problem == SLIMSET_REJECT_NONE)
            continue;
        if (r.problem == SLIMSET_REJECT_NONE && map_superseded(&names, &r, lr.ordinal))
            r.problem = SLIMSET_REJECT_DUPLICATE;
        const struct archive_member m = {
            .name = r.name,
            .name_bytes = r.name_bytes,
            .method = r.flags & RECORD_DEFLATE ? ARCHIVE_DEFLATE : ARCHIVE_PLAIN,
            .offset = r.offset,
            .zip_local = (r.flags & RECORD_ZIP_LOCAL) != 0,
            .packed_bytes = r.packed_bytes,
            .bytes = r.bytes,
            .crc32 = r.crc32,
            .has_crc = (r.flags & RECORD_CRC) != 0,
            .in_spool = (r.flags & RECORD_SPOOL) != 0,
            .mtime_s = r.mtime_s,
            .problem = (enum slimset_reject)r.problem,
        };
        l->result->members++;
        if ((st = fn(arg, &m, err)) != SLIMSET_OK)
            goto out;
    }
out:
    log_reader_fini(&lr.rd);
    links_fini(&links);
    map_fini(&names);
    return st;
}
