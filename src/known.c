/* SPDX-License-Identifier: Apache-2.0 */
#include "known.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"

#define STAT_MAGIC "slimsta2"

struct stat_header {
    char magic[8];
    uint64_t n, hash;     /* records; of them and the words behind them */
    uint64_t words_bytes; /* each word with its NUL */
    uint64_t index_hash; /* of the index it belongs to: one of another index tells of other content */
};

static int by_path(const void *pa, const void *pb)
{
    const struct known_input *a = pa, *b = pb;
    return a->path_hash < b->path_hash ? -1 : a->path_hash > b->path_hash;
}

/* The whole file behind its header. SLIMSET_NOT_FOUND when there is none or it is not whole. */
static enum slimset_status read_stat(int work_dir, struct stat_header *h, uint8_t **data, size_t *n, struct slimset_error *err)
{
    enum slimset_status st = io_read_file(work_dir, "stat", (size_t)1 << 34, data, n, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_BAD_INPUT ? err_set(err, SLIMSET_NOT_FOUND, "stat is no file of this program") : st;
    bool ok = *n >= sizeof *h;
    if (ok) {
        memcpy(h, *data, sizeof *h);
        *n -= sizeof *h;
        memmove(*data, *data + sizeof *h, *n);
        ok = memcmp(h->magic, STAT_MAGIC, 8) == 0 && h->words_bytes <= *n &&
             (*n - h->words_bytes) % sizeof(struct known_input) == 0 &&
             h->n == (*n - h->words_bytes) / sizeof(struct known_input) && h->hash == hash_bytes(*data, *n);
    }
    if (ok)
        return SLIMSET_OK;
    free(*data);
    *data = NULL;
    return err_set(err, SLIMSET_NOT_FOUND, "stat is damaged");
}

static bool load_stat(struct known *k, int work_dir, const struct index *ix)
{
    uint8_t *data = NULL;
    size_t n;
    struct stat_header h;
    struct slimset_error ignored;
    if (read_stat(work_dir, &h, &data, &n, &ignored) != SLIMSET_OK)
        return false;
    if (h.index_hash != ix->header->header_hash) {
        free(data);
        return false;
    }
    k->input = (struct known_input *)(void *)data;
    k->n = h.n;
    return true;
}

enum slimset_status slimset_noted_words(const char *out, char ***words, size_t *n, struct slimset_error *err)
{
    uint8_t *data = NULL;
    size_t bytes;
    struct stat_header h = {0};
    int dir, work;
    enum slimset_status st = io_open_dir(AT_FDCWD, out, true, &dir, err);
    if (st == SLIMSET_OK) {
        st = io_open_dir(dir, ".slimset", false, &work, err);
        close(dir);
    }
    if (st == SLIMSET_OK) {
        st = read_stat(work, &h, &data, &bytes, err);
        close(work);
    }
    if (st != SLIMSET_OK && st != SLIMSET_NOT_FOUND && err->os_errno != ENOENT && err->os_errno != ENOTDIR)
        return st;
    bool found = st == SLIMSET_OK;
    const char *text = found ? (const char *)data + bytes - h.words_bytes : "";
    *n = 0;
    for (size_t i = 0; i < h.words_bytes; i++)
        *n += text[i] == '\0';
    found = found && *n > 0 && text[h.words_bytes - 1] == '\0';
    char **to = found ? malloc((*n + 1) * sizeof *to + h.words_bytes) : NULL;
    if (to != NULL) {
        char *at = memcpy(to + *n + 1, text, h.words_bytes);
        for (size_t i = 0; i < *n; i++, at += strlen(at) + 1)
            to[i] = at;
        to[*n] = NULL;
    }
    free(data);
    if (!found)
        return err_set(err, SLIMSET_NOT_FOUND, "%.300s does not tell what it was packed from", out);
    *words = to;
    return to != NULL ? SLIMSET_OK : err_nomem(err, h.words_bytes);
}

/* The original path of field i, on a walk over all of them. */
static enum slimset_status field_path(struct index *ix, uint64_t i, const char **path, size_t *n, struct slimset_error *err)
{
    if (i % INDEX_FORGET_EVERY == INDEX_FORGET_EVERY - 1)
        index_forget(ix);
    enum slimset_status st = index_touch(ix, &ix->fields[i], sizeof *ix->fields, err);
    return st == SLIMSET_OK ? index_text(ix, ix->fields[i].path, path, n, err) : st;
}

enum slimset_status known_load(struct known *k, int work_dir, struct index *ix, struct slimset_error *err)
{
    *k = (struct known){0};
    if (load_stat(k, work_dir, ix))
        return SLIMSET_OK;
    k->input = malloc((ix->n_fields + 1) * sizeof *k->input);
    if (k->input == NULL)
        return err_nomem(err, ix->n_fields * sizeof *k->input);
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_fields; i++) {
        const char *path;
        size_t n;
        st = field_path(ix, i, &path, &n, err);
        if (st == SLIMSET_OK && n > 0)
            k->input[k->n++] = (struct known_input){.path_hash = hash_bytes(path, n), .bytes = ix->fields[i].in_bytes,
                                                    .content_hash = ix->fields[i].in_hash};
    }
    qsort(k->input, k->n, sizeof *k->input, by_path);
    return st;
}

