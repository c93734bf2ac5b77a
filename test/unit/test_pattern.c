/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.h: what --field patterns match, and which are refused.
 */
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static struct slimset_error err;

/* "star|stem" of a match, "-" for none. */
static const char *match(const char *text, const char *path)
{
    static char said[512];
    struct pattern p;
    struct pattern_found f;
    if (pattern_parse(text, &p, &err) != SLIMSET_OK)
        return "bad";
    /* exactly n bytes: a read behind them is one too many */
    size_t n = strlen(path);
    char *copy = malloc(n + 1);
    memcpy(copy, path, n);
    bool is = pattern_match(&p, copy, n, &f);
    snprintf(said, sizeof said, is ? "%.*s|%.*s" : "-", is ? (int)f.star.n : 0, is ? f.star.p : "", is ? (int)f.stem.n : 0,
             is ? f.stem.p : "");
    free(copy);
    return said;
}

static void test_stem(void)
{
    CHECK_STR(match("image=val/{}.png", "val/a.png"), "|a");
    CHECK_STR(match("image=val/{}.png", "val/s1/a.b.png"), "|s1/a.b"); /* {} crosses folders */
    CHECK_STR(match("image=val/{}.png", "valannot/a.png"), "-");
    CHECK_STR(match("image=val/{}.png", "x/val/a.png"), "-");
    CHECK_STR(match("image=val/{}.png", "val/a.PNG"), "-"); /* byte by byte */
    CHECK_STR(match("image=val/{}.png", "val/a.png.png"), "|a.png");
    CHECK_STR(match("image=val/{}.png", "val/.png"), "-"); /* a stem has a byte */
    CHECK_STR(match("image=val/{}.png", "val/a/.png"), "-"); /* and names a file */
    CHECK_STR(match("mask=m/{}_mask.gif", "m/x_1_mask.gif"), "|x_1");
    CHECK_STR(match("mask=m/{}_mask.gif", "m/_mask.gif"), "-");
    CHECK_STR(match("any={}", "a/b"), "|a/b");
    CHECK_STR(match("any={}", ""), "-");
    CHECK_STR(match("image=./val/{}.png", "val/a.png"), "|a");
    CHECK_STR(match("image=/data/{}.png", "/data/a.png"), "|a");
    CHECK_STR(match("image=a=b/{}.png", "a=b/1.png"), "|1");
    CHECK_STR(match("image=[ab]?/{}.png", "[ab]?/1.png"), "|1"); /* nothing else is special */
}

static void test_star(void)
{
    CHECK_STR(match("image=*/{}.png", "train/a.png"), "train|a");
    CHECK_STR(match("image=*/{}.png", "a/b/c.png"), "a|b/c"); /* * crosses no folder and is short */
    CHECK_STR(match("image=*/val/{}.png", "a/b/val/c.png"), "-");
    CHECK_STR(match("mask=*annot/{}.png", "trainannot/a.png"), "train|a");
    CHECK_STR(match("mask=*annot/{}.png", "annot/a.png"), "|a"); /* * may be nothing */
    CHECK_STR(match("mask=*annot/{}.png", "annotannot/a.png"), "annot|a");
    CHECK_STR(match("mask=m*_{}.png", "m1_2_3.png"), "1|2_3");
    CHECK_STR(match("image=i/{}.*", "i/a.tar.jpg"), "|a.tar"); /* {} is long */
    CHECK_STR(match("image=i/{}.*", "i/a"), "-");
    CHECK_STR(match("image=i/{}.*", "i/a."), "|a");
    CHECK_STR(match("image=i/{}.*", "i/.jpg"), "-");
    CHECK_STR(match("image=i/{}.*", "i/a.b/c"), "-"); /* the second * crosses no folder either */
    CHECK_STR(match("image=i/{}/*.png", "i/a/b/c.png"), "|a/b");
    CHECK_STR(match("mask=*/{}_seg*.png", "x/1_seg_v2.png"), "x|1");
}

static void test_refused(void)
{
    static const char *const bad[] = {"", "mask", "mask=", "=a/{}", "mask=a/b.png", "mask={}/{}.png", "mask=*/*/{}.png",
                                      "mask={}*/*", "ma.sk={}", "ma sk={}", "ma/sk={}",
                                      "a123456789012345678901234567890123456789x={}"};
    struct pattern p;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_INT(pattern_parse(bad[i], &p, &err), SLIMSET_USAGE);
        CHECK(strncmp(err.text, "--field ", 8) == 0);
    }
    CHECK_INT(pattern_parse("a123456789012345678901234567890123456789={}", &p, &err), SLIMSET_OK);
}

static void test_names(void)
{
    static const struct {
        const char *text;
        int role;
        bool leads;
    } cases[] = {{"image={}", SLIMSET_ROLE_IMAGE, true}, {"mask={}", SLIMSET_ROLE_MASK, false},
                 {"depth={}", SLIMSET_ROLE_DEPTH, false}, {"depth-map={}", SLIMSET_ROLE_DEPTH, false},
                 {"array={}", SLIMSET_ROLE_ARRAY, false}, {"copy={}", SLIMSET_ROLE_COPY, false},
                 {"label={}", -1, false}, {"left={}", -1, true}, {"masks={}", -1, true}, {"Image={}", SLIMSET_ROLE_IMAGE, true},
                 {"MASK={}", SLIMSET_ROLE_MASK, false}, {"Depth-Map={}", SLIMSET_ROLE_DEPTH, false}};
    struct pattern p, q;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(pattern_parse(cases[i].text, &p, &err), SLIMSET_OK);
        CHECK_INT(pattern_role(&p), cases[i].role);
        CHECK_INT(pattern_leads(&p), cases[i].leads);
    }
    pattern_parse("mask=a/{}", &p, &err);
    pattern_parse("Mask=b/{}", &q, &err);
    CHECK(pattern_same_name(&p, &q));
    pattern_parse("masks=b/{}", &q, &err);
    CHECK(!pattern_same_name(&p, &q));
}

int main(void)
{
    RUN(test_stem);
    RUN(test_star);
    RUN(test_refused);
    RUN(test_names);
    return check_done();
}
