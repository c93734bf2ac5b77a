/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "roles.h"

enum { DIGITS = 3 }; /* ITEM_INPUTS_MAX is 200 */

/* A glob with a / is compared with the folder's path, or that below its source; one without with the folder's name. */
static bool is_wanted(const struct listing *l, const char *glob, const struct entry *e)
{
    char dir[4096];
    size_t prefix = strlen(l->sources[e->source].prefix);
    if (e->dir_bytes < 2 || e->dir_bytes > sizeof dir || e->dir_bytes <= prefix || l->sources[e->source].webdataset ||
        e->problem != SLIMSET_REJECT_NONE)
        return false;
    memcpy(dir, e->path, e->dir_bytes - 1);
    dir[e->dir_bytes - 1] = '\0';
    if (strchr(glob, '/') != NULL)
        return fnmatch(glob, dir, 0) == 0 || fnmatch(glob, dir + prefix, 0) == 0;
    const char *slash = strrchr(dir, '/');
    return fnmatch(glob, slash != NULL ? slash + 1 : dir, 0) == 0;
}

static int by_path(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    return strcmp(a->path, b->path);
}

static bool is_numbered(const struct entry *e)
{
    bool known;
    const char *dot = strrchr(e->path + e->dir_bytes, '.'), *ext = dot != NULL ? dot + 1 : "";
    return role_of_extension(ext, strlen(ext), &known) != SLIMSET_ROLE_COPY;
}

/* Would people count b before a, though its bytes come later? f10 and f2: the first numbers that differ say so. */
static bool counts_back(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
            if (*a++ != *b++)
                return false;
            continue;
        }
        a += strspn(a, "0");
        b += strspn(b, "0");
        size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
        int order = n == m ? memcmp(a, b, n) : n < m ? -1 : 1;
        if (order != 0)
            return order > 0;
        a += n;
        b += m;
    }
    return false;
}

/* The files of one folder, in order of their names. *example: two whose numbers say otherwise. */
static enum slimset_status name_folder(struct listing *l, struct entry *e, size_t n, const char *example[2],
                                       const struct slimset_run *run, struct slimset_error *err)
{
    unsigned number = 0;
    size_t key = e->dir_bytes - 1;
    if (n > ITEM_INPUTS_MAX)
        run_note(run, SLIMSET_EVENT_WARNING, "%.300s has %zu files, and a sample holds %d at most: its files are rejects", e->path, n,
                 ITEM_INPUTS_MAX);
    qsort(e, n, sizeof *e, by_path);
    for (size_t i = 0; i < n; i++) {
        const char *base = e[i].path + e[i].dir_bytes, *dot = strrchr(base, '.');
        char name[4096 + 300];
        if (i > 0 && example[0] == NULL && is_numbered(&e[i - 1]) && is_numbered(&e[i]) &&
            counts_back(e[i - 1].path + e->dir_bytes, base)) {
            example[0] = e[i - 1].path;
            example[1] = e[i].path;
        }
        int len = is_numbered(&e[i]) ? snprintf(name, sizeof name, "%.*s.%0*u%s", (int)key, e[i].path, DIGITS, number++, dot)
                                     : snprintf(name, sizeof name, "%.*s.%s", (int)key, e[i].path, base);
        e[i].name = listing_string(l, "", name, (size_t)len < sizeof name ? (size_t)len : sizeof name - 1);
        if (e[i].name == NULL)
            return err_nomem(err, (size_t)len);
        const char *slash = memrchr(e[i].name, '/', key);
        e[i].key_bytes = (uint32_t)key;
        e[i].name_dir_bytes = slash != NULL ? (uint32_t)(slash + 1 - e[i].name) : 0;
    }
    return SLIMSET_OK;
}

enum slimset_status group_folders(struct listing *l, const struct slimset_recipe *recipe, const struct slimset_run *run,
                                  struct slimset_error *err)
{
    size_t own = 0, all = l->n_entries;
    const char *example[2] = {NULL, NULL};
    for (size_t i = 0; i < all; i++) { /* those of such folders to the end */
        struct entry e = l->entries[i];
        if (is_wanted(l, recipe->group_by, &e)) {
            l->entries[i].join = GROUP_JOIN;
            continue;
        }
        l->entries[i] = l->entries[own];
        l->entries[own++] = e;
    }
    if (own == all && all > 0)
        return err_set(err, SLIMSET_USAGE, "--group-by %.200s: no folder is called so; one file is %.300s", recipe->group_by,
                       l->entries[0].path);
    struct listing rest = *l; /* the same entries, to be sorted by folders */
    rest.entries += own;
    rest.n_entries = all - own;
    l->n_entries = own;
    enum slimset_status st = keys_group(l, err);
    l->n_entries = all;
    if (st == SLIMSET_OK)
        st = keys_group(&rest, err);
    for (size_t i = own, end; st == SLIMSET_OK && i < all; i = end) {
        const struct entry *e = &l->entries[i];
        for (end = i + 1; end < all && l->entries[end].dir_bytes == e->dir_bytes &&
                          memcmp(l->entries[end].path, e->path, e->dir_bytes) == 0; end++)
            continue;
        st = name_folder(l, &l->entries[i], end - i, example, run, err);
    }
    if (st == SLIMSET_OK && example[0] != NULL)
        run_note(run, SLIMSET_EVENT_WARNING, "--group-by: files are numbered in byte order, so %.300s comes before %.300s: names with as many "
                 "digits each (f002, f010) keep the order of their numbers", example[0], example[1]);
    for (size_t i = own; st == SLIMSET_OK && recipe->layout == SLIMSET_LAYOUT_TREE && i < all; i++)
        if (!keys_tree_holds(&l->entries[i]))
            l->entries[i].problem = SLIMSET_REJECT_NAME;
    return st == SLIMSET_OK ? keys_sort(l, err) : st;
}

const char *group_field(const struct entry *e, size_t *n)
{
    const char *field = keys_field(e, n);
    if (e->join != GROUP_JOIN || *n <= DIGITS || !is_numbered(e))
        return field;
    *n -= DIGITS + 1;
    return field + DIGITS + 1;
}
