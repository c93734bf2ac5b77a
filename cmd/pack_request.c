/* SPDX-License-Identifier: Apache-2.0 */
#include "pack_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack_config.h"
#include "text.h"

enum option_result { NOT_MINE, TAKEN, WRONG };

static enum option_result result(bool good)
{
    return good ? TAKEN : WRONG;
}

/* A plain decimal number ("12", "0.5"), no sign, exponent, hex or infinity; moves *s behind it. */
static bool read_decimal(const char **s, double *number)
{
    size_t digits = strspn(*s, "0123456789");
    size_t n = digits;
    if ((*s)[n] == '.')
        n += 1 + strspn(*s + n + 1, "0123456789");
    if (n == 0 || n > 24 || (n == 1 && digits == 0))
        return false;
    char text[32];
    memcpy(text, *s, n);
    text[n] = '\0';
    *number = strtod(text, NULL);
    *s += n;
    return true;
}

static bool read_alpha(struct options *o, struct slimset_recipe *recipe)
{
    static const char hex[] = "0123456789abcdef";
    recipe->alpha = SLIMSET_ALPHA_FLATTEN;
    switch (o->choice) {
    case 0: memset(recipe->background, 255, 3); return true;
    case 1: memset(recipe->background, 0, 3); return true;
    case 2: recipe->alpha = SLIMSET_ALPHA_KEEP; return true;
    case 3: recipe->alpha = SLIMSET_ALPHA_REJECT; return true;
    default: break;
    }
    bool good = o->value[0] == '#' && strlen(o->value) == 7;
    for (int i = 0; good && i < 6; i++) {
        char c = o->value[1 + i];
        const char *at = strchr(hex, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
        good = at != NULL;
        if (good)
            recipe->background[i / 2] =
                (uint8_t)(i % 2 == 0 ? (at - hex) << 4 : recipe->background[i / 2] | (at - hex));
    }
    return good ||
           options_bad_value(o, "white, black, a colour as #rrggbb, keep or reject is wanted");
}

static bool read_depth(struct options *o, struct slimset_recipe *recipe)
{
    if (o->choice >= 0) {
        recipe->depth = o->choice == 0 ? SLIMSET_DEPTH_KEEP : SLIMSET_DEPTH_8_AUTO;
        return true;
    }
    double lo, hi;
    const char *s = o->value;
    if (strncmp(s, "8:", 2) == 0) {
        s += 2;
        if (read_decimal(&s, &lo) && *s++ == ',' && read_decimal(&s, &hi) && *s == '\0' &&
            lo < hi && hi <= 65535 && lo == (double)(unsigned)lo && hi == (double)(unsigned)hi) {
            recipe->depth = SLIMSET_DEPTH_8_RANGE;
            recipe->depth_lo = lo;
            recipe->depth_hi = hi;
            return true;
        }
    }
    return options_bad_value(o, "keep, 8:auto or 8:LO,HI with whole numbers 0 <= LO < HI <= 65535 is wanted");
}

static bool read_resize(struct options *o, struct pack_request *r)
{
    struct slimset_error err;
    if (slimset_recipe_resize(&r->recipe, o->value, &err) != SLIMSET_OK) {
        /* The text names option and value; the value is as it was typed. */
        char text[sizeof err.text];
        options_fail(o, "%s", text_clean(text, sizeof text, err.text));
        return false;
    }
    r->bare_resize = o->value[strspn(o->value, "0123456789")] == '\0' ? o->value : NULL;
    return true;
}

static enum option_result pixel_option(struct options *o, int id, struct pack_request *r)
{
    struct slimset_recipe *recipe = &r->recipe;
    static const uint8_t channels[] = {0, 1, 3};
    uint64_t n = 0;
    bool good = true;
    switch (id) {
    case OPT_RESIZE: good = read_resize(o, r); break;
    case OPT_UPSCALE: recipe->upscale = true; break;
    case OPT_CODEC: recipe->output = (enum slimset_output)(SLIMSET_OUTPUT_JPEG + o->choice); break;
    case OPT_LOSSLESS: recipe->lossless = true; break;
    case OPT_REENCODE: recipe->reencode_all = true; break;
    case OPT_QUALITY:
        good = options_number(o, 1, 100, &n);
        recipe->quality = (int)n;
        break;
    case OPT_MIN_SSIM: {
        const char *s = o->value;
        good = read_decimal(&s, &recipe->min_ssim) && *s == '\0' && recipe->min_ssim > 0 && recipe->min_ssim < 1;
        good = good || options_bad_value(o, "a number between 0 and 1, such as 0.98, is wanted");
        break;
    }
    case OPT_SUBSAMPLING:
        recipe->subsampling = (enum slimset_subsampling)(SLIMSET_SUBSAMPLING_420 + o->choice % 3);
        break;
    case OPT_NO_OPTIMISE: recipe->optimise = false; break;
    case OPT_PNG_LEVEL:
        good = options_number(o, 1, 9, &n);
        recipe->png_level = (int)n;
        break;
    case OPT_KEEP_METADATA: recipe->keep_metadata = true; break;
    case OPT_ALPHA: good = read_alpha(o, recipe); break;
    case OPT_COLOR: recipe->color = o->choice == 0 ? SLIMSET_COLOR_KEEP : SLIMSET_COLOR_SRGB; break;
    case OPT_DEPTH: good = read_depth(o, recipe); break;
    case OPT_CHANNELS: recipe->channels = channels[o->choice]; break;
    default: return NOT_MINE;
    }
    return result(good);
}

bool pack_request_grow(struct options *o, void *array, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0)
        return true;
    void *grown = realloc(*(void **)array, (n == 0 ? 1 : 2 * n) * size);
    if (grown == NULL)
        options_fail(o, "out of memory");
    else
        *(void **)array = grown;
    return grown != NULL;
}

