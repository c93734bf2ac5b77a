/* SPDX-License-Identifier: Apache-2.0 */
#include "array_choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAIN_PERCENT = 95 /* a filter must get an array to this share of the frame without one: reading it back costs more */ };

static struct array_codec asked(const struct slimset_recipe *r)
{
    if (r->layout == SLIMSET_LAYOUT_NPY)
        return (struct array_codec){.codec = SLIMSET_CODEC_NPY};
    return (struct array_codec){.codec = (uint8_t)r->array_codec, .filter = r->array_filter, .level = r->array_level};
}

static bool keeps(const struct slimset_recipe *r)
{
    return r->array_auto && r->layout == SLIMSET_LAYOUT_TREE && !r->array_asked;
}

/* Does the recipe touch values? Then keeping the bytes is no choice. */
static bool changes_values(const struct slimset_recipe *r)
{
    return r->narrow || r->cast != SLIMSET_CAST_NONE || (r->array_layout != SLIMSET_ARRAY_NONE && r->resize != SLIMSET_RESIZE_NONE);
}

/* One "codec" or "name=codec" of the params. */
static void take_choice(const char *text, size_t n, struct item_input *in)
{
    char word[128];
    struct array_codec c;
    bool automatic;
    const char *eq = memchr(text, '=', n), *from = eq != NULL ? eq + 1 : text;
    size_t m = n - (size_t)(from - text);
    if (m >= sizeof word || (eq != NULL && in->n_choices == ITEM_CHOICES_MAX))
        return;
    memcpy(word, from, m);
    word[m] = '\0';
    if (!array_codec_parse(word, &c, &automatic))
        return;
    if (eq == NULL) {
        in->array = c;
        return;
    }
    m = (size_t)(eq - text);
    if (m > ARRAY_NAME_MAX)
        return;
    memcpy(word, text, m);
    word[m] = '\0';
    in->choice[in->n_choices++] = (struct item_choice){.name_hash = array_name_hash(word), .codec = c};
}

void array_choices(const struct plan *p, const struct plan_rule *rule, bool webdataset, struct item_input *in)
{
    const struct slimset_recipe *r = plan_settings(p, rule);
    in->array = asked(r);
    in->n_choices = 0;
    for (const char *at = rule->params; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, ";");
        take_choice(at, n, in);
        at += n + (at[n] == ';');
    }
    if (keeps(r) || (webdataset && r->array_auto && !r->array_asked && r->layout != SLIMSET_LAYOUT_NPY)) {
        in->n_choices = 0;
        in->array = (struct array_codec){.codec = changes_values(r) ? SLIMSET_CODEC_NPY : SLIMSET_CODEC_KEEP};
    }
}

void array_trials_take(struct array_trials *t, const struct item_answer *a)
{
    const struct item_field *f = item_fields(a);
    const char *text = item_text(a);
    if (a->status != SLIMSET_OK)
        return;
    t->files++;
    for (uint32_t i = 0; i < a->n_fields; text += f[i].name_bytes + f[i].array_bytes, i++) {
        char name[ARRAY_NAME_MAX + 1] = "";
        unsigned k = 0;
        if (f[i].name_bytes > 0)
            array_name_clean(text, f[i].name_bytes, name);
        while (k < t->n && strcmp(t->of[k].name, name) != 0)
            k++;
        if (f[i].trial[ARRAY_PLAIN] == 0 || k == ITEM_CHOICES_MAX)
            continue;
        if (k == t->n)
            memcpy(t->of[t->n++].name, name, sizeof name);
        struct array_trial *to = &t->of[k];
        to->tried += f[i].probe_bytes;
        for (unsigned j = 0; j < 3; j++) /* a filter that one of them could not take is none for the field */
            to->size[j] = f[i].trial[j] == 0 || (to->size[j] == 0 && to->tried > f[i].probe_bytes) ? 0 : to->size[j] + f[i].trial[j];
        t->in_bytes += f[i].in_bytes;
    }
}

static uint8_t best_filter(const struct array_trial *t)
{
    uint8_t best = ARRAY_PLAIN;
    for (uint8_t k = ARRAY_SHUFFLE; k <= ARRAY_BITSHUFFLE; k++)
        if (t->size[k] > 0 && t->size[k] < t->size[best])
            best = k;
    return t->size[best] * 100 <= t->size[ARRAY_PLAIN] * GAIN_PERCENT ? best : ARRAY_PLAIN;
}

enum slimset_status array_trials_settle(const struct array_trials *t, const struct slimset_recipe *recipe, struct plan_rule *rule,
                                        const char **why, struct slimset_error *err)
{
    struct array_codec c = asked(recipe);
    char params[2048], word[64];
    uint64_t tried = 0, stored = 0;
    if (keeps(recipe)) {
        c = (struct array_codec){.codec = changes_values(recipe) ? SLIMSET_CODEC_NPY : SLIMSET_CODEC_KEEP};
        *why = "files of a tree keep their names";
    } else {
        *why = recipe->layout == SLIMSET_LAYOUT_NPY ? "rows are plain values" : recipe->array_auto ? "no filter makes it 5 % smaller" : "as asked";
    }
    bool chooses = recipe->array_auto && c.codec == SLIMSET_CODEC_NPY_ZST;
    array_codec_text(c, params, sizeof params);
    size_t at = strlen(params);
    for (unsigned i = 0; i < t->n; i++) {
        struct array_codec mine = c;
        uint8_t filter = chooses ? best_filter(&t->of[i]) : ARRAY_PLAIN;
        tried += t->of[i].tried;
        stored += c.codec == SLIMSET_CODEC_KEEP || c.codec == SLIMSET_CODEC_NPY ? t->of[i].tried
                  : chooses ? t->of[i].size[filter] : t->of[i].size[c.codec == SLIMSET_CODEC_NPY_BLOSC ? c.filter : ARRAY_PLAIN];
        if (filter == ARRAY_PLAIN)
            continue;
        mine.codec = SLIMSET_CODEC_NPY_BLOSC;
        mine.filter = filter;
        array_codec_text(mine, word, sizeof word);
        *why = "by trial on the probed files";
        if (t->of[i].name[0] == '\0') { /* .npy: the whole field */
            at = (size_t)snprintf(params, sizeof params, "%s", word);
            c = mine;
        } else {
            at += (size_t)snprintf(params + at, sizeof params - at, ";%s=%s", t->of[i].name, word);
        }
    }
    rule->codec = c.codec;
    rule->ratio = tried > 0 && stored > 0 ? (double)stored / (double)tried : 1;
    free(rule->params);
    rule->params = strdup(params);
    return rule->params != NULL ? SLIMSET_OK : err_nomem(err, at);
}
