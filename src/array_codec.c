/* SPDX-License-Identifier: Apache-2.0 */
#include "array_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static bool level_of(const char *text, unsigned most, uint8_t *level)
{
    static const char *const words[] = {"fast", "default", "max"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            *level = (uint8_t)(ARRAY_LEVEL_FAST + i);
            return true;
        }
    size_t digits = strspn(text, "0123456789");
    unsigned long v = digits > 0 && digits < 3 && text[digits] == '\0' ? strtoul(text, NULL, 10) : 0;
    *level = (uint8_t)v;
    return v >= 1 && v <= most;
}

bool array_codec_parse(const char *text, struct array_codec *c, bool *automatic)
{
    *c = (struct array_codec){.codec = SLIMSET_CODEC_NPY_ZST, .level = ARRAY_LEVEL_DEFAULT};
    *automatic = strcmp(text, "auto") == 0;
    if (*automatic || strcmp(text, "zstd") == 0)
        return true;
    if (strncmp(text, "auto:", 5) == 0) {
        *automatic = true;
        return text[5] > '9' && level_of(text + 5, 0, &c->level);
    }
    if (strncmp(text, "zstd:", 5) == 0)
        return level_of(text + 5, 19, &c->level);
    if (strcmp(text, "npy") == 0 || strcmp(text, "npz") == 0 || strcmp(text, "keep") == 0) {
        c->codec = text[0] == 'k' ? SLIMSET_CODEC_KEEP : text[2] == 'z' ? SLIMSET_CODEC_NPZ : SLIMSET_CODEC_NPY;
        c->level = 0;
        return true;
    }
    if (strncmp(text, "blosc", 5) != 0)
        return false;
    c->codec = SLIMSET_CODEC_NPY_BLOSC;
    c->filter = ARRAY_SHUFFLE;
    text += 5;
    if (strncmp(text, ":shuffle", 8) == 0) {
        text += 8;
    } else if (strncmp(text, ":bitshuffle", 11) == 0) {
        c->filter = ARRAY_BITSHUFFLE;
        text += 11;
    }
    return *text == '\0' || (*text == ':' && level_of(text + 1, 9, &c->level));
}

void array_codec_text(struct array_codec c, char *text, size_t n)
{
    static const char *const filters[] = {"noshuffle", "shuffle", "bitshuffle"}, *const words[] = {"fast", "default", "max"};
    char level[16];
    if (c.level >= ARRAY_LEVEL_FAST && c.level <= ARRAY_LEVEL_MAX)
        snprintf(level, sizeof level, "%s", words[c.level - ARRAY_LEVEL_FAST]);
    else
        snprintf(level, sizeof level, "%u", c.level);
    switch (c.codec) {
    case SLIMSET_CODEC_NPY_ZST:
        snprintf(text, n, "zstd:%s", level);
        break;
    case SLIMSET_CODEC_NPY_BLOSC:
        snprintf(text, n, "blosc:%s:%s", filters[c.filter % 3], level);
        break;
    default:
        snprintf(text, n, "%s", c.codec == SLIMSET_CODEC_NPY ? "npy" : c.codec == SLIMSET_CODEC_NPZ ? "npz" : "keep");
        break;
    }
}

size_t array_name_clean(const char *name, size_t n, char out[ARRAY_NAME_MAX + 1])
{
    enum { HASH = 9 };
    if (n > 4 && memcmp(name + n - 4, ".npy", 4) == 0)
        n -= 4;
    size_t keep = n <= ARRAY_NAME_MAX ? n : ARRAY_NAME_MAX - HASH;
    for (size_t i = 0; i < keep; i++) {
        unsigned char c = (unsigned char)name[i];
        out[i] = (char)(c <= 0x20 || c == 0x7f || strchr("./\\=;,:*", c) != NULL ? '_' : c);
    }
    if (keep < n)
        keep += (size_t)snprintf(out + keep, HASH + 1, "-%08x", (unsigned)hash_bytes(name, n));
    if (keep == 0)
        out[keep++] = '_';
    out[keep] = '\0';
    return keep;
}

uint32_t array_name_hash(const char *clean)
{
    return (uint32_t)hash_bytes(clean, strlen(clean));
}

bool array_codec_usable(uint8_t codec)
{
#ifdef HAVE_BLOSC
    (void)codec;
    return true;
#else
    return codec != SLIMSET_CODEC_NPY_BLOSC;
#endif
}

enum image_format array_codec_format(uint8_t codec)
{
    switch (codec) {
    case SLIMSET_CODEC_NPY:
        return FORMAT_NPY;
    case SLIMSET_CODEC_NPY_ZST:
        return FORMAT_NPY_ZST;
    case SLIMSET_CODEC_NPY_BLOSC:
        return FORMAT_NPY_BLOSC;
    case SLIMSET_CODEC_NPZ:
        return FORMAT_NPZ;
    default:
        return FORMAT_UNKNOWN;
    }
}
