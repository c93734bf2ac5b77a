/* SPDX-License-Identifier: Apache-2.0
 *
 * slimset doctor: what this machine and build give, one line each.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "print.h"
#include "slimset/doctor.h"
#include "text.h"

static const char *const word[] = {[SLIMSET_HEALTH_FACT] = "", [SLIMSET_HEALTH_GOOD] = "ok", [SLIMSET_HEALTH_LACKING] = "lacking",
                                   [SLIMSET_HEALTH_BAD] = "BAD"};

static void line(void *arg, const char *group, const char *name, enum slimset_health health, const char *text)
{
    (void)arg;
    char clean[4 * 600 + 16];
    printf("%-8s %-14s %-8s %s\n", group, name, word[health], text_clean(clean, sizeof clean, text));
    fflush(stdout);
}

static void json_line(void *arg, const char *group, const char *name, enum slimset_health health, const char *text)
{
    static const char *const state[] = {"fact", "good", "lacking", "bad"};
    (void)arg;
    printf("{\"group\":\"%s\",\"name\":\"%s\",\"state\":\"%s\",\"text\":", group, name, state[health]);
    text_json(stdout, text, strlen(text));
    puts("}");
}

int cmd_doctor(int argc, char **argv)
{
    struct options o;
    struct slimset_error err;
    bool json = false;
    options_init(&o, "doctor", argc, argv);
    for (int id; (id = options_next(&o)) != 0;) {
        if (id != OPT_JSON)
            return o.exit_status;
        json = true;
    }
    if (o.n_args != 0)
        return options_fail(&o, "no arguments are wanted");
    enum slimset_status st = slimset_doctor(json ? json_line : line, NULL, &err);
    return print_finish("doctor", st == SLIMSET_OK ? 0 : print_error("doctor", &err));
}
