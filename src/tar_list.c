/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a tar: from header to header, over the data by arithmetic. What precedes a member's
 * header (pax 'x' and 'g', GNU 'L' and 'K') is collected in struct tar and used up by the member.
 *
 * There is no second copy of anything in a tar, so a bad header ends the walk: guessing where the
 * next one might be would take file contents for headers.
 */
#include "archive_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = ARCHIVE_TAR_BLOCK,
    EXTENSION_MAX = 1 << 20, /* bytes of one pax header or long name */
    NEAR_BYTES = 64 * 1024,  /* read at once when members are small and headers near each other */
    FAR_BYTES = 4096         /* read at once otherwise: a page, enough for pax header and header */
};

/* Zeros behind an end marker are read this far in search of a second archive. */
static const uint64_t PADDING_MAX = 1ull << 30;

/* What pax headers say; a field counts when its flag is set. */
struct pax {
    bool has_path, has_link, has_size, has_mtime, sparse;
    uint64_t size;
    int64_t mtime_s;
    struct buf path, link;
};

struct tar {
    struct walk *w;
    uint8_t *window; /* NEAR_BYTES */
    uint64_t window_at;
    size_t window_len;
    struct pax global, local;
    struct buf long_name, long_link;
    bool has_long_name, has_long_link;
    struct buf body;    /* of an extended header */
    char name[256 + 1]; /* prefix "/" name of the header itself */
};

/* ---- headers ---- */

/* A number field: octal between blanks, or base 256 with the top bit of the first byte set. */
static bool field_number(const uint8_t *p, size_t n, int64_t *out)
{
    if (p[0] & 0x80) {
        /* Bits above 63 must repeat the sign. */
        const uint8_t sign = (p[0] & 0x40) != 0 ? 0xff : 0;
        uint64_t v = sign ? UINT64_MAX : 0;
        for (size_t i = 0; i < n; i++) {
            const uint8_t byte = (uint8_t)(i == 0 ? (p[0] & 0x7f) | (sign & 0x80) : p[i]);
            if (i + 8 < n && byte != sign)
                return false;
            v = v << 8 | byte;
        }
        *out = (int64_t)v;
        return (*out < 0) == (sign != 0);
    }
    size_t i = 0;
    uint64_t v = 0;
    while (i < n && (p[i] == ' ' || p[i] == 0))
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    *out = (int64_t)v; /* 12 digits at most: 36 bits */
    return i == n || p[i] == ' ' || p[i] == 0;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* The sum over all bytes with the sum's own field as blanks. Some old programs added signed
 * chars. */
bool tar_is_header(const uint8_t *h)
{
    int64_t want;
    int32_t plain = 0, with_sign = 0;
    /* The field is taken out again afterwards, so that compilers can vectorise the loop. */
    for (int i = 0; i < BLOCK; i++) {
        plain += h[i];
        with_sign += (int8_t)h[i];
    }
    for (int i = 148; i < 156; i++) {
        plain += ' ' - h[i];
        with_sign += ' ' - (int8_t)h[i];
    }
    return field_number(h + 148, 8, &want) && (want == plain || want == with_sign) &&
           !all_zero(h, BLOCK);
}

enum slimset_status tar_check(const struct view *v, struct slimset_error *err)
{
    uint8_t h[BLOCK];
    if (v->bytes < BLOCK)
        return err_bad(err, v->bytes == 0 ? SLIMSET_REJECT_EMPTY : SLIMSET_REJECT_TRUNCATED,
                       "not a tar archive: only %llu bytes", (unsigned long long)v->bytes);
    enum slimset_status st = view_read(v, 0, h, sizeof h, err);
    if (st == SLIMSET_OK && !tar_is_header(h) && !all_zero(h, BLOCK))
        st = err_bad(err, SLIMSET_REJECT_CORRUPT, "not a tar archive: its first header is damaged");
    return st;
}

/* The block at `at`, which must lie inside the archive. Valid until the next call. */
static enum slimset_status block_at(struct tar *t, uint64_t at, const uint8_t **block,
                                    struct slimset_error *err)
{
    const uint64_t end = t->window_at + t->window_len;
    if (at < t->window_at || at + BLOCK > end) {
        const bool near = at >= t->window_at && at <= end + NEAR_BYTES;
        size_t n = near ? NEAR_BYTES : FAR_BYTES;
        if (n > t->w->v.bytes - at)
            n = (size_t)(t->w->v.bytes - at);
        t->window_len = 0;
        enum slimset_status st = view_read(&t->w->v, at, t->window, n, err);
        if (st != SLIMSET_OK)
            return st;
        t->window_at = at;
        t->window_len = n;
    }
    *block = t->window + (at - t->window_at);
    return SLIMSET_OK;
}

/* The name in the header itself; POSIX headers have its front part in a second field. */
static size_t header_name(struct tar *t, const uint8_t *h)
{
    size_t n = 0;
    if (memcmp(h + 257, "ustar", 6) == 0 && h[345] != 0) {
        /* "star" writers have two times in the last bytes of the field. */
        const size_t room = memcmp(h + 508, "tar", 4) == 0 ? 131 : 155;
        n = strnlen((const char *)h + 345, room);
        memcpy(t->name, h + 345, n);
        t->name[n++] = '/';
    }
    const size_t name_bytes = strnlen((const char *)h, 100);
    memcpy(t->name + n, h, name_bytes);
    return n + name_bytes;
}

/* ---- extended headers ---- */

static bool parse_decimal(const char *s, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
            return false;
    }
    *out = v;
    return n != 0 && v <= INT64_MAX;
}

