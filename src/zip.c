/* SPDX-License-Identifier: Apache-2.0
 *
 * The central directory of a zip: finding it, walking it, and entries that share bytes.
 *
 * Only the central directory is believed; local headers are looked at when a member is read, for
 * their length alone. Numbers in comments are sections of the format's public description
 * (APPNOTE).
 */
#include "archive_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    EOCD_BYTES = 22,
    EOCD_COMMENT_MAX = 65535,
    EOCD64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    ENTRY_MAX = CENTRAL_BYTES + 3 * 65535, /* name, extra fields and comment at their longest */
    WINDOW_BYTES = 1 << 20,                /* of the directory held in memory */
    FLAG_ENCRYPTED = 1,
    FLAG_PATCH = 1 << 5,
    FLAG_STRONG = 1 << 6,
    FLAG_MASKED = 1 << 13,
    METHOD_STORED = 0,
    METHOD_DEFLATE = 8,
    METHOD_AES = 99,
    HOST_UNIX = 3,
    HOST_DARWIN = 19,
    EXTRA_ZIP64 = 0x0001,
    EXTRA_TIME = 0x5455,
    EXTRA_UTF8_NAME = 0x7075,
    EXTRA_AES = 0x9901
};

static const uint32_t SIG_EOCD = 0x06054b50, SIG_EOCD64 = 0x06064b50, SIG_LOCATOR = 0x07064b50,
                      SIG_CENTRAL = 0x02014b50, SIG_EXTRA_DATA = 0x08064b50,
                      SIG_DIGITAL = 0x05054b50;

/* Whether the directory really begins at `at`; *sig is what stands there. */
static enum slimset_status begins_at(const struct view *v, uint64_t at, uint64_t dir_bytes,
                                     uint32_t *sig, bool *yes, struct slimset_error *err)
{
    uint8_t b[4];
    *yes = false;
    *sig = 0;
    if (dir_bytes == 0) {
        *yes = true;
        return SLIMSET_OK;
    }
    if (dir_bytes < CENTRAL_BYTES || at > v->bytes || v->bytes - at < dir_bytes)
        return SLIMSET_OK;
    enum slimset_status st = view_read(v, at, b, sizeof b, err);
    if (st != SLIMSET_OK)
        return st;
    *sig = get_le32(b);
    *yes = *sig == SIG_CENTRAL;
    return SLIMSET_OK;
}

/* 4.3.14, 4.3.15: the zip64 end record for an end record at `eocd_at`; *found says whether there
 * is one (rec then holds it, *at where). */
static enum slimset_status find_eocd64(const struct view *v, uint64_t eocd_at,
                                       uint8_t rec[EOCD64_BYTES], uint64_t *at, bool *found,
                                       struct slimset_error *err)
{
    uint8_t loc[LOCATOR_BYTES];
    *found = false;
    if (eocd_at < LOCATOR_BYTES + EOCD64_BYTES)
        return SLIMSET_OK;
    enum slimset_status st = view_read(v, eocd_at - LOCATOR_BYTES, loc, sizeof loc, err);
    if (st != SLIMSET_OK)
        return st;
    if (get_le32(loc) != SIG_LOCATOR)
        return SLIMSET_OK;
    if (get_le32(loc + 16) > 1 || get_le32(loc + 4) != 0)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "one part of a split zip archive");
    /* The locator tells the place in the archive as written; behind a self-extracting prefix
     * that is wrong, but then the record lies right before the locator unless it has an
     * extension. */
    const uint64_t last = eocd_at - LOCATOR_BYTES - EOCD64_BYTES;
    const uint64_t told = get_le64(loc + 8);
    const uint64_t place[2] = {last, told};
    for (int i = 0; i < 2 && !*found; i++) {
        if (place[i] > last)
            continue;
        if ((st = view_read(v, place[i], rec, EOCD64_BYTES, err)) != SLIMSET_OK)
            return st;
        *found = get_le32(rec) == SIG_EOCD64;
        *at = place[i];
    }
    return SLIMSET_OK;
}

/* Judges one candidate for the end record. SLIMSET_BAD_INPUT: it is one, but the archive is not
 * for us. */
