/* SPDX-License-Identifier: Apache-2.0 */
#include "hint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "pattern.h"
#include "roles.h"

enum {
    HINTS_MAX = 16,    /* different pairs of folders that are told of */
    SAMPLE_FILES = 16, /* of a folder that show the suffix */
    MOST_PERCENT = 80, /* of a folder's files that have a partner */
    EXT_MAX = 12,
    CANDIDATES = 4,    /* folders that are compared with one of masks */
    WORK = 4           /* files and folders looked at in all, per file */
};

/* Picture files in the run of entries of one folder. */
struct folder {
    const char *dir;
    size_t dir_bytes;
    size_t first, end;        /* entries */
    size_t pictures;
    size_t part, part_bytes;  /* of dir: the component that is named like labels or depth; 0 bytes: none */
    enum role_hint hint;
};

/* One hint: folders above/image/rest and above/mask/rest, for any rest. */
struct pair {
    char image[300], mask[300];    /* patterns up to {} */
    char suffix[20], mask_ext[EXT_MAX + 1], image_ext[2][EXT_MAX + 1];
    size_t above, image_n, mask_n; /* bytes: of the folder above, and of the component */
    enum role_hint hint;
    size_t files, folders;
    bool told;
};

struct hints {
    const struct listing *l;
    struct folder *folder;
    size_t n_folders;
    uint64_t *stem;   /* hashes, open addressing; 0 free */
    size_t mask, cap; /* cap: what was allocated */
    uint64_t budget;  /* files and folders that may still be looked at */
    struct pair pair[HINTS_MAX];
    size_t n_pairs;
};

static const char *const suffixes[] = {"",       "_mask",   "_masks", "-mask",  ".mask",   "_seg",      "_segmentation", "_gt",
                                       "_label", "_labels", "_annot", "_anno",  "_annotation", "_labelids", "_matte",    "_lbl",
                                       "_l",     "_depth",  "_disp",  "_flow"};
enum { N_SUFFIXES = sizeof suffixes / sizeof suffixes[0] };

/* The stem and extension of a picture's file name; false for other files. */
static bool picture(const struct listing *l, const struct entry *e, size_t *stem, const char **ext)
{
    const char *base = e->path + e->dir_bytes, *dot = strrchr(base, '.');
    bool known;
    if (dot == NULL || dot == base || e->problem != SLIMSET_REJECT_NONE || l->sources[e->source].webdataset || strlen(dot + 1) > EXT_MAX)
        return false;
    *stem = (size_t)(dot - base);
    *ext = dot + 1;
    return role_of_extension(dot + 1, strlen(dot + 1), &known) == SLIMSET_ROLE_IMAGE;
}

/* --- the stems of one folder ----------------------------------------------------------------------------------- */

static uint64_t *place(const struct hints *h, const char *stem, size_t n)
{
    uint64_t hash = hash_bytes(stem, n);
    hash += hash == 0;
    size_t i = hash & h->mask;
    while (h->stem[i] != 0 && h->stem[i] != hash)
        i = (i + 1) & h->mask;
    if (h->stem[i] == 0)
        h->stem[i] = hash;
    return &h->stem[i];
}

static bool has(const struct hints *h, const char *stem, size_t n)
{
    uint64_t hash = hash_bytes(stem, n);
    hash += hash == 0;
    for (size_t i = hash & h->mask; h->stem[i] != 0; i = (i + 1) & h->mask)
        if (h->stem[i] == hash)
            return true;
    return false;
}

static bool fill(struct hints *h, const struct folder *f)
{
    size_t cap = 16, stem;
    const char *ext;
    while (cap < 2 * f->pictures)
        cap *= 2;
    if (cap > h->cap) {
        free(h->stem);
        h->stem = malloc(cap * sizeof *h->stem);
        h->cap = h->stem != NULL ? cap : 0;
        if (h->stem == NULL)
            return false;
    }
    memset(h->stem, 0, cap * sizeof *h->stem);
    h->mask = cap - 1;
    for (size_t i = f->first; i < f->end; i++)
        if (picture(h->l, &h->l->entries[i], &stem, &ext))
            place(h, h->l->entries[i].path + h->l->entries[i].dir_bytes, stem);
    return true;
}

