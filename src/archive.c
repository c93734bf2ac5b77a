/* SPDX-License-Identifier: Apache-2.0
 *
 * The middle of the archive module: what every entry passes through whatever the format, the
 * opening of inner archives, and the reading of one member.
 */
#include "archive_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include "base/io.h"
#include "sniff.h"

const struct archive_limits archive_limits_default = {
    .max_members = 10000000,
    .max_member_bytes = 64ull << 30,
    .max_total_bytes = 16ull << 40,
    .max_ratio = 1100, /* deflate itself reaches 1,032 */
    .max_name_bytes = 4096,
};

enum { LOCAL_BYTES = 30 };
static const uint32_t SIG_LOCAL = 0x04034b50;

enum slimset_status view_read(const struct view *v, uint64_t at, void *out, size_t n,
                              struct slimset_error *err)
{
    size_t got = 0;
    if (at > v->bytes || n > v->bytes - at)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "read beyond the archive's %llu bytes",
                       (unsigned long long)v->bytes);
    enum slimset_status st = io_pread(v->fd, out, n, v->start + at, &got, "archive", err);
    if (st == SLIMSET_OK && got < n)
        st = err_bad(err, SLIMSET_REJECT_TRUNCATED,
                     "the archive ends at byte %llu, before its size says",
                     (unsigned long long)(v->start + at + got));
    return st;
}

void archive_damage(const struct walk *w, const char *fmt, ...)
{
    struct archive_result *res = w->l->result;
    if (res->damaged)
        return;
    res->damaged = true;
    size_t n = 0;
    if (w->inner) {
        const int shown = w->prefix_bytes < 100 ? (int)w->prefix_bytes : 100;
        n = (size_t)snprintf(res->damage, sizeof res->damage, "in %.*s: ", shown, w->prefix);
        /* The name is anybody's bytes, the text is one line. */
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)res->damage[i] < ' ' || (unsigned char)res->damage[i] > '~')
                res->damage[i] = '?';
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(res->damage + n, sizeof res->damage - n, fmt, ap);
    va_end(ap);
}

/* ---- names ---- */

/* Writes prefix and cleaned name to out. false: a name no layout can hold; out then has it as
 * stored, as far as it fits. */
static bool clean_name(const struct walk *w, const char *s, size_t n, char *out, uint32_t *out_n)
{
    const size_t max = w->l->limits.max_name_bytes;
    size_t len = w->prefix_bytes < max ? w->prefix_bytes : max;
    bool good = n != 0 && w->prefix_bytes < max && memchr(s, 0, n) == NULL;
    memcpy(out, w->prefix, len);
    bool first = true;
    for (size_t i = 0; good && i < n;) {
        const char *slash = memchr(s + i, '/', n - i);
        const size_t part = slash != NULL ? (size_t)(slash - (s + i)) : n - i;
        const char *p = s + i;
        i += part + 1;
        if (part == 0 || (part == 1 && p[0] == '.'))
            continue;
        const bool drive = first && part >= 2 && p[1] == ':' &&
                           ((p[0] >= 'a' && p[0] <= 'z') || (p[0] >= 'A' && p[0] <= 'Z'));
        good = !drive && !(part == 2 && p[0] == '.' && p[1] == '.') && part + !first <= max - len;
        if (!good)
            break;
        if (!first)
            out[len++] = '/';
        memcpy(out + len, p, part);
        len += part;
        first = false;
    }
    good = good && !first;
    if (!good) {
        len = w->prefix_bytes < max ? w->prefix_bytes : max;
        const size_t rest = n < max - len ? n : max - len;
        if (rest != 0)
            memcpy(out + len, s, rest);
        len += rest;
    }
    *out_n = (uint32_t)len;
    return good;
}

/* The bytes of ".tar" and the like at a name's end, 0 without or when nothing would be left. */
static size_t archive_suffix(const char *name, size_t n)
{
    static const char *const suffix[] = {".tar.gz", ".tar.zst", ".tar.xz", ".tar", ".zip", ".tgz"};
    for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
        const size_t k = strlen(suffix[i]);
        if (n > k && strncasecmp(name + n - k, suffix[i], k) == 0)
            return name[n - k - 1] != '/' ? k : 0;
    }
    return 0;
}

/* ---- inner archives ---- */

