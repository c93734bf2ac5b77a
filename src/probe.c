/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "array_choose.h"
#include "base/hash.h"
#include "convert.h"
#include "recipe.h"
#include "request.h"
#include "roles.h"
#include "sniff.h"

enum {
    PROBE_FILES = 16,   /* per rule at most: enough for a majority */
    PROBE_FEW = 4,      /* of JPEGs and arrays at least; in between one in PROBE_SHARE: what a name says is most of it */
    PROBE_SHARE = 40,
    PROBE_TEXTS = 256,  /* of JSON and of XML where boxes matter, the largest: boxes make a file longer */
    PROBE_SIZES = 2,    /* of these are converted, for an idea of the output's size */
    PHOTO_PERMILLE = 500 /* equal neighbours: photographs have fewer, drawings and label maps more */
};

struct candidate {
    uint64_t hash; /* of the path; of texts what makes the largest come first */
    uint32_t entry;
};

/* What the files of one rule showed. */
struct findings {
    struct candidate file[PROBE_FILES];
    unsigned n_files, n;         /* chosen; answered well */
    unsigned images, jpeg, webp, lossy, kept_lossy, one_channel, few_values, sparse16, bits16, alpha, photo, boxes, turned;
    /* webp: those with loss; kept_lossy: what a format that is kept encodes with loss */
    uint32_t max_value;
    uint32_t lossy_values;       /* the most values that one of the lossy files has in one channel, counted up to 65 */
    uint32_t min_16, max_16;     /* of files with 16 bits, as the next three */
    uint32_t upper_permille;     /* a sum */
    uint32_t levels;             /* the most that one of them has */
    bool merges;
    uint64_t in_bytes, out_bytes;
    uint32_t box_entry, turned_entry;
    uint8_t box_kind;
    struct array_trials *arrays; /* of a rule of role array */
};

struct probe {
    struct plan *p;
    struct pool *pool;
    const struct slimset_run *run;
    struct findings *f;          /* one a rule, and one for texts */
    struct candidate text[2 * PROBE_TEXTS];
    unsigned n_texts;
};

static unsigned wanted_files(const struct plan_rule *r)
{
    const char *dot = strrchr(r->name, '.'), *ext = dot != NULL ? dot + 1 : r->name;
    bool jpeg = strcasecmp(ext, "jpg") == 0 || strcasecmp(ext, "jpeg") == 0;
    if (!jpeg && r->role != SLIMSET_ROLE_ARRAY)
        return PROBE_FILES; /* content decides, and --depth 8:auto takes its range from them */
    uint64_t n = r->n_files / PROBE_SHARE;
    return n < PROBE_FEW ? PROBE_FEW : n > PROBE_FILES ? PROBE_FILES : (unsigned)n;
}

/* Keeps the entries with the smallest hashes. */
static void choose(struct findings *f, unsigned wanted, uint64_t hash, uint32_t entry)
{
    if (f->n_files < wanted) {
        f->file[f->n_files++] = (struct candidate){hash, entry};
        return;
    }
    unsigned worst = 0;
    for (unsigned i = 1; i < wanted; i++)
        if (f->file[i].hash > f->file[worst].hash)
            worst = i;
    if (hash < f->file[worst].hash)
        f->file[worst] = (struct candidate){hash, entry};
}

