/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERIFY_FIX_H
#define VERIFY_FIX_H

#include <stdbool.h>
#include <stddef.h>

/* Builds again what is damaged in OUT and says so; the sources' names are replaced by absolute ones and freed. 0: done as far as it
 * can be (verify says how far); else the exit status, and an error was printed. Changes the working folder. */
int verify_fix(const char *out, char **sources, size_t n_sources, unsigned jobs, bool json);

#endif
