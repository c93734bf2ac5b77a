/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "convert.h"
#include "process.h"
#include "vips_read.h"
#include "worker.h"

enum { JOBS_MAX = 1024, PUNCH_BYTES = 4 << 20 };

/* A request on its way. */
struct flight {
    struct item_request *req;
    int fds[ITEM_INPUTS_MAX + 1]; /* with the spill's */
    unsigned work_seconds; /* of CPU that it may need beside cpu_seconds */
    bool slow;       /* only a slow worker can serve it */
    unsigned deaths; /* workers that ended on it */
    struct flight *next;
};

struct worker {
    pid_t pid;       /* 0: not running */
    int sock;
    int slots_fd;
    bool slow;
    bool alone;      /* serves one suspect request and nothing beside it */
    unsigned n;      /* requests it holds, oldest first */
    struct flight *held[WORKER_SLOTS];
    uint32_t slots_used; /* bits */
    int64_t cpu_ns;  /* of the process when its oldest request was first seen to take long; -1 not yet */
};

struct pool {
    struct pool_settings settings;
    unsigned n_workers, in_flight, crashes, crashes_in_row, layers;
    uint32_t vips;
    struct worker *worker;             /* jobs fast ones, then jobs slow ones */
    struct flight *waiting_first, **waiting_last; /* for a slow worker, or for a retry alone */
    struct converter *fast, *slow;     /* in-process */
    struct flight *queued_first, **queued_last;   /* in-process */
};

/* --- processes ----------------------------------------------------------------------------------- */

static void worker_free(struct worker *w)
{
    if (w->slots_fd > 0)
        close(w->slots_fd);
    if (w->sock > 0)
        close(w->sock);
    *w = (struct worker){.slow = w->slow};
}

/* How a worker ended that is about to: one that only hangs up and lives on is killed after a while. */
static int reap(pid_t pid)
{
    int status = 0;
    for (int ms = 0;; ms++) {
        pid_t got = waitpid(pid, &status, ms < 2000 ? WNOHANG : 0);
        if (got == pid || (got < 0 && errno != EINTR))
            return status;
        if (ms == 1999)
            kill(pid, SIGKILL);
        if (got == 0)
            usleep(1000);
    }
}

/* Ends an idle worker. */
static void worker_end(struct worker *w)
{
    close(w->sock);
    w->sock = 0;
    reap(w->pid);
    worker_free(w);
}

/* A message to a worker. One that has died meanwhile is no error: the next poll sees that and takes its requests back. */
static enum slimset_status tell_worker(const struct worker *w, const void *data, size_t n, const int *fds, unsigned n_fds,
                                       struct slimset_error *err)
{
    enum slimset_status st = process_send(w->sock, data, n, fds, n_fds, err);
    return st == SLIMSET_IO && (err->os_errno == EPIPE || err->os_errno == ECONNRESET) ? SLIMSET_OK : st;
}

static enum slimset_status worker_start(struct pool *p, struct worker *w, struct slimset_error *err)
{
    int pair[2];
    struct worker_hello hello = {.recipe = *p->settings.recipe, .spills = p->settings.spills};
    for (size_t i = 0; i < hello.recipe.n_settings; i++)
        hello.settings[i] = hello.recipe.settings[i];
    hello.recipe.rules = NULL;
    hello.recipe.n_rules = 0;
    hello.recipe.joins = NULL;
    hello.recipe.n_joins = 0;
    hello.recipe.settings = NULL;
    hello.recipe.group_by = NULL;
    enum slimset_status st;
    w->slots_fd = memfd_create("slimset-slots", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->slots_fd < 0)
        return err_os(err, "creating shared memory for a worker");
    if (ftruncate(w->slots_fd, (off_t)(WORKER_SLOTS * WORKER_SLOT_BYTES)) != 0 ||
        fcntl(w->slots_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        st = err_os(err, "sizing shared memory for a worker");
        worker_free(w);
        return st;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        st = err_os(err, "creating a worker's socket");
        worker_free(w);
        return st;
    }
    w->sock = pair[0];
    st = process_start(w->slow ? "slow" : "fast", pair[1], w->slots_fd, &w->pid, err);
    close(pair[1]);
    if (st == SLIMSET_OK)
        st = tell_worker(w, &hello, sizeof hello, NULL, 0, err);
    if (st != SLIMSET_OK)
        worker_free(w);
    return st;
}

/* --- flights ----------------------------------------------------------------------------------------- */

static size_t request_bytes(const struct item_request *req)
{
    return offsetof(struct item_request, input) + req->n_inputs * sizeof req->input[0];
}

static struct flight *flight_new(const struct item_request *req, const int *fds)
{
    struct flight *f = calloc(1, sizeof *f);
    size_t n = request_bytes(req);
    if (f == NULL || (f->req = malloc(n)) == NULL) {
        free(f);
        return NULL;
    }
    memcpy(f->req, req, n);
    memcpy(f->fds, fds, req->n_fds * sizeof fds[0]);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < req->n_inputs; i++)
        bytes += req->input[i].bytes >> 21;
    f->work_seconds = bytes < 1000000 ? (unsigned)bytes : 1000000;
    return f;
}

