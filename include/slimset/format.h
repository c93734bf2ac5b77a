/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of `slimset.index`, version 1: one mmap-able file that says what a dataset holds.
 * doc/format.md is the specification in words, with a worked example; this header is the same in C.
 *
 *      +--------------------+  0
 *      | header, 128 bytes  |  magic, version, sizes, checksum of itself and of the block sums
 *      +--------------------+  128
 *      | section table      |  n_sections x 32 bytes
 *      | META SPLT CLAS FLDS|
 *      | SHRD PART SAMP FILD|  each section starts at a multiple of 8
 *      | REJS KEYS STRS     |
 *      +--------------------+  sums_offset (multiple of 8)
 *      | block sums         |  n_blocks x u64: XXH3-64 of each 64 KiB of [128, sums_offset)
 *      +--------------------+
 *      | tail, 16 bytes     |  u64 file size, "slimset."
 *      +--------------------+
 *
 * All integers are little-endian. The same layout serves three kinds of file: the index of a
 * finished dataset, the plan of an unfinished run (no samples) and the fragment that one finished
 * shard leaves behind until the index is published. No times are stored, only sizes and content
 * hashes, so equal datasets have equal indexes. Hashes are XXH3-64 with seed 0.
 *
 * A reader must check: magic, version, header_hash, file size against file_bytes, that every
 * section lies inside [128, sums_offset), sums_hash; then each block on first touch. Every string
 * and every number that indexes another section must be range-checked before use.
 */
#ifndef SLIMSET_FORMAT_H
#define SLIMSET_FORMAT_H

#include <stdint.h>

#define SLIMSET_MAGIC "slimset\0"      /* 8 bytes */
#define SLIMSET_TAIL_MAGIC "slimset."  /* 8 bytes */
#define SLIMSET_INDEX_NAME "slimset.index"

enum {
    SLIMSET_FORMAT_VERSION = 1,
    SLIMSET_BLOCK_BYTES = 65536,
    SLIMSET_HEADER_BYTES = 128
};

enum slimset_kind { SLIMSET_KIND_INDEX = 1, SLIMSET_KIND_PLAN = 2, SLIMSET_KIND_FRAGMENT = 3 };

/* A string in STRS: offset in the low 40 bits, length in the high 24 (16 MiB at most). Bytes as
 * they are, no terminator, any value but NUL in names. 0: absent or empty. */
typedef uint64_t slimset_str;

struct slimset_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;   /* 128 */
    uint64_t file_bytes;
    uint32_t kind;           /* enum slimset_kind */
    uint32_t n_sections;     /* at most 64 */
    uint64_t table_offset;   /* 128 */
    uint64_t sums_offset;
    uint64_t n_blocks;
    uint64_t sums_hash;      /* of the block sums' bytes */
    uint8_t zero[56];
    uint64_t header_hash;    /* of the 120 bytes before it */
};

struct slimset_section {
    char id[4];              /* "SAMP" */
    uint32_t record_bytes;   /* 1 for META and STRS */
    uint64_t offset;         /* in the file */
    uint64_t bytes;          /* = count * record_bytes */
    uint64_t count;
};

/* META: UTF-8 text, lines "name=value\n", sorted by nothing but the order of the writer:
 *   tool, codec.* (library versions), layout, recipe.* (every option that changes bytes). */

/* SPLT: one per split, in byte order of their names. */
struct slimset_split {
    slimset_str name;        /* "train", "data" */
    uint32_t order;          /* 1 shuffled by hash, 2 source order */
    uint32_t first_shard;    /* in SHRD */
    uint32_t n_shards;
    uint32_t zero;
    uint64_t first_sample;   /* in SAMP */
    uint64_t n_samples;
};

/* CLAS: the class of number i. */
struct slimset_class {
    slimset_str name;        /* folder name, bytes */
};

/* FLDS: decisions, one per source field (frozen). */
struct slimset_field_rule {
    slimset_str name;        /* source field: "png", "seg.png", lower case */
    slimset_str reason;      /* why role and codec were chosen, for people */
    uint8_t hint;            /* 0 none, 1 a mask folder, 2 a depth folder, 16 + role: given by the user; with
                              * settings n of the recipe: 32 + 8 (n - 1) + (0, 1, 2, or 3 + role) */
    uint8_t role;            /* enum slimset_role */
    uint8_t codec;           /* enum slimset_codec of the output */
    uint8_t flags;           /* 1: 16-bit values may become 8-bit by >> 8 */
    uint32_t probed;         /* files looked at */
    uint64_t ratio_q16;      /* output bytes per input byte seen by the probe, x 65536 */
    slimset_str params;      /* of the codec, as text: "blosc:bitshuffle:zstd:5"; absent: none */
};

/* SHRD: a shard of the plan, in order of split and number. */
struct slimset_shard {
    uint32_t split;          /* in SPLT */
    uint32_t number;         /* within the split: train-00012 */
    uint64_t first_hash;     /* shuffled: the smallest place that belongs here */
    slimset_str first_path;  /* source order: the smallest path that belongs here */
    uint64_t inputs_hash;    /* of (path, size, content hash) of all its inputs, rejects included */
    uint32_t first_part;     /* in PART */
    uint32_t n_parts;        /* 0: every sample was rejected, nothing written */
    uint64_t first_sample;   /* in SAMP */
    uint32_t n_samples;
    uint32_t n_rejects;      /* samples that are not there */
};

