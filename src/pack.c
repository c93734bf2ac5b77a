/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole job, from top to bottom:
 *
 *   lock OUT, finish a publication that was interrupted
 *   take over the decisions of an earlier run (its index, or the plan of an unfinished one), unless it was made otherwise
 *   walk the sources, group files into samples, probe what is not decided, place samples into shards; write the plan
 *   sort the shards: unchanged (records from the old index), finished by an interrupted run (from its fragment), to do
 *   run the pipeline over those to do
 *   write the new index from all three and publish
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "index.h"
#include "known.h"
#include "pipeline.h"
#include "probe.h"
#include "publish.h"
#include "recipe.h"
#include "report.h"
#include "request.h"
#include "sandbox.h"
#include "shard.h"

enum shard_state { SHARD_EMPTY = 0, SHARD_KEPT, SHARD_RESUMED, SHARD_TO_DO };

struct pack {
    const struct slimset_recipe *recipe;
    const struct slimset_run *run;
    struct slimset_report *report;
    struct out_dirs dirs;
    struct buf recipe_text;
    struct index old;             /* OUT/slimset.index; zero when there is none that counts */
    struct plan plan;
    unsigned jobs;
    struct pool *pool;
    struct known known;
    enum shard_state *state;      /* one a plan shard */
    size_t *old_shard;            /* its number in the old index, SIZE_MAX none */
    uint64_t rejects_before;
};

static enum slimset_status check_request(const struct slimset_recipe *r, const struct slimset_run *run, struct slimset_error *err)
{
    if (run->out == NULL && !run->dry_run)
        return err_set(err, SLIMSET_USAGE, "no output folder given (-o OUT)");
    if (r->shard_bytes < 1000000)
        return err_set(err, SLIMSET_USAGE, "--shard-size %llu: at least 1 MB", (unsigned long long)r->shard_bytes);
    if (r->alpha == SLIMSET_ALPHA_KEEP && r->output == SLIMSET_OUTPUT_JPEG)
        return err_set(err, SLIMSET_USAGE, "--alpha keep with --codec jpeg: JPEG has no alpha");
    return SLIMSET_OK;
}

/* OUT must not lie in a folder that is read: the source is never touched, not even by a new folder in it. Looked at
 * before anything is created. */
static enum slimset_status check_outside(const struct slimset_run *run, struct slimset_error *err)
{
    char path[4096];
    struct stat out, source;
    if (run->dry_run || strlen(run->out) >= sizeof path)
        return SLIMSET_OK;
    snprintf(path, sizeof path, "%s", run->out);
    while (stat(path, &out) != 0 && path[0] != '\0') { /* the deepest folder that exists already */
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            snprintf(path, sizeof path, ".");
        else if (slash == path)
            path[1] = '\0';
        else
            *slash = '\0';
    }
    for (int depth = 0; depth < 256 && stat(path, &out) == 0; depth++) {
        for (size_t i = 0; i < run->n_sources; i++)
            if (stat(run->sources[i], &source) == 0 && source.st_dev == out.st_dev && source.st_ino == out.st_ino)
                return err_set(err, SLIMSET_USAGE, "the output folder %.200s lies inside the source %.200s: choose one outside",
                               run->out, run->sources[i]);
        struct stat above = out;
        if (strlen(path) + 4 > sizeof path)
            break;
        strcat(path, "/..");
        if (stat(path, &out) != 0 || (above.st_dev == out.st_dev && above.st_ino == out.st_ino))
            break;
    }
    return SLIMSET_OK;
}

static unsigned cpus(void)
{
    cpu_set_t set;
    unsigned n = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    char text[64] = "";
    int fd = open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC); /* a container may be given less time than CPUs */
    if (fd >= 0) {
        ssize_t got = read(fd, text, sizeof text - 1);
        unsigned long long quota, period;
        if (got > 0 && sscanf(text, "%llu %llu", &quota, &period) == 2 && period > 0 && quota / period < n)
            n = (unsigned)((quota + period - 1) / period);
        close(fd);
    }
    return n < 1 ? 1 : n;
}

/* Inputs ahead need descriptors. */
static void raise_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max < 65536 ? l.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

/* --- decisions ------------------------------------------------------------------------------------------------------ */

