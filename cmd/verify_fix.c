/* SPDX-License-Identifier: Apache-2.0
 *
 * slimset verify --fix: the words that the dataset was packed with, read again as a pack that repairs.
 */
#include "verify_fix.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "pack_request.h"
#include "print.h"
#include "text.h"

static int fail(const char *what, const char *name, const char *why)
{
    char shown[400];
    fprintf(stderr, "slimset verify: %s %s: %s\n", what, text_quote(shown, sizeof shown, name), why);
    return 1;
}

/* The command to read again: the one that is noted, or a plain pack. Its first word is the folder it was given in. */
static int read_words(const char *out, bool sources_given, char ***words, size_t *n)
{
    struct slimset_error err;
    enum slimset_status st = slimset_noted_words(out, words, n, &err);
    if (st == SLIMSET_OK && *n >= 2 && strcmp((*words)[1], "pack") == 0)
        return 0;
    if (st == SLIMSET_OK)
        free(*words);
    if (st != SLIMSET_OK && st != SLIMSET_NOT_FOUND)
        return print_error("verify", &err);
    *words = NULL;
    if (!sources_given) {
        fail("cannot fix", out, "it does not tell what it was packed from");
        fputs("Name the sources: slimset verify --fix OUT SRC... Or run the pack again that made it.\n", stderr);
        return 1;
    }
    static const char *const plain[] = {".", "pack", ".", "-o."}; /* SRC and OUT take the places of the dots */
    *n = sizeof plain / sizeof plain[0];
    *words = calloc(*n + 1, sizeof **words);
    if (*words == NULL)
        return fail("cannot fix", out, "out of memory");
    memcpy(*words, plain, sizeof plain);
    return 0;
}

/* Absolute names, since the folder is changed to where the pack was started. */
static bool absolute(char **paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *real = realpath(paths[i], NULL);
        if (real == NULL) {
            fail("cannot fix from", paths[i], strerror(errno));
            while (i-- > 0)
                free(paths[i]);
            return false;
        }
        paths[i] = real;
    }
    return true;
}

static int repair(struct pack_request *r, const char *out, bool json, struct slimset_report *report)
{
    struct progress p;
    struct slimset_error err;
    r->run.out = out;
    r->run.repair = true;
    r->run.force = r->run.replan = r->run.dry_run = r->run.strict = false;
    r->run.max_rejects = -1;
    r->run.max_rejects_percent = -1;
    r->shown = (struct progress_options){.verb = "verify", .json = false, .quiet = true};
    progress_init(&p, &r->shown);
    r->run.stop = interrupt_install();
    r->run.event = progress_event;
    r->run.event_arg = &p;
    enum slimset_status st = slimset_pack(&r->recipe, &r->run, report, &err);
    progress_end(&p);
    if (st != SLIMSET_OK && st != SLIMSET_DAMAGED) {
        print_error("verify", &err);
        if (pack_request_resume(r, st) != NULL)
            fprintf(stderr, "%s\n", pack_request_resume(r, st));
        return st == SLIMSET_INTERRUPTED && interrupt_exit_status() != 0 ? interrupt_exit_status() : 1;
    }
    if (json)
        printf("{\"type\":\"fixed\",\"shards\":%" PRIu64 ",\"lost\":%" PRIu64 "}\n", report->shards_written, report->shards_lost);
    else
        printf("fixed: %" PRIu64 " shard%s built again\n", report->shards_written, report->shards_written == 1 ? "" : "s");
    fflush(stdout);
    return 0;
}

int verify_fix(const char *out, char **sources, size_t n_sources, unsigned jobs, bool json)
{
    char **words = NULL, *paths[1] = {(char *)(uintptr_t)out};
    size_t n = 0;
    struct pack_request r;
    struct slimset_report report;
    int status = read_words(out, n_sources > 0, &words, &n);
    if (status != 0)
        return status;
    char **parsed = calloc(n, sizeof *parsed); /* parsing compacts it; the words are noted again where all is packed anew */
    if (parsed == NULL || !absolute(sources, n_sources)) {
        free(parsed);
        free(words);
        return 1;
    }
    memcpy(parsed, words + 1, (n - 1) * sizeof *parsed);
    if (!absolute(paths, 1)) {
        status = 1;
    } else if (chdir(words[0]) != 0 && n_sources == 0) {
        status = fail("cannot fix: the pack was started in", words[0], strerror(errno));
    } else if (pack_request_parse(&r, (int)n - 1, parsed, &status)) {
        if (words[0][0] == '/') { /* noted ones */
            r.run.words = (const char *const *)words;
            r.run.n_words = n;
        }
        r.run.jobs = jobs != 0 ? jobs : r.run.jobs;
        if (n_sources > 0) {
            r.run.sources = (const char *const *)sources;
            r.run.n_sources = n_sources;
            r.run.files_from = NULL;
        }
        status = repair(&r, paths[0], json, &report);
        pack_request_fini(&r);
    } else {
        pack_request_fini(&r);
    }
    if (paths[0] != out)
        free(paths[0]);
    for (size_t i = 0; i < n_sources; i++)
        free(sources[i]);
    free(parsed);
    free(words);
    return status;
}
