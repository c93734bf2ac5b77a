/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c, verify*.c, tar_check.c: a healthy dataset has no findings; each kind of damage has its
 * finding at its place, and damaged bytes are never handed out. An argument names the folder for
 * scratch files, else $TMPDIR or /tmp.
 */
#include <sys/stat.h>

#include "check.h"
#include "dataset.h"
#include "make_dataset.h"
#include "slimset/pack.h"
#include "slimset/reader.h"
#include "tar_check.h"
#include "verify_decode.h"

/* Instead of the workers of verify_decode.c (the linker takes this one and leaves that out of its
 * library): everything is an image of 32x24, but for what begins with the byte 0x83. */
struct verify_decoder {
    unsigned jobs;
};
static unsigned decoder_jobs, decoders_open;

struct verify_decoder *verify_decoder_open(unsigned jobs, struct slimset_error *err)
{
    struct verify_decoder *d = malloc(sizeof *d);
    (void)err;
    decoder_jobs = jobs;
    decoders_open++;
    return d;
}

void verify_decoder_close(struct verify_decoder *d)
{
    decoders_open -= d != NULL;
    free(d);
}

enum slimset_status verify_decode_array(struct verify_decoder *d, int fd, uint64_t offset, uint64_t n,
                                        uint8_t format, char **text, struct slimset_error *e)
{
    (void)d, (void)fd, (void)offset, (void)n, (void)format, (void)text;
    return err_set(e, SLIMSET_INTERNAL, "no dataset here has arrays");
}

enum slimset_status verify_decode_field(struct verify_decoder *d, const uint8_t *data, size_t n,
                                        uint8_t format, uint32_t *w, uint32_t *h,
                                        struct slimset_error *err)
{
    (void)d, (void)format;
    *w = 32;
    *h = 24;
    if (n == 0 || data[0] != 0x83)
        return SLIMSET_OK;
    err->status = SLIMSET_BAD_INPUT;
    err->reject = SLIMSET_REJECT_CORRUPT;
    snprintf(err->text, sizeof err->text, "bad Huffman code");
    return SLIMSET_BAD_INPUT;
}

enum { EACH = 3 }; /* samples a part: 12 in all, 9 to 11 in val */

static char root[4096];
static int root_fd = -1;
static struct slimset_error fault;

/* ---- scratch datasets
 * ------------------------------------------------------------------------------- */

static char out[4200];
static int out_fd = -1;

static void fresh(bool tree)
{
    if (out_fd >= 0)
        close(out_fd);
    MUST(io_remove_tree(root_fd, "out", &err));
    MUST(io_mkdirs(root_fd, "out", &err));
    snprintf(out, sizeof out, "%s/out", root);
    out_fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_dataset(out_fd, tree, EACH);
}

static void put(const char *name, const void *bytes, size_t n)
{
    int fd;
    MUST(io_create(out_fd, name, &fd, &err));
    MUST(io_write(fd, bytes, n, name, &err));
    MUST(io_close(fd, name, &err));
}

/* XORs a byte; a negative `at` counts from the end. */
static void flip(const char *name, long long at, uint8_t mask)
{
    uint8_t *data;
    size_t n;
    MUST(io_read_file(out_fd, name, SIZE_MAX / 4, &data, &n, &err));
    data[at < 0 ? (long long)n + at : at] ^= mask;
    put(name, data, n);
    free(data);
}

static void resize_file(const char *name, long long by)
{
    struct stat st;
    int fd = openat(out_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || ftruncate(fd, st.st_size + by) < 0)
        exit(1);
    close(fd);
}

/* Where the data of a field begin. */
static uint64_t data_at(uint64_t sample, uint32_t field)
{
    struct slimset_reader *r;
    struct slimset_field_view f;
    MUST(slimset_reader_open(out, &r, &err));
    MUST(slimset_reader_field(r, sample, field, &f, &err));
    slimset_reader_close(r);
    return f.offset;
}

/* ---- findings as text
 * ------------------------------------------------------------------------------- */

static char found[65536];

static void collect(void *arg, const char *part, const char *key, const char *field,
                    const char *text)
{
    size_t n = strlen(found);
    (void)arg;
    snprintf(found + n, sizeof found - n, "%s|%s|%s|%s\n", part != NULL ? part : "",
             key != NULL ? key : "", field != NULL ? field : "", text);
}

