/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack_request.h"
#include "slimset/reader.h"
#include "text.h"

/* What each note means, by its bit; the short names are slimset_note_name's. */
static const char *const note_meaning[] = {
    [0] = "decoded and encoded again",
    [1] = "pixel size changed",
    [2] = "turned upright, orientation tag removed",
    [3] = "image bytes passed through, nothing had to change",
    [4] = "encoded again (--reencode all) and not smaller by it",
    [5] = "metadata removed from passed-through bytes",
    [6] = "alpha channel dropped, opaque everywhere",
    [7] = "real transparency laid on the background colour",
    [8] = "colour profile dropped, numbers kept",
    [9] = "converted to sRGB through the colour profile",
    [10] = "CMYK converted by the plain formula",
    [11] = "16 bits kept",
    [12] = "16-bit values scaled to 8 bits",
    [13] = "first of several frames or pages",
    [14] = "accepted with a harmless decoder warning",
    [15] = "bytes after the end of the image ignored",
    [16] = "progressive JPEG passed through, slow to read (--reencode all helps)",
    [17] = "palette or 1, 2, 4 bits expanded to 8",
    [18] = "resized by nearest neighbour (mask, depth)",
    [19] = "a mask value vanished in downsizing",
    [20] = "decoded by libvips",
    [21] = "number of channels changed",
    [22] = "gamma or HDR transfer curve (PQ, HLG) not applied",
    [23] = "colour profile unusable, ignored",
    [24] = "made by slimset (class number)",
    [25] = "array was in Fortran order, is in C order",
    [26] = "array in a smaller type that holds every value exactly",
    [27] = "array in another type (--cast)",
    [28] = "mask resized by the most frequent value",
    [29] = "values outside of the range of --depth cut off",
    [30] = "--min-ssim not reached, the highest quality was used",
};

static const char *meaning(unsigned bit)
{
    return bit < sizeof note_meaning / sizeof note_meaning[0] && note_meaning[bit] != NULL
               ? note_meaning[bit] : "";
}

static const char *note_name(unsigned bit, char room[16])
{
    const char *name = slimset_note_name(bit);
    if (name == NULL) {
        snprintf(room, 16, "note-%u", bit);
        name = room;
    }
    return name;
}

static void line(const char *label)
{
    printf("  %-9s  ", label);
}

static void print_ratio(uint64_t in, uint64_t out)
{
    if (in == 0)
        return;
    double percent = 100.0 * (double)out / (double)in;
    printf(percent < 9.995 ? "  (%.2f %%)" : "  (%.1f %%)", percent);
}

static void print_rejects(const struct slimset_report *report, const char *out, bool dry_run)
{
    char a[TEXT_NUMBER_BYTES];
    line("rejects");
    printf("%s", text_count(a, report->rejects));
    const char *between = ": ";
    for (unsigned i = 1; i < SLIMSET_REJECT_COUNT; i++) {
        if (report->reject_class[i] == 0)
            continue;
        printf("%s%s %s", between, text_count(a, report->reject_class[i]),
               slimset_reject_name((enum slimset_reject)i));
        between = ", ";
    }
    putchar('\n');
    if (!dry_run) {
        line("");
        printf("list them: slimset ls %s --rejects\n", out);
    }
}

static void print_totals(const struct pack_request *r, const struct slimset_report *report,
                         const char *out)
{
    bool dry_run = r->run.dry_run;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (dry_run)
        printf("plan: %s samples", text_count(a, report->samples));
    else
        printf("%s: %s samples", out, text_count(a, report->samples));
    printf(" in %u shard%s", report->shards, report->shards == 1 ? "" : "s");
    if (report->splits > 1)
        printf(", %u splits", report->splits);
    if (report->classes > 0)
        printf(", %s classes", text_count(a, report->classes));
    puts(report->unchanged && !dry_run ? " (nothing had changed)" : "");
    if (!dry_run) {
        line("shards");
        printf("%s written, %s kept\n", text_count(a, report->shards_written),
               text_count(b, report->shards_kept));
    }
    if (report->in_bytes > 0) {
        line("bytes");
        printf("%s -> %s%s", text_bytes(a, report->in_bytes), dry_run ? "about " : "",
               text_bytes(b, report->out_bytes));
        print_ratio(report->in_bytes, report->out_bytes);
        putchar('\n');
    }
    if (report->in_pixels > 0) {
        line("pixels");
        printf("%.1f M -> %.1f M", (double)report->in_pixels / 1e6,
               (double)report->out_pixels / 1e6);
        print_ratio(report->in_pixels, report->out_pixels);
        putchar('\n');
    }
    if (report->rejects > 0)
        print_rejects(report, out, dry_run);
    if (report->left_out > 0 || report->junk > 0) {
        line("left out");
        printf("%s that belong to no sample, %s skipped as junk\n", text_count(a, report->left_out),
               text_count(b, report->junk));
        if (!dry_run) {
            line("");
            printf("list them: slimset ls %s --left-out\n", out);
        }
    }
    line("time");
    if (report->seconds < 60)
        printf("%.1f s", report->seconds);
    else
        printf("%s", text_duration(a, report->seconds));
    /* Samples of shards that were kept cost nothing. */
    if (report->seconds > 0.001 && report->shards_kept == 0 && !report->unchanged && !dry_run)
        printf(", %.*f samples/s", (double)report->samples / report->seconds < 10 ? 1 : 0,
               (double)report->samples / report->seconds);
    putchar('\n');
}

