/* SPDX-License-Identifier: Apache-2.0
 *
 * shard.h: answers become files and records. The tar is read back by offsets and by GNU tar, the
 * records through an index. An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "shard.h"

#include <fcntl.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "check.h"
#include "keys.h"

static int dir = -1;
static char dir_path[300];
static struct slimset_error err;
static struct slimset_recipe recipe;
static struct slimset_run run;
static struct plan plan;
static struct shard_writer writer;

/* --- a plan of one shard ---------------------------------------------------------------------- */

static void begin(enum slimset_layout layout, bool webdataset)
{
    plan_fini(&plan);
    slimset_recipe_init(&recipe);
    slimset_run_init(&run);
    recipe.layout = layout;
    recipe.shards = 1;
    recipe.order = SLIMSET_ORDER_SOURCE;
    recipe.webdataset = webdataset;
    plan_init(&plan, &recipe);
    plan.listing.sources = calloc(1, sizeof *plan.listing.sources);
    plan.listing.n_sources = 1;
    plan.listing.sources[0] = (struct source){.kind = SOURCE_FOLDER,
                                              .fd = -1,
                                              .spool_fd = -1,
                                              .path = strdup("src"),
                                              .prefix = strdup(""),
                                              .webdataset = webdataset};
}

static void file(const char *path)
{
    struct entry e = {.path_bytes = (uint32_t)strlen(path), .bytes = 1000};
    e.path = listing_string(&plan.listing, "", path, e.path_bytes);
    CHECK_INT(listing_add(&plan.listing, &e, &err), SLIMSET_OK);
}

/* Paths, one a line; then the shard is begun. */
static void plan_of(const char *paths)
{
    while (*paths != '\0') {
        char path[600];
        size_t n = strcspn(paths, "\n");
        snprintf(path, sizeof path, "%.*s", (int)n, paths);
        file(path);
        paths += n + (paths[n] == '\n');
    }
    CHECK_INT(plan_samples(&plan, &run, &err), SLIMSET_OK);
    for (size_t i = 0; i < plan.n_rules; i++)
        plan.rules[i].settled = true;
    CHECK_INT(plan_shards(&plan, &run, &err), SLIMSET_OK);
}

static void begin_shard(size_t shard)
{
    memset(&writer, 0, sizeof writer);
    CHECK_INT(shard_begin(&writer, &plan, shard, dir, &err), SLIMSET_OK);
}

/* --- answers ---------------------------------------------------------------------------------- */

struct made {
    enum image_format format;
    uint32_t notes;
    const char *payload;
    size_t bytes; /* 0: of the text */
};

static struct item_answer *answer_of(const struct made *f, uint32_t n)
{
    size_t total = sizeof(struct item_answer) + n * sizeof(struct item_field);
    for (uint32_t i = 0; i < n; i++)
        total += f[i].bytes != 0 ? f[i].bytes : strlen(f[i].payload);
    struct item_answer *a = calloc(1, total);
    *a = (struct item_answer){.n_fields = n, .blob_bytes = total};
    struct item_field *to = (struct item_field *)(void *)(a + 1);
    uint8_t *at = (uint8_t *)(to + n);
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = f[i].bytes != 0 ? f[i].bytes : strlen(f[i].payload);
        to[i] = (struct item_field){.payload_bytes = bytes,
                                    .input = i,
                                    .in_bytes = 1000 + i,
                                    .in_hash = 70 + i,
                                    .w = 32,
                                    .h = 24,
                                    .in_w = 64,
                                    .in_h = 48,
                                    .notes = f[i].notes,
                                    .frames = 1,
                                    .format = (uint8_t)f[i].format,
                                    .in_format = FORMAT_PNG,
                                    .channels = 3,
                                    .bits = 8,
                                    .orientation = 6,
                                    .quality = 90};
        if (f[i].bytes != 0)
            memset(at, 'x', bytes);
        else
            memcpy(at, f[i].payload, bytes);
        at += bytes;
    }
    return a;
}

static void add_sample(size_t sample, const struct made *f, uint32_t n)
{
    struct item_answer *a = answer_of(f, n);
    CHECK_INT(plan.samples[sample].n, n);
    enum slimset_status st = shard_sample(&writer, &plan.samples[sample], a, -1, &err);
    if (st != SLIMSET_OK)
        printf("  %s\n", err.text);
    CHECK_INT(st, SLIMSET_OK);
    free(a);
}

static void end_shard(void)
{
    CHECK_INT(shard_end(&writer, &err), SLIMSET_OK);
    CHECK_INT(shard_sync(&writer, &err), SLIMSET_OK);
}

