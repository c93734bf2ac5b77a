/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h: which files become one sample, and what the sample is called in a tar and in a tree.
 */
#include "keys.h"

#include <stdlib.h>

#include "base/hash.h"
#include "check.h"

static struct slimset_error err;

static void add_source(struct listing *l, const char *prefix, bool webdataset)
{
    l->sources = realloc(l->sources, (l->n_sources + 1) * sizeof *l->sources);
    l->sources[l->n_sources++] =
        (struct source){.kind = webdataset ? SOURCE_ARCHIVE : SOURCE_FOLDER,
                        .fd = -1,
                        .spool_fd = -1,
                        .path = strdup("src"),
                        .prefix = strdup(prefix),
                        .webdataset = webdataset};
}

static struct entry *add(struct listing *l, uint16_t source, const char *path, size_t n)
{
    struct entry e = {.source = source};
    e.path = listing_string(l, l->sources[source].prefix, path, n);
    e.path_bytes = (uint32_t)(strlen(l->sources[source].prefix) + n);
    CHECK_INT(listing_add(l, &e, &err), SLIMSET_OK);
    return &l->entries[l->n_entries - 1];
}

static void add_all(struct listing *l, uint16_t source, const char *paths)
{
    while (*paths != '\0') { /* one a line */
        size_t n = strcspn(paths, "\n");
        add(l, source, paths, n);
        paths += n + (paths[n] == '\n');
    }
}

/* "key: field field; key: field" of a grouped listing. */
static const char *groups(struct listing *l)
{
    static char text[4096];
    size_t at = 0, n;
    CHECK_INT(keys_group(l, &err), SLIMSET_OK);
    text[0] = '\0';
    for (size_t i = 0; i < l->n_entries; i++) {
        const struct entry *e = &l->entries[i];
        if (i == 0 || !keys_same(e - 1, e))
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s:", i > 0 ? "; " : "",
                                   (int)e->key_bytes, e->path);
        const char *field = keys_field(e, &n);
        at += (size_t)snprintf(text + at, sizeof text - at, " %.*s", (int)n, field);
    }
    return text;
}

static const char *group(const char *paths)
{
    struct listing l;
    listing_init(&l);
    add_source(&l, "", false);
    add_all(&l, 0, paths);
    const char *text = groups(&l);
    listing_fini(&l);
    return text;
}

static void test_same_stem(void)
{
    CHECK_STR(group("dir/0007.jpg\ndir/0007.mask.png\ndir/0007.txt"), "dir/0007: jpg mask.png txt");
    CHECK_STR(group("b.jpg\na.txt\nb.txt\na.jpg"), "a: jpg txt; b: jpg txt");
    CHECK_STR(group("x/a.jpg\ny/a.txt\na.png"), "a: png; x/a: jpg; y/a: txt");
    CHECK_STR(group("a.jpg\na.png\na.JPG"), "a: JPG jpg png");
}

static void test_longer_stem_joins_shorter(void)
{
    CHECK_STR(group("0001.jpg\n0001.seg.png"), "0001: jpg seg.png");
    CHECK_STR(group("0001.seg.png"), "0001.seg: png"); /* no such shorter stem */
    CHECK_STR(group("x/0001.jpg\ny/0001.seg.png"), "x/0001: jpg; y/0001.seg: png");
    CHECK_STR(group("clip.jpg\nclip.001.jpg\nclip.002.jpg"),
              "clip: jpg; clip.001: jpg; clip.002: jpg");
    CHECK_STR(group("clip.001.jpg\nclip.001.txt"), "clip.001: jpg txt");
    CHECK_STR(group("a.jpg\na.b.png\na.b.c.json"), "a: b.c.json b.png jpg");
    CHECK_STR(group("a.v2.jpg\na.jpg\na.2v.jpg\na.2.jpg"), "a: 2v.jpg jpg v2.jpg; a.2: jpg");
    CHECK_STR(group("Track 2.0 (Clean).jpg\nTrack 2.0 (Clean).txt"), "Track 2.0 (Clean): jpg txt");
    CHECK_STR(group("IMG_1.jpeg\nIMG_1.jpeg.json"), "IMG_1: jpeg jpeg.json");
    CHECK_STR(group("a..jpg\na.jpg"), "a: jpg; a.: jpg"); /* nothing stands between */
}

