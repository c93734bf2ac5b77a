/* SPDX-License-Identifier: Apache-2.0
 * The worker protocol, upwards: what a worker that was taken over could answer, against a request;
 * what passes is written into a shard, as the coordinator does. */
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
    data++, n--;
    uint8_t *blob = malloc(n + 1); /* the pool's private copy: aligned, and not a byte longer */
    MUST(blob != NULL);
    memcpy(blob, data, n);
    if (n >= sizeof(struct item_answer)) { /* what every mutation would break */
        struct item_answer *a = (struct item_answer *)(void *)blob;
        a->ticket = 7;
        a->blob_bytes = n;
    }
    enum slimset_status st = item_answer_check(&req, blob, n, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_INTERNAL);
    const struct item_answer *a = (const struct item_answer *)(const void *)blob;
    if (st == SLIMSET_OK && a->status == SLIMSET_OK && req.op == ITEM_CONVERT) {
        struct shard_writer w;
        memset(&w, 0, sizeof w);
        MUST(shard_begin(&w, &plan, 0, fuzz_folder(), &err) == SLIMSET_OK);
        st = shard_sample(&w, s, a, &err);
        if (st == SLIMSET_OK)
            st = shard_end(&w, &err);
        MUST(st == SLIMSET_OK);
        for (size_t i = 0; i < w.content.n_fields; i++)
            MUST(w.content.fields[i].offset + w.content.fields[i].bytes <= w.content.parts[0].bytes);
        shard_fini(&w);
    } else if (st == SLIMSET_OK && a->status != SLIMSET_OK) {
        char text[sizeof err.text]; /* as the pool puts it */
        snprintf(text, sizeof text, "%.*s", (int)a->text_bytes, item_text(a));
        MUST(a->failed_input < req.n_inputs);
    }
    free(blob);
    return 0;
}