/* The decisions of an earlier run on this OUT: the unfinished one's plan goes before the index. */
static enum slimset_status take_over(struct pack *p, struct slimset_error *err)
{
    struct index plan = {0};
    enum slimset_status st = index_open(p->dirs.work, "plan", SLIMSET_KIND_PLAN, true, &plan, err);
    bool unfinished = st == SLIMSET_OK;
    if (st == SLIMSET_NOT_FOUND || st == SLIMSET_DAMAGED || st == SLIMSET_DIFFERS)
        st = SLIMSET_OK; /* a torn plan: its run had not begun to write */
    if (st == SLIMSET_OK && !p->run->force) {
        st = index_open(p->dirs.out, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, true, &p->old, err);
        if (st == SLIMSET_NOT_FOUND)
            st = SLIMSET_OK;
        else if (st == SLIMSET_DAMAGED)
            run_note(p->run, SLIMSET_EVENT_WARNING, "%.200s/%s is damaged (%.200s); everything is made anew", p->run->out,
                     SLIMSET_INDEX_NAME, err->text), st = SLIMSET_OK;
    }
    if (st == SLIMSET_OK && p->run->force)
        st = publish_clean(&p->dirs, err);
    else if (st == SLIMSET_OK && unfinished)
        st = recipe_compare(&p->recipe_text, &plan, p->run->out, err);
    else if (st == SLIMSET_OK && p->old.base != NULL)
        st = recipe_compare(&p->recipe_text, &p->old, p->run->out, err);
    if (st == SLIMSET_OK && !p->run->force && !p->run->replan && (unfinished || p->old.base != NULL))
        st = plan_freeze(&p->plan, unfinished ? &plan : &p->old, err);
    if (st == SLIMSET_OK && unfinished && !p->run->force)
        run_note(p->run, SLIMSET_EVENT_NOTE, "going on with an unfinished run");
    index_close(&plan);
    if (st == SLIMSET_OK && p->run->force) { /* clean removed the stage folder */
        close(p->dirs.stage);
        st = io_mkdirs(p->dirs.work, "stage", err);
        p->dirs.stage = openat(p->dirs.work, "stage", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (st == SLIMSET_OK && p->dirs.stage < 0)
            st = err_os(err, "opening the stage folder");
    }
    return st;
}

static enum slimset_status write_plan(struct pack *p, struct slimset_error *err)
{
    const struct plan *plan = &p->plan;
    struct index_counts counts = {.meta_bytes = p->recipe_text.len, .splits = plan->n_splits, .classes = plan->n_classes,
                                  .fields_rules = plan->n_rules, .shards = plan->n_shards};
    struct index_writer *w = NULL;
    enum slimset_status st = index_create(p->dirs.work, "plan.new", SLIMSET_KIND_PLAN, &counts, &w, err);
    if (st == SLIMSET_OK)
        st = index_put_meta(w, p->recipe_text.data, p->recipe_text.len, err);
    if (st == SLIMSET_OK)
        st = plan_put_decisions(plan, w, err);
    for (size_t i = 0; st == SLIMSET_OK && i < plan->n_splits; i++) {
        const struct plan_split *s = &plan->splits[i];
        struct slimset_split to = {.order = s->order, .first_shard = (uint32_t)s->first_shard, .n_shards = (uint32_t)s->n_shards};
        st = index_string(w, s->name, strlen(s->name), &to.name, err);
        if (st == SLIMSET_OK)
            st = index_put_split(w, &to, err);
    }
    for (size_t i = 0; st == SLIMSET_OK && i < plan->n_shards; i++) {
        struct slimset_shard to = {0};
        st = plan_put_shard(plan, i, &to, w, err);
    }
    if (st == SLIMSET_OK)
        st = index_commit(w, true, err);
    else
        index_abort(w);
    if (st == SLIMSET_OK)
        st = io_rename(p->dirs.work, "plan.new", p->dirs.work, "plan", err);
    return st == SLIMSET_OK ? io_sync_dir(p->dirs.work, ".", err) : st;
}

/* --- which shards are to do ------------------------------------------------------------------------------------------- */

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
    hash_init(&h);
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
            shard_hash_entry(&h, e, hash);
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

static bool tree_files_are_there(struct index *ix, int dir, uint64_t first, uint64_t n_samples)
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
            char name[8192];
            struct stat st;
            if (index_text(ix, f[k].name, &field, &field_n, &ignored) != SLIMSET_OK)
                return false;
            snprintf(name, sizeof name, "%.*s%s%.*s", (int)key_n, key, field_n > 0 ? "." : "", (int)field_n, field_n > 0 ? field : "");
            if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || (uint64_t)st.st_size != f[k].bytes)
                return false;
        }
    }
    return true;
}

