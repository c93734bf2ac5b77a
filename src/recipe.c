/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <zlib.h>
#include <zstd.h>
#ifdef HAVE_BLOSC
#include <blosc.h>
#endif

#include "array_codec.h"
#include "npy.h"

#define STRING(x) #x
#define STRING_OF(x) STRING(x)

void slimset_recipe_init(struct slimset_recipe *r)
{
    *r = (struct slimset_recipe){
        .quality = 90, .optimise = true, .png_level = 6, .background = {255, 255, 255}, .detect = true,
        .layout = SLIMSET_LAYOUT_SHARDS, .shard_bytes = 256000000, .max_pixels = 178956970, .follow = true,
        .webdataset = true, .depth_hi = 65535, .array_codec = SLIMSET_CODEC_NPY_ZST, .array_level = ARRAY_LEVEL_DEFAULT,
        .array_auto = true,
    };
}

void slimset_run_init(struct slimset_run *run)
{
    *run = (struct slimset_run){.max_rejects = -1, .max_rejects_percent = -1};
}

static bool two_sides(const char *text, struct slimset_recipe *r)
{
    int end = 0;
    if (strspn(text, "0123456789x") != strlen(text)) /* sscanf would take blanks and signs */
        return false;
    return sscanf(text, "%6ux%6u%n", &r->resize_a, &r->resize_b, &end) == 2 && text[end] == '\0' && r->resize_a >= 1 && r->resize_b >= 1 && r->resize_a <= 65500 && r->resize_b <= 65500;
}

static bool one_side(const char *text, struct slimset_recipe *r)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    r->resize_a = (uint32_t)v;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && v >= 1 && v <= 65500;
}

enum slimset_status slimset_recipe_resize(struct slimset_recipe *r, const char *text, struct slimset_error *err)
{
    static const struct {
        const char *name;
        enum slimset_resize mode;
    } modes[] = {{"long:", SLIMSET_RESIZE_LONG}, {"short:", SLIMSET_RESIZE_SHORT}, {"exact:", SLIMSET_RESIZE_EXACT},
                 {"crop:", SLIMSET_RESIZE_CROP}, {"pad:", SLIMSET_RESIZE_PAD}, {"area:", SLIMSET_RESIZE_AREA},
                 {"scale:", SLIMSET_RESIZE_SCALE}};
    const char *value = text;
    bool ok = false;
    r->resize = SLIMSET_RESIZE_LONG; /* a bare number */
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strncmp(text, modes[i].name, strlen(modes[i].name)) == 0) {
            r->resize = modes[i].mode;
            value = text + strlen(modes[i].name);
        }
    char *end = NULL;
    switch (r->resize) {
    case SLIMSET_RESIZE_NONE:
        break;
    case SLIMSET_RESIZE_LONG:
    case SLIMSET_RESIZE_SHORT:
        ok = one_side(value, r);
        break;
    case SLIMSET_RESIZE_EXACT:
    case SLIMSET_RESIZE_CROP:
    case SLIMSET_RESIZE_PAD:
        ok = two_sides(value, r);
        break;
    case SLIMSET_RESIZE_AREA:
        r->resize_pixels = strtoull(value, &end, 10);
        ok = value[0] >= '0' && value[0] <= '9' && *end == '\0' && r->resize_pixels >= 1;
        break;
    case SLIMSET_RESIZE_SCALE:
        r->resize_factor = strtod(value, &end);
        ok = value[0] >= '0' && value[0] <= '9' && *end == '\0' && r->resize_factor > 0 && r->resize_factor <= 100;
        break;
    }
    if (!ok)
        return err_set(err, SLIMSET_USAGE, "--resize %s: expected N or long:N, short:N, exact:WxH, crop:WxH, pad:WxH (1 to 65500 px), "
                       "area:PIXELS or scale:FACTOR", text);
    return SLIMSET_OK;
}

enum slimset_status slimset_recipe_array_codec(struct slimset_recipe *r, const char *text, struct slimset_error *err)
{
    struct array_codec c;
    bool automatic;
    if (!array_codec_parse(text, &c, &automatic))
        return err_set(err, SLIMSET_USAGE, "--array-codec %s: auto[:LEVEL], zstd[:LEVEL], blosc[:shuffle|bitshuffle[:LEVEL]], npy, npz or keep "
                       "is wanted; LEVEL is fast, default, max, or 1 to 19 for zstd and 1 to 9 for blosc", text);
    if (!array_codec_usable(c.codec))
        return err_set(err, SLIMSET_USAGE, "--array-codec %s: this build has no c-blosc", text);
    r->array_codec = (enum slimset_codec)c.codec;
    r->array_filter = c.filter;
    r->array_level = c.level;
    r->array_auto = automatic;
    r->array_asked = true;
    return SLIMSET_OK;
}

