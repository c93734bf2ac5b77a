/* SPDX-License-Identifier: Apache-2.0
 *
 * known.h: what a rerun knows of its inputs, from the stat file and without it.
 * An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "known.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "check.h"
#include "make_dataset.h"

enum { N = 300 };

static int dir = -1;
static struct slimset_error why;
static struct listing listing;
static struct index ix;
static struct slimset_run run;

static const char *path_of(unsigned i)
{
    static char text[64];
    snprintf(text, sizeof text, "cat/%04u.jpg", i);
    return text;
}

/* N files; the index knows the even ones (the others were rejects), and one label that no file
 * made. */
static void set_up(void)
{
    struct index_counts counts = {
        .samples = N / 2, .fields = N / 2 + 1, .splits = 1, .shards = 1, .parts = 1};
    struct index_writer *w;
    listing_init(&listing);
    MUST(index_create(dir, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, &counts, &w, &err));
    MUST(index_put_split(w, &(struct slimset_split){.order = 1, .n_shards = 1, .n_samples = N / 2},
                         &err));
    MUST(index_put_shard(w, &(struct slimset_shard){.n_parts = 1, .n_samples = N / 2}, &err));
    MUST(index_put_part(w, &(struct slimset_part){.n_samples = N / 2}, &err));
    for (unsigned i = 0; i < N; i++) {
        const char *path = path_of(i);
        struct entry e = {.path_bytes = (uint32_t)strlen(path),
                          .bytes = 1000 + i,
                          .mtime_ns = 5000 + i,
                          .inode = 70 + i};
        e.path = listing_string(&listing, "", path, e.path_bytes);
        MUST(listing_add(&listing, &e, &err));
        if (i % 2 != 0)
            continue;
        struct slimset_sample s = {
            .first_field = i / 2, .n_fields = (uint16_t)(1 + (i == N - 2)), .cls = -1};
        struct slimset_field f = {
            .path = make_string(w, path), .in_bytes = 1000 + i, .in_hash = 9000 + i};
        MUST(index_put_sample(w, &s, i, &err));
        MUST(index_put_field(w, &f, &err));
    }
    MUST(index_put_field(w, &(struct slimset_field){.role = SLIMSET_ROLE_LABEL}, &err));
    MUST(index_commit(w, false, &err));
    MUST(index_open(dir, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, true, &ix, &err));
}

/* Everything known is right; times: as the stat file has them. */
static void check_known(bool with_times)
{
    struct known k;
    CHECK_INT(known_load(&k, dir, &ix, &why), SLIMSET_OK);
    CHECK_INT(k.n, with_times ? N : N / 2);
    for (unsigned i = 0; i < N; i++) {
        const struct entry *e = &listing.entries[i];
        const struct known_input *in = known_find(&k, e);
        CHECK_INT(in != NULL, with_times || i % 2 == 0);
        if (in == NULL)
            continue;
        CHECK(in->path_hash == hash_bytes(e->path, e->path_bytes));
        CHECK_INT(in->bytes, 1000 + i);
        CHECK_INT(in->content_hash, i % 2 == 0 ? 9000 + i : 0);
        CHECK_INT(known_same_stat(in, e), with_times);
    }
    struct entry other = {.path = "cat/9999.jpg", .path_bytes = 12};
    CHECK(known_find(&k, &other) == NULL);
    for (size_t i = 1; i < k.n; i++)
        CHECK(k.input[i - 1].path_hash < k.input[i].path_hash);
    known_fini(&k);
    CHECK(k.input == NULL && k.n == 0);
    known_fini(&k);
}

static void test_from_the_index(void) { check_known(false); /* no stat file: that is no fault */ }

static void test_from_the_stat_file(void)
{
    CHECK_INT(known_save(&listing, &ix, &run, dir, &why), SLIMSET_OK);
    check_known(true);
    CHECK_INT(known_save(&listing, &ix, &run, dir, &why), SLIMSET_OK); /* again, over itself */
    check_known(true);
    CHECK(faccessat(dir, "stat.new", F_OK, 0) != 0);
}

static void test_same_stat(void)
{
    struct known_input in = {.bytes = 5, .mtime_ns = 7, .inode = 9};
    struct entry e = {.bytes = 5, .mtime_ns = 7, .inode = 9};
    CHECK(known_same_stat(&in, &e));
    e.bytes = 6;
    CHECK(!known_same_stat(&in, &e));
    e.bytes = 5;
    e.mtime_ns = 8;
    CHECK(!known_same_stat(&in, &e));
    e.mtime_ns = 7;
    e.inode = 8;
    CHECK(!known_same_stat(&in, &e));
    in = (struct known_input){.bytes = 5};
    e = (struct entry){.bytes = 5};
    CHECK(!known_same_stat(&in, &e)); /* unknown times are never the same */
}

/* Any damage: as if there were none. */
static void test_damaged_stat_file(void)
{
    uint8_t *data;
    size_t n;
    CHECK_INT(known_save(&listing, &ix, &run, dir, &why), SLIMSET_OK);
    CHECK_INT(io_read_file(dir, "stat", 1 << 20, &data, &n, &why), SLIMSET_OK);
    CHECK_INT(n, 40 + N * 40); /* 40 bytes an input */
    for (size_t at = 0; at < n; at += at < 40 ? 1 : 509) {
        int fd;
        CHECK_INT(io_create(dir, "stat", &fd, &why), SLIMSET_OK);
        data[at] ^= 4;
        CHECK_INT(io_write(fd, data, n, "stat", &why), SLIMSET_OK);
        data[at] ^= 4;
        CHECK_INT(io_close(fd, "stat", &why), SLIMSET_OK);
        check_known(false);
    }
    for (size_t cut = 0; cut < n; cut += cut < 40 ? 1 : 333) {
        int fd;
        CHECK_INT(io_create(dir, "stat", &fd, &why), SLIMSET_OK);
        CHECK_INT(io_write(fd, data, cut, "stat", &why), SLIMSET_OK);
        CHECK_INT(io_close(fd, "stat", &why), SLIMSET_OK);
        check_known(false);
    }
    free(data);
    CHECK_INT(io_unlink(dir, "stat", &why), SLIMSET_OK); /* a folder of that name neither */
    CHECK_INT(mkdirat(dir, "stat", 0755), 0);
    check_known(false);
    CHECK_INT(unlinkat(dir, "stat", AT_REMOVEDIR), 0);
}

static void test_empty(void)
{
    struct listing none;
    struct known k;
    listing_init(&none);
    CHECK_INT(known_save(&none, &ix, &run, dir, &why), SLIMSET_OK);
    CHECK_INT(known_load(&k, dir, &ix, &why), SLIMSET_OK);
    CHECK_INT(k.n, 0);
    CHECK(known_find(&k, &listing.entries[0]) == NULL);
    known_fini(&k);
    CHECK_INT(io_unlink(dir, "stat", &why), SLIMSET_OK);
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    char path[300];
    snprintf(path, sizeof path, "%s/test_known.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(path) == NULL || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(path);
        return 1;
    }
    set_up();
    RUN(test_from_the_index);
    RUN(test_from_the_stat_file);
    RUN(test_same_stat);
    RUN(test_damaged_stat_file);
    RUN(test_empty);
    index_close(&ix);
    listing_fini(&listing);
    io_remove_tree(AT_FDCWD, path, &why);
    return check_done();
}
