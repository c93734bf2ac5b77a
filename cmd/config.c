/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct parser {
    struct config_entry at; /* section and line where we are */
    struct config_fault *fault;
};

__attribute__((format(printf, 2, 3))) static bool wrong(struct parser *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->fault->text, sizeof p->fault->text, fmt, ap);
    va_end(ap);
    p->fault->line = p->at.line;
    return false;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_blanks(char *s)
{
    while (blank(*s))
        s++;
    return s;
}

/* Ends the string before the blanks at its end. */
static void trim(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && blank(s[n - 1]))
        n--;
    s[n] = '\0';
}

/* A quoted string that begins at s: *text is its content, *rest what follows. */
static bool quoted(struct parser *p, char *s, const char **text, char **rest)
{
    char quote = *s++, *to = s;
    *text = to;
    while (*s != '\0' && *s != quote) {
        if (quote == '"' && *s == '\\') {
            s++;
            if (*s != '"' && *s != '\\')
                return wrong(p, "in \"...\" a backslash stands before \" or another backslash only; use '...'");
        }
        *to++ = *s++;
    }
    if (*s == '\0')
        return wrong(p, "a quote is not closed");
    *rest = s + 1;
    *to = '\0';
    return true;
}

/* [rule "GLOB"] or [field NAME]. */
static bool read_head(struct parser *p, char *s)
{
    char *word = skip_blanks(s + 1), *name = word + strspn(word, "abcdefghijklmnopqrstuvwxyz"), *rest = NULL;
    size_t n = (size_t)(name - word);
    if (n == 4 && memcmp(word, "rule", 4) == 0)
        p->at.section = CONFIG_RULE;
    else if (n == 5 && memcmp(word, "field", 5) == 0)
        p->at.section = CONFIG_FIELD;
    else
        return wrong(p, "a section is [rule \"GLOB\"] or [field NAME]");
    if (!blank(*name) && *name != '"' && *name != '\'')
        return wrong(p, "the section has no name: [rule \"GLOB\"] or [field NAME]");
    name = skip_blanks(name);
    if (*name == '"' || *name == '\'') {
        if (!quoted(p, name, &p->at.name, &rest))
            return false;
    } else {
        rest = name + strcspn(name, " \t]");
        p->at.name = name;
    }
    char *end = skip_blanks(rest), close = *end;
    if (close != ']' || *skip_blanks(end + 1) != '\0')
        return wrong(p, "a section is a line of its own: [rule \"GLOB\"] or [field NAME]");
    *rest = '\0';
    if (p->at.name[0] == '\0')
        return wrong(p, "the section has no name: [rule \"GLOB\"] or [field NAME]");
    return true;
}

static bool read_pair(struct parser *p, char *s, struct config_entry *e)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");
    char *eq = skip_blanks(s + n), *value, *rest = NULL;
    if (n == 0 || *eq != '=')
        return wrong(p, "key = value is wanted");
    value = skip_blanks(eq + 1);
    e->key = s;
    s[n] = '\0';
    if (*value == '\0')
        return wrong(p, "%.60s has no value", s);
    if (*value == '"' || *value == '\'') {
        if (!quoted(p, value, &e->value, &rest))
            return false;
        if (*skip_blanks(rest) != '\0')
            return wrong(p, "something follows the value of %.60s", s);
        return true;
    }
    trim(value);
    e->value = value;
    return true;
}

static bool read_line(struct parser *p, char *s, config_entry_fn *fn, void *arg)
{
    s = skip_blanks(s);
    if (*s == '\0' || *s == '#' || *s == ';')
        return true;
    struct config_entry e = p->at;
    if (*s == '[') {
        if (!read_head(p, s))
            return false;
        e = p->at;
    } else if (!read_pair(p, s, &e)) {
        return false;
    }
    return fn(arg, &e);
}

bool config_parse(char *bytes, size_t n, config_entry_fn *fn, void *arg, struct config_fault *fault)
{
    struct parser p = {.at = {.section = CONFIG_TOP, .name = "", .line = 1}, .fault = fault};
    *fault = (struct config_fault){0};
    bytes[n] = '\0';
    if (n > CONFIG_BYTES_MAX)
        return wrong(&p, "the file is larger than 1 MB");
    char *s = bytes, *end = bytes + n;
    if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
        s += 3;
    for (; s < end; p.at.line++) {
        char *nl = memchr(s, '\n', (size_t)(end - s)), *stop = nl != NULL ? nl : end;
        if (memchr(s, '\0', (size_t)(stop - s)) != NULL)
            return wrong(&p, "a NUL byte: this is no text file");
        *stop = '\0';
        if (stop > s && stop[-1] == '\r')
            stop[-1] = '\0';
        if (!read_line(&p, s, fn, arg))
            return false;
        s = stop + 1;
    }
    return true;
}