enum slimset_status slimset_recipe_cast(struct slimset_recipe *r, const char *text, struct slimset_error *err)
{
    char *end = NULL;
    r->cast = strcmp(text, "float16") == 0 ? SLIMSET_CAST_FLOAT16 : strcmp(text, "float32") == 0 ? SLIMSET_CAST_FLOAT32 : SLIMSET_CAST_NONE;
    if (r->cast == SLIMSET_CAST_NONE && strncmp(text, "uint8:", 6) == 0) {
        r->cast_lo = strtod(text + 6, &end);
        if (*end == ',') {
            r->cast_hi = strtod(end + 1, &end);
            if (*end == '\0' && r->cast_lo < r->cast_hi && r->cast_hi - r->cast_lo < 1e300)
                r->cast = SLIMSET_CAST_UINT8;
        }
    }
    return r->cast != SLIMSET_CAST_NONE ? SLIMSET_OK
                                        : err_set(err, SLIMSET_USAGE, "--cast %s: float16, float32 or uint8:LO,HI (LO < HI) is wanted", text);
}

enum slimset_status slimset_recipe_raw(struct slimset_recipe *r, const char *text, struct slimset_error *err)
{
    struct npy a;
    if (strlen(text) >= sizeof r->raw)
        return err_set(err, SLIMSET_USAGE, "--raw %.60s...: too long", text);
    memset(r->raw, 0, sizeof r->raw);
    memcpy(r->raw, text, strlen(text));
    return npy_parse_raw(text, 0, &a, err);
}

static void line(struct buf *out, struct slimset_error *err, enum slimset_status *st, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void line(struct buf *out, struct slimset_error *err, enum slimset_status *st, const char *fmt, ...)
{
    char text[5000];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text - 1, fmt, ap);
    va_end(ap);
    if (*st != SLIMSET_OK || n < 0)
        return;
    if ((size_t)n > sizeof text - 2)
        n = sizeof text - 2;
    for (int i = 0; i < n; i++)
        if (text[i] == '\n')
            text[i] = ' ';
    text[n++] = '\n';
    *st = buf_append(out, text, (size_t)n, err);
}

bool recipe_resizes(const struct slimset_recipe *r)
{
    bool any = r->resize != SLIMSET_RESIZE_NONE;
    for (size_t i = 0; i < r->n_settings; i++)
        any |= r->settings[i].resize != SLIMSET_RESIZE_NONE;
    return any;
}

/* As short as it can be and still be read back as the same number: 0.98, not 0.97999999999999998. */
static const char *number_text(double x, char text[32])
{
    snprintf(text, 32, "%.15g", x);
    if (strtod(text, NULL) != x)
        snprintf(text, 32, "%.17g", x);
    return text;
}

void recipe_resize_text(const struct slimset_recipe *r, char *text, size_t n)
{
    static const char *const box[] = {[SLIMSET_RESIZE_EXACT] = "exact", [SLIMSET_RESIZE_CROP] = "crop", [SLIMSET_RESIZE_PAD] = "pad"};
    char factor[32];
    switch (r->resize) {
    case SLIMSET_RESIZE_NONE:
        snprintf(text, n, "none");
        break;
    case SLIMSET_RESIZE_LONG:
        snprintf(text, n, "long:%u", r->resize_a);
        break;
    case SLIMSET_RESIZE_SHORT:
        snprintf(text, n, "short:%u", r->resize_a);
        break;
    case SLIMSET_RESIZE_EXACT:
    case SLIMSET_RESIZE_CROP:
    case SLIMSET_RESIZE_PAD:
        snprintf(text, n, "%s:%ux%u", box[r->resize], r->resize_a, r->resize_b);
        break;
    case SLIMSET_RESIZE_AREA:
        snprintf(text, n, "area:%llu", (unsigned long long)r->resize_pixels);
        break;
    case SLIMSET_RESIZE_SCALE:
        snprintf(text, n, "scale:%s", number_text(r->resize_factor, factor));
        break;
    }
}

