/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "dataset.h"
#include "pack_impl.h"
#include "pipeline.h"
#include "request.h"

static size_t find_old_shard(struct pack *p, size_t shard)
{
    const struct plan_shard *s = &p->plan.shards[shard];
    const char *want = p->plan.splits[s->split].name, *name;
    struct slimset_error ignored;
    size_t n;
    for (uint64_t i = 0; i < p->old.n_splits; i++) {
        const struct slimset_split *sp = &p->old.splits[i];
        if (index_text(&p->old, sp->name, &name, &n, &ignored) == SLIMSET_OK && n == strlen(want) && memcmp(name, want, n) == 0)
            return s->number < sp->n_shards && sp->first_shard + (uint64_t)s->number < p->old.n_shards
                       ? sp->first_shard + s->number : SIZE_MAX;
    }
    return SIZE_MAX;
}

/* The content hash of one entry by reading it (changed time, same size). 0 on any fault: then the shard is redone. */
static enum slimset_status rehash(struct pack *p, uint32_t entry, uint64_t *hash, struct slimset_error *err)
{
    struct request *r = malloc(sizeof *r);
    struct pool_answer a;
    uint32_t failed;
    uint64_t culprit;
    bool got = false;
    *hash = 0;
    if (r == NULL)
        return err_nomem(err, sizeof *r);
    enum slimset_status st = request_open(r, &p->plan, entry, 1, ITEM_HASH, 0, &failed, err);
    if (st == SLIMSET_BAD_INPUT) {
        free(r);
        return SLIMSET_OK;
    }
    if (st == SLIMSET_OK)
        st = pool_submit(p->pool, &r->item, r->fds, err);
    free(r);
    while (st == SLIMSET_OK && !got)
        st = pool_next(p->pool, 1000, &a, &got, &culprit, err);
    if (st == SLIMSET_OK) {
        if (a.answer->status == SLIMSET_OK)
            *hash = item_fields(a.answer)->in_hash;
        free(a.answer);
    }
    return st;
}

/* Is the shard what the old index says, by its inputs' content? */
static enum slimset_status is_unchanged(struct pack *p, size_t shard, bool *same, struct slimset_error *err)
{
    const struct plan_shard *s = &p->plan.shards[shard];
    struct hash_stream h;
    shard_hash_begin(&h, &p->plan);
    *same = false;
    for (size_t i = 0; i < s->n_samples; i++) {
        const struct plan_sample *sample = &p->plan.samples[s->first_sample + i];
        shard_hash_sample(&h, &p->plan, sample);
        for (unsigned k = 0; k < sample->n; k++) {
            const struct entry *e = &p->plan.listing.entries[sample->first + k];
            const struct known_input *known = known_find(&p->known, e);
            if (known == NULL || known->bytes != e->bytes)
                return SLIMSET_OK;
            uint64_t hash = known->content_hash;
            if (p->run->verify_inputs || !known_same_stat(known, e)) {
                enum slimset_status st = rehash(p, sample->first + k, &hash, err);
                if (st != SLIMSET_OK || hash != known->content_hash)
                    return st;
            }
            shard_hash_entry(&h, &p->plan, e, hash);
        }
    }
    *same = hash_value(&h) == p->old.shards[p->old_shard[shard]].inputs_hash;
    return SLIMSET_OK;
}

/* Do the old shard's files lie in OUT with their sizes? */
static bool files_are_there(struct pack *p, size_t old_shard)
{
    const struct slimset_shard *s = &p->old.shards[old_shard];
    struct slimset_error ignored;
    for (uint64_t i = s->first_part; i < (uint64_t)s->first_part + s->n_parts; i++) {
        const char *text;
        char name[512];
        size_t n;
        struct stat st;
        if (i >= p->old.n_parts || index_text(&p->old, p->old.parts[i].name, &text, &n, &ignored) != SLIMSET_OK)
            return false;
        snprintf(name, sizeof name, "%.*s", (int)n, n > 0 ? text : "");
        if (n > 0 && (fstatat(p->dirs.out, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || (uint64_t)st.st_size != p->old.parts[i].bytes))
            return false;
    }
    return true;
}

bool pack_tree_files(struct index *ix, int dir, uint64_t first, uint64_t n_samples)
{
    struct slimset_error ignored;
    for (uint64_t i = first; i < first + n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *key, *field;
        size_t key_n, field_n;
        if (index_sample(ix, i, &s, &f, &ignored) != SLIMSET_OK || index_text(ix, s->key, &key, &key_n, &ignored) != SLIMSET_OK)
            return false;
        for (unsigned k = 0; k < s->n_fields; k++) {
            char name[DATASET_PATH_MAX];
            struct stat st;
            if (index_text(ix, f[k].name, &field, &field_n, &ignored) != SLIMSET_OK ||
                !dataset_path(key, key_n, field, field_n, name))
                return false;
            if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || (uint64_t)st.st_size != f[k].bytes)
                return false;
        }
    }
    return true;
}

