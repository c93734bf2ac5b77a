/* SPDX-License-Identifier: Apache-2.0
 *
 * tar_write.h: headers byte by byte, names at their limits, what GNU tar says of the result.
 * An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "tar_write.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "check.h"

static int dir = -1;
static char dir_path[300];
static struct slimset_error err;
static struct tar_writer tar = {.fd = -1};

static void begin(void) { CHECK_INT(tar_create(&tar, dir, "t.tar", &err), SLIMSET_OK); }

static uint64_t append(const char *name, const void *data, uint64_t n)
{
    uint64_t offset = 0;
    CHECK_INT(tar_append(&tar, name, strlen(name), data, n, &offset, &err), SLIMSET_OK);
    return offset;
}

/* Finishes and hands out the file's bytes; checks size and hash on the way. */
static uint8_t *finish(size_t *n)
{
    int fd = -1;
    uint64_t bytes = 0, hash = 0;
    uint8_t *data = NULL;
    CHECK_INT(tar_finish(&tar, &fd, &bytes, &hash, &err), SLIMSET_OK);
    CHECK(fd >= 0 && tar.fd == -1);
    CHECK_INT(io_close(fd, "t.tar", &err), SLIMSET_OK);
    CHECK_INT(io_read_file(dir, "t.tar", 1 << 30, &data, n, &err), SLIMSET_OK);
    CHECK_INT(*n, bytes);
    CHECK(hash_bytes(data, *n) == hash);
    return data;
}

/* What a program prints about t.tar. */
static const char *ask(const char *fmt)
{
    static char out[16384];
    char command[1000];
    snprintf(command, sizeof command, "cd '%s' && LC_ALL=C TZ=UTC %s 2>&1", dir_path, fmt);
    FILE *f = popen(command, "r");
    size_t n = f != NULL ? fread(out, 1, sizeof out - 1, f) : 0;
    out[n] = '\0';
    if (f != NULL)
        CHECK_INT(pclose(f), 0);
    return out;
}

static void test_header_bytes(void)
{
    size_t n;
    begin();
    CHECK_INT(append("cat/0001.jpg", "hello", 5), 512);
    uint8_t *p = finish(&n);
    CHECK_INT(n, 512 + 512 + 1024);
    uint8_t want[512] = {0};
    memcpy(want, "cat/0001.jpg", 12);
    memcpy(want + 100, "0000644", 8);
    memcpy(want + 108, "0000000", 8);
    memcpy(want + 116, "0000000", 8);
    memcpy(want + 124, "00000000005", 12);
    memcpy(want + 136, "00000000000", 12);
    want[156] = '0';
    memcpy(want + 257, "ustar\00000", 8);
    memcpy(want + 329, "0000000", 8);
    memcpy(want + 337, "0000000", 8);
    unsigned sum = 8 * ' '; /* the checksum counts itself as blanks */
    for (int i = 0; i < 512; i++)
        sum += i < 148 || i >= 156 ? want[i] : 0;
    CHECK_INT(strtoul((char *)p + 148, NULL, 8), sum);
    CHECK(p[154] == '\0' && p[155] == ' ');
    memcpy(want + 148, p + 148, 8);
    CHECK(memcmp(p, want, 512) == 0);
    CHECK(memcmp(p + 512, "hello", 5) == 0);
    for (size_t i = 517; i < n; i++)
        CHECK(p[i] == 0);
    free(p);
}

static void test_listing(void)
{
    size_t n;
    begin();
    append("a.jpg", "12345", 5);
    append("a.cls", "0", 1);
    append("d/e/b.empty", "", 0);
    append("d/e/\xc3\xa9.txt", "x", 1);
    free(finish(&n));
    CHECK_STR(ask("tar --numeric-owner -tvf t.tar"),
              "-rw-r--r-- 0/0               5 1970-01-01 00:00 a.jpg\n"
              "-rw-r--r-- 0/0               1 1970-01-01 00:00 a.cls\n"
              "-rw-r--r-- 0/0               0 1970-01-01 00:00 d/e/b.empty\n"
              "-rw-r--r-- 0/0               1 1970-01-01 00:00 d/e/\\303\\251.txt\n");
    CHECK_STR(ask("tar -xOf t.tar a.jpg a.cls"), "123450");
}