static struct slimset_verify_report report;
static enum slimset_status verify(void)
{
    found[0] = '\0';
    return slimset_verify(out, false, 1, collect, NULL, &report, &fault);
}

/* ---- tests
 * ------------------------------------------------------------------------------------------ */

static void test_healthy(void)
{
    for (int tree = 0; tree < 2; tree++) {
        fresh(tree != 0);
        CHECK_INT(verify(), SLIMSET_OK);
        CHECK_STR(found, "");
        CHECK_INT(report.parts, 4);
        CHECK_INT(report.samples, 12);
        CHECK_INT(report.fields, 36);
        CHECK_INT(report.damaged, 0);
        uint64_t bytes = 0;
        uint8_t data[1200];
        for (uint64_t i = 0; i < 12; i++) {
            for (int k = 0; k < MAKE_FIELDS; k++)
                bytes += make_data(data, i, k);
        }
        CHECK_INT(report.bytes, bytes);
    }
}

/* Sample 1 is 33x24 in the index; the jpg of sample 1 begins with 131 = 0x83. */
static void test_decode(void)
{
    for (int tree = 0; tree < 2; tree++) {
        fresh(tree != 0);
        found[0] = '\0';
        CHECK_INT(slimset_verify(out, true, 3, collect, NULL, &report, &fault), SLIMSET_DAMAGED);
        CHECK_INT(decoder_jobs, 3);
        CHECK_INT(decoders_open, 0);
        CHECK_INT(report.images_decoded, 24); /* images and masks, not labels */
        CHECK(strncmp(found, tree ? "dog/000001.jpg|" : "train-00000.tar|", tree ? 15 : 16) == 0);
        CHECK(strstr(found, "|dog/000001|jpg|does not decode: bad Huffman code\n") != NULL);
        CHECK(strstr(found, "|dog/000001|seg.png|decodes to 32x24, the index says 33x24\n"));
        CHECK(strstr(found, "cat/000000") == NULL); /* 32x24 */
        CHECK_INT(report.damaged, 18);              /* all but the two fields of samples 0, 5, 10 */
    }
}

static void test_damage_in_shards(void)
{
    fresh(false);
    flip("train-00000.tar", (long long)data_at(1, 0) + 5, 0x10);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "train-00000.tar|dog/000001|jpg|its bytes do not match their checksum\n");
    CHECK_INT(report.damaged, 1);
    CHECK_INT(report.samples, 12); /* everything else was checked */

    fresh(false); /* the header's size digit: its checksum tells */
    flip("train-00000.tar", (long long)data_at(1, 1) - 512 + 130, 0x01);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(
        found,
        "train-00000.tar|dog/000001|seg.png|its tar header does not match the header's checksum\n");

    fresh(false); /* padding behind the one byte of a label */
    flip("val-00000.tar", (long long)data_at(9, 2) + 100, 0x01);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "val-00000.tar|dog/000009|cls|the padding behind it is not zero\n");

    fresh(false);
    flip("val-00000.tar", -1, 0x01);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "val-00000.tar|||does not end with two blocks of zeros\n");

    /* A header that is right in itself but another one: the whole file's hash tells. */
    fresh(false);
    uint8_t *tar;
    size_t n;
    MUST(io_read_file(out_fd, "val-00000.tar", SIZE_MAX / 4, &tar, &n, &err));
    tar[146]++; /* mtime's last digit */
    tar[153]++; /* and the checksum's */
    put("val-00000.tar", tar, n);
    free(tar);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "val-00000.tar|||is not the file that was packed: its checksum differs "
                     "outside of the data\n");
}

static void test_wrong_sizes(void)
{
    fresh(false);
    resize_file("train-00002.tar", 512);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK(strstr(found, "train-00002.tar|||has ") == found &&
          strstr(found, ": something was appended\n") != NULL);
    CHECK_INT(report.damaged, 1);

    /* Cut in the middle of the last mask: it and the label behind it are lost, no more. */
    fresh(false);
    uint64_t at = data_at(8, 1);
    struct stat st;
    fstatat(out_fd, "train-00002.tar", &st, 0);
    resize_file("train-00002.tar", (long long)at + 100 - st.st_size);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK(strstr(found, "it was truncated\n") != NULL);
    CHECK(
        strstr(found, "train-00002.tar|cat/000008|seg.png|lost: the file ends before it does\n") !=
        NULL);
    CHECK(strstr(found, "train-00002.tar|cat/000008|cls|lost: the file ends before it does\n") !=
          NULL);
    CHECK_INT(report.damaged, 3);

    fresh(false);
    put("train-00002.tar", "", 0);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_INT(report.damaged, 1 + 9);
}