static const char *text(slimset_str s)
{
    static char out[4][600];
    static unsigned k;
    char *to = out[k++ % 4];
    snprintf(to, sizeof out[0], "%.*s", (int)(s >> 40),
             (const char *)writer.content.strings.data + (s & (((uint64_t)1 << 40) - 1)));
    return to;
}

static const char *ask(const char *command)
{
    static char out[8192];
    char all[1500];
    snprintf(all, sizeof all, "cd '%s' && LC_ALL=C %s 2>&1", dir_path, command);
    FILE *f = popen(all, "r");
    size_t n = f != NULL ? fread(out, 1, sizeof out - 1, f) : 0;
    out[n] = '\0';
    if (f != NULL)
        pclose(f);
    return out;
}

/* Names of all fields of the shard, and the files' contents at their offsets. */
static const char *fields(void)
{
    static char out[4096];
    out[0] = '\0';
    for (size_t i = 0; i < writer.content.n_fields; i++)
        sprintf(out + strlen(out), "%s%s", i > 0 ? " " : "", text(writer.content.fields[i].name));
    return out;
}

/* --- one sample ------------------------------------------------------------------------------- */

static void test_records(void)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    plan_of("cat/1.JPEG\ncat/1.txt\ndog/2.png");
    begin_shard(0);
    add_sample(0,
               (struct made[]){{FORMAT_JPEG, NOTE_REENCODED, "jpeg bytes", 0},
                               {FORMAT_TEXT, 0, "a cat", 0}},
               2);
    add_sample(1, (struct made[]){{FORMAT_PNG, NOTE_COPIED, "png bytes", 0}}, 1);
    end_shard();
    const struct shard_content *c = &writer.content;
    CHECK(c->n_parts == 1 && c->n_samples == 2 && c->n_fields == 5 && c->n_rejects == 0);
    CHECK(c->shard.n_parts == 1 && c->shard.n_samples == 2 && c->shard.n_rejects == 0);
    CHECK_STR(text(c->parts[0].name), "data-00000.tar");
    CHECK_STR(fields(), "jpg txt cls png cls");
    CHECK_STR(text(c->samples[0].key), "cat/1");
    CHECK_STR(text(c->samples[1].key), "dog/2");
    CHECK(c->samples[0].first_field == 0 && c->samples[0].n_fields == 3 && c->samples[0].cls == 0);
    CHECK(c->samples[1].first_field == 3 && c->samples[1].n_fields == 2 && c->samples[1].cls == 1);
    CHECK_STR(ask("tar -tf data-00000.tar"),
              "cat/1.jpg\ncat/1.txt\ncat/1.cls\ndog/2.png\ndog/2.cls\n");
    uint8_t *tar = NULL;
    size_t n = 0;
    CHECK_INT(io_read_file(dir, "data-00000.tar", 1 << 20, &tar, &n, &err), SLIMSET_OK);
    CHECK(c->parts[0].bytes == n && c->parts[0].hash == hash_bytes(tar, n) &&
          c->parts[0].n_samples == 2);
    static const char *const want[] = {"jpeg bytes", "a cat", "0", "png bytes", "1"};
    for (size_t i = 0; i < 5; i++) {
        const struct slimset_field *f = &c->fields[i];
        CHECK(f->bytes == strlen(want[i]) && f->offset + f->bytes <= n &&
              memcmp(tar + f->offset, want[i], f->bytes) == 0);
        CHECK(f->hash == hash_bytes(want[i], f->bytes));
    }
    free(tar);
    const struct slimset_field *f = &c->fields[0];
    CHECK_STR(text(f->path), "cat/1.JPEG"); /* byte for byte */
    CHECK(f->in_bytes == 1000 && f->in_hash == 70 && f->w == 32 && f->h == 24 && f->in_w == 64 &&
          f->in_h == 48);
    CHECK(f->notes == NOTE_REENCODED && f->role == SLIMSET_ROLE_IMAGE && f->format == FORMAT_JPEG &&
          f->in_format == FORMAT_PNG);
    CHECK(f->channels == 3 && f->bits == 8 && f->orientation == 6 && f->quality == 90 &&
          f->frames == 1);
    f = &c->fields[2];
    CHECK(f->role == SLIMSET_ROLE_LABEL && f->path == 0 && f->notes == NOTE_GENERATED &&
          f->in_bytes == 0 && f->w == 0);
    CHECK_INT(c->fields[1].role, SLIMSET_ROLE_COPY);
    shard_fini(&writer);
}

