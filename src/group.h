/* SPDX-License-Identifier: Apache-2.0
 *
 * --group-by GLOB: a folder is one sample (frames of a video, slices of a series). Its images and arrays become the fields 000.jpg, 001.jpg... in
 * byte order of their names; its other files are fields by their names. The sample is called as the folder, so that a file beside it
 * of the same name (clip.txt beside clip/) belongs to it too.
 */
#ifndef GROUP_H
#define GROUP_H

#include "listing.h"

enum { GROUP_JOIN = 255 }; /* entry.join of a file that was grouped so */

/* keys_group, with the folders that recipe->group_by names. A warning tells of folders with more files than a sample can have. */
enum slimset_status group_folders(struct listing *l, const struct slimset_recipe *recipe, const struct slimset_run *run,
                                  struct slimset_error *err);

/* The field of an entry without the number that group_folders gave it: what its rule goes by. */
const char *group_field(const struct entry *e, size_t *n);

#endif
