/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "keys.h"
#include "roles.h"

/* Stems by hash, each with an entry of its sample; open addressing. */
struct stems {
    struct stem {
        uint64_t hash;  /* 0 free */
        uint32_t entry; /* SEVERAL: more than one sample has it */
    } *slot;
    size_t mask, n;
};

enum {
    SEVERAL = UINT32_MAX,
    LOOK_ELSEWHERE = 64 /* files without a sample that are looked up among other sources */
};

struct joins {
    struct listing *l;
    const struct slimset_recipe *recipe;
    const struct slimset_run *run;
    struct pattern *pattern;
    uint64_t *matched;      /* files, by pattern */
    int lead;               /* a pattern of the NAME that leads, -1 none */
    size_t n_own;           /* entries [0, n_own) are no attached ones */
    struct stems whole, ends; /* ends: of the path behind a '/', where no NAME leads */
    struct buf text;
};

/* --- stems -------------------------------------------------------------------------------------------------- */

static struct stem *stem_find(const struct stems *s, uint64_t hash)
{
    hash += hash == 0;
    size_t i = hash & s->mask;
    while (s->slot[i].hash != 0 && s->slot[i].hash != hash)
        i = (i + 1) & s->mask;
    return &s->slot[i];
}

static bool stem_is(const struct stem *s)
{
    return s->hash != 0;
}

/* A full table grows: at least half of its places stay free. */
static enum slimset_status stem_room(struct stems *s, struct slimset_error *err)
{
    if (s->slot != NULL && 2 * s->n <= s->mask)
        return SLIMSET_OK;
    size_t cap = s->slot != NULL ? 2 * (s->mask + 1) : 64;
    struct stems grown = {.slot = calloc(cap, sizeof *grown.slot), .mask = cap - 1, .n = s->n};
    if (grown.slot == NULL)
        return err_nomem(err, cap * sizeof *grown.slot);
    for (size_t i = 0; s->slot != NULL && i <= s->mask; i++)
        if (stem_is(&s->slot[i]))
            *stem_find(&grown, s->slot[i].hash) = s->slot[i];
    free(s->slot);
    *s = grown;
    return SLIMSET_OK;
}

/* Adds a stem; *was: it had been there. */
static enum slimset_status stem_add(struct stems *s, uint64_t hash, uint32_t entry, struct stem **was, struct slimset_error *err)
{
    enum slimset_status st = stem_room(s, err);
    if (st != SLIMSET_OK)
        return st;
    struct stem *at = stem_find(s, hash);
    *was = stem_is(at) ? at : NULL;
    if (*was == NULL) {
        *at = (struct stem){hash + (hash == 0), entry};
        s->n++;
    }
    return SLIMSET_OK;
}

/* --- patterns ----------------------------------------------------------------------------------------------- */

enum slimset_status join_check(const struct slimset_recipe *r, struct slimset_error *err)
{
    struct pattern p;
    enum slimset_status st = SLIMSET_OK;
    if (r->n_joins > PATTERN_MAX)
        return err_set(err, SLIMSET_USAGE, "more than %d --field options", PATTERN_MAX);
    for (size_t i = 0; st == SLIMSET_OK && i < r->n_joins; i++)
        st = pattern_parse(r->joins[i].text, &p, err);
    return st;
}

int join_role(const struct slimset_recipe *r, const struct entry *e)
{
    struct pattern p;
    struct slimset_error ignored;
    if (e->join == 0 || e->join > r->n_joins)
        return -1; /* one of a --group-by has no NAME */
    if (r->joins[e->join - 1].role != SLIMSET_RULE_NO_ROLE)
        return r->joins[e->join - 1].role;
    if (pattern_parse(r->joins[e->join - 1].text, &p, &ignored) != SLIMSET_OK)
        return -1;
    return pattern_role(&p);
}

static int find_lead(const struct joins *j)
{
    int lead = -1;
    bool several = false;
    for (size_t i = j->recipe->n_joins; i-- > 0;) {
        if (pattern_role(&j->pattern[i]) == SLIMSET_ROLE_IMAGE)
            return (int)i;
        if (pattern_leads(&j->pattern[i]))
            lead = (int)i;
        several |= !pattern_same_name(&j->pattern[i], &j->pattern[0]);
    }
    if (!several)
        return -1; /* alone it is something for the samples that are there: their captions, the left one of a pair */
    return lead < 0 && pattern_role(&j->pattern[0]) == SLIMSET_ROLE_ARRAY ? 0 : lead;
}