/* The file's stem without the suffix, where it has that and something before it. */
static bool without(const char *base, size_t *stem, const char *suffix)
{
    size_t n = strlen(suffix);
    if (*stem <= n || strncasecmp(base + *stem - n, suffix, n) != 0)
        return false;
    *stem -= n;
    return true;
}

/* The suffix with which the first files of the folder have their partners; -1 none. */
static int find_suffix(const struct hints *h, const struct folder *f, int from)
{
    unsigned hits[N_SUFFIXES] = {0}, seen = 0;
    int best = -1;
    for (size_t i = f->first; i < f->end && seen < SAMPLE_FILES; i++) {
        const struct entry *e = &h->l->entries[i];
        size_t stem;
        const char *ext;
        if (!picture(h->l, e, &stem, &ext))
            continue;
        seen++;
        for (int s = from; s < N_SUFFIXES; s++) {
            size_t n = stem;
            hits[s] += without(e->path + e->dir_bytes, &n, suffixes[s]) && has(h, e->path + e->dir_bytes, n);
        }
    }
    for (int s = from; s < N_SUFFIXES; s++)
        if (hits[s] > 0 && (best < 0 || hits[s] > hits[best]))
            best = s;
    return best;
}

/* Files of f that have a partner in the filled stems; of the first one suffix and extension as they are written. */
static size_t count_partners(const struct hints *h, const struct folder *f, int suffix, struct pair *p)
{
    size_t n = 0;
    p->mask_ext[0] = '\0';
    for (size_t i = f->first; i < f->end; i++) {
        const struct entry *e = &h->l->entries[i];
        const char *base = e->path + e->dir_bytes, *ext;
        size_t stem, all;
        if (!picture(h->l, e, &stem, &ext) || (all = stem, !without(base, &stem, suffixes[suffix])) || !has(h, base, stem))
            continue;
        if (p->mask_ext[0] == '\0') {
            snprintf(p->mask_ext, sizeof p->mask_ext, "%s", ext);
            snprintf(p->suffix, sizeof p->suffix, "%.*s", (int)(all - stem), base + stem);
        }
        n += strcmp(p->mask_ext, ext) == 0 && memcmp(p->suffix, base + stem, all - stem) == 0;
    }
    return n;
}

/* Up to two extensions that the pictures of f have. */
static void find_extensions(const struct hints *h, const struct folder *f, struct pair *p)
{
    size_t stem;
    const char *ext;
    for (size_t i = f->first; i < f->end; i++)
        for (int k = 0; k < 2 && picture(h->l, &h->l->entries[i], &stem, &ext) && strcmp(p->image_ext[k], ext) != 0; k++)
            if (p->image_ext[k][0] == '\0') {
                snprintf(p->image_ext[k], sizeof p->image_ext[k], "%s", ext);
                break;
            }
}

/* --- pairs of folders ------------------------------------------------------------------------------------------- */

/* Can these bytes stand in a pattern, and on a line? */
static bool plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f || s[i] == '*' || s[i] == '{' || s[i] == '}')
            return false;
    return true;
}

static bool same(const struct pair *a, const struct pair *b)
{
    return strcmp(a->image, b->image) == 0 && strcmp(a->mask, b->mask) == 0 && strcmp(a->suffix, b->suffix) == 0 &&
           strcmp(a->mask_ext, b->mask_ext) == 0;
}

static void keep(struct hints *h, const struct pair *p)
{
    for (size_t i = 0; i < h->n_pairs; i++)
        if (same(&h->pair[i], p)) {
            h->pair[i].files += p->files;
            h->pair[i].folders++;
            return;
        }
    if (h->n_pairs < HINTS_MAX)
        h->pair[h->n_pairs++] = *p;
}

/* Compares the files of a folder b, whose component [part, part + part_bytes) is named like labels, with a's, which has another
 * component of image_n bytes there. */
