/* SPDX-License-Identifier: Apache-2.0
 *
 * From a field's record to its bytes. Shards are opened when they are first needed and stay open,
 * as many as the process may well spare; further ones are opened for each read. Two threads that
 * open the same shard at once agree by one atomic exchange on whose descriptor stays.
 *
 * A pack that replaces the dataset withdraws the index first, then renames. So a file that was
 * opened before the index was still seen in its place belongs to that index, and one that was
 * opened later is not used (dataset_replaced). Hashes would find nearly all of that as well; this
 * holds without them, and can say what happened.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "reader_impl.h"

enum { WHERE_BYTES = 400, READAHEAD_BYTES = 128 << 10 /* what the kernel grants a call at least */ };

enum slimset_status reader_files_init(struct slimset_reader *r, struct slimset_error *err)
{
    struct rlimit limit;
    uint64_t n = r->d.tree ? 0 : r->d.ix.n_parts;
    r->files_max = READER_FILES_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < r->files_max)
        r->files_max = limit.rlim_cur / 2;
    r->files = calloc(n != 0 ? n : 1, sizeof *r->files);
    return r->files != NULL ? SLIMSET_OK : err_nomem(err, n * sizeof *r->files);
}

void reader_files_fini(struct slimset_reader *r)
{
    for (uint64_t i = 0; r->files != NULL && !r->d.tree && i < r->d.ix.n_parts; i++)
        if (r->files[i] != 0)
            close(r->files[i] - 1);
    free(r->files);
}

static enum slimset_status replaced(struct slimset_error *err)
{
    return err_set(err, SLIMSET_DIFFERS,
                   "the dataset was packed again while it was open: open it again");
}

static enum slimset_status leads_outside(struct slimset_error *err)
{
    return err_set(err, SLIMSET_DAMAGED,
                   "%s is damaged: a file name in it leads outside of the dataset",
                   SLIMSET_INDEX_NAME);
}

/* The file of a part; path has DATASET_PATH_MAX bytes. */
static enum slimset_status part_path(struct slimset_reader *r, uint64_t part, char *path,
                                     struct slimset_error *err)
{
    const struct slimset_part *p = &r->d.ix.parts[part];
    struct slimset_text name;
    enum slimset_status st = index_touch(&r->d.ix, p, sizeof *p, err);
    if (st == SLIMSET_OK)
        st = reader_text(r, p->name, &name, err);
    if (st == SLIMSET_OK && !dataset_part_name(name.bytes, name.n, path))
        st = leads_outside(err);
    return st;
}

/* The file of a field. */
static enum slimset_status field_path(struct slimset_reader *r, const struct reader_field *f,
                                      char *path, struct slimset_error *err)
{
    struct slimset_text key, name;
    if (!r->d.tree)
        return part_path(r, f->s->part, path, err);
    enum slimset_status st = reader_text(r, f->s->key, &key, err);
    if (st == SLIMSET_OK)
        st = reader_text(r, f->f->name, &name, err);
    if (st == SLIMSET_OK && !dataset_path(key.bytes, key.n, name.bytes, name.n, path))
        st = leads_outside(err);
    return st;
}

/* "field jpg of sample cat/0001", as far as the index gives it. */
static void describe(struct slimset_reader *r, const struct reader_field *f,
                     char where[WHERE_BYTES])
{
    struct slimset_text key = {"?", 1}, name = {"?", 1};
    struct slimset_error ignored;
    (void)reader_text(r, f->s->key, &key, &ignored);
    (void)reader_text(r, f->f->name, &name, &ignored);
    snprintf(where, WHERE_BYTES, "field %.*s of sample %.*s", (int)(name.n < 60 ? name.n : 60),
             name.bytes, (int)(key.n < 150 ? key.n : 150), key.bytes);
}

