/* SPDX-License-Identifier: Apache-2.0
 *
 * The manual page, `slimset help --man`: roff with the man macros, made from the tables. No date,
 * so that the page is the same from every build of a version.
 */
#include <string.h>

#include "help.h"
#include "slimset/status.h"

/* Text that roff shall take literally: hyphens that may be copied, no requests, no escapes. */
static void roff(FILE *f, const char *s, size_t n)
{
    if (n > 0 && (s[0] == '.' || s[0] == '\''))
        fputs("\\&", f);
    for (size_t i = 0; i < n; i++) {
        switch (s[i]) {
        case '-': fputs("\\-", f); break;
        case '\\': fputs("\\e", f); break;
        case '\'': fputs("\\(aq", f); break;
        case '^': fputs("\\(ha", f); break;
        case '~': fputs("\\(ti", f); break;
        case '`': fputs("\\(ga", f); break;
        default: putc(s[i], f);
        }
    }
}

static void roff_line(FILE *f, const char *s)
{
    roff(f, s, strlen(s));
    putc('\n', f);
}

static void capitalised(FILE *f, const char *s)
{
    putc(s[0] >= 'a' && s[0] <= 'z' ? s[0] - 'a' + 'A' : s[0], f);
    roff(f, s + 1, strlen(s + 1));
    fputs(".\n", f);
}

static void man_option(FILE *f, const struct option_row *r)
{
    fputs(".TP\n", f);
    if (r->letter != 0)
        fprintf(f, "\\fB\\-%c\\fR, ", r->letter);
    fputs("\\fB\\-\\-", f);
    roff(f, r->name, strlen(r->name));
    fputs("\\fR", f);
    if (r->arg != NULL) {
        bool closed = r->choices != NULL && !r->open;
        const char *arg = closed ? r->choices : r->arg;
        fputs(closed ? " \\fB" : " \\fI", f);
        roff(f, arg, strlen(arg));
        fputs("\\fR", f);
    }
    putc('\n', f);
    capitalised(f, r->help);
}

static bool everywhere(const struct option_row *r)
{
    return r->verbs == VERB_ALL;
}

static void man_options(FILE *f, unsigned verb)
{
    for (int g = 0; g < GROUP_COUNT; g++) {
        bool titled = false;
        for (size_t i = 0; i < option_table_n; i++) {
            const struct option_row *r = &option_table[i];
            if (r->group != g || (r->verbs & verb) == 0 || r->hidden || everywhere(r))
                continue;
            /* Only pack has enough of them to need headings. */
            if (!titled && verb == VERB_PACK)
                fprintf(f, ".PP\n\\fI%s\\fR\n", option_group_name[g]);
            titled = true;
            man_option(f, r);
        }
    }
}

static void man_paragraphs(FILE *f, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        fputs(".PP\n", f);
        roff(f, text, n);
        putc('\n', f);
        text += n + (text[n] == '\n');
    }
}

static void man_examples(FILE *f)
{
    fputs(".SH EXAMPLES\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        const char *lines = verb_table[i].examples;
        while (lines != NULL && *lines != '\0') {
            size_t n = strcspn(lines, "\t");
            const char *meaning = lines + n + 1;
            size_t m = strcspn(meaning, "\n");
            fputs(".TP\n\\fB", f);
            roff(f, lines, n);
            fputs("\\fR\n", f);
            roff(f, meaning, m);
            putc('\n', f);
            lines = meaning + m + 1;
        }
    }
}

static void man_verbs(FILE *f)
{
    fputs(".SH VERBS\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        const struct verb_row *v = &verb_table[i];
        fprintf(f, ".SS \"%s\"\n", v->name);
        fprintf(f, ".B slimset %s\n", v->name);
        if (v->args[0] != '\0')
            roff_line(f, v->args);
        man_paragraphs(f, v->text);
        if (v->bit != VERB_PLAN)
            man_options(f, v->bit);
    }
    fputs(".SS \"all verbs\"\n", f);
    for (size_t i = 0; i < option_table_n; i++)
        if (everywhere(&option_table[i]))
            man_option(f, &option_table[i]);
}

void manual_print(FILE *f)
{
    fprintf(f,
            ".\\\" SPDX\\-License\\-Identifier: Apache\\-2.0\n"
            ".TH SLIMSET 1 \"\" \"slimset %s\" \"User Commands\"\n.nh\n.ad l\n",
            slimset_version());
    fputs(".SH NAME\nslimset \\- turn image datasets into what training reads fast\n"
          ".SH SYNOPSIS\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        fprintf(f, "%s.B slimset %s\n", i > 0 ? ".br\n" : "", verb_table[i].name);
        if (verb_table[i].args[0] != '\0')
            roff_line(f, verb_table[i].args);
    }
    fputs(".SH DESCRIPTION\n", f);
    roff_line(
        f, "slimset converts an image dataset offline: it resizes, re-encodes and packs into tar "
           "shards with one index, so that training reads fewer bytes from the disk and "
           "decodes fewer pixels.");
    fputs(".PP\n", f);
    roff_line(
        f, "The same source and options give the same bytes for any number of workers. A run that "
           "was stopped in any way is continued by the same command. Files are decoded by worker "
           "processes in a sandbox.");
    man_verbs(f);
    fputs(".SH \"EXIT STATUS\"\n", f);
    for (size_t i = 0; i < help_exit_table_n; i++) {
        fprintf(f, ".TP\n.B %s\n", help_exit_table[i].status);
        capitalised(f, help_exit_table[i].meaning);
    }
    fputs(".SH ENVIRONMENT\n.TP\n.B NO_COLOR\n", f);
    roff_line(f, "When set and not empty: no colours.");
    fputs(".TP\n.B TERM\n", f);
    roff_line(f, "With dumb or unset no line is redrawn: progress is a line every 30 seconds.");
    fputs(".SH FILES\n.TP\n.I OUT/slimset.index\n", f);
    roff_line(f, "The index. It is written last; without it there is no dataset.");
    fputs(".TP\n.I OUT/.slimset/\n", f);
    roff_line(f, "Work in progress, and after a finished run what makes the next one fast.");
    man_examples(f);
    fputs(".SH \"SEE ALSO\"\n.BR tar (1)\n", f);
}