static void test_missing_and_unpacked(void)
{
    fresh(false);
    MUST(io_unlink(out_fd, "train-00000.tar", &err));
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "train-00000.tar|||is missing, and with it 3 samples\n");

    MUST(io_mkdirs(out_fd, "train-00000", &err));
    MUST(io_mkdirs(out_fd, "val-00000", &err));
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "train-00000.tar|||is missing, and with it 3 samples; a folder of its name is "
                     "there: the shard was "
                     "unpacked, put the tar file itself back\n"
                     "train-00000/|||note: train-00000.tar was unpacked here: nothing reads this "
                     "folder, it can go\n"
                     "val-00000/|||note: val-00000.tar was unpacked here: nothing reads this "
                     "folder, it can go\n");

    fresh(false);
    MUST(io_unlink(out_fd, "val-00000.tar", &err));
    MUST(io_mkdirs(out_fd, "val-00000.tar", &err));
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "val-00000.tar|||val-00000.tar is not a regular file\n");
    MUST(io_remove_tree(out_fd, "val-00000.tar", &err));
    CHECK_INT(mkfifoat(out_fd, "val-00000.tar", 0600), 0);
    CHECK_INT(verify(), SLIMSET_DAMAGED); /* and does not wait for a writer */
}

static void test_damage_in_trees(void)
{
    fresh(true);
    flip("dog/000001.seg.png", 3, 1);
    MUST(io_unlink(out_fd, "cat/000002.jpg", &err));
    resize_file("cat/000004.cls", 1);
    put("cat/foreign.jpg", "x", 1);
    MUST(io_mkdirs(out_fd, "bird", &err));
    put("bird/b.txt", "x", 1);
    put("README.md", "x", 1);
    CHECK_INT(verify(), SLIMSET_DAMAGED);
    CHECK_STR(found, "dog/000001.seg.png|dog/000001|seg.png|its bytes do not match their checksum\n"
                     "cat/000002.jpg|cat/000002|jpg|is missing\n"
                     "cat/000004.cls|cat/000004|cls|has 2 bytes instead of 1\n"
                     "README.md|||note: not part of the dataset\n"
                     "bird/b.txt|||note: not part of the dataset\n"
                     "cat/foreign.jpg|||note: not part of the dataset\n");
    CHECK_INT(report.damaged, 3);
}

static void test_foreign_files_are_notes(void)
{
    fresh(false);
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%02d", 29 - i);
        put(name, "x", 1);
    }
    CHECK_INT(verify(), SLIMSET_OK);
    CHECK(strncmp(found, "x00|||note: not part of the dataset\nx01|||", 42) == 0);
    CHECK(strstr(found, "x19|||note") != NULL && strstr(found, "x20") == NULL);
    CHECK(strstr(found, "|||note: and 10 more that are not part of the dataset\n") != NULL);
}

static void test_unfinished(void)
{
    fresh(false);
    MUST(io_mkdirs(out_fd, ".slimset", &err));
    put(".slimset/plan", "x", 1);
    CHECK_INT(verify(), SLIMSET_OK);
    CHECK_STR(found,
              "|||note: an update of this dataset has not finished: run the same pack again\n");
    MUST(io_unlink(out_fd, SLIMSET_INDEX_NAME, &err));
    CHECK_INT(verify(), SLIMSET_NOT_FOUND);
    CHECK(strstr(fault.text, "has not finished: run the same pack again") != NULL);
    MUST(io_remove_tree(out_fd, ".slimset", &err));
    CHECK_INT(verify(), SLIMSET_NOT_FOUND);
    CHECK(strstr(fault.text, "is no packed dataset: it has no slimset.index") != NULL);
    snprintf(out, sizeof out, "%s/none", root);
    CHECK_INT(verify(), SLIMSET_NOT_FOUND);
    struct slimset_reader *r;
    CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_NOT_FOUND);
}

