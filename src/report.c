/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <string.h>

#include "image.h"

static void count_field(const struct slimset_field *f, struct slimset_report *r, bool *resized)
{
    r->out_bytes += f->bytes;
    r->in_pixels += (uint64_t)f->in_w * f->in_h;
    r->out_pixels += (uint64_t)f->w * f->h;
    for (unsigned b = 0; b < 32; b++)
        r->note[b] += f->notes >> b & 1;
    r->classes_lost += f->role == SLIMSET_ROLE_MASK ? f->classes_lost : 0;
    *resized = *resized || (f->notes & NOTE_RESIZED);
    uint32_t side = f->w > f->h ? f->w : f->h;
    if (f->role == SLIMSET_ROLE_IMAGE && side > 512) { /* bytes go about with the pixels; PNG photos shrink further as JPEG */
        double rest = (512.0 / side) * (512.0 / side);
        if (f->format == FORMAT_PNG)
            rest *= 0.2;
        r->would_save_bytes += (uint64_t)((double)f->bytes * (1 - rest));
    }
}

/* Another array of the same .npz: its source was counted with the one before. */
static enum slimset_status same_source(struct index *ix, uint64_t i, bool *same, struct slimset_error *err)
{
    const char *a, *b;
    size_t n, m;
    *same = false;
    if (i == 0 || ix->fields[i].in_format != FORMAT_NPZ || ix->fields[i - 1].in_hash != ix->fields[i].in_hash)
        return SLIMSET_OK;
    enum slimset_status st = index_text(ix, ix->fields[i].path, &a, &n, err);
    if (st == SLIMSET_OK)
        st = index_text(ix, ix->fields[i - 1].path, &b, &m, err);
    *same = st == SLIMSET_OK && n == m && memcmp(a, b, n) == 0;
    return st;
}

enum slimset_status report_count(struct index *ix, struct slimset_report *r, struct slimset_error *err)
{
    bool resized = false;
    enum slimset_status st = SLIMSET_OK;
    r->samples = ix->n_samples;
    r->splits = (uint32_t)ix->n_splits;
    r->classes = (uint32_t)ix->n_classes;
    r->shards = (uint32_t)ix->n_parts;
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_fields; i++) {
        st = index_touch(ix, &ix->fields[i], sizeof *ix->fields, err);
        bool same = false;
        if (st == SLIMSET_OK)
            st = same_source(ix, i, &same, err);
        if (st == SLIMSET_OK)
            count_field(&ix->fields[i], r, &resized);
        r->in_bytes += st == SLIMSET_OK && !same ? ix->fields[i].in_bytes : 0;
        if (i % INDEX_FORGET_EVERY == INDEX_FORGET_EVERY - 1)
            index_forget(ix);
    }
    if (resized)
        r->would_save_bytes = 0;
    if (st == SLIMSET_OK)
        st = index_touch(ix, ix->rejects, ix->n_rejects * sizeof *ix->rejects, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < ix->n_rejects; i++) {
        const struct slimset_reject_record *j = &ix->rejects[i];
        r->left_out += j->kind == 2;
        r->junk += j->kind == 3;
        if (j->kind == 1 && j->reject < SLIMSET_REJECT_COUNT) {
            r->rejects++;
            r->reject_class[j->reject]++;
        }
    }
    return st;
}
