/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: finds the verb, runs it, and makes sure that what it printed was really written.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "help.h"
#include "options.h"
#include "slimset/pack.h"
#include "text.h"

/* Verbs of other tools, and what they are here. */
static const struct {
    const char *words, *line;
} elsewhere[] = {
    {"|resize|convert|compress|shrink|downscale|thumbnail|thumbnails|transcode|reencode|optimize|",
     "slimset pack SRC -o OUT --resize 512"},
    {"|create|make|build|shard|add|import|tar|run|resume|continue|", "slimset pack SRC -o OUT"},
    {"|info|stat|stats|show|inspect|describe|", "slimset ls OUT --meta"},
    {"|list|dir|find|index|", "slimset ls OUT"},
    {"|rejects|errors|failed|", "slimset ls OUT --rejects"},
    {"|cat|read|extract|export|", "slimset get OUT KEY FIELD"},
    {"|unpack|untar|decompress|", "tar -xf OUT/NAME.tar (shards are plain tar files)"},
    {"|check|validate|fsck|test|scrub|", "slimset verify OUT"},
    {"|dry-run|dryrun|estimate|predict|preview|", "slimset plan SRC"},
    {"|usage|man|", "slimset help"},
};

static int unknown_verb(const char *word)
{
    char shown[160], wanted[64];
    text_clean(shown, sizeof shown, word);
    fprintf(stderr, "slimset: there is no verb \"%s\"", shown);
    const char *near = verb_suggest(word);
    snprintf(wanted, sizeof wanted, "|%.60s|", word);
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (strchr(word, '|') == NULL && strstr(elsewhere[i].words, wanted) != NULL) {
            fprintf(stderr, "; here it is: %s\n", elsewhere[i].line);
            near = NULL;
            goto hint;
        }
    }
    if (near != NULL)
        fprintf(stderr, "; did you mean slimset %s?\n", near);
    else if (access(word, F_OK) == 0)
        fprintf(stderr, "; to pack it: slimset pack %s -o OUT\n",
                text_shell(shown, sizeof shown, word));
    else
        fputc('\n', stderr);
hint:
    fputs("See: slimset help\n", stderr);
    return 2;
}

static int cmd_version(int argc, char **argv)
{
    struct options o;
    options_init(&o, "version", argc, argv);
    if (options_next(&o) != 0)
        return o.exit_status;
    if (o.n_args > 0)
        return options_fail(&o, "no arguments are wanted");
    help_version(stdout);
    return 0;
}

static int run_verb(const struct verb_row *verb, int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* `ulimit -f` makes writing fail, and that is told */
    /* `slimset ls | head` shall end quietly; a run that packs must not end because nobody reads its
     * report. */
    if ((verb->bit & (VERB_PACK | VERB_PLAN | VERB_VERIFY)) != 0)
        signal(SIGPIPE, SIG_IGN);
    else
        signal(SIGPIPE, SIG_DFL);
    switch (verb->bit) {
    case VERB_PACK:
    case VERB_PLAN: return cmd_pack(argc, argv);
    case VERB_LS: return cmd_ls(argc, argv);
    case VERB_GET: return cmd_get(argc, argv);
    case VERB_VERIFY: return cmd_verify(argc, argv);
    case VERB_DOCTOR: return cmd_doctor(argc, argv);
    case VERB_HELP: return cmd_help(argc, argv);
    case VERB_COMPLETION: return cmd_completion(argc, argv);
    default: return cmd_version(argc, argv);
    }
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        help_short(stderr);
        return 2;
    }
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        help_overview(stdout);
        return 0;
    }
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
        help_version(stdout);
        return 0;
    }
    if (word[0] == '-') {
        char shown[160];
        fprintf(stderr, "slimset: the verb comes first, before %s\nSee: slimset help\n",
                text_quote(shown, sizeof shown, word));
        return 2;
    }
    const struct verb_row *verb = verb_find(word);
    if (verb == NULL)
        return unknown_verb(word);
    return run_verb(verb, argc - 1, argv + 1);
}

/* A file opened later must not become standard output by chance. */
static void open_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

static bool reader_left(void)
{
    struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

/* A full disk under the output is a failure; a reader that went away is its own business. */
static int finish(int status)
{
    errno = 0;
    bool failed = fflush(stdout) != 0;
    int e = errno;
    if (!failed && ferror(stdout)) { /* an earlier piece was lost, and its errno with it: ask again */
        putchar('\n');
        fflush(stdout);
        e = errno;
    }
    /* Status 1: the verb has said already what went wrong. */
    if ((!failed && !ferror(stdout)) || status == 1 || e == EPIPE || reader_left())
        return status;
    fprintf(stderr, "slimset: writing to standard output failed%s%s\n", e != 0 ? ": " : "",
            e != 0 ? strerror(e) : "");
    return status == 0 ? 1 : status;
}

int main(int argc, char **argv)
{
    int status = slimset_worker_main(argc, argv);
    if (status >= 0)
        return status;
    open_standard_descriptors();
    status = run(argc, argv);
    return finish(status);
}