/* Source field, what is stored -> field name. */
static void test_field_names(void)
{
    static const struct {
        const char *file;
        enum image_format format;
        uint32_t notes;
        const char *shards, *tree, *exact;
    } cases[] = {
        {"a.jpg", FORMAT_JPEG, NOTE_REENCODED, "jpg", "jpg", "jpg"},
        {"a.JPEG", FORMAT_JPEG, NOTE_REENCODED, "jpg", "JPEG", "JPEG"},
        {"a.png", FORMAT_JPEG, NOTE_REENCODED, "jpg", "jpg", "jpg"},
        {"a.PNG", FORMAT_PNG, NOTE_REENCODED, "png", "PNG", "PNG"},
        {"a.tiff", FORMAT_PNG, NOTE_REENCODED, "png", "png", "png"},
        {"a.jpg", FORMAT_NPY, NOTE_REENCODED, "npy", "npy", "npy"},
        {"a.jpg", FORMAT_PNG, NOTE_COPIED, "png", "jpg",
         "png"}, /* a PNG named .jpg: in a tree an untouched file keeps its name */
        {"a.txt", FORMAT_TEXT, 0, "txt", "txt", "txt"},
        {"a.TXT", FORMAT_TEXT, 0, "txt", "TXT", "TXT"},
        {"a.npy", FORMAT_NPY, 0, "npy", "npy", "npy"},
        {"a.json", FORMAT_JPEG, 0, "json", "json",
         "json"}, /* copies keep their names, whatever is inside */
        {"a.a b\tc", FORMAT_TEXT, 0, "a_b_c", "a b\tc", "a_b_c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 3; k++) {
            begin(k == 1 ? SLIMSET_LAYOUT_TREE : SLIMSET_LAYOUT_SHARDS, k == 2);
            char paths[100];
            snprintf(paths, sizeof paths, "%s\na.zz.webp",
                     cases[i].file); /* with an image, so that it is a sample */
            plan_of(paths);
            begin_shard(0);
            struct made m[2] = {{cases[i].format, cases[i].notes, "x", 0},
                                {FORMAT_WEBP, NOTE_COPIED, "y", 0}};
            if (memcmp(plan.listing.entries[0].path, "a.zz", 4) == 0) {
                struct made t = m[0];
                m[0] = m[1];
                m[1] = t;
            }
            add_sample(0, m, 2);
            const char *want = k == 0 ? cases[i].shards : k == 1 ? cases[i].tree : cases[i].exact;
            size_t at = m[0].format == FORMAT_WEBP;
            CHECK_STR(text(writer.content.fields[at].name), want);
            shard_fini(&writer);
        }
}

static void test_names_with_parts(void)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    plan_of("a.png\na.seg.tif\na.Left.PNG");
    begin_shard(0);
    add_sample(0,
               (struct made[]){{FORMAT_JPEG, NOTE_REENCODED, "1", 0},
                               {FORMAT_JPEG, NOTE_REENCODED, "2", 0},
                               {FORMAT_PNG, NOTE_REENCODED, "3", 0}},
               3);
    CHECK_STR(fields(), "left.jpg jpg seg.png");
    shard_fini(&writer);
}

/* Two files of a sample that would become the same field: the later keeps its source extension. */
static void test_same_field_twice(void)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    plan_of("a.jpg\na.png");
    begin_shard(0);
    const struct made two[] = {{FORMAT_JPEG, NOTE_REENCODED, "1", 0},
                               {FORMAT_JPEG, NOTE_REENCODED, "2", 0}};
    add_sample(0, two, 2);
    CHECK_STR(fields(), "jpg png.jpg");
    end_shard();
    CHECK_STR(ask("tar -xOf data-00000.tar a.png.jpg"), "2");
    shard_fini(&writer);
    begin(SLIMSET_LAYOUT_TREE, false);
    plan_of("d/a.jpg\nd/a.png");
    begin_shard(0);
    add_sample(0, two, 2);
    end_shard();
    CHECK_STR(ask("cat d/a.jpg d/a.png.jpg"), "12");
    shard_fini(&writer);
    ask("rm -r d");
    begin(SLIMSET_LAYOUT_SHARDS,
          false); /* names that differ in case are one field for WebDataset */
    plan_of("a.JPG\na.Jpg\na.jpg");
    begin_shard(0);
    add_sample(0,
               (struct made[]){
                   {FORMAT_JPEG, 1, "1", 0}, {FORMAT_JPEG, 1, "2", 0}, {FORMAT_JPEG, 1, "3", 0}},
               3);
    end_shard();
    const struct shard_content *c = &writer.content;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++)
            CHECK(strcasecmp(text(c->fields[i].name), text(c->fields[k].name)) != 0);
    CHECK_STR(text(c->fields[0].name), "jpg");
    shard_fini(&writer);
}

