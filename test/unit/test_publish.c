/* SPDX-License-Identifier: Apache-2.0
 *
 * publish.h: who may use an OUT, and a publication that is interrupted before, between and after
 * its steps: rolled forward it always ends in the same dataset. An argument names the folder for
 * scratch files, else $TMPDIR or /tmp.
 */
#include "publish.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "check.h"
#include "make_dataset.h"

static char base[300], out[400];
static struct slimset_error why;

/* A new, empty place for OUT. */
static void fresh(void)
{
    static int n;
    snprintf(out, sizeof out, "%s/out%d", base, n++);
}

static void put(int dir, const char *name, const char *text)
{
    int fd;
    char folder[300];
    snprintf(folder, sizeof folder, "%s", name);
    if (strrchr(folder, '/') != NULL) {
        *strrchr(folder, '/') = '\0';
        MUST(io_mkdirs(dir, folder, &err));
    }
    MUST(io_create(dir, name, &fd, &err));
    MUST(io_write(fd, text, strlen(text), name, &err));
    MUST(io_close(fd, name, &err));
}

/* What stands in the file; "none" where there is no file. */
static const char *get(int dir, const char *name)
{
    static char text[64];
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return "none";
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return text;
}

/* An index that names these parts (shards, 2 bytes each) or fields "key field" (tree, 4 bytes each), one a line. */
static void put_index(int dir, const char *name, bool tree, const char *names, const char *tag)
{
    struct index_counts counts = {.splits = 1, .shards = 1};
    struct index_writer *w;
    char meta[100];
    size_t n_names = 0;
    for (const char *p = names; *p != '\0'; p++)
        n_names += *p == '\n';
    snprintf(meta, sizeof meta, "layout=%s\ntag=%s\n", tree ? "tree" : "shards", tag);
    counts.meta_bytes = strlen(meta);
    counts.parts = tree ? 1 : n_names;
    counts.samples = counts.fields = tree ? n_names : 0;
    MUST(index_create(dir, name, SLIMSET_KIND_INDEX, &counts, &w, &err));
    MUST(index_put_meta(w, meta, strlen(meta), &err));
    MUST(index_put_split(
        w, &(struct slimset_split){.order = 1, .n_shards = 1, .n_samples = counts.samples}, &err));
    MUST(index_put_shard(w,
                         &(struct slimset_shard){.n_parts = (uint32_t)counts.parts,
                                                 .n_samples = (uint32_t)counts.samples},
                         &err));
    if (tree)
        MUST(index_put_part(w, &(struct slimset_part){.n_samples = (uint32_t)n_names}, &err));
    for (uint64_t i = 0; *names != '\0'; i++) {
        size_t n = strcspn(names, "\n"), blank = strcspn(names, " \n");
        slimset_str key, field;
        MUST(index_string(w, names, blank, &key, &err));
        MUST(index_string(w, names + blank + 1, blank < n ? n - blank - 1 : 0, &field, &err));
        if (tree) {
            MUST(index_put_sample(
                w, &(struct slimset_sample){.key = key, .first_field = i, .n_fields = 1, .cls = -1},
                hash_bytes(names, blank), &err));
            MUST(index_put_field(w, &(struct slimset_field){.name = field, .bytes = tree ? 4 : 2}, &err));
        } else {
            MUST(index_put_part(w, &(struct slimset_part){.name = key, .part = (uint32_t)i, .bytes = tree ? 4 : 2}, &err));
        }
        names += n + 1;
    }
    MUST(index_commit(w, true, &err));
}

/* The tag of the index in OUT, "none" without one. */
static const char *published(int dir)
{
    static char text[32];
    struct index ix;
    const char *value;
    size_t n;
    if (index_open(dir, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, true, &ix, &why) != SLIMSET_OK)
        return "none";
    bool tagged = index_meta(&ix, "tag", &value, &n);
    snprintf(text, sizeof text, "%.*s", tagged ? (int)n : 0, tagged ? value : "");
    index_close(&ix);
    return text;
}