static enum slimset_status try_eocd(const struct view *v, uint64_t eocd_at, const uint8_t *eocd,
                                    struct zip_directory *d, bool *good, struct slimset_error *err)
{
    uint8_t rec[EOCD64_BYTES];
    uint64_t end = eocd_at, at64 = 0;
    bool have64;
    *good = false;
    enum slimset_status st = find_eocd64(v, eocd_at, rec, &at64, &have64, err);
    if (st != SLIMSET_OK)
        return st;
    uint32_t disk = get_le16(eocd + 4), dir_disk = get_le16(eocd + 6);
    uint64_t offset = get_le32(eocd + 16);
    d->entries = get_le16(eocd + 10);
    d->bytes = get_le32(eocd + 12);
    d->entries_mask = 0xffff;
    if (have64) {
        end = at64;
        if (d->entries == 0xffff) {
            d->entries = get_le64(rec + 32);
            d->entries_mask = UINT64_MAX;
        }
        if (d->bytes == 0xffffffff)
            d->bytes = get_le64(rec + 40);
        if (offset == 0xffffffff)
            offset = get_le64(rec + 48);
        if (disk == 0xffff)
            disk = get_le32(rec + 16);
        if (dir_disk == 0xffff)
            dir_disk = get_le32(rec + 20);
        /* 7.3.4: a version 2 record tells of an encrypted directory. */
        if (get_le64(rec + 4) >= EOCD64_BYTES - 12 + 28 && get_le16(rec + 14) >= 62)
            return err_bad(err, SLIMSET_REJECT_ENCRYPTED,
                           "the zip archive's directory is encrypted");
    }
    if (disk != 0 || dir_disk != 0)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "one part of a split zip archive");
    if (d->bytes > end)
        return SLIMSET_OK;
    /* The directory ends where the end record begins, whatever offsets say: what they are wrong
     * by is the length of a prefix. Something between the two (rare) leaves the offset as the
     * better word. */
    uint32_t sig = 0, sig2;
    d->at = end - d->bytes;
    if ((st = begins_at(v, d->at, d->bytes, &sig, good, err)) != SLIMSET_OK)
        return st;
    if (*good && d->at >= offset) {
        d->delta = d->at - offset;
        return SLIMSET_OK;
    }
    d->delta = 0;
    if (offset <= end - d->bytes) {
        d->at = offset;
        if ((st = begins_at(v, d->at, d->bytes, &sig2, good, err)) != SLIMSET_OK || *good)
            return st;
    }
    *good = false;
    if (sig == SIG_EXTRA_DATA)
        return err_bad(err, SLIMSET_REJECT_ENCRYPTED, "the zip archive's directory is encrypted");
    return SLIMSET_OK;
}

enum slimset_status zip_locate(const struct view *v, struct zip_directory *d,
                               struct slimset_error *err)
{
    memset(d, 0, sizeof *d);
    if (v->bytes < EOCD_BYTES)
        return err_bad(err, v->bytes == 0 ? SLIMSET_REJECT_EMPTY : SLIMSET_REJECT_CORRUPT,
                       "not a zip archive: only %llu bytes", (unsigned long long)v->bytes);
    const size_t tail =
        v->bytes < EOCD_BYTES + EOCD_COMMENT_MAX ? (size_t)v->bytes : EOCD_BYTES + EOCD_COMMENT_MAX;
    uint8_t *b = malloc(tail);
    if (b == NULL)
        return err_nomem(err, tail);
    bool good = false, seen = false;
    struct slimset_error refused = {.status = SLIMSET_OK};
    const uint64_t base = v->bytes - tail;
    enum slimset_status st = view_read(v, base, b, tail, err);
    /* From the end backwards; first those whose comment ends with the file, then with bytes
     * behind. */
    for (int pass = 0; st == SLIMSET_OK && pass < 2 && !good; pass++) {
        for (size_t i = tail - EOCD_BYTES + 1; i-- > 0;) {
            if (b[i] != 'P' || get_le32(b + i) != SIG_EOCD)
                continue;
            const size_t room = tail - i - EOCD_BYTES, comment = get_le16(b + i + 20);
            if (comment > room || (comment == room) != (pass == 0))
                continue;
            seen = true;
            st = try_eocd(v, base + i, b + i, d, &good, err);
            if (st == SLIMSET_BAD_INPUT && err->reject != SLIMSET_REJECT_TRUNCATED) {
                if (refused.status == SLIMSET_OK)
                    refused = *err;
                st = SLIMSET_OK;
            }
            if (st != SLIMSET_OK || good)
                break;
        }
    }
    free(b);
    if (st != SLIMSET_OK || good)
        return st;
    if (refused.status != SLIMSET_OK) {
        *err = refused;
        return err->status;
    }
    if (seen)
        return err_bad(err, SLIMSET_REJECT_CORRUPT,
                       "the zip archive's end record points to no directory");
    return err_bad(
        err, SLIMSET_REJECT_TRUNCATED,
        "no end record: not a zip archive, or cut off, or the first part of a split one");
}

