/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of the plan: keys made distinct, classes, places, shards.
 *
 * A shard owns a range of places (hashes, or paths in source order). The limits are cut once, from estimated output sizes, and
 * frozen: a sample that comes or goes later changes the one shard that owns its place and no other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "convert.h"
#include "group.h"
#include "keys.h"
#include "plan.h"
#include "roles.h"

enum { SHARDS_MIN = 32, FILL_PERCENT = 85, FIELD_OVERHEAD = 1024 };

/* --- samples that turned out to hold nothing ---------------------------------------------------------- */

static bool has_pixels(const struct plan *p, const struct plan_sample *s)
{
    const struct entry *e = &p->listing.entries[s->first];
    if (p->recipe->layout == SLIMSET_LAYOUT_TREE || (p->listing.sources[e->source].webdataset && p->recipe->layout != SLIMSET_LAYOUT_NPY))
        return true;
    for (unsigned i = 0; i < s->n; i++)
        if (p->rules[e[i].rule].role != SLIMSET_ROLE_COPY)
            return true;
    return false;
}

static enum slimset_status drop_empty(struct plan *p, struct slimset_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct plan_sample *s = &p->samples[i];
        if (has_pixels(p, s)) {
            p->samples[kept++] = *s;
            continue;
        }
        for (unsigned k = 0; k < s->n; k++) {
            const struct entry *e = &p->listing.entries[s->first + k];
            enum slimset_status st = listing_leave_out(&p->listing, e->path, e->path_bytes, 2, "belongs to no image", err);
            if (st != SLIMSET_OK)
                return st;
        }
    }
    p->n_samples = kept;
    return SLIMSET_OK;
}

/* --- distinct keys --------------------------------------------------------------------------------------- */

struct key_hash {
    uint64_t hash;
    uint32_t sample;
    uint8_t changed;
};

static int by_key_hash(const void *pa, const void *pb)
{
    const struct key_hash *a = pa, *b = pb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* Of samples with one key, those whose key was changed from the path get the path's hash; of those that are equal by
 * themselves (two archives) the first stays. */
static enum slimset_status distinct_keys(struct plan *p, struct slimset_error *err)
{
    struct key_hash *k = malloc((p->n_samples + 1) * sizeof *k);
    char text[KEYS_TEXT_MAX];
    if (k == NULL)
        return err_nomem(err, p->n_samples * sizeof *k);
    for (size_t i = 0; i < p->n_samples; i++) {
        struct plan_sample *s = &p->samples[i];
        const struct entry *e = &p->listing.entries[s->first];
        size_t n = plan_key(p, s, text);
        k[i] = (struct key_hash){.hash = hash_bytes(text, n), .sample = (uint32_t)i,
                                 .changed = n != e->key_bytes || memcmp(text, e->name, n) != 0};
    }
    qsort(k, p->n_samples, sizeof *k, by_key_hash);
    for (size_t i = 0; i < p->n_samples;) {
        size_t m = i + 1;
        while (m < p->n_samples && k[m].hash == k[i].hash)
            m++;
        bool taken = false;
        for (size_t j = i; m - i > 1 && j < m; j++) {
            struct plan_sample *s = &p->samples[k[j].sample];
            if (k[j].changed)
                s->suffix = 1;
            else if (taken)
                s->duplicate = 1;
            else
                taken = true;
        }
        i = m;
    }
    free(k);
    return SLIMSET_OK;
}

/* --- names that a tree can hold ----------------------------------------------------------------------------- */

enum { NAME_BYTES_MAX = 255 /* of a component, as file systems have it */ };

/* The folders of a tree, by the hash of their paths. */
struct folders {
    uint64_t *hash;
    size_t n, cap;
};

static int by_hash(const void *pa, const void *pb)
{
    const uint64_t *a = pa, *b = pb;
    return *a < *b ? -1 : *a > *b;
}

static enum slimset_status folders_add(struct folders *f, uint64_t hash, struct slimset_error *err)
{
    if (f->n == f->cap) {
        size_t cap = f->cap * 2 + 64;
        uint64_t *grown = realloc(f->hash, cap * sizeof *grown);
        if (grown == NULL)
            return err_nomem(err, cap * sizeof *grown);
        f->hash = grown;
        f->cap = cap;
    }
    f->hash[f->n++] = hash;
    return SLIMSET_OK;
}

static enum slimset_status find_folders(const struct plan *p, struct folders *f, struct slimset_error *err)
{
    const struct entry *last = NULL;
    char text[KEYS_TEXT_MAX];
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_samples; i++) {
        const struct entry *e = &p->listing.entries[p->samples[i].first];
        if (e->name_dir_bytes == 0 || (last != NULL && last->name_dir_bytes == e->name_dir_bytes &&
                                       memcmp(last->name, e->name, e->name_dir_bytes) == 0))
            continue;
        last = e;
        size_t n = plan_key(p, &p->samples[i], text);
        for (size_t k = 1; st == SLIMSET_OK && k < n; k++)
            if (text[k] == '/')
                st = folders_add(f, hash_bytes(text, k), err);
    }
    size_t kept = 0;
    if (f->n > 0)
        qsort(f->hash, f->n, sizeof *f->hash, by_hash);
    for (size_t i = 0; i < f->n; i++)
        if (kept == 0 || f->hash[kept - 1] != f->hash[i])
            f->hash[kept++] = f->hash[i];
    f->n = kept;
    return st;
}

