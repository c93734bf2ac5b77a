/* SPDX-License-Identifier: Apache-2.0 */
#include "shard.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/io.h"
#include "dataset.h"
#include "keys.h"
#include "roles.h"
#include "stack_plan.h"

enum { HEAP_START = 8, SPILL_PIECE = 1 << 20 };

/* --- content ------------------------------------------------------------------------------------------------ */

static void *push(void *array, size_t *n, size_t *cap, size_t size, struct slimset_error *err)
{
    if (*n == *cap) {
        size_t want = *cap + *cap / 2 + 16;
        void *grown = realloc(*(void **)array, want * size);
        if (grown == NULL) {
            err_nomem(err, want * size);
            return NULL;
        }
        *(void **)array = grown;
        *cap = want;
    }
    void *p = (char *)*(void **)array + (*n)++ * size;
    memset(p, 0, size);
    return p;
}

static enum slimset_status keep_text(struct shard_content *c, const void *bytes, size_t n, slimset_str *out,
                                     struct slimset_error *err)
{
    *out = 0;
    if (n == 0)
        return SLIMSET_OK;
    if (c->strings.len == 0) {
        static const char absent[HEAP_START];
        enum slimset_status st = buf_append(&c->strings, absent, sizeof absent, err);
        if (st != SLIMSET_OK)
            return st;
    }
    *out = (uint64_t)n << 40 | c->strings.len;
    return buf_append(&c->strings, bytes, n, err);
}

struct shard_view shard_view_of(const struct shard_content *c)
{
    return (struct shard_view){
        .shard = c->shard, .parts = c->parts, .samples = c->samples, .fields = c->fields, .rejects = c->rejects,
        .n_parts = c->n_parts, .n_samples = c->n_samples, .n_fields = c->n_fields, .n_rejects = c->n_rejects,
        .strings = (const char *)c->strings.data, .string_bytes = c->strings.len};
}

void shard_hash_begin(struct hash_stream *h, const struct plan *p)
{
    hash_init(h);
    hash_update(h, &p->recipe_hash, sizeof p->recipe_hash);
}

void shard_hash_sample(struct hash_stream *h, const struct plan *p, const struct plan_sample *s)
{
    char key[KEYS_TEXT_MAX];
    size_t n = plan_key(p, s, key);
    uint64_t numbers[3] = {n, (uint64_t)(int64_t)s->cls, s->duplicate};
    hash_update(h, numbers, sizeof numbers);
    hash_update(h, key, n);
}

void shard_hash_entry(struct hash_stream *h, const struct plan *p, const struct entry *e, uint64_t content_hash)
{
    const struct plan_rule *r = &p->rules[e->rule];
    uint64_t numbers[4] = {e->path_bytes, e->bytes, content_hash, r->role | (uint64_t)r->codec << 8 | (uint64_t)r->flags << 16};
    hash_update(h, numbers, sizeof numbers);
    hash_update(h, e->path, e->path_bytes);
    if (r->params != NULL)
        hash_update(h, r->params, strlen(r->params));
}

/* --- parts --------------------------------------------------------------------------------------------------- */

static bool is_tree(const struct shard_writer *w)
{
    return w->plan->recipe->layout == SLIMSET_LAYOUT_TREE;
}

static bool is_stack(const struct shard_writer *w)
{
    return w->plan->recipe->layout == SLIMSET_LAYOUT_NPY;
}

static void part_name(const struct shard_writer *w, unsigned part, char *name, size_t n)
{
    const struct plan_shard *s = &w->plan->shards[w->number];
    const char *split = w->plan->splits[s->split].name, *ext = is_stack(w) ? "npy" : "tar";
    if (part == 0)
        snprintf(name, n, "%s-%05u.%s", split, s->number, ext);
    else
        snprintf(name, n, "%s-%05u-%u.%s", split, s->number, part, ext);
}

