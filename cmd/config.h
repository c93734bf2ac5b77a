/* SPDX-License-Identifier: Apache-2.0
 *
 * The syntax of --config files; what the words mean is pack_config.c's. A pure function on bytes.
 *
 *      # a comment; so is a line that begins with ;
 *      resize = long:512                options of pack by their names
 *      lossless = yes                   those without a value: yes or no
 *
 *      [rule "*_mask.png"]            settings for the files that a GLOB names
 *      role = mask
 *
 *      [field depth]                    ... or that a --field joins
 *      pattern = "depth/{}.png"         in "..." \" and \\ are a quote and a backslash; in '...' nothing is special
 *
 * Lines end with LF or CR LF. A value without quotes is all the rest of its line but blanks at the
 * ends. A file has at most 1 MB, and may begin with a UTF-8 byte order mark.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

enum config_section { CONFIG_TOP, CONFIG_RULE, CONFIG_FIELD };

/* One line "key = value", or the head of a section. Strings lie in the bytes that were parsed. */
struct config_entry {
    enum config_section section;
    const char *name;      /* of the section: GLOB or NAME, "" at the top */
    const char *key;       /* NULL: the head of the section */
    const char *value;
    unsigned line;         /* from 1 */
};

struct config_fault {
    unsigned line;
    char text[160];        /* what is wrong there */
};

/* False ends the parsing. */
typedef bool config_entry_fn(void *arg, const struct config_entry *e);

/* Parses n bytes, behind which one more can be written, and cuts them into strings in place. False: fn said so (fault->line 0), or
 * *fault says what is wrong. */
bool config_parse(char *bytes, size_t n, config_entry_fn *fn, void *arg, struct config_fault *fault);

#endif
