/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout `npy`: the samples of a part are the rows of one .npy file that can be mapped.
 *
 *      header, STACK_DATA bytes: NumPy's, filled up with blanks; shape (rows, ...)
 *      row 0, row 1, ...: the values of one sample each, without gaps
 *
 * All rows of a dataset have one dtype and shape. It is frozen with the other decisions, behind "row=" in the params of the rules.
 */
#ifndef STACK_H
#define STACK_H

#include "index.h"
#include "npy.h"

enum {
    STACK_DATA = 4096,   /* where the first row begins: the size of a page */
    STACK_DIMS_MAX = 31  /* of a row: NumPy before version 2 reads 32 dimensions */
};

/* "row=" and what follows, to the end of the params. false: there is none, or no dtype and shape that a row may have. */
bool stack_row_of(const char *params, size_t n, struct npy *row);

/* The row of a dataset. SLIMSET_DAMAGED when its index gives none. */
enum slimset_status stack_row(struct index *ix, struct npy *row, struct slimset_error *err);

/* Appends the STACK_DATA bytes before n rows. */
enum slimset_status stack_header(const struct npy *row, uint64_t n, struct buf *out, struct slimset_error *err);

#endif