/* The first pattern of the same NAME. */
static size_t first_of_name(const struct joins *j, size_t pattern)
{
    size_t i = 0;
    while (!pattern_same_name(&j->pattern[i], &j->pattern[pattern]))
        i++;
    return i;
}

/* Matches a pattern against the whole path, or against the path below the source; *below says which. */
static bool matches(const struct joins *j, size_t pattern, const struct entry *e, struct pattern_found *found, bool *below)
{
    size_t prefix = strlen(j->l->sources[e->source].prefix);
    *below = false;
    if (pattern_match(&j->pattern[pattern], e->path, e->path_bytes, found))
        return true;
    *below = prefix > 0 && prefix < e->path_bytes;
    return *below && pattern_match(&j->pattern[pattern], e->path + prefix, e->path_bytes - prefix, found);
}

/* Finds the pattern of every entry; those that go to other entries' samples move to the end. */
static void match_all(struct joins *j)
{
    struct listing *l = j->l;
    for (size_t i = 0; i < l->n_entries; i++) {
        struct entry *e = &l->entries[i];
        struct pattern_found found;
        bool below;
        if (e->problem != SLIMSET_REJECT_NONE || l->sources[e->source].webdataset)
            continue;
        for (size_t k = j->recipe->n_joins; e->join == 0 && k-- > 0;)
            if (matches(j, k, e, &found, &below)) {
                e->join = (uint8_t)(k + 1);
                j->matched[k]++;
            }
        e->attached = e->join != 0 && (j->lead < 0 || !pattern_same_name(&j->pattern[e->join - 1], &j->pattern[j->lead]));
    }
    for (size_t i = 0; i < l->n_entries; i++)
        if (!l->entries[i].attached) {
            struct entry own = l->entries[i];
            l->entries[i] = l->entries[j->n_own];
            l->entries[j->n_own++] = own;
        }
}

/* A NAME that no file has is a slip, and would pass for a dataset without it. */
static enum slimset_status check_matched(const struct joins *j, struct slimset_error *err)
{
    for (size_t i = 0; i < j->recipe->n_joins; i++) {
        uint64_t n = 0;
        for (size_t k = 0; k < j->recipe->n_joins; k++)
            n += pattern_same_name(&j->pattern[i], &j->pattern[k]) ? j->matched[k] : 0;
        if (n == 0)
            return err_set(err, SLIMSET_USAGE, "--field %.200s: none of the %zu files found is called so; one is called %.300s",
                           j->recipe->joins[i].text, j->l->n_entries, j->l->n_entries > 0 ? j->l->entries[0].path : "");
        if (j->matched[i] == 0)
            run_note(j->run, SLIMSET_EVENT_WARNING, "--field %.200s: no file is called so", j->recipe->joins[i].text);
    }
    return SLIMSET_OK;
}

/* --- names -------------------------------------------------------------------------------------------------- */

/* The stem of a joined entry into j->text, as the key that a leading file of that stem has. */
static enum slimset_status stem_text(struct joins *j, const struct entry *e, struct slimset_error *err)
{
    struct pattern_found found;
    bool below;
    enum slimset_status st = SLIMSET_OK;
    const char *prefix = j->l->sources[e->source].prefix;
    j->text.len = 0;
    if (!matches(j, e->join - 1u, e, &found, &below))
        return err_set(err, SLIMSET_INTERNAL, "%.300s matches its --field no longer", e->path);
    while (found.stem.n > 1 && found.stem.p[0] == '/') {
        found.stem.p++;
        found.stem.n--;
    }
    if (below)
        st = buf_append(&j->text, prefix, strlen(prefix), err);
    if (st == SLIMSET_OK && found.star.n > 0)
        st = buf_append(&j->text, found.star.p, found.star.n, err);
    if (st == SLIMSET_OK && found.star.n > 0)
        st = buf_append(&j->text, "/", 1, err);
    return st == SLIMSET_OK ? buf_append(&j->text, found.stem.p, found.stem.n, err) : st;
}