static bool exists(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

static void test_open_new(void)
{
    struct out_dirs d;
    fresh();
    strcat(out, "/deep/er"); /* folders above are made too */
    CHECK_INT(publish_open(out, &d, &why), SLIMSET_OK);
    CHECK(d.out >= 0 && d.work >= 0 && d.stage >= 0 && !d.work_existed);
    CHECK(exists(d.out, ".slimset/stage"));
    publish_close(&d);
    CHECK(d.out == -1 && d.work == -1 && d.stage == -1);
    publish_close(&d);
    CHECK_INT(publish_open(out, &d, &why), SLIMSET_OK); /* ours by now */
    CHECK(d.work_existed);
    publish_close(&d);
}

static void test_open_foreign(void)
{
    struct out_dirs d;
    fresh();
    MUST(io_mkdirs(AT_FDCWD, out, &err));
    int dir = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(dir, "thesis.txt", "years");
    CHECK_INT(publish_open(out, &d, &why), SLIMSET_USAGE);
    CHECK(strstr(why.text, out) != NULL && d.out == -1);
    CHECK(!exists(dir, ".slimset"));
    CHECK_STR(get(dir, "thesis.txt"), "years");
    put_index(dir, SLIMSET_INDEX_NAME, false, "a.tar\n", "old"); /* a finished dataset is ours */
    CHECK_INT(publish_open(out, &d, &why), SLIMSET_OK);
    publish_close(&d);
    close(dir);
    fresh();
    put(AT_FDCWD, out, "a file");
    CHECK_INT(publish_open(out, &d, &why), SLIMSET_USAGE);
    CHECK_STR(get(AT_FDCWD, out), "a file");
}

static void test_lock(void)
{
    struct out_dirs a, b;
    fresh();
    CHECK_INT(publish_open(out, &a, &why), SLIMSET_OK);
    CHECK_INT(publish_open(out, &b, &why), SLIMSET_USAGE);
    CHECK(strstr(why.text, "in use") != NULL && b.out == -1);
    pid_t child = fork(); /* the lock goes with its last holder, however that ends */
    if (child == 0)
        _exit(publish_open(out, &b, &why) == SLIMSET_USAGE ? 0 : 1);
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_INT(status, 0);
    publish_close(&a);
    CHECK_INT(publish_open(out, &b, &why), SLIMSET_OK);
    publish_close(&b);
}

/* A work folder that leads elsewhere is not used. */
static void test_work_is_a_link(void)
{
    struct out_dirs d;
    char elsewhere[500];
    fresh();
    snprintf(elsewhere, sizeof elsewhere, "%s-elsewhere", out);
    MUST(io_mkdirs(AT_FDCWD, out, &err));
    MUST(io_mkdirs(AT_FDCWD, elsewhere, &err));
    int dir = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(symlinkat(elsewhere, dir, ".slimset"), 0);
    CHECK(publish_open(out, &d, &why) != SLIMSET_OK);
    publish_close(&d);
    CHECK_INT(rmdir(elsewhere), 0); /* nothing was put there */
    close(dir);
}

/* --- a publication, interrupted --------------------------------------------------------------- */

enum { STEPS = 9 };

/* A published dataset a, b, c and a new one ready to be published: a stays, b changes, c goes, d
 * comes. Then the first `steps` steps of the publication are done by hand, as a killed run would
 * leave them. */
static void interrupted(struct out_dirs *d, int steps)
{
    fresh();
    MUST(publish_open(out, d, &err));
    put(d->out, "a.tar", "a1");
    put(d->out, "b.tar", "b1");
    put(d->out, "c.tar", "c1");
    put_index(d->out, SLIMSET_INDEX_NAME, false, "a.tar\nb.tar\nc.tar\n", "old");
    put(d->work, "stat", "stat");
    put(d->stage, "b.tar", "b2");
    put(d->stage, "d.tar", "d2");
    if (steps >= 1)
        put_index(d->work, "publish", false, "a.tar\nb.tar\nd.tar\n", "new");
    if (steps >= 2)
        MUST(io_rename(d->out, SLIMSET_INDEX_NAME, d->work, "index.old", &err));
    if (steps >= 3)
        MUST(io_rename(d->stage, "b.tar", d->out, "b.tar", &err));
    if (steps >= 4)
        MUST(io_rename(d->stage, "d.tar", d->out, "d.tar", &err));
    if (steps >= 5)
        MUST(io_rename(d->work, "publish", d->out, SLIMSET_INDEX_NAME, &err));
    if (steps >= 6)
        MUST(io_unlink(d->out, "c.tar", &err));
    if (steps >= 7)
        MUST(io_unlink(d->work, "index.old", &err));
    if (steps >= 8)
        MUST(publish_clean(d, &err));
}

static void check_new(struct out_dirs *d)
{
    CHECK_STR(published(d->out), "new");
    CHECK_STR(get(d->out, "a.tar"), "a1");
    CHECK_STR(get(d->out, "b.tar"), "b2");
    CHECK_STR(get(d->out, "c.tar"), "none");
    CHECK_STR(get(d->out, "d.tar"), "d2");
    CHECK(!exists(d->work, "publish") && !exists(d->work, "index.old"));
    CHECK_STR(get(d->work, "stat"), "stat");
}

static void test_roll_forward(void)
{
    for (int steps = 0; steps < STEPS; steps++) {
        struct out_dirs d;
        bool rolled = true;
        interrupted(&d, steps);
        CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
        if (steps ==
            0) { /* nothing was begun: the old dataset is whole, what is staged stays staged */
            CHECK(!rolled);
            CHECK_STR(published(d.out), "old");
            CHECK_STR(get(d.out, "b.tar"), "b1");
            CHECK_STR(get(d.out, "c.tar"), "c1");
            CHECK_STR(get(d.stage, "b.tar"), "b2");
        } else {
            CHECK_INT(rolled, steps < 5);
            check_new(&d);
        }
        publish_close(&d);
        CHECK_INT(publish_open(out, &d, &why), SLIMSET_OK);
        CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK); /* again: nothing left to do */
        CHECK(!rolled);
        if (steps > 0)
            check_new(&d);
        publish_close(&d);
    }
}

