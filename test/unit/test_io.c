/* SPDX-License-Identifier: Apache-2.0
 *
 * base/io.h and base/hash.h. An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "check.h"

static int dir = -1;
static struct slimset_error err;

static bool exists(const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void put_file(const char *name, const char *text)
{
    int fd;
    CHECK_INT(io_create(dir, name, &fd, &err), SLIMSET_OK);
    CHECK_INT(io_write(fd, text, strlen(text), name, &err), SLIMSET_OK);
    CHECK_INT(io_close(fd, name, &err), SLIMSET_OK);
}

/* Values of the algorithm's published description (seed 0), one for each of its paths by length. */
static void test_hash_values(void)
{
    CHECK(hash_bytes(NULL, 0) == 0x2d06800538d394c2u);
    CHECK(hash_bytes("", 0) == 0x2d06800538d394c2u);
    CHECK(hash_bytes("a", 1) == 0xe6c632b61e964e1fu);
    CHECK(hash_bytes("abc", 3) == 0x78af5f94892f3950u);
}

static void test_hash_in_pieces(void)
{
    enum { N = 5000 };
    uint8_t *p = malloc(N);
    struct hash_stream h;
    for (size_t i = 0; i < N; i++)
        p[i] = (uint8_t)(i * 31 + (i >> 5));
    for (size_t n = 0; n < N; n += 1 + n / 7) {
        hash_init(&h);
        for (size_t at = 0, step = 1; at < n; at += step, step = step % 97 + 13)
            hash_update(&h, p + at, n - at < step ? n - at : step);
        CHECK(hash_value(&h) == hash_bytes(p, n));
    }
    hash_init(&h); /* the value may be asked for on the way */
    hash_update(&h, p, 300);
    CHECK(hash_value(&h) == hash_bytes(p, 300));
    hash_update(&h, p + 300, 2000);
    CHECK(hash_value(&h) == hash_bytes(p, 2300));
    free(p);
}

static void test_write_and_read(void)
{
    int fd;
    uint8_t back[16];
    size_t got;
    CHECK_INT(io_create(dir, "f", &fd, &err), SLIMSET_OK);
    CHECK_INT(io_write(fd, "hello", 5, "f", &err), SLIMSET_OK);
    CHECK_INT(io_pwrite(fd, "HE", 2, 0, "f", &err), SLIMSET_OK);
    CHECK_INT(io_pwrite(fd, "!", 1, 8, "f", &err), SLIMSET_OK);
    CHECK_INT(io_fsync(fd, "f", &err), SLIMSET_OK);
    CHECK_INT(io_syncfs(fd, "f", &err), SLIMSET_OK);
    CHECK_INT(io_pread(fd, back, sizeof back, 0, &got, "f", &err), SLIMSET_OK);
    CHECK_INT(got, 9);
    CHECK(memcmp(back, "HEllo\0\0\0!", 9) == 0);
    CHECK_INT(io_pread(fd, back, 3, 9, &got, "f", &err), SLIMSET_OK);
    CHECK_INT(got, 0);
    CHECK_INT(io_pread(fd, back, 3, UINT64_MAX - 1, &got, "f", &err), SLIMSET_OK);
    CHECK_INT(got, 0);
    CHECK_INT(io_pwrite(fd, "x", 1, UINT64_MAX - 1, "f", &err), SLIMSET_IO);
    CHECK_INT(err.os_errno, EFBIG);
    CHECK_INT(io_close(fd, "f", &err), SLIMSET_OK);
    CHECK_INT(io_close(-1, "f", &err), SLIMSET_OK);
    CHECK_INT(io_create(dir, "f", &fd, &err), SLIMSET_OK); /* truncates */
    CHECK_INT(lseek(fd, 0, SEEK_END), 0);
    CHECK_INT(io_close(fd, "f", &err), SLIMSET_OK);
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* A reader that is slow and signals that come all the time: short writes and EINTR must not lose a
 * byte. */
static void test_interrupted_writes(void)
{
    enum { N = 1 << 20 };
    int p[2];
    CHECK_INT(pipe(p), 0);
    pid_t child = fork();
    if (child == 0) {
        uint8_t b[4096];
        uint32_t n = 0, bad = 0;
        close(p[1]);
        for (ssize_t k; (k = read(p[0], b, sizeof b)) > 0;) {
            for (ssize_t i = 0; i < k; i++, n++)
                bad += b[i] != (uint8_t)(n * 7);
            usleep(200);
        }
        _exit(n == N && bad == 0 ? 0 : 1);
    }
    close(p[0]);
    uint8_t *data = malloc(N);
    for (uint32_t i = 0; i < N; i++)
        data[i] = (uint8_t)(i * 7);
    struct sigaction act = {.sa_handler = on_alarm}, old;
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &act, &old); /* no SA_RESTART */
    setitimer(ITIMER_REAL, &often, NULL);
    CHECK_INT(io_write(p[1], data, N, "pipe", &err), SLIMSET_OK);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    close(p[1]);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_INT(status, 0);
    free(data);
}

/* The text names the file and the reason; nothing is retried on a full device. */
static void test_full_device(void)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    CHECK_INT(io_write(fd, "x", 1, "OUT/train-00000.tar", &err), SLIMSET_IO);
    CHECK_INT(err.os_errno, ENOSPC);
    CHECK_STR(err.text, "cannot write OUT/train-00000.tar: No space left on device");
    close(fd);
}

