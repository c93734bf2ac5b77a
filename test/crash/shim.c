/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for LD_PRELOAD that stands between slimset and the system: it makes the Nth call of a
 * class fail, kills the process there, or records every call that changes the disk. So it is the
 * program as released that is tested. test/crash/_crash.py builds it and sets the variables:
 *
 *   SHIM_STATE    file of 64 bytes, mapped: counts (enum count), shared by all processes of a run
 *   SHIM_CLASS    open create write sync close rename unlink mkdir trunc read stat list mmap alloc process
 *   SHIM_FAULT    errno to fail with; 0: a short count; -1: SIGKILL instead of the call, -2: after it
 *   SHIM_AT       the call that is hit, from 1; 0: none, only counted
 *   SHIM_TIMES    how many calls in a row are hit; 0: all from there
 *   SHIM_PATH     only calls on paths that contain this
 *   SHIM_WORKERS  workers get the library too, and faults hit them instead of the coordinator
 *   SHIM_LOG      file for the record (powerloss.py reads it)
 *   SHIM_NOSYNC   a sync does nothing: for runs whose durability is of no interest
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum class { NONE, OPEN, CREATE, WRITE, SYNC, CLOSE, RENAME, UNLINK, MKDIR, TRUNC, READ, STAT, LIST, MMAP, ALLOC, PROCESS };
static const char *const class_names[] = {"", "open", "create", "write", "sync", "close", "rename", "unlink", "mkdir",
                                          "trunc", "read", "stat", "list", "mmap", "alloc", "process"};
enum count { CALLS, HITS, SYNCED_AGAIN, N_COUNTS = 8 };
enum op { OP_CREATE = 1, OP_WRITE, OP_FSYNC, OP_SYNCFS, OP_RENAME, OP_UNLINK, OP_MKDIR, OP_TRUNC };

static struct {
    enum class class;
    long fault, at, times;
    char path[256];
    _Atomic uint64_t *count;
    int log;
    bool ready, here, nosync;
    uint64_t dead[16]; /* inodes whose sync has failed */
    unsigned n_dead;
    dev_t dev;
} shim;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static long number(const char *name)
{
    const char *s = getenv(name);
    return s != NULL ? strtol(s, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
    const char *s = getenv("SHIM_CLASS"), *path = getenv("SHIM_PATH"), *state = getenv("SHIM_STATE"), *log = getenv("SHIM_LOG");
    bool worker = argc > 0 && strcmp(argv[0], "slimset-worker") == 0;
    for (unsigned i = 1; s != NULL && i < sizeof class_names / sizeof class_names[0]; i++)
        if (strcmp(s, class_names[i]) == 0)
            shim.class = (enum class)i;
    shim.fault = number("SHIM_FAULT");
    shim.at = number("SHIM_AT");
    shim.times = number("SHIM_TIMES");
    shim.nosync = number("SHIM_NOSYNC") != 0;
    shim.here = worker == (number("SHIM_WORKERS") != 0);
    if (path != NULL)
        snprintf(shim.path, sizeof shim.path, "%s", path);
    if (state != NULL) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, state, O_RDWR | O_CLOEXEC, 0);
        void *p = mmap(NULL, N_COUNTS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            abort();
        shim.count = p;
        syscall(SYS_close, fd);
    }
    shim.log = -1;
    if (log != NULL && !worker) {
        struct stat st;
        int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
        shim.log = fcntl(fd, F_DUPFD_CLOEXEC, 300);
        if (shim.log < 0 || syscall(SYS_fstat, shim.log, &st) != 0)
            abort();
        shim.dev = st.st_dev;
        syscall(SYS_close, fd);
    }
    shim.ready = true;
}

/* --- faults ------------------------------------------------------------------------------------- */

static bool path_fits(int fd, const char *name)
{
    char link[64], text[4096];
    if (shim.path[0] == '\0')
        return true;
    if (name != NULL && (name[0] == '/' || strstr(name, shim.path) != NULL))
        return strstr(name, shim.path) != NULL;
    if (fd == AT_FDCWD)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof text - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return strstr(text, shim.path) != NULL;
}

