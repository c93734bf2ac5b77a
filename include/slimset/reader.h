/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a packed dataset.
 *
 *   struct slimset_reader *r; struct slimset_error err;
 *   slimset_reader_open("OUT", &r, &err);
 *   struct slimset_sample_view s; slimset_reader_sample(r, 0, &s, &err);
 *   struct slimset_field_view f;  slimset_reader_field(r, 0, 0, &f, &err);
 *   void *data; size_t n;         slimset_reader_load(r, 0, 0, &data, &n, &err);  // free(data)
 *   slimset_reader_close(r);
 *
 * Opening maps OUT/slimset.index and reads only its ends: a million samples open at once. Blocks of
 * the index are checked when first used and every field against its hash when it is loaded, so what
 * is handed out is what was packed, or SLIMSET_DAMAGED. The dataset is not trusted: no number in it
 * can lead outside of its own files.
 *
 * All texts are bytes as they were in the source, neither terminated nor UTF-8 for certain; they
 * live until close. One thread at a time per reader; any number of readers. Samples are numbered 0
 * .. samples-1 in the dataset's order.
 *
 * Statuses everywhere: SLIMSET_OK; SLIMSET_NOT_FOUND (number, key or file that does not exist);
 * SLIMSET_DAMAGED; SLIMSET_IO; SLIMSET_NO_MEMORY. On failure outputs are not set.
 */
#ifndef SLIMSET_READER_H
#define SLIMSET_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slimset/status.h"

struct slimset_reader;

struct slimset_text {
    const char *bytes; /* never NULL */
    size_t n;          /* bytes; 0: absent or empty */
};

struct slimset_info {
    uint64_t samples, fields, rejects;
    uint64_t parts, shards, splits, classes, rules;
    bool tree;         /* one file per field instead of tar shards */
    uint64_t bytes;    /* of all parts */
};

struct slimset_split_view {
    struct slimset_text name;
    const char *order;          /* "shuffled" or "source" */
    uint64_t first_sample, n_samples;
    uint32_t n_shards;
};

struct slimset_part_view {
    struct slimset_text name;   /* file name in OUT; empty for a tree */
    struct slimset_text split;
    uint32_t shard;             /* number of the shard in the dataset */
    uint32_t shard_number;      /* within its split, as in the file name */
    uint32_t part;              /* within the shard */
    uint64_t bytes, hash;
    uint64_t first_sample, n_samples;
};

struct slimset_rule_view {      /* what was decided for a source field */
    struct slimset_text name, reason;
    const char *role, *codec, *hint;
    uint32_t probed;            /* files looked at */
    double ratio;               /* output bytes per input byte the probe saw */
};

struct slimset_sample_view {
    uint64_t number;
    struct slimset_text key;
    struct slimset_text split, class_name; /* empty where there is none */
    int32_t cls;                /* class number, -1 none */
    uint32_t part;
    struct slimset_text part_name;
    uint32_t n_fields;
};

struct slimset_field_view {
    struct slimset_text name;   /* "jpg", "seg.png" */
    struct slimset_text path;   /* of the source file; empty when the field was made by us */
    uint64_t offset;            /* of the data in the part, bytes; tree: 0 */
    uint64_t bytes, hash;       /* XXH3-64 */
    uint64_t in_bytes, in_hash; /* of the source file */
    uint32_t w, h, in_w, in_h;  /* px, upright; 0: no image */
    uint32_t frames;            /* in the source */
    uint32_t notes;             /* bits; slimset_note_name(bit) */
    const char *role;           /* "image", "mask", "depth", "array", "copy", "label" */
    const char *format, *in_format; /* by content: "jpeg" */
    uint8_t channels, bits, orientation, quality;
    struct slimset_text array;  /* dtype and shape of the source array: "<f4 (3, 224, 224)"; empty: none */
    uint32_t classes_lost;      /* mask: values of the source that are not in what is stored */
    uint32_t ssim_e6;           /* what --min-ssim reached, x 1,000,000; 0 not measured */
};

struct slimset_reject_view {
    struct slimset_text path, text;
    const char *kind;           /* "reject", "left-out", "junk" */
    const char *reject;         /* slimset_reject_name; "none" unless kind is "reject" */
};

/* Opens the dataset in the folder `out`. SLIMSET_NOT_FOUND also for a folder that holds no dataset
 * or an unfinished one: the text says which, and what to do. SLIMSET_DIFFERS: written by another
 * version of the format. */
enum slimset_status slimset_reader_open(const char *out, struct slimset_reader **reader,
                                        struct slimset_error *err);
void slimset_reader_close(struct slimset_reader *reader); /* NULL is fine */

void slimset_reader_info(const struct slimset_reader *reader, struct slimset_info *info);

/* Record i of each kind. */
enum slimset_status slimset_reader_split(struct slimset_reader *reader, uint64_t i,
                                         struct slimset_split_view *view,
                                         struct slimset_error *err);
enum slimset_status slimset_reader_class(struct slimset_reader *reader, uint64_t i,
                                         struct slimset_text *name, struct slimset_error *err);
enum slimset_status slimset_reader_part(struct slimset_reader *reader, uint64_t i,
                                        struct slimset_part_view *view, struct slimset_error *err);
enum slimset_status slimset_reader_rule(struct slimset_reader *reader, uint64_t i,
                                        struct slimset_rule_view *view, struct slimset_error *err);
enum slimset_status slimset_reader_reject(struct slimset_reader *reader, uint64_t i,
                                          struct slimset_reject_view *view,
                                          struct slimset_error *err);
enum slimset_status slimset_reader_sample(struct slimset_reader *reader, uint64_t i,
                                          struct slimset_sample_view *view,
                                          struct slimset_error *err);

/* Field k (0 .. n_fields-1) of sample i. */
enum slimset_status slimset_reader_field(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                         struct slimset_field_view *view,
                                         struct slimset_error *err);

/* The sample of a key of n bytes. */
enum slimset_status slimset_reader_find(struct slimset_reader *reader, const char *key, size_t n,
                                        uint64_t *sample, struct slimset_error *err);

/* The first field that came from the source path of n bytes; looks at all fields, one after the
 * other. */
enum slimset_status slimset_reader_find_path(struct slimset_reader *reader, const char *path,
                                             size_t n, uint64_t *sample, uint32_t *field,
                                             struct slimset_error *err);

/* The bytes of field k of sample i, checked against their hash, in fresh memory (free it; never
 * NULL). The error of damage names shard, sample and field. */
enum slimset_status slimset_reader_load(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        void **data, size_t *n, struct slimset_error *err);

/* The manifest: lines "name=value\n". */
struct slimset_text slimset_reader_meta(const struct slimset_reader *reader);

/* The word for bit `bit` of notes ("resized"); NULL for a bit without meaning. */
const char *slimset_note_name(unsigned bit);

#endif
