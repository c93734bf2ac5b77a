/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h: samples, rules, splits, classes and shards of listings made by hand; what stays when the
 * listing changes. An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "plan.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/io.h"
#include "check.h"
#include "keys.h"
#include "roles.h"

static int dir = -1;
static struct slimset_error err;
static struct slimset_recipe recipe;
static struct slimset_run run;
static struct plan plan;
static char said[4096]; /* notes and warnings */
static unsigned warnings;

static void on_event(void *arg, const struct slimset_event *e)
{
    (void)arg;
    size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%s\n", e->text);
    warnings += e->kind == SLIMSET_EVENT_WARNING;
}

static void fresh_recipe(void)
{
    slimset_recipe_init(&recipe);
    slimset_run_init(&run);
    run.event = on_event;
    said[0] = '\0';
    warnings = 0;
}

static void begin(void)
{
    plan_fini(&plan);
    plan_init(&plan, &recipe);
}

static void source(const char *path, const char *prefix, bool webdataset)
{
    struct listing *l = &plan.listing;
    l->sources = realloc(l->sources, (l->n_sources + 1) * sizeof *l->sources);
    l->sources[l->n_sources++] =
        (struct source){.kind = webdataset ? SOURCE_ARCHIVE : SOURCE_FOLDER,
                        .fd = -1,
                        .spool_fd = -1,
                        .path = strdup(path),
                        .prefix = strdup(prefix),
                        .webdataset = webdataset};
}

static void file(const char *path, size_t n, uint64_t bytes)
{
    struct listing *l = &plan.listing;
    struct entry e = {.source = (uint16_t)(l->n_sources - 1), .bytes = bytes};
    const char *prefix = l->sources[e.source].prefix;
    e.path = listing_string(l, prefix, path, n);
    e.path_bytes = (uint32_t)(strlen(prefix) + n);
    CHECK_INT(listing_add(l, &e, &err), SLIMSET_OK);
}

/* Paths one a line, of 1000 bytes each. */
static void files(const char *paths)
{
    while (*paths != '\0') {
        size_t n = strcspn(paths, "\n");
        file(paths, n, 1000);
        paths += n + (paths[n] == '\n');
    }
}

__attribute__((format(printf, 1, 0))) static void many(const char *format, unsigned first,
                                                       unsigned end, uint64_t bytes)
{
    char name[200];
    for (unsigned i = first; i < end; i++) {
        snprintf(name, sizeof name, format, i, i % 7);
        file(name, strlen(name), bytes);
    }
}

static void finish(void)
{
    CHECK_INT(plan_samples(&plan, &run, &err), SLIMSET_OK);
    for (size_t i = 0; i < plan.n_rules; i++)
        plan.rules[i].settled = true; /* as the probe leaves them */
    CHECK_INT(plan_shards(&plan, &run, &err), SLIMSET_OK);
}

static void make(const char *paths)
{
    begin();
    source("src", "", false);
    files(paths);
    finish();
}

/* --- what a plan says, as text ---------------------------------------------------------------- */

static const char *key_of(size_t sample)
{
    static char key[KEYS_TEXT_MAX];
    plan_key(&plan, &plan.samples[sample], key);
    return key;
}

/* "split: key key; split: key" with keys in byte order. */
static const char *splits(void)
{
    static char text[8192];
    text[0] = '\0';
    for (size_t s = 0; s < plan.n_splits; s++) {
        const struct plan_split *sp = &plan.splits[s];
        const char *last = "";
        sprintf(text + strlen(text), "%s%s:", s > 0 ? "; " : "", sp->name);
        for (size_t n = 0; n < sp->n_samples; n++) {
            static char best[KEYS_TEXT_MAX], before[KEYS_TEXT_MAX];
            bool found = false;
            strcpy(before, last);
            for (size_t i = 0; i < sp->n_samples; i++) {
                const char *k = key_of(sp->first_sample + i);
                if ((n == 0 || strcmp(k, before) > 0) && (!found || strcmp(k, best) < 0)) {
                    strcpy(best, k);
                    found = true;
                }
            }
            last = best;
            sprintf(text + strlen(text), " %s", best);
        }
    }
    return text;
}

/* "field role" of each rule, sorted as they are. */
static const char *rules(void)
{
    static const char *const roles[] = {"copy", "image", "mask", "depth", "array"};
    static char text[2000];
    text[0] = '\0';
    for (size_t i = 0; i < plan.n_rules; i++)
        sprintf(text + strlen(text), "%s%s %s %llu", i > 0 ? ", " : "", plan.rules[i].name,
                roles[plan.rules[i].role], (unsigned long long)plan.rules[i].n_files);
    return text;
}

static const char *left_out(void)
{
    static char text[2000];
    text[0] = '\0';
    for (size_t i = 0; i < plan.listing.n_left_out; i++)
        sprintf(text + strlen(text), "%s%s", i > 0 ? " " : "", plan.listing.left_out[i].path);
    return text;
}

/* Keys of every shard with its name, in order; one line a shard. To be freed. */
static char *dump(void)
{
    size_t cap = 1 << 22, at = 0;
    char *text = malloc(cap);
    text[0] = '\0';
    for (size_t i = 0; i < plan.n_shards; i++) {
        const struct plan_shard *s = &plan.shards[i];
        at +=
            (size_t)snprintf(text + at, cap - at, "%s/%u:", plan.splits[s->split].name, s->number);
        for (size_t k = 0; k < s->n_samples; k++)
            at += (size_t)snprintf(text + at, cap - at, " %s=%d", key_of(s->first_sample + k),
                                   plan.samples[s->first_sample + k].cls);
        at += (size_t)snprintf(text + at, cap - at, "\n");
    }
    return text;
}

