/* SPDX-License-Identifier: Apache-2.0
 *
 * Does the index agree with itself? Checksums show that it is what was written; this shows that
 * what was written makes sense: the sections count the same samples in the same order, every number
 * is in its range, every string in its section. One finding per kind of record is enough: the ones
 * behind it mostly follow from the first.
 */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "image.h"
#include "names.h"
#include "verify_impl.h"

/* A finding about the index itself; false, so that a check can end with it. */
#define WRONG(v, ...) (verify_finding(v, SLIMSET_INDEX_NAME, NULL, NULL, __VA_ARGS__), false)

/* Is the record at p whole, and are the strings s[0..n) where strings are? */
static bool readable(struct verify *v, const void *p, size_t bytes, const slimset_str *s, size_t n)
{
    struct slimset_error err;
    const char *text;
    size_t text_n;
    if (index_touch(&v->d.ix, p, bytes, &err) != SLIMSET_OK)
        return false; /* a damaged block has its own finding */
    for (size_t i = 0; i < n; i++) {
        if (index_text(&v->d.ix, s[i], &text, &text_n, &err) != SLIMSET_OK)
            return WRONG(v, "%s", err.text);
    }
    return true;
}

static void check_blocks(struct verify *v)
{
    struct index *ix = &v->d.ix;
    struct slimset_error err;
    for (uint64_t b = 0; b < ix->n_blocks; b++) {
        if (index_touch(ix, ix->base + SLIMSET_HEADER_BYTES + b * SLIMSET_BLOCK_BYTES, 1, &err) !=
            SLIMSET_OK)
            verify_finding(v, SLIMSET_INDEX_NAME, NULL, NULL, "%s", err.text);
    }
}

static bool check_splits(struct verify *v)
{
    struct index *ix = &v->d.ix;
    uint64_t shard = 0, sample = 0;
    for (uint64_t i = 0; i < ix->n_splits; i++) {
        const struct slimset_split *s = &ix->splits[i];
        if (!readable(v, s, sizeof *s, &s->name, 1))
            return false;
        if (s->first_shard != shard || s->n_shards > ix->n_shards - shard ||
            s->first_sample != sample || s->n_samples > ix->n_samples - sample)
            return WRONG(v, "split %" PRIu64 " does not begin where the one before it ends", i);
        if (s->order != 1 && s->order != 2)
            return WRONG(v, "split %" PRIu64 " has the unknown order %" PRIu32, i, s->order);
        shard += s->n_shards;
        sample += s->n_samples;
    }
    if (shard != ix->n_shards || sample != ix->n_samples)
        return WRONG(v,
                     "the splits hold %" PRIu64 " shards and %" PRIu64
                     " samples, the index %" PRIu64 " and %" PRIu64,
                     shard, sample, ix->n_shards, ix->n_samples);
    return true;
}

static bool check_shards(struct verify *v)
{
    struct index *ix = &v->d.ix;
    uint64_t part = 0, sample = 0, split = 0;
    uint64_t left = 0; /* shards of splits[split - 1] still to come */
    for (uint64_t i = 0; i < ix->n_shards; i++) {
        const struct slimset_shard *s = &ix->shards[i];
        if (!readable(v, s, sizeof *s, &s->first_path, 1))
            return false;
        while (left == 0 && split < ix->n_splits)
            left = ix->splits[split++].n_shards;
        if (left == 0 || s->split != split - 1)
            return WRONG(v, "shard %" PRIu64 " is not in the split that lists it", i);
        left--;
        if (s->first_part != part || s->n_parts > ix->n_parts - part || s->first_sample != sample ||
            s->n_samples > ix->n_samples - sample || (s->n_parts == 0) != (s->n_samples == 0))
            return WRONG(v, "shard %" PRIu64 " does not begin where the one before it ends", i);
        part += s->n_parts;
        sample += s->n_samples;
    }
    if (part != ix->n_parts || sample != ix->n_samples)
        return WRONG(v,
                     "the shards hold %" PRIu64 " parts and %" PRIu64 " samples, the index %" PRIu64
                     " and %" PRIu64,
                     part, sample, ix->n_parts, ix->n_samples);
    return true;
}

static bool check_parts(struct verify *v)
{
    struct index *ix = &v->d.ix;
    uint64_t sample = 0;
    char path[DATASET_PATH_MAX];
    for (uint64_t i = 0; i < ix->n_parts; i++) {
        const struct slimset_part *p = &ix->parts[i];
        const char *name;
        size_t n;
        struct slimset_error err;
        if (!readable(v, p, sizeof *p, &p->name, 1) ||
            index_text(ix, p->name, &name, &n, &err) != SLIMSET_OK)
            return false;
        if (!v->d.tree && !dataset_part_name(name, n, path))
            return WRONG(v, "part %" PRIu64 " has no plain file name", i);
        if (p->shard >= ix->n_shards ||
            index_touch(ix, &ix->shards[p->shard], sizeof *ix->shards, &err) != SLIMSET_OK)
            return WRONG(v, "part %" PRIu64 " names a shard that is not there", i);
        const struct slimset_shard *s = &ix->shards[p->shard];
        if (i < s->first_part || i - s->first_part >= s->n_parts || p->part != i - s->first_part)
            return WRONG(v, "part %" PRIu64 " is not in the shard that lists it", i);
        if (p->first_sample != sample || p->n_samples > ix->n_samples - sample)
            return WRONG(v, "part %" PRIu64 " does not begin where the one before it ends", i);
        sample += p->n_samples;
    }
    if (sample != ix->n_samples)
        return WRONG(v, "the parts hold %" PRIu64 " samples, the index %" PRIu64, sample,
                     ix->n_samples);
    return true;
}

