/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h and the recipe's part of slimset/pack.h: defaults, --resize, the text of a recipe,
 * differences. An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "recipe.h"

#include <fcntl.h>
#include <stdlib.h>

#include <zstd.h>

#include "base/io.h"
#include "check.h"

static int dir = -1;
static struct slimset_error err;

static void test_defaults(void)
{
    struct slimset_recipe r;
    struct slimset_run run;
    memset(&r, 0xff, sizeof r);
    memset(&run, 0xff, sizeof run);
    slimset_recipe_init(&r);
    slimset_run_init(&run);
    CHECK(r.resize == SLIMSET_RESIZE_NONE && !r.upscale && r.output == SLIMSET_OUTPUT_AUTO &&
          !r.lossless);
    CHECK(!r.reencode_all && r.quality == 90 && r.subsampling == SLIMSET_SUBSAMPLING_420 &&
          r.optimise);
    CHECK(!r.keep_metadata && r.alpha == SLIMSET_ALPHA_COLOUR);
    CHECK(r.background[0] == 255 && r.background[1] == 255 && r.background[2] == 255);
    CHECK(r.color == SLIMSET_COLOR_KEEP && r.depth == SLIMSET_DEPTH_KEEP && r.channels == 0 &&
          r.detect);
    CHECK(r.boxes == SLIMSET_BOXES_REFUSE && r.layout == SLIMSET_LAYOUT_SHARDS &&
          r.shard_bytes == 256000000);
    CHECK(r.shards == 0 && r.order == SLIMSET_ORDER_AUTO && r.seed == 0 &&
          r.classes == SLIMSET_CLASSES_AUTO);
    CHECK(!r.class_order_numeric && r.max_pixels == 178956970 && r.follow && r.webdataset);
    CHECK(r.rules == NULL && r.n_rules == 0 && r.png_level == 6);
    CHECK(run.sources == NULL && run.n_sources == 0 && run.files_from == NULL && run.out == NULL &&
          run.jobs == 0);
    CHECK(!run.in_process && !run.force && !run.replan && !run.verify_inputs && !run.strict &&
          !run.dry_run);
    CHECK(run.max_rejects == -1 && run.max_rejects_percent < 0 && run.stop == NULL &&
          run.event == NULL);
}

static void test_resize_words(void)
{
    static const struct {
        const char *text;
        enum slimset_resize mode;
        uint32_t a, b;
    } good[] = {
        {"512", SLIMSET_RESIZE_LONG, 512, 0},
        {"long:512", SLIMSET_RESIZE_LONG, 512, 0},
        {"1", SLIMSET_RESIZE_LONG, 1, 0},
        {"65500", SLIMSET_RESIZE_LONG, 65500, 0},
        {"short:256", SLIMSET_RESIZE_SHORT, 256, 0},
        {"exact:224x112", SLIMSET_RESIZE_EXACT, 224, 112},
        {"crop:1x65500", SLIMSET_RESIZE_CROP, 1, 65500},
        {"pad:640x480", SLIMSET_RESIZE_PAD, 640, 480},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct slimset_recipe r;
        slimset_recipe_init(&r);
        CHECK_INT(slimset_recipe_resize(&r, good[i].text, &err), SLIMSET_OK);
        CHECK(r.resize == good[i].mode && r.resize_a == good[i].a && r.resize_b == good[i].b);
    }
    struct slimset_recipe r;
    slimset_recipe_init(&r);
    CHECK_INT(slimset_recipe_resize(&r, "area:250000", &err), SLIMSET_OK);
    CHECK(r.resize == SLIMSET_RESIZE_AREA && r.resize_pixels == 250000);
    CHECK_INT(slimset_recipe_resize(&r, "area:5000000000", &err), SLIMSET_OK);
    CHECK(r.resize_pixels == 5000000000u);
    CHECK_INT(slimset_recipe_resize(&r, "scale:0.25", &err), SLIMSET_OK);
    CHECK(r.resize == SLIMSET_RESIZE_SCALE && r.resize_factor == 0.25);
    CHECK_INT(slimset_recipe_resize(&r, "scale:2", &err), SLIMSET_OK);
}

