/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

enum { DEPTH_MAX = 16, ALIGN = 64, GROWTH_DIGITS = 21 /* room that NumPy leaves for a longer first dimension */ };

/* A place in the header's text; the first fault ends the reading. */
struct cursor {
    const char *at, *end;
    const char *start;  /* of the file: faults name bytes of it */
    struct slimset_error *err;
};

static enum slimset_status fault(const struct cursor *c, const char *fmt, ...) ERR_PRINTF(2, 3);

static enum slimset_status fault(const struct cursor *c, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_bad(c->err, SLIMSET_REJECT_ARRAY, "npy header, byte %zu: %s", (size_t)(c->at - c->start), text);
}

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

/* The next sign that is no blank, not taken; 0 at the end. */
static char next(struct cursor *c)
{
    skip_blanks(c);
    return c->at < c->end ? *c->at : '\0';
}

static bool take(struct cursor *c, char sign)
{
    if (next(c) != sign)
        return false;
    c->at++;
    return true;
}

/* A Python string; its inside as it is written. */
static enum slimset_status read_string(struct cursor *c, const char **s, size_t *n)
{
    char quote = next(c);
    if (quote != '\'' && quote != '"')
        return fault(c, "a string is wanted");
    const char *start = ++c->at;
    while (c->at < c->end && *c->at != quote)
        c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
    if (c->at >= c->end)
        return fault(c, "a string without an end");
    *s = start;
    *n = (size_t)(c->at++ - start);
    return SLIMSET_OK;
}