bool pack_request_rule(struct pack_request *r, struct options *o, const char *glob, int role)
{
    if (!pack_request_grow(o, &r->rules, r->recipe.n_rules, sizeof *r->rules))
        return false;
    r->rules[r->recipe.n_rules++] = (struct slimset_rule){.glob = glob, .role = role};
    return true;
}

bool pack_request_join(struct pack_request *r, struct options *o, const char *text)
{
    if (!pack_request_grow(o, &r->joins, r->recipe.n_joins, sizeof *r->joins))
        return false;
    r->joins[r->recipe.n_joins++] = (struct slimset_join){.text = text, .role = SLIMSET_RULE_NO_ROLE};
    return true;
}

static bool read_share(struct options *o, double *share)
{
    const char *s = o->value;
    return (read_decimal(&s, share) && *s == '\0' && *share <= 1) || options_bad_value(o, "a share from 0 to 1 is wanted");
}

static enum option_result array_option(struct options *o, int id, struct pack_request *r)
{
    struct slimset_recipe *recipe = &r->recipe;
    struct slimset_error err;
    enum slimset_status st = SLIMSET_OK;
    switch (id) {
    case OPT_ARRAY_CODEC: st = slimset_recipe_array_codec(recipe, o->value, &err); break;
    case OPT_NARROW: recipe->narrow = true; break;
    case OPT_CAST: st = slimset_recipe_cast(recipe, o->value, &err); break;
    case OPT_MAX_CAST_LOSS: return result(read_share(o, &recipe->max_cast_loss));
    case OPT_KEEP_ORDER: recipe->keep_order = true; break;
    case OPT_LAYOUT: recipe->array_layout = (enum slimset_array_layout)(SLIMSET_ARRAY_HW + o->choice); break;
    case OPT_RAW: st = slimset_recipe_raw(recipe, o->value, &err); break;
    case OPT_RAW_OFFSET: return result(options_number(o, 0, UINT64_C(1) << 50, &recipe->raw_offset));
    default: return NOT_MINE;
    }
    if (st != SLIMSET_OK) { /* the text names option and value; the value is as it was typed */
        char text[sizeof err.text];
        options_fail(o, "%s", text_clean(text, sizeof text, err.text));
    }
    return result(st == SLIMSET_OK);
}

static enum option_result role_option(struct options *o, int id, struct pack_request *r)
{
    int role = -1;
    switch (id) {
    case OPT_IMAGE: role = SLIMSET_ROLE_IMAGE; break;
    case OPT_MASK: role = SLIMSET_ROLE_MASK; break;
    case OPT_DEPTH_MAP: role = SLIMSET_ROLE_DEPTH; break;
    case OPT_ARRAY: role = SLIMSET_ROLE_ARRAY; break;
    case OPT_COPY: role = SLIMSET_ROLE_COPY; break;
    case OPT_SKIP: break;
    case OPT_GROUP_BY: r->recipe.group_by = o->value; return TAKEN;
    case OPT_FIELD: return result(pack_request_join(r, o, o->value));
    case OPT_MASK_FILTER: r->recipe.mask_filter = (enum slimset_mask_filter)o->choice; return TAKEN;
    case OPT_NO_DETECT: r->recipe.detect = false; return TAKEN;
    case OPT_BOXES: r->recipe.boxes = SLIMSET_BOXES_KEEP; return TAKEN;
    default: return NOT_MINE;
    }
    return result(pack_request_rule(r, o, o->value, role));
}

