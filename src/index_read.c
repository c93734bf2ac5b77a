/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading an index, plan or fragment in place. Whoever made the file is not trusted: opening proves
 * that every section lies inside the file and is aligned, touching proves that a block is what was
 * written, and the accessors prove each number before it leads anywhere. A checksum is no proof of
 * good will, so passing it saves none of the other checks.
 *
 * An index is mapped or copied. A copied one (index_open_copied) lives in anonymous memory of the
 * file's size, which blocks enter from the file when they are first touched: read aside, hashed,
 * copied to their place, marked. So a file that is cut or a disk that fails while the index is open
 * is an error and not a SIGBUS, and bytes that were checked once do not change any more. No lock is
 * needed: threads, and processes after a fork (the memory is shared), that meet at one block copy
 * the same bytes, which their hash proves.
 */
#include "index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"

enum { SECTIONS_MAX = 64, TAIL_BYTES = 16 };

/* Where the pointer and the count of a section go; meta and strings are text, `const char *`. */
struct section_slot {
    char id[5];
    uint32_t record_bytes;
    size_t pointer_at, count_at; /* in struct index */
};
#define SLOT(id, type, member, n)                                                                  \
    {                                                                                              \
        id, sizeof(type), offsetof(struct index, member), offsetof(struct index, n)                \
    }
static const struct section_slot slots[] = {
    SLOT("META", char, meta, meta_bytes),
    SLOT("SPLT", struct slimset_split, splits, n_splits),
    SLOT("CLAS", struct slimset_class, classes, n_classes),
    SLOT("FLDS", struct slimset_field_rule, rules, n_rules),
    SLOT("SHRD", struct slimset_shard, shards, n_shards),
    SLOT("PART", struct slimset_part, parts, n_parts),
    SLOT("SAMP", struct slimset_sample, samples, n_samples),
    SLOT("FILD", struct slimset_field, fields, n_fields),
    SLOT("REJS", struct slimset_reject_record, rejects, n_rejects),
    SLOT("KEYS", struct slimset_key, keys, n_keys),
    SLOT("STRS", char, strings, string_bytes),
};
enum { N_SLOTS = sizeof slots / sizeof slots[0] };

#define DAMAGED(ix, ...) damaged(ix, err, __VA_ARGS__)
static enum slimset_status damaged(const struct index *ix, struct slimset_error *err,
                                   const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static enum slimset_status damaged(const struct index *ix, struct slimset_error *err,
                                   const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(err, SLIMSET_DAMAGED, "%s is damaged: %s", ix->name, what);
}

void index_close(struct index *ix)
{
    if (ix->base != NULL)
        munmap((void *)(uintptr_t)ix->base, ix->bytes);
    if (ix->checked != NULL)
        munmap(ix->checked, ix->n_blocks);
    if (ix->copied)
        close(ix->fd);
    memset(ix, 0, sizeof *ix);
}

/* Zeroed memory that children of a fork share; MAP_FAILED as mmap. */
static void *shared_memory(uint64_t bytes)
{
    return mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* [at, at + n) of a copied file into its place, as it is. */
static enum slimset_status copy_range(struct index *ix, uint64_t at, uint64_t n,
                                      struct slimset_error *err)
{
    size_t got;
    enum slimset_status st =
        io_pread(ix->fd, (uint8_t *)(uintptr_t)ix->base + at, (size_t)n, at, &got, ix->name, err);
    return st == SLIMSET_OK && got != n ? DAMAGED(ix, "it became shorter") : st;
}

/* Opens the file and maps it, or makes room for its copy; a size that cannot hold header and tail
 * is damage. */
static enum slimset_status map_file(int dirfd, const char *name, bool copied, struct index *ix,
                                    struct slimset_error *err)
{
    int fd;
    do
        fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, SLIMSET_NOT_FOUND, "there is no %s", name);
    if (fd < 0)
        return err_os(err, "cannot open %s", name);
    enum slimset_status status = SLIMSET_OK;
    struct stat st;
    void *p;
    if (fstat(fd, &st) < 0) {
        status = err_os(err, "cannot open %s", name);
    } else if (!S_ISREG(st.st_mode)) {
        status = DAMAGED(ix, "it is not a regular file");
    } else if (st.st_size < SLIMSET_HEADER_BYTES + TAIL_BYTES ||
               (uint64_t)st.st_size > SIZE_MAX / 2) {
        status = DAMAGED(ix, "%lld bytes cannot hold one", (long long)st.st_size);
    } else if ((p = copied ? shared_memory((uint64_t)st.st_size)
                           : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)) ==
               MAP_FAILED) {
        status = err_os(err, "cannot map %s", name);
    } else {
        ix->base = p;
        ix->bytes = (uint64_t)st.st_size;
        ix->copied = copied;
        ix->fd = fd;
    }
    if (!ix->copied)
        close(fd);
    return status;
}