/* 4.4.6: DOS date and time, read as UTC since no zone is stored. Days by the usual count from
 * March. */
static int64_t dos_time(uint32_t t, uint32_t date)
{
    const int64_t year = 1980 + (date >> 9), month = date >> 5 & 15, day = date & 31;
    const int64_t hour = t >> 11, minute = t >> 5 & 63, second = (t & 31) * 2;
    if (month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59)
        return 0;
    const int64_t m = (month + 9) % 12, y = year - (month < 3);
    const int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
    return days * 86400 + hour * 3600 + minute * 60 + second;
}

struct central {
    const uint8_t *p; /* the fixed part */
    const uint8_t *extra;
    size_t extra_bytes;
    uint32_t disk;
    uint64_t packed, bytes, local;
};

/* Extra fields (4.5): sizes beyond 32 bits, the time, the name in UTF-8. A field that does not
 * fit ends the list; what it would have told is then missing and shows in the checks of sizes. */
static void read_extra(struct central *c, struct entry *e)
{
    for (size_t at = 0; c->extra_bytes - at >= 4;) {
        const uint8_t *f = c->extra + at + 4;
        const size_t n = get_le16(c->extra + at + 2);
        if (n > c->extra_bytes - at - 4)
            return;
        switch (get_le16(c->extra + at)) {
        case EXTRA_ZIP64: {
            uint64_t *const field[3] = {&c->bytes, &c->packed, &c->local};
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*field[i] == 0xffffffff && n - used >= 8) {
                    *field[i] = get_le64(f + used);
                    used += 8;
                }
            }
            if (c->disk == 0xffff && n - used >= 4)
                c->disk = get_le32(f + used);
            break;
        }
        case EXTRA_TIME:
            if (n >= 5 && (f[0] & 1))
                e->mtime_s = (int32_t)get_le32(f + 1);
            break;
        case EXTRA_UTF8_NAME:
            /* Its CRC tells whether the plain name was changed by a tool that knows nothing of
             * it. */
            if (n > 5 && f[0] == 1 &&
                get_le32(f + 1) == archive_crc32(0, (const uint8_t *)e->name, e->name_bytes)) {
                e->name = (const char *)f + 5;
                e->name_bytes = n - 5;
            }
            break;
        case EXTRA_AES:
            e->problem = SLIMSET_REJECT_ENCRYPTED;
            break;
        default:
            break;
        }
        at += 4 + n;
    }
}

/* The kind of file a Unix writer recorded. *skip: a directory. */
static enum slimset_reject kind_problem(const struct central *c, const struct entry *e, bool *skip)
{
    const uint32_t host = c->p[5], attr = get_le32(c->p + 38);
    *skip = false;
    if (e->name_bytes != 0 && e->name[e->name_bytes - 1] == '/') {
        *skip = c->bytes == 0;
        return *skip ? SLIMSET_REJECT_NONE : SLIMSET_REJECT_NAME;
    }
    if ((attr & 0x10) && c->bytes == 0) {
        *skip = true;
        return SLIMSET_REJECT_NONE;
    }
    if (host != HOST_UNIX && host != HOST_DARWIN)
        return SLIMSET_REJECT_NONE;
    switch (attr >> 16 & S_IFMT) {
    case 0:
    case S_IFREG:
        return SLIMSET_REJECT_NONE;
    case S_IFDIR:
        *skip = c->bytes == 0;
        return *skip ? SLIMSET_REJECT_NONE : SLIMSET_REJECT_NOT_REGULAR;
    case S_IFLNK:
        return SLIMSET_REJECT_LINK;
    default:
        return SLIMSET_REJECT_NOT_REGULAR;
    }
}

