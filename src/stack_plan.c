/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "report.h"
#include "request.h"
#include "stack.h"

enum { HEAD_BYTES = 64 << 10 /* of a header; those of plain numbers have some hundred */ };

static enum slimset_status check_one(const struct slimset_recipe *r, struct slimset_error *err)
{
    const char *wrong = r->output != SLIMSET_OUTPUT_AUTO && r->output != SLIMSET_OUTPUT_RAW ? "--codec: its rows are raw pixels"
                        : r->array_asked && !r->array_auto && r->array_codec != SLIMSET_CODEC_NPY ? "--array-codec: its rows are plain values"
                        : r->narrow ? "--narrow: rows have one type, and each array would get its own"
                        : r->keep_order ? "--keep-order: its rows are in C order"
                        : r->dali_idx || r->energon ? "--dali-idx and --energon, which go with tar shards" : NULL;
    return wrong == NULL ? SLIMSET_OK : err_set(err, SLIMSET_USAGE, "--to npy does not go with %s", wrong);
}

enum slimset_status stack_check(const struct slimset_recipe *r, struct slimset_error *err)
{
    enum slimset_status st = check_one(r, err);
    for (size_t i = 0; st == SLIMSET_OK && i < r->n_settings; i++)
        st = check_one(&r->settings[i], err);
    return st;
}

bool stack_takes(const struct plan *p, const struct entry *e)
{
    uint8_t role = p->rules[e->rule].role;
    return role != SLIMSET_ROLE_COPY && role != SLIMSET_ROLE_LABEL;
}

/* --- one answer ------------------------------------------------------------------------------------------ */

static void row_text(const struct npy *a, char *text, size_t n)
{
    struct buf b = {0};
    struct slimset_error ignored;
    text[0] = '\0';
    if (npy_text(a, &b, &ignored) == SLIMSET_OK)
        snprintf(text, n, "%.*s", (int)b.len, (const char *)b.data);
    buf_fini(&b);
}

/* dtype and shape as a row has them: little more than npy_parse leaves, but not tied to the header's bytes. */
static enum slimset_status plain(const struct npy *a, struct npy *found, struct slimset_error *err)
{
    char text[1024];
    struct slimset_error ignored;
    row_text(a, text, sizeof text);
    if (a->fortran && a->ndim > 1)
        return err_bad(err, SLIMSET_REJECT_SHAPE, "%.200s is stored in Fortran order, rows are in C order", text);
    if (a->ndim > STACK_DIMS_MAX)
        return err_bad(err, SLIMSET_REJECT_SHAPE, "an array of %u dimensions: a row has %d at most", a->ndim, STACK_DIMS_MAX);
    if (npy_parse_text(text, strlen(text), found, &ignored) != SLIMSET_OK)
        return err_bad(err, SLIMSET_REJECT_SHAPE, "rows are plain numbers, and this is %.200s", text);
    return SLIMSET_OK;
}

static bool same_row(const struct npy *a, const struct npy *b)
{
    return a->kind == b->kind && a->order == b->order && a->itemsize == b->itemsize && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0;
}

/* The header of a stored .npy, wherever its bytes lie. */
static enum slimset_status look(const struct item_field *f, const uint8_t *payload, int spill_fd, struct npy *found, uint64_t *header,
                                struct slimset_error *err)
{
    uint8_t *head = NULL;
    size_t n = f->payload_bytes < HEAD_BYTES ? (size_t)f->payload_bytes : HEAD_BYTES;
    enum slimset_status st = SLIMSET_OK;
    if (f->format != FORMAT_NPY)
        return err_set(err, SLIMSET_INTERNAL, "a row that is no .npy");
    if (f->spilled) {
        head = malloc(HEAD_BYTES);
        st = head != NULL ? io_pread(spill_fd, head, n, f->spill_at, &n, "a spilled payload", err) : err_nomem(err, HEAD_BYTES);
        payload = head;
    }
    struct npy a;
    if (st == SLIMSET_OK && npy_announced(payload, n) > n)
        st = err_bad(err, SLIMSET_REJECT_SHAPE, "a header of more than %d bytes", HEAD_BYTES);
    if (st == SLIMSET_OK)
        st = npy_parse(payload, n, f->payload_bytes, &a, err);
    if (st == SLIMSET_OK)
        st = plain(&a, found, err);
    *header = st == SLIMSET_OK ? a.header_bytes : 0;
    free(head);
    return st;
}