/* A file of the dataset that surely belongs to the index. */
static enum slimset_status open_current(struct slimset_reader *r, const char *path, int *fd,
                                        uint64_t *bytes, struct slimset_error *err)
{
    struct slimset_error first;
    enum slimset_status st = dataset_open_file(&r->d, path, fd, bytes, &first);
    if ((st == SLIMSET_OK || st == SLIMSET_NOT_FOUND) && dataset_replaced(&r->d)) {
        if (st == SLIMSET_OK)
            close(*fd);
        return replaced(err);
    }
    if (st != SLIMSET_OK)
        *err = first;
    return st;
}

enum slimset_status reader_part_open(struct slimset_reader *r, uint64_t part, int *fd, bool *keep,
                                     struct slimset_error *err)
{
    char path[DATASET_PATH_MAX];
    uint64_t bytes;
    int kept = __atomic_load_n(&r->files[part], __ATOMIC_ACQUIRE);
    *keep = kept != 0;
    *fd = kept - 1;
    if (kept != 0)
        return SLIMSET_OK;
    enum slimset_status st = part_path(r, part, path, err);
    if (st == SLIMSET_OK)
        st = open_current(r, path, fd, &bytes, err);
    if (st == SLIMSET_NOT_FOUND) /* a hole in the dataset, not a wrong question */
        return err_set(err, SLIMSET_DAMAGED, "%.200s is missing%s", path,
                       dataset_missing_hint(&r->d, path));
    if (st != SLIMSET_OK)
        return st;
    if (__atomic_fetch_add(&r->files_open, 1, __ATOMIC_RELAXED) >= r->files_max) {
        __atomic_fetch_sub(&r->files_open, 1, __ATOMIC_RELAXED);
        return SLIMSET_OK; /* this one only for now */
    }
    *keep = true;
    int none = 0;
    if (!__atomic_compare_exchange_n(&r->files[part], &none, *fd + 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        close(*fd); /* another thread was faster */
        *fd = none - 1;
        __atomic_fetch_sub(&r->files_open, 1, __ATOMIC_RELAXED);
    }
    return SLIMSET_OK;
}

/* Whether file `path` lies in OUT as if somebody had unpacked the shard there. */
static bool lies_unpacked(struct slimset_reader *r, const char *path)
{
    struct reader_field f = {0};
    struct slimset_text key, name;
    struct slimset_error ignored;
    struct stat st;
    char member[DATASET_PATH_MAX];
    if (*dataset_missing_hint(&r->d, path) != '\0')
        return true;
    return reader_field(r, 0, 0, &f.s, &f.f, &ignored) == SLIMSET_OK &&
           reader_text(r, f.s->key, &key, &ignored) == SLIMSET_OK &&
           reader_text(r, f.f->name, &name, &ignored) == SLIMSET_OK &&
           dataset_path(key.bytes, key.n, name.bytes, name.n, member) &&
           fstatat(r->d.dirfd, member, &st, 0) == 0;
}

enum slimset_status reader_check_packed(struct slimset_reader *r, const char *out,
                                        struct slimset_error *err)
{
    const struct slimset_sample *s;
    const struct slimset_field *f;
    struct slimset_error ignored;
    struct stat there;
    char path[DATASET_PATH_MAX];
    if (r->d.tree || index_sample(&r->d.ix, 0, &s, &f, &ignored) != SLIMSET_OK ||
        part_path(r, s->part, path, &ignored) != SLIMSET_OK ||
        fstatat(r->d.dirfd, path, &there, 0) == 0 || !lies_unpacked(r, path))
        return SLIMSET_OK; /* what else may be wrong is said when it is read */
    return err_set(err, SLIMSET_DAMAGED,
                   "%s: the shards were unpacked: the files that belong into %.200s lie there and "
                   "the tar does not; put the tar files themselves back",
                   out, path);
}

enum slimset_status reader_field_open(struct slimset_reader *r, uint64_t i, uint32_t k,
                                      struct reader_field *f, struct slimset_error *err)
{
    char path[DATASET_PATH_MAX], where[WHERE_BYTES];
    uint64_t bytes = 0;
    struct stat st;
    *f = (struct reader_field){.i = i, .k = k, .fd = -1};
    enum slimset_status status = reader_field(r, i, k, &f->s, &f->f, err);
    if (status != SLIMSET_OK)
        return status;
    f->offset = r->d.tree ? 0 : f->f->offset;
    if (r->d.stacked && f->f->bytes != r->d.row.data_bytes)
        return err_set(err, SLIMSET_DAMAGED, "%s is damaged: a row has a size of its own", SLIMSET_INDEX_NAME);
    if (r->ram.base != NULL) {
        uint64_t at = r->ram.at[f->f - r->d.ix.fields];
        if (at > r->ram.bytes || reader_bytes(r, f->f) > r->ram.bytes - at)
            return err_set(err, SLIMSET_DAMAGED, "the copy in shared memory was changed");
        f->ram = r->ram.base + at;
        return SLIMSET_OK;
    }
    if (r->d.tree) {
        status = field_path(r, f, path, err);
        if (status == SLIMSET_OK)
            status = open_current(r, path, &f->fd, &bytes, err);
        if (status == SLIMSET_NOT_FOUND)
            status = err_set(err, SLIMSET_DAMAGED, "%.200s is missing", path);
    } else {
        status = reader_part_open(r, f->s->part, &f->fd, &f->keep, err);
        if (status == SLIMSET_OK && fstat(f->fd, &st) < 0)
            status = err_os(err, "cannot read a shard");
        else if (status == SLIMSET_OK)
            bytes = (uint64_t)st.st_size;
    }
    /* The file's own size bounds what is allocated, whatever the index says. */
    if (status == SLIMSET_OK && (f->offset > bytes || f->f->bytes > bytes - f->offset)) {
        status = field_path(r, f, path, err);
        describe(r, f, where);
        if (status == SLIMSET_OK)
            status = err_set(err, SLIMSET_DAMAGED, "%.200s is too short for %s: it was truncated",
                             path, where);
    } else if (status == SLIMSET_DAMAGED) { /* the file is named: which field was wanted? */
        describe(r, f, where);
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, "; it holds %s", where);
    }
    if (status != SLIMSET_OK)
        reader_field_fini(f);
    return status;
}

