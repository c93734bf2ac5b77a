/* SPDX-License-Identifier: Apache-2.0
 *
 * What reading costs, for bench/read_c.py: prints lines "name number".
 *
 *   read_c make DIR N BYTES     a dataset of N samples with one field of BYTES; 0: an index alone
 *   read_c open DIR             opening, and the first look at a sample
 *   read_c read DIR             random fields, against a copy of as many bytes
 *   read_c attach DIR           preloading, and a second process that attaches
 *   read_c batch DIR W H        64 pictures to W x H, against libjpeg-turbo's plain decode of them
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

#include "base/hash.h"
#include "base/io.h"
#include "index.h"
#include "slimset/reader.h"
#include "tar_write.h"

#define MUST(call)                                                                                 \
    do {                                                                                           \
        struct slimset_error err;                                                                  \
        if ((call) != SLIMSET_OK) {                                                                \
            fprintf(stderr, "read_c: %s\n", err.text);                                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { SHARD_SAMPLES = 5000, ROUNDS = 9, BATCH = 64 };

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static uint64_t rnd(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* ---- make ---- */

static slimset_str text(struct index_writer *w, const char *s)
{
    slimset_str ref;
    MUST(index_string(w, s, strlen(s), &ref, &err));
    return ref;
}

struct maker {
    int dir;
    struct index_writer *w;
    uint64_t n;
    size_t bytes;
    uint8_t *data;
};

/* One shard: its file, then its records. */
static void make_shard(struct maker *m, uint32_t shard)
{
    char name[40], key[40], member[60], path[60];
    uint64_t first = (uint64_t)shard * SHARD_SAMPLES, left = m->n - first, seed = shard + 1;
    uint32_t n = left < SHARD_SAMPLES ? (uint32_t)left : SHARD_SAMPLES;
    struct tar_writer tar = {.fd = -1};
    struct slimset_part part = {.shard = shard, .first_sample = first, .n_samples = n};
    const struct slimset_shard record = {
        .number = shard, .first_part = shard, .n_parts = 1, .first_sample = first, .n_samples = n};
    snprintf(name, sizeof name, "data-%05u.tar", shard);
    if (m->bytes != 0)
        MUST(tar_create(&tar, m->dir, name, &err));
    for (uint32_t i = 0; i < n; i++) {
        struct slimset_field f = {.bytes = m->bytes, .offset = 512, .role = SLIMSET_ROLE_COPY};
        int key_n = snprintf(key, sizeof key, "class%03u/sample%08llu", i % 1000, (unsigned long long)(first + i));
        if (m->bytes != 0) {
            for (size_t b = 0; b + 8 <= m->bytes; b += 8) {
                uint64_t v = rnd(&seed);
                memcpy(m->data + b, &v, 8);
            }
            int member_n = snprintf(member, sizeof member, "%s.bin", key);
            MUST(tar_append(&tar, member, (size_t)member_n, m->data, m->bytes, &f.offset, &err));
        }
        snprintf(path, sizeof path, "source/%s.bin", key);
        f.name = text(m->w, "bin");
        f.path = text(m->w, path);
        f.hash = hash_bytes(m->data, m->bytes);
        const struct slimset_sample s = {
            .key = text(m->w, key), .first_field = first + i, .n_fields = 1, .cls = -1, .part = shard};
        MUST(index_put_sample(m->w, &s, hash_bytes(key, (size_t)key_n), &err));
        MUST(index_put_field(m->w, &f, &err));
    }
    if (m->bytes != 0) {
        int fd;
        MUST(tar_finish(&tar, &fd, &part.bytes, &part.hash, &err));
        close(fd);
        buf_fini(&tar.buffer);
    }
    part.name = text(m->w, name);
    MUST(index_put_shard(m->w, &record, &err));
    MUST(index_put_part(m->w, &part, &err));
}