static enum slimset_status begin_part(struct shard_writer *w, struct slimset_error *err)
{
    struct shard_content *c = &w->content;
    char name[300];
    struct slimset_part *p = push(&c->parts, &c->n_parts, &c->cap_parts, sizeof *p, err);
    if (p == NULL)
        return err->status;
    p->part = (uint32_t)c->n_parts - 1;
    p->first_sample = c->n_samples;
    if (is_tree(w)) {
        hash_init(&w->tar.hash);
        return SLIMSET_OK;
    }
    part_name(w, p->part, name, sizeof name);
    enum slimset_status st = keep_text(c, name, strlen(name), &p->name, err);
    if (st == SLIMSET_OK)
        st = is_stack(w) ? stack_create(&w->stack, w->stage_dir, name, &w->plan->row, err) : tar_create(&w->tar, w->stage_dir, name, err);
    w->part_open = st == SLIMSET_OK;
    return st;
}

static enum slimset_status end_part(struct shard_writer *w, struct slimset_error *err)
{
    struct shard_content *c = &w->content;
    if (c->n_parts == 0)
        return SLIMSET_OK;
    struct slimset_part *p = &c->parts[c->n_parts - 1];
    p->n_samples = (uint32_t)(c->n_samples - p->first_sample);
    if (is_tree(w))
        p->hash = hash_value(&w->tar.hash);
    if (!w->part_open) /* nor is a tree one file */
        return SLIMSET_OK;
    if (w->n_fds == sizeof w->fds / sizeof w->fds[0]) { /* very many parts: sync some now */
        enum slimset_status st = shard_sync(w, err);
        if (st != SLIMSET_OK)
            return st;
    }
    w->part_open = false;
    enum slimset_status st = is_stack(w) ? stack_finish(&w->stack, &w->fds[w->n_fds], &p->bytes, &p->hash, err)
                                         : tar_finish(&w->tar, &w->fds[w->n_fds], &p->bytes, &p->hash, err);
    w->n_fds += st == SLIMSET_OK;
    return st;
}

/* --- names of fields --------------------------------------------------------------------------------------------- */

struct names {
    char text[ITEM_FIELDS_MAX + 1][KEYS_FIELD_MAX + 1];
    unsigned n;
    bool cased; /* files of a tree; WebDataset reads fields in lower case */
};

static bool taken(const struct names *names, const char *text)
{
    for (unsigned i = 0; i < names->n; i++)
        if ((names->cased ? strcmp : strcasecmp)(names->text[i], text) == 0)
            return true;
    return false;
}

/* The source's field name with the extension of what is stored. tree, unchanged bytes, WebDataset: as it was. array: of an .npz's array,
 * untrusted. */
static void field_name(const struct shard_writer *w, const struct entry *e, const struct item_field *f, const char *array,
                       struct names *names)
{
    size_t n;
    const char *field = keys_field(e, &n);
    bool tree = is_tree(w), exact = w->plan->listing.sources[e->source].webdataset;
    char *to = names->text[names->n], source[KEYS_FIELD_SOURCE + 1];
    if (n > KEYS_FIELD_SOURCE) { /* keep the end: it tells the type */
        field += n - KEYS_FIELD_SOURCE;
        n = KEYS_FIELD_SOURCE;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)field[i];
        bool blank = c <= 0x20 || c == 0x7f;
        source[i] = (char)(tree ? c : blank ? '_' : exact ? c : tolower(c));
    }
    source[n] = '\0';
    const char *dot = strrchr(source, '.'), *ext = dot != NULL ? dot + 1 : source;
    uint8_t role = w->plan->rules[e->rule].role;
    const char *usual = role != SLIMSET_ROLE_COPY && !(f->notes & NOTE_COPIED && role == SLIMSET_ROLE_ARRAY) ? role_extension(f->format) : NULL;
    char member[ARRAY_NAME_MAX + 16];
    if (f->name_bytes > 0) { /* "image.npy.zst" in place of "npz" */
        size_t m = array_name_clean(array, f->name_bytes, member);
        for (size_t i = 0; i < m && !tree && !exact; i++)
            member[i] = (char)tolower((unsigned char)member[i]);
        snprintf(member + m, sizeof member - m, ".%s", usual != NULL ? usual : "npy");
        usual = member;
    }
    bool fits = usual == NULL || role_extension_fits(f->format, ext, strlen(ext));
    if (usual == NULL || (tree && (f->notes & NOTE_COPIED)) || (fits && f->name_bytes == 0 && (tree || exact)))
        snprintf(to, sizeof names->text[0], "%s", source);
    else
        snprintf(to, sizeof names->text[0], "%.*s%s", (int)(ext - source), source, usual);
    if (taken(names, to)) {
        char again[sizeof names->text[0]];
        snprintf(again, sizeof again, "%.15s.%.60s", ext, to);
        for (unsigned k = 2; taken(names, again); k++)
            snprintf(again, sizeof again, "%u.%.60s", k, to);
        snprintf(to, sizeof names->text[0], "%s", again);
    }
    names->n++;
}

