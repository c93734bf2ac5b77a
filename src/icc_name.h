/* SPDX-License-Identifier: Apache-2.0
 *
 * What a colour profile calls itself: for the report, never for a decision.
 */
#ifndef ICC_NAME_H
#define ICC_NAME_H

#include <stddef.h>
#include <stdint.h>

enum { ICC_NAME_BYTES = 48 /* with the terminator; longer names are cut */ };

/* The description of an ICC profile as UTF-8 without control characters: of version 2 the ASCII text, of version 4 the English
 * one, else the first. "" where the bytes are no profile, or tag and text do not lie within it. The rest of name is zero. */
void icc_name(const uint8_t *icc, size_t n, char name[ICC_NAME_BYTES]);

#endif