/* A label that the source brings is not overwritten, nor doubled. */
static void test_own_cls(void)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    plan_of("cat/1.cls\ncat/1.jpg\ndog/2.CLS\ndog/2.jpg");
    CHECK_INT(plan.n_classes, 2);
    begin_shard(0);
    add_sample(0, (struct made[]){{FORMAT_TEXT, 0, "77", 0}, {FORMAT_JPEG, 1, "x", 0}}, 2);
    add_sample(1, (struct made[]){{FORMAT_TEXT, 0, "78", 0}, {FORMAT_JPEG, 1, "x", 0}}, 2);
    end_shard();
    CHECK_STR(fields(), "cls jpg cls jpg");
    CHECK_STR(ask("tar -xOf data-00000.tar cat/1.cls dog/2.cls"), "7778");
    CHECK_INT(writer.content.samples[0].cls, 0);
    shard_fini(&writer);
}

/* No name that a sample can have stops the run: long keys with long fields, with and without
 * collisions. */
static void test_every_name_fits(void)
{
    static const char *const cases[][2] = {
        {"jpg", "png"},
        {"jpeg", "JPEG"},
        {"extension_of_sixteen", "EXTENSION_OF_SIXTEEN"},
        {"a-field-with-a-name-of-more-than-sixty-bytes-because-somebody-wanted-it-so.jpg",
         "a-field-with-a-name-of-more-than-sixty-bytes-because-somebody-wanted-it-so.png"},
        {"a-field-with-a-name-of-less-than-sixty-bytes.jpg",
         "a-field-with-a-name-of-less-than-sixty-bytes.png"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t key = 1; key < 120; key += key < 30 ? 7 : 1) {
            char stem[130], paths[500];
            memset(stem, 'k', key);
            stem[key] = '\0';
            begin(SLIMSET_LAYOUT_SHARDS, false);
            snprintf(paths, sizeof paths, "%s.webp\n%s.%s\n%s.%s", stem, stem, cases[i][0], stem,
                     cases[i][1]);
            plan_of(paths);
            CHECK_INT(plan.n_samples, 1);
            begin_shard(0);
            struct item_answer *a = answer_of((struct made[]){{FORMAT_JPEG, 1, "1", 0},
                                                              {FORMAT_JPEG, 1, "2", 0},
                                                              {FORMAT_JPEG, 1, "3", 0}},
                                              3);
            enum slimset_status st = shard_sample(&writer, &plan.samples[0], a, -1, &err);
            if (st != SLIMSET_OK)
                printf("  a stem of %zu bytes with .%s and .%s: %s\n", key, cases[i][0],
                       cases[i][1], err.text);
            CHECK_INT(st, SLIMSET_OK);
            free(a);
            shard_fini(&writer);
            if (st != SLIMSET_OK)
                break;
        }
}

/* --- parts ------------------------------------------------------------------------------------ */

static void test_parts(void)
{
    enum { CAP = 20480 };
    begin(SLIMSET_LAYOUT_SHARDS, false);
    recipe.shard_bytes = CAP;
    for (int i = 0; i < 12; i++) {
        char path[32];
        snprintf(path, sizeof path, "%02d.jpg", i);
        file(path);
    }
    plan_of("");
    /* members of 512 + n, end of 1024: 20480 holds three of 6144; then one that is exactly full;
     * one too large for any */
    static const size_t bytes[12] = {5632,  5632, 5632, 5632,  18944, 18944,
                                     30000, 100,  100,  18432, 1,     1};
    begin_shard(0);
    for (size_t i = 0; i < 12; i++)
        add_sample(i, (struct made[]){{FORMAT_JPEG, 1, NULL, bytes[i]}}, 1);
    end_shard();
    const struct shard_content *c = &writer.content;
    static const struct {
        const char *name;
        uint32_t first, n;
    } want[] = {{"data-00000.tar", 0, 3},   {"data-00000-1.tar", 3, 1}, {"data-00000-2.tar", 4, 1},
                {"data-00000-3.tar", 5, 1}, {"data-00000-4.tar", 6, 1}, {"data-00000-5.tar", 7, 2},
                {"data-00000-6.tar", 9, 1}, {"data-00000-7.tar", 10, 2}};
    CHECK_INT(c->n_parts, 8);
    CHECK_INT(c->shard.n_parts, 8);
    for (size_t i = 0; i < c->n_parts && i < 8; i++) {
        struct stat st;
        CHECK_STR(text(c->parts[i].name), want[i].name);
        CHECK(c->parts[i].first_sample == want[i].first && c->parts[i].n_samples == want[i].n &&
              c->parts[i].part == i);
        CHECK_INT(fstatat(dir, want[i].name, &st, 0), 0);
        CHECK_INT(st.st_size, c->parts[i].bytes);
        CHECK(st.st_size <= CAP ||
              want[i].n == 1); /* a hard cap, but for a sample that is larger by itself */
        for (uint32_t k = 0; k < want[i].n; k++)
            CHECK_INT(c->samples[want[i].first + k].part, i);
        char command[100];
        snprintf(command, sizeof command, "tar -tf %s | wc -l | tr -d ' \\n'",
                 want[i].name); /* complete by itself */
        CHECK_INT(atoi(ask(command)), want[i].n);
    }
    CHECK_INT(c->parts[2].bytes, CAP); /* exactly full */
    shard_fini(&writer);
    ask("rm -f data-*.tar");
}

/* More parts than descriptors are kept open. */
static void test_very_many_parts(void)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    recipe.shard_bytes = 4096;
    for (int i = 0; i < 150; i++) {
        char path[32];
        snprintf(path, sizeof path, "%03d.jpg", i);
        file(path);
    }
    plan_of("");
    begin_shard(0);
    for (size_t i = 0; i < 150; i++)
        add_sample(i, (struct made[]){{FORMAT_JPEG, 1, NULL, 2000}}, 1);
    end_shard();
    CHECK_INT(writer.content.n_parts, 150);
    CHECK_INT(writer.n_fds, 0);
    CHECK_INT(atoi(ask("ls data-00000*.tar | wc -l")), 150);
    shard_fini(&writer);
    ask("rm -f data-*.tar");
}