/* Counts a call; true when it is to fail. */
static bool hit(enum class class, int fd, const char *name)
{
    if (!shim.ready || !shim.here || shim.class != class || shim.count == NULL || !path_fits(fd, name))
        return false;
    long n = (long)atomic_fetch_add(&shim.count[CALLS], 1) + 1;
    if (shim.at == 0 || n < shim.at || (shim.times != 0 && n >= shim.at + shim.times))
        return false;
    atomic_fetch_add(&shim.count[HITS], 1);
    if (shim.fault == -1)
        syscall(SYS_kill, getpid(), SIGKILL);
    if (shim.fault > 0)
        errno = (int)shim.fault;
    return true;
}

/* What follows a call that was hit and made all the same. */
static void after(bool was_hit)
{
    if (was_hit && shim.fault == -2)
        syscall(SYS_kill, getpid(), SIGKILL);
}

static bool fails(bool was_hit)
{
    return was_hit && shim.fault > 0;
}

/* --- the record ----------------------------------------------------------------------------------- */

struct record {
    uint32_t op, name1, name2, data;
    uint64_t a, b, c;
};

static void record(enum op op, uint64_t a, uint64_t b, uint64_t c, const char *name1, const char *name2, const void *data, size_t n)
{
    struct record r = {op, (uint32_t)(name1 != NULL ? strlen(name1) : 0), (uint32_t)(name2 != NULL ? strlen(name2) : 0),
                       (uint32_t)n, a, b, c};
    int e = errno;
    if (syscall(SYS_write, shim.log, &r, sizeof r) != sizeof r || (r.name1 > 0 && syscall(SYS_write, shim.log, name1, r.name1) < 0) ||
        (r.name2 > 0 && syscall(SYS_write, shim.log, name2, r.name2) < 0) || (n > 0 && syscall(SYS_write, shim.log, data, n) != (long)n))
        abort();
    errno = e;
}

