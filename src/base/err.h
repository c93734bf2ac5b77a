/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing errors (see include/slimset/status.h for the contract). Each function fills *err and
 * returns the status, so that a caller can write `return err_bad(err, ..., "...")`.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "slimset/status.h"

#define ERR_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Any status with a formatted text. */
enum slimset_status err_set(struct slimset_error *err, enum slimset_status status, const char *fmt, ...)
    ERR_PRINTF(3, 4);

/* SLIMSET_BAD_INPUT of a class. */
enum slimset_status err_bad(struct slimset_error *err, enum slimset_reject reject, const char *fmt, ...)
    ERR_PRINTF(3, 4);

/* SLIMSET_IO (SLIMSET_NO_MEMORY for ENOMEM) from errno: ": strerror" is appended to the text. */
enum slimset_status err_os(struct slimset_error *err, const char *fmt, ...) ERR_PRINTF(2, 3);

/* SLIMSET_NO_MEMORY for an allocation of n bytes. */
enum slimset_status err_nomem(struct slimset_error *err, unsigned long long n_bytes);

#endif
