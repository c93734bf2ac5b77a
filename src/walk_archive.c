/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of one archive as entries. Directories of archives are untrusted: a lister worker parses
 * them in the sandbox and streams back one record a member, which is checked here.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive.h"
#include "base/hash.h"
#include "base/io.h"
#include "listing.h"
#include "process.h"
#include "webdataset.h"
#include "worker.h"

struct members {
    struct listing *l;
    const struct walk_settings *settings;
    uint16_t source;
    size_t first;    /* entry of the first member */
    bool compressed; /* all members lie in the spool */
    struct archive_result result;
    uint64_t spool_bytes;
};

static enum slimset_status add_member(void *arg, const struct archive_member *m, struct slimset_error *err)
{
    struct members *to = arg;
    struct listing *l = to->l;
    const struct source *s = &l->sources[to->source];
    const char *path = listing_string(l, s->prefix, m->name, m->name_bytes);
    if (path == NULL)
        return err_nomem(err, m->name_bytes);
    struct entry e = {.path = path, .source = to->source, .bytes = m->bytes, .offset = m->offset,
                      .packed_bytes = m->packed_bytes, .crc32 = m->crc32, .method = (uint8_t)m->method,
                      .zip_local = m->zip_local, .has_crc = m->has_crc, .in_spool = m->in_spool || to->compressed,
                      .problem = (uint8_t)m->problem, .mtime_ns = s->mtime_ns, .inode = s->inode};
    e.path_bytes = (uint32_t)(strlen(s->prefix) + m->name_bytes);
    if (listing_is_junk(m->name, m->name_bytes))
        return listing_leave_out(l, path, e.path_bytes, 3, "junk", err);
    if (memchr(m->name, '\0', m->name_bytes) != NULL) { /* cannot be a path: shown as far as it goes */
        e.path_bytes = (uint32_t)strlen(path);
        e.problem = SLIMSET_REJECT_NAME;
    }
    listing_progress(l, to->settings->run);
    enum slimset_status st = listing_add(l, &e, err);
    if (st == SLIMSET_OK && e.problem != SLIMSET_REJECT_NONE)
        listing_tell_problem(l, &l->entries[l->n_entries - 1], to->settings);
    return st;
}

/* What the damaged part of the directory named is lost: one entry for the archive itself is there to be counted. */
static enum slimset_status add_damage(struct members *to, struct slimset_error *err)
{
    struct listing *l = to->l;
    const struct source *s = &l->sources[to->source];
    const char *slash = strrchr(s->path, '/'), *base = slash != NULL ? slash + 1 : s->path;
    struct entry e = {.source = to->source, .mtime_ns = s->mtime_ns, .inode = s->inode, .whole = 1,
                      .problem = SLIMSET_REJECT_CORRUPT};
    e.path = listing_string(l, s->prefix, base, strlen(base));
    if (e.path == NULL)
        return err_nomem(err, strlen(base));
    e.path_bytes = (uint32_t)strlen(e.path);
    enum slimset_status st = listing_add(l, &e, err);
    if (st == SLIMSET_OK)
        listing_tell_problem(l, &l->entries[l->n_entries - 1], to->settings);
    return st;
}

/* A name as listers clean them: no NUL, no component that is empty or dots. What a lister that was taken over sends instead must
 * not become a path. */
static bool name_is_clean(const char *name, size_t n)
{
    for (size_t at = 0; at <= n;) {
        const char *slash = at < n ? memchr(name + at, '/', n - at) : NULL;
        const size_t len = slash != NULL ? (size_t)(slash - name) - at : n - at;
        if (len == 0 || (name[at] == '.' && (len == 1 || (len == 2 && name[at + 1] == '.'))))
            return false;
        at += len + 1;
    }
    return memchr(name, '\0', n) == NULL;
}

