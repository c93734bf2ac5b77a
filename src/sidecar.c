/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "dataset.h"
#include "npy.h"
#include "tar_write.h"

/* The release whose layout of .nv-meta this is. */
#define ENERGON_VERSION "7.1.0"

const char *sidecar_meta(const struct slimset_recipe *recipe)
{
    if (recipe->dali_idx && recipe->energon)
        return SIDECAR_META "=dali-idx,energon\n";
    return recipe->dali_idx ? SIDECAR_META "=dali-idx\n" : recipe->energon ? SIDECAR_META "=energon\n" : "";
}

bool sidecar_dali_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] == ' ' || (name[i] >= '\t' && name[i] <= '\r'))
            return false;
    return true;
}

static enum slimset_status say(struct buf *to, struct slimset_error *err, const char *fmt, ...) ERR_PRINTF(3, 4);

static enum slimset_status say(struct buf *to, struct slimset_error *err, const char *fmt, ...)
{
    char text[DATASET_PATH_MAX + 256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        return err_set(err, SLIMSET_INTERNAL, "a line of %d bytes beside a shard", n);
    return buf_append(to, text, (size_t)n, err);
}

/* --- one file a shard ---------------------------------------------------------------------------- */

/* What an index of one shard is made of: its samples, each with the fields that loaders see (those
 * without a name have no dot in their member's name, and are passed over by all of them). */
struct part_walk {
    struct index *ix;
    const struct slimset_part *part;
    const char *name;
    struct buf *to;
};

/* "v1.2 SAMPLES", then for each sample a line of EXT OFFSET BYTES NAME, for each of its fields. */
static enum slimset_status dali_index(struct part_walk *w, struct slimset_error *err)
{
    struct buf lines = {0};
    uint64_t samples = 0;
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; st == SLIMSET_OK && i < w->part->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *key = NULL, *field = NULL;
        size_t key_n = 0, field_n = 0;
        unsigned said = 0;
        st = index_sample(w->ix, w->part->first_sample + i, &s, &f, err);
        if (st == SLIMSET_OK)
            st = index_text(w->ix, s->key, &key, &key_n, err);
        for (uint32_t k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            st = index_text(w->ix, f[k].name, &field, &field_n, err);
            if (st != SLIMSET_OK || field_n == 0)
                continue;
            if (key_n + field_n >= DATASET_PATH_MAX || !sidecar_dali_name(key, key_n) || !sidecar_dali_name(field, field_n))
                st = err_set(err, SLIMSET_USAGE, "--dali-idx: %.200s: the name \"%.*s.%.*s\" holds a blank, which DALI's index cannot say",
                             w->name, (int)(key_n < 300 ? key_n : 300), key, (int)(field_n < 100 ? field_n : 100), field);
            else
                st = say(&lines, err, "%s%.*s %" PRIu64 " %" PRIu64 " %.*s.%.*s", said++ > 0 ? " " : "", (int)field_n, field,
                         f[k].offset, f[k].bytes, (int)key_n, key, (int)field_n, field);
        }
        if (st == SLIMSET_OK && said > 0) {
            st = say(&lines, err, "\n");
            samples++;
        }
    }
    if (st == SLIMSET_OK)
        st = say(w->to, err, "v1.2 %" PRIu64 "\n", samples);
    if (st == SLIMSET_OK && lines.len > 0)
        st = buf_append(w->to, lines.data, lines.len, err);
    buf_fini(&lines);
    return st;
}

/* u64 for each sample: where its first header lies; and one more: where the last sample ends. */
static enum slimset_status energon_index(struct part_walk *w, uint64_t *samples, struct slimset_error *err)
{
    uint64_t end = 0;
    enum slimset_status st = SLIMSET_OK;
    *samples = 0;
    for (uint64_t i = 0; st == SLIMSET_OK && i < w->part->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        bool begun = false;
        st = index_sample(w->ix, w->part->first_sample + i, &s, &f, err);
        for (uint32_t k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            uint64_t header = f[k].offset - tar_member_bytes(0);
            if (f[k].name >> 40 == 0)
                continue;
            if (!begun)
                st = buf_append(w->to, &header, sizeof header, err);
            *samples += !begun;
            begun = true;
            end = header + tar_member_bytes(f[k].bytes);
        }
    }
    return st == SLIMSET_OK ? buf_append(w->to, &end, sizeof end, err) : st;
}

