/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser over the table in option_table.c (calling sequence in options.h).
 */
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "text.h"

/* Words of other tools and what they are here. */
static const struct {
    const char *word, *name;
} synonyms[] = {
    {"size", "resize"},      {"max-size", "resize"},   {"out", "output"},
    {"outdir", "output"},    {"output-dir", "output"}, {"dest", "output"},
    {"workers", "jobs"},     {"threads", "jobs"},      {"processes", "jobs"},
    {"num-workers", "jobs"}, {"format", "codec"},      {"exclude", "skip"},
    {"ignore", "skip"},      {"grayscale", "channels"}, {"gray", "channels"},
    {"shuffle", "order"},    {"layout", "to"},         {"overwrite", "force"},
    {"redo", "force"},       {"optimize", "no-optimise"}, {"colour", "color"},
    {"no-colour", "no-color"}, {"reencode-all", "reencode"}, {"check-inputs", "verify-inputs"},
    {"max-errors", "max-rejects"}, {"enlarge", "upscale"}, {"background", "alpha"},
    {"silent", "quiet"},     {"filter", "resize"},
};

const struct verb_row *verb_find(const char *name)
{
    for (size_t i = 0; i < verb_table_n; i++)
        if (strcmp(verb_table[i].name, name) == 0)
            return &verb_table[i];
    return NULL;
}

const struct option_row *option_find(const char *name, size_t n, unsigned verbs)
{
    for (size_t i = 0; i < option_table_n; i++) {
        const struct option_row *r = &option_table[i];
        if ((r->verbs & verbs) != 0 && strlen(r->name) == n && memcmp(r->name, name, n) == 0)
            return r;
    }
    return NULL;
}

static const struct option_row *letter_find(char letter, unsigned verbs)
{
    for (size_t i = 0; i < option_table_n; i++)
        if ((option_table[i].verbs & verbs) != 0 && option_table[i].letter == letter)
            return &option_table[i];
    return NULL;
}

/* Edits that still count as a slip of the finger in a word of n letters. */
static unsigned slips(size_t n)
{
    return n <= 3 ? 1 : n <= 6 ? 2 : 3;
}

const char *verb_suggest(const char *word)
{
    const char *best = NULL;
    unsigned least = slips(strlen(word)) + 1;
    for (size_t i = 0; i < verb_table_n; i++) {
        unsigned d = text_distance(word, verb_table[i].name);
        if (d < least && d < strlen(verb_table[i].name)) {
            least = d;
            best = verb_table[i].name;
        }
    }
    return best;
}

/* The option of these verbs that was probably meant by `word`, NULL when none is near. */
static const char *option_suggest(const char *word, unsigned verbs)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++)
        if (strcmp(synonyms[i].word, word) == 0 &&
            option_find(synonyms[i].name, strlen(synonyms[i].name), verbs) != NULL)
            return synonyms[i].name;
    const char *best = NULL;
    size_t n = strlen(word);
    unsigned least = slips(n) + 1;
    for (size_t i = 0; i < option_table_n; i++) {
        const struct option_row *r = &option_table[i];
        if ((r->verbs & verbs) == 0 || r->hidden)
            continue;
        unsigned d = text_distance(word, r->name);
        /* The beginning of a name: an abbreviation, which other tools take. */
        if (n >= 3 && strncmp(r->name, word, n) == 0)
            d = 1;
        if (d < least && d < strlen(r->name)) {
            least = d;
            best = r->name;
        }
    }
    return best;
}

void options_init(struct options *o, const char *verb, int argc, char **argv)
{
    memset(o, 0, sizeof *o);
    o->verb = verb_find(verb);
    o->argc = argc;
    o->argv = argv;
    o->at = 1;
    o->choice = -1;
    o->args = argc > 0 ? argv + 1 : argv;
}

__attribute__((format(printf, 2, 0))) static int
fail_v(struct options *o, const char *fmt, va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    bool help = o->verb->bit == VERB_HELP;
    fprintf(stderr, "slimset %s: ", o->verb->name);
    if (o->where != NULL)
        fprintf(stderr, "%s:%u: ", o->where, o->where_line);
    fprintf(stderr, "%s\nSee: slimset help%s%s\n", text, help ? "" : " ", help ? "" : o->verb->name);
    o->exit_status = 2;
    return 2;
}

int options_fail(struct options *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(o, fmt, ap);
    va_end(ap);
    return o->exit_status;
}