void reader_field_fini(struct reader_field *f)
{
    if (f->fd >= 0 && !f->keep)
        close(f->fd);
    f->fd = -1;
}

static enum slimset_status mismatch(struct slimset_reader *r, const struct reader_field *f,
                                    const char *what, struct slimset_error *err)
{
    char path[DATASET_PATH_MAX], where[WHERE_BYTES];
    if (dataset_replaced(&r->d))
        return replaced(err);
    enum slimset_status st = field_path(r, f, path, err);
    if (st != SLIMSET_OK)
        return st;
    describe(r, f, where);
    return err_set(err, SLIMSET_DAMAGED, "%.200s: %s %s", path, where, what);
}

enum slimset_status reader_blame(struct slimset_reader *r, uint64_t i, uint32_t k,
                                 struct slimset_error *err)
{
    struct reader_field f = {.i = i, .k = k};
    char path[DATASET_PATH_MAX], where[WHERE_BYTES];
    struct slimset_error ignored, was = *err;
    if (reader_field(r, i, k, &f.s, &f.f, &ignored) != SLIMSET_OK ||
        field_path(r, &f, path, &ignored) != SLIMSET_OK)
        return err->status;
    describe(r, &f, where);
    snprintf(err->text, sizeof err->text, "%.100s: %.200s: %.200s", path, where, was.text);
    return err->status;
}

enum slimset_status reader_check_ram(struct slimset_reader *r, const struct reader_field *f,
                                     struct slimset_error *err)
{
    if (r->verify && hash_bytes(f->ram + r->row_head.len, f->f->bytes) != f->f->hash)
        return mismatch(r, f, "does not match its checksum (the copy in shared memory)", err);
    return SLIMSET_OK;
}

