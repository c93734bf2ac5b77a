/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the reader share (reader*.c). Everything in struct slimset_reader is set while
 * it is opened and only read afterwards, but for what is marked atomic: so any number of threads
 * may use it, and a child of fork finds it whole.
 */
#ifndef READER_IMPL_H
#define READER_IMPL_H

#include <sys/types.h>

#include "dataset.h"
#include "slimset/reader.h"

enum {
    READER_FILES_MAX = 4096, /* shards held open at most; never more than half of what the process may */
    READER_DECODERS = 64     /* kept for the next decode: one for each thread that decodes at a time */
};

struct reader_decoder; /* reader_decode.h */

struct slimset_reader {
    struct dataset d;
    uint64_t bytes;     /* of all parts */
    bool verify;
    pid_t pid;          /* that opened it */
    int *files;         /* atomic; per part its descriptor + 1; 0: not open */
    uint64_t files_max;
    uint64_t files_open; /* atomic */
    struct {             /* SLIMSET_PRELOAD_RAM; base NULL: not preloaded */
        const uint8_t *base;
        size_t bytes;
        int fd;            /* holds the lock */
        const uint64_t *at; /* where each field of the index lies in base */
        uint64_t folder;    /* whose it is, over packings */
    } ram;
    struct buf row_head; /* layout npy: what makes a .npy of a row; else empty */
    struct reader_decoder *decoders[READER_DECODERS]; /* atomic */
};

/* reader.c: records of the index. */
enum slimset_status reader_text(struct slimset_reader *r, slimset_str s, struct slimset_text *t,
                                struct slimset_error *err);
enum slimset_status reader_field(struct slimset_reader *r, uint64_t i, uint32_t k,
                                 const struct slimset_sample **s, const struct slimset_field **f,
                                 struct slimset_error *err);

/* How many bytes field f is handed out as: a row of a stack is a .npy. */
static inline uint64_t reader_bytes(const struct slimset_reader *r, const struct slimset_field *f)
{
    return r->row_head.len + f->bytes;
}

/* reader_read.c: a field found, and its bytes. */
struct reader_field {
    uint64_t i;
    uint32_t k;
    const struct slimset_sample *s;
    const struct slimset_field *f;
    const uint8_t *ram; /* where it is preloaded, else NULL: */
    int fd;
    bool keep;          /* fd stays open */
    uint64_t offset;
};

enum slimset_status reader_files_init(struct slimset_reader *r, struct slimset_error *err);
void reader_files_fini(struct slimset_reader *r);

/* Refuses a dataset whose shards somebody unpacked. */
enum slimset_status reader_check_packed(struct slimset_reader *r, const char *out,
                                        struct slimset_error *err);

/* Finds the field and opens its file; its bytes are all inside of it. Then reader_fetch to reader_bytes
 * bytes at `to`, or, of a preloaded one, reader_check_ram and use in place; reader_field_fini in any
 * case after OK. */
enum slimset_status reader_field_open(struct slimset_reader *r, uint64_t i, uint32_t k,
                                      struct reader_field *f, struct slimset_error *err);
enum slimset_status reader_fetch(struct slimset_reader *r, const struct reader_field *f, void *to,
                                 struct slimset_error *err);
enum slimset_status reader_check_ram(struct slimset_reader *r, const struct reader_field *f,
                                     struct slimset_error *err);
void reader_field_fini(struct reader_field *f);

/* Part `part`, opened (and kept when there is room: *keep). */
enum slimset_status reader_part_open(struct slimset_reader *r, uint64_t part, int *fd, bool *keep,
                                     struct slimset_error *err);

/* Puts "shard: field F of sample S" in front of err's text. */
enum slimset_status reader_blame(struct slimset_reader *r, uint64_t i, uint32_t k,
                                 struct slimset_error *err);

/* reader_decode.c */
void reader_decoders_fini(struct slimset_reader *r);

/* reader_preload.c */
enum slimset_status reader_preload_ram(struct slimset_reader *r, const char *out, struct slimset_error *err);
enum slimset_status reader_preload_page_cache(struct slimset_reader *r, struct slimset_error *err);
void reader_preload_fini(struct slimset_reader *r);

#endif
