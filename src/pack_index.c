/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "pack_impl.h"
#include "pipeline.h"
#include "sidecar.h"

/* The records of a shard, from the old index or from its fragment (opened into *fragment). */
static enum slimset_status view_of(struct pack *p, size_t shard, struct index *fragment, struct shard_view *v,
                                   struct slimset_error *err)
{
    struct index *ix = &p->old;
    uint64_t at = p->old_shard[shard];
    *v = (struct shard_view){0};
    if (p->state[shard] == SHARD_EMPTY)
        return SLIMSET_OK;
    if (p->state[shard] != SHARD_KEPT) {
        char name[320];
        pipeline_fragment_name(&p->plan, shard, name);
        enum slimset_status st = index_open(p->dirs.work, name, SLIMSET_KIND_FRAGMENT, true, fragment, err);
        if (st != SLIMSET_OK)
            return st;
        ix = fragment;
        at = 0;
    }
    const struct slimset_shard *s = &ix->shards[at];
    v->shard = *s;
    v->n_parts = s->n_parts;
    v->n_samples = s->n_samples;
    v->base_part = ix == fragment ? 0 : s->first_part;
    v->base_sample = ix == fragment ? 0 : s->first_sample;
    v->parts = ix->parts + v->base_part;
    v->samples = ix->samples + v->base_sample;
    v->strings = ix->strings;
    v->string_bytes = ix->string_bytes;
    if (v->base_part + v->n_parts > ix->n_parts || v->base_sample + v->n_samples > ix->n_samples)
        return err_set(err, SLIMSET_DAMAGED, "%s: a shard is out of range", ix->name);
    if (v->n_samples > 0) {
        const struct slimset_sample *last = &v->samples[v->n_samples - 1];
        v->base_field = v->samples[0].first_field;
        v->n_fields = last->first_field + last->n_fields - v->base_field;
        if (v->base_field > ix->n_fields || v->n_fields > ix->n_fields - v->base_field)
            return err_set(err, SLIMSET_DAMAGED, "%s: fields are out of range", ix->name);
    }
    v->fields = ix->fields + v->base_field;
    uint64_t r = 0;
    while (ix != fragment && r < ix->n_rejects && ix->rejects[r].shard != at)
        r++;
    v->rejects = ix->rejects + r;
    while (r + v->n_rejects < ix->n_rejects && (ix == fragment || ix->rejects[r + v->n_rejects].shard == at))
        v->n_rejects++;
    return SLIMSET_OK;
}

static enum slimset_status put_not_packed(struct index_writer *w, const char *path, size_t n, uint32_t kind, uint32_t reject,
                                          const char *text, struct slimset_error *err)
{
    struct slimset_reject_record r = {.kind = kind, .reject = reject, .shard = UINT32_MAX};
    enum slimset_status st = index_string(w, path, n, &r.path, err);
    if (st == SLIMSET_OK)
        st = index_string(w, text, strlen(text), &r.text, err);
    return st == SLIMSET_OK ? index_put_reject(w, &r, err) : st;
}

static enum slimset_status count_all(struct pack *p, struct index_counts *c, struct slimset_error *err)
{
    const struct listing *l = &p->plan.listing;
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards; i++) {
        struct index fragment = {0};
        struct shard_view v;
        st = view_of(p, i, &fragment, &v, err);
        c->parts += v.n_parts;
        c->samples += v.n_samples;
        c->fields += v.n_fields;
        c->rejects += v.n_rejects;
        index_close(&fragment);
    }
    for (size_t i = 0; i < l->n_entries; i++)
        c->rejects += l->entries[i].problem != SLIMSET_REJECT_NONE;
    c->rejects += l->n_left_out;
    c->meta_bytes = p->recipe_text.len + strlen(sidecar_meta(p->recipe));
    c->splits = p->plan.n_splits;
    c->classes = p->plan.n_classes;
    c->fields_rules = p->plan.n_rules;
    c->shards = p->plan.n_shards;
    return st;
}

static enum slimset_status put_shards(struct pack *p, struct index_writer *w, struct slimset_error *err)
{
    uint64_t part = 0, sample = 0, field = 0;
    enum slimset_status st = SLIMSET_OK;
    for (size_t k = 0; st == SLIMSET_OK && k < p->plan.n_splits; k++) {
        const struct plan_split *s = &p->plan.splits[k];
        struct slimset_split to = {.order = s->order, .first_shard = (uint32_t)s->first_shard, .n_shards = (uint32_t)s->n_shards,
                                   .first_sample = sample};
        st = index_string(w, s->name, strlen(s->name), &to.name, err);
        for (size_t i = s->first_shard; st == SLIMSET_OK && i < s->first_shard + s->n_shards; i++) {
            struct index fragment = {0};
            struct shard_view v;
            st = view_of(p, i, &fragment, &v, err);
            struct slimset_shard record = {.inputs_hash = v.shard.inputs_hash, .first_part = (uint32_t)part,
                                           .n_parts = (uint32_t)v.n_parts, .first_sample = sample,
                                           .n_samples = (uint32_t)v.n_samples, .n_rejects = v.shard.n_rejects};
            if (st == SLIMSET_OK)
                st = plan_put_shard(&p->plan, i, &record, w, err);
            if (st == SLIMSET_OK)
                st = shard_put(&v, (uint32_t)i, (uint32_t)k, &part, &sample, &field, w, err);
            index_close(&fragment);
        }
        to.n_samples = sample - to.first_sample;
        if (st == SLIMSET_OK)
            st = index_put_split(w, &to, err);
    }
    return st;
}

enum slimset_status pack_write_index(struct pack *p, struct slimset_error *err)
{
    const struct listing *l = &p->plan.listing;
    struct index_counts counts = {0};
    struct index_writer *w = NULL;
    enum slimset_status st = count_all(p, &counts, err);
    if (st == SLIMSET_OK)
        st = index_create(p->dirs.work, "publish", SLIMSET_KIND_INDEX, &counts, &w, err);
    if (st == SLIMSET_OK)
        st = index_put_meta(w, p->recipe_text.data, p->recipe_text.len, err);
    if (st == SLIMSET_OK)
        st = index_put_meta(w, sidecar_meta(p->recipe), strlen(sidecar_meta(p->recipe)), err);
    if (st == SLIMSET_OK)
        st = plan_put_decisions(&p->plan, w, err);
    if (st == SLIMSET_OK)
        st = put_shards(p, w, err);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_entries; i++)
        if (l->entries[i].problem != SLIMSET_REJECT_NONE)
            st = put_not_packed(w, l->entries[i].path, l->entries[i].path_bytes, 1, l->entries[i].problem,
                                listing_problem_text(l->entries[i].problem), err);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_left_out; i++)
        st = put_not_packed(w, l->left_out[i].path, l->left_out[i].path_bytes, l->left_out[i].kind, 0, l->left_out[i].text, err);
    if (st == SLIMSET_OK)
        return index_commit(w, true, err);
    index_abort(w);
    return st;
}
