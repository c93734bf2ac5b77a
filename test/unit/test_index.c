/* SPDX-License-Identifier: Apache-2.0
 *
 * index_write.c, index_read.c: what was written comes back, and whatever is done to the file is
 * noticed before it can mislead. An argument names the folder for scratch files, else $TMPDIR or
 * /tmp.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"
#include "make_dataset.h"

enum { SMALL = 1, PARTS_OF = MAKE_PARTS }; /* samples a part */

static int dir = -1;
static const char *const name = SLIMSET_INDEX_NAME;
static struct slimset_error fault;

/* The bytes of an index, for tests that change them. */
static uint8_t *original;
static size_t original_n;

static void load_original(uint64_t part_samples)
{
    free(original);
    make_dataset(dir, false, part_samples);
    MUST(io_read_file(dir, name, SIZE_MAX / 4, &original, &original_n, &err));
}

/* Written in place: ext4 sends a file to the disk that is truncated, written and closed, and this
 * is called often. */
static void put_index(const uint8_t *bytes, size_t n)
{
    static int fd = -1;
    if (fd < 0)
        MUST(io_create(dir, "changed", &fd, &err));
    MUST(io_pwrite(fd, bytes, n, 0, "changed", &err));
    if (ftruncate(fd, (off_t)n) < 0)
        exit(1);
}

/* Makes all checksums right again after a change: only the checks of the numbers are left to find
 * it. */
static void reseal(uint8_t *bytes, size_t n)
{
    struct slimset_header *h = (struct slimset_header *)(void *)bytes;
    if (h->sums_offset > SLIMSET_HEADER_BYTES && h->sums_offset < n &&
        h->n_blocks == (h->sums_offset - SLIMSET_HEADER_BYTES + SLIMSET_BLOCK_BYTES - 1) /
                           SLIMSET_BLOCK_BYTES &&
        h->sums_offset + h->n_blocks * 8 + 16 == n) {
        uint64_t *sums = (uint64_t *)(void *)(bytes + h->sums_offset);
        for (uint64_t b = 0; b < h->n_blocks; b++) {
            uint64_t at = SLIMSET_HEADER_BYTES + b * SLIMSET_BLOCK_BYTES,
                     left = h->sums_offset - at;
            sums[b] =
                hash_bytes(bytes + at, left < SLIMSET_BLOCK_BYTES ? left : SLIMSET_BLOCK_BYTES);
        }
        h->sums_hash = hash_bytes(sums, h->n_blocks * 8);
    }
    h->header_hash = hash_bytes(h, 120);
}

static bool text_is(struct index *ix, slimset_str s, const char *want)
{
    const char *bytes;
    size_t n;
    return index_text(ix, s, &bytes, &n, &fault) == SLIMSET_OK && n == strlen(want) &&
           memcmp(bytes, want, n) == 0;
}

/* Reads everything there is. SLIMSET_OK only when all of it is exactly what make_dataset wrote;
 * *wrong is set when something else was handed out as good. */