static void test_damaged_index(void)
{
    fresh(false);
    struct stat st;
    fstatat(out_fd, SLIMSET_INDEX_NAME, &st, 0);
    for (long long at = 0; at < st.st_size; at += 7) {
        flip(SLIMSET_INDEX_NAME, at, 0x40);
        CHECK_INT(verify(), SLIMSET_DAMAGED);
        CHECK(strstr(found, SLIMSET_INDEX_NAME "|||") != NULL);
        flip(SLIMSET_INDEX_NAME, at, 0x40);
    }
    CHECK_INT(verify(), SLIMSET_OK);
}

/* Changes one section's bytes and makes the checksums right again. */
static void craft(const char *id, size_t at, const void *v, size_t n)
{
    uint8_t *p;
    size_t bytes;
    MUST(io_read_file(out_fd, SLIMSET_INDEX_NAME, SIZE_MAX / 4, &p, &bytes, &err));
    struct slimset_header *h = (struct slimset_header *)(void *)p;
    struct slimset_section *s = (struct slimset_section *)(void *)(p + SLIMSET_HEADER_BYTES);
    while (memcmp(s->id, id, 4) != 0)
        s++;
    memcpy(p + s->offset + at, v, n);
    /* All of it is one block. */
    uint64_t sum = hash_bytes(p + SLIMSET_HEADER_BYTES, h->sums_offset - SLIMSET_HEADER_BYTES);
    memcpy(p + h->sums_offset, &sum, 8);
    h->sums_hash = hash_bytes(&sum, 8);
    h->header_hash = hash_bytes(h, 120);
    put(SLIMSET_INDEX_NAME, p, bytes);
    free(p);
}
#define CRAFT(id, record, i, member, value)                                                        \
    do {                                                                                           \
        record r_;                                                                                 \
        memset(&r_, 0, sizeof r_);                                                                 \
        r_.member = (value);                                                                       \
        craft(id, (i) * sizeof r_ + offsetof(record, member), &r_.member, sizeof r_.member);       \
    } while (0)

/* An index with right checksums that contradicts itself. */
static void test_crafted_index(void)
{
    static const char *const want[] = {
        "split 1 does not begin where the one before it ends",
        "split 0 has the unknown order 9",
        "shard 2 is not in the split that lists it",
        "shard 3 does not begin where the one before it ends",
        "part 2 is not in the shard that lists it",
        "part 1 does not begin where the one before it ends",
        "the fields of sample 4 do not begin where those before them end",
        "sample 4 is not in the part or split that lists it",
        "a field of sample 0 has numbers out of range",
        "the keys are not in order",
        "reject 0 has numbers out of range",
        "a string lies outside of its section",
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        fresh(false);
        switch (i) {
        case 0: CRAFT("SPLT", struct slimset_split, 1, first_sample, 8); break;
        case 1: CRAFT("SPLT", struct slimset_split, 0, order, 9); break;
        case 2: CRAFT("SHRD", struct slimset_shard, 2, split, 1); break;
        case 3: CRAFT("SHRD", struct slimset_shard, 3, first_part, 2); break;
        case 4: CRAFT("PART", struct slimset_part, 2, shard, 3); break;
        case 5: CRAFT("PART", struct slimset_part, 1, first_sample, 0); break;
        case 6: CRAFT("SAMP", struct slimset_sample, 4, first_field, 0); break;
        case 7: CRAFT("SAMP", struct slimset_sample, 4, part, 0); break;
        case 8: CRAFT("FILD", struct slimset_field, 2, role, 200); break;
        case 9: CRAFT("KEYS", struct slimset_key, 3, hash, 0); break;
        case 10: CRAFT("REJS", struct slimset_reject_record, 0, kind, 4); break;
        default: CRAFT("CLAS", struct slimset_class, 1, name, (uint64_t)1 << 63); break;
        }
        CHECK_INT(verify(), SLIMSET_DAMAGED);
        if (strstr(found, want[i]) == NULL) {
            printf("  case %zu: \"%s\" is not in:\n%s", i, want[i], found);
            check_failures_here++;
        }
    }
}

static uint64_t seed = 20261202;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* Random numbers in the records, checksums right: verify and the reader stay on their feet
 * (sanitizers look on). */