static void take(struct findings *f, const struct item_answer *a, uint32_t entry)
{
    const struct item_field *i = item_fields(a);
    if (a->status != SLIMSET_OK)
        return; /* a reject of the run proper, which will say so */
    f->n++;
    if (f->arrays != NULL)
        array_trials_take(f->arrays, a);
    if (i->probe_bytes > 0) {
        f->in_bytes += i->in_bytes;
        f->out_bytes += i->probe_bytes;
    }
    f->images += role_is_image_format(i->in_format);
    f->jpeg += i->in_format == FORMAT_JPEG;
    f->webp += i->in_format == FORMAT_WEBP && !i->in_lossless;
    f->kept_lossy += i->in_format == FORMAT_JPEG || i->in_format == FORMAT_HEIF || i->in_format == FORMAT_AVIF || i->in_format == FORMAT_JXL ||
                     i->in_format == FORMAT_JP2 || (i->in_format == FORMAT_WEBP && !i->in_lossless);
    if (i->in_format == FORMAT_JPEG || i->in_format == FORMAT_HEIF || i->in_format == FORMAT_AVIF || (i->in_format == FORMAT_WEBP && !i->in_lossless)) {
        f->lossy++;
        f->lossy_values = i->values > f->lossy_values ? i->values : f->lossy_values;
    }
    f->one_channel += i->values > 0 && i->in_format != FORMAT_JPEG;
    f->few_values += i->values > 0 && i->values <= 64;
    f->sparse16 += i->values > 0 && i->in_bits == 16 && i->zero_permille >= 50;
    if (i->in_bits == 16) {
        f->min_16 = f->bits16 == 0 || i->min_value < f->min_16 ? i->min_value : f->min_16;
        f->max_16 = i->max_value > f->max_16 ? i->max_value : f->max_16;
        f->upper_permille += i->upper_permille;
        f->levels = i->levels > f->levels ? i->levels : f->levels;
        f->merges |= i->merges;
        f->bits16++;
    }
    f->alpha += i->real_alpha;
    f->photo += i->in_format == FORMAT_JPEG || i->equal_permille < PHOTO_PERMILLE;
    if (i->max_value > f->max_value)
        f->max_value = i->max_value;
    if (i->orientation > 1) {
        f->turned++;
        f->turned_entry = entry;
    }
    if (i->boxes != 0) {
        f->boxes++;
        f->box_kind = i->boxes;
        f->box_entry = entry;
    }
}

/* Takes one answer out of the pool; the ticket says rule and file. */
static enum slimset_status collect(struct probe *pr, bool *got, struct slimset_error *err)
{
    struct pool_answer a;
    uint64_t culprit = 0;
    enum slimset_status st = pool_next(pr->pool, 1000, &a, got, &culprit, err);
    if (st != SLIMSET_OK || !*got)
        return st;
    size_t texts = pr->p->n_rules; /* their tickets come behind those of all rules */
    if (a.ticket >= texts * PROBE_FILES)
        take(&pr->f[texts], a.answer, pr->text[a.ticket - texts * PROBE_FILES].entry);
    else
        take(&pr->f[a.ticket / PROBE_FILES], a.answer, pr->f[a.ticket / PROBE_FILES].file[a.ticket % PROBE_FILES].entry);
    free(a.answer);
    return SLIMSET_OK;
}