/* PART: a file of a shard (shards over the cap have several); for layout tree a group of files. */
struct slimset_part {
    slimset_str name;        /* file name in OUT; empty for tree */
    uint64_t bytes;          /* file size; tree: sum of its files */
    uint64_t hash;           /* of the whole file; tree: of the field hashes in order */
    uint32_t shard;
    uint32_t part;           /* 0, 1, ... within the shard */
    uint64_t first_sample;
    uint32_t n_samples;
    uint32_t zero;
};

/* SAMP: in the order of the dataset (split, shard, part, place). */
struct slimset_sample {
    slimset_str key;         /* as the tar member names have it before the dot */
    uint64_t first_field;    /* in FILD */
    uint16_t n_fields;
    uint16_t zero;
    int32_t cls;             /* class number, -1 none */
    uint32_t part;           /* in PART */
    uint32_t split;
};

enum slimset_role {
    SLIMSET_ROLE_COPY = 0,
    SLIMSET_ROLE_IMAGE,
    SLIMSET_ROLE_MASK,
    SLIMSET_ROLE_DEPTH,
    SLIMSET_ROLE_ARRAY,
    SLIMSET_ROLE_LABEL /* made by us: cls */
};

enum slimset_codec {
    SLIMSET_CODEC_KEEP = 0, /* bytes of the source */
    SLIMSET_CODEC_JPEG, SLIMSET_CODEC_PNG, SLIMSET_CODEC_WEBP,
    SLIMSET_CODEC_NPY,      /* images (`raw`): uint8 or uint16 HWC .npy; arrays: .npy */
    SLIMSET_CODEC_NPY_ZST,  /* one zstd frame with a .npy inside */
    SLIMSET_CODEC_NPY_BLOSC, /* a c-blosc buffer with a .npy inside */
    SLIMSET_CODEC_NPZ,      /* a .npz with one array, deflated */
    SLIMSET_CODEC_COUNT
};

/* FILD: the fields of a sample stand together, in tar order. */
struct slimset_field {
    slimset_str name;        /* WebDataset extension: "jpg", "seg.png" */
    slimset_str path;        /* original path; "archive.zip/member"; 0 when made by us */
    uint64_t offset;         /* of the data in the part; tree: 0 */
    uint64_t bytes;
    uint64_t hash;           /* of the data */
    uint64_t in_bytes;       /* of the source file */
    uint64_t in_hash;        /* of the source file's bytes */
    uint32_t w, h;           /* pixels stored, upright; 0 where it is no image */
    uint32_t in_w, in_h;     /* pixels of the source, upright */
    uint32_t notes;          /* what was seen and done: the NOTE_ bits of doc/format.md */
    uint8_t role;            /* enum slimset_role */
    uint8_t format;          /* of the stored data: number of doc/format.md */
    uint8_t in_format;       /* of the source by its content */
    uint8_t channels;        /* stored */
    uint8_t bits;            /* stored, per channel */
    uint8_t orientation;     /* EXIF value found, 1 none */
    uint8_t quality;         /* JPEG or WebP quality used, 0 none */
    uint8_t zero;
    uint32_t frames;         /* in the source */
    slimset_str array;       /* dtype and shape of the source array, as NumPy writes them: "<f4 (3, 224, 224)"; of an image what
                              * its colour profile calls itself: "Display P3"; absent: neither */
    uint32_t classes_lost;   /* mask: values of the source that are not in what is stored */
    uint32_t ssim_e6;        /* --min-ssim: what was reached, x 1,000,000; 0 not measured */
};

/* REJS: inputs that are not in the dataset. */
struct slimset_reject_record {
    slimset_str path;
    slimset_str text;        /* the reason for people */
    uint32_t kind;           /* 1 reject; 2 left out (not part of a sample); 3 junk, skipped by name */
    uint32_t reject;         /* enum slimset_reject, kind 1 */
    uint32_t shard;          /* in SHRD; 0xffffffff none */
    uint32_t zero;
};

/* KEYS: sorted by (hash, sample). */
struct slimset_key {
    uint64_t hash;           /* XXH3-64 of the key */
    uint32_t sample;         /* in SAMP */
    uint32_t zero;
};

_Static_assert(sizeof(struct slimset_header) == 128, "format");
_Static_assert(sizeof(struct slimset_section) == 32, "format");
_Static_assert(sizeof(struct slimset_split) == 40, "format");
_Static_assert(sizeof(struct slimset_field_rule) == 40, "format");
_Static_assert(sizeof(struct slimset_shard) == 56, "format");
_Static_assert(sizeof(struct slimset_part) == 48, "format");
_Static_assert(sizeof(struct slimset_sample) == 32, "format");
_Static_assert(sizeof(struct slimset_field) == 104, "format");
_Static_assert(sizeof(struct slimset_reject_record) == 32, "format");
_Static_assert(sizeof(struct slimset_key) == 16, "format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the index is read in place");

#endif
