/* SPDX-License-Identifier: Apache-2.0
 * Files in the index format: index, plan, fragment. As they are, and with checksums that are made
 * right, so that the records behind them are reached: then readers, verify, report and the taking
 * over of decisions see what somebody wrote on purpose. */
#include "fuzz.h"

#include "index.h"
#include "keys.h"
#include "plan.h"
#include "publish.h"
#include "report.h"
#include "slimset/reader.h"

/* Header, block sums and tail of what stands in the sections. */
static bool mend(uint8_t *p, size_t n)
{
    struct slimset_header *h = (struct slimset_header *)(void *)p;
    if (n < sizeof *h + 16 || n > 1 << 20)
        return false;
    memcpy(h->magic, SLIMSET_MAGIC, 8);
    h->version = SLIMSET_FORMAT_VERSION;
    h->header_bytes = SLIMSET_HEADER_BYTES;
    h->file_bytes = n;
    h->kind = 1 + h->kind % 3;
    h->n_sections %= 16;
    h->table_offset = SLIMSET_HEADER_BYTES;
    memset(h->zero, 0, sizeof h->zero);
    /* n = 128 + content + 8 a block + 16 */
    uint64_t left = n - sizeof *h - 16, blocks = left / (SLIMSET_BLOCK_BYTES + 8) + (left % (SLIMSET_BLOCK_BYTES + 8) > 8);
    uint64_t content = left > blocks * 8 ? left - blocks * 8 : 0;
    if (content == 0 || n % 8 != 0)
        return false;
    h->n_blocks = blocks;
    h->sums_offset = sizeof *h + content;
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t at = sizeof *h + b * SLIMSET_BLOCK_BYTES, bytes = h->sums_offset - at;
        uint64_t sum = hash_bytes(p + at, bytes < SLIMSET_BLOCK_BYTES ? bytes : SLIMSET_BLOCK_BYTES);
        memcpy(p + h->sums_offset + 8 * b, &sum, 8);
    }
    h->sums_hash = hash_bytes(p + h->sums_offset, blocks * 8);
    h->header_hash = hash_bytes(p, 120);
    memcpy(p + n - 16, &h->file_bytes, 8);
    memcpy(p + n - 8, SLIMSET_TAIL_MAGIC, 8);
    return true;
}

static void finding(void *arg, const char *part, const char *key, const char *field, const char *text)
{
    (void)arg, (void)part, (void)key, (void)field;
    MUST(text != NULL && text[0] != '\0');
}

static void all_damaged_or_fine(enum slimset_status st)
{
    MUST(st == SLIMSET_OK || st == SLIMSET_DAMAGED || st == SLIMSET_NOT_FOUND || st == SLIMSET_DIFFERS);
}

static void read_dataset(const char *out)
{
    struct slimset_error err = {0};
    struct slimset_reader *r;
    enum slimset_status st = slimset_reader_open(out, &r, &err);
    all_damaged_or_fine(st);
    if (st != SLIMSET_OK)
        return;
    struct slimset_info info;
    slimset_reader_info(r, &info);
    for (uint64_t i = 0; i < info.samples && i < 200; i++) {
        struct slimset_sample_view s;
        uint64_t found;
        st = slimset_reader_sample(r, i, &s, &err);
        all_damaged_or_fine(st);
        if (st != SLIMSET_OK)
            continue;
        all_damaged_or_fine(slimset_reader_find(r, s.key.bytes, s.key.n, &found, &err));
        for (uint32_t k = 0; k < s.n_fields && k < 20; k++) {
            struct slimset_field_view f;
            void *data = NULL;
            size_t n;
            all_damaged_or_fine(slimset_reader_field(r, i, k, &f, &err));
            st = slimset_reader_load(r, i, k, &data, &n, &err);
            if (st == SLIMSET_OK)
                free(data);
        }
    }
    struct slimset_split_view split;
    struct slimset_part_view part;
    struct slimset_rule_view rule;
    struct slimset_reject_view reject;
    struct slimset_text name;
    for (uint64_t i = 0; i <= info.splits && i < 50; i++)
        all_damaged_or_fine(slimset_reader_split(r, i, &split, &err));
    for (uint64_t i = 0; i <= info.parts && i < 50; i++)
        all_damaged_or_fine(slimset_reader_part(r, i, &part, &err));
    for (uint64_t i = 0; i <= info.rules && i < 50; i++)
        all_damaged_or_fine(slimset_reader_rule(r, i, &rule, &err));
    for (uint64_t i = 0; i <= info.rejects && i < 50; i++)
        all_damaged_or_fine(slimset_reader_reject(r, i, &reject, &err));
    for (uint64_t i = 0; i <= info.classes && i < 50; i++)
        all_damaged_or_fine(slimset_reader_class(r, i, &name, &err));
    slimset_reader_close(r);
    struct slimset_verify_report report;
    all_damaged_or_fine(slimset_verify(out, false, 1, finding, NULL, &report, &err));
}

/* Decisions taken over from a plan or an index. */
static void freeze(int dir, enum slimset_kind kind)
{
    struct slimset_error err = {0};
    struct slimset_recipe recipe;
    struct plan plan;
    struct index ix = {0};
    enum slimset_status st = index_open(dir, SLIMSET_INDEX_NAME, kind, true, &ix, &err);
    all_damaged_or_fine(st);
    if (st != SLIMSET_OK)
        return;
    slimset_recipe_init(&recipe);
    plan_init(&plan, &recipe);
    st = plan_freeze(&plan, &ix, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_DAMAGED || st == SLIMSET_NO_MEMORY);
    plan_fini(&plan);
    struct slimset_report report = {0};
    if (kind == SLIMSET_KIND_INDEX) {
        st = report_count(&ix, &report, &err);
        all_damaged_or_fine(st);
    }
    index_close(&ix);
}

static void all(const uint8_t *data, size_t n)
{
    int dir = fuzz_folder();
    char out[64];
    snprintf(out, sizeof out, "/proc/self/fd/%d", dir);
    fuzz_write(dir, SLIMSET_INDEX_NAME, data, n);
    read_dataset(out);
    for (int kind = 1; kind <= 3; kind++)
        freeze(dir, (enum slimset_kind)kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    all(data, n);
    uint8_t *mended = malloc(n + 1);
    MUST(mended != NULL);
    memcpy(mended, data, n);
    if (mend(mended, n))
        all(mended, n);
    free(mended);
    return 0;
}
