/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a TIFF that libvips reads rightly where it would misread or refuse the file itself. The
 * file must have passed tiff_tags_read.
 */
#ifndef TIFF_MEND_H
#define TIFF_MEND_H

#include "tiff_tags.h"

/* *out: the file with a further directory behind it, which describes one of its separate planes as
 * a gray picture; the header leads there. A second call on the same *out only exchanges the
 * directory. SLIMSET_NO_MEMORY. */
enum slimset_status tiff_mend_plane(const uint8_t *data, size_t n, const struct tiff_tags *t,
                                    unsigned plane, struct buf *out, struct slimset_error *err);

/* *out: the file with orientation 1 in place of a value that is none (t->orientation_at). */
enum slimset_status tiff_mend_orientation(const uint8_t *data, size_t n, const struct tiff_tags *t,
                                          struct buf *out, struct slimset_error *err);

#endif
