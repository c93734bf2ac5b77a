/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <stddef.h>

#include "slimset/format.h"

#define LOOK_UP(table, i)                                                                          \
    ((i) < sizeof(table) / sizeof(table)[0] && (table)[i] != NULL ? (table)[i] : "unknown")

const char *name_role(unsigned role)
{
    static const char *const word[] = {
        [SLIMSET_ROLE_COPY] = "copy",   [SLIMSET_ROLE_IMAGE] = "image",
        [SLIMSET_ROLE_MASK] = "mask",   [SLIMSET_ROLE_DEPTH] = "depth",
        [SLIMSET_ROLE_ARRAY] = "array", [SLIMSET_ROLE_LABEL] = "label",
    };
    return LOOK_UP(word, role);
}

const char *name_codec(unsigned codec)
{
    static const char *const word[] = {
        [SLIMSET_CODEC_KEEP] = "keep", [SLIMSET_CODEC_JPEG] = "jpeg", [SLIMSET_CODEC_PNG] = "png",
        [SLIMSET_CODEC_WEBP] = "webp", [SLIMSET_CODEC_NPY] = "npy",
        [SLIMSET_CODEC_NPY_ZST] = "npy-zst", [SLIMSET_CODEC_NPY_BLOSC] = "npy-blosc",
        [SLIMSET_CODEC_NPZ] = "npz",
    };
    return LOOK_UP(word, codec);
}

const char *name_note(unsigned bit)
{
    /* In the order of enum image_note (src/image.h). */
    static const char *const word[] = {
        "reencoded",       "resized",      "rotated",     "copied",        "not-smaller",
        "stripped",        "alpha-dropped", "flattened",  "profile-dropped", "profile-used",
        "cmyk",            "kept-16bit",   "scaled-8bit", "first-frame",   "warning",
        "tail-bytes",      "progressive",  "expanded",    "nearest",       "classes-lost",
        "slow-path",       "channels",     "gamma",       "profile-bad",   "generated",
        "c-order",         "narrowed",     "cast",        "majority",      "clipped",
        "missed-ssim",
    };
    return bit < sizeof word / sizeof word[0] ? word[bit] : NULL;
}

const char *name_reject_kind(unsigned kind)
{
    static const char *const word[] = {[1] = "reject", [2] = "left-out", [3] = "junk"};
    return LOOK_UP(word, kind);
}

const char *name_order(unsigned order)
{
    static const char *const word[] = {[1] = "shuffled", [2] = "source"};
    return LOOK_UP(word, order);
}

const char *name_hint(unsigned hint)
{
    static const char *const word[] = {"none", "mask-folder", "depth-folder"};
    /* 16 + role: the user's own rule, which may differ from role to role. */
    if (hint >= 32) { /* with settings of its own: what else gives the role (doc/format.md) */
        hint = hint % 8;
        hint = hint < 3 ? hint : 16 + hint - 3;
    }
    return hint >= 16 && hint - 16 <= SLIMSET_ROLE_LABEL ? "user" : LOOK_UP(word, hint);
}