static void test_names_without_extension(void)
{
    CHECK_STR(group("README\nREADME.md"), "README:  md");
    CHECK_STR(group(".hidden\n.hidden.txt"),
              ".hidden:  txt"); /* a leading dot begins no extension */
    CHECK_STR(group("d.x/noext"), "d.x/noext: ");
    CHECK_STR(group("a."), "a: ");
}

/* A number behind the last dot is no extension: a series of files is not one sample. */
static void test_numbers_are_no_extensions(void)
{
    CHECK_STR(group("IM.0\nIM.1\nIM.12"), "IM.0: ; IM.1: ; IM.12: ");
    CHECK_STR(group("IM.jpg\nIM.0\nIM.b.0"), "IM: jpg; IM.0: ; IM.b.0: ");
    CHECK_STR(group("IM.0\nIM.0.json\nIM.1"), "IM.0:  json; IM.1: ");
    CHECK_STR(group("a.mp4\na.0x\na.7z"), "a: 0x 7z mp4");
}

/* What cannot be read stands behind the others of its key. */
static void test_problems_come_last(void)
{
    struct listing l;
    listing_init(&l);
    add_source(&l, "", false);
    add_all(&l, 0, "a.json\na.jpg\na.png\nb.jpg");
    l.entries[0].problem = SLIMSET_REJECT_LINK;
    CHECK_STR(groups(&l), "a: jpg png json; b: jpg");
    CHECK_INT(l.entries[2].problem, SLIMSET_REJECT_LINK);
    listing_fini(&l);
}

static void test_order(void)
{
    /* folders first by their bytes, then keys, then names: never the order of listing */
    CHECK_STR(group("b/1.jpg\na/2.jpg\na-b/3.jpg\n9.jpg\na/1.txt\na/1.jpg"),
              "9: jpg; a-b/3: jpg; a/1: jpg txt; a/2: jpg; b/1: jpg");
    CHECK_STR(group("0001-a.jpg\n0001.jpg\n0001.a.png"), "0001: a.png jpg; 0001-a: jpg");
    CHECK_STR(group("\xc3\xa9.jpg\nz.jpg\n\xff.jpg"), "z: jpg; \xc3\xa9: jpg; \xff: jpg");
}

static void test_many_stems(void)
{
    struct listing l;
    char name[64];
    size_t joined = 0;
    listing_init(&l);
    add_source(&l, "", false);
    for (unsigned i = 0; i < 20000; i++) {
        add(&l, 0, name, (size_t)snprintf(name, sizeof name, "f/%u.jpg", i));
        if (i % 2 == 0)
            add(&l, 0, name, (size_t)snprintf(name, sizeof name, "f/%u.seg.png", i));
        else
            add(&l, 0, name, (size_t)snprintf(name, sizeof name, "f/x%u.seg.png", i));
    }
    CHECK_INT(keys_group(&l, &err), SLIMSET_OK);
    for (size_t i = 1; i < l.n_entries; i++)
        joined += keys_same(&l.entries[i - 1], &l.entries[i]);
    CHECK_INT(joined, 10000);
    listing_fini(&l);
}

static void test_webdataset_keys(void)
{
    struct listing l;
    listing_init(&l);
    add_source(&l, "train-0/", true);
    add_all(&l, 0, "a.b.c.jpg\na.d.txt\na.001.png\nv1.2/img.0.jpg\nb.JPG");
    CHECK_STR(groups(&l),
              "train-0/a: 001.png b.c.jpg d.txt; train-0/b: JPG; train-0/v1.2/img: 0.jpg");
    listing_fini(&l);
    listing_init(&l); /* beside a folder that has other rules */
    add_source(&l, "w/", true);
    add_source(&l, "f/", false);
    add_all(&l, 0, "a.1.jpg\na.2.jpg");
    add_all(&l, 1, "a.1.jpg\na.2.jpg");
    CHECK_STR(groups(&l), "f/a.1: jpg; f/a.2: jpg; w/a: 1.jpg 2.jpg");
    listing_fini(&l);
}

/* --- the text of a key ------------------------------------------------------------------------ */

static char key[KEYS_TEXT_MAX];
static size_t key_n;
static bool changed;

