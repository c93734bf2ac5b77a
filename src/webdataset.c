/* SPDX-License-Identifier: Apache-2.0 */
#include "webdataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

size_t webdataset_key_bytes(const char *name, size_t n)
{
    const char *slash = memrchr(name, '/', n);
    size_t base = slash != NULL ? (size_t)(slash + 1 - name) : 0;
    const char *dot = memchr(name + base, '.', n - base);
    if (dot == NULL || dot == name + base)
        return 0;
    return (size_t)(dot - name);
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool all_distinct(uint64_t *hash, size_t n)
{
    qsort(hash, n, sizeof *hash, by_hash);
    for (size_t i = 1; i < n; i++)
        if (hash[i] == hash[i - 1])
            return false;
    return true;
}

bool webdataset_is(const struct entry *e, size_t n, size_t prefix_bytes)
{
    uint64_t *groups = malloc((n + 1) * sizeof *groups);
    size_t n_groups = 0, several = 0;
    bool is = groups != NULL && n > 0;
    for (size_t i = 0; is && i < n;) {
        const char *key = e[i].path + prefix_bytes;
        size_t k = webdataset_key_bytes(key, e[i].path_bytes - prefix_bytes), m = i + 1;
        if (k == 0 || e[i].problem != SLIMSET_REJECT_NONE) {
            is = false;
            break;
        }
        while (m < n && is && webdataset_key_bytes(e[m].path + prefix_bytes, e[m].path_bytes - prefix_bytes) == k &&
               memcmp(e[m].path + prefix_bytes, key, k) == 0) {
            for (size_t j = i; j < m; j++) /* the same field twice */
                is = is && !(e[j].path_bytes == e[m].path_bytes && memcmp(e[j].path, e[m].path, e[m].path_bytes) == 0);
            m++;
            is = is && m - i <= ITEM_INPUTS_MAX;
        }
        groups[n_groups++] = hash_bytes(key, k);
        several += m - i >= 2;
        i = m;
    }
    is = is && 2 * several >= n_groups && several > 0 && all_distinct(groups, n_groups);
    free(groups);
    return is;
}
