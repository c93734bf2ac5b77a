/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARENA_BYTES = 1 << 20 };

struct arena_block {
    struct arena_block *next;
    size_t used, cap;
    char bytes[];
};

void listing_init(struct listing *l)
{
    *l = (struct listing){0};
}

void listing_fini(struct listing *l)
{
    for (size_t i = 0; i < l->n_sources; i++) {
        struct source *s = &l->sources[i];
        if (s->fd >= 0)
            close(s->fd);
        if (s->spool_fd >= 0)
            close(s->spool_fd);
        free(s->path);
        free(s->prefix);
    }
    free(l->sources);
    free(l->entries);
    free(l->left_out);
    while (l->arena != NULL) {
        struct arena_block *next = l->arena->next;
        free(l->arena);
        l->arena = next;
    }
    listing_init(l);
}

const char *listing_string(struct listing *l, const char *prefix, const char *bytes, size_t n)
{
    size_t p = strlen(prefix), need = p + n + 1;
    if (l->arena == NULL || l->arena->cap - l->arena->used < need) {
        size_t cap = need > ARENA_BYTES ? need : ARENA_BYTES;
        struct arena_block *b = malloc(sizeof *b + cap);
        if (b == NULL)
            return NULL;
        *b = (struct arena_block){.next = l->arena, .cap = cap};
        l->arena = b;
    }
    char *s = l->arena->bytes + l->arena->used;
    memcpy(s, prefix, p);
    memcpy(s + p, bytes, n);
    s[p + n] = '\0';
    l->arena->used += need;
    return s;
}

/* Makes room for one more element; the array grows by half. */
static bool grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t want = *cap + *cap / 2 + 64;
    void *p = realloc(*(void **)array, want * size);
    if (p == NULL)
        return false;
    *(void **)array = p;
    *cap = want;
    return true;
}

enum slimset_status listing_add(struct listing *l, const struct entry *e, struct slimset_error *err)
{
    if (!grow(&l->entries, l->n_entries, &l->cap_entries, sizeof *e))
        return err_nomem(err, l->cap_entries * sizeof *e);
    struct entry *to = &l->entries[l->n_entries++];
    *to = *e;
    const char *slash = memrchr(to->path, '/', to->path_bytes);
    to->dir_bytes = slash != NULL ? (uint32_t)(slash + 1 - to->path) : 0;
    to->name = to->path;
    to->name_dir_bytes = to->dir_bytes;
    l->total_bytes += e->bytes;
    return SLIMSET_OK;
}

enum slimset_status listing_leave_out(struct listing *l, const char *path, uint32_t path_bytes, uint32_t kind,
                                      const char *text, struct slimset_error *err)
{
    if (!grow(&l->left_out, l->n_left_out, &l->cap_left_out, sizeof *l->left_out))
        return err_nomem(err, l->cap_left_out * sizeof *l->left_out);
    l->left_out[l->n_left_out++] = (struct left_out){path, path_bytes, kind, text};
    return SLIMSET_OK;
}

void listing_fit(struct listing *l)
{
    struct entry *e = realloc(l->entries, (l->n_entries + 1) * sizeof *e);
    if (e != NULL) {
        l->entries = e;
        l->cap_entries = l->n_entries + 1;
    }
}

static bool component_is_junk(const char *c, size_t n)
{
    static const char *const names[] = {
        ".DS_Store", "Thumbs.db", "ehthumbs.db", "desktop.ini", "__MACOSX", ".ipynb_checkpoints", ".git", ".gitignore",
        ".gitattributes", ".gitkeep", ".keep", ".svn", ".hg", ".Spotlight-V100", ".Trashes", ".fseventsd",
        ".TemporaryItems", ".AppleDouble", ".AppleDB", "@eaDir", "$RECYCLE.BIN", "System Volume Information", "lost+found",
        "__pycache__", ".directory", ".nfs", ".slimset",
    };
    if (n > 2 && c[0] == '.' && c[1] == '_')
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == n && strncasecmp(names[i], c, n) == 0)
            return true;
    return false;
}

bool listing_is_junk(const char *path, size_t n)
{
    while (n > 0) {
        const char *slash = memchr(path, '/', n);
        size_t c = slash != NULL ? (size_t)(slash - path) : n;
        if (component_is_junk(path, c))
            return true;
        if (slash == NULL)
            return false;
        path += c + 1;
        n -= c + 1;
    }
    return false;
}

enum slimset_reject listing_fault(int os_errno)
{
    switch (os_errno) {
    case ENOENT:
    case ENOTDIR:
        return SLIMSET_REJECT_VANISHED;
    case EACCES:
    case EPERM:
        return SLIMSET_REJECT_UNREADABLE;
    case ELOOP:
        return SLIMSET_REJECT_LINK;
    case ENXIO:
    case ENODEV:
    case EISDIR:
        return SLIMSET_REJECT_NOT_REGULAR;
    case ENAMETOOLONG:
        return SLIMSET_REJECT_NAME;
    default:
        return SLIMSET_REJECT_NONE;
    }
}

bool listing_source_is_gone(const struct source *s)
{
    struct stat st;
    return s->kind == SOURCE_FOLDER && s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_nlink == 0;
}