/* What is done to pixels: a recipe's own, or settings of some files. */
static void pixel_text(const struct slimset_recipe *r, const char *prefix, struct buf *out, struct slimset_error *err,
                       enum slimset_status *st)
{
    static const char *const output[] = {"auto", "jpeg", "png", "webp", "keep", "raw"};
    static const char *const subsampling[] = {"4:2:0", "4:2:2", "4:4:4"};
    static const char *const alpha[] = {"flatten", "keep", "reject", "flatten-all"};
    static const char *const depth[] = {"keep", "8:range", "8:auto"};
    char resize[64], a[32], b[32];
    recipe_resize_text(r, resize, sizeof resize);
    line(out, err, st, "%sresize=%s", prefix, resize);
    line(out, err, st, "%supscale=%d", prefix, r->upscale);
    line(out, err, st, "%scodec=%s", prefix, output[r->output]);
    line(out, err, st, "%slossless=%d", prefix, r->lossless);
    line(out, err, st, "%sreencode=%s", prefix, r->reencode_all ? "all" : "needed");
    line(out, err, st, "%squality=%d", prefix, r->quality);
    line(out, err, st, "%ssubsampling=%s", prefix, subsampling[r->subsampling]);
    line(out, err, st, "%soptimise=%d", prefix, r->optimise);
    line(out, err, st, "%spng-level=%d", prefix, r->png_level);
    line(out, err, st, "%skeep-metadata=%d", prefix, r->keep_metadata);
    line(out, err, st, "%salpha=%s #%02x%02x%02x", prefix, alpha[r->alpha], r->background[0], r->background[1], r->background[2]);
    line(out, err, st, "%scolor=%s", prefix, r->color == SLIMSET_COLOR_SRGB ? "srgb" : "keep");
    line(out, err, st, "%sdepth=%s %s,%s", prefix, depth[r->depth], number_text(r->depth_lo, a), number_text(r->depth_hi, b));
    line(out, err, st, "%schannels=%d", prefix, r->channels);
    line(out, err, st, "%smin-ssim=%s", prefix, number_text(r->min_ssim, a));
    line(out, err, st, "%smask-filter=%s", prefix, r->mask_filter == SLIMSET_MASK_MAJORITY ? "majority" : "nearest");
}

/* "mask", "mask,settings2", "settings2": what stands before a glob or pattern; "" for nothing. */
static const char *rule_words(int role, uint8_t settings, char text[40])
{
    static const char *const roles[] = {"", "skip", "copy", "image", "mask", "depth-map", "array", "label"};
    const char *word = roles[role - SLIMSET_RULE_NO_ROLE];
    if (settings == 0)
        snprintf(text, 40, "%s%s", word, word[0] != '\0' ? " " : "");
    else
        snprintf(text, 40, "%s%ssettings%u ", word, word[0] != '\0' ? "," : "", settings);
    return text;
}

const char *recipe_layout(const struct slimset_recipe *r)
{
    return r->layout == SLIMSET_LAYOUT_TREE ? "tree" : r->layout == SLIMSET_LAYOUT_NPY ? "npy" : "shards";
}

