/* SPDX-License-Identifier: Apache-2.0 */
#include "pack_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "text.h"

/* A section, and what it says. */
struct pack_section {
    bool field;
    const char *name;      /* NAME; of a rule NULL */
    unsigned line;
    int role;
    uint8_t settings;      /* 0: it says nothing of pixels */
    size_t first, n;       /* entries of these settings */
};

struct reading {
    struct pack_request *r;
    struct options *o;
    pack_take_fn *take;
    const char *where;     /* the file's name for messages */
    unsigned seen[256];    /* by enum option_id: the line in which this section, or the top, has it; 0 not yet */
    unsigned role;         /* the same of its role */
};

static bool no_memory(struct options *o)
{
    options_fail(o, "out of memory");
    return false;
}

static void say_where(struct reading *rd, unsigned line)
{
    options_where(rd->o, rd->where, line);
}

/* The role that a word means; false: none. */
static bool role_of(const char *word, int *role)
{
    static const struct {
        const char *word;
        int role;
    } words[] = {{"image", SLIMSET_ROLE_IMAGE}, {"mask", SLIMSET_ROLE_MASK}, {"depth-map", SLIMSET_ROLE_DEPTH},
                 {"array", SLIMSET_ROLE_ARRAY}, {"copy", SLIMSET_ROLE_COPY}, {"skip", -1}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].word, word) == 0) {
            *role = words[i].role;
            return true;
        }
    return false;
}

static bool begin_section(struct reading *rd, const struct config_entry *e)
{
    struct pack_config *c = &rd->r->config;
    bool field = e->section == CONFIG_FIELD;
    for (size_t i = 0; field && i < c->n_sections; i++)
        if (c->section[i].field && strcasecmp(c->section[i].name, e->name) == 0) {
            options_fail(rd->o, "[field %.40s] stands in line %u already", e->name, c->section[i].line);
            return false;
        }
    if (!pack_request_grow(rd->o, &c->section, c->n_sections, sizeof *c->section))
        return false;
    memset(rd->seen, 0, sizeof rd->seen);
    rd->role = 0;
    c->section[c->n_sections++] = (struct pack_section){.field = field, .name = e->name, .line = e->line, .role = SLIMSET_RULE_NO_ROLE};
    return field || pack_request_rule(rd->r, rd->o, e->name, SLIMSET_RULE_NO_ROLE);
}

/* A key that stands there already: one of the two lines is a slip. Globs, patterns and lists may stand there more than once. */
static bool is_double(struct reading *rd, const struct config_entry *e)
{
    static const int many[] = {OPT_IMAGE, OPT_MASK, OPT_DEPTH_MAP, OPT_ARRAY, OPT_COPY, OPT_SKIP, OPT_FIELD, OPT_FILES_FROM};
    const struct option_row *row = option_find(e->key, strlen(e->key), rd->o->verb->bit);
    bool role = e->section != CONFIG_TOP && strcmp(e->key, "role") == 0;
    for (size_t i = 0; row != NULL && i < sizeof many / sizeof many[0]; i++)
        if (row->id == many[i])
            return false;
    if (row == NULL && !role)
        return false;
    unsigned *seen = role ? &rd->role : &rd->seen[(unsigned)row->id % 256];
    if (*seen != 0)
        options_fail(rd->o, "%.40s stands in line %u already", e->key, *seen);
    bool twice = *seen != 0;
    *seen = e->line;
    return twice;
}

/* pattern = ... of [field NAME], as --field NAME=PATTERN. */
static bool take_pattern(struct reading *rd, const struct pack_section *s, const char *pattern)
{
    struct pack_config *c = &rd->r->config;
    char *text = NULL;
    if (!pack_request_grow(rd->o, &c->text, c->n_texts, sizeof *c->text))
        return false;
    if (asprintf(&text, "%s=%s", s->name, pattern) < 0)
        return no_memory(rd->o);
    c->text[c->n_texts++] = text;
    return pack_request_join(rd->r, rd->o, text);
}

/* A line about pixels: kept until the recipe is whole. */
static bool keep_setting(struct reading *rd, struct pack_section *s, const struct config_entry *e)
{
    struct pack_config *c = &rd->r->config;
    const struct option_row *row = option_find(e->key, strlen(e->key), rd->o->verb->bit);
    if (row != NULL && row->group != GROUP_PIXELS && row->id != OPT_MASK_FILTER) {
        options_fail(rd->o, "%s stands at the top of the file or on the command line: a section has role%s and the options about pixels",
                     e->key, s->field ? ", pattern" : "");
        return false;
    }
    if (row == NULL && (text_distance(e->key, "role") == 1 || text_distance(e->key, "pattern") < 3)) {
        options_fail(rd->o, "unknown key %.60s; did you mean %s?", e->key, text_distance(e->key, "role") == 1 ? "role" : "pattern");
        return false;
    }
    if (s->settings == 0 && c->n_settings == SLIMSET_SETTINGS_MAX) {
        options_fail(rd->o, "more than %d sections with settings", SLIMSET_SETTINGS_MAX);
        return false;
    }
    if (s->settings == 0) {
        s->settings = (uint8_t)++c->n_settings;
        s->first = c->n_entries;
        if (!s->field)
            rd->r->rules[rd->r->recipe.n_rules - 1].settings = s->settings;
    }
    if (!pack_request_grow(rd->o, &c->entry, c->n_entries, sizeof *c->entry))
        return false;
    c->entry[c->n_entries++] = *e;
    s->n++;
    return true;
}

