/* SPDX-License-Identifier: Apache-2.0
 *
 * The measure. Classes with fewer than 20 images are left out. For each trait, Cramer's V of the table "class x has the trait",
 * corrected for its bias (V^2 = chi^2 / N, less the (C - 1) / (N - 1) that mere chance gives to C classes): 0 when all
 * classes have the same share, 1 when the class says whether an image has the trait. Told when V is at least 0.5 and the shares
 * of two classes lie at least 50 points apart. Chance does not get there: N images in C alike classes of 20 reach a V of
 * about 0.2 before the correction.
 */
#include "class_traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "sniff.h"

enum {
    IMAGES_MIN = 20,        /* of a class that is compared */
    FORMATS = FORMAT_JP2 + 1 /* of images: one trait each */
};

enum trait { COPIED, RESIZED, UPSCALED, TO_8BIT, FLATTENED, CMYK, FORMAT_FIRST, TRAITS = FORMAT_FIRST + FORMATS };

#define V2_MIN 0.25 /* V of 0.5 */
#define DIFFERENCE_MIN 0.5

static const char reencode[] = "--reencode all encodes every image again";
static const struct {
    const char *what, *remedy;
} text[FORMAT_FIRST] = {
    [COPIED] = {"passed through, not encoded again", reencode},
    [RESIZED] = {"made smaller", "a smaller --resize reaches every image"},
    [UPSCALED] = {"enlarged", "a smaller --resize without --upscale enlarges none"},
    [TO_8BIT] = {"brought from 16 to 8 bits", "--codec png keeps 16 bits"},
    [FLATTENED] = {"laid on a background, since they were transparent", "--alpha keep with --codec png keeps transparency"},
    [CMYK] = {"CMYK", "nothing here removes the difference: look at where these images come from"},
};
static const char format_left[] = "what the first compression left in the pixels no option removes: look at where these images come from";
static const char *const format_remedy[2][2] = { /* [were some passed through][are they stored in several formats] */
    {format_left, "--codec stores all in one format; what the first compression left in the pixels stays"},
    {"--reencode all sends all through one encoder; what the first compression left in the pixels stays",
     "--codec stores all in one format, --reencode all sends all through one encoder; what the first compression left in the pixels stays"},
};

struct class_traces {
    uint64_t n_classes;
    uint64_t (*count)[1 + TRAITS]; /* by class: images, and those with each trait */
    bool copied;                   /* some images were passed through */
    uint64_t formats;              /* a bit for each format that images are stored in */
};

struct class_traces *class_traces_new(uint64_t n_classes)
{
    struct class_traces *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->n_classes = n_classes;
    t->count = calloc(n_classes + 1, sizeof *t->count);
    if (t->count == NULL) {
        free(t);
        return NULL;
    }
    return t;
}

void class_traces_free(struct class_traces *t)
{
    if (t != NULL)
        free(t->count);
    free(t);
}

/* Formats that leave nothing in the pixels. TIFF may hold a JPEG, but seldom does; GIF has lost colours. */
static bool leaves_no_trace(unsigned format)
{
    return format == FORMAT_PNG || format == FORMAT_BMP || format == FORMAT_PNM || format == FORMAT_TIFF || format == FORMAT_NPY;
}

void class_traces_add(struct class_traces *t, int32_t cls, const struct slimset_field *f)
{
    if (cls < 0 || (uint64_t)cls >= t->n_classes || f->role != SLIMSET_ROLE_IMAGE)
        return;
    uint64_t *c = t->count[cls], *trait = c + 1;
    bool resized = f->notes & NOTE_RESIZED, larger = f->w > f->in_w || f->h > f->in_h;
    c[0]++;
    t->copied = t->copied || (f->notes & NOTE_COPIED);
    t->formats |= UINT64_C(1) << (f->format & 63);
    trait[COPIED] += (f->notes & NOTE_COPIED) != 0 && !leaves_no_trace(f->format); /* encoded again they are the same */
    trait[RESIZED] += resized && !larger;
    trait[UPSCALED] += resized && larger;
    trait[TO_8BIT] += (f->notes & NOTE_SCALED_8BIT) != 0;
    trait[FLATTENED] += (f->notes & NOTE_FLATTENED) != 0;
    trait[CMYK] += (f->notes & NOTE_CMYK) != 0;
    if (f->in_format < FORMATS && !leaves_no_trace(f->in_format))
        trait[FORMAT_FIRST + f->in_format]++;
}