/* While files are being renamed there is no index: a reader never sees a mixture. */
static void test_no_index_between(void)
{
    for (int steps = 2; steps <= 4; steps++) {
        struct out_dirs d;
        interrupted(&d, steps);
        CHECK_STR(published(d.out), "none");
        publish_close(&d);
    }
}

/* A real run, killed by a full disk's kind of fault: a rename that cannot succeed. Then the
 * obstacle goes. */
static void test_obstacle(void)
{
    struct out_dirs d;
    bool rolled;
    interrupted(&d, 1);
    MUST(io_mkdirs(d.out, "d.tar", &err)); /* a folder where a file shall go */
    CHECK(publish_roll(&d, &rolled, &why) != SLIMSET_OK);
    CHECK(!rolled && strstr(why.text, "d.tar") != NULL);
    CHECK_STR(published(d.out), "none");
    CHECK_STR(get(d.out, "c.tar"), "c1"); /* nothing was deleted yet */
    CHECK_INT(unlinkat(d.out, "d.tar", AT_REMOVEDIR), 0);
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    CHECK(rolled);
    check_new(&d);
    publish_close(&d);
}

static void test_first_publication(void)
{
    struct out_dirs d;
    bool rolled = true;
    fresh();
    MUST(publish_open(out, &d, &err));
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    CHECK(!rolled);
    put(d.stage, "a.tar", "a1");
    put_index(d.work, "publish", false, "a.tar\n", "new");
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    CHECK(rolled);
    CHECK_STR(published(d.out), "new");
    CHECK_STR(get(d.out, "a.tar"), "a1");
    publish_close(&d);
}