/* No file can be called key + "." + a + b. */
static bool impossible(const struct folders *f, const char *key, size_t key_n, const char *a, size_t a_n, const char *b)
{
    char name[KEYS_TEXT_MAX + 2 * KEYS_FIELD_MAX];
    const char *slash = memrchr(key, '/', key_n);
    size_t base = slash != NULL ? (size_t)(slash + 1 - key) : 0;
    size_t n = (size_t)snprintf(name, sizeof name, "%.*s%s%.*s%s", (int)key_n, key, a_n > 0 || b[0] != '\0' ? "." : "", (int)a_n, a, b);
    uint64_t hash = hash_bytes(name, n);
    return n - base > NAME_BYTES_MAX || (f->n > 0 && bsearch(&hash, f->hash, f->n, sizeof hash, by_hash) != NULL);
}

/* The formats an image of this rule may be stored in besides its own. */
static unsigned formats_of(const struct plan *p, const struct plan_rule *r, enum image_format format[3])
{
    switch ((enum slimset_codec)r->codec) {
    case SLIMSET_CODEC_JPEG:
        format[0] = FORMAT_JPEG;
        return 1;
    case SLIMSET_CODEC_PNG:
        format[0] = FORMAT_PNG;
        return 1;
    case SLIMSET_CODEC_WEBP:
        format[0] = FORMAT_WEBP;
        return 1;
    case SLIMSET_CODEC_NPY:
        format[0] = FORMAT_NPY;
        return 1;
    case SLIMSET_CODEC_NPY_ZST:
    case SLIMSET_CODEC_NPY_BLOSC:
        format[0] = FORMAT_NPY_ZST;
        format[1] = FORMAT_NPY_BLOSC;
        return 2;
    case SLIMSET_CODEC_NPZ:
        format[0] = FORMAT_NPZ;
        return 1;
    case SLIMSET_CODEC_COUNT:
    case SLIMSET_CODEC_KEEP:
        break;
    }
    if (p->recipe->n_settings == 0 && convert_keeps_pixels(p->recipe))
        return 0;
    format[0] = FORMAT_JPEG;
    format[1] = FORMAT_PNG;
    format[2] = FORMAT_WEBP;
    return 3;
}