/* Shards that differ between two dumps of plans with the same shards. */
static unsigned differing(const char *a, const char *b)
{
    unsigned n = 0;
    while (*a != '\0' && *b != '\0') {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        n += na != nb || memcmp(a, b, na) != 0;
        a += na + 1;
        b += nb + 1;
    }
    CHECK(*a == '\0' && *b == '\0');
    return n;
}

/* Every sample in exactly one shard, shards numbered and in order, splits covering all. */
static void check_cover(bool none_empty)
{
    size_t sample = 0, shard = 0;
    for (size_t s = 0; s < plan.n_splits; s++) {
        const struct plan_split *sp = &plan.splits[s];
        CHECK(s == 0 || strcmp(plan.splits[s - 1].name, sp->name) < 0);
        CHECK(sp->first_sample == sample && sp->first_shard == shard);
        for (uint32_t k = 0; k < sp->n_shards; k++, shard++) {
            const struct plan_shard *to = &plan.shards[shard];
            CHECK(to->split == s && to->number == k && to->first_sample == sample);
            CHECK(!none_empty || to->n_samples > 0);
            for (size_t i = 0; i < to->n_samples; i++, sample++)
                CHECK_INT(plan.samples[sample].split, s);
        }
        CHECK_INT(sample, sp->first_sample + sp->n_samples);
    }
    CHECK(sample == plan.n_samples && shard == plan.n_shards);
}

/* --- frozen decisions ------------------------------------------------------------------------- */

/* Writes the plan's decisions as a run does, begins a new plan and freezes them into it. */
static void refreeze(void)
{
    struct index_counts counts = {.splits = plan.n_splits,
                                  .classes = plan.n_classes,
                                  .fields_rules = plan.n_rules,
                                  .shards = plan.n_shards};
    struct index_writer *w = NULL;
    struct index ix;
    CHECK_INT(index_create(dir, "plan", SLIMSET_KIND_PLAN, &counts, &w, &err), SLIMSET_OK);
    CHECK_INT(plan_put_decisions(&plan, w, &err), SLIMSET_OK);
    for (size_t i = 0; i < plan.n_splits; i++) {
        const struct plan_split *s = &plan.splits[i];
        struct slimset_split to = {.order = s->order,
                                   .first_shard = (uint32_t)s->first_shard,
                                   .n_shards = (uint32_t)s->n_shards};
        CHECK_INT(index_string(w, s->name, strlen(s->name), &to.name, &err), SLIMSET_OK);
        CHECK_INT(index_put_split(w, &to, &err), SLIMSET_OK);
    }
    for (size_t i = 0; i < plan.n_shards; i++) {
        struct slimset_shard to = {0};
        CHECK_INT(plan_put_shard(&plan, i, &to, w, &err), SLIMSET_OK);
    }
    CHECK_INT(index_commit(w, false, &err), SLIMSET_OK);
    CHECK_INT(index_open(dir, "plan", SLIMSET_KIND_PLAN, true, &ix, &err), SLIMSET_OK);
    begin();
    said[0] = '\0';
    warnings = 0;
    CHECK_INT(plan_freeze(&plan, &ix, &err), SLIMSET_OK);
    index_close(&ix);
    CHECK(plan.frozen);
}

/* --- samples and rules ------------------------------------------------------------------------ */

static void test_samples(void)
{
    fresh_recipe();
    make("dir/1.jpg\ndir/1.txt\ndir/2.jpg\ndir/2.seg.png\nREADME.md\ndir/notes.txt\ndir/3.npy");
    CHECK_STR(splits(), "data: dir/1 dir/2 dir/3");
    CHECK_STR(left_out(), "README.md dir/notes.txt");
    CHECK_INT(plan.listing.left_out[0].kind, 2);
    CHECK_STR(rules(), "md copy 1, jpg image 2, txt copy 2, seg.png mask 1, npy array 1");
    for (size_t i = 0; i < plan.n_samples; i++)
        CHECK_INT(plan.samples[i].n, strcmp(key_of(i), "dir/3") == 0 ? 1 : 2);
    check_cover(true);
    recipe.layout = SLIMSET_LAYOUT_TREE; /* a tree takes all */
    make("dir/1.jpg\nREADME.md\ndir/notes.txt");
    CHECK_STR(splits(), "data: README dir/1 dir/notes");
    CHECK_STR(left_out(), "");
}

/* An extension that says nothing waits for the probe; when that finds no picture, the file is
 * left out. */
static void test_unknown_extensions(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    files("a.xyz\nb.jpg\nb.dat");
    CHECK_INT(plan_samples(&plan, &run, &err), SLIMSET_OK);
    CHECK_INT(plan.n_samples, 2);
    for (size_t i = 0; i < plan.n_rules; i++)
        plan.rules[i].settled = true;
    CHECK_INT(plan_shards(&plan, &run, &err), SLIMSET_OK);
    CHECK_STR(splits(), "data: b");
    CHECK_STR(left_out(), "a.xyz");
}

static void test_rules_by_field(void)
{
    fresh_recipe();
    make("a.JPG\nb.jpg\nc.Jpg\nd.jpeg");
    CHECK_STR(rules(), "jpg image 3, jpeg image 1"); /* in lower case, one of each spelling */
    make("images/a.png\nmasks/a.png\ndepth/a.png\nb.png\nb.mask.png\nmasks/a.txt\nc.jpg\nc.txt");
    CHECK_STR(rules(),
              "mask.png mask 1, png image 2, jpg image 1, txt copy 2, png depth 1, png mask 1");
    recipe.detect = false; /* names say nothing then */
    make("images/a.png\nmasks/a.png\nb.png\nb.mask.png");
    CHECK_STR(rules(), "mask.png image 1, png image 3");
}

