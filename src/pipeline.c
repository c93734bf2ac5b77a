/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "recipe.h"
#include "request.h"
#include "shard.h"
#include "stack_plan.h"
#include "worker.h"

enum {
    AHEAD_BYTES = 64 << 20,     /* of inputs opened and read ahead */
    AHEAD_FILES = 96,           /* descriptors for them, where the limit leaves so many */
    PENDING_BYTES = 64 << 20,   /* of answers that wait for their turn */
    SPILLED_BYTES = 1 << 30,    /* of inputs whose outputs may wait in spills */
    SHARDS_IN_FLIGHT = 3,       /* finished ones wait that long for their sync */
    PROGRESS_NS = 100000000
};

enum state { FREE = 0, OPENED, SUBMITTED, ANSWERED, FAILED };

struct slot {
    enum state state;
    uint32_t sample;             /* in plan->samples */
    uint32_t failed;
    size_t shard;                /* in job->todo */
    uint64_t in_bytes;
    struct request *request;     /* OPENED */
    struct item_answer *answer;  /* ANSWERED */
    int spill_fd;                /* ANSWERED: of its large payloads, or -1 */
    uint64_t spill_bytes;        /* SUBMITTED, ANSWERED: of inputs whose output may lie in a spill */
    enum slimset_reject reject;  /* FAILED */
    char *text;
};

struct pipeline {
    struct pipeline_job *job;
    struct slot *window;
    size_t n_window;
    uint64_t head, submitted, opened; /* tickets: next to write, to submit, to open */
    size_t open_todo, open_sample;    /* where opening stands */
    uint64_t ahead_bytes, pending_bytes, in_done;
    uint64_t spilled_bytes;           /* of inputs with a spill that are not written yet: disk space */
    size_t ahead_files, max_ahead_files;
    struct shard_writer *writer;      /* SHARDS_IN_FLIGHT of them */
    size_t writing;                   /* todo number of the current shard; shards before it are finished */
    size_t synced;                    /* todo number up to which fragments are written */
    bool begun;
    int64_t last_progress;
};

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct slot *slot_of(struct pipeline *p, uint64_t ticket)
{
    return &p->window[ticket % p->n_window];
}

/* --- fragments -------------------------------------------------------------------------------------------------- */

void pipeline_fragment_name(const struct plan *p, size_t shard, char name[320])
{
    const struct plan_shard *s = &p->shards[shard];
    snprintf(name, 320, "frag-%.255s-%05u", p->splits[s->split].name, s->number);
}

uint64_t pipeline_inputs_stat(const struct plan *p, size_t shard)
{
    const struct plan_shard *s = &p->shards[shard];
    struct hash_stream h;
    shard_hash_begin(&h, p);
    for (size_t i = 0; i < s->n_samples; i++) {
        const struct plan_sample *sample = &p->samples[s->first_sample + i];
        shard_hash_sample(&h, p, sample);
        for (unsigned k = 0; k < sample->n; k++) {
            const struct entry *e = &p->listing.entries[sample->first + k];
            uint64_t numbers[3] = {(uint64_t)e->mtime_ns, e->inode, e->offset};
            shard_hash_entry(&h, p, e, 0);
            hash_update(&h, numbers, sizeof numbers);
        }
    }
    return hash_value(&h);
}