/* Everything else that can be wrong with an entry; its place in the file is set here. */
static enum slimset_reject entry_problem(const struct walk *w, const struct zip_directory *d,
                                         const struct central *c, struct entry *e)
{
    const uint32_t flags = get_le16(c->p + 8), method = get_le16(c->p + 10);
    e->deflate = method == METHOD_DEFLATE;
    e->packed_bytes = c->packed;
    e->bytes = c->bytes;
    /* Offsets that cannot be are not kept: what is reported must never be added up by others. */
    uint64_t local, need, end;
    if (__builtin_add_overflow(c->local, d->delta, &local) ||
        __builtin_add_overflow(c->packed, (uint64_t)LOCAL_BYTES, &need) ||
        __builtin_add_overflow(local, need, &end) || end > d->at) {
        e->offset = w->v.start;
        e->packed_bytes = 0;
        return SLIMSET_REJECT_CORRUPT;
    }
    e->offset = w->v.start + local;
    e->zip_local = true;
    if ((flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED)) || method == METHOD_AES)
        return SLIMSET_REJECT_ENCRYPTED;
    if (c->disk != 0 || (flags & FLAG_PATCH) ||
        (method != METHOD_STORED && method != METHOD_DEFLATE))
        return SLIMSET_REJECT_UNSUPPORTED;
    if (method == METHOD_STORED ? c->packed != c->bytes : c->packed == 0)
        return SLIMSET_REJECT_CORRUPT;
    return SLIMSET_REJECT_NONE;
}

static enum slimset_status add_entry(struct walk *w, const struct zip_directory *d,
                                     const uint8_t *p, struct slimset_error *err)
{
    const size_t name_bytes = get_le16(p + 28), extra_bytes = get_le16(p + 30);
    struct entry e = {
        .name = (const char *)p + CENTRAL_BYTES,
        .name_bytes = name_bytes,
        .mtime_s = dos_time(get_le16(p + 12), get_le16(p + 14)),
        .crc32 = get_le32(p + 16),
        .has_crc = true,
    };
    struct central c = {
        .p = p,
        .extra = p + CENTRAL_BYTES + name_bytes,
        .extra_bytes = extra_bytes,
        .disk = get_le16(p + 34),
        .packed = get_le32(p + 20),
        .bytes = get_le32(p + 24),
        .local = get_le32(p + 42),
    };
    read_extra(&c, &e);
    bool skip;
    const enum slimset_reject kind = kind_problem(&c, &e, &skip);
    if (skip)
        return SLIMSET_OK;
    const enum slimset_reject other = entry_problem(w, d, &c, &e);
    if (e.problem == SLIMSET_REJECT_NONE)
        e.problem = other;
    if (kind != SLIMSET_REJECT_NONE && e.problem != SLIMSET_REJECT_ENCRYPTED)
        e.problem = kind;
    return archive_add(w, &e, err);
}

/* ---- entries that share bytes ---- */

struct range {
    uint64_t start, end;
    uint8_t *problem; /* of the record */
};

static bool range_before(const struct range *a, const struct range *b)
{
    return a->start != b->start ? a->start < b->start : a->problem < b->problem;
}

static void sift(struct range *r, size_t i, size_t n)
{
    const struct range x = r[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && range_before(&r[child], &r[child + 1]))
            child++;
        if (!range_before(&x, &r[child]))
            break;
        r[i] = r[child];
    }
    r[i] = x;
}

/* Heap sort: never quadratic, whatever order a hostile directory has, and no second array. */
static void sort_ranges(struct range *r, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(r, i, n);
    for (size_t i = n; i-- > 1;) {
        const struct range x = r[0];
        r[0] = r[i];
        r[i] = x;
        sift(r, 0, i);
    }
}

/* Reads the next entry of this archive itself (not of one inside it) as a range: the least it
 * takes, that is without name and extra fields of its local header. */