static enum slimset_status read_all(struct index *ix, uint64_t part_samples, bool *wrong)
{
    enum slimset_status st, first = SLIMSET_OK;
    const char *v;
    size_t n;
#define KEEP(call)                                                                                 \
    ((st = (call)) != SLIMSET_OK && first == SLIMSET_OK ? (void)(first = st) : (void)0)
    if (ix->n_samples != PARTS_OF * part_samples || ix->n_fields != ix->n_samples * MAKE_FIELDS)
        *wrong = true;
    if (!index_meta(ix, "recipe.resize", &v, &n) || n != 7 || memcmp(v, "long:32", 7) != 0)
        *wrong = true;
    for (uint64_t i = 0; i < ix->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        char key[64];
        uint8_t data[1200];
        uint64_t found = UINT64_MAX;
        size_t key_n = make_key(key, i);
        KEEP(index_find(ix, key, key_n, &found, &fault));
        if (st == SLIMSET_OK && found != i)
            *wrong = true;
        KEEP(index_sample(ix, i, &s, &f, &fault));
        if (st != SLIMSET_OK)
            continue;
        if (s->part != i / part_samples || s->cls != (int32_t)(i % 2) || s->n_fields != MAKE_FIELDS)
            *wrong = true;
        KEEP(index_text(ix, s->key, &v, &n, &fault));
        if (st == SLIMSET_OK && (n != key_n || memcmp(v, key, n) != 0))
            *wrong = true;
        for (int k = 0; k < s->n_fields && k < MAKE_FIELDS; k++) {
            size_t bytes = make_data(data, i, k);
            if (f[k].bytes != bytes || f[k].hash != hash_bytes(data, bytes))
                *wrong = true;
            KEEP(index_text(ix, f[k].name, &v, &n, &fault));
            if (st == SLIMSET_OK &&
                (n != strlen(make_field_name[k]) || memcmp(v, make_field_name[k], n) != 0))
                *wrong = true;
            KEEP(index_text(ix, f[k].path, &v, &n, &fault));
        }
    }
    KEEP(index_touch(ix, ix->rejects, ix->n_rejects * sizeof *ix->rejects, &fault));
    KEEP(index_touch(ix, ix->parts, ix->n_parts * sizeof *ix->parts, &fault));
    if (st == SLIMSET_OK) {
        for (uint64_t i = 0; i < ix->n_parts; i++) {
            KEEP(index_text(ix, ix->parts[i].name, &v, &n, &fault));
            if (st == SLIMSET_OK &&
                (n != strlen(make_part_name[i % 4]) || memcmp(v, make_part_name[i % 4], n) != 0))
                *wrong = true;
        }
    }
#undef KEEP
    return first;
}

static void test_round_trip(void)
{
    struct index ix;
    bool wrong = false;
    load_original(5);
    CHECK_INT(index_open(dir, name, SLIMSET_KIND_INDEX, true, &ix, &fault), SLIMSET_OK);
    CHECK_INT(read_all(&ix, 5, &wrong), SLIMSET_OK);
    CHECK(!wrong);
    CHECK_INT(ix.n_splits, 2);
    CHECK(text_is(&ix, ix.splits[1].name, "val"));
    CHECK_INT(ix.splits[1].first_sample, 15);
    CHECK(text_is(&ix, ix.classes[1].name, "dog"));
    CHECK(text_is(&ix, ix.rules[0].reason, "photos, \"8-bit\""));
    CHECK_INT(ix.rules[1].ratio_q16, 65536);
    CHECK(text_is(&ix, ix.shards[3].first_path, "val/cat/a.jpg"));
    CHECK_INT(ix.shards[1].n_parts, 0);
    CHECK(text_is(&ix, ix.rejects[1].path, "cat/\xff\xfe\x1b[2J.jpg"));
    CHECK(text_is(&ix, ix.rejects[3].text, ""));
    CHECK_INT(ix.rejects[2].kind, 2);
    for (uint64_t i = 1; i < ix.n_keys; i++)
        CHECK(ix.keys[i - 1].hash <= ix.keys[i].hash);
    index_close(&ix);
    index_close(&ix); /* a zeroed one is fine */
}

static void test_find(void)
{
    struct index ix;
    uint64_t i;
    CHECK_INT(index_open(dir, name, SLIMSET_KIND_INDEX, false, &ix, &fault), SLIMSET_OK);
    CHECK_INT(index_find(&ix, "dog/000007", 10, &i, &fault), SLIMSET_OK);
    CHECK_INT(i, 7);
    CHECK_INT(index_find(&ix, "dog/000008", 10, &i, &fault), SLIMSET_NOT_FOUND);
    CHECK_INT(index_find(&ix, "", 0, &i, &fault), SLIMSET_NOT_FOUND);
    const struct slimset_sample *s;
    const struct slimset_field *f;
    CHECK_INT(index_sample(&ix, 20, &s, &f, &fault), SLIMSET_NOT_FOUND);
    CHECK_INT(index_sample(&ix, UINT64_MAX, &s, &f, &fault), SLIMSET_NOT_FOUND);
    index_close(&ix);
}