static enum slimset_status read_number(struct cursor *c, uint64_t *v)
{
    if (next(c) == '-')
        return fault(c, "a negative dimension");
    const char *start = c->at;
    for (*v = 0; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
        if (__builtin_mul_overflow(*v, 10u, v) || __builtin_add_overflow(*v, (uint64_t)(*c->at - '0'), v) || *v > INT64_MAX)
            return fault(c, "a dimension of more than 63 bits");
    if (c->at == start || (*start == '0' && c->at - start > 1))
        return fault(c, "a whole number is wanted");
    if (c->at < c->end && (*c->at == 'L' || *c->at == 'l')) /* as Python 2 wrote long ones */
        c->at++;
    return SLIMSET_OK;
}

/* "(3, 224, 224)", "(5,)", "()". */
static enum slimset_status read_shape(struct cursor *c, uint64_t *shape, unsigned *ndim)
{
    if (!take(c, '('))
        return fault(c, "the shape is no tuple");
    for (*ndim = 0; !take(c, ')');) {
        if (*ndim == NPY_DIMS_MAX)
            return fault(c, "more than %d dimensions", NPY_DIMS_MAX);
        enum slimset_status st = read_number(c, &shape[(*ndim)++]);
        if (st != SLIMSET_OK)
            return st;
        bool comma = take(c, ',');
        if (!comma && (next(c) != ')' || *ndim == 1)) /* "(5)" is a number, no tuple */
            return fault(c, "the shape is no tuple");
    }
    return SLIMSET_OK;
}

/* --- dtypes --------------------------------------------------------------------------------------------- */

static bool size_fits(char kind, uint64_t n)
{
    switch (kind) {
    case 'b':
        return n == 1;
    case 'i':
    case 'u':
        return n == 1 || n == 2 || n == 4 || n == 8;
    case 'f':
        return n == 2 || n == 4 || n == 8 || n == 12 || n == 16;
    case 'c':
        return n == 8 || n == 16 || n == 24 || n == 32;
    case 'M':
    case 'm':
        return n == 8;
    default:
        return n <= INT32_MAX;
    }
}

/* "<f4", "|b1", "<U12", "<M8[ns]": what NumPy calls a typestring, n bytes of it. */
static enum slimset_status typestring(const struct cursor *c, const char *s, size_t n, struct npy *a)
{
    const char *p = s, *end = s + n;
    a->structured = false;
    a->order = '<';
    if (p < end && strchr("<>|=", *p) != NULL)
        a->order = *p++ == '>' ? '>' : '<';
    a->kind = p < end ? *p++ : '\0';
    if (a->kind == '?' && p == end) {
        a->kind = 'b';
        a->itemsize = 1;
        a->order = '|';
        return SLIMSET_OK;
    }
    if (a->kind == 'O')
        return err_bad(c->err, SLIMSET_REJECT_ARRAY, "npy header, byte %zu: Python objects (a pickle), which are never loaded",
                       (size_t)(s - c->start));
    uint64_t size = 0;
    const char *digits = p;
    while (p < end && isdigit((unsigned char)*p) && p - digits < 10)
        size = size * 10 + (uint64_t)(*p++ - '0');
    bool unit = (a->kind == 'M' || a->kind == 'm') && end - p > 2 && *p == '[' && end[-1] == ']';
    if (a->kind == 'a')
        a->kind = 'S';
    if (p == digits || (p != end && !unit) || a->kind == '\0' || strchr("biufcSUVMm", a->kind) == NULL || !size_fits(a->kind, size))
        return err_bad(c->err, SLIMSET_REJECT_ARRAY, "npy header, byte %zu: the dtype '%.*s' is unknown", (size_t)(s - c->start),
                       (int)(n < 80 ? n : 80), s);
    a->itemsize = a->kind == 'U' ? 4 * size : size;
    if (a->itemsize == 1 || a->kind == 'S' || a->kind == 'V')
        a->order = '|';
    return SLIMSET_OK;
}

static enum slimset_status read_fields(struct cursor *c, uint64_t *itemsize, unsigned depth);

/* ('x', '<f4'), (('title', 'x'), '<f4', (2, 3)): one field of a structured dtype. */
static enum slimset_status read_field(struct cursor *c, uint64_t *itemsize, unsigned depth)
{
    const char *s;
    size_t n;
    uint64_t shape[NPY_DIMS_MAX], bytes;
    unsigned ndim = 0;
    struct npy inner = {0};
    if (!take(c, '('))
        return fault(c, "a field of the dtype is no tuple");
    bool titled = take(c, '(');
    enum slimset_status st = read_string(c, &s, &n);
    if (st == SLIMSET_OK && titled) {
        if (!take(c, ','))
            return fault(c, "a title without a name");
        st = read_string(c, &s, &n);
        if (st == SLIMSET_OK && !take(c, ')'))
            return fault(c, "a title and a name are wanted");
    }
    if (st == SLIMSET_OK && !take(c, ','))
        return fault(c, "a field without a type");
    if (st == SLIMSET_OK && next(c) == '[') {
        st = read_fields(c, &bytes, depth + 1);
    } else if (st == SLIMSET_OK) {
        st = read_string(c, &s, &n);
        if (st == SLIMSET_OK)
            st = typestring(c, s, n, &inner);
        bytes = inner.itemsize;
    }
    if (st == SLIMSET_OK && take(c, ',') && next(c) != ')') {
        st = next(c) == '(' ? read_shape(c, shape, &ndim) : read_number(c, &shape[ndim++]);
        take(c, ',');
    }
    if (st != SLIMSET_OK)
        return st;
    for (unsigned i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return fault(c, "a field of more than 64 bits of bytes");
    if (!take(c, ')'))
        return fault(c, "a field of the dtype without an end");
    return __builtin_add_overflow(*itemsize, bytes, itemsize) || *itemsize > INT32_MAX ? fault(c, "an element of more than 2 GiB")
                                                                                      : SLIMSET_OK;
}

static enum slimset_status read_fields(struct cursor *c, uint64_t *itemsize, unsigned depth)
{
    *itemsize = 0;
    if (depth > DEPTH_MAX)
        return fault(c, "dtypes nest more than %d deep", DEPTH_MAX);
    for (c->at++; !take(c, ']');) {
        enum slimset_status st = read_field(c, itemsize, depth);
        if (st != SLIMSET_OK)
            return st;
        if (!take(c, ',') && next(c) != ']')
            return fault(c, "a list of fields without an end");
    }
    return SLIMSET_OK;
}

static enum slimset_status read_descr(struct cursor *c, struct npy *a)
{
    const char *s;
    size_t n;
    enum slimset_status st;
    skip_blanks(c);
    a->descr = c->at;
    if (next(c) == '[') {
        a->structured = true;
        a->kind = 'V';
        a->order = '|';
        st = read_fields(c, &a->itemsize, 0);
    } else {
        st = read_string(c, &s, &n);
        if (st == SLIMSET_OK)
            st = typestring(c, s, n, a);
    }
    a->descr_bytes = (size_t)(c->at - a->descr);
    return st;
}

/* --- the header --------------------------------------------------------------------------------------------- */

/* count and data_bytes from shape and itemsize; false when the numbers overflow. */
static bool total(struct npy *a)
{
    uint64_t all = 1;
    bool none = false;
    for (unsigned i = 0; i < a->ndim; i++) {
        none |= a->shape[i] == 0;
        if (a->shape[i] != 0 && (__builtin_mul_overflow(all, a->shape[i], &all) || all > INT64_MAX))
            return false;
    }
    a->count = none ? 0 : all;
    return !__builtin_mul_overflow(a->count, a->itemsize, &a->data_bytes) && a->data_bytes <= INT64_MAX;
}

static enum slimset_status read_entry(struct cursor *c, struct npy *a, unsigned *seen)
{
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    const char *key;
    size_t n;
    enum slimset_status st = read_string(c, &key, &n);
    if (st != SLIMSET_OK)
        return st;
    unsigned which = 0;
    while (which < 3 && (strlen(names[which]) != n || memcmp(names[which], key, n) != 0))
        which++;
    if (which == 3 || (*seen & 1u << which))
        return fault(c, "the key '%.*s' is %s", (int)(n < 40 ? n : 40), key, which == 3 ? "unknown" : "there twice");
    *seen |= 1u << which;
    if (!take(c, ':'))
        return fault(c, "a key without a value");
    if (which == 0)
        return read_descr(c, a);
    if (which == 2)
        return read_shape(c, a->shape, &a->ndim);
    skip_blanks(c);
    size_t left = (size_t)(c->end - c->at);
    a->fortran = left >= 4 && memcmp(c->at, "True", 4) == 0;
    if (!a->fortran && (left < 5 || memcmp(c->at, "False", 5) != 0))
        return fault(c, "fortran_order is neither True nor False");
    c->at += a->fortran ? 4 : 5;
    return SLIMSET_OK;
}

uint64_t npy_announced(const uint8_t *p, size_t n)
{
    if (n < NPY_PREFIX || memcmp(p, magic, sizeof magic) != 0)
        return 0;
    return p[6] == 1 ? 10 + (uint64_t)get_le16(p + 8) : 12 + (uint64_t)get_le32(p + 8);
}

enum slimset_status npy_parse(const uint8_t *p, size_t n, uint64_t file_bytes, struct npy *a, struct slimset_error *err)
{
    struct cursor c = {.at = (const char *)p, .start = (const char *)p, .err = err};
    unsigned seen = 0;
    *a = (struct npy){0};
    uint64_t head = npy_announced(p, n);
    if (head == 0)
        return err_bad(err, n < NPY_PREFIX ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_ARRAY, "no npy file: it does not begin like one");
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "npy header, byte 6: version %u.%u is unknown", p[6], p[7]);
    if (head > NPY_HEADER_MAX)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "npy header, byte 8: a header of %llu bytes, more than %d", (unsigned long long)head,
                       NPY_HEADER_MAX);
    if (head > file_bytes || head > n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "the file ends inside its npy header (%llu of %llu bytes)",
                       (unsigned long long)(file_bytes < n ? file_bytes : n), (unsigned long long)head);
    a->major = p[6];
    a->header_bytes = head;
    c.at += p[6] == 1 ? 10 : 12;
    c.end = (const char *)p + head;
    if (memchr(c.at, '\0', (size_t)(c.end - c.at)) != NULL)
        return fault(&c, "the header holds a NUL byte");
    if (!take(&c, '{'))
        return fault(&c, "the header is no dictionary");
    while (!take(&c, '}')) {
        enum slimset_status st = read_entry(&c, a, &seen);
        if (st != SLIMSET_OK)
            return st;
        if (!take(&c, ',') && next(&c) != '}')
            return fault(&c, "the dictionary has no end");
    }
    while (c.at < c.end && isspace((unsigned char)*c.at))
        c.at++;
    if (c.at != c.end)
        return fault(&c, "something follows the dictionary");
    if (seen != 7)
        return fault(&c, "descr, fortran_order or shape is missing");
    if (!total(a))
        return fault(&c, "the shape has more bytes than 63 bits can count");
    if (file_bytes - head < a->data_bytes)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "truncated: the header promises %llu bytes of data from byte %llu on, there are %llu",
                       (unsigned long long)a->data_bytes, (unsigned long long)head, (unsigned long long)(file_bytes - head));
    if (file_bytes - head > a->data_bytes)
        return err_bad(err, SLIMSET_REJECT_ARRAY, "%llu bytes behind the array, from byte %llu on",
                       (unsigned long long)(file_bytes - head - a->data_bytes), (unsigned long long)(head + a->data_bytes));
    return SLIMSET_OK;
}