/* Might one of the sample's files get a name that a folder has or no file can have? */
static bool needs_other_name(const struct plan *p, const struct plan_sample *s, const struct folders *f)
{
    char key[KEYS_TEXT_MAX];
    size_t key_n = plan_key(p, s, key);
    const struct entry *e = &p->listing.entries[s->first];
    for (unsigned i = 0; i < s->n; i++) {
        size_t n;
        const char *field = keys_field(&e[i], &n);
        const struct plan_rule *r = &p->rules[e[i].rule];
        enum image_format format[3];
        if (n > KEYS_FIELD_SOURCE) {
            field += n - KEYS_FIELD_SOURCE;
            n = KEYS_FIELD_SOURCE;
        }
        if (impossible(f, key, key_n, field, n, ""))
            return true;
        if (r->role == SLIMSET_ROLE_COPY || r->role == SLIMSET_ROLE_ARRAY)
            continue;
        const char *dot = memrchr(field, '.', n);
        size_t stem = dot != NULL ? (size_t)(dot + 1 - field) : 0;
        for (unsigned k = formats_of(p, r, format); k-- > 0;) {
            const char *usual = role_extension(format[k]);
            char again[2 * KEYS_FIELD_MAX];
            if (role_extension_fits(format[k], field + stem, n - stem))
                continue;
            if (impossible(f, key, key_n, field, stem, usual))
                return true;
            int again_n = snprintf(again, sizeof again, "%.*s.%.*s", (int)(n - stem < 15 ? n - stem : 15), field + stem, (int)stem, field);
            if (s->n > 1 && impossible(f, key, key_n, again, (size_t)again_n, usual))
                return true;
        }
    }
    return false;
}

static enum slimset_status possible_names(struct plan *p, struct slimset_error *err)
{
    struct folders f = {0};
    enum slimset_status st = find_folders(p, &f, err);
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_samples; i++)
        if (p->samples[i].suffix == 0 && needs_other_name(p, &p->samples[i], &f))
            p->samples[i].suffix = 1;
    free(f.hash);
    return st;
}

/* --- classes ------------------------------------------------------------------------------------------------ */

/* The class folder of a sample: the first component behind the split. Only where the file lies right inside it, unless deep. */
static const char *class_of(const struct plan *p, const struct plan_sample *s, bool deep, size_t *n)
{
    const struct entry *e = &p->listing.entries[s->first];
    const bool grouped = e->join == GROUP_JOIN; /* the folder is the sample: its class is the one above */
    const char *path = grouped ? e->name : e->path;
    const size_t dir_bytes = grouped ? e->name_dir_bytes : e->dir_bytes;
    size_t at = 0;
    const char *slash = memchr(path, '/', dir_bytes);
    if (slash != NULL && role_is_split(path, (size_t)(slash - path)))
        at = (size_t)(slash + 1 - path);
    slash = memchr(path + at, '/', dir_bytes - at);
    *n = 0;
    if (slash == NULL || (!deep && slash + 1 != path + dir_bytes))
        return NULL;
    *n = (size_t)(slash - path) - at;
    return path + at;
}

static bool is_image_sample(const struct plan *p, const struct plan_sample *s)
{
    const struct entry *e = &p->listing.entries[s->first];
    for (unsigned i = 0; i < s->n; i++)
        if (p->rules[e[i].rule].role != SLIMSET_ROLE_COPY)
            return true;
    return false;
}

/* Is this an ImageFolder: every image in a folder of its own class, two or more classes, none of them called images, masks...? */
static bool is_class_tree(const struct plan *p)
{
    const char *first = NULL;
    size_t first_n = 0, images = 0;
    bool several = false;
    for (size_t i = 0; i < p->n_samples; i++) {
        size_t n;
        const struct plan_sample *s = &p->samples[i];
        const struct entry *e = &p->listing.entries[s->first];
        if (!is_image_sample(p, s))
            continue;
        if (p->listing.sources[e->source].webdataset)
            return false;
        const char *c = class_of(p, s, false, &n);
        if (c == NULL || role_is_generic(c, n))
            return false;
        images++;
        if (first == NULL) {
            first = c;
            first_n = n;
        }
        several |= n != first_n || memcmp(c, first, n) != 0;
    }
    return images > 0 && several;
}

struct name {
    const char *p;
    size_t n;
    long number; /* of a class */
};

