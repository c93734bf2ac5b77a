/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of pack as a recipe and a run, and the texts that verbs print. cmd/ is no
 * library: its files are taken in here. What is refused is said on stderr, as for a person: no sign
 * of a fault here.
 */
#include "../../cmd/config.c"
#include "../../cmd/help.c"
#include "../../cmd/manual.c"
#include "../../cmd/option_table.c"
#include "../../cmd/options.c"
#include "../../cmd/pack_config.c"
#include "../../cmd/pack_request.c"
#include "../../cmd/text.c"

#include "check.h"

static struct pack_request request;
static char words_store[4096];
static char *words[128];

/* "pack" and the words of `line`, split at blanks. */
static bool parse(const char *line)
{
    int n = 0;
    snprintf(words_store, sizeof words_store, "pack %s", line);
    for (char *p = strtok(words_store, " "); p != NULL && n < 127; p = strtok(NULL, " "))
        words[n++] = p;
    words[n] = NULL;
    int status;
    pack_request_fini(&request);
    return pack_request_parse(&request, n, words, &status);
}

static void test_defaults(void)
{
    struct slimset_recipe plain;
    slimset_recipe_init(&plain);
    CHECK(parse("src -o out"));
    request.recipe.rules = NULL;
    CHECK(memcmp(&plain, &request.recipe, sizeof plain) == 0);
    CHECK_INT(request.run.n_sources, 1);
    CHECK_STR(request.run.sources[0], "src");
    CHECK_STR(request.run.out, "out");
    CHECK_INT(request.run.max_rejects, -1);
    CHECK(!request.run.dry_run && request.run.files_from == NULL);
}

static void test_pixel_options(void)
{
    CHECK(parse("s -oo --resize short:256 --upscale --codec webp --reencode=all --quality 75 "
                "--subsampling 4:2:2 --no-optimize --png-level=9 --keep-metadata --alpha #1aF0ff "
                "--color srgb --depth 8:1,4095 --channels 1"));
    const struct slimset_recipe *r = &request.recipe;
    CHECK_INT(r->resize, SLIMSET_RESIZE_SHORT);
    CHECK_INT(r->resize_a, 256);
    CHECK(request.bare_resize == NULL);
    CHECK(r->upscale && r->reencode_all && !r->optimise && r->keep_metadata && !r->lossless);
    CHECK_INT(r->output, SLIMSET_OUTPUT_WEBP);
    CHECK_INT(r->quality, 75);
    CHECK_INT(r->subsampling, SLIMSET_SUBSAMPLING_422);
    CHECK_INT(r->png_level, 9);
    CHECK_INT(r->alpha, SLIMSET_ALPHA_FLATTEN);
    CHECK_INT(r->background[0], 0x1a);
    CHECK_INT(r->background[1], 0xf0);
    CHECK_INT(r->background[2], 0xff);
    CHECK_INT(r->color, SLIMSET_COLOR_SRGB);
    CHECK_INT(r->depth, SLIMSET_DEPTH_8_RANGE);
    CHECK(r->depth_lo == 1 && r->depth_hi == 4095);
    CHECK_INT(r->channels, 1);
}

static void test_choices(void)
{
    static const struct {
        const char *word;
        int want;
    } codecs[] = {{"jpeg", SLIMSET_OUTPUT_JPEG},
                  {"png", SLIMSET_OUTPUT_PNG},
                  {"webp", SLIMSET_OUTPUT_WEBP},
                  {"keep", SLIMSET_OUTPUT_KEEP},
                  {"raw", SLIMSET_OUTPUT_RAW}},
      samplings[] = {{"420", SLIMSET_SUBSAMPLING_420},
                     {"444", SLIMSET_SUBSAMPLING_444},
                     {"4:2:0", SLIMSET_SUBSAMPLING_420},
                     {"4:4:4", SLIMSET_SUBSAMPLING_444},
                     {"422", SLIMSET_SUBSAMPLING_422}};
    for (size_t i = 0; i < 5; i++) {
        char line[80];
        snprintf(line, sizeof line, "s -o o --codec %s --subsampling %s", codecs[i].word,
                 samplings[i].word);
        CHECK(parse(line));
        CHECK_INT(request.recipe.output, codecs[i].want);
        CHECK_INT(request.recipe.subsampling, samplings[i].want);
    }
    CHECK(parse("s -o o --alpha black --depth 8:0,4095 --channels keep --to tree --order source "
                "--classes none"));
    CHECK_INT(request.recipe.background[0] + request.recipe.background[1] +
                  request.recipe.background[2],
              0);
    CHECK_INT(request.recipe.depth, SLIMSET_DEPTH_8_RANGE);
    CHECK_INT(request.recipe.channels, 0);
    CHECK_INT(request.recipe.layout, SLIMSET_LAYOUT_TREE);
    CHECK_INT(request.recipe.order, SLIMSET_ORDER_SOURCE);
    CHECK_INT(request.recipe.classes, SLIMSET_CLASSES_NONE);
    CHECK(parse("s -o o --alpha keep --channels 3 --to shards --order shuffled --classes folder "
                "--class-order numeric"));
    CHECK_INT(request.recipe.alpha, SLIMSET_ALPHA_KEEP);
    CHECK_INT(request.recipe.channels, 3);
    CHECK_INT(request.recipe.layout, SLIMSET_LAYOUT_SHARDS);
    CHECK_INT(request.recipe.order, SLIMSET_ORDER_SHUFFLED);
    CHECK_INT(request.recipe.classes, SLIMSET_CLASSES_FOLDER);
    CHECK(request.recipe.class_order_numeric);
    CHECK(parse("s -o o --alpha reject"));
    CHECK_INT(request.recipe.alpha, SLIMSET_ALPHA_REJECT);
}