static void test_rules_of_the_user(void)
{
    struct slimset_rule r[] = {{"*.png", SLIMSET_ROLE_MASK, 0},
                               {"raw/*", SLIMSET_ROLE_IMAGE, 0},
                               {"*.jpg", -1, 0},
                               {"keep.jpg", SLIMSET_ROLE_IMAGE, 0},
                               {"*.txt", SLIMSET_ROLE_COPY, 0}};
    fresh_recipe();
    recipe.rules = r;
    recipe.n_rules = 5;
    make("a.png\nraw/b.png\nc.jpg\nx/keep.jpg\nd.txt\nd.tif");
    /* the last rule that matches decides; a glob with "/" looks at the path, else at the base
     * name */
    CHECK_STR(rules(), "png mask 1, tif image 1, txt copy 1, png image 1, jpg image 1");
    CHECK_STR(left_out(), "c.jpg");
    CHECK_INT(plan.listing.left_out[0].kind, 3);
    CHECK(plan.rules[0].by_user && !plan.rules[1].by_user && plan.rules[2].by_user);
    CHECK_STR(splits(), "data: a d raw/b x/keep");
}

static void test_unreadable_entries(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    files("a.jpg\na.txt\nb.jpg");
    plan.listing.entries[0].problem = SLIMSET_REJECT_UNREADABLE;
    finish();
    CHECK_STR(splits(), "data: b"); /* the text alone belongs to no image */
    CHECK_INT(plan.listing.entries[1].problem, SLIMSET_REJECT_UNREADABLE); /* behind a.txt */
    begin();
    source("src", "", false);
    files("a.jpg\na.json\na.png\nb.jpg");
    plan.listing.entries[1].problem = SLIMSET_REJECT_LINK;
    finish();
    CHECK_STR(splits(), "data: a b"); /* one sample of two files, not two samples */
    CHECK_INT(plan.n_samples, 2);
    for (size_t i = 0; i < plan.n_samples; i++)
        CHECK_INT(plan.samples[i].n, strcmp(key_of(i), "a") == 0 ? 2 : 1);
}

/* A series whose files end in numbers: many samples. */
static void test_numbered_files(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    many("IM.%u", 0, 1000, 10);
    finish();
    CHECK_INT(plan.n_rules, 1);
    CHECK_INT(plan.n_samples + plan.listing.n_left_out, 1000);
}

/* More files than a sample can hold: each is a reject by name, and the run goes on. */
static void test_too_many_files_of_one_key(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    files("b.jpg\na.jpg");
    many("a.f%03u.png", 0, ITEM_INPUTS_MAX, 10);
    finish();
    CHECK_STR(splits(), "data: b");
    unsigned rejected = 0;
    for (size_t i = 0; i < plan.listing.n_entries; i++)
        rejected += plan.listing.entries[i].problem == SLIMSET_REJECT_DUPLICATE;
    CHECK_INT(rejected, ITEM_INPUTS_MAX + 1);
    begin();
    source("src", "", false);
    files("b.jpg\na.jpg");
    many("a.f%03u.png", 1, ITEM_INPUTS_MAX, 10);
    finish();
    CHECK_STR(splits(), "data: a b");
}

/* --- splits ----------------------------------------------------------------------------------- */

static void test_splits(void)
{
    fresh_recipe();
    make("train/1.jpg\nval/2.jpg\ntest/3.jpg\n4.jpg");
    CHECK_STR(splits(), "data: 4; test: test/3; train: train/1; val: val/2");
    make("images/train/1.jpg\nimages/val/2.jpg\nlabels/val/2.txt\nJPEGImages/test/3.jpg");
    CHECK_STR(splits(), "test: JPEGImages/test/3; train: images/train/1; val: images/val/2");
    make("Train/1.jpg\ntrain/2.jpg\nVALID/3.jpg\ndev/4.jpg\nvalidation/5.jpg");
    CHECK_STR(splits(),
              "dev: dev/4; train: Train/1 train/2; valid: VALID/3; validation: validation/5");
    make("cat/train/1.jpg\ntraining/2.jpg\ntrain.jpg"); /* neither top folders nor below images */
    CHECK_STR(splits(), "data: cat/train/1 train training/2");
}

static void test_split_order(void)
{
    fresh_recipe();
    make("train/1.jpg\nval/2.jpg\n3.jpg\ntest/4.jpg");
    for (size_t i = 0; i < plan.n_splits; i++) {
        bool shuffled =
            strcmp(plan.splits[i].name, "train") == 0 || strcmp(plan.splits[i].name, "data") == 0;
        CHECK_INT(plan.splits[i].order, shuffled ? SLIMSET_ORDER_SHUFFLED : SLIMSET_ORDER_SOURCE);
    }
    recipe.order = SLIMSET_ORDER_SHUFFLED;
    make("train/1.jpg\nval/2.jpg");
    CHECK(plan.splits[0].order == SLIMSET_ORDER_SHUFFLED &&
          plan.splits[1].order == SLIMSET_ORDER_SHUFFLED);
    recipe.layout = SLIMSET_LAYOUT_TREE; /* the order of the source */
    make("train/1.jpg\nval/2.jpg");
    CHECK(plan.splits[0].order == SLIMSET_ORDER_SOURCE &&
          plan.splits[1].order == SLIMSET_ORDER_SOURCE);
}

