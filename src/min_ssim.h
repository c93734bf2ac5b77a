/* SPDX-License-Identifier: Apache-2.0
 *
 * The JPEG quality that a picture needs: the smallest one whose SSIM reaches what is wanted, found without encoding anything.
 */
#ifndef MIN_SSIM_H
#define MIN_SSIM_H

#include "image.h"

enum { MIN_SSIM_LOWEST = 30, MIN_SSIM_HIGHEST = 97 };

/* The quality for im (8 bits; gray, YCC or RGB, no alpha) and the SSIM of its luma at that quality, x 1,000,000. Where none
 * reaches `wanted` (0 to 1) it is the highest. *room is scratch. SLIMSET_NO_MEMORY. */
enum slimset_status min_ssim_quality(const struct image *im, double wanted, struct buf *room, int *quality, uint32_t *ssim_e6,
                                     struct slimset_error *err);

#endif
