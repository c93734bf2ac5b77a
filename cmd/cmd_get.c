/* SPDX-License-Identifier: Apache-2.0
 *
 * slimset get OUT KEY [FIELD]: one field's bytes to standard output or a file. They are read and
 * checked in full first: damaged data is never handed out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "print.h"
#include "slimset/reader.h"
#include "text.h"

enum {
    NEAR_SHOWN = 3,     /* keys that are suggested */
    NEAR_LOOKED = 200000 /* keys that are looked at for it: a fraction of a second */
};

struct get {
    struct slimset_reader *r;
    const char *out, *key, *field, *file;
    int as; /* in the order of --as; -1 not given */
    struct slimset_info info;
    struct slimset_error err;
};

static enum slimset_status find_field(struct get *g, uint64_t sample, const char *name,
                                      size_t name_n, uint32_t *field)
{
    struct slimset_sample_view s;
    struct slimset_field_view f;
    enum slimset_status st = slimset_reader_sample(g->r, sample, &s, &g->err);
    for (uint32_t k = 0; st == SLIMSET_OK && k < s.n_fields; k++) {
        st = slimset_reader_field(g->r, sample, k, &f, &g->err);
        if (st == SLIMSET_OK && f.name.n == name_n && memcmp(f.name.bytes, name, name_n) == 0) {
            *field = k;
            return SLIMSET_OK;
        }
    }
    return st == SLIMSET_OK ? SLIMSET_NOT_FOUND : st;
}

/* "dir/0001.seg.png" as it stands in the tar: the key before one of the dots of its last part, the
 * field behind it. */
static enum slimset_status find_member(struct get *g, uint64_t *sample, uint32_t *field)
{
    const char *slash = strrchr(g->key, '/');
    const char *dot = strchr(slash != NULL ? slash : g->key, '.');
    for (; dot != NULL; dot = strchr(dot + 1, '.')) {
        enum slimset_status st =
            slimset_reader_find(g->r, g->key, (size_t)(dot - g->key), sample, &g->err);
        if (st == SLIMSET_OK)
            st = find_field(g, *sample, dot + 1, strlen(dot + 1), field);
        if (st != SLIMSET_NOT_FOUND)
            return st;
    }
    return SLIMSET_NOT_FOUND;
}

/* KEY is a key, a member's name or a source path, in this order. *field UINT32_MAX: KEY says
 * nothing about it. */
static enum slimset_status find(struct get *g, uint64_t *sample, uint32_t *field)
{
    *field = UINT32_MAX;
    enum slimset_status st = slimset_reader_find(g->r, g->key, strlen(g->key), sample, &g->err);
    if (st == SLIMSET_NOT_FOUND)
        st = find_member(g, sample, field);
    if (st == SLIMSET_NOT_FOUND)
        st = slimset_reader_find_path(g->r, g->key, strlen(g->key), sample, field, &g->err);
    return st;
}

/* 0 equal .. 99 unlike. Long names are compared by containment only. */
static unsigned likeness(struct slimset_text key, const char *wanted)
{
    char s[256];
    size_t n = strlen(wanted);
    if (key.n == 0 || key.n >= sizeof s)
        return 99;
    memcpy(s, key.bytes, key.n);
    s[key.n] = '\0';
    const char *base = strrchr(s, '/'), *wanted_base = strrchr(wanted, '/');
    base = base != NULL ? base + 1 : s;
    wanted_base = wanted_base != NULL ? wanted_base + 1 : wanted;
    unsigned d = text_distance(base, wanted_base), limit = n < 6 ? 1 : 2;
    if (d <= limit)
        return d;
    if (n >= 3 && (strstr(s, wanted) != NULL || (key.n >= 3 && strstr(wanted, s) != NULL)))
        return 3;
    return 99;
}

