/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "listing.h"
#include "sniff.h"

enum {
    DEPTH_MAX = 128,     /* folders deeper than this are a mistake or an attack */
    LINKED_VISITS = 64   /* of one folder through links: folders with two links each to the next would be walked 2^n times */
};

struct linked {
    dev_t dev;
    ino_t ino;
    unsigned visits; /* 0: a free place */
};

struct walk {
    struct listing *l;
    const struct walk_settings *settings;
    uint16_t source;
    struct stat out;                 /* of OUT, when known */
    bool has_out;
    unsigned depth;
    struct { dev_t dev; ino_t ino; } above[DEPTH_MAX]; /* the folders we are in: a link back to one is a loop */
    struct linked *linked;           /* folders entered through a link, by hash; half of the places free at least */
    size_t n_linked, cap_linked;     /* cap: 0 or a power of two */
    char path[8192];                 /* below the source, bytes */
};

static enum slimset_status walk_folder(struct walk *w, int fd, size_t path_bytes, struct slimset_error *err);

static enum slimset_status add(struct walk *w, size_t n, const struct stat *st, enum slimset_reject problem,
                               struct slimset_error *err)
{
    struct listing *l = w->l;
    struct entry e = {.source = w->source, .problem = problem};
    e.path = listing_string(l, l->sources[w->source].prefix, w->path, n);
    if (e.path == NULL)
        return err_nomem(err, n);
    e.path_bytes = (uint32_t)(strlen(l->sources[w->source].prefix) + n);
    if (st != NULL) {
        e.bytes = (uint64_t)st->st_size;
        e.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
        e.inode = st->st_ino;
    }
    listing_progress(l, w->settings->run);
    enum slimset_status status = listing_add(l, &e, err);
    if (status == SLIMSET_OK && problem != SLIMSET_REJECT_NONE)
        listing_tell_problem(l, &l->entries[l->n_entries - 1], w->settings);
    return status;
}

/* The fault of a stat or an open of w->path: an entry with a problem, or an end to the run that blames no input. */
static enum slimset_status fault(struct walk *w, size_t n, bool link, struct slimset_error *err)
{
    const struct source *s = &w->l->sources[w->source];
    const int os_errno = errno;
    enum slimset_reject problem = listing_fault(os_errno);
    if (problem == SLIMSET_REJECT_NONE) {
        errno = os_errno;
        return err_os(err, "listing %s/%s", s->path, w->path);
    }
    if (problem == SLIMSET_REJECT_VANISHED && listing_source_is_gone(s))
        return err_set(err, SLIMSET_IO, "the source folder %s was deleted", s->path);
    if (link && (problem == SLIMSET_REJECT_VANISHED || problem == SLIMSET_REJECT_NAME))
        problem = SLIMSET_REJECT_LINK;
    return add(w, n, NULL, problem, err);
}

static struct linked *linked_place(struct linked *table, size_t cap, dev_t dev, ino_t ino)
{
    const uint64_t key[2] = {dev, ino};
    size_t i = hash_bytes(key, sizeof key) & (cap - 1);
    while (table[i].visits != 0 && (table[i].dev != dev || table[i].ino != ino))
        i = (i + 1) & (cap - 1);
    return &table[i];
}

/* Counts one more visit of a folder through a link. *often: it had as many as there may be. */
static enum slimset_status count_linked(struct walk *w, const struct stat *st, bool *often, struct slimset_error *err)
{
    if (2 * (w->n_linked + 1) > w->cap_linked) {
        size_t cap = w->cap_linked != 0 ? 2 * w->cap_linked : 64;
        struct linked *grown = calloc(cap, sizeof *grown);
        if (grown == NULL)
            return err_nomem(err, cap * sizeof *grown);
        for (size_t i = 0; i < w->cap_linked; i++)
            if (w->linked[i].visits != 0)
                *linked_place(grown, cap, w->linked[i].dev, w->linked[i].ino) = w->linked[i];
        free(w->linked);
        w->linked = grown;
        w->cap_linked = cap;
    }
    struct linked *to = linked_place(w->linked, w->cap_linked, st->st_dev, st->st_ino);
    *often = to->visits >= LINKED_VISITS;
    if (to->visits == 0) {
        to->dev = st->st_dev;
        to->ino = st->st_ino;
        w->n_linked++;
    }
    to->visits += !*often;
    return SLIMSET_OK;
}