/* A nameless file for payloads that are too large for a slot. */
static enum slimset_status add_spill(const struct pool *p, struct flight *f, struct slimset_error *err)
{
    int fd = io_nameless(p->settings.spill_dir, "spill", err);
    if (fd < 0)
        return err->status;
    f->fds[f->req->n_fds++] = fd;
    return SLIMSET_OK;
}

/* The answer takes over the spill of a conversion; others have nothing in it that is wanted. */
static int take_spill(struct flight *f)
{
    return f->req->has_spill && f->req->op == ITEM_CONVERT ? f->fds[--f->req->n_fds] : -1;
}

static void flight_free(struct flight *f)
{
    for (uint32_t i = 0; i < f->req->n_fds; i++)
        close(f->fds[i]);
    free(f->req);
    free(f);
}

/* A worker that was taken over cannot fill the disk: no file of it grows beyond what the largest spill it holds may have. An honest
 * one keeps to each spill's own limit. Its hard limit stays, since only root could raise it again. */
static void limit_spills(const struct worker *w)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < w->n; i++)
        if (w->held[i]->req->has_spill) {
            uint64_t mib = w->held[i]->req->spill_mib;
            most = mib == 0 ? UINT64_MAX : mib << 20 > most ? mib << 20 : most;
        }
    struct rlimit limit;
    if (prlimit(w->pid, RLIMIT_FSIZE, NULL, &limit) == 0) {
        limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
        prlimit(w->pid, RLIMIT_FSIZE, &limit, NULL);
    }
}

static enum slimset_status hand_over(struct worker *w, struct flight *f, struct slimset_error *err)
{
    uint32_t slot = 0;
    if (f->deaths > 0 && f->req->has_spill && ftruncate(f->fds[f->req->n_fds - 1], 0) != 0)
        return err_os(err, "emptying a spill file");
    while (w->slots_used & 1u << slot)
        slot++;
    f->req->slot = slot;
    if (w->n == 0)
        w->cpu_ns = -1;
    w->slots_used |= 1u << slot;
    w->held[w->n++] = f;
    if (f->req->has_spill)
        limit_spills(w);
    return tell_worker(w, f->req, request_bytes(f->req), f->fds, f->req->n_fds, err);
}

/* A worker of the kind with room, the emptiest one; a slow one is started where none runs idle. */
static struct worker *find_worker(struct pool *p, bool slow)
{
    struct worker *best = NULL;
    for (unsigned i = 0; i < p->n_workers; i++) {
        struct worker *w = &p->worker[i];
        if (w->slow != slow || w->alone || w->n >= WORKER_SLOTS)
            continue;
        if (best == NULL || w->n < best->n || (w->n == best->n && w->pid != 0 && best->pid == 0))
            best = w;
    }
    return best;
}

static void wait_for_worker(struct pool *p, struct flight *f)
{
    f->next = NULL;
    *p->waiting_last = f;
    p->waiting_last = &f->next;
}