/* --- rejects ---------------------------------------------------------------------------------- */

static void test_rejects(void)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    plan_of("1.jpg\n1.seg.png\n2.jpg\n3.jpg");
    begin_shard(0);
    CHECK_INT(shard_reject(&writer, &plan.samples[0], 1, SLIMSET_REJECT_PAIR, "does not fit", &err),
              SLIMSET_OK);
    add_sample(1, (struct made[]){{FORMAT_JPEG, 1, "x", 0}}, 1);
    CHECK_INT(shard_reject(&writer, &plan.samples[2], 0, SLIMSET_REJECT_TRUNCATED, "ends too early",
                           &err),
              SLIMSET_OK);
    end_shard();
    const struct shard_content *c = &writer.content;
    CHECK(c->n_rejects == 3 && c->n_samples == 1 && c->n_parts == 1 && c->shard.n_rejects == 2);
    CHECK(c->rejects[0].kind == 1 && c->rejects[0].reject == SLIMSET_REJECT_PAIR);
    CHECK_STR(text(c->rejects[0].path), "1.seg.png");
    CHECK_STR(text(c->rejects[0].text), "does not fit");
    CHECK(c->rejects[1].kind == 2); /* the other file of its sample */
    CHECK_STR(text(c->rejects[1].path), "1.jpg");
    CHECK_STR(text(c->rejects[2].path), "3.jpg");
    shard_fini(&writer);
    ask("rm -f data-*.tar");
    begin_shard(0); /* nothing but rejects: no file */
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(shard_reject(&writer, &plan.samples[i], 0, SLIMSET_REJECT_EMPTY, "empty", &err),
                  SLIMSET_OK);
    end_shard();
    CHECK(writer.content.n_parts == 0 && writer.content.n_samples == 0 &&
          writer.content.shard.n_parts == 0);
    CHECK_STR(ask("ls | grep data-"), "");
    shard_fini(&writer);
    begin_shard(0); /* and nothing at all */
    end_shard();
    CHECK_INT(writer.content.n_parts, 0);
    CHECK_STR(ask("ls | grep data-"), "");
    shard_fini(&writer);
}

/* --- inputs hash ------------------------------------------------------------------------------ */

static uint64_t hash_with(const char *paths, uint64_t in_hash, const char *payload)
{
    begin(SLIMSET_LAYOUT_SHARDS, false);
    plan_of(paths);
    begin_shard(0);
    for (size_t i = 0; i < plan.n_samples; i++) {
        struct item_answer *a = answer_of((struct made[]){{FORMAT_JPEG, 1, payload, 0}}, 1);
        ((struct item_field *)(void *)(a + 1))->in_hash = in_hash;
        CHECK_INT(shard_sample(&writer, &plan.samples[i], a, -1, &err), SLIMSET_OK);
        free(a);
    }
    end_shard();
    uint64_t h = writer.content.shard.inputs_hash;
    struct hash_stream again; /* as a later run computes it, without the answers */
    shard_hash_begin(&again, &plan);
    for (size_t i = 0; i < plan.n_samples; i++) {
        shard_hash_sample(&again, &plan, &plan.samples[i]);
        shard_hash_entry(&again, &plan, &plan.listing.entries[plan.samples[i].first], in_hash);
    }
    CHECK(hash_value(&again) == h);
    shard_fini(&writer);
    return h;
}

