/* SPDX-License-Identifier: Apache-2.0 */
#include "keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "webdataset.h"

enum {
    USTAR_NAME = 100, USTAR_PREFIX = 155,
    BASE_MAX = 255 /* of a component, as file systems have it */
};

static const char *base_of(const struct entry *e, size_t *n)
{
    *n = e->path_bytes - e->dir_bytes;
    return e->path + e->dir_bytes;
}

static bool all_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)p[i]))
            return false;
    return n > 0;
}

/* The name without its last extension. A leading dot begins no extension, and a number is none: IM.0, IM.1... are a series. */
static size_t stem_bytes(const char *name, size_t n)
{
    const char *dot = n > 1 ? memrchr(name + 1, '.', n - 1) : NULL;
    size_t stem = dot != NULL ? (size_t)(dot - name) : n;
    return stem + 1 < n && all_digits(name + stem + 1, n - stem - 1) ? n : stem;
}

static int compare_bytes(const char *a, size_t n, const char *b, size_t m)
{
    int c = memcmp(a, b, n < m ? n : m);
    return c != 0 ? c : n < m ? -1 : n > m;
}

static int by_folder_and_name(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    int c = compare_bytes(a->path, a->dir_bytes, b->path, b->dir_bytes);
    return c != 0 ? c : compare_bytes(a->path, a->path_bytes, b->path, b->path_bytes);
}

static int by_folder_and_key(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    int c = compare_bytes(a->name, a->name_dir_bytes, b->name, b->name_dir_bytes);
    if (c == 0)
        c = compare_bytes(a->name, a->key_bytes, b->name, b->key_bytes);
    if (c == 0) /* what cannot be read comes last: the sample is an unbroken run */
        c = (a->problem != 0) - (b->problem != 0);
    if (c == 0)
        c = a->attached - b->attached;
    if (c == 0)
        c = strcmp(a->name, b->name);
    if (c == 0)
        c = compare_bytes(a->path, a->path_bytes, b->path, b->path_bytes);
    return c != 0 ? c : a->source < b->source ? -1 : a->source > b->source;
}

/* Sorts large records through an array of numbers: qsort would copy all of them aside. */
static const struct entry *sorting; /* qsort has no argument; single-threaded coordinator */
static int (*sorting_by)(const void *, const void *);

static int by_number(const void *pa, const void *pb)
{
    const uint32_t *a = pa, *b = pb;
    return sorting_by(&sorting[*a], &sorting[*b]);
}

