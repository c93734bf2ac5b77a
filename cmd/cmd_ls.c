/* SPDX-License-Identifier: Apache-2.0
 *
 * slimset ls OUT: what is in a dataset, as a table, as JSON lines or as CSV. One list at a time:
 * the samples, or the one that an option asks for.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "print.h"
#include "slimset/reader.h"
#include "text.h"

enum form { FORM_TABLE, FORM_JSON, FORM_CSV };
enum list { LIST_SAMPLES, LIST_REJECTS, LIST_SHARDS, LIST_FIELDS, LIST_META };

struct ls {
    enum form form;
    enum list list;
    bool rejects, left_out; /* which kinds LIST_REJECTS shows */
    const char *split, *class_name, *key, *note;
    uint32_t note_bits;
    uint64_t limit, shown;
    struct slimset_reader *r;
    struct slimset_error err;
    struct print_table table;
};

static struct slimset_text text_of(const char *s)
{
    return (struct slimset_text){s, strlen(s)};
}

static bool text_is(struct slimset_text t, const char *s)
{
    return t.n == strlen(s) && memcmp(t.bytes, s, t.n) == 0;
}

static bool glob_matches(const char *glob, struct slimset_text t)
{
    char *s = malloc(t.n + 1);
    if (s == NULL)
        return false;
    memcpy(s, t.bytes, t.n);
    s[t.n] = '\0';
    bool match = fnmatch(glob, s, 0) == 0; /* '*' crosses '/': keys are names, not folders */
    free(s);
    return match;
}

/* ---- pieces of JSON and CSV
 * ------------------------------------------------------------------------ */

static void json_text(const char *name, struct slimset_text t)
{
    printf("\"%s\":", name);
    text_json(stdout, t.bytes, t.n);
}

static void json_words(const char *name, uint32_t notes)
{
    char words[PRINT_NOTES_BYTES];
    print_notes(words, notes, "\",\"");
    printf(words[0] != '\0' ? "\"%s\":[\"%s\"]" : "\"%s\":[%s]", name, words);
}

/* Writes texts with a comma behind each; a NULL pointer ends the list (CSV adds it). */
static void csv_texts(struct slimset_text first, ...)
{
    va_list ap;
    va_start(ap, first);
    for (struct slimset_text t = first; t.bytes != NULL; t = va_arg(ap, struct slimset_text)) {
        print_csv(t);
        putchar(',');
    }
    va_end(ap);
}
#define CSV(...) csv_texts(__VA_ARGS__, (struct slimset_text){NULL, 0})

/* ---- samples
 * ---------------------------------------------------------------------------------------- */

static const char *const sample_heading[] = {"KEY",  "FIELDS", "SPLIT", "CLASS", "SIZE",
                                             "FROM", "BYTES",  "DONE",  NULL};

static void sample_csv_heading(void)
{
    puts("number,key,split,class,class_number,part,field,role,path,offset,bytes,hash,format,width,"
         "height,channels,bits,"
         "quality,source_bytes,source_hash,source_format,source_width,source_height,orientation,"
         "frames,notes,classes_lost,ssim");
}

static void field_json(const struct slimset_field_view *f)
{
    printf("{");
    json_text("name", f->name);
    printf(",\"role\":\"%s\",", f->role);
    json_text("path", f->path);
    printf(",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"hash\":\"%016" PRIx64
           "\",\"format\":\"%s\","
           "\"width\":%" PRIu32 ",\"height\":%" PRIu32
           ",\"channels\":%u,\"bits\":%u,\"quality\":%u,",
           f->offset, f->bytes, f->hash, f->format, f->w, f->h, f->channels, f->bits, f->quality);
    printf("\"source_bytes\":%" PRIu64 ",\"source_hash\":\"%016" PRIx64
           "\",\"source_format\":\"%s\","
           "\"source_width\":%" PRIu32 ",\"source_height\":%" PRIu32
           ",\"orientation\":%u,\"frames\":%" PRIu32 ",\"classes_lost\":%" PRIu32 ",",
           f->in_bytes, f->in_hash, f->in_format, f->in_w, f->in_h, f->orientation, f->frames,
           f->classes_lost);
    if (f->array.n != 0) {
        json_text(strcmp(f->role, "image") != 0 ? "array" : "profile", f->array);
        putchar(',');
    }
    if (f->ssim_e6 != 0)
        printf("\"ssim\":%.6f,", (double)f->ssim_e6 / 1e6);
    json_words("notes", f->notes);
    printf("}");
}

