/* SPDX-License-Identifier: Apache-2.0
 * The worker protocol, upwards: what a worker that was taken over could answer, against a request;
 * what passes is written into a shard, as the coordinator does. */
#include "dataset.h"
#include "fuzz.h"
#include "item.h"
#include "shard.h"

static struct slimset_recipe recipe;
static struct slimset_run run;
static struct plan plan;

static void make_plan(void)
{
    static const char *const paths[] = {"a/x.jpg", "a/x.txt", "a/x.seg.png", "a/y.npy"};
    struct slimset_error err;
    slimset_recipe_init(&recipe);
    slimset_run_init(&run);
    recipe.shards = 1;
    recipe.shard_bytes = 1000000;
    recipe.order = SLIMSET_ORDER_SOURCE;
    plan_init(&plan, &recipe);
    plan.listing.sources = calloc(1, sizeof *plan.listing.sources);
    plan.listing.n_sources = 1;
    plan.listing.sources[0] = (struct source){.fd = -1, .spool_fd = -1, .path = strdup("src"), .prefix = strdup("")};
    for (size_t i = 0; i < 4; i++) {
        struct entry e = {.path_bytes = (uint32_t)strlen(paths[i]), .bytes = 1000};
        e.path = listing_string(&plan.listing, "", paths[i], e.path_bytes);
        MUST(listing_add(&plan.listing, &e, &err) == SLIMSET_OK);
    }
    MUST(plan_samples(&plan, &run, &err) == SLIMSET_OK);
    for (size_t i = 0; i < plan.n_rules; i++)
        plan.rules[i].settled = true;
    MUST(plan_shards(&plan, &run, &err) == SLIMSET_OK && plan.n_samples == 2);
}

/* A good answer as to its form: what is left to the fuzzer are names, formats, sizes, notes, payloads. */
static void mend(const struct item_request *req, uint8_t *blob, size_t n)
{
    struct item_answer *a = (struct item_answer *)(void *)blob;
    struct item_field *f = (struct item_field *)(void *)(a + 1);
    size_t head = sizeof *a + req->n_inputs * sizeof *f, text = 0;
    if (n < head)
        return;
    a->status = SLIMSET_OK;
    a->reject = SLIMSET_REJECT_NONE;
    a->n_fields = req->n_inputs;
    for (uint32_t i = 0; i < a->n_fields; i++) {
        f[i].input = i;
        f[i].name_bytes %= 64;
        f[i].array_bytes %= 32;
        f[i].spilled &= 1;
        text += f[i].name_bytes + f[i].array_bytes;
    }
    if (text > n - head)
        return;
    a->text_bytes = (uint32_t)text;
    uint64_t left = n - head - text;
    for (uint32_t i = 0; i < a->n_fields; i++) {
        uint64_t mine = i + 1 == a->n_fields ? left : f[i].payload_bytes % (left + 1);
        if (!f[i].spilled) {
            f[i].payload_bytes = mine;
            left -= mine;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_error err = {0};
    if (plan.n_samples == 0)
        make_plan();
    if (n < 1)
        return 0;
    const struct plan_sample *s = &plan.samples[data[0] & 1];
    struct item_request req = {.ticket = 7, .op = ITEM_CONVERT + (data[0] >> 1) % 4, .n_inputs = s->n};
    for (unsigned i = 0; i < s->n; i++)
        req.input[i].role = plan.rules[plan.listing.entries[s->first + i].rule].role;
    bool whole = data[0] & 0x40;
    req.has_spill = data[0] >> 7;
    data++, n--;
    uint8_t *blob = malloc(n + 1); /* the pool's private copy: aligned, and not a byte longer */
    MUST(blob != NULL);
    memcpy(blob, data, n);
    if (n >= sizeof(struct item_answer)) { /* what every mutation would break */
        struct item_answer *a = (struct item_answer *)(void *)blob;
        a->ticket = 7;
        a->blob_bytes = n;
        if (whole)
            mend(&req, blob, n);
    }
    enum slimset_status st = item_answer_check(&req, blob, n, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_INTERNAL);
    const struct item_answer *a = (const struct item_answer *)(const void *)blob;
    if (st == SLIMSET_OK && a->status == SLIMSET_OK && req.op == ITEM_CONVERT) {
        struct shard_writer w;
        memset(&w, 0, sizeof w);
        MUST(shard_begin(&w, &plan, 0, fuzz_folder(), &err) == SLIMSET_OK);
        int spill = req.has_spill ? fuzz_file(data, n) : -1; /* shorter than what a field says of it, perhaps */
        st = shard_sample(&w, s, a, spill, &err);
        if (st == SLIMSET_OK)
            st = shard_end(&w, &err);
        MUST(st == SLIMSET_OK || req.has_spill);
        for (size_t i = 0; st == SLIMSET_OK && i < w.content.n_fields; i++) {
            const struct slimset_field *f = &w.content.fields[i];
            const slimset_str name = f->name, key = w.content.samples[0].key;
            const char *strings = (const char *)w.content.strings.data;
            char path[DATASET_PATH_MAX];
            MUST(f->offset + f->bytes <= w.content.parts[0].bytes);
            MUST(dataset_path(strings + (key & 0xffffffffff), key >> 40, strings + (name & 0xffffffffff), name >> 40, path));
            MUST(memchr(strings + (name & 0xffffffffff), '/', name >> 40) == NULL);
        }
        shard_fini(&w);
        if (spill >= 0)
            close(spill);
    } else if (st == SLIMSET_OK && a->status != SLIMSET_OK) {
        char text[sizeof err.text]; /* as the pool puts it */
        snprintf(text, sizeof text, "%.*s", (int)a->text_bytes, item_text(a));
        MUST(a->failed_input < req.n_inputs);
    }
    free(blob);
    return 0;
}
