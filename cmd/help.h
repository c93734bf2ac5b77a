/* SPDX-License-Identifier: Apache-2.0
 *
 * Help for people, made from the tables of options.h. Always at most 80 columns, so that it reads
 * the same in a pipe. The shell completions (completion.c) and the manual page (manual.c) are the
 * other two views of the tables.
 */
#ifndef HELP_H
#define HELP_H

#include <stdio.h>

#include "options.h"

/* "slimset 0.1.0". */
void help_version(FILE *f);

/* What `slimset` alone says: the verbs and one example. */
void help_short(FILE *f);

/* `slimset help`: the verbs, exit statuses, where to read on. */
void help_overview(FILE *f);

/* `slimset help VERB`. */
void help_verb(FILE *f, const struct verb_row *verb);

/* The manual page in roff (man macros). */
void manual_print(FILE *f);

/* Exit statuses, in help and manual. */
struct help_exit {
    const char *status, *meaning;
};
extern const struct help_exit help_exit_table[];
extern const size_t help_exit_table_n;

#endif