bool options_bad_value(struct options *o, const char *fmt, ...)
{
    char text[512], value[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text_clean(value, sizeof value, o->value);
    options_fail(o, "%s: %s, not \"%s\"", o->shown, text, value);
    return false;
}

/* An option of another verb, a slip, or nothing we know. `word` has no dashes. */
static int fail_unknown(struct options *o, const char *typed, const char *word)
{
    char name[64], shown[120];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    text_quote(shown, sizeof shown, typed);
    const struct option_row *other = option_find(name, strlen(name), VERB_ALL);
    const char *near = option_suggest(name, o->verb->bit);
    if (near != NULL) {
        options_fail(o, "unknown option %s; did you mean --%s?", shown, near);
    } else if (other != NULL) {
        for (size_t i = 0; i < verb_table_n; i++) {
            if ((verb_table[i].bit & other->verbs) != 0) {
                options_fail(o, "%s is an option of slimset %s", shown, verb_table[i].name);
                break;
            }
        }
    } else {
        options_fail(o, "unknown option %s", shown);
    }
    return -1;
}

/* Finds o->value among the row's choices. */
static bool choose(struct options *o)
{
    o->choice = -1;
    const char *p = o->row->choices;
    size_t n = strlen(o->value);
    for (int i = 0; p != NULL; i++) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, o->value, n) == 0) {
            o->choice = i;
            return true;
        }
        p = p[len] == '|' ? p + len + 1 : NULL;
    }
    if (o->row->open)
        return true;
    char list[160];
    size_t at = 0;
    for (p = o->row->choices; *p != '\0' && at + 8 < sizeof list; p++) {
        if (*p != '|')
            list[at++] = *p;
        else
            at += (size_t)snprintf(list + at, sizeof list - at, "%s",
                                   strchr(p + 1, '|') != NULL ? ", " : " or ");
    }
    list[at] = '\0';
    return options_bad_value(o, "%s is wanted", list);
}

/* What every option goes through once its row and value are known. */
static int answer(struct options *o)
{
    if (o->row->id == OPT_HELP) {
        help_verb(stdout, o->verb);
        return -1;
    }
    if (o->row->id == OPT_VERSION) {
        help_version(stdout);
        return -1;
    }
    o->choice = -1;
    if (o->value != NULL && o->value[0] == '\0') {
        options_fail(o, "%s: an empty value makes no sense", o->shown);
        return -1;
    }
    if (o->row->choices != NULL && !choose(o))
        return -1;
    return o->row->id;
}

/* The value stands in the next argument. */
static bool take_next(struct options *o)
{
    if (o->at >= o->argc) {
        options_fail(o, "%s needs a value: %s %s", o->shown, o->shown,
                     o->row->choices != NULL && !o->row->open ? o->row->choices : o->row->arg);
        return false;
    }
    const char *v = o->argv[o->at];
    if (v[0] == '-' && v[1] == '-' && v[2] != '\0' &&
        option_find(v + 2, strcspn(v + 2, "="), o->verb->bit) != NULL) {
        /* `-o --force` would make a folder of that name. */
        options_fail(o, "%s needs a value, and %.40s is an option (if it is the value: --%s=%.40s)",
                     o->shown, v, o->row->name, v);
        return false;
    }
    o->value = v;
    o->at++;
    return true;
}

static int next_long(struct options *o, const char *arg)
{
    const char *name = arg + 2, *eq = strchr(name, '=');
    size_t n = eq != NULL ? (size_t)(eq - name) : strlen(name);
    o->row = option_find(name, n, o->verb->bit);
    if (o->row == NULL)
        return fail_unknown(o, arg, name);
    snprintf(o->shown, sizeof o->shown, "--%s", o->row->name);
    o->value = NULL;
    if (o->row->arg == NULL && eq != NULL) {
        options_fail(o, "%s takes no value", o->shown);
        return -1;
    }
    if (eq != NULL)
        o->value = eq + 1;
    else if (o->row->arg != NULL && !take_next(o))
        return -1;
    return answer(o);
}

static int next_short(struct options *o, const char *arg)
{
    char letter = *o->bundle;
    o->row = letter_find(letter, o->verb->bit);
    if (o->row == NULL) {
        /* `-resize 512`: a long name after one dash. */
        const char *word = arg + 1;
        if (option_find(word, strcspn(word, "="), o->verb->bit) != NULL) {
            options_fail(o, "unknown option -%c; did you mean -%.60s?", letter, arg);
            return -1;
        }
        char typed[8] = {'-', letter, '\0'}, shown[32];
        options_fail(o, "unknown option %s", text_quote(shown, sizeof shown, typed));
        return -1;
    }
    snprintf(o->shown, sizeof o->shown, "-%c", letter);
    o->value = NULL;
    o->bundle++;
    if (o->row->arg != NULL) {
        const char *rest = o->bundle;
        o->bundle = NULL;
        if (*rest != '\0')
            o->value = rest + (*rest == '=');
        else if (!take_next(o))
            return -1;
    } else if (*o->bundle == '\0') {
        o->bundle = NULL;
    }
    return answer(o);
}