static bool compare(struct hints *h, const struct folder *a, const struct folder *b, size_t image_n)
{
    size_t above = b->part;
    if (h->budget < a->pictures + b->pictures || above + b->part_bytes > 250 || above + image_n > 250 ||
        !plain(a->dir, above + image_n) || !plain(b->dir, above + b->part_bytes))
        return false;
    h->budget -= a->pictures + b->pictures;
    struct pair p = {.above = above, .image_n = image_n, .mask_n = b->part_bytes, .hint = b->hint, .folders = 1};
    if (!fill(h, a))
        return false;
    int suffix = find_suffix(h, b, 0);
    if (suffix < 0)
        return false;
    p.files = count_partners(h, b, suffix, &p);
    size_t least = a->pictures < b->pictures ? a->pictures : b->pictures;
    if (p.files < 2 || p.files * 100 < least * MOST_PERCENT)
        return false;
    find_extensions(h, a, &p);
    snprintf(p.image, sizeof p.image, "%.*s/", (int)(above + image_n), a->dir);
    snprintf(p.mask, sizeof p.mask, "%.*s/", (int)(above + b->part_bytes), b->dir);
    keep(h, &p);
    return true;
}

/* b's folder with another component where its own is named like labels: 0 no, else bytes of that component. */
static size_t partner_component(const struct folder *a, const struct folder *b)
{
    size_t rest = b->part + b->part_bytes; /* of b, with its '/' */
    if (a->dir_bytes <= b->part || memcmp(a->dir, b->dir, b->part) != 0)
        return 0;
    const char *part = a->dir + b->part, *slash = memchr(part, '/', a->dir_bytes - b->part);
    size_t n = slash != NULL ? (size_t)(slash - part) : 0;
    if (n == 0 || a->dir_bytes - b->part - n != b->dir_bytes - rest || memcmp(slash, b->dir + rest, b->dir_bytes - rest) != 0)
        return 0;
    return n;
}

/* How well the names go together: val and valannot, images and masks, or just neighbours. */
static int liking(const char *image, size_t n, const char *mask, size_t m)
{
    if (n < m && (strncasecmp(image, mask, n) == 0 || strncasecmp(image, mask + m - n, n) == 0))
        return 3;
    return role_is_generic(image, n) && !role_is_split(image, n) ? 2 : 1;
}

/* Folders by what is above and behind a component: where a mask folder's partners are looked up. */
struct twin {
    uint64_t hash;
    uint32_t folder;
    uint8_t part_no;
};

static int by_hash(const void *pa, const void *pb)
{
    const struct twin *a = pa, *b = pb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->folder < b->folder ? -1 : a->folder > b->folder;
}

static uint64_t around(const char *dir, size_t at, size_t n, size_t dir_bytes)
{
    struct hash_stream s;
    hash_init(&s);
    hash_update(&s, dir, at);
    hash_update(&s, "*", 1);
    hash_update(&s, dir + at + n, dir_bytes - at - n);
    return hash_value(&s);
}

static void compare_best(struct hints *h, const struct folder *b, const struct twin *t, size_t n)
{
    for (int like = 3, tried = 0; like > 0; like--)
        for (size_t i = 0; i < n && tried < CANDIDATES && h->budget > 0; i++) {
            h->budget--;
            const struct folder *a = &h->folder[t[i].folder];
            size_t part = partner_component(a, b);
            if (part == 0 || liking(a->dir + b->part, part, b->dir + b->part, b->part_bytes) != like)
                continue;
            tried++;
            if (compare(h, a, b, part))
                return;
        }
}

static void compare_folders(struct hints *h)
{
    size_t n = 0, kept = 0, masks = 0;
    for (size_t i = 0; i < h->n_folders; i++) {
        masks += h->folder[i].part_bytes > 0;
        for (size_t k = 0; k < h->folder[i].dir_bytes; k++)
            n += h->folder[i].dir[k] == '/';
    }
    struct twin *t = masks > 0 && masks < h->n_folders ? malloc((n + 1) * sizeof *t) : NULL;
    for (size_t i = 0; t != NULL && i < h->n_folders; i++) {
        const struct folder *f = &h->folder[i];
        for (size_t at = 0, end; f->part_bytes == 0 && at < f->dir_bytes; at = end + 1) {
            end = at;
            while (f->dir[end] != '/')
                end++;
            t[kept++] = (struct twin){.hash = around(f->dir, at, end - at, f->dir_bytes), .folder = (uint32_t)i};
        }
    }
    if (kept > 0)
        qsort(t, kept, sizeof *t, by_hash);
    for (size_t i = 0; t != NULL && h->n_pairs < HINTS_MAX && i < h->n_folders; i++) {
        const struct folder *b = &h->folder[i];
        if (b->part_bytes == 0)
            continue;
        uint64_t want = around(b->dir, b->part, b->part_bytes, b->dir_bytes);
        size_t lo = 0, hi = kept;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (t[mid].hash < want)
                lo = mid + 1;
            else
                hi = mid;
        }
        for (hi = lo; hi < kept && t[hi].hash == want && hi - lo < 256; hi++)
            continue;
        compare_best(h, b, t + lo, hi - lo);
    }
    free(t);
}

