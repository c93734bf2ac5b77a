/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a packed dataset: libslimset.
 *
 *   struct slimset_reader *r; struct slimset_error err;
 *   slimset_reader_open("OUT", &r, &err);
 *   struct slimset_sample_view s; slimset_reader_sample(r, 0, &s, &err);
 *   uint32_t k;                   slimset_reader_field_named(r, 0, "jpg", 3, &k, &err);
 *   void *data; size_t n;         slimset_reader_load(r, 0, k, &data, &n, &err);  // free(data)
 *   struct slimset_pixels px;     slimset_reader_decode(r, 0, k, NULL, buf, cap, &px, &err);
 *   slimset_reader_close(r);
 *
 * Build with `pkg-config --cflags --libs slimset`.
 *
 * Opening reads the ends of OUT/slimset.index: a million samples open at once. Blocks of the index
 * are read and checked when first used and every field against its hash when it is read, so what is
 * handed out is what was packed, or SLIMSET_DAMAGED with a text that names shard and sample. No
 * file is mapped: a disk that fails and a file that is cut are errors, never a signal. The dataset
 * is not trusted: no number in it can lead outside of its own files.
 *
 * Threads and processes: any number of threads may call anything on one reader at the same time,
 * but open and close. A child of fork may go on using the reader; nothing is locked, so a fork in
 * the middle of a call harms nobody. Parent and children share what they have read of the index.
 *
 * A pack into OUT while a reader is open: the reader keeps the index it has opened. What it has not
 * opened yet of the shards is refused once the dataset was packed again (SLIMSET_DIFFERS), so that
 * all it ever hands out belongs to one dataset.
 *
 * All texts are bytes as they were in the source, neither terminated nor UTF-8 for certain; they
 * live until close. Samples are numbered 0 .. samples-1 in the dataset's order.
 *
 * Statuses everywhere: SLIMSET_OK; SLIMSET_NOT_FOUND (number, key or file that does not exist);
 * SLIMSET_DAMAGED; SLIMSET_DIFFERS (packed again since it was opened); SLIMSET_IO;
 * SLIMSET_NO_MEMORY. On failure outputs are not set unless said.
 */
#ifndef SLIMSET_READER_H
#define SLIMSET_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slimset/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what the shared library shows */

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
    uint64_t index_hash; /* of the index: another one means that it was packed again */
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
    struct slimset_text params; /* of the codec, see doc/format.md; empty: none */
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
    struct slimset_text array;  /* dtype and shape of the source array: "<f4 (3, 224, 224)"; of an image what
                                 * its colour profile calls itself; empty: neither */
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

/* What is brought into memory when a dataset is opened. */
enum slimset_preload {
    SLIMSET_PRELOAD_NONE = 0,
    SLIMSET_PRELOAD_PAGE_CACHE, /* every shard is read once, so that the system has it in memory */
    SLIMSET_PRELOAD_RAM         /* one checked copy of all fields in POSIX shared memory, which all
                                   processes of this user on this machine share. The first one fills
                                   it, others wait for it and then attach at once. The last one that
                                   closes its reader removes it; what processes that were killed
                                   left behind is taken over by the next one, or removed by
                                   slimset_preload_drop; what is of an earlier packing of the same
                                   folder is removed by the next one too. */
};

struct slimset_reader_options {
    bool verify;                  /* check fields against their hashes; default true */
    enum slimset_preload preload; /* default SLIMSET_PRELOAD_NONE */
};
void slimset_reader_options_init(struct slimset_reader_options *options);

/* The same with options. SLIMSET_LIMIT: preloading does not fit; the text has the numbers. */
enum slimset_status slimset_reader_open_with(const char *out,
                                             const struct slimset_reader_options *options,
                                             struct slimset_reader **reader,
                                             struct slimset_error *err);

/* Not while another thread uses it, nor while views of it are held. In a child of fork it gives
 * back what the child holds and leaves the parent's alone. */
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

/* The field of sample i with the name of n bytes: "jpg" is the field "jpg", else the only one whose
 * name ends in ".jpg". SLIMSET_NOT_FOUND names the fields that are there. */
enum slimset_status slimset_reader_field_named(struct slimset_reader *reader, uint64_t i,
                                               const char *name, size_t n, uint32_t *k,
                                               struct slimset_error *err);

/* The sample of a key of n bytes. */
enum slimset_status slimset_reader_find(struct slimset_reader *reader, const char *key, size_t n,
                                        uint64_t *sample, struct slimset_error *err);

/* The first field that came from the source path of n bytes; looks at all fields, one after the
 * other. */
enum slimset_status slimset_reader_find_path(struct slimset_reader *reader, const char *path,
                                             size_t n, uint64_t *sample, uint32_t *field,
                                             struct slimset_error *err);

