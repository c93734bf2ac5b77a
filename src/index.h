/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and opening files in the format of include/slimset/format.h (index, plan, fragment).
 *
 * Writing: index_create with the number of records of each section, then index_put_* in any order
 * between sections but in order within one, strings first (index_string), then index_commit. Memory
 * is bounded: sections are written through small buffers at offsets known from the counts; STRS is
 * last. KEYS are collected (16 bytes a sample) and sorted at commit. Until commit succeeds the file
 * is not valid.
 *
 * Reading: index_open maps the file, index_open_copied reads it; index_touch verifies blocks when they are first used, and the
 * accessors call it. Records that are reached through the pointers of struct index directly must be
 * touched first.
 */
#ifndef INDEX_H
#define INDEX_H

#include <stdbool.h>

#include "base/buf.h"
#include "slimset/format.h"

enum {
    /* META is read in full when a file is opened: a bound for hostile ones. */
    INDEX_META_BYTES_MAX = 16 << 20
};

struct index_counts {
    uint64_t meta_bytes, splits, classes, fields_rules, shards, parts, samples, fields, rejects;
};

struct index_writer; /* opaque */

/* Creates dirfd/name. The writer owns its descriptors; dirfd stays the caller's and may be closed.
 * KEYS are written only for kind INDEX. SLIMSET_LIMIT for counts that the format cannot hold. On
 * failure *out is NULL and nothing is left. */
enum slimset_status index_create(int dirfd, const char *name, enum slimset_kind kind,
                                 const struct index_counts *counts, struct index_writer **out,
                                 struct slimset_error *err);

/* Stores a string and hands back its reference; 0 for n 0. Strings of up to 32 bytes are looked up
 * in a small table first, so that names that come again and again are stored about once.
 * SLIMSET_LIMIT beyond 16 MiB - 1. */
enum slimset_status index_string(struct index_writer *w, const void *bytes, size_t n,
                                 slimset_str *out, struct slimset_error *err);

/* Appends one record to its section (put_meta: the next piece of text). Asserts that the announced
 * count is not exceeded. Reserved members of a record must be 0. key_hash: hash_bytes of the
 * sample's key. */
enum slimset_status index_put_meta(struct index_writer *w, const void *text, size_t n,
                                   struct slimset_error *err);
enum slimset_status index_put_split(struct index_writer *w, const struct slimset_split *r,
                                    struct slimset_error *err);
enum slimset_status index_put_class(struct index_writer *w, const struct slimset_class *r,
                                    struct slimset_error *err);
enum slimset_status index_put_rule(struct index_writer *w, const struct slimset_field_rule *r,
                                   struct slimset_error *err);
enum slimset_status index_put_shard(struct index_writer *w, const struct slimset_shard *r,
                                    struct slimset_error *err);
enum slimset_status index_put_part(struct index_writer *w, const struct slimset_part *r,
                                   struct slimset_error *err);
enum slimset_status index_put_sample(struct index_writer *w, const struct slimset_sample *r,
                                     uint64_t key_hash, struct slimset_error *err);
enum slimset_status index_put_field(struct index_writer *w, const struct slimset_field *r,
                                    struct slimset_error *err);
enum slimset_status index_put_reject(struct index_writer *w, const struct slimset_reject_record *r,
                                     struct slimset_error *err);

/* Asserts that all announced records came; writes STRS, KEYS, sums, header, tail; fsyncs (when
 * sync) and closes. Frees w in any case; on failure the file has been removed. */
enum slimset_status index_commit(struct index_writer *w, bool sync, struct slimset_error *err);
void index_abort(struct index_writer *w); /* removes the file; NULL is fine */

/* An open file. The pointers are into the mapping and live until index_close. */
struct index {
    const uint8_t *base;
    uint64_t bytes;
    const struct slimset_header *header;
    const char *meta;                          uint64_t meta_bytes;
    const struct slimset_split *splits;        uint64_t n_splits;
    const struct slimset_class *classes;       uint64_t n_classes;
    const struct slimset_field_rule *rules;    uint64_t n_rules;
    const struct slimset_shard *shards;        uint64_t n_shards;
    const struct slimset_part *parts;          uint64_t n_parts;
    const struct slimset_sample *samples;      uint64_t n_samples;
    const struct slimset_field *fields;        uint64_t n_fields;
    const struct slimset_reject_record *rejects; uint64_t n_rejects;
    const struct slimset_key *keys;            uint64_t n_keys;
    const char *strings;                       uint64_t string_bytes;
    const uint64_t *sums;
    uint64_t n_blocks;
    uint8_t *checked;                          /* one byte a block, 1 = its checksum was verified; atomic */
    bool copied;                               /* base is memory, filled block by block from fd */
    int fd;
    char name[256];                            /* for messages */
};

/* Opens dirfd/name and checks header, sections and sums_hash; blocks are checked lazily unless
 * check_all. SLIMSET_NOT_FOUND when there is no such file, SLIMSET_DAMAGED with what is wrong,
 * SLIMSET_DIFFERS for another version. On failure *ix is zeroed. The file must not be shortened
 * while it is open (SIGBUS): published files are only replaced. */
enum slimset_status index_open(int dirfd, const char *name, enum slimset_kind kind, bool check_all,
                               struct index *ix, struct slimset_error *err);

/* The index of a dataset for readers: the same, but copied block by block as they are touched, so that
 * nothing that happens to the file can raise SIGBUS. The accessors below may then be called by any number
 * of threads at once, and by children of a fork. */
enum slimset_status index_open_copied(int dirfd, const char *name, struct index *ix,
                                      struct slimset_error *err);

void index_close(struct index *ix); /* a zeroed one is fine */

/* Gives back the memory of the pages looked at so far: they come back from the file when they are needed. For walks over a whole
 * index, so that a large one does not weigh on the process. A copied one keeps its memory. */
void index_forget(const struct index *ix);
enum { INDEX_FORGET_EVERY = 8192 }; /* records of a walk between two calls: about a megabyte */

/* Verifies the blocks under [p, p + n), once each. SLIMSET_DAMAGED names the block. p may be any
 * pointer; outside of the sections: damaged. n 0 is always fine. */
enum slimset_status index_touch(struct index *ix, const void *p, uint64_t n,
                                struct slimset_error *err);

/* Bytes of a string (not terminated), range-checked and block-checked; *n 0 for an absent one. */
enum slimset_status index_text(struct index *ix, slimset_str s, const char **bytes, size_t *n,
                               struct slimset_error *err);

/* Value of a META line ("recipe.resize"), not terminated; false when there is none. META blocks
 * must have been touched (index_open does). */
bool index_meta(const struct index *ix, const char *name, const char **value, size_t *n);

/* Sample i, its fields, checked: ranges, blocks, part number; in an index also split and class.
 * SLIMSET_NOT_FOUND for an i behind the last. Strings, offsets and enumerations inside are not
 * checked yet. */
enum slimset_status index_sample(struct index *ix, uint64_t i, const struct slimset_sample **s,
                                 const struct slimset_field **fields, struct slimset_error *err);

/* Sample number of a key (the first of equal ones), found through KEYS. SLIMSET_NOT_FOUND. */
enum slimset_status index_find(struct index *ix, const char *key, size_t n, uint64_t *sample,
                               struct slimset_error *err);

#endif