/* --- one folder ---------------------------------------------------------------------------------------------------- */

/* 1.tif and 1_mask.tif side by side: a hint where half of the files have such a partner. */
static void compare_suffixes(struct hints *h)
{
    struct pair p = {.hint = ROLE_HINT_MASK}, total = {0};
    for (size_t i = 0; i < h->n_folders; i++) {
        const struct folder *f = &h->folder[i];
        if (f->pictures < 2 || h->budget < 2 * f->pictures)
            continue;
        h->budget -= 2 * f->pictures;
        if (!fill(h, f))
            return;
        int suffix = find_suffix(h, f, 1);
        size_t n = suffix > 0 ? count_partners(h, f, suffix, &p) : 0;
        if (n == 0 || 3 * n < f->pictures)
            continue;
        if (total.files == 0) {
            total = p;
            find_extensions(h, f, &total);
        }
        if (same(&p, &total)) {
            total.files += n;
            total.folders++;
        }
    }
    const char *s = total.suffix;
    if (total.files >= 2 && (strcasecmp(s, "_depth") == 0 || strcasecmp(s, "_disp") == 0 || strcasecmp(s, "_flow") == 0))
        total.hint = ROLE_HINT_DEPTH;
    if (total.files >= 2)
        keep(h, &total);
}

/* --- telling -------------------------------------------------------------------------------------------------------- */

/* The text as a shell takes it, in quotes. */
static void quote(const char *text, char *to, size_t room)
{
    size_t at = 0;
    for (const char *c = text; *c != '\0' && at + 6 < room; c++)
        at += (size_t)snprintf(to + at, room - at, *c == '\'' ? "'\\''" : "%c", *c);
    to[at] = '\0';
}

static void append_field(char *text, size_t room, const char *name, const char *head, const char *suffix, const char *ext)
{
    char pattern[360], quoted[720];
    size_t at = strlen(text);
    snprintf(pattern, sizeof pattern, "%s{}%s.%s", head, suffix, ext);
    quote(pattern, quoted, sizeof quoted);
    snprintf(text + at, room - at, " --field %s='%s'", name, quoted);
}

/* Does b differ from a as val, valannot differ from train, trainannot? Then one pattern with * serves both. */
static bool alike(const struct pair *a, const struct pair *b)
{
    return !b->told && a->above == b->above && memcmp(a->image, b->image, a->above) == 0 && a->image_n < a->mask_n &&
           b->mask_n - b->image_n == a->mask_n - a->image_n && memcmp(a->image + a->above, a->mask + a->above, a->image_n) == 0 &&
           memcmp(b->image + b->above, b->mask + b->above, b->image_n) == 0 &&
           strcmp(a->mask + a->above + a->image_n, b->mask + b->above + b->image_n) == 0 && strcmp(a->suffix, b->suffix) == 0 &&
           strcmp(a->mask_ext, b->mask_ext) == 0 && strcmp(a->image_ext[0], b->image_ext[0]) == 0 &&
           strcmp(a->image_ext[1], b->image_ext[1]) == 0 && a->hint == b->hint;
}