static enum slimset_status write_fragment(struct pipeline *p, const struct shard_writer *w, struct slimset_error *err)
{
    const struct shard_content *c = &w->content;
    char name[320], meta[96];
    int n = snprintf(meta, sizeof meta, "inputs=%016llx\nlayout=%s\n",
                     (unsigned long long)pipeline_inputs_stat(p->job->plan, w->number),
                     recipe_layout(p->job->plan->recipe));
    struct index_counts counts = {.meta_bytes = (uint64_t)n, .shards = 1, .parts = c->n_parts, .samples = c->n_samples,
                                  .fields = c->n_fields, .rejects = c->n_rejects};
    struct index_writer *iw = NULL;
    struct shard_view v = shard_view_of(c);
    struct slimset_shard record = c->shard;
    uint64_t part = 0, sample = 0, field = 0;
    pipeline_fragment_name(p->job->plan, w->number, name);
    enum slimset_status st = index_create(p->job->dirs->work, name, SLIMSET_KIND_FRAGMENT, &counts, &iw, err);
    if (st == SLIMSET_OK)
        st = index_put_meta(iw, meta, (size_t)n, err);
    if (st == SLIMSET_OK)
        st = index_put_shard(iw, &record, err);
    if (st == SLIMSET_OK)
        st = shard_put(&v, 0, 0, &part, &sample, &field, iw, err);
    if (st == SLIMSET_OK)
        return index_commit(iw, false, err); /* torn by a power cut it is not valid, and the shard is redone */
    index_abort(iw);
    return st;
}

/* Syncs the oldest finished shard and names it in a fragment. */
static enum slimset_status settle_oldest(struct pipeline *p, struct slimset_error *err)
{
    struct shard_writer *w = &p->writer[p->synced % SHARDS_IN_FLIGHT];
    enum slimset_status st = shard_sync(w, err);
    if (st == SLIMSET_OK)
        st = write_fragment(p, w, err);
    if (st == SLIMSET_OK) {
        shard_fini(w);
        p->synced++;
    }
    return st;
}

/* --- opening and submitting ---------------------------------------------------------------------------------------- */

static bool next_sample(struct pipeline *p, const struct plan_shard **shard)
{
    while (p->open_todo < p->job->n_todo) {
        *shard = &p->job->plan->shards[p->job->todo[p->open_todo]];
        if (p->open_sample < (*shard)->n_samples)
            return true;
        p->open_todo++;
        p->open_sample = 0;
    }
    return false;
}

static enum slimset_status fail_slot(struct slot *s, uint32_t failed, enum slimset_reject reject, const char *text,
                                     struct slimset_error *err)
{
    s->state = FAILED;
    s->failed = failed;
    s->reject = reject;
    s->text = strdup(text);
    return s->text == NULL ? err_nomem(err, strlen(text)) : SLIMSET_OK;
}

static enum slimset_status open_one(struct pipeline *p, const struct plan_shard *shard, bool *busy, struct slimset_error *err)
{
    const struct plan *plan = p->job->plan;
    struct slot *s = slot_of(p, p->opened);
    uint32_t number = (uint32_t)(shard->first_sample + p->open_sample), failed = 0;
    const struct plan_sample *sample = &plan->samples[number];
    *s = (struct slot){.sample = number, .shard = p->open_todo};
    for (unsigned i = 0; i < sample->n; i++)
        s->in_bytes += plan->listing.entries[sample->first + i].bytes;
    enum slimset_status st = SLIMSET_OK;
    if (sample->duplicate) {
        st = fail_slot(s, 0, SLIMSET_REJECT_DUPLICATE, "another input has the same key", err);
    } else {
        s->request = malloc(sizeof *s->request);
        if (s->request == NULL)
            return err_nomem(err, sizeof *s->request);
        st = request_open(s->request, plan, sample->first, sample->n, ITEM_CONVERT, p->opened, &failed, err);
        if (st == SLIMSET_IO && (err->os_errno == EMFILE || err->os_errno == ENFILE || err->os_errno == ENOMEM) &&
            p->opened > p->head) { /* others will give theirs back */
            free(s->request);
            *s = (struct slot){0};
            *busy = true;
            return SLIMSET_OK;
        }
        if (st == SLIMSET_OK) {
            s->state = OPENED;
            request_readahead(s->request);
            p->ahead_bytes += s->in_bytes;
            p->ahead_files += s->request->item.n_fds;
        } else {
            struct slimset_error why = *err;
            free(s->request);
            s->request = NULL;
            if (st == SLIMSET_BAD_INPUT)
                st = fail_slot(s, failed, why.reject, why.text, err);
        }
    }
    if (st == SLIMSET_OK) {
        p->opened++;
        p->open_sample++;
    }
    return st;
}