static enum option_result layout_option(struct options *o, int id, struct pack_request *r)
{
    struct slimset_recipe *recipe = &r->recipe;
    uint64_t n = 0;
    bool good = true;
    switch (id) {
    case OPT_TO: recipe->layout = (enum slimset_layout)(SLIMSET_LAYOUT_SHARDS + o->choice); break;
    case OPT_SHARD_SIZE:
        /* The least that holds a small sample in a tar; the most that any file system takes. */
        good = options_size(o, 1000000, UINT64_C(8000000000000), &recipe->shard_bytes);
        break;
    case OPT_SHARD_COUNT:
        good = options_number(o, 1, 1000000, &n);
        recipe->shards = (uint32_t)n;
        break;
    case OPT_ORDER: recipe->order = (enum slimset_order)(SLIMSET_ORDER_SHUFFLED + o->choice); break;
    case OPT_SEED: good = options_number(o, 0, UINT64_MAX, &recipe->seed); break;
    case OPT_CLASSES:
        recipe->classes = (enum slimset_classes)(SLIMSET_CLASSES_AUTO + o->choice);
        break;
    case OPT_CLASS_ORDER: recipe->class_order_numeric = o->choice == 1; break;
    case OPT_DALI_IDX: recipe->dali_idx = true; break;
    case OPT_ENERGON: recipe->energon = true; break;
    case OPT_MAX_PIXELS:
        /* 65,500 squared is what the limit on a side lets through. */
        good = options_number(o, 1, UINT64_C(65500) * 65500, &recipe->max_pixels);
        break;
    case OPT_NO_FOLLOW: recipe->follow = false; break;
    case OPT_NO_WEBDATASET: recipe->webdataset = false; break;
    default: return NOT_MINE;
    }
    return result(good);
}

static bool read_max_rejects(struct options *o, struct slimset_run *run)
{
    run->max_rejects = -1;
    run->max_rejects_percent = -1;
    const char *s = o->value;
    double number;
    size_t digits = strspn(s, "0123456789");
    if (s[digits] == '\0' && digits > 0 && digits <= 18) {
        run->max_rejects = (int64_t)strtoll(s, NULL, 10);
        return true;
    }
    if (read_decimal(&s, &number) && strcmp(s, "%") == 0 && number <= 100) {
        run->max_rejects_percent = number;
        return true;
    }
    return options_bad_value(o, "a number of inputs, or a percentage such as 0.5%% is wanted");
}

static enum option_result run_option(struct options *o, int id, struct pack_request *r)
{
    struct slimset_run *run = &r->run;
    uint64_t n = 0;
    bool good = true;
    switch (id) {
    case OPT_FILES_FROM: run->files_from = o->value; break;
    case OPT_NULL: run->files_from_nul = true; break;
    case OPT_VERIFY_INPUTS: run->verify_inputs = true; break;
    case OPT_OUTPUT: run->out = o->value; break;
    case OPT_JOBS:
        good = options_number(o, 0, 1024, &n);
        run->jobs = (unsigned)n;
        break;
    case OPT_IN_PROCESS: run->in_process = true; break;
    case OPT_FORCE: run->force = true; break;
    case OPT_REPLAN: run->replan = true; break;
    case OPT_STRICT: run->strict = true; break;
    case OPT_MAX_REJECTS: good = read_max_rejects(o, run); break;
    case OPT_DRY_RUN: run->dry_run = true; break;
    case OPT_WINDOW:
        good = options_number(o, 0, 100000, &n);
        run->window = (unsigned)n;
        break;
    case OPT_JSON: r->shown.json = true; break;
    case OPT_QUIET: r->shown.quiet = true; break;
    case OPT_VERBOSE: r->shown.verbose = true; break;
    case OPT_NO_COLOR: r->shown.no_color = true; break;
    case OPT_PROGRESS: r->shown.show = 1; break;
    case OPT_NO_PROGRESS: r->shown.show = -1; break;
    default: return NOT_MINE;
    }
    return result(good);
}

bool pack_request_check_pixels(struct options *o, const struct slimset_recipe *recipe)
{
    const char *wrong = NULL;
    if (recipe->lossless && (recipe->output == SLIMSET_OUTPUT_JPEG || recipe->output == SLIMSET_OUTPUT_WEBP))
        wrong = "--lossless contradicts --codec jpeg and webp";
    else if (recipe->min_ssim > 0 && (recipe->output == SLIMSET_OUTPUT_PNG || recipe->output == SLIMSET_OUTPUT_WEBP ||
                                      recipe->output == SLIMSET_OUTPUT_RAW))
        wrong = "--min-ssim is about JPEG, and --codec asks for another format";
    else if (recipe->upscale && recipe->resize == SLIMSET_RESIZE_NONE)
        wrong = "--upscale belongs to --resize, and there is no --resize";
    else if (recipe->narrow && recipe->cast != SLIMSET_CAST_NONE)
        wrong = "--narrow keeps every value and --cast does not: only one of them";
    else if (recipe->max_cast_loss > 0 && recipe->cast == SLIMSET_CAST_NONE)
        wrong = "--max-cast-loss belongs to --cast, and there is no --cast";
    else if (recipe->raw_offset > 0 && recipe->raw[0] == '\0')
        wrong = "--raw-offset belongs to --raw, and there is no --raw";
    if (wrong != NULL)
        options_fail(o, "%s", wrong);
    return wrong == NULL;
}

