/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of pack and plan as a recipe and a run (pack_request.c), and the report at the
 * end (pack_report.c).
 */
#ifndef PACK_REQUEST_H
#define PACK_REQUEST_H

#include "options.h"
#include "progress.h"
#include "slimset/pack.h"

struct pack_request {
    struct slimset_recipe recipe;
    struct slimset_run run;
    struct progress_options shown;
    struct slimset_rule *rules; /* owned; recipe.rules points here */
    struct slimset_join *joins; /* owned; recipe.joins points here */
    const char *bare_resize;    /* "512" given without a mode, NULL otherwise */
};

/* Reads the command line (argv[0]: "pack" or "plan") into *r. False: return *exit_status; an error
 * was printed, or help. pack_request_fini in both cases. Strings stay argv's. */
bool pack_request_parse(struct pack_request *r, int argc, char **argv, int *exit_status);
void pack_request_fini(struct pack_request *r);

/* The closing report for people, on stdout. */
void pack_report_print(const struct pack_request *r, const struct slimset_report *report);

/* The same as one JSON line of message_type "summary". */
void pack_report_json(const struct pack_request *r, const struct slimset_report *report,
                      int exit_status);

#endif