static void test_meta(void)
{
    struct index ix;
    const char *v;
    size_t n;
    CHECK_INT(index_open(dir, name, SLIMSET_KIND_INDEX, false, &ix, &fault), SLIMSET_OK);
    CHECK(index_meta(&ix, "tool", &v, &n) && n == 13 && memcmp(v, "slimset 0.1.0", 13) == 0);
    CHECK(index_meta(&ix, "empty", &v, &n) && n == 0);
    CHECK(!index_meta(&ix, "recipe", &v, &n)); /* no prefixes */
    CHECK(!index_meta(&ix, "", &v, &n));
    index_close(&ix);
}

static void test_equal_input_equal_bytes(void)
{
    uint8_t *again;
    size_t n;
    make_dataset(dir, false, 5);
    MUST(io_read_file(dir, name, SIZE_MAX / 4, &again, &n, &err));
    CHECK_INT(n, original_n);
    CHECK(memcmp(again, original, n) == 0);
    free(again);
}

/* Opening reads the ends only, a look-up the blocks it leads through. */
static void test_lazy_checks(void)
{
    struct index ix;
    uint64_t i, checked = 0;
    load_original(500);
    CHECK_INT(index_open(dir, name, SLIMSET_KIND_INDEX, false, &ix, &fault), SLIMSET_OK);
    CHECK(ix.n_blocks > 10);
    for (uint64_t b = 0; b < ix.n_blocks; b++)
        checked += ix.checked[b];
    CHECK_INT(checked, 1); /* table and META */
    CHECK_INT(index_find(&ix, "cat/001000", 10, &i, &fault), SLIMSET_OK);
    CHECK_INT(i, 1000);
    checked = 0;
    for (uint64_t b = 0; b < ix.n_blocks; b++)
        checked += ix.checked[b];
    CHECK(checked < ix.n_blocks);
    bool wrong = false;
    CHECK_INT(read_all(&ix, 500, &wrong), SLIMSET_OK);
    CHECK(!wrong);
    index_close(&ix);
    /* Damage in one block: what lies elsewhere can still be read. */
    uint8_t *p = malloc(original_n);
    memcpy(p, original, original_n);
    p[SLIMSET_HEADER_BYTES + 5 * SLIMSET_BLOCK_BYTES + 77] ^= 4;
    put_index(p, original_n);
    CHECK_INT(index_open(dir, "changed", SLIMSET_KIND_INDEX, true, &ix, &fault), SLIMSET_DAMAGED);
    CHECK_STR(fault.text,
              "changed is damaged: block 5 (bytes 327808 to 393343) does not match its checksum");
    CHECK_INT(index_open(dir, "changed", SLIMSET_KIND_INDEX, false, &ix, &fault), SLIMSET_OK);
    CHECK_INT(read_all(&ix, 500, &wrong), SLIMSET_DAMAGED);
    CHECK(!wrong);
    const struct slimset_sample *s;
    const struct slimset_field *f;
    CHECK_INT(index_sample(&ix, 0, &s, &f, &fault), SLIMSET_OK);
    index_close(&ix);
    free(p);
}

/* Every byte, three ways: opening finds it, or reading does; nothing wrong is handed out. */
static void test_every_flip(void)
{
    static const uint8_t mask[] = {0x01, 0x80, 0xff};
    load_original(SMALL);
    uint8_t *p = malloc(original_n);
    for (size_t at = 0; at < original_n; at++) {
        for (size_t k = 0; k < sizeof mask; k++) {
            struct index ix;
            bool wrong = false;
            memcpy(p, original, original_n);
            p[at] ^= mask[k];
            put_index(p, original_n);
            enum slimset_status st =
                index_open(dir, "changed", SLIMSET_KIND_INDEX, true, &ix, &fault);
            if (st != SLIMSET_DAMAGED || ix.base != NULL) {
                printf("  byte %zu ^ %02x: opening answers %d\n", at, mask[k], (int)st);
                check_failures_here++;
            }
            index_close(&ix);
            if (index_open(dir, "changed", SLIMSET_KIND_INDEX, false, &ix, &fault) == SLIMSET_OK) {
                read_all(&ix, SMALL, &wrong);
                index_close(&ix);
            }
            CHECK(!wrong);
        }
    }
    free(p);
}