/* Seconds with a fraction that is dropped downwards. A nonsense time is an unknown one. */
static int64_t parse_time(const char *s, size_t n)
{
    const bool negative = n != 0 && s[0] == '-';
    uint64_t v;
    s += negative;
    n -= negative;
    const char *dot = memchr(s, '.', n);
    const size_t whole = dot != NULL ? (size_t)(dot - s) : n;
    if (!parse_decimal(s, whole, &v) || v > INT64_MAX / 2)
        return 0;
    bool fraction = false;
    for (size_t i = whole; i < n; i++)
        fraction = fraction || (s[i] >= '1' && s[i] <= '9');
    return negative ? -(int64_t)v - fraction : (int64_t)v;
}

static enum slimset_status set_text(struct buf *b, bool *has, const char *s, size_t n,
                                    struct slimset_error *err)
{
    b->len = 0;
    *has = n != 0;
    return buf_append(b, s, n, err);
}

/* One keyword of a pax header. *good: its value makes sense. */
static enum slimset_status pax_set(struct pax *p, const char *key, size_t key_n, const char *value,
                                   size_t n, bool *good, struct slimset_error *err)
{
#define IS(text) (key_n == sizeof(text) - 1 && memcmp(key, text, sizeof(text) - 1) == 0)
    if (key_n > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        p->sparse = true;
        if (IS("GNU.sparse.name"))
            return set_text(&p->path, &p->has_path, value, n, err);
    } else if (IS("path")) {
        /* The real name of a sparse member stands in its own keyword, wherever that comes. */
        if (!(p->sparse && p->has_path))
            return set_text(&p->path, &p->has_path, value, n, err);
    } else if (IS("linkpath")) {
        return set_text(&p->link, &p->has_link, value, n, err);
    } else if (IS("size")) {
        p->has_size = n != 0;
        *good = n == 0 || parse_decimal(value, n, &p->size);
    } else if (IS("mtime")) {
        p->has_mtime = n != 0;
        p->mtime_s = parse_time(value, n);
    }
    return SLIMSET_OK;
#undef IS
}

/* "LENGTH KEYWORD=VALUE\n" again and again; LENGTH counts the whole line. *good: nothing else is
 * there. */
