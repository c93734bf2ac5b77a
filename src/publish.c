/* SPDX-License-Identifier: Apache-2.0 */
#include "publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "dataset.h"
#include "sidecar.h"

/* --- OUT ------------------------------------------------------------------------------------------------------ */

static enum slimset_status open_folder(int dir, const char *name, int *fd, struct slimset_error *err)
{
    enum slimset_status st = io_mkdirs(dir, name, err);
    if (st != SLIMSET_OK)
        return st;
    return io_open_dir(dir, name, dir == AT_FDCWD, fd, err);
}

/* Syncs the folders that lead to OUT, which may be new. Those that may not be read are not ours to sync. */
static enum slimset_status sync_parents(const char *out, struct slimset_error *err)
{
    char path[4096];
    enum slimset_status st = SLIMSET_OK;
    if (strlen(out) >= sizeof path)
        return SLIMSET_OK;
    snprintf(path, sizeof path, "%s", out);
    for (char *slash; st == SLIMSET_OK && path[0] != '\0'; ) {
        slash = strrchr(path, '/');
        snprintf(slash != NULL ? slash + (slash == path) : path, 2, "%s", slash != NULL ? "" : ".");
        st = io_sync_dir(AT_FDCWD, path, err);
        if (st != SLIMSET_OK && err->os_errno == EACCES)
            st = SLIMSET_OK;
        if (slash == NULL || slash == path)
            break;
    }
    return st;
}

/* A folder is taken when it is ours or empty. */
static enum slimset_status enter(const char *out, struct out_dirs *d, struct slimset_error *err)
{
    bool index = false, empty = false;
    uint64_t bytes;
    enum slimset_status st = io_look(d->out, PUBLISH_WORK, &d->work_existed, &bytes, err);
    if (st == SLIMSET_OK)
        st = io_look(d->out, SLIMSET_INDEX_NAME, &index, &bytes, err);
    if (st != SLIMSET_OK || d->work_existed || index)
        return st;
    st = io_is_empty(d->out, &empty, err);
    if (st == SLIMSET_OK && !empty)
        st = err_set(err, SLIMSET_USAGE, "%s is not empty and holds no slimset dataset: choose another folder", out);
    return st == SLIMSET_OK ? sync_parents(out, err) : st;
}

enum slimset_status publish_open(const char *out, struct out_dirs *d, struct slimset_error *err)
{
    struct stat s;
    *d = (struct out_dirs){.out = -1, .work = -1, .stage = -1};
    d->out_created = stat(out, &s) != 0;
    if (d->out_created && errno != ENOENT && errno != ENOTDIR)
        return err_os(err, "cannot look at the output %s", out);
    if (!d->out_created && !S_ISDIR(s.st_mode))
        return err_set(err, SLIMSET_USAGE, "the output %s is not a folder", out);
    enum slimset_status st = open_folder(AT_FDCWD, out, &d->out, err);
    if (st != SLIMSET_OK)
        return st;
    if (flock(d->out, LOCK_EX | LOCK_NB) != 0) {
        st = errno == EWOULDBLOCK ? err_set(err, SLIMSET_USAGE, "%s is in use by another slimset run", out)
                                  : err_os(err, "locking %s", out);
        publish_close(d);
        return st;
    }
    st = enter(out, d, err);
    if (st == SLIMSET_OK)
        st = open_folder(d->out, PUBLISH_WORK, &d->work, err);
    if (st == SLIMSET_OK)
        st = open_folder(d->work, "stage", &d->stage, err);
    if (st != SLIMSET_OK)
        publish_close(d);
    return st;
}

void publish_close(struct out_dirs *d)
{
    if (d->stage >= 0)
        close(d->stage);
    if (d->work >= 0)
        close(d->work);
    if (d->out >= 0)
        close(d->out);
    d->out = d->work = d->stage = -1;
}

/* --- the files that an index names -------------------------------------------------------------------------------------- */

typedef enum slimset_status name_fn(void *arg, const char *name, uint64_t bytes, struct slimset_error *err);