static void test_random_records(void)
{
    static const char *const id[] = {"SPLT", "SHRD", "PART", "SAMP", "FILD",
                                     "KEYS", "REJS", "CLAS", "FLDS"};
    static const size_t bytes[] = {80, 224, 192, 384, 36 * 88, 192, 128, 16, 64};
    for (int round = 0; round < 300; round++) {
        if (round % 4 == 0)
            fresh(round % 8 == 4);
        size_t k = next_random() % 9;
        uint64_t v = next_random() >> next_random() % 64;
        craft(id[k], next_random() % (bytes[k] / 8) * 8, &v, next_random() % 2 ? 8 : 4);
        verify();
        struct slimset_reader *r;
        if (slimset_reader_open(out, &r, &fault) != SLIMSET_OK)
            continue;
        for (uint64_t i = 0; i < 12; i++) {
            struct slimset_sample_view s;
            struct slimset_field_view f;
            struct slimset_part_view p;
            void *data;
            size_t n;
            slimset_reader_sample(r, i, &s, &fault);
            slimset_reader_part(r, i, &p, &fault);
            for (uint32_t field = 0; field < 3; field++) {
                slimset_reader_field(r, i, field, &f, &fault);
                if (slimset_reader_load(r, i, field, &data, &n, &fault) == SLIMSET_OK)
                    free(data);
            }
        }
        slimset_reader_close(r);
    }
}

static void test_reader_loads(void)
{
    for (int tree = 0; tree < 2; tree++) {
        struct slimset_reader *r;
        struct slimset_info info;
        struct slimset_sample_view s;
        struct slimset_field_view f;
        uint8_t want[1200];
        void *data;
        size_t n;
        uint64_t i;
        uint32_t k;
        fresh(tree != 0);
        CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_OK);
        slimset_reader_info(r, &info);
        CHECK_INT(info.samples, 12);
        CHECK_INT(info.tree, tree);
        for (i = 0; i < 12; i++) {
            for (k = 0; k < MAKE_FIELDS; k++) {
                CHECK_INT(slimset_reader_load(r, i, k, &data, &n, &fault), SLIMSET_OK);
                CHECK(n == make_data(want, i, (int)k) && memcmp(data, want, n) == 0);
                free(data);
            }
        }
        CHECK_INT(slimset_reader_load(r, 0, 3, &data, &n, &fault), SLIMSET_NOT_FOUND);
        CHECK_INT(slimset_reader_load(r, 12, 0, &data, &n, &fault), SLIMSET_NOT_FOUND);
        CHECK_INT(slimset_reader_find(r, "dog/000003", 10, &i, &fault), SLIMSET_OK);
        CHECK_INT(i, 3);
        CHECK_INT(slimset_reader_sample(r, 3, &s, &fault), SLIMSET_OK);
        CHECK(s.class_name.n == 3 && memcmp(s.class_name.bytes, "dog", 3) == 0);
        CHECK(s.split.n == 5 && s.part == 1 && s.cls == 1 && s.n_fields == 3);
        CHECK_INT(slimset_reader_field(r, 3, 0, &f, &fault), SLIMSET_OK);
        CHECK_STR(f.format, "jpeg");
        CHECK_STR(f.role, "image");
        CHECK_INT(f.orientation, 6);
        CHECK(f.w == 35 && f.in_w == 70);
        CHECK_INT(slimset_reader_find_path(r, "photos.zip/dog/000003.seg.png", 29, &i, &k, &fault),
                  SLIMSET_OK);
        CHECK(i == 3 && k == 1);
        CHECK_INT(slimset_reader_find_path(r, "", 0, &i, &k, &fault), SLIMSET_NOT_FOUND);
        slimset_reader_close(r);
    }
}

static void test_reader_refuses_damage(void)
{
    struct slimset_reader *r;
    void *data = NULL;
    size_t n;
    fresh(false);
    flip("train-00000.tar", (long long)data_at(1, 0), 1);
    CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_OK);
    CHECK_INT(slimset_reader_load(r, 1, 0, &data, &n, &fault), SLIMSET_DAMAGED);
    CHECK_STR(fault.text,
              "train-00000.tar: field jpg of sample dog/000001 does not match its checksum");
    CHECK_INT(slimset_reader_load(r, 1, 1, &data, &n, &fault), SLIMSET_OK);
    free(data);
    resize_file("train-00002.tar", -1600);
    CHECK_INT(slimset_reader_load(r, 8, 2, &data, &n, &fault), SLIMSET_DAMAGED);
    CHECK_STR(fault.text,
              "train-00002.tar is too short for field cls of sample cat/000008: it was truncated");
    MUST(io_unlink(out_fd, "train-00002.tar", &err));
    slimset_reader_close(r); /* it holds the file open */
    CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_OK);
    CHECK_INT(slimset_reader_load(r, 8, 2, &data, &n, &fault), SLIMSET_DAMAGED);
    CHECK_STR(fault.text, "train-00002.tar is missing; it holds field cls of sample cat/000008");
    slimset_reader_close(r);
}