static enum slimset_status pax_parse(struct pax *p, const struct buf *body, bool *good,
                                     struct slimset_error *err)
{
    const char *s = (const char *)body->data;
    size_t left = body->len;
    *good = true;
    while (left != 0 && *good && !all_zero((const uint8_t *)s, left)) {
        uint64_t line;
        const char *blank = memchr(s, ' ', left < 20 ? left : 20);
        if (blank == NULL || !parse_decimal(s, (size_t)(blank - s), &line) || line > left ||
            line < (uint64_t)(blank - s) + 3 || s[line - 1] != '\n') {
            *good = false;
            break;
        }
        const char *key = blank + 1, *end = s + line - 1;
        const char *eq = memchr(key, '=', (size_t)(end - key));
        if (eq == NULL) {
            *good = false;
            break;
        }
        enum slimset_status st =
            pax_set(p, key, (size_t)(eq - key), eq + 1, (size_t)(end - eq - 1), good, err);
        if (st != SLIMSET_OK)
            return st;
        s += line;
        left -= (size_t)line;
    }
    return SLIMSET_OK;
}

static void pax_clear(struct pax *p)
{
    p->has_path = p->has_link = p->has_size = p->has_mtime = p->sparse = false;
}

static bool pending(const struct tar *t)
{
    const struct pax *p = &t->local;
    return p->has_path || p->has_link || p->has_size || p->has_mtime || p->sparse ||
           t->has_long_name || t->has_long_link;
}

/* Takes the header at `at` that describes the next one. *whole: the walk can go on behind it. */
static enum slimset_status extension(struct tar *t, uint64_t at, char type, uint64_t size,
                                     bool *whole, struct slimset_error *err)
{
    const unsigned long long here = t->w->v.start + at;
    *whole = false;
    if (size > EXTENSION_MAX) {
        archive_damage(t->w, "extended tar header of %llu bytes at byte %llu",
                       (unsigned long long)size, here);
        return SLIMSET_OK;
    }
    if (size > t->w->v.bytes - at - BLOCK) {
        archive_damage(t->w, "tar ends inside the extended header at byte %llu", here);
        return SLIMSET_OK;
    }
    t->body.len = 0;
    enum slimset_status st = buf_reserve(&t->body, size + 1, err);
    if (st != SLIMSET_OK)
        return st;
    if ((st = view_read(&t->w->v, at + BLOCK, t->body.data, size, err)) != SLIMSET_OK)
        return st;
    t->body.len = size;
    *whole = true;
    if (type == 'L' || type == 'K') {
        const size_t n = strnlen((const char *)t->body.data, size);
        return set_text(type == 'L' ? &t->long_name : &t->long_link,
                        type == 'L' ? &t->has_long_name : &t->has_long_link,
                        (const char *)t->body.data, n, err);
    }
    st = pax_parse(type == 'g' ? &t->global : &t->local, &t->body, whole, err);
    if (st == SLIMSET_OK && !*whole)
        archive_damage(t->w, "damaged pax header at byte %llu", here);
    return st;
}

/* ---- members ---- */

/* Name, link target and time from the best of their sources. *size likewise. */
static void describe(struct tar *t, const uint8_t *h, struct entry *e, uint64_t *size)
{
    const struct pax *const from[2] = {&t->global, &t->local};
    e->name = t->name;
    e->name_bytes = header_name(t, h);
    e->target = (const char *)h + 157;
    e->target_bytes = strnlen(e->target, 100);
    if (!field_number(h + 136, 12, &e->mtime_s))
        e->mtime_s = 0;
    if (t->has_long_name) {
        e->name = (const char *)t->long_name.data;
        e->name_bytes = t->long_name.len;
    }
    if (t->has_long_link) {
        e->target = (const char *)t->long_link.data;
        e->target_bytes = t->long_link.len;
    }
    for (int i = 0; i < 2; i++) {
        const struct pax *p = from[i];
        if (p->has_path) {
            e->name = (const char *)p->path.data;
            e->name_bytes = p->path.len;
        }
        if (p->has_link) {
            e->target = (const char *)p->link.data;
            e->target_bytes = p->link.len;
        }
        if (p->has_size)
            *size = p->size;
        if (p->has_mtime)
            e->mtime_s = p->mtime_s;
        if (p->sparse)
            e->problem = SLIMSET_REJECT_UNSUPPORTED;
    }
}

/* Whether bytes follow a hard link of that size. Most writers store none whatever the size says,
 * some (cpio's and pax's) store the file again: then what follows is no header. */