/* --- texts -------------------------------------------------------------------------------------------------- */

static const char *const types[] = {"'|b1'", "'|i1'", "'|u1'", "'<i2'", "'<u2'", "'<f2'", "'<i4'", "'<u4'", "'<f4'", "'<i8'",
                                    "'<u8'", "'<f8'", "'>i2'", "'>u2'", "'>f2'", "'>i4'", "'>u4'", "'>f4'", "'>i8'", "'>u8'", "'>f8'"};

/* A static descr for the numbers that have one. */
static bool static_descr(struct npy *a)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *t = types[i];
        if (t[1] == a->order && t[2] == a->kind && (uint64_t)(t[3] - '0') == a->itemsize) {
            a->descr = t;
            a->descr_bytes = 5;
            return true;
        }
    }
    return false;
}

bool npy_is_number(const struct npy *a)
{
    struct npy copy = *a;
    return !a->structured && static_descr(&copy);
}

void npy_set_type(struct npy *a, char kind, unsigned itemsize)
{
    a->kind = kind;
    a->order = itemsize == 1 ? '|' : '<';
    a->itemsize = itemsize;
    a->structured = false;
    a->data_bytes = a->count * itemsize;
    static_descr(a);
}

static size_t shape_text(const struct npy *a, char *text, size_t n)
{
    size_t at = (size_t)snprintf(text, n, "(");
    for (unsigned i = 0; i < a->ndim; i++)
        at += (size_t)snprintf(text + at, n - at, "%s%llu", i > 0 ? ", " : "", (unsigned long long)a->shape[i]);
    return at + (size_t)snprintf(text + at, n - at, a->ndim == 1 ? ",)" : ")");
}