static enum slimset_status sort_entries(struct entry *e, size_t n, int (*by)(const void *, const void *),
                                        struct slimset_error *err)
{
    size_t sorted = 1;
    while (sorted < n && by(&e[sorted - 1], &e[sorted]) <= 0)
        sorted++;
    if (sorted >= n)
        return SLIMSET_OK;
    if (n > UINT32_MAX)
        return err_set(err, SLIMSET_USAGE, "more than %u files", UINT32_MAX);
    uint32_t *order = malloc(n * sizeof *order);
    if (order == NULL)
        return err_nomem(err, n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    sorting = e;
    sorting_by = by;
    qsort(order, n, sizeof *order, by_number);
    for (size_t i = 0; i < n; i++) { /* follow each cycle of the permutation once */
        struct entry first = e[i];
        size_t at = i;
        while (order[at] != i) {
            size_t next = order[at];
            e[at] = e[next];
            order[at] = (uint32_t)at;
            at = next;
        }
        e[at] = first;
        order[at] = (uint32_t)at;
    }
    free(order);
    return SLIMSET_OK;
}

/* The stems of one folder, by hash; open addressing. */
struct stems {
    uint64_t *slot; /* 0 free */
    size_t mask;
};

static bool stems_has(const struct stems *s, uint64_t h)
{
    for (size_t i = h & s->mask;; i = (i + 1) & s->mask) {
        if (s->slot[i] == h)
            return true;
        if (s->slot[i] == 0)
            return false;
    }
}

static uint64_t stem_hash(const char *p, size_t n)
{
    uint64_t h = hash_bytes(p, n);
    return h != 0 ? h : 1;
}

static bool stems_fill(struct stems *s, const struct entry *e, size_t n)
{
    size_t cap = 16;
    while (cap < 2 * n)
        cap *= 2;
    s->slot = calloc(cap, sizeof *s->slot);
    s->mask = cap - 1;
    if (s->slot == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t b;
        const char *name = base_of(&e[i], &b);
        uint64_t h = stem_hash(name, stem_bytes(name, b));
        size_t at = h & s->mask;
        while (s->slot[at] != 0 && s->slot[at] != h)
            at = (at + 1) & s->mask;
        s->slot[at] = h;
    }
    return true;
}

/* What this stem joins: the longest shorter stem that exists, and what that one joins in turn; or itself. So clip.001.seg goes to
 * clip.001, which stays alone, and not to clip. */
static size_t root_bytes(const struct stems *s, const char *name, size_t stem)
{
    for (size_t i = stem; i-- > 1;)
        if (name[i] == '.' && i + 1 < stem && !all_digits(name + i + 1, stem - i - 1) && stems_has(s, stem_hash(name, i))) {
            stem = i;
            i = stem;
        }
    return stem;
}

static enum slimset_status group_folder(const struct listing *l, struct entry *e, size_t n, struct slimset_error *err)
{
    struct stems stems = {0};
    for (size_t i = 0; i < n; i++) {
        size_t b;
        const char *name = base_of(&e[i], &b);
        const struct source *src = &l->sources[e[i].source];
        if (src->webdataset) {
            size_t p = strlen(src->prefix);
            e[i].key_bytes = (uint32_t)(p + webdataset_key_bytes(e[i].path + p, e[i].path_bytes - p));
            continue;
        }
        size_t stem = stem_bytes(name, b);
        if (stem > 1 && stem < b && memchr(name + 1, '.', stem - 1) != NULL) { /* only such stems can join another */
            if (stems.slot == NULL && !stems_fill(&stems, e, n))
                return err_nomem(err, n * 16);
            stem = root_bytes(&stems, name, stem);
        }
        e[i].key_bytes = e[i].dir_bytes + (uint32_t)stem;
    }
    free(stems.slot);
    return sort_entries(e, n, by_folder_and_key, err);
}

enum slimset_status keys_group(struct listing *l, struct slimset_error *err)
{
    enum slimset_status st = sort_entries(l->entries, l->n_entries, by_folder_and_name, err);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_entries;) {
        const struct entry *a = &l->entries[i];
        size_t m = i + 1;
        while (m < l->n_entries && l->entries[m].dir_bytes == a->dir_bytes &&
               memcmp(l->entries[m].path, a->path, a->dir_bytes) == 0)
            m++;
        st = group_folder(l, &l->entries[i], m - i, err);
        i = m;
    }
    return st;
}

enum slimset_status keys_sort(struct listing *l, struct slimset_error *err)
{
    return sort_entries(l->entries, l->n_entries, by_folder_and_key, err);
}

bool keys_same(const struct entry *a, const struct entry *b)
{
    return a->key_bytes == b->key_bytes && a->name_dir_bytes == b->name_dir_bytes && memcmp(a->name, b->name, a->key_bytes) == 0;
}

const char *keys_field(const struct entry *e, size_t *n)
{
    const char *field = e->name + e->key_bytes;
    field += *field != '\0'; /* the dot */
    *n = strlen(field);
    return field;
}

/* "/a/./b/../c" of a file given by name becomes "a/b/c": a place inside OUT. */
static size_t inside(const char *p, size_t n, char *to)
{
    size_t out = 0;
    while (n > 0) {
        const char *slash = memchr(p, '/', n);
        size_t c = slash != NULL ? (size_t)(slash - p) : n;
        bool dots = (c == 1 && p[0] == '.') || (c == 2 && p[0] == '.' && p[1] == '.');
        bool skip = c == 0 || (dots && slash != NULL); /* the last component is a stem: "..jpg" is a name */
        if (!skip && out + c + 1 < KEYS_TEXT_MAX - 64) {
            if (out > 0)
                to[out++] = '/';
            memcpy(to + out, p, c);
            out += c;
        }
        if (slash == NULL)
            break;
        p += c + 1;
        n -= c + 1;
    }
    return out;
}

/* Bytes that tar readers and their indexes trip over. */
static void plain_bytes(char *p, size_t n, bool base)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c <= 0x20 || c == 0x7f || (base && c == '.'))
            p[i] = '_';
    }
}