/* Gives waiting requests (slow ones, suspects) to workers that can take them. */
static enum slimset_status serve_waiting(struct pool *p, struct slimset_error *err)
{
    struct flight **at = &p->waiting_first;
    while (*at != NULL) {
        struct flight *f = *at;
        struct worker *w = find_worker(p, f->slow);
        bool suspect = f->deaths > 0;
        if (w == NULL || (suspect && w->n != 0)) {
            at = &f->next;
            continue;
        }
        if (suspect && w->pid != 0)
            worker_end(w); /* what it has served before must not be blamed on this one */
        if (w->pid == 0) {
            enum slimset_status st = worker_start(p, w, err);
            if (st != SLIMSET_OK)
                return st;
        }
        *at = f->next;
        if (*at == NULL)
            p->waiting_last = at;
        w->alone = suspect;
        enum slimset_status st = hand_over(w, f, err);
        if (st != SLIMSET_OK)
            return st;
    }
    return SLIMSET_OK;
}

/* --- open, close, submit -------------------------------------------------------------------------------- */

enum slimset_status pool_open(const struct pool_settings *settings, struct pool **out, struct slimset_error *err)
{
    struct pool *p = calloc(1, sizeof *p);
    enum slimset_status st = SLIMSET_OK;
    if (p == NULL)
        return err_nomem(err, sizeof *p);
    p->settings = *settings;
    p->waiting_last = &p->waiting_first;
    p->queued_last = &p->queued_first;
    if (p->settings.jobs < 1)
        p->settings.jobs = 1;
    if (p->settings.jobs > JOBS_MAX)
        p->settings.jobs = JOBS_MAX;
    if (p->settings.cpu_seconds == 0)
        p->settings.cpu_seconds = 120;
    if (p->settings.crash_limit == 0)
        p->settings.crash_limit = 20;
    if (settings->in_process) {
        p->fast = converter_new(settings->recipe, false);
        if (p->fast == NULL)
            st = err_nomem(err, sizeof *p);
    } else {
        p->n_workers = 2 * p->settings.jobs;
        p->worker = calloc(p->n_workers, sizeof *p->worker);
        if (p->worker == NULL) {
            p->n_workers = 0;
            st = err_nomem(err, sizeof *p->worker);
        }
        for (unsigned i = 0; i < p->n_workers && st == SLIMSET_OK; i++) {
            p->worker[i].slow = i >= p->settings.jobs;
            if (!p->worker[i].slow)
                st = worker_start(p, &p->worker[i], err);
        }
    }
    if (st != SLIMSET_OK) {
        pool_close(p);
        return st;
    }
    *out = p;
    return SLIMSET_OK;
}

static void free_list(struct flight *f)
{
    while (f != NULL) {
        struct flight *next = f->next;
        flight_free(f);
        f = next;
    }
}

void pool_close(struct pool *p)
{
    if (p == NULL)
        return;
    for (unsigned i = 0; i < p->n_workers; i++) {
        struct worker *w = &p->worker[i];
        if (w->pid == 0)
            continue;
        if (w->n > 0)
            kill(w->pid, SIGKILL);
        close(w->sock); /* an idle worker ends by itself; one that does not is killed */
        w->sock = 0;
        reap(w->pid);
        for (unsigned k = 0; k < w->n; k++)
            flight_free(w->held[k]);
        worker_free(w);
    }
    free_list(p->waiting_first);
    free_list(p->queued_first);
    converter_free(p->fast);
    converter_free(p->slow);
    free(p->worker);
    free(p);
}

bool pool_has_room(const struct pool *p)
{
    if (p->settings.in_process)
        return p->queued_first == NULL;
    unsigned waiting = 0; /* a pile of slow requests must not outgrow the window */
    for (const struct flight *f = p->waiting_first; f != NULL; f = f->next)
        waiting++;
    if (waiting >= 4 * p->settings.jobs)
        return false;
    for (unsigned i = 0; i < p->n_workers; i++)
        if (!p->worker[i].slow && !p->worker[i].alone && p->worker[i].n < WORKER_SLOTS)
            return true;
    return false;
}

unsigned pool_in_flight(const struct pool *p)
{
    return p->in_flight;
}