static bool is_tree(const struct index *ix)
{
    const char *layout;
    size_t n;
    return index_meta(ix, "layout", &layout, &n) && n == 4 && memcmp(layout, "tree", 4) == 0;
}

/* Calls fn for every file of a dataset: part names, or key.field of a tree. A name that would lead outside is none of ours. */
static enum slimset_status each_data_file(struct index *ix, name_fn *fn, void *arg, struct slimset_error *err)
{
    char name[DATASET_PATH_MAX];
    const char *text;
    size_t n;
    bool tree = is_tree(ix);
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; !tree && st == SLIMSET_OK && i < ix->n_parts; i++) {
        st = index_touch(ix, &ix->parts[i], sizeof *ix->parts, err);
        if (st == SLIMSET_OK)
            st = index_text(ix, ix->parts[i].name, &text, &n, err);
        if (st == SLIMSET_OK && dataset_part_name(text, n, name))
            st = fn(arg, name, ix->parts[i].bytes, err);
    }
    for (uint64_t i = 0; tree && st == SLIMSET_OK && i < ix->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *field;
        size_t field_n;
        st = index_sample(ix, i, &s, &f, err);
        if (st == SLIMSET_OK)
            st = index_text(ix, s->key, &text, &n, err);
        for (unsigned k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            st = index_text(ix, f[k].name, &field, &field_n, err);
            if (st == SLIMSET_OK && dataset_path(text, n, field, field_n, name))
                st = fn(arg, name, f[k].bytes, err);
        }
    }
    return st;
}

struct named {
    name_fn *fn;
    void *arg;
};

static enum slimset_status name_sidecar(void *arg, const char *name, const void *data, size_t n, struct slimset_error *err)
{
    const struct named *s = arg;
    (void)data;
    return s->fn(s->arg, name, n, err);
}

/* The same, and for what lies beside the shards; the size of that is not said. */
static enum slimset_status each_file(struct index *ix, name_fn *fn, void *arg, struct slimset_error *err)
{
    struct named named = {fn, arg};
    enum slimset_status st = each_data_file(ix, fn, arg, err);
    return st == SLIMSET_OK ? sidecar_each(ix, false, name_sidecar, &named, err) : st;
}

struct names {
    uint64_t *hash;
    size_t n, cap;
    int out;
};

static enum slimset_status collect(void *arg, const char *name, uint64_t bytes, struct slimset_error *err)
{
    (void)bytes;
    struct names *s = arg;
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 256;
        uint64_t *grown = realloc(s->hash, s->cap * sizeof *grown);
        if (grown == NULL)
            return err_nomem(err, s->cap * sizeof *grown);
        s->hash = grown;
    }
    s->hash[s->n++] = hash_bytes(name, strlen(name));
    return SLIMSET_OK;
}

static int by_hash(const void *pa, const void *pb)
{
    const uint64_t *a = pa, *b = pb;
    return *a < *b ? -1 : *a > *b;
}

static enum slimset_status delete_stale(void *arg, const char *name, uint64_t bytes, struct slimset_error *err)
{
    (void)bytes;
    const struct names *s = arg;
    uint64_t h = hash_bytes(name, strlen(name));
    char folder[DATASET_PATH_MAX];
    if (s->n > 0 && bsearch(&h, s->hash, s->n, sizeof h, by_hash) != NULL)
        return SLIMSET_OK;
    enum slimset_status st = io_unlink(s->out, name, err);
    if (st == SLIMSET_IO && err->os_errno == EISDIR) /* an earlier try got as far as the folder that takes its place */
        return SLIMSET_OK;
    snprintf(folder, sizeof folder, "%s", name);
    for (char *slash; st == SLIMSET_OK && (slash = strrchr(folder, '/')) != NULL;) { /* folders it leaves empty */
        *slash = '\0';
        if (unlinkat(s->out, folder, AT_REMOVEDIR) != 0)
            break;
    }
    return st;
}

