/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "sidecar.h"
#include "verify_impl.h"

void verify_finding(struct verify *v, const char *part, const char *key, const char *field,
                    const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->report->damaged++;
    if (v->fn != NULL)
        v->fn(v->arg, part, key, field, text);
}

void verify_note(struct verify *v, const char *part, const char *fmt, ...)
{
    char text[600] = "note: ";
    size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - n, fmt, ap);
    va_end(ap);
    if (v->fn != NULL)
        v->fn(v->arg, part, NULL, NULL, text);
}

enum slimset_status verify_absorb(struct verify *v, enum slimset_status st, const char *part,
                                  const char *key, const char *field,
                                  const struct slimset_error *err)
{
    /* EIO is a sector that cannot be read any more: as lost as a damaged one. */
    bool lost = st == SLIMSET_DAMAGED || st == SLIMSET_NOT_FOUND || st == SLIMSET_BAD_INPUT ||
                (st == SLIMSET_IO && err->os_errno == EIO);
    if (!lost)
        return st;
    verify_finding(v, part, key, field, "%s", err->text);
    return SLIMSET_OK;
}

static enum slimset_status sidecar(void *arg, const char *name, const void *data, size_t n,
                                   struct slimset_error *err)
{
    struct verify *v = arg;
    uint8_t *have = NULL;
    size_t have_n = 0;
    enum slimset_status st = io_read_file(v->d.dirfd, name, n, &have, &have_n, err);
    if (st == SLIMSET_OK && (have_n != n || (n != 0 && memcmp(have, data, n) != 0)))
        verify_finding(v, name, NULL, NULL, "does not say what the index says: --fix, or the same pack again, makes it anew");
    free(have);
    return verify_absorb(v, st, name, NULL, NULL, err);
}

enum slimset_status slimset_verify(const char *out, bool decode, unsigned jobs,
                                   slimset_finding_fn *fn, void *arg,
                                   struct slimset_verify_report *report, struct slimset_error *err)
{
    struct verify v = {.fn = fn, .arg = arg, .report = report};
    struct stat plan;
    memset(report, 0, sizeof *report);
    enum slimset_status st = dataset_open_folder(out, &v.d, err);
    if (st != SLIMSET_OK)
        goto out;
    st = dataset_open_index(out, &v.d, err);
    if (st != SLIMSET_OK) {
        if (st == SLIMSET_DAMAGED) /* without it nothing else can be judged */
            verify_finding(&v, SLIMSET_INDEX_NAME, NULL, NULL, "%s", err->text);
        goto out;
    }
    v.chunk = malloc(VERIFY_CHUNK_BYTES);
    if (v.chunk == NULL) {
        st = err_nomem(err, VERIFY_CHUNK_BYTES);
        goto out;
    }
    if (decode && (v.decoder = verify_decoder_open(jobs, err)) == NULL) {
        st = err->status;
        goto out;
    }
    st = verify_index(&v, err);
    for (uint64_t i = 0; st == SLIMSET_OK && i < v.d.ix.n_parts; i++)
        st = verify_part(&v, i, err);
    if (st == SLIMSET_OK) {
        st = sidecar_each(&v.d.ix, true, sidecar, &v, err);
        if (st == SLIMSET_USAGE)
            st = SLIMSET_DAMAGED;
        st = verify_absorb(&v, st, SLIMSET_INDEX_NAME, NULL, NULL, err);
    }
    if (st == SLIMSET_OK && (st = verify_foreign(&v, err)) == SLIMSET_IO) {
        /* A folder that may not be listed takes nothing from the dataset. */
        verify_note(&v, NULL, "%s", err->text);
        st = SLIMSET_OK;
    }
    if (st == SLIMSET_OK && fstatat(v.d.dirfd, ".slimset/plan", &plan, 0) == 0)
        verify_note(&v, NULL,
                    "an update of this dataset has not finished: run the same pack again");
    if (st == SLIMSET_OK && report->damaged != 0)
        st = err_set(err, SLIMSET_DAMAGED, "%s is damaged: %" PRIu64 " finding%s", out,
                     report->damaged, report->damaged == 1 ? "" : "s");
out:
    verify_decoder_close(v.decoder);
    buf_fini(&v.data);
    free(v.chunk);
    dataset_close(&v.d);
    return st;
}