enum slimset_status pool_submit(struct pool *p, const struct item_request *req, const int *fds, struct slimset_error *err)
{
    struct flight *f = flight_new(req, fds);
    if (f == NULL) {
        for (uint32_t i = 0; i < req->n_fds; i++)
            close(fds[i]);
        return err_nomem(err, request_bytes(req));
    }
    if (req->has_spill && add_spill(p, f, err) != SLIMSET_OK) {
        flight_free(f);
        return err->status;
    }
    p->in_flight++;
    if (p->settings.in_process) {
        *p->queued_last = f;
        p->queued_last = &f->next;
        return SLIMSET_OK;
    }
    struct worker *w = find_worker(p, false);
    if (w == NULL) { /* no room after all: wait like a slow one */
        wait_for_worker(p, f);
        return SLIMSET_OK;
    }
    if (w->pid == 0) {
        enum slimset_status st = worker_start(p, w, err);
        if (st != SLIMSET_OK) {
            flight_free(f);
            p->in_flight--;
            return st;
        }
    }
    return hand_over(w, f, err);
}

/* --- answers --------------------------------------------------------------------------------------------- */

/* An answer that a worker could not give itself. */
static enum slimset_status answer_reject(struct pool *p, struct flight *f, enum slimset_reject reject, const char *text,
                                         struct pool_answer *out, struct slimset_error *err)
{
    size_t n = sizeof(struct item_answer) + strlen(text);
    struct item_answer *a = calloc(1, n);
    if (a == NULL)
        return err_nomem(err, n);
    a->ticket = f->req->ticket;
    a->status = SLIMSET_BAD_INPUT;
    a->reject = reject;
    a->text_bytes = (uint32_t)strlen(text);
    a->blob_bytes = n;
    memcpy(a + 1, text, a->text_bytes);
    *out = (struct pool_answer){.ticket = a->ticket, .answer = a, .spill_fd = -1};
    p->in_flight--;
    flight_free(f);
    return SLIMSET_OK;
}

/* Out of memory: the first time it is tried again, in a fresh worker. */
static bool try_again(struct pool *p, struct flight *f)
{
    if (f->deaths++ > 0)
        return false;
    wait_for_worker(p, f);
    return true;
}

/* Takes the copied blob as the answer of f, or sends f on to a slow worker. */
static enum slimset_status accept_blob(struct pool *p, struct flight *f, uint8_t *blob, size_t n, struct pool_answer *out,
                                       bool *got, uint64_t *culprit, struct slimset_error *err)
{
    enum slimset_status st = item_answer_check(f->req, blob, n, err);
    struct item_answer *a = (struct item_answer *)(void *)blob;
    *culprit = f->req->ticket;
    if (st != SLIMSET_OK) {
        free(blob);
        flight_free(f);
        p->in_flight--;
        return st;
    }
    if (a->status == SLIMSET_NEED_SLOW && !f->slow) {
        free(blob);
        f->slow = true;
        wait_for_worker(p, f);
        return SLIMSET_OK;
    }
    if (a->status == SLIMSET_NEED_SLOW) {
        free(blob);
        *got = true;
        return answer_reject(p, f, SLIMSET_REJECT_NO_DECODER, "no decoder for this format here (libvips is missing)", out, err);
    }
    if (a->status == SLIMSET_NO_MEMORY && try_again(p, f)) {
        free(blob);
        return SLIMSET_OK;
    }
    if (a->status == SLIMSET_NO_MEMORY || a->status == SLIMSET_IO || a->status == SLIMSET_INTERNAL) {
        st = err_set(err, a->status, "%.*s", (int)a->text_bytes, item_text(a));
        err->os_errno = a->os_errno;
        free(blob);
        flight_free(f);
        p->in_flight--;
        return st;
    }
    *got = true;
    *out = (struct pool_answer){.ticket = a->ticket, .answer = a, .spill_fd = take_spill(f)};
    p->in_flight--;
    p->crashes_in_row = 0;
    flight_free(f);
    return SLIMSET_OK;
}

static struct flight *take_oldest(struct worker *w)
{
    struct flight *f = w->held[0];
    w->n--;
    memmove(w->held, w->held + 1, w->n * sizeof w->held[0]);
    w->slots_used &= ~(1u << f->req->slot);
    w->cpu_ns = -1;
    w->alone = false;
    return f;
}