static enum slimset_status link_data(struct tar *t, uint64_t data, uint64_t size, bool *yes,
                                     struct slimset_error *err)
{
    const uint8_t *b;
    *yes = false;
    if (size == 0 || data + BLOCK > t->w->v.bytes)
        return SLIMSET_OK;
    enum slimset_status st = block_at(t, data, &b, err);
    if (st == SLIMSET_OK)
        *yes = !all_zero(b, BLOCK) && !tar_is_header(b);
    return st;
}

/* Blocks of an old GNU sparse map that follow the header. */
static enum slimset_status skip_sparse_map(struct tar *t, bool more, uint64_t *data,
                                           struct slimset_error *err)
{
    while (more && *data + BLOCK <= t->w->v.bytes) {
        const uint8_t *b;
        enum slimset_status st = block_at(t, *data, &b, err);
        if (st != SLIMSET_OK)
            return st;
        more = b[504] != 0;
        *data += BLOCK;
    }
    return SLIMSET_OK;
}

/* Takes a member; *next is where the next header lies. *whole: its data are all there. */
static enum slimset_status member(struct tar *t, uint64_t at, const uint8_t *h, uint64_t size,
                                  uint64_t *next, bool *whole, struct slimset_error *err)
{
    struct entry e = {0};
    const struct view *v = &t->w->v;
    uint64_t data = at + BLOCK;
    const char type = (char)h[156];
    bool report = true, has_data = true, link = false;
    enum slimset_status st = SLIMSET_OK;
    /* What h holds is copied or judged before block_at moves the window. */
    char target[101];
    describe(t, h, &e, &size);
    if (e.target == (const char *)h + 157) {
        memcpy(target, h + 157, e.target_bytes);
        e.target = target;
    }
    switch (type) {
    case '0':
    case 0:
    case '7':
        if (e.name_bytes != 0 && e.name[e.name_bytes - 1] == '/') {
            report = size != 0;
            e.problem = SLIMSET_REJECT_NAME;
        }
        break;
    case '1':
        if ((st = link_data(t, data, size, &has_data, err)) != SLIMSET_OK)
            return st;
        link = !has_data;
        break;
    case '2':
        e.problem = SLIMSET_REJECT_LINK;
        has_data = false;
        break;
    case '3':
    case '4':
    case '6':
        e.problem = SLIMSET_REJECT_NOT_REGULAR;
        has_data = false;
        break;
    case '5':
        report = has_data = false;
        break;
    case 'D':
    case 'V': /* GNU: a directory with its list of names; a volume's label */
        report = false;
        break;
    case 'S':
        e.problem = SLIMSET_REJECT_UNSUPPORTED;
        if ((st = skip_sparse_map(t, h[482] != 0, &data, err)) != SLIMSET_OK)
            return st;
        break;
    default:
        e.problem = SLIMSET_REJECT_UNSUPPORTED;
        break;
    }
    if (!link)
        e.target = NULL;
    e.offset = v->start + data;
    e.bytes = e.packed_bytes = has_data ? size : 0;
    *whole = e.bytes <= v->bytes - data;
    if (!*whole) {
        e.packed_bytes = v->bytes - data;
        if (e.problem == SLIMSET_REJECT_NONE)
            e.problem = SLIMSET_REJECT_TRUNCATED;
        archive_damage(t->w, "tar ends inside the data of the member at byte %llu",
                       (unsigned long long)(v->start + at));
    }
    /* The last member's padding may be missing. */
    const uint64_t padded = (e.packed_bytes + BLOCK - 1) / BLOCK * BLOCK;
    *next = padded <= v->bytes - data ? data + padded : v->bytes;
    return report ? archive_add(t->w, &e, err) : SLIMSET_OK;
}

/* ---- the end ---- */