static void test_inputs_hash(void)
{
    uint64_t h = hash_with("cat/1.jpg\ndog/2.jpg", 5, "x");
    CHECK(hash_with("cat/1.jpg\ndog/2.jpg", 5, "x") == h);
    CHECK(hash_with("cat/1.jpg\ndog/2.jpg", 5, "other output") ==
          h); /* of the inputs, not of what became of them */
    CHECK(hash_with("cat/1.jpg\ndog/2.jpg", 6, "x") != h);
    CHECK(hash_with("cat/1.jpg\ndog/3.jpg", 5, "x") != h);
    CHECK(hash_with("cat/1.jpg", 5, "x") != h);
    CHECK(hash_with("cat/1.jpg\ncow/2.jpg", 5, "x") != h);
    begin(SLIMSET_LAYOUT_SHARDS, false); /* the class belongs to it: it is in the tar */
    recipe.classes = SLIMSET_CLASSES_NONE;
    plan_of("cat/1.jpg\ndog/2.jpg");
    begin_shard(0);
    for (size_t i = 0; i < 2; i++) {
        struct item_answer *a = answer_of((struct made[]){{FORMAT_JPEG, 1, "x", 0}}, 1);
        ((struct item_field *)(void *)(a + 1))->in_hash = 5;
        CHECK_INT(shard_sample(&writer, &plan.samples[i], a, -1, &err), SLIMSET_OK);
        free(a);
    }
    end_shard();
    CHECK(writer.content.shard.inputs_hash != h);
    shard_fini(&writer);
    begin(SLIMSET_LAYOUT_SHARDS, false); /* rejects count with content 0 */
    plan_of("cat/1.jpg\ndog/2.jpg");
    begin_shard(0);
    for (size_t i = 0; i < 2; i++)
        CHECK_INT(shard_reject(&writer, &plan.samples[i], 0, SLIMSET_REJECT_EMPTY, "empty", &err),
                  SLIMSET_OK);
    end_shard();
    struct hash_stream again;
    shard_hash_begin(&again, &plan);
    for (size_t i = 0; i < 2; i++) {
        shard_hash_sample(&again, &plan, &plan.samples[i]);
        shard_hash_entry(&again, &plan, &plan.listing.entries[plan.samples[i].first], 0);
    }
    CHECK(hash_value(&again) == writer.content.shard.inputs_hash);
    shard_fini(&writer);
    ask("rm -f data-*.tar");
}

/* --- into an index ---------------------------------------------------------------------------- */

/* Writes views as the shards 0, 1... of split 0. */
static void write_index(const char *name, const struct shard_view *v, uint32_t n)
{
    struct index_counts counts = {.splits = 1, .shards = n};
    struct index_writer *w;
    uint64_t part = 0, sample = 0, field = 0;
    for (uint32_t i = 0; i < n; i++) {
        counts.parts += v[i].n_parts;
        counts.samples += v[i].n_samples;
        counts.fields += v[i].n_fields;
        counts.rejects += v[i].n_rejects;
    }
    CHECK_INT(index_create(dir, name, SLIMSET_KIND_INDEX, &counts, &w, &err), SLIMSET_OK);
    struct slimset_split split = {.order = 2, .n_shards = n, .n_samples = counts.samples};
    CHECK_INT(index_put_split(w, &split, &err), SLIMSET_OK);
    for (uint32_t i = 0; i < n; i++) {
        struct slimset_shard s = {.number = i,
                                  .first_part = (uint32_t)part,
                                  .n_parts = (uint32_t)v[i].n_parts,
                                  .first_sample = sample,
                                  .n_samples = (uint32_t)v[i].n_samples,
                                  .n_rejects = (uint32_t)v[i].n_rejects};
        CHECK_INT(index_put_shard(w, &s, &err), SLIMSET_OK);
        CHECK_INT(shard_put(&v[i], i, 0, &part, &sample, &field, w, &err), SLIMSET_OK);
    }
    CHECK(part == counts.parts && sample == counts.samples && field == counts.fields);
    CHECK_INT(index_commit(w, false, &err), SLIMSET_OK);
}