static enum slimset_status read_answer(struct pool *p, struct worker *w, const struct worker_answer *msg,
                                       struct pool_answer *out, bool *got, uint64_t *culprit, struct slimset_error *err)
{
    if (w->n == 0 || msg->ticket != w->held[0]->req->ticket || msg->slot != w->held[0]->req->slot ||
        msg->blob_bytes > WORKER_SLOT_BYTES || (msg->blob_bytes != 0 && msg->blob_bytes < sizeof(struct item_answer)))
        return err_set(err, SLIMSET_INTERNAL, "a worker answered with another item's number");
    p->layers = msg->layers;
    if (w->slow)
        p->vips = msg->vips;
    struct flight *f = take_oldest(w);
    *culprit = f->req->ticket;
    size_t n = msg->blob_bytes, at = msg->slot * WORKER_SLOT_BYTES;
    if (n == 0 && try_again(p, f))
        return SLIMSET_OK;
    uint8_t *blob = n > 0 ? malloc(n) : NULL;
    if (blob == NULL) {
        flight_free(f);
        p->in_flight--;
        return n == 0 ? err_set(err, SLIMSET_NO_MEMORY, "a worker ran out of memory") : err_nomem(err, n);
    }
    size_t copied; /* a private copy first; what the worker does to the slot afterwards changes nothing */
    enum slimset_status st = io_pread(w->slots_fd, blob, n, at, &copied, "a worker's answer", err);
    if (st == SLIMSET_OK && copied != n)
        st = err_set(err, SLIMSET_INTERNAL, "a worker's answer is shorter than it says");
    if (st != SLIMSET_OK) {
        free(blob);
        flight_free(f);
        p->in_flight--;
        return st;
    }
    if (n > PUNCH_BYTES)
        fallocate(w->slots_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)WORKER_SLOT_BYTES);
    return accept_blob(p, f, blob, n, out, got, culprit, err);
}

static bool own_signal(int status)
{
    if (!WIFSIGNALED(status))
        return false;
    int s = WTERMSIG(status);
    return s == SIGSEGV || s == SIGABRT || s == SIGBUS || s == SIGFPE || s == SIGILL || s == SIGSYS;
}