enum slimset_status npy_text(const struct npy *a, struct buf *out, struct slimset_error *err)
{
    char shape[NPY_DIMS_MAX * 22 + 4];
    size_t n = shape_text(a, shape, sizeof shape), d = a->descr_bytes;
    const char *descr = a->descr;
    if (!a->structured && d >= 2) { /* without its quotes */
        descr++;
        d -= 2;
    }
    if (d > NPY_TEXT_MAX - sizeof shape)
        d = NPY_TEXT_MAX - sizeof shape;
    enum slimset_status st = buf_append(out, descr, d, err);
    if (st == SLIMSET_OK)
        st = buf_append(out, " ", 1, err);
    return st == SLIMSET_OK ? buf_append(out, shape, n, err) : st;
}

enum slimset_status npy_parse_text(const char *text, size_t n, struct npy *a, struct slimset_error *err)
{
    struct slimset_error ignored;
    const char *blank = memchr(text, ' ', n);
    *a = (struct npy){.major = 1};
    if (blank != NULL) {
        struct cursor c = {.at = blank, .end = text + n, .start = text, .err = &ignored};
        if (typestring(&c, text, (size_t)(blank - text), a) == SLIMSET_OK && static_descr(a) &&
            read_shape(&c, a->shape, &a->ndim) == SLIMSET_OK && c.at == c.end && total(a))
            return SLIMSET_OK;
    }
    return err_set(err, SLIMSET_DAMAGED, "the index describes an array as \"%.*s\"", (int)(n < 100 ? n : 100), text);
}

