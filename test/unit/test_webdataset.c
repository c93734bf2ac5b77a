/* SPDX-License-Identifier: Apache-2.0
 *
 * webdataset.h: keys as webdataset's own expression splits them, and which archives are shards.
 */
#include "webdataset.h"

#include <stdlib.h>
#include <time.h>

#include "check.h"

static struct slimset_error err;

static void test_key_bytes(void)
{
    static const struct {
        const char *name;
        size_t key;
    } cases[] = {
        {"a.jpg", 1},   {"a.seg.png", 1}, {"v1.2/img.0.jpg", 8}, {"./a.jpg", 3}, {"a..jpg", 1},
        {"d/e/f.x", 5}, {".x.jpg", 0},    {"d/.x.jpg", 0},       {"noext", 0},   {"d.x/noext", 0},
        {"", 0},        {".", 0},         {"d.x/", 0},           {"a.", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t got = webdataset_key_bytes(cases[i].name, strlen(cases[i].name));
        if (got != cases[i].key)
            printf("  of \"%s\":\n", cases[i].name);
        CHECK_INT(got, cases[i].key);
    }
    CHECK_INT(webdataset_key_bytes("a\0b.jpg", 7), 3); /* bytes, not a string */
    CHECK_INT(webdataset_key_bytes("ab.jpg", 2), 0);
}

/* names: one a line; "!name" cannot be read. */
static bool is_shard_below(const char *prefix, const char *names)
{
    struct listing l;
    listing_init(&l);
    while (*names != '\0') {
        size_t n = strcspn(names, "\n"), skip = names[0] == '!';
        struct entry e = {.path_bytes = (uint32_t)(strlen(prefix) + n - skip)};
        e.path = listing_string(&l, prefix, names + skip, n - skip);
        e.problem = skip ? SLIMSET_REJECT_LINK : SLIMSET_REJECT_NONE;
        CHECK_INT(listing_add(&l, &e, &err), SLIMSET_OK);
        names += n + (names[n] == '\n');
    }
    bool is = webdataset_is(l.entries, l.n_entries, strlen(prefix));
    listing_fini(&l);
    return is;
}

static bool is_shard(const char *names) { return is_shard_below("", names); }

static void test_shards(void)
{
    CHECK(is_shard("0.jpg\n0.cls\n1.jpg\n1.cls"));
    CHECK(is_shard("train/0.jpg\ntrain/0.json\ntrain/1.jpg\ntrain/1.json\ntrain/1.txt"));
    CHECK(is_shard("0.jpg\n0.seg.png"));
    CHECK(is_shard("b.jpg\nb.cls\na.jpg\na.cls"));        /* any order of samples */
    CHECK(is_shard("0.jpg\n0.cls\n1.jpg\n1.cls\n2.jpg")); /* most samples have two or more */
}

static void test_archived_trees(void)
{
    CHECK(!is_shard(""));
    CHECK(!is_shard("0.jpg\n1.jpg\n2.jpg")); /* single fields: packs the same either way */
    CHECK(!is_shard("cat/0.jpg\ncat/1.jpg\ndog/0.jpg\nREADME")); /* a member without a key */
    CHECK(!is_shard("0.jpg\n0.cls\n.hidden"));
    CHECK(!is_shard("0.jpg\n1.jpg\n0.xml\n1.xml")); /* equal keys do not stand together */
    CHECK(!is_shard("images/0.jpg\nimages/1.jpg\nlabels/0.txt\nlabels/1.txt"));
    CHECK(!is_shard("0.jpg\n0.jpg\n1.jpg\n1.cls")); /* a field twice */
    CHECK(!is_shard("0.jpg\n0.txt\n0.jpg"));
    CHECK(!is_shard("!0.jpg\n0.cls"));                            /* a member that cannot be read */
    CHECK(!is_shard("0.jpg\n0.cls\n1.jpg\n2.jpg\n3.jpg\n4.jpg")); /* two fields are not the rule */
}

static void test_prefix(void)
{
    CHECK(is_shard_below("my.shard/", "0.jpg\n0.cls\n1.jpg\n1.cls"));
    CHECK(!is_shard_below("my.shard/", "0\n1"));
    CHECK(!is_shard_below("x/", ".a.jpg\n.a.cls"));
}

/* The frames of a video, clip.000000.jpg and so on, have one key for WebDataset. Nobody means a
 * sample of thousands of fields, none can hold them, and finding that out must not take the
 * run's time. */
static void test_one_key_for_all(void)
{
    enum { N = 30000 };
    struct listing l;
    struct timespec a, b;
    char name[32];
    listing_init(&l);
    for (int i = 0; i < N; i++) {
        struct entry e = {.path_bytes = (uint32_t)snprintf(name, sizeof name, "clip.%06d.jpg", i)};
        e.path = listing_string(&l, "", name, e.path_bytes);
        CHECK_INT(listing_add(&l, &e, &err), SLIMSET_OK);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    CHECK(!webdataset_is(l.entries, l.n_entries, 0));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    if (seconds > 1)
        printf("  %d members of one key: %.1f s\n", N, seconds);
    CHECK(seconds <= 1);
    listing_fini(&l);
}

int main(void)
{
    RUN(test_key_bytes);
    RUN(test_shards);
    RUN(test_archived_trees);
    RUN(test_prefix);
    RUN(test_one_key_for_all);
    return check_done();
}
