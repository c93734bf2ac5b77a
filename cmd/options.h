/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: one table of verbs and one of options (options.c). The parser, the help, the
 * man page and the shell completions are all made from them, so none can know an option that
 * another does not.
 *
 * A verb reads its command line like this (argv[0] is the verb):
 *
 *   struct options o;
 *   options_init(&o, "ls", argc, argv);
 *   for (int id; (id = options_next(&o)) != 0;) {
 *       uint64_t n;
 *       switch (id) {
 *       case OPT_JSON: json = true; break;
 *       case OPT_KEY: key = o.value; break;
 *       case OPT_LIMIT:
 *           if (!options_number(&o, 1, UINT64_MAX, &limit))
 *               return o.exit_status;
 *           break;
 *       default: return o.exit_status;   // negative: an error was printed, or help
 *       }
 *   }
 *   if (o.n_args != 1)
 *       return options_fail(&o, "one dataset is wanted, %zu were given", o.n_args);
 *   // o.args[0] ...
 *
 * GNU conventions: `--long VALUE`, `--long=VALUE`, `-oVALUE`, `-o VALUE`, bundles of short letters
 * (`-nq`), options and arguments in any order, `--` ends the options, "-" is an argument. No
 * abbreviations. -h, --help, -V and --version are answered by options_next itself. Errors go to
 * stderr as one line and a hint. Nothing is allocated: o.args is argv itself, compacted in place.
 * Owner of all strings: argv.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTIONS_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Which verbs an option belongs to. */
enum verb_bit {
    VERB_PACK = 1 << 0,
    VERB_PLAN = 1 << 1,
    VERB_LS = 1 << 2,
    VERB_GET = 1 << 3,
    VERB_VERIFY = 1 << 4,
    VERB_HELP = 1 << 5,
    VERB_VERSION = 1 << 6,
    VERB_COMPLETION = 1 << 7,
    VERB_DOCTOR = 1 << 8,
    VERB_ALL = (1 << 9) - 1
};

/* What options_next returns; 0 is its end, negative its stop. */
enum option_id {
    OPT_HELP = 1, OPT_VERSION,
    /* pack, plan: pixels */
    OPT_RESIZE, OPT_UPSCALE, OPT_CODEC, OPT_LOSSLESS, OPT_REENCODE, OPT_QUALITY, OPT_MIN_SSIM, OPT_SUBSAMPLING,
    OPT_NO_OPTIMISE, OPT_PNG_LEVEL, OPT_KEEP_METADATA, OPT_ALPHA, OPT_COLOR, OPT_DEPTH,
    OPT_CHANNELS,
    /* arrays */
    OPT_ARRAY_CODEC, OPT_NARROW, OPT_CAST, OPT_MAX_CAST_LOSS, OPT_KEEP_ORDER, OPT_LAYOUT, OPT_RAW, OPT_RAW_OFFSET,
    /* roles */
    OPT_IMAGE, OPT_MASK, OPT_MASK_FILTER, OPT_DEPTH_MAP, OPT_ARRAY, OPT_COPY, OPT_SKIP, OPT_FIELD, OPT_GROUP_BY, OPT_NO_DETECT, OPT_BOXES,
    /* layout */
    OPT_TO, OPT_SHARD_SIZE, OPT_SHARD_COUNT, OPT_ORDER, OPT_SEED, OPT_CLASSES, OPT_CLASS_ORDER, OPT_DALI_IDX, OPT_ENERGON,
    /* input */
    OPT_CONFIG, OPT_MAX_PIXELS, OPT_NO_FOLLOW, OPT_NO_WEBDATASET, OPT_FILES_FROM, OPT_NULL, OPT_VERIFY_INPUTS,
    /* the run */
    OPT_OUTPUT, OPT_JOBS, OPT_IN_PROCESS, OPT_FORCE, OPT_REPLAN, OPT_STRICT, OPT_MAX_REJECTS,
    OPT_DRY_RUN, OPT_WINDOW,
    /* what is shown */
    OPT_JSON, OPT_QUIET, OPT_VERBOSE, OPT_NO_COLOR, OPT_PROGRESS, OPT_NO_PROGRESS,
    /* ls */
    OPT_CSV, OPT_REJECTS, OPT_LEFT_OUT, OPT_SHARDS, OPT_FIELDS, OPT_META, OPT_SPLIT, OPT_CLASS,
    OPT_KEY, OPT_NOTE, OPT_LIMIT,
    /* get */
    OPT_AS,
    /* verify */
    OPT_DECODE, OPT_FIX,
    /* help */
    OPT_MAN
};

