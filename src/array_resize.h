/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that are images, resized: only where the user said which axes are height and width. Lanczos-3 with antialiasing in floating
 * point, with the weights and the order of passes of Pillow (float32 between the passes where the values are float32 or less), or nearest
 * for values that are labels. Nothing is clipped but to the range of an integer type.
 */
#ifndef ARRAY_RESIZE_H
#define ARRAY_RESIZE_H

#include "geometry.h"
#include "npy.h"

/* Height and width of an array with these axes; false: another number of dimensions, nothing in it, or sides that no image has. */
bool array_size(const struct npy *a, enum slimset_array_layout axes, uint32_t *w, uint32_t *h);

/* a with the sizes of g. */
struct npy array_resized(const struct npy *a, enum slimset_array_layout axes, const struct geometry *g);

/* src is a, in C order; dst holds array_resized's data_bytes. nearest_only: elements are copied, of any dtype; else plain numbers. What a pad adds
 * is 0. */
enum slimset_status array_resize(const struct npy *a, enum slimset_array_layout axes, const struct geometry *g, bool nearest_only,
                                 const uint8_t *src, uint8_t *dst, struct slimset_error *err);

#endif
