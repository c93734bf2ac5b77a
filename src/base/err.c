/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static enum slimset_status set(struct slimset_error *err, enum slimset_status status,
                               enum slimset_reject reject, int os_errno, const char *fmt, va_list ap)
{
    err->status = status;
    err->reject = reject;
    err->os_errno = os_errno;
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    if (os_errno != 0 && n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", strerror(os_errno));
    for (char *c = err->text; *c != '\0'; c++) /* one line, whatever bytes of an input are in it */
        if ((unsigned char)*c < 0x20)
            *c = '?';
    return status;
}

enum slimset_status err_set(struct slimset_error *err, enum slimset_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(err, status, SLIMSET_REJECT_NONE, 0, fmt, ap);
    va_end(ap);
    return status;
}

enum slimset_status err_bad(struct slimset_error *err, enum slimset_reject reject, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(err, SLIMSET_BAD_INPUT, reject, 0, fmt, ap);
    va_end(ap);
    return SLIMSET_BAD_INPUT;
}

enum slimset_status err_os(struct slimset_error *err, const char *fmt, ...)
{
    int e = errno;
    va_list ap;
    va_start(ap, fmt);
    set(err, e == ENOMEM ? SLIMSET_NO_MEMORY : SLIMSET_IO, SLIMSET_REJECT_NONE, e, fmt, ap);
    va_end(ap);
    return err->status;
}

enum slimset_status err_nomem(struct slimset_error *err, unsigned long long n_bytes)
{
    return err_set(err, SLIMSET_NO_MEMORY, "out of memory for %llu bytes", n_bytes);
}

const char *slimset_reject_name(enum slimset_reject reject)
{
    static const char *const name[SLIMSET_REJECT_COUNT] = {
        [SLIMSET_REJECT_NONE] = "none",
        [SLIMSET_REJECT_EMPTY] = "empty",
        [SLIMSET_REJECT_UNKNOWN_FORMAT] = "unknown-format",
        [SLIMSET_REJECT_NOT_ALLOWED] = "not-allowed",
        [SLIMSET_REJECT_HTML] = "html",
        [SLIMSET_REJECT_LFS_POINTER] = "lfs-pointer",
        [SLIMSET_REJECT_TRUNCATED] = "truncated",
        [SLIMSET_REJECT_CORRUPT] = "corrupt",
        [SLIMSET_REJECT_UNSUPPORTED] = "unsupported",
        [SLIMSET_REJECT_NO_DECODER] = "no-decoder",
        [SLIMSET_REJECT_TOO_MANY_PIXELS] = "too-many-pixels",
        [SLIMSET_REJECT_TOO_MANY_SCANS] = "too-many-scans",
        [SLIMSET_REJECT_TOO_LARGE] = "too-large",
        [SLIMSET_REJECT_RATIO] = "ratio",
        [SLIMSET_REJECT_VANISHED] = "vanished",
        [SLIMSET_REJECT_CHANGED] = "changed",
        [SLIMSET_REJECT_UNREADABLE] = "unreadable",
        [SLIMSET_REJECT_NOT_REGULAR] = "not-regular",
        [SLIMSET_REJECT_DECODER_CRASH] = "decoder-crash",
        [SLIMSET_REJECT_CHECKSUM] = "checksum",
        [SLIMSET_REJECT_ENCRYPTED] = "encrypted",
        [SLIMSET_REJECT_LINK] = "link",
        [SLIMSET_REJECT_NAME] = "name",
        [SLIMSET_REJECT_DUPLICATE] = "duplicate",
        [SLIMSET_REJECT_PAIR] = "pair",
        [SLIMSET_REJECT_FLOAT] = "float",
        [SLIMSET_REJECT_BANDS] = "bands",
        [SLIMSET_REJECT_ALPHA] = "alpha",
        [SLIMSET_REJECT_DEPTH] = "depth",
        [SLIMSET_REJECT_ARRAY] = "array",
        [SLIMSET_REJECT_CAST_LOSS] = "cast-loss",
        [SLIMSET_REJECT_SHAPE] = "shape",
    };
    if ((unsigned)reject >= SLIMSET_REJECT_COUNT)
        return "unknown";
    return name[reject];
}

const char *slimset_version(void)
{
    return SLIMSET_VERSION;
}