static void test_file_size_limit(void)
{
    struct rlimit old, small;
    int fd;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(io_create(dir, "big", &fd, &err), SLIMSET_OK);
    setrlimit(RLIMIT_FSIZE, &small);
    char block[1500] = {0};
    /* The first 1,000 bytes go through, then comes the error. */
    CHECK_INT(io_write(fd, block, sizeof block, "big", &err), SLIMSET_IO);
    CHECK_INT(err.os_errno, EFBIG);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    CHECK_INT(io_close(fd, "big", &err), SLIMSET_OK);
}

static void test_create_refuses_links(void)
{
    int fd;
    put_file("source", "precious");
    CHECK_INT(symlinkat("source", dir, "link"), 0);
    CHECK_INT(io_create(dir, "link", &fd, &err), SLIMSET_IO);
    uint8_t *data;
    size_t n;
    CHECK_INT(io_read_file(dir, "source", 100, &data, &n, &err), SLIMSET_OK);
    CHECK_STR((char *)data, "precious");
    free(data);
}

static void test_rename_and_unlink(void)
{
    put_file("a", "1");
    CHECK_INT(io_rename(dir, "a", dir, "b", &err), SLIMSET_OK);
    CHECK(!exists("a") && exists("b"));
    CHECK_INT(io_rename(dir, "a", dir, "b", &err), SLIMSET_IO);
    CHECK_INT(io_unlink(dir, "b", &err), SLIMSET_OK);
    CHECK_INT(io_unlink(dir, "b", &err), SLIMSET_OK); /* not there is fine */
    CHECK(!exists("b"));
    CHECK_INT(io_sync_dir(dir, ".", &err), SLIMSET_OK);
    CHECK_INT(io_sync_dir(dir, "nowhere", &err), SLIMSET_IO);
}

static void test_mkdirs(void)
{
    CHECK_INT(io_mkdirs(dir, "m/n/o", &err), SLIMSET_OK);
    CHECK_INT(io_mkdirs(dir, "m/n/o", &err), SLIMSET_OK);
    CHECK_INT(io_mkdirs(dir, "m/p/", &err), SLIMSET_OK);
    CHECK(exists("m/n/o") && exists("m/p"));
    put_file("m/file", "x");
    CHECK_INT(io_mkdirs(dir, "m/file/q", &err), SLIMSET_IO);
    CHECK_INT(err.os_errno, ENOTDIR);
    char *name = malloc(5000); /* "a/a/a/...": every component is short, the path is not */
    for (size_t i = 0; i < 4999; i++)
        name[i] = i % 2 ? '/' : 'a';
    name[4999] = '\0';
    CHECK_INT(io_mkdirs(dir, name, &err), SLIMSET_IO);
    free(name);
}

static void test_remove_tree(void)
{
    CHECK_INT(io_mkdirs(dir, "outside", &err), SLIMSET_OK);
    put_file("outside/kept", "x");
    CHECK_INT(io_mkdirs(dir, "t/a/b", &err), SLIMSET_OK);
    CHECK_INT(io_mkdirs(dir, "t/empty", &err), SLIMSET_OK);
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof name, "t/a/%d", i);
        put_file(name, "x");
    }
    CHECK_INT(symlinkat("../outside", dir, "t/link"), 0);
    CHECK_INT(mkfifoat(dir, "t/a/b/fifo", 0600), 0);
    CHECK_INT(io_remove_tree(dir, "t", &err), SLIMSET_OK);
    CHECK(!exists("t"));
    CHECK(exists("outside/kept")); /* links are removed, never followed */
    CHECK_INT(io_remove_tree(dir, "t", &err), SLIMSET_OK);
    CHECK_INT(io_remove_tree(dir, "outside/kept", &err), SLIMSET_OK);
    CHECK(!exists("outside/kept"));
    CHECK_INT(symlinkat("outside", dir, "l2"), 0);
    CHECK_INT(io_remove_tree(dir, "l2", &err), SLIMSET_OK);
    CHECK(!exists("l2") && exists("outside"));
}

static void test_read_file(void)
{
    uint8_t *data = NULL;
    size_t n = 0;
    put_file("r", "0123456789");
    CHECK_INT(io_read_file(dir, "r", 10, &data, &n, &err), SLIMSET_OK);
    CHECK_INT(n, 10);
    CHECK_STR((char *)data, "0123456789");
    free(data);
    CHECK_INT(io_read_file(dir, "r", 9, &data, &n, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TOO_LARGE);
    CHECK_INT(io_read_file(dir, "none", 9, &data, &n, &err), SLIMSET_NOT_FOUND);
    CHECK_INT(io_read_file(dir, ".", 9, &data, &n, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(mkfifoat(dir, "fifo", 0600), 0);
    /* and does not hang */
    CHECK_INT(io_read_file(dir, "fifo", 9, &data, &n, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_NOT_REGULAR);
    put_file("empty", "");
    CHECK_INT(io_read_file(dir, "empty", 0, &data, &n, &err), SLIMSET_OK);
    CHECK_INT(n, 0);
    free(data);
}

int main(int argc, char **argv)
{
    const char *base = argc > 1 ? argv[1] : getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    char path[4096];
    snprintf(path, sizeof path, "%s/test_io.XXXXXX", base);
    if (mkdtemp(path) == NULL || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        perror(path);
        return 1;
    }
    RUN(test_hash_values);
    RUN(test_hash_in_pieces);
    RUN(test_write_and_read);
    RUN(test_interrupted_writes);
    RUN(test_full_device);
    RUN(test_file_size_limit);
    RUN(test_create_refuses_links);
    RUN(test_rename_and_unlink);
    RUN(test_mkdirs);
    RUN(test_remove_tree);
    RUN(test_read_file);
    close(dir);
    CHECK_INT(io_remove_tree(AT_FDCWD, path, &err), SLIMSET_OK);
    return check_done();
}