/* What only makes sense together, or not together. */
static bool check_whole(struct options *o, const struct pack_request *r)
{
    const struct slimset_run *run = &r->run;
    char name[200];
    const char *wrong = NULL;
    if (run->n_sources == 0 && run->files_from == NULL) {
        wrong = "no input: name folders, archives or files, or use --files-from";
    } else if (run->out == NULL && !run->dry_run) {
        if (run->n_sources > 1)
            options_fail(o, "the output folder is missing; did you mean -o %s?",
                         text_shell(name, sizeof name, run->sources[run->n_sources - 1]));
        else
            options_fail(o, "the output folder is missing: -o OUT");
        return false;
    } else if (run->files_from_nul && run->files_from == NULL) {
        wrong = "-0 says how --files-from is read, and there is no --files-from";
    } else if (run->strict && (run->max_rejects >= 0 || run->max_rejects_percent >= 0)) {
        wrong = "--strict allows no reject, --max-rejects allows some: only one of them";
    } else if (r->shown.quiet && r->shown.verbose) {
        wrong = "--quiet and --verbose: only one of them";
    }
    if (wrong != NULL)
        options_fail(o, "%s", wrong);
    return wrong == NULL && pack_request_check_pixels(o, &r->recipe);
}

static bool take_option(struct options *o, int id, struct pack_request *r)
{
    enum option_result taken = id == OPT_CONFIG ? TAKEN : pixel_option(o, id, r); /* the file was read before */
    if (taken == NOT_MINE)
        taken = array_option(o, id, r);
    if (taken == NOT_MINE)
        taken = role_option(o, id, r);
    if (taken == NOT_MINE)
        taken = layout_option(o, id, r);
    if (taken == NOT_MINE)
        taken = run_option(o, id, r);
    return taken == TAKEN;
}

/* The file of --config: it is read before the command line, which has the last word. False: there are two of them. */
static bool find_config(struct options *o, const char **file)
{
    for (int i = 1; i < o->argc && strcmp(o->argv[i], "--") != 0; i++) {
        const char *value = NULL;
        if (strncmp(o->argv[i], "--config=", 9) == 0)
            value = o->argv[i] + 9;
        else if (strcmp(o->argv[i], "--config") == 0 && i + 1 < o->argc)
            value = o->argv[++i];
        if (value != NULL && *file != NULL) {
            options_fail(o, "--config may be given once");
            return false;
        }
        if (value != NULL && value[0] != '\0')
            *file = value;
    }
    return true;
}

bool pack_request_parse(struct pack_request *r, int argc, char **argv, int *exit_status)
{
    memset(r, 0, sizeof *r);
    slimset_recipe_init(&r->recipe);
    slimset_run_init(&r->run);
    r->shown.verb = argv[0];
    struct options o;
    options_init(&o, argv[0], argc, argv);
    const char *config = NULL;
    *exit_status = 2;
    r->run.dry_run = o.verb->bit == VERB_PLAN;
    if (!find_config(&o, &config) || (config != NULL && !pack_config_read(r, &o, config, take_option)))
        return false;
    for (int id; (id = options_next(&o)) != 0;) {
        if (id < 0 || !take_option(&o, id, r)) {
            *exit_status = o.exit_status;
            return false;
        }
    }
    if (config != NULL && !pack_config_apply(r, &o, take_option))
        return false;
    r->recipe.rules = r->recipe.n_rules > 0 ? r->rules : NULL;
    r->recipe.joins = r->recipe.n_joins > 0 ? r->joins : NULL;
    r->run.sources = (const char *const *)o.args;
    r->run.n_sources = o.n_args;
    return check_whole(&o, r);
}

const char *pack_request_resume(const struct pack_request *r, enum slimset_status status)
{
    bool kept = status == SLIMSET_INTERRUPTED || status == SLIMSET_IO || status == SLIMSET_LIMIT ||
                status == SLIMSET_NO_MEMORY;
    return kept && !r->run.dry_run ? "What is finished is kept: the same command again continues."
                                   : NULL;
}

void pack_request_fini(struct pack_request *r)
{
    free(r->rules);
    r->rules = NULL;
    free(r->joins);
    r->joins = NULL;
    pack_config_fini(&r->config);
}