static enum slimset_status open_ahead(struct pipeline *p, struct slimset_error *err)
{
    const struct plan_shard *shard;
    bool busy = false;
    enum slimset_status st = SLIMSET_OK;
    while (st == SLIMSET_OK && !busy && p->opened - p->head < p->n_window &&
           (p->opened == p->submitted || (p->ahead_bytes < AHEAD_BYTES && p->ahead_files < p->max_ahead_files)) && next_sample(p, &shard))
        st = open_one(p, shard, &busy, err);
    return st;
}

static enum slimset_status submit_ready(struct pipeline *p, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    while (st == SLIMSET_OK && p->submitted < p->opened && pool_has_room(p->job->pool) &&
           (p->pending_bytes < PENDING_BYTES || p->submitted == p->head)) {
        struct slot *s = slot_of(p, p->submitted);
        bool spills = s->state == OPENED && s->request->item.has_spill;
        if (spills && p->submitted != p->head && p->spilled_bytes + s->in_bytes > SPILLED_BYTES)
            break;
        p->submitted++;
        if (s->state != OPENED)
            continue;
        s->spill_bytes = spills ? s->in_bytes : 0;
        p->spilled_bytes += s->spill_bytes;
        p->ahead_bytes -= s->in_bytes;
        p->ahead_files -= s->request->item.n_fds;
        st = pool_submit(p->job->pool, &s->request->item, s->request->fds, err);
        free(s->request);
        s->request = NULL;
        s->state = SUBMITTED;
    }
    return st;
}

/* --- answers and writing ----------------------------------------------------------------------------------------------- */

static void name_sample(const struct pipeline *p, const struct slot *s, uint32_t failed, bool one_line, char *text, size_t n)
{
    const struct plan_sample *sample = &p->job->plan->samples[s->sample];
    const struct listing *l = &p->job->plan->listing;
    listing_display(l, &l->entries[sample->first + (failed < sample->n ? failed : 0)], one_line, text, n);
}

static enum slimset_status take_answers(struct pipeline *p, int timeout_ms, struct slimset_error *err)
{
    struct pool_answer a;
    bool got = true;
    uint64_t culprit = UINT64_MAX;
    enum slimset_status st = SLIMSET_OK;
    for (; st == SLIMSET_OK && got; timeout_ms = 0) {
        st = pool_next(p->job->pool, timeout_ms, &a, &got, &culprit, err);
        if (st != SLIMSET_OK || !got)
            break;
        struct slot *s = slot_of(p, a.ticket);
        if (a.answer->status == SLIMSET_OK) {
            s->answer = a.answer;
            s->spill_fd = a.spill_fd;
            s->state = ANSWERED;
            p->pending_bytes += a.answer->blob_bytes;
        } else {
            char text[600];
            snprintf(text, sizeof text, "%.*s", (int)a.answer->text_bytes, item_text(a.answer));
            st = fail_slot(s, a.answer->failed_input, a.answer->reject, text, err);
            free(a.answer);
            if (a.spill_fd >= 0)
                close(a.spill_fd);
        }
    }
    if (st == SLIMSET_LIMIT || st == SLIMSET_NO_MEMORY || st == SLIMSET_INTERNAL || st == SLIMSET_IO) {
        if (culprit < p->opened && culprit >= p->head) { /* name the input, and the way past it */
            char name[400];
            struct slimset_error why = *err;
            name_sample(p, slot_of(p, culprit), 0, true, name, sizeof name);
            const struct plan_sample *sample = &p->job->plan->samples[slot_of(p, culprit)->sample];
            err_set(err, st, "%.160s: %.160s; --skip '%.150s' gets past it", name, why.text,
                    p->job->plan->listing.entries[sample->first].path);
            err->os_errno = why.os_errno;
        }
    }
    return st;
}

