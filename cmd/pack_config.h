/* SPDX-License-Identifier: Apache-2.0
 *
 * --config FILE: options of pack in a file, and settings for some files only. In two steps, so that the command line comes in between:
 * what stands at its top is taken before the command line, which then has the last word; what its sections say of their files
 * is laid over the recipe that comes out of both.
 */
#ifndef PACK_CONFIG_H
#define PACK_CONFIG_H

#include "options.h"
#include "pack_request.h"

/* Takes one option as the command line would: o holds its row, value and choice. False: an error was printed. */
typedef bool pack_take_fn(struct options *o, int id, struct pack_request *r);

/* Reads the file: options at its top into *r, and rules and fields of its sections. False: an error was printed. */
bool pack_config_read(struct pack_request *r, struct options *o, const char *file, pack_take_fn *take);

/* Lays the sections' settings over r->recipe. pixels takes the options that a section may have. */
bool pack_config_apply(struct pack_request *r, struct options *o, pack_take_fn *pixels);

void pack_config_fini(struct pack_config *c);

#endif
