/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

void buf_fini(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

enum slimset_status buf_reserve(struct buf *b, size_t n, struct slimset_error *err)
{
    size_t max = b->max != 0 ? b->max : SIZE_MAX / 2;
    size_t need;
    if (!add_size(b->len, n, &need) || need > max)
        return err_bad(err, SLIMSET_REJECT_TOO_LARGE, "more than %zu bytes", max);
    if (need <= b->cap && b->data != NULL) /* data is never NULL afterwards: callers add to it */
        return SLIMSET_OK;
    size_t cap = b->cap + b->cap / 2;
    if (cap < need)
        cap = need;
    if (cap < 4096)
        cap = 4096;
    if (cap > max)
        cap = max;
    uint8_t *data = realloc(b->data, cap);
    if (data == NULL)
        return err_nomem(err, cap);
    b->data = data;
    b->cap = cap;
    return SLIMSET_OK;
}

enum slimset_status buf_append(struct buf *b, const void *bytes, size_t n, struct slimset_error *err)
{
    enum slimset_status st = buf_reserve(b, n, err);
    if (st != SLIMSET_OK)
        return st;
    if (n != 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    return SLIMSET_OK;
}

void buf_reset(struct buf *b, size_t keep_bytes)
{
    if (b->cap > keep_bytes)
        buf_fini(b);
    b->len = 0;
}