static bool is_above(const struct walk *w, const struct stat *st)
{
    for (unsigned i = 0; i < w->depth; i++)
        if (w->above[i].dev == st->st_dev && w->above[i].ino == st->st_ino)
            return true;
    return false;
}

static enum slimset_status leave_out(struct walk *w, size_t n, uint32_t kind, const char *text, struct slimset_error *err)
{
    const char *prefix = w->l->sources[w->source].prefix;
    const char *path = listing_string(w->l, prefix, w->path, n);
    return path == NULL ? err_nomem(err, n)
                        : listing_leave_out(w->l, path, (uint32_t)(strlen(prefix) + n), kind, text, err);
}

static enum slimset_status enter(struct walk *w, int dir, const char *name, size_t n, const struct stat *st, bool link,
                                 struct slimset_error *err)
{
    bool often = false;
    if (w->has_out && st->st_dev == w->out.st_dev && st->st_ino == w->out.st_ino)
        return err_set(err, SLIMSET_USAGE, "the output folder %s lies inside the source %s: choose one outside",
                       w->settings->run->out, w->l->sources[w->source].path);
    if (is_above(w, st))
        return leave_out(w, n, 2, "symbolic link back to a folder above it", err);
    enum slimset_status status = link ? count_linked(w, st, &often, err) : SLIMSET_OK;
    if (status != SLIMSET_OK)
        return status;
    if (often)
        return leave_out(w, n, 2, "the same folder is linked more than 64 times", err);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fault(w, n, link, err);
    if (w->depth >= DEPTH_MAX || n + 260 > sizeof w->path) {
        close(fd);
        return add(w, n, NULL, SLIMSET_REJECT_NAME, err);
    }
    w->above[w->depth].dev = st->st_dev;
    w->above[w->depth++].ino = st->st_ino;
    w->path[n] = '/';
    status = walk_folder(w, fd, n + 1, err);
    w->depth--;
    return status;
}

static enum slimset_status visit(struct walk *w, int dir, const char *name, size_t n, struct slimset_error *err)
{
    struct stat st;
    if (listing_is_junk(name, strlen(name)))
        return leave_out(w, n, 3, "junk", err);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fault(w, n, false, err);
    const bool link = S_ISLNK(st.st_mode);
    if (link) {
        if (!w->settings->recipe->follow)
            return leave_out(w, n, 2, "symbolic link (--no-follow)", err);
        if (fstatat(dir, name, &st, 0) != 0)
            return fault(w, n, true, err);
        w->l->links_followed++;
    }
    if (S_ISDIR(st.st_mode))
        return enter(w, dir, name, n, &st, link, err);
    return add(w, n, &st, S_ISREG(st.st_mode) ? SLIMSET_REJECT_NONE : SLIMSET_REJECT_NOT_REGULAR, err);
}

/* Lists an open folder (which it closes); w->path holds path_bytes up to and with its '/'. */
static enum slimset_status walk_folder(struct walk *w, int fd, size_t path_bytes, struct slimset_error *err)
{
    DIR *d = fdopendir(fd);
    enum slimset_status st = SLIMSET_OK;
    if (d == NULL) {
        st = err_os(err, "reading the folder %s/%.*s", w->l->sources[w->source].path, (int)path_bytes, w->path);
        close(fd);
        return st;
    }
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (e == NULL) {
            if (errno != 0)
                st = err_os(err, "reading the folder %s/%.*s", w->l->sources[w->source].path, (int)path_bytes, w->path);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (w->settings->run->stop != NULL && *w->settings->run->stop) {
            st = err_set(err, SLIMSET_INTERRUPTED, "interrupted");
            break;
        }
        size_t n = path_bytes + strlen(e->d_name);
        if (n >= sizeof w->path - 2)
            continue; /* cannot be: enter() keeps room for one name */
        memcpy(w->path + path_bytes, e->d_name, n - path_bytes + 1);
        st = visit(w, dirfd(d), e->d_name, n, err);
        if (st != SLIMSET_OK)
            break;
    }
    closedir(d);
    return st;
}