/* Header, tail and the block sums. After this, [128, sums_offset) and the sums are inside the
 * file. */
static enum slimset_status check_header(struct index *ix, enum slimset_kind kind,
                                        struct slimset_error *err)
{
    const struct slimset_header *h = (const struct slimset_header *)(const void *)ix->base;
    enum slimset_status st = SLIMSET_OK;
    if (ix->copied)
        st = copy_range(ix, 0, SLIMSET_HEADER_BYTES, err);
    if (st != SLIMSET_OK)
        return st;
    ix->header = h;
    if (memcmp(h->magic, SLIMSET_MAGIC, sizeof h->magic) != 0)
        return DAMAGED(
            ix,
            "it does not begin as one (a file that was never finished, or another kind of file)");
    if (hash_bytes(h, offsetof(struct slimset_header, header_hash)) != h->header_hash)
        return DAMAGED(ix, "its header does not match the header's checksum");
    if (h->version != SLIMSET_FORMAT_VERSION)
        return err_set(err, SLIMSET_DIFFERS,
                       "%s has format version %" PRIu32 ", this slimset reads version %d", ix->name,
                       h->version, SLIMSET_FORMAT_VERSION);
    if (h->file_bytes != ix->bytes)
        return DAMAGED(ix, "it has %" PRIu64 " bytes, its header says %" PRIu64, ix->bytes,
                       h->file_bytes);
    if (h->kind != (uint32_t)kind)
        return DAMAGED(ix, "it is of kind %" PRIu32 ", not %d", h->kind, (int)kind);
    if (h->header_bytes != SLIMSET_HEADER_BYTES || h->table_offset != SLIMSET_HEADER_BYTES ||
        h->n_sections > SECTIONS_MAX)
        return DAMAGED(ix, "its header has impossible numbers");
    /* From here on no sum can overflow: all terms are at most the file's size or 64 x 32. */
    uint64_t table_end = SLIMSET_HEADER_BYTES + h->n_sections * sizeof(struct slimset_section);
    if (h->sums_offset < table_end || h->sums_offset > ix->bytes - TAIL_BYTES ||
        h->sums_offset % 8 != 0)
        return DAMAGED(ix, "its block sums are at an impossible place");
    uint64_t covered = h->sums_offset - SLIMSET_HEADER_BYTES;
    uint64_t n_blocks = covered / SLIMSET_BLOCK_BYTES + (covered % SLIMSET_BLOCK_BYTES != 0);
    if (h->n_blocks != n_blocks ||
        ix->bytes - TAIL_BYTES - h->sums_offset != n_blocks * sizeof(uint64_t))
        return DAMAGED(ix, "its number of blocks does not fit its size");
    if (ix->copied)
        st = copy_range(ix, h->sums_offset, ix->bytes - h->sums_offset, err);
    if (st != SLIMSET_OK)
        return st;
    const uint8_t *tail = ix->base + ix->bytes - TAIL_BYTES;
    if (get_le64(tail) != ix->bytes || memcmp(tail + 8, SLIMSET_TAIL_MAGIC, 8) != 0)
        return DAMAGED(ix, "it does not end as one");
    ix->sums = (const uint64_t *)(const void *)(ix->base + h->sums_offset);
    if (hash_bytes(ix->sums, n_blocks * sizeof(uint64_t)) != h->sums_hash)
        return DAMAGED(ix, "its block sums do not match their checksum");
    if (n_blocks == 0)
        return SLIMSET_OK;
    void *checked = shared_memory(n_blocks);
    if (checked == MAP_FAILED)
        return err_nomem(err, n_blocks);
    ix->n_blocks = n_blocks;
    ix->checked = checked;
    return SLIMSET_OK;
}