struct inner {
    struct view v;
    bool in_spool;
    enum image_format format;
    struct zip_directory zip;
};

static enum image_format archive_format(const uint8_t *head, size_t n)
{
    const enum image_format f = sniff(head, n);
    switch (f) {
    case FORMAT_ZIP:
    case FORMAT_TAR:
    case FORMAT_GZIP:
    case FORMAT_ZSTD:
    case FORMAT_XZ:
        return f;
    default:
        /* The oldest tars have no magic, only a checksum. */
        return n >= ARCHIVE_TAR_BLOCK && tar_is_header(head) ? FORMAT_TAR : FORMAT_UNKNOWN;
    }
}

static enum slimset_status read_head(const struct view *v, uint8_t *head, size_t *n,
                                     struct slimset_error *err)
{
    *n = v->bytes < SNIFF_BYTES ? (size_t)v->bytes : SNIFF_BYTES;
    return view_read(v, 0, head, *n, err);
}

static enum slimset_status spool_size(int fd, uint64_t *bytes, struct slimset_error *err)
{
    const off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0)
        return err_os(err, "seek to the end of the spool file");
    *bytes = (uint64_t)end;
    return SLIMSET_OK;
}

/* As much as a compressed inner archive may unpack to. */
static uint64_t inner_max_bytes(const struct lister *l, uint64_t packed)
{
    uint64_t max = l->limits.max_total_bytes - l->total_bytes, by_ratio;
    if (max > l->limits.max_member_bytes)
        max = l->limits.max_member_bytes;
    if (!__builtin_mul_overflow(packed, (uint64_t)l->limits.max_ratio, &by_ratio)) {
        if (by_ratio < ARCHIVE_RATIO_FREE)
            by_ratio = ARCHIVE_RATIO_FREE;
        if (max > by_ratio)
            max = by_ratio;
    }
    return max;
}

/* Finds the archive in a member, unpacking it to the spool where needed. SLIMSET_BAD_INPUT: it
 * is one but cannot be listed. *yes is false when it is none, or needs a spool that is not
 * there. */
static enum slimset_status inner_open(const struct walk *w, const struct record *r,
                                      struct inner *in, bool *yes, struct slimset_error *err)
{
    struct lister *l = w->l;
    uint8_t head[SNIFF_BYTES];
    size_t n;
    uint64_t at = 0, end;
    const bool deflate = (r->flags & RECORD_DEFLATE) != 0;
    const struct archive_member m = {.offset = r->offset,
                                     .packed_bytes = r->packed_bytes,
                                     .zip_local = (r->flags & RECORD_ZIP_LOCAL) != 0};
    *yes = false;
    in->in_spool = w->in_spool;
    enum slimset_status st = archive_data_offset(w->v.fd, &m, &at, err);
    if (st != SLIMSET_OK)
        return st;
    in->v = (struct view){w->v.fd, at, r->packed_bytes};
    if (deflate && l->spool_fd < 0)
        return SLIMSET_OK;
    st = deflate ? spool_peek_deflate(&in->v, head, sizeof head, &n, err)
                 : read_head(&in->v, head, &n, err);
    if (st != SLIMSET_OK)
        return st;
    in->format = archive_format(head, n);
    if (in->format == FORMAT_UNKNOWN)
        return SLIMSET_OK;
    if (deflate) {
        if ((st = spool_size(l->spool_fd, &at, err)) != SLIMSET_OK ||
            (st = spool_deflate(&in->v, r->bytes, r->crc32, l->spool_fd, l->limits.check_space,
                                l->limits.space_arg, err)) != SLIMSET_OK)
            return st;
        in->v = (struct view){l->spool_fd, at, r->bytes};
        in->in_spool = true;
    }
    if (in->format != FORMAT_ZIP && in->format != FORMAT_TAR) {
        if (l->spool_fd < 0)
            return SLIMSET_OK;
        if ((st = spool_size(l->spool_fd, &at, err)) != SLIMSET_OK ||
            (st = archive_spool(in->v.fd, in->v.start, in->v.bytes, in->format, l->spool_fd,
                                inner_max_bytes(l, in->v.bytes), l->limits.check_space,
                                l->limits.space_arg, &end, err)) != SLIMSET_OK)
            return st;
        in->v = (struct view){l->spool_fd, at, end};
        in->in_spool = true;
        if ((st = read_head(&in->v, head, &n, err)) != SLIMSET_OK)
            return st;
        in->format = FORMAT_TAR;
        if (n < ARCHIVE_TAR_BLOCK || !tar_is_header(head))
            return SLIMSET_OK;
    }
    *yes = true;
    return in->format == FORMAT_ZIP ? zip_locate(&in->v, &in->zip, err) : SLIMSET_OK;
}

