/* SPDX-License-Identifier: Apache-2.0
 *
 * A read-only view of a folder in which every read takes a while, as on a network share or a disk
 * that seeks:
 *
 *   SLOWFS_ROOT=FOLDER SLOWFS_MS=5 slowfs MOUNTPOINT [FUSE OPTIONS]
 *
 * Requests wait side by side (many threads), so a reader that asks ahead is faster than one that
 * asks for one file after the other. The kernel caches what was read as it does for a disk; mount
 * again for a cold cache.
 */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int root_fd = -1; /* set once in main, then read only */
static struct timespec read_cost;

static const char *below(const char *path) { return path[1] ? path + 1 : "."; }

static void *slow_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
    cfg->kernel_cache = 1;
    cfg->entry_timeout = cfg->attr_timeout = 3600;
    conn->max_background = 128; /* asynchronous reads (readahead) in flight; the default is 12 */
    conn->congestion_threshold = 128;
    return NULL;
}

static int slow_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    (void)fi;
    return fstatat(root_fd, below(path), st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int slow_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                        struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    (void)offset;
    (void)fi;
    (void)flags;
    int fd = openat(root_fd, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return -e;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st = {.st_ino = e->d_ino, .st_mode = (mode_t)(e->d_type << 12)};
        if (fill(buffer, e->d_name, &st, 0, 0))
            break;
    }
    closedir(dir);
    return 0;
}

static int slow_open(const char *path, struct fuse_file_info *fi)
{
    if ((fi->flags & O_ACCMODE) != O_RDONLY)
        return -EROFS;
    int fd = openat(root_fd, below(path), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    fi->fh = (uint64_t)fd;
    return 0;
}

static int slow_read(const char *path, char *buffer, size_t n, off_t offset,
                     struct fuse_file_info *fi)
{
    (void)path;
    nanosleep(&read_cost, NULL);
    ssize_t got = pread((int)fi->fh, buffer, n, offset);
    return got < 0 ? -errno : (int)got;
}

static int slow_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    close((int)fi->fh);
    return 0;
}

static const struct fuse_operations operations = {
    .init = slow_init,
    .getattr = slow_getattr,
    .readdir = slow_readdir,
    .open = slow_open,
    .read = slow_read,
    .release = slow_release,
};

int main(int argc, char **argv)
{
    const char *root = getenv("SLOWFS_ROOT"), *ms = getenv("SLOWFS_MS");
    long wait_ms = ms ? strtol(ms, NULL, 10) : 5;
    root_fd = root ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (root_fd < 0 || wait_ms < 0 || wait_ms > 10000) {
        fprintf(stderr, "usage: SLOWFS_ROOT=FOLDER SLOWFS_MS=5 slowfs MOUNTPOINT [FUSE OPTIONS]\n");
        return 2;
    }
    read_cost = (struct timespec){.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    return fuse_main(argc, argv, &operations, NULL);
}
