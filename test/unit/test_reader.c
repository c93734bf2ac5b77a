/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader among threads, processes, damage and packs that go on beside it. Every field's bytes are a
 * function of its number (make_dataset.h). Pixels are reader_judge.py's.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"
#include "make_dataset.h"
#include "memory_room.h"
#include "slimset/reader.h"

enum { EACH = 800, SAMPLES = MAKE_PARTS * EACH }; /* an index of some 15 blocks */

static char root[4096], out[4200];
static int root_fd = -1, out_fd = -1;
static struct slimset_error fault;

static void fresh_as(const char *name, bool tree, uint64_t each)
{
    if (out_fd >= 0)
        close(out_fd);
    MUST(io_remove_tree(root_fd, name, &err));
    MUST(io_mkdirs(root_fd, name, &err));
    snprintf(out, sizeof out, "%s/%s", root, name);
    out_fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_dataset(out_fd, tree, each);
}

static void fresh(bool tree) { fresh_as("out", tree, EACH); }

static struct slimset_reader *open_reader(enum slimset_preload preload)
{
    struct slimset_reader *r;
    struct slimset_reader_options o;
    slimset_reader_options_init(&o);
    o.preload = preload;
    MUST(slimset_reader_open_with(out, &o, &r, &err));
    return r;
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Whether field k of sample i reads as it should. */
static bool right(struct slimset_reader *r, uint64_t i, uint32_t k, struct slimset_error *err)
{
    uint8_t want[1200], got[1200];
    size_t n = make_data(want, i, (int)k), got_n = 0;
    return slimset_reader_read(r, i, k, got, sizeof got, &got_n, err) == SLIMSET_OK && got_n == n &&
           memcmp(got, want, n) == 0;
}

static bool right_sample(struct slimset_reader *r, uint64_t i, struct slimset_error *err)
{
    struct slimset_sample_view s;
    char key[64];
    size_t n = make_key(key, i);
    uint64_t found;
    return slimset_reader_sample(r, i, &s, err) == SLIMSET_OK && s.key.n == n &&
           memcmp(s.key.bytes, key, n) == 0 && s.cls == (int32_t)(i % 2) && s.part == i / EACH &&
           slimset_reader_find(r, key, n, &found, err) == SLIMSET_OK && found == i;
}

/* ---- one process ---- */

static void test_read_into_a_buffer(void)
{
    uint8_t want[1200], got[1200];
    size_t n = 0;
    fresh(false);
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
    size_t bytes = make_data(want, 7, 0);
    CHECK_INT(slimset_reader_read(r, 7, 0, got, bytes, &n, &fault), SLIMSET_OK);
    CHECK_INT(n, bytes);
    CHECK(memcmp(got, want, n) == 0);
    memset(got, 0xAA, sizeof got);
    n = 0;
    CHECK_INT(slimset_reader_read(r, 7, 0, got, bytes - 1, &n, &fault), SLIMSET_LIMIT);
    CHECK_INT(n, bytes);
    CHECK_INT(got[0], 0xAA);
    CHECK_INT(slimset_reader_read(r, 5, 1, got, 0, &n, &fault), SLIMSET_OK); /* empty */
    CHECK_INT(n, 0);
    CHECK_INT(slimset_reader_read(r, 5, 3, got, 0, &n, &fault), SLIMSET_NOT_FOUND);
    CHECK_INT(slimset_reader_read(r, SAMPLES, 0, got, 0, &n, &fault), SLIMSET_NOT_FOUND);
    struct slimset_view v;
    CHECK_INT(slimset_reader_view(r, 7, 0, &v, &fault), SLIMSET_OK);
    CHECK_INT(v.n, bytes);
    CHECK(memcmp(v.bytes, want, v.n) == 0);
    slimset_view_release(&v);
    slimset_view_release(&v);
    uint64_t samples[] = {0, 5, SAMPLES - 1, SAMPLES};
    CHECK_INT(slimset_reader_prefetch(r, samples, 3, &fault), SLIMSET_OK);
    CHECK_INT(slimset_reader_prefetch(r, samples, 4, &fault), SLIMSET_NOT_FOUND);
    slimset_reader_close(r);
}

static void test_fields_by_name(void)
{
    uint32_t k = 9;
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
    CHECK_INT(slimset_reader_field_named(r, 3, "jpg", 3, &k, &fault), SLIMSET_OK);
    CHECK_INT(k, 0);
    CHECK_INT(slimset_reader_field_named(r, 3, "seg.png", 7, &k, &fault), SLIMSET_OK);
    CHECK_INT(k, 1);
    CHECK_INT(slimset_reader_field_named(r, 3, "cls", 3, &k, &fault), SLIMSET_OK);
    CHECK_INT(k, 2);
    CHECK_INT(slimset_reader_field_named(r, 3, "png", 3, &k, &fault), SLIMSET_OK);
    CHECK_INT(k, 1);
    CHECK_INT(slimset_reader_field_named(r, 3, "ng", 2, &k, &fault), SLIMSET_NOT_FOUND);
    CHECK_INT(slimset_reader_field_named(r, 3, "", 0, &k, &fault), SLIMSET_NOT_FOUND);
    CHECK_INT(slimset_reader_field_named(r, 3, "npy", 3, &k, &fault), SLIMSET_NOT_FOUND);
    CHECK_STR(fault.text, "sample 3 has no field npy: it has jpg, seg.png, cls");
    slimset_reader_close(r);
}

/* ---- threads ---- */

struct visitor {
    struct slimset_reader *r;
    uint64_t seed;
    unsigned wrong;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;
    struct slimset_error err;
    for (int round = 0; round < 3000; round++) {
        uint64_t i = next(&v->seed) % SAMPLES;
        v->wrong += !right(v->r, i, (uint32_t)(next(&v->seed) % MAKE_FIELDS), &err);
        v->wrong += !right_sample(v->r, i, &err);
    }
    return NULL;
}

static void many_threads(struct slimset_reader *r)
{
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    struct visitor v[THREADS];
    for (unsigned t = 0; t < THREADS; t++) {
        v[t] = (struct visitor){r, t + 1, 0};
        if (pthread_create(&thread[t], NULL, visit, &v[t]) != 0)
            exit(1);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        CHECK_INT(v[t].wrong, 0);
    }
}

static void test_threads(void)
{
    for (int tree = 0; tree < 2; tree++) {
        fresh(tree != 0);
        struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
        many_threads(r);
        slimset_reader_close(r);
    }
}

/* ---- processes ---- */

/* Runs fn in n children; how many did not end with 0. */
static unsigned in_children(unsigned n, int (*fn)(void *, unsigned), void *arg)
{
    unsigned bad = 0;
    fflush(stdout);
    for (unsigned c = 0; c < n; c++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(fn(arg, c));
        bad += pid < 0;
    }
    for (int status; wait(&status) > 0;)
        bad += status != 0;
    return bad;
}

static int read_all_of(void *arg, unsigned c)
{
    struct slimset_error err;
    for (uint64_t i = c % 7; i < SAMPLES; i += 7)
        if (!right_sample(arg, i, &err) || !right(arg, i, 0, &err) || !right(arg, i, 2, &err))
            return 1;
    return 0;
}

/* What children do is nothing to the parent, and closing in a child closes only the child's. */
static int read_and_close(void *arg, unsigned c)
{
    int rc = read_all_of(arg, c);
    slimset_reader_close(arg);
    return rc;
}

static void test_children_go_on(void)
{
    static const enum slimset_preload how[] = {SLIMSET_PRELOAD_NONE, SLIMSET_PRELOAD_RAM};
    fresh(false);
    for (unsigned h = 0; h < 2; h++) {
        struct slimset_reader *r = open_reader(how[h]);
        CHECK(right(r, 3, 0, &fault));
        CHECK_INT(in_children(6, read_all_of, r), 0);
        CHECK_INT(in_children(6, read_and_close, r), 0);
        CHECK_INT(read_all_of(r, 0), 0);
        slimset_reader_close(r);
    }
}

/* Forks while other threads are in the middle of reading. */
static void test_fork_between_threads(void)
{
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
    pthread_t thread[3];
    struct visitor v[3];
    for (unsigned t = 0; t < 3; t++) {
        v[t] = (struct visitor){r, t + 50, 0};
        if (pthread_create(&thread[t], NULL, visit, &v[t]) != 0)
            exit(1);
    }
    for (int round = 0; round < 10; round++)
        CHECK_INT(in_children(2, read_all_of, r), 0);
    for (unsigned t = 0; t < 3; t++) {
        pthread_join(thread[t], NULL);
        CHECK_INT(v[t].wrong, 0);
    }
    slimset_reader_close(r);
}

static int open_and_read(void *arg, unsigned c)
{
    struct slimset_reader *r = open_reader(*(enum slimset_preload *)arg);
    int rc = read_all_of(r, c);
    slimset_reader_close(r);
    return rc;
}

static char shm_dir[] = "/dev/shm";

/* How many of our objects there are, and their bytes. */
static unsigned objects(uint64_t *bytes)
{
    char pattern[64];
    unsigned n = 0;
    snprintf(pattern, sizeof pattern, "slimset1-%u-", (unsigned)geteuid());
    DIR *dir = opendir(shm_dir);
    *bytes = 0;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        struct stat st;
        if (strncmp(e->d_name, pattern, strlen(pattern)) != 0 || fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
            continue;
        n++;
        *bytes += (uint64_t)st.st_blocks * 512;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void test_64_processes(void)
{
    static const enum slimset_preload how[] = {SLIMSET_PRELOAD_NONE, SLIMSET_PRELOAD_PAGE_CACHE,
                                               SLIMSET_PRELOAD_RAM};
    uint64_t bytes;
    unsigned before = objects(&bytes);
    for (unsigned h = 0; h < 3; h++) {
        enum slimset_preload preload = how[h];
        CHECK_INT(in_children(64, open_and_read, &preload), 0);
    }
    CHECK_INT(objects(&bytes), before); /* the last one removed it */
}

/* ---- preloaded ---- */

static void test_ram_is_shared(void)
{
    uint64_t bytes, before_bytes, dropped = 1;
    for (int tree = 0; tree < 2; tree++) {
        fresh(tree != 0);
        unsigned before = objects(&before_bytes);
        struct slimset_reader *a = open_reader(SLIMSET_PRELOAD_RAM);
        CHECK_INT(objects(&bytes), before + 1);
        uint64_t one = bytes - before_bytes;
        struct slimset_reader *b = open_reader(SLIMSET_PRELOAD_RAM);
        CHECK_INT(objects(&bytes), before + 1);
        CHECK_INT(bytes - before_bytes, one);
        many_threads(b);
        struct slimset_view v, w, again;
        CHECK_INT(slimset_reader_view(a, 9, 0, &v, &fault), SLIMSET_OK);
        CHECK_INT(slimset_reader_view(a, 9, 0, &again, &fault), SLIMSET_OK);
        CHECK_INT(slimset_reader_view(b, 9, 0, &w, &fault), SLIMSET_OK);
        CHECK(v.owned == NULL && v.bytes == again.bytes); /* no copy */
        CHECK((uintptr_t)v.bytes % 64 == 0);
        CHECK(v.n == w.n && memcmp(v.bytes, w.bytes, v.n) == 0);
        /* The files are not needed any more. */
        if (tree == 0)
            for (int p = 0; p < MAKE_PARTS; p++)
                MUST(io_unlink(out_fd, make_part_name[p], &err));
        CHECK_INT(read_all_of(b, 0), 0);
        slimset_view_release(&v);
        slimset_view_release(&w);
        slimset_view_release(&again);
        slimset_reader_close(a);
        CHECK_INT(objects(&bytes), before + 1);
        CHECK_INT(read_all_of(b, 3), 0);
        slimset_reader_close(b);
        CHECK_INT(objects(&bytes), before);
        CHECK_INT(slimset_preload_drop(out, &dropped, &fault), SLIMSET_OK);
        CHECK_INT(dropped, 0);
    }
}

static int die_attached(void *arg, unsigned c)
{
    (void)c;
    (void)open_reader(*(enum slimset_preload *)arg);
    raise(SIGKILL);
    return 0;
}

static void test_ram_left_behind(void)
{
    enum slimset_preload ram = SLIMSET_PRELOAD_RAM;
    uint64_t bytes, dropped = 0;
    fresh(false);
    unsigned before = objects(&bytes);
    CHECK_INT(in_children(1, die_attached, &ram), 1);
    CHECK_INT(objects(&bytes), before + 1);
    for (int p = 0; p < MAKE_PARTS; p++) /* proof that it is used again, not filled again */
        MUST(io_unlink(out_fd, make_part_name[p], &err));
    struct slimset_reader *r = open_reader(ram);
    CHECK_INT(read_all_of(r, 0), 0);
    slimset_reader_close(r);
    CHECK_INT(objects(&bytes), before);

    fresh(false);
    CHECK_INT(in_children(1, die_attached, &ram), 1);
    CHECK_INT(slimset_preload_drop(out, &dropped, &fault), SLIMSET_OK);
    CHECK(dropped > SAMPLES * 600);
    CHECK_INT(objects(&bytes), before);
}

/* Packed again after a kill: nobody asks for the old object any more. */
static void test_ram_of_an_earlier_packing(void)
{
    enum slimset_preload ram = SLIMSET_PRELOAD_RAM;
    uint64_t bytes, dropped = 0;
    unsigned before = objects(&bytes);
    for (int again = 0; again < 2; again++) {
        fresh(false);
        CHECK_INT(in_children(1, die_attached, &ram), 1);
        fresh_as("other", false, EACH);
        CHECK_INT(in_children(1, die_attached, &ram), 1); /* same index, another folder: the same object */
        CHECK_INT(objects(&bytes), before + 1);
        fresh_as("other", false, EACH + 1);
        struct slimset_reader *other = open_reader(ram); /* another folder's leftovers are not its business */
        CHECK_INT(objects(&bytes), before + 2);
        fresh_as("out", false, EACH + 2);
        if (again == 0) {
            struct slimset_reader *r = open_reader(ram);
            CHECK_INT(objects(&bytes), before + 2); /* the old one is gone, other's stays */
            slimset_reader_close(r);
        } else {
            CHECK_INT(slimset_preload_drop(out, &dropped, &fault), SLIMSET_OK);
            CHECK(dropped > SAMPLES * 600);
        }
        CHECK_INT(objects(&bytes), before + 1);
        slimset_reader_close(other);
        CHECK_INT(objects(&bytes), before);
    }
    /* One that is in use stays, for as long as it is. */
    fresh(false);
    struct slimset_reader *old = open_reader(ram);
    fresh_as("out", false, EACH + 1);
    struct slimset_reader *new = open_reader(ram);
    CHECK_INT(objects(&bytes), before + 2);
    CHECK_INT(read_all_of(old, 0), 0);
    slimset_reader_close(old);
    slimset_reader_close(new);
    CHECK_INT(objects(&bytes), before);
}

/* Half filled: as after a kill in the middle. */
static void test_ram_half_filled(void)
{
    char name[80];
    uint64_t bytes;
    fresh(false);
    struct slimset_header h;
    int fd = openat(out_fd, SLIMSET_INDEX_NAME, O_RDONLY);
    CHECK_INT(read(fd, &h, sizeof h), sizeof h);
    close(fd);
    unsigned before = objects(&bytes);
    snprintf(name, sizeof name, "/slimset1-%u-%016llx", (unsigned)geteuid(), (unsigned long long)h.header_hash);
    fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK_INT(ftruncate(fd, 123456), 0);
    close(fd);
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_RAM);
    CHECK_INT(read_all_of(r, 0), 0);
    slimset_reader_close(r);
    CHECK_INT(objects(&bytes), before);
    /* One that others can read or write is not trusted. */
    fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    CHECK_INT(fchmod(fd, 0666), 0);
    close(fd);
    struct slimset_reader_options o;
    slimset_reader_options_init(&o);
    o.preload = SLIMSET_PRELOAD_RAM;
    CHECK_INT(slimset_reader_open_with(out, &o, &r, &fault), SLIMSET_IO);
    CHECK(strstr(fault.text, "is not this user's alone") != NULL);
    shm_unlink(name);
}

static void flip_in(const char *name, uint64_t at)
{
    uint8_t byte;
    int fd = openat(out_fd, name, O_RDWR);
    if (fd < 0 || pread(fd, &byte, 1, (off_t)at) != 1)
        exit(1);
    byte ^= 1;
    if (pwrite(fd, &byte, 1, (off_t)at) != 1)
        exit(1);
    close(fd);
}

static void test_ram_of_damage(void)
{
    struct slimset_reader *r;
    struct slimset_field_view f;
    uint64_t bytes;
    fresh(false);
    r = open_reader(SLIMSET_PRELOAD_NONE);
    MUST(slimset_reader_field(r, EACH + 1, 0, &f, &err));
    slimset_reader_close(r);
    flip_in(make_part_name[1], f.offset);
    unsigned before = objects(&bytes);
    struct slimset_reader_options o;
    slimset_reader_options_init(&o);
    o.preload = SLIMSET_PRELOAD_RAM;
    o.verify = false; /* what is shared is checked all the same */
    CHECK_INT(slimset_reader_open_with(out, &o, &r, &fault), SLIMSET_DAMAGED);
    CHECK_STR(fault.text, "train-00000-1.tar: field jpg of sample dog/000801 does not match its checksum");
    CHECK_INT(objects(&bytes), before);
}

static void put_text(const char *path, const char *text)
{
    int fd;
    char folder[200];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    MUST(io_mkdirs(root_fd, folder, &err));
    MUST(io_create(root_fd, path, &fd, &err));
    MUST(io_write(fd, text, strlen(text), path, &err));
    close(fd);
}

static void test_room_in_memory(void)
{
    char proc[4200], cgroup[4200];
    struct memory_room room;
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    memory_room_at(&room, proc, cgroup); /* nothing known */
    CHECK(room.machine == UINT64_MAX && room.group == UINT64_MAX);
    put_text("proc/meminfo", "MemTotal:  100 kB\nMemFree:  5 kB\nMemAvailable:    77 kB\n");
    put_text("proc/self/cgroup", "0::/a/b\n");
    put_text("cgroup/a/b/memory.max", "max\n");
    put_text("cgroup/a/memory.max", "1000000\n");
    put_text("cgroup/a/memory.current", "900000\n");
    put_text("cgroup/a/memory.stat", "anon 1\nfile 500000\ninactive_file 200000\nactive_file 100000\nshmem 5\n");
    memory_room_at(&room, proc, cgroup);
    CHECK_INT(room.machine, 77 * 1024);
    CHECK_INT(room.group, 400000); /* page cache can be given up, shared memory not */
    put_text("cgroup/memory.max", "5000\n"); /* as a container sees its own */
    put_text("cgroup/memory.current", "9000\n");
    memory_room_at(&room, proc, cgroup);
    CHECK_INT(room.group, 0);
    put_text("proc/self/cgroup", "4:cpu:/x\n3:memory:/job\n");
    put_text("cgroup/memory/job/memory.limit_in_bytes", "3000000\n");
    put_text("cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
    put_text("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    memory_room_at(&room, proc, cgroup);
    CHECK_INT(room.group, 2000000);
    memory_room(&room); /* this machine's */
    CHECK(room.machine > 1 << 20 && room.machine < (uint64_t)1 << 50);
}

/* A dataset that says it is larger than any memory. */
static void test_ram_does_not_fit(void)
{
    static const struct slimset_part part = {.bytes = (uint64_t)1 << 50, .n_samples = 1};
    const struct index_counts counts = {
        .splits = 1, .shards = 1, .parts = 1, .samples = 1, .fields = 1};
    struct index_writer *w;
    struct slimset_reader *r;
    struct slimset_reader_options o;
    uint64_t bytes;
    unsigned before = objects(&bytes);
    MUST(index_create(out_fd, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, &counts, &w, &err));
    const struct slimset_split split = {.name = make_string(w, "data"), .order = 1, .n_shards = 1, .n_samples = 1};
    const struct slimset_shard shard = {.n_parts = 1, .n_samples = 1};
    struct slimset_part named = part;
    named.name = make_string(w, "data-00000.tar");
    const struct slimset_sample sample = {.key = make_string(w, "k"), .n_fields = 1, .cls = -1};
    const struct slimset_field field = {.name = make_string(w, "bin"), .offset = 512, .bytes = (uint64_t)1 << 50};
    MUST(index_put_split(w, &split, &err));
    MUST(index_put_shard(w, &shard, &err));
    MUST(index_put_part(w, &named, &err));
    MUST(index_put_sample(w, &sample, hash_bytes("k", 1), &err));
    MUST(index_put_field(w, &field, &err));
    MUST(index_commit(w, false, &err));
    slimset_reader_options_init(&o);
    for (unsigned how = 1; how <= 2; how++) {
        o.preload = (enum slimset_preload)how;
        CHECK_INT(slimset_reader_open_with(out, &o, &r, &fault), SLIMSET_LIMIT);
        CHECK(strstr(fault.text, "preloading needs 11258999") != NULL && strstr(fault.text, " MB left") != NULL);
    }
    CHECK_INT(objects(&bytes), before);
}

/* ---- damage ---- */

static off_t size_of(const char *name)
{
    struct stat st;
    return fstatat(out_fd, name, &st, 0) == 0 ? st.st_size : -1;
}

static void cut(const char *name, off_t to)
{
    int fd = openat(out_fd, name, O_WRONLY);
    if (fd < 0 || ftruncate(fd, to) < 0)
        exit(1);
    close(fd);
}

/* Every block of the index flipped in turn: what is read is right, or damage that names the block. */
static void test_flipped_blocks(void)
{
    fresh(false);
    uint64_t blocks = ((uint64_t)size_of(SLIMSET_INDEX_NAME) - 128) / SLIMSET_BLOCK_BYTES;
    CHECK(blocks > 10);
    for (uint64_t b = 0; b <= blocks; b++) {
        uint64_t at = 128 + b * SLIMSET_BLOCK_BYTES + 77;
        struct slimset_reader *r;
        char want[40];
        unsigned damaged = 0;
        snprintf(want, sizeof want, "block %llu ", (unsigned long long)b);
        flip_in(SLIMSET_INDEX_NAME, at);
        enum slimset_status st = slimset_reader_open(out, &r, &fault);
        if (st != SLIMSET_OK) {
            CHECK_INT(st, SLIMSET_DAMAGED);
            damaged++;
        }
        for (uint64_t i = 0; st == SLIMSET_OK && i < SAMPLES; i += 3) {
            struct slimset_field_view f;
            char path[128], key[64];
            make_key(key, i);
            snprintf(path, sizeof path, "photos.zip/%s.JPEG", key);
            if (right_sample(r, i, &fault) && slimset_reader_field(r, i, 0, &f, &fault) == SLIMSET_OK) {
                CHECK(f.path.n == strlen(path) && memcmp(f.path.bytes, path, f.path.n) == 0);
                continue;
            }
            if (damaged++ == 0) {
                CHECK_INT(fault.status, SLIMSET_DAMAGED);
                CHECK(strstr(fault.text, want) != NULL);
            }
        }
        CHECK(damaged != 0);
        if (st == SLIMSET_OK)
            slimset_reader_close(r);
        flip_in(SLIMSET_INDEX_NAME, at); /* back */
    }
}

/* Cut while it is open: what was looked at stays right, all else is an error and no signal. */
static void test_index_cut_while_open(void)
{
    for (int part = 0; part < 8; part++) {
        fresh(false);
        struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
        CHECK(right_sample(r, 17, &fault));
        CHECK(right(r, 17, 0, &fault));
        cut(SLIMSET_INDEX_NAME, size_of(SLIMSET_INDEX_NAME) * part / 8);
        CHECK(right_sample(r, 17, &fault));
        unsigned good = 0, bad = 0;
        for (uint64_t i = 0; i < SAMPLES; i++) {
            if (right_sample(r, i, &fault)) {
                good++;
                continue;
            }
            bad++;
            CHECK_INT(fault.status, SLIMSET_DAMAGED);
        }
        CHECK(good > 0 && bad > 0);
        slimset_reader_close(r);
        if (part > 0)
            CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_DAMAGED);
    }
}

/* Cut, emptied and filled with other bytes while it is open. */
static void test_shard_cut_while_open(void)
{
    fresh(false);
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
    CHECK(right(r, EACH, 0, &fault));
    cut(make_part_name[1], size_of(make_part_name[1]) / 2);
    CHECK(right(r, EACH, 0, &fault));
    CHECK(!right(r, 2 * EACH - 1, 0, &fault));
    CHECK_INT(fault.status, SLIMSET_DAMAGED);
    CHECK_STR(fault.text, "train-00000-1.tar is too short for field jpg of sample dog/001599: it was truncated");
    flip_in(make_part_name[1], 512);
    CHECK(!right(r, EACH, 0, &fault));
    CHECK_STR(fault.text, "train-00000-1.tar: field jpg of sample cat/000800 does not match its checksum");
    CHECK(right(r, EACH, 1, &fault));
    slimset_reader_close(r);
}

/* Without verification: still never bytes of a file that is too short. */
static void test_without_verify(void)
{
    struct slimset_reader *r;
    struct slimset_reader_options o;
    uint8_t got[1200], want[1200];
    size_t n;
    fresh(false);
    slimset_reader_options_init(&o);
    o.verify = false;
    MUST(slimset_reader_open_with(out, &o, &r, &err));
    flip_in(make_part_name[0], 512);
    CHECK_INT(slimset_reader_read(r, 0, 0, got, sizeof got, &n, &fault), SLIMSET_OK);
    make_data(want, 0, 0);
    CHECK_INT(got[0] ^ 1, want[0]);
    cut(make_part_name[0], 600);
    CHECK_INT(slimset_reader_read(r, 0, 0, got, sizeof got, &n, &fault), SLIMSET_DAMAGED);
    slimset_reader_close(r);
}

/* ---- a pack beside it ---- */

/* As publication does it: the index withdrawn, files renamed, the new index last. */
static void publish_from(const char *from, unsigned steps)
{
    int from_fd = openat(root_fd, from, O_RDONLY | O_DIRECTORY);
    if (steps-- > 0)
        MUST(io_unlink(out_fd, SLIMSET_INDEX_NAME, &err));
    for (int p = 0; p < MAKE_PARTS && steps > 0; p++, steps--)
        MUST(io_rename(from_fd, make_part_name[p], out_fd, make_part_name[p], &err));
    if (steps > 0)
        MUST(io_rename(from_fd, SLIMSET_INDEX_NAME, out_fd, SLIMSET_INDEX_NAME, &err));
    close(from_fd);
}

/* At every step of a publication: the old data, or an error that says what happens. */
static void test_packed_again_while_open(void)
{
    for (unsigned steps = 1; steps <= 2 + MAKE_PARTS; steps++)
        for (int verify = 0; verify < 2; verify++) {
            struct slimset_reader *r;
            struct slimset_reader_options o;
            fresh_as("new", false, EACH + 1);
            fresh(false);
            slimset_reader_options_init(&o);
            o.verify = verify != 0;
            MUST(slimset_reader_open_with(out, &o, &r, &err));
            CHECK(right(r, 5, 0, &fault));
            publish_from("new", steps);
            for (uint64_t i = 0; i < EACH; i++) /* that shard was open */
                CHECK(right(r, i, 0, &fault));
            for (int p = 1; p < MAKE_PARTS; p++) {
                CHECK(!right(r, (uint64_t)p * EACH + 3, 0, &fault));
                CHECK_INT(fault.status, SLIMSET_DIFFERS);
                CHECK_STR(fault.text, "the dataset was packed again while it was open: open it again");
            }
            slimset_reader_close(r);
        }
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
    CHECK(right(r, 4 * EACH + 3, 0, &fault));
    slimset_reader_close(r);
}

/* Other files of the same content are as good. */
static void test_copied_over_itself(void)
{
    fresh_as("new", false, EACH);
    fresh(false);
    struct slimset_reader *r = open_reader(SLIMSET_PRELOAD_NONE);
    publish_from("new", 99);
    CHECK_INT(read_all_of(r, 0), 0);
    slimset_reader_close(r);
}

/* An upload site unpacked the tars: beside them, or in folders of their names. */
static void test_unpacked(void)
{
    struct slimset_reader *r;
    char folder[80];
    fresh(false);
    MUST(io_unlink(out_fd, make_part_name[0], &err));
    CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_OK); /* only missing */
    CHECK(!right(r, 0, 0, &fault));
    CHECK_STR(fault.text, "train-00000.tar is missing; it holds field jpg of sample cat/000000");
    CHECK(right(r, EACH, 0, &fault));
    slimset_reader_close(r);
    for (int how = 0; how < 2; how++) {
        fresh(false);
        int fd;
        snprintf(folder, sizeof folder, "%s", how == 0 ? "cat" : "train-00000");
        MUST(io_unlink(out_fd, make_part_name[0], &err));
        MUST(io_mkdirs(out_fd, folder, &err));
        MUST(io_create(out_fd, how == 0 ? "cat/000000.jpg" : "train-00000/x", &fd, &err));
        close(fd);
        CHECK_INT(slimset_reader_open(out, &r, &fault), SLIMSET_DAMAGED);
        CHECK(strstr(fault.text, "the shards were unpacked") != NULL);
        CHECK(strstr(fault.text, "put the tar files themselves back") != NULL);
    }
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/reader.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(root) == NULL)
        return 2;
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    RUN(test_read_into_a_buffer);
    RUN(test_fields_by_name);
    RUN(test_threads);
    RUN(test_children_go_on);
    RUN(test_fork_between_threads);
    RUN(test_64_processes);
    RUN(test_ram_is_shared);
    RUN(test_ram_left_behind);
    RUN(test_ram_of_an_earlier_packing);
    RUN(test_ram_half_filled);
    RUN(test_ram_of_damage);
    RUN(test_room_in_memory);
    RUN(test_ram_does_not_fit);
    RUN(test_flipped_blocks);
    RUN(test_index_cut_while_open);
    RUN(test_shard_cut_while_open);
    RUN(test_without_verify);
    RUN(test_packed_again_while_open);
    RUN(test_copied_over_itself);
    RUN(test_unpacked);
    close(out_fd);
    close(root_fd);
    MUST(io_remove_tree(AT_FDCWD, root, &err));
    return check_done();
}
