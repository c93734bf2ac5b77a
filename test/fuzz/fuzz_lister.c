/* SPDX-License-Identifier: Apache-2.0
 * What a lister that was taken over could answer: records of members, and the result. No name may
 * lead outside. */
#include "../../src/walk_archive.c" /* its functions are static */

#include "fuzz.h"
#include "keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_recipe recipe;
    struct slimset_run run;
    struct slimset_error err = {0};
    struct listing l;
    slimset_recipe_init(&recipe);
    slimset_run_init(&run);
    listing_init(&l);
    l.sources = calloc(1, sizeof *l.sources);
    l.n_sources = 1;
    l.sources[0] = (struct source){.kind = SOURCE_ARCHIVE, .fd = -1, .spool_fd = -1, .path = strdup("a.zip"),
                                   .prefix = strdup("a/"), .bytes = 1 << 16};
    struct walk_settings settings = {.recipe = &recipe, .run = &run, .work_dir = -1, .out_dir = -1};
    struct members to = {.l = &l, .settings = &settings};
    uint8_t *message = malloc(n + 1);
    MUST(message != NULL);
    memcpy(message, data, n);
    enum slimset_status st;
    if (n == sizeof(struct worker_listed) && get_le32(data) == 0) {
        struct worker_listed done;
        memcpy(&done, message, sizeof done);
        st = take_result(&to, &done, &err);
        MUST(st <= SLIMSET_INTERNAL);
    } else {
        st = read_records(&to, message, n, &err);
        MUST(st == SLIMSET_OK || st == SLIMSET_INTERNAL);
    }
    for (size_t i = 0; i < l.n_entries; i++) {
        const struct entry *e = &l.entries[i];
        MUST(e->problem < SLIMSET_REJECT_COUNT && strlen(e->path) == e->path_bytes);
        if (e->problem == SLIMSET_REJECT_NONE) {
            char text[KEYS_TEXT_MAX];
            MUST(e->path[0] != '/' && strstr(e->path, "/../") == NULL);
            MUST(e->path_bytes < 3 || strcmp(e->path + e->path_bytes - 3, "/..") != 0);
            listing_display(&l, e, true, text, sizeof text);
            MUST(strchr(text, '\n') == NULL);
        }
    }
    free(message);
    listing_fini(&l);
    return 0;
}
