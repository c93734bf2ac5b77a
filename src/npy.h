/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a .npy file, versions 1 to 3: read strictly, written as NumPy writes it. Pure functions over bytes; nothing is
 * allocated and nothing is ever unpickled. An array is accepted only when its header's arithmetic agrees with the size of the file.
 *
 *      93 "NUMPY" | u8 major | u8 minor | header bytes (u16 in version 1, else u32) | a Python dict, "\n" | data
 */
#ifndef NPY_H
#define NPY_H

#include "base/buf.h"

enum {
    NPY_DIMS_MAX = 64,            /* NumPy 2 has 64, before it had 32 */
    NPY_HEADER_MAX = 1 << 20,     /* bytes: a structured dtype of some ten thousand fields */
    NPY_TEXT_MAX = 65535,         /* bytes of npy_text: longer ones are cut */
    NPY_PREFIX = 12               /* bytes that tell how long the header is */
};

struct npy {
    const char *descr;     /* Python's text: '<f4' with its quotes, or a list of fields; in the header's bytes, or static */
    size_t descr_bytes;
    char kind;             /* b i u f c S U V M m; V for structured ones too */
    char order;            /* '<' '>'; '|' for what has no byte order, and structured */
    bool structured;
    bool fortran;          /* first index runs fastest */
    uint8_t major;         /* 1..3 */
    unsigned ndim;         /* 0: a scalar */
    uint64_t shape[NPY_DIMS_MAX];
    uint64_t itemsize;     /* bytes */
    uint64_t count;        /* elements */
    uint64_t data_bytes;   /* count * itemsize */
    uint64_t header_bytes; /* where the data begin */
};

/* Bytes up to the data as the first NPY_PREFIX bytes announce them; 0 when they do not begin a .npy file. */
uint64_t npy_announced(const uint8_t *p, size_t n);

/* Reads the header of a file of file_bytes, of which n bytes (at least npy_announced of them) are here. a->descr points into p.
 * SLIMSET_BAD_INPUT: array (what is wrong, and at which byte), truncated (the file is shorter than the header says). */
enum slimset_status npy_parse(const uint8_t *p, size_t n, uint64_t file_bytes, struct npy *a, struct slimset_error *err);

/* "f4:3,224,224" as --raw has it: DTYPE:SHAPE, of which one dimension may be -1 (from the size of the file). The type is one of
 * NumPy's short names, little-endian without a mark. SLIMSET_USAGE. */
enum slimset_status npy_parse_raw(const char *text, uint64_t data_bytes, struct npy *a, struct slimset_error *err);

/* "<f4 (3, 224, 224)": what the index calls `array`. Appends; a text beyond NPY_TEXT_MAX is cut. */
enum slimset_status npy_text(const struct npy *a, struct buf *out, struct slimset_error *err);

/* Reads such a text back. a->descr is static; SLIMSET_DAMAGED also for dtypes that are no plain numbers. */
enum slimset_status npy_parse_text(const char *text, size_t n, struct npy *a, struct slimset_error *err);

/* Appends the header that NumPy would write: version 1 where it fits, 64-byte alignment. */
enum slimset_status npy_header(const struct npy *a, struct buf *out, struct slimset_error *err);

/* Plain numbers, which may be narrowed, cast and resized: bool, integers, floats of 2, 4 or 8 bytes. */
bool npy_is_number(const struct npy *a);

/* Gives a the little-endian dtype of kind b i u f and 1, 2, 4 or 8 bytes; descr becomes static. Sizes follow. */
void npy_set_type(struct npy *a, char kind, unsigned itemsize);

#endif