/* Every section of the table inside the covered bytes, in ascending order, aligned, with the record
 * size we read. */
static enum slimset_status find_sections(struct index *ix, struct slimset_error *err)
{
    const struct slimset_header *h = ix->header;
    const struct slimset_section *table =
        (const struct slimset_section *)(const void *)(ix->base + h->table_offset);
    enum slimset_status st = index_touch(ix, table, h->n_sections * sizeof *table, err);
    if (st != SLIMSET_OK)
        return st;
    uint64_t end = h->table_offset + h->n_sections * sizeof *table;
    bool seen[N_SLOTS] = {false};
    for (uint32_t i = 0; i < h->n_sections; i++) {
        const struct slimset_section *s = &table[i];
        uint64_t bytes;
        if (s->offset % 8 != 0 || s->offset < end || s->offset > h->sums_offset ||
            s->bytes > h->sums_offset - s->offset)
            return DAMAGED(ix, "section %" PRIu32 " lies at an impossible place", i);
        if (__builtin_mul_overflow(s->count, s->record_bytes, &bytes) || bytes != s->bytes)
            return DAMAGED(ix, "section %" PRIu32 " does not hold whole records", i);
        end = s->offset + s->bytes;
        for (int k = 0; k < N_SLOTS; k++) {
            const struct section_slot *slot = &slots[k];
            if (memcmp(s->id, slot->id, sizeof s->id) != 0)
                continue; /* an unknown section is skipped: later writers may add some */
            if (seen[k] || s->record_bytes != slot->record_bytes)
                return DAMAGED(ix, "section %s is there twice or has records of another size",
                               slot->id);
            seen[k] = true;
            const void *p = ix->base + s->offset;
            memcpy((char *)ix + slot->pointer_at, &p, sizeof p);
            memcpy((char *)ix + slot->count_at, &s->count, sizeof s->count);
        }
    }
    return SLIMSET_OK;
}

void index_forget(const struct index *ix)
{
    if (!ix->copied)
        madvise((void *)(uintptr_t)ix->base, ix->bytes, MADV_DONTNEED);
}

static enum slimset_status check_block(struct index *ix, uint64_t b, struct slimset_error *err);

static bool is_checked(const struct index *ix, uint64_t b)
{
    return __atomic_load_n(&ix->checked[b], __ATOMIC_ACQUIRE) != 0;
}

/* Opens and checks all but the blocks. */
static enum slimset_status open_file(int dirfd, const char *name, enum slimset_kind kind,
                                     bool copied, struct index *ix, struct slimset_error *err)
{
    memset(ix, 0, sizeof *ix);
    snprintf(ix->name, sizeof ix->name, "%s", name);
    enum slimset_status st = map_file(dirfd, name, copied, ix, err);
    if (st == SLIMSET_OK)
        st = check_header(ix, kind, err);
    if (st == SLIMSET_OK)
        st = find_sections(ix, err);
    /* Counts that other records hold in 32 bits; KEYS exist for all samples of an index, else for
     * none. */
    if (st == SLIMSET_OK && (ix->n_samples > UINT32_MAX || ix->n_parts > UINT32_MAX ||
                             ix->n_shards > UINT32_MAX || ix->n_splits > UINT32_MAX ||
                             ix->n_classes > INT32_MAX || ix->meta_bytes > INDEX_META_BYTES_MAX))
        st = DAMAGED(ix, "it holds more records than can be");
    if (st == SLIMSET_OK && ix->n_keys != (kind == SLIMSET_KIND_INDEX ? ix->n_samples : 0))
        st = DAMAGED(ix, "it has %" PRIu64 " keys for %" PRIu64 " samples", ix->n_keys,
                     ix->n_samples);
    if (st == SLIMSET_OK)
        st = index_touch(ix, ix->meta, ix->meta_bytes, err);
    if (st != SLIMSET_OK)
        index_close(ix);
    return st;
}