/* --- samples ---------------------------------------------------------------------------------------------------- */

static enum slimset_status tree_file(struct shard_writer *w, const char *path, const void *data, uint64_t n,
                                     struct slimset_error *err)
{
    int fd = -1;
    const char *slash = strrchr(path, '/');
    enum slimset_status st = SLIMSET_OK;
    if (slash != NULL) {
        char dir[DATASET_PATH_MAX];
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        st = io_mkdirs(w->stage_dir, dir, err);
    }
    if (st == SLIMSET_OK)
        st = io_create(w->stage_dir, path, &fd, err);
    if (st == SLIMSET_OK)
        st = io_write(fd, data, n, path, err);
    struct slimset_error ignored;
    enum slimset_status closed = fd >= 0 ? io_close(fd, path, st == SLIMSET_OK ? err : &ignored) : SLIMSET_OK;
    return st == SLIMSET_OK ? closed : st;
}

/* Copies n bytes of the spill into a file of a tree. */
static enum slimset_status tree_spilled(struct shard_writer *w, const char *path, int spill_fd, const struct item_field *f, uint64_t *hash,
                                        struct slimset_error *err)
{
    int fd = -1;
    uint8_t *piece = malloc(SPILL_PIECE);
    struct hash_stream h;
    hash_init(&h);
    enum slimset_status st = piece != NULL ? tree_file(w, path, "", 0, err) : err_nomem(err, SPILL_PIECE);
    if (st == SLIMSET_OK)
        st = io_create(w->stage_dir, path, &fd, err);
    for (uint64_t at = 0; st == SLIMSET_OK && at < f->payload_bytes;) {
        size_t got = 0, want = f->payload_bytes - at < SPILL_PIECE ? (size_t)(f->payload_bytes - at) : SPILL_PIECE;
        st = io_pread(spill_fd, piece, want, f->spill_at + at, &got, "a spilled payload", err);
        if (st == SLIMSET_OK && (got != want || (at == 0 && !item_begins_right(f, piece, got))))
            st = err_set(err, SLIMSET_INTERNAL, "a worker's payload is not what it says");
        if (st == SLIMSET_OK)
            st = io_write(fd, piece, got, path, err);
        hash_update(&h, piece, st == SLIMSET_OK ? got : 0);
        at += got;
    }
    *hash = hash_value(&h);
    free(piece);
    struct slimset_error ignored;
    enum slimset_status closed = fd >= 0 ? io_close(fd, path, st == SLIMSET_OK ? err : &ignored) : SLIMSET_OK;
    return st == SLIMSET_OK ? closed : st;
}

static enum slimset_status first_bytes(void *arg, const uint8_t *first, size_t n, struct slimset_error *err)
{
    return item_begins_right(arg, first, n) ? SLIMSET_OK : err_set(err, SLIMSET_INTERNAL, "a worker's payload is not what it calls it");
}