static size_t put_hash(char *to, const struct entry *e)
{
    return (size_t)snprintf(to, 18, "-%016llx", (unsigned long long)hash_bytes(e->name, e->key_bytes));
}

/* Cuts a key until "key.field" fits a ustar header; a hash of the path stands for what was cut. */
static size_t fit_ustar(char *key, size_t n, const struct entry *e, size_t field_bytes)
{
    enum { HASH = 17 };
    const char *slash = memrchr(key, '/', n);
    size_t dir = slash != NULL ? (size_t)(slash + 1 - key) : 0, base = n - dir;
    size_t room = USTAR_NAME - 1 - (field_bytes < KEYS_FIELD_MAX ? field_bytes : KEYS_FIELD_MAX);
    bool cut_base = base > room, cut_dir = dir > USTAR_PREFIX;
    if (!cut_base && !cut_dir)
        return n;
    char base_text[BASE_MAX + 1 + HASH];
    size_t keep = base < room - HASH ? base : room - HASH;
    memcpy(base_text, key + dir, keep);
    keep += put_hash(base_text + keep, e);
    if (cut_dir) { /* the first components that fit */
        dir = USTAR_PREFIX;
        while (dir > 0 && key[dir - 1] != '/')
            dir--;
    }
    memcpy(key + dir, base_text, keep);
    return dir + keep;
}

/* Cuts the last component of a key until "key-hash.field" is a name that a file can have. */
static size_t fit_file_name(const char *key, size_t n, size_t field_bytes)
{
    enum { HASH = 17 };
    const char *slash = memrchr(key, '/', n);
    size_t dir = slash != NULL ? (size_t)(slash + 1 - key) : 0;
    size_t room = BASE_MAX - HASH - 1 - (field_bytes < KEYS_FIELD_MAX ? field_bytes : KEYS_FIELD_MAX);
    return n - dir > room ? dir + room : n;
}

bool keys_tree_holds(const struct entry *e)
{
    enum {
        PATH_BYTES_MAX = 3900, /* PATH_MAX is 4096; the field may grow */
        FOLDERS_MAX = 150      /* only archives have deeper ones; walks of OUT hold a descriptor for each */
    };
    char text[KEYS_TEXT_MAX];
    size_t n = strlen(e->name);
    if (n > PATH_BYTES_MAX)
        return false;
    n = inside(e->name, n, text);
    static const char index_name[] = "slimset.index", work[] = ".slimset";
    if (n == sizeof index_name - 1 && memcmp(text, index_name, n) == 0)
        return false;
    if (n >= sizeof work - 1 && memcmp(text, work, sizeof work - 1) == 0 &&
        (n == sizeof work - 1 || text[sizeof work - 1] == '/'))
        return false;
    for (size_t i = 0, component = 0, folders = 0; i < n; i++) {
        component = text[i] == '/' ? 0 : component + 1;
        folders += text[i] == '/';
        if (folders > FOLDERS_MAX || (component > BASE_MAX && memchr(text + i, '/', n - i) != NULL))
            return false; /* of names the folders' only: a file's can be cut */
    }
    return true;
}

size_t keys_text(const struct entry *e, bool tree, bool exact, bool suffix, size_t field_bytes, char *text, bool *changed)
{
    size_t n = inside(e->name, e->key_bytes, text);
    if (!tree && !exact) {
        const char *slash = memrchr(text, '/', n);
        size_t base = slash != NULL ? (size_t)(slash + 1 - text) : 0;
        plain_bytes(text, base, false);
        plain_bytes(text + base, n - base, true);
        if (n - base > 2 && text[base] == '_' && text[base + 1] == '_') { /* WebDataset hides names that begin so */
            memmove(text + base + 1, text + base, n - base);
            text[base] = 'x';
            n++;
        }
        if (base > 1 && text[0] == '_' && text[1] == '_') {
            memmove(text + 1, text, n);
            text[0] = 'x';
            n++;
        }
    }
    if (tree && suffix)
        n = fit_file_name(text, n, field_bytes);
    if (suffix)
        n += put_hash(text + n, e);
    if (!tree)
        n = fit_ustar(text, n, e, field_bytes);
    text[n] = '\0';
    *changed = n != e->key_bytes || memcmp(text, e->name, n) != 0;
    return n;
}