/* The inode behind a descriptor; 0 where the record does not care: another file system, the current folder. */
static uint64_t inode(int fd)
{
    struct stat st;
    if (fd == AT_FDCWD || syscall(SYS_fstat, fd, &st) != 0 || st.st_dev != shim.dev || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    return st.st_ino;
}

/* --- opening and closing ------------------------------------------------------------------------------ */

static int do_open(int dir, const char *name, int flags, mode_t mode)
{
    bool h = hit(flags & O_CREAT ? CREATE : OPEN, dir, name);
    if (fails(h))
        return -1;
    int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
    after(h);
    if (fd >= 0 && shim.log >= 0 && (flags & O_CREAT) != 0 && inode(fd) != 0)
        record(OP_CREATE, inode(dir), inode(fd), (flags & O_TRUNC) != 0, name, NULL, NULL, 0);
    return fd;
}

#define OPENER(NAME)                                                                                                   \
    int NAME(const char *name, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list ap;                                                                                                    \
        va_start(ap, flags);                                                                                           \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;                                          \
        va_end(ap);                                                                                                    \
        return do_open(AT_FDCWD, name, flags, mode);                                                                   \
    }
#define AT_OPENER(NAME)                                                                                                \
    int NAME(int dir, const char *name, int flags, ...)                                                                \
    {                                                                                                                  \
        va_list ap;                                                                                                    \
        va_start(ap, flags);                                                                                           \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;                                          \
        va_end(ap);                                                                                                    \
        return do_open(dir, name, flags, mode);                                                                        \
    }
OPENER(open)
OPENER(open64)
AT_OPENER(openat)
AT_OPENER(openat64)
int __open64_2(const char *name, int flags) { return do_open(AT_FDCWD, name, flags, 0); }
int __openat64_2(int dir, const char *name, int flags) { return do_open(dir, name, flags, 0); }

int close(int fd)
{
    bool h = hit(CLOSE, fd, NULL);
    int r = (int)syscall(SYS_close, fd); /* Linux closes it, whatever it answers */
    after(h);
    if (!fails(h))
        return r;
    errno = (int)shim.fault;
    return -1;
}

/* --- reading and writing ------------------------------------------------------------------------------- */

static size_t shorter(bool h, size_t n)
{
    return h && shim.fault == 0 && n > 1 ? n / 2 : n;
}

static ssize_t do_write(int fd, const void *data, size_t n, off_t offset, bool at)
{
    bool h = fd > 2 && hit(WRITE, fd, NULL);
    if (fails(h))
        return -1;
    uint64_t ino = shim.log >= 0 && fd > 2 ? inode(fd) : 0;
    off_t where = at ? offset : ino != 0 ? (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) : 0;
    ssize_t k = at ? syscall(SYS_pwrite64, fd, data, shorter(h, n), offset) : syscall(SYS_write, fd, data, shorter(h, n));
    after(h);
    if (k > 0 && ino != 0)
        record(OP_WRITE, ino, (uint64_t)where, 0, NULL, NULL, data, (size_t)k);
    return k;
}

ssize_t write(int fd, const void *data, size_t n) { return do_write(fd, data, n, 0, false); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) { return do_write(fd, data, n, offset, true); }
ssize_t pwrite64(int fd, const void *data, size_t n, off_t offset) { return do_write(fd, data, n, offset, true); }

static ssize_t do_read(int fd, void *data, size_t n, off_t offset, bool at)
{
    bool h = hit(READ, fd, NULL);
    if (fails(h))
        return -1;
    return at ? syscall(SYS_pread64, fd, data, shorter(h, n), offset) : syscall(SYS_read, fd, data, shorter(h, n));
}

ssize_t read(int fd, void *data, size_t n) { return do_read(fd, data, n, 0, false); }
ssize_t pread(int fd, void *data, size_t n, off_t offset) { return do_read(fd, data, n, offset, true); }
ssize_t pread64(int fd, void *data, size_t n, off_t offset) { return do_read(fd, data, n, offset, true); }

static int do_trunc(int fd, off_t n)
{
    bool h = hit(TRUNC, fd, NULL);
    if (fails(h))
        return -1;
    int r = (int)syscall(SYS_ftruncate, fd, n);
    after(h);
    if (r == 0 && shim.log >= 0 && inode(fd) != 0)
        record(OP_TRUNC, inode(fd), (uint64_t)n, 0, NULL, NULL, NULL, 0);
    return r;
}

int ftruncate(int fd, off_t n) { return do_trunc(fd, n); }
int ftruncate64(int fd, off_t n) { return do_trunc(fd, n); }

/* --- syncing -------------------------------------------------------------------------------------------- */

static int do_sync(int fd, long call, enum op op)
{
    struct stat st;
    bool h = hit(SYNC, fd, NULL);
    uint64_t ino = syscall(SYS_fstat, fd, &st) == 0 ? st.st_ino : 0;
    for (unsigned i = 0; i < shim.n_dead; i++)
        if (shim.dead[i] == ino)
            atomic_fetch_add(&shim.count[SYNCED_AGAIN], 1);
    if (fails(h)) {
        if (shim.fault != EINTR && shim.n_dead < sizeof shim.dead / sizeof shim.dead[0])
            shim.dead[shim.n_dead++] = ino;
        errno = (int)shim.fault;
        return -1;
    }
    int r = shim.nosync ? 0 : (int)syscall(call, fd);
    after(h);
    if (r == 0 && shim.log >= 0 && inode(fd) != 0)
        record(op, ino, 0, 0, NULL, NULL, NULL, 0);
    return r;
}

int fsync(int fd) { return do_sync(fd, SYS_fsync, OP_FSYNC); }
int fdatasync(int fd) { return do_sync(fd, SYS_fdatasync, OP_FSYNC); }
int syncfs(int fd) { return do_sync(fd, SYS_syncfs, OP_SYNCFS); }

/* --- folders ----------------------------------------------------------------------------------------------- */

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    bool h = hit(RENAME, to_dir, to);
    if (fails(h))
        return -1;
    int r = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
    after(h);
    if (r == 0 && shim.log >= 0)
        record(OP_RENAME, inode(from_dir), inode(to_dir), 0, from, to, NULL, 0);
    return r;
}