static int by_hash(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

/* Asks the kernel for all these files at once: on slow media their reads then wait side by side. */
static void ask_ahead(const struct probe *pr, const struct candidate *file, unsigned n)
{
    struct request r;
    struct slimset_error ignored;
    uint32_t failed;
    for (unsigned i = 0; i < n; i++)
        if (request_open(&r, pr->p, file[i].entry, 1, ITEM_PROBE, 0, &failed, &ignored) == SLIMSET_OK) {
            request_readahead(&r);
            request_close(&r);
        }
}

/* Probes n files under tickets that count from the given one; the first `sized` of them are converted. */
static enum slimset_status look(struct probe *pr, const struct candidate *file, unsigned n, uint64_t ticket, unsigned sized,
                                struct slimset_error *err)
{
    struct request r;
    ask_ahead(pr, file, n);
    for (unsigned i = 0; i < n; i++) {
        uint32_t failed;
        bool got;
        enum slimset_status st = SLIMSET_OK;
        if (pr->run->stop != NULL && *pr->run->stop)
            return err_set(err, SLIMSET_INTERRUPTED, "interrupted");
        while (st == SLIMSET_OK && !pool_has_room(pr->pool))
            st = collect(pr, &got, err);
        if (st == SLIMSET_OK)
            st = request_open(&r, pr->p, file[i].entry, 1, ITEM_PROBE, ticket + i, &failed, err);
        if (st == SLIMSET_BAD_INPUT)
            continue;
        if (st == SLIMSET_OK) {
            r.item.input[0].flags |= i < sized ? ITEM_PROBE_SIZE : 0;
            st = pool_submit(pr->pool, &r.item, r.fds, err);
        }
        if (st != SLIMSET_OK)
            return st;
    }
    return SLIMSET_OK;
}

static enum slimset_status drain(struct probe *pr, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    bool got;
    while (st == SLIMSET_OK && pool_in_flight(pr->pool) > 0)
        st = collect(pr, &got, err);
    return st;
}

/* --- decisions -------------------------------------------------------------------------------------------- */

static bool most(unsigned some, unsigned all)
{
    return all > 0 && 2 * some > all;
}

static enum slimset_codec wanted_codec(const struct slimset_recipe *r)
{
    if (r->layout == SLIMSET_LAYOUT_NPY)
        return SLIMSET_CODEC_NPY;
    switch (r->output) {
    case SLIMSET_OUTPUT_JPEG:
        return SLIMSET_CODEC_JPEG;
    case SLIMSET_OUTPUT_PNG:
        return SLIMSET_CODEC_PNG;
    case SLIMSET_OUTPUT_WEBP:
        return SLIMSET_CODEC_WEBP;
    case SLIMSET_OUTPUT_RAW:
        return SLIMSET_CODEC_NPY;
    case SLIMSET_OUTPUT_AUTO:
        return r->resize == SLIMSET_RESIZE_NONE || r->lossless ? SLIMSET_CODEC_KEEP : SLIMSET_CODEC_JPEG;
    case SLIMSET_OUTPUT_KEEP:
        break;
    }
    return SLIMSET_CODEC_KEEP;
}

/* Role: names propose, content disposes (a folder may be called "with_mask" and hold photographs). */
static const char *settle_role(const struct slimset_recipe *recipe, struct plan_rule *r, const struct findings *f)
{
    if (r->by_user)
        return "given by a rule";
    if (r->role == SLIMSET_ROLE_ARRAY)
        return "by its extension";
    if (f->n == 0 || !recipe->detect)
        return "by its extension";
    if (r->role == SLIMSET_ROLE_COPY) {
        if (!most(f->images, f->n))
            return "no image inside";
        r->role = SLIMSET_ROLE_IMAGE;
        return "images by their content";
    }
    bool photos = most(f->jpeg, f->n) || (most(f->photo, f->n) && !most(f->one_channel, f->n));
    if (r->role == SLIMSET_ROLE_MASK || r->role == SLIMSET_ROLE_DEPTH) {
        if (!photos)
            return "its name says so and the content fits";
        r->role = SLIMSET_ROLE_IMAGE;
        return "its name sounds like labels, but the content is photographs";
    }
    if (f->n >= 2 && f->few_values == f->n && f->jpeg == 0) {
        r->role = SLIMSET_ROLE_MASK;
        return "every probed file has one channel of at most 64 values";
    }
    if (f->n >= 2 && most(f->sparse16, f->n)) {
        r->role = SLIMSET_ROLE_DEPTH;
        return "16-bit gray with many exact zeros";
    }
    return "images";
}

/* May 16-bit values lose their low byte? Where they fill the range, or where the low byte told nothing apart. Values of 12 bits
 * would be left with 16 levels, and a few hot pixels among them do not make that better. */
static bool may_shift(const struct findings *f)
{
    enum { UPPER_PERMILLE = 10, LEVELS = 32 };
    bool fills = f->upper_permille >= UPPER_PERMILLE * f->bits16 && f->levels >= LEVELS;
    return f->bits16 == f->n && f->max_value >= 32768 && (!f->merges || fills);
}

static void warn_alpha(const struct probe *pr, const struct plan_rule *r, const struct slimset_recipe *recipe, const struct findings *f)
{
    bool holds = r->codec != SLIMSET_CODEC_JPEG && recipe->channels == 0 && recipe->alpha != SLIMSET_ALPHA_FLATTEN;
    if (f->n == 0 || f->alpha * 100 <= f->n || r->role != SLIMSET_ROLE_IMAGE)
        return;
    if (recipe->alpha == SLIMSET_ALPHA_REJECT)
        run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: %u of %u probed files are really transparent; they are rejects (--alpha reject)", r->name,
                 f->alpha, f->n);
    else if (!holds)
        run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: %u of %u probed files are really transparent; they are flattened on "
                 "#%02x%02x%02x (--alpha)", r->name, f->alpha, f->n, recipe->background[0], recipe->background[1],
                 recipe->background[2]);
}