/* errno of an open as the fault it is: the input's, or the machine's. */
static enum slimset_status open_fault(const struct listing *l, const struct entry *e, struct slimset_error *err)
{
    const int os_errno = errno;
    const enum slimset_reject reject = listing_fault(os_errno);
    char name[400];
    switch (reject) {
    case SLIMSET_REJECT_VANISHED:
        if (listing_source_is_gone(&l->sources[e->source]))
            return err_set(err, SLIMSET_IO, "the source folder %s was deleted", l->sources[e->source].path);
        return err_bad(err, reject, "gone since it was listed");
    case SLIMSET_REJECT_UNREADABLE:
        return err_bad(err, reject, "may not be read: %s", strerror(os_errno));
    case SLIMSET_REJECT_LINK:
        return err_bad(err, reject, "a loop of symbolic links");
    case SLIMSET_REJECT_NOT_REGULAR:
        return err_bad(err, reject, "not a regular file");
    case SLIMSET_REJECT_NAME:
        return err_bad(err, reject, "its name is too long to open");
    default:
        listing_display(l, e, true, name, sizeof name);
        errno = os_errno;
        return err_os(err, "opening %s", name);
    }
}

static enum slimset_status open_file(const struct listing *l, const struct entry *e, int *fd, struct slimset_error *err)
{
    const struct source *s = &l->sources[e->source];
    struct stat st;
    int dir = s->kind == SOURCE_FOLDER ? s->fd : AT_FDCWD;
    const char *path = e->path + strlen(s->prefix);
    *fd = openat(dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (*fd < 0)
        return open_fault(l, e, err);
    enum slimset_status status = SLIMSET_OK;
    if (fstat(*fd, &st) != 0)
        status = open_fault(l, e, err);
    else if (!S_ISREG(st.st_mode))
        status = err_bad(err, SLIMSET_REJECT_NOT_REGULAR, "not a regular file");
    if (status != SLIMSET_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

enum slimset_status listing_open(const struct listing *l, const struct entry *e, int *fd, struct item_input *in,
                                 struct slimset_error *err)
{
    const struct source *s = &l->sources[e->source];
    in->bytes = e->bytes;
    if (s->kind != SOURCE_ARCHIVE) {
        in->offset = 0;
        in->packed_bytes = e->bytes;
        in->mtime_ns = e->mtime_ns;
        return open_file(l, e, fd, err);
    }
    in->offset = e->offset;
    in->packed_bytes = e->packed_bytes;
    in->deflated = e->method;
    in->zip_local = e->zip_local;
    in->has_crc = e->has_crc;
    in->crc32 = e->crc32;
    in->known_bytes = 1;
    *fd = fcntl(e->in_spool ? s->spool_fd : s->fd, F_DUPFD_CLOEXEC, 5);
    return *fd < 0 ? err_os(err, "reading from %s", s->path) : SLIMSET_OK;
}

void listing_display(const struct listing *l, const struct entry *e, bool one_line, char *text, size_t n)
{
    const struct source *s = &l->sources[e->source];
    const char *below = e->path + strlen(s->prefix);
    size_t at = 0;
    char raw[1024];
    if (s->kind == SOURCE_FILE || e->whole)
        snprintf(raw, sizeof raw, "%s", e->whole ? s->path : e->path);
    else
        snprintf(raw, sizeof raw, s->kind == SOURCE_ARCHIVE ? "%s: %s" : "%s/%s", s->path, below);
    for (const char *p = raw; *p != '\0' && at + 5 < n; p++) {
        unsigned char c = (unsigned char)*p;
        if (one_line && (c < 0x20 || c == 0x7f))
            at += (size_t)snprintf(text + at, n - at, "\\x%02x", c);
        else
            text[at++] = (char)c;
    }
    text[at] = '\0';
}

const char *listing_problem_text(enum slimset_reject reject)
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
        return "another file of the same name follows in the archive, another one comes first for this field of a sample, or too many files share one key";
    case SLIMSET_REJECT_TRUNCATED:
        return "the archive ends before its data";
    case SLIMSET_REJECT_CORRUPT:
        return "the archive's directory is damaged, or tells what cannot be";
    case SLIMSET_REJECT_UNSUPPORTED:
        return "an archive member of a kind that is not read (compression method, sparse file)";
    default:
        return "cannot be read";
    }
}

bool listing_rule_matches(const struct slimset_rule *rule, const struct entry *e)
{
    return fnmatch(rule->glob, strchr(rule->glob, '/') != NULL ? e->path : e->path + e->dir_bytes, 0) == 0;
}

int listing_user_role(const struct slimset_recipe *recipe, const struct entry *e, uint8_t *settings)
{
    int role = SLIMSET_RULE_NO_ROLE;
    if (settings != NULL)
        *settings = 0;
    for (size_t i = recipe->n_rules; i-- > 0;) {
        const struct slimset_rule *rule = &recipe->rules[i];
        if (!listing_rule_matches(rule, e))
            continue;
        if (role == SLIMSET_RULE_NO_ROLE)
            role = rule->role;
        if (settings != NULL && *settings == 0)
            *settings = rule->settings;
        if (role != SLIMSET_RULE_NO_ROLE && (settings == NULL || *settings != 0))
            break;
    }
    return role;
}

void listing_tell_problem(const struct listing *l, const struct entry *e, const struct walk_settings *settings)
{
    const struct slimset_run *run = settings->run;
    char name[1024], text[256];
    if (run->event == NULL || listing_user_role(settings->recipe, e, NULL) == -1)
        return;
    listing_display(l, e, false, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", slimset_reject_name(e->problem), listing_problem_text(e->problem));
    run->event(run->event_arg, &(struct slimset_event){.kind = SLIMSET_EVENT_REJECT, .path = name, .text = text});
}

void listing_progress(const struct listing *l, const struct slimset_run *run)
{
    if (run->event != NULL && l->n_entries % 2048 == 0)
        run->event(run->event_arg, &(struct slimset_event){.kind = SLIMSET_EVENT_PROGRESS, .phase = "walk",
                                                           .samples_done = l->n_entries, .in_bytes_done = l->total_bytes});
}

void run_note(const struct slimset_run *run, enum slimset_event_kind kind, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (run->event != NULL)
        run->event(run->event_arg, &(struct slimset_event){.kind = kind, .text = text});
}
