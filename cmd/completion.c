/* SPDX-License-Identifier: Apache-2.0
 *
 * `slimset completion SHELL`: scripts for bash, zsh and fish from the tables.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"

static bool shown(const struct option_row *r, unsigned verb)
{
    return (r->verbs & verb) != 0 && !r->hidden;
}

/* Rules for globs add up; everything else is given once. */
static bool repeats(const struct option_row *r)
{
    return r->group == GROUP_ROLES && r->arg != NULL && r->choices == NULL;
}

/* The choices, separated by blanks. bash takes a word apart at ":", so that it cannot complete
 * those. */
static void choices(FILE *f, const char *list, bool colons)
{
    bool first = true;
    while (list != NULL && *list != '\0') {
        size_t n = strcspn(list, "|");
        if (colons || memchr(list, ':', n) == NULL) {
            fprintf(f, "%s%.*s", first ? "" : " ", (int)n, list);
            first = false;
        }
        list += n + (list[n] == '|');
    }
}

static void verb_names(FILE *f, const char *between)
{
    for (size_t i = 0; i < verb_table_n; i++)
        fprintf(f, "%s%s", i > 0 ? between : "", verb_table[i].name);
}

static void bash_values(FILE *f, const struct verb_row *v)
{
    for (size_t i = 0; i < option_table_n; i++) {
        const struct option_row *r = &option_table[i];
        if ((r->verbs & v->bit) == 0 || r->arg == NULL)
            continue;
        fprintf(f, "    %s:--%s", v->name, r->name);
        if (r->letter != 0)
            fprintf(f, " | %s:-%c", v->name, r->letter);
        fputs(")\n        ", f);
        if (r->choices != NULL) {
            fputs("mapfile -t COMPREPLY < <(compgen -W '", f);
            choices(f, r->choices, false);
            fputs("' -- \"$cur\")", f);
        } else if (r->arg_kind == ARG_FOLDER) {
            fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")", f);
        } else if (r->arg_kind == ARG_FILE) {
            fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")", f);
        } else {
            fputs(":", f);
        }
        fputs("\n        return ;;\n", f);
    }
}

static void bash(FILE *f)
{
    fputs(
        "# bash completion of slimset, made by: slimset completion bash\n"
        "_slimset() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= i words=\n"
        "    COMPREPLY=()\n"
        "    if [[ $cur == = ]]; then\n"
        "        cur=\n"
        "    elif [[ $prev == = && $COMP_CWORD -ge 2 ]]; then\n"
        "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
        "    fi\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case ${COMP_WORDS[i]} in\n"
        "        ",
        f);
    verb_names(f, " | ");
    fputs(") verb=${COMP_WORDS[i]}; break ;;\n"
          "        esac\n"
          "    done\n"
          "    if [[ -z $verb ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '", f);
    verb_names(f, " ");
    fputs(" --help --version' -- \"$cur\")\n"
          "        return\n"
          "    fi\n"
          "    case $verb:$prev in\n", f);
    for (size_t i = 0; i < verb_table_n; i++)
        bash_values(f, &verb_table[i]);
    fputs("    esac\n"
          "    case $verb in\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        fprintf(f, "    %s) words='", verb_table[i].name);
        bool first = true;
        for (size_t k = 0; k < option_table_n; k++) {
            if (shown(&option_table[k], verb_table[i].bit)) {
                fprintf(f, "%s--%s", first ? "" : " ", option_table[k].name);
                first = false;
            }
        }
        fputs("' ;;\n", f);
    }
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "    elif [[ $verb == completion ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$cur\")\n"
          "    elif [[ $verb == help ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '", f);
    verb_names(f, " ");
    fputs("' -- \"$cur\")\n"
          "    else\n"
          "        compopt -o filenames\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "    fi\n"
          "}\n"
          "complete -F _slimset slimset\n", f);
}

/* Text inside '...' of zsh's _arguments and _describe: colons and brackets mean something there. */
static void zsh_text(FILE *f, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '\'') {
            fputs("'\\''", f);
            continue;
        }
        if (*s == ':' || *s == '[' || *s == ']' || *s == '\\')
            putc('\\', f);
        putc(*s, f);
    }
}