enum slimset_status pipeline_budget(const struct slimset_run *run, uint64_t rejects, uint64_t samples, const char *what,
                                    struct slimset_error *err)
{
    if (rejects > 0 && run->strict)
        return err_set(err, SLIMSET_LIMIT, "%.400s: stopped at the first reject (--strict)", what);
    if (run->max_rejects >= 0 && rejects > (uint64_t)run->max_rejects)
        return err_set(err, SLIMSET_LIMIT, "stopped: more than %lld rejects (--max-rejects)", (long long)run->max_rejects);
    if (run->max_rejects_percent >= 0 && (double)rejects * 100 > run->max_rejects_percent * (double)samples)
        return err_set(err, SLIMSET_LIMIT, "stopped: %llu rejects are more than %g%% of %llu samples (--max-rejects)",
                       (unsigned long long)rejects, run->max_rejects_percent, (unsigned long long)samples);
    return SLIMSET_OK;
}

static enum slimset_status write_reject(struct pipeline *p, struct shard_writer *w, struct slot *s, struct slimset_error *err)
{
    const struct plan_sample *sample = &p->job->plan->samples[s->sample];
    char name[1024];
    enum slimset_status st = shard_reject(w, sample, s->failed, s->reject, s->text, err);
    if (st != SLIMSET_OK)
        return st;
    name_sample(p, s, s->failed, false, name, sizeof name);
    if (p->job->run->event != NULL) {
        char text[700];
        snprintf(text, sizeof text, "%s: %s", slimset_reject_name(s->reject), s->text);
        p->job->run->event(p->job->run->event_arg,
                           &(struct slimset_event){.kind = SLIMSET_EVENT_REJECT, .path = name, .text = text});
    }
    name_sample(p, s, s->failed, true, name, sizeof name);
    return pipeline_budget(p->job->run, ++p->job->rejects, p->job->plan->n_samples, name, err);
}

/* Moves on to the shard of the sample that is written next: begins it, ends those before. */
static enum slimset_status reach_shard(struct pipeline *p, size_t todo, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    while (st == SLIMSET_OK && (!p->begun || p->writing < todo)) {
        if (p->begun) {
            st = shard_end(&p->writer[p->writing % SHARDS_IN_FLIGHT], err);
            if (st != SLIMSET_OK)
                break;
            p->writing++;
        }
        p->begun = true;
        if (p->writing - p->synced >= SHARDS_IN_FLIGHT)
            st = settle_oldest(p, err);
        if (st == SLIMSET_OK && p->writing < p->job->n_todo)
            st = shard_begin(&p->writer[p->writing % SHARDS_IN_FLIGHT], p->job->plan, p->job->todo[p->writing],
                             p->job->dirs->stage, err);
    }
    return st;
}

static void progress(struct pipeline *p, bool force)
{
    const struct pipeline_job *j = p->job;
    int64_t now = j->run->event != NULL ? now_ns() : 0;
    if (j->run->event == NULL || (!force && now - p->last_progress < PROGRESS_NS))
        return;
    p->last_progress = now;
    j->run->event(j->run->event_arg, &(struct slimset_event){
        .kind = SLIMSET_EVENT_PROGRESS, .phase = "pack", .samples_done = j->samples_done, .samples_total = j->samples_total,
        .in_bytes_done = p->in_done, .in_bytes_total = j->in_bytes_total, .out_bytes = j->out_bytes, .rejects = j->rejects});
}

