/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* Linux moves at most 0x7ffff000 bytes a call; asking for more only hides a short count. */
    IO_CHUNK_BYTES = 1 << 30,
    /* Each level of io_remove_tree holds a descriptor open; 1,024 is the usual limit of a
     * process. */
    IO_DEPTH_MAX = 400
};

static size_t chunk(size_t n)
{
    return n < IO_CHUNK_BYTES ? n : IO_CHUNK_BYTES;
}

enum slimset_status io_write(int fd, const void *data, size_t n, const char *what,
                             struct slimset_error *err)
{
    const uint8_t *p = data;
    while (n > 0) {
        ssize_t k = write(fd, p, chunk(n));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_os(err, "cannot write %s", what);
        p += k;
        n -= (size_t)k;
    }
    return SLIMSET_OK;
}

enum slimset_status io_pwrite(int fd, const void *data, size_t n, uint64_t offset, const char *what,
                              struct slimset_error *err)
{
    const uint8_t *p = data;
    if (offset > INT64_MAX || n > INT64_MAX - offset) {
        errno = EFBIG;
        return err_os(err, "cannot write %s", what);
    }
    while (n > 0) {
        ssize_t k = pwrite(fd, p, chunk(n), (off_t)offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_os(err, "cannot write %s", what);
        p += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return SLIMSET_OK;
}

enum slimset_status io_pread(int fd, void *data, size_t n, uint64_t offset, size_t *got,
                             const char *what, struct slimset_error *err)
{
    uint8_t *p = data;
    *got = 0;
    if (offset > INT64_MAX || n > INT64_MAX - offset)
        return SLIMSET_OK; /* no file reaches there: its end comes before */
    while (*got < n) {
        ssize_t k = pread(fd, p + *got, chunk(n - *got), (off_t)(offset + *got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_os(err, "cannot read %s", what);
        if (k == 0)
            break;
        *got += (size_t)k;
    }
    return SLIMSET_OK;
}

/* A file system that knows no fsync (some network and FUSE ones) has nothing better to offer. */
static bool sync_unknown(int e)
{
    return e == EINVAL || e == ENOTSUP || e == ENOSYS;
}

enum slimset_status io_fsync(int fd, const char *what, struct slimset_error *err)
{
    int r;
    do
        r = fsync(fd);
    while (r < 0 && errno == EINTR);
    if (r < 0 && !sync_unknown(errno))
        return err_os(err, "cannot write %s to the disk", what);
    return SLIMSET_OK;
}

enum slimset_status io_syncfs(int fd, const char *what, struct slimset_error *err)
{
    int r;
    do
        r = syncfs(fd);
    while (r < 0 && errno == EINTR);
    if (r < 0 && !sync_unknown(errno))
        return err_os(err, "cannot write %s to the disk", what);
    return SLIMSET_OK;
}

enum slimset_status io_close(int fd, const char *what, struct slimset_error *err)
{
    /* Linux has closed the descriptor whatever the answer is; EINTR is no lost write. */
    if (fd >= 0 && close(fd) < 0 && errno != EINTR)
        return err_os(err, "cannot finish writing %s", what);
    return SLIMSET_OK;
}

enum slimset_status io_create(int dirfd, const char *name, int *fd, struct slimset_error *err)
{
    /* O_NOFOLLOW: a link planted in OUT must not send our bytes into somebody's source. O_RDWR: the
     * index reads back what it wrote. */
    int f;
    do
        f = openat(dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
                   0644);
    while (f < 0 && errno == EINTR);
    if (f < 0)
        return err_os(err, "cannot create %s", name);
    *fd = f;
    return SLIMSET_OK;
}

int io_nameless(int dirfd, const char *name, struct slimset_error *err)
{
    int fd = openat(dirfd >= 0 ? dirfd : AT_FDCWD, dirfd >= 0 ? "." : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && dirfd >= 0) {
        fd = openat(dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0)
            unlinkat(dirfd, name, 0);
    }
    if (fd < 0)
        err_os(err, "creating a file without a name");
    return fd;
}

enum slimset_status io_rename(int from_dir, const char *from, int to_dir, const char *to,
                              struct slimset_error *err)
{
    if (renameat(from_dir, from, to_dir, to) < 0)
        return err_os(err, "cannot rename %s to %s", from, to);
    return SLIMSET_OK;
}

enum slimset_status io_unlink(int dirfd, const char *name, struct slimset_error *err)
{
    if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT && errno != ENOTDIR)
        return err_os(err, "cannot remove %s", name);
    return SLIMSET_OK;
}

enum slimset_status io_mkdirs(int dirfd, const char *path, struct slimset_error *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part) {
        errno = ENAMETOOLONG;
        return err_os(err, "cannot create the folder %.200s...", path);
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char keep = part[i];
        part[i] = '\0';
        if (mkdirat(dirfd, part, 0755) < 0) {
            int e = errno;
            struct stat st;
            if (e == EEXIST)
                e = fstatat(dirfd, part, &st, 0) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
            errno = e;
            if (e != 0)
                return err_os(err, "cannot create the folder %s", part);
        }
        part[i] = keep;
    }
    return SLIMSET_OK;
}

enum slimset_status io_open_dir(int dirfd, const char *path, bool follow, int *fd,
                                struct slimset_error *err)
{
    do
        *fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? err_os(err, "cannot open the folder %s", path) : SLIMSET_OK;
}

enum slimset_status io_look(int dirfd, const char *name, bool *there, uint64_t *bytes,
                            struct slimset_error *err)
{
    struct stat st;
    int r = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW);
    if (r < 0 && errno != ENOENT && errno != ENOTDIR)
        return err_os(err, "cannot look at %s", name);
    *there = r == 0;
    *bytes = r == 0 ? (uint64_t)st.st_size : 0;
    return SLIMSET_OK;
}

enum slimset_status io_is_empty(int dirfd, bool *empty, struct slimset_error *err)
{
    int fd;
    enum slimset_status st = io_open_dir(dirfd, ".", true, &fd, err);
    if (st != SLIMSET_OK)
        return st;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        st = err_os(err, "cannot list a folder");
        close(fd);
        return st;
    }
    const struct dirent *e;
    *empty = true;
    while ((errno = 0, e = readdir(dir)) != NULL)
        *empty = *empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    if (errno != 0)
        st = err_os(err, "cannot list a folder");
    closedir(dir);
    return st;
}