static void zsh_option(FILE *f, const struct option_row *r)
{
    const char *star = repeats(r) ? "*" : "";
    for (int form = 0; form < (r->letter != 0 ? 2 : 1); form++) {
        fputs(" \\\n                '", f);
        if (r->letter != 0)
            fprintf(f, "(-%c --%s)", r->letter, r->name);
        if (form == 0)
            fprintf(f, "%s--%s%s[", star, r->name, r->arg != NULL ? "=" : "");
        else
            fprintf(f, "%s-%c%s[", star, r->letter, r->arg != NULL ? "+" : "");
        zsh_text(f, r->help);
        putc(']', f);
        if (r->arg != NULL) {
            putc(':', f);
            zsh_text(f, r->arg);
            putc(':', f);
            if (r->choices != NULL) {
                putc('(', f);
                for (const char *p = r->choices; *p != '\0'; p++) {
                    if (*p == ':')
                        putc('\\', f);
                    putc(*p == '|' ? ' ' : *p, f);
                }
                putc(')', f);
            } else {
                fputs(r->arg_kind == ARG_FOLDER ? "_files -/"
                      : r->arg_kind == ARG_FILE ? "_files"
                                                : " ",
                      f);
            }
        }
        putc('\'', f);
    }
}

static void zsh(FILE *f)
{
    fputs("#compdef slimset\n"
          "# zsh completion of slimset, made by: slimset completion zsh\n"
          "_slimset() {\n"
          "    local curcontext=$curcontext state line\n"
          "    typeset -A opt_args\n"
          "    local -a verbs=(\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        fprintf(f, "        '%s:", verb_table[i].name);
        zsh_text(f, verb_table[i].summary);
        fputs("'\n", f);
    }
    fputs("    )\n"
          "    _arguments -C '1: :->verb' '*:: :->rest'\n"
          "    case $state in\n"
          "    verb) _describe verb verbs ;;\n"
          "    rest)\n"
          "        case $words[1] in\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        const struct verb_row *v = &verb_table[i];
        fprintf(f, "        %s)\n            _arguments -s -S", v->name);
        for (size_t k = 0; k < option_table_n; k++)
            if (shown(&option_table[k], v->bit))
                zsh_option(f, &option_table[k]);
        if (v->bit == VERB_COMPLETION)
            fputs(" \\\n                '1:shell:(bash zsh fish)'", f);
        else if (v->bit == VERB_HELP)
            fputs(" \\\n                '1: :{_describe verb verbs}'", f);
        else if (v->bit != VERB_VERSION)
            fputs(" \\\n                '*:file:_files'", f);
        fputs(" ;;\n", f);
    }
    fputs("        esac ;;\n"
          "    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _slimset ]]; then\n"
          "    _slimset \"$@\"\n"
          "else\n"
          "    compdef _slimset slimset\n"
          "fi\n", f);
}

/* Inside '...' of fish. */
static void fish_text(FILE *f, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '\'' || *s == '\\')
            putc('\\', f);
        putc(*s, f);
    }
}

static void fish(FILE *f)
{
    fputs("# fish completion of slimset, made by: slimset completion fish\n", f);
    for (size_t i = 0; i < verb_table_n; i++) {
        fprintf(f, "complete -c slimset -n __fish_use_subcommand -f -a %s -d '",
                verb_table[i].name);
        fish_text(f, verb_table[i].summary);
        fputs("'\n", f);
    }
    fputs("complete -c slimset -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n"
          "complete -c slimset -n '__fish_seen_subcommand_from help' -f -a '", f);
    verb_names(f, " ");
    fputs("'\n", f);
    for (size_t k = 0; k < option_table_n; k++) {
        const struct option_row *r = &option_table[k];
        if (r->hidden)
            continue;
        fputs("complete -c slimset", f);
        if (r->verbs != VERB_ALL) {
            fputs(" -n '__fish_seen_subcommand_from", f);
            for (size_t i = 0; i < verb_table_n; i++)
                if ((verb_table[i].bit & r->verbs) != 0)
                    fprintf(f, " %s", verb_table[i].name);
            putc('\'', f);
        }
        fprintf(f, " -l %s", r->name);
        if (r->letter != 0)
            fprintf(f, " -s %c", r->letter);
        if (r->choices != NULL) {
            fputs(" -x -a '", f);
            choices(f, r->choices, true);
            putc('\'', f);
        } else if (r->arg != NULL) {
            fputs(r->arg_kind == ARG_FOLDER ? " -x -a '(__fish_complete_directories)'"
                  : r->arg_kind == ARG_FILE ? " -r -F" : " -x", f);
        }
        fputs(" -d '", f);
        fish_text(f, r->help);
        fputs("'\n", f);
    }
}

int cmd_completion(int argc, char **argv)
{
    struct options o;
    options_init(&o, "completion", argc, argv);
    if (options_next(&o) != 0)
        return o.exit_status;
    if (o.n_args != 1)
        return options_fail(&o, "name one shell: bash, zsh or fish");
    const char *shell = o.args[0];
    if (strcmp(shell, "bash") == 0)
        bash(stdout);
    else if (strcmp(shell, "zsh") == 0)
        zsh(stdout);
    else if (strcmp(shell, "fish") == 0)
        fish(stdout);
    else
        return options_fail(&o, "there are completions for bash, zsh and fish, not for \"%.40s\"",
                            shell);
    return 0;
}