/* A WebDataset shard has its split in its name; its folders are parts of keys. */
static void test_split_of_webdataset(void)
{
    fresh_recipe();
    begin();
    source("/data/train-00000.tar", "train-00000/", true);
    files("0.jpg\n0.cls\nval/1.jpg\nval/1.cls");
    source("/data/val_00000.tar", "val_00000/", true);
    files("0.jpg\n0.cls");
    source("/data/cats-00000.tar", "cats-00000/", true);
    files("0.jpg\n0.cls");
    finish();
    CHECK_STR(splits(),
              "data: cats-00000/0; train: train-00000/0 train-00000/val/1; val: val_00000/0");
}

/* Several sources: the name in front of their keys hides neither splits nor classes. */
static void test_splits_of_several_sources(void)
{
    fresh_recipe();
    begin();
    source("A", "A/", false);
    files("train/1.jpg\nval/2.jpg");
    source("B", "B/", false);
    files("train/3.jpg\nimages/val/4.jpg");
    finish();
    CHECK_STR(splits(), "train: A/train/1 B/train/3; val: A/val/2 B/images/val/4");
    begin();
    source("data/train", "train/", false); /* folders given one by one */
    files("1.jpg");
    source("data/val", "val/", false);
    files("2.jpg");
    finish();
    CHECK_STR(splits(), "train: train/1; val: val/2");
}

/* --- classes ---------------------------------------------------------------------------------- */

static const char *classes(void)
{
    static char text[1000];
    text[0] = '\0';
    for (size_t i = 0; i < plan.n_classes; i++)
        sprintf(text + strlen(text), "%s%s", i > 0 ? " " : "", plan.classes[i]);
    return text;
}

static int class_of(const char *key)
{
    for (size_t i = 0; i < plan.n_samples; i++)
        if (strcmp(key_of(i), key) == 0)
            return plan.samples[i].cls;
    return -99;
}

static void test_classes(void)
{
    fresh_recipe();
    make("dog/1.jpg\ncat/2.jpg\nZebra/3.jpg\ncat/4.jpg\ncat/4.txt");
    CHECK_STR(classes(), "Zebra cat dog"); /* byte order, as torchvision */
    CHECK(class_of("Zebra/3") == 0 && class_of("cat/2") == 1 && class_of("cat/4") == 1 &&
          class_of("dog/1") == 2);
    /* the same numbers in every split */
    make("train/dog/1.jpg\ntrain/cat/2.jpg\nval/dog/3.jpg\nval/cat/4.jpg");
    CHECK_STR(classes(), "cat dog");
    CHECK(class_of("train/dog/1") == 1 && class_of("val/dog/3") == 1 && class_of("val/cat/4") == 0);
    CHECK_INT(warnings, 0);
}

static void test_no_classes(void)
{
    static const char *const none[] = {
        "1.jpg\n2.jpg",                /* no folders */
        "cat/1.jpg\ncat/2.jpg",        /* one class */
        "cat/1.jpg\ndog/2.jpg\n3.jpg", /* an image outside */
        "cat/1.jpg\ndog/deep/2.jpg",   /* not right inside */
        "images/1.jpg\ncat/2.jpg",     /* images is no class */
        "images/1.jpg\nmasks/1.png",
        "train/1.jpg\nval/2.jpg",
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        fresh_recipe();
        make(none[i]);
        CHECK_STR(classes(), "");
        for (size_t k = 0; k < plan.n_samples; k++)
            CHECK_INT(plan.samples[k].cls, -1);
    }
    fresh_recipe();
    recipe.classes = SLIMSET_CLASSES_NONE;
    make("cat/1.jpg\ndog/2.jpg");
    CHECK_STR(classes(), "");
    fresh_recipe();
    begin();
    source("cats.tar", "", true); /* WebDataset brings its own labels */
    files("cat/1.jpg\ncat/1.cls\ndog/2.jpg\ndog/2.cls");
    finish();
    CHECK_STR(classes(), "");
}

static void test_classes_by_option(void)
{
    fresh_recipe();
    recipe.classes = SLIMSET_CLASSES_FOLDER;
    make("cat/1.jpg\ndog/deep/2.jpg\nimages/3.jpg\n4.jpg");
    CHECK_STR(classes(), "cat dog images");
    CHECK(class_of("dog/deep/2") == 1 && class_of("4") == -1);
}

static void test_numeric_classes(void)
{
    fresh_recipe();
    make("2/a.jpg\n10/b.jpg\n1/c.jpg");
    CHECK_STR(classes(), "1 10 2");
    CHECK_INT(warnings, 1);
    CHECK(strstr(said, "--class-order numeric") != NULL);
    fresh_recipe();
    recipe.class_order_numeric = true;
    make("2/a.jpg\n10/b.jpg\n1/c.jpg\n007/d.jpg");
    CHECK_STR(classes(), "1 2 007 10");
    CHECK_INT(warnings, 0);
    fresh_recipe();
    make("0/a.jpg\n1/b.jpg\n9/c.jpg"); /* both orders agree: nothing to warn of */
    CHECK_INT(warnings, 0);
}

static void test_frozen_classes(void)
{
    fresh_recipe();
    make("dog/1.jpg\nzebra/2.jpg");
    refreeze();
    source("src", "", false);
    files("ape/3.jpg\nzebra/2.jpg\nbee/4.jpg");
    finish();
    /* the old keep their numbers, also without files; the new come behind, sorted */
    CHECK_STR(classes(), "dog zebra ape bee");
    CHECK(class_of("zebra/2") == 1 && class_of("ape/3") == 2 && class_of("bee/4") == 3);
    CHECK(strstr(said, "\"ape\" gets number 2") != NULL &&
          strstr(said, "\"bee\" gets number 3") != NULL);
    refreeze();
    source("src", "", false);
    files("ape/3.jpg\ndog/9.jpg\nloose.jpg");
    finish();
    CHECK_STR(classes(), "dog zebra ape bee");
    CHECK(class_of("dog/9") == 0 && class_of("loose") == -1);
    CHECK_STR(said, "");
}