static void test_sizes(void)
{
    static const uint64_t sizes[] = {0, 1, 511, 512, 513, 1023, 1024, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t want = 512 + (sizes[i] / 512 + (sizes[i] % 512 != 0)) * 512;
        CHECK_INT(tar_member_bytes(sizes[i]), want);
    }
    char *data = malloc(100000);
    uint64_t at = 0;
    size_t n;
    memset(data, 'x', 100000);
    begin();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu", i);
        CHECK_INT(append(name, data, sizes[i]), at + 512);
        at += tar_member_bytes(sizes[i]);
    }
    free(finish(&n));
    CHECK_INT(n, at + TAR_END_BYTES);
    CHECK_STR(ask("tar -tf t.tar | tr '\\n' ' '"), "0 1 2 3 4 5 6 7 ");
    free(data);
}

/* --- names ------------------------------------------------------------------------------------ */

static char name[400];

/* n bytes with slashes at a and b (0: none). */
static const char *named(size_t n, size_t a, size_t b)
{
    memset(name, 'n', n);
    if (a != 0)
        name[a] = '/';
    if (b != 0)
        name[b] = '/';
    name[n] = '\0';
    return name;
}

static void takes(size_t n, size_t a, size_t b, size_t prefix)
{
    size_t bytes;
    char want[sizeof name + 2];
    begin();
    append(named(n, a, b), "x", 1);
    uint8_t *p = finish(&bytes);
    CHECK_INT(p[345 + prefix], 0);
    CHECK_INT(strnlen((char *)p + 345, 155), prefix);
    CHECK_INT(strnlen((char *)p, 100), n - prefix - (prefix > 0));
    snprintf(want, sizeof want, "%s\n", name);
    CHECK_STR(ask("tar -tf t.tar"), want);
    free(p);
}

static void refuses(size_t n, size_t a, size_t b)
{
    uint64_t offset;
    begin();
    named(n, a, b);
    CHECK_INT(tar_append(&tar, name, n, "x", 1, &offset, &err), SLIMSET_INTERNAL);
    CHECK(err.text[0] != '\0');
    append("after", "y", 1); /* nothing of it was written */
    size_t bytes;
    free(finish(&bytes));
    CHECK_INT(bytes, 1024 + 1024);
}

static void test_names(void)
{
    takes(1, 0, 0, 0);
    takes(99, 50, 0, 0);
    takes(100, 0, 0, 0); /* exactly the name field, no terminator */
    takes(100, 50, 0, 0);
    takes(101, 50, 0, 50);
    takes(101, 1, 0, 1);
    takes(101, 99, 0, 99);
    takes(200, 100, 150, 100); /* one of several cuts: all read the same */
    takes(255, 154, 0, 154);   /* 154 + 1 + 100 */
    takes(256, 155, 0, 155);   /* 155 + 1 + 100: both fields full */
    takes(256, 20, 155, 155);
}

static void test_names_that_do_not_fit(void)
{
    refuses(101, 0, 0);
    refuses(256, 154, 0); /* 101 behind the slash */
    refuses(257, 156, 0); /* 156 before it */
    refuses(257, 155, 0);
    refuses(300, 30, 280);
    uint64_t offset;
    begin();
    CHECK_INT(tar_append(&tar, "", 0, "x", 1, &offset, &err), SLIMSET_INTERNAL);
    tar_abort(&tar);
}

/* --- the file --------------------------------------------------------------------------------- */

/* Small and large members, around the writer's buffer: every byte arrives, and the same bytes
 * each time. */