enum slimset_status index_open(int dirfd, const char *name, enum slimset_kind kind, bool check_all,
                               struct index *ix, struct slimset_error *err)
{
    enum slimset_status st = open_file(dirfd, name, kind, false, ix, err);
    if (st != SLIMSET_OK)
        return st;
    for (uint64_t b = 0; check_all && st == SLIMSET_OK && b < ix->n_blocks; b++) {
        if (!is_checked(ix, b))
            st = check_block(ix, b, err);
        if (b % 16 == 15) /* a megabyte at a time */
            index_forget(ix);
    }
    if (st != SLIMSET_OK)
        index_close(ix);
    return st;
}

enum slimset_status index_open_copied(int dirfd, const char *name, struct index *ix,
                                      struct slimset_error *err)
{
    return open_file(dirfd, name, SLIMSET_KIND_INDEX, true, ix, err);
}

static enum slimset_status check_block(struct index *ix, uint64_t b, struct slimset_error *err)
{
    uint64_t at = SLIMSET_HEADER_BYTES + b * SLIMSET_BLOCK_BYTES;
    uint64_t left = ix->header->sums_offset - at;
    size_t n = left < SLIMSET_BLOCK_BYTES ? (size_t)left : SLIMSET_BLOCK_BYTES;
    const uint8_t *block = ix->base + at;
    uint8_t *aside = NULL;
    if (ix->copied) {
        size_t got;
        aside = malloc(n);
        if (aside == NULL)
            return err_nomem(err, n);
        enum slimset_status st = io_pread(ix->fd, aside, n, at, &got, ix->name, err);
        if (st == SLIMSET_OK && got != n)
            st = DAMAGED(ix, "it was truncated while it was open");
        if (st != SLIMSET_OK) {
            free(aside);
            return st;
        }
        block = aside;
    }
    bool right = hash_bytes(block, n) == ix->sums[b];
    if (right && aside != NULL)
        memcpy((uint8_t *)(uintptr_t)ix->base + at, aside, n);
    free(aside);
    if (!right)
        return DAMAGED(
            ix, "block %" PRIu64 " (bytes %" PRIu64 " to %" PRIu64 ") does not match its checksum",
            b, at, at + n - 1);
    __atomic_store_n(&ix->checked[b], 1, __ATOMIC_RELEASE);
    return SLIMSET_OK;
}

enum slimset_status index_touch(struct index *ix, const void *p, uint64_t n,
                                struct slimset_error *err)
{
    if (n == 0)
        return SLIMSET_OK;
    /* A pointer below the base wraps to a huge number. */
    uint64_t at = (uint64_t)((uintptr_t)p - (uintptr_t)ix->base);
    uint64_t end = ix->header->sums_offset;
    if (at < SLIMSET_HEADER_BYTES || at >= end || n > end - at)
        return DAMAGED(ix, "a record lies outside of its sections");
    uint64_t last = (at + n - 1 - SLIMSET_HEADER_BYTES) / SLIMSET_BLOCK_BYTES;
    for (uint64_t b = (at - SLIMSET_HEADER_BYTES) / SLIMSET_BLOCK_BYTES; b <= last; b++) {
        if (is_checked(ix, b))
            continue;
        enum slimset_status st = check_block(ix, b, err);
        if (st != SLIMSET_OK)
            return st;
    }
    return SLIMSET_OK;
}