/* What is behind the key in the entry's name: NAME.ext, or just the extension of an image; a file without --field keeps its own. */
static enum slimset_status append_field(struct joins *j, const struct entry *e, struct slimset_error *err)
{
    const struct pattern *p = e->join != 0 ? &j->pattern[e->join - 1] : NULL;
    const char *base = e->path + e->dir_bytes, *dot = strrchr(base, '.');
    const char *ext = dot != NULL && dot != base && dot[1] != '\0' ? dot : "";
    enum slimset_status st = SLIMSET_OK;
    if (p == NULL) {
        size_t n;
        const char *field = keys_field(e, &n);
        if (n > 0)
            st = buf_append(&j->text, ".", 1, err);
        return st == SLIMSET_OK ? buf_append(&j->text, field, n, err) : st;
    }
    if (pattern_role(p) != SLIMSET_ROLE_IMAGE) {
        st = buf_append(&j->text, ".", 1, err);
        if (st == SLIMSET_OK)
            st = buf_append(&j->text, p->name.p, p->name.n, err);
    }
    return st == SLIMSET_OK ? buf_append(&j->text, ext, strlen(ext), err) : st;
}

/* Gives the entry the key of n bytes that stands in j->text, and the field that is its own. */
static enum slimset_status give_name(struct joins *j, struct entry *e, size_t n, struct slimset_error *err)
{
    j->text.len = n;
    enum slimset_status st = append_field(j, e, err);
    if (st != SLIMSET_OK)
        return st;
    const char *name = listing_string(j->l, "", (const char *)j->text.data, j->text.len);
    if (name == NULL)
        return err_nomem(err, j->text.len);
    const char *slash = memrchr(name, '/', n);
    e->name = name;
    e->key_bytes = (uint32_t)n;
    e->name_dir_bytes = slash != NULL ? (uint32_t)(slash + 1 - name) : 0;
    return SLIMSET_OK;
}

static void reject(struct joins *j, struct entry *e, enum slimset_reject why)
{
    e->problem = (uint8_t)why;
    listing_tell_problem(j->l, e, &(struct walk_settings){.recipe = j->recipe, .run = j->run});
}

/* --- samples ------------------------------------------------------------------------------------------------- */

/* The end of the run of entries of one sample that begins at i. */
static size_t sample_end(const struct listing *l, size_t i, size_t n)
{
    size_t m = i + 1;
    while (m < n && keys_same(&l->entries[i], &l->entries[m]))
        m++;
    return m;
}

static bool has_picture(const struct listing *l, size_t i, size_t end)
{
    for (; i < end; i++) {
        size_t n;
        bool known;
        const char *field = keys_field(&l->entries[i], &n), *dot = memrchr(field, '.', n);
        const char *ext = dot != NULL ? dot + 1 : field;
        if (l->entries[i].problem == SLIMSET_REJECT_NONE &&
            (role_of_extension(ext, strlen(ext), &known) != SLIMSET_ROLE_COPY || !known))
            return true;
    }
    return false;
}

static size_t first_led(const struct listing *l, size_t i, size_t end)
{
    while (i < end && l->entries[i].join == 0)
        i++;
    return i;
}

/* Where no NAME leads: the samples as they are, by their paths and by what is behind each '/' of these. */
static enum slimset_status index_samples(struct joins *j, struct slimset_error *err)
{
    struct listing *l = j->l;
    struct stem *was;
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0, end; st == SLIMSET_OK && i < j->n_own; i = end) {
        const struct entry *e = &l->entries[i];
        const char *prefix = l->sources[e->source].prefix;
        size_t skip = strlen(prefix);
        end = sample_end(l, i, j->n_own);
        if (!has_picture(l, i, end))
            continue;
        st = stem_add(&j->whole, hash_bytes(e->name, e->key_bytes), (uint32_t)i, &was, err);
        for (size_t at = 1; st == SLIMSET_OK && at < e->key_bytes; at++) {
            if (e->name[at - 1] != '/')
                continue;
            st = stem_add(&j->ends, hash_bytes(e->name + at, e->key_bytes - at), (uint32_t)i, &was, err);
            if (st == SLIMSET_OK && was != NULL && was->entry != (uint32_t)i) /* val.zip with val/: twice the same */
                was->entry = SEVERAL;
            if (st != SLIMSET_OK || skip == 0 || at <= skip)
                continue;
            j->text.len = 0; /* several sources: the same below its own */
            st = buf_append(&j->text, prefix, skip, err);
            if (st == SLIMSET_OK)
                st = buf_append(&j->text, e->name + at, e->key_bytes - at, err);
            if (st == SLIMSET_OK)
                st = stem_add(&j->ends, hash_bytes(j->text.data, j->text.len), (uint32_t)i, &was, err);
            if (st == SLIMSET_OK && was != NULL && was->entry != (uint32_t)i)
                was->entry = SEVERAL;
        }
    }
    return st;
}