bool pack_fragment_is_good(struct pack *p, size_t shard)
{
    char name[320], want[32];
    struct index ix = {0};
    struct slimset_error ignored;
    const char *value, *text;
    size_t n;
    pipeline_fragment_name(&p->plan, shard, name);
    if (index_open(p->dirs.work, name, SLIMSET_KIND_FRAGMENT, true, &ix, &ignored) != SLIMSET_OK)
        return false;
    snprintf(want, sizeof want, "%016llx", (unsigned long long)pipeline_inputs_stat(&p->plan, shard));
    bool good = ix.n_shards == 1 && index_meta(&ix, "inputs", &value, &n) && n == 16 && memcmp(value, want, 16) == 0;
    for (uint64_t i = 0; good && i < ix.n_parts; i++) {
        char file[512];
        struct stat st;
        good = index_text(&ix, ix.parts[i].name, &text, &n, &ignored) == SLIMSET_OK;
        snprintf(file, sizeof file, "%.*s", (int)n, n > 0 ? text : "");
        if (good && n > 0)
            good = fstatat(p->dirs.stage, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)st.st_size == ix.parts[i].bytes;
    }
    if (good && p->recipe->layout == SLIMSET_LAYOUT_TREE)
        good = pack_tree_files(&ix, p->dirs.stage, 0, ix.n_samples);
    if (good)
        p->rejects_resumed += ix.shards[0].n_rejects;
    index_close(&ix);
    return good;
}

/* OUT holds the dataset of quite other sources: replacing it must be said. */
static enum slimset_status refuse_stranger(struct pack *p, struct slimset_error *err)
{
    const struct listing *l = &p->plan.listing;
    for (size_t i = 0; i < l->n_entries; i++)
        if (known_find(&p->known, &l->entries[i]) != NULL)
            return SLIMSET_OK;
    if (p->known.n == 0 || l->n_entries == 0)
        return SLIMSET_OK;
    return err_set(err, SLIMSET_DIFFERS, "%.200s holds the dataset of other sources (none of its %zu inputs is among the %zu found now)%s",
                   p->run->out, p->known.n, l->n_entries, p->run->repair ? "" : ": --force replaces it");
}

enum slimset_status pack_sort_shards(struct pack *p, struct slimset_error *err)
{
    size_t n = p->plan.n_shards;
    p->state = calloc(n + 1, sizeof *p->state);
    p->old_shard = calloc(n + 1, sizeof *p->old_shard);
    if (p->state == NULL || p->old_shard == NULL)
        return err_nomem(err, n * sizeof *p->old_shard);
    enum slimset_status st = SLIMSET_OK;
    if (p->old.base != NULL)
        st = known_load(&p->known, p->dirs.work, &p->old, err);
    if (st == SLIMSET_OK && p->old.base != NULL)
        st = refuse_stranger(p, err);
    for (size_t i = 0; st == SLIMSET_OK && i < n; i++) {
        bool same = false;
        p->old_shard[i] = p->old.base != NULL ? find_old_shard(p, i) : SIZE_MAX;
        if (pack_repairs(p))
            continue;
        if (p->plan.shards[i].n_samples == 0)
            continue;
        if (p->run->stop != NULL && *p->run->stop)
            return err_set(err, SLIMSET_INTERRUPTED, "interrupted; the same command goes on from here");
        if (pack_fragment_is_good(p, i)) {
            p->state[i] = SHARD_RESUMED;
            continue;
        }
        if (p->old_shard[i] != SIZE_MAX) {
            const struct slimset_shard *o = &p->old.shards[p->old_shard[i]];
            st = is_unchanged(p, i, &same, err);
            same = same && files_are_there(p, p->old_shard[i]) &&
                   (p->recipe->layout != SLIMSET_LAYOUT_TREE ||
                    pack_tree_files(&p->old, p->dirs.out, o->first_sample, o->n_samples));
        }
        p->state[i] = same ? SHARD_KEPT : SHARD_TO_DO;
    }
    if (st == SLIMSET_OK && pack_repairs(p))
        st = repair_sort(p, err);
    known_fini(&p->known);
    return st;
}