/* --- sources ----------------------------------------------------------------------------------------- */

static enum image_format archive_format(int fd, const char *path)
{
    uint8_t head[SNIFF_BYTES];
    ssize_t n = pread(fd, head, sizeof head, 0);
    enum image_format f = n > 0 ? sniff(head, (size_t)n) : FORMAT_UNKNOWN;
    if (f == FORMAT_ZIP || f == FORMAT_NPZ)
        return strlen(path) > 4 && strcasecmp(path + strlen(path) - 4, ".npz") == 0 ? FORMAT_NPZ : FORMAT_ZIP;
    if (f == FORMAT_TAR || f == FORMAT_GZIP || f == FORMAT_ZSTD || f == FORMAT_XZ)
        return f;
    size_t p = strlen(path); /* a self-extracting zip begins with a program; a tar may be empty */
    if (p > 4 && strcasecmp(path + p - 4, ".zip") == 0)
        return FORMAT_ZIP;
    if (p > 4 && strcasecmp(path + p - 4, ".tar") == 0)
        return FORMAT_TAR;
    return FORMAT_UNKNOWN;
}

static char *source_prefix(const char *path)
{
    static const char *const suffixes[] = {".tar.gz", ".tar.zst", ".tar.xz", ".tgz", ".tzst", ".txz", ".tar", ".zip"};
    char *copy = strdup(path);
    if (copy == NULL)
        return NULL;
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    const char *slash = strrchr(copy, '/');
    const char *base = slash != NULL && slash[1] != '\0' ? slash + 1 : copy;
    char *name = NULL;
    char real[4096];
    if ((strcmp(base, ".") == 0 || strcmp(base, "..") == 0) && realpath(path, real) != NULL)
        base = strrchr(real, '/') + 1;
    size_t b = strlen(base);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t s = strlen(suffixes[i]);
        if (b > s && strcasecmp(base + b - s, suffixes[i]) == 0) {
            b -= s;
            break;
        }
    }
    if (asprintf(&name, "%.*s/", (int)b, base) < 0)
        name = NULL;
    free(copy);
    return name;
}

/* What cannot be opened as a source is the request's fault, unless it is the machine's. */
static enum slimset_status source_fault(const char *path, struct slimset_error *err)
{
    const bool request = listing_fault(errno) != SLIMSET_REJECT_NONE;
    enum slimset_status status = err_os(err, "source %s", path);
    if (request)
        err->status = status = SLIMSET_USAGE;
    return status;
}

static enum slimset_status append_source(struct listing *l, const struct source *s, const char *path, struct slimset_error *err)
{
    if (l->n_sources >= UINT16_MAX)
        return err_set(err, SLIMSET_USAGE, "more than %d folders and archives as sources", UINT16_MAX);
    struct source *grown = realloc(l->sources, (l->n_sources + 1) * sizeof *s);
    if (grown == NULL)
        return err_nomem(err, sizeof *s);
    l->sources = grown;
    struct source *to = &grown[l->n_sources++];
    *to = *s;
    to->path = strdup(path);
    to->prefix = strdup("");
    return to->path == NULL || to->prefix == NULL ? err_nomem(err, strlen(path)) : SLIMSET_OK;
}

/* A plain file: an entry of the one source that all of them share. */
static enum slimset_status add_file(struct listing *l, const char *path, const struct stat *st, struct slimset_error *err)
{
    size_t i = 0;
    while (i < l->n_sources && l->sources[i].kind != SOURCE_FILE)
        i++;
    if (i == l->n_sources) {
        const struct source s = {.kind = SOURCE_FILE, .fd = -1, .spool_fd = -1};
        enum slimset_status status = append_source(l, &s, "the files given", err);
        if (status != SLIMSET_OK)
            return status;
    }
    size_t n = strlen(path);
    struct entry e = {.source = (uint16_t)i, .path = listing_string(l, "", path, n), .path_bytes = (uint32_t)n,
                      .bytes = (uint64_t)st->st_size, .inode = st->st_ino,
                      .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec};
    return e.path == NULL ? err_nomem(err, n) : listing_add(l, &e, err);
}