/* A record as a lister sent it, checked against the archive's size. */
static enum slimset_status add_record(struct members *to, const struct worker_member *r, const char *name,
                                      struct slimset_error *err)
{
    const struct source *s = &to->l->sources[to->source];
    struct archive_member m = {
        .name = name, .name_bytes = r->name_bytes, .method = r->method, .offset = r->offset, .zip_local = r->zip_local,
        .packed_bytes = r->packed_bytes, .bytes = r->bytes, .crc32 = r->crc32, .has_crc = r->has_crc,
        .in_spool = r->in_spool, .mtime_s = r->mtime_s, .problem = r->problem};
    if (r->method > ARCHIVE_DEFLATE || r->problem >= SLIMSET_REJECT_COUNT ||
        r->name_bytes > archive_limits_default.max_name_bytes + 4096 || (r->problem == SLIMSET_REJECT_NONE && !name_is_clean(name, r->name_bytes)) ||
        ++to->result.members > archive_limits_default.max_members)
        return err_set(err, SLIMSET_INTERNAL, "the lister of %s answered nonsense", s->path);
    if (r->problem == SLIMSET_REJECT_NONE && !r->in_spool && !to->compressed && (r->offset > s->bytes || r->packed_bytes > s->bytes - r->offset))
        m.problem = SLIMSET_REJECT_TRUNCATED;
    return add_member(to, &m, err);
}

static enum slimset_status read_records(struct members *to, const uint8_t *data, size_t n, struct slimset_error *err)
{
    while (n >= sizeof(struct worker_member)) {
        struct worker_member r;
        memcpy(&r, data, sizeof r);
        if (r.record_bytes < sizeof r || r.record_bytes > n || r.name_bytes > r.record_bytes - sizeof r)
            break;
        enum slimset_status st = add_record(to, &r, (const char *)data + sizeof r, err);
        if (st != SLIMSET_OK)
            return st;
        data += r.record_bytes;
        n -= r.record_bytes;
    }
    return n == 0 ? SLIMSET_OK : err_set(err, SLIMSET_INTERNAL, "the lister of %s answered nonsense",
                                         to->l->sources[to->source].path);
}

static enum slimset_status take_result(struct members *to, struct worker_listed *done, struct slimset_error *err)
{
    const char *path = to->l->sources[to->source].path;
    done->text[sizeof done->text - 1] = '\0';
    to->spool_bytes = done->spool_bytes;
    to->result.no_end_marker = done->no_end_marker;
    to->result.concatenated = done->concatenated;
    to->result.damaged = done->damaged;
    snprintf(to->result.damage, sizeof to->result.damage, "%.255s", done->text);
    if (done->status == SLIMSET_OK)
        return SLIMSET_OK;
    if (done->status == SLIMSET_BAD_INPUT && done->reject > 0 && done->reject < SLIMSET_REJECT_COUNT)
        return err_bad(err, done->reject, "%s: %s", path, done->text);
    err_set(err, done->status > SLIMSET_INTERNAL ? SLIMSET_INTERNAL : done->status, "%s: %s", path, done->text);
    err->os_errno = done->os_errno;
    return err->status;
}

/* Waits until the lister has something to say. One that uses CPU and neither unpacks nor says anything hangs. */
static enum slimset_status wait_for_lister(const struct members *to, int sock, int pid, struct slimset_error *err)
{
    const struct source *s = &to->l->sources[to->source];
    const unsigned seconds = to->settings->lister_cpu_seconds != 0 ? to->settings->lister_cpu_seconds : 120;
    int64_t since_ns = process_cpu_ns(pid);
    off_t unpacked = -1;
    for (;;) {
        struct pollfd p = {.fd = sock, .events = POLLIN};
        struct stat st;
        int ready = poll(&p, 1, 500);
        if (to->settings->run->stop != NULL && *to->settings->run->stop)
            return err_set(err, SLIMSET_INTERRUPTED, "interrupted while listing %s", s->path);
        if (ready > 0)
            return SLIMSET_OK;
        if (ready < 0 && errno != EINTR)
            return err_os(err, "listing %s", s->path);
        if (fstat(s->spool_fd, &st) == 0 && st.st_size != unpacked) {
            unpacked = st.st_size;
            since_ns = process_cpu_ns(pid);
        } else if (process_cpu_ns(pid) - since_ns > (int64_t)seconds * 1000000000) {
            return err_set(err, SLIMSET_LIMIT, "%s: listing it took more than %u s of CPU time and got nowhere", s->path, seconds);
        }
    }
}