/* What becomes of 16 bits in a codec that has 8 is said before the run. */
static void warn_16_bits(const struct probe *pr, const struct plan_rule *r, const struct slimset_recipe *recipe, const struct findings *f)
{
    if (f->bits16 > 0 && r->role == SLIMSET_ROLE_IMAGE && recipe->color == SLIMSET_COLOR_SRGB)
        run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: 16-bit images with a colour profile become 8-bit sRGB (--color srgb)", r->name);
    if (f->bits16 == 0 || r->role != SLIMSET_ROLE_IMAGE || recipe->depth != SLIMSET_DEPTH_KEEP ||
        (r->codec != SLIMSET_CODEC_JPEG && r->codec != SLIMSET_CODEC_WEBP))
        return;
    if (r->flags & ITEM_SHIFT_16)
        run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: 16-bit values become 8-bit by dropping their low byte (lossy); --depth 8:auto or 8:LO,HI "
                 "scales a range, --codec png keeps all bits", r->name);
    else
        run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: %u of %u files looked at have 16 bits; 8 bits would leave too little of their values (%u "
                 "levels), so such files are rejects: --depth 8:LO,HI scales a range (8:auto: %u to %u), --codec png keeps all bits",
                 r->name, f->bits16, f->n, f->levels, f->min_16, f->max_16);
}

static const char *settle_codec(const struct slimset_recipe *recipe, struct plan_rule *r, const struct findings *f)
{
    r->codec = (uint8_t)wanted_codec(recipe);
    if (r->role == SLIMSET_ROLE_MASK || r->role == SLIMSET_ROLE_DEPTH) {
        if (r->codec != SLIMSET_CODEC_KEEP && r->codec != SLIMSET_CODEC_NPY)
            r->codec = SLIMSET_CODEC_PNG;
        return r->codec == SLIMSET_CODEC_KEEP && recipe->resize == SLIMSET_RESIZE_NONE ? "bytes kept" : "lossless, nearest";
    }
    if (r->role != SLIMSET_ROLE_IMAGE && r->role != SLIMSET_ROLE_ARRAY) {
        r->codec = SLIMSET_CODEC_KEEP;
        return "copied";
    }
    if (may_shift(f))
        r->flags |= ITEM_SHIFT_16;
    if (recipe->output != SLIMSET_OUTPUT_AUTO || r->codec != SLIMSET_CODEC_JPEG)
        return r->codec == SLIMSET_CODEC_KEEP ? "format kept" : "as asked";
    if (f->bits16 > 0 && recipe->depth == SLIMSET_DEPTH_KEEP) {
        r->codec = SLIMSET_CODEC_PNG;
        return "16 bits are kept";
    }
    if (f->alpha > 0 && recipe->alpha == SLIMSET_ALPHA_KEEP) {
        r->codec = SLIMSET_CODEC_PNG;
        return "alpha is kept";
    }
    if (f->n > 0 && !most(f->jpeg, f->n) && !most(f->photo, f->n)) {
        r->codec = SLIMSET_CODEC_PNG;
        return "drawings rather than photographs: stay lossless";
    }
    return most(f->jpeg, f->n) ? "JPEG stays JPEG" : "photo-like images";
}

static const char *codec_text(uint8_t codec)
{
    static const char *const text[SLIMSET_CODEC_COUNT] = {"bytes or format kept", "JPEG", "PNG", "WebP", "raw .npy", "zstd frames of .npy",
                                                          "blosc buffers of .npy", ".npz"};
    return text[codec];
}

static void tell_array(const struct probe *pr, const struct plan_rule *r, const char *why)
{
    const struct slimset_recipe *recipe = pr->p->recipe;
    static const char *const casts[] = {"", ", cast to float16 (lossy)", ", cast to float32 (lossy)", ", cast to uint8 (lossy)"};
    run_note(pr->run, SLIMSET_EVENT_NOTE, "%s%s: %llu files, array -> %s, %s%s%s (%s)", r->name[0] != '\0' ? "." : "no extension", r->name,
             (unsigned long long)r->n_files, codec_text(r->codec), r->params != NULL ? r->params : "", casts[recipe->cast],
             recipe->cast != SLIMSET_CAST_NONE ? "" : recipe->narrow ? ", the smallest exact type" : ", lossless", why);
}

