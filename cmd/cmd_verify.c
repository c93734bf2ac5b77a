/* SPDX-License-Identifier: Apache-2.0
 *
 * slimset verify OUT: findings on stdout, one a line, the summary last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "print.h"
#include "slimset/pack.h"
#include "text.h"
#include "verify_fix.h"

static struct slimset_text text_of(const char *s)
{
    return s != NULL ? (struct slimset_text){s, strlen(s)} : (struct slimset_text){"", 0};
}

static void json_member(const char *name, const char *value)
{
    printf("\"%s\":", name);
    if (value != NULL)
        text_json(stdout, value, strlen(value));
    else
        fputs("null", stdout);
}

static const char note_mark[] = "note: ";

static void finding_json(void *arg, const char *part, const char *key, const char *field,
                         const char *text)
{
    (void)arg;
    bool note = strncmp(text, note_mark, strlen(note_mark)) == 0;
    printf("{\"type\":\"%s\",", note ? "note" : "damage");
    json_member("part", part);
    putchar(',');
    json_member("key", key);
    putchar(',');
    json_member("field", field);
    putchar(',');
    json_member("text", note ? text + strlen(note_mark) : text);
    puts("}");
    fflush(stdout); /* a long check says what it finds when it finds it */
}

static void finding_line(void *arg, const char *part, const char *key, const char *field,
                         const char *text)
{
    (void)arg;
    char clean[4 * 600 + 16];
    bool note = strncmp(text, note_mark, strlen(note_mark)) == 0;
    fputs(note ? note_mark : "damage: ", stdout);
    if (part != NULL) {
        char *s = print_quoted(text_of(part));
        printf("%s: ", s);
        free(s);
    }
    if (key != NULL) {
        char *s = print_quoted(text_of(key));
        printf("sample %s", s);
        free(s);
        if (field != NULL && *field != '\0') {
            s = print_quoted(text_of(field));
            printf(" field %s", s);
            free(s);
        }
        fputs(": ", stdout);
    }
    puts(text_clean(clean, sizeof clean, note ? text + strlen(note_mark) : text));
    fflush(stdout);
}

static void summary(const struct slimset_verify_report *r, bool json)
{
    char bytes[TEXT_NUMBER_BYTES];
    if (json) {
        printf("{\"type\":\"summary\",\"parts\":%" PRIu64 ",\"samples\":%" PRIu64
               ",\"fields\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"images_decoded\":%" PRIu64
               ",\"damaged\":%" PRIu64 "}\n",
               r->parts, r->samples, r->fields, r->bytes, r->images_decoded, r->damaged);
        return;
    }
    printf("checked %" PRIu64 " part%s, %" PRIu64 " sample%s, %" PRIu64 " field%s, %s", r->parts,
           r->parts == 1 ? "" : "s", r->samples, r->samples == 1 ? "" : "s", r->fields,
           r->fields == 1 ? "" : "s", text_bytes(bytes, r->bytes));
    if (r->images_decoded != 0)
        printf(", decoded %" PRIu64 " image%s", r->images_decoded,
               r->images_decoded == 1 ? "" : "s");
    if (r->damaged == 0)
        puts(": all well");
    else
        printf(": %" PRIu64 " finding%s of damage\n", r->damaged, r->damaged == 1 ? "" : "s");
}

int cmd_verify(int argc, char **argv)
{
    struct options o;
    struct slimset_verify_report report;
    struct slimset_error err;
    bool decode = false, json = false, fix = false;
    uint64_t jobs = 0;
    options_init(&o, "verify", argc, argv);
    for (int id; (id = options_next(&o)) != 0;) {
        switch (id) {
        case OPT_DECODE: decode = true; break;
        case OPT_FIX: fix = true; break;
        case OPT_JSON: json = true; break;
        case OPT_JOBS:
            if (!options_number(&o, 1, 1024, &jobs))
                return o.exit_status;
            break;
        default: return o.exit_status;
        }
    }
    if (o.n_args != 1 && !(fix && o.n_args > 1))
        return options_fail(&o, "one dataset is wanted, %zu were given", o.n_args);
    char *out = realpath(o.args[0], NULL); /* --fix changes the working folder */
    slimset_finding_fn *fn = json ? finding_json : finding_line;
    enum slimset_status st = slimset_verify(o.args[0], decode, (unsigned)jobs, fn, NULL, &report, &err);
    bool damaged = st == SLIMSET_DAMAGED || (st == SLIMSET_NOT_FOUND && out != NULL);
    if (fix && damaged) {
        int status = verify_fix(o.args[0], o.args + 1, o.n_args - 1, (unsigned)jobs, json);
        if (status != 0) {
            free(out);
            return print_finish("verify", status);
        }
        st = slimset_verify(out != NULL ? out : o.args[0], decode, (unsigned)jobs, fn, NULL, &report, &err);
    }
    free(out);
    if (st != SLIMSET_OK && st != SLIMSET_DAMAGED)
        return print_finish("verify", print_error("verify", &err));
    summary(&report, json);
    return print_finish("verify", st == SLIMSET_OK ? 0 : 4);
}
