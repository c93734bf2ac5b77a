/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a TIFF as directories of entries: classic and Big, both byte orders. Pure functions
 * on the caller's bytes; nothing outside of them is ever touched.
 */
#ifndef TIFF_FILE_H
#define TIFF_FILE_H

#include "image.h"

struct tiff_file {
    const uint8_t *data;
    size_t n;
    bool big_endian;
    bool big_tiff;
};

/* One directory entry, its values checked to lie inside the file. */
struct tiff_entry {
    uint16_t tag, type;
    uint64_t count;
    uint64_t at; /* offset of the values */
    bool inside; /* false: they reach beyond the file */
};

/* Bytes of one value of a type; 0 for types that do not exist. */
unsigned tiff_type_bytes(uint16_t type);

/* True when bytes [at, at + len) are inside the file. */
bool tiff_file_inside(const struct tiff_file *f, uint64_t at, uint64_t len);

/* Finds byte order and kind; *first: offset of the first directory. */
bool tiff_file_open(struct tiff_file *f, const uint8_t *data, size_t n, uint64_t *first);

/* *entries: offset of the first entry, *next: offset of the next directory (0: none or outside). */
bool tiff_file_directory(const struct tiff_file *f, uint64_t at, uint64_t *entries, uint64_t *count,
                         uint64_t *next);

/* Entry i of a directory that tiff_file_directory found. */
struct tiff_entry tiff_file_entry(const struct tiff_file *f, uint64_t entries, uint64_t i);

/* Value i of an entry as an unsigned integer; missing when it has none such. */
uint64_t tiff_file_value(const struct tiff_file *f, const struct tiff_entry *e, uint64_t i,
                         uint64_t missing);

#endif