/* A worker has ended. Its oldest request is the suspect, the others go back unharmed. */
static enum slimset_status worker_died(struct pool *p, struct worker *w, bool hung, struct pool_answer *out, bool *got,
                                       uint64_t *culprit, struct slimset_error *err)
{
    int status = reap(w->pid);
    struct flight *suspect = w->n > 0 ? w->held[0] : NULL;
    for (unsigned i = w->n; i-- > 1;) { /* back to the front, in order */
        struct flight *f = w->held[i];
        f->next = p->waiting_first;
        if (p->waiting_first == NULL)
            p->waiting_last = &f->next;
        p->waiting_first = f;
    }
    worker_free(w);
    p->crashes++;
    if (suspect == NULL)
        return ++p->crashes_in_row > p->settings.crash_limit
                   ? err_set(err, SLIMSET_LIMIT, "workers do not start (exit status %d)", status)
                   : SLIMSET_OK;
    *culprit = suspect->req->ticket;
    suspect->deaths++;
    if (++p->crashes_in_row > p->settings.crash_limit) {
        flight_free(suspect);
        p->in_flight--;
        return err_set(err, SLIMSET_LIMIT, "%u worker crashes in a row: something is wrong beyond single inputs",
                       p->settings.crash_limit);
    }
    if (suspect->deaths < 2) {
        wait_for_worker(p, suspect);
        return SLIMSET_OK;
    }
    if (own_signal(status) && !hung) {
        *got = true;
        char text[96];
        snprintf(text, sizeof text, "the decoder crashed on it twice (%s)", strsignal(WTERMSIG(status)));
        return answer_reject(p, suspect, SLIMSET_REJECT_DECODER_CRASH, text, out, err);
    }
    unsigned work_seconds = suspect->work_seconds;
    flight_free(suspect);
    p->in_flight--;
    if (hung)
        return err_set(err, SLIMSET_LIMIT, "took more than %u s of CPU time twice", p->settings.cpu_seconds + work_seconds);
    return err_set(err, SLIMSET_LIMIT, "its worker was killed or ran out of memory twice (%s %d)",
                   WIFSIGNALED(status) ? "signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static enum slimset_status next_in_process(struct pool *p, struct pool_answer *out, bool *got, uint64_t *culprit,
                                           struct slimset_error *err)
{
    struct flight *f = p->queued_first;
    if (f == NULL)
        f = p->waiting_first;
    if (f == NULL)
        return SLIMSET_OK;
    if (f == p->queued_first && (p->queued_first = f->next) == NULL)
        p->queued_last = &p->queued_first;
    else if (f == p->waiting_first && (p->waiting_first = f->next) == NULL)
        p->waiting_last = &p->waiting_first;
    if (f->slow && p->slow == NULL) {
        struct image_limits limits = image_limits_default;
        struct slimset_error ignored;
        limits.max_pixels = p->settings.recipe->max_pixels;
        vips_start(&limits, &ignored);
        p->slow = converter_new(p->settings.recipe, true);
        if (p->slow == NULL)
            return err_nomem(err, sizeof *p);
    }
    struct buf blob = {0};
    *culprit = f->req->ticket;
    enum slimset_status st = convert_item(f->slow ? p->slow : p->fast, f->req, f->fds, &blob, err);
    if (st != SLIMSET_OK) {
        buf_fini(&blob);
        flight_free(f);
        return st;
    }
    return accept_blob(p, f, blob.data, blob.len, out, got, culprit, err);
}

/* Kills workers whose oldest request uses too much CPU. */
static void watch(struct pool *p, bool *hung)
{
    for (unsigned i = 0; i < p->n_workers; i++) {
        struct worker *w = &p->worker[i];
        int64_t now = w->pid != 0 && w->n > 0 ? process_cpu_ns(w->pid) : 0;
        if (w->cpu_ns < 0) /* the first look at this request */
            w->cpu_ns = now;
        hung[i] = now - w->cpu_ns > ((int64_t)p->settings.cpu_seconds + (w->n > 0 ? w->held[0]->work_seconds : 0)) * 1000000000;
        if (hung[i])
            kill(w->pid, SIGKILL);
    }
}

enum slimset_status pool_next(struct pool *p, int timeout_ms, struct pool_answer *out, bool *got, uint64_t *culprit,
                              struct slimset_error *err)
{
    struct pollfd fds[2 * JOBS_MAX];
    unsigned at[2 * JOBS_MAX], n = 0;
    bool hung[2 * JOBS_MAX] = {false};
    *got = false;
    if (p->settings.in_process)
        return next_in_process(p, out, got, culprit, err);
    enum slimset_status st = serve_waiting(p, err);
    if (st != SLIMSET_OK)
        return st;
    for (unsigned i = 0; i < p->n_workers; i++)
        if (p->worker[i].pid != 0) {
            at[n] = i;
            fds[n++] = (struct pollfd){.fd = p->worker[i].sock, .events = POLLIN};
        }
    int ready = poll(fds, n, timeout_ms);
    if (ready < 0 && errno != EINTR)
        return err_os(err, "waiting for workers");
    if (ready == 0 && timeout_ms != 0)
        watch(p, hung);
    for (unsigned k = 0; k < n; k++) {
        struct worker *w = &p->worker[at[k]];
        struct worker_answer msg;
        if (ready <= 0 && !hung[at[k]])
            continue;
        if (!hung[at[k]] && fds[k].revents == 0)
            continue;
        ssize_t n_got;
        do /* a worker that died with requests unread: the reset comes before the answers that it gave */
            n_got = recv(w->sock, &msg, sizeof msg, MSG_TRUNC | (hung[at[k]] ? MSG_DONTWAIT : 0));
        while (n_got < 0 && (errno == ECONNRESET || errno == EINTR));
        if (n_got == sizeof msg)
            return read_answer(p, w, &msg, out, got, culprit, err);
        return worker_died(p, w, hung[at[k]], out, got, culprit, err);
    }
    return SLIMSET_OK;
}

void pool_facts(const struct pool *p, unsigned *crashes, unsigned *layers)
{
    *crashes = p->crashes;
    *layers = p->layers;
}

uint32_t pool_vips_version(const struct pool *p)
{
    return p->vips;
}
