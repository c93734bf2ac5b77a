/* SPDX-License-Identifier: Apache-2.0
 * The worker protocol, downwards: a message as a worker receives it, byte for byte. What it takes
 * for sane is converted, with offsets and sizes that may be anything. */
#include "../../src/worker.c" /* its functions are static */

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct converter *c;
    static struct item_request req; /* keeps what was there before, as in the worker */
    if (n < 1)
        return 0;
    if (c == NULL) {
        struct slimset_recipe recipe;
        slimset_recipe_init(&recipe);
        recipe.max_pixels = 1 << 18;
        MUST(slimset_recipe_resize(&recipe, "32", NULL) == SLIMSET_OK && (c = converter_new(&recipe, false)) != NULL);
    }
    unsigned n_fds = data[0] % 4;
    size_t got = n - 1 < sizeof req ? n - 1 : sizeof req;
    memcpy(&req, data + 1, got);
    if (!request_is_sane(&req, got, n_fds))
        return 0;
    req.has_spill = 0; /* its file would be another one each time */
    MUST(req.slot < WORKER_SLOTS && req.n_inputs >= 1 && req.n_inputs <= ITEM_INPUTS_MAX && req.n_fds == n_fds);
    int fds[4] = {-1, -1, -1, -1};
    for (unsigned i = 0; i < n_fds; i++)
        fds[i] = fuzz_file(data, n);
    struct slimset_error err = {0};
    struct buf blob = {0};
    enum slimset_status st = convert_item(c, &req, fds, &blob, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_NO_MEMORY);
    if (st == SLIMSET_OK && req.op >= ITEM_CONVERT && req.op <= ITEM_CHECK)
        MUST(item_answer_check(&req, blob.data, blob.len, &err) == SLIMSET_OK);
    buf_fini(&blob);
    for (unsigned i = 0; i < n_fds; i++)
        close(fds[i]);
    return 0;
}