/* The sample [i, end) is called as the stem of its leading file; others of that NAME in it, with stems of their own, go their own ways. */
static enum slimset_status name_sample(struct joins *j, size_t i, size_t end, struct slimset_error *err)
{
    struct listing *l = j->l;
    struct stem *was;
    size_t lead = end, n = 0;
    enum slimset_status st = SLIMSET_OK;
    for (size_t k = first_led(l, i, end); st == SLIMSET_OK && k < end; k = first_led(l, k + 1, end)) {
        struct entry *e = &l->entries[k];
        st = stem_text(j, e, err);
        n = j->text.len;
        if (st == SLIMSET_OK)
            st = stem_add(&j->whole, hash_bytes(j->text.data, n), (uint32_t)k, &was, err);
        if (st == SLIMSET_OK && was != NULL)
            reject(j, e, SLIMSET_REJECT_DUPLICATE);
        else if (st == SLIMSET_OK)
            st = give_name(j, e, n, err);
        if (lead == end && e->problem == SLIMSET_REJECT_NONE)
            lead = k;
    }
    if (st != SLIMSET_OK || lead == end)
        return st;
    st = stem_text(j, &l->entries[lead], err);
    n = j->text.len;
    for (size_t k = i; st == SLIMSET_OK && k < end; k++)
        if (l->entries[k].join == 0)
            st = give_name(j, &l->entries[k], n, err);
    return st;
}

/* Where a NAME leads: its samples get their names. Those without it come first: their names are taken. */
static enum slimset_status name_samples(struct joins *j, struct slimset_error *err)
{
    struct listing *l = j->l;
    struct stem *was;
    enum slimset_status st = SLIMSET_OK;
    size_t end;
    for (size_t i = 0; st == SLIMSET_OK && i < j->n_own; i = end) {
        end = sample_end(l, i, j->n_own);
        if (first_led(l, i, end) == end)
            st = stem_add(&j->whole, hash_bytes(l->entries[i].name, l->entries[i].key_bytes), (uint32_t)i, &was, err);
    }
    for (size_t i = 0; st == SLIMSET_OK && i < j->n_own; i = end) {
        end = sample_end(l, i, j->n_own); /* before its entries get other names */
        if (first_led(l, i, end) < end)
            st = name_sample(j, i, end, err);
    }
    return st;
}

/* --- the others --------------------------------------------------------------------------------------------- */

/* The entry whose sample has this stem. NULL: none, or several (*several). */
static const struct entry *sample_of(const struct joins *j, const void *stem, size_t n, bool *several)
{
    uint64_t hash = hash_bytes(stem, n);
    const struct stem *s = j->whole.slot != NULL ? stem_find(&j->whole, hash) : NULL;
    *several = false;
    if ((s == NULL || !stem_is(s)) && j->ends.slot != NULL)
        s = stem_find(&j->ends, hash);
    if (s == NULL || !stem_is(s))
        return NULL;
    *several = s->entry == SEVERAL;
    const struct entry *e = *several ? NULL : &j->l->entries[s->entry];
    return e != NULL && j->lead >= 0 && e->join == 0 ? NULL : e; /* a sample without the leading NAME has its stem by chance */
}

/* The sample that the entry, whose stem stands in j->text, would go to if both had the same source. NULL: none. */
static const struct entry *sample_elsewhere(const struct joins *j, const struct entry *e)
{
    const struct listing *l = j->l;
    size_t skip = strlen(l->sources[e->source].prefix);
    char stem[4096];
    if (skip == 0 || j->text.len <= skip || memcmp(j->text.data, e->path, skip) != 0)
        return NULL;
    for (size_t i = 0; i < l->n_sources; i++) {
        bool several;
        int n = snprintf(stem, sizeof stem, "%s%.*s", l->sources[i].prefix, (int)(j->text.len - skip), (const char *)j->text.data + skip);
        if (i == e->source || n <= 0 || (size_t)n >= sizeof stem)
            continue;
        const struct entry *to = sample_of(j, stem, (size_t)n, &several);
        if (to != NULL && to->source != e->source)
            return to;
    }
    return NULL;
}

