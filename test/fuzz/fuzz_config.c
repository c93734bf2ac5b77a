/* SPDX-License-Identifier: Apache-2.0
 * The syntax of --config files. */
#include "../../cmd/config.c"

#include "fuzz.h"

struct seen {
    const char *from, *to;
    unsigned line, n;
};

static bool entry(void *arg, const struct config_entry *e)
{
    struct seen *s = arg;
    const char *strings[] = {e->name, e->key, e->key != NULL ? e->value : NULL};
    MUST(e->section <= CONFIG_FIELD && e->line >= s->line);
    for (int i = 0; i < 3; i++)
        if (strings[i] != NULL && strings[i][0] != '\0')
            MUST(strings[i] >= s->from && strings[i] + strlen(strings[i]) < s->to);
    s->line = e->line;
    return ++s->n < 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct config_fault fault = {0};
    char *bytes = malloc(n + 1);
    MUST(bytes != NULL);
    memcpy(bytes, data, n);
    struct seen s = {.from = bytes, .to = bytes + n + 1};
    if (!config_parse(bytes, n, entry, &s, &fault))
        MUST(fault.line == 0 ? s.n == 1000 : fault.text[0] != '\0' && strlen(fault.text) < sizeof fault.text);
    free(bytes);
    return 0;
}