/* More of what the notes only count: which profiles, how many frames, how many classes. */
static void print_details(const struct slimset_report *report)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], name[4 * SLIMSET_PROFILE_NAME_BYTES];
    for (unsigned used = 0; used < 2; used++) {
        const char *between = used ? "converted to sRGB from " : "dropped: ";
        for (uint32_t i = 0; i < report->n_profiles; i++) {
            const struct slimset_profile_count *p = &report->profile[i];
            uint64_t n = used ? p->used : p->dropped;
            if (n == 0)
                continue;
            if (between[0] != ',')
                line("profiles");
            printf("%s%s: %s", between, p->name[0] != '\0' ? text_clean(name, sizeof name, p->name) : "without a name",
                   text_count(a, n));
            between = ", ";
        }
        if (between[0] == ',')
            putchar('\n');
    }
    if (report->frames_dropped > 0) {
        line("frames");
        printf("%s behind the first one of %s files left out\n", text_count(a, report->frames_dropped),
               text_count(b, report->note[13]));
    }
    if (report->classes_lost > 0) {
        line("masks");
        printf("%s mask%s lost %s class%s by downsizing\n", text_count(a, report->note[19]), report->note[19] == 1 ? "" : "s",
               text_count(b, report->classes_lost), report->classes_lost == 1 ? "" : "es");
    }
}

/* --min-ssim: which qualities it took, ten in a row. */
static void print_qualities(const struct pack_request *r, const struct slimset_report *report)
{
    uint64_t row[10] = {0}, most = 1;
    char a[TEXT_NUMBER_BYTES];
    if (report->unmeasured > 0 && (report->ssim_min_e6 != 0 || r->recipe.min_ssim > 0))
        printf("\n--min-ssim does not cover WebP: %s encoded with the quality of --quality\n", text_count(a, report->unmeasured));
    if (report->ssim_min_e6 == 0)
        return;
    for (unsigned q = 0; q <= 100; q++)
        row[q < 100 ? q / 10 : 9] += report->quality[q];
    for (unsigned i = 0; i < 10; i++)
        most = row[i] > most ? row[i] : most;
    printf("\nqualities that --min-ssim took (SSIM: smallest %.4f, 5 %% up to %.4f, half up to %.4f)\n",
           (double)report->ssim_min_e6 / 1e6, (double)report->ssim_5_e6 / 1e6, (double)report->ssim_50_e6 / 1e6);
    for (unsigned i = 3; i < 10; i++)
        printf("  %u-%u  %9s  %.*s\n", 10 * i, 10 * i + 9, text_count(a, row[i]), (int)(row[i] * 40 / most),
               "########################################");
}

/* What a network may learn instead of the classes. */
static void print_traces(const struct slimset_report *report)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], high[256], low[256];
    if (report->n_traces > 0)
        puts("\nwarning: the class can be told by how its images were made, not only by what they show");
    for (uint32_t i = 0; i < report->n_traces; i++) {
        const struct slimset_trace *t = &report->trace[i];
        printf("  %s: %s of %s in class %s", t->what, text_count(a, t->high_n), text_count(b, t->high_of),
               text_clean(high, sizeof high, t->high));
        printf(", %s of %s in class %s\n", text_count(a, t->low_n), text_count(b, t->low_of),
               text_clean(low, sizeof low, t->low));
        printf("    %s\n", t->remedy);
    }
}

static void print_notes(const struct slimset_report *report)
{
    char a[TEXT_NUMBER_BYTES], room[16];
    bool titled = false;
    for (unsigned bit = 0; bit < 32; bit++) {
        if (report->note[bit] == 0)
            continue;
        if (!titled)
            puts("\nwhat was seen and done (files: note, meaning)");
        titled = true;
        const char *words = meaning(bit);
        printf("  %9s  %-*s%s%s\n", text_count(a, report->note[bit]), words[0] != '\0' ? 15 : 0,
               note_name(bit, room), words[0] != '\0' ? "  " : "", words);
    }
}