/* Box annotations that the probe did not happen to see: the pixels under them would move. */
static enum slimset_status refuse_boxes(const struct pipeline *p, const struct slot *s, struct slimset_error *err)
{
    const struct item_field *f = item_fields(s->answer);
    bool resizes = recipe_resizes(p->job->plan->recipe);
    uint32_t turned = 0; /* an image that becomes upright is as good as resized; one that is passed through is not turned */
    while (turned < s->answer->n_fields && !(f[turned].notes & NOTE_ROTATED))
        turned++;
    for (uint32_t i = 0; (resizes || turned < s->answer->n_fields) && i < s->answer->n_fields; i++) {
        char name[400], image[400];
        if (f[i].boxes == 0)
            continue;
        name_sample(p, s, f[i].input, true, name, sizeof name);
        if (!resizes) {
            name_sample(p, s, f[turned].input, true, image, sizeof image);
            return err_set(err, SLIMSET_USAGE, "%.300s holds boxes in pixels, and %.300s is turned upright, which moves the pixels under "
                           "them: --boxes keep leaves them as they are, without --codec, --channels and the like nothing moves", name, image);
        }
        return err_set(err, SLIMSET_USAGE, "%.300s holds boxes in pixels, and resizing would move the pixels under them: --boxes keep "
                       "leaves them as they are, without --resize nothing moves", name);
    }
    return SLIMSET_OK;
}

/* Large payloads, and what casts could not keep. */
static void count_answer(struct pipeline *p, const struct item_answer *a)
{
    const struct item_field *f = item_fields(a);
    struct pipeline_job *j = p->job;
    for (uint32_t i = 0; i < a->n_fields; i++) {
        j->out_bytes += f[i].spilled ? f[i].payload_bytes : 0;
        j->cast_arrays += (f[i].notes & NOTE_CAST) != 0;
        j->cast_inf += f[i].cast_inf;
        j->cast_zero += f[i].cast_zero;
        j->cast_nan += f[i].cast_nan;
        j->cast_clipped += f[i].cast_clipped;
    }
}

/* Layout npy: an answer that cannot be a row becomes a reject. */
static enum slimset_status refuse_row(struct pipeline *p, struct slot *s, struct slimset_error *err)
{
    const struct plan *plan = p->job->plan;
    uint32_t field, failed;
    uint64_t header;
    struct npy found;
    if (plan->recipe->layout != SLIMSET_LAYOUT_NPY)
        return SLIMSET_OK;
    enum slimset_status st = stack_pick(plan, &plan->samples[s->sample], s->answer, s->spill_fd, plan->row_known ? &plan->row : NULL,
                                        &field, &header, &found, &failed, err);
    if (st == SLIMSET_OK && !plan->row_known)
        st = err_bad(err, SLIMSET_REJECT_SHAPE, "could not be read when it was planned what rows are: --replan plans anew");
    if (st != SLIMSET_BAD_INPUT)
        return st;
    struct slimset_error why = *err;
    p->pending_bytes -= s->answer->blob_bytes;
    free(s->answer);
    s->answer = NULL;
    if (s->spill_fd >= 0)
        close(s->spill_fd);
    return fail_slot(s, failed, why.reject, why.text, err);
}

static enum slimset_status write_ready(struct pipeline *p, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    while (st == SLIMSET_OK && p->head < p->opened) {
        struct slot *s = slot_of(p, p->head);
        if (s->state != ANSWERED && s->state != FAILED)
            break;
        st = reach_shard(p, s->shard, err);
        if (st != SLIMSET_OK)
            break;
        struct shard_writer *w = &p->writer[p->writing % SHARDS_IN_FLIGHT];
        if (s->state == ANSWERED)
            st = refuse_boxes(p, s, err);
        if (st == SLIMSET_OK && s->state == ANSWERED)
            st = refuse_row(p, s, err);
        if (st != SLIMSET_OK)
            break;
        if (s->state == ANSWERED) {
            st = shard_sample(w, &p->job->plan->samples[s->sample], s->answer, s->spill_fd, err);
            p->pending_bytes -= s->answer->blob_bytes;
            p->job->out_bytes += s->answer->blob_bytes;
            count_answer(p, s->answer);
            if (s->spill_fd >= 0)
                close(s->spill_fd);
        } else {
            st = write_reject(p, w, s, err);
        }
        free(s->answer);
        free(s->text);
        p->spilled_bytes -= s->spill_bytes;
        p->in_done += s->in_bytes;
        p->job->samples_done++;
        *s = (struct slot){0};
        p->head++;
        p->submitted = p->submitted < p->head ? p->head : p->submitted;
        progress(p, false);
    }
    return st;
}