/* Lossy compression leaves values beside the labels that no labeller wrote. */
static void warn_lossy_masks(const struct probe *pr, const struct plan_rule *r, const struct findings *f)
{
    char values[64] = "colours";
    if (r->role != SLIMSET_ROLE_MASK || f->lossy == 0)
        return;
    if (f->lossy_values > 64)
        snprintf(values, sizeof values, "more than 64 values");
    else if (f->lossy_values > 0)
        snprintf(values, sizeof values, "up to %u value%s", f->lossy_values, f->lossy_values == 1 ? "" : "s");
    run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: %u of %u masks looked at were compressed with loss and hold %s: those between the labels "
             "are not labels. Lossless originals are the remedy; where masks get smaller, --mask-filter majority drops most of them",
             r->name, f->lossy, f->n, values);
}

static enum slimset_status settle(struct probe *pr, size_t i, struct slimset_error *err)
{
    static const char *const roles[] = {"copy", "image", "mask", "depth map", "array", "label"};
    struct plan_rule *r = &pr->p->rules[i];
    const struct slimset_recipe *recipe = plan_settings(pr->p, r);
    const struct findings *f = &pr->f[i];
    const char *why_role = settle_role(recipe, r, f), *why_codec = "";
    enum slimset_status st = SLIMSET_OK;
    r->settled = true;
    r->probed = f->n;
    r->ratio = f->in_bytes > 0 ? (double)f->out_bytes / (double)f->in_bytes : 1;
    if (r->role == SLIMSET_ROLE_ARRAY && f->arrays != NULL)
        st = array_trials_settle(f->arrays, recipe, r, &why_codec, err);
    else
        why_codec = settle_codec(recipe, r, f);
    if (st != SLIMSET_OK)
        return st;
    free(r->reason);
    if (asprintf(&r->reason, "%s; %s", why_role, why_codec) < 0) {
        r->reason = NULL;
        return err_nomem(err, 128);
    }
    if (r->role == SLIMSET_ROLE_COPY) {
        if (pr->p->recipe->n_joins > 0) /* who names fields wants to hear of each */
            run_note(pr->run, SLIMSET_EVENT_NOTE, "%s%s: %llu files, %s (%s; %s)", r->name[0] != '\0' ? "." : "no extension", r->name,
                     (unsigned long long)r->n_files, roles[r->role], why_role, why_codec);
        return SLIMSET_OK;
    }
    if (r->role == SLIMSET_ROLE_ARRAY) {
        tell_array(pr, r, why_codec);
        return SLIMSET_OK;
    }
    char lossy[64] = "";
    bool labels = r->role == SLIMSET_ROLE_MASK || r->role == SLIMSET_ROLE_DEPTH;
    if (r->codec == SLIMSET_CODEC_JPEG || (r->codec == SLIMSET_CODEC_WEBP && !recipe->lossless) ||
        (r->codec == SLIMSET_CODEC_KEEP && !labels && f->kept_lossy > 0 && !convert_keeps_pixels(recipe)))
        snprintf(lossy, sizeof lossy, recipe->min_ssim > 0 && r->codec != SLIMSET_CODEC_WEBP ? " quality 30 to 97 for an SSIM of %.4f (lossy)"
                 : " quality %.0f (lossy)", recipe->min_ssim > 0 && r->codec != SLIMSET_CODEC_WEBP ? recipe->min_ssim : recipe->quality);
    char size[80] = "";
    if (pr->p->recipe->n_settings > 0 && labels && !recipe->own_size)
        snprintf(size, sizeof size, ", in the size of its image");
    else if (pr->p->recipe->n_settings > 0) {
        snprintf(size, sizeof size, ", resize ");
        recipe_resize_text(recipe, size + strlen(size), sizeof size - strlen(size));
    }
    run_note(pr->run, SLIMSET_EVENT_NOTE, "%s%s: %llu files, %s (%s) -> %s%s%s (%s)", r->name[0] != '\0' ? "." : "no extension",
             r->name, (unsigned long long)r->n_files, roles[r->role], why_role, codec_text(r->codec), lossy, size, why_codec);
    warn_alpha(pr, r, recipe, f);
    warn_lossy_masks(pr, r, f);
    warn_16_bits(pr, r, recipe, f);
    if (recipe->min_ssim > 0 && !recipe->lossless && r->role == SLIMSET_ROLE_IMAGE && (r->codec == SLIMSET_CODEC_WEBP ||
        (r->codec == SLIMSET_CODEC_KEEP && f->webp > 0 && !convert_keeps_pixels(recipe))))
        run_note(pr->run, SLIMSET_EVENT_WARNING, ".%s: --min-ssim chooses the quality of JPEG only; WebP is encoded with quality %d",
                 r->name, recipe->quality);
    return SLIMSET_OK;
}

