/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "class_traces.h"
#include "image.h"

/* The image's profile by name; the last of the table stands for all that found no place. */
static enum slimset_status count_profile(struct index *ix, const struct slimset_field *f, struct slimset_report *r,
                                         struct slimset_error *err)
{
    const char *name;
    size_t n;
    if (!(f->notes & (NOTE_PROFILE_DROPPED | NOTE_PROFILE_USED)))
        return SLIMSET_OK;
    enum slimset_status st = index_text(ix, f->array, &name, &n, err);
    if (st != SLIMSET_OK)
        return st;
    n = n < SLIMSET_PROFILE_NAME_BYTES ? n : SLIMSET_PROFILE_NAME_BYTES - 1;
    uint32_t i = 0;
    while (i < r->n_profiles && (strlen(r->profile[i].name) != n || memcmp(r->profile[i].name, name, n) != 0))
        i++;
    if (i == r->n_profiles && i < SLIMSET_PROFILES_MAX) {
        r->n_profiles++;
        memcpy(r->profile[i].name, name, n);
        if (i == SLIMSET_PROFILES_MAX - 1)
            snprintf(r->profile[i].name, sizeof r->profile[i].name, "others");
    }
    struct slimset_profile_count *p = &r->profile[i < SLIMSET_PROFILES_MAX ? i : SLIMSET_PROFILES_MAX - 1];
    p->used += (f->notes & NOTE_PROFILE_USED) != 0;
    p->dropped += (f->notes & NOTE_PROFILE_DROPPED) != 0;
    return SLIMSET_OK;
}

enum { SSIM_STEPS = 10001 }; /* of 0.0001, from 0 to 1 */

/* What `share` percent of all images have at most. */
static uint32_t ssim_quantile(const uint32_t count[SSIM_STEPS], uint64_t all, unsigned share)
{
    uint64_t rank = all * share / 100, seen = 0;
    unsigned i = 0;
    while (i + 1 < SSIM_STEPS && (seen += count[i]) <= rank)
        i++;
    return 100 * i;
}

static void ssim_quantiles(const uint32_t count[SSIM_STEPS], struct slimset_report *r)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < SSIM_STEPS; i++)
        all += count[i];
    if (all == 0)
        return;
    r->ssim_5_e6 = ssim_quantile(count, all, 5);
    r->ssim_50_e6 = ssim_quantile(count, all, 50);
}

static void count_field(const struct slimset_field *f, struct slimset_report *r, uint32_t ssim[SSIM_STEPS], bool *resized)
{
    r->out_bytes += f->bytes;
    r->in_pixels += (uint64_t)f->in_w * f->in_h;
    r->out_pixels += (uint64_t)f->w * f->h;
    for (unsigned b = 0; b < 32; b++)
        r->note[b] += f->notes >> b & 1;
    r->classes_lost += f->role == SLIMSET_ROLE_MASK ? f->classes_lost : 0;
    if (f->notes & NOTE_FIRST_FRAME && !(f->notes & NOTE_COPIED) && f->frames > 1)
        r->frames_dropped += f->frames - 1;
    if (f->ssim_e6 != 0 && f->quality <= 100) {
        r->quality[f->quality]++;
        r->ssim_min_e6 = r->ssim_min_e6 == 0 || f->ssim_e6 < r->ssim_min_e6 ? f->ssim_e6 : r->ssim_min_e6;
        ssim[f->ssim_e6 < 1000000 ? f->ssim_e6 / 100 : SSIM_STEPS - 1]++;
    }
    r->unmeasured += f->format == FORMAT_WEBP && f->quality != 0 && f->ssim_e6 == 0;
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
    struct class_traces *traces = class_traces_new(ix->n_classes);
    uint32_t *ssim = calloc(SSIM_STEPS, sizeof *ssim);
    if (traces == NULL || ssim == NULL) {
        class_traces_free(traces);
        free(ssim);
        return err_nomem(err, ix->n_classes * sizeof(uint64_t));
    }
    for (uint64_t i = 0, fields = 0; st == SLIMSET_OK && i < ix->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        st = index_sample(ix, i, &s, &f, err);
        for (unsigned k = 0; st == SLIMSET_OK && k < s->n_fields; k++) {
            bool same;
            st = same_source(ix, s->first_field + k, &same, err);
            if (st != SLIMSET_OK)
                break;
            count_field(&f[k], r, ssim, &resized);
            r->in_bytes += same ? 0 : f[k].in_bytes;
            class_traces_add(traces, s->cls, &f[k]);
            st = count_profile(ix, &f[k], r, err);
            if (++fields % INDEX_FORGET_EVERY == 0)
                index_forget(ix);
        }
    }
    if (st == SLIMSET_OK)
        st = class_traces_report(traces, ix, r, err);
    class_traces_free(traces);
    ssim_quantiles(ssim, r);
    free(ssim);
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