static void sample_json(const struct slimset_sample_view *s, const struct slimset_field_view *f)
{
    printf("{\"number\":%" PRIu64 ",", s->number);
    json_text("key", s->key);
    printf(",");
    json_text("split", s->split);
    printf(",");
    if (s->cls >= 0) {
        json_text("class", s->class_name);
        printf(",\"class_number\":%" PRId32 ",", s->cls);
    } else {
        printf("\"class\":null,\"class_number\":null,");
    }
    json_text("part", s->part_name);
    printf(",\"fields\":[");
    for (uint32_t k = 0; k < s->n_fields; k++) {
        if (k > 0)
            printf(",");
        field_json(&f[k]);
    }
    puts("]}");
}

static void sample_csv(const struct slimset_sample_view *s, const struct slimset_field_view *f)
{
    char notes[PRINT_NOTES_BYTES];
    for (uint32_t k = 0; k < s->n_fields; k++, f++) {
        printf("%" PRIu64 ",", s->number);
        CSV(s->key, s->split, s->class_name);
        if (s->cls >= 0)
            printf("%" PRId32, s->cls);
        putchar(',');
        CSV(s->part_name, f->name, text_of(f->role), f->path);
        printf("%" PRIu64 ",%" PRIu64 ",%016" PRIx64 ",%s,%" PRIu32 ",%" PRIu32 ",%u,%u,%u,",
               f->offset, f->bytes, f->hash, f->format, f->w, f->h, f->channels, f->bits,
               f->quality);
        printf("%" PRIu64 ",%016" PRIx64 ",%s,%" PRIu32 ",%" PRIu32 ",%u,%" PRIu32 ",%s,%" PRIu32 ",",
               f->in_bytes, f->in_hash, f->in_format, f->in_w, f->in_h, f->orientation, f->frames,
               print_notes(notes, f->notes, " "), f->classes_lost);
        if (f->ssim_e6 != 0)
            printf("%.6f", (double)f->ssim_e6 / 1e6);
        putchar('\n');
    }
}

static void sample_row(struct ls *ls, const struct slimset_sample_view *s,
                       const struct slimset_field_view *f)
{
    const struct slimset_field_view *image = NULL;
    uint64_t bytes = 0;
    uint32_t notes = 0;
    char names[512] = "", words[PRINT_NOTES_BYTES];
    size_t n = 0;
    for (uint32_t k = 0; k < s->n_fields; k++) {
        char *name = print_quoted(f[k].name);
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", k > 0 ? "," : "", name);
        free(name);
        if (image == NULL && f[k].w != 0)
            image = &f[k];
        bytes += f[k].bytes;
        notes |= f[k].notes;
    }
    print_cell_text(&ls->table, s->key);
    print_cell(&ls->table, names);
    print_cell_text(&ls->table, s->split);
    print_cell_text(&ls->table, s->class_name);
    if (image != NULL)
        print_cellf(&ls->table, "%" PRIu32 "x%" PRIu32, image->w, image->h);
    else
        print_cell(&ls->table, "");
    if (image != NULL && image->in_w != 0)
        print_cellf(&ls->table, "%" PRIu32 "x%" PRIu32, image->in_w, image->in_h);
    else
        print_cell(&ls->table, "");
    print_cellf(&ls->table, "%" PRIu64, bytes);
    print_cell(&ls->table, print_notes(words, notes, ","));
}

static bool sample_wanted(const struct ls *ls, const struct slimset_sample_view *s)
{
    return (ls->split == NULL || text_is(s->split, ls->split)) &&
           (ls->class_name == NULL || (s->cls >= 0 && text_is(s->class_name, ls->class_name))) &&
           (ls->key == NULL || glob_matches(ls->key, s->key));
}

/* A filter that names something which does not exist is a mistake, not an empty list. */
static enum slimset_status check_filters(struct ls *ls, const struct slimset_info *info)
{
    bool split = ls->split == NULL, class_name = ls->class_name == NULL;
    enum slimset_status st = SLIMSET_OK;
    for (uint64_t i = 0; !split && st == SLIMSET_OK && i < info->splits; i++) {
        struct slimset_split_view v;
        st = slimset_reader_split(ls->r, i, &v, &ls->err);
        split = st == SLIMSET_OK && text_is(v.name, ls->split);
    }
    for (uint64_t i = 0; !class_name && st == SLIMSET_OK && i < info->classes; i++) {
        struct slimset_text t;
        st = slimset_reader_class(ls->r, i, &t, &ls->err);
        class_name = st == SLIMSET_OK && text_is(t, ls->class_name);
    }
    if (st != SLIMSET_OK || (split && class_name))
        return st;
    ls->err.status = SLIMSET_NOT_FOUND;
    snprintf(ls->err.text, sizeof ls->err.text, "the dataset has no %s %s",
             split ? "class" : "split", split ? ls->class_name : ls->split);
    return SLIMSET_NOT_FOUND;
}