static bool check_field(struct verify *v, uint64_t sample, const struct slimset_field *f)
{
    slimset_str strings[3] = {f->name, f->path, f->array};
    if (!readable(v, f, sizeof *f, strings, 3))
        return false;
    if (f->role > SLIMSET_ROLE_LABEL || f->format >= FORMAT_COUNT || f->in_format >= FORMAT_COUNT ||
        f->orientation > 8 || f->quality > 100 || f->ssim_e6 > 1000000 || (f->w == 0) != (f->h == 0) ||
        (f->in_w == 0) != (f->in_h == 0))
        return WRONG(v, "a field of sample %" PRIu64 " has numbers out of range", sample);
    return true;
}

static bool check_samples(struct verify *v)
{
    struct index *ix = &v->d.ix;
    uint64_t field = 0;
    for (uint64_t i = 0; i < ix->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        struct slimset_error err;
        if (index_sample(ix, i, &s, &f, &err) != SLIMSET_OK)
            return WRONG(v, "%s", err.text);
        if (!readable(v, s, sizeof *s, &s->key, 1))
            return false;
        if (s->key >> 40 == 0 || s->n_fields == 0)
            return WRONG(v, "sample %" PRIu64 " has no key or no fields", i);
        if (s->first_field != field)
            return WRONG(
                v, "the fields of sample %" PRIu64 " do not begin where those before them end", i);
        const struct slimset_part *p = &ix->parts[s->part];
        const struct slimset_split *sp = &ix->splits[s->split];
        if (index_touch(ix, p, sizeof *p, &err) != SLIMSET_OK || i < p->first_sample ||
            i - p->first_sample >= p->n_samples ||
            index_touch(ix, sp, sizeof *sp, &err) != SLIMSET_OK || i < sp->first_sample ||
            i - sp->first_sample >= sp->n_samples)
            return WRONG(v, "sample %" PRIu64 " is not in the part or split that lists it", i);
        for (uint32_t k = 0; k < s->n_fields; k++) {
            if (!check_field(v, i, &f[k]))
                return false;
        }
        field += s->n_fields;
    }
    if (field != ix->n_fields)
        return WRONG(v, "the samples have %" PRIu64 " fields, the index %" PRIu64, field,
                     ix->n_fields);
    return true;
}

/* Strictly ascending (hash, sample) with the right hash each: then every sample is there exactly
 * once. */
static bool check_keys(struct verify *v)
{
    struct index *ix = &v->d.ix;
    for (uint64_t i = 0; i < ix->n_keys; i++) {
        const struct slimset_key *k = &ix->keys[i];
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *key;
        size_t n;
        struct slimset_error err;
        if (!readable(v, k, sizeof *k, NULL, 0))
            return false;
        if (i > 0 && (k[-1].hash > k->hash || (k[-1].hash == k->hash && k[-1].sample >= k->sample)))
            return WRONG(v, "the keys are not in order");
        if (index_sample(ix, k->sample, &s, &f, &err) != SLIMSET_OK ||
            index_text(ix, s->key, &key, &n, &err) != SLIMSET_OK)
            return WRONG(v, "key %" PRIu64 " names a sample that cannot be read", i);
        if (hash_bytes(key, n) != k->hash)
            return WRONG(v, "key %" PRIu64 " has the hash of another one", i);
    }
    return true;
}

static bool check_rest(struct verify *v)
{
    struct index *ix = &v->d.ix;
    for (uint64_t i = 0; i < ix->n_classes; i++) {
        if (!readable(v, &ix->classes[i], sizeof *ix->classes, &ix->classes[i].name, 1))
            return false;
    }
    for (uint64_t i = 0; i < ix->n_rules; i++) {
        const struct slimset_field_rule *r = &ix->rules[i];
        slimset_str strings[3] = {r->name, r->reason, r->params};
        if (!readable(v, r, sizeof *r, strings, 3))
            return false;
        if (strcmp(name_hint(r->hint), "unknown") == 0 || r->role > SLIMSET_ROLE_LABEL ||
            r->codec >= SLIMSET_CODEC_COUNT)
            return WRONG(v, "field rule %" PRIu64 " has numbers out of range", i);
    }
    for (uint64_t i = 0; i < ix->n_rejects; i++) {
        const struct slimset_reject_record *r = &ix->rejects[i];
        slimset_str strings[2] = {r->path, r->text};
        if (!readable(v, r, sizeof *r, strings, 2))
            return false;
        if (r->kind < 1 || r->kind > 3 || r->reject >= SLIMSET_REJECT_COUNT ||
            (r->shard >= ix->n_shards && r->shard != UINT32_MAX))
            return WRONG(v, "reject %" PRIu64 " has numbers out of range", i);
    }
    return true;
}

enum slimset_status verify_index(struct verify *v, struct slimset_error *err)
{
    (void)err; /* the index is in memory: nothing but damage can be met */
    check_blocks(v);
    /* Records lead from one section to the next: later checks rely on what the earlier ones have
     * shown. */
    if (check_splits(v) && check_shards(v) && check_parts(v) && check_samples(v))
        check_keys(v);
    check_rest(v);
    return SLIMSET_OK;
}
