/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "stack.h"

enum slimset_status dataset_open_folder(const char *out, struct dataset *d,
                                        struct slimset_error *err)
{
    memset(d, 0, sizeof *d);
    do
        d->dirfd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (d->dirfd < 0 && errno == EINTR);
    if (d->dirfd >= 0)
        return SLIMSET_OK;
    if (errno == ENOENT)
        return err_set(err, SLIMSET_NOT_FOUND, "there is no folder %s", out);
    if (errno == ENOTDIR)
        return err_set(err, SLIMSET_NOT_FOUND, "%s is not a folder: name the folder that holds %s",
                       out, SLIMSET_INDEX_NAME);
    return err_os(err, "cannot open the folder %s", out);
}

enum slimset_status dataset_open_index(const char *out, struct dataset *d,
                                       struct slimset_error *err)
{
    enum slimset_status st = index_open_copied(d->dirfd, SLIMSET_INDEX_NAME, &d->ix, err);
    if (st == SLIMSET_NOT_FOUND) {
        struct stat plan;
        if (fstatat(d->dirfd, ".slimset/plan", &plan, 0) == 0)
            return err_set(err, SLIMSET_NOT_FOUND,
                           "the pack into %s has not finished: run the same pack again, it goes on "
                           "where it stopped",
                           out);
        return err_set(err, SLIMSET_NOT_FOUND, "%s is no packed dataset: it has no %s", out,
                       SLIMSET_INDEX_NAME);
    }
    if (st != SLIMSET_OK)
        return st;
    const char *layout;
    size_t n;
    if (!index_meta(&d->ix, "layout", &layout, &n))
        return SLIMSET_OK;
    d->tree = n == 4 && memcmp(layout, "tree", 4) == 0;
    d->stacked = n == 3 && memcmp(layout, "npy", 3) == 0;
    return d->stacked && d->ix.n_samples > 0 ? stack_row(&d->ix, &d->row, err) : SLIMSET_OK;
}

bool dataset_replaced(const struct dataset *d)
{
    struct stat mine, there;
    struct slimset_header header;
    struct slimset_error ignored;
    size_t got = 0;
    if (fstat(d->ix.fd, &mine) == 0 &&
        fstatat(d->dirfd, SLIMSET_INDEX_NAME, &there, 0) == 0 && mine.st_ino == there.st_ino &&
        mine.st_dev == there.st_dev)
        return false;
    /* Another file, but one of the same bytes (the folder was copied over itself) is as good: its
     * header holds the hash of all hashes. */
    int fd = openat(d->dirfd, SLIMSET_INDEX_NAME, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return true;
    bool read = io_pread(fd, &header, sizeof header, 0, &got, "", &ignored) == SLIMSET_OK;
    close(fd);
    return !read || got != sizeof header || memcmp(&header, d->ix.header, sizeof header) != 0;
}

const char *dataset_missing_hint(const struct dataset *d, const char *part)
{
    char folder[DATASET_PATH_MAX];
    struct stat st;
    size_t n = strlen(part);
    if (n <= 4 || n >= sizeof folder || strcmp(part + n - 4, ".tar") != 0)
        return "";
    memcpy(folder, part, n - 4);
    folder[n - 4] = '\0';
    if (fstatat(d->dirfd, folder, &st, 0) == 0 && S_ISDIR(st.st_mode))
        return "; a folder of its name is there: the shard was unpacked, put the tar file itself "
               "back";
    return "";
}

void dataset_close(struct dataset *d)
{
    index_close(&d->ix);
    if (d->dirfd >= 0)
        close(d->dirfd);
    d->dirfd = -1;
}

/* No component may be empty, "." or "..": such a path has one spelling and stays below OUT. */
static bool plain_path(const char *p, size_t n)
{
    size_t start = 0;
    if (n == 0 || n >= DATASET_PATH_MAX || memchr(p, '\0', n) != NULL)
        return false;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && p[i] != '/')
            continue;
        size_t len = i - start;
        if (len == 0 || (p[start] == '.' && (len == 1 || (len == 2 && p[start + 1] == '.'))))
            return false;
        start = i + 1;
    }
    return true;
}

bool dataset_path(const char *key, size_t key_n, const char *name, size_t name_n, char *path)
{
    if (key_n >= DATASET_PATH_MAX || name_n >= DATASET_PATH_MAX)
        return false;
    size_t n = key_n + (name_n != 0 ? 1 + name_n : 0);
    if (n >= DATASET_PATH_MAX)
        return false;
    memcpy(path, key, key_n);
    if (name_n != 0) {
        path[key_n] = '.';
        memcpy(path + key_n + 1, name, name_n);
    }
    path[n] = '\0';
    return plain_path(path, n);
}

bool dataset_part_name(const char *name, size_t n, char *path)
{
    return memchr(name, '/', n) == NULL && dataset_path(name, n, "", 0, path);
}

enum slimset_status dataset_open_file(const struct dataset *d, const char *path, int *fd,
                                      uint64_t *bytes, struct slimset_error *err)
{
    int f;
    do
        f = openat(d->dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (f < 0 && errno == EINTR);
    if (f < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(err, SLIMSET_NOT_FOUND, "%s is missing", path);
    if (f < 0 && (errno == ENAMETOOLONG || errno == ELOOP || errno == ENXIO))
        return err_set(err, SLIMSET_DAMAGED, "%s cannot be a file of the dataset: %s", path,
                       strerror(errno));
    if (f < 0)
        return err_os(err, "cannot open %s", path);
    struct stat st;
    enum slimset_status status = SLIMSET_OK;
    if (fstat(f, &st) < 0)
        status = err_os(err, "cannot open %s", path);
    else if (!S_ISREG(st.st_mode))
        status = err_set(err, SLIMSET_DAMAGED, "%s is not a regular file", path);
    if (status != SLIMSET_OK) {
        close(f);
        return status;
    }
    *fd = f;
    *bytes = (uint64_t)st.st_size;
    return SLIMSET_OK;
}
