/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

#include "slimset/status.h"
#include "text.h"

enum { COLUMNS = 80, HELP_INDENT = 26 };

const struct help_exit help_exit_table[] = {
    {"0", "all is well"},
    {"1", "stopped; the message says why, and the same command again continues"},
    {"2", "wrong usage, or OUT was made with other options"},
    {"3", "finished, and some inputs were rejected"},
    {"4", "verify found damage"},
    {"130, 143", "stopped by Ctrl-C or SIGTERM; the same command again continues"},
};
const size_t help_exit_table_n = sizeof help_exit_table / sizeof help_exit_table[0];

void help_version(FILE *f)
{
    fprintf(f, "slimset %s\n", slimset_version());
}

/* Writes words from column `at`, wrapped before COLUMNS, further lines from `indent`. */
static void wrap(FILE *f, const char *text, size_t n, int at, int indent)
{
    const char *end = text + n;
    bool first = true;
    while (text < end) {
        while (text < end && *text == ' ')
            text++;
        const char *word = text;
        while (text < end && *text != ' ')
            text++;
        int len = (int)(text - word);
        if (len == 0)
            break;
        if (!first && at + 1 + len > COLUMNS) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
            first = true;
        }
        fprintf(f, "%s%.*s", first ? "" : " ", len, word);
        at += len + !first;
        first = false;
    }
    putc('\n', f);
}

static void paragraphs(FILE *f, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        putc('\n', f);
        wrap(f, text, n, 0, 0);
        text += n + (text[n] == '\n');
    }
}

static void examples(FILE *f, const char *lines)
{
    while (*lines != '\0') {
        size_t n = strcspn(lines, "\t");
        const char *meaning = lines + n + 1;
        size_t m = strcspn(meaning, "\n");
        fprintf(f, "  # ");
        wrap(f, meaning, m, 4, 4);
        fprintf(f, "  %.*s\n", (int)n, lines);
        lines = meaning + m + 1;
    }
}

static void verbs(FILE *f)
{
    for (size_t i = 0; i < verb_table_n; i++) {
        const struct verb_row *v = &verb_table[i];
        char left[64];
        snprintf(left, sizeof left, "%s %s", v->name, v->args);
        fprintf(f, "  %-28s  %s\n", left, v->summary);
    }
}

void help_short(FILE *f)
{
    fputs("slimset turns an image dataset as it was collected into one as it is trained on:\n"
          "smaller images in few large files.\n\n"
          "  slimset pack photos -o packed --resize 512\n\nVerbs:\n", f);
    verbs(f);
    fputs("\nMore: slimset help, slimset help pack\n", f);
}

void help_overview(FILE *f)
{
    fputs("usage: slimset VERB ...\n\n"
          "slimset turns an image dataset as it was collected into one as it is trained on:\n"
          "smaller images in few large files (tar shards) and one index. The source is\n"
          "never touched, and nothing is lost that was not asked for or announced.\n\nVerbs:\n", f);
    verbs(f);
    fputs("\nExamples:\n", f);
    fputs("  # longest side at most 512 pixels\n"
          "  slimset pack photos -o packed --resize 512\n"
          "  # what would that do?\n"
          "  slimset plan photos --resize 512\n"
          "  # what could not be converted, and why\n"
          "  slimset ls packed --rejects\n"
          "  # is everything still as it was written?\n"
          "  slimset verify packed\n\nExit status:\n", f);
    for (size_t i = 0; i < help_exit_table_n; i++)
        fprintf(f, "  %-8s  %s\n", help_exit_table[i].status, help_exit_table[i].meaning);
    fputs("\nMore: slimset help VERB, and the manual page: slimset help --man | man -l -\n", f);
}

static void option_line(FILE *f, const struct option_row *r)
{
    char left[128];
    const char *arg = r->arg == NULL ? "" : r->choices != NULL && !r->open ? r->choices : r->arg;
    if (r->letter != 0)
        snprintf(left, sizeof left, "  -%c, --%s%s%s", r->letter, r->name, *arg ? " " : "", arg);
    else
        snprintf(left, sizeof left, "      --%s%s%s", r->name, *arg ? " " : "", arg);
    int n = (int)strlen(left);
    if (n + 2 > HELP_INDENT)
        fprintf(f, "%s\n%*s", left, HELP_INDENT, "");
    else
        fprintf(f, "%-*s", HELP_INDENT, left);
    wrap(f, r->help, strlen(r->help), HELP_INDENT, HELP_INDENT);
}

void help_verb(FILE *f, const struct verb_row *verb)
{
    fprintf(f, "usage: slimset %s%s%s%s%s\n\n", verb->name, *verb->args ? " " : "", verb->args,
            "", verb->bit & (VERB_VERSION | VERB_COMPLETION | VERB_HELP) ? "" : " [OPTION]...");
    fprintf(f, "%c%s.\n", verb->summary[0] - 'a' + 'A', verb->summary + 1);
    paragraphs(f, verb->text);
    if (verb->examples != NULL) {
        fputs("\nExamples:\n", f);
        examples(f, verb->examples);
    }
    for (int g = 0; g < GROUP_COUNT; g++) {
        bool titled = false;
        for (size_t i = 0; i < option_table_n; i++) {
            const struct option_row *r = &option_table[i];
            if (r->group != g || (r->verbs & verb->bit) == 0 || r->hidden)
                continue;
            if (!titled)
                fprintf(f, "\n%s:\n", option_group_name[g]);
            titled = true;
            option_line(f, r);
        }
    }
}

int cmd_help(int argc, char **argv)
{
    struct options o;
    bool man = false;
    options_init(&o, "help", argc, argv);
    for (int id; (id = options_next(&o)) != 0;) {
        if (id != OPT_MAN)
            return o.exit_status;
        man = true;
    }
    if (o.n_args > 1)
        return options_fail(&o, "one verb at a time");
    if (man) {
        manual_print(stdout);
    } else if (o.n_args == 0) {
        help_overview(stdout);
    } else {
        const struct verb_row *v = verb_find(o.args[0]);
        const char *near = v == NULL ? verb_suggest(o.args[0]) : NULL;
        char word[120];
        if (v == NULL && near != NULL)
            return options_fail(&o, "there is no verb \"%s\"; did you mean %s?",
                                text_clean(word, sizeof word, o.args[0]), near);
        if (v == NULL)
            return options_fail(&o, "there is no verb \"%s\"",
                                text_clean(word, sizeof word, o.args[0]));
        help_verb(stdout, v);
    }
    return 0;
}