/* --- the range of --depth 8:auto ----------------------------------------------------------------------------- */

static bool has_range(const struct plan *p, const struct plan_rule *r)
{
    return r->role == SLIMSET_ROLE_IMAGE && plan_settings(p, r)->depth == SLIMSET_DEPTH_8_AUTO;
}

/* Do files of both rules become the same field? PNG and TIFF do, or those of two sections: only their names before the extension count. */
static bool same_field(const struct plan_rule *a, const struct plan_rule *b)
{
    const char *dot_a = strrchr(a->name, '.'), *dot_b = strrchr(b->name, '.');
    size_t n = dot_a != NULL ? (size_t)(dot_a - a->name) : 0, m = dot_b != NULL ? (size_t)(dot_b - b->name) : 0;
    return n == m && memcmp(a->name, b->name, n) == 0;
}

/* One range for all files of a field, so that equal values stay equal from file to file. A rule that was settled before has one already. */
static enum slimset_status settle_range(struct probe *pr, const bool *fresh, size_t rule, struct slimset_error *err)
{
    struct plan *p = pr->p;
    struct plan_rule *r = &p->rules[rule];
    struct findings all = {0};
    unsigned short lo = 0, hi = 0;
    bool given = false;
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct findings *f = &pr->f[i];
        const struct plan_rule *with = &p->rules[i];
        if (!has_range(p, with) || !same_field(r, with))
            continue;
        if (!fresh[i] && !given && with->params != NULL)
            given = sscanf(with->params, "depth:%hu,%hu", &lo, &hi) == 2;
        all.n += f->n;
        if (f->bits16 == 0)
            continue;
        all.min_16 = all.bits16 == 0 || f->min_16 < all.min_16 ? f->min_16 : all.min_16;
        all.max_16 = f->max_16 > all.max_16 ? f->max_16 : all.max_16;
        all.bits16 += f->bits16;
    }
    if (!given && all.bits16 == 0)
        return SLIMSET_OK;
    if (!given) {
        bool one = all.min_16 == all.max_16; /* one value everywhere: a range of two */
        lo = (unsigned short)(all.min_16 - (one && all.min_16 == 65535));
        hi = (unsigned short)(one ? lo + 1u : all.max_16);
    }
    free(r->params);
    if (asprintf(&r->params, "depth:%u,%u", lo, hi) < 0) {
        r->params = NULL;
        return err_nomem(err, 32);
    }
    if (given)
        run_note(pr->run, SLIMSET_EVENT_NOTE, ".%s: 16-bit values become 8-bit: %u to %u, as before, to 0 to 255; what lies outside is "
                 "cut off (--depth 8:auto; --replan looks again)", r->name, lo, hi);
    else if (pr->f[rule].bits16 > 0)
        run_note(pr->run, SLIMSET_EVENT_NOTE, ".%s: 16-bit values become 8-bit: %u to %u, as in %u of %u files looked at, to 0 to 255; what "
                 "lies outside is cut off (--depth 8:auto)", r->name, lo, hi, all.bits16, all.n);
    return SLIMSET_OK;
}

