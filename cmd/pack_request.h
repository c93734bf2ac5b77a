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

/* What --config said (pack_config.c). */
struct pack_config {
    char where[130];                /* the file's name, for messages */
    char *bytes;                    /* of the file, cut into strings */
    struct pack_section *section;
    size_t n_sections;
    struct config_entry *entry;     /* lines about pixels in sections */
    size_t n_entries;
    char **text;                    /* of joins */
    size_t n_texts;
    struct slimset_recipe *settings; /* recipe.settings points here */
    size_t n_settings;
};

struct pack_request {
    struct slimset_recipe recipe;
    struct slimset_run run;
    struct progress_options shown;
    struct slimset_rule *rules; /* owned; recipe.rules points here */
    struct slimset_join *joins; /* owned; recipe.joins points here */
    struct pack_config config;  /* owned */
    const char *bare_resize;    /* "512" given without a mode, NULL otherwise */
};

/* Room for one more in an array of n, which grows at powers of two. False: no memory, said. */
bool pack_request_grow(struct options *o, void *array, size_t n, size_t size);

/* Adds a rule or a join behind those there are. False: no memory, said. */
bool pack_request_rule(struct pack_request *r, struct options *o, const char *glob, int role);
bool pack_request_join(struct pack_request *r, struct options *o, const char *text);

/* Do the settings about pixels make sense together? False: said. */
bool pack_request_check_pixels(struct options *o, const struct slimset_recipe *recipe);

/* Reads the command line (argv[0]: "pack" or "plan") into *r. False: return *exit_status; an error
 * was printed, or help. pack_request_fini in both cases. Strings stay argv's. */
bool pack_request_parse(struct pack_request *r, int argc, char **argv, int *exit_status);
void pack_request_fini(struct pack_request *r);

/* What a run that stopped may tell: that what is finished is kept, so that the same call goes on from
 * there. NULL where that is not so. */
const char *pack_request_resume(const struct pack_request *r, enum slimset_status status);

/* The closing report for people, on stdout. */
void pack_report_print(const struct pack_request *r, const struct slimset_report *report);

/* The same as one JSON line of message_type "summary". */
void pack_report_json(const struct pack_request *r, const struct slimset_report *report,
                      int exit_status);

#endif