/* From the zero block at `at` on: *next is the first header of a further archive, or the end. */
static enum slimset_status end_marker(struct tar *t, uint64_t at, uint64_t *next,
                                      struct slimset_error *err)
{
    const struct view *v = &t->w->v;
    const uint64_t first = at;
    const uint8_t *b = NULL;
    while (at + BLOCK <= v->bytes && at - first < PADDING_MAX) {
        enum slimset_status st = block_at(t, at, &b, err);
        if (st != SLIMSET_OK)
            return st;
        if (!all_zero(b, BLOCK))
            break;
        at += BLOCK;
        b = NULL;
    }
    const uint64_t zeros = (at - first) / BLOCK;
    *next = v->bytes;
    if (b == NULL) {
        if (zeros < 2)
            t->w->l->result->no_end_marker = true;
        return SLIMSET_OK;
    }
    if (zeros < 2)
        archive_damage(t->w, "a lone zero block at byte %llu of the tar, with bytes behind it",
                       (unsigned long long)(v->start + first));
    if (tar_is_header(b)) {
        t->w->l->result->concatenated = true;
        *next = at;
    } else {
        archive_damage(t->w, "bytes that are no tar header behind the end marker, at byte %llu",
                       (unsigned long long)(v->start + at));
    }
    return SLIMSET_OK;
}

/* Fewer bytes than a block are left at `at`. */
static enum slimset_status cut_end(struct tar *t, uint64_t at, struct slimset_error *err)
{
    uint8_t b[BLOCK];
    const size_t n = (size_t)(t->w->v.bytes - at);
    enum slimset_status st = view_read(&t->w->v, at, b, n, err);
    if (st != SLIMSET_OK)
        return st;
    t->w->l->result->no_end_marker = true;
    if (!all_zero(b, n))
        archive_damage(t->w, "tar ends inside the header at byte %llu",
                       (unsigned long long)(t->w->v.start + at));
    else if (pending(t))
        archive_damage(t->w, "tar ends behind an extended header at byte %llu",
                       (unsigned long long)(t->w->v.start + at));
    return SLIMSET_OK;
}

static enum slimset_status walk_blocks(struct tar *t, struct slimset_error *err)
{
    const struct view *v = &t->w->v;
    enum slimset_status st = SLIMSET_OK;
    bool whole = true;
    for (uint64_t at = 0; st == SLIMSET_OK && whole;) {
        const uint8_t *h;
        int64_t size;
        if (v->bytes - at < BLOCK)
            return cut_end(t, at, err);
        if ((st = block_at(t, at, &h, err)) != SLIMSET_OK)
            break;
        if (all_zero(h, BLOCK)) {
            if (pending(t))
                archive_damage(t->w, "end marker behind an extended header at byte %llu",
                               (unsigned long long)(v->start + at));
            if ((st = end_marker(t, at, &at, err)) != SLIMSET_OK || at == v->bytes)
                return st;
            t->has_long_name = t->has_long_link = false;
            pax_clear(&t->local);
            pax_clear(&t->global);
            continue;
        }
        if (!tar_is_header(h) || !field_number(h + 124, 12, &size) || size < 0) {
            archive_damage(t->w, "damaged tar header at byte %llu",
                           (unsigned long long)(v->start + at));
            break;
        }
        const char type = (char)h[156];
        if (type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K') {
            st = extension(t, at, type, (uint64_t)size, &whole, err);
            const uint64_t padded = ((uint64_t)size + BLOCK - 1) / BLOCK * BLOCK;
            at = whole && padded <= v->bytes - at - BLOCK ? at + BLOCK + padded : v->bytes;
            continue;
        }
        st = member(t, at, h, (uint64_t)size, &at, &whole, err);
        t->has_long_name = t->has_long_link = false;
        pax_clear(&t->local);
    }
    return st;
}

enum slimset_status tar_walk(struct walk *w, struct slimset_error *err)
{
    struct tar *t = calloc(1, sizeof *t);
    if (t == NULL)
        return err_nomem(err, sizeof *t);
    t->w = w;
    enum slimset_status st;
    t->window = malloc(NEAR_BYTES);
    st = t->window != NULL ? walk_blocks(t, err) : err_nomem(err, NEAR_BYTES);
    free(t->window);
    buf_fini(&t->global.path);
    buf_fini(&t->global.link);
    buf_fini(&t->local.path);
    buf_fini(&t->local.link);
    buf_fini(&t->long_name);
    buf_fini(&t->long_link);
    buf_fini(&t->body);
    free(t);
    return st;
}
