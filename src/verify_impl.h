/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of verify share. verify.c drives: first the index by itself (verify_index.c), then
 * each part against the index (verify_part.c), then what lies around in OUT (verify_foreign.c).
 * Damage is reported and the check goes on with the next thing that can be checked; only faults of
 * the machine are returned.
 */
#ifndef VERIFY_IMPL_H
#define VERIFY_IMPL_H

#include "dataset.h"
#include "slimset/pack.h"
#include "verify_decode.h"

enum { VERIFY_CHUNK_BYTES = 1 << 20 /* of reading; a multiple of the tar block */ };

struct verify {
    struct dataset d;
    slimset_finding_fn *fn; /* may be NULL */
    void *arg;
    struct slimset_verify_report *report;
    struct verify_decoder *decoder; /* NULL unless --decode */
    uint8_t *chunk;                 /* VERIFY_CHUNK_BYTES */
    struct buf data;                /* one field, for the decoder */
};

/* One finding: counted as damage and handed to fn. part, key and field may be NULL. */
void verify_finding(struct verify *v, const char *part, const char *key, const char *field,
                    const char *fmt, ...) ERR_PRINTF(5, 6);

/* Worth knowing but no damage: handed to fn with "note: " before the text. */
void verify_note(struct verify *v, const char *part, const char *fmt, ...) ERR_PRINTF(3, 4);

/* Makes a finding of a damaged or unreadable piece and answers SLIMSET_OK; passes everything else
 * on. */
enum slimset_status verify_absorb(struct verify *v, enum slimset_status st, const char *part,
                                  const char *key, const char *field,
                                  const struct slimset_error *err);

enum slimset_status verify_index(struct verify *v, struct slimset_error *err);
enum slimset_status verify_part(struct verify *v, uint64_t part, struct slimset_error *err);
enum slimset_status verify_foreign(struct verify *v, struct slimset_error *err);

#endif