/* An index that was never finished is no publication, and what it would have withdrawn stays. */
static void test_torn_publish_file(void)
{
    uint8_t *data;
    size_t n;
    struct out_dirs d;
    bool rolled = true;
    interrupted(&d, 1);
    MUST(io_read_file(d.work, "publish", 1 << 20, &data, &n, &err));
    for (size_t keep = 0; keep < n; keep += n / 7 + 1) {
        int fd;
        MUST(io_create(d.work, "publish", &fd, &err));
        MUST(io_write(fd, data, keep, "publish", &err));
        MUST(io_close(fd, "publish", &err));
        CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
        CHECK(!rolled && !exists(d.work, "publish"));
        CHECK_STR(published(d.out), "old");
        CHECK_STR(get(d.out, "b.tar"), "b1");
        CHECK_STR(get(d.stage, "b.tar"), "b2");
    }
    free(data);
    publish_close(&d);
}

static void test_damaged_old_index(void)
{
    struct out_dirs d;
    bool rolled;
    interrupted(&d, 2);
    put(d.work, "index.old", "garbage");
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    CHECK_STR(published(d.out), "new");
    CHECK_STR(get(d.out, "c.tar"), "c1"); /* nothing is deleted by guess */
    CHECK_STR(get(d.out, "b.tar"), "b2");
    publish_close(&d);
}

/* Only what an index named is deleted, and nothing outside of OUT. */
static void test_deletes_only_its_own(void)
{
    struct out_dirs d;
    bool rolled;
    char above[500];
    interrupted(&d, 0);
    put(d.out, "notes.txt", "mine");
    snprintf(above, sizeof above, "%s-victim", out);
    put(AT_FDCWD, above, "alive");
    char names[1500];
    snprintf(names, sizeof names, "a.tar\nb.tar\nc.tar\n../%s\nx/../../%s\n%s\n",
             strrchr(above, '/') + 1, strrchr(above, '/') + 1, above);
    put_index(d.out, SLIMSET_INDEX_NAME, false, names, "old"); /* a hostile old index */
    put_index(d.work, "publish", false, "a.tar\nb.tar\nd.tar\n", "new");
    MUST(io_mkdirs(d.out, "x", &err));
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    check_new(&d);
    CHECK_STR(get(d.out, "notes.txt"), "mine");
    CHECK_STR(get(AT_FDCWD, above), "alive");
    publish_close(&d);
}

static void test_tree(void)
{
    for (int steps = 0; steps < 3; steps++) {
        struct out_dirs d;
        bool rolled;
        fresh();
        MUST(publish_open(out, &d, &err));
        put(d.out, "cat/1.jpg", "old1");
        put(d.out, "cat/2.jpg", "old2");
        put(d.out, "README", "old");
        put_index(d.out, SLIMSET_INDEX_NAME, true, "cat/1 jpg\ncat/2 jpg\nREADME\n", "old");
        put(d.stage, "cat/1.jpg", "new1");
        put(d.stage, "dog/deep/er/3.png", "new3");
        put_index(d.work, "publish", true, "cat/1 jpg\ndog/deep/er/3 png\n", "new");
        if (steps >= 1)
            MUST(io_rename(d.out, SLIMSET_INDEX_NAME, d.work, "index.old", &err));
        if (steps >= 2)
            MUST(io_rename(d.stage, "cat/1.jpg", d.out, "cat/1.jpg", &err));
        CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
        CHECK(rolled);
        CHECK_STR(published(d.out), "new");
        CHECK_STR(get(d.out, "cat/1.jpg"), "new1");
        CHECK_STR(get(d.out, "cat/2.jpg"), "none");
        CHECK_STR(get(d.out, "README"), "none");
        CHECK_STR(get(d.out, "dog/deep/er/3.png"), "new3");
        publish_close(&d);
    }
}

