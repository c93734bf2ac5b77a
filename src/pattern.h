/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns of --field: NAME=PATTERN, where {} stands for the stem that joins files. Pure functions on bytes.
 *
 *      masks/{}_mask.png      {}  the stem: one or more bytes, "/" among them
 *      *annot/{}.png          *   any bytes but "/", also none; once before {} and once behind it
 *
 * All else stands for itself, byte by byte. What the * before {} stood for belongs to the stem ("train" of trainannot above), so
 * folders of several splits are joined each with its own; what the one behind it stood for does not. Where a path can be read in more than one way,
 * the first * is as short as it can be and {} as long as it can be.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "slimset/pack.h"

enum {
    PATTERN_NAME_MAX = 40, /* bytes of NAME: it becomes part of a field's name */
    PATTERN_MAX = 200      /* --field options: a number of one byte */
};

/* A piece of the pattern's text. */
struct pattern_piece {
    const char *p;
    size_t n;
};

struct pattern {
    struct pattern_piece name;
    struct pattern_piece head;   /* up to the first *, or to {} without one */
    struct pattern_piece before; /* between that * and {} */
    struct pattern_piece behind; /* between {} and the second *, or to the end */
    struct pattern_piece tail;   /* behind the second * */
    bool star_before, star_behind;
};

/* What {} and the * before it stood for; pieces of the path. */
struct pattern_found {
    struct pattern_piece star, stem;
};

/* Reads "NAME=PATTERN"; pieces point into text. SLIMSET_USAGE says what is wrong. */
enum slimset_status pattern_parse(const char *text, struct pattern *p, struct slimset_error *err);

bool pattern_match(const struct pattern *p, const char *path, size_t n, struct pattern_found *found);

/* The role that NAME stands for, in upper or lower case (image, mask, depth, depth-map, array, copy), -1 when it is a name like any other. */
int pattern_role(const struct pattern *p);

/* Can files of that NAME make a sample of their own? Not those of masks, depth maps, labels and files that are copied. */
bool pattern_leads(const struct pattern *p);

bool pattern_same_name(const struct pattern *a, const struct pattern *b);

#endif