static void test_every_truncation(void)
{
    struct index ix;
    uint8_t *p = calloc(1, original_n + 8);
    memcpy(p, original, original_n);
    for (size_t n = 0; n < original_n + 8; n++) {
        put_index(p, n);
        enum slimset_status st = index_open(dir, "changed", SLIMSET_KIND_INDEX, false, &ix, &fault);
        if (st != (n == original_n ? SLIMSET_OK : SLIMSET_DAMAGED)) {
            printf("  %zu of %zu bytes: opening answers %d\n", n, original_n, (int)st);
            check_failures_here++;
        }
        index_close(&ix);
    }
    free(p);
}

/* The section's row in the table. */
static struct slimset_section *section(uint8_t *p, const char *id)
{
    struct slimset_section *s = (struct slimset_section *)(void *)(p + SLIMSET_HEADER_BYTES);
    while (memcmp(s->id, id, 4) != 0)
        s++;
    return s;
}

/* Opens changed bytes with right checksums; the status of opening, or else of reading
 * everything. */
static enum slimset_status open_changed(uint8_t *p, size_t n)
{
    struct index ix;
    bool wrong = false;
    reseal(p, n);
    put_index(p, n);
    enum slimset_status st = index_open(dir, "changed", SLIMSET_KIND_INDEX, false, &ix, &fault);
    if (st == SLIMSET_OK)
        st = read_all(&ix, SMALL, &wrong);
    index_close(&ix);
    return st;
}

/* Somebody who can compute checksums writes numbers that lead astray. */
static void test_crafted_tables(void)
{
    static const struct {
        const char *id;
        /* 0 offset += v, 1 bytes and count = v, 2 record_bytes = v, 3 id = META, 4 offset = v */
        int what;
        uint64_t v;
        const char *text;
    } craft[] = {
        {"SAMP", 0, 4, "changed is damaged: section 6 lies at an impossible place"},
        {"SAMP", 4, 0, "changed is damaged: section 6 lies at an impossible place"},
        {"SAMP", 4, UINT64_MAX - 7, "changed is damaged: section 6 lies at an impossible place"},
        {"SAMP", 4, (uint64_t)1 << 63, "changed is damaged: section 6 lies at an impossible place"},
        {"STRS", 1, 1 << 20, "changed is damaged: section 10 lies at an impossible place"},
        {"STRS", 1, UINT64_MAX, "changed is damaged: section 10 lies at an impossible place"},
        {"FILD", 2, 80, "changed is damaged: section 7 does not hold whole records"},
        {"FILD", 2, 0, "changed is damaged: section 7 does not hold whole records"},
        {"REJS", 3, 0,
         "changed is damaged: section META is there twice or has records of another size"},
    };
    uint8_t *p = malloc(original_n);
    for (size_t i = 0; i < sizeof craft / sizeof craft[0]; i++) {
        memcpy(p, original, original_n);
        struct slimset_section *s = section(p, craft[i].id);
        switch (craft[i].what) {
        case 0: s->offset += craft[i].v; break;
        case 1: s->bytes = s->count = craft[i].v; break;
        case 2: s->record_bytes = (uint32_t)craft[i].v; break;
        case 3: memcpy(s->id, "META", 4); break;
        default: s->offset = craft[i].v; break;
        }
        fault.text[0] = '\0';
        CHECK_INT(open_changed(p, original_n), SLIMSET_DAMAGED);
        CHECK_STR(fault.text, craft[i].text);
    }
    /* count x record_bytes wraps to the right number of bytes */
    memcpy(p, original, original_n);
    section(p, "SAMP")->count |= (uint64_t)1 << 60;
    CHECK_INT(open_changed(p, original_n), SLIMSET_DAMAGED);
    /* A section that nobody knows is skipped, and one that is not there is empty. */
    memcpy(p, original, original_n);
    memcpy(section(p, "REJS")->id, "NEWS", 4);
    CHECK_INT(open_changed(p, original_n), SLIMSET_OK);
    free(p);
}