/* The key of a single file; its extension counts as the field. */
static const char *text_of(const char *path, size_t n, bool tree, bool exact, bool suffix)
{
    struct listing l;
    size_t field;
    listing_init(&l);
    add_source(&l, "", exact);
    add(&l, 0, path, n);
    CHECK_INT(keys_group(&l, &err), SLIMSET_OK);
    keys_field(&l.entries[0], &field);
    memset(key, 'Q', sizeof key);
    key_n = keys_text(&l.entries[0], tree, exact, suffix, field, key, &changed);
    CHECK(key_n < sizeof key && key[key_n] == '\0' && strlen(key) == key_n);
    listing_fini(&l);
    return key;
}

static const char *shard_key(const char *path)
{
    return text_of(path, strlen(path), false, false, false);
}

static const char *tree_key(const char *path)
{
    return text_of(path, strlen(path), true, false, false);
}

static void test_plain_keys_stay(void)
{
    static const char *const same[] = {"0001.jpg",      "cat/0001.jpg",    "v1.2/img.jpg",
                                       "a/b/c/d.png",   "a-b+c,d'e\".jpg", "\xc3\xa9t\xc3\xa9.jpg",
                                       "latin\xe9.jpg", "-rf.jpg",         "_x.jpg",
                                       "a__b.jpg",      "100%.jpg"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        const char *k = shard_key(same[i]);
        CHECK_INT(key_n, strrchr(same[i], '.') - same[i]);
        CHECK(strncmp(k, same[i], key_n) == 0);
        CHECK(!changed);
    }
}

static void test_dots_and_blanks(void)
{
    CHECK_STR(shard_key("Track 2.0 (Clean).jpg"), "Track_2_0_(Clean)");
    CHECK(changed);
    CHECK_STR(shard_key("v1.2/a.b.jpg"), "v1.2/a_b"); /* dots of folders cut nothing */
    CHECK_STR(shard_key("a\tb\nc.jpg"), "a_b_c");
    CHECK_STR(shard_key("d/.hidden"), "d/_hidden");
    CHECK_STR(shard_key("x\x7fy.jpg"), "x_y");
    shard_key("a\nb/c.jpg"); /* control characters nowhere */
    CHECK(strchr(key, '\n') == NULL && changed);
}

static void test_not_hidden(void)
{
    shard_key("__x.jpg"); /* WebDataset skips names that begin so */
    CHECK(strncmp(key, "__", 2) != 0 && strstr(key, "x") != NULL && changed);
    shard_key("__meta__/x.jpg");
    CHECK(strncmp(key, "__", 2) != 0 && changed);
    shard_key("..x.jpg"); /* would become "__x" */
    CHECK(strncmp(key, "__", 2) != 0 && changed);
    CHECK(strcmp(shard_key("__x.jpg"), "__x") != 0);
}

/* A name of dots only still names something: not nothing, which WebDataset would skip. */
static void test_only_dots(void)
{
    shard_key("..jpg");
    CHECK(key_n > 0);
    shard_key("d/..jpg");
    CHECK(key_n > 2 && strncmp(key, "d/", 2) == 0);
    shard_key("...jpg");
    CHECK(key_n > 0);
    CHECK_STR(tree_key("..jpg"), "."); /* with its extension again a name: "..jpg" */
}

static void test_places_inside_out(void)
{
    CHECK_STR(shard_key("/data/set/a.jpg"), "data/set/a");
    CHECK_STR(tree_key("/data/set/a.jpg"), "data/set/a");
    CHECK_STR(tree_key("../../etc/a.jpg"), "etc/a");
    CHECK_STR(tree_key("a/../b/./c//d.jpg"), "a/b/c/d");
    CHECK(changed);
}

static void test_tree_keys_keep_bytes(void)
{
    static const char *const same[] = {"Track 2.0 (Clean).jpg", "a\nb.jpg", "__x.jpg",
                                       "d/.hidden.txt", "latin\xe9.jpg"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        const char *k = tree_key(same[i]);
        CHECK_INT(key_n, strrchr(same[i], '.') - same[i]);
        CHECK(strncmp(k, same[i], key_n) == 0 && !changed);
    }
    char path[300];
    memset(path, 'n', sizeof path);
    memcpy(path + 250, "/x.jpg", 6);
    CHECK_INT(strlen(text_of(path, 256, true, false, false)), 252);
}