enum slimset_status npy_parse_raw(const char *text, uint64_t data_bytes, struct npy *a, struct slimset_error *err)
{
    struct slimset_error ignored;
    const char *colon = strchr(text, ':'), *p = colon;
    uint64_t known = 1;
    unsigned open = NPY_DIMS_MAX;
    *a = (struct npy){.major = 1};
    struct cursor c = {.start = text, .err = &ignored};
    if (colon == NULL || typestring(&c, text, (size_t)(colon - text), a) != SLIMSET_OK || !static_descr(a))
        return err_set(err, SLIMSET_USAGE, "--raw %.100s: DTYPE:SHAPE is wanted, as in f4:3,224,224 or u1:-1", text);
    do {
        if (a->ndim == NPY_DIMS_MAX || (strncmp(++p, "-1", 2) == 0 && open != NPY_DIMS_MAX))
            return err_set(err, SLIMSET_USAGE, "--raw %.100s: one dimension may be -1, and there are %d at most", text, NPY_DIMS_MAX);
        if (strncmp(p, "-1", 2) == 0) {
            open = a->ndim++;
            p += 2;
            continue;
        }
        c.at = p;
        c.end = p + strlen(p);
        uint64_t v = 0;
        if (read_number(&c, &v) != SLIMSET_OK || v == 0 || __builtin_mul_overflow(known, v, &known))
            return err_set(err, SLIMSET_USAGE, "--raw %.100s: the dimensions are whole numbers above 0, with commas between", text);
        a->shape[a->ndim++] = v;
        p = c.at;
    } while (*p == ',');
    if (*p != '\0')
        return err_set(err, SLIMSET_USAGE, "--raw %.100s: the dimensions are whole numbers above 0, with commas between", text);
    uint64_t step = 0;
    if (open != NPY_DIMS_MAX && !__builtin_mul_overflow(known, a->itemsize, &step) && step > 0)
        a->shape[open] = data_bytes / step;
    return total(a) ? SLIMSET_OK : err_set(err, SLIMSET_USAGE, "--raw %.100s: more bytes than 63 bits can count", text);
}

enum slimset_status npy_header(const struct npy *a, struct buf *out, struct slimset_error *err)
{
    char rest[NPY_DIMS_MAX * 22 + 100], digits[24];
    static const char open[] = "{'descr': ";
    size_t n = (size_t)snprintf(rest, sizeof rest, ", 'fortran_order': %s, 'shape': ", a->fortran ? "True" : "False");
    n += shape_text(a, rest + n, sizeof rest - n);
    n += (size_t)snprintf(rest + n, sizeof rest - n, ", }");
    size_t grow = a->ndim == 0 ? 0 : GROWTH_DIGITS - (size_t)snprintf(digits, sizeof digits, "%llu",
                                                        (unsigned long long)a->shape[a->fortran ? a->ndim - 1 : 0]);
    size_t text = sizeof open - 1 + a->descr_bytes + n + grow + 1;
    bool wide = a->major == 3 || text > 65535 - ALIGN;
    size_t prefix = wide ? 12 : 10, pad = ALIGN - (prefix + text) % ALIGN, all = prefix + text + pad;
    enum slimset_status st = buf_reserve(out, all, err);
    if (st != SLIMSET_OK)
        return st;
    uint8_t *to = out->data + out->len;
    memset(to, ' ', all);
    memcpy(to, magic, sizeof magic);
    to[6] = a->major == 3 ? 3 : wide ? 2 : 1;
    to[7] = 0;
    if (wide)
        put_le32(to + 8, (uint32_t)(all - prefix));
    else
        put_le16(to + 8, (uint16_t)(all - prefix));
    memcpy(to + prefix, open, sizeof open - 1);
    memcpy(to + prefix + sizeof open - 1, a->descr, a->descr_bytes);
    memcpy(to + prefix + sizeof open - 1 + a->descr_bytes, rest, n);
    to[all - 1] = '\n';
    out->len += all;
    return SLIMSET_OK;
}