/* A field of a petabyte must not be allocated, and names must not lead out of OUT. */
static void test_reader_refuses_crafted(void)
{
    struct slimset_reader *r;
    void *data;
    size_t n;
    fresh(false);
    CRAFT("FILD", struct slimset_field, 0, bytes, (uint64_t)1 << 50);
    CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_OK);
    CHECK_INT(slimset_reader_load(r, 0, 0, &data, &n, &fault), SLIMSET_DAMAGED);
    slimset_reader_close(r);

    static const char *const bad[] = {
        "../secret", "/etc/hosts", "a/../../secret", "a//b", "./a", "", "a/", "a/.."};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char path[DATASET_PATH_MAX];
        CHECK(!dataset_path(bad[i], strlen(bad[i]), "", 0, path));
    }
    char path[DATASET_PATH_MAX];
    CHECK(!dataset_path("a\0b", 3, "jpg", 3, path));
    CHECK(dataset_path("a/b", 3, "seg.png", 7, path));
    CHECK_STR(path, "a/b.seg.png");
    CHECK(dataset_path("..", 2, "jpg", 3, path)); /* "...jpg" is an odd name but stays inside */
    CHECK(dataset_path("a/...", 5, "", 0, path));
    CHECK(!dataset_part_name("a/b.tar", 7, path));
    CHECK(dataset_part_name("b.tar", 5, path));
}

static void test_tar_headers(void)
{
    char why[TAR_CHECK_WHY], name[240];
    uint8_t h[TAR_CHECK_BLOCK];
    uint64_t offset;
    struct tar_writer t = {.fd = -1};
    fresh(false);
    CHECK_INT(tar_check_padding(0), 0);
    CHECK_INT(tar_check_padding(1), 511);
    CHECK_INT(tar_check_padding(512), 0);
    CHECK_INT(tar_check_padding(UINT64_MAX), 1);
    memset(name, 'n', sizeof name);
    name[120] = '/';
    MUST(tar_create(&t, out_fd, "t", &err)); /* a name for the prefix field */
    MUST(tar_append(&t, name, 200, "x", 1, &offset, &err));
    memcpy(h, t.buffer.data, sizeof h);
    CHECK(tar_check_header(h, name, 200, 1, why));
    CHECK(!tar_check_header(h, name, 199, 1, why));
    CHECK_STR(why, "its tar header bears another name");
    CHECK(!tar_check_header(h, name, 200, 2, why));
    CHECK_STR(why, "its tar header says 1 bytes, the index 2");
    for (size_t at = 0; at < sizeof h; at++) { /* each byte counts */
        h[at] ^= 0x41;
        CHECK(!tar_check_header(h, name, 200, 1, why));
        h[at] ^= 0x41;
    }
    memset(h, 0, sizeof h);
    CHECK(!tar_check_header(h, name, 200, 1, why));
    CHECK_STR(why, "zeros where its tar header should be");
    tar_abort(&t);
    buf_fini(&t.buffer);
}

int main(int argc, char **argv)
{
    const char *base = argc > 1 ? argv[1] : getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    snprintf(root, sizeof root, "%s/test_verify.XXXXXX", base);
    if (mkdtemp(root) == NULL || (root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(root);
        return 1;
    }
    RUN(test_healthy);
    RUN(test_decode);
    RUN(test_damage_in_shards);
    RUN(test_wrong_sizes);
    RUN(test_missing_and_unpacked);
    RUN(test_damage_in_trees);
    RUN(test_foreign_files_are_notes);
    RUN(test_unfinished);
    RUN(test_damaged_index);
    RUN(test_crafted_index);
    RUN(test_random_records);
    RUN(test_reader_loads);
    RUN(test_reader_refuses_damage);
    RUN(test_reader_refuses_crafted);
    RUN(test_tar_headers);
    close(out_fd);
    close(root_fd);
    CHECK_INT(io_remove_tree(AT_FDCWD, root, &fault), SLIMSET_OK);
    return check_done();
}
