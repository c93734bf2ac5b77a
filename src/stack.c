/* SPDX-License-Identifier: Apache-2.0 */
#include "stack.h"

#include <string.h>

bool stack_row_of(const char *params, size_t n, struct npy *row)
{
    static const char word[] = "row=";
    struct slimset_error ignored;
    const char *at = n > 0 ? memmem(params, n, word, sizeof word - 1) : NULL;
    if (at == NULL)
        return false;
    at += sizeof word - 1;
    return npy_parse_text(at, n - (size_t)(at - params), row, &ignored) == SLIMSET_OK && row->ndim <= STACK_DIMS_MAX;
}

enum slimset_status stack_row(struct index *ix, struct npy *row, struct slimset_error *err)
{
    enum slimset_status st = index_touch(ix, ix->rules, ix->n_rules * sizeof *ix->rules, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_rules; i++) {
        const char *params;
        size_t n;
        st = index_text(ix, ix->rules[i].params, &params, &n, err);
        if (st == SLIMSET_OK && stack_row_of(params, n, row))
            return SLIMSET_OK;
    }
    return st == SLIMSET_OK ? err_set(err, SLIMSET_DAMAGED, "%s is damaged: it does not say what the rows of its arrays are", ix->name) : st;
}

enum slimset_status stack_header(const struct npy *row, uint64_t n, struct buf *out, struct slimset_error *err)
{
    struct npy all = *row;
    size_t start = out->len;
    all.ndim = row->ndim + 1;
    all.shape[0] = n;
    memcpy(all.shape + 1, row->shape, row->ndim * sizeof *row->shape);
    all.fortran = false;
    enum slimset_status st = npy_header(&all, out, err);
    if (st != SLIMSET_OK)
        return st;
    size_t have = out->len - start;
    if (have > STACK_DATA) /* dtypes of plain numbers and STACK_DIMS_MAX sizes are far shorter */
        return err_set(err, SLIMSET_INTERNAL, "a header of %zu bytes", have);
    st = buf_reserve(out, STACK_DATA - have, err);
    if (st != SLIMSET_OK)
        return st;
    uint8_t *h = out->data + start;
    memset(h + have - 1, ' ', STACK_DATA - have);
    h[STACK_DATA - 1] = '\n';
    put_le16(h + 8, STACK_DATA - 10); /* version 1 */
    out->len = start + STACK_DATA;
    return SLIMSET_OK;
}