/* A fragment of an interrupted run whose inputs are as they were and whose files are staged. */
static bool fragment_is_good(struct pack *p, size_t shard)
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
        good = tree_files_are_there(&ix, p->dirs.stage, 0, ix.n_samples);
    index_close(&ix);
    return good;
}

static enum slimset_status sort_shards(struct pack *p, struct slimset_error *err)
{
    size_t n = p->plan.n_shards;
    p->state = calloc(n + 1, sizeof *p->state);
    p->old_shard = calloc(n + 1, sizeof *p->old_shard);
    if (p->state == NULL || p->old_shard == NULL)
        return err_nomem(err, n * sizeof *p->old_shard);
    enum slimset_status st = SLIMSET_OK;
    if (p->old.base != NULL)
        st = known_load(&p->known, p->dirs.work, &p->old, err);
    for (size_t i = 0; st == SLIMSET_OK && i < n; i++) {
        bool same = false;
        p->old_shard[i] = p->old.base != NULL ? find_old_shard(p, i) : SIZE_MAX;
        if (p->plan.shards[i].n_samples == 0)
            continue;
        if (p->run->stop != NULL && *p->run->stop)
            return err_set(err, SLIMSET_INTERRUPTED, "interrupted; the same command goes on from here");
        if (fragment_is_good(p, i)) {
            p->state[i] = SHARD_RESUMED;
            continue;
        }
        if (p->old_shard[i] != SIZE_MAX) {
            const struct slimset_shard *o = &p->old.shards[p->old_shard[i]];
            st = is_unchanged(p, i, &same, err);
            same = same && files_are_there(p, p->old_shard[i]) &&
                   (p->recipe->layout != SLIMSET_LAYOUT_TREE ||
                    tree_files_are_there(&p->old, p->dirs.out, o->first_sample, o->n_samples));
        }
        p->state[i] = same ? SHARD_KEPT : SHARD_TO_DO;
    }
    known_fini(&p->known);
    return st;
}

/* --- the new index ------------------------------------------------------------------------------------------------------ */

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

static enum slimset_status put_not_packed(struct pack *p, struct index_writer *w, const char *path, size_t n, uint32_t kind,
                                          uint32_t reject, const char *text, struct slimset_error *err)
{
    struct slimset_reject_record r = {.kind = kind, .reject = reject, .shard = UINT32_MAX};
    (void)p;
    enum slimset_status st = index_string(w, path, n, &r.path, err);
    if (st == SLIMSET_OK)
        st = index_string(w, text, strlen(text), &r.text, err);
    return st == SLIMSET_OK ? index_put_reject(w, &r, err) : st;
}

static const char *problem_text(enum slimset_reject reject)
{
    switch (reject) {
    case SLIMSET_REJECT_LINK:
        return "a link that leads nowhere, or a link inside an archive";
    case SLIMSET_REJECT_NOT_REGULAR:
        return "a FIFO, socket or device: never opened";
    case SLIMSET_REJECT_UNREADABLE:
        return "may not be read (permission)";
    case SLIMSET_REJECT_VANISHED:
        return "vanished while the sources were listed";
    case SLIMSET_REJECT_ENCRYPTED:
        return "encrypted archive member";
    case SLIMSET_REJECT_RATIO:
        return "expands more than an honest archive member does";
    case SLIMSET_REJECT_NAME:
        return "a name that leads outside or that nothing can hold";
    case SLIMSET_REJECT_DUPLICATE:
        return "another file of the same name follows in the archive, or too many files share one key";
    case SLIMSET_REJECT_TRUNCATED:
        return "the archive ends before its data";
    case SLIMSET_REJECT_UNSUPPORTED:
        return "an archive member of a kind that is not read (compression method, sparse file)";
    default:
        return "cannot be read";
    }
}

