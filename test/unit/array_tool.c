/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives npy.h and array_convert.h for array_judge.py: array_tool OUTDIR FILE... prints a line for each FILE, "ok TEXT fortran header_bytes"
 * or "reject CLASS TEXT", and writes what it makes of a good one to OUTDIR/FILE.c.npy (C order), .f.npy (and back to Fortran order),
 * .narrow.npy, .wide.npy (the narrowed one converted back), .f2.npy, .f4.npy, .u1.npy (casts; uint8 from -2..3), each with a header of its own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array_convert.h"
#include "base/io.h"

static struct slimset_error err;
static const char *out_dir, *base;

static void need(bool good, const char *what)
{
    if (!good) {
        printf("FAIL %s: %s: %s\n", base, what, err.text);
        exit(1);
    }
}

static void save(const char *kind, const struct npy *a, const uint8_t *data)
{
    struct buf b = {0};
    char path[1000];
    int fd;
    snprintf(path, sizeof path, "%s/%s.%s.npy", out_dir, base, kind);
    need(npy_header(a, &b, &err) == SLIMSET_OK, "header");
    need(b.len % 64 == 0, "alignment");
    need(buf_append(&b, data, a->data_bytes, &err) == SLIMSET_OK, "data");
    need(io_create(AT_FDCWD, path, &fd, &err) == SLIMSET_OK && io_write(fd, b.data, b.len, path, &err) == SLIMSET_OK, "write");
    close(fd);
    buf_fini(&b);
}

static void numbers(const struct npy *a, const uint8_t *data)
{
    struct array_range range = {0};
    struct array_scale scale = {-2, 3};
    struct npy to = *a;
    uint8_t *made = malloc(a->count * 8 + 1), *back = malloc(a->count * 8 + 1);
    for (uint64_t at = 0; at < a->count; at += 1000) /* in pieces, as large arrays come */
        array_range_add(&range, a, data + at * a->itemsize, a->count - at < 1000 ? a->count - at : 1000);
    if (array_range_narrow(&range, a, &to)) {
        array_convert(a, data, &to, made, a->count, NULL, NULL);
        save("narrow", &to, made);
        array_convert(&to, made, a, back, a->count, NULL, NULL);
        save("wide", a, back);
    }
    static const struct {
        const char *kind;
        char type;
        unsigned size;
    } casts[] = {{"f2", 'f', 2}, {"f4", 'f', 4}, {"u1", 'u', 1}};
    for (size_t i = 0; i < 3; i++) {
        struct array_loss loss = {0};
        to = *a;
        npy_set_type(&to, casts[i].type, casts[i].size);
        array_convert(a, data, &to, made, a->count, casts[i].size == 1 ? &scale : NULL, &loss);
        save(casts[i].kind, &to, made);
        printf("loss %s %llu %llu %llu %llu\n", casts[i].kind, (unsigned long long)loss.inf, (unsigned long long)loss.zero,
               (unsigned long long)loss.nan, (unsigned long long)loss.clipped);
    }
    free(made);
    free(back);
}

int main(int argc, char **argv)
{
    out_dir = argv[1];
    for (int i = 2; i < argc; i++) {
        uint8_t *p;
        size_t n;
        struct npy a;
        struct buf text = {0};
        base = strrchr(argv[i], '/') != NULL ? strrchr(argv[i], '/') + 1 : argv[i];
        need(io_read_file(AT_FDCWD, argv[i], 1 << 28, &p, &n, &err) == SLIMSET_OK, "read");
        enum slimset_status st = npy_parse(p, n, n, &a, &err);
        if (st != SLIMSET_OK) {
            printf("reject %s %s\n", slimset_reject_name(err.reject), err.text);
            free(p);
            continue;
        }
        need(npy_text(&a, &text, &err) == SLIMSET_OK, "text");
        printf("ok %llu %d %.*s\n", (unsigned long long)a.header_bytes, a.fortran, (int)text.len, text.data);
        uint8_t *c = malloc(a.data_bytes + 1), *f = malloc(a.data_bytes + 1);
        const uint8_t *data = p + a.header_bytes;
        if (a.fortran) {
            array_reorder(&a, true, data, c);
            array_reorder(&a, false, c, f);
            need(memcmp(f, data, a.data_bytes) == 0, "there and back");
        } else {
            memcpy(c, data, a.data_bytes);
        }
        struct npy in_c = a, in_f = a;
        in_c.fortran = false;
        in_f.fortran = true;
        array_reorder(&in_c, false, c, f);
        save("c", &in_c, c);
        save("f", &in_f, f);
        if (npy_is_number(&a))
            numbers(&in_c, c);
        buf_fini(&text);
        free(c);
        free(f);
        free(p);
    }
    return 0;
}