static enum slimset_status store_spilled(struct shard_writer *w, const char *key, size_t key_n, const char *field, int spill_fd,
                                         const struct item_field *f, struct slimset_field *to, struct slimset_error *err)
{
    char name[DATASET_PATH_MAX];
    struct shard_content *c = &w->content;
    if (!dataset_path(key, key_n, field, strlen(field), name))
        return err_set(err, SLIMSET_INTERNAL, "%.*s.%s is no name below OUT", (int)(key_n < 300 ? key_n : 300), key, field);
    to->bytes = f->payload_bytes;
    enum slimset_status st = keep_text(c, field, strlen(field), &to->name, err);
    if (st != SLIMSET_OK)
        return st;
    if (!is_tree(w)) {
        struct item_field copy = *f;
        return tar_append_file(&w->tar, name, strlen(name), spill_fd, f->spill_at, f->payload_bytes, first_bytes, &copy, &to->offset, &to->hash, err);
    }
    st = tree_spilled(w, name, spill_fd, f, &to->hash, err);
    c->parts[c->n_parts - 1].bytes += f->payload_bytes;
    hash_update(&w->tar.hash, &to->hash, sizeof to->hash);
    return st;
}

static enum slimset_status store(struct shard_writer *w, const char *key, size_t key_n, const char *field, const void *data,
                                 uint64_t n, struct slimset_field *to, struct slimset_error *err)
{
    char name[DATASET_PATH_MAX];
    struct shard_content *c = &w->content;
    if (!dataset_path(key, key_n, field, strlen(field), name))
        return err_set(err, SLIMSET_INTERNAL, "%.*s.%s is no name below OUT", (int)(key_n < 300 ? key_n : 300), key, field);
    to->bytes = n;
    to->hash = hash_bytes(data, n);
    enum slimset_status st = keep_text(c, field, strlen(field), &to->name, err);
    if (st != SLIMSET_OK || !is_tree(w))
        return st == SLIMSET_OK ? tar_append(&w->tar, name, strlen(name), data, n, &to->offset, err) : st;
    c->parts[c->n_parts - 1].bytes += n;
    hash_update(&w->tar.hash, &to->hash, sizeof to->hash);
    return tree_file(w, name, data, n, err);
}

static uint64_t sample_bytes(const struct item_answer *a, const char *cls)
{
    uint64_t n = cls[0] != '\0' ? tar_member_bytes(strlen(cls)) : 0;
    const struct item_field *f = item_fields(a);
    for (uint32_t i = 0; i < a->n_fields; i++)
        n += tar_member_bytes(f[i].payload_bytes);
    return n;
}

static enum slimset_status ready_part(struct shard_writer *w, uint64_t bytes, struct slimset_error *err)
{
    struct shard_content *c = &w->content;
    uint64_t have = is_stack(w) ? w->stack.bytes : w->tar.bytes, start = is_stack(w) ? STACK_DATA : 0;
    uint64_t with = is_stack(w) ? have + w->plan->row.data_bytes : have + bytes + TAR_END_BYTES;
    if (c->n_parts > 0 && !is_tree(w) && w->part_open && have > start && with > w->plan->recipe->shard_bytes) {
        enum slimset_status st = end_part(w, err);
        return st == SLIMSET_OK ? begin_part(w, err) : st;
    }
    return c->n_parts == 0 ? begin_part(w, err) : SLIMSET_OK;
}

/* The values behind the header of a stored .npy, as the next row. */
static enum slimset_status store_row(struct shard_writer *w, const char *field, const uint8_t *payload, uint64_t header, int spill_fd,
                                     const struct item_field *f, struct slimset_field *to, struct slimset_error *err)
{
    to->bytes = w->plan->row.data_bytes;
    enum slimset_status st = keep_text(&w->content, field, strlen(field), &to->name, err);
    if (st != SLIMSET_OK)
        return st;
    if (f->spilled)
        return stack_append_file(&w->stack, spill_fd, f->spill_at + header, &to->offset, &to->hash, err);
    to->hash = hash_bytes(payload + header, to->bytes);
    return stack_append(&w->stack, payload + header, &to->offset, err);
}