static void test_resize_nonsense(void)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "-1",
                                      "65501",
                                      "99999999999",
                                      "512px",
                                      "512 ",
                                      " 512",
                                      "5.5",
                                      "long:",
                                      "long:0",
                                      "long:x",
                                      "short:-3",
                                      "big:3",
                                      "LONG:512",
                                      "long512",
                                      "exact:224",
                                      "exact:224x",
                                      "exact:x224",
                                      "exact:0x5",
                                      "exact:5x0",
                                      "exact:-5x5",
                                      "exact:5x-5",
                                      "exact:5x5x5",
                                      "exact:5*5",
                                      "crop:65501x5",
                                      "crop:5x65501",
                                      "crop:1000000x5",
                                      "pad:",
                                      "pad:axb",
                                      "area:0",
                                      "area:-5",
                                      "area:x",
                                      "area:",
                                      "scale:0",
                                      "scale:-1",
                                      "scale:nan",
                                      "scale:inf",
                                      "scale:",
                                      "scale:1x",
                                      "scale:101",
                                      "none"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct slimset_recipe r;
        slimset_recipe_init(&r);
        enum slimset_status st = slimset_recipe_resize(&r, bad[i], &err);
        if (st != SLIMSET_USAGE)
            printf("  \"%s\":\n", bad[i]);
        CHECK_INT(st, SLIMSET_USAGE);
        CHECK(strstr(err.text, "long:N") != NULL &&
              strstr(err.text, "scale:") != NULL); /* says what is allowed */
    }
}

/* Blanks and signs are not part of any of the forms. */
static void test_resize_blanks_and_signs(void)
{
    static const char *const bad[] = {"exact: 5x5", "exact:5x 5", "crop:+5x5", "pad:5x+5",
                                      "exact:5 x5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct slimset_recipe r;
        slimset_recipe_init(&r);
        enum slimset_status st = slimset_recipe_resize(&r, bad[i], &err);
        if (st != SLIMSET_USAGE)
            printf("  \"%s\":\n", bad[i]);
        CHECK_INT(st, SLIMSET_USAGE);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static struct buf text_of(const struct slimset_recipe *r)
{
    struct buf b = {0};
    CHECK_INT(recipe_text(r, &b, &err), SLIMSET_OK);
    return b;
}

static bool has_line(const struct buf *b, const char *line)
{
    char want[300];
    int n = snprintf(want, sizeof want, "%s\n", line);
    const uint8_t *at = memmem(b->data, b->len, want, (size_t)n);
    return at != NULL && (at == b->data || at[-1] == '\n');
}

static void test_text(void)
{
    struct slimset_recipe r;
    slimset_recipe_init(&r);
    struct buf b = text_of(&r);
    CHECK(has_line(&b, "tool=slimset " SLIMSET_VERSION));
    CHECK(has_line(&b, "layout=shards") && has_line(&b, "recipe.resize=none") &&
          has_line(&b, "recipe.quality=90"));
    CHECK(memmem(b.data, b.len, "codec.jpeg=", 11) != NULL &&
          memmem(b.data, b.len, "codec.zlib=", 11) != NULL);
    char zstd[64];
    snprintf(zstd, sizeof zstd, "codec.zstd=%u.%u.%u", ZSTD_versionNumber() / 10000, ZSTD_versionNumber() / 100 % 100,
             ZSTD_versionNumber() % 100);
    CHECK(has_line(&b, zstd) && memmem(b.data, b.len, "codec.blosc=", 12) != NULL);
    size_t lines = 0; /* every line is name=value, no name twice */
    for (const char *p = (const char *)b.data, *end = p + b.len; p < end; lines++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)),
                   *eq = memchr(p, '=', (size_t)(end - p));
        CHECK(nl != NULL && eq != NULL && eq < nl && eq > p);
        if (nl == NULL || eq == NULL)
            break;
        char name[100];
        snprintf(name, sizeof name, "\n%.*s=", (int)(eq - p), p);
        CHECK(memmem(nl, (size_t)(end - nl), name, strlen(name)) == NULL);
        p = nl + 1;
    }
    CHECK(lines > 25);
    buf_fini(&b);
}