static int do_unlink(int dir, const char *name, int flags)
{
    bool h = hit(UNLINK, dir, name);
    if (fails(h))
        return -1;
    int r = (int)syscall(SYS_unlinkat, dir, name, flags);
    after(h);
    if (r == 0 && shim.log >= 0)
        record(OP_UNLINK, inode(dir), 0, (uint64_t)flags, name, NULL, NULL, 0);
    return r;
}

int unlinkat(int dir, const char *name, int flags) { return do_unlink(dir, name, flags); }
int unlink(const char *name) { return do_unlink(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return do_unlink(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int dir, const char *name, mode_t mode)
{
    struct stat st;
    bool h = hit(MKDIR, dir, name);
    if (fails(h))
        return -1;
    int r = (int)syscall(SYS_mkdirat, dir, name, mode);
    after(h);
    if (r == 0 && shim.log >= 0 && syscall(SYS_newfstatat, dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        record(OP_MKDIR, inode(dir), st.st_ino, 0, name, NULL, NULL, 0);
    return r;
}

struct dirent64 *readdir64(DIR *d)
{
    struct dirent64 *(*next)(DIR *) = (struct dirent64 *(*)(DIR *))dlsym(RTLD_NEXT, "readdir64");
    return fails(hit(LIST, dirfd(d), NULL)) ? NULL : next(d);
}

static int do_stat(int dir, const char *name, void *st, int flags)
{
    if (fails(hit(STAT, dir, name)))
        return -1;
    return (int)(name == NULL ? syscall(SYS_fstat, dir, st) : syscall(SYS_newfstatat, dir, name, st, flags));
}

int fstat64(int fd, struct stat64 *st) { return do_stat(fd, NULL, st, 0); }
int fstatat64(int dir, const char *name, struct stat64 *st, int flags) { return do_stat(dir, name, st, flags); }
int stat64(const char *name, struct stat64 *st) { return do_stat(AT_FDCWD, name, st, 0); }

/* --- memory -------------------------------------------------------------------------------------------------- */

void *mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    void *(*next)(void *, size_t, int, int, int, off_t) = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap64");
    return fails(hit(MMAP, fd >= 0 ? fd : AT_FDCWD, NULL)) ? MAP_FAILED : next(at, n, protection, flags, fd, offset);
}

void *malloc(size_t n) { return fails(hit(ALLOC, AT_FDCWD, NULL)) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails(hit(ALLOC, AT_FDCWD, NULL)) ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails(hit(ALLOC, AT_FDCWD, NULL)) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return fails(hit(ALLOC, AT_FDCWD, NULL)) ? NULL : __libc_memalign(align, n); }

int posix_memalign(void **p, size_t align, size_t n)
{
    if (fails(hit(ALLOC, AT_FDCWD, NULL)))
        return ENOMEM;
    return (*p = __libc_memalign(align, n)) != NULL ? 0 : ENOMEM;
}

/* --- processes ------------------------------------------------------------------------------------------------- */

int memfd_create(const char *name, unsigned flags)
{
    return fails(hit(PROCESS, AT_FDCWD, NULL)) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    return fails(hit(PROCESS, AT_FDCWD, NULL)) ? -1 : (int)syscall(SYS_socketpair, domain, type, protocol, pair);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    return fails(hit(PROCESS, AT_FDCWD, NULL)) ? -1 : syscall(SYS_sendmsg, fd, m, flags);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                char *const argv[], char *const env[])
{
    typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
    spawn_fn *next = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawn");
    if (fails(hit(PROCESS, AT_FDCWD, NULL)))
        return (int)shim.fault;
    return next(pid, path, actions, attr, argv, number("SHIM_WORKERS") != 0 ? environ : env);
}