/* How much of an archive's name stands for it as a folder: without the suffix, except where "",
 * "." or ".." would be left of it ("...zip"). */
static uint32_t folder_bytes(const char *name, uint32_t n, uint32_t suffix)
{
    const uint32_t stem = n - suffix;
    uint32_t at = stem;
    while (at > 0 && name[at - 1] == '.')
        at--;
    return stem - at <= 2 && (at == 0 || name[at - 1] == '/') ? n : stem;
}

/* Opens and lists the archive that a member is. *opened is false when the member is to be
 * reported as it is (perhaps with a problem, then set in *r). */
static enum slimset_status inner_list(struct walk *w, struct record *r, size_t suffix, bool *opened,
                                      struct slimset_error *err)
{
    struct lister *l = w->l;
    struct inner in = {0};
    uint64_t mark = 0;
    *opened = false;
    enum slimset_status st = l->spool_fd >= 0 ? spool_size(l->spool_fd, &mark, err) : SLIMSET_OK;
    if (st != SLIMSET_OK)
        return st;
    st = inner_open(w, r, &in, opened, err);
    if (st != SLIMSET_OK || !*opened) {
        *opened = false;
        if (st == SLIMSET_BAD_INPUT) {
            r->problem = (uint8_t)err->reject;
            st = SLIMSET_OK;
        }
        /* What was unpacked in vain is only dead bytes: a refusal here (a sandbox's) is no
         * fault. */
        uint64_t now = mark;
        if (st == SLIMSET_OK && l->spool_fd >= 0 &&
            (st = spool_size(l->spool_fd, &now, err)) == SLIMSET_OK && now != mark &&
            ftruncate(l->spool_fd, (off_t)mark) != 0)
            now = mark;
        return st;
    }
    const uint32_t stem = folder_bytes(r->name, r->name_bytes, (uint32_t)suffix);
    char *prefix = malloc((size_t)stem + 1);
    if (prefix == NULL)
        return err_nomem(err, (unsigned long long)stem + 1);
    memcpy(prefix, r->name, stem);
    prefix[stem] = '/';
    struct walk inner = {.l = l,
                         .v = in.v,
                         .in_spool = in.in_spool,
                         .inner = true,
                         .depth = w->depth - 1,
                         .prefix = prefix,
                         .prefix_bytes = stem + 1};
    r->flags |= RECORD_CONTAINER;
    if ((st = log_append(&l->log, r, err)) == SLIMSET_OK)
        st = in.format == FORMAT_ZIP ? zip_walk(&inner, &in.zip, err) : tar_walk(&inner, err);
    free(prefix);
    return st;
}

/* ---- entries ---- */

static enum slimset_reject limit_problem(const struct lister *l, const struct record *r)
{
    if (r->bytes > l->limits.max_member_bytes ||
        r->bytes > l->limits.max_total_bytes - l->total_bytes)
        return SLIMSET_REJECT_TOO_LARGE;
    if ((r->flags & RECORD_DEFLATE) && r->bytes > ARCHIVE_RATIO_FREE &&
        r->bytes / r->packed_bytes >= l->limits.max_ratio)
        return SLIMSET_REJECT_RATIO;
    return SLIMSET_REJECT_NONE;
}