/* The names that a loader wants to hear. */
struct loader_names {
    char split[64], image[64], mask[64], label[64];
};

static void copy_text(char *to, size_t room, struct slimset_text t)
{
    /* Only what can stand in a Python string as it is. */
    bool plain = t.n > 0 && t.n < room;
    for (size_t i = 0; plain && i < t.n; i++)
        plain = t.bytes[i] > ' ' && t.bytes[i] < 0x7f && strchr("\"'\\*?[]{}", t.bytes[i]) == NULL;
    if (plain) {
        memcpy(to, t.bytes, t.n);
        to[t.n] = '\0';
    }
}

/* Looks into the finished dataset; names stay empty where it cannot tell. */
static void find_names(const char *out, struct loader_names *names)
{
    struct slimset_reader *reader = NULL;
    struct slimset_error err;
    struct slimset_info info;
    memset(names, 0, sizeof *names);
    if (slimset_reader_open(out, &reader, &err) != SLIMSET_OK)
        return;
    slimset_reader_info(reader, &info);
    uint64_t sample = 0;
    for (uint64_t i = 0; i < info.splits; i++) {
        struct slimset_split_view split;
        if (slimset_reader_split(reader, i, &split, &err) != SLIMSET_OK)
            break;
        bool train = split.name.n == 5 && memcmp(split.name.bytes, "train", 5) == 0;
        if ((names->split[0] == '\0' || train) && split.n_samples > 0) {
            copy_text(names->split, sizeof names->split, split.name);
            sample = split.first_sample;
        }
    }
    struct slimset_sample_view view;
    struct slimset_field_view field;
    if (slimset_reader_sample(reader, sample, &view, &err) == SLIMSET_OK) {
        for (uint32_t k = 0; k < view.n_fields; k++) {
            if (slimset_reader_field(reader, sample, k, &field, &err) != SLIMSET_OK)
                break;
            if (strcmp(field.role, "image") == 0 && names->image[0] == '\0')
                copy_text(names->image, sizeof names->image, field.name);
            else if (strcmp(field.role, "mask") == 0 && names->mask[0] == '\0')
                copy_text(names->mask, sizeof names->mask, field.name);
            else if (strcmp(field.role, "label") == 0 && names->label[0] == '\0')
                copy_text(names->label, sizeof names->label, field.name);
        }
    }
    slimset_reader_close(reader);
}

/* Whether the folder can stand in a Python string and in glob as it is; `quoted` is what a shell
 * takes for it. */
static bool plain_path(const char *s, const char *quoted)
{
    return strncmp(quoted, "$'", 2) != 0 && s[strcspn(s, "\"\\*?[]")] == '\0';
}

static void print_next(const struct pack_request *r, const struct slimset_report *report,
                       const char *out)
{
    char a[TEXT_NUMBER_BYTES];
    if (report->would_save_bytes > 0 && r->recipe.resize == SLIMSET_RESIZE_NONE)
        printf("\nnothing was resized: --resize 512 would save about %s\n",
               text_bytes(a, report->would_save_bytes));
    if (r->run.dry_run) {
        puts("\nnothing was written; to do it: slimset pack with the same options and -o OUT");
        return;
    }
    if (report->samples == 0)
        return;
    puts("\nnext");
    printf("  slimset ls %s    what is in it\n", out);
    struct loader_names names;
    find_names(r->run.out, &names);
    if (r->recipe.layout == SLIMSET_LAYOUT_SHARDS && names.split[0] != '\0' &&
        names.image[0] != '\0' && plain_path(r->run.out, out)) {
        puts("  in Python, with webdataset and PyTorch:");
        printf("    import glob, webdataset as wds\n"
               "    urls = sorted(glob.glob(\"%s/%s-*.tar\"))\n"
               "    data = wds.WebDataset(urls, "
               "shardshuffle=%s).decode(\"pil\").to_tuple(\"%s\"%s%s%s%s%s%s)\n",
               r->run.out, names.split, report->shards > 1 ? "100" : "False", names.image,
               names.mask[0] ? ", \"" : "", names.mask, names.mask[0] ? "\"" : "", names.label[0] ? ", \"" : "", names.label,
               names.label[0] ? "\"" : names.mask[0] ? "" : ",");
    }
}

