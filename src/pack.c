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
#include "dataset.h"
#include "join.h"
#include "image.h"
#include "names.h"
#include "pack_impl.h"
#include "pipeline.h"
#include "probe.h"
#include "recipe.h"
#include "report.h"
#include "sandbox.h"
#include "sidecar.h"
#include "stack_plan.h"

static enum slimset_status check_request(const struct slimset_recipe *r, const struct slimset_run *run, struct slimset_error *err)
{
    if (run->out == NULL && !run->dry_run)
        return err_set(err, SLIMSET_USAGE, "no output folder given (-o OUT)");
    if (r->shard_bytes < 1000000)
        return err_set(err, SLIMSET_USAGE, "--shard-size %llu: at least 1 MB", (unsigned long long)r->shard_bytes);
    if (r->alpha == SLIMSET_ALPHA_KEEP && r->output == SLIMSET_OUTPUT_JPEG)
        return err_set(err, SLIMSET_USAGE, "--alpha keep with --codec jpeg: JPEG has no alpha");
    for (size_t i = 0; i <= r->n_settings; i++) {
        const struct slimset_recipe *s = i == 0 ? r : &r->settings[i - 1];
        if (s->alpha == SLIMSET_ALPHA_KEEP && s->channels != 0)
            return err_set(err, SLIMSET_USAGE, "--alpha keep with --channels %d: alpha is one channel more", s->channels);
    }
    for (size_t i = 0; i < r->n_settings; i++)
        if (r->settings[i].alpha == SLIMSET_ALPHA_KEEP && r->settings[i].output == SLIMSET_OUTPUT_JPEG)
            return err_set(err, SLIMSET_USAGE, "alpha = keep with codec = jpeg: JPEG has no alpha");
    if (r->n_settings > SLIMSET_SETTINGS_MAX)
        return err_set(err, SLIMSET_USAGE, "more than %d rules and fields with settings of their own", SLIMSET_SETTINGS_MAX);
    if ((r->dali_idx || r->energon) && r->layout == SLIMSET_LAYOUT_TREE)
        return err_set(err, SLIMSET_USAGE, "--%s goes with shards: a tree has none", r->dali_idx ? "dali-idx" : "energon");
    if (r->layout == SLIMSET_LAYOUT_NPY) {
        enum slimset_status st = stack_check(r, err);
        if (st != SLIMSET_OK)
            return st;
    }
    if (r->group_by != NULL && r->n_joins > 0)
        return err_set(err, SLIMSET_USAGE, "--group-by makes samples of folders, --field joins files of several: only one of them");
    return join_check(r, err);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is `folder` this path, or one of the folders above it? */
static bool lies_in(const char *name, const struct stat *folder)
{
    char path[4096];
    struct stat at, above;
    if (strlen(name) >= sizeof path || stat(name, &at) != 0)
        return false;
    snprintf(path, sizeof path, "%s", name);
    if (!S_ISDIR(at.st_mode)) { /* a file: begin with its folder */
        char real[4096];
        if (realpath(name, real) == NULL)
            return false;
        char *slash = strrchr(real, '/');
        snprintf(path, sizeof path, "%.*s", slash == real ? 1 : (int)(slash - real), real);
        if (stat(path, &at) != 0)
            return false;
    }
    for (int depth = 0; depth < 256; depth++) {
        if (same_file(&at, folder))
            return true;
        above = at;
        if (strlen(path) + 4 > sizeof path)
            return false;
        strcat(path, "/..");
        if (stat(path, &at) != 0 || same_file(&above, &at))
            return false;
    }
    return false;
}

/* OUT must not lie in a folder that is read (the source is never touched, not even by a new folder in it), nor a source in OUT, which
 * is rewritten. Looked at before anything is created. */
static enum slimset_status check_outside(const struct slimset_run *run, struct slimset_error *err)
{
    char path[4096];
    struct stat out, source;
    if (run->dry_run || strlen(run->out) >= sizeof path)
        return SLIMSET_OK;
    snprintf(path, sizeof path, "%s", run->out);
    while (stat(path, &out) != 0 && path[0] != '\0') { /* the deepest folder that exists already */
        char *slash = strrchr(path, '/');
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            return err_os(err, "cannot look at %.300s", path);
        if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0) /* the current folder was removed */
            return err_set(err, SLIMSET_USAGE, "there is no folder in which %.300s could be", run->out);
        if (slash == NULL)
            snprintf(path, sizeof path, ".");
        else if (slash == path)
            path[1] = '\0';
        else
            *slash = '\0';
    }
    for (size_t i = 0; i < run->n_sources; i++)
        if (stat(run->sources[i], &source) == 0 && S_ISDIR(source.st_mode) && lies_in(path, &source))
            return err_set(err, SLIMSET_USAGE, "the output folder %.200s lies inside the source %.200s: choose one outside",
                           run->out, run->sources[i]);
    for (size_t i = 0; stat(run->out, &out) == 0 && i < run->n_sources; i++)
        if (lies_in(run->sources[i], &out))
            return err_set(err, SLIMSET_USAGE, "the source %.200s lies inside the output folder %.200s, which is rewritten: choose "
                           "another output", run->sources[i], run->out);
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
    const char *value;
    size_t n;
    /* an interrupted --force goes on from where it was; another plan it throws away */
    bool own = unfinished && index_meta(&plan, "run.forced", &value, &n) &&
               recipe_compare(&p->recipe_text, &plan, p->run->out, err) == SLIMSET_OK;
    bool fresh = p->run->force && !own;
    if (unfinished && p->run->repair && !index_meta(&plan, "run.repair", &value, &n)) {
        index_close(&plan);
        return err_set(err, SLIMSET_DIFFERS, "an update of %.200s has not finished: run the same pack again, then verify", p->run->out);
    }
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
    if (st == SLIMSET_OK && fresh)
        st = publish_clean(&p->dirs, err);
    else if (st == SLIMSET_OK && unfinished)
        st = recipe_compare(&p->recipe_text, &plan, p->run->out, err);
    else if (st == SLIMSET_OK && p->old.base != NULL)
        st = recipe_compare(&p->recipe_text, &p->old, p->run->out, err);
    if (st == SLIMSET_OK && !fresh && !p->run->replan && (unfinished || p->old.base != NULL))
        st = plan_freeze(&p->plan, unfinished ? &plan : &p->old, err);
    if (st == SLIMSET_OK && unfinished && !fresh)
        run_note(p->run, SLIMSET_EVENT_NOTE, "going on with an unfinished run");
    index_close(&plan);
    if (st == SLIMSET_OK && fresh) { /* clean removed the stage folder */
        close(p->dirs.stage);
        p->dirs.stage = -1;
        st = io_mkdirs(p->dirs.work, "stage", err);
        if (st == SLIMSET_OK)
            st = io_open_dir(p->dirs.work, "stage", false, &p->dirs.stage, err);
    }
    return st;
}