/* Messages until the result. */
static enum slimset_status receive_all(struct members *to, int sock, int pid, struct slimset_error *err)
{
    static uint8_t message[1 << 17];
    const char *path = to->l->sources[to->source].path;
    for (;;) {
        enum slimset_status st = wait_for_lister(to, sock, pid, err);
        if (st != SLIMSET_OK)
            return st;
        ssize_t n = recv(sock, message, sizeof message, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_os(err, "listing %s", path);
        if (n == 0)
            return err_bad(err, SLIMSET_REJECT_DECODER_CRASH, "%s: listing it crashed", path);
        if ((size_t)n == sizeof(struct worker_listed) && get_le32(message) == 0) {
            struct worker_listed done;
            memcpy(&done, message, sizeof done);
            return take_result(to, &done, err);
        }
        st = read_records(to, message, (size_t)n, err);
        if (st != SLIMSET_OK)
            return st;
    }
}

static enum slimset_status list_in_worker(struct members *to, const struct worker_list_request *req,
                                          struct slimset_error *err)
{
    const struct source *s = &to->l->sources[to->source];
    int pair[2], pid, fds[2] = {s->fd, s->spool_fd};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return err_os(err, "starting a lister");
    enum slimset_status st = process_start("list", pair[1], -1, &pid, err);
    close(pair[1]);
    if (st == SLIMSET_OK) {
        st = process_send(pair[0], req, sizeof *req, fds, 1 + req->has_spool, err);
        if (st == SLIMSET_OK)
            st = receive_all(to, pair[0], pid, err);
        close(pair[0]); /* a lister that is still busy ends on its next message */
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    } else {
        close(pair[0]);
    }
    return st;
}

static enum slimset_status list_here(struct members *to, const struct worker_list_request *req, struct slimset_error *err)
{
    const struct source *s = &to->l->sources[to->source];
    int fd = s->fd, spool_fd = s->spool_fd;
    enum image_format format = req->format;
    uint64_t bytes = req->bytes;
    struct archive_limits limits = archive_limits_default;
    limits.check_space = archive_check_space;
    limits.space_arg = &spool_fd;
    enum slimset_status st = SLIMSET_OK;
    if (format != FORMAT_TAR && format != FORMAT_ZIP) {
        st = archive_spool(fd, 0, bytes, format, spool_fd, UINT64_MAX, archive_check_space, &spool_fd, &bytes, err);
        fd = spool_fd;
        format = FORMAT_TAR;
        to->spool_bytes = bytes;
    }
    if (st == SLIMSET_OK)
        st = archive_list(fd, 0, bytes, format, 1, spool_fd, &limits, add_member, to, &to->result, err);
    if (st != SLIMSET_OK) {
        struct slimset_error why = *err;
        snprintf(err->text, sizeof err->text, "%.200s: %.300s", s->path, why.text);
    }
    return st;
}

/* A nameless file in the work folder for unpacked bytes. */
static enum slimset_status open_spool(const struct walk_settings *settings, struct source *s, struct slimset_error *err)
{
    s->spool_fd = io_nameless(settings->work_dir, "spool", err);
    return s->spool_fd >= 0 ? SLIMSET_OK : err->status;
}

static void tell_unpacking(const struct source *s, const struct slimset_run *run)
{
    struct statvfs v;
    if (fstatvfs(s->spool_fd, &v) == 0)
        run_note(run, SLIMSET_EVENT_NOTE, "%s: is compressed; unpacking it once into the work folder (%.1f GB free there)",
                 s->path, (double)v.f_bavail * (double)v.f_frsize / 1e9);
    else
        run_note(run, SLIMSET_EVENT_NOTE, "%s: is compressed; unpacking it once into the work folder", s->path);
}

static void tell(const struct members *to)
{
    const struct source *s = &to->l->sources[to->source];
    const struct slimset_run *run = to->settings->run;
    if (to->result.damaged)
        run_note(run, SLIMSET_EVENT_WARNING, "%s: %s; the members before it are used", s->path, to->result.damage);
    if (to->result.no_end_marker)
        run_note(run, SLIMSET_EVENT_WARNING, "%s: has no end-of-archive marker: it may have been cut between two members", s->path);
    if (to->result.concatenated)
        run_note(run, SLIMSET_EVENT_NOTE, "%s: several tar archives one behind the other; all were read", s->path);
    if (s->webdataset)
        run_note(run, SLIMSET_EVENT_NOTE, "%s: is WebDataset: keys and fields are kept as they are", s->path);
}

enum slimset_status walk_archive(struct listing *l, uint16_t source, const struct walk_settings *settings,
                                 struct slimset_error *err)
{
    struct source *s = &l->sources[source];
    bool compressed = s->format != FORMAT_TAR && s->format != FORMAT_ZIP;
    struct members to = {.l = l, .settings = settings, .source = source, .first = l->n_entries, .compressed = compressed};
    struct worker_list_request req = {.bytes = s->bytes, .format = s->format, .has_spool = 1};
    enum slimset_status st = open_spool(settings, s, err);
    if (st != SLIMSET_OK)
        return st;
    if (compressed)
        tell_unpacking(s, settings->run);
    st = settings->run->in_process ? list_here(&to, &req, err) : list_in_worker(&to, &req, err);
    if (st == SLIMSET_BAD_INPUT) { /* an archive that cannot be listed at all makes no sense as a source */
        struct slimset_error why = *err;
        return l->n_entries > to.first ? err_set(err, SLIMSET_USAGE, "%.480s (members before it were listed, none is used)", why.text)
                                       : err_set(err, SLIMSET_USAGE, "%.500s", why.text);
    }
    if (st != SLIMSET_OK)
        return st;
    /* Workers only read it: a descriptor that cannot write is what they get. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->spool_fd);
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    if (read_only >= 0) {
        close(s->spool_fd);
        s->spool_fd = read_only;
    }
    s->webdataset = settings->recipe->webdataset && (s->format == FORMAT_TAR || compressed) &&
                    webdataset_is(l->entries + to.first, l->n_entries - to.first, strlen(s->prefix));
    tell(&to);
    return to.result.damaged ? add_damage(&to, err) : SLIMSET_OK;
}

/* --- keys of several archives --- */

struct claim {
    uint64_t hash; /* of what a key cannot be longer than */
    uint16_t source;
};

static int by_claim(const void *pa, const void *pb)
{
    const struct claim *a = pa, *b = pb;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : (a->source > b->source) - (a->source < b->source);
}

static size_t bare_from(const struct listing *l, const struct entry *e)
{
    const struct source *s = &l->sources[e->source];
    return s->webdataset ? strlen(s->prefix) : 0;
}

/* Would any two sources share a key if WebDataset archives had no prefix? Files of one key agree in their path up to the
 * first dot of the name. */
static enum slimset_status keys_clash(const struct listing *l, bool *clash, struct slimset_error *err)
{
    struct claim *c = malloc((l->n_entries + 1) * sizeof *c);
    if (c == NULL)
        return err_nomem(err, l->n_entries * sizeof *c);
    for (size_t i = 0; i < l->n_entries; i++) {
        const struct entry *e = &l->entries[i];
        const size_t skip = bare_from(l, e), n = webdataset_key_bytes(e->path + skip, e->path_bytes - skip);
        c[i] = (struct claim){hash_bytes(e->path + skip, n != 0 ? n : e->path_bytes - skip), e->source};
    }
    *clash = false;
    qsort(c, l->n_entries, sizeof *c, by_claim);
    for (size_t i = 1; i < l->n_entries && !*clash; i++)
        *clash = c[i].hash == c[i - 1].hash && c[i].source != c[i - 1].source;
    free(c);
    return SLIMSET_OK;
}

enum slimset_status walk_bare_keys(struct listing *l, const struct slimset_run *run, struct slimset_error *err)
{
    bool any = false, clash = false;
    for (size_t i = 0; i < l->n_sources; i++)
        any |= l->sources[i].webdataset && l->sources[i].prefix[0] != '\0';
    if (!any)
        return SLIMSET_OK;
    enum slimset_status st = keys_clash(l, &clash, err);
    if (st != SLIMSET_OK)
        return st;
    if (clash) {
        run_note(run, SLIMSET_EVENT_NOTE, "several sources have the same keys: each WebDataset key has its archive's name in front");
        return SLIMSET_OK;
    }
    for (size_t i = 0; i < l->n_entries; i++) {
        struct entry *e = &l->entries[i];
        const uint32_t skip = (uint32_t)bare_from(l, e);
        e->path += skip;
        e->path_bytes -= skip;
        e->dir_bytes -= skip;
        e->name = e->path;
        e->name_dir_bytes = e->dir_bytes;
    }
    for (size_t i = 0; i < l->n_sources; i++)
        if (l->sources[i].webdataset)
            l->sources[i].prefix[0] = '\0';
    return SLIMSET_OK;
}