/* Deletes what the withdrawn index names and the new one does not. */
static enum slimset_status remove_stale(struct out_dirs *d, struct index *now, struct slimset_error *err)
{
    struct index old = {0};
    struct names names = {.out = d->out};
    enum slimset_status st = index_open(d->work, "index.old", SLIMSET_KIND_INDEX, true, &old, err);
    if (st == SLIMSET_NOT_FOUND || st == SLIMSET_DAMAGED || st == SLIMSET_DIFFERS)
        return SLIMSET_OK; /* none, or a damaged one: nothing is deleted by guess */
    if (st == SLIMSET_OK)
        st = each_file(now, collect, &names, err);
    if (st == SLIMSET_OK && names.n > 0)
        qsort(names.hash, names.n, sizeof *names.hash, by_hash);
    if (st == SLIMSET_OK)
        st = each_file(&old, delete_stale, &names, err);
    index_close(&old);
    free(names.hash);
    return st;
}

struct move {
    int from, to;
};

/* Before the old index goes: a file of the new one is staged, or lies in OUT already. */
static enum slimset_status must_exist(void *arg, const char *name, uint64_t bytes, struct slimset_error *err)
{
    const struct move *m = arg;
    bool there = false;
    uint64_t now;
    enum slimset_status st = io_look(m->from, name, &there, &now, err);
    if (st == SLIMSET_OK && !there)
        st = io_look(m->to, name, &there, &now, err);
    if (st != SLIMSET_OK || (there && now == bytes))
        return st;
    return err_set(err, SLIMSET_NOT_FOUND, "%s is neither staged nor in the output", name);
}

/* Renames a staged file into place; one that is not staged is of a shard that did not change. */
static enum slimset_status move_staged(void *arg, const char *name, uint64_t bytes, struct slimset_error *err)
{
    const struct move *m = arg;
    char folder[DATASET_PATH_MAX];
    bool staged = false;
    enum slimset_status st = io_look(m->from, name, &staged, &bytes, err);
    if (st != SLIMSET_OK || !staged)
        return st;
    const char *slash = strrchr(name, '/');
    if (slash != NULL) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
        st = io_mkdirs(m->to, folder, err);
    }
    return st == SLIMSET_OK ? io_rename(m->from, name, m->to, name, err) : st;
}

/* The last step, when the new index is in its place: what only the old one names goes, and then the old one. */
static enum slimset_status finish_roll(struct out_dirs *d, struct slimset_error *err)
{
    struct index now = {0};
    bool old = false, new = false;
    uint64_t bytes;
    enum slimset_status st = io_look(d->work, "index.old", &old, &bytes, err);
    if (st == SLIMSET_OK)
        st = io_look(d->out, SLIMSET_INDEX_NAME, &new, &bytes, err);
    if (st != SLIMSET_OK || !old || !new)
        return st;
    st = index_open(d->out, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, true, &now, err);
    if (st == SLIMSET_OK && !is_tree(&now)) { /* of a tree it was done before */
        st = remove_stale(d, &now, err);
        if (st == SLIMSET_OK) /* without the old index nobody knows what was to go */
            st = io_sync_dir(d->out, ".", err);
    }
    index_close(&now);
    return st == SLIMSET_OK ? io_unlink(d->work, "index.old", err) : st;
}

