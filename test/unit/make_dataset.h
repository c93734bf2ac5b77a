/* SPDX-License-Identifier: Apache-2.0
 *
 * Small finished datasets for tests, made with the writers alone (index_*, tar_*), so that every
 * value in them is known beforehand. Everything is a function of the sample's number.
 *
 *   make_example  the worked example of doc/format.md: one sample of two fields, one reject
 *   make_dataset  two splits, two classes, four shards (one of two parts, one without any),
 * rejects of all kinds
 */
#ifndef MAKE_DATASET_H
#define MAKE_DATASET_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "image.h"
#include "index.h"
#include "tar_write.h"

/* A fault here is one of the test, not of what it tests. */
#define MUST(call)                                                            \
    do {                                                                      \
        struct slimset_error err;                                             \
        if ((call) != SLIMSET_OK) {                                           \
            printf("  %s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.text); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static inline slimset_str make_string(struct index_writer *w, const char *s)
{
    slimset_str ref;
    MUST(index_string(w, s, strlen(s), &ref, &err));
    return ref;
}

/* ---- the example
 * ------------------------------------------------------------------------------------ */

static const char example_meta[] = "tool=slimset 0.1.0\nlayout=shards\n";

static inline void make_example(int dirfd)
{
    struct tar_writer tar = {.fd = -1};
    uint64_t offset[2], bytes, hash;
    int fd;
    MUST(tar_create(&tar, dirfd, "data-00000.tar", &err));
    MUST(tar_append(&tar, "cat/0001.jpg", 12, "not really a JPEG", 17, &offset[0], &err));
    MUST(tar_append(&tar, "cat/0001.cls", 12, "0", 1, &offset[1], &err));
    MUST(tar_finish(&tar, &fd, &bytes, &hash, &err));
    MUST(io_close(fd, "tar", &err));
    buf_fini(&tar.buffer);
    const struct index_counts counts = {.meta_bytes = strlen(example_meta),
                                        .splits = 1,
                                        .classes = 1,
                                        .fields_rules = 1,
                                        .shards = 1,
                                        .parts = 1,
                                        .samples = 1,
                                        .fields = 2,
                                        .rejects = 1};
    struct index_writer *w;
    MUST(index_create(dirfd, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, &counts, &w, &err));
    MUST(index_put_meta(w, example_meta, strlen(example_meta), &err));
    const struct slimset_split split = {
        .name = make_string(w, "data"), .order = 1, .n_shards = 1, .n_samples = 1};
    MUST(index_put_split(w, &split, &err));
    const struct slimset_class cls = {.name = make_string(w, "cat")};
    MUST(index_put_class(w, &cls, &err));
    const struct slimset_field_rule rule = {.name = make_string(w, "jpg"),
                                            .reason = make_string(w, "photos"),
                                            .role = SLIMSET_ROLE_IMAGE,
                                            .codec = SLIMSET_CODEC_JPEG,
                                            .probed = 1,
                                            .ratio_q16 = 65536 / 4};
    MUST(index_put_rule(w, &rule, &err));
    const struct slimset_shard shard = {
        .inputs_hash = 0x1122334455667788u, .n_parts = 1, .n_samples = 1, .n_rejects = 1};
    MUST(index_put_shard(w, &shard, &err));
    const struct slimset_part part = {
        .name = make_string(w, "data-00000.tar"), .bytes = bytes, .hash = hash, .n_samples = 1};
    MUST(index_put_part(w, &part, &err));
    const struct slimset_sample sample = {.key = make_string(w, "cat/0001"), .n_fields = 2};
    MUST(index_put_sample(w, &sample, hash_bytes("cat/0001", 8), &err));
    const struct slimset_field jpg = {.name = make_string(w, "jpg"),
                                      .path = make_string(w, "cat/0001.JPG"),
                                      .offset = offset[0],
                                      .bytes = 17,
                                      .hash = hash_bytes("not really a JPEG", 17),
                                      .in_bytes = 68,
                                      .in_hash = 0xaabbccddeeff0011u,
                                      .w = 32,
                                      .h = 24,
                                      .in_w = 64,
                                      .in_h = 48,
                                      .notes = NOTE_REENCODED | NOTE_RESIZED,
                                      .role = SLIMSET_ROLE_IMAGE,
                                      .format = FORMAT_JPEG,
                                      .in_format = FORMAT_JPEG,
                                      .channels = 3,
                                      .bits = 8,
                                      .orientation = 1,
                                      .quality = 90,
                                      .frames = 1};
    MUST(index_put_field(w, &jpg, &err));
    const struct slimset_field label = {
        .name = make_string(w, "cls"), .offset = offset[1], .bytes = 1, .hash = hash_bytes("0", 1),
        .notes = NOTE_GENERATED, .role = SLIMSET_ROLE_LABEL, .format = FORMAT_TEXT};
    MUST(index_put_field(w, &label, &err));
    const struct slimset_reject_record reject = {.path = make_string(w, "cat/0002.jpg"),
                                                 .text = make_string(w, "ends too early"),
                                                 .kind = 1,
                                                 .reject = SLIMSET_REJECT_TRUNCATED};
    MUST(index_put_reject(w, &reject, &err));
    MUST(index_commit(w, true, &err));
}

/* ---- a dataset
 * -------------------------------------------------------------------------------------- */

enum { MAKE_PARTS = 4, MAKE_FIELDS = 3 };
static const char *const make_part_name[MAKE_PARTS] = {"train-00000.tar", "train-00000-1.tar",
                                                       "train-00002.tar", "val-00000.tar"};
static const char *const make_field_name[MAKE_FIELDS] = {"jpg", "seg.png", "cls"};
static const uint32_t make_shard_of_part[MAKE_PARTS] = {0, 0, 2, 3};

static inline size_t make_key(char key[64], uint64_t i)
{
    return (size_t)snprintf(key, 64, "%s/%06llu", i % 2 ? "dog" : "cat", (unsigned long long)i);
}

/* Field k of sample i; at most 1,200 bytes. Sample 5 has an empty mask. */
static inline size_t make_data(uint8_t data[1200], uint64_t i, int k)
{
    size_t n = k == 0 ? 100 + i * 37 % 1001 : k == 1 ? (i == 5 ? 0 : 512) : 1;
    for (size_t b = 0; b < n; b++)
        data[b] = k == 2 ? (uint8_t)('0' + i % 2) : (uint8_t)(i * 131 + b * 7 + (unsigned)k);
    return n;
}

struct make {
    int dirfd;
    bool tree;
    uint64_t part_samples; /* in each part */
    struct index_writer *w;
    struct slimset_part part[MAKE_PARTS];
    uint64_t *offset;      /* of all fields */
};

/* The files: tar parts, or a tree. */
static inline void make_files(struct make *m)
{
    uint8_t data[1200];
    char key[64], name[128];
    uint64_t i = 0;
    for (int p = 0; p < MAKE_PARTS; p++) {
        struct tar_writer tar = {.fd = -1};
        struct hash_stream hash;
        int fd;
        hash_init(&hash);
        if (!m->tree)
            MUST(tar_create(&tar, m->dirfd, make_part_name[p], &err));
        m->part[p] = (struct slimset_part){.shard = make_shard_of_part[p],
                                           .part = p == 1,
                                           .first_sample = i,
                                           .n_samples = (uint32_t)m->part_samples};
        for (uint64_t end = i + m->part_samples; i < end; i++) {
            make_key(key, i);
            for (int k = 0; k < MAKE_FIELDS; k++) {
                size_t n = make_data(data, i, k);
                uint64_t h = hash_bytes(data, n);
                int name_n = snprintf(name, sizeof name, "%s.%s", key, make_field_name[k]);
                if (!m->tree) {
                    MUST(tar_append(&tar, name, (size_t)name_n, data, n,
                                    &m->offset[i * MAKE_FIELDS + k], &err));
                    continue;
                }
                MUST(io_mkdirs(m->dirfd, i % 2 ? "dog" : "cat", &err));
                MUST(io_create(m->dirfd, name, &fd, &err));
                MUST(io_write(fd, data, n, name, &err));
                MUST(io_close(fd, name, &err));
                hash_update(&hash, &h, sizeof h);
                m->part[p].bytes += n;
            }
        }
        m->part[p].hash = hash_value(&hash);
        if (!m->tree) {
            MUST(tar_finish(&tar, &fd, &m->part[p].bytes, &m->part[p].hash, &err));
            MUST(io_close(fd, "tar", &err));
        }
        buf_fini(&tar.buffer);
    }
}

static inline void make_samples(struct make *m)
{
    uint8_t data[1200];
    char key[64], path[128];
    for (uint64_t i = 0; i < MAKE_PARTS * m->part_samples; i++) {
        size_t key_n = make_key(key, i);
        uint32_t part = (uint32_t)(i / m->part_samples);
        const struct slimset_sample s = {.key = make_string(m->w, key),
                                         .first_field = i * MAKE_FIELDS,
                                         .n_fields = MAKE_FIELDS,
                                         .cls = (int32_t)(i % 2),
                                         .part = part,
                                         .split = part == 3};
        MUST(index_put_sample(m->w, &s, hash_bytes(key, key_n), &err));
        for (int k = 0; k < MAKE_FIELDS; k++) {
            size_t n = make_data(data, i, k);
            struct slimset_field f = {.name = make_string(m->w, make_field_name[k]),
                                      .offset = m->tree ? 0 : m->offset[i * MAKE_FIELDS + k],
                                      .bytes = n,
                                      .hash = hash_bytes(data, n),
                                      .notes = NOTE_GENERATED,
                                      .role = SLIMSET_ROLE_LABEL,
                                      .format = FORMAT_TEXT};
            if (k < 2) {
                snprintf(path, sizeof path, "photos.zip/%s.%s", key, k == 0 ? "JPEG" : "seg.png");
                f.path = make_string(m->w, path);
                f.in_bytes = n * 10;
                f.in_hash = ~f.hash;
                f.w = 32 + (uint32_t)i % 5;
                f.h = 24;
                f.in_w = f.w * 2;
                f.in_h = 48;
                f.notes = k == 0 ? NOTE_REENCODED | NOTE_RESIZED | (i == 3 ? NOTE_ROTATED : 0)
                                 : NOTE_COPIED;
                f.role = k == 0 ? SLIMSET_ROLE_IMAGE : SLIMSET_ROLE_MASK;
                f.format = f.in_format = k == 0 ? FORMAT_JPEG : FORMAT_PNG;
                f.channels = k == 0 ? 3 : 1;
                f.bits = 8;
                f.orientation = i == 3 ? 6 : 1;
                f.quality = k == 0 ? 90 : 0;
                f.frames = 1;
            }
            MUST(index_put_field(m->w, &f, &err));
        }
    }
}

static inline void make_tables(struct make *m)
{
    struct index_writer *w = m->w;
    uint64_t n = m->part_samples;
    const struct slimset_split splits[2] = {
        {.name = make_string(w, "train"), .order = 1, .n_shards = 3, .n_samples = 3 * n},
        {.name = make_string(w, "val"),
         .order = 2,
         .first_shard = 3,
         .n_shards = 1,
         .first_sample = 3 * n,
         .n_samples = n}};
    const struct slimset_class classes[2] = {{make_string(w, "cat")}, {make_string(w, "dog")}};
    const struct slimset_field_rule rules[2] = {{.name = make_string(w, "jpg"),
                                                 .reason = make_string(w, "photos, \"8-bit\""),
                                                 .role = SLIMSET_ROLE_IMAGE,
                                                 .codec = SLIMSET_CODEC_JPEG,
                                                 .probed = 7,
                                                 .ratio_q16 = 6554},
                                                {.name = make_string(w, "seg.png"),
                                                 .reason = make_string(w, "few values"),
                                                 .hint = 1,
                                                 .role = SLIMSET_ROLE_MASK,
                                                 .codec = SLIMSET_CODEC_PNG,
                                                 .probed = 7,
                                                 .ratio_q16 = 65536}};
    const struct slimset_shard shards[4] = {
        {.inputs_hash = 1, .n_parts = 2, .n_samples = (uint32_t)(2 * n)},
        {.number = 1,
         .first_hash = 5,
         .inputs_hash = 2,
         .first_part = 2,
         .first_sample = 2 * n,
         .n_rejects = 2},
        {.number = 2,
         .first_hash = 9,
         .inputs_hash = 3,
         .first_part = 2,
         .n_parts = 1,
         .first_sample = 2 * n,
         .n_samples = (uint32_t)n},
        {.split = 1,
         .first_path = make_string(w, "val/cat/a.jpg"),
         .inputs_hash = 4,
         .first_part = 3,
         .n_parts = 1,
         .first_sample = 3 * n,
         .n_samples = (uint32_t)n}};
    const struct slimset_reject_record rejects[4] = {
        {.path = make_string(w, "cat/broken, or not.jpg"),
         .text = make_string(w, "ends too early"),
         .kind = 1,
         .reject = SLIMSET_REJECT_TRUNCATED,
         .shard = 1},
        {.path = make_string(w, "cat/\xff\xfe\x1b[2J.jpg"),
         .text = make_string(w, "a web page"),
         .kind = 1,
         .reject = SLIMSET_REJECT_HTML,
         .shard = 1},
        {.path = make_string(w, "readme.txt"),
         .text = make_string(w, "no image beside it"),
         .kind = 2,
         .shard = UINT32_MAX},
        {.path = make_string(w, ".DS_Store"), .kind = 3, .shard = UINT32_MAX}};
    for (int i = 0; i < 2; i++) {
        MUST(index_put_split(w, &splits[i], &err));
        MUST(index_put_class(w, &classes[i], &err));
        MUST(index_put_rule(w, &rules[i], &err));
    }
    for (int i = 0; i < 4; i++) {
        if (!m->tree)
            m->part[i].name = make_string(w, make_part_name[i]);
        MUST(index_put_shard(w, &shards[i], &err));
        MUST(index_put_part(w, &m->part[i], &err));
        MUST(index_put_reject(w, &rejects[i], &err));
    }
}

/* part_samples samples in each of the four parts. */
static inline void make_dataset(int dirfd, bool tree, uint64_t part_samples)
{
    struct make m = {.dirfd = dirfd, .tree = tree, .part_samples = part_samples};
    uint64_t n = MAKE_PARTS * part_samples;
    char meta[200];
    snprintf(meta, sizeof meta, "tool=slimset 0.1.0\nlayout=%s\nrecipe.resize=long:32\nempty=\n",
             tree ? "tree" : "shards");
    m.offset = calloc(n * MAKE_FIELDS, sizeof *m.offset);
    make_files(&m);
    const struct index_counts counts = {.meta_bytes = strlen(meta),
                                        .splits = 2,
                                        .classes = 2,
                                        .fields_rules = 2,
                                        .shards = 4,
                                        .parts = MAKE_PARTS,
                                        .samples = n,
                                        .fields = n * MAKE_FIELDS,
                                        .rejects = 4};
    MUST(index_create(dirfd, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, &counts, &m.w, &err));
    MUST(index_put_meta(m.w, meta, 10, &err)); /* in pieces */
    MUST(index_put_meta(m.w, meta + 10, strlen(meta) - 10, &err));
    make_samples(&m);
    make_tables(&m);
    MUST(index_commit(m.w, true, &err));
    free(m.offset);
}

#endif
