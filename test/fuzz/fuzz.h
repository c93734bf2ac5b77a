/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share. A target is one LLVMFuzzerTestOneInput; besides what the sanitizers
 * see, it holds the code to properties (MUST): the same input gives the same answer, what was
 * accepted once is accepted again, nothing leads outside.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(what)                                                                        \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

/* Small ones: what is above them is refused, which is the other path to test. */
static const struct image_limits fuzz_limits = {
    .max_pixels = 1 << 20, .max_side = 65500, .max_scans = 20, .max_scan_pixels = 4 << 20};

/* A file without a name that holds these bytes. */
static inline int fuzz_file(const void *data, size_t n)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(fd >= 0 && (n == 0 || write(fd, data, n) == (ssize_t)n));
    return fd;
}

static char fuzz_folder_path[300];

static inline void fuzz_folder_remove(void)
{
    struct slimset_error ignored;
    io_remove_tree(AT_FDCWD, fuzz_folder_path, &ignored);
}

/* Removes the folders of processes that are gone: a finding ends a process without its exit. */
static inline void fuzz_folder_sweep(const char *tmp)
{
    DIR *d = opendir(tmp);
    struct dirent *e;
    int pid, end;
    while (d != NULL && (e = readdir(d)) != NULL) {
        end = 0;
        if (sscanf(e->d_name, "slimset-fuzz-%d-%n", &pid, &end) != 1 || end == 0 || pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
            continue;
        struct slimset_error ignored;
        io_remove_tree(dirfd(d), e->d_name, &ignored);
    }
    if (d != NULL)
        closedir(d);
}

/* A folder for this process, made once, removed at its exit: it holds a few files that are written
 * over. */
static inline int fuzz_folder(void)
{
    char *const path = fuzz_folder_path;
    static int fd = -1;
    if (fd >= 0)
        return fd;
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    fuzz_folder_sweep(tmp);
    snprintf(path, sizeof fuzz_folder_path, "%s/slimset-fuzz-%d-XXXXXX", tmp, (int)getpid());
    MUST(mkdtemp(path) != NULL && atexit(fuzz_folder_remove) == 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    MUST(fd >= 0);
    return fd;
}

static inline void fuzz_write(int dir, const char *name, const void *data, size_t n)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(fd >= 0 && (n == 0 || write(fd, data, n) == (ssize_t)n));
    close(fd);
}

/* Everything a picture says, in one number; uninitialised bytes would change it. */
static inline uint64_t fuzz_hash(const struct image *im)
{
    struct hash_stream h;
    hash_init(&h);
    hash_update(&h, &im->w, sizeof im->w);
    hash_update(&h, &im->h, sizeof im->h);
    for (unsigned i = 0; i < im->n_planes; i++)
        for (uint32_t y = 0; y < im->plane[i].h; y++)
            hash_update(&h, im->plane[i].data + (size_t)y * im->plane[i].stride_bytes,
                        (size_t)im->plane[i].w * (im->bits / 8));
    hash_update(&h, im->palette, im->palette_n * 4);
    return hash_value(&h);
}

/* A fault has a class and a text, and blames the input alone. */
static inline void fuzz_fault(enum slimset_status st, const struct slimset_error *err)
{
    if (st == SLIMSET_OK)
        return;
    MUST(st == SLIMSET_BAD_INPUT || st == SLIMSET_NEED_SLOW);
    MUST(err->text[0] != '\0' && strnlen(err->text, sizeof err->text) < sizeof err->text);
    MUST(strchr(err->text, '\n') == NULL);
    MUST(st != SLIMSET_BAD_INPUT || (err->reject > 0 && err->reject < SLIMSET_REJECT_COUNT));
}

#endif