static void test_crafted_headers(void)
{
    static const struct {
        size_t at;
        uint64_t v;
        enum slimset_status status;
    } craft[] = {
        {offsetof(struct slimset_header, version), 2 | (uint64_t)128 << 32, SLIMSET_DIFFERS},
        {offsetof(struct slimset_header, version), 1 | (uint64_t)64 << 32, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, file_bytes), 4096, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, kind), SLIMSET_KIND_PLAN | (uint64_t)11 << 32,
         SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, kind), SLIMSET_KIND_INDEX | (uint64_t)65 << 32,
         SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, kind), SLIMSET_KIND_INDEX | (uint64_t)60 << 32,
         SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, kind), SLIMSET_KIND_INDEX | (uint64_t)UINT32_MAX << 32,
         SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, table_offset), 136, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, sums_offset), 0, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, sums_offset), UINT64_MAX - 7, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, sums_offset), 128, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, n_blocks), 0, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, n_blocks), UINT64_MAX, SLIMSET_DAMAGED},
        {offsetof(struct slimset_header, n_blocks), (uint64_t)1 << 61, SLIMSET_DAMAGED},
    };
    uint8_t *p = malloc(original_n);
    for (size_t i = 0; i < sizeof craft / sizeof craft[0]; i++) {
        memcpy(p, original, original_n);
        memcpy(p + craft[i].at, &craft[i].v, 8);
        CHECK_INT(open_changed(p, original_n), craft[i].status);
    }
    free(p);
}

/* Records that name what is not there: the accessors refuse. */
static void test_crafted_records(void)
{
    uint8_t *p = malloc(original_n);
    for (int c = 0; c < 9; c++) {
        memcpy(p, original, original_n);
        struct slimset_sample *s =
            (struct slimset_sample *)(void *)(p + section(p, "SAMP")->offset);
        struct slimset_key *k = (struct slimset_key *)(void *)(p + section(p, "KEYS")->offset);
        struct slimset_field *f = (struct slimset_field *)(void *)(p + section(p, "FILD")->offset);
        switch (c) {
        case 0: s->first_field = UINT64_MAX; break;
        case 1: s->n_fields = UINT16_MAX; break;
        case 2: s->part = 4; break;
        case 3: s->split = 2; break;
        case 4: s->cls = 2; break;
        case 5: s->cls = -2; break;
        case 6: s->key = (uint64_t)200 << 40 | 0xffffffffff; break;
        case 7: k[0].sample = k[1].sample = k[2].sample = k[3].sample = 4; break;
        default: f->path = (uint64_t)0xffffff << 40; break;
        }
        CHECK_INT(open_changed(p, original_n), SLIMSET_DAMAGED);
    }
    free(p);
}

static uint64_t seed = 20261201;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* Random changes with right checksums. Values cannot be right any more; memory must be (sanitizers
 * look on). */
