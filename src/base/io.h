/* SPDX-License-Identifier: Apache-2.0
 *
 * Every call that writes, syncs, renames or removes goes through here, so that one place decides
 * about EINTR, short writes and error texts, and tests can stand in between. Names in texts are
 * what the caller passes as `what`. File descriptors stay the caller's.
 *
 * After a failed write, fsync or close a file is dead: remove it, never sync it again.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Writes all n bytes at the file position; at `offset` for io_pwrite. */
enum slimset_status io_write(int fd, const void *data, size_t n, const char *what,
                             struct slimset_error *err);
enum slimset_status io_pwrite(int fd, const void *data, size_t n, uint64_t offset, const char *what,
                              struct slimset_error *err);

/* Reads up to n bytes at offset until n are there or the file ends; *got says how many. */
enum slimset_status io_pread(int fd, void *data, size_t n, uint64_t offset, size_t *got,
                             const char *what, struct slimset_error *err);

/* Puts a file (io_syncfs: all of its file system) on the disk. Never try again after a failure. */
enum slimset_status io_fsync(int fd, const char *what, struct slimset_error *err);
enum slimset_status io_syncfs(int fd, const char *what, struct slimset_error *err);

/* Closes; the error of close is an error of writing. fd -1 is fine. */
enum slimset_status io_close(int fd, const char *what, struct slimset_error *err);

/* Creates (or truncates) dirfd/name for writing and reading, 0644 less umask; *fd is the caller's.
 * A symbolic link of that name is refused. */
enum slimset_status io_create(int dirfd, const char *name, int *fd, struct slimset_error *err);

/* A file without a name in the folder dirfd (-1: /tmp), for reading and writing; it is gone when it is closed. Where the file system
 * knows no such files it is made as `name` and removed at once. -1: *err says why. */
int io_nameless(int dirfd, const char *name, struct slimset_error *err);

enum slimset_status io_rename(int from_dir, const char *from, int to_dir, const char *to,
                              struct slimset_error *err);

/* Removes a file; one that is not there is fine. */
enum slimset_status io_unlink(int dirfd, const char *name, struct slimset_error *err);

/* mkdir -p below dirfd; existing folders are fine. */
enum slimset_status io_mkdirs(int dirfd, const char *path, struct slimset_error *err);

/* Opens a folder below dirfd ("." for itself); *fd is the caller's. Links only with `follow`. */
enum slimset_status io_open_dir(int dirfd, const char *path, bool follow, int *fd,
                                struct slimset_error *err);

/* Whether there is such a name below dirfd, and how long it is. A folder that cannot be looked at
 * is an error and no answer. */
enum slimset_status io_look(int dirfd, const char *name, bool *there, uint64_t *bytes,
                            struct slimset_error *err);
enum slimset_status io_is_empty(int dirfd, bool *empty, struct slimset_error *err);

/* fsync of a folder below dirfd ("." for itself). File systems that know no sync are accepted
 * silently, here and in io_fsync and io_syncfs: they have nothing better to offer. */
enum slimset_status io_sync_dir(int dirfd, const char *path, struct slimset_error *err);

/* Removes name below dirfd with all that is in it; never follows links. A missing one is fine. */
enum slimset_status io_remove_tree(int dirfd, const char *name, struct slimset_error *err);

/* The whole file into memory (malloc, *data is the caller's, one NUL byte behind).
 * SLIMSET_NOT_FOUND when there is none; SLIMSET_BAD_INPUT for more than max bytes, for what is no
 * regular file, and when it changes meanwhile. */
enum slimset_status io_read_file(int dirfd, const char *name, size_t max, uint8_t **data, size_t *n,
                                 struct slimset_error *err);

#endif
