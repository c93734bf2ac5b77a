/* SPDX-License-Identifier: Apache-2.0
 *
 * The words for the numbers of the index format: one table each, used by ls, verify and the
 * reports. The words are part of what users and scripts see: never change one, only append. Numbers
 * that are not known read as "unknown". Format names are sniff_format_name's.
 */
#ifndef NAMES_H
#define NAMES_H

#include <stdint.h>

const char *name_role(unsigned role);        /* enum slimset_role: "image" */
const char *name_codec(unsigned codec);      /* enum slimset_codec: "jpeg" */
const char *name_note(unsigned bit);         /* of enum image_note: "resized"; NULL: no such bit */
const char *name_reject_kind(unsigned kind); /* of REJS: "reject", "left-out", "junk" */
const char *name_order(unsigned order);      /* of SPLT: "shuffled", "source" */
const char *name_hint(unsigned hint);        /* of FLDS: "none", "mask-folder", "user" */

#endif