static enum slimset_status settle_all(struct probe *pr, struct slimset_error *err)
{
    struct plan *p = pr->p;
    enum slimset_status st = SLIMSET_OK;
    bool *fresh = calloc(p->n_rules + 1, sizeof *fresh);
    if (fresh == NULL)
        return err_nomem(err, p->n_rules);
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_rules; i++) {
        fresh[i] = !p->rules[i].settled;
        if (fresh[i])
            st = settle(pr, i, err);
    }
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_rules; i++)
        if (fresh[i] && has_range(p, &p->rules[i]))
            st = settle_range(pr, fresh, i, err);
    free(fresh);
    return st;
}

/* --- boxes ------------------------------------------------------------------------------------------------- */

static bool ends_with(const struct entry *e, const char *ext)
{
    size_t n = strlen(ext);
    return e->path_bytes > n && strcasecmp(e->path + e->path_bytes - n, ext) == 0;
}

/* An image that EXIF says to turn, and that is not passed through: its pixels move without any resizing. */
static const struct entry *turned_image(const struct probe *pr)
{
    const struct plan *p = pr->p;
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct slimset_recipe *r = plan_settings(p, &p->rules[i]);
        if (pr->f[i].turned > 0 && !(wanted_codec(r) == SLIMSET_CODEC_KEEP && convert_keeps_pixels(r)))
            return &p->listing.entries[pr->f[i].turned_entry];
    }
    return NULL;
}

/* Where images are only turned, a file that speaks of many of them is refused here, one that lies beside its image by the pipeline. */
static enum slimset_status refuse_boxes(struct probe *pr, struct slimset_error *err)
{
    enum { COCO = 2 };
    static const char *const kinds[] = {"", "Pascal VOC XML", "COCO JSON", "labelme JSON"};
    const struct plan *p = pr->p;
    const struct entry *turned = turned_image(pr);
    for (size_t i = 0; i <= p->n_rules; i++) {
        const struct findings *f = &pr->f[i];
        bool resizes = recipe_resizes(p->recipe);
        char name[512], image[512];
        if (f->boxes == 0 || p->recipe->boxes == SLIMSET_BOXES_KEEP || (!resizes && (turned == NULL || f->box_kind != COCO)))
            continue;
        listing_display(&p->listing, &p->listing.entries[f->box_entry], true, name, sizeof name);
        if (!resizes) {
            listing_display(&p->listing, turned, true, image, sizeof image);
            return err_set(err, SLIMSET_USAGE, "%.300s holds boxes in pixels (%s), and images such as %.300s are turned upright: "
                           "--boxes keep leaves the boxes as they are, without --codec, --channels and the like nothing moves",
                           name, kinds[f->box_kind], image);
        }
        return err_set(err, SLIMSET_USAGE, "%.300s holds boxes in pixels (%s), and resizing would move the pixels under them: "
                       "--boxes keep leaves them as they are, without --resize nothing moves", name, kinds[f->box_kind]);
    }
    return SLIMSET_OK;
}

/* Adds to pr->text the PROBE_TEXTS largest files of an extension. */
static enum slimset_status choose_texts(struct probe *pr, const char *ext, struct slimset_error *err)
{
    const struct listing *l = &pr->p->listing;
    struct candidate *found = NULL;
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < l->n_entries; i++) {
        const struct entry *e = &l->entries[i];
        if (e->problem != SLIMSET_REJECT_NONE || !ends_with(e, ext))
            continue;
        if (n == cap) {
            cap = 2 * cap + 64;
            struct candidate *grown = realloc(found, cap * sizeof *grown);
            if (grown == NULL) {
                free(found);
                return err_nomem(err, cap * sizeof *grown);
            }
            found = grown;
        }
        found[n++] = (struct candidate){UINT64_MAX - e->bytes, (uint32_t)i};
    }
    if (n > 0)
        qsort(found, n, sizeof *found, by_hash);
    for (size_t i = 0; i < n && i < PROBE_TEXTS; i++)
        pr->text[pr->n_texts++] = found[i];
    free(found);
    return SLIMSET_OK;
}