enum slimset_status archive_add(struct walk *w, const struct entry *e, struct slimset_error *err)
{
    struct lister *l = w->l;
    struct record r = {
        .name = l->name,
        .flags =
            (uint8_t)((e->deflate ? RECORD_DEFLATE : 0) | (e->zip_local ? RECORD_ZIP_LOCAL : 0) |
                      (e->has_crc ? RECORD_CRC : 0) | (w->in_spool ? RECORD_SPOOL : 0) |
                      (w->inner ? RECORD_INNER : 0) | (e->target != NULL ? RECORD_LINK : 0)),
        .problem = (uint8_t)e->problem,
        .crc32 = e->crc32,
        .offset = e->offset,
        .packed_bytes = e->packed_bytes,
        .bytes = e->bytes,
        .mtime_s = e->mtime_s,
    };
    if (l->log.records >= l->limits.max_members)
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "archive with more than %llu members",
                       (unsigned long long)l->limits.max_members);
    const bool named = clean_name(w, e->name, e->name_bytes, l->name, &r.name_bytes);
    if (!named && r.problem == SLIMSET_REJECT_NONE)
        r.problem = SLIMSET_REJECT_NAME;
    if (e->target != NULL) {
        r.target = l->target;
        if (!clean_name(w, e->target, e->target_bytes, l->target, &r.target_bytes) &&
            r.problem == SLIMSET_REJECT_NONE)
            r.problem = SLIMSET_REJECT_LINK;
    }
    if (r.problem == SLIMSET_REJECT_NONE)
        r.problem = (uint8_t)limit_problem(l, &r);
    if (r.problem == SLIMSET_REJECT_NONE && w->depth > 0 && e->target == NULL && r.bytes != 0) {
        const size_t suffix = archive_suffix(r.name, r.name_bytes);
        bool opened = false;
        enum slimset_status st = suffix != 0 ? inner_list(w, &r, suffix, &opened, err) : SLIMSET_OK;
        if (st != SLIMSET_OK || opened)
            return st;
    }
    if (r.problem == SLIMSET_REJECT_NONE)
        l->total_bytes += r.bytes;
    return log_append(&l->log, &r, err);
}

/* The limits as they are used: sizes that arrays and 32-bit numbers can hold. */
static struct archive_limits sane_limits(const struct archive_limits *given)
{
    struct archive_limits l = given != NULL ? *given : archive_limits_default;
    if (l.max_members > UINT32_MAX - 1)
        l.max_members = UINT32_MAX - 1;
    if (l.max_name_bytes > ARCHIVE_NAME_CAP)
        l.max_name_bytes = ARCHIVE_NAME_CAP;
    return l;
}

enum slimset_status archive_list(int fd, uint64_t offset, uint64_t bytes, enum image_format format,
                                 int depth, int spool_fd, const struct archive_limits *limits,
                                 archive_member_fn *fn, void *arg, struct archive_result *result,
                                 struct slimset_error *err)
{
    uint64_t end;
    struct zip_directory zip;
    struct lister l = {.limits = sane_limits(limits), .spool_fd = spool_fd, .result = result};
    /* One level only: the log tells inner members from outer ones, not more. */
    struct walk w = {.l = &l, .v = {fd, offset, bytes}, .depth = depth > 0, .prefix = ""};
    memset(result, 0, sizeof *result);
    if (format != FORMAT_ZIP && format != FORMAT_TAR)
        return err_set(err, SLIMSET_USAGE, "format %d is not an archive that can be listed",
                       (int)format);
    if (__builtin_add_overflow(offset, bytes, &end) || end > INT64_MAX)
        return err_set(err, SLIMSET_USAGE, "a range of bytes beyond any file");
    if (bytes == 0)
        return err_bad(err, SLIMSET_REJECT_EMPTY, "archive of zero bytes");
    enum slimset_status st =
        format == FORMAT_ZIP ? zip_locate(&w.v, &zip, err) : tar_check(&w.v, err);
    if (st != SLIMSET_OK || (st = log_init(&l.log, err)) != SLIMSET_OK)
        return st;
    l.name = malloc(ARCHIVE_NAME_CAP);
    l.target = malloc(ARCHIVE_NAME_CAP);
    if (l.name == NULL || l.target == NULL)
        st = err_nomem(err, 2 * ARCHIVE_NAME_CAP);
    if (st == SLIMSET_OK)
        st = format == FORMAT_ZIP ? zip_walk(&w, &zip, err) : tar_walk(&w, err);
    if (st == SLIMSET_OK)
        st = archive_report(&l, fn, arg, err);
    free(l.name);
    free(l.target);
    log_fini(&l.log);
    return st;
}

/* ---- one member ---- */