/* A set without classes does not suddenly get some. */
static void test_frozen_without_classes(void)
{
    fresh_recipe();
    make("cat/1.jpg\ndog/2.jpg\n3.jpg");
    CHECK_STR(classes(), "");
    refreeze();
    source("src", "", false);
    files("cat/1.jpg\ndog/2.jpg");
    finish();
    CHECK_STR(classes(), "");
}

/* --- shards ----------------------------------------------------------------------------------- */

static void make_many(unsigned n, uint64_t bytes)
{
    begin();
    source("src", "", false);
    many("f/%05u.jpg", 0, n, bytes);
    finish();
}

static void test_shard_counts(void)
{
    static const struct {
        unsigned samples, shards, want;
    } cases[] = {{1, 0, 1},   {5, 0, 5},          {31, 0, 31},       {32, 0, 32},
                 {33, 0, 32}, {1000, 0, 32},      {1000, 7, 7},      {1000, 1, 1},
                 {5, 7, 5},   {1000, 1000, 1000}, {1000, 5000, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh_recipe();
        recipe.shards = cases[i].shards;
        make_many(cases[i].samples, 5000);
        CHECK_INT(plan.n_shards, cases[i].want);
        check_cover(true);
    }
    fresh_recipe();
    make("");
    CHECK(plan.n_shards == 0 && plan.n_splits == 0 && plan.n_samples == 0);
}

/* At most 0.85 of the cap a shard, by the estimate: bytes times the rule's ratio, and 1024 a
 * field. */
static void test_shards_by_size(void)
{
    fresh_recipe();
    recipe.shard_bytes = 1000000;
    make_many(2000, 39000 - 1024); /* 78 MB: 39,000 each */
    uint64_t want = (2000ull * 39000 + 849999) / 850000;
    CHECK_INT(plan.n_shards, want);
    check_cover(true);
    for (size_t i = 0; i < plan.n_shards;
         i++) /* about equal: no shard is half a sample over its part */
        CHECK(plan.shards[i].n_samples * 39000 <= 850000 + 39000);
    begin();
    source("src", "", false);
    many("f/%05u.jpg", 0, 2000, 39000 - 1024);
    CHECK_INT(plan_samples(&plan, &run, &err), SLIMSET_OK);
    plan.rules[0].settled = true;
    plan.rules[0].ratio = 2;
    CHECK_INT(plan_shards(&plan, &run, &err), SLIMSET_OK);
    want = (2000ull * (2 * (39000 - 1024) + 1024) + 849999) / 850000;
    CHECK_INT(plan.n_shards, want);
}

/* A few huge samples among many small ones: no shard without a sample. */
static void test_uneven_sizes(void)
{
    fresh_recipe();
    for (unsigned seed = 0; seed < 20; seed++) {
        begin();
        source("src", "", false);
        recipe.seed = seed;
        many("f/%05u.jpg", 0, 100, 10);
        for (unsigned i = 0; i < seed % 5 + 1; i++)
            plan.listing.entries[(i * 37 + seed) % 100].bytes = 300000000;
        finish();
        check_cover(true);
        CHECK(plan.n_shards >= 32);
    }
}

static void test_every_split_has_its_shards(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    many("train/%05u.jpg", 0, 200, 1000);
    many("val/%05u.jpg", 0, 50, 1000);
    many("test/%05u.jpg", 0, 3, 1000);
    finish();
    check_cover(true);
    CHECK(strcmp(plan.splits[0].name, "test") == 0 && plan.splits[0].n_shards == 3);
    CHECK(plan.splits[1].n_shards == 32 && plan.splits[2].n_shards == 32);
    recipe.shards = 4;
    begin();
    source("src", "", false);
    many("train/%05u.jpg", 0, 200, 1000);
    many("val/%05u.jpg", 0, 50, 1000);
    finish();
    CHECK(plan.splits[0].n_shards == 4 && plan.splits[1].n_shards == 4);
}

static void test_order_within_splits(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    many("train/%05u.jpg", 0, 300, 1000);
    many("val/%05u.jpg", 0, 300, 1000);
    finish();
    bool sorted = true;
    for (size_t i = 1; i < plan.splits[0].n_samples; i++) {
        sorted = sorted && plan.samples[i].first > plan.samples[i - 1].first;
        CHECK(plan.samples[i].place > plan.samples[i - 1].place);
    }
    CHECK(!sorted); /* train is shuffled by the hash of its paths... */
    static char before[KEYS_TEXT_MAX];
    for (size_t i = plan.splits[1].first_sample; i < plan.n_samples;
         i++) { /* ... val as it stands in the source */
        CHECK(i == plan.splits[1].first_sample || strcmp(before, key_of(i)) < 0);
        snprintf(before, sizeof before, "%s", key_of(i));
    }
    char *first = dump();
    recipe.seed = 1;
    begin();
    source("src", "", false);
    many("train/%05u.jpg", 0, 300, 1000);
    many("val/%05u.jpg", 0, 300, 1000);
    finish();
    char *second = dump();
    CHECK(strcmp(first, second) != 0); /* another seed, another order */
    CHECK(strcmp(strstr(first, "val/0:"), strstr(second, "val/0:")) == 0);
    free(first);
    free(second);
}

/* The order in which a walk finds the files decides nothing. */
static void test_pure(void)
{
    char *first = NULL;
    for (int round = 0; round < 3; round++) {
        fresh_recipe();
        begin();
        source("src", "", false);
        many("train/c%2$u/%1$05u.jpg", 0, 150, 1000);
        many("val/c%2$u/%1$05u.jpg", 0, 150, 1500);
        many("train/c%2$u/%1$05u.txt", 0, 150, 10);
        files("train/c1/x.1.jpg\ntrain/c1/x_1.jpg\ntrain/c1/x 1.jpg\nnotes.txt");
        struct listing *l = &plan.listing;
        for (size_t i = 0; round > 0 && i < l->n_entries; i++) {
            size_t k = (i * 7919 + (size_t)round * 31) % l->n_entries;
            struct entry t = l->entries[i];
            l->entries[i] = l->entries[k];
            l->entries[k] = t;
        }
        finish();
        char *text = dump();
        if (first == NULL) {
            first = text;
            continue;
        }
        CHECK(strcmp(first, text) == 0);
        free(text);
    }
    free(first);
}

/* --- stability -------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 0))) static void many_but(const char *format, unsigned n,
                                                           unsigned without)
{
    many(format, 0, without, 1000);
    many(format, without + 1, n, 1000);
}

/* One file more or less changes one shard and no other, in shuffled and in source order. */
static void test_one_file_one_shard(void)
{
    static const char *const splits_of[] = {"train/%05u.jpg", "val/%05u.jpg"};
    for (int k = 0; k < 2; k++) {
        fresh_recipe();
        begin();
        source("src", "", false);
        many(splits_of[k], 0, 400, 1000);
        finish();
        char *full = dump();
        size_t shards = plan.n_shards;
        for (unsigned without = 0; without < 400; without += without < 5 ? 1 : 43) {
            refreeze();
            source("src", "", false);
            many_but(splits_of[k], 400, without);
            finish();
            check_cover(false);
            CHECK_INT(plan.n_shards, shards);
            char *less = dump();
            CHECK_INT(differing(full, less), 1);
            free(less);
            refreeze(); /* and back */
            source("src", "", false);
            many(splits_of[k], 0, 400, 1000);
            finish();
            char *again = dump();
            CHECK_INT(differing(full, again), 0);
            free(again);
        }
        for (unsigned i = 0; i < 20; i++) { /* new ones, before, between and behind the others */
            refreeze();
            source("src", "", false);
            many(splits_of[k], 0, 400, 1000);
            char name[64];
            snprintf(name, sizeof name, k == 0 ? "train/%s%02u.jpg" : "val/%s%02u.jpg",
                     i % 2 == 0 ? "0" : "z", i * 5);
            file(name, strlen(name), 1000);
            finish();
            check_cover(false);
            CHECK_INT(plan.n_shards, shards);
            char *more = dump();
            CHECK_INT(differing(full, more), 1);
            free(more);
        }
        refreeze(); /* sizes decide nothing any more */
        source("src", "", false);
        many(splits_of[k], 0, 400, 123456789);
        finish();
        char *larger = dump();
        CHECK_INT(differing(full, larger), 0);
        free(larger);
        free(full);
    }
}

static void test_a_shard_runs_empty(void)
{
    fresh_recipe();
    make_many(100, 1000);
    static char gone[32][KEYS_TEXT_MAX];
    size_t n = plan.shards[5].n_samples, shards = plan.n_shards;
    for (size_t i = 0; i < n; i++)
        snprintf(gone[i], sizeof gone[i], "%s", key_of(plan.shards[5].first_sample + i));
    refreeze();
    source("src", "", false);
    for (unsigned i = 0; i < 100; i++) {
        char name[64];
        bool skip = false;
        snprintf(name, sizeof name, "f/%05u", i);
        for (size_t k = 0; k < n; k++)
            skip |= strcmp(name, gone[k]) == 0;
        strcat(name, ".jpg");
        if (!skip)
            file(name, strlen(name), 1000);
    }
    finish();
    check_cover(false);
    CHECK(plan.n_shards == shards && plan.shards[5].n_samples == 0);
    refreeze(); /* all gone: the limits stay for those that come back */
    source("src", "", false);
    finish();
    CHECK(plan.n_shards == shards && plan.n_samples == 0);
    check_cover(false);
}

/* A split that comes later gets shards of its own, and the others keep theirs, wherever its name
 * sorts. */
static void test_a_new_split(void)
{
    static const char *const added[] = {"test/%05u.jpg", "val/%05u.jpg", "%05u.jpg"};
    for (int k = 0; k < 3; k++) {
        fresh_recipe();
        begin();
        source("src", "", false);
        many("train/%05u.jpg", 0, 90, 1000);
        finish();
        char *before = dump();
        refreeze();
        source("src", "", false);
        many("train/%05u.jpg", 0, 90, 1000);
        many(added[k], 0, 40, 1000);
        finish();
        check_cover(true);
        CHECK_INT(plan.n_shards, 64);
        char *after = dump();
        CHECK(strstr(after, before) != NULL);
        refreeze(); /* frozen once more, it stays */
        source("src", "", false);
        many("train/%05u.jpg", 0, 90, 1000);
        many(added[k], 0, 40, 1000);
        finish();
        char *again = dump();
        CHECK(strcmp(after, again) == 0);
        free(before);
        free(after);
        free(again);
    }
}

static void test_frozen_rules(void)
{
    fresh_recipe();
    make("a.png\nb.mask.png\nc.txt\nc.jpg");
    plan.rules[0].codec = SLIMSET_CODEC_JPEG;
    plan.rules[0].ratio = 0.25;
    plan.rules[0].reason = strdup("photos");
    plan.rules[0].flags = ITEM_SHIFT_16;
    plan.rules[0].probed = 16;
    char name[16];
    snprintf(name, sizeof name, "%s", plan.rules[0].name);
    size_t n = plan.n_rules;
    refreeze();
    CHECK_INT(plan.n_rules, n);
    CHECK(plan.rules[0].settled && plan.rules[0].codec == SLIMSET_CODEC_JPEG &&
          plan.rules[0].ratio == 0.25);
    CHECK(plan.rules[0].flags == ITEM_SHIFT_16 && plan.rules[0].probed == 16);
    CHECK_STR(plan.rules[0].reason, "photos");
    source("src", "", false);
    files("d.png\ne.webp\nf.mask.png");
    finish();
    CHECK_INT(plan.n_rules, n + 1); /* only what is new is new */
    for (size_t i = 0; i < plan.listing.n_entries; i++) {
        const struct entry *e = &plan.listing.entries[i];
        size_t field_n;
        const char *field = keys_field(e, &field_n);
        CHECK(strlen(plan.rules[e->rule].name) == field_n &&
              memcmp(plan.rules[e->rule].name, field, field_n) == 0);
    }
    CHECK_STR(plan.rules[0].name, name);
}

static void test_damaged_decisions(void)
{
    for (int k = 0; k < 6; k++) {
        struct index_counts counts = {.splits = 1, .fields_rules = 1, .shards = 1};
        struct index_writer *w;
        struct index ix;
        struct slimset_field_rule rule = {.role = k == 0 ? SLIMSET_ROLE_LABEL : 0,
                                          .codec = k == 1 ? 200 : 0};
        struct slimset_split split = {.order = k == 2   ? 0
                                               : k == 3 ? 3
                                                        : 1,
                                      .first_shard = 0,
                                      .n_shards = k == 4 ? 2 : 1};
        struct slimset_shard shard = {.split = k == 5 ? 1 : 0};
        fresh_recipe();
        begin();
        CHECK_INT(index_create(dir, "plan", SLIMSET_KIND_PLAN, &counts, &w, &err), SLIMSET_OK);
        CHECK_INT(index_string(w, "jpg", 3, &rule.name, &err), SLIMSET_OK);
        CHECK_INT(index_put_rule(w, &rule, &err), SLIMSET_OK);
        CHECK_INT(index_put_split(w, &split, &err), SLIMSET_OK);
        CHECK_INT(index_put_shard(w, &shard, &err), SLIMSET_OK);
        CHECK_INT(index_commit(w, false, &err), SLIMSET_OK);
        CHECK_INT(index_open(dir, "plan", SLIMSET_KIND_PLAN, true, &ix, &err), SLIMSET_OK);
        CHECK_INT(plan_freeze(&plan, &ix, &err), SLIMSET_DAMAGED);
        index_close(&ix);
    }
    begin();
}

/* --- keys ------------------------------------------------------------------------------------- */

static void test_keys_are_distinct(void)
{
    fresh_recipe();
    make("a.b.jpg\na b.jpg\na_b.jpg\nc.jpg\nd/x.y.jpg\nd/x_y.jpg");
    unsigned suffixed = 0, plain = 0;
    for (size_t i = 0; i < plan.n_samples; i++) {
        char key[KEYS_TEXT_MAX];
        strcpy(key, key_of(i));
        suffixed += plan.samples[i].suffix;
        plain += strcmp(key, "a_b") == 0 || strcmp(key, "d/x_y") == 0 || strcmp(key, "c") == 0;
        CHECK_INT(plan.samples[i].duplicate, 0);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(key, key_of(k)) != 0);
    }
    CHECK(suffixed == 3 && plain == 3); /* those whose names were right keep them */
    recipe.layout = SLIMSET_LAYOUT_TREE;
    make("a.b.jpg\na b.jpg\na_b.jpg");
    for (size_t i = 0; i < plan.n_samples; i++)
        CHECK_INT(plan.samples[i].suffix, 0); /* files of a tree differ by themselves */
}

