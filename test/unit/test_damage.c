/* SPDX-License-Identifier: Apache-2.0
 *
 * The project's own files against damage: every byte of an index, a plan, a fragment and a shard is changed, and every truncation tried.
 * Whatever a reader then hands out is what was packed, or an error; verify sees each change and names the shard. In 1 GB of memory.
 * An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
// time-limit: 280 s
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"
#include "make_dataset.h"
#include "slimset/pack.h"
#include "slimset/reader.h"

static struct slimset_error why;
static int dir = -1;
static char out[320], named[300];

struct seen {
    uint64_t samples, whole; /* fields that came out */
    bool wrong;              /* something that was not packed */
};

static void put(const char *name, const uint8_t *data, size_t n)
{
    /* not O_TRUNC: ext4 would write each of the thousands of versions to the disk */
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || pwrite(fd, data, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n) != 0 || close(fd) != 0)
        exit(1);
}

/* Golden: hashes of every sample's texts and data, in order. */
static uint64_t golden[200];

static uint64_t sample_hash(struct slimset_reader *r, uint64_t i, bool *good)
{
    struct slimset_sample_view s;
    struct slimset_field_view f;
    struct hash_stream h;
    *good = false;
    if (slimset_reader_sample(r, i, &s, &why) != SLIMSET_OK)
        return 0;
    hash_init(&h);
    hash_update(&h, s.key.bytes, s.key.n);
    hash_update(&h, s.split.bytes, s.split.n);
    hash_update(&h, s.class_name.bytes, s.class_name.n);
    hash_update(&h, &s.cls, sizeof s.cls);
    for (uint32_t k = 0; k < s.n_fields; k++) {
        void *data;
        size_t n;
        if (slimset_reader_field(r, i, k, &f, &why) != SLIMSET_OK || slimset_reader_load(r, i, k, &data, &n, &why) != SLIMSET_OK)
            return 0;
        hash_update(&h, f.name.bytes, f.name.n);
        hash_update(&h, f.path.bytes, f.path.n);
        const uint64_t numbers[] = {f.w, f.h, f.in_bytes, f.in_hash, f.notes, f.quality, f.orientation, n};
        hash_update(&h, numbers, sizeof numbers);
        hash_update(&h, data, n);
        free(data);
    }
    *good = true;
    return hash_value(&h);
}

static struct seen read_all(bool learn)
{
    struct seen seen = {0};
    struct slimset_reader *r;
    struct slimset_info info;
    enum slimset_status st = slimset_reader_open(out, &r, &why);
    if (st != SLIMSET_OK) {
        seen.wrong = st != SLIMSET_DAMAGED && st != SLIMSET_DIFFERS && st != SLIMSET_NOT_FOUND;
        return seen;
    }
    slimset_reader_info(r, &info);
    for (uint64_t i = 0; i < info.samples && i < 200; i++) {
        bool good;
        uint64_t h = sample_hash(r, i, &good);
        if (learn)
            golden[i] = h;
        seen.whole += good;
        seen.wrong |= good && h != golden[i];
        seen.wrong |= !good && why.status != SLIMSET_DAMAGED && why.status != SLIMSET_NOT_FOUND;
    }
    seen.samples = info.samples;
    slimset_reader_close(r);
    return seen;
}

static void finding(void *arg, const char *part, const char *key, const char *field, const char *text)
{
    (void)arg, (void)key, (void)field;
    if (strncmp(text, "note: ", 6) != 0 && named[0] == '\0')
        snprintf(named, sizeof named, "%s", part != NULL ? part : "nothing");
}

/* With name as it is now: nothing wrong is read, and verify says where it is. */
static void check_damaged(const char *name, const char *what, size_t at)
{
    struct slimset_verify_report report;
    struct seen seen = read_all(false);
    named[0] = '\0';
    enum slimset_status st = slimset_verify(out, false, 1, finding, NULL, &report, &why);
    bool index = strcmp(name, SLIMSET_INDEX_NAME) == 0;
    bool told = (st == SLIMSET_DAMAGED && strcmp(named, name) == 0) || (index && (st == SLIMSET_DAMAGED || st == SLIMSET_DIFFERS));
    if (seen.wrong || !told)
        printf("  %s, %s %zu: %s; verify: %d, names %s (%s)\n", name, what, at, seen.wrong ? "WRONG DATA" : "no wrong data", st, named,
               why.text);
    CHECK(!seen.wrong);
    CHECK(told);
}

