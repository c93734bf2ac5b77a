/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing an index, plan or fragment. The counts given at creation fix where every section starts,
 * so each section is written through a buffer of its own, in any interleaving, and memory does not
 * grow with the dataset (the keys apart, which must be sorted). STRS comes last because only its
 * size is not known beforehand. Then the file is read back once for the block sums, and the header
 * goes in last: until then its first bytes are zeros.
 */
#include "index.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"

enum section_id { META, SPLT, CLAS, FLDS, SHRD, PART, SAMP, FILD, REJS, KEYS, STRS, N_SECTIONS };

static const struct {
    char id[5];
    uint32_t record_bytes;
} section_kind[N_SECTIONS] = {
    [META] = {"META", 1},
    [SPLT] = {"SPLT", sizeof(struct slimset_split)},
    [CLAS] = {"CLAS", sizeof(struct slimset_class)},
    [FLDS] = {"FLDS", sizeof(struct slimset_field_rule)},
    [SHRD] = {"SHRD", sizeof(struct slimset_shard)},
    [PART] = {"PART", sizeof(struct slimset_part)},
    [SAMP] = {"SAMP", sizeof(struct slimset_sample)},
    [FILD] = {"FILD", sizeof(struct slimset_field)},
    [REJS] = {"REJS", sizeof(struct slimset_reject_record)},
    [KEYS] = {"KEYS", sizeof(struct slimset_key)},
    [STRS] = {"STRS", 1},
};

enum {
    SECTION_BUFFER_BYTES = 65536, /* under a megabyte for all of them */
    INTERN_BYTES = 32,
    INTERN_SLOTS = 8192,          /* direct-mapped and overwritten: memory is bounded */
    STRING_BYTES_MAX = 0xffffff
};
static const uint64_t strings_bytes_max = (uint64_t)1 << 40;

struct section_out {
    uint64_t offset;  /* in the file */
    uint64_t bytes;   /* announced; STRS: UINT64_MAX, grows */
    uint64_t put;     /* bytes taken so far */
    uint8_t *buffer;  /* the last put % SECTION_BUFFER_BYTES of them are not written yet */
};

struct interned {
    slimset_str ref; /* 0: free */
    uint8_t n;
    char bytes[INTERN_BYTES];
};

struct index_writer {
    int dirfd, fd;
    char *name;
    enum slimset_kind kind;
    struct section_out section[N_SECTIONS];
    struct interned *interned;
    struct slimset_key *keys;
    uint64_t n_keys;
    uint64_t announced_samples;
};

static uint64_t align8(uint64_t v)
{
    return (v + 7) & ~(uint64_t)7;
}

static void writer_free(struct index_writer *w)
{
    for (int i = 0; i < N_SECTIONS; i++)
        free(w->section[i].buffer);
    free(w->interned);
    free(w->keys);
    free(w->name);
    if (w->fd >= 0)
        close(w->fd);
    if (w->dirfd >= 0)
        close(w->dirfd);
    free(w);
}

void index_abort(struct index_writer *w)
{
    if (w == NULL)
        return;
    struct slimset_error ignored;
    if (w->fd >= 0)
        io_unlink(w->dirfd, w->name, &ignored); /* it is invalid without a header in any case */
    writer_free(w);
}

/* Places the sections one behind the other; false when a count is beyond reason. */
static bool place_sections(struct index_writer *w, const struct index_counts *c)
{
    const uint64_t count[N_SECTIONS] = {
        [META] = c->meta_bytes, [SPLT] = c->splits,
        [CLAS] = c->classes,    [FLDS] = c->fields_rules,
        [SHRD] = c->shards,     [PART] = c->parts,
        [SAMP] = c->samples,    [FILD] = c->fields,
        [REJS] = c->rejects,    [KEYS] = w->kind == SLIMSET_KIND_INDEX ? c->samples : 0,
    };
    uint64_t at = SLIMSET_HEADER_BYTES + N_SECTIONS * sizeof(struct slimset_section);
    for (int i = 0; i < STRS; i++) {
        struct section_out *s = &w->section[i];
        s->offset = at;
        if (__builtin_mul_overflow(count[i], section_kind[i].record_bytes, &s->bytes) ||
            __builtin_add_overflow(at, s->bytes, &at) || at > INT64_MAX / 2)
            return false;
        at = align8(at);
    }
    w->section[STRS].offset = at;
    w->section[STRS].bytes = UINT64_MAX;
    /* Numbers that other sections hold in 32 bits. */
    return c->samples <= UINT32_MAX && c->parts < UINT32_MAX && c->shards < UINT32_MAX &&
           c->splits < UINT32_MAX && c->classes <= INT32_MAX &&
           c->meta_bytes <= INDEX_META_BYTES_MAX;
}