static enum slimset_status write_plan(struct pack *p, struct slimset_error *err)
{
    const struct plan *plan = &p->plan;
    /* what another run than one of its kind must not go on with */
    const char *forced = p->run->force ? "run.forced=1\n" : pack_repairs(p) ? "run.repair=1\n" : "";
    size_t forced_n = strlen(forced);
    struct index_counts counts = {.meta_bytes = p->recipe_text.len + forced_n, .splits = plan->n_splits, .classes = plan->n_classes,
                                  .fields_rules = plan->n_rules, .shards = plan->n_shards};
    struct index_writer *w = NULL;
    enum slimset_status st = index_create(p->dirs.work, "plan.new", SLIMSET_KIND_PLAN, &counts, &w, err);
    if (st == SLIMSET_OK)
        st = index_put_meta(w, p->recipe_text.data, p->recipe_text.len, err);
    if (st == SLIMSET_OK && forced_n > 0)
        st = index_put_meta(w, forced, forced_n, err);
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

static int by_left_out_path(const void *pa, const void *pb)
{
    const struct left_out *a = pa, *b = pb;
    int c = memcmp(a->path, b->path, a->path_bytes < b->path_bytes ? a->path_bytes : b->path_bytes);
    return c != 0 ? c : a->path_bytes < b->path_bytes ? -1 : a->path_bytes > b->path_bytes;
}

/* Is the index just written the one that is published already, with all that goes beside the shards? */
static enum slimset_status same_as_old(struct pack *p, bool *same, struct slimset_error *err)
{
    struct index now = {0};
    bool current = false;
    enum slimset_status st = index_open(p->dirs.work, "publish", SLIMSET_KIND_INDEX, false, &now, err);
    *same = st == SLIMSET_OK && p->old.base != NULL && now.bytes == p->old.bytes && memcmp(now.base, p->old.base, now.bytes) == 0;
    if (st == SLIMSET_OK) {
        st = sidecar_current(&now, p->dirs.out, &current, err);
        struct slimset_error ignored;
        if (st == SLIMSET_USAGE) /* or every later run would try to publish it */
            io_unlink(p->dirs.work, "publish", &ignored);
    }
    *same = *same && current;
    index_close(&now);
    return st;
}

/* Names that DALI's index cannot say are refused before the work is done. */
static enum slimset_status check_names(const struct plan *p, struct slimset_error *err)
{
    char key[DATASET_PATH_MAX];
    for (size_t i = 0; p->recipe->dali_idx && i < p->n_samples; i++) {
        size_t n = plan_key(p, &p->samples[i], key);
        if (!sidecar_dali_name(key, n))
            return err_set(err, SLIMSET_USAGE, "--dali-idx: the sample \"%.*s\" has a blank in its name, which DALI's index cannot say",
                           (int)(n < 300 ? n : 300), key);
    }
    return SLIMSET_OK;
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

static bool same_params(struct pack *p, const struct slimset_field_rule *was, const struct plan_rule *now)
{
    struct slimset_error ignored;
    const char *text;
    size_t n, m = now->params != NULL ? strlen(now->params) : 0;
    return index_text(&p->old, was->params, &text, &n, &ignored) == SLIMSET_OK && n == m && (n == 0 || memcmp(text, now->params, n) == 0);
}

/* --replan: what is decided otherwise than in the dataset that is there. */
static void tell_replan(struct pack *p)
{
    struct slimset_error ignored;
    const char *name;
    size_t n;
    for (uint64_t i = 0; p->run->replan && i < p->old.n_rules; i++) {
        const struct slimset_field_rule *was = &p->old.rules[i];
        if (index_text(&p->old, was->name, &name, &n, &ignored) != SLIMSET_OK)
            continue;
        for (size_t k = 0; k < p->plan.n_rules; k++) {
            const struct plan_rule *now = &p->plan.rules[k];
            if (now->hint == was->hint && strlen(now->name) == n && memcmp(now->name, name, n) == 0 &&
                (now->role != was->role || now->codec != was->codec || !same_params(p, was, now)))
                run_note(p->run, SLIMSET_EVENT_NOTE, "--replan: .%s was %s, %s; it is now %s, %s", now->name, name_role(was->role),
                         name_codec(was->codec), name_role(now->role), name_codec(now->codec));
        }
    }
}

static enum slimset_status make_plan(struct pack *p, struct slimset_error *err)
{
    struct walk_settings walk = {.recipe = p->recipe, .run = p->run, .work_dir = p->dirs.work, .out_dir = p->dirs.out};
    struct pool_settings pool = {.recipe = p->recipe, .jobs = p->jobs, .spill_dir = p->dirs.work,
                                 .in_process = p->run->in_process};
    enum slimset_status st = walk_sources(&p->plan.listing, &walk, err);
    if (st == SLIMSET_OK)
        st = plan_samples(&p->plan, p->run, err);
    for (size_t i = 0; i < p->plan.n_rules; i++) {
        const struct plan_rule *r = &p->plan.rules[i];
        pool.spills |= r->role == SLIMSET_ROLE_ARRAY || (r->role == SLIMSET_ROLE_COPY && r->bytes > ITEM_SPILL_BYTES);
    }
    if (st == SLIMSET_OK)
        st = pool_open(&pool, &p->pool, err);
    if (st == SLIMSET_OK)
        st = probe_run(&p->plan, p->pool, p->run, err);
    if (st == SLIMSET_OK)
        st = plan_shards(&p->plan, p->run, err);
    if (st == SLIMSET_OK && p->recipe->layout == SLIMSET_LAYOUT_NPY)
        st = stack_settle(&p->plan, p->pool, p->run, err);
    if (st == SLIMSET_OK)
        st = check_names(&p->plan, err);
    if (st != SLIMSET_OK)
        return st;
    tell_sandbox(p);
    tell_replan(p);
    struct listing *l = &p->plan.listing;
    if (l->n_left_out > 0)
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

/* Where listing found one: the first input that cannot be read, for messages. */
static const char *first_problem(struct pack *p, char *text, size_t text_bytes)
{
    for (size_t i = 0; i < p->plan.listing.n_entries; i++)
        if (p->plan.listing.entries[i].problem != SLIMSET_REJECT_NONE)
            return p->plan.listing.entries[i].path;
    for (uint64_t i = 0; i < p->old.n_rejects; i++) { /* one of an earlier run, in a shard that is kept */
        const struct slimset_reject_record *r = &p->old.rejects[i];
        struct slimset_error ignored;
        const char *path;
        size_t n;
        if (r->kind == 1 && index_text(&p->old, r->path, &path, &n, &ignored) == SLIMSET_OK && n > 0) {
            snprintf(text, text_bytes, "%.*s", (int)n, path);
            return text;
        }
    }
    return "an input";
}

static enum slimset_status run_to_do(struct pack *p, struct slimset_error *err)
{
    struct pipeline_job job = {.plan = &p->plan, .pool = p->pool, .run = p->run, .dirs = &p->dirs, .rejects = p->rejects_before + p->rejects_resumed, .jobs = p->jobs};
    size_t *todo = calloc(p->plan.n_shards + 1, sizeof *todo);
    char name[400];
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
    const char *what = p->run->strict ? first_problem(p, name, sizeof name) : ""; /* a walk over all inputs: only to name one */
    enum slimset_status st = pipeline_budget(p->run, job.rejects, p->plan.n_samples, what, err);
    if (st == SLIMSET_OK)
        st = pipeline_run(&job, err);
    if (job.cast_arrays > 0)
        run_note(p->run, SLIMSET_EVENT_NOTE, "--cast: %llu arrays cast in this run; of their values %llu became infinite, %llu zero, %llu were NaN, "
                 "%llu lay outside of the range", (unsigned long long)job.cast_arrays, (unsigned long long)job.cast_inf,
                 (unsigned long long)job.cast_zero, (unsigned long long)job.cast_nan, (unsigned long long)job.cast_clipped);
    free(todo);
    return st;
}

static enum slimset_status tell_oversized(struct pack *p, struct index *ix, struct slimset_error *err)
{
    uint64_t n = 0;
    enum slimset_status st = index_touch(ix, ix->parts, ix->n_parts * sizeof *ix->parts, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_parts; i++)
        n += ix->parts[i].bytes > p->recipe->shard_bytes;
    if (n > 0 && p->recipe->layout != SLIMSET_LAYOUT_TREE)
        run_note(p->run, SLIMSET_EVENT_NOTE, "%llu samples are larger than --shard-size: each has a shard file of its own",
                 (unsigned long long)n);
    return st;
}

/* As people count them: files. A shard without samples has none. */
static enum slimset_status count_shards(struct pack *p, struct index *ix, struct slimset_error *err)
{
    enum slimset_status st = index_touch(ix, ix->shards, ix->n_shards * sizeof *ix->shards, err);
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards && i < ix->n_shards; i++) {
        bool written = p->state[i] == SHARD_TO_DO || p->state[i] == SHARD_RESUMED;
        p->report->shards_kept += p->state[i] == SHARD_KEPT ? ix->shards[i].n_parts : 0;
        p->report->shards_written += written ? ix->shards[i].n_parts : 0;
    }
    return st;
}

static void tell_clipped(const struct pack *p)
{
    uint64_t n = p->report->note[__builtin_ctz(NOTE_CLIPPED)];
    if (n > 0)
        run_note(p->run, SLIMSET_EVENT_WARNING, "%llu images have values outside of the range of --depth, which were cut off: slimset ls "
                 "--note clipped lists them", (unsigned long long)n);
}

/* New index, publication, clean-up, and the stat file for the next run. */
static enum slimset_status finish(struct pack *p, struct slimset_error *err)
{
    bool same = false, rolled, any = false;
    struct index now = {0};
    enum slimset_status st = io_sync_dir(p->dirs.stage, ".", err);
    if (st == SLIMSET_OK)
        st = pack_write_index(p, err);
    if (st == SLIMSET_OK)
        st = same_as_old(p, &same, err);
    for (size_t i = 0; i < p->plan.n_shards; i++)
        any |= p->state[i] == SHARD_TO_DO || p->state[i] == SHARD_RESUMED;
    p->report->unchanged = same && !any;
    if (st == SLIMSET_OK && p->report->unchanged)
        st = io_unlink(p->dirs.work, "publish", err);
    else if (st == SLIMSET_OK)
        st = io_sync_dir(p->dirs.work, ".", err);
    if (st == SLIMSET_OK && !p->report->unchanged) {
        st = publish_roll(&p->dirs, &rolled, err);
        if (st == SLIMSET_OK && !rolled)
            st = err_set(err, SLIMSET_IO, "a finished file has vanished from %.300s meanwhile", p->run->out);
    }
    if (st == SLIMSET_OK)
        st = publish_clean(&p->dirs, err);
    if (st == SLIMSET_OK)
        st = index_open(p->dirs.out, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, false, &now, err);
    if (st == SLIMSET_OK)
        st = known_save(&p->plan.listing, &now, p->run, p->dirs.work, err);
    if (st == SLIMSET_OK)
        st = tell_oversized(p, &now, err);
    if (st == SLIMSET_OK)
        st = count_shards(p, &now, err);
    if (st == SLIMSET_OK)
        st = report_count(&now, p->report, err);
    if (st == SLIMSET_OK)
        tell_clipped(p);
    index_close(&now);
    return st;
}

/* Keeps in the work folder just what belongs to resumed shards. A fragment whose files are no good must be gone, on the disk too
 * (write_plan syncs), before they are made again: after a cut of power it would vouch for files that have only their size. */
static enum slimset_status restage(struct pack *p, size_t resumed, struct slimset_error *err)
{
    char (*names)[320] = calloc(resumed + 1, sizeof *names);
    size_t n = 0;
    if (names == NULL)
        return err_nomem(err, resumed * sizeof *names);
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards; i++) {
        pipeline_fragment_name(&p->plan, i, names[n]);
        if (p->state[i] == SHARD_RESUMED)
            n++;
        else
            st = io_unlink(p->dirs.work, names[n], err);
    }
    if (st == SLIMSET_OK)
        st = publish_restage(&p->dirs, names, n, err);
    free(names);
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
    if (st == SLIMSET_USAGE) { /* the request made no sense: nothing of it stays */
        struct slimset_error ignored;
        if (!p->run->dry_run && p->dirs.out >= 0 && !p->dirs.work_existed && p->old.base == NULL)
            io_remove_tree(p->dirs.out, PUBLISH_WORK, &ignored);
        if (!p->run->dry_run && p->dirs.out_created)
            rmdir(p->run->out);
    }
    if (st != SLIMSET_OK)
        return st;
    if (!pack_repairs(p))
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
    st = pack_sort_shards(p, err);
    size_t todo = 0, resumed = 0;
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards; i++) {
        todo += p->state[i] == SHARD_TO_DO;
        resumed += p->state[i] == SHARD_RESUMED;
    }
    if (st == SLIMSET_OK)
        st = restage(p, resumed, err);
    if (resumed > 0)
        run_note(p->run, SLIMSET_EVENT_NOTE, "%zu shards were finished before, %zu to do", resumed, todo);
    if (st == SLIMSET_OK && todo + resumed > 0)
        st = write_plan(p, err);
    if (st == SLIMSET_OK)
        st = run_to_do(p, err);
    if (st != SLIMSET_OK)
        return st;
    return pack_repairs(p) ? repair_finish(p, err) : finish(p, err);
}