/* The bytes of field k of sample i, in fresh memory (free it; never NULL). */
enum slimset_status slimset_reader_load(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        void **data, size_t *n, struct slimset_error *err);

/* The same into the caller's buffer of cap bytes. *n is the size of the field as soon as that is
 * known: SLIMSET_LIMIT when cap is below it, and the buffer is untouched. */
enum slimset_status slimset_reader_read(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        void *buf, size_t cap, size_t *n,
                                        struct slimset_error *err);

/* The same without a copy where the dataset is preloaded into RAM, else in memory that the view
 * owns. Release each view, before the reader is closed. */
struct slimset_view {
    const void *bytes; /* never NULL */
    size_t n;
    void *owned; /* slimset_view_release's business */
};
enum slimset_status slimset_reader_view(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                        struct slimset_view *view, struct slimset_error *err);
void slimset_view_release(struct slimset_view *view); /* a zeroed one is fine */

/* Asks the system to read all fields of n samples ahead. Returns at once; nothing is promised. */
enum slimset_status slimset_reader_prefetch(struct slimset_reader *reader, const uint64_t *samples,
                                            size_t n, struct slimset_error *err);

/* Removes what a preload of the dataset in OUT, or of earlier ones in that folder, left in shared memory; *bytes (may be NULL): how
 * much, 0 when there was nothing. Processes that are attached keep theirs. */
enum slimset_status slimset_preload_drop(const char *out, uint64_t *bytes,
                                         struct slimset_error *err);

/* ---- pixels: JPEG and PNG ----
 *
 * What comes out is what Pillow's Image.open(...).convert("RGB") gives: no orientation is applied,
 * no profile used, alpha is dropped where it is not asked for. Samples are 8 bits, but PNGs of 16
 * bits give uint16_t in the machine's order.
 *
 * SLIMSET_BAD_INPUT: the field does not hold a sound picture (fields that were copied as they were
 * may be anything). SLIMSET_LIMIT: cap is too small; *pixels then says what is needed.
 * SLIMSET_USAGE: the question makes no sense.
 */
enum slimset_axes { SLIMSET_HWC = 0, SLIMSET_CHW };

struct slimset_box { /* in pixels of the picture at full size */
    uint32_t x, y, w, h; /* w or h 0: all of it */
};

struct slimset_decode_options {
    uint8_t channels;           /* 1 gray, 3 RGB, 4 RGB and alpha; 0 (default): as stored, which is
                                   the index for palettes, 2 for gray with alpha, 4 for CMYK */
    enum slimset_axes layout;   /* default SLIMSET_HWC */
    uint8_t scale;              /* 1, 2, 4 or 8: decode to 1/scale, sizes rounded up. 0 (default): the
                                   largest that leaves min_w x min_h, 1 where those are 0. For JPEG
                                   this saves most of the work; a PNG is decoded whole, and then
                                   resampled. */
    uint32_t min_w, min_h;      /* of the picture, or of its crop */
    struct slimset_box crop;    /* default all. The same pixels as cut out of the whole; with a scale
                                   it covers every pixel that the box touches. */
    size_t stride_bytes;        /* from row to row in the output; 0 (default): rows without gaps */
};

struct slimset_pixels {
    uint32_t w, h;
    uint8_t channels;
    uint8_t bits;        /* 8 or 16 */
    size_t bytes;        /* of the output, with strides */
};

void slimset_decode_options_init(struct slimset_decode_options *options);

/* What a decode will give, from the header of the field alone. options NULL: defaults. */
enum slimset_status slimset_reader_decode_size(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                               const struct slimset_decode_options *options,
                                               struct slimset_pixels *pixels,
                                               struct slimset_error *err);

/* Field k of sample i decoded into buf of cap bytes. */
enum slimset_status slimset_reader_decode(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                          const struct slimset_decode_options *options, void *buf,
                                          size_t cap, struct slimset_pixels *pixels,
                                          struct slimset_error *err);

/* The same for a JPEG or PNG of n bytes in memory. buf NULL with cap 0: only *pixels. */
enum slimset_status slimset_decode_bytes(const void *data, size_t n,
                                         const struct slimset_decode_options *options, void *buf,
                                         size_t cap, struct slimset_pixels *pixels,
                                         struct slimset_error *err);

enum slimset_fit {
    SLIMSET_FIT_EXACT = 0, /* all of the box, its shape bent where it must be */
    SLIMSET_FIT_CROP,      /* the largest centred part of the box that has the wanted shape */
    SLIMSET_FIT_CENTRE     /* w x h pixels from the middle, not resized; what the picture does not
                              cover is 0 */
};