static void test_content(void)
{
    enum { BIG = 3 << 20 };
    uint8_t *data = malloc(BIG), *first = NULL;
    size_t n, first_n = 0;
    for (size_t i = 0; i < BIG; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 9));
    for (int round = 0; round < 2; round++) {
        uint64_t offset[300], size[300], at = 0;
        begin();
        for (unsigned i = 0; i < 300; i++) {
            char text[32];
            size[i] = i % 50 == 49 ? BIG - i : i * 97;
            snprintf(text, sizeof text, "%04u.bin", i);
            offset[i] = append(text, data + i, size[i]);
            CHECK_INT(offset[i], at + 512);
            at += tar_member_bytes(size[i]);
            CHECK_INT(tar.bytes, at);
        }
        uint8_t *p = finish(&n);
        CHECK_INT(n, at + TAR_END_BYTES);
        for (unsigned i = 0; i < 300; i++)
            CHECK(memcmp(p + offset[i], data + i, size[i]) == 0);
        if (round == 0) {
            first = p;
            first_n = n;
        } else {
            CHECK(n == first_n && memcmp(p, first, n) == 0);
            free(p);
        }
    }
    CHECK_STR(ask("tar -tf t.tar | wc -l | tr -d ' '"), "300\n");
    free(first);
    free(data);
}

static void test_empty_archive(void)
{
    size_t n;
    begin();
    free(finish(&n));
    CHECK_INT(n, 1024);
    CHECK_STR(ask("tar -tf t.tar"), "");
}

/* 8 GiB and more: base 256, as GNU tar writes what eleven octal digits cannot say. */
static void test_huge_member(void)
{
    uint64_t huge = (uint64_t)1 << 33, offset;
    void *data = mmap(NULL, huge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(data != MAP_FAILED);
    if (data == MAP_FAILED)
        return;
    madvise(data, huge, MADV_HUGEPAGE);
    struct rlimit old, small = {1 << 16, 1 << 16};
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    begin();
    setrlimit(RLIMIT_FSIZE, &small); /* only the header is wanted */
    CHECK_INT(tar_append(&tar, "huge.npy", 8, data, huge, &offset, &err), SLIMSET_IO);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(strstr(err.text, "t.tar") != NULL);
    tar_abort(&tar);
    munmap(data, huge);
    uint8_t *p = NULL;
    size_t n = 0;
    CHECK_INT(io_read_file(dir, "t.tar", 1 << 20, &p, &n, &err), SLIMSET_OK);
    static const uint8_t want[12] = {0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0};
    CHECK(n >= 512 && memcmp(p + 124, want, 12) == 0);
    free(p);
}

static void test_full_device(void)
{
    int dev = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    uint64_t offset, bytes, hash;
    if (faccessat(dev, "full", W_OK, 0) != 0) {
        printf("skip test_full_device_write: no /dev/full\n");
        close(dev);
        return;
    }
    CHECK_INT(tar_create(&tar, dev, "full", &err), SLIMSET_OK);
    CHECK_INT(tar_append(&tar, "a", 1, "x", 1, &offset, &err), SLIMSET_OK); /* still buffered */
    CHECK_INT(tar_finish(&tar, &fd, &bytes, &hash, &err), SLIMSET_IO);
    CHECK(tar.fd == -1 && fd == -1);
    tar_abort(&tar); /* harmless */
    close(dev);
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    snprintf(dir_path, sizeof dir_path, "%s/test_tar.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir_path) == NULL ||
        (dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(dir_path);
        return 1;
    }
    RUN(test_header_bytes);
    RUN(test_listing);
    RUN(test_sizes);
    RUN(test_names);
    RUN(test_names_that_do_not_fit);
    RUN(test_content);
    RUN(test_empty_archive);
    RUN(test_huge_member);
    RUN(test_full_device);
    buf_fini(&tar.buffer);
    io_remove_tree(AT_FDCWD, dir_path, &err);
    return check_done();
}