struct totals {
    uint64_t parts, samples, fields, rejects;
};

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
    c->meta_bytes = p->recipe_text.len;
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
                                           .n_samples = (uint32_t)v.n_samples, .n_rejects = (uint32_t)v.n_rejects};
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

static enum slimset_status write_index(struct pack *p, struct slimset_error *err)
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
        st = plan_put_decisions(&p->plan, w, err);
    if (st == SLIMSET_OK)
        st = put_shards(p, w, err);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_entries; i++)
        if (l->entries[i].problem != SLIMSET_REJECT_NONE)
            st = put_not_packed(p, w, l->entries[i].path, l->entries[i].path_bytes, 1, l->entries[i].problem,
                                problem_text(l->entries[i].problem), err);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_left_out; i++)
        st = put_not_packed(p, w, l->left_out[i].path, l->left_out[i].path_bytes, l->left_out[i].kind, 0, l->left_out[i].text, err);
    if (st == SLIMSET_OK)
        return index_commit(w, true, err);
    index_abort(w);
    return st;
}

static int by_left_out_path(const void *pa, const void *pb)
{
    const struct left_out *a = pa, *b = pb;
    int c = memcmp(a->path, b->path, a->path_bytes < b->path_bytes ? a->path_bytes : b->path_bytes);
    return c != 0 ? c : a->path_bytes < b->path_bytes ? -1 : a->path_bytes > b->path_bytes;
}

/* Is the index just written the one that is published already? */
static enum slimset_status same_as_old(struct pack *p, bool *same, struct slimset_error *err)
{
    struct index now = {0};
    enum slimset_status st = index_open(p->dirs.work, "publish", SLIMSET_KIND_INDEX, false, &now, err);
    *same = st == SLIMSET_OK && p->old.base != NULL && now.bytes == p->old.bytes && memcmp(now.base, p->old.base, now.bytes) == 0;
    index_close(&now);
    return st;
}

/* --- the run ---------------------------------------------------------------------------------------------------------------- */

/* A worker has answered by now (the probe): what holds it? */
static void tell_sandbox(const struct pack *p)
{
    unsigned crashes, layers;
    pool_facts(p->pool, &crashes, &layers);
    if (layers != 0 && (layers & (SANDBOX_LANDLOCK | SANDBOX_SECCOMP)) != (SANDBOX_LANDLOCK | SANDBOX_SECCOMP))
        run_note(p->run, SLIMSET_EVENT_WARNING, "this kernel gives workers no %s%s%s: decoders are less contained",
                 layers & SANDBOX_LANDLOCK ? "" : "Landlock", layers & (SANDBOX_LANDLOCK | SANDBOX_SECCOMP) ? "" : " and no ",
                 layers & SANDBOX_SECCOMP ? "" : "seccomp filter");
}

static enum slimset_status make_plan(struct pack *p, struct slimset_error *err)
{
    struct walk_settings walk = {.recipe = p->recipe, .run = p->run, .work_dir = p->dirs.work, .out_dir = p->dirs.out};
    struct pool_settings pool = {.recipe = p->recipe, .jobs = p->jobs,
                                 .in_process = p->run->in_process};
    enum slimset_status st = walk_sources(&p->plan.listing, &walk, err);
    if (st == SLIMSET_OK)
        st = plan_samples(&p->plan, p->run, err);
    if (st == SLIMSET_OK)
        st = pool_open(&pool, &p->pool, err);
    if (st == SLIMSET_OK)
        st = probe_run(&p->plan, p->pool, p->run, err);
    if (st == SLIMSET_OK)
        st = plan_shards(&p->plan, p->run, err);
    if (st != SLIMSET_OK)
        return st;
    tell_sandbox(p);
    struct listing *l = &p->plan.listing;
    qsort(l->left_out, l->n_left_out, sizeof *l->left_out, by_left_out_path);
    for (size_t i = 0; i < l->n_entries; i++)
        p->rejects_before += l->entries[i].problem != SLIMSET_REJECT_NONE;
    if (p->plan.n_samples == 0 && p->rejects_before == 0)
        return err_set(err, SLIMSET_USAGE, l->n_left_out > 0
                       ? "no image among the %zu files found (archives inside a folder are not opened: give them as sources)"
                       : "the source is empty (%zu files)", l->n_left_out);
    return SLIMSET_OK;
}

