/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things of text that several verbs print: names that never break a line, JSON strings, and
 * numbers for people. Everything writes into the caller's memory or a FILE; nothing is allocated;
 * the bytes do not depend on the locale.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TEXT_NUMBER_BYTES = 32,          /* room for any of the number functions below */
    TEXT_PATH_BYTES = 4 * 4096 + 16  /* room for any path once it is quoted */
};

/* A name in one line: as it is when it is plain printable UTF-8, else as $'...' with \n \t \xNN,
 * which a shell reads back to the same bytes. Control characters, invalid UTF-8 and the Unicode
 * characters that turn or split lines are never printed raw. Cut with "..." when `room` is too
 * small. Returns `to`. */
const char *text_quote(char *to, size_t room, const char *name);

/* A message in one line: as text_quote escapes, without quotes around it. Returns `to`. */
const char *text_clean(char *to, size_t room, const char *message);

/* A name as a shell takes it: bare where nothing in it means anything to a shell, else in quotes.
 * Returns `to`. */
const char *text_shell(char *to, size_t room, const char *name);

/* Writes a JSON string with its quotes. Bytes that are not UTF-8 become \udc80..\udcff (byte +
 * 0xdc00), as Python's "surrogateescape" has it: os.fsencode of the parsed string gives the same
 * bytes again. */
void text_json(FILE *f, const char *s, size_t n);

/* "1,234,567". */
const char *text_count(char to[TEXT_NUMBER_BYTES], uint64_t n);

/* "12.3 MB": three digits, powers of 1000; below 1000 "812 B". */
const char *text_bytes(char to[TEXT_NUMBER_BYTES], uint64_t bytes);

/* "45 s", "3:07", "1:02:03"; a negative or absurd value gives "--". */
const char *text_duration(char to[TEXT_NUMBER_BYTES], double seconds);

/* Edits (insert, delete, replace, swap of neighbours) from a to b; 99 for words of over 31 bytes.
 * */
unsigned text_distance(const char *a, const char *b);

#endif