/* Every member that decides bytes changes the text. */
static void test_every_member_is_in_the_text(void)
{
    struct slimset_recipe base, r;
    struct slimset_rule rules[] = {{"*.png", SLIMSET_ROLE_MASK, 0},
                                   {"*.tif", -1, 0},
                                   {"*.png", SLIMSET_ROLE_IMAGE, 0},
                                   {"*.pn", SLIMSET_ROLE_MASK, 0}};
    struct slimset_join joins[] = {{"mask=m/{}.png", SLIMSET_RULE_NO_ROLE, 0},
                                   {"image=m/{}.png", SLIMSET_RULE_NO_ROLE, 0},
                                   {"mask=m/{}.png", SLIMSET_ROLE_COPY, 0},
                                   {"mask=m/{}.png", SLIMSET_RULE_NO_ROLE, 1}};
    struct slimset_recipe settings[3];
    for (int i = 0; i < 3; i++)
        slimset_recipe_init(&settings[i]);
    settings[1].quality = 17;
    settings[2].own_size = true;
    slimset_recipe_init(&base);
    CHECK_INT(slimset_recipe_resize(&base, "exact:8x9", &err), SLIMSET_OK);
    base.rules = rules;
    base.n_rules = 1;
    base.joins = joins;
    base.n_joins = 1;
    base.settings = settings;
    base.n_settings = 1;
    struct buf before = text_of(&base), after;
#define CHANGES(what)                                                                              \
    do {                                                                                           \
        r = base;                                                                                  \
        what;                                                                                      \
        after = text_of(&r);                                                                       \
        CHECK(after.len != before.len || memcmp(after.data, before.data, before.len) != 0);        \
        buf_fini(&after);                                                                          \
    } while (0)
    CHANGES(r.resize = SLIMSET_RESIZE_CROP);
    CHANGES(r.resize_a = 7);
    CHANGES(r.resize_b = 7);
    CHANGES(r.upscale = true);
    CHANGES(r.output = SLIMSET_OUTPUT_RAW);
    CHANGES(r.lossless = true);
    CHANGES(r.reencode_all = true);
    CHANGES(r.quality = 91);
    CHANGES(r.subsampling = SLIMSET_SUBSAMPLING_444);
    CHANGES(r.optimise = false);
    CHANGES(r.png_level = 9);
    CHANGES(r.keep_metadata = true);
    CHANGES(r.alpha = SLIMSET_ALPHA_REJECT);
    CHANGES(r.background[0] = 0);
    CHANGES(r.background[1] = 0);
    CHANGES(r.background[2] = 0);
    CHANGES(r.color = SLIMSET_COLOR_SRGB);
    CHANGES(r.depth = SLIMSET_DEPTH_8_RANGE);
    CHANGES(r.depth_lo = 1e-9);
    CHANGES(r.depth_hi = 65534.999999999);
    CHANGES(r.channels = 3);
    CHANGES(r.detect = false);
    CHANGES(r.boxes = SLIMSET_BOXES_KEEP);
    CHANGES(r.layout = SLIMSET_LAYOUT_TREE);
    CHANGES(r.shard_bytes++);
    CHANGES(r.shards = 1);
    CHANGES(r.order = SLIMSET_ORDER_SOURCE);
    CHANGES(r.seed = UINT64_MAX);
    CHANGES(r.classes = SLIMSET_CLASSES_NONE);
    CHANGES(r.class_order_numeric = true);
    CHANGES(r.max_pixels--);
    CHANGES(r.follow = false);
    CHANGES(r.webdataset = false);
    CHANGES(r.n_rules = 0);
    CHANGES(r.n_rules = 2);
    CHANGES(r.rules = rules + 1);
    CHANGES(r.rules = rules + 2);
    CHANGES(r.rules = rules + 3);
    CHANGES(r.n_joins = 0);
    CHANGES(r.n_joins = 2);
    CHANGES(r.joins = joins + 1);
    CHANGES(r.joins = joins + 2);
    CHANGES(r.joins = joins + 3);
    CHANGES(r.group_by = "clips/*");
    CHANGES(r.n_settings = 0);
    CHANGES(r.n_settings = 2);
    CHANGES(r.settings = settings + 1);
    CHANGES(r.settings = settings + 2);
    CHANGES((r.resize = SLIMSET_RESIZE_AREA, r.resize_pixels = 5));
    CHANGES((r.resize = SLIMSET_RESIZE_SCALE, r.resize_factor = 0.5));
    buf_fini(&before);
    base.resize = SLIMSET_RESIZE_AREA;
    base.resize_pixels = 1000;
    before = text_of(&base);
    CHANGES(r.resize_pixels = 1001);
    buf_fini(&before);
    base.resize = SLIMSET_RESIZE_SCALE;
    base.resize_factor = 0.1;
    before = text_of(&base);
    CHANGES(r.resize_factor = 0.10000000000000002); /* the next double */
    buf_fini(&before);
}