static int make(const char *dir, uint64_t n, size_t bytes)
{
    static const char meta[] = "tool=bench\nlayout=shards\n";
    uint64_t shards = (n + SHARD_SAMPLES - 1) / SHARD_SAMPLES;
    struct maker m = {.n = n, .bytes = bytes, .data = calloc(1, bytes + 1)};
    m.dir = open(dir, O_RDONLY | O_DIRECTORY);
    const struct index_counts counts = {.meta_bytes = sizeof meta - 1,
                                        .splits = 1,
                                        .shards = shards,
                                        .parts = shards,
                                        .samples = n,
                                        .fields = n};
    MUST(index_create(m.dir, SLIMSET_INDEX_NAME, SLIMSET_KIND_INDEX, &counts, &m.w, &err));
    MUST(index_put_meta(m.w, meta, sizeof meta - 1, &err));
    const struct slimset_split split = {
        .name = text(m.w, "data"), .order = 1, .n_shards = (uint32_t)shards, .n_samples = n};
    MUST(index_put_split(m.w, &split, &err));
    for (uint32_t s = 0; s < shards; s++)
        make_shard(&m, s);
    MUST(index_commit(m.w, false, &err));
    return 0;
}

/* ---- measure ---- */

static struct slimset_reader *open_as(const char *dir, bool verify, enum slimset_preload preload)
{
    struct slimset_reader *r;
    struct slimset_reader_options o;
    slimset_reader_options_init(&o);
    o.verify = verify;
    o.preload = preload;
    MUST(slimset_reader_open_with(dir, &o, &r, &err));
    return r;
}

static int measure_open(const char *dir)
{
    double opened[ROUNDS], looked[ROUNDS];
    struct slimset_info info;
    for (int i = 0; i < ROUNDS; i++) {
        struct slimset_sample_view s;
        uint64_t found;
        double t = now(CLOCK_MONOTONIC);
        struct slimset_reader *r = open_as(dir, true, SLIMSET_PRELOAD_NONE);
        opened[i] = now(CLOCK_MONOTONIC) - t;
        slimset_reader_info(r, &info);
        MUST(slimset_reader_sample(r, info.samples / 3, &s, &err));
        MUST(slimset_reader_find(r, s.key.bytes, s.key.n, &found, &err));
        looked[i] = now(CLOCK_MONOTONIC) - t;
        slimset_reader_close(r);
    }
    printf("samples %llu\nopen_ms %.3f\nopen_and_find_ms %.3f\n", (unsigned long long)info.samples,
           median(opened, ROUNDS) * 1e3, median(looked, ROUNDS) * 1e3);
    return 0;
}

/* Microseconds a field: copied from memory (r NULL) or read. */
static double reads(struct slimset_reader *r, const uint8_t *pool, uint64_t n, size_t bytes, uint8_t *buf, uint64_t seed)
{
    enum { COUNT = 4000 };
    double t = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < COUNT; i++) {
        size_t got;
        uint64_t at = rnd(&seed) % n;
        if (r == NULL)
            memcpy(buf, pool + at * bytes, bytes);
        else
            MUST(slimset_reader_read(r, at, 0, buf, bytes, &got, &err));
        __asm__ volatile("" : : "r"(buf) : "memory");
    }
    return (now(CLOCK_THREAD_CPUTIME_ID) - t) / COUNT * 1e6;
}

static int measure_read(const char *dir)
{
    struct slimset_info info;
    struct slimset_field_view f;
    double us[4][ROUNDS];
    struct slimset_reader *r[4] = {NULL, open_as(dir, true, SLIMSET_PRELOAD_NONE),
                                   open_as(dir, false, SLIMSET_PRELOAD_NONE), open_as(dir, true, SLIMSET_PRELOAD_RAM)};
    slimset_reader_info(r[1], &info);
    MUST(slimset_reader_field(r[1], 0, 0, &f, &err));
    uint8_t *buf = malloc(f.bytes), *pool = malloc(f.bytes * info.samples);
    for (uint64_t i = 0; i < info.samples; i++) { /* also brings everything into memory */
        size_t n;
        MUST(slimset_reader_read(r[1], i, 0, pool + i * f.bytes, f.bytes, &n, &err));
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int how = 0; how < 4; how++)
            us[how][round] = reads(r[how], pool, info.samples, f.bytes, buf, 77);
    printf("field_bytes %llu\nmemcpy_us %.2f\nread_us %.2f\nread_unverified_us %.2f\nread_preloaded_us %.2f\n",
           (unsigned long long)f.bytes, median(us[0], ROUNDS), median(us[1], ROUNDS), median(us[2], ROUNDS),
           median(us[3], ROUNDS));
    for (int how = 1; how < 4; how++)
        slimset_reader_close(r[how]);
    return 0;
}