enum slimset_status archive_data_offset(int fd, const struct archive_member *m,
                                        uint64_t *data_offset, struct slimset_error *err)
{
    struct stat sb;
    uint8_t h[LOCAL_BYTES];
    uint64_t at = m->offset, end;
    if (fstat(fd, &sb) != 0)
        return err_os(err, "stat archive");
    if (S_ISREG(sb.st_mode) && at > (uint64_t)sb.st_size)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "no byte %llu in the archive file",
                       (unsigned long long)at);
    if (m->zip_local) {
        const struct view v = {fd, 0, UINT64_MAX};
        enum slimset_status st = view_read(&v, at, h, sizeof h, err);
        if (st != SLIMSET_OK)
            return st;
        if (get_le32(h) != SIG_LOCAL)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "no zip local header at byte %llu",
                           (unsigned long long)at);
        at += LOCAL_BYTES + (uint64_t)get_le16(h + 26) + get_le16(h + 28);
    }
    if (__builtin_add_overflow(at, m->packed_bytes, &end) ||
        (S_ISREG(sb.st_mode) && end > (uint64_t)sb.st_size))
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "archive member at byte %llu ends behind the file",
                       (unsigned long long)m->offset);
    *data_offset = at;
    return SLIMSET_OK;
}

/* Streams of 4 GiB and more, in pieces that the decoder's 32-bit counters can hold. Progress is
 * made until the stream ends, or one of the two sides does. */
static int inflate_pieces(struct inflate_state *z, const uint8_t **in, const uint8_t *in_end,
                          uint8_t **out, const uint8_t *out_end)
{
    const size_t piece = 1u << 30;
    for (;;) {
        const size_t in_n = (size_t)(in_end - *in), out_n = (size_t)(out_end - *out);
        z->next_in = (uint8_t *)(uintptr_t)*in;
        z->avail_in = (uint32_t)(in_n < piece ? in_n : piece);
        z->next_out = *out;
        z->avail_out = (uint32_t)(out_n < piece ? out_n : piece);
        const int ret = isal_inflate(z);
        const bool stuck = z->next_in == *in && z->next_out == *out;
        *in = z->next_in;
        *out = z->next_out;
        if (z->block_state == ISAL_BLOCK_FINISH && ret >= 0 && z->read_in_length > 0) {
            *in -= z->read_in_length / 8;
            z->read_in_length = 0;
        }
        if (ret < 0 || z->block_state == ISAL_BLOCK_FINISH)
            return ret;
        if (stuck)
            return *in == in_end ? ISAL_END_INPUT : ISAL_OUT_OVERFLOW;
    }
}

enum slimset_status archive_inflate(const uint8_t *packed, size_t packed_bytes, uint8_t *out,
                                    size_t bytes, struct slimset_error *err)
{
    struct inflate_state z; /* 86 KiB */
    uint8_t none;
    uint8_t *const start = bytes != 0 ? out : &none;
    const uint8_t *in = packed;
    uint8_t *to = start;
    int ret;
    isal_inflate_init(&z);
    if (packed_bytes <= UINT32_MAX && bytes <= UINT32_MAX) {
        z.next_in = (uint8_t *)(uintptr_t)packed; /* not written to, only not declared const */
        z.avail_in = (uint32_t)packed_bytes;
        z.next_out = start;
        z.avail_out = (uint32_t)bytes;
        ret = isal_inflate_stateless(&z);
        in = z.next_in;
        to = z.next_out;
    } else {
        ret = inflate_pieces(&z, &in, packed + packed_bytes, &to, start + bytes);
    }
    if (ret == ISAL_OUT_OVERFLOW)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "deflate data unpack to more than %zu bytes",
                       bytes);
    if (ret == ISAL_END_INPUT || (ret == ISAL_DECOMP_OK && z.block_state != ISAL_BLOCK_FINISH))
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "deflate data end too early: %zu of %zu bytes", (size_t)(to - start), bytes);
    if (ret != ISAL_DECOMP_OK)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "damaged deflate data");
    if (to != start + bytes)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "deflate data unpack to %zu of %zu bytes",
                       (size_t)(to - start), bytes);
    if (in != packed + packed_bytes)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "%zu bytes behind the end of deflate data",
                       (size_t)(packed + packed_bytes - in));
    return SLIMSET_OK;
}

uint32_t archive_crc32(uint32_t crc, const uint8_t *data, size_t n)
{
    return n != 0 ? crc32_gzip_refl(crc, data, n) : crc;
}