/* --- differences ------------------------------------------------------------------------------ */

static struct index opened;

/* Stores a recipe's text as the META of a plan file and opens it. */
static void store(const struct slimset_recipe *r)
{
    struct buf b = text_of(r);
    struct index_counts counts = {.meta_bytes = b.len};
    struct index_writer *w = NULL;
    CHECK_INT(index_create(dir, "plan", SLIMSET_KIND_PLAN, &counts, &w, &err), SLIMSET_OK);
    CHECK_INT(index_put_meta(w, b.data, b.len, &err), SLIMSET_OK);
    CHECK_INT(index_commit(w, false, &err), SLIMSET_OK);
    CHECK_INT(index_open(dir, "plan", SLIMSET_KIND_PLAN, true, &opened, &err), SLIMSET_OK);
    buf_fini(&b);
}

static const char *compare(const struct slimset_recipe *old, const struct slimset_recipe *now)
{
    struct buf b = text_of(now);
    store(old);
    memset(&err, 0, sizeof err);
    enum slimset_status st = recipe_compare(&b, &opened, "OUT", &err);
    CHECK(st == SLIMSET_OK || st == SLIMSET_DIFFERS);
    index_close(&opened);
    buf_fini(&b);
    return st == SLIMSET_OK ? "" : err.text;
}

static bool says(const char *text, const char *a, const char *b, const char *c)
{
    bool all = strstr(text, a) != NULL && strstr(text, b) != NULL && strstr(text, c) != NULL;
    if (!all)
        printf("  the text is \"%s\"\n", text);
    return all;
}