static int by_name(const void *pa, const void *pb)
{
    const struct name *a = pa, *b = pb;
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return c != 0 ? c : a->n < b->n ? -1 : a->n > b->n;
}

static int by_number(const void *pa, const void *pb)
{
    const struct name *a = pa, *b = pb;
    unsigned long long x = strtoull(a->p, NULL, 10), y = strtoull(b->p, NULL, 10);
    return x != y ? (x < y ? -1 : 1) : by_name(pa, pb);
}

/* The classes by name, for class_number. */
static enum slimset_status sort_classes(const struct plan *p, struct name **sorted, struct slimset_error *err)
{
    struct name *s = malloc((p->n_classes + 1) * sizeof *s);
    free(*sorted);
    *sorted = s;
    if (s == NULL)
        return err_nomem(err, p->n_classes * sizeof *s);
    for (size_t i = 0; i < p->n_classes; i++)
        s[i] = (struct name){p->classes[i], strlen(p->classes[i]), (long)i};
    qsort(s, p->n_classes, sizeof *s, by_name);
    return SLIMSET_OK;
}

static long class_number(const struct plan *p, const struct name *sorted, const struct name *want)
{
    const struct name *found = bsearch(want, sorted, p->n_classes, sizeof *sorted, by_name);
    return found != NULL ? found->number : -1;
}

static bool all_numeric(const struct name *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strspn(names[i].p, "0123456789") < names[i].n)
            return false;
    return n > 0;
}

/* Adds the names that are not classes yet, sorted. */
static enum slimset_status add_classes(struct plan *p, struct name *names, size_t n, const struct slimset_run *run,
                                       struct slimset_error *err)
{
    bool frozen = p->n_classes > 0;
    qsort(names, n, sizeof *names, by_name);
    if (all_numeric(names, n)) {
        struct name *order = malloc((n + 1) * sizeof *order);
        if (order == NULL)
            return err_nomem(err, n * sizeof *order);
        memcpy(order, names, n * sizeof *order);
        qsort(order, n, sizeof *order, by_number);
        bool differs = memcmp(order, names, n * sizeof *order) != 0;
        if (p->recipe->class_order_numeric)
            memcpy(names, order, n * sizeof *order);
        else if (differs && !frozen)
            run_note(run, SLIMSET_EVENT_WARNING, "class folders are numbers; they are numbered in byte order as torchvision does "
                     "(\"10\" before \"2\"); --class-order numeric numbers them by value");
        free(order);
    }
    char **grown = realloc(p->classes, (p->n_classes + n + 1) * sizeof *grown);
    if (grown == NULL)
        return err_nomem(err, n * sizeof *grown);
    p->classes = grown;
    for (size_t i = 0; i < n; i++) {
        p->classes[p->n_classes] = strndup(names[i].p, names[i].n);
        if (p->classes[p->n_classes] == NULL)
            return err_nomem(err, names[i].n);
        if (frozen)
            run_note(run, SLIMSET_EVENT_NOTE, "new class \"%s\" gets number %zu; the others keep theirs", p->classes[p->n_classes],
                     p->n_classes);
        p->n_classes++;
    }
    return SLIMSET_OK;
}

/* The class folder of sample i; false where it has none. */
static bool name_of_class(const struct plan *p, size_t i, struct name *to)
{
    const struct plan_sample *s = &p->samples[i];
    bool deep = p->recipe->classes == SLIMSET_CLASSES_FOLDER || p->frozen;
    to->p = is_image_sample(p, s) ? class_of(p, s, deep, &to->n) : NULL;
    return to->p != NULL;
}