static bool take_entry(void *arg, const struct config_entry *e)
{
    struct reading *rd = arg;
    struct pack_config *c = &rd->r->config;
    say_where(rd, e->line);
    if (e->key == NULL)
        return begin_section(rd, e);
    if (is_double(rd, e))
        return false;
    if (e->section == CONFIG_TOP) {
        int id = options_take(rd->o, e->key, e->value);
        return id == 0 || (id > 0 && rd->take(rd->o, id, rd->r));
    }
    struct pack_section *s = &c->section[c->n_sections - 1];
    if (strcmp(e->key, "role") == 0) {
        if (!role_of(e->value, &s->role)) {
            char value[120];
            options_fail(rd->o, "role: image, mask, depth-map, array, copy or skip is wanted, not \"%s\"",
                         text_clean(value, sizeof value, e->value));
            return false;
        }
        if (s->field && s->role == -1) {
            options_fail(rd->o, "role: a field that is skipped makes no sense");
            return false;
        }
        if (!s->field)
            rd->r->rules[rd->r->recipe.n_rules - 1].role = s->role;
        return true;
    }
    if (s->field && strcmp(e->key, "pattern") == 0)
        return take_pattern(rd, s, e->value);
    return keep_setting(rd, s, e);
}

static bool read_file(struct pack_request *r, struct options *o, const char *file, size_t *n)
{
    char name[300];
    struct pack_config *c = &r->config;
    errno = 0;
    FILE *f = fopen(file, "rb");
    c->bytes = malloc(CONFIG_BYTES_MAX + 2);
    *n = f != NULL && c->bytes != NULL ? fread(c->bytes, 1, CONFIG_BYTES_MAX + 1, f) : 0;
    bool good = f != NULL && c->bytes != NULL && !ferror(f);
    if (!good)
        options_fail(o, "cannot read %s: %s", text_quote(name, sizeof name, file), strerror(errno));
    if (f != NULL)
        fclose(f);
    return good;
}

bool pack_config_read(struct pack_request *r, struct options *o, const char *file, pack_take_fn *take)
{
    char where[120];
    size_t n;
    struct config_fault fault;
    const char *slash = strrchr(file, '/');
    snprintf(r->config.where, sizeof r->config.where, "%s", text_quote(where, sizeof where, slash != NULL ? slash + 1 : file));
    struct reading rd = {.r = r, .o = o, .take = take, .where = r->config.where};
    if (!read_file(r, o, file, &n))
        return false;
    bool good = config_parse(r->config.bytes, n, take_entry, &rd, &fault);
    if (!good && fault.line != 0) {
        say_where(&rd, fault.line);
        options_fail(o, "%s", fault.text);
    }
    options_where(o, NULL, 0);
    return good;
}

/* The joins of a section's NAME, wherever their patterns stand. */
static bool give_to_joins(struct pack_request *r, struct options *o, const struct pack_section *s)
{
    size_t n = strlen(s->name), found = 0;
    for (size_t i = 0; i < r->recipe.n_joins; i++) {
        struct slimset_join *j = &r->joins[i];
        if (strncasecmp(j->text, s->name, n) != 0 || j->text[n] != '=')
            continue;
        j->role = s->role;
        j->settings = s->settings;
        found++;
    }
    if (found == 0)
        options_fail(o, "[field %.40s] has no pattern: pattern = 'FOLDER/{}.EXT' here, or --field %.40s=...", s->name, s->name);
    return found > 0;
}

/* "lossless = no" in a section, where the top has yes. */
static void unset(struct slimset_recipe *recipe, int id)
{
    switch (id) {
    case OPT_UPSCALE: recipe->upscale = false; break;
    case OPT_LOSSLESS: recipe->lossless = false; break;
    case OPT_KEEP_METADATA: recipe->keep_metadata = false; break;
    case OPT_NO_OPTIMISE: recipe->optimise = true; break;
    default: break;
    }
}

bool pack_config_apply(struct pack_request *r, struct options *o, pack_take_fn *pixels)
{
    struct pack_config *c = &r->config;
    struct pack_request over;
    c->settings = calloc(c->n_settings + 1, sizeof *c->settings);
    if (c->settings == NULL)
        return no_memory(o);
    for (size_t i = 0; i < c->n_sections; i++) {
        const struct pack_section *s = &c->section[i];
        options_where(o, c->where, s->line);
        if (s->field && !give_to_joins(r, o, s))
            return false;
        if (s->settings == 0)
            continue;
        over = (struct pack_request){.recipe = r->recipe};
        for (size_t k = s->first; k < s->first + s->n; k++) {
            options_where(o, c->where, c->entry[k].line);
            int id = options_take(o, c->entry[k].key, c->entry[k].value);
            if (id < 0 || (id > 0 && !pixels(o, id, &over)))
                return false;
            if (id == 0)
                unset(&over.recipe, o->row->id);
            over.recipe.own_size |= id == OPT_RESIZE;
        }
        options_where(o, c->where, s->line);
        if (!pack_request_check_pixels(o, &over.recipe))
            return false;
        over.recipe.rules = NULL;
        over.recipe.group_by = NULL;
        over.recipe.joins = NULL;
        over.recipe.n_rules = over.recipe.n_joins = 0;
        c->settings[s->settings - 1] = over.recipe;
    }
    options_where(o, NULL, 0);
    r->recipe.settings = c->n_settings > 0 ? c->settings : NULL;
    r->recipe.n_settings = c->n_settings;
    return true;
}

void pack_config_fini(struct pack_config *c)
{
    for (size_t i = 0; i < c->n_texts; i++)
        free(c->text[i]);
    free(c->text);
    free(c->section);
    free(c->entry);
    free(c->settings);
    free(c->bytes);
    *c = (struct pack_config){0};
}
