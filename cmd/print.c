/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static void *must(void *p)
{
    if (p == NULL) {
        fputs("slimset: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

/* Characters as a terminal shows them: UTF-8 continuation bytes take no room of their own. */
static size_t shown_width(const char *s)
{
    size_t n = 0;
    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void print_one(const struct print_table *t, size_t column, const char *text)
{
    size_t n = shown_width(text), pad = t->width[column] > n ? t->width[column] - n : 0;
    bool right = (t->right >> column & 1) != 0, last = column + 1 == t->n_columns;
    if (column > 0)
        fputs("  ", stdout);
    if (right)
        printf("%*s", (int)pad, "");
    fputs(text, stdout);
    if (!right && !last) /* no blanks at the ends of lines */
        printf("%*s", (int)pad, "");
    if (last)
        putchar('\n');
}

static void begin(struct print_table *t)
{
    while (t->heading[t->n_columns] != NULL) {
        t->width[t->n_columns] = shown_width(t->heading[t->n_columns]);
        t->n_columns++;
    }
}

/* Prints heading and held rows; from here on rows go out as they come. */
static void start_streaming(struct print_table *t)
{
    t->streaming = true;
    for (size_t c = 0; c < t->n_columns; c++)
        print_one(t, c, t->heading[c]);
    for (size_t r = 0; r < t->n_held; r++) {
        for (size_t c = 0; c < t->n_columns; c++) {
            print_one(t, c, t->held[r][c]);
            free(t->held[r][c]);
        }
    }
    t->n_held = 0;
}

void print_cell(struct print_table *t, const char *text)
{
    if (t->n_columns == 0)
        begin(t);
    if (*text == '\0')
        text = "-";
    if (t->streaming) {
        print_one(t, t->column, text);
    } else {
        size_t n = shown_width(text);
        t->held[t->n_held][t->column] = must(strdup(text));
        if (n > t->width[t->column])
            t->width[t->column] = n;
    }
    if (++t->column < t->n_columns)
        return;
    t->column = 0;
    if (!t->streaming && ++t->n_held == PRINT_ROWS_HELD)
        start_streaming(t);
}

void print_cell_text(struct print_table *t, struct slimset_text text)
{
    char *s = print_quoted(text);
    print_cell(t, s);
    free(s);
}

void print_cellf(struct print_table *t, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    print_cell(t, text);
}

void print_table_end(struct print_table *t)
{
    if (t->n_columns == 0)
        begin(t);
    if (!t->streaming)
        start_streaming(t);
}

char *print_quoted(struct slimset_text text)
{
    /* A byte takes at most four when it is escaped (\x1b). */
    size_t n = text.n < 65536 ? text.n : 65536, room = 4 * n + 16;
    char *raw = must(malloc(n + 1)), *out = must(malloc(room));
    memcpy(raw, text.bytes, n);
    raw[n] = '\0';
    if (n == 0)
        out[0] = '\0';
    else
        text_quote(out, room, raw);
    free(raw);
    return out;
}

void print_csv(struct slimset_text text)
{
    bool quote = false;
    for (size_t i = 0; i < text.n && !quote; i++)
        quote = strchr(",\"\r\n", text.bytes[i]) != NULL && text.bytes[i] != '\0';
    if (!quote) {
        fwrite(text.bytes, 1, text.n, stdout);
        return;
    }
    putchar('"');
    for (size_t i = 0; i < text.n; i++) {
        if (text.bytes[i] == '"')
            putchar('"');
        putchar(text.bytes[i]);
    }
    putchar('"');
}

const char *print_notes(char to[PRINT_NOTES_BYTES], uint32_t notes, const char *between)
{
    size_t n = 0;
    to[0] = '\0';
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *word = slimset_note_name(bit);
        if ((notes >> bit & 1) == 0)
            continue;
        if (word != NULL)
            n += (size_t)snprintf(to + n, PRINT_NOTES_BYTES - n, "%s%s", n != 0 ? between : "",
                                  word);
        else /* of a later version */
            n += (size_t)snprintf(to + n, PRINT_NOTES_BYTES - n, "%sbit-%u", n != 0 ? between : "",
                                  bit);
        if (n >= PRINT_NOTES_BYTES)
            break;
    }
    return to;
}

int print_error(const char *verb, const struct slimset_error *err)
{
    char text[4 * sizeof err->text + 16];
    fflush(stdout);
    fprintf(stderr, "slimset %s: %s\n", verb, text_clean(text, sizeof text, err->text));
    return err->status == SLIMSET_USAGE ? 2 : err->status == SLIMSET_DAMAGED ? 4 : 1;
}

int print_finish(const char *verb, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno != EPIPE)
        fprintf(stderr, "slimset %s: cannot write to standard output: %s\n", verb, strerror(errno));
    return 1;
}
