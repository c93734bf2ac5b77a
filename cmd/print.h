/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs that look inside a dataset print: tables for people, CSV, and the end of both.
 * Texts are bytes of the source and are never sent to a terminal raw (see text.h).
 */
#ifndef PRINT_H
#define PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "slimset/reader.h"
#include "slimset/status.h"

enum {
    PRINT_COLUMNS_MAX = 10,
    PRINT_ROWS_HELD = 256 /* rows that decide the widths; later ones may stick out */
};

/* A table on stdout, with a heading. Zero it, set heading and right, call print_cell for each cell
 * of a row in turn, and print_table_end at the end. */
struct print_table {
    const char *const *heading; /* NULL-terminated, at most PRINT_COLUMNS_MAX */
    unsigned right;             /* bit i: column i is aligned to the right (numbers) */
    /* its own */
    char *held[PRINT_ROWS_HELD][PRINT_COLUMNS_MAX];
    size_t width[PRINT_COLUMNS_MAX];
    size_t n_columns, n_held, column;
    bool streaming;
};

/* The next cell of the current row; a full row is taken (or printed). "" shows as "-". */
void print_cell(struct print_table *t, const char *text);
void print_cell_text(struct print_table *t, struct slimset_text text);
void print_cellf(struct print_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void print_table_end(struct print_table *t);

/* A terminated copy of a text in one line, safe for a terminal: names are quoted where they must
 * be. Freed by the caller; never NULL (ends the program when memory is out: there is nothing left
 * to print then). */
char *print_quoted(struct slimset_text text);

/* One CSV value (RFC 4180): quoted when it holds a comma, a quote or a line break; bytes otherwise
 * as they are. */
void print_csv(struct slimset_text text);

/* The words of a note set, with `between` between them: "resized,rotated". Room for all is
 * PRINT_NOTES_BYTES. */
enum { PRINT_NOTES_BYTES = 512 };
const char *print_notes(char to[PRINT_NOTES_BYTES], uint32_t notes, const char *between);

/* "slimset VERB: TEXT" on stderr. Returns the exit status that goes with the error: 2 usage, 4
 * damage, else 1. */
int print_error(const char *verb, const struct slimset_error *err);

/* Flushes stdout. Returns `status`, or 1 when stdout could not take everything (said on stderr,
 * except for a reader that left, as `head` does). */
int print_finish(const char *verb, int status);

#endif