/* A tree: names that slimset or a folder has, or that no file can have. */
static void test_names_in_a_tree(void)
{
    fresh_recipe();
    recipe.layout = SLIMSET_LAYOUT_TREE;
    recipe.output = SLIMSET_OUTPUT_JPEG;
    begin();
    source("src", "", false);
    files("slimset.index\n.slimset/a.jpg\nsub/slimset.index\nx.jpg/in.jpg\nx.png\ny.jpg/in.jpg\ny.webp\nd/z.jpg/"
          "in.jpg\nz.png\nx.jpg/x.png");
    CHECK_INT(plan_samples(&plan, &run, &err), SLIMSET_OK);
    for (size_t i = 0; i < plan.n_rules; i++) {
        plan.rules[i].settled = true;
        plan.rules[i].codec = plan.rules[i].role == SLIMSET_ROLE_IMAGE ? SLIMSET_CODEC_JPEG : SLIMSET_CODEC_KEEP;
    }
    CHECK_INT(plan_shards(&plan, &run, &err), SLIMSET_OK);
    unsigned rejected = 0, suffixed = 0;
    for (size_t i = 0; i < plan.listing.n_entries; i++)
        rejected += plan.listing.entries[i].problem == SLIMSET_REJECT_NAME;
    for (size_t i = 0; i < plan.n_samples; i++) {
        const char *k = key_of(i);
        suffixed += plan.samples[i].suffix;
        CHECK(!plan.samples[i].suffix || ((k[0] == 'x' || k[0] == 'y') && k[1] == '-' && strlen(k) == 18));
    }
    CHECK_INT(rejected, 2);
    CHECK_INT(suffixed, 2); /* x.png and y.webp would become x.jpg and y.jpg, which are folders */

    char name[400];
    memset(name, 'n', sizeof name);
    begin();
    source("a.tar", "", false);
    memcpy(name + 251, ".jpg", 4);
    file(name, 255, 10); /* just fits */
    memset(name, 'n', sizeof name);
    name[0] = 'o';
    memcpy(name + 300, ".jpg", 4);
    file(name, 304, 10); /* does not */
    name[0] = 'p';
    memcpy(name + 251, ".png", 4);
    file(name, 255, 10);
    finish();
    for (size_t i = 0; i < plan.n_samples; i++) {
        const char *k = key_of(i);
        CHECK(strlen(k) + 1 + 3 <= 255);
        CHECK_INT(plan.samples[i].suffix, k[0] == 'o');
    }
}