static enum slimset_status list_samples(struct ls *ls, const struct slimset_info *info)
{
    struct slimset_field_view *f = NULL;
    enum slimset_status st = check_filters(ls, info);
    if (ls->form == FORM_CSV && st == SLIMSET_OK)
        sample_csv_heading();
    ls->table.heading = sample_heading;
    ls->table.right = 1u << 4 | 1u << 5 | 1u << 6;
    for (uint64_t i = 0;
         st == SLIMSET_OK && i < info->samples && ls->shown < ls->limit && !ferror(stdout); i++) {
        struct slimset_sample_view s;
        uint32_t notes = 0;
        st = slimset_reader_sample(ls->r, i, &s, &ls->err);
        if (st != SLIMSET_OK || !sample_wanted(ls, &s))
            continue;
        struct slimset_field_view *more = realloc(f, (s.n_fields + (size_t)1) * sizeof *f);
        if (more == NULL) {
            st = ls->err.status = SLIMSET_NO_MEMORY;
            snprintf(ls->err.text, sizeof ls->err.text, "out of memory for %" PRIu32 " fields",
                     s.n_fields);
            continue;
        }
        f = more;
        for (uint32_t k = 0; st == SLIMSET_OK && k < s.n_fields; k++) {
            st = slimset_reader_field(ls->r, i, k, &f[k], &ls->err);
            notes |= st == SLIMSET_OK ? f[k].notes : 0;
        }
        if (st != SLIMSET_OK || (ls->note_bits != 0 && (notes & ls->note_bits) == 0))
            continue;
        ls->shown++;
        if (ls->form == FORM_JSON)
            sample_json(&s, f);
        else if (ls->form == FORM_CSV)
            sample_csv(&s, f);
        else
            sample_row(ls, &s, f);
    }
    free(f);
    return st;
}

/* ---- the other lists
 * -------------------------------------------------------------------------------- */

static enum slimset_status list_rejects(struct ls *ls, const struct slimset_info *info)
{
    static const char *const heading[] = {"PATH", "CLASS", "REASON", NULL};
    enum slimset_status st = SLIMSET_OK;
    ls->table.heading = heading;
    if (ls->form == FORM_CSV)
        puts("kind,class,path,reason");
    for (uint64_t i = 0; i < info->rejects && ls->shown < ls->limit && !ferror(stdout); i++) {
        struct slimset_reject_view v;
        st = slimset_reader_reject(ls->r, i, &v, &ls->err);
        if (st != SLIMSET_OK)
            break;
        bool reject = strcmp(v.kind, "reject") == 0;
        if (reject ? !ls->rejects : !ls->left_out)
            continue;
        ls->shown++;
        if (ls->form == FORM_JSON) {
            printf("{\"kind\":\"%s\",\"class\":", v.kind);
            printf(reject ? "\"%s\"," : "null,", v.reject);
            json_text("path", v.path);
            printf(",");
            json_text("reason", v.text);
            puts("}");
        } else if (ls->form == FORM_CSV) {
            CSV(text_of(v.kind), text_of(reject ? v.reject : ""), v.path);
            print_csv(v.text);
            putchar('\n');
        } else {
            print_cell_text(&ls->table, v.path);
            print_cell(&ls->table, reject ? v.reject : v.kind);
            print_cell_text(&ls->table, v.text);
        }
    }
    return st;
}

