/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of arrays: another order of the axes, a smaller type that holds every value exactly, a type that does not. Pure functions on
 * memory, over elements in the order in which they lie; all for plain numbers (npy_is_number) but the change of order, which takes
 * elements of any size. They depend on base/ and npy.h only: a reader uses them to give an array back as it was.
 */
#ifndef ARRAY_CONVERT_H
#define ARRAY_CONVERT_H

#include "npy.h"

/* The whole array from Fortran order to C order (to_c), or back. src and dst hold a->data_bytes each and do not overlap. */
void array_reorder(const struct npy *a, bool to_c, const uint8_t *src, uint8_t *dst);

/* What was seen of an array's values. Zero it. */
struct array_range {
    bool any, fraction, not_f2, not_f4; /* floats: values that no integer, float16, float32 holds exactly */
    int64_t low, high;                  /* of integers, and of floats without a fraction */
    uint64_t top;                       /* uint64: largest */
};

/* Takes in n more elements. */
void array_range_add(struct array_range *r, const struct npy *a, const uint8_t *data, size_t n);

/* The smallest type that holds all of them exactly (-0.0 and NaN with their bits), into *to: a copy of a with another type. false: none is
 * smaller. Of types of one size unsigned integers come first, then signed ones, then floats. */
bool array_range_narrow(const struct array_range *r, const struct npy *a, struct npy *to);

/* Values that a cast could not keep, counted. */
struct array_loss {
    uint64_t inf;     /* finite before, infinite now */
    uint64_t zero;    /* not zero before, zero now */
    uint64_t nan;     /* NaN before; an integer has none: 0 now */
    uint64_t clipped; /* outside of lo..hi */
};

/* lo..hi becomes 0..255. */
struct array_scale {
    double lo, hi;
};

/* n elements of from's type to to's type. Floats are rounded to nearest, ties to even; scale not NULL: to uint8 by it. Without a scale a
 * value must fit an integer type (array_range_narrow). loss may be NULL. */
void array_convert(const struct npy *from, const uint8_t *src, const struct npy *to, uint8_t *dst, size_t n,
                   const struct array_scale *scale, struct array_loss *loss);

/* n elements to doubles and back (resizing): integers are rounded to nearest and held within their type's range. */
void array_to_doubles(const struct npy *a, const uint8_t *src, double *dst, size_t n);
void array_from_doubles(const struct npy *a, const double *src, uint8_t *dst, size_t n);

#endif