static bool next_range(const struct walk *w, struct log_reader *rd, struct range *r)
{
    struct record rec;
    while (log_read(rd, &rec)) {
        if (((rec.flags & RECORD_INNER) != 0) != w->inner)
            continue;
        /* An opened inner archive and one that lies in the spool still stand for their packed
         * bytes. */
        if (!(rec.flags & RECORD_ZIP_LOCAL))
            continue;
        *r = (struct range){rec.offset, rec.offset + LOCAL_BYTES + rec.packed_bytes, rd->problem};
        return true;
    }
    return false;
}

/* A small zip can unpack to petabytes when its entries share the same packed bytes. Of entries
 * that overlap the one that begins first keeps its bytes, the others get problem ratio. Writers
 * put entries in order, so one look over the log is enough for almost every archive. */
static enum slimset_status mark_overlaps(struct walk *w, const struct log_mark *mark,
                                         struct slimset_error *err)
{
    struct log_reader rd = {0};
    struct range *all = NULL, r;
    size_t n = 0;
    uint64_t end = 0;
    bool in_order = true;
    enum slimset_status st = log_reader_init(&rd, &w->l->log, mark, err);
    if (st != SLIMSET_OK)
        return st;
    while (next_range(w, &rd, &r)) {
        in_order = in_order && r.start >= end;
        end = r.end;
        n++;
    }
    log_reader_fini(&rd);
    if (in_order)
        return SLIMSET_OK;
    all = calloc(n, sizeof *all);
    if (all == NULL)
        return err_nomem(err, n * sizeof *all);
    if ((st = log_reader_init(&rd, &w->l->log, mark, err)) != SLIMSET_OK)
        goto out;
    for (size_t i = 0; i < n && next_range(w, &rd, &all[i]); i++)
        ;
    sort_ranges(all, n);
    end = 0;
    for (size_t i = 0; i < n; i++) {
        if (all[i].start >= end)
            end = all[i].end;
        else if (*all[i].problem == SLIMSET_REJECT_NONE)
            *all[i].problem = SLIMSET_REJECT_RATIO;
    }
out:
    log_reader_fini(&rd);
    free(all);
    return st;
}

/* ---- the walk ---- */

enum slimset_status zip_walk(struct walk *w, const struct zip_directory *d,
                             struct slimset_error *err)
{
    uint64_t at = d->at, left = d->bytes, entries = 0;
    size_t len = 0, pos = 0;
    enum slimset_status st = SLIMSET_OK;
    if (d->entries_mask == UINT64_MAX && d->entries > d->bytes / CENTRAL_BYTES)
        archive_damage(w, "the zip directory has no room for the %llu entries it announces",
                       (unsigned long long)d->entries);
    uint8_t *b = malloc(WINDOW_BYTES);
    if (b == NULL)
        return err_nomem(err, WINDOW_BYTES);
    const struct log_mark mark = log_mark_here(&w->l->log);
    for (;;) {
        /* At least one whole entry must lie in the window, or all that is left. */
        if (len - pos < ENTRY_MAX && left != 0) {
            memmove(b, b + pos, len - pos);
            len -= pos;
            pos = 0;
            const size_t n = left < WINDOW_BYTES - len ? (size_t)left : WINDOW_BYTES - len;
            if ((st = view_read(&w->v, at, b + len, n, err)) != SLIMSET_OK)
                goto out;
            len += n;
            at += n;
            left -= n;
        }
        const uint8_t *p = b + pos;
        const size_t n = len - pos;
        const uint64_t here = at - n;
        if (n == 0)
            break;
        if (n >= 4 && get_le32(p) == SIG_DIGITAL)
            break;
        size_t need = CENTRAL_BYTES;
        if (n >= CENTRAL_BYTES)
            need += (size_t)get_le16(p + 28) + get_le16(p + 30) + get_le16(p + 32);
        if (n < need || get_le32(p) != SIG_CENTRAL) {
            archive_damage(w, "zip directory damaged at byte %llu, behind %llu entries",
                           (unsigned long long)(w->v.start + here), (unsigned long long)entries);
            break;
        }
        if ((st = add_entry(w, d, p, err)) != SLIMSET_OK)
            goto out;
        entries++;
        pos += need;
    }
    if (((entries ^ d->entries) & d->entries_mask) != 0)
        archive_damage(w, "zip directory announces %llu entries, %llu are there",
                       (unsigned long long)d->entries, (unsigned long long)entries);
    st = mark_overlaps(w, &mark, err);
out:
    free(b);
    return st;
}