static void test_random_changes(void)
{
    uint8_t *p = malloc(original_n);
    int opened = 0;
    for (int round = 0; round < 4000; round++) {
        memcpy(p, original, original_n);
        for (uint64_t n = 1 + next_random() % 4; n > 0; n--) {
            uint64_t v = next_random(), at = next_random() % (original_n - 8);
            size_t width = next_random() % 2 ? 1 : 8;
            if (next_random() % 2)
                at = SLIMSET_HEADER_BYTES + at % 352; /* the table deserves more than its share */
            if (width == 8 && v % 3 == 0)
                v = UINT64_MAX >> v % 64;
            memcpy(p + at, &v, width);
        }
        struct index ix;
        bool wrong = false;
        reseal(p, original_n);
        put_index(p, original_n);
        if (index_open(dir, "changed", SLIMSET_KIND_INDEX, round % 2, &ix, &fault) == SLIMSET_OK) {
            opened++;
            read_all(&ix, SMALL, &wrong);
            index_close(&ix);
        }
    }
    /* Else the changes are too harsh or too mild to say anything. */
    CHECK(opened > 400 && opened < 4000);
    free(p);
}

static void test_kinds(void)
{
    const struct index_counts counts = {.meta_bytes = 4, .samples = 1, .fields = 1, .parts = 1};
    const struct slimset_sample s = {.n_fields = 1, .cls = 7, .split = 3};
    const struct slimset_field f = {.bytes = 9};
    const struct slimset_part part = {.n_samples = 1};
    struct index_writer *w;
    struct index ix;
    MUST(index_create(dir, "fragment", SLIMSET_KIND_FRAGMENT, &counts, &w, &err));
    MUST(index_put_meta(w, "a=b\n", 4, &err));
    MUST(index_put_sample(w, &s, 5, &err));
    MUST(index_put_field(w, &f, &err));
    MUST(index_put_part(w, &part, &err));
    CHECK_INT(index_commit(w, false, &fault), SLIMSET_OK);
    CHECK_INT(index_open(dir, "fragment", SLIMSET_KIND_INDEX, true, &ix, &fault), SLIMSET_DAMAGED);
    CHECK_INT(index_open(dir, "fragment", SLIMSET_KIND_FRAGMENT, true, &ix, &fault), SLIMSET_OK);
    CHECK_INT(ix.n_keys, 0);
    const struct slimset_sample *sp;
    const struct slimset_field *fp;
    /* Classes and splits are the plan's. */
    CHECK_INT(index_sample(&ix, 0, &sp, &fp, &fault), SLIMSET_OK);
    CHECK_INT(sp->cls, 7);
    CHECK_INT(fp->bytes, 9);
    index_close(&ix);
    /* Nothing at all is a valid file too. */
    const struct index_counts none = {0};
    MUST(index_create(dir, "empty", SLIMSET_KIND_PLAN, &none, &w, &err));
    CHECK_INT(index_commit(w, false, &fault), SLIMSET_OK);
    CHECK_INT(index_open(dir, "empty", SLIMSET_KIND_PLAN, true, &ix, &fault), SLIMSET_OK);
    index_close(&ix);
    CHECK_INT(index_open(dir, "nothing", SLIMSET_KIND_PLAN, true, &ix, &fault), SLIMSET_NOT_FOUND);
    CHECK_INT(index_open(dir, ".", SLIMSET_KIND_PLAN, true, &ix, &fault), SLIMSET_DAMAGED);
    put_index((const uint8_t *)"", 0);
    CHECK_INT(index_open(dir, "changed", SLIMSET_KIND_PLAN, true, &ix, &fault), SLIMSET_DAMAGED);
}

