/* SPDX-License-Identifier: Apache-2.0
 *
 * What names suggest: roles by extension and folder, names of splits, folders that are no classes. Only a first guess; content
 * decides (the probe), and rules given by the user win over both. Pure functions on bytes.
 */
#ifndef ROLES_H
#define ROLES_H

#include <stdbool.h>
#include <stddef.h>

#include "image.h"
#include "slimset/pack.h"

enum role_hint { ROLE_HINT_NONE = 0, ROLE_HINT_MASK = 1, ROLE_HINT_DEPTH = 2 };

/* The role an extension ("jpg", any case, the part behind the last dot) suggests; *known false for ones that say nothing. */
enum slimset_role role_of_extension(const char *ext, size_t n, bool *known);

/* What folders and the inner parts of a field name suggest: any component such as masks, SegmentationClass, valannot, depth. */
enum role_hint role_hint_of(const char *dir, size_t dir_bytes, const char *field, size_t field_bytes);

/* True for train, val, valid, validation, dev, test (any case). */
bool role_is_split(const char *name, size_t n);

/* True for folder names that never are classes: images, masks, labels, annotations, JPEGImages... */
bool role_is_generic(const char *name, size_t n);

/* The usual extension of a format: "jpg", "png", "npy"; NULL for formats that are never written or named. */
const char *role_extension(enum image_format f);

/* True when ext is a usual spelling of the format's extension (jpeg, jpg, jpe; tif, tiff...). */
bool role_extension_fits(enum image_format f, const char *ext, size_t n);

/* A format some decoder here turns into pixels. */
bool role_is_image_format(enum image_format f);

#endif