enum slimset_status index_create(int dirfd, const char *name, enum slimset_kind kind,
                                 const struct index_counts *counts, struct index_writer **out,
                                 struct slimset_error *err)
{
    struct index_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_nomem(err, sizeof *w);
    enum slimset_status st = SLIMSET_OK;
    w->dirfd = w->fd = -1;
    w->kind = kind;
    w->announced_samples = counts->samples;
    if (!place_sections(w, counts)) {
        st = err_set(err, SLIMSET_LIMIT, "%s would hold more records than the format can count",
                     name);
        goto out;
    }
    w->name = strdup(name);
    w->interned = calloc(INTERN_SLOTS, sizeof *w->interned);
    bool have = w->name != NULL && w->interned != NULL;
    for (int i = 0; i < N_SECTIONS; i++) {
        size_t n =
            w->section[i].bytes < SECTION_BUFFER_BYTES ? w->section[i].bytes : SECTION_BUFFER_BYTES;
        w->section[i].buffer = malloc(n != 0 ? n : 1);
        have = have && w->section[i].buffer != NULL;
    }
    if (w->section[KEYS].bytes > SIZE_MAX - 1)
        have = false;
    else if (have)
        have = (w->keys = malloc(w->section[KEYS].bytes + 1)) != NULL;
    if (!have) {
        st = err_nomem(err, w->section[KEYS].bytes + (uint64_t)N_SECTIONS * SECTION_BUFFER_BYTES);
        goto out;
    }
    /* The caller may close its descriptor before us; abort still has to find the file. */
    w->dirfd = dirfd == AT_FDCWD ? open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                 : fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    if (w->dirfd < 0) {
        st = err_os(err, "cannot create %s", name);
        goto out;
    }
    st = io_create(w->dirfd, name, &w->fd, err);
out:
    if (st != SLIMSET_OK) {
        index_abort(w);
        w = NULL;
    }
    *out = w;
    return st;
}

/* Takes n bytes into a section; a full buffer goes to the file. */
static enum slimset_status section_put(struct index_writer *w, enum section_id id,
                                       const void *bytes, uint64_t n, struct slimset_error *err)
{
    struct section_out *s = &w->section[id];
    const uint8_t *p = bytes;
    assert(n <= s->bytes - s->put);
    while (n > 0) {
        size_t fill = s->put % SECTION_BUFFER_BYTES;
        size_t take = SECTION_BUFFER_BYTES - fill < n ? SECTION_BUFFER_BYTES - fill : (size_t)n;
        memcpy(s->buffer + fill, p, take);
        s->put += take;
        p += take;
        n -= take;
        if (s->put % SECTION_BUFFER_BYTES == 0) {
            enum slimset_status st =
                io_pwrite(w->fd, s->buffer, SECTION_BUFFER_BYTES,
                          s->offset + s->put - SECTION_BUFFER_BYTES, w->name, err);
            if (st != SLIMSET_OK)
                return st;
        }
    }
    return SLIMSET_OK;
}

static enum slimset_status section_flush(struct index_writer *w, enum section_id id,
                                         struct slimset_error *err)
{
    struct section_out *s = &w->section[id];
    size_t fill = s->put % SECTION_BUFFER_BYTES;
    return io_pwrite(w->fd, s->buffer, fill, s->offset + s->put - fill, w->name, err);
}

