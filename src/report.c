/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "image.h"

static void count_field(const struct slimset_field *f, struct slimset_report *r, bool *resized)
{
    r->in_bytes += f->in_bytes;
    r->out_bytes += f->bytes;
    r->in_pixels += (uint64_t)f->in_w * f->in_h;
    r->out_pixels += (uint64_t)f->w * f->h;
    for (unsigned b = 0; b < 32; b++)
        r->note[b] += f->notes >> b & 1;
    r->classes_lost += f->classes_lost;
    *resized = *resized || (f->notes & NOTE_RESIZED);
    uint32_t side = f->w > f->h ? f->w : f->h;
    if (f->role == SLIMSET_ROLE_IMAGE && side > 512) { /* bytes go about with the pixels; PNG photos shrink further as JPEG */
        double rest = (512.0 / side) * (512.0 / side);
        if (f->format == FORMAT_PNG)
            rest *= 0.2;
        r->would_save_bytes += (uint64_t)((double)f->bytes * (1 - rest));
    }
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
        if (st == SLIMSET_OK)
            count_field(&ix->fields[i], r, &resized);
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