static void test_into_an_index(void)
{
    static struct shard_writer kept[2];
    struct index ix;
    begin(SLIMSET_LAYOUT_SHARDS, false);
    recipe.shards = 2;
    recipe.shard_bytes = 8192;
    plan_of("a.jpg\na.txt\nb.jpg\nc.jpg\nd.jpg\ne.jpg");
    CHECK_INT(plan.n_shards, 2);
    for (size_t k = 0; k < 2; k++) { /* the last sample of each is a reject */
        const struct plan_shard *s = &plan.shards[k];
        begin_shard(k);
        for (size_t i = s->first_sample; i < s->first_sample + s->n_samples; i++)
            if (i + 1 == s->first_sample + s->n_samples)
                CHECK_INT(
                    shard_reject(&writer, &plan.samples[i], 0, SLIMSET_REJECT_CORRUPT, "bad", &err),
                    SLIMSET_OK);
            else
                add_sample(
                    i, (struct made[]){{FORMAT_JPEG, 1, NULL, 5000 + i}, {FORMAT_TEXT, 0, "t", 0}},
                    plan.samples[i].n);
        end_shard();
        kept[k] = writer;
    }
    struct shard_view v[2] = {shard_view_of(&kept[0].content), shard_view_of(&kept[1].content)};
    write_index("index", v, 2);
    CHECK_INT(index_open(dir, "index", SLIMSET_KIND_INDEX, true, &ix, &err), SLIMSET_OK);
    uint64_t samples = kept[0].content.n_samples + kept[1].content.n_samples;
    CHECK(ix.n_samples == samples && ix.n_samples == 3 && ix.n_rejects == 2 && ix.n_parts == 3);
    for (uint64_t i = 0; i < ix.n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        const char *key, *part;
        size_t key_n, part_n;
        uint64_t found = 99;
        CHECK_INT(index_sample(&ix, i, &s, &f, &err), SLIMSET_OK);
        CHECK_INT(index_text(&ix, s->key, &key, &key_n, &err), SLIMSET_OK);
        CHECK_INT(index_find(&ix, key, key_n, &found, &err), SLIMSET_OK);
        CHECK(found == i && key_n == 1);
        CHECK_INT(index_text(&ix, ix.parts[s->part].name, &part, &part_n, &err), SLIMSET_OK);
        char name[64], *data;
        snprintf(name, sizeof name, "%.*s", (int)part_n, part);
        size_t n;
        CHECK_INT(io_read_file(dir, name, 1 << 20, (uint8_t **)&data, &n, &err), SLIMSET_OK);
        for (unsigned k = 0; k < s->n_fields; k++)
            CHECK(f[k].offset + f[k].bytes <= n &&
                  hash_bytes(data + f[k].offset, f[k].bytes) == f[k].hash);
        CHECK_INT(ix.parts[s->part].shard,
                  (size_t)(key[0] - 'a') < plan.shards[1].first_sample ? 0 : 1);
        CHECK(ix.parts[s->part].first_sample <= i &&
              i < ix.parts[s->part].first_sample + ix.parts[s->part].n_samples);
        free(data);
    }
    CHECK(ix.rejects[0].shard == 0 && ix.rejects[1].shard == 1);
    /* The records of an index give the same index again: this is how shards that stay are
     * carried over. */
    struct shard_view w[2];
    uint64_t part = 0, sample = 0, field = 0, reject = 0;
    for (int k = 0; k < 2; k++) {
        w[k] = (struct shard_view){.shard = ix.shards[k],
                                   .parts = ix.parts + part,
                                   .samples = ix.samples + sample,
                                   .fields = ix.fields + field,
                                   .rejects = ix.rejects + reject,
                                   .n_parts = v[k].n_parts,
                                   .n_samples = v[k].n_samples,
                                   .n_fields = v[k].n_fields,
                                   .n_rejects = v[k].n_rejects,
                                   .base_field = field,
                                   .base_part = part,
                                   .base_sample = sample,
                                   .strings = ix.strings,
                                   .string_bytes = ix.string_bytes};
        part += v[k].n_parts;
        sample += v[k].n_samples;
        field += v[k].n_fields;
        reject += v[k].n_rejects;
    }
    write_index("again", w, 2);
    CHECK_STR(ask("cmp index again && echo same"), "same\n");
    struct shard_view damaged = w[0]; /* a reference outside of the strings is found */
    damaged.string_bytes = 10;
    struct index_counts counts = {
        .splits = 0, .shards = 0, .parts = 10, .samples = 10, .fields = 10, .rejects = 10};
    struct index_writer *iw;
    part = sample = field = 0;
    CHECK_INT(index_create(dir, "x", SLIMSET_KIND_FRAGMENT, &counts, &iw, &err), SLIMSET_OK);
    CHECK_INT(shard_put(&damaged, 0, 0, &part, &sample, &field, iw, &err), SLIMSET_DAMAGED);
    index_abort(iw);
    index_close(&ix);
    shard_fini(&kept[0]);
    shard_fini(&kept[1]);
    ask("rm -f data-*.tar index again");
}