enum slimset_status index_string(struct index_writer *w, const void *bytes, size_t n,
                                 slimset_str *out, struct slimset_error *err)
{
    *out = 0;
    if (n == 0)
        return SLIMSET_OK;
    struct interned *slot = NULL;
    if (n <= INTERN_BYTES) {
        slot = &w->interned[hash_bytes(bytes, n) % INTERN_SLOTS];
        if (slot->ref != 0 && slot->n == n && memcmp(slot->bytes, bytes, n) == 0) {
            *out = slot->ref;
            return SLIMSET_OK;
        }
    }
    uint64_t offset = w->section[STRS].put;
    if (n > STRING_BYTES_MAX || offset + n > strings_bytes_max)
        return err_set(err, SLIMSET_LIMIT,
                       "%s: a string of %zu bytes at %llu is more than the format can hold",
                       w->name, n, (unsigned long long)offset);
    enum slimset_status st = section_put(w, STRS, bytes, n, err);
    if (st != SLIMSET_OK)
        return st;
    *out = (uint64_t)n << 40 | offset;
    if (slot != NULL) {
        slot->ref = *out;
        slot->n = (uint8_t)n;
        memcpy(slot->bytes, bytes, n);
    }
    return SLIMSET_OK;
}

enum slimset_status index_put_meta(struct index_writer *w, const void *text, size_t n,
                                   struct slimset_error *err)
{
    return section_put(w, META, text, n, err);
}

enum slimset_status index_put_split(struct index_writer *w, const struct slimset_split *r,
                                    struct slimset_error *err)
{
    return section_put(w, SPLT, r, sizeof *r, err);
}

enum slimset_status index_put_class(struct index_writer *w, const struct slimset_class *r,
                                    struct slimset_error *err)
{
    return section_put(w, CLAS, r, sizeof *r, err);
}

enum slimset_status index_put_rule(struct index_writer *w, const struct slimset_field_rule *r,
                                   struct slimset_error *err)
{
    return section_put(w, FLDS, r, sizeof *r, err);
}

enum slimset_status index_put_shard(struct index_writer *w, const struct slimset_shard *r,
                                    struct slimset_error *err)
{
    return section_put(w, SHRD, r, sizeof *r, err);
}

enum slimset_status index_put_part(struct index_writer *w, const struct slimset_part *r,
                                   struct slimset_error *err)
{
    return section_put(w, PART, r, sizeof *r, err);
}

enum slimset_status index_put_sample(struct index_writer *w, const struct slimset_sample *r,
                                     uint64_t key_hash, struct slimset_error *err)
{
    if (w->kind == SLIMSET_KIND_INDEX) {
        assert(w->n_keys < w->announced_samples);
        w->keys[w->n_keys] = (struct slimset_key){.hash = key_hash, .sample = (uint32_t)w->n_keys};
        w->n_keys++;
    }
    return section_put(w, SAMP, r, sizeof *r, err);
}

enum slimset_status index_put_field(struct index_writer *w, const struct slimset_field *r,
                                    struct slimset_error *err)
{
    return section_put(w, FILD, r, sizeof *r, err);
}

enum slimset_status index_put_reject(struct index_writer *w, const struct slimset_reject_record *r,
                                     struct slimset_error *err)
{
    return section_put(w, REJS, r, sizeof *r, err);
}