/* Adds the class folders that are not classes yet. */
static enum slimset_status new_classes(struct plan *p, const struct name *sorted, const struct slimset_run *run,
                                       struct slimset_error *err)
{
    struct name *names = NULL, now = {0};
    size_t n = 0, cap = 0, kept = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        /* samples come sorted by path: the class is mostly the last one */
        if (!name_of_class(p, i, &now) || (n > 0 && by_name(&names[n - 1], &now) == 0) || class_number(p, sorted, &now) >= 0)
            continue;
        if (n == cap) {
            cap = 2 * cap + 16;
            struct name *grown = realloc(names, cap * sizeof *grown);
            if (grown == NULL) {
                free(names);
                return err_nomem(err, cap * sizeof *grown);
            }
            names = grown;
        }
        names[n++] = now;
    }
    if (n > 0)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || by_name(&names[kept - 1], &names[i]) != 0)
            names[kept++] = names[i];
    enum slimset_status st = kept > 0 ? add_classes(p, names, kept, run, err) : SLIMSET_OK;
    free(names);
    return st;
}

static enum slimset_status find_classes(struct plan *p, const struct slimset_run *run, struct slimset_error *err)
{
    enum slimset_classes want = p->recipe->classes;
    if (want == SLIMSET_CLASSES_NONE || (want == SLIMSET_CLASSES_AUTO && p->frozen && !p->class_trees))
        return SLIMSET_OK;
    if (want == SLIMSET_CLASSES_AUTO && !p->class_trees && !is_class_tree(p))
        return SLIMSET_OK;
    p->class_trees = true;
    struct name *sorted = NULL, now = {0};
    enum slimset_status st = sort_classes(p, &sorted, err);
    if (st == SLIMSET_OK)
        st = new_classes(p, sorted, run, err);
    if (st == SLIMSET_OK)
        st = sort_classes(p, &sorted, err);
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_samples; i++)
        if (name_of_class(p, i, &now))
            p->samples[i].cls = (int32_t)class_number(p, sorted, &now);
    free(sorted);
    return st;
}

/* --- order and shards ------------------------------------------------------------------------------------ */

static const struct plan *sorting; /* qsort has no argument; single-threaded coordinator */