/* --- trees ------------------------------------------------------------------------------------ */

static void test_tree(void)
{
    begin(SLIMSET_LAYOUT_TREE, false);
    plan_of("cat/deep/er/1.png\ncat/deep/er/1.TXT\nREADME\nodd name/\xe9 (1).v2.jpg");
    begin_shard(0);
    CHECK_INT(plan.n_samples, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct plan_sample *s = &plan.samples[i];
        const char *path = plan.listing.entries[s->first].path;
        if (s->n == 2)
            add_sample(i,
                       (struct made[]){{FORMAT_TEXT, 0, "text", 0},
                                       {FORMAT_JPEG, NOTE_REENCODED, "cat", 0}},
                       2);
        else if (strcmp(path, "README") == 0)
            add_sample(i, (struct made[]){{FORMAT_TEXT, 0, "read", 0}}, 1);
        else
            add_sample(i, (struct made[]){{FORMAT_JPEG, NOTE_COPIED, "odd", 0}}, 1);
    }
    end_shard();
    CHECK_STR(ask("find . -type f -path './[cRo]*' | sort | tr '\\n' ';'"),
              "./README;./cat/deep/er/1.TXT;./cat/deep/er/1.jpg;./odd name/\xe9 (1).v2.jpg;");
    CHECK_STR(ask("cat README cat/deep/er/1.TXT cat/deep/er/1.jpg"), "readtextcat");
    const struct shard_content *c = &writer.content;
    CHECK(c->n_parts == 1 && c->parts[0].name == 0 && c->parts[0].bytes == 14 &&
          c->parts[0].n_samples == 3);
    struct hash_stream h; /* of the fields' hashes, in order */
    hash_init(&h);
    for (size_t i = 0; i < c->n_fields; i++) {
        hash_update(&h, &c->fields[i].hash, sizeof c->fields[i].hash);
        CHECK_INT(c->fields[i].offset, 0);
    }
    CHECK(hash_value(&h) == c->parts[0].hash && c->n_fields == 4); /* no cls: the folders say it */
    shard_fini(&writer);
}

/* --- again ------------------------------------------------------------------------------------ */

static void test_same_bytes(void)
{
    struct buf first = {0};
    for (int round = 0; round < 2; round++) {
        uint8_t *data = NULL;
        size_t n = 0;
        begin(SLIMSET_LAYOUT_SHARDS, false);
        plan_of("cat/1.jpg\ncat/2.jpg\ndog/3.jpg\ndog/3.txt");
        begin_shard(0);
        for (size_t i = 0; i < 3; i++)
            add_sample(
                i, (struct made[]){{FORMAT_JPEG, 1, NULL, 700 * (i + 1)}, {FORMAT_TEXT, 0, "t", 0}},
                plan.samples[i].n);
        end_shard();
        shard_fini(&writer);
        CHECK_INT(io_read_file(dir, "data-00000.tar", 1 << 20, &data, &n, &err), SLIMSET_OK);
        if (round == 0)
            CHECK_INT(buf_append(&first, data, n, &err), SLIMSET_OK);
        else
            CHECK(n == first.len && memcmp(first.data, data, n) == 0);
        free(data);
    }
    buf_fini(&first);
}

/* A shard that is given up in the middle leaves no descriptor open. */
static void test_given_up(void)
{
    int before = dup(0);
    close(before);
    begin(SLIMSET_LAYOUT_SHARDS, false);
    recipe.shard_bytes = 4096;
    plan_of("1.jpg\n2.jpg\n3.jpg");
    begin_shard(0);
    for (size_t i = 0; i < 3; i++)
        add_sample(i, (struct made[]){{FORMAT_JPEG, 1, NULL, 3000}}, 1);
    shard_fini(&writer);
    int after = dup(0);
    close(after);
    CHECK_INT(after, before);
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    snprintf(dir_path, sizeof dir_path, "%s/test_shard.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir_path) == NULL ||
        (dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(dir_path);
        return 1;
    }
    slimset_recipe_init(&recipe);
    plan_init(&plan, &recipe);
    RUN(test_records);
    RUN(test_field_names);
    RUN(test_names_with_parts);
    RUN(test_same_field_twice);
    RUN(test_own_cls);
    RUN(test_every_name_fits);
    RUN(test_parts);
    RUN(test_very_many_parts);
    RUN(test_rejects);
    RUN(test_inputs_hash);
    RUN(test_into_an_index);
    RUN(test_tree);
    RUN(test_same_bytes);
    RUN(test_given_up);
    plan_fini(&plan);
    io_remove_tree(AT_FDCWD, dir_path, &err);
    return check_done();
}