int options_next(struct options *o)
{
    if (o->bundle != NULL)
        return next_short(o, o->argv[o->at - 1]);
    while (o->at < o->argc) {
        char *arg = o->argv[o->at++];
        if (o->only_args || arg[0] != '-' || arg[1] == '\0') {
            /* Never overtakes the reading: at most as many arguments as were read. */
            o->args[o->n_args++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            o->only_args = true;
        } else if (arg[1] == '-') {
            return next_long(o, arg);
        } else {
            o->bundle = arg + 1;
            return next_short(o, arg);
        }
    }
    return 0;
}

void options_where(struct options *o, const char *file, unsigned line)
{
    o->where = file;
    o->where_line = line;
}

int options_take(struct options *o, const char *name, const char *value)
{
    o->row = option_find(name, strlen(name), o->verb->bit);
    if (o->row != NULL && (o->row->id == OPT_HELP || o->row->id == OPT_VERSION || o->row->id == OPT_CONFIG)) {
        options_fail(o, "%s belongs on the command line", name);
        return -1;
    }
    if (o->row == NULL) {
        const char *near = option_suggest(name, o->verb->bit);
        options_fail(o, "unknown key %.60s%s%s%s", name, near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                     near != NULL ? "?" : "");
        return -1;
    }
    snprintf(o->shown, sizeof o->shown, "%s", o->row->name);
    o->value = value;
    if (o->row->arg != NULL)
        return answer(o);
    bool no = strcmp(value, "no") == 0;
    if (!no && strcmp(value, "yes") != 0) {
        options_bad_value(o, "yes or no is wanted");
        return -1;
    }
    o->value = NULL;
    o->choice = -1;
    return no ? 0 : o->row->id;
}

/* Digits at *s as a number; moves *s behind them. False: none, or over 64 bits. */
static bool read_digits(const char **s, uint64_t *number)
{
    const char *p = *s;
    uint64_t v = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (unsigned)(*p - '0'), &v))
            return false;
    }
    *s = p;
    *number = v;
    return true;
}

bool options_number(struct options *o, uint64_t min, uint64_t max, uint64_t *number)
{
    const char *s = o->value;
    uint64_t v;
    if (read_digits(&s, &v) && *s == '\0' && v >= min && v <= max) {
        *number = v;
        return true;
    }
    if (max == UINT64_MAX)
        return options_bad_value(o, "a whole number from %llu is wanted", (unsigned long long)min);
    return options_bad_value(o, "a whole number from %llu to %llu is wanted",
                             (unsigned long long)min, (unsigned long long)max);
}

/* "K", "Ki", "KB", "KiB" and so on; 0 when it is none. */
static uint64_t size_unit(const char *s)
{
    static const char letters[] = "KMGT";
    if (*s == '\0' || strcmp(s, "B") == 0)
        return 1;
    const char *at = strchr(letters, *s == 'k' ? 'K' : *s);
    bool binary = s[1] == 'i';
    const char *rest = s + 1 + binary;
    if (at == NULL || (*rest != '\0' && strcmp(rest, "B") != 0))
        return 0;
    uint64_t unit = 1;
    for (const char *p = letters; p <= at; p++)
        unit *= binary ? 1024 : 1000;
    return unit;
}

bool options_size(struct options *o, uint64_t min, uint64_t max, uint64_t *bytes)
{
    const char *s = o->value;
    uint64_t whole, part = 0, part_unit = 1, v;
    bool good = read_digits(&s, &whole);
    if (good && *s == '.') {
        const char *digits = ++s;
        /* Six digits: part * 2^40 stays within 64 bits. */
        good = read_digits(&s, &part) && s - digits <= 6;
        for (; good && digits < s; digits++)
            part_unit *= 10;
    }
    uint64_t unit = good ? size_unit(s) : 0;
    if (unit == 0 || __builtin_mul_overflow(whole, unit, &v) ||
        __builtin_add_overflow(v, part * unit / part_unit, &v))
        return options_bad_value(o, "a size such as 256M, 1G or 512Ki is wanted");
    if (v < min || v > max) {
        char lo[TEXT_NUMBER_BYTES], hi[TEXT_NUMBER_BYTES];
        return options_bad_value(o, "a size from %s to %s is wanted", text_bytes(lo, min),
                                 text_bytes(hi, max));
    }
    *bytes = v;
    return true;
}
