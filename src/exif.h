/* SPDX-License-Identifier: Apache-2.0
 *
 * The one EXIF tag that changes how an image looks: orientation (274). Nothing else of EXIF is
 * read. No state, no allocation.
 */
#ifndef EXIF_H
#define EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation 1..8 in the first directory of a TIFF structure of n bytes ("II" or "MM" first:
 * what follows "Exif\0\0" in a JPEG APP1, the body of a PNG eXIf chunk). The value may be a BYTE, a
 * SHORT or a LONG. 1 when the tag is absent, out of range or anything on the way to it is
 * malformed; the first entry of the tag counts. tiff may be NULL when n is 0. */
int exif_orientation(const uint8_t *tiff, size_t n);

#endif