static enum slimset_status one_field(struct shard_writer *w, const struct entry *e, const struct item_field *f, const char *array,
                                     const char *key, size_t key_n, const char *name, const uint8_t *payload, int spill_fd,
                                     uint64_t header, struct slimset_error *err)
{
    struct shard_content *c = &w->content;
    struct slimset_field *to = push(&c->fields, &c->n_fields, &c->cap_fields, sizeof *to, err);
    if (to == NULL)
        return err->status;
    to->in_bytes = f->in_bytes;
    to->in_hash = f->in_hash;
    to->w = f->w;
    to->h = f->h;
    to->in_w = f->in_w;
    to->in_h = f->in_h;
    to->notes = f->notes;
    to->role = w->plan->rules[e->rule].role;
    to->format = f->format;
    to->in_format = f->in_format;
    to->channels = f->channels;
    to->bits = f->bits;
    to->orientation = f->orientation;
    to->quality = f->quality;
    to->frames = f->frames;
    to->classes_lost = f->classes_lost;
    to->ssim_e6 = f->ssim_e6;
    enum slimset_status st = keep_text(c, e->path, e->path_bytes, &to->path, err);
    if (st == SLIMSET_OK)
        st = keep_text(c, array, f->array_bytes, &to->array, err);
    if (st == SLIMSET_OK && f->profile[0] != '\0') /* images; an array has none */
        st = keep_text(c, f->profile, strnlen(f->profile, sizeof f->profile), &to->array, err);
    if (st == SLIMSET_OK && is_stack(w))
        return store_row(w, name, payload, header, spill_fd, f, to, err);
    if (st == SLIMSET_OK && f->spilled)
        return store_spilled(w, key, key_n, name, spill_fd, f, to, err);
    return st == SLIMSET_OK ? store(w, key, key_n, name, payload, f->payload_bytes, to, err) : st;
}

static enum slimset_status not_packed(struct shard_content *c, const struct entry *e, uint32_t kind, enum slimset_reject reject,
                                      const char *text, struct slimset_error *err)
{
    struct slimset_reject_record *r = push(&c->rejects, &c->n_rejects, &c->cap_rejects, sizeof *r, err);
    if (r == NULL)
        return err->status;
    r->kind = kind;
    r->reject = reject;
    enum slimset_status st = keep_text(c, e->path, e->path_bytes, &r->path, err);
    return st == SLIMSET_OK ? keep_text(c, text, strlen(text), &r->text, err) : st;
}

