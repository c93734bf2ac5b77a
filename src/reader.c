/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names.h"
#include "reader_impl.h"
#include "sniff.h"

void slimset_reader_options_init(struct slimset_reader_options *options)
{
    *options = (struct slimset_reader_options){.verify = true};
}

static enum slimset_status sum_parts(struct slimset_reader *r, struct slimset_error *err)
{
    struct index *ix = &r->d.ix;
    enum slimset_status st = /* few: one for each 256 MB */
        index_touch(ix, ix->parts, ix->n_parts * sizeof *ix->parts, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_parts; i++) {
        if (__builtin_add_overflow(r->bytes, ix->parts[i].bytes, &r->bytes))
            st = err_set(err, SLIMSET_DAMAGED, "%s is damaged: its parts have impossible sizes",
                         SLIMSET_INDEX_NAME);
    }
    return st;
}

enum slimset_status slimset_reader_open_with(const char *out,
                                             const struct slimset_reader_options *options,
                                             struct slimset_reader **reader,
                                             struct slimset_error *err)
{
    struct slimset_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_nomem(err, sizeof *r);
    r->verify = options->verify;
    r->pid = getpid();
    enum slimset_status st = dataset_open_folder(out, &r->d, err);
    if (st == SLIMSET_OK)
        st = dataset_open_index(out, &r->d, err);
    if (st == SLIMSET_OK && r->d.stacked && r->d.ix.n_samples > 0)
        st = npy_header(&r->d.row, &r->row_head, err);
    if (st == SLIMSET_OK)
        st = sum_parts(r, err);
    if (st == SLIMSET_OK)
        st = reader_files_init(r, err);
    if (st == SLIMSET_OK)
        st = reader_check_packed(r, out, err);
    if (st == SLIMSET_OK && options->preload == SLIMSET_PRELOAD_RAM)
        st = reader_preload_ram(r, out, err);
    if (st == SLIMSET_OK && options->preload == SLIMSET_PRELOAD_PAGE_CACHE)
        st = reader_preload_page_cache(r, err);
    if (st != SLIMSET_OK) {
        slimset_reader_close(r);
        return st;
    }
    *reader = r;
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_open(const char *out, struct slimset_reader **reader,
                                        struct slimset_error *err)
{
    struct slimset_reader_options options;
    slimset_reader_options_init(&options);
    return slimset_reader_open_with(out, &options, reader, err);
}

void slimset_reader_close(struct slimset_reader *reader)
{
    if (reader == NULL)
        return;
    reader_decoders_fini(reader);
    reader_preload_fini(reader);
    reader_files_fini(reader);
    buf_fini(&reader->row_head);
    dataset_close(&reader->d);
    free(reader);
}

void slimset_reader_info(const struct slimset_reader *reader, struct slimset_info *info)
{
    const struct index *ix = &reader->d.ix;
    *info = (struct slimset_info){
        .samples = ix->n_samples,
        .fields = ix->n_fields,
        .rejects = ix->n_rejects,
        .parts = ix->n_parts,
        .shards = ix->n_shards,
        .splits = ix->n_splits,
        .classes = ix->n_classes,
        .rules = ix->n_rules,
        .tree = reader->d.tree,
        .bytes = reader->bytes,
        .index_hash = ix->header->header_hash,
    };
}

enum slimset_status reader_text(struct slimset_reader *r, slimset_str s, struct slimset_text *t,
                                struct slimset_error *err)
{
    return index_text(&r->d.ix, s, &t->bytes, &t->n, err);
}

/* Record i of n at `base`, touched. `what` is for the text. */
static enum slimset_status record(struct slimset_reader *r, const void *base, size_t record_bytes,
                                  uint64_t n, uint64_t i, const char *what,
                                  struct slimset_error *err)
{
    if (i >= n)
        return err_set(err, SLIMSET_NOT_FOUND, "there is no %s %" PRIu64 ", only %" PRIu64, what, i,
                       n);
    return index_touch(&r->d.ix, (const char *)base + i * record_bytes, record_bytes, err);
}

enum slimset_status slimset_reader_split(struct slimset_reader *reader, uint64_t i,
                                         struct slimset_split_view *view, struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    struct slimset_split_view v = {0};
    enum slimset_status st =
        record(reader, ix->splits, sizeof *ix->splits, ix->n_splits, i, "split", err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->splits[i].name, &v.name, err);
    if (st != SLIMSET_OK)
        return st;
    const struct slimset_split *s = &ix->splits[i];
    v.order = name_order(s->order);
    v.first_sample = s->first_sample;
    v.n_samples = s->n_samples;
    v.n_shards = s->n_shards;
    *view = v;
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_class(struct slimset_reader *reader, uint64_t i,
                                         struct slimset_text *name, struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    struct slimset_text t;
    enum slimset_status st =
        record(reader, ix->classes, sizeof *ix->classes, ix->n_classes, i, "class", err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->classes[i].name, &t, err);
    if (st == SLIMSET_OK)
        *name = t;
    return st;
}

enum slimset_status slimset_reader_part(struct slimset_reader *reader, uint64_t i,
                                        struct slimset_part_view *view, struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    struct slimset_part_view v = {0};
    enum slimset_status st =
        record(reader, ix->parts, sizeof *ix->parts, ix->n_parts, i, "part", err);
    if (st != SLIMSET_OK)
        return st;
    const struct slimset_part *p = &ix->parts[i];
    st = reader_text(reader, p->name, &v.name, err);
    if (st == SLIMSET_OK && (p->shard >= ix->n_shards || ix->n_splits == 0))
        st = err_set(err, SLIMSET_DAMAGED,
                     "%s is damaged: part %" PRIu64 " names a shard that is not there",
                     SLIMSET_INDEX_NAME, i);
    if (st == SLIMSET_OK)
        st = index_touch(ix, &ix->shards[p->shard], sizeof *ix->shards, err);
    if (st != SLIMSET_OK)
        return st;
    const struct slimset_shard *s = &ix->shards[p->shard];
    struct slimset_split_view split;
    st = slimset_reader_split(reader, s->split, &split, err);
    if (st == SLIMSET_NOT_FOUND)
        st = err_set(err, SLIMSET_DAMAGED,
                     "%s is damaged: shard %" PRIu32 " names a split that is not there",
                     SLIMSET_INDEX_NAME, p->shard);
    if (st != SLIMSET_OK)
        return st;
    v.split = split.name;
    v.shard = p->shard;
    v.shard_number = s->number;
    v.part = p->part;
    v.bytes = p->bytes;
    v.hash = p->hash;
    v.first_sample = p->first_sample;
    v.n_samples = p->n_samples;
    *view = v;
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_rule(struct slimset_reader *reader, uint64_t i,
                                        struct slimset_rule_view *view, struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    struct slimset_rule_view v = {0};
    enum slimset_status st =
        record(reader, ix->rules, sizeof *ix->rules, ix->n_rules, i, "field rule", err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->rules[i].name, &v.name, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->rules[i].reason, &v.reason, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->rules[i].params, &v.params, err);
    if (st != SLIMSET_OK)
        return st;
    const struct slimset_field_rule *r = &ix->rules[i];
    v.role = name_role(r->role);
    v.codec = name_codec(r->codec);
    v.hint = name_hint(r->hint);
    v.probed = r->probed;
    v.ratio = (double)r->ratio_q16 / 65536;
    *view = v;
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_reject(struct slimset_reader *reader, uint64_t i,
                                          struct slimset_reject_view *view,
                                          struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    struct slimset_reject_view v = {0};
    enum slimset_status st =
        record(reader, ix->rejects, sizeof *ix->rejects, ix->n_rejects, i, "reject", err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->rejects[i].path, &v.path, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->rejects[i].text, &v.text, err);
    if (st != SLIMSET_OK)
        return st;
    const struct slimset_reject_record *r = &ix->rejects[i];
    v.kind = name_reject_kind(r->kind);
    v.reject = slimset_reject_name(r->kind == 1 && r->reject < SLIMSET_REJECT_COUNT
                                       ? (enum slimset_reject)r->reject
                                   : r->kind == 1 ? SLIMSET_REJECT_COUNT
                                                  : SLIMSET_REJECT_NONE);
    *view = v;
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_sample(struct slimset_reader *reader, uint64_t i,
                                          struct slimset_sample_view *view,
                                          struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    const struct slimset_sample *s;
    const struct slimset_field *f;
    struct slimset_split_view split;
    struct slimset_sample_view v = {.number = i, .class_name = {"", 0}};
    enum slimset_status st = index_sample(ix, i, &s, &f, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, s->key, &v.key, err);
    if (st == SLIMSET_OK)
        st = slimset_reader_split(reader, s->split, &split, err);
    if (st == SLIMSET_OK && s->cls >= 0)
        st = slimset_reader_class(reader, (uint64_t)s->cls, &v.class_name, err);
    if (st == SLIMSET_OK)
        st = index_touch(ix, &ix->parts[s->part], sizeof *ix->parts, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, ix->parts[s->part].name, &v.part_name, err);
    if (st != SLIMSET_OK)
        return st;
    v.split = split.name;
    v.cls = s->cls;
    v.part = s->part;
    v.n_fields = s->n_fields;
    *view = v;
    return SLIMSET_OK;
}

enum slimset_status reader_field(struct slimset_reader *r, uint64_t i, uint32_t k,
                                 const struct slimset_sample **s, const struct slimset_field **f,
                                 struct slimset_error *err)
{
    const struct slimset_field *all;
    enum slimset_status st = index_sample(&r->d.ix, i, s, &all, err);
    if (st != SLIMSET_OK)
        return st;
    if (k >= (*s)->n_fields)
        return err_set(err, SLIMSET_NOT_FOUND,
                       "sample %" PRIu64 " has no field %" PRIu32 ", only %u", i, k,
                       (unsigned)(*s)->n_fields);
    *f = &all[k];
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_field(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                         struct slimset_field_view *view, struct slimset_error *err)
{
    const struct slimset_sample *s;
    const struct slimset_field *f = NULL;
    struct slimset_field_view v = {0};
    enum slimset_status st = reader_field(reader, i, k, &s, &f, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, f->name, &v.name, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, f->path, &v.path, err);
    if (st == SLIMSET_OK)
        st = reader_text(reader, f->array, &v.array, err);
    if (st != SLIMSET_OK)
        return st;
    v.offset = f->offset;
    v.bytes = f->bytes;
    v.hash = f->hash;
    v.in_bytes = f->in_bytes;
    v.in_hash = f->in_hash;
    v.w = f->w;
    v.h = f->h;
    v.in_w = f->in_w;
    v.in_h = f->in_h;
    v.frames = f->frames;
    v.notes = f->notes;
    v.role = name_role(f->role);
    v.format =
        f->format < FORMAT_COUNT ? sniff_format_name((enum image_format)f->format) : "unknown";
    v.in_format = f->in_format < FORMAT_COUNT ? sniff_format_name((enum image_format)f->in_format)
                                              : "unknown";
    v.channels = f->channels;
    v.bits = f->bits;
    v.orientation = f->orientation;
    v.quality = f->quality;
    v.classes_lost = f->classes_lost;
    v.ssim_e6 = f->ssim_e6;
    *view = v;
    return SLIMSET_OK;
}

/* The names of all fields of a sample, for a message. */
static void list_fields(struct slimset_reader *r, const struct slimset_sample *s,
                        const struct slimset_field *f, char *list, size_t cap)
{
    struct slimset_error ignored;
    size_t at = 0;
    list[0] = '\0';
    for (uint32_t k = 0; k < s->n_fields && at + 1 < cap; k++) {
        struct slimset_text name;
        if (reader_text(r, f[k].name, &name, &ignored) != SLIMSET_OK)
            continue;
        int n = snprintf(list + at, cap - at, "%s%.*s", at != 0 ? ", " : "",
                         (int)(name.n < 60 ? name.n : 60), name.bytes);
        at += n > 0 ? (size_t)n : 0;
    }
}

enum slimset_status slimset_reader_field_named(struct slimset_reader *reader, uint64_t i,
                                               const char *name, size_t n, uint32_t *k,
                                               struct slimset_error *err)
{
    const struct slimset_sample *s = NULL;
    const struct slimset_field *f = NULL;
    uint32_t by_end = 0, ends = 0;
    enum slimset_status st = index_sample(&reader->d.ix, i, &s, &f, err);
    for (uint32_t j = 0; st == SLIMSET_OK && j < s->n_fields; j++) {
        struct slimset_text t;
        st = reader_text(reader, f[j].name, &t, err);
        if (st != SLIMSET_OK || t.n < n || memcmp(t.bytes + t.n - n, name, n) != 0)
            continue;
        if (t.n == n) {
            *k = j;
            return SLIMSET_OK;
        }
        if (n != 0 && t.bytes[t.n - n - 1] == '.') {
            by_end = j;
            ends++;
        }
    }
    if (st != SLIMSET_OK)
        return st;
    if (ends == 1) {
        *k = by_end;
        return SLIMSET_OK;
    }
    char list[200];
    list_fields(reader, s, f, list, sizeof list);
    return err_set(err, SLIMSET_NOT_FOUND, "sample %" PRIu64 " has %s %.*s: it has %s", i,
                   ends == 0 ? "no field" : "more than one field that ends in",
                   (int)(n < 60 ? n : 60), name, list);
}

enum slimset_status slimset_reader_find(struct slimset_reader *reader, const char *key, size_t n,
                                        uint64_t *sample, struct slimset_error *err)
{
    return index_find(&reader->d.ix, key, n, sample, err);
}

enum slimset_status slimset_reader_find_path(struct slimset_reader *reader, const char *path,
                                             size_t n, uint64_t *sample, uint32_t *field,
                                             struct slimset_error *err)
{
    struct index *ix = &reader->d.ix;
    for (uint64_t i = 0; n != 0 && i < ix->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        enum slimset_status st = index_sample(ix, i, &s, &f, err);
        if (st != SLIMSET_OK)
            return st;
        for (uint32_t k = 0; k < s->n_fields; k++) {
            const char *bytes;
            size_t bytes_n;
            if (f[k].path >> 40 != n)
                continue; /* the length alone decides nearly always, without touching the string */
            st = index_text(ix, f[k].path, &bytes, &bytes_n, err);
            if (st != SLIMSET_OK)
                return st;
            if (memcmp(bytes, path, n) == 0) {
                *sample = i;
                *field = k;
                return SLIMSET_OK;
            }
        }
    }
    return err_set(err, SLIMSET_NOT_FOUND, "no field came from the path %.*s",
                   (int)(n < 300 ? n : 300), path);
}

struct slimset_text slimset_reader_meta(const struct slimset_reader *reader)
{
    const struct index *ix = &reader->d.ix;
    return (struct slimset_text){ix->meta != NULL ? ix->meta : "", ix->meta_bytes};
}

const char *slimset_note_name(unsigned bit)
{
    return name_note(bit);
}
