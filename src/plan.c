/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "alike.h"
#include "alike.h"
#include "array_codec.h"
#include "base/hash.h"
#include "group.h"
#include "hint.h"
#include "join.h"
#include "keys.h"
#include "roles.h"

void plan_init(struct plan *p, const struct slimset_recipe *recipe)
{
    *p = (struct plan){.recipe = recipe};
    listing_init(&p->listing);
}

void plan_fini(struct plan *p)
{
    for (size_t i = 0; i < p->n_rules; i++) {
        free(p->rules[i].name);
        free(p->rules[i].reason);
        free(p->rules[i].params);
    }
    for (size_t i = 0; i < p->n_splits; i++)
        free(p->splits[i].name);
    for (size_t i = 0; i < p->n_classes; i++)
        free(p->classes[i]);
    for (size_t i = 0; i < p->n_shards; i++)
        free(p->shards[i].first_path);
    free(p->rules);
    free(p->splits);
    free(p->classes);
    free(p->shards);
    free(p->samples);
    listing_fini(&p->listing);
    *p = (struct plan){0};
}

/* --- decisions of an earlier run -------------------------------------------------------------------- */

static enum slimset_status copy_text(struct index *ix, slimset_str s, char **out, struct slimset_error *err)
{
    const char *bytes;
    size_t n;
    enum slimset_status st = index_text(ix, s, &bytes, &n, err);
    if (st != SLIMSET_OK)
        return st;
    *out = strndup(n > 0 ? bytes : "", n);
    return *out != NULL ? SLIMSET_OK : err_nomem(err, n);
}

static enum slimset_status freeze_rules(struct plan *p, struct index *ix, struct slimset_error *err)
{
    enum slimset_status st = index_touch(ix, ix->rules, ix->n_rules * sizeof *ix->rules, err);
    p->rules = calloc(ix->n_rules + 1, sizeof *p->rules);
    if (p->rules == NULL)
        return err_nomem(err, ix->n_rules * sizeof *p->rules);
    for (size_t i = 0; st == SLIMSET_OK && i < ix->n_rules; i++) {
        const struct slimset_field_rule *from = &ix->rules[i];
        struct plan_rule *r = &p->rules[p->n_rules++];
        *r = (struct plan_rule){.hint = from->hint, .role = from->role, .codec = from->codec, .flags = from->flags,
                                .settled = true, .probed = from->probed, .ratio = (double)from->ratio_q16 / 65536};
        st = copy_text(ix, from->name, &r->name, err);
        if (st == SLIMSET_OK)
            st = copy_text(ix, from->reason, &r->reason, err);
        if (st == SLIMSET_OK && from->params != 0)
            st = copy_text(ix, from->params, &r->params, err);
        if (st == SLIMSET_OK && (r->role > SLIMSET_ROLE_ARRAY || r->codec >= SLIMSET_CODEC_COUNT))
            st = err_set(err, SLIMSET_DAMAGED, "%s: a field rule is out of range", ix->name);
    }
    return st;
}

static enum slimset_status freeze_shards(struct plan *p, struct index *ix, struct slimset_error *err)
{
    enum slimset_status st = index_touch(ix, ix->splits, ix->n_splits * sizeof *ix->splits, err);
    if (st == SLIMSET_OK)
        st = index_touch(ix, ix->shards, ix->n_shards * sizeof *ix->shards, err);
    p->splits = calloc(ix->n_splits + 1, sizeof *p->splits);
    p->shards = calloc(ix->n_shards + 1, sizeof *p->shards);
    if (p->splits == NULL || p->shards == NULL)
        return err_nomem(err, ix->n_shards * sizeof *p->shards);
    for (size_t i = 0; st == SLIMSET_OK && i < ix->n_splits; i++) {
        const struct slimset_split *from = &ix->splits[i];
        struct plan_split *s = &p->splits[p->n_splits++];
        *s = (struct plan_split){.order = from->order, .first_shard = from->first_shard, .n_shards = from->n_shards};
        if (from->first_shard > ix->n_shards || from->n_shards > ix->n_shards - from->first_shard || from->order < 1 ||
            from->order > 2)
            return err_set(err, SLIMSET_DAMAGED, "%s: a split is out of range", ix->name);
        st = copy_text(ix, from->name, &s->name, err);
    }
    for (size_t i = 0; st == SLIMSET_OK && i < ix->n_shards; i++) {
        const struct slimset_shard *from = &ix->shards[i];
        struct plan_shard *s = &p->shards[p->n_shards++];
        *s = (struct plan_shard){.split = from->split, .number = from->number, .first_hash = from->first_hash};
        if (from->split >= ix->n_splits)
            return err_set(err, SLIMSET_DAMAGED, "%s: a shard is out of range", ix->name);
        st = copy_text(ix, from->first_path, &s->first_path, err);
    }
    return st;
}

