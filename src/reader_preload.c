/* SPDX-License-Identifier: Apache-2.0
 *
 * All fields of a dataset in memory, once per machine and user.
 *
 * The copy is a POSIX shared memory object whose name holds the user's number and the hash of the
 * index, so that whoever opens the same dataset finds it, and nobody finds another's:
 *
 *      0     header: magic, folder, hash of the index, sizes, "ready"
 *      4096  for each field of the index, where its bytes lie (u64)
 *      ...   the bytes, each field at a multiple of 64
 *
 * A lock on the object (flock) says who does what. Who is attached holds it shared for as long as
 * the reader is open; who fills holds it alone, and others wait for it. The one that can have it
 * alone when it closes was the last, and removes the name. The kernel gives locks back when a
 * process dies: a half-filled object is filled anew, and one without users is simply used again.
 * Children of fork share the lock of their parent. Once the dataset was packed again nobody opens
 * what a killed process left of it before: so the header has the folder too, and the next preload
 * of that folder removes objects with another hash that nobody holds.
 *
 * Every field is checked against its hash on its way in. The object belongs to the user alone (0600)
 * and is reserved in full before it is filled, so that only the user's own processes could cut or
 * change it. Whoever does that to himself gets SIGBUS, or a checksum that does not match.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "memory_room.h"
#include "reader_impl.h"

enum {
    NAME_BYTES = 64,
    HEADER_BYTES = 4096,
    ALIGN_BYTES = 64,
    READ_BYTES = 1 << 20,
    SPARE_BYTES = 64 << 20, /* that must stay available on the machine */
    TRIES = 100             /* each loses a race against a process that closes */
};

#define MAGIC "slimram2"
#define FOLDER "/dev/shm" /* where shm_open keeps its objects */

struct ram_header {
    char magic[8];
    uint64_t folder;     /* folder_id; it, the magic and the hash are there before "ready" */
    uint64_t index_hash; /* of the index's header, which holds the hash of all of it */
    uint64_t bytes;      /* of the object */
    uint64_t n_fields;
    uint64_t ready;      /* 1: all of it is there */
};

/* A folder's number: the hash of its path without links, which stays when it is packed again. 0: unknown. */
static uint64_t folder_id(const char *out)
{
    char *path = realpath(out, NULL);
    uint64_t id = path != NULL ? hash_bytes(path, strlen(path)) : 0;
    free(path);
    return id;
}

static void object_name(const struct dataset *d, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "/slimset1-%u-%016" PRIx64, (unsigned)geteuid(),
             d->ix.header->header_hash);
}

