/* SPDX-License-Identifier: Apache-2.0
 *
 * One shard under construction: answers in, in order; files in the stage folder and records for the index out.
 *
 *   shard_begin -> shard_sample / shard_reject in plan order -> shard_end -> (sync) -> shard_write_fragment
 *
 * The records form the same tables as an index file, with strings in a heap of their own (struct shard_content); a fragment or
 * a finished index gives the same view (struct shard_view), so that one function writes all of them on.
 */
#ifndef SHARD_H
#define SHARD_H

#include "index.h"
#include "plan.h"
#include "stack_write.h"
#include "tar_write.h"

/* Records of one shard, wherever they lie. Numbers inside (first_field, part) count from the base values. */
struct shard_view {
    struct slimset_shard shard;     /* inputs_hash is what matters */
    const struct slimset_part *parts;
    const struct slimset_sample *samples;
    const struct slimset_field *fields;
    const struct slimset_reject_record *rejects;
    uint64_t n_parts, n_samples, n_fields, n_rejects;
    uint64_t base_field, base_part, base_sample;
    const char *strings;
    uint64_t string_bytes;
};

struct shard_content {
    struct slimset_shard shard;
    struct slimset_part *parts;
    struct slimset_sample *samples;
    struct slimset_field *fields;
    struct slimset_reject_record *rejects;
    size_t n_parts, n_samples, n_fields, n_rejects;
    size_t cap_parts, cap_samples, cap_fields, cap_rejects;
    struct buf strings;             /* starts with 8 unused bytes: a reference of 0 is absent */
};

struct shard_writer {
    const struct plan *plan;
    size_t number;                  /* in plan->shards */
    int stage_dir;
    struct tar_writer tar;
    struct stack_writer stack;      /* layout npy */
    bool part_open;                 /* one of the two has a file */
    struct shard_content content;
    struct hash_stream inputs;      /* of inputs_hash */
    int fds[64];                    /* finished parts that are not synced yet */
    unsigned n_fds;
};

/* stage_dir: where files are built; kept open by the caller. */
enum slimset_status shard_begin(struct shard_writer *w, const struct plan *plan, size_t shard, int stage_dir, struct slimset_error *err);

/* The answer of a sample becomes its files and records. spill_fd: where its spilled payloads lie, else -1. */
enum slimset_status shard_sample(struct shard_writer *w, const struct plan_sample *s, const struct item_answer *a, int spill_fd,
                                 struct slimset_error *err);

/* The sample is not packed because of its failed-th entry. */
enum slimset_status shard_reject(struct shard_writer *w, const struct plan_sample *s, uint32_t failed, enum slimset_reject reject,
                                 const char *text, struct slimset_error *err);

enum slimset_status shard_end(struct shard_writer *w, struct slimset_error *err);
void shard_fini(struct shard_writer *w); /* frees; open files are closed, unfinished ones stay in the stage folder */

/* Makes the finished files durable. */
enum slimset_status shard_sync(struct shard_writer *w, struct slimset_error *err);

/* A shard's inputs hash: the same functions where the shard is made and where a later run asks whether it changed. It covers the
 * recipe, and of each input its path, size and content and what its rule does to it. */
void shard_hash_begin(struct hash_stream *h, const struct plan *p);
void shard_hash_sample(struct hash_stream *h, const struct plan *p, const struct plan_sample *s);
void shard_hash_entry(struct hash_stream *h, const struct plan *p, const struct entry *e, uint64_t content_hash);

struct shard_view shard_view_of(const struct shard_content *c);

/* Writes a view's parts, samples, fields, rejects into an index under construction; shard: its number there. Counters count up. */
enum slimset_status shard_put(const struct shard_view *v, uint32_t shard, uint32_t split, uint64_t *first_part, uint64_t *first_sample,
                              uint64_t *first_field, struct index_writer *w, struct slimset_error *err);

#endif
