/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdbool.h>
#include <string.h>

/* Bytes of the UTF-8 character at s (n > 0 bytes are there), 0 when it is none; *code is its
 * number. */
static size_t utf8_read(const unsigned char *s, size_t n, uint32_t *code)
{
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < len)
        return 0;
    uint32_t c = s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *code = c;
    return len;
}

/* Characters that would end the line, move the cursor or turn the reading direction. */
static bool unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

struct out {
    char *to;
    size_t room, n;
    bool full;
};

/* Whole pieces only, and always room for the cut mark. */
static void put(struct out *o, const char *s, size_t n)
{
    if (o->full || o->n + n + sizeof "...'" > o->room) {
        o->full = true;
        return;
    }
    memcpy(o->to + o->n, s, n);
    o->n += n;
}

static void put_escaped(struct out *o, const unsigned char *s, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n') {
            put(o, "\\n", 2);
        } else if (s[i] == '\t') {
            put(o, "\\t", 2);
        } else if (s[i] == '\r') {
            put(o, "\\r", 2);
        } else {
            char x[4] = {'\\', 'x', hex[s[i] >> 4], hex[s[i] & 15]};
            put(o, x, 4);
        }
    }
}

static bool needs_escape(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t left = strlen(s);
    while (left > 0) {
        uint32_t c;
        size_t len = utf8_read(p, left, &c);
        if (len == 0 || unsafe(c))
            return true;
        p += len;
        left -= len;
    }
    return false;
}

static const char *write_line(char *to, size_t room, const char *s, bool quoted)
{
    struct out o = {to, room, 0, false};
    if (room < 16) {
        if (room > 0)
            to[0] = '\0';
        return to;
    }
    if (quoted)
        put(&o, "$'", 2);
    const unsigned char *p = (const unsigned char *)s;
    size_t left = strlen(s);
    while (left > 0 && !o.full) {
        uint32_t c;
        size_t len = utf8_read(p, left, &c);
        if (len == 0 || unsafe(c)) {
            len += len == 0;
            put_escaped(&o, p, len);
        } else if (quoted && (c == '\'' || c == '\\')) {
            char x[2] = {'\\', (char)c};
            put(&o, x, 2);
        } else {
            put(&o, (const char *)p, len);
        }
        p += len;
        left -= len;
    }
    snprintf(to + o.n, room - o.n, "%s%s", o.full ? "..." : "", quoted ? "'" : "");
    return to;
}

const char *text_quote(char *to, size_t room, const char *name)
{
    return write_line(to, room, name, needs_escape(name));
}

const char *text_clean(char *to, size_t room, const char *message)
{
    return write_line(to, room, message, false);
}

const char *text_shell(char *to, size_t room, const char *name)
{
    static const char bare[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=,:@%";
    if (name[0] != '\0' && name[strspn(name, bare)] == '\0')
        return write_line(to, room, name, false);
    if (needs_escape(name) || strchr(name, '\'') != NULL)
        return write_line(to, room, name, true);
    /* Inside '...' only the quote itself means something, and there is none. */
    if (strlen(name) + 3 <= room)
        snprintf(to, room, "'%s'", name);
    else
        write_line(to, room, name, true);
    return to;
}

void text_json(FILE *f, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    putc('"', f);
    while (n > 0) {
        uint32_t c;
        size_t len = utf8_read(p, n, &c);
        if (len == 0) {
            len = 1;
            fprintf(f, "\\u%04x", 0xdc00u + p[0]);
        } else if (c == '"' || c == '\\') {
            fprintf(f, "\\%c", (int)c);
        } else if (c == '\n') {
            fputs("\\n", f);
        } else if (c == '\t') {
            fputs("\\t", f);
        } else if (c < 0x20 || c == 0x7f || c == 0x2028 || c == 0x2029) {
            fprintf(f, "\\u%04x", (unsigned)c);
        } else {
            fwrite(p, 1, len, f);
        }
        p += len;
        n -= len;
    }
    putc('"', f);
}

const char *text_count(char to[TEXT_NUMBER_BYTES], uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    size_t at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            to[at++] = ',';
        to[at++] = digits[i];
    }
    to[at] = '\0';
    return to;
}

const char *text_bytes(char to[TEXT_NUMBER_BYTES], uint64_t bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    size_t u = 0;
    /* 999.5 would be rounded to "1000". */
    while (v >= 999.5 && u + 1 < sizeof unit / sizeof unit[0]) {
        v /= 1000;
        u++;
    }
    int digits = u == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
    snprintf(to, TEXT_NUMBER_BYTES, "%.*f %s", digits, v, unit[u]);
    return to;
}

const char *text_duration(char to[TEXT_NUMBER_BYTES], double seconds)
{
    if (!(seconds >= 0 && seconds < 360000000)) {
        snprintf(to, TEXT_NUMBER_BYTES, "--");
        return to;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 60)
        snprintf(to, TEXT_NUMBER_BYTES, "%lu s", s);
    else if (s < 3600)
        snprintf(to, TEXT_NUMBER_BYTES, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(to, TEXT_NUMBER_BYTES, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    return to;
}

unsigned text_distance(const char *a, const char *b)
{
    enum { MAX = 31 };
    size_t na = strlen(a), nb = strlen(b);
    if (na > MAX || nb > MAX)
        return 99;
    unsigned d[MAX + 1][MAX + 1];
    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[na][nb];
}