enum slimset_status io_sync_dir(int dirfd, const char *path, struct slimset_error *err)
{
    int fd;
    enum slimset_status st = io_open_dir(dirfd, path, true, &fd, err);
    if (st != SLIMSET_OK)
        return st;
    int r;
    do
        r = fsync(fd);
    while (r < 0 && errno == EINTR);
    if (r < 0 && !sync_unknown(errno))
        st = err_os(err, "cannot write the folder %s to the disk", path);
    close(fd);
    return st;
}

/* Removes `name`, a folder that is not empty, with what is in it. */
static enum slimset_status remove_dir(int dirfd, const char *name, int depth,
                                      struct slimset_error *err)
{
    if (depth >= IO_DEPTH_MAX)
        return err_set(err, SLIMSET_IO, "cannot remove %s: folders nest too deep", name);
    int fd;
    enum slimset_status st = io_open_dir(dirfd, name, false, &fd, err);
    if (st != SLIMSET_OK)
        return err->os_errno == ENOENT ? SLIMSET_OK : st;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        st = err_os(err, "cannot open the folder %s", name);
        close(fd);
        return st;
    }
    bool found;
    do { /* removing while listing may hide entries on some file systems: list until none is left */
        found = false;
        rewinddir(dir);
        const struct dirent *e;
        while (st == SLIMSET_OK && (errno = 0, e = readdir(dir)) != NULL) {
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                continue;
            found = true;
            if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT)
                continue;
            /* A folder: Linux says EISDIR, POSIX EPERM. */
            if (errno == EISDIR || errno == EPERM)
                st = remove_dir(fd, e->d_name, depth + 1, err);
            else
                st = err_os(err, "cannot remove %s/%s", name, e->d_name);
        }
        if (st == SLIMSET_OK && errno != 0)
            st = err_os(err, "cannot list the folder %s", name);
    } while (st == SLIMSET_OK && found);
    closedir(dir);
    if (st == SLIMSET_OK && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        st = err_os(err, "cannot remove the folder %s", name);
    return st;
}

enum slimset_status io_remove_tree(int dirfd, const char *name, struct slimset_error *err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return SLIMSET_OK;
    if (errno != EISDIR && errno != EPERM)
        return err_os(err, "cannot remove %s", name);
    struct stat st;
    int e = errno;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) {
        errno = e; /* a file that may not be removed, and no folder */
        return err_os(err, "cannot remove %s", name);
    }
    return remove_dir(dirfd, name, 0, err);
}

enum slimset_status io_read_file(int dirfd, const char *name, size_t max, uint8_t **data, size_t *n,
                                 struct slimset_error *err)
{
    /* O_NONBLOCK: opening a FIFO must not hang; it is refused below. */
    int fd;
    do
        fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, SLIMSET_NOT_FOUND, "there is no %s", name);
    if (fd < 0)
        return err_os(err, "cannot open %s", name);
    uint8_t *p = NULL;
    struct stat st;
    enum slimset_status status = SLIMSET_OK;
    if (fstat(fd, &st) < 0) {
        status = err_os(err, "cannot open %s", name);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        status = err_bad(err, SLIMSET_REJECT_NOT_REGULAR, "%s is not a regular file", name);
        goto out;
    }
    if ((uint64_t)st.st_size > max) {
        status = err_bad(err, SLIMSET_REJECT_TOO_LARGE, "%s has more than %zu bytes", name, max);
        goto out;
    }
    size_t cap = (size_t)st.st_size, got;
    p = malloc(cap + 1);
    if (p == NULL) {
        status = err_nomem(err, cap + 1);
        goto out;
    }
    status = io_pread(fd, p, cap + 1, 0, &got, name, err);
    if (status == SLIMSET_OK && got != cap)
        status = err_bad(err, SLIMSET_REJECT_CHANGED, "%s changed while it was read", name);
    if (status != SLIMSET_OK)
        goto out;
    p[cap] = '\0';
    *data = p;
    *n = cap;
    p = NULL;
out:
    free(p);
    close(fd);
    return status;
}