enum slimset_status index_text(struct index *ix, slimset_str s, const char **bytes, size_t *n,
                               struct slimset_error *err)
{
    uint64_t offset = s & (((uint64_t)1 << 40) - 1), len = s >> 40;
    *bytes = "";
    *n = 0;
    if (len == 0)
        return SLIMSET_OK;
    if (offset > ix->string_bytes || len > ix->string_bytes - offset)
        return DAMAGED(ix, "a string lies outside of its section");
    enum slimset_status st = index_touch(ix, ix->strings + offset, len, err);
    if (st != SLIMSET_OK)
        return st;
    *bytes = ix->strings + offset;
    *n = (size_t)len;
    return SLIMSET_OK;
}

bool index_meta(const struct index *ix, const char *name, const char **value, size_t *n)
{
    size_t name_n = strlen(name);
    const char *p = ix->meta, *end = p != NULL ? p + ix->meta_bytes : NULL;
    while (p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        if (eol == NULL)
            eol = end;
        size_t line_n = (size_t)(eol - p);
        if (line_n > name_n && p[name_n] == '=' && memcmp(p, name, name_n) == 0) {
            *value = p + name_n + 1;
            *n = line_n - name_n - 1;
            return true;
        }
        p = eol < end ? eol + 1 : end;
    }
    return false;
}

enum slimset_status index_sample(struct index *ix, uint64_t i, const struct slimset_sample **s,
                                 const struct slimset_field **fields, struct slimset_error *err)
{
    if (i >= ix->n_samples)
        return err_set(err, SLIMSET_NOT_FOUND, "%s has no sample %" PRIu64 ", only %" PRIu64,
                       ix->name, i, ix->n_samples);
    const struct slimset_sample *r = &ix->samples[i];
    enum slimset_status st = index_touch(ix, r, sizeof *r, err);
    if (st != SLIMSET_OK)
        return st;
    if (r->first_field > ix->n_fields || r->n_fields > ix->n_fields - r->first_field)
        return DAMAGED(ix, "sample %" PRIu64 " names fields that are not there", i);
    if (r->part >= ix->n_parts)
        return DAMAGED(ix, "sample %" PRIu64 " names a part that is not there", i);
    /* A fragment may leave splits and classes to the plan it belongs to. */
    if (ix->header->kind == SLIMSET_KIND_INDEX &&
        (r->split >= ix->n_splits || r->cls < -1 ||
         (r->cls >= 0 && (uint64_t)r->cls >= ix->n_classes)))
        return DAMAGED(ix, "sample %" PRIu64 " names a split or class that is not there", i);
    const struct slimset_field *f = ix->fields != NULL ? ix->fields + r->first_field : NULL;
    st = index_touch(ix, f, r->n_fields * sizeof *f, err);
    if (st != SLIMSET_OK)
        return st;
    *s = r;
    *fields = f;
    return SLIMSET_OK;
}

enum slimset_status index_find(struct index *ix, const char *key, size_t n, uint64_t *sample,
                               struct slimset_error *err)
{
    uint64_t hash = hash_bytes(key, n), lo = 0, hi = ix->n_keys;
    enum slimset_status st;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        st = index_touch(ix, &ix->keys[mid], sizeof ix->keys[mid], err);
        if (st != SLIMSET_OK)
            return st;
        if (ix->keys[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < ix->n_keys; lo++) {
        const struct slimset_key *k = &ix->keys[lo];
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *text;
        size_t text_n;
        st = index_touch(ix, k, sizeof *k, err);
        if (st != SLIMSET_OK)
            return st;
        if (k->hash != hash)
            break;
        if (k->sample >= ix->n_samples)
            return DAMAGED(ix, "a key names a sample that is not there");
        st = index_sample(ix, k->sample, &s, &f, err);
        if (st == SLIMSET_OK)
            st = index_text(ix, s->key, &text, &text_n, err);
        if (st != SLIMSET_OK)
            return st;
        if (text_n == n && memcmp(text, key, n) == 0) {
            *sample = k->sample;
            return SLIMSET_OK;
        }
    }
    return err_set(err, SLIMSET_NOT_FOUND, "there is no sample with the key %.*s",
                   (int)(n < 300 ? n : 300), key);
}