static void test_compare(void)
{
    struct slimset_recipe a, b;
    struct slimset_rule rules[] = {{"masks/*", SLIMSET_ROLE_MASK, 0}, {"*.tif", -1, 0}};
    slimset_recipe_init(&a);
    slimset_recipe_init(&b);
    CHECK_STR(compare(&a, &b), "");
    b.quality = 75;
    CHECK(says(compare(&a, &b), "quality", "90", "75"));
    CHECK(says(err.text, "OUT", "--force", "quality: 90 -> 75"));
    b.seed = 5;
    b.layout = SLIMSET_LAYOUT_TREE;
    CHECK(says(compare(&a, &b), "quality: 90 -> 75", "seed: 0 -> 5", "layout: shards -> tree"));
    b = a;
    CHECK_INT(slimset_recipe_resize(&b, "512", &err), SLIMSET_OK);
    CHECK(says(compare(&a, &b), "resize", "none", "long:512"));
    b = a;
    b.rules = rules;
    b.n_rules = 2;
    CHECK_STR(compare(&b, &b), "");
    CHECK(says(compare(&a, &b), "masks/*", "none", "*.tif"));
    CHECK(says(compare(&b, &a), "masks/*", "none", "rule"));
    struct slimset_recipe c = b; /* one rule less */
    c.n_rules = 1;
    CHECK(says(compare(&b, &c), "*.tif", "none", "rule"));
    CHECK(says(compare(&c, &b), "*.tif", "none", "rule"));
    struct slimset_join joins[] = {{"image=a/{}.png", SLIMSET_RULE_NO_ROLE, 0}, {"mask=b/{}.png", SLIMSET_ROLE_MASK, 2}};
    struct slimset_recipe settings[] = {a, a};
    settings[1].quality = 33;
    rules[0].settings = 1;
    b.joins = joins;
    b.n_joins = b.n_settings = 2;
    b.settings = settings;
    CHECK_STR(compare(&b, &b), "");
    c = b; /* one of each less */
    c.n_joins = c.n_settings = 1;
    CHECK(says(compare(&b, &c), "field1: mask,settings2 mask=b/{}.png -> none", "settings2.own-size: 0 -> none", "field1"));
    CHECK(says(compare(&c, &b), "field1: none -> mask,settings2 mask=b/{}.png", "settings2.quality", "none"));
    struct slimset_recipe other[] = {a, a};
    c = b;
    c.settings = other;
    CHECK(says(compare(&b, &c), "settings2.quality: 33 -> 90", "OUT", "--force"));
}

/* A dataset that another zstd or c-blosc made is not what this program would make. */
static void test_another_library_is_noticed(void)
{
    static const char *const names[] = {"codec.zstd=", "codec.blosc=", "codec.zlib=", "codec.jpeg="};
    struct slimset_recipe r;
    slimset_recipe_init(&r);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buf now = text_of(&r);
        char *at = memmem(now.data, now.len, names[i], strlen(names[i]));
        store(&r);
        CHECK(at != NULL);
        if (at != NULL)
            at[strlen(names[i])] = '~';
        CHECK_INT(recipe_compare(&now, &opened, "OUT", &err), SLIMSET_DIFFERS);
        CHECK(says(err.text, "codec.", "--force", "-> ~") && memmem(err.text, strlen(err.text), names[i], strlen(names[i]) - 1) != NULL);
        index_close(&opened);
        buf_fini(&now);
    }
}

/* Very many differences still make one text that ends properly. */
static void test_compare_everything(void)
{
    struct slimset_recipe a, b;
    char glob[600];
    memset(glob, 'g', sizeof glob);
    glob[sizeof glob - 1] = '\0';
    struct slimset_rule rules[] = {{glob, 1, 0}, {glob, 2, 0}, {glob, 3, 0}};
    slimset_recipe_init(&a);
    b = a;
    b.quality = 1;
    b.seed = 1;
    b.upscale = b.lossless = b.reencode_all = b.keep_metadata = b.class_order_numeric = true;
    b.optimise = b.detect = b.follow = b.webdataset = false;
    b.rules = rules;
    b.n_rules = 3;
    CHECK(says(compare(&a, &b), "quality", "upscale", "--force"));
    CHECK(strlen(err.text) < sizeof err.text);
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    char path[300];
    snprintf(path, sizeof path, "%s/test_recipe.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(path) == NULL || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(path);
        return 1;
    }
    RUN(test_defaults);
    RUN(test_resize_words);
    RUN(test_resize_nonsense);
    RUN(test_resize_blanks_and_signs);
    RUN(test_text);
    RUN(test_every_member_is_in_the_text);
    RUN(test_compare);
    RUN(test_compare_everything);
    RUN(test_another_library_is_noticed);
    io_remove_tree(AT_FDCWD, path, &err);
    return check_done();
}