/* --- the folder of Energon ------------------------------------------------------------------------ */

enum { TRAIN, VAL, TEST, PARTS_OF_SPLIT };
static const char *const part_of_split[] = {[TRAIN] = "train", [VAL] = "val", [TEST] = "test"};

struct energon {
    struct buf counts;                  /* lines for .info.json */
    struct buf shards[PARTS_OF_SPLIT];  /* lines for split.yaml */
};

/* The three parts of Energon's split file; everything that is neither is for training. */
static int energon_split(const char *name, size_t n)
{
    static const char *const val[] = {"val", "valid", "validation", "dev"};
    for (size_t i = 0; i < sizeof val / sizeof val[0]; i++)
        if (strlen(val[i]) == n && memcmp(val[i], name, n) == 0)
            return VAL;
    return n == 4 && memcmp(name, "test", 4) == 0 ? TEST : TRAIN;
}

static enum slimset_status energon_part(struct index *ix, struct energon *e, const struct slimset_part *part, const char *name,
                                        uint64_t samples, struct slimset_error *err)
{
    const char *text = NULL;
    size_t n = 0;
    enum slimset_status st = SLIMSET_OK;
    if (part->shard >= ix->n_shards || ix->shards[part->shard].split >= ix->n_splits)
        return err_set(err, SLIMSET_DAMAGED, "%s: the shard of %.200s is out of range", ix->name, name);
    st = index_text(ix, ix->splits[ix->shards[part->shard].split].name, &text, &n, err);
    if (st == SLIMSET_OK)
        st = say(&e->counts, err, "%s\n    \"%s\": %" PRIu64, e->counts.len > 0 ? "," : "", name, samples);
    return st == SLIMSET_OK ? say(&e->shards[energon_split(text, n)], err, "  - %s\n", name) : st;
}

static enum slimset_status energon_folder(const struct energon *e, sidecar_fn *fn, void *arg, struct slimset_error *err)
{
    static const char dataset[] = "__module__: megatron.energon\n__class__: CrudeWebdataset\n";
    struct buf info = {0}, split = {0};
    enum slimset_status st = say(&info, err, "{\n  \"energon_version\": \"" ENERGON_VERSION "\",\n  \"shard_counts\": {");
    if (st == SLIMSET_OK && e->counts.len > 0)
        st = buf_append(&info, e->counts.data, e->counts.len, err);
    if (st == SLIMSET_OK)
        st = say(&info, err, "\n  }\n}\n");
    if (st == SLIMSET_OK)
        st = say(&split, err, "exclude: []\nsplit_parts:\n");
    for (int i = 0; st == SLIMSET_OK && i < PARTS_OF_SPLIT; i++) {
        st = say(&split, err, e->shards[i].len > 0 ? "  %s:\n" : "  %s: []\n", part_of_split[i]);
        if (st == SLIMSET_OK && e->shards[i].len > 0)
            st = buf_append(&split, e->shards[i].data, e->shards[i].len, err);
    }
    if (st == SLIMSET_OK)
        st = fn(arg, SIDECAR_FOLDER "/.info.json", info.data, info.len, err);
    if (st == SLIMSET_OK)
        st = fn(arg, SIDECAR_FOLDER "/split.yaml", split.data, split.len, err);
    if (st == SLIMSET_OK)
        st = fn(arg, SIDECAR_FOLDER "/dataset.yaml", dataset, sizeof dataset - 1, err);
    buf_fini(&info);
    buf_fini(&split);
    return st;
}

/* --- beside stacks ------------------------------------------------------------------------------- */