static int key_order(const void *va, const void *vb)
{
    const struct slimset_key *a = va, *b = vb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* Writes the section table and the zeros that fill the gaps between sections and up to
 * sums_offset. */
static enum slimset_status write_table(struct index_writer *w, uint64_t sums_offset,
                                       struct slimset_error *err)
{
    static const uint8_t zeros[8];
    struct slimset_section table[N_SECTIONS];
    memset(table, 0, sizeof table);
    for (int i = 0; i < N_SECTIONS; i++) {
        const struct section_out *s = &w->section[i];
        memcpy(table[i].id, section_kind[i].id, sizeof table[i].id);
        table[i].record_bytes = section_kind[i].record_bytes;
        table[i].offset = s->offset;
        table[i].bytes = s->put;
        table[i].count = s->put / section_kind[i].record_bytes;
        uint64_t end = s->offset + s->put,
                 next = i + 1 < N_SECTIONS ? w->section[i + 1].offset : sums_offset;
        enum slimset_status st = io_pwrite(w->fd, zeros, next - end, end, w->name, err);
        if (st != SLIMSET_OK)
            return st;
    }
    return io_pwrite(w->fd, table, sizeof table, SLIMSET_HEADER_BYTES, w->name, err);
}

/* Block sums by reading back, tail, and at the very end the header. */
static enum slimset_status seal(struct index_writer *w, uint64_t sums_offset,
                                struct slimset_error *err)
{
    uint64_t covered = sums_offset - SLIMSET_HEADER_BYTES;
    uint64_t n_blocks = (covered + SLIMSET_BLOCK_BYTES - 1) / SLIMSET_BLOCK_BYTES;
    uint64_t sums_bytes = n_blocks * sizeof(uint64_t);
    enum slimset_status st = SLIMSET_OK;
    uint64_t *sums = malloc(sums_bytes);
    uint8_t *block = malloc(SLIMSET_BLOCK_BYTES);
    if (sums == NULL || block == NULL) {
        st = err_nomem(err, sums_bytes + SLIMSET_BLOCK_BYTES);
        goto out;
    }
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t at = i * SLIMSET_BLOCK_BYTES;
        size_t n = covered - at < SLIMSET_BLOCK_BYTES ? (size_t)(covered - at)
                                                      : SLIMSET_BLOCK_BYTES,
               got;
        st = io_pread(w->fd, block, n, SLIMSET_HEADER_BYTES + at, &got, w->name, err);
        if (st == SLIMSET_OK && got != n)
            st = err_set(err, SLIMSET_IO, "cannot read %s back: it ends too early", w->name);
        if (st != SLIMSET_OK)
            goto out;
        sums[i] = hash_bytes(block, n);
    }
    struct {
        uint64_t file_bytes;
        char magic[8];
    } tail = {.file_bytes = sums_offset + sums_bytes + 16};
    memcpy(tail.magic, SLIMSET_TAIL_MAGIC, sizeof tail.magic);
    struct slimset_header h = {
        .version = SLIMSET_FORMAT_VERSION,
        .header_bytes = SLIMSET_HEADER_BYTES,
        .file_bytes = tail.file_bytes,
        .kind = w->kind,
        .n_sections = N_SECTIONS,
        .table_offset = SLIMSET_HEADER_BYTES,
        .sums_offset = sums_offset,
        .n_blocks = n_blocks,
        .sums_hash = hash_bytes(sums, sums_bytes),
    };
    memcpy(h.magic, SLIMSET_MAGIC, sizeof h.magic);
    h.header_hash = hash_bytes(&h, offsetof(struct slimset_header, header_hash));
    st = io_pwrite(w->fd, sums, sums_bytes, sums_offset, w->name, err);
    if (st == SLIMSET_OK)
        st = io_pwrite(w->fd, &tail, sizeof tail, sums_offset + sums_bytes, w->name, err);
    if (st == SLIMSET_OK)
        st = io_pwrite(w->fd, &h, sizeof h, 0, w->name, err);
out:
    free(sums);
    free(block);
    return st;
}

enum slimset_status index_commit(struct index_writer *w, bool sync, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    if (w->n_keys > 0) {
        qsort(w->keys, w->n_keys, sizeof *w->keys, key_order);
        st = section_put(w, KEYS, w->keys, w->n_keys * sizeof *w->keys, err);
    }
    for (int i = 0; i < N_SECTIONS && st == SLIMSET_OK; i++) {
        assert(i == STRS || w->section[i].put == w->section[i].bytes);
        st = section_flush(w, (enum section_id)i, err);
    }
    uint64_t sums_offset = align8(w->section[STRS].offset + w->section[STRS].put);
    if (st == SLIMSET_OK)
        st = write_table(w, sums_offset, err);
    if (st == SLIMSET_OK)
        st = seal(w, sums_offset, err);
    if (st == SLIMSET_OK && sync)
        st = io_fsync(w->fd, w->name, err);
    if (st == SLIMSET_OK) {
        int fd = w->fd;
        w->fd = -1;
        st = io_close(fd, w->name, err);
        if (st != SLIMSET_OK) { /* an error of closing is one of writing */
            struct slimset_error ignored;
            io_unlink(w->dirfd, w->name, &ignored);
        }
    }
    index_abort(w); /* removes the file where it failed: the descriptor is still open then */
    return st;
}