struct slimset_resize_options {
    uint32_t w, h;              /* wanted; both above 0 */
    enum slimset_fit fit;       /* default SLIMSET_FIT_EXACT */
    uint8_t channels;           /* 1, 3 (default) or 4 */
    enum slimset_axes layout;   /* default SLIMSET_HWC */
    bool fast;                  /* decode JPEGs at the smallest scale that still covers w x h: up to
                                   three times as fast, and a little softer; default false */
    bool nearest;               /* nearest neighbour instead of Lanczos-3: masks, and all that must
                                   keep its values; default false */
};
void slimset_resize_options_init(struct slimset_resize_options *options);

/* Decoded and resized to exactly w x h x channels samples of 8 bits without gaps, cap at least
 * that many bytes (SLIMSET_LIMIT). box NULL: the whole picture. The filter is Lanczos-3 with
 * antialiasing, as Pillow's. A box of the wanted size is a plain crop: the pixels of the whole
 * picture, and no more of it decoded than it takes. 16-bit pictures: SLIMSET_USAGE. */
enum slimset_status slimset_reader_decode_resized(struct slimset_reader *reader, uint64_t i,
                                                  uint32_t k,
                                                  const struct slimset_resize_options *options,
                                                  const struct slimset_box *box, void *buf,
                                                  size_t cap, struct slimset_error *err);

/* The same for n samples, one behind the other in buf of cap bytes, by `threads` threads (0: as many
 * as the process may use). The field is found by name in each sample (slimset_reader_field_named),
 * name NULL: the first field that is an image. boxes: n of them, or NULL. On failure the error is
 * that of the first sample that failed, *failed (may be NULL) its place in the list, and all others
 * are done. */
enum slimset_status slimset_reader_decode_batch(struct slimset_reader *reader,
                                                const uint64_t *samples, size_t n, const char *name,
                                                size_t name_n,
                                                const struct slimset_resize_options *options,
                                                const struct slimset_box *boxes, unsigned threads,
                                                void *buf, size_t cap, size_t *failed,
                                                struct slimset_error *err);

/* ---- arrays: npy, npy.zst, npy.blosc ---- */
enum {
    SLIMSET_ARRAY_DIMS_MAX = 32,
    SLIMSET_ARRAY_DESCR_MAX = 8192 /* some 300 names */
};

struct slimset_array {
    char dtype[16];      /* as NumPy writes it: "<f4"; "|V12" for a structured one of 12 bytes an item */
    char descr[SLIMSET_ARRAY_DESCR_MAX]; /* of a structured one as the .npy header has it, a list of names and types; else "" */
    bool fortran;        /* the first axis runs fastest */
    uint32_t dims;
    uint64_t shape[SLIMSET_ARRAY_DIMS_MAX];
    uint64_t item_bytes;
    uint64_t bytes;      /* of the data */
};

/* dtype and shape of field k of sample i, and its data into buf of cap bytes. What was narrowed has
 * the type that the source had. buf NULL with cap 0: only *array. SLIMSET_LIMIT: cap is too small,
 * *array is set. SLIMSET_BAD_INPUT: it is no array; SLIMSET_USAGE: a structured one of too many names or
 * one of more than 32 dimensions, to be read as bytes, or this build has no c-blosc. */
enum slimset_status slimset_reader_array(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                         struct slimset_array *array, void *buf, size_t cap,
                                         struct slimset_error *err);

/* The same for a .npy, .npy.zst or .npy.blosc of n bytes in memory, as it is stored. name: of the field
 * or file, which tells c-blosc's buffers from others; the rest is told by the first bytes. */
enum slimset_status slimset_array_decode(const void *data, size_t n, const char *name, size_t name_n,
                                         struct slimset_array *array, void *buf, size_t cap,
                                         struct slimset_error *err);

/* The .npy file of an array field, handed to `write` in pieces, checked against its hash first: byte for byte the source's where it was
 * stored as it was; of an array that was narrowed or put into C order (notes) with the type and order it had. What --cast or --resize
 * changed stays changed. data_only: the values without the header. SLIMSET_BAD_INPUT: the field is no array; a status of `write` that is
 * not SLIMSET_OK ends it. */
typedef enum slimset_status slimset_write_fn(void *arg, const void *data, size_t n, struct slimset_error *err);
enum slimset_status slimset_reader_npy(struct slimset_reader *reader, uint64_t i, uint32_t k, bool data_only, slimset_write_fn *write,
                                       void *arg, struct slimset_error *err);

/* The manifest: lines "name=value\n". */
struct slimset_text slimset_reader_meta(const struct slimset_reader *reader);

/* The word for bit `bit` of notes ("resized"); NULL for a bit without meaning. */
const char *slimset_note_name(unsigned bit);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