/* "--field NAME='SOURCE/PATTERN' ": the pattern of an entry, bound to its source. */
static int bound_pattern(const struct joins *j, const struct entry *e, char *text, size_t n)
{
    const struct pattern_piece name = j->pattern[e->join - 1].name;
    const char *pattern = j->recipe->joins[e->join - 1].text + name.n + 1, *prefix = j->l->sources[e->source].prefix;
    while (pattern[0] == '.' && pattern[1] == '/')
        pattern += 2;
    return snprintf(text, n, " --field %.*s='%s%s'", (int)name.n, name.p, prefix, pattern);
}

/* Stems are joined below each source of its own: images in one archive and masks in another need to be told so. */
static void tell_elsewhere(const struct joins *j, const struct entry *e, const struct entry *to)
{
    char image[500] = "", mask[500];
    if (to->join != 0)
        bound_pattern(j, to, image, sizeof image);
    bound_pattern(j, e, mask, sizeof mask);
    run_note(j->run, SLIMSET_EVENT_WARNING, "%.150s and %.150s are of two sources, and {} joins the files of one; patterns that begin with "
             "the sources join them:%.300s%.300s", to->path, e->path, image, mask);
}

static enum slimset_status attach_all(struct joins *j, struct slimset_error *err)
{
    struct listing *l = j->l;
    size_t kept = j->n_own, lost = 0;
    struct entry apart = {0};
    const struct entry *elsewhere = NULL; /* where apart would go */
    const char *first_lost = NULL, *why = NULL;
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = j->n_own; st == SLIMSET_OK && i < l->n_entries; i++) {
        struct entry e = l->entries[i];
        bool several = false;
        st = stem_text(j, &e, err);
        const struct entry *to = st == SLIMSET_OK ? sample_of(j, j->text.data, j->text.len, &several) : NULL;
        if (to != NULL) {
            j->text.len = 0;
            st = buf_append(&j->text, to->name, to->key_bytes, err);
            if (st == SLIMSET_OK)
                st = give_name(j, &e, to->key_bytes, err);
            l->entries[kept++] = e;
            continue;
        }
        if (st == SLIMSET_OK && !several && elsewhere == NULL && lost < LOOK_ELSEWHERE && (elsewhere = sample_elsewhere(j, &e)) != NULL)
            apart = e;
        const char *text = several ? "several samples have its stem (--field)" : "no sample has its stem (--field)";
        if (st == SLIMSET_OK)
            st = listing_leave_out(l, e.path, e.path_bytes, 2, text, err);
        if (lost++ == 0 || strcmp(e.path, first_lost) < 0) {
            first_lost = e.path;
            why = text;
        }
    }
    l->n_entries = kept;
    if (st == SLIMSET_OK && lost > 0)
        run_note(j->run, SLIMSET_EVENT_WARNING, "%zu files of --field are left out, such as %.300s: %s", lost, first_lost, why);
    if (st == SLIMSET_OK && elsewhere != NULL)
        tell_elsewhere(j, &apart, elsewhere);
    return st;
}

/* Two files for one field of a sample: the first by its name stays. */
static bool reject_doubles(struct joins *j)
{
    struct listing *l = j->l;
    bool any = false;
    for (size_t i = 0, end; i < l->n_entries; i = end) {
        bool has[PATTERN_MAX] = {0}; /* by the first pattern of a NAME */
        end = sample_end(l, i, l->n_entries);
        for (size_t k = i; k < end; k++) {
            struct entry *e = &l->entries[k];
            if (!e->attached || e->problem != SLIMSET_REJECT_NONE)
                continue;
            bool *this = &has[first_of_name(j, e->join - 1u)];
            if (*this) {
                reject(j, e, SLIMSET_REJECT_DUPLICATE);
                any = true;
            }
            *this = true;
        }
    }
    return any;
}

