/* SPDX-License-Identifier: Apache-2.0
 * Text of recipes: what META of an earlier run says against this run's, and what --resize takes. */
#include "fuzz.h"

#include "recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_error err = {0};
    struct slimset_recipe r;
    struct buf text = {0};
    char *word = malloc(n + 1);
    MUST(word != NULL);
    memcpy(word, data, n);
    word[n] = '\0';
    slimset_recipe_init(&r);
    MUST(recipe_text(&r, &text, &err) == SLIMSET_OK);
    struct index ix = {.meta = word, .meta_bytes = n};
    enum slimset_status st = recipe_compare(&text, &ix, "OUT", &err);
    MUST(st == SLIMSET_OK || (st == SLIMSET_DIFFERS && err.text[0] != '\0' && strnlen(err.text, sizeof err.text) < sizeof err.text));
    if (slimset_recipe_resize(&r, word, &err) == SLIMSET_OK) { /* what is taken has a text, which is taken for the same */
        struct buf again = {0};
        MUST(recipe_text(&r, &again, &err) == SLIMSET_OK);
        buf_fini(&again);
        MUST(r.resize != SLIMSET_RESIZE_NONE);
    }
    buf_fini(&text);
    free(word);
    return 0;
}