void pack_report_print(const struct pack_request *r, const struct slimset_report *report)
{
    char *out = malloc(TEXT_PATH_BYTES);
    if (out == NULL)
        return;
    text_shell(out, TEXT_PATH_BYTES, r->run.out != NULL ? r->run.out : "OUT");
    print_totals(r, report, out);
    print_details(report);
    print_notes(report);
    print_qualities(r, report);
    print_traces(report);
    print_next(r, report, out);
    free(out);
}

static void json_count(const char *name, uint64_t n)
{
    printf(",\"%s\":%llu", name, (unsigned long long)n);
}

static void json_profiles(const struct slimset_report *report)
{
    fputs(",\"profiles\":[", stdout);
    for (uint32_t i = 0; i < report->n_profiles; i++) {
        const struct slimset_profile_count *p = &report->profile[i];
        fputs(i > 0 ? ",{\"name\":" : "{\"name\":", stdout);
        text_json(stdout, p->name, strlen(p->name));
        json_count("dropped", p->dropped);
        json_count("used", p->used);
        putchar('}');
    }
    putchar(']');
}

static void json_qualities(const struct slimset_report *report)
{
    fputs(",\"qualities\":{", stdout);
    const char *between = "";
    for (unsigned q = 0; q <= 100; q++)
        if (report->quality[q] > 0) {
            printf("%s\"%u\":%llu", between, q, (unsigned long long)report->quality[q]);
            between = ",";
        }
    printf("},\"ssim_min\":%.6f,\"ssim_5\":%.4f,\"ssim_median\":%.4f", (double)report->ssim_min_e6 / 1e6,
           (double)report->ssim_5_e6 / 1e6, (double)report->ssim_50_e6 / 1e6);
    json_count("ssim_unmeasured", report->unmeasured);
}

static void json_traces(const struct slimset_report *report)
{
    fputs(",\"class_traces\":[", stdout);
    for (uint32_t i = 0; i < report->n_traces; i++) {
        const struct slimset_trace *t = &report->trace[i];
        const char *text[] = {"what", t->what, "high", t->high, "low", t->low, "remedy", t->remedy};
        for (unsigned k = 0; k < 8; k += 2) {
            printf("%s\"%s\":", k > 0 ? "," : i > 0 ? ",{" : "{", text[k]);
            text_json(stdout, text[k + 1], strlen(text[k + 1]));
        }
        json_count("high_with", t->high_n);
        json_count("high_images", t->high_of);
        json_count("low_with", t->low_n);
        json_count("low_images", t->low_of);
        printf(",\"v_squared\":%.3f}", t->v2);
    }
    putchar(']');
}

void pack_report_json(const struct pack_request *r, const struct slimset_report *report,
                      int exit_status)
{
    char room[16];
    printf("{\"message_type\":\"summary\",\"exit_status\":%d,\"dry_run\":%s", exit_status,
           r->run.dry_run ? "true" : "false");
    if (r->run.out != NULL) {
        fputs(",\"out\":", stdout);
        text_json(stdout, r->run.out, strlen(r->run.out));
    }
    printf(",\"unchanged\":%s,\"rejects_over_budget\":%s", report->unchanged ? "true" : "false",
           report->rejects_over_budget ? "true" : "false");
    json_count("samples", report->samples);
    json_count("rejects", report->rejects);
    json_count("left_out", report->left_out);
    json_count("junk", report->junk);
    json_count("splits", report->splits);
    json_count("classes", report->classes);
    json_count("shards", report->shards);
    json_count("shards_written", report->shards_written);
    json_count("shards_kept", report->shards_kept);
    json_count("in_bytes", report->in_bytes);
    json_count("out_bytes", report->out_bytes);
    json_count("in_pixels", report->in_pixels);
    json_count("out_pixels", report->out_pixels);
    json_count("classes_lost", report->classes_lost);
    json_count("frames_dropped", report->frames_dropped);
    json_count("would_save_bytes", report->would_save_bytes);
    fputs(",\"rejects_by_class\":{", stdout);
    const char *between = "";
    for (unsigned i = 1; i < SLIMSET_REJECT_COUNT; i++) {
        if (report->reject_class[i] > 0) {
            printf("%s\"%s\":%llu", between, slimset_reject_name((enum slimset_reject)i),
                   (unsigned long long)report->reject_class[i]);
            between = ",";
        }
    }
    fputs("},\"notes\":{", stdout);
    between = "";
    for (unsigned bit = 0; bit < 32; bit++) {
        if (report->note[bit] > 0) {
            printf("%s\"%s\":%llu", between, note_name(bit, room),
                   (unsigned long long)report->note[bit]);
            between = ",";
        }
    }
    putchar('}');
    json_profiles(report);
    json_traces(report);
    json_qualities(report);
    printf(",\"seconds\":%.3f}\n", report->seconds);
}