/* Looks into texts beside the images: a COCO JSON at the top belongs to no sample, and is seen here only. */
static enum slimset_status look_for_boxes(struct probe *pr, struct slimset_error *err)
{
    const struct plan *p = pr->p;
    enum slimset_status st = drain(pr, err);
    if (st != SLIMSET_OK || p->recipe->boxes != SLIMSET_BOXES_REFUSE || (!recipe_resizes(p->recipe) && turned_image(pr) == NULL))
        return st;
    st = choose_texts(pr, ".json", err);
    if (st == SLIMSET_OK)
        st = choose_texts(pr, ".xml", err);
    return st == SLIMSET_OK ? look(pr, pr->text, pr->n_texts, p->n_rules * PROBE_FILES, 0, err) : st;
}

/* --- the run ---------------------------------------------------------------------------------------------- */

/* Chooses files of unsettled rules. */
static void choose_all(struct probe *pr, bool again)
{
    struct plan *p = pr->p;
    for (size_t i = 0; i < p->listing.n_entries; i++) {
        const struct entry *e = &p->listing.entries[i];
        if (e->problem != SLIMSET_REJECT_NONE)
            continue;
        const struct plan_rule *r = &p->rules[e->rule];
        if (again ? r->role == SLIMSET_ROLE_IMAGE && !r->settled : !r->settled)
            choose(&pr->f[e->rule], wanted_files(r), hash_bytes(e->path, e->path_bytes), (uint32_t)i);
    }
}

static enum slimset_status round_of(struct probe *pr, bool again, struct slimset_error *err)
{
    enum slimset_status st = SLIMSET_OK;
    choose_all(pr, again);
    for (size_t i = 0; st == SLIMSET_OK && i < pr->p->n_rules; i++) {
        struct plan_rule *r = &pr->p->rules[i];
        if (!r->settled && r->role != SLIMSET_ROLE_COPY && r->role != SLIMSET_ROLE_ARRAY)
            r->codec = (uint8_t)wanted_codec(plan_settings(pr->p, r));
        struct findings *f = &pr->f[i];
        qsort(f->file, f->n_files, sizeof f->file[0], by_hash);
        st = look(pr, f->file, f->n_files, i * PROBE_FILES, PROBE_SIZES, err);
    }
    if (st == SLIMSET_OK && !again)
        st = look_for_boxes(pr, err);
    return st == SLIMSET_OK ? drain(pr, err) : st;
}

enum slimset_status probe_run(struct plan *p, struct pool *pool, const struct slimset_run *run, struct slimset_error *err)
{
    struct probe pr = {.p = p, .pool = pool, .run = run, .f = calloc(p->n_rules + 1, sizeof *pr.f)};
    if (pr.f == NULL)
        return err_nomem(err, p->n_rules * sizeof *pr.f);
    enum slimset_status st = SLIMSET_OK;
    for (size_t i = 0; i < p->n_rules; i++)
        if (p->rules[i].role == SLIMSET_ROLE_ARRAY && !p->rules[i].settled && (pr.f[i].arrays = calloc(1, sizeof *pr.f[i].arrays)) == NULL)
            st = err_nomem(err, sizeof *pr.f[i].arrays);
    if (st == SLIMSET_OK)
        st = round_of(&pr, false, err);
    if (st == SLIMSET_OK)
        st = refuse_boxes(&pr, err);
    bool again = false; /* files of unknown extension that are images: look at them as such */
    for (size_t i = 0; st == SLIMSET_OK && i < p->n_rules; i++) {
        struct plan_rule *r = &p->rules[i];
        bool known, found = !r->settled && !r->by_user && p->recipe->detect && r->role == SLIMSET_ROLE_COPY && most(pr.f[i].images, pr.f[i].n);
        const char *dot = strrchr(r->name, '.');
        const char *ext = dot != NULL ? dot + 1 : r->name;
        role_of_extension(ext, strlen(ext), &known);
        if (found && !known) {
            r->role = SLIMSET_ROLE_IMAGE;
            again = true;
        }
        if (!found || known)
            pr.f[i].n_files = 0;
        else
            pr.f[i] = (struct findings){0};
    }
    if (st == SLIMSET_OK && again)
        st = round_of(&pr, true, err);
    if (st == SLIMSET_OK)
        st = settle_all(&pr, err);
    for (size_t i = 0; i <= p->n_rules; i++)
        free(pr.f[i].arrays);
    free(pr.f);
    return st;
}