/* Groups order the help. */
enum option_group {
    GROUP_PIXELS, GROUP_ARRAYS, GROUP_ROLES, GROUP_LAYOUT, GROUP_INPUT, GROUP_RUN, GROUP_LIST, GROUP_SHOW,
    GROUP_COUNT
};

/* What a value names, for the shell completions. */
enum option_arg { ARG_WORD, ARG_FILE, ARG_FOLDER };

struct option_row {
    int id;              /* enum option_id */
    const char *name;    /* long name without the dashes, never NULL */
    char letter;         /* short form, 0 none */
    uint16_t verbs;      /* enum verb_bit mask; a name occurs once a verb */
    uint8_t group;       /* enum option_group */
    uint8_t arg_kind;    /* enum option_arg */
    bool hidden;         /* alternative spelling: parsed, not shown */
    bool open;           /* values besides `choices` are let through */
    const char *arg;     /* placeholder of the value, NULL: takes none */
    const char *choices; /* "jpeg|png": the values there are, NULL: any */
    const char *help;    /* one sentence, lower case, no full stop */
};

struct verb_row {
    unsigned bit;         /* enum verb_bit */
    const char *name;
    const char *args;     /* "SRC... -o OUT" */
    const char *summary;  /* one line */
    const char *text;     /* paragraphs, split by '\n' */
    const char *examples; /* lines "command\tmeaning\n", may be NULL */
};

extern const struct option_row option_table[];
extern const size_t option_table_n;
extern const struct verb_row verb_table[];
extern const size_t verb_table_n;
extern const char *const option_group_name[GROUP_COUNT];

struct options {
    /* results; read-only for the caller */
    const char *value;  /* of the option just returned, NULL when it takes none */
    int choice;         /* its place in the row's choices, -1 none of them */
    char **args;        /* arguments that are no options, complete after the end */
    size_t n_args;
    int exit_status;    /* to return after a negative or false answer: 2, or 0 after help */
    /* the parser's own */
    const struct verb_row *verb;
    const struct option_row *row; /* the option just returned */
    int argc, at;
    char **argv;
    const char *bundle;           /* rest of "-nq", NULL none */
    bool only_args;               /* "--" was seen */
    char shown[80];               /* the option as typed, for messages */
    const char *where;            /* the file whose line is read, NULL: the command line */
    unsigned where_line;
};

/* `verb` is a name in verb_table; argv[0] is skipped. argv is reordered. */
void options_init(struct options *o, const char *verb, int argc, char **argv);

/* The next option's enum option_id; 0 when all is read (args are complete); -1 when the verb must
 * return o->exit_status: an error was printed (2) or --help, --version answered (0). */
int options_next(struct options *o);

/* What follows comes from a line of a file, which messages then name; NULL: from the command line again. `file` must stay. */
void options_where(struct options *o, const char *file, unsigned line);

/* As options_next, for "name = value" in a file; options without a value take yes or no. 0: it was no, and o->row says of which. */
int options_take(struct options *o, const char *name, const char *value);

/* Prints "slimset VERB: TEXT" and the hint to stderr; sets exit_status and returns it: always 2. */
int options_fail(struct options *o, const char *fmt, ...) OPTIONS_PRINTF(2, 3);

/* As options_fail for a wrong value of the option just returned: "--limit: TEXT, not "VALUE"".
 * Returns false. */
bool options_bad_value(struct options *o, const char *fmt, ...) OPTIONS_PRINTF(2, 3);

/* The value of the option just returned as a whole number min..max; false: an error was printed. */
bool options_number(struct options *o, uint64_t min, uint64_t max, uint64_t *number);

/* The same as a number of bytes: "256M" (K M G T are powers of 1000, Ki Mi Gi Ti of 1024, B may
 * follow). */
bool options_size(struct options *o, uint64_t min, uint64_t max, uint64_t *bytes);

/* The verb of that name, NULL when there is none. */
const struct verb_row *verb_find(const char *name);

/* The row of a long name for a verb mask, NULL when there is none. */
const struct option_row *option_find(const char *name, size_t n, unsigned verbs);

/* The name in the table of verbs that looks most like `word`, NULL when none is close. */
const char *verb_suggest(const char *word);

/* The verbs. argv[0] is the verb; the exit status is returned. Each in cmd_<verb>.c. */
int cmd_pack(int argc, char **argv); /* also plan */
int cmd_ls(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_completion(int argc, char **argv);

#endif