static void test_rules_in_order(void)
{
    CHECK(parse("--mask a/* s --image=b -o o --skip c --depth-map d --array e --copy f --no-detect "
                "--boxes keep"));
    static const struct slimset_rule want[] = {
        {"a/*", SLIMSET_ROLE_MASK, 0}, {"b", SLIMSET_ROLE_IMAGE, 0}, {"c", -1, 0},
        {"d", SLIMSET_ROLE_DEPTH, 0}, {"e", SLIMSET_ROLE_ARRAY, 0}, {"f", SLIMSET_ROLE_COPY, 0}};
    CHECK_INT(request.recipe.n_rules, 6);
    for (size_t i = 0; i < request.recipe.n_rules && i < 6; i++) {
        CHECK_STR(request.recipe.rules[i].glob, want[i].glob);
        CHECK_INT(request.recipe.rules[i].role, want[i].role);
    }
    CHECK(!request.recipe.detect);
    CHECK_INT(request.recipe.boxes, SLIMSET_BOXES_KEEP);
}

static void test_run_options(void)
{
    CHECK(parse("-nqj3 a --files-from - -0 -oout --in-process b --force --replan --verify-inputs "
                "--max-rejects 0.5% "
                "--window 9 --json --no-color --no-progress --seed 18446744073709551615 --shards 7 "
                "--max-pixels 1000 --no-follow --no-webdataset -- -c --strict"));
    const struct slimset_run *run = &request.run;
    CHECK(run->dry_run && request.shown.quiet && request.shown.json && request.shown.no_color);
    CHECK_INT(request.shown.show, -1);
    CHECK_INT(run->jobs, 3);
    CHECK_INT(run->window, 9);
    CHECK_INT(run->n_sources, 4);
    CHECK_STR(run->sources[0], "a");
    CHECK_STR(run->sources[1], "b");
    CHECK_STR(run->sources[2], "-c");
    CHECK_STR(run->sources[3], "--strict");
    CHECK(!run->strict && run->in_process && run->force && run->replan && run->verify_inputs);
    CHECK_STR(run->files_from, "-");
    CHECK(run->files_from_nul);
    CHECK(run->max_rejects == -1 && run->max_rejects_percent == 0.5);
    CHECK(request.recipe.seed == UINT64_MAX);
    CHECK_INT(request.recipe.shards, 7);
    CHECK_INT(request.recipe.max_pixels, 1000);
    CHECK(!request.recipe.follow && !request.recipe.webdataset);
    CHECK(parse("a -o b --max-rejects 12 --strict --max-rejects 5%") == false);
    CHECK(parse("a -o b --max-rejects 5% --max-rejects 12"));
    CHECK(request.run.max_rejects == 12 && request.run.max_rejects_percent < 0);
    CHECK(parse("a -o b --resize 512"));
    CHECK(request.bare_resize != NULL && request.recipe.resize_a == 512);
}

static void test_sizes(void)
{
    static const struct {
        const char *word;
        uint64_t bytes; /* 0: refused */
    } sizes[] = {
        {"1000000", 1000000},      {"256M", 256000000},    {"256MB", 256000000},
        {"256MiB", 268435456}, {"1G", 1000000000},     {"1Gi", 1073741824},
        {"1.5G", 1500000000},  {"0.25Ki", 0},          {"2000k", 2000000},
        {"2000Ki", 2048000},       {"8T", 8000000000000},  {"8.000001T", 0},
        {"1.1234567G", 0},     {"1234567B", 1234567},      {"1m", 0},
        {"1GiX", 0},           {"0x100000", 0},        {"999999", 0},
        {"7.5Ti", 0},          {"7Ti", 7696581394432},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char line[80];
        snprintf(line, sizeof line, "s -o o --shard-size %s", sizes[i].word);
        bool good = parse(line);
        if (good != (sizes[i].bytes != 0) || (good && request.recipe.shard_bytes != sizes[i].bytes))
            printf("  %s\n", sizes[i].word);
        CHECK(good == (sizes[i].bytes != 0));
        CHECK(!good || request.recipe.shard_bytes == sizes[i].bytes);
    }
}