/* Says that KEY is not there, and which keys look like it. */
static int not_found(struct get *g)
{
    char quoted[TEXT_PATH_BYTES];
    struct slimset_text near[NEAR_SHOWN];
    unsigned unlike[NEAR_SHOWN], n = 0;
    for (uint64_t i = 0; i < g->info.samples && i < NEAR_LOOKED; i++) {
        struct slimset_sample_view s;
        if (slimset_reader_sample(g->r, i, &s, &g->err) != SLIMSET_OK)
            break;
        unsigned d = likeness(s.key, g->key), at = n;
        while (at > 0 && unlike[at - 1] > d)
            at--;
        if (d == 99 || at == NEAR_SHOWN)
            continue;
        n += n < NEAR_SHOWN;
        for (unsigned k = n - 1; k > at; k--) {
            near[k] = near[k - 1];
            unlike[k] = unlike[k - 1];
        }
        near[at] = s.key;
        unlike[at] = d;
    }
    fprintf(stderr, "slimset get: %s has no sample %s", g->out,
            text_quote(quoted, sizeof quoted, g->key));
    for (unsigned k = 0; k < n; k++) {
        char *s = print_quoted(near[k]);
        fprintf(stderr, "%s%s", k == 0 ? "; similar: " : ", ", s);
        free(s);
    }
    fputs(n == 0 ? "; slimset ls lists the keys\n" : "\n", stderr);
    return 1;
}

/* FIELD is missing or unknown: says which there are. */
static int which_field(struct get *g, uint64_t sample, const char *problem)
{
    struct slimset_sample_view s;
    struct slimset_field_view f;
    enum slimset_status st = slimset_reader_sample(g->r, sample, &s, &g->err);
    if (st != SLIMSET_OK)
        return print_error("get", &g->err);
    fprintf(stderr, "slimset get: %s", problem);
    for (uint32_t k = 0; st == SLIMSET_OK && k < s.n_fields && k < 50; k++) {
        st = slimset_reader_field(g->r, sample, k, &f, &g->err);
        if (st != SLIMSET_OK)
            break;
        char *name = print_quoted(f.name);
        fprintf(stderr, "%s%s", k == 0 ? ": " : ", ", name);
        free(name);
    }
    fputc('\n', stderr);
    return 1;
}

/* The field that is meant without FIELD: the first image, else the first that has pixels, else the
 * only one there is. */
static enum slimset_status default_field(struct get *g, uint64_t sample, uint32_t *field)
{
    struct slimset_sample_view s;
    struct slimset_field_view f;
    uint32_t pixels = UINT32_MAX;
    enum slimset_status st = slimset_reader_sample(g->r, sample, &s, &g->err);
    for (uint32_t k = 0; st == SLIMSET_OK && k < s.n_fields; k++) {
        st = slimset_reader_field(g->r, sample, k, &f, &g->err);
        if (st == SLIMSET_OK && f.w != 0 && strcmp(f.role, "image") == 0) {
            *field = k;
            return SLIMSET_OK;
        }
        if (st == SLIMSET_OK && f.w != 0 && pixels == UINT32_MAX)
            pixels = k;
    }
    if (st != SLIMSET_OK)
        return st;
    *field = pixels != UINT32_MAX ? pixels : 0;
    return pixels != UINT32_MAX || s.n_fields == 1 ? SLIMSET_OK : SLIMSET_NOT_FOUND;
}

static int write_out(const struct get *g, const void *data, size_t n)
{
    char quoted[TEXT_PATH_BYTES];
    if (g->file == NULL || strcmp(g->file, "-") == 0) {
        fwrite(data, 1, n, stdout);
        return print_finish("get", 0);
    }
    errno = 0;
    FILE *f = fopen(g->file, "wb");
    bool fine = f != NULL && fwrite(data, 1, n, f) == n;
    if (f != NULL && fclose(f) != 0)
        fine = false;
    if (fine)
        return 0;
    fprintf(stderr, "slimset get: cannot write %s: %s\n",
            text_quote(quoted, sizeof quoted, g->file), strerror(errno));
    return 1;
}

/* Bytes that a terminal must not be sent. */
static bool is_binary(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((p[i] < 0x20 && p[i] != '\n' && p[i] != '\t' && p[i] != '\r') || p[i] >= 0x7f)
            return true;
    }
    return false;
}

enum { AS_NPY, AS_RAW, AS_STORED };

struct array_file {
    FILE *f;
    const char *name;
};

static enum slimset_status write_piece(void *arg, const void *data, size_t n, struct slimset_error *err)
{
    struct array_file *to = arg;
    char quoted[TEXT_PATH_BYTES];
    if (fwrite(data, 1, n, to->f) == n)
        return SLIMSET_OK;
    err->status = SLIMSET_IO;
    err->os_errno = errno;
    snprintf(err->text, sizeof err->text, "cannot write %s: %s", text_quote(quoted, sizeof quoted, to->name), strerror(errno));
    return SLIMSET_IO;
}