static enum slimset_status list_shards(struct ls *ls, const struct slimset_info *info)
{
    static const char *const heading[] = {"PART",    "SPLIT", "SHARD", "FIRST",
                                          "SAMPLES", "BYTES", "HASH",  NULL};
    enum slimset_status st = SLIMSET_OK;
    ls->table.heading = heading;
    ls->table.right = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5;
    if (ls->form == FORM_CSV)
        puts("part,split,shard,shard_part,first_sample,samples,bytes,hash");
    for (uint64_t i = 0; i < info->parts && ls->shown < ls->limit && !ferror(stdout); i++) {
        struct slimset_part_view v;
        st = slimset_reader_part(ls->r, i, &v, &ls->err);
        if (st != SLIMSET_OK)
            break;
        ls->shown++;
        if (ls->form == FORM_JSON) {
            printf("{");
            json_text("part", v.name);
            printf(",");
            json_text("split", v.split);
            printf(",\"shard\":%" PRIu32 ",\"shard_part\":%" PRIu32 ",\"first_sample\":%" PRIu64
                   ",\"samples\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\"}\n",
                   v.shard_number, v.part, v.first_sample, v.n_samples, v.bytes, v.hash);
        } else if (ls->form == FORM_CSV) {
            CSV(v.name, v.split);
            printf("%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%016" PRIx64 "\n",
                   v.shard_number, v.part, v.first_sample, v.n_samples, v.bytes, v.hash);
        } else {
            print_cell_text(&ls->table, v.name);
            print_cell_text(&ls->table, v.split);
            print_cellf(&ls->table, v.part != 0 ? "%" PRIu32 "-%" PRIu32 : "%" PRIu32,
                        v.shard_number, v.part);
            print_cellf(&ls->table, "%" PRIu64, v.first_sample);
            print_cellf(&ls->table, "%" PRIu64, v.n_samples);
            print_cellf(&ls->table, "%" PRIu64, v.bytes);
            print_cellf(&ls->table, "%016" PRIx64, v.hash);
        }
    }
    return st;
}

static enum slimset_status list_fields(struct ls *ls, const struct slimset_info *info)
{
    static const char *const heading[] = {"FIELD", "ROLE", "CODEC", "PROBED", "RATIO", "WHY", NULL};
    enum slimset_status st = SLIMSET_OK;
    ls->table.heading = heading;
    ls->table.right = 1u << 3 | 1u << 4;
    if (ls->form == FORM_CSV)
        puts("field,role,codec,hint,probed,ratio,why");
    for (uint64_t i = 0; i < info->rules && ls->shown < ls->limit && !ferror(stdout); i++) {
        struct slimset_rule_view v;
        st = slimset_reader_rule(ls->r, i, &v, &ls->err);
        if (st != SLIMSET_OK)
            break;
        ls->shown++;
        if (ls->form == FORM_JSON) {
            printf("{");
            json_text("field", v.name);
            printf(",\"role\":\"%s\",\"codec\":\"%s\",\"hint\":\"%s\",\"probed\":%" PRIu32
                   ",\"ratio\":%.4f,",
                   v.role, v.codec, v.hint, v.probed, v.ratio);
            json_text("params", v.params);
            printf(",");
            json_text("why", v.reason);
            puts("}");
        } else if (ls->form == FORM_CSV) {
            CSV(v.name, text_of(v.role), text_of(v.codec), text_of(v.hint));
            printf("%" PRIu32 ",%.4f,", v.probed, v.ratio);
            print_csv(v.reason);
            putchar('\n');
        } else {
            print_cell_text(&ls->table, v.name);
            print_cell(&ls->table, v.role);
            print_cell(&ls->table, v.codec);
            print_cellf(&ls->table, "%" PRIu32, v.probed);
            print_cellf(&ls->table, "%.3f", v.ratio);
            print_cell_text(&ls->table, v.reason);
        }
    }
    return st;
}

/* "name=value" lines: as they are for people, as pairs for programs. JSON: one object in all. */
static enum slimset_status list_meta(struct ls *ls)
{
    struct slimset_text meta = slimset_reader_meta(ls->r);
    if (ls->form == FORM_JSON)
        printf("{");
    else if (ls->form == FORM_CSV)
        puts("name,value");
    while (meta.n > 0 && ls->shown < ls->limit) {
        const char *eol = memchr(meta.bytes, '\n', meta.n);
        size_t n = eol != NULL ? (size_t)(eol - meta.bytes) : meta.n;
        const char *equals = memchr(meta.bytes, '=', n);
        struct slimset_text name = {meta.bytes, equals != NULL ? (size_t)(equals - meta.bytes) : n};
        struct slimset_text value = {equals != NULL ? equals + 1 : "",
                                     equals != NULL ? n - name.n - 1 : 0};
        if (ls->form == FORM_JSON) {
            printf(ls->shown > 0 ? "," : "");
            text_json(stdout, name.bytes, name.n);
            putchar(':');
            text_json(stdout, value.bytes, value.n);
        } else if (ls->form == FORM_CSV) {
            CSV(name);
            print_csv(value);
            putchar('\n');
        } else {
            char *a = print_quoted(name), *b = print_quoted(value);
            printf("%s=%s\n", a, b);
            free(a);
            free(b);
        }
        ls->shown++;
        n += eol != NULL;
        meta.n -= n;
        meta.bytes += n;
    }
    if (ls->form == FORM_JSON)
        puts("}");
    return SLIMSET_OK;
}