enum slimset_status publish_roll(struct out_dirs *d, bool *rolled, struct slimset_error *err)
{
    struct index ix = {0};
    struct move move = {d->stage, d->out};
    bool old = false, folder = false;
    uint64_t bytes;
    *rolled = false;
    enum slimset_status st = index_open(d->work, "publish", SLIMSET_KIND_INDEX, true, &ix, err);
    if (st == SLIMSET_NOT_FOUND)
        return finish_roll(d, err);
    if (st == SLIMSET_OK)
        st = each_data_file(&ix, must_exist, &move, err);
    if (st == SLIMSET_DAMAGED || st == SLIMSET_DIFFERS || st == SLIMSET_NOT_FOUND) {
        index_close(&ix); /* it was never finished, or a file has gone since: not a publication */
        st = io_unlink(d->work, "publish", err);
        return st == SLIMSET_OK ? finish_roll(d, err) : st;
    }
    if (st == SLIMSET_OK) /* made here, and again when this was interrupted: a function of the index */
        st = sidecar_stage(&ix, d->out, d->stage, err);
    if (st == SLIMSET_OK)
        st = io_look(d->out, SLIMSET_INDEX_NAME, &old, &bytes, err);
    if (st == SLIMSET_OK && old) {
        st = io_rename(d->out, SLIMSET_INDEX_NAME, d->work, "index.old", err);
        if (st == SLIMSET_OK) /* first where it came, then where it went */
            st = io_sync_dir(d->work, ".", err);
    }
    if (st == SLIMSET_OK) /* and .slimset itself: files without it would be somebody else's */
        st = io_sync_dir(d->out, ".", err);
    if (st == SLIMSET_OK && is_tree(&ix)) /* a file may become a folder, or a folder a file */
        st = remove_stale(d, &ix, err);
    if (st == SLIMSET_OK)
        st = each_file(&ix, move_staged, &move, err);
    if (st == SLIMSET_OK)
        st = is_tree(&ix) ? io_syncfs(d->out, "the output folder", err) : io_sync_dir(d->out, ".", err);
    if (st == SLIMSET_OK)
        st = io_look(d->out, SIDECAR_FOLDER, &folder, &bytes, err);
    if (st == SLIMSET_OK && folder)
        st = io_sync_dir(d->out, SIDECAR_FOLDER, err);
    if (st == SLIMSET_OK)
        st = io_rename(d->work, "publish", d->out, SLIMSET_INDEX_NAME, err);
    if (st == SLIMSET_OK)
        st = io_sync_dir(d->out, ".", err);
    index_close(&ix);
    if (st == SLIMSET_OK)
        st = finish_roll(d, err);
    *rolled = st == SLIMSET_OK;
    return st;
}

enum slimset_status publish_restage(struct out_dirs *d, char (*fragments)[320], size_t n, struct slimset_error *err)
{
    struct move move = {-1, -1};
    enum slimset_status st = io_remove_tree(d->work, "stage.old", err);
    if (st == SLIMSET_OK)
        st = io_rename(d->work, "stage", d->work, "stage.old", err);
    if (st == SLIMSET_OK) {
        move.from = d->stage;
        d->stage = -1;
        st = open_folder(d->work, "stage", &d->stage, err);
        move.to = d->stage;
    }
    for (size_t i = 0; st == SLIMSET_OK && i < n; i++) {
        struct index ix = {0};
        st = index_open(d->work, fragments[i], SLIMSET_KIND_FRAGMENT, true, &ix, err);
        if (st == SLIMSET_OK)
            st = each_file(&ix, move_staged, &move, err);
        index_close(&ix);
    }
    if (move.from >= 0)
        close(move.from);
    if (st == SLIMSET_OK && n > 0)
        st = io_sync_dir(d->work, "stage", err);
    return st == SLIMSET_OK ? io_remove_tree(d->work, "stage.old", err) : st;
}

enum slimset_status publish_clean(struct out_dirs *d, struct slimset_error *err)
{
    int fd;
    enum slimset_status st = io_open_dir(d->work, ".", true, &fd, err);
    DIR *dir = st == SLIMSET_OK ? fdopendir(fd) : NULL;
    struct dirent *e;
    if (dir == NULL) {
        if (st == SLIMSET_OK) {
            st = err_os(err, "reading the work folder");
            close(fd);
        }
        return st;
    }
    while (st == SLIMSET_OK && (errno = 0, e = readdir(dir)) != NULL) {
        bool ours = strncmp(e->d_name, "frag-", 5) == 0 || strcmp(e->d_name, "stage") == 0 ||
                    strcmp(e->d_name, "stage.old") == 0 || strcmp(e->d_name, "plan") == 0 ||
                    strcmp(e->d_name, "plan.new") == 0 || strcmp(e->d_name, "publish") == 0 || strcmp(e->d_name, "spool") == 0 ||
                    strcmp(e->d_name, "stat.new") == 0;
        if (ours)
            st = io_remove_tree(d->work, e->d_name, err);
    }
    if (st == SLIMSET_OK && errno != 0)
        st = err_os(err, "reading the work folder");
    closedir(dir);
    return st;
}
