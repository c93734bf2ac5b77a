/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in OUT that the index does not name. Readers that follow the index ignore it, but a
 * loader that is pointed at the folder may not: it is mentioned, and it is no damage.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "sidecar.h"
#include "verify_impl.h"

enum {
    FOREIGN_SHOWN = 20, /* names; of more, the first in byte order */
    FOREIGN_DEPTH = 200 /* folders: each holds a descriptor open */
};

struct foreign {
    struct verify *v;
    uint64_t *known;    /* sorted hashes of the paths that belong here */
    size_t n_known, cap;
    char *path[FOREIGN_SHOWN]; /* owned, in byte order; folders end in '/' */
    size_t n_path;
    uint64_t n_all;
};

static int hash_order(const void *va, const void *vb)
{
    uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;
    return a < b ? -1 : a > b;
}

static bool is_known(const struct foreign *f, const char *path, size_t n)
{
    uint64_t hash = hash_bytes(path, n);
    return f->n_known != 0 && bsearch(&hash, f->known, f->n_known, sizeof hash, hash_order) != NULL;
}

static enum slimset_status learn_sidecar(void *arg, const char *name, const void *data, size_t n,
                                         struct slimset_error *err)
{
    struct foreign *f = arg;
    (void)data, (void)n;
    if (f->n_known == f->cap)
        return err_set(err, SLIMSET_INTERNAL, "more files beside the shards than there is room for");
    f->known[f->n_known++] = hash_bytes(name, strcspn(name, "/")); /* a folder of ours is ours */
    return SLIMSET_OK;
}

/* Hashes of all file names that the index gives. Damaged records are left out: they have their
 * findings. */
static enum slimset_status learn(struct foreign *f, struct slimset_error *err)
{
    struct index *ix = &f->v->d.ix;
    struct slimset_error ignored;
    char path[DATASET_PATH_MAX];
    const char *a, *b;
    size_t a_n, b_n, cap = f->v->d.tree ? ix->n_fields : ix->n_parts;
    f->cap = 3 * cap + 4; /* a shard has two files beside it at most, and there are three more */
    f->known = malloc(f->cap * sizeof *f->known);
    if (f->known == NULL)
        return err_nomem(err, f->cap * sizeof *f->known);
    for (uint64_t i = 0; !f->v->d.tree && i < ix->n_parts; i++) {
        if (index_touch(ix, &ix->parts[i], sizeof *ix->parts, &ignored) == SLIMSET_OK &&
            index_text(ix, ix->parts[i].name, &a, &a_n, &ignored) == SLIMSET_OK)
            f->known[f->n_known++] = hash_bytes(a, a_n);
    }
    for (uint64_t i = 0; f->v->d.tree && i < ix->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *fields;
        if (index_sample(ix, i, &s, &fields, &ignored) != SLIMSET_OK ||
            index_text(ix, s->key, &a, &a_n, &ignored) != SLIMSET_OK)
            continue;
        /* Samples of a crafted index may share fields: never more than there is room for. */
        for (uint32_t k = 0; k < s->n_fields && f->n_known < cap; k++) {
            if (index_text(ix, fields[k].name, &b, &b_n, &ignored) == SLIMSET_OK &&
                dataset_path(a, a_n, b, b_n, path))
                f->known[f->n_known++] = hash_bytes(path, strlen(path));
        }
    }
    (void)sidecar_each(ix, false, learn_sidecar, f, &ignored);
    qsort(f->known, f->n_known, sizeof *f->known, hash_order);
    return SLIMSET_OK;
}

/* Keeps the first FOREIGN_SHOWN names in byte order, so that the output does not depend on the
 * order of listing. */