/* Names of fields that take most of a tar header's room: the longest that may come is reserved. */
static void test_long_fields_are_reserved(void)
{
    char key[80], name[200];
    memset(key, 'k', sizeof key);
    fresh_recipe();
    begin();
    source("src", "", false);
    snprintf(name, sizeof name, "%.60s.jpg", key);
    file(name, strlen(name), 10);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%.60s.%c%.60s.png", key, "Zz"[i], key);
        file(name, strlen(name), 10);
    }
    finish();
    CHECK_INT(plan.n_samples, 1);
    CHECK(strlen(key_of(0)) + 1 + strlen("png.") + KEYS_FIELD_SOURCE <= 100);
    begin();
    source("src", "", false);
    memset(name, 'n', 91);
    memcpy(name + 91, ".jpg", 5);
    file(name, 95, 10);
    finish();
    CHECK_INT(plan.n_samples, 1);
    CHECK_INT(strlen(key_of(0)), 91); /* alone it needs no more than its extension */
}

/* 40,000 class folders: numbered in byte order, in no quadratic time. */
static void test_many_classes(void)
{
    fresh_recipe();
    begin();
    source("src", "", false);
    many("c%05u/%u.jpg", 0, 40000, 10);
    finish();
    CHECK_INT(plan.n_classes, 40000);
    for (size_t i = 0; i < plan.n_samples; i++)
        if ((unsigned)plan.samples[i].cls != (unsigned)atoi(key_of(i) + 1)) {
            CHECK_INT(plan.samples[i].cls, atoi(key_of(i) + 1));
            break;
        }
}