struct finding {
    unsigned trait;
    double v2;
    uint64_t high, low; /* classes */
};

static double share(const uint64_t *count, unsigned trait)
{
    return (double)count[1 + trait] / (double)count[0];
}

/* False where the classes are alike. */
static bool look_at(const struct class_traces *t, unsigned trait, struct finding *f)
{
    double n = 0, with = 0, sum = 0, classes = 0;
    *f = (struct finding){.trait = trait, .high = UINT64_MAX};
    for (uint64_t i = 0; i < t->n_classes; i++) {
        const uint64_t *c = t->count[i];
        if (c[0] < IMAGES_MIN)
            continue;
        n += (double)c[0];
        with += (double)c[1 + trait];
        classes++;
        if (f->high == UINT64_MAX)
            f->high = f->low = i;
        else if (share(c, trait) > share(t->count[f->high], trait))
            f->high = i;
        else if (share(c, trait) < share(t->count[f->low], trait))
            f->low = i;
    }
    if (classes < 2 || with == 0 || with == n ||
        share(t->count[f->high], trait) - share(t->count[f->low], trait) < DIFFERENCE_MIN)
        return false;
    double p = with / n;
    for (uint64_t i = 0; i < t->n_classes; i++)
        if (t->count[i][0] >= IMAGES_MIN) {
            double d = share(t->count[i], trait) - p;
            sum += (double)t->count[i][0] * d * d;
        }
    f->v2 = sum / (p * (1 - p)) / n - (classes - 1) / (n - 1);
    return f->v2 >= V2_MIN;
}

static enum slimset_status class_name(struct index *ix, uint64_t cls, char name[64], struct slimset_error *err)
{
    const char *bytes;
    size_t n;
    enum slimset_status st = index_text(ix, ix->classes[cls].name, &bytes, &n, err);
    if (st == SLIMSET_OK)
        snprintf(name, 64, "%.*s", (int)(n < 63 ? n : 63), bytes);
    return st;
}

static int by_strength(const void *pa, const void *pb)
{
    const struct finding *a = pa, *b = pb;
    if (a->v2 != b->v2)
        return a->v2 > b->v2 ? -1 : 1;
    return a->trait < b->trait ? -1 : 1;
}

enum slimset_status class_traces_report(const struct class_traces *t, struct index *ix, struct slimset_report *report,
                                        struct slimset_error *err)
{
    struct finding found[TRAITS];
    unsigned n = 0;
    bool format = false;
    enum slimset_status st = SLIMSET_OK;
    for (unsigned i = 0; i < TRAITS; i++)
        n += look_at(t, i, &found[n]);
    qsort(found, n, sizeof found[0], by_strength);
    for (unsigned i = 0; st == SLIMSET_OK && i < n && report->n_traces < SLIMSET_TRACES_MAX; i++) {
        const struct finding *f = &found[i];
        if (f->trait >= FORMAT_FIRST && format) /* of two formats one tells of the other */
            continue;
        format = format || f->trait >= FORMAT_FIRST;
        struct slimset_trace *to = &report->trace[report->n_traces++];
        const uint64_t *high = t->count[f->high], *low = t->count[f->low];
        if (f->trait >= FORMAT_FIRST)
            snprintf(to->what, sizeof to->what, "%s files", sniff_format_name((enum image_format)(f->trait - FORMAT_FIRST)));
        else
            snprintf(to->what, sizeof to->what, "%s", text[f->trait].what);
        to->remedy = f->trait >= FORMAT_FIRST ? format_remedy[t->copied][(t->formats & (t->formats - 1)) != 0] : text[f->trait].remedy;
        to->high_n = high[1 + f->trait];
        to->high_of = high[0];
        to->low_n = low[1 + f->trait];
        to->low_of = low[0];
        to->v2 = f->v2 < 1 ? f->v2 : 1;
        st = class_name(ix, f->high, to->high, err);
        if (st == SLIMSET_OK)
            st = class_name(ix, f->low, to->low, err);
    }
    return st;
}