void known_fini(struct known *k)
{
    free(k->input);
    *k = (struct known){0};
}

const struct known_input *known_find(const struct known *k, const struct entry *e)
{
    struct known_input want = {.path_hash = hash_bytes(e->path, e->path_bytes)};
    return k->n == 0 ? NULL : bsearch(&want, k->input, k->n, sizeof want, by_path);
}

bool known_same_stat(const struct known_input *in, const struct entry *e)
{
    return in->bytes == e->bytes && in->mtime_ns == e->mtime_ns && in->inode == e->inode && in->mtime_ns != 0;
}

/* Content hashes of the inputs that are in the index, into the sorted records. */
static enum slimset_status fill_hashes(struct known *k, struct index *ix, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_fields; i++) {
        const char *path;
        size_t n;
        st = field_path(ix, i, &path, &n, err);
        if (st != SLIMSET_OK || n == 0 || k->n == 0)
            continue;
        struct known_input want = {.path_hash = hash_bytes(path, n)};
        struct known_input *to = bsearch(&want, k->input, k->n, sizeof want, by_path);
        if (to != NULL)
            to->content_hash = ix->fields[i].in_hash;
    }
    return st;
}

enum slimset_status known_save(const struct listing *l, struct index *ix, const struct slimset_run *run, int work_dir,
                               struct slimset_error *err)
{
    struct stat_header h = {.magic = STAT_MAGIC, .n = l->n_entries, .index_hash = ix->header->header_hash};
    for (size_t i = 0; i < run->n_words; i++)
        h.words_bytes += strlen(run->words[i]) + 1;
    size_t bytes = l->n_entries * sizeof(struct known_input) + h.words_bytes;
    struct known k = {.input = calloc(1, bytes + sizeof *k.input), .n = l->n_entries};
    int fd = -1;
    if (k.input == NULL)
        return err_nomem(err, bytes);
    char *word = (char *)(k.input + k.n);
    for (size_t i = 0; i < run->n_words; i++)
        word = stpcpy(word, run->words[i]) + 1;
    for (size_t i = 0; i < l->n_entries; i++) {
        const struct entry *e = &l->entries[i];
        k.input[i] = (struct known_input){.path_hash = hash_bytes(e->path, e->path_bytes), .bytes = e->bytes,
                                          .mtime_ns = e->mtime_ns, .inode = e->inode};
    }
    qsort(k.input, k.n, sizeof *k.input, by_path);
    enum slimset_status st = fill_hashes(&k, ix, err);
    h.hash = hash_bytes(k.input, bytes);
    if (st == SLIMSET_OK)
        st = io_create(work_dir, "stat.new", &fd, err);
    if (st == SLIMSET_OK)
        st = io_write(fd, &h, sizeof h, "stat", err);
    if (st == SLIMSET_OK)
        st = io_write(fd, k.input, bytes, "stat", err);
    if (fd >= 0) {
        struct slimset_error ignored;
        enum slimset_status closed = io_close(fd, "stat", st == SLIMSET_OK ? err : &ignored);
        st = st == SLIMSET_OK ? closed : st;
    }
    if (st == SLIMSET_OK)
        st = io_rename(work_dir, "stat.new", work_dir, "stat", err);
    known_fini(&k);
    return st;
}