/* ---- the command line
 * ------------------------------------------------------------------------------- */

static bool find_note(struct ls *ls)
{
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *word = slimset_note_name(bit);
        if (word != NULL && strcmp(word, ls->note) == 0) {
            ls->note_bits = 1u << bit;
            return true;
        }
    }
    return false;
}

/* Reads the options; false: *status is what the program ends with. */
static bool read_options(struct ls *ls, struct options *o, int *status)
{
    unsigned lists = 0;
    for (int id; (id = options_next(o)) != 0;) {
        switch (id) {
        case OPT_JSON: ls->form = FORM_JSON; break;
        case OPT_CSV: ls->form = FORM_CSV; break;
        case OPT_REJECTS: lists |= 1u << (ls->list = LIST_REJECTS); ls->rejects = true; break;
        case OPT_LEFT_OUT: lists |= 1u << (ls->list = LIST_REJECTS); ls->left_out = true; break;
        case OPT_SHARDS: lists |= 1u << (ls->list = LIST_SHARDS); break;
        case OPT_FIELDS: lists |= 1u << (ls->list = LIST_FIELDS); break;
        case OPT_META: lists |= 1u << (ls->list = LIST_META); break;
        case OPT_SPLIT: ls->split = o->value; break;
        case OPT_CLASS: ls->class_name = o->value; break;
        case OPT_KEY: ls->key = o->value; break;
        case OPT_NOTE:
            ls->note = o->value;
            if (!find_note(ls)) {
                char words[PRINT_NOTES_BYTES];
                uint32_t all = 0;
                for (unsigned bit = 0; bit < 32; bit++)
                    all |= slimset_note_name(bit) != NULL ? 1u << bit : 0;
                options_bad_value(o, "one of %s is wanted", print_notes(words, all, ", "));
                *status = o->exit_status;
                return false;
            }
            break;
        case OPT_LIMIT:
            if (!options_number(o, 1, UINT64_MAX, &ls->limit)) {
                *status = o->exit_status;
                return false;
            }
            break;
        default: *status = o->exit_status; return false;
        }
    }
    *status = 0;
    if (o->n_args != 1)
        *status = options_fail(o, "one dataset is wanted, %zu were given", o->n_args);
    else if ((lists & (lists - 1)) != 0)
        *status = options_fail(
            o, "one list at a time: --rejects, --left-out, --shards, --fields or --meta");
    else if (lists != 0 &&
             (ls->split != NULL || ls->class_name != NULL || ls->key != NULL || ls->note != NULL))
        *status = options_fail(
            o, "--split, --class, --key and --note choose samples: not with another list");
    return *status == 0;
}

int cmd_ls(int argc, char **argv)
{
    struct options o;
    struct slimset_info info;
    int status;
    struct ls *ls = calloc(1, sizeof *ls); /* large for a stack: a table holds rows */
    if (ls == NULL) {
        fputs("slimset ls: out of memory\n", stderr);
        return 1;
    }
    ls->limit = UINT64_MAX;
    options_init(&o, "ls", argc, argv);
    if (!read_options(ls, &o, &status))
        goto out;
    enum slimset_status st = slimset_reader_open(o.args[0], &ls->r, &ls->err);
    if (st == SLIMSET_OK) {
        slimset_reader_info(ls->r, &info);
        switch (ls->list) {
        case LIST_SAMPLES: st = list_samples(ls, &info); break;
        case LIST_REJECTS: st = list_rejects(ls, &info); break;
        case LIST_SHARDS: st = list_shards(ls, &info); break;
        case LIST_FIELDS: st = list_fields(ls, &info); break;
        case LIST_META: st = list_meta(ls); break;
        }
        if (ls->form == FORM_TABLE && ls->list != LIST_META && (st == SLIMSET_OK || ls->shown > 0))
            print_table_end(&ls->table);
    }
    if (st != SLIMSET_OK)
        status = print_error("ls", &ls->err);
    status = print_finish("ls", status);
out:
    slimset_reader_close(ls->r);
    free(ls);
    return status;
}
