/* SPDX-License-Identifier: Apache-2.0
 *
 * slimset pack and slimset plan: request, run, report, exit status.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "options.h"
#include "pack_request.h"
#include "progress.h"

static int exit_status_of(enum slimset_status status, const struct slimset_report *report,
                          const struct slimset_run *run)
{
    bool budget = run->max_rejects >= 0 || run->max_rejects_percent >= 0;
    switch (status) {
    case SLIMSET_OK:
        if (report->rejects_over_budget)
            return 1;
        return report->rejects > 0 && !budget ? 3 : 0;
    case SLIMSET_USAGE:
    case SLIMSET_DIFFERS: return 2;
    case SLIMSET_INTERRUPTED: return interrupt_exit_status() != 0 ? interrupt_exit_status() : 130;
    default: return 1;
    }
}

int cmd_pack(int argc, char **argv)
{
    struct pack_request r;
    struct progress p;
    struct slimset_report report;
    struct slimset_error err;
    int exit_status = 2;
    memset(&report, 0, sizeof report);
    memset(&err, 0, sizeof err);
    char folder[4096];
    const char **words = calloc((size_t)argc + 2, sizeof *words); /* parsing compacts argv */
    bool noted = words != NULL && getcwd(folder, sizeof folder) != NULL;
    for (int i = 0; noted && i < argc; i++)
        words[i + 1] = argv[i];
    if (!pack_request_parse(&r, argc, argv, &exit_status))
        goto out;
    /* For verify --fix; a list of files on standard input cannot be read again. */
    if (noted && (r.run.files_from == NULL || strcmp(r.run.files_from, "-") != 0)) {
        words[0] = folder;
        r.run.words = words;
        r.run.n_words = (size_t)argc + 1;
    }
    progress_init(&p, &r.shown);
    if (r.bare_resize != NULL) {
        char text[160];
        snprintf(text, sizeof text,
                 "--resize %.20s is taken as long:%.20s, the longest side at most that many pixels",
                 r.bare_resize, r.bare_resize);
        progress_note(&p, text);
    }
    r.run.stop = interrupt_install();
    r.run.event = progress_event;
    r.run.event_arg = &p;

    enum slimset_status status = slimset_pack(&r.recipe, &r.run, &report, &err);
    exit_status = exit_status_of(status, &report, &r.run);
    progress_end(&p);
    if (status != SLIMSET_OK) {
        progress_error(&p, exit_status, err.text,
                       status == SLIMSET_USAGE ? "See: slimset help pack"
                                               : pack_request_resume(&r, status));
        goto out;
    }
    if (r.shown.json)
        pack_report_json(&r, &report, exit_status);
    else if (!r.shown.quiet)
        pack_report_print(&r, &report);
    else if (report.rejects > 0)
        fprintf(stderr, "slimset %s: %llu inputs were rejected\n", argv[0],
                (unsigned long long)report.rejects);
out:
    free(words);
    pack_request_fini(&r);
    return exit_status;
}