static void sweep(const char *name, unsigned step)
{
    uint8_t *data;
    size_t n;
    MUST(io_read_file(dir, name, 1 << 22, &data, &n, &err));
    for (size_t i = 0; i < n; i++) {
        const uint8_t was = data[i], bit = (uint8_t)(1u << i % 8);
        data[i] = was ^ bit;
        put(name, data, n);
        check_damaged(name, "byte", i);
        data[i] = was;
    }
    for (size_t cut = 0; cut < n; cut += step) {
        put(name, data, cut);
        check_damaged(name, "cut at", cut);
    }
    put(name, data, n);
    free(data);
}

static void test_example(void)
{
    make_example(dir);
    struct seen all = read_all(true);
    CHECK(all.samples == 1 && all.whole == 1);
    sweep(SLIMSET_INDEX_NAME, 1);
    sweep("data-00000.tar", 1);
    all = read_all(false);
    CHECK(all.whole == 1 && !all.wrong);
    MUST(io_unlink(dir, "data-00000.tar", &err));
}

static void test_dataset(void)
{
    make_dataset(dir, false, 5);
    struct seen all = read_all(true);
    CHECK(all.samples > 10 && all.whole == all.samples);
    sweep(SLIMSET_INDEX_NAME, 7);
    all = read_all(false);
    CHECK(all.whole == all.samples && !all.wrong);
}

/* Plan and fragment are read whole when they are opened: any damage, and they are as if they were not there. */
static void test_plan_and_fragment(void)
{
    static const enum slimset_kind kinds[] = {SLIMSET_KIND_PLAN, SLIMSET_KIND_FRAGMENT};
    for (int k = 0; k < 2; k++) {
        const struct index_counts counts = {.meta_bytes = 17, .splits = 1, .fields_rules = 1, .shards = 1};
        struct index_writer *w;
        struct index ix;
        uint8_t *data;
        size_t n;
        MUST(index_create(dir, "file", kinds[k], &counts, &w, &err));
        MUST(index_put_meta(w, "tool=slimset 1.0\n", 17, &err));
        const struct slimset_split split = {.name = make_string(w, "train"), .order = 1, .n_shards = 1};
        MUST(index_put_split(w, &split, &err));
        const struct slimset_field_rule rule = {.name = make_string(w, "jpg"), .role = SLIMSET_ROLE_IMAGE};
        MUST(index_put_rule(w, &rule, &err));
        const struct slimset_shard shard = {.first_path = make_string(w, "a/b")};
        MUST(index_put_shard(w, &shard, &err));
        MUST(index_commit(w, false, &err));
        MUST(io_read_file(dir, "file", 1 << 20, &data, &n, &err));
        for (size_t i = 0; i < 2 * n; i++) {
            size_t at = i % n;
            if (i < n)
                data[at] ^= (uint8_t)(1u << at % 8);
            put("file", data, i < n ? n : at);
            enum slimset_status st = index_open(dir, "file", kinds[k], true, &ix, &why);
            if (st != SLIMSET_DAMAGED && st != SLIMSET_DIFFERS)
                printf("  kind %d, %s %zu: %d\n", kinds[k], i < n ? "byte" : "cut at", at, st);
            CHECK(st == SLIMSET_DAMAGED || st == SLIMSET_DIFFERS);
            if (st == SLIMSET_OK)
                index_close(&ix);
            if (i < n)
                data[at] ^= (uint8_t)(1u << at % 8);
        }
        put("file", data, n);
        CHECK_INT(index_open(dir, "file", kinds[k], true, &ix, &why), SLIMSET_OK);
        index_close(&ix);
        free(data);
        MUST(io_unlink(dir, "file", &err));
    }
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    snprintf(out, sizeof out, "%s/test_damage.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(out) == NULL || (dir = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(out);
        return 1;
    }
#if !defined(__SANITIZE_ADDRESS__)
    setrlimit(RLIMIT_AS, &(struct rlimit){1 << 30, 1 << 30});
#endif
    RUN(test_example);
    RUN(test_dataset);
    RUN(test_plan_and_fragment);
    io_remove_tree(AT_FDCWD, out, &why);
    return check_done();
}
