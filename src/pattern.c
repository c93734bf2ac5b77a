/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* NAMEs are stored in lower case, so Mask is mask. */
static bool is(struct pattern_piece a, const char *word)
{
    return a.n == strlen(word) && strncasecmp(a.p, word, a.n) == 0;
}

static enum slimset_status read_name(const char *text, struct pattern *p, const char **pattern, struct slimset_error *err)
{
    const char *eq = strchr(text, '=');
    size_t n = eq != NULL ? (size_t)(eq - text) : 0;
    if (eq == NULL || n == 0 || eq[1] == '\0')
        return err_set(err, SLIMSET_USAGE, "--field %.200s: NAME=PATTERN is wanted, such as mask='masks/{}.png'", text);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
            return err_set(err, SLIMSET_USAGE, "--field %.200s: a name has letters, digits, _ and - only", text);
    if (n > PATTERN_NAME_MAX)
        return err_set(err, SLIMSET_USAGE, "--field %.200s: a name has at most %d bytes", text, PATTERN_NAME_MAX);
    p->name = (struct pattern_piece){text, n};
    *pattern = eq + 1;
    return SLIMSET_OK;
}

/* Splits [from, end) at its only *, if it has one. False: there are two. */
static bool split(const char *from, const char *end, struct pattern_piece *first, struct pattern_piece *second, bool *star)
{
    const char *at = memchr(from, '*', (size_t)(end - from));
    *star = at != NULL;
    *first = (struct pattern_piece){from, (size_t)((at != NULL ? at : end) - from)};
    *second = at != NULL ? (struct pattern_piece){at + 1, (size_t)(end - at - 1)} : (struct pattern_piece){end, 0};
    return memchr(second->p, '*', second->n) == NULL;
}

enum slimset_status pattern_parse(const char *text, struct pattern *p, struct slimset_error *err)
{
    const char *pattern = NULL;
    *p = (struct pattern){0};
    enum slimset_status st = read_name(text, p, &pattern, err);
    if (st != SLIMSET_OK)
        return st;
    while (pattern[0] == '.' && pattern[1] == '/') /* paths in a listing never begin so */
        pattern += 2;
    const char *stem = strstr(pattern, "{}");
    if (stem == NULL)
        return err_set(err, SLIMSET_USAGE, "--field %.200s: the pattern has no {}, which stands for the stem that joins files", text);
    if (strstr(stem + 2, "{}") != NULL)
        return err_set(err, SLIMSET_USAGE, "--field %.200s: {} may stand in a pattern once only", text);
    if (!split(pattern, stem, &p->head, &p->before, &p->star_before) ||
        !split(stem + 2, stem + strlen(stem), &p->behind, &p->tail, &p->star_behind))
        return err_set(err, SLIMSET_USAGE, "--field %.200s: * may stand once before {} and once behind it", text);
    return SLIMSET_OK;
}

static bool begins(const char *s, size_t n, struct pattern_piece with)
{
    return n >= with.n && memcmp(s, with.p, with.n) == 0;
}

static bool ends(const char *s, size_t n, struct pattern_piece with)
{
    return n >= with.n && memcmp(s + n - with.n, with.p, with.n) == 0;
}

/* A stem names a file: it does not end with a folder. */
static size_t stem_or_none(const char *s, size_t n)
{
    return n > 0 && s[n - 1] == '/' ? 0 : n;
}

/* The longest stem at the beginning of [s, s + n) that leaves the rest to what stands behind {}; 0 none. */
static size_t stem_of(const struct pattern *p, const char *s, size_t n)
{
    if (!p->star_behind)
        return ends(s, n, p->behind) ? stem_or_none(s, n - p->behind.n) : 0;
    if (!ends(s, n, p->tail))
        return 0;
    n -= p->tail.n;
    for (size_t star = 0; n - star > p->behind.n; star++) { /* the bytes that * takes, none of them "/" */
        if (star > 0 && s[n - star] == '/')
            return 0;
        if (ends(s, n - star, p->behind))
            return stem_or_none(s, n - star - p->behind.n);
    }
    return 0;
}

bool pattern_match(const struct pattern *p, const char *path, size_t n, struct pattern_found *found)
{
    if (!begins(path, n, p->head))
        return false;
    for (size_t star = p->head.n; star <= n; star++) { /* where the first * ends */
        if (begins(path + star, n - star, p->before)) {
            size_t at = star + p->before.n, stem = stem_of(p, path + at, n - at);
            if (stem > 0) {
                found->star = (struct pattern_piece){path + p->head.n, star - p->head.n};
                found->stem = (struct pattern_piece){path + at, stem};
                return true;
            }
        }
        if (!p->star_before || star == n || path[star] == '/')
            return false;
    }
    return false;
}

int pattern_role(const struct pattern *p)
{
    static const struct {
        const char *word;
        enum slimset_role role;
    } words[] = {{"image", SLIMSET_ROLE_IMAGE}, {"mask", SLIMSET_ROLE_MASK}, {"depth", SLIMSET_ROLE_DEPTH},
                 {"depth-map", SLIMSET_ROLE_DEPTH}, {"array", SLIMSET_ROLE_ARRAY}, {"copy", SLIMSET_ROLE_COPY}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is(p->name, words[i].word))
            return (int)words[i].role;
    return -1; /* a label may be a text or a picture: its content decides */
}

bool pattern_leads(const struct pattern *p)
{
    int role = pattern_role(p);
    return role == SLIMSET_ROLE_IMAGE || (role == -1 && !is(p->name, "label"));
}

bool pattern_same_name(const struct pattern *a, const struct pattern *b)
{
    return a->name.n == b->name.n && strncasecmp(a->name.p, b->name.p, a->name.n) == 0;
}
