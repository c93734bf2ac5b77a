/* SPDX-License-Identifier: Apache-2.0
 *
 * WebDataset's reading of a tar: consecutive members whose names agree up to the first dot of the last path component are one
 * sample, the rest of the name is the field.
 */
#ifndef WEBDATASET_H
#define WEBDATASET_H

#include "listing.h"

/* Bytes of the key part of a member name, 0 where WebDataset would skip it (no dot, or nothing before the first dot). */
size_t webdataset_key_bytes(const char *name, size_t n);

/* True when these members (in archive order, names behind prefix_bytes) are a WebDataset shard rather than an archived tree: every
 * one has a key, equal keys stand together, no field comes twice in a sample, and samples of two or more
 * fields are the rule. (A shard of single-field samples packs the same either way.) */
bool webdataset_is(const struct entry *e, size_t n, size_t prefix_bytes);

#endif