static int measure_attach(const char *dir)
{
    double t = now(CLOCK_MONOTONIC), ms[ROUNDS];
    struct slimset_reader *r = open_as(dir, true, SLIMSET_PRELOAD_RAM);
    struct slimset_info info;
    slimset_reader_info(r, &info);
    printf("preload_bytes %llu\npreload_s %.3f\n", (unsigned long long)info.bytes, now(CLOCK_MONOTONIC) - t);
    fflush(stdout);
    for (int i = 0; i < ROUNDS; i++) {
        int pipes[2];
        if (pipe(pipes) < 0)
            return 1;
        pid_t pid = fork();
        if (pid == 0) { /* opens on its own: nothing of the parent's reader is used */
            t = now(CLOCK_MONOTONIC);
            struct slimset_reader *mine = open_as(dir, true, SLIMSET_PRELOAD_RAM);
            struct slimset_view v;
            MUST(slimset_reader_view(mine, info.samples / 2, 0, &v, &err));
            t = now(CLOCK_MONOTONIC) - t;
            _exit(v.owned != NULL || write(pipes[1], &t, sizeof t) != sizeof t);
        }
        if (read(pipes[0], &ms[i], sizeof ms[i]) != sizeof ms[i])
            return 1;
        waitpid(pid, NULL, 0);
        close(pipes[0]);
        close(pipes[1]);
    }
    printf("attach_ms %.3f\n", median(ms, ROUNDS) * 1e3);
    slimset_reader_close(r);
    return 0;
}

/* libjpeg-turbo with its defaults, from memory: what any decoder of whole pictures has to pay. */
static void bare_decode(const uint8_t *data, size_t n, uint8_t *row, unsigned denom)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr e;
    c.err = jpeg_std_error(&e);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, data, n);
    jpeg_read_header(&c, TRUE);
    c.out_color_space = JCS_RGB;
    c.scale_denom = denom;
    jpeg_start_decompress(&c);
    while (c.output_scanline < c.output_height) {
        JSAMPROW to = row + (size_t)c.output_scanline * c.output_width * 3;
        jpeg_read_scanlines(&c, &to, 1);
    }
    jpeg_finish_decompress(&c);
    jpeg_destroy_decompress(&c);
}

static int measure_batch(const char *dir, uint32_t w, uint32_t h)
{
    static uint64_t samples[BATCH];
    static struct slimset_view v[BATCH];
    double s[6][ROUNDS], cpu[6][ROUNDS];
    struct slimset_reader *r = open_as(dir, true, SLIMSET_PRELOAD_NONE);
    struct slimset_info info;
    uint8_t *buf = malloc((size_t)BATCH * w * h * 3), *row = malloc((size_t)3 << 24);
    slimset_reader_info(r, &info);
    for (int i = 0; i < BATCH; i++) {
        samples[i] = (uint64_t)i % info.samples;
        uint32_t k;
        MUST(slimset_reader_field_named(r, samples[i], "jpg", 3, &k, &err));
        MUST(slimset_reader_view(r, samples[i], k, &v[i], &err));
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int how = 0; how < 6; how++) {
            struct slimset_resize_options o;
            slimset_resize_options_init(&o);
            o.w = w;
            o.h = h;
            o.fast = how >= 4;
            double t = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
            for (int i = 0; how < 2 && i < BATCH; i++)
                bare_decode(v[i].bytes, v[i].n, row, how == 0 ? 1 : 2);
            if (how >= 2)
                MUST(slimset_reader_decode_batch(r, samples, BATCH, "jpg", 3, &o, NULL, how % 2 ? 2 : 1, buf,
                                                 (size_t)BATCH * w * h * 3, NULL, &err));
            s[how][round] = now(CLOCK_MONOTONIC) - t;
            cpu[how][round] = now(CLOCK_PROCESS_CPUTIME_ID) - used;
        }
    static const char *const name[6] = {"bare", "bare_half", "batch_1", "batch_2", "fast_1", "fast_2"};
    for (int how = 0; how < 6; how++)
        printf("%s_per_s %.0f\n%s_cpu_ms %.3f\n", name[how], BATCH / median(s[how], ROUNDS), name[how],
               median(cpu[how], ROUNDS) * 1e3 / BATCH);
    slimset_reader_close(r);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "make") == 0)
        return make(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "open") == 0)
        return measure_open(argv[2]);
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return measure_read(argv[2]);
    if (argc == 3 && strcmp(argv[1], "attach") == 0)
        return measure_attach(argv[2]);
    if (argc == 5 && strcmp(argv[1], "batch") == 0)
        return measure_batch(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10));
    fprintf(stderr, "see the head of bench/read_c.c\n");
    return 2;
}