/* Every name once a verb, every letter once a verb, choices well formed, helps fit for a person. */
static void test_tables(void)
{
    for (size_t i = 0; i < option_table_n; i++) {
        const struct option_row *a = &option_table[i];
        CHECK(a->help[0] != '\0' && a->help[strlen(a->help) - 1] != '.');
        CHECK(a->choices == NULL || a->arg != NULL);
        CHECK(a->verbs != 0 && a->group < GROUP_COUNT);
        for (size_t k = 0; k < i; k++) {
            const struct option_row *b = &option_table[k];
            if ((a->verbs & b->verbs) == 0)
                continue;
            if (strcmp(a->name, b->name) == 0 || (a->letter != 0 && a->letter == b->letter))
                printf("  --%s and --%s\n", a->name, b->name);
            CHECK(strcmp(a->name, b->name) != 0);
            CHECK(a->letter == 0 || a->letter != b->letter);
        }
    }
}

static void test_quote(void)
{
    char to[64], small[16];
    CHECK_STR(text_quote(to, sizeof to, "plain name.jpg"), "plain name.jpg");
    CHECK_STR(text_quote(to, sizeof to, "gr\xc3\xbcn \xf0\x9f\x98\x80"),
              "gr\xc3\xbcn \xf0\x9f\x98\x80");
    CHECK_STR(text_quote(to, sizeof to, "a\nb"), "$'a\\nb'");
    CHECK_STR(text_quote(to, sizeof to, "a'\\\x1b[2J\xff"), "$'a\\'\\\\\\x1b[2J\\xff'");
    CHECK_STR(text_quote(to, sizeof to, "\xc2\x9b"), "$'\\xc2\\x9b'");            /* C1 control */
    CHECK_STR(text_quote(to, sizeof to, "x\xe2\x80\xaegpj"),
              "$'x\\xe2\\x80\\xaegpj'"); /* right-to-left override */
    CHECK_STR(text_quote(to, sizeof to, "\xed\xa0\x80"), "$'\\xed\\xa0\\x80'");   /* a surrogate */
    CHECK_STR(text_quote(to, sizeof to, "\xc0\xaf"), "$'\\xc0\\xaf'");            /* overlong */
    CHECK_STR(text_quote(to, sizeof to, "\xe2\x82"), "$'\\xe2\\x82'");            /* cut */
    CHECK_STR(text_quote(small, sizeof small, "0123456789abcdef"), "0123456789a...");
    CHECK_STR(text_clean(to, sizeof to, "it's\n"), "it's\\n");
    CHECK_STR(text_shell(to, sizeof to, "a/b-1.tar"), "a/b-1.tar");
    CHECK_STR(text_shell(to, sizeof to, "a b;c"), "'a b;c'");
    CHECK_STR(text_shell(to, sizeof to, "it's"), "$'it\\'s'");
    CHECK_STR(text_shell(to, sizeof to, ""), "''");
}

static void test_json(void)
{
    char to[128] = "";
    FILE *f = fmemopen(to, sizeof to, "w");
    text_json(f, "a\"\\\n\x01\xff\xc3\xbc\0z", 10);
    fclose(f);
    CHECK_STR(to, "\"a\\\"\\\\\\n\\u0001\\udcff\xc3\xbc\\u0000z\"");
}

static void test_numbers(void)
{
    char a[TEXT_NUMBER_BYTES];
    CHECK_STR(text_count(a, 0), "0");
    CHECK_STR(text_count(a, 999), "999");
    CHECK_STR(text_count(a, 1000), "1,000");
    CHECK_STR(text_count(a, UINT64_MAX), "18,446,744,073,709,551,615");
    CHECK_STR(text_bytes(a, 0), "0 B");
    CHECK_STR(text_bytes(a, 999), "999 B");
    CHECK_STR(text_bytes(a, 1000), "1.00 kB");
    CHECK_STR(text_bytes(a, 9994), "9.99 kB");
    CHECK_STR(text_bytes(a, 9996), "10.0 kB");
    CHECK_STR(text_bytes(a, 999499), "999 kB");
    CHECK_STR(text_bytes(a, 999500), "1.00 MB");
    CHECK_STR(text_bytes(a, UINT64_MAX), "18.4 EB");
    CHECK_STR(text_duration(a, 59.4), "59 s");
    CHECK_STR(text_duration(a, 59.6), "1:00");
    CHECK_STR(text_duration(a, 3723), "1:02:03");
    CHECK_STR(text_duration(a, -1), "--");
}

static void test_distance(void)
{
    CHECK_INT(text_distance("resize", "resise"), 1);
    CHECK_INT(text_distance("resize", "reszie"), 1);
    CHECK_INT(text_distance("kitten", "sitting"), 3);
    CHECK_INT(text_distance("", "abc"), 3);
    CHECK_STR(verb_suggest("verfy"), "verify");
    CHECK(verb_suggest("xyz") == NULL);
}

int main(void)
{
    RUN(test_defaults);
    RUN(test_pixel_options);
    RUN(test_choices);
    RUN(test_rules_in_order);
    RUN(test_run_options);
    RUN(test_sizes);
    RUN(test_tables);
    RUN(test_quote);
    RUN(test_json);
    RUN(test_numbers);
    RUN(test_distance);
    pack_request_fini(&request);
    return check_done();
}