static enum slimset_status add_source(struct listing *l, const char *path, const struct slimset_run *run,
                                      struct slimset_error *err)
{
    struct stat st;
    struct source s = {.kind = SOURCE_FOLDER, .fd = -1, .spool_fd = -1};
    if (stat(path, &st) != 0)
        return source_fault(path, err);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(err, SLIMSET_USAGE, "source %s is neither a folder nor a regular file", path);
    s.bytes = (uint64_t)st.st_size;
    s.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    s.device = st.st_dev;
    s.inode = st.st_ino;
    s.fd = open(path, O_RDONLY | O_CLOEXEC | (S_ISDIR(st.st_mode) ? O_DIRECTORY : O_NONBLOCK));
    if (s.fd < 0)
        return source_fault(path, err);
    if (S_ISREG(st.st_mode)) {
        s.kind = SOURCE_ARCHIVE;
        s.format = archive_format(s.fd, path);
    }
    if (s.kind == SOURCE_ARCHIVE && (s.format == FORMAT_UNKNOWN || s.format == FORMAT_NPZ)) {
        close(s.fd);
        return add_file(l, path, &st, err);
    }
    for (size_t i = 0; i < l->n_sources; i++)
        if (l->sources[i].kind == s.kind && l->sources[i].device == s.device && l->sources[i].inode == s.inode) {
            run_note(run, SLIMSET_EVENT_NOTE, "source %s is %s again; it is taken once", path, l->sources[i].path);
            close(s.fd);
            return SLIMSET_OK;
        }
    enum slimset_status status = append_source(l, &s, path, err);
    if (status != SLIMSET_OK && (l->n_sources == 0 || l->sources[l->n_sources - 1].fd != s.fd))
        close(s.fd);
    return status;
}

static int by_path(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    return strcmp(a->path, b->path);
}

/* The entries so far are the plain files: each path is taken once. */
static void drop_files_named_twice(struct listing *l, const struct slimset_run *run)
{
    const size_t n = l->n_entries;
    size_t kept = 0;
    if (n > 1)
        qsort(l->entries, n, sizeof *l->entries, by_path);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && strcmp(l->entries[kept - 1].path, l->entries[i].path) == 0)
            l->total_bytes -= l->entries[i].bytes;
        else
            l->entries[kept++] = l->entries[i];
    }
    l->n_entries = kept;
    if (kept < n)
        run_note(run, SLIMSET_EVENT_NOTE, "%zu names of files are there more than once; each file is taken once", n - kept);
}

static enum slimset_status add_list(struct listing *l, const struct slimset_run *run, struct slimset_error *err)
{
    bool from_stdin = strcmp(run->files_from, "-") == 0;
    FILE *f = from_stdin ? stdin : fopen(run->files_from, "re");
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    enum slimset_status st = SLIMSET_OK;
    if (f == NULL) {
        const bool request = listing_fault(errno) != SLIMSET_REJECT_NONE;
        st = err_os(err, "list of files %s", run->files_from);
        return request ? err->status = SLIMSET_USAGE : st;
    }
    for (errno = 0; st == SLIMSET_OK && (n = getdelim(&line, &cap, run->files_from_nul ? '\0' : '\n', f)) > 0; errno = 0) {
        if (line[n - 1] == (run->files_from_nul ? '\0' : '\n'))
            line[--n] = '\0';
        if (strlen(line) != (size_t)n)
            st = err_set(err, SLIMSET_USAGE, "list of files %s: a NUL byte in a line; -0 reads lists that have them as ends",
                         run->files_from);
        else if (n > 0)
            st = add_source(l, line, run, err);
    }
    if (st == SLIMSET_OK && (ferror(f) || errno == ENOMEM)) {
        const bool request = errno == EISDIR;
        st = err_os(err, "reading the list of files %s", run->files_from);
        if (request)
            st = err->status = SLIMSET_USAGE;
    }
    free(line);
    if (!from_stdin)
        fclose(f);
    return st;
}

