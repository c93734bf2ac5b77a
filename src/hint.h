/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells of masks and depth maps that lie apart from their images, where nobody asked to join them: a note with the --field options that
 * would. Joins nothing by itself. Looks at names only, twice at each file at most.
 *
 *      val/0001.png     valannot/0001.png          folders that differ in one component, named like labels or depth
 *      train/1.jpg      train_masks/1_mask.gif     ... and a usual suffix
 *      a/1.tif          a/1_mask.tif               one folder, and a usual suffix
 */
#ifndef HINT_H
#define HINT_H

#include "listing.h"

/* Sends the notes to run->event. The listing is grouped (keys.h). Without memory nothing is said. */
void hint_joins(const struct listing *l, const struct slimset_run *run);

#endif