static int lock(int fd, int how)
{
    int rc;
    do
        rc = flock(fd, how);
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* Whether the name still means this object. */
static bool is_named(int fd, const char *name)
{
    struct stat mine, there;
    int other = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (other < 0)
        return false;
    bool same = fstat(fd, &mine) == 0 && fstat(other, &there) == 0 && mine.st_ino == there.st_ino &&
                mine.st_dev == there.st_dev;
    close(other);
    return same;
}

/* ---- what earlier packings left ---- */

/* Whether the object is of that folder, of another index, and nobody's; then it is locked. */
static bool is_stale(int fd, uint64_t folder, uint64_t index_hash, struct stat *st)
{
    struct ram_header h;
    struct slimset_error ignored;
    size_t got;
    return fstat(fd, st) == 0 && st->st_uid == geteuid() && (st->st_mode & 077) == 0 &&
           io_pread(fd, &h, sizeof h, 0, &got, "", &ignored) == SLIMSET_OK && got == sizeof h &&
           memcmp(h.magic, MAGIC, sizeof h.magic) == 0 && h.folder == folder &&
           h.index_hash != index_hash && lock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Removes them; how many bytes. What cannot be looked at stays. */
static uint64_t drop_stale(uint64_t folder, uint64_t index_hash)
{
    char mine[NAME_BYTES], name[NAME_BYTES];
    uint64_t bytes = 0;
    DIR *all = folder != 0 ? opendir(FOLDER) : NULL;
    snprintf(mine, sizeof mine, "slimset1-%u-", (unsigned)geteuid());
    for (const struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
        struct stat st;
        size_t n = strlen(e->d_name);
        if (strncmp(e->d_name, mine, strlen(mine)) != 0 || n + 2 > sizeof name)
            continue;
        name[0] = '/';
        memcpy(name + 1, e->d_name, n + 1);
        int fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0)
            continue;
        if (is_stale(fd, folder, index_hash, &st) && is_named(fd, name) && shm_unlink(name) == 0)
            bytes += (uint64_t)st.st_size;
        close(fd);
    }
    if (all != NULL)
        closedir(all);
    return bytes;
}

/* ---- does it fit? ---- */

static enum slimset_status does_not_fit(const char *what, uint64_t need, uint64_t room,
                                        const char *advice, struct slimset_error *err)
{
    return err_set(err, SLIMSET_LIMIT,
                   "preloading needs %" PRIu64 " MB, %s has %" PRIu64 " MB left%s",
                   need / 1000000 + 1, what, room / 1000000, advice);
}

static enum slimset_status check_memory(uint64_t need, struct slimset_error *err)
{
    struct memory_room room;
    memory_room(&room);
    if (room.machine != UINT64_MAX && need > (room.machine > SPARE_BYTES ? room.machine - SPARE_BYTES : 0))
        return does_not_fit("the machine", need, room.machine, " of memory", err);
    if (need > room.group)
        return does_not_fit("the memory limit of this process's control group", need, room.group,
                            "", err);
    return SLIMSET_OK;
}

static enum slimset_status check_object(int fd, uint64_t need, struct slimset_error *err)
{
    static const char advice[] = ": enlarge it (docker run --shm-size), or preload into the page cache";
    struct statvfs fs;
    enum slimset_status st = check_memory(need, err);
    if (st != SLIMSET_OK || fstatvfs(fd, &fs) < 0 || fs.f_blocks == 0) /* 0: without a limit */
        return st;
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    return need > room ? does_not_fit("shared memory (/dev/shm)", need, room, advice, err)
                       : SLIMSET_OK;
}

/* ---- filling ---- */

/* Where each field goes; *bytes is the size of it all. */
static enum slimset_status lay_out(struct slimset_reader *r, uint64_t *at, uint64_t *bytes,
                                   struct slimset_error *err)
{
    struct index *ix = &r->d.ix;
    uint64_t pos = HEADER_BYTES + ix->n_fields * sizeof *at;
    for (uint64_t i = 0; i < ix->n_fields; i++) {
        enum slimset_status st = index_touch(ix, &ix->fields[i], sizeof *ix->fields, err);
        if (st != SLIMSET_OK)
            return st;
        pos = (pos + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
        if (at != NULL)
            at[i] = pos;
        if (__builtin_add_overflow(pos, reader_bytes(r, &ix->fields[i]), &pos) || pos > INT64_MAX / 2)
            return err_set(err, SLIMSET_DAMAGED, "%s is damaged: its fields have impossible sizes",
                           SLIMSET_INDEX_NAME);
    }
    *bytes = pos;
    return SLIMSET_OK;
}

static enum slimset_status fill_fields(struct slimset_reader *r, uint8_t *base,
                                       struct slimset_error *err)
{
    const uint64_t *at = (const uint64_t *)(const void *)(base + HEADER_BYTES);
    bool verify = r->verify;
    enum slimset_status st = SLIMSET_OK;
    r->verify = true; /* nobody else has the reader yet */
    for (uint64_t i = 0; st == SLIMSET_OK && i < r->d.ix.n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *all;
        st = index_sample(&r->d.ix, i, &s, &all, err);
        for (uint32_t k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            struct reader_field f;
            st = reader_field_open(r, i, k, &f, err);
            if (st != SLIMSET_OK)
                break;
            st = reader_fetch(r, &f, base + at[f.f - r->d.ix.fields], err);
            reader_field_fini(&f);
        }
    }
    r->verify = verify;
    return st;
}

static enum slimset_status fill(struct slimset_reader *r, int fd, struct slimset_error *err)
{
    uint64_t bytes = 0;
    enum slimset_status st = lay_out(r, NULL, &bytes, err);
    if (st == SLIMSET_OK && ftruncate(fd, 0) < 0) /* what a killed process left */
        st = err_os(err, "cannot use shared memory");
    if (st == SLIMSET_OK)
        st = check_object(fd, bytes, err);
    struct ram_header begun = {.folder = r->ram.folder, .index_hash = r->d.ix.header->header_hash};
    memcpy(begun.magic, MAGIC, sizeof begun.magic);
    if (st == SLIMSET_OK)
        st = io_pwrite(fd, &begun, sizeof begun, 0, "shared memory", err);
    if (st != SLIMSET_OK)
        return st;
    int rc = posix_fallocate(fd, 0, (off_t)bytes);
    if (rc != 0) {
        errno = rc;
        return rc == ENOSPC || rc == ENOMEM
                   ? err_set(err, SLIMSET_LIMIT, "preloading needs %" PRIu64
                             " MB of shared memory: %s", bytes / 1000000 + 1, strerror(rc))
                   : err_os(err, "cannot reserve shared memory");
    }
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return err_os(err, "cannot map shared memory");
    st = lay_out(r, (uint64_t *)(void *)(base + HEADER_BYTES), &bytes, err);
    if (st == SLIMSET_OK)
        st = fill_fields(r, base, err);
    if (st == SLIMSET_OK) {
        struct ram_header *h = (struct ram_header *)(void *)base;
        h->bytes = bytes;
        h->n_fields = r->d.ix.n_fields;
        __atomic_store_n(&h->ready, 1, __ATOMIC_RELEASE);
    }
    munmap(base, bytes);
    return st;
}

/* ---- attaching ---- */

static bool is_ready(const struct slimset_reader *r, int fd)
{
    struct ram_header h;
    struct slimset_error ignored;
    struct stat st;
    size_t got;
    return fstat(fd, &st) == 0 && io_pread(fd, &h, sizeof h, 0, &got, "", &ignored) == SLIMSET_OK &&
           got == sizeof h && memcmp(h.magic, MAGIC, sizeof h.magic) == 0 && h.ready == 1 &&
           h.index_hash == r->d.ix.header->header_hash && h.n_fields == r->d.ix.n_fields &&
           h.bytes == (uint64_t)st.st_size && h.bytes >= HEADER_BYTES + 8 * h.n_fields;
}

static enum slimset_status map_ready(struct slimset_reader *r, int fd, struct slimset_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_os(err, "cannot look at shared memory");
    uint8_t *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return err_os(err, "cannot map shared memory");
    r->ram.base = base;
    r->ram.bytes = (size_t)st.st_size;
    r->ram.fd = fd;
    r->ram.at = (const uint64_t *)(const void *)(base + HEADER_BYTES);
    return SLIMSET_OK;
}

/* The object, open and surely ours. */
static enum slimset_status open_object(const char *name, int *fd, struct slimset_error *err)
{
    struct stat st;
    *fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        return err_os(err, "cannot open shared memory %s", name);
    if (fstat(*fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0)
        return SLIMSET_OK;
    close(*fd);
    return err_set(err, SLIMSET_IO, "the shared memory %s is not this user's alone", name);
}

/* One try: SLIMSET_OK and attached, or *again after a lost race. Closes fd unless attached. */
static enum slimset_status attach(struct slimset_reader *r, const char *name, int fd, bool *again,
                                  struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    *again = false;
    if (lock(fd, LOCK_SH) < 0) {
        st = err_os(err, "cannot lock shared memory %s", name);
    } else if (is_named(fd, name) && !is_ready(r, fd)) {
        if (lock(fd, LOCK_EX) < 0)
            st = err_os(err, "cannot lock shared memory %s", name);
        else if (is_named(fd, name) && !is_ready(r, fd)) {
            st = fill(r, fd, err);
            if (st != SLIMSET_OK)
                shm_unlink(name);
        }
        if (st == SLIMSET_OK && lock(fd, LOCK_SH) < 0)
            st = err_os(err, "cannot lock shared memory %s", name);
    }
    if (st == SLIMSET_OK && is_named(fd, name) && is_ready(r, fd))
        st = map_ready(r, fd, err);
    else
        *again = st == SLIMSET_OK;
    if (st != SLIMSET_OK || *again)
        close(fd);
    return st;
}

enum slimset_status reader_preload_ram(struct slimset_reader *r, const char *out, struct slimset_error *err)
{
    char name[NAME_BYTES];
    r->ram.folder = folder_id(out);
    drop_stale(r->ram.folder, r->d.ix.header->header_hash);
    object_name(&r->d, name);
    for (int i = 0; i < TRIES; i++) {
        int fd;
        bool again;
        enum slimset_status st = open_object(name, &fd, err);
        if (st == SLIMSET_OK)
            st = attach(r, name, fd, &again, err);
        if (st != SLIMSET_OK || !again)
            return st;
    }
    return err_set(err, SLIMSET_IO, "the shared memory %s vanished again and again", name);
}

void reader_preload_fini(struct slimset_reader *r)
{
    char name[NAME_BYTES];
    if (r->ram.base == NULL)
        return;
    munmap((void *)(uintptr_t)r->ram.base, r->ram.bytes);
    object_name(&r->d, name);
    if (getpid() == r->pid && lock(r->ram.fd, LOCK_EX | LOCK_NB) == 0 && is_named(r->ram.fd, name))
        shm_unlink(name);
    close(r->ram.fd);
}

enum slimset_status slimset_preload_drop(const char *out, uint64_t *bytes, struct slimset_error *err)
{
    struct dataset d;
    char name[NAME_BYTES];
    struct stat there;
    enum slimset_status st = dataset_open_folder(out, &d, err);
    if (st == SLIMSET_OK)
        st = dataset_open_index(out, &d, err);
    if (st != SLIMSET_OK) {
        dataset_close(&d);
        return st;
    }
    object_name(&d, name);
    uint64_t stale = drop_stale(folder_id(out), d.ix.header->header_hash);
    dataset_close(&d);
    if (bytes != NULL)
        *bytes = stale;
    int fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? SLIMSET_OK : err_os(err, "cannot open shared memory %s", name);
    if (fstat(fd, &there) == 0 && bytes != NULL)
        *bytes += (uint64_t)there.st_size;
    close(fd);
    if (shm_unlink(name) < 0 && errno != ENOENT)
        return err_os(err, "cannot remove shared memory %s", name);
    return SLIMSET_OK;
}

/* ---- the page cache ---- */

static enum slimset_status read_through(int fd, uint8_t *buf, struct slimset_error *err)
{
    uint64_t at = 0;
    size_t got;
    enum slimset_status st;
    do {
        st = io_pread(fd, buf, READ_BYTES, at, &got, "a shard", err);
        at += got;
    } while (st == SLIMSET_OK && got == READ_BYTES);
    return st;
}

enum slimset_status reader_preload_page_cache(struct slimset_reader *r, struct slimset_error *err)
{
    uint64_t n = r->d.tree ? r->d.ix.n_samples : r->d.ix.n_parts;
    enum slimset_status st = check_memory(r->bytes, err);
    if (st != SLIMSET_OK)
        return st;
    uint8_t *buf = malloc(READ_BYTES);
    if (buf == NULL)
        return err_nomem(err, READ_BYTES);
    for (uint64_t i = 0; st == SLIMSET_OK && i < n; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *all;
        int fd;
        bool keep;
        if (!r->d.tree) {
            st = reader_part_open(r, i, &fd, &keep, err);
            if (st != SLIMSET_OK)
                break;
            st = read_through(fd, buf, err);
            if (!keep)
                close(fd);
            continue;
        }
        st = index_sample(&r->d.ix, i, &s, &all, err);
        for (uint32_t k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            struct reader_field f;
            st = reader_field_open(r, i, k, &f, err);
            if (st != SLIMSET_OK)
                break;
            st = read_through(f.fd, buf, err);
            reader_field_fini(&f);
        }
    }
    free(buf);
    return st;
}