enum slimset_status slimset_pack(const struct slimset_recipe *recipe, const struct slimset_run *run, struct slimset_report *report,
                                 struct slimset_error *err)
{
    struct pack p = {.recipe = recipe, .run = run, .report = report, .dirs = {.out = -1, .work = -1, .stage = -1}};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    *report = (struct slimset_report){0};
    enum slimset_status st = check_request(recipe, run, err);
    if (st != SLIMSET_OK)
        return st;
    st = check_outside(run, err);
    if (st != SLIMSET_OK)
        return st;
    bool keeps = recipe->resize == SLIMSET_RESIZE_NONE && recipe->output == SLIMSET_OUTPUT_AUTO && !recipe->reencode_all && recipe->n_settings == 0;
    if (keeps && (recipe->quality != 90 || recipe->min_ssim > 0 || recipe->subsampling != SLIMSET_SUBSAMPLING_420 || !recipe->optimise))
        run_note(run, SLIMSET_EVENT_WARNING, "JPEG settings change nothing here: without --resize or --codec bytes are kept");
    raise_descriptors();
    p.jobs = run->jobs != 0 ? run->jobs : cpus();
    plan_init(&p.plan, recipe);
    st = recipe_text(recipe, &p.recipe_text, err);
    if (st == SLIMSET_OK)
        p.plan.recipe_hash = hash_bytes(p.recipe_text.data, p.recipe_text.len);
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