enum slimset_status stack_pick(const struct plan *p, const struct plan_sample *s, const struct item_answer *a, int spill_fd,
                               const struct npy *row, uint32_t *field, uint64_t *header, struct npy *found, uint32_t *failed,
                               struct slimset_error *err)
{
    const struct entry *e = &p->listing.entries[s->first];
    const struct item_field *f = item_fields(a);
    const uint8_t *payload = item_payload(a), *at = payload;
    unsigned n = 0;
    char is[600], wanted[600];
    *failed = 0;
    for (uint32_t i = 0; i < a->n_fields; i++, at += f[i - 1].spilled ? 0 : f[i - 1].payload_bytes) {
        if (!stack_takes(p, &e[f[i].input]))
            continue;
        if (n++ == 0) {
            *field = i;
            payload = at;
            continue;
        }
        *failed = f[i].input;
        return f[i].input == f[*field].input
                   ? err_bad(err, SLIMSET_REJECT_SHAPE, "it holds several arrays, and --to npy makes one row of a sample")
                   : err_bad(err, SLIMSET_REJECT_SHAPE, "its sample has %.200s too, and --to npy makes one row of a sample: --skip or --copy "
                             "one of them", e[f[*field].input].path + e[f[*field].input].dir_bytes);
    }
    if (n == 0)
        return err_bad(err, SLIMSET_REJECT_SHAPE, "there is no array in it");
    *failed = f[*field].input;
    enum slimset_status st = look(&f[*field], payload, spill_fd, found, header, err);
    if (st != SLIMSET_OK || row == NULL || same_row(found, row))
        return st;
    row_text(found, is, sizeof is);
    row_text(row, wanted, sizeof wanted);
    return err_bad(err, SLIMSET_REJECT_SHAPE, "is %.200s, and the rows of this dataset are %.200s", is, wanted);
}

/* --- before the run -------------------------------------------------------------------------------------- */

/* Converts one sample. *got false: it is a reject, or has no row in it. */
static enum slimset_status try_sample(struct plan *p, struct pool *pool, const struct plan_sample *s, bool *got, struct slimset_error *err)
{
    struct request *r = malloc(sizeof *r);
    struct pool_answer a = {0};
    uint32_t failed, field;
    uint64_t culprit, header;
    bool answered = false;
    *got = false;
    if (r == NULL)
        return err_nomem(err, sizeof *r);
    enum slimset_status st = request_open(r, p, s->first, s->n, ITEM_CONVERT, 0, &failed, err);
    if (st == SLIMSET_BAD_INPUT) {
        free(r);
        return SLIMSET_OK;
    }
    if (st == SLIMSET_OK)
        st = pool_submit(pool, &r->item, r->fds, err);
    free(r);
    while (st == SLIMSET_OK && !answered)
        st = pool_next(pool, 1000, &a, &answered, &culprit, err);
    if (st != SLIMSET_OK)
        return st;
    if (a.answer->status == SLIMSET_OK) {
        st = stack_pick(p, s, a.answer, a.spill_fd, NULL, &field, &header, &p->row, &failed, err);
        *got = st == SLIMSET_OK;
        if (st == SLIMSET_BAD_INPUT)
            st = SLIMSET_OK;
    }
    free(a.answer);
    if (a.spill_fd >= 0)
        close(a.spill_fd);
    return st;
}

/* "npy", "depth:0,4095", or none: the row goes behind it. */
static enum slimset_status add_row(struct plan_rule *r, const char *text, struct slimset_error *err)
{
    char *with = NULL;
    bool any = r->params != NULL && r->params[0] != '\0';
    if (asprintf(&with, "%s%srow=%s", any ? r->params : "", any ? ";" : "", text) < 0)
        return err_nomem(err, strlen(text));
    free(r->params);
    r->params = with;
    return SLIMSET_OK;
}

enum slimset_status stack_settle(struct plan *p, struct pool *pool, const struct slimset_run *run, struct slimset_error *err)
{
    char text[1024], name[300] = "as an earlier run had it";
    enum slimset_status st = SLIMSET_OK;
    struct npy had;
    for (size_t i = 0; i < p->n_rules && !p->row_known; i++)
        p->row_known = p->rules[i].params != NULL && stack_row_of(p->rules[i].params, strlen(p->rules[i].params), &p->row);
    bool frozen = p->row_known;
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_samples && !p->row_known; i++) {
        const struct plan_sample *s = &p->samples[i];
        if (run->stop != NULL && *run->stop)
            return err_set(err, SLIMSET_INTERRUPTED, "interrupted");
        if (!s->duplicate)
            st = try_sample(p, pool, s, &p->row_known, err);
        if (st == SLIMSET_OK && p->row_known)
            listing_display(&p->listing, &p->listing.entries[s->first], true, name, sizeof name);
    }
    if (st != SLIMSET_OK || !p->row_known)
        return st;
    row_text(&p->row, text, sizeof text);
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_rules; i++) {
        struct plan_rule *r = &p->rules[i];
        bool has = r->params != NULL && stack_row_of(r->params, strlen(r->params), &had);
        if (r->role != SLIMSET_ROLE_COPY && !has)
            st = add_row(r, text, err);
    }
    if (st == SLIMSET_OK && !frozen)
        run_note(run, SLIMSET_EVENT_NOTE, "rows are %.200s, as %s has it; other shapes are rejects", text, name);
    return st;
}