enum slimset_status reader_fetch(struct slimset_reader *r, const struct reader_field *f, void *to,
                                 struct slimset_error *err)
{
    size_t got = f->f->bytes, head = r->row_head.len;
    uint8_t *data = (uint8_t *)to + head;
    if (f->ram != NULL) {
        memcpy(to, f->ram, head + got);
    } else {
        if (head > 0)
            memcpy(to, r->row_head.data, head);
        enum slimset_status st = io_pread(f->fd, data, f->f->bytes, f->offset, &got, "a shard", err);
        if (st != SLIMSET_OK)
            return reader_blame(r, f->i, f->k, err);
    }
    if (got != f->f->bytes)
        return mismatch(r, f, "is cut off: the file was truncated", err);
    if (r->verify && hash_bytes(data, got) != f->f->hash)
        return mismatch(r, f, "does not match its checksum", err);
    return SLIMSET_OK;
}

enum slimset_status slimset_reader_read(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        void *buf, size_t cap, size_t *n, struct slimset_error *err)
{
    struct reader_field f;
    enum slimset_status st = reader_field_open(reader, i, k, &f, err);
    if (st != SLIMSET_OK)
        return st;
    *n = reader_bytes(reader, f.f);
    if (*n > cap)
        st = err_set(err, SLIMSET_LIMIT, "the field has %zu bytes, the buffer %zu", *n, cap);
    else
        st = reader_fetch(reader, &f, buf, err);
    reader_field_fini(&f);
    return st;
}

/* The bytes in fresh memory. */
static enum slimset_status load(struct slimset_reader *r, const struct reader_field *f, void **data,
                                struct slimset_error *err)
{
    size_t n = reader_bytes(r, f->f);
    void *p = malloc(n != 0 ? n : 1);
    if (p == NULL)
        return err_nomem(err, n);
    enum slimset_status st = reader_fetch(r, f, p, err);
    if (st == SLIMSET_OK)
        *data = p;
    else
        free(p);
    return st;
}

enum slimset_status slimset_reader_load(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        void **data, size_t *n, struct slimset_error *err)
{
    struct reader_field f;
    enum slimset_status st = reader_field_open(reader, i, k, &f, err);
    if (st != SLIMSET_OK)
        return st;
    st = load(reader, &f, data, err);
    if (st == SLIMSET_OK)
        *n = reader_bytes(reader, f.f);
    reader_field_fini(&f);
    return st;
}

enum slimset_status slimset_reader_view(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        struct slimset_view *view, struct slimset_error *err)
{
    struct reader_field f;
    struct slimset_view v = {0};
    enum slimset_status st = reader_field_open(reader, i, k, &f, err);
    if (st != SLIMSET_OK)
        return st;
    if (f.ram != NULL)
        st = reader_check_ram(reader, &f, err);
    else
        st = load(reader, &f, &v.owned, err);
    v.bytes = f.ram != NULL ? f.ram : v.owned;
    v.n = reader_bytes(reader, f.f);
    reader_field_fini(&f);
    if (st == SLIMSET_OK)
        *view = v;
    return st;
}

void slimset_view_release(struct slimset_view *view)
{
    free(view->owned);
    *view = (struct slimset_view){0};
}

/* In pieces: of a longer range the kernel would read no more than one of its windows. */
static void read_ahead(int fd, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += READAHEAD_BYTES) {
        uint64_t n = to - at < READAHEAD_BYTES ? to - at : READAHEAD_BYTES;
        posix_fadvise(fd, (off_t)at, (off_t)n, POSIX_FADV_WILLNEED); /* advice: may be refused */
    }
}

enum slimset_status slimset_reader_prefetch(struct slimset_reader *reader, const uint64_t *samples,
                                            size_t n, struct slimset_error *err)
{
    for (size_t j = 0; j < n; j++) {
        const struct slimset_sample *s;
        const struct slimset_field *all;
        enum slimset_status st = index_sample(&reader->d.ix, samples[j], &s, &all, err);
        for (uint32_t k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            struct reader_field f;
            st = reader_field_open(reader, samples[j], k, &f, err);
            if (st != SLIMSET_OK || f.ram != NULL)
                continue;
            read_ahead(f.fd, f.offset, f.offset + f.f->bytes);
            reader_field_fini(&f);
        }
        if (st != SLIMSET_OK)
            return st;
    }
    return SLIMSET_OK;
}