static void tell(struct hints *h, size_t i, const struct slimset_run *run)
{
    struct pair *p = &h->pair[i];
    char flags[900] = "", image[310], mask[310];
    size_t files = p->files, others = 0;
    for (size_t k = i + 1; k < h->n_pairs; k++)
        if (alike(p, &h->pair[k])) {
            h->pair[k].told = true;
            files += h->pair[k].files;
            others++;
        }
    snprintf(image, sizeof image, "%s", p->image);
    snprintf(mask, sizeof mask, "%s", p->mask);
    if (others > 0) {
        snprintf(image, sizeof image, "%.*s*/", (int)p->above, p->image);
        snprintf(mask, sizeof mask, "%.*s*%s", (int)p->above, p->mask, p->mask + p->above + p->image_n);
    }
    for (int k = 0; k < 2 && p->image_ext[k][0] != '\0'; k++)
        append_field(flags, sizeof flags, "image", image, "", p->image_ext[k]);
    append_field(flags, sizeof flags, p->hint == ROLE_HINT_DEPTH ? "depth" : "mask", mask, p->suffix, p->mask_ext);
    if (strlen(flags) > sizeof flags - 100)
        return;
    if (p->mask[0] == '\0')
        run_note(run, SLIMSET_EVENT_NOTE, "found %zu files that are called as others and %s: to make them one sample:%s", files, p->suffix, flags);
    else if (others > 0)
        run_note(run, SLIMSET_EVENT_NOTE, "found %zu files in %.*s and %zu more folders with the stems of %.*s and so on: to make them one sample:%s",
                 files, (int)strlen(p->mask) - 1, p->mask, others, (int)strlen(p->image) - 1, p->image, flags);
    else
        run_note(run, SLIMSET_EVENT_NOTE, "found %zu files in %.*s with the stems of %.*s: to make them one sample:%s", files,
                 (int)strlen(p->mask) - 1, p->mask, (int)strlen(p->image) - 1, p->image, flags);
}

/* What a folder's name means: as roles.h has it, and some more that may hold other things than masks. */
static enum role_hint meaning_of(const char *name, size_t n)
{
    static const char *const masks[] = {"annotations", "annotation", "trimaps", "target", "targets", "mattes", "matte", "alpha"};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        if (strlen(masks[i]) == n && strncasecmp(masks[i], name, n) == 0)
            return ROLE_HINT_MASK;
    return role_hint_of(name, n, "", 0);
}

/* The first component that is named like labels or depth. */
static void find_part(struct folder *f)
{
    for (size_t at = 0, end; at < f->dir_bytes && f->part_bytes == 0; at = end + 1) {
        end = at;
        while (f->dir[end] != '/')
            end++;
        f->hint = meaning_of(f->dir + at, end - at);
        if (f->hint != ROLE_HINT_NONE) {
            f->part = at;
            f->part_bytes = end - at;
        }
    }
}

static bool find_folders(struct hints *h)
{
    const struct listing *l = h->l;
    size_t cap = 0, stem;
    const char *ext;
    for (size_t i = 0; i < l->n_entries;) {
        const struct entry *e = &l->entries[i];
        struct folder f = {.dir = e->path, .dir_bytes = e->dir_bytes, .first = i};
        for (; i < l->n_entries && l->entries[i].dir_bytes == f.dir_bytes && memcmp(l->entries[i].path, f.dir, f.dir_bytes) == 0; i++)
            f.pictures += picture(l, &l->entries[i], &stem, &ext);
        f.end = i;
        if (f.pictures == 0)
            continue;
        if (h->n_folders == cap) {
            cap = 2 * cap + 64;
            struct folder *grown = realloc(h->folder, cap * sizeof *grown);
            if (grown == NULL)
                return false;
            h->folder = grown;
        }
        find_part(&f);
        h->folder[h->n_folders++] = f;
    }
    return true;
}

void hint_joins(const struct listing *l, const struct slimset_run *run)
{
    struct hints *h = calloc(1, sizeof *h);
    if (h == NULL || run->event == NULL) {
        free(h);
        return;
    }
    h->l = l;
    h->budget = WORK * (uint64_t)l->n_entries;
    if (find_folders(h)) {
        compare_folders(h);
        compare_suffixes(h);
    }
    for (size_t i = 0; i < h->n_pairs; i++)
        if (!h->pair[i].told)
            tell(h, i, run);
    free(h->folder);
    free(h->stem);
    free(h);
}