enum slimset_status recipe_text(const struct slimset_recipe *r, struct buf *out, struct slimset_error *err)
{
    static const char *const classes[] = {"auto", "folder", "none"};
    static const char *const order[] = {"auto", "shuffled", "source"};
    static const char *const casts[] = {"none", "float16", "float32", "uint8"};
    static const char *const axes[] = {"none", "HW", "HWC", "CHW", "NHWC", "NCHW"};
    struct array_codec array = {.codec = (uint8_t)r->array_codec, .filter = r->array_filter, .level = r->array_level};
    char array_text[64];
    enum slimset_status st = SLIMSET_OK;
    char words[40];
    line(out, err, &st, "tool=slimset %s", SLIMSET_VERSION);
    line(out, err, &st, "codec.jpeg=libjpeg-turbo %s", STRING_OF(LIBJPEG_TURBO_VERSION));
    line(out, err, &st, "codec.zlib=%s", zlibVersion());
    line(out, err, &st, "codec.zstd=%s", ZSTD_versionString());
#ifdef HAVE_BLOSC
    line(out, err, &st, "codec.blosc=%s", blosc_get_version_string());
#else
    line(out, err, &st, "codec.blosc=none");
#endif
#if defined(__x86_64__)
    line(out, err, &st, "codec.arch=x86_64");
#elif defined(__aarch64__)
    line(out, err, &st, "codec.arch=aarch64");
#endif
    line(out, err, &st, "layout=%s", recipe_layout(r));
    pixel_text(r, "recipe.", out, err, &st);
    line(out, err, &st, "recipe.detect=%d", r->detect);
    line(out, err, &st, "recipe.boxes=%s", r->boxes == SLIMSET_BOXES_KEEP ? "keep" : "refuse");
    line(out, err, &st, "recipe.shard-size=%llu", (unsigned long long)r->shard_bytes);
    line(out, err, &st, "recipe.shards=%u", r->shards);
    line(out, err, &st, "recipe.order=%s", order[r->order]);
    line(out, err, &st, "recipe.seed=%llu", (unsigned long long)r->seed);
    line(out, err, &st, "recipe.classes=%s", classes[r->classes]);
    line(out, err, &st, "recipe.class-order=%s", r->class_order_numeric ? "numeric" : "bytes");
    line(out, err, &st, "recipe.max-pixels=%llu", (unsigned long long)r->max_pixels);
    line(out, err, &st, "recipe.follow=%d", r->follow);
    line(out, err, &st, "recipe.webdataset=%d", r->webdataset);
    array_codec_text(array, array_text, sizeof array_text);
    line(out, err, &st, "recipe.array-codec=%s%s%s", r->array_auto ? "auto " : "", array_text, r->array_auto && r->array_asked ? " everywhere" : "");
    line(out, err, &st, "recipe.keep-order=%d", r->keep_order);
    line(out, err, &st, "recipe.narrow=%d", r->narrow);
    line(out, err, &st, "recipe.cast=%s %.17g,%.17g loss %.17g", casts[r->cast], r->cast_lo, r->cast_hi, r->max_cast_loss);
    line(out, err, &st, "recipe.layout=%s", axes[r->array_layout]);
    line(out, err, &st, "recipe.raw=%s offset %llu", r->raw[0] != '\0' ? r->raw : "none", (unsigned long long)r->raw_offset);
    line(out, err, &st, "recipe.group-by=%s", r->group_by != NULL ? r->group_by : "none");
    for (size_t i = 0; i < r->n_rules; i++)
        line(out, err, &st, "recipe.rule%zu=%s%s", i, rule_words(r->rules[i].role, r->rules[i].settings, words), r->rules[i].glob);
    for (size_t i = 0; i < r->n_joins; i++)
        line(out, err, &st, "recipe.field%zu=%s%s", i, rule_words(r->joins[i].role, r->joins[i].settings, words), r->joins[i].text);
    for (size_t i = 0; i < r->n_settings; i++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "recipe.settings%zu.", i + 1);
        pixel_text(&r->settings[i], prefix, out, err, &st);
        line(out, err, &st, "%sown-size=%d", prefix, r->settings[i].own_size);
    }
    return st;
}

/* Adds "name old -> new" to the text. */
static void difference(char *text, size_t n, const char *name, size_t name_n, const char *old, size_t old_n, const char *now,
                       size_t now_n)
{
    size_t at = strlen(text);
    if (strncmp(name, "recipe.", 7) == 0) {
        name += 7;
        name_n -= 7;
    }
    snprintf(text + at, n - at, "%s%.*s: %.*s -> %.*s", at > 0 ? "; " : "", (int)name_n, name, (int)old_n, old, (int)now_n, now);
}

enum slimset_status recipe_compare(const struct buf *text, const struct index *ix, const char *out, struct slimset_error *err)
{
    char differs[400] = "", name[64];
    const char *p = (const char *)text->data, *end = p + text->len;
    size_t rules = 0, joins = 0, settings = 1;
    while (p < end) {
        const char *eq = memchr(p, '=', (size_t)(end - p)), *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)(eq - p), now_n = (size_t)(nl - eq - 1), old_n = 0;
        const char *old = "none";
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        rules += strncmp(name, "recipe.rule", 11) == 0;
        joins += strncmp(name, "recipe.field", 12) == 0;
        settings += strncmp(name, "recipe.settings", 15) == 0 && strstr(name, ".own-size") != NULL;
        if (!index_meta(ix, name, &old, &old_n))
            difference(differs, sizeof differs, p, n, "none", 4, eq + 1, now_n);
        else if (old_n != now_n || memcmp(old, eq + 1, now_n) != 0)
            difference(differs, sizeof differs, p, n, old, old_n, eq + 1, now_n);
        p = nl + 1;
    }
    for (int i = 0; i < 3; i++) { /* one more than there are now */
        const char *old;
        size_t old_n;
        if (i == 2)
            snprintf(name, sizeof name, "recipe.settings%zu.own-size", settings);
        else
            snprintf(name, sizeof name, "recipe.%s%zu", i == 0 ? "rule" : "field", i == 0 ? rules : joins);
        if (index_meta(ix, name, &old, &old_n))
            difference(differs, sizeof differs, name, strlen(name), old, old_n, "none", 4);
    }
    if (differs[0] == '\0')
        return SLIMSET_OK;
    return err_set(err, SLIMSET_DIFFERS, "%.60s was made otherwise (%.370s); --force redoes all", out, differs);
}