/* A name that no file can have is cut where its hash goes. */
static void test_long_tree_names(void)
{
    char path[400], first[KEYS_TEXT_MAX];
    memset(path, 'n', sizeof path);
    path[1] = '/';
    memcpy(path + 310, "1.jpg", 5);
    strcpy(first, text_of(path, 315, true, false, true));
    CHECK_INT(key_n, 2 + 255 - 4); /* "key.jpg" uses the name to the full */
    CHECK(memcmp(first, path, 2 + 255 - 4 - 17) == 0);
    path[310] = '2';
    CHECK(strcmp(text_of(path, 315, true, false, true), first) != 0);
}

static bool holds(const char *path, size_t n)
{
    struct listing l;
    listing_init(&l);
    add_source(&l, "", false);
    bool yes = keys_tree_holds(add(&l, 0, path, n));
    listing_fini(&l);
    return yes;
}

static void test_what_a_tree_holds(void)
{
    static const char *const no[] = {"slimset.index", "./slimset.index", "/slimset.index", ".slimset",
                                     ".slimset/a.jpg"};
    static const char *const yes[] = {"a/slimset.index", "slimset.indexes", "slimset.inde", "a/.slimset/b",
                                      ".slimset.jpg", ".slimsets/a", ".slimse"};
    char path[5000];
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        CHECK(!holds(no[i], strlen(no[i])));
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        CHECK(holds(yes[i], strlen(yes[i])));
    memset(path, 'n', sizeof path);
    CHECK(holds(path, 300)); /* a file's name is cut */
    path[255] = '/';
    CHECK(holds(path, 300));
    path[255] = 'n';
    path[256] = '/';
    CHECK(!holds(path, 300)); /* a folder's is not */
    for (size_t i = 100; i < sizeof path; i += 100)
        path[i] = '/';
    path[256] = 'n';
    CHECK(holds(path, 3850) && !holds(path, 4050));
    for (size_t i = 0; i < sizeof path; i++)
        path[i] = i % 2 == 0 ? 'q' : '/';
    CHECK(holds(path, 301) && !holds(path, 303));
}

static void test_exact_keys(void)
{
    CHECK_STR(text_of("a b.c.jpg", 9, false, true, false), "a b");
    CHECK(!changed);
    CHECK_STR(text_of("__x.jpg", 7, false, true, false), "__x");
    CHECK(!changed);
}

static void test_suffix(void)
{
    char first[KEYS_TEXT_MAX], want[64];
    text_of("a.b.jpg", 7, false, false, true);
    snprintf(want, sizeof want, "a_b-%016llx", (unsigned long long)hash_bytes("a.b", 3));
    CHECK_STR(key, want);
    CHECK(changed);
    strcpy(first, key);
    text_of("a b.jpg", 7, false, false, true);
    CHECK(strcmp(key, first) != 0);
    text_of("a.b.png", 7, false, false, true); /* of the path's key: the extension does not count */
    CHECK_STR(key, first);
}

/* Does "key.field" fit a ustar header: 100 bytes, or up to 155 before a slash and up to 100
 * behind? */
static bool ustar_holds(const char *k, size_t n, size_t field)
{
    size_t all = n + 1 + field;
    if (all <= 100)
        return true;
    for (size_t i = 1; i < n && i <= 155; i++)
        if (k[i] == '/' && all - i - 1 <= 100)
            return true;
    return false;
}