static int by_place(const void *pa, const void *pb)
{
    const struct plan_sample *a = pa, *b = pb;
    if (a->split != b->split)
        return a->split < b->split ? -1 : 1;
    if (sorting->splits[a->split].order == SLIMSET_ORDER_SHUFFLED && a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first; /* entries are sorted by path */
}

static int by_split_name(const void *pa, const void *pb)
{
    const uint16_t *a = pa, *b = pb;
    return strcmp(sorting->splits[*a].name, sorting->splits[*b].name);
}

/* Splits in byte order of their names; samples and shards follow. */
static enum slimset_status order_splits(struct plan *p, struct slimset_error *err)
{
    uint16_t *order = malloc((p->n_splits + 1) * sizeof *order), *back = malloc((p->n_splits + 1) * sizeof *back);
    struct plan_split *splits = malloc((p->n_splits + 1) * sizeof *splits);
    enum slimset_status st = SLIMSET_OK;
    if (order == NULL || back == NULL || splits == NULL) {
        st = err_nomem(err, p->n_splits * sizeof *splits);
        goto out;
    }
    for (size_t i = 0; i < p->n_splits; i++)
        order[i] = (uint16_t)i;
    sorting = p;
    qsort(order, p->n_splits, sizeof *order, by_split_name);
    for (size_t i = 0; i < p->n_splits; i++) {
        back[order[i]] = (uint16_t)i;
        splits[i] = p->splits[order[i]];
    }
    if (p->n_splits > 0)
        memcpy(p->splits, splits, p->n_splits * sizeof *splits);
    for (size_t i = 0; i < p->n_samples; i++)
        p->samples[i].split = back[p->samples[i].split];
    for (size_t i = 0; i < p->n_shards; i++)
        p->shards[i].split = back[p->shards[i].split];
out:
    free(order);
    free(back);
    free(splits);
    return st;
}

static uint64_t estimate(const struct plan *p, const struct plan_sample *s)
{
    uint64_t overhead = p->recipe->layout == SLIMSET_LAYOUT_NPY ? 0 : FIELD_OVERHEAD, n = s->cls >= 0 ? overhead : 0;
    const struct entry *e = &p->listing.entries[s->first];
    for (unsigned i = 0; i < s->n; i++)
        n += overhead + (uint64_t)((double)e[i].bytes * p->rules[e[i].rule].ratio);
    return n;
}

/* Cuts a split that has no shards yet into ranges of about equal estimated bytes, none empty. */
static enum slimset_status cut_split(struct plan *p, uint32_t split, struct plan_shard **shards, size_t *n_shards,
                                     struct slimset_error *err)
{
    struct plan_split *sp = &p->splits[split];
    uint64_t fill = p->recipe->shard_bytes / 100 * FILL_PERCENT, want, done = 0;
    sp->bytes = 0;
    for (size_t i = 0; i < sp->n_samples; i++)
        sp->bytes += estimate(p, &p->samples[sp->first_sample + i]);
    want = p->recipe->shards != 0 ? p->recipe->shards : (sp->bytes + fill - 1) / (fill != 0 ? fill : 1);
    if (p->recipe->shards == 0 && want < SHARDS_MIN && p->recipe->layout != SLIMSET_LAYOUT_NPY) /* few files are easily mapped */
        want = SHARDS_MIN;
    if (want > sp->n_samples)
        want = sp->n_samples;
    struct plan_shard *grown = realloc(*shards, (*n_shards + want + 1) * sizeof *grown);
    if (grown == NULL)
        return err_nomem(err, want * sizeof *grown);
    *shards = grown;
    sp->first_shard = *n_shards;
    sp->n_shards = want;
    size_t at = 0;
    for (uint64_t k = 0; k < want; k++) {
        const struct plan_sample *s = &p->samples[sp->first_sample + at];
        const struct entry *e = &p->listing.entries[s->first];
        bool shuffled = sp->order == SLIMSET_ORDER_SHUFFLED;
        struct plan_shard *to = &grown[(*n_shards)++];
        *to = (struct plan_shard){.split = split, .number = (uint32_t)k, .first_hash = shuffled && k > 0 ? s->place : 0};
        to->first_path = shuffled || k == 0 ? strdup("") : strndup(e->name, e->key_bytes);
        if (to->first_path == NULL)
            return err_nomem(err, e->key_bytes);
        size_t last = sp->n_samples - (size_t)(want - k - 1); /* leave one for each shard behind */
        size_t begin = at;
        unsigned __int128 limit = (unsigned __int128)sp->bytes * (k + 1) / want;
        while (at < last && (at == begin || done < limit))
            done += estimate(p, &p->samples[sp->first_sample + at++]);
    }
    return SLIMSET_OK;
}

static bool belongs_before(const struct plan *p, const struct plan_sample *s, const struct plan_shard *shard)
{
    if (p->splits[s->split].order == SLIMSET_ORDER_SHUFFLED)
        return s->place < shard->first_hash;
    const struct entry *e = &p->listing.entries[s->first];
    size_t m = strlen(shard->first_path);
    const char *slash = memrchr(shard->first_path, '/', m); /* compared as the listing is sorted: folder, then key */
    size_t dir = slash != NULL ? (size_t)(slash + 1 - shard->first_path) : 0;
    int c = by_name(&(struct name){.p = e->name, .n = e->name_dir_bytes}, &(struct name){.p = shard->first_path, .n = dir});
    if (c == 0)
        c = by_name(&(struct name){.p = e->name, .n = e->key_bytes}, &(struct name){.p = shard->first_path, .n = m});
    return c < 0;
}

static void fill_shards(struct plan *p, const struct plan_split *sp)
{
    size_t at = sp->first_sample, end = sp->first_sample + sp->n_samples;
    for (size_t k = 0; k < sp->n_shards; k++) {
        struct plan_shard *s = &p->shards[sp->first_shard + k];
        s->first_sample = at;
        while (at < end && (k + 1 == sp->n_shards || belongs_before(p, &p->samples[at], s + 1)))
            at++;
        s->n_samples = at - s->first_sample;
    }
}

static enum slimset_status make_shards(struct plan *p, struct slimset_error *err)
{
    struct plan_shard *shards = calloc(p->n_shards + 1, sizeof *shards);
    size_t n = 0;
    enum slimset_status st = SLIMSET_OK;
    if (shards == NULL)
        return err_nomem(err, sizeof *shards);
    for (uint32_t i = 0; st == SLIMSET_OK && i < p->n_splits; i++) {
        struct plan_split *sp = &p->splits[i];
        if (sp->n_shards == 0) {
            st = cut_split(p, i, &shards, &n, err);
            continue;
        }
        struct plan_shard *grown = realloc(shards, (n + sp->n_shards + 1) * sizeof *grown);
        if (grown == NULL) {
            st = err_nomem(err, sp->n_shards * sizeof *grown);
            break;
        }
        shards = grown;
        memcpy(shards + n, p->shards + sp->first_shard, sp->n_shards * sizeof *shards);
        for (size_t k = 0; k < sp->n_shards; k++)
            p->shards[sp->first_shard + k].first_path = NULL; /* moved */
        sp->first_shard = n;
        n += sp->n_shards;
    }
    for (size_t i = 0; i < p->n_shards; i++)
        free(p->shards[i].first_path);
    free(p->shards);
    p->shards = shards;
    p->n_shards = n;
    return st;
}

enum slimset_status plan_shards(struct plan *p, const struct slimset_run *run, struct slimset_error *err)
{
    enum slimset_status st = drop_empty(p, err);
    if (st == SLIMSET_OK)
        st = distinct_keys(p, err);
    if (st == SLIMSET_OK && p->recipe->layout == SLIMSET_LAYOUT_TREE)
        st = possible_names(p, err);
    if (st == SLIMSET_OK)
        st = find_classes(p, run, err);
    if (st == SLIMSET_OK)
        st = order_splits(p, err);
    if (st != SLIMSET_OK)
        return st;
    sorting = p;
    if (p->n_samples > 0)
        qsort(p->samples, p->n_samples, sizeof *p->samples, by_place);
    for (size_t i = 0, s = 0; s < p->n_splits; s++) {
        p->splits[s].first_sample = i;
        while (i < p->n_samples && p->samples[i].split == s)
            i++;
        p->splits[s].n_samples = i - p->splits[s].first_sample;
    }
    st = make_shards(p, err);
    for (size_t s = 0; st == SLIMSET_OK && s < p->n_splits; s++)
        fill_shards(p, &p->splits[s]);
    return st;
}

/* --- decisions on disk ------------------------------------------------------------------------------------- */

enum slimset_status plan_put_decisions(const struct plan *p, struct index_writer *w, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_rules; i++) {
        const struct plan_rule *r = &p->rules[i];
        struct slimset_field_rule to = {.hint = r->hint, .role = r->role, .codec = r->codec, .flags = r->flags,
                                        .probed = r->probed, .ratio_q16 = (uint64_t)(r->ratio * 65536)};
        st = index_string(w, r->name, strlen(r->name), &to.name, err);
        if (st == SLIMSET_OK && r->reason != NULL)
            st = index_string(w, r->reason, strlen(r->reason), &to.reason, err);
        if (st == SLIMSET_OK && r->params != NULL)
            st = index_string(w, r->params, strlen(r->params), &to.params, err);
        if (st == SLIMSET_OK)
            st = index_put_rule(w, &to, err);
    }
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_classes; i++) {
        struct slimset_class c = {0};
        st = index_string(w, p->classes[i], strlen(p->classes[i]), &c.name, err);
        if (st == SLIMSET_OK)
            st = index_put_class(w, &c, err);
    }
    return st;
}

enum slimset_status plan_put_shard(const struct plan *p, size_t shard, struct slimset_shard *to, struct index_writer *w,
                                   struct slimset_error *err)
{
    const struct plan_shard *s = &p->shards[shard];
    to->split = s->split;
    to->number = s->number;
    to->first_hash = s->first_hash;
    to->first_path = 0;
    enum slimset_status st = SLIMSET_OK;
    if (s->first_path[0] != '\0')
        st = index_string(w, s->first_path, strlen(s->first_path), &to->first_path, err);
    return st == SLIMSET_OK ? index_put_shard(w, to, err) : st;
}