/* The .npy of an array, or its values; in pieces, since arrays may be large. */
static int get_array(struct get *g, uint64_t sample, uint32_t field)
{
    bool to_file = g->file != NULL && strcmp(g->file, "-") != 0;
    struct array_file to = {.f = stdout, .name = to_file ? g->file : "standard output"};
    if (g->file == NULL && isatty(STDOUT_FILENO)) {
        fputs("slimset get: not writing an array to the terminal; use -o FILE, or -o - to do it all the same\n", stderr);
        return 2;
    }
    errno = 0;
    if (to_file && (to.f = fopen(g->file, "wb")) == NULL) {
        char quoted[TEXT_PATH_BYTES];
        fprintf(stderr, "slimset get: cannot write %s: %s\n", text_quote(quoted, sizeof quoted, g->file), strerror(errno));
        return 1;
    }
    enum slimset_status st = slimset_reader_npy(g->r, sample, field, g->as == AS_RAW, write_piece, &to, &g->err);
    if (to_file && fclose(to.f) != 0 && st == SLIMSET_OK) {
        to.f = NULL;
        st = g->err.status = SLIMSET_IO;
        snprintf(g->err.text, sizeof g->err.text, "cannot write the file: %s", strerror(errno));
    }
    if (st != SLIMSET_OK) {
        if (to_file)
            remove(g->file);
        return print_error("get", &g->err);
    }
    return to_file ? 0 : print_finish("get", 0);
}

/* Does the field come out as an array? *wrong: --as asks for what it is not. */
static bool is_array(struct get *g, uint64_t sample, uint32_t field, bool *wrong)
{
    struct slimset_field_view f;
    *wrong = false;
    if (g->as == AS_STORED || slimset_reader_field(g->r, sample, field, &f, &g->err) != SLIMSET_OK)
        return false;
    bool array = strncmp(f.format, "npy", 3) == 0;
    *wrong = !array && g->as >= 0;
    return array && (g->as >= 0 || (f.array.n > 0 && strcmp(f.role, "image") != 0));
}

static int get(struct get *g)
{
    uint64_t sample;
    uint32_t field;
    void *data = NULL;
    size_t n;
    enum slimset_status st = slimset_reader_open(g->out, &g->r, &g->err);
    if (st != SLIMSET_OK)
        return print_error("get", &g->err);
    slimset_reader_info(g->r, &g->info);
    st = find(g, &sample, &field);
    if (st == SLIMSET_NOT_FOUND)
        return not_found(g);
    if (st == SLIMSET_OK && g->field != NULL) {
        st = find_field(g, sample, g->field, strlen(g->field), &field);
        if (st == SLIMSET_NOT_FOUND)
            return which_field(g, sample, "the sample has no such field, it has");
    } else if (st == SLIMSET_OK && field == UINT32_MAX) {
        st = default_field(g, sample, &field);
        if (st == SLIMSET_NOT_FOUND)
            return which_field(g, sample, "the sample has no image: name the field that is wanted");
    }
    bool wrong = false;
    if (st == SLIMSET_OK && is_array(g, sample, field, &wrong))
        return get_array(g, sample, field);
    if (st == SLIMSET_OK && wrong) {
        fputs("slimset get: --as npy and raw are for arrays, and the field is none\n", stderr);
        return 2;
    }
    if (st == SLIMSET_OK)
        st = slimset_reader_load(g->r, sample, field, &data, &n, &g->err);
    if (st != SLIMSET_OK)
        return print_error("get", &g->err);
    int status;
    if (g->file == NULL && isatty(STDOUT_FILENO) && is_binary(data, n)) {
        fputs("slimset get: not writing an image to the terminal; use -o FILE, or -o - to do it "
              "all the same\n",
              stderr);
        status = 2;
    } else {
        status = write_out(g, data, n);
    }
    free(data);
    return status;
}

int cmd_get(int argc, char **argv)
{
    struct options o;
    struct get g = {.as = -1};
    options_init(&o, "get", argc, argv);
    for (int id; (id = options_next(&o)) != 0;) {
        if (id != OPT_OUTPUT && id != OPT_AS)
            return o.exit_status;
        if (id == OPT_AS)
            g.as = o.choice;
        else
            g.file = o.value;
    }
    if (o.n_args < 2 || o.n_args > 3)
        return options_fail(
            &o, "a dataset, a key and perhaps a field are wanted, %zu words were given", o.n_args);
    g.out = o.args[0];
    g.key = o.args[1];
    g.field = o.n_args == 3 ? o.args[2] : NULL;
    int status = get(&g);
    slimset_reader_close(g.r);
    return status;
}