static void test_long_names(void)
{
    char path[400], other[KEYS_TEXT_MAX];
    memset(path, 'n', sizeof path);
    memcpy(path + 300, "1.jpg", 5);
    text_of(path, 305, false, false, false); /* 300 bytes in one component */
    CHECK(ustar_holds(key, key_n, 3) && changed);
    CHECK(strncmp(key, path, 40) == 0); /* still begins like itself */
    strcpy(other, key);
    path[300] = '2';
    text_of(path, 305, false, false, false); /* differs far behind the cut */
    CHECK(strcmp(other, key) != 0);
    memset(path, 'n', sizeof path);
    for (size_t i = 50; i < 300; i += 50)
        path[i] = '/';
    memcpy(path + 300, ".jpg", 4);
    text_of(path, 304, false, false, false); /* 300 bytes in six components */
    CHECK(ustar_holds(key, key_n, 3) && changed);
    /* what fits by the prefix stays: 155 + 1 + 96.jpg */
    memset(path, 'd', sizeof path);
    path[100] = '/';
    path[154] = '/';
    memset(path + 155, 'n', 96);
    memcpy(path + 251, ".jpg", 4);
    text_of(path, 255, false, false, false);
    CHECK_INT(key_n, 251);
    CHECK(!changed && ustar_holds(key, key_n, 3));
    /* 96 + ".jpg" is the longest name without a folder */
    memset(path, 'n', 97);
    memcpy(path + 96, ".jpg", 4);
    text_of(path, 100, false, false, false);
    CHECK_INT(key_n, 96);
    CHECK(!changed);
    memcpy(path + 96, "n.jpg", 5);
    text_of(path, 101, false, false, false);
    CHECK(changed && ustar_holds(key, key_n, 3));
}

static void test_hostile_lengths(void)
{
    static char path[70000];
    memset(path, 'p', sizeof path);
    memcpy(path + sizeof path - 4, ".jpg", 4);
    for (size_t n = 4000; n <= sizeof path; n += 997) {
        text_of(path + sizeof path - n, n, false, false, true);
        CHECK(ustar_holds(key, key_n, 3));
        text_of(path + sizeof path - n, n, true, false, true);
    }
    for (size_t i = 30; i < sizeof path - 40; i += 31)
        path[i] = '/';
    for (size_t n = 4000; n <= sizeof path; n += 997) {
        text_of(path + sizeof path - n, n, false, false, false);
        CHECK(ustar_holds(key, key_n, 3));
        text_of(path + sizeof path - n, n, true, false, false);
    }
}

/* Random names: whatever comes, the key can be written, read by WebDataset, and differs where it
 * was changed. */
static void test_random_names(void)
{
    uint32_t seed = 1;
    static const char bytes[] = "ab/._ \n\x7f\xe9"
                                "0123456789-nnnnnnnnnn";
    for (int round = 0; round < 20000; round++) {
        char path[420];
        seed = seed * 1664525 + 1013904223;
        size_t n = 1 + (seed >> 8) % (round % 4 == 0 ? 400 : 40);
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            path[i] = bytes[(seed >> 16) % (sizeof bytes - 1)];
            if (path[i] == '/' && (i == 0 || path[i - 1] == '/'))
                path[i] = 'c'; /* as listings have it: components, none empty */
        }
        path[n++] = 'x';
        memcpy(path + n, ".jpg", 4);
        text_of(path, n + 4, false, false, round % 3 == 0);
        const char *slash = strrchr(key, '/');
        const char *base = slash != NULL ? slash + 1 : key;
        bool good = base[0] != '\0' && strpbrk(base, ". ") == NULL &&
                    strpbrk(key, "\n\x7f") == NULL && ustar_holds(key, key_n, 3) &&
                    strncmp(key, "__", 2) != 0;
        if (!good)
            printf("  round %d: \"%.*s\" becomes \"%s\"\n", round, (int)n, path, key);
        CHECK(good);
        bool same = key_n == n && memcmp(key, path, n) == 0;
        CHECK_INT(changed, !same);
    }
}

int main(void)
{
    RUN(test_same_stem);
    RUN(test_longer_stem_joins_shorter);
    RUN(test_names_without_extension);
    RUN(test_numbers_are_no_extensions);
    RUN(test_problems_come_last);
    RUN(test_long_tree_names);
    RUN(test_what_a_tree_holds);
    RUN(test_order);
    RUN(test_many_stems);
    RUN(test_webdataset_keys);
    RUN(test_plain_keys_stay);
    RUN(test_dots_and_blanks);
    RUN(test_not_hidden);
    RUN(test_only_dots);
    RUN(test_places_inside_out);
    RUN(test_tree_keys_keep_bytes);
    RUN(test_exact_keys);
    RUN(test_suffix);
    RUN(test_long_names);
    RUN(test_hostile_lengths);
    RUN(test_random_names);
    return check_done();
}