/* Counts the samples in which a NAME is missing; where none leads, all that have a picture. */
static enum slimset_status tell_missing(struct joins *j, const struct pattern *name, struct slimset_error *err)
{
    const struct listing *l = j->l;
    size_t samples = 0, missing = 0;
    const struct entry *example = NULL;
    for (size_t i = 0, end; i < l->n_entries; i = end) {
        end = sample_end(l, i, l->n_entries);
        bool has = false;
        if (l->entries[i].problem != SLIMSET_REJECT_NONE ||
            (j->lead >= 0 ? first_led(l, i, end) == end : !has_picture(l, i, end)))
            continue;
        for (size_t k = i; k < end; k++)
            has |= l->entries[k].attached && pattern_same_name(&j->pattern[l->entries[k].join - 1], name);
        samples++;
        missing += !has;
        if (!has && example == NULL)
            example = &l->entries[i];
    }
    if (samples == 0) {
        run_note(j->run, SLIMSET_EVENT_WARNING, "--field %.*s: there is no sample that could have one", (int)name->name.n, name->name.p);
        return SLIMSET_OK;
    }
    if (missing == 0) {
        run_note(j->run, SLIMSET_EVENT_NOTE, "--field %.*s: all %zu samples have one", (int)name->name.n, name->name.p, samples);
        return SLIMSET_OK;
    }
    if (j->run->strict && j->lead >= 0)
        return err_set(err, SLIMSET_LIMIT, "%zu of %zu samples have no %.*s, such as that of %.300s (--strict)", missing, samples,
                       (int)name->name.n, name->name.p, example->path);
    run_note(j->run, SLIMSET_EVENT_WARNING, "%zu of %zu samples have no %.*s, such as that of %.300s; they are packed without",
             missing, samples, (int)name->name.n, name->name.p, example->path);
    return SLIMSET_OK;
}

static enum slimset_status join_all(struct joins *j, struct slimset_error *err)
{
    struct listing *l = j->l;
    match_all(j);
    enum slimset_status st = check_matched(j, err);
    size_t n = l->n_entries;
    if (st == SLIMSET_OK) {
        l->n_entries = j->n_own; /* the others have no place of their own */
        st = keys_group(l, err);
        l->n_entries = n;
    }
    if (st == SLIMSET_OK)
        st = j->lead >= 0 ? name_samples(j, err) : index_samples(j, err);
    if (st == SLIMSET_OK)
        st = attach_all(j, err);
    for (size_t i = 0; st == SLIMSET_OK && j->recipe->layout == SLIMSET_LAYOUT_TREE && i < l->n_entries; i++)
        if (l->entries[i].name != l->entries[i].path && !keys_tree_holds(&l->entries[i]))
            reject(j, &l->entries[i], SLIMSET_REJECT_NAME);
    if (st == SLIMSET_OK)
        st = keys_sort(l, err);
    if (st == SLIMSET_OK && reject_doubles(j))
        st = keys_sort(l, err);
    for (size_t i = 0; st == SLIMSET_OK && i < j->recipe->n_joins; i++) {
        bool leads = j->lead >= 0 && pattern_same_name(&j->pattern[i], &j->pattern[j->lead]);
        if (!leads && first_of_name(j, i) == i)
            st = tell_missing(j, &j->pattern[i], err);
    }
    return st;
}

enum slimset_status join_group(struct listing *l, const struct slimset_recipe *recipe, const struct slimset_run *run,
                               struct slimset_error *err)
{
    if (recipe->n_joins == 0)
        return keys_group(l, err);
    struct joins j = {.l = l, .recipe = recipe, .run = run, .pattern = calloc(recipe->n_joins, sizeof *j.pattern),
                      .matched = calloc(recipe->n_joins, sizeof *j.matched), .lead = -1};
    enum slimset_status st = j.pattern == NULL || j.matched == NULL ? err_nomem(err, recipe->n_joins * sizeof *j.pattern)
                                                                    : join_check(recipe, err);
    for (size_t i = 0; st == SLIMSET_OK && i < recipe->n_joins; i++)
        st = pattern_parse(recipe->joins[i].text, &j.pattern[i], err);
    if (st == SLIMSET_OK) {
        j.lead = find_lead(&j);
        st = join_all(&j, err);
    }
    free(j.pattern);
    free(j.matched);
    free(j.whole.slot);
    free(j.ends.slot);
    buf_fini(&j.text);
    return st;
}
