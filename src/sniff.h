/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is, by its first bytes and never by its name. Decides before any library is called
 * whether one may be called. Pure functions on the caller's bytes.
 */
#ifndef SNIFF_H
#define SNIFF_H

#include "image.h"

enum {
    SNIFF_BYTES = 4096
}; /* as many leading bytes as sniff() makes use of (HTML, SVG need some) */

/* The format of a file that begins with these n bytes (n may be less than SNIFF_BYTES only when the
 * file is that short). */
enum image_format sniff(const uint8_t *data, size_t n);

/* "jpeg", "png", ... as the index and `slimset ls` name it. */
const char *sniff_format_name(enum image_format f);

/* For a format that can never become an image: the reject class and what to do about it ("a PDF:
 * not rendered, export its pages as PNG"). SLIMSET_OK for formats that some decoder here may read.
 * The input name is not part of the text. */
enum slimset_status sniff_refuse(enum image_format f, size_t n, struct slimset_error *err);

#endif