/* For each row of a split its class number, -1 where it has none, as a .npy of int64; and its key, a line each. */
static enum slimset_status labels_and_keys(struct index *ix, const struct slimset_split *split, struct buf *labels, struct buf *keys,
                                           struct slimset_error *err)
{
    struct npy a = {.major = 1, .ndim = 1, .shape = {split->n_samples}, .count = split->n_samples};
    npy_set_type(&a, 'i', 8);
    enum slimset_status st = npy_header(&a, labels, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < split->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *key = NULL;
        size_t n = 0;
        st = index_sample(ix, split->first_sample + i, &s, &f, err);
        int64_t cls = st == SLIMSET_OK ? s->cls : -1;
        if (st == SLIMSET_OK)
            st = index_text(ix, s->key, &key, &n, err);
        if (st == SLIMSET_OK)
            st = buf_append(labels, &cls, sizeof cls, err);
        if (st == SLIMSET_OK)
            st = buf_append(keys, key, n, err);
        if (st == SLIMSET_OK)
            st = buf_append(keys, "\n", 1, err);
    }
    return st;
}

static enum slimset_status beside_stacks(struct index *ix, bool content, sidecar_fn *fn, void *arg, struct slimset_error *err)
{
    enum slimset_status st = index_touch(ix, ix->splits, ix->n_splits * sizeof *ix->splits, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_splits; i++) {
        const struct slimset_split *split = &ix->splits[i];
        struct buf labels = {0}, keys = {0};
        const char *text;
        size_t n;
        char part[DATASET_PATH_MAX], name[DATASET_PATH_MAX + 16];
        st = index_text(ix, split->name, &text, &n, err);
        if (st != SLIMSET_OK || split->n_samples == 0 || !dataset_part_name(text, n, part))
            continue;
        if (content)
            st = labels_and_keys(ix, split, &labels, &keys, err);
        snprintf(name, sizeof name, "%s-labels.npy", part);
        if (st == SLIMSET_OK)
            st = fn(arg, name, labels.data, labels.len, err);
        snprintf(name, sizeof name, "%s-keys.txt", part);
        if (st == SLIMSET_OK)
            st = fn(arg, name, keys.data, keys.len, err);
        buf_fini(&labels);
        buf_fini(&keys);
    }
    return st;
}

/* --- all of them ---------------------------------------------------------------------------------- */

static bool asks_for(const struct index *ix, const char *what)
{
    const char *value;
    size_t n, what_n = strlen(what);
    if (!index_meta(ix, SIDECAR_META, &value, &n))
        return false;
    for (const char *p = value, *end = value + n; p < end;) { /* words between commas */
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t word = (size_t)((comma != NULL ? comma : end) - p);
        if (word == what_n && memcmp(p, what, word) == 0)
            return true;
        p += word + 1;
    }
    return false;
}

static enum slimset_status one_part(struct index *ix, uint64_t i, bool dali, bool energon, bool content, struct energon *e,
                                    sidecar_fn *fn, void *arg, struct slimset_error *err)
{
    struct buf data = {0};
    const char *text;
    size_t n;
    char part[DATASET_PATH_MAX], name[DATASET_PATH_MAX + 8];
    uint64_t samples = 0;
    enum slimset_status st = index_text(ix, ix->parts[i].name, &text, &n, err);
    if (st != SLIMSET_OK || !dataset_part_name(text, n, part))
        return st;
    struct part_walk w = {ix, &ix->parts[i], part, &data};
    if (dali) { /* train-00000.tar: train-00000.idx, where DALI's own tool puts it */
        snprintf(name, sizeof name, "%.*s.idx", (int)strcspn(part, "."), part);
        if (content)
            st = dali_index(&w, err);
        if (st == SLIMSET_OK)
            st = fn(arg, name, data.data, data.len, err);
        data.len = 0;
    }
    if (st == SLIMSET_OK && energon) {
        snprintf(name, sizeof name, "%s.idx", part);
        if (content)
            st = energon_index(&w, &samples, err);
        if (st == SLIMSET_OK)
            st = fn(arg, name, data.data, data.len, err);
        if (st == SLIMSET_OK && content)
            st = energon_part(ix, e, &ix->parts[i], part, samples, err);
    }
    buf_fini(&data);
    index_forget(ix);
    return st;
}