enum slimset_status shard_sample(struct shard_writer *w, const struct plan_sample *s, const struct item_answer *a, int spill_fd,
                                 struct slimset_error *err)
{
    static struct names names; /* 80 KB: off the stack; single-threaded coordinator */
    struct shard_content *c = &w->content;
    const struct entry *e = &w->plan->listing.entries[s->first];
    const struct item_field *f = item_fields(a);
    const uint8_t *payload = item_payload(a);
    const char *text = item_text(a);
    char key[KEYS_TEXT_MAX], cls[16] = "";
    size_t key_n = plan_key(w->plan, s, key);
    bool has_cls = s->cls >= 0 && !is_tree(w) && !is_stack(w);
    uint32_t row = 0, failed;
    uint64_t header = 0;
    struct npy found;
    names.n = 0;
    names.cased = is_tree(w);
    shard_hash_sample(&w->inputs, w->plan, s);
    for (uint32_t i = 0; i < a->n_fields; i++) {
        if (i == 0 || f[i].input != f[i - 1].input)
            shard_hash_entry(&w->inputs, w->plan, &e[f[i].input], is_stack(w) && !stack_takes(w->plan, &e[f[i].input]) ? 0 : f[i].in_hash);
        field_name(w, &e[f[i].input], &f[i], text, &names);
        text += f[i].name_bytes + f[i].array_bytes;
    }
    has_cls = has_cls && !taken(&names, "cls");
    if (has_cls)
        snprintf(cls, sizeof cls, "%d", s->cls);
    enum slimset_status st = is_stack(w) ? stack_pick(w->plan, s, a, spill_fd, &w->plan->row, &row, &header, &found, &failed, err) : SLIMSET_OK;
    if (st == SLIMSET_OK)
        st = ready_part(w, sample_bytes(a, cls), err);
    struct slimset_sample *to = st == SLIMSET_OK ? push(&c->samples, &c->n_samples, &c->cap_samples, sizeof *to, err) : NULL;
    if (to == NULL)
        return err->status;
    to->first_field = c->n_fields;
    to->n_fields = is_stack(w) ? 1 : (uint16_t)(a->n_fields + has_cls);
    to->cls = s->cls;
    to->part = (uint32_t)c->n_parts - 1;
    st = keep_text(c, key, key_n, &to->key, err);
    text = item_text(a);
    for (uint32_t i = 0; st == SLIMSET_OK && i < a->n_fields; i++) {
        if (!is_stack(w) || i == row)
            st = one_field(w, &e[f[i].input], &f[i], text + f[i].name_bytes, key, key_n, names.text[i], payload, spill_fd, header, err);
        else
            st = not_packed(c, &e[f[i].input], 2, SLIMSET_REJECT_NONE, "its sample is a row of an array, which holds nothing else", err);
        payload += f[i].spilled ? 0 : f[i].payload_bytes;
        text += f[i].name_bytes + f[i].array_bytes;
    }
    if (st != SLIMSET_OK || !has_cls)
        return st;
    struct slimset_field *label = push(&c->fields, &c->n_fields, &c->cap_fields, sizeof *label, err);
    if (label == NULL)
        return err->status;
    label->role = SLIMSET_ROLE_LABEL;
    label->format = FORMAT_TEXT;
    label->notes = NOTE_GENERATED;
    return store(w, key, key_n, "cls", cls, strlen(cls), label, err);
}

enum slimset_status shard_reject(struct shard_writer *w, const struct plan_sample *s, uint32_t failed, enum slimset_reject reject,
                                 const char *text, struct slimset_error *err)
{
    struct shard_content *c = &w->content;
    const struct entry *e = &w->plan->listing.entries[s->first];
    shard_hash_sample(&w->inputs, w->plan, s);
    for (unsigned i = 0; i < s->n; i++)
        shard_hash_entry(&w->inputs, w->plan, &e[i], 0);
    enum slimset_status st = not_packed(c, &e[failed], 1, reject, text, err);
    for (unsigned i = 0; st == SLIMSET_OK && i < s->n; i++) { /* its other files share its fate, and are told */
        char why[256];
        snprintf(why, sizeof why, "its sample was rejected because of %.200s", e[failed].path + e[failed].dir_bytes);
        if (i != failed)
            st = not_packed(c, &e[i], 2, SLIMSET_REJECT_NONE, why, err);
    }
    c->shard.n_rejects++;
    return st;
}

enum slimset_status shard_begin(struct shard_writer *w, const struct plan *plan, size_t shard, int stage_dir,
                                struct slimset_error *err)
{
    (void)err;
    w->plan = plan;
    w->number = shard;
    w->stage_dir = stage_dir;
    w->tar.fd = w->stack.fd = -1;
    w->part_open = false;
    w->n_fds = 0;
    w->content = (struct shard_content){0};
    shard_hash_begin(&w->inputs, plan);
    return SLIMSET_OK;
}

enum slimset_status shard_end(struct shard_writer *w, struct slimset_error *err)
{
    struct shard_content *c = &w->content;
    enum slimset_status st = end_part(w, err);
    c->shard.inputs_hash = hash_value(&w->inputs);
    c->shard.n_parts = (uint32_t)c->n_parts;
    c->shard.n_samples = (uint32_t)c->n_samples;
    return st;
}

