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

#include "listing.h"
#include "sniff.h"

/* Folders deeper than this are a mistake or an attack. */
enum { DEPTH_MAX = 128 };

struct walk {
    struct listing *l;
    const struct walk_settings *settings;
    uint16_t source;
    struct stat out;                 /* of OUT, when known */
    bool has_out;
    unsigned depth;
    struct { dev_t dev; ino_t ino; } above[DEPTH_MAX]; /* the folders we are in: a link back to one is a loop */
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
    return listing_add(l, &e, err);
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

static enum slimset_status enter(struct walk *w, int dir, const char *name, size_t n, const struct stat *st,
                                 struct slimset_error *err)
{
    if (w->has_out && st->st_dev == w->out.st_dev && st->st_ino == w->out.st_ino)
        return err_set(err, SLIMSET_USAGE, "the output folder %s lies inside the source %s: choose one outside",
                       w->settings->run->out, w->l->sources[w->source].path);
    if (is_above(w, st))
        return leave_out(w, n, 2, "symbolic link back to a folder above it", err);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM || errno == ENOENT))
        return add(w, n, NULL, errno == ENOENT ? SLIMSET_REJECT_VANISHED : SLIMSET_REJECT_UNREADABLE, err);
    if (fd < 0)
        return err_os(err, "opening the folder %s/%s", w->l->sources[w->source].path, w->path);
    if (w->depth >= DEPTH_MAX || n + 260 > sizeof w->path) {
        close(fd);
        return add(w, n, NULL, SLIMSET_REJECT_NAME, err);
    }
    w->above[w->depth].dev = st->st_dev;
    w->above[w->depth++].ino = st->st_ino;
    w->path[n] = '/';
    enum slimset_status status = walk_folder(w, fd, n + 1, err);
    w->depth--;
    return status;
}

static enum slimset_status visit(struct walk *w, int dir, const char *name, size_t n, struct slimset_error *err)
{
    struct stat st;
    if (listing_is_junk(name, strlen(name)))
        return leave_out(w, n, 3, "junk", err);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return add(w, n, NULL, SLIMSET_REJECT_VANISHED, err);
    if (S_ISLNK(st.st_mode)) {
        if (!w->settings->recipe->follow)
            return leave_out(w, n, 2, "symbolic link (--no-follow)", err);
        if (fstatat(dir, name, &st, 0) != 0)
            return add(w, n, NULL, SLIMSET_REJECT_LINK, err);
        w->l->links_followed++;
    }
    if (S_ISDIR(st.st_mode))
        return enter(w, dir, name, n, &st, err);
    return add(w, n, &st, S_ISREG(st.st_mode) ? SLIMSET_REJECT_NONE : SLIMSET_REJECT_NOT_REGULAR, err);
}

/* Lists an open folder (which it closes); w->path holds path_bytes up to and with its '/'. */
static enum slimset_status walk_folder(struct walk *w, int fd, size_t path_bytes, struct slimset_error *err)
{
    DIR *d = fdopendir(fd);
    enum slimset_status st = SLIMSET_OK;
    if (d == NULL) {
        st = err_os(err, "reading a folder");
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

static enum slimset_status add_source(struct listing *l, const char *path, struct slimset_error *err)
{
    struct stat st;
    struct source s = {.fd = -1, .spool_fd = -1};
    if (l->n_sources >= UINT16_MAX)
        return err_set(err, SLIMSET_USAGE, "more than %d sources", UINT16_MAX);
    struct source *grown = realloc(l->sources, (l->n_sources + 1) * sizeof s);
    if (grown == NULL)
        return err_nomem(err, sizeof s);
    l->sources = grown;
    if (stat(path, &st) != 0) {
        enum slimset_status status = err_os(err, "source %s", path);
        err->status = errno == ENOMEM ? status : SLIMSET_USAGE;
        return err->status;
    }
    s.bytes = (uint64_t)st.st_size;
    s.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    s.inode = st.st_ino;
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(err, SLIMSET_USAGE, "source %s is neither a folder nor a regular file", path);
    s.fd = open(path, O_RDONLY | O_CLOEXEC | (S_ISDIR(st.st_mode) ? O_DIRECTORY : O_NONBLOCK));
    if (s.fd < 0) {
        err_os(err, "source %s", path);
        return err->status = SLIMSET_USAGE;
    }
    s.kind = SOURCE_FOLDER;
    if (S_ISREG(st.st_mode)) {
        s.format = archive_format(s.fd, path);
        s.kind = s.format == FORMAT_UNKNOWN || s.format == FORMAT_NPZ ? SOURCE_FILE : SOURCE_ARCHIVE;
        if (s.kind == SOURCE_FILE) {
            close(s.fd);
            s.fd = -1;
        }
    }
    s.path = strdup(path);
    s.prefix = strdup("");
    l->sources[l->n_sources++] = s;
    return s.path == NULL || s.prefix == NULL ? err_nomem(err, 1) : SLIMSET_OK;
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
        err_os(err, "list of files %s", run->files_from);
        return err->status = SLIMSET_USAGE;
    }
    while (st == SLIMSET_OK && (n = getdelim(&line, &cap, run->files_from_nul ? '\0' : '\n', f)) > 0) {
        if (line[n - 1] == (run->files_from_nul ? '\0' : '\n'))
            line[--n] = '\0';
        if (n > 0)
            st = add_source(l, line, err);
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
    if (s->kind == SOURCE_FILE) {
        if (stat(s->path, &st) != 0)
            status = err_os(err, "source %s", s->path);
        else {
            size_t n = strnlen(s->path, sizeof w->path - 1);
            memcpy(w->path, s->path, n);
            status = add(w, n, &st, SLIMSET_REJECT_NONE, err);
        }
    } else if (fstat(s->fd, &st) != 0) {
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
    free(w);
    return status;
}

enum slimset_status walk_sources(struct listing *l, const struct walk_settings *settings, struct slimset_error *err)
{
    const struct slimset_run *run = settings->run;
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; st == SLIMSET_OK && i < run->n_sources; i++)
        st = add_source(l, run->sources[i], err);
    if (st == SLIMSET_OK && run->files_from != NULL)
        st = add_list(l, run, err);
    if (st == SLIMSET_OK && l->n_sources == 0)
        st = err_set(err, SLIMSET_USAGE, "no source given");
    if (st == SLIMSET_OK)
        st = set_prefixes(l, err);
    for (size_t i = 0; st == SLIMSET_OK && i < l->n_sources; i++)
        st = l->sources[i].kind == SOURCE_ARCHIVE ? walk_archive(l, (uint16_t)i, settings, err)
                                                  : walk_one(l, (uint16_t)i, settings, err);
    if (st == SLIMSET_OK)
        listing_fit(l);
    return st;
}