static void announce(struct pack *p)
{
    const struct plan *plan = &p->plan;
    for (size_t i = 0; i < plan->n_splits; i++)
        if (plan->splits[i].n_samples > 0)
            run_note(p->run, SLIMSET_EVENT_NOTE, "split %s: %zu samples in %zu shards, %s", plan->splits[i].name,
                     plan->splits[i].n_samples, plan->splits[i].n_shards,
                     plan->splits[i].order == SLIMSET_ORDER_SHUFFLED ? "shuffled" : "in source order");
    if (plan->class_trees)
        run_note(p->run, SLIMSET_EVENT_NOTE, "%zu classes from folder names", plan->n_classes);
    if (plan->listing.links_followed > 0)
        run_note(p->run, SLIMSET_EVENT_NOTE, "%llu symbolic links followed", (unsigned long long)plan->listing.links_followed);
}

static enum slimset_status run_to_do(struct pack *p, struct slimset_error *err)
{
    struct pipeline_job job = {.plan = &p->plan, .pool = p->pool, .run = p->run, .dirs = &p->dirs, .rejects = p->rejects_before, .jobs = p->jobs};
    size_t *todo = calloc(p->plan.n_shards + 1, sizeof *todo);
    if (todo == NULL)
        return err_nomem(err, p->plan.n_shards * sizeof *todo);
    for (size_t i = 0; i < p->plan.n_shards; i++) {
        const struct plan_shard *s = &p->plan.shards[i];
        if (p->state[i] == SHARD_KEPT)
            job.rejects += p->old.shards[p->old_shard[i]].n_rejects;
        if (p->state[i] != SHARD_TO_DO)
            continue;
        todo[job.n_todo++] = i;
        job.samples_total += s->n_samples;
        for (size_t k = 0; k < s->n_samples; k++) {
            const struct plan_sample *sample = &p->plan.samples[s->first_sample + k];
            for (unsigned e = 0; e < sample->n; e++)
                job.in_bytes_total += p->plan.listing.entries[sample->first + e].bytes;
        }
    }
    job.todo = todo;
    enum slimset_status st = pipeline_budget(p->run, job.rejects, p->plan.n_samples, err);
    if (st == SLIMSET_OK)
        st = pipeline_run(&job, err);
    free(todo);
    return st;
}

static enum slimset_status tell_oversized(struct pack *p, struct index *ix, struct slimset_error *err)
{
    uint64_t n = 0;
    enum slimset_status st = index_touch(ix, ix->parts, ix->n_parts * sizeof *ix->parts, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_parts; i++)
        n += ix->parts[i].bytes > p->recipe->shard_bytes;
    if (n > 0 && p->recipe->layout == SLIMSET_LAYOUT_SHARDS)
        run_note(p->run, SLIMSET_EVENT_NOTE, "%llu samples are larger than --shard-size: each has a shard file of its own",
                 (unsigned long long)n);
    return st;
}

/* New index, publication, clean-up, and the stat file for the next run. */
static enum slimset_status finish(struct pack *p, struct slimset_error *err)
{
    bool same = false, rolled;
    struct index now = {0};
    enum slimset_status st = io_sync_dir(p->dirs.stage, ".", err);
    if (st == SLIMSET_OK)
        st = write_index(p, err);
    if (st == SLIMSET_OK)
        st = same_as_old(p, &same, err);
    for (size_t i = 0; i < p->plan.n_shards; i++) {
        p->report->shards_kept += p->state[i] == SHARD_KEPT;
        p->report->shards_written += p->state[i] == SHARD_TO_DO || p->state[i] == SHARD_RESUMED;
    }
    p->report->unchanged = same && p->report->shards_written == 0;
    if (st == SLIMSET_OK && p->report->unchanged)
        st = io_unlink(p->dirs.work, "publish", err);
    else if (st == SLIMSET_OK)
        st = io_sync_dir(p->dirs.work, ".", err);
    if (st == SLIMSET_OK && !p->report->unchanged)
        st = publish_roll(&p->dirs, &rolled, err);
    if (st == SLIMSET_OK)
        st = publish_clean(&p->dirs, err);
    if (st == SLIMSET_OK)
        st = index_open(p->dirs.out, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, false, &now, err);
    if (st == SLIMSET_OK)
        st = known_save(&p->plan.listing, &now, p->dirs.work, err);
    if (st == SLIMSET_OK)
        st = tell_oversized(p, &now, err);
    if (st == SLIMSET_OK)
        st = report_count(&now, p->report, err);
    index_close(&now);
    return st;
}