enum slimset_status shard_sync(struct shard_writer *w, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (is_tree(w))
        return io_syncfs(w->stage_dir, "the stage folder", err);
    while (w->n_fds > 0) {
        int fd = w->fds[--w->n_fds];
        struct slimset_error ignored;
        if (st == SLIMSET_OK)
            st = io_fsync(fd, "a finished shard", err);
        enum slimset_status closed = io_close(fd, "a finished shard", st == SLIMSET_OK ? err : &ignored);
        if (st == SLIMSET_OK)
            st = closed;
    }
    return st;
}

void shard_fini(struct shard_writer *w)
{
    struct shard_content *c = &w->content;
    tar_abort(&w->tar);
    stack_abort(&w->stack);
    buf_fini(&w->tar.buffer);
    buf_fini(&w->stack.buffer);
    while (w->n_fds > 0)
        close(w->fds[--w->n_fds]);
    free(c->parts);
    free(c->samples);
    free(c->fields);
    free(c->rejects);
    buf_fini(&c->strings);
    *c = (struct shard_content){0};
}

/* --- into an index ---------------------------------------------------------------------------------------------- */

static enum slimset_status carry(const struct shard_view *v, slimset_str s, slimset_str *to, const char **text, size_t *text_n,
                                 struct index_writer *w, struct slimset_error *err)
{
    uint64_t at = s & (((uint64_t)1 << 40) - 1), n = s >> 40;
    *to = 0;
    if (n == 0)
        return SLIMSET_OK;
    if (at > v->string_bytes || n > v->string_bytes - at)
        return err_set(err, SLIMSET_DAMAGED, "a string reference is out of range");
    if (text != NULL) {
        *text = v->strings + at;
        *text_n = n;
    }
    return index_string(w, v->strings + at, n, to, err);
}

static enum slimset_status put_fields(const struct shard_view *v, struct index_writer *w, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; st == SLIMSET_OK && i < v->n_fields; i++) {
        struct slimset_field f = v->fields[i];
        st = carry(v, v->fields[i].name, &f.name, NULL, NULL, w, err);
        if (st == SLIMSET_OK)
            st = carry(v, v->fields[i].path, &f.path, NULL, NULL, w, err);
        if (st == SLIMSET_OK)
            st = carry(v, v->fields[i].array, &f.array, NULL, NULL, w, err);
        if (st == SLIMSET_OK)
            st = index_put_field(w, &f, err);
    }
    return st;
}

enum slimset_status shard_put(const struct shard_view *v, uint32_t shard, uint32_t split, uint64_t *first_part,
                              uint64_t *first_sample, uint64_t *first_field, struct index_writer *w, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; st == SLIMSET_OK && i < v->n_parts; i++) {
        struct slimset_part p = v->parts[i];
        p.shard = shard;
        p.first_sample = p.first_sample - v->base_sample + *first_sample;
        st = carry(v, v->parts[i].name, &p.name, NULL, NULL, w, err);
        if (st == SLIMSET_OK)
            st = index_put_part(w, &p, err);
    }
    for (uint64_t i = 0; st == SLIMSET_OK && i < v->n_samples; i++) {
        struct slimset_sample s = v->samples[i];
        const char *key = "";
        size_t n = 0;
        s.first_field = s.first_field - v->base_field + *first_field;
        s.part = (uint32_t)(s.part - v->base_part + *first_part);
        s.split = split;
        st = carry(v, v->samples[i].key, &s.key, &key, &n, w, err);
        if (st == SLIMSET_OK)
            st = index_put_sample(w, &s, hash_bytes(key, n), err);
    }
    if (st == SLIMSET_OK)
        st = put_fields(v, w, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < v->n_rejects; i++) {
        struct slimset_reject_record r = v->rejects[i];
        r.shard = shard;
        st = carry(v, v->rejects[i].path, &r.path, NULL, NULL, w, err);
        if (st == SLIMSET_OK)
            st = carry(v, v->rejects[i].text, &r.text, NULL, NULL, w, err);
        if (st == SLIMSET_OK)
            st = index_put_reject(w, &r, err);
    }
    *first_part += v->n_parts;
    *first_sample += v->n_samples;
    *first_field += v->n_fields;
    return st;
}