static enum slimset_status loop(struct pipeline *p, struct slimset_error *err)
{
    const struct slimset_run *run = p->job->run;
    const struct plan_shard *shard;
    enum slimset_status st = SLIMSET_OK;
    while (st == SLIMSET_OK) {
        if (run->stop != NULL && *run->stop)
            return err_set(err, SLIMSET_INTERRUPTED, "interrupted; the same command goes on from here");
        st = open_ahead(p, err);
        if (st == SLIMSET_OK)
            st = submit_ready(p, err);
        if (st == SLIMSET_OK)
            st = write_ready(p, err);
        if (st != SLIMSET_OK || (p->head == p->opened && !next_sample(p, &shard)))
            break;
        if (pool_in_flight(p->job->pool) > 0 && slot_of(p, p->head)->state == SUBMITTED)
            st = take_answers(p, 1000, err);
        else if (pool_in_flight(p->job->pool) > 0)
            st = take_answers(p, 0, err);
    }
    if (st == SLIMSET_OK)
        st = reach_shard(p, p->job->n_todo, err);
    return st;
}

/* What RLIMIT_NOFILE leaves for inputs ahead: workers take two each (slow ones too) and hold WORKER_SLOTS requests, the
 * rest is for folders, archives and shards. */
static size_t ahead_files(unsigned jobs)
{
    struct rlimit l;
    rlim_t reserved = 16 + (4 + WORKER_SLOTS) * (rlim_t)jobs;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur > reserved + AHEAD_FILES)
        return AHEAD_FILES;
    return l.rlim_cur > reserved + 2 ? (size_t)(l.rlim_cur - reserved) : 2;
}

enum slimset_status pipeline_run(struct pipeline_job *job, struct slimset_error *err)
{
    struct pipeline p = {.job = job, .max_ahead_files = ahead_files(job->jobs)};
    p.n_window = job->run->window != 0 ? job->run->window : 256;
    p.window = calloc(p.n_window, sizeof *p.window);
    p.writer = calloc(SHARDS_IN_FLIGHT, sizeof *p.writer);
    enum slimset_status st = SLIMSET_OK;
    if (p.window == NULL || p.writer == NULL) {
        st = err_nomem(err, p.n_window * sizeof *p.window);
        goto out;
    }
    for (size_t i = 0; i < SHARDS_IN_FLIGHT; i++)
        p.writer[i].tar.fd = p.writer[i].stack.fd = -1;
    if (job->n_todo > 0)
        st = loop(&p, err);
    struct slimset_error ignored;
    bool orderly = st == SLIMSET_OK || st == SLIMSET_INTERRUPTED || st == SLIMSET_LIMIT;
    while (orderly && p.begun && p.synced < p.writing) { /* what is finished stays finished */
        enum slimset_status settled = settle_oldest(&p, st == SLIMSET_OK ? err : &ignored);
        if (settled != SLIMSET_OK) {
            st = st == SLIMSET_OK ? settled : st;
            break;
        }
    }
    progress(&p, true);
out:
    for (size_t i = 0; p.window != NULL && i < p.n_window; i++) {
        if (p.window[i].request != NULL)
            request_close(p.window[i].request);
        free(p.window[i].request);
        if (p.window[i].answer != NULL && p.window[i].spill_fd >= 0)
            close(p.window[i].spill_fd);
        free(p.window[i].answer);
        free(p.window[i].text);
    }
    for (size_t i = 0; p.writer != NULL && i < SHARDS_IN_FLIGHT; i++)
        shard_fini(&p.writer[i]);
    free(p.window);
    free(p.writer);
    return st;
}