/* Several folders or archives: each gets its name as prefix, made distinct. */
static enum slimset_status set_prefixes(struct listing *l, struct slimset_error *err)
{
    size_t containers = 0;
    for (size_t i = 0; i < l->n_sources; i++)
        containers += l->sources[i].kind != SOURCE_FILE;
    for (size_t i = 0; i < l->n_sources && (containers > 1 || containers < l->n_sources); i++) {
        struct source *s = &l->sources[i];
        if (s->kind == SOURCE_FILE)
            continue;
        char *prefix = source_prefix(s->path);
        unsigned same = 1;
        for (size_t k = 0; prefix != NULL && k < i; k++)
            if (l->sources[k].kind != SOURCE_FILE && strcmp(l->sources[k].prefix, prefix) == 0) {
                char *other = NULL; /* "train/" -> "train-2/" */
                if (asprintf(&other, "%.*s-%u/", (int)strlen(prefix) - 1, prefix, ++same) < 0)
                    other = NULL;
                free(prefix);
                prefix = other;
                k = (size_t)-1; /* look again from the start */
            }
        if (prefix == NULL)
            return err_nomem(err, 1);
        free(s->prefix);
        s->prefix = prefix;
    }
    return SLIMSET_OK;
}

static enum slimset_status walk_one(struct listing *l, uint16_t i, const struct walk_settings *settings,
                                    struct slimset_error *err)
{
    struct source *s = &l->sources[i];
    struct stat st;
    struct walk *w = calloc(1, sizeof *w);
    enum slimset_status status;
    if (w == NULL)
        return err_nomem(err, sizeof *w);
    *w = (struct walk){.l = l, .settings = settings, .source = i, .path = ""};
    w->has_out = settings->out_dir >= 0 && fstat(settings->out_dir, &w->out) == 0;
    if (fstat(s->fd, &st) != 0) {
        status = err_os(err, "source %s", s->path);
    } else if (w->has_out && st.st_dev == w->out.st_dev && st.st_ino == w->out.st_ino) {
        status = err_set(err, SLIMSET_USAGE, "%s is both source and output", s->path);
    } else {
        int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 5);
        w->above[0].dev = st.st_dev;
        w->above[0].ino = st.st_ino;
        w->depth = 1;
        status = fd < 0 ? err_os(err, "source %s", s->path) : walk_folder(w, fd, 0, err);
    }
    if (status == SLIMSET_OK && listing_source_is_gone(s)) /* a deleted folder reads as an empty one */
        status = err_set(err, SLIMSET_IO, "the source folder %s was deleted", s->path);
    free(w->linked);
    free(w);
    return status;
}

enum slimset_status walk_sources(struct listing *l, const struct walk_settings *settings, struct slimset_error *err)
{
    const struct slimset_run *run = settings->run;
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; st == SLIMSET_OK && i < run->n_sources; i++)
        st = add_source(l, run->sources[i], run, err);
    if (st == SLIMSET_OK && run->files_from != NULL)
        st = add_list(l, run, err);
    if (st == SLIMSET_OK && l->n_sources == 0)
        st = err_set(err, SLIMSET_USAGE, "no source given");
    if (st == SLIMSET_OK) {
        drop_files_named_twice(l, run);
        st = set_prefixes(l, err);
    }
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_sources; i++)
        if (l->sources[i].kind != SOURCE_FILE)
            st = l->sources[i].kind == SOURCE_ARCHIVE ? walk_archive(l, (uint16_t)i, settings, err)
                                                      : walk_one(l, (uint16_t)i, settings, err);
    if (st == SLIMSET_OK)
        st = walk_bare_keys(l, run, err);
    if (st == SLIMSET_OK)
        listing_fit(l);
    return st;
}
