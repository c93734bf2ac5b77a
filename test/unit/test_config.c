/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h: the syntax of --config files. cmd/ is no library: the file is taken in here.
 */
#include "../../cmd/config.c"

#include <stdlib.h>

#include "check.h"

static char said[4096];
static unsigned stop_after; /* entries; 0 never */

/* "LINE section name: key=value;" */
static bool on_entry(void *arg, const struct config_entry *e)
{
    static const char *const section[] = {"top", "rule", "field"};
    unsigned *n = arg;
    size_t at = strlen(said);
    if (e->key == NULL)
        snprintf(said + at, sizeof said - at, "%u [%s %s];", e->line, section[e->section], e->name);
    else
        snprintf(said + at, sizeof said - at, "%u %s(%s) %s=%s;", e->line, section[e->section], e->name, e->key, e->value);
    return ++*n != stop_after;
}

static const char *parse_bytes(const char *text, size_t n)
{
    struct config_fault fault;
    unsigned entries = 0;
    char *bytes = malloc(n + 1); /* to the byte: a write behind is found by the sanitizer */
    memcpy(bytes, text, n);
    said[0] = '\0';
    if (!config_parse(bytes, n, on_entry, &entries, &fault)) {
        size_t at = strlen(said);
        snprintf(said + at, sizeof said - at, "!%u %s", fault.line, fault.text);
    }
    free(bytes);
    return said;
}

static const char *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static void test_pairs(void)
{
    CHECK_STR(parse(""), "");
    CHECK_STR(parse("resize = long:240"), "1 top() resize=long:240;");
    CHECK_STR(parse("\n# a\n ; b\n\tresize=240 \t\nquality =  90\n"), "4 top() resize=240;5 top() quality=90;");
    CHECK_STR(parse("a = x\r\nb = y\r\n"), "1 top() a=x;2 top() b=y;");
    CHECK_STR(parse("\xef\xbb\xbf" "a = x"), "1 top() a=x;");
    CHECK_STR(parse("alpha = #ff0000"), "1 top() alpha=#ff0000;"); /* no comment behind a value */
    CHECK_STR(parse("mask = a b  c"), "1 top() mask=a b  c;");
    CHECK_STR(parse("field = mask=m/{}.png"), "1 top() field=mask=m/{}.png;");
    CHECK_STR(parse("a = \xff\xc3\xa9"), "1 top() a=\xff\xc3\xa9;");
}

static void test_quotes(void)
{
    CHECK_STR(parse("a = \" x \""), "1 top() a= x ;");
    CHECK_STR(parse("a = 'x\\\"y'"), "1 top() a=x\\\"y;");
    CHECK_STR(parse("a = \"x\\\"y\\\\\"  "), "1 top() a=x\"y\\;");
    CHECK_STR(parse("a = ''"), "1 top() a=;");
    CHECK_STR(parse("a = x'y"), "1 top() a=x'y;"); /* quotes count at the beginning only */
}

static void test_sections(void)
{
    CHECK_STR(parse("a = 1\n[rule \"*.png\"]\nrole = mask\n[field depth]\npattern = d/{}\n"),
              "1 top() a=1;2 [rule *.png];3 rule(*.png) role=mask;4 [field depth];5 field(depth) pattern=d/{};");
    CHECK_STR(parse("[rule *.png]"), "1 [rule *.png];");
    CHECK_STR(parse(" [ rule  'a]b' ]  "), "1 [rule a]b];");
    CHECK_STR(parse("[rule \"a\"]\n[rule \"a\"]\nx = y"), "1 [rule a];2 [rule a];3 rule(a) x=y;");
}

static void test_faults(void)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a", "!1 key = value is wanted"},
        {"a = 1\n= b", "1 top() a=1;!2 key = value is wanted"},
        {"A = b", "!1 key = value is wanted"},
        {"a b = c", "!1 key = value is wanted"},
        {"--resize = 240", "1 top() --resize=240;"}, /* a name like any: the options know better */
        {"a =", "!1 a has no value"},
        {"a = \t ", "!1 a has no value"},
        {"a = 'x", "!1 a quote is not closed"},
        {"a = \"x\\", "!1 in \"...\" a backslash stands before \" or another backslash only; use '...'"},
        {"a = \"x\\n\"", "!1 in \"...\" a backslash stands before \" or another backslash only; use '...'"},
        {"a = 'x' y", "!1 something follows the value of a"},
        {"a = 'x' # c", "!1 something follows the value of a"},
        {"\n\n[", "!3 a section is [rule \"GLOB\"] or [field NAME]"},
        {"[top]", "!1 a section is [rule \"GLOB\"] or [field NAME]"},
        {"[Rule x]", "!1 a section is [rule \"GLOB\"] or [field NAME]"},
        {"[rules x]", "!1 a section is [rule \"GLOB\"] or [field NAME]"},
        {"[rule]", "!1 the section has no name: [rule \"GLOB\"] or [field NAME]"},
        {"[rule ]", "!1 the section has no name: [rule \"GLOB\"] or [field NAME]"},
        {"[rule \"\"]", "!1 the section has no name: [rule \"GLOB\"] or [field NAME]"},
        {"[rule x", "!1 a section is a line of its own: [rule \"GLOB\"] or [field NAME]"},
        {"[rule x y]", "!1 a section is a line of its own: [rule \"GLOB\"] or [field NAME]"},
        {"[rule x] a = b", "!1 a section is a line of its own: [rule \"GLOB\"] or [field NAME]"},
        {"[rule \"x]", "!1 a quote is not closed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(parse(cases[i].text), cases[i].want);
    CHECK_STR(parse_bytes("a = b\nc = \0d\n", 13), "1 top() a=b;!2 a NUL byte: this is no text file");
    CHECK_STR(parse_bytes("a = b\0", 6), "!1 a NUL byte: this is no text file");
}

static void test_sizes(void)
{
    static char large[CONFIG_BYTES_MAX + 1];
    memset(large, '#', sizeof large);
    CHECK_STR(parse_bytes(large, CONFIG_BYTES_MAX), "");
    CHECK_STR(parse_bytes(large, CONFIG_BYTES_MAX + 1), "!1 the file is larger than 1 MB");
    memset(large, 'k', sizeof large); /* a key without an end does not overrun the message */
    large[CONFIG_BYTES_MAX - 1] = '=';
    CHECK(strlen(parse_bytes(large, CONFIG_BYTES_MAX)) < 120);
}

static void test_stop(void)
{
    stop_after = 2;
    CHECK_STR(parse("a = 1\nb = 2\nc = 3\n"), "1 top() a=1;2 top() b=2;!0 ");
    stop_after = 0;
}

int main(void)
{
    RUN(test_pairs);
    RUN(test_quotes);
    RUN(test_sections);
    RUN(test_faults);
    RUN(test_sizes);
    RUN(test_stop);
    return check_done();
}