/* Long names that agree as far as they are kept. */
static void test_long_keys_are_distinct(void)
{
    char name[320];
    fresh_recipe();
    begin();
    source("src", "", false);
    for (unsigned i = 0; i < 500; i++) {
        memset(name, 'n', 300);
        snprintf(name + 240, 80, "%03u.%s", i, "jpg");
        file(name, strlen(name), 1000);
    }
    finish();
    uint64_t *hash = malloc(plan.n_samples * sizeof *hash);
    CHECK_INT(plan.n_samples, 500);
    for (size_t i = 0; i < plan.n_samples; i++) {
        const char *k = key_of(i);
        hash[i] = hash_bytes(k, strlen(k));
        CHECK(strlen(k) + 1 + 3 <= 100);
        for (size_t m = 0; m < i; m++)
            CHECK(hash[m] != hash[i]);
    }
    free(hash);
}

/* The same key in two archives by itself: the first stays, the second is a duplicate. */
static void test_duplicates(void)
{
    fresh_recipe();
    begin();
    source("a.tar", "x/", true);
    files("0.jpg\n0.cls\n1.jpg\n1.cls");
    source("b.tar", "x/./", true); /* another path, the same key once it is cleaned */
    files("0.jpg\n0.cls");
    finish();
    CHECK_INT(plan.n_samples, 3);
    unsigned duplicates = 0, suffixes = 0;
    for (size_t i = 0; i < plan.n_samples; i++) {
        duplicates += plan.samples[i].duplicate;
        suffixes += plan.samples[i].suffix;
    }
    CHECK_INT(duplicates + suffixes, 1);
    check_cover(true);
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    char path[300];
    snprintf(path, sizeof path, "%s/test_plan.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(path) == NULL || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(path);
        return 1;
    }
    fresh_recipe();
    plan_init(&plan, &recipe);
    RUN(test_samples);
    RUN(test_unknown_extensions);
    RUN(test_rules_by_field);
    RUN(test_rules_of_the_user);
    RUN(test_unreadable_entries);
    RUN(test_too_many_files_of_one_key);
    RUN(test_numbered_files);
    RUN(test_names_in_a_tree);
    RUN(test_long_fields_are_reserved);
    RUN(test_many_classes);
    RUN(test_splits);
    RUN(test_split_order);
    RUN(test_split_of_webdataset);
    RUN(test_splits_of_several_sources);
    RUN(test_classes);
    RUN(test_no_classes);
    RUN(test_classes_by_option);
    RUN(test_numeric_classes);
    RUN(test_frozen_classes);
    RUN(test_frozen_without_classes);
    RUN(test_shard_counts);
    RUN(test_shards_by_size);
    RUN(test_uneven_sizes);
    RUN(test_every_split_has_its_shards);
    RUN(test_order_within_splits);
    RUN(test_pure);
    RUN(test_one_file_one_shard);
    RUN(test_a_shard_runs_empty);
    RUN(test_a_new_split);
    RUN(test_frozen_rules);
    RUN(test_damaged_decisions);
    RUN(test_keys_are_distinct);
    RUN(test_long_keys_are_distinct);
    RUN(test_duplicates);
    plan_fini(&plan);
    io_remove_tree(AT_FDCWD, path, &err);
    return check_done();
}