enum slimset_status plan_freeze(struct plan *p, struct index *ix, struct slimset_error *err)
{
    enum slimset_status st = freeze_rules(p, ix, err);
    if (st == SLIMSET_OK)
        st = freeze_shards(p, ix, err);
    if (st == SLIMSET_OK)
        st = index_touch(ix, ix->classes, ix->n_classes * sizeof *ix->classes, err);
    p->classes = calloc(ix->n_classes + 1, sizeof *p->classes);
    if (p->classes == NULL)
        return err_nomem(err, ix->n_classes * sizeof *p->classes);
    for (size_t i = 0; st == SLIMSET_OK && i < ix->n_classes; i++)
        st = copy_text(ix, ix->classes[i].name, &p->classes[p->n_classes++], err);
    p->frozen = true;
    p->class_trees = p->n_classes > 0;
    return st;
}

/* What the user said of a rule's files, in one byte. Without settings of their own: 16 + role. With them: 32 + 8 * number + what
 * gives the role: 0 nothing, 1 and 2 a folder's name, 3 + role the user. */
enum { HINT_USER = 16, HINT_SETTINGS = 32, HINTS = 8, HINT_ROLE = 3 };

static uint8_t hint_byte(enum role_hint folder, int role, uint8_t settings)
{
    if (settings == 0)
        return (uint8_t)(role >= 0 ? HINT_USER + role : (int)folder);
    return (uint8_t)(HINT_SETTINGS + HINTS * (settings - 1) + (role >= 0 ? HINT_ROLE + role : (int)folder));
}

uint8_t plan_rule_settings(const struct plan_rule *r)
{
    return r->hint >= HINT_SETTINGS ? (uint8_t)((r->hint - HINT_SETTINGS) / HINTS + 1) : 0;
}

const struct slimset_recipe *plan_settings(const struct plan *p, const struct plan_rule *r)
{
    uint8_t settings = plan_rule_settings(r);
    return settings > 0 && settings <= p->recipe->n_settings ? &p->recipe->settings[settings - 1] : p->recipe;
}

/* --- rules of entries ----------------------------------------------------------------------------------- */

static enum slimset_status rule_of(struct plan *p, struct entry *e, struct slimset_error *err)
{
    char name[256];
    size_t n;
    const char *field = group_field(e, &n);
    uint8_t settings = 0;
    int user = listing_user_role(p->recipe, e, &settings);
    if (user < 0)
        user = join_role(p->recipe, e);
    if (settings == 0 && e->join != 0 && e->join <= p->recipe->n_joins)
        settings = p->recipe->joins[e->join - 1].settings;
    if (n >= sizeof name)
        n = sizeof name - 1;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)tolower((unsigned char)field[i]);
    name[n] = '\0';
    bool known, wds = p->listing.sources[e->source].webdataset;
    const char *dot = memrchr(name, '.', n);
    const char *ext = dot != NULL ? dot + 1 : name;
    enum role_hint hint = p->recipe->detect ? role_hint_of(wds ? "" : e->path, wds ? 0 : e->dir_bytes, name, n) : ROLE_HINT_NONE;
    enum slimset_role role = role_of_extension(ext, strlen(ext), &known);
    if (role != SLIMSET_ROLE_IMAGE)
        hint = ROLE_HINT_NONE;
    const uint8_t byte = hint_byte(hint, user, settings); /* a rule of the user's is a kind of its own */
    for (size_t i = 0; i < p->n_rules; i++) {
        struct plan_rule *r = &p->rules[i];
        if (r->hint == byte && strcmp(r->name, name) == 0) {
            e->rule = (uint16_t)i;
            r->n_files++;
            r->bytes += e->bytes;
            return SLIMSET_OK;
        }
    }
    if (p->n_rules >= UINT16_MAX)
        return err_set(err, SLIMSET_USAGE, "more than %d different file extensions", UINT16_MAX);
    struct plan_rule *grown = realloc(p->rules, (p->n_rules + 1) * sizeof *grown);
    char *copy = strdup(name);
    if (grown == NULL || copy == NULL) {
        free(copy);
        return err_nomem(err, sizeof *grown);
    }
    p->rules = grown;
    struct plan_rule *r = &grown[p->n_rules];
    *r = (struct plan_rule){.name = copy, .hint = byte, .role = role, .by_user = user >= 0, .ratio = 1,
                            .n_files = 1, .bytes = e->bytes};
    if (user >= 0)
        r->role = (uint8_t)user;
    else if (hint == ROLE_HINT_MASK)
        r->role = SLIMSET_ROLE_MASK;
    else if (hint == ROLE_HINT_DEPTH)
        r->role = SLIMSET_ROLE_DEPTH;
    e->rule = (uint16_t)p->n_rules++;
    return SLIMSET_OK;
}