static void test_strings(void)
{
    const struct index_counts none = {0};
    struct index_writer *w;
    slimset_str a, b, c;
    MUST(index_create(dir, "s", SLIMSET_KIND_PLAN, &none, &w, &err));
    CHECK_INT(index_string(w, "", 0, &a, &fault), SLIMSET_OK);
    CHECK_INT(a, 0);
    MUST(index_string(w, "jpg", 3, &a, &err));
    MUST(index_string(w, "png", 3, &b, &err));
    MUST(index_string(w, "jpg", 3, &c, &err));
    CHECK(a == c && a != b);
    CHECK_INT(a, (uint64_t)3 << 40);
    char *big = calloc(1, 1 << 24);
    CHECK_INT(index_string(w, big, 1 << 24, &a, &fault), SLIMSET_LIMIT);
    CHECK_INT(index_string(w, big, (1 << 24) - 1, &a, &fault), SLIMSET_OK);
    CHECK(a == ((uint64_t)0xffffff << 40 | 6));
    CHECK_INT(index_string(w, "a\0b", 3, &b, &fault), SLIMSET_OK);
    CHECK_INT(index_commit(w, false, &fault), SLIMSET_OK);
    struct index ix;
    const char *v;
    size_t n;
    CHECK_INT(index_open(dir, "s", SLIMSET_KIND_PLAN, true, &ix, &fault), SLIMSET_OK);
    CHECK_INT(index_text(&ix, a, &v, &n, &fault), SLIMSET_OK);
    CHECK(n == (1 << 24) - 1 && memcmp(v, big, n) == 0);
    CHECK_INT(index_text(&ix, b, &v, &n, &fault), SLIMSET_OK);
    CHECK(n == 3 && memcmp(v, "a\0b", 3) == 0);
    CHECK_INT(index_text(&ix, b + 1, &v, &n, &fault), SLIMSET_DAMAGED);
    index_close(&ix);
    free(big);
}

static bool exists(const char *file)
{
    struct stat st;
    return fstatat(dir, file, &st, 0) == 0;
}

static void test_failed_writes_leave_nothing(void)
{
    struct index_counts counts = {.samples = (uint64_t)UINT32_MAX + 1};
    struct index_writer *w;
    CHECK_INT(index_create(dir, "l", SLIMSET_KIND_PLAN, &counts, &w, &fault), SLIMSET_LIMIT);
    CHECK(w == NULL && !exists("l"));
    counts = (struct index_counts){.fields = UINT64_MAX / 2};
    CHECK_INT(index_create(dir, "l", SLIMSET_KIND_PLAN, &counts, &w, &fault), SLIMSET_LIMIT);
    counts = (struct index_counts){0};
    CHECK_INT(index_create(dir, "no/l", SLIMSET_KIND_PLAN, &counts, &w, &fault), SLIMSET_IO);
    CHECK_INT(index_create(dir, "l", SLIMSET_KIND_PLAN, &counts, &w, &fault), SLIMSET_OK);
    CHECK(exists("l"));
    index_abort(w);
    CHECK(!exists("l"));
    index_abort(NULL);

    struct rlimit old, small; /* a full disk, on a small scale */
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 500; limit += 100) {
        small.rlim_cur = limit;
        CHECK_INT(index_create(dir, "l", SLIMSET_KIND_PLAN, &counts, &w, &fault), SLIMSET_OK);
        setrlimit(RLIMIT_FSIZE, &small);
        enum slimset_status st = index_commit(w, true, &fault);
        setrlimit(RLIMIT_FSIZE, &old);
        CHECK_INT(st, SLIMSET_IO);
        CHECK(!exists("l"));
    }
    signal(SIGXFSZ, handler);
}

int main(int argc, char **argv)
{
    const char *base = argc > 1 ? argv[1] : getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    char path[4096];
    snprintf(path, sizeof path, "%s/test_index.XXXXXX", base);
    if (mkdtemp(path) == NULL || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(path);
        return 1;
    }
    RUN(test_round_trip);
    RUN(test_find);
    RUN(test_meta);
    RUN(test_equal_input_equal_bytes);
    RUN(test_lazy_checks);
    RUN(test_every_flip);
    RUN(test_every_truncation);
    RUN(test_crafted_tables);
    RUN(test_crafted_headers);
    RUN(test_crafted_records);
    RUN(test_random_changes);
    RUN(test_kinds);
    RUN(test_strings);
    RUN(test_failed_writes_leave_nothing);
    free(original);
    close(dir);
    CHECK_INT(io_remove_tree(AT_FDCWD, path, &fault), SLIMSET_OK);
    return check_done();
}