/* Renaming out of the folder that is being read must not lose any. */
static void test_many_files(void)
{
    enum { MANY = 5000 };
    struct out_dirs d;
    bool rolled;
    char name[32];
    unsigned moved = 0;
    fresh();
    MUST(publish_open(out, &d, &err));
    char *names = calloc(MANY, 12), *at = names;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%05d.tar", i);
        put(d.stage, name, "xx");
        at += sprintf(at, "%s\n", name);
    }
    put_index(d.work, "publish", false, names, "new");
    free(names);
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%05d.tar", i);
        moved += exists(d.out, name);
    }
    CHECK_INT(moved, MANY);
    publish_close(&d);
}

/* A staged file that the new index does not name was left by another run, perhaps half written:
 * it never comes to light. */
static void test_unnamed_staged_file(void)
{
    struct out_dirs d;
    bool rolled;
    interrupted(&d, 1);
    put(d.stage, "b-1.tar", "half");
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    check_new(&d);
    CHECK_STR(get(d.out, "b-1.tar"), "none");
    publish_close(&d);
}

/* A publication that names a file which is nowhere is given up while the old dataset is whole. */
static void test_named_file_is_gone(void)
{
    struct out_dirs d;
    bool rolled = true;
    interrupted(&d, 1);
    MUST(io_unlink(d.stage, "d.tar", &err));
    CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
    CHECK(!rolled && !exists(d.work, "publish"));
    CHECK_STR(published(d.out), "old");
    CHECK_STR(get(d.out, "b.tar"), "b1");
    CHECK_STR(get(d.out, "c.tar"), "c1");
    publish_close(&d);
}

static void test_clean(void)
{
    struct out_dirs d;
    interrupted(&d, 2);
    put(d.work, "plan", "p");
    put(d.work, "frag-train-00000", "f");
    put(d.work, "frag-val-00012", "f");
    put(d.stage, "deep/er/x.tar", "x");
    CHECK_INT(publish_clean(&d, &why), SLIMSET_OK);
    CHECK(!exists(d.work, "plan") && !exists(d.work, "frag-train-00000") &&
          !exists(d.work, "frag-val-00012"));
    CHECK(!exists(d.work, "stage"));
    CHECK_STR(get(d.work, "stat"), "stat");
    CHECK_STR(get(d.out, "a.tar"), "a1"); /* the dataset is not touched */
    CHECK_INT(publish_clean(&d, &why), SLIMSET_OK);
    publish_close(&d);
    CHECK_INT(publish_open(out, &d, &why), SLIMSET_OK); /* makes a stage folder again */
    CHECK(exists(d.work, "stage"));
    publish_close(&d);
}

/* A process that is killed at any moment of a roll leaves what the next one finishes. */
static void test_killed_at_random(void)
{
    for (int round = 0; round < 40; round++) {
        struct out_dirs d;
        bool rolled;
        interrupted(&d, 1);
        publish_close(&d);
        pid_t child = fork();
        if (child == 0) {
            publish_open(out, &d, &why);
            publish_roll(&d, &rolled, &why);
            _exit(0);
        }
        usleep((useconds_t)(round * 40));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK_INT(publish_open(out, &d, &why), SLIMSET_OK);
        CHECK_INT(publish_roll(&d, &rolled, &why), SLIMSET_OK);
        check_new(&d);
        publish_close(&d);
    }
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/test_publish.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(base) == NULL) {
        perror(base);
        return 1;
    }
    RUN(test_open_new);
    RUN(test_open_foreign);
    RUN(test_lock);
    RUN(test_work_is_a_link);
    RUN(test_roll_forward);
    RUN(test_no_index_between);
    RUN(test_obstacle);
    RUN(test_first_publication);
    RUN(test_torn_publish_file);
    RUN(test_damaged_old_index);
    RUN(test_deletes_only_its_own);
    RUN(test_tree);
    RUN(test_many_files);
    RUN(test_unnamed_staged_file);
    RUN(test_named_file_is_gone);
    RUN(test_clean);
    RUN(test_killed_at_random);
    io_remove_tree(AT_FDCWD, base, &why);
    return check_done();
}