static enum slimset_status remember(struct foreign *f, const char *path, bool folder,
                                    struct slimset_error *err)
{
    char name[DATASET_PATH_MAX + 1];
    f->n_all++;
    snprintf(name, sizeof name, "%s%s", path, folder ? "/" : "");
    size_t at = f->n_path;
    while (at > 0 && strcmp(f->path[at - 1], name) > 0)
        at--;
    if (at == FOREIGN_SHOWN)
        return SLIMSET_OK;
    char *copy = strdup(name);
    if (copy == NULL)
        return err_nomem(err, sizeof name);
    if (f->n_path == FOREIGN_SHOWN)
        free(f->path[--f->n_path]);
    memmove(&f->path[at + 1], &f->path[at], (f->n_path - at) * sizeof f->path[0]);
    f->path[at] = copy;
    f->n_path++;
    return SLIMSET_OK;
}

static enum slimset_status walk(struct foreign *f, int fd, char *path, size_t n, int depth,
                                struct slimset_error *err);

/* One entry; path[0..n) is its name below OUT. */
static enum slimset_status entry(struct foreign *f, int dirfd, const char *base, char *path,
                                 size_t n, int depth, struct slimset_error *err)
{
    struct stat st;
    if (is_known(f, path, n) || fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return SLIMSET_OK;
    if (!S_ISDIR(st.st_mode))
        return remember(f, path, false, err);
    if (!f->v->d.tree || depth >= FOREIGN_DEPTH)
        return remember(f, path, true, err);
    int fd = openat(dirfd, base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return remember(f, path, true, err);
    return walk(f, fd, path, n, depth + 1, err);
}

/* The entries of an open folder, path[0..n) below OUT; closes fd. */
static enum slimset_status walk(struct foreign *f, int fd, char *path, size_t n, int depth,
                                struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        st = err_os(err, "cannot list the folder %.*s", (int)n, path);
        close(fd);
        return st;
    }
    const struct dirent *e;
    while (st == SLIMSET_OK && (errno = 0, e = readdir(dir)) != NULL) {
        const char *base = e->d_name;
        size_t base_n = strlen(base);
        if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
            continue;
        if (n == 0 && (strcmp(base, SLIMSET_INDEX_NAME) == 0 || strcmp(base, ".slimset") == 0))
            continue;
        size_t next = n + (n != 0) + base_n;
        if (next >= DATASET_PATH_MAX)
            continue; /* no name of ours is as long, and none can be shown */
        if (n != 0)
            path[n] = '/';
        memcpy(path + next - base_n, base, base_n + 1);
        st = entry(f, dirfd(dir), base, path, next, depth, err);
        path[n] = '\0';
    }
    if (st == SLIMSET_OK && errno != 0)
        st = err_os(err, "cannot list the folder %s", n != 0 ? path : ".");
    closedir(dir);
    return st;
}

enum slimset_status verify_foreign(struct verify *v, struct slimset_error *err)
{
    struct foreign f = {.v = v};
    char path[DATASET_PATH_MAX] = "";
    enum slimset_status st = learn(&f, err);
    int fd = st == SLIMSET_OK ? openat(v->d.dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (st == SLIMSET_OK && fd < 0)
        st = err_os(err, "cannot list the dataset's folder");
    if (st == SLIMSET_OK)
        st = walk(&f, fd, path, 0, 0, err);
    for (size_t i = 0; i < f.n_path; i++) {
        char tar[DATASET_PATH_MAX + 8];
        size_t n = strlen(f.path[i]);
        bool folder = f.path[i][n - 1] == '/';
        int tar_n = snprintf(tar, sizeof tar, "%.*s.tar", (int)(folder ? n - 1 : n), f.path[i]);
        if (st != SLIMSET_OK)
            continue;
        if (folder && !v->d.tree && is_known(&f, tar, (size_t)tar_n))
            verify_note(v, f.path[i], "%s was unpacked here: nothing reads this folder, it can go",
                        tar);
        else
            verify_note(v, f.path[i], "not part of the dataset");
    }
    if (st == SLIMSET_OK && f.n_all > f.n_path)
        verify_note(v, NULL, "and %" PRIu64 " more that are not part of the dataset",
                    f.n_all - f.n_path);
    for (size_t i = 0; i < f.n_path; i++)
        free(f.path[i]);
    free(f.known);
    return st;
}