static enum slimset_status pack_all(struct pack *p, struct slimset_error *err)
{
    bool rolled = false;
    enum slimset_status st = SLIMSET_OK;
    if (!p->run->dry_run) {
        st = publish_open(p->run->out, &p->dirs, err);
        if (st == SLIMSET_OK)
            st = publish_roll(&p->dirs, &rolled, err);
        if (rolled)
            run_note(p->run, SLIMSET_EVENT_NOTE, "finished the publication of an interrupted run");
        if (st == SLIMSET_OK)
            st = take_over(p, err);
    }
    if (st == SLIMSET_OK)
        st = make_plan(p, err);
    if (st != SLIMSET_OK)
        return st;
    announce(p);
    if (p->run->dry_run) {
        p->report->samples = p->plan.n_samples;
        p->report->rejects = p->rejects_before;
        p->report->left_out = p->plan.listing.n_left_out;
        p->report->in_bytes = p->plan.listing.total_bytes;
        p->report->splits = (uint32_t)p->plan.n_splits;
        p->report->shards = (uint32_t)p->plan.n_shards;
        p->report->classes = (uint32_t)p->plan.n_classes;
        for (size_t i = 0; i < p->plan.n_splits; i++)
            p->report->out_bytes += p->plan.splits[i].bytes;
        return SLIMSET_OK;
    }
    st = sort_shards(p, err);
    size_t todo = 0, resumed = 0;
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards; i++) {
        todo += p->state[i] == SHARD_TO_DO;
        resumed += p->state[i] == SHARD_RESUMED;
    }
    if (resumed > 0)
        run_note(p->run, SLIMSET_EVENT_NOTE, "%zu shards were finished before, %zu to do", resumed, todo);
    if (st == SLIMSET_OK && todo + resumed > 0)
        st = write_plan(p, err);
    if (st == SLIMSET_OK)
        st = run_to_do(p, err);
    return st == SLIMSET_OK ? finish(p, err) : st;
}

enum slimset_status slimset_pack(const struct slimset_recipe *recipe, const struct slimset_run *run, struct slimset_report *report,
                                 struct slimset_error *err)
{
    struct pack p = {.recipe = recipe, .run = run, .report = report, .dirs = {-1, -1, -1, false}};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    *report = (struct slimset_report){0};
    enum slimset_status st = check_request(recipe, run, err);
    if (st != SLIMSET_OK)
        return st;
    st = check_outside(run, err);
    if (st != SLIMSET_OK)
        return st;
    bool keeps = recipe->resize == SLIMSET_RESIZE_NONE && recipe->output == SLIMSET_OUTPUT_AUTO && !recipe->reencode_all;
    if (keeps && (recipe->quality != 90 || recipe->subsampling != SLIMSET_SUBSAMPLING_420 || !recipe->optimise))
        run_note(run, SLIMSET_EVENT_WARNING, "JPEG settings change nothing here: without --resize or --codec bytes are kept");
    raise_descriptors();
    p.jobs = run->jobs != 0 ? run->jobs : cpus();
    plan_init(&p.plan, recipe);
    st = recipe_text(recipe, &p.recipe_text, err);
    if (st == SLIMSET_OK)
        st = pack_all(&p, err);
    pool_close(p.pool);
    known_fini(&p.known);
    index_close(&p.old);
    plan_fini(&p.plan);
    publish_close(&p.dirs);
    buf_fini(&p.recipe_text);
    free(p.state);
    free(p.old_shard);
    clock_gettime(CLOCK_MONOTONIC, &end);
    report->seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    return st;
}
