/* SPDX-License-Identifier: Apache-2.0
 * File names, one a line, become samples and keys: names that a tar, a tree and WebDataset can
 * hold, whatever they were. */
#include "fuzz.h"

#include "dataset.h"
#include "keys.h"
#include "roles.h"
#include "webdataset.h"

static void check_entry(const struct entry *e, bool tree, bool exact, bool suffix)
{
    char text[KEYS_TEXT_MAX], path[DATASET_PATH_MAX];
    bool changed, known;
    size_t n = keys_text(e, tree, exact, suffix, 20, text, &changed), field_n;
    const char *field = keys_field(e, &field_n);
    MUST(field >= e->path && field + field_n == e->path + e->path_bytes);
    role_of_extension(field, field_n, &known);
    role_hint_of(e->path, e->dir_bytes, field, field_n);
    MUST(n > 0 && n < KEYS_TEXT_MAX);
    if (tree && !keys_tree_holds(e))
        return;
    MUST(dataset_path(text, n, "jpg", 3, path));
    if (!tree && !exact) {
        const char *slash = memrchr(text, '/', n), *base = slash != NULL ? slash + 1 : text;
        MUST(memchr(base, '.', n - (size_t)(base - text)) == NULL);
        for (size_t i = 0; i < n; i++)
            MUST((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_error err;
    struct listing l;
    if (n < 1 || n > 8192)
        return 0;
    bool wds = data[0] & 1;
    listing_init(&l);
    l.sources = calloc(1, sizeof *l.sources);
    l.n_sources = 1;
    l.sources[0] = (struct source){.kind = wds ? SOURCE_ARCHIVE : SOURCE_FOLDER, .fd = -1, .spool_fd = -1,
                                   .path = strdup("src"), .prefix = strdup(data[0] & 2 ? "p/" : ""), .webdataset = wds};
    for (size_t at = 1; at < n;) { /* as the walk makes them: components that are neither empty nor dots */
        const char *line = (const char *)data + at, *nl = memchr(line, '\n', n - at);
        size_t len = nl != NULL ? (size_t)(nl - line) : n - at;
        at += len + 1;
        char probe[DATASET_PATH_MAX];
        if (len == 0 || !dataset_path(line, len, "", 0, probe) || line[len - 1] == '/')
            continue;
        if (wds && webdataset_key_bytes(line, len) == 0)
            continue;
        struct entry e = {.path = listing_string(&l, l.sources[0].prefix, line, len)};
        e.path_bytes = (uint32_t)(strlen(l.sources[0].prefix) + len);
        MUST(listing_add(&l, &e, &err) == SLIMSET_OK);
        listing_is_junk(e.path, e.path_bytes);
    }
    webdataset_is(l.entries, l.n_entries, strlen(l.sources[0].prefix));
    MUST(keys_group(&l, &err) == SLIMSET_OK);
    for (size_t i = 0; i < l.n_entries; i++)
        for (unsigned k = 0; k < 8; k++)
            if (!(k & 2) || wds)
                check_entry(&l.entries[i], k & 1, k & 2, k & 4);
    listing_fini(&l);
    return 0;
}