enum slimset_status sidecar_each(struct index *ix, bool content, sidecar_fn *fn, void *arg, struct slimset_error *err)
{
    bool dali = asks_for(ix, "dali-idx"), energon = asks_for(ix, "energon");
    const char *layout = "";
    size_t n = 0;
    struct energon e = {0};
    enum slimset_status st = SLIMSET_OK;
    if (index_meta(ix, "layout", &layout, &n) && n == 3 && memcmp(layout, "npy", 3) == 0)
        return beside_stacks(ix, content, fn, arg, err);
    if ((!dali && !energon) || (n == 4 && memcmp(layout, "tree", 4) == 0))
        return SLIMSET_OK;
    st = index_touch(ix, ix->parts, ix->n_parts * sizeof *ix->parts, err);
    if (st == SLIMSET_OK)
        st = index_touch(ix, ix->shards, ix->n_shards * sizeof *ix->shards, err);
    if (st == SLIMSET_OK)
        st = index_touch(ix, ix->splits, ix->n_splits * sizeof *ix->splits, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_parts; i++)
        st = one_part(ix, i, dali, energon, content, &e, fn, arg, err);
    if (st == SLIMSET_OK && energon)
        st = energon_folder(&e, fn, arg, err);
    buf_fini(&e.counts);
    for (int i = 0; i < PARTS_OF_SPLIT; i++)
        buf_fini(&e.shards[i]);
    return st;
}

/* --- on disk -------------------------------------------------------------------------------------- */

struct place {
    int out, stage;
    bool current;
};

/* SLIMSET_OK with *same: does the file hold just these bytes? */
static enum slimset_status compare(int dir, const char *name, const void *data, size_t n, bool *same, struct slimset_error *err)
{
    uint8_t *have = NULL;
    size_t have_n = 0;
    enum slimset_status st = io_read_file(dir, name, n, &have, &have_n, err);
    *same = st == SLIMSET_OK && have_n == n && (n == 0 || memcmp(have, data, n) == 0);
    free(have);
    return st == SLIMSET_NOT_FOUND || st == SLIMSET_BAD_INPUT ? SLIMSET_OK : st; /* none, longer, or no file at all */
}

static enum slimset_status check(void *arg, const char *name, const void *data, size_t n, struct slimset_error *err)
{
    struct place *p = arg;
    bool same;
    enum slimset_status st = compare(p->out, name, data, n, &same, err);
    p->current = p->current && same;
    return st;
}

enum slimset_status sidecar_current(struct index *ix, int dir, bool *current, struct slimset_error *err)
{
    struct place p = {.out = dir, .current = true};
    enum slimset_status st = sidecar_each(ix, true, check, &p, err);
    *current = st == SLIMSET_OK && p.current;
    return st;
}

static enum slimset_status stage(void *arg, const char *name, const void *data, size_t n, struct slimset_error *err)
{
    struct place *p = arg;
    bool same;
    int fd = -1;
    enum slimset_status st = compare(p->out, name, data, n, &same, err);
    if (st != SLIMSET_OK || same)
        return st;
    if (strchr(name, '/') != NULL)
        st = io_mkdirs(p->stage, SIDECAR_FOLDER, err);
    if (st == SLIMSET_OK)
        st = io_create(p->stage, name, &fd, err);
    if (st == SLIMSET_OK)
        st = io_write(fd, data, n, name, err);
    if (st == SLIMSET_OK)
        st = io_fsync(fd, name, err);
    struct slimset_error ignored;
    enum slimset_status closed = io_close(fd, name, st == SLIMSET_OK ? err : &ignored);
    return st == SLIMSET_OK ? closed : st;
}

enum slimset_status sidecar_stage(struct index *ix, int out, int stage_dir, struct slimset_error *err)
{
    struct place p = {.out = out, .stage = stage_dir};
    return sidecar_each(ix, true, stage, &p, err);
}