/* --- samples ------------------------------------------------------------------------------------------ */

static bool converts(const struct plan *p, const struct entry *e)
{
    const struct plan_rule *r = &p->rules[e->rule];
    bool known = true;
    if (r->role == SLIMSET_ROLE_COPY && !r->by_user && !r->settled) { /* unknown extensions: the probe will tell */
        const char *dot = strrchr(r->name, '.');
        const char *ext = dot != NULL ? dot + 1 : r->name;
        role_of_extension(ext, strlen(ext), &known);
    }
    return r->role != SLIMSET_ROLE_COPY || !known || p->listing.sources[e->source].webdataset;
}

/* First component of the path behind `at`, or the second where the first is images, labels... */
static size_t split_at(const struct entry *e, size_t at, const char **name)
{
    const char *path = e->path;
    for (int depth = 0; depth < 2; depth++) {
        const char *slash = memchr(path + at, '/', e->dir_bytes - at);
        if (slash == NULL)
            return 0;
        size_t n = (size_t)(slash - path) - at;
        if (role_is_split(path + at, n)) {
            *name = path + at;
            return n;
        }
        if (!role_is_generic(path + at, n))
            return 0;
        at += n + 1;
    }
    return 0;
}

/* train-00000.tar: the split in the name of a WebDataset shard. */
static size_t split_of_source(const struct source *s, const char **name)
{
    const char *slash = strrchr(s->path, '/');
    const char *base = slash != NULL ? slash + 1 : s->path;
    size_t n = strspn(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    *name = base;
    return role_is_split(base, n) ? n : 0;
}

static enum slimset_status split_named(struct plan *p, const char *name, size_t n, uint16_t *out, struct slimset_error *err)
{
    for (size_t i = 0; i < p->n_splits; i++)
        if (strlen(p->splits[i].name) == n && strncasecmp(p->splits[i].name, name, n) == 0) {
            *out = (uint16_t)i;
            return SLIMSET_OK;
        }
    struct plan_split *grown = realloc(p->splits, (p->n_splits + 1) * sizeof *grown);
    char *copy = strndup(name, n);
    if (grown == NULL || copy == NULL) {
        free(copy);
        return err_nomem(err, n);
    }
    for (char *c = copy; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    p->splits = grown;
    enum slimset_order order = p->recipe->order;
    if (order == SLIMSET_ORDER_AUTO)
        order = p->recipe->layout != SLIMSET_LAYOUT_NPY && (strcmp(copy, "train") == 0 || strcmp(copy, "data") == 0) ? SLIMSET_ORDER_SHUFFLED : SLIMSET_ORDER_SOURCE;
    if (p->recipe->layout == SLIMSET_LAYOUT_TREE)
        order = SLIMSET_ORDER_SOURCE;
    grown[p->n_splits] = (struct plan_split){.name = copy, .order = order};
    *out = (uint16_t)p->n_splits++;
    return SLIMSET_OK;
}

static enum slimset_status add_sample(struct plan *p, size_t first, size_t n, struct slimset_error *err)
{
    const struct entry *e = &p->listing.entries[first];
    const struct source *src = &p->listing.sources[e->source];
    struct plan_sample *s = &p->samples[p->n_samples];
    const char *name = "data";
    size_t name_n = src->webdataset ? split_of_source(src, &name) : split_at(e, 0, &name);
    if (name_n == 0 && !src->webdataset && strlen(src->prefix) <= e->dir_bytes)
        name_n = split_at(e, strlen(src->prefix), &name); /* several sources: behind the source's name */
    *s = (struct plan_sample){.first = (uint32_t)first, .n = (uint16_t)n, .cls = -1};
    struct hash_stream h;
    hash_init(&h);
    hash_update(&h, &p->recipe->seed, sizeof p->recipe->seed);
    hash_update(&h, e->name, e->key_bytes);
    s->place = hash_value(&h);
    p->n_samples++;
    return name_n > 0 ? split_named(p, name, name_n, &s->split, err) : split_named(p, "data", 4, &s->split, err);
}

/* One group of entries with the same key: a sample, or left out. */
static enum slimset_status take_group(struct plan *p, size_t first, size_t n, struct slimset_error *err)
{
    struct listing *l = &p->listing;
    bool any = p->recipe->layout == SLIMSET_LAYOUT_TREE;
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = first; i < first + n; i++)
        any |= converts(p, &l->entries[i]);
    if (any && n <= ITEM_INPUTS_MAX)
        return add_sample(p, first, n, err);
    for (size_t i = first; st == SLIMSET_OK && i < first + n; i++) {
        if (any) /* more than a sample can hold: each is rejected by name later */
            l->entries[i].problem = SLIMSET_REJECT_DUPLICATE;
        else
            st = listing_leave_out(l, l->entries[i].path, l->entries[i].path_bytes, 2, "belongs to no image", err);
    }
    return st;
}

struct alike_name {
    uint64_t hash;
    size_t sample;
};

static int by_alike(const void *pa, const void *pb)
{
    const struct alike_name *a = pa, *b = pb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* Samples whose names some file systems take for one. Without memory nothing is said. */
static void warn_alike(const struct plan *p, const struct slimset_run *run)
{
    const struct entry *entries = p->listing.entries, *one, *other;
    struct alike_name *name = calloc(p->n_samples + 1, sizeof *name);
    struct alike *alike = alike_new();
    size_t n = 0, first = SIZE_MAX, second = 0;
    for (size_t i = 0; name != NULL && alike != NULL && i < p->n_samples; i++) {
        const struct entry *e = &entries[p->samples[i].first];
        name[i] = (struct alike_name){alike_hash(alike, e->name, e->key_bytes), i};
    }
    if (name == NULL || alike == NULL)
        goto out;
    qsort(name, p->n_samples, sizeof *name, by_alike);
    for (size_t i = 1; i < p->n_samples; i++) {
        if (name[i].hash != name[i - 1].hash)
            continue;
        n++;
        if (name[i - 1].sample < first) { /* the pair that is told of is the first one in the listing */
            first = name[i - 1].sample;
            second = name[i].sample;
        }
    }
    if (n > 0) {
        char a[512], b[512], others[48] = "";
        one = &entries[p->samples[first].first];
        other = &entries[p->samples[second].first];
        listing_display(&p->listing, one, true, a, sizeof a);
        listing_display(&p->listing, other, true, b, sizeof b);
        if (n > 1)
            snprintf(others, sizeof others, " (and %zu more like them)", n - 1);
        run_note(run, SLIMSET_EVENT_WARNING, "%s and %s differ only in case or in the Unicode form of a letter%s: they stay two samples "
                 "here, but on a file system such as that of macOS or Windows one overwrites the other", a, b, others);
    }
out:
    alike_free(alike);
    free(name);
}

/* A GLOB that no file has is a slip, as a rule. */
static void warn_unmatched(const struct plan *p, const struct slimset_run *run)
{
    const struct listing *l = &p->listing;
    for (size_t i = 0; l->n_entries > 0 && i < p->recipe->n_rules; i++) {
        size_t k = 0;
        while (k < l->n_entries && !listing_rule_matches(&p->recipe->rules[i], &l->entries[k]))
            k++;
        if (k == l->n_entries)
            run_note(run, SLIMSET_EVENT_WARNING, "the rule '%.300s' matches none of the %zu files found; one is called %.300s",
                     p->recipe->rules[i].glob, l->n_entries, l->entries[0].path);
    }
}

enum slimset_status plan_samples(struct plan *p, const struct slimset_run *run, struct slimset_error *err)
{
    struct listing *l = &p->listing;
    size_t kept = 0;
    bool tree = p->recipe->layout == SLIMSET_LAYOUT_TREE;
    enum slimset_status st = SLIMSET_OK;
    warn_unmatched(p, run);
    for (size_t i = 0; i < l->n_entries; i++) { /* take out what --skip names */
        if (listing_user_role(p->recipe, &l->entries[i], NULL) == -1) {
            st = listing_leave_out(l, l->entries[i].path, l->entries[i].path_bytes, 3, "skipped by --skip", err);
            if (st != SLIMSET_OK)
                return st;
        } else {
            l->entries[kept++] = l->entries[i];
            struct entry *e = &l->entries[kept - 1];
            if (tree && e->problem == SLIMSET_REJECT_NONE && !keys_tree_holds(e))
                e->problem = SLIMSET_REJECT_NAME;
        }
    }
    l->n_entries = kept;
    st = p->recipe->group_by != NULL ? group_folders(l, p->recipe, run, err) : join_group(l, p->recipe, run, err);
    if (st == SLIMSET_OK && p->recipe->n_joins == 0 && p->recipe->group_by == NULL && !p->frozen)
        hint_joins(l, run);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_entries; i++)
        if (l->entries[i].problem == SLIMSET_REJECT_NONE)
            st = rule_of(p, &l->entries[i], err);
    if (st != SLIMSET_OK)
        return st;
    p->samples = calloc(l->n_entries + 1, sizeof *p->samples);
    if (p->samples == NULL)
        return err_nomem(err, l->n_entries * sizeof *p->samples);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_entries;) {
        size_t m = i + 1;
        if (l->entries[i].problem != SLIMSET_REJECT_NONE) { /* cannot be read: listed as a reject, not part of a sample */
            i++;
            continue;
        }
        while (m < l->n_entries && l->entries[m].problem == SLIMSET_REJECT_NONE && keys_same(&l->entries[i], &l->entries[m]))
            m++;
        st = take_group(p, i, m - i, err);
        i = m;
    }
    if (st == SLIMSET_OK)
        warn_alike(p, run);
    struct plan_sample *fit = realloc(p->samples, (p->n_samples + 1) * sizeof *fit);
    if (fit != NULL)
        p->samples = fit;
    return st;
}

size_t plan_key(const struct plan *p, const struct plan_sample *s, char *text)
{
    const struct entry *e = &p->listing.entries[s->first];
    size_t longest = 4; /* "cls" */
    bool changed;
    for (unsigned i = 0; i < s->n; i++) {
        size_t n;
        const char *field = keys_field(&e[i], &n), *dot = memrchr(field, '.', n);
        size_t ext = dot != NULL ? n - (size_t)(dot + 1 - field) : n;
        size_t more = s->n > 1 ? (ext < 4 ? 4 : ext > 15 ? 15 : ext) : 0; /* a second field of that name: "ext.field" */
        size_t other = 5; /* a dot and the extension of another codec */
        if (p->rules[e[i].rule].role == SLIMSET_ROLE_ARRAY) /* "npy.blosc"; of an .npz "NAME.npy.blosc", and another one of that name */
            other = ext == 3 && strncasecmp(dot != NULL ? dot + 1 : field, "npz", 3) == 0 ? ARRAY_NAME_MAX + 15 : 10;
        if (n + other + more > longest)
            longest = n + other + more;
    }
    bool exact = p->listing.sources[e->source].webdataset && p->recipe->layout != SLIMSET_LAYOUT_NPY; /* a line of a file for each key */
    return keys_text(e, p->recipe->layout == SLIMSET_LAYOUT_TREE, exact, s->suffix, longest, text, &changed);
}
