/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox.h from the inside: a child enters it and tries what a decoder that has been taken over
 * would try. Each attempt must fail or end the child. What honest work needs must still be
 * possible. An argument names the folder for scratch files, else $TMPDIR or /tmp.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "check.h"

enum { GOT_THROUGH = 40, REFUSED = 41, NO_SECCOMP = 42 };

static char folder[300], victim[400];
static struct slimset_error err;
static int file_fd = -1, listener = -1, spare_socket = -1;
static pid_t parent;
static unsigned available;
static int abi;

/* --- attempts: true when it got through ------------------------------------------------------- */

static bool open_read(void) { return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0; }
static bool open_own(void) { return open(victim, O_RDONLY | O_CLOEXEC) >= 0; }
static bool open_proc(void) { return open("/proc/self/mem", O_RDWR | O_CLOEXEC) >= 0; }
static bool open_new(void)
{
    return openat(AT_FDCWD, "made", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0;
}
static bool open_folder(void) { return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0; }
static bool open_tmpfile(void) { return open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) >= 0; }
static bool open_raw(void)
{
#ifdef SYS_open
    return syscall(SYS_open, "/etc/passwd", O_RDONLY, 0) >= 0;
#else
    return false;
#endif
}
static bool open_2(void)
{
#ifdef SYS_openat2
    uint64_t how[3] = {O_RDONLY, 0, 0};
    return syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", how, sizeof how) >= 0;
#else
    return false;
#endif
}
static bool write_file(void) { return write(file_fd, "x", 1) == 1; }
static bool pwrite_file(void) { return pwrite(file_fd, "x", 1, 100) == 1; }
static bool pwritev_file(void)
{
    struct iovec v = {.iov_base = (char[]){"x"}, .iov_len = 1};
    return pwritev(file_fd, &v, 1, 0) == 1;
}
static bool grow_file(void) { return ftruncate(file_fd, 1 << 20) == 0; }
static bool allocate_file(void) { return fallocate(file_fd, 0, 0, 1 << 20) == 0; }
static bool remove_file(void) { return unlink(victim) == 0; }
static bool rename_file(void) { return rename(victim, "moved") == 0; }
static bool link_file(void) { return link(victim, "linked") == 0; }
static bool symlink_file(void) { return symlink(victim, "linked") == 0; }
static bool make_folder(void) { return mkdir("made", 0700) == 0; }
static bool change_mode(void) { return chmod(victim, 0777) == 0 || fchmod(file_fd, 0777) == 0; }
static bool truncate_path(void) { return truncate(victim, 0) == 0; }
static bool change_folder(void) { return chdir("/") == 0; }

static bool make_socket(void) { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0; }
static bool make_unix_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0; }
static bool make_pair(void)
{
    int p[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0;
}
static bool connect_inherited(void) /* to an abstract socket that really listens */
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof a;
    if (getsockname(listener, (struct sockaddr *)&a, &n) != 0) {
        n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1);
        n += (socklen_t)sprintf(a.sun_path + 1, "slimset-test-%d", (int)parent);
    }
    return connect(spare_socket, (struct sockaddr *)&a, n) == 0;
}
static bool bind_inherited(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0slimset-other"};
    return bind(spare_socket, (struct sockaddr *)&a, sizeof a) == 0;
}

static bool exec_program(void)
{
    char *argv[] = {(char[]){"/bin/true"}, NULL}, *env[] = {NULL};
    execve(argv[0], argv, env); /* exits with 0 when it works: counted as through, below */
    return false;
}
static bool exec_descriptor(void)
{
    char *argv[] = {(char[]){"x"}, NULL}, *env[] = {NULL};
    syscall(SYS_execveat, file_fd, "", argv, env, AT_EMPTY_PATH);
    return false;
}
static bool fork_child(void)
{
    pid_t p = fork();
    if (p == 0)
        _exit(0);
    return p > 0;
}
static bool fork_raw(void)
{
#ifdef SYS_fork
    long p = syscall(SYS_fork);
    if (p == 0)
        _exit(0);
    return p > 0;
#else
    return false;
#endif
}
static bool clone_raw(void)
{
    long p = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (p == 0)
        _exit(0);
    return p > 0;
}
static bool clone_3(void)
{
#ifdef SYS_clone3
    uint64_t args[8] = {0, 0, 0, 0, SIGCHLD, 0, 0, 0};
    long p = syscall(SYS_clone3, args, sizeof args);
    if (p == 0)
        _exit(0);
    return p > 0;
#else
    return false;
#endif
}
static bool new_namespace(void)
{
    return syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */) == 0;
}

static bool trace_parent(void) { return ptrace(PTRACE_ATTACH, parent, NULL, NULL) == 0; }
static bool trace_me(void) { return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0; }
static bool signal_parent(void) { return kill(parent, 0) == 0; }
static bool signal_group(void) { return kill(0, 0) == 0; }
static bool signal_thread(void) { return syscall(SYS_tgkill, parent, parent, 0) == 0; }
static bool open_pid(void)
{
#ifdef SYS_pidfd_open
    return syscall(SYS_pidfd_open, parent, 0) >= 0;
#else
    return false;
#endif
}
static bool read_parent(void)
{
    char c;
    struct iovec to = {.iov_base = &c, .iov_len = 1}, from = {.iov_base = folder, .iov_len = 1};
    return process_vm_readv(parent, &to, 1, &from, 1, 0) == 1;
}
static bool write_parent(void)
{
    char c = 'x';
    struct iovec from = {.iov_base = &c, .iov_len = 1}, to = {.iov_base = folder, .iov_len = 1};
    return process_vm_writev(parent, &from, 1, &to, 1, 0) == 1;
}
static bool limit_parent(void)
{
    struct rlimit r;
    return prlimit(parent, RLIMIT_CORE, NULL, &r) == 0;
}

static bool raise_limit(void)
{
    return setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 1024}) == 0;
}
static bool terminal(void)
{
    char c = 'x';
    return ioctl(0, TIOCSTI, &c) == 0;
}
static bool file_flags(void)
{
    int flags;
    return ioctl(file_fd, _IOR('f', 1, long), &flags) == 0;
}
static bool control(void) { return prctl(PR_SET_NAME, "x", 0, 0, 0) == 0; }
static bool user_id(void) { return syscall(SYS_setuid, 65534) == 0; }
static bool mount_something(void) { return syscall(SYS_mount, "x", "/mnt", "tmpfs", 0, NULL) == 0; }
static bool ring(void)
{
#ifdef SYS_io_uring_setup
    char params[120] = {0};
    return syscall(SYS_io_uring_setup, 1, params) >= 0;
#else
    return false;
#endif
}
static bool memory_file(void) { return memfd_create("x", MFD_CLOEXEC) >= 0; }
static bool shared_segment(void) { return syscall(SYS_shmget, 0, 4096, 01600) >= 0; }
static bool fault_handler(void)
{
#ifdef SYS_userfaultfd
    return syscall(SYS_userfaultfd, O_CLOEXEC) >= 0;
#else
    return false;
#endif
}
static bool key_ring(void) { return syscall(SYS_keyctl, 0, -3, 0, 0, 0) >= 0; }
static bool x32_call(void)
{
#if defined(__x86_64__)
    return syscall(0x40000000 | 41, AF_UNIX, SOCK_STREAM, 0) >= 0;
#else
    return false;
#endif
}
static bool call_32_bits(void) /* the other system call table: its numbers mean other things */
{
#if defined(__x86_64__)
    long r;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(20 /* getpid */)
                     : "memory", "r8", "r9", "r10", "r11");
    return r > 0;
#else
    return false;
#endif
}

static void *nothing(void *arg) { return arg; }
static bool start_thread(void)
{
    pthread_t t;
    return pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0;
}
static bool map_code(void)
{
    void *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED;
}
static bool turn_into_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0;
}

/* --- what honest work needs: true when it works ----------------------------------------------- */

static bool memory_works(void)
{
    size_t n = 64 << 20;
    char *p = malloc(n), *q;
    if (p == NULL)
        return false;
    memset(p, 1, n);
    q = realloc(p, 2 * n);
    bool ok = q != NULL && q[n - 1] == 1;
    free(q);
    return ok;
}
static bool reading_works(void)
{
    char text[8] = "";
    struct stat st;
    return pread(file_fd, text, 6, 0) == 6 && memcmp(text, "victim", 6) == 0 &&
           fstat(file_fd, &st) == 0;
}
static bool clock_works(void)
{
    struct timespec ts;
    return clock_gettime(CLOCK_MONOTONIC, &ts) == 0 &&
           clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0;
}
static bool closing_works(void) { return close(spare_socket) == 0; }

/* --- running them ----------------------------------------------------------------------------- */

typedef bool attempt_fn(void);

/* How the child ended: an exit status, or minus the signal. */
static int run_in(enum sandbox_profile profile, attempt_fn *attempt)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN); /* so that the call itself answers */
        unsigned layers = sandbox_enter(profile, 0);
        if (!(layers & SANDBOX_SECCOMP))
            _exit(NO_SECCOMP);
        _exit(attempt() ? GOT_THROUGH : REFUSED);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

struct attempt {
    const char *name;
    attempt_fn *fn;
    bool kills; /* ends the process rather than answering */
};

#define TRY(fn)                                                                                    \
    {                                                                                              \
#fn, fn, false                                                                             \
    }
#define DIE(fn)                                                                                    \
    {                                                                                              \
#fn, fn, true                                                                              \
    }

static const struct attempt attempts[] = {
    TRY(open_read),       TRY(open_own),
    TRY(open_proc),       TRY(open_new),
    TRY(open_folder),     TRY(open_tmpfile),
    TRY(open_raw),        TRY(open_2),
    TRY(pwritev_file),    TRY(allocate_file),
    TRY(remove_file),     TRY(rename_file),
    TRY(link_file),       TRY(symlink_file),
    TRY(make_folder),     TRY(change_mode),
    TRY(truncate_path),   TRY(change_folder),
    DIE(make_socket),     DIE(make_unix_socket),
    TRY(make_pair),       DIE(connect_inherited),
    TRY(bind_inherited),  DIE(exec_program),
    DIE(exec_descriptor), TRY(fork_child),
    TRY(fork_raw),        TRY(clone_raw),
    TRY(clone_3),         TRY(new_namespace),
    DIE(trace_parent),    DIE(trace_me),
    TRY(signal_parent),   TRY(signal_group),
    TRY(signal_thread),   TRY(open_pid),
    DIE(read_parent),     DIE(write_parent),
    TRY(limit_parent),    TRY(raise_limit),
    TRY(terminal),        TRY(file_flags),
    TRY(control),         TRY(user_id),
    TRY(mount_something), TRY(ring),
    TRY(memory_file),     TRY(shared_segment),
    TRY(fault_handler),   TRY(key_ring),
    TRY(x32_call),        TRY(call_32_bits),
};

static void refuse_all(enum sandbox_profile profile)
{
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        int end = run_in(profile, attempts[i].fn);
        bool refused = end == REFUSED || end == -SIGSYS || end == -SIGSEGV;
        if (!refused || (attempts[i].kills && end != -SIGSYS))
            printf("  %s ended with %d\n", attempts[i].name, end);
        CHECK(refused);
        CHECK(!attempts[i].kills || end == -SIGSYS);
    }
}

static bool refuses(enum sandbox_profile profile, attempt_fn *fn)
{
    int end = run_in(profile, fn);
    return end == REFUSED || end == -SIGSYS;
}

static bool allows(enum sandbox_profile profile, attempt_fn *fn)
{
    int end = run_in(profile, fn);
    if (end != GOT_THROUGH)
        printf("  ended with %d\n", end);
    return end == GOT_THROUGH;
}

static bool no_seccomp(const char *name)
{
    if (available & SANDBOX_SECCOMP)
        return false;
    printf("skip %s: this kernel or build has no seccomp\n", name);
    return true;
}

/* Without the sandbox the same attempts get through: else they would prove nothing. */
static void test_attempts_are_real(void)
{
    attempt_fn *const harmless[] = {open_read,         open_own,    open_folder,  open_raw,
                                    write_file,        grow_file,   make_pair,    make_unix_socket,
                                    connect_inherited, fork_child,  clone_raw,    signal_parent,
                                    memory_file,       control,     start_thread, map_code,
                                    turn_into_code,    make_folder, limit_parent};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(harmless[i]() ? GOT_THROUGH : REFUSED);
        int status = 0;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != GOT_THROUGH)
            printf("  number %zu\n", i);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == GOT_THROUGH);
    }
    rmdir("made");
    CHECK_INT(ftruncate(file_fd, 0), 0);
    CHECK_INT(pwrite(file_fd, "victim", 6, 0), 6);
    CHECK_INT(lseek(file_fd, 0, SEEK_SET), 0);
}

static void test_fast(void)
{
    if (no_seccomp(__func__))
        return;
    refuse_all(SANDBOX_FAST);
    CHECK(refuses(SANDBOX_FAST, write_file));
    CHECK(refuses(SANDBOX_FAST, pwrite_file));
    CHECK(refuses(SANDBOX_FAST, grow_file));
    CHECK(refuses(SANDBOX_FAST, start_thread));
}

static void test_slow(void)
{
    if (no_seccomp(__func__))
        return;
    refuse_all(SANDBOX_SLOW);
    CHECK(refuses(SANDBOX_SLOW, write_file));
    CHECK(refuses(SANDBOX_SLOW, pwrite_file));
    CHECK(refuses(SANDBOX_SLOW, grow_file));
    CHECK(allows(SANDBOX_SLOW, start_thread)); /* libvips starts some for its first image */
}

/* Where requests bring files for large payloads a worker may write what it was given, and nothing else is let through. */
static void test_spills(void)
{
    if (no_seccomp(__func__))
        return;
    refuse_all(SANDBOX_FAST_SPILLS);
    refuse_all(SANDBOX_SLOW_SPILLS);
    CHECK(allows(SANDBOX_FAST_SPILLS, pwrite_file));
    CHECK(allows(SANDBOX_SLOW_SPILLS, pwrite_file));
    CHECK(refuses(SANDBOX_FAST_SPILLS, start_thread));
    CHECK(allows(SANDBOX_SLOW_SPILLS, start_thread));
    CHECK_INT(ftruncate(file_fd, 0), 0); /* as it was, for the tests that look at it */
    CHECK_INT(pwrite(file_fd, "victim", 6, 0), 6);
    CHECK_INT(lseek(file_fd, 0, SEEK_SET), 0);
}

static void test_list(void)
{
    if (no_seccomp(__func__))
        return;
    refuse_all(SANDBOX_LIST);
    CHECK(refuses(SANDBOX_LIST, start_thread));
    CHECK(allows(SANDBOX_LIST, pwrite_file)); /* the spool grows */
    CHECK(allows(SANDBOX_LIST, grow_file));
}

/* The fast worker needs no code made at run time: data of a picture stays data. */
static void test_fast_makes_no_code(void)
{
    if (no_seccomp(__func__))
        return;
    CHECK(refuses(SANDBOX_FAST, map_code));
    CHECK(refuses(SANDBOX_FAST, turn_into_code));
}

static void test_work_goes_on(void)
{
    attempt_fn *const needs[] = {memory_works, reading_works, clock_works, closing_works};
    for (int profile = SANDBOX_FAST; profile <= SANDBOX_LIST; profile++)
        for (size_t i = 0; i < sizeof needs / sizeof needs[0] && !no_seccomp(__func__); i++)
            CHECK(allows((enum sandbox_profile)profile, needs[i]));
}

/* The victim is as it was, after all that a fast and a slow worker tried. */
static void test_nothing_happened(void)
{
    char text[16] = "";
    int fd = open(victim, O_RDONLY | O_CLOEXEC);
    CHECK_INT(pread(fd, text, sizeof text, 0), 6);
    CHECK_STR(text, "victim");
    close(fd);
}

static void test_layers(void)
{
    CHECK(available & SANDBOX_NO_NEW_PRIVS);
    CHECK(available & SANDBOX_LIMITS);
    CHECK_INT((available & SANDBOX_LANDLOCK) != 0, abi > 0);
    for (int profile = SANDBOX_FAST; profile <= SANDBOX_LIST; profile++) {
        pid_t child = fork();
        if (child == 0) /* what is in force is what the kernel was said to give */
            _exit((int)sandbox_enter((enum sandbox_profile)profile, 0));
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status));
        CHECK_INT(WEXITSTATUS(status), available);
    }
}

static unsigned long status_of(pid_t pid, const char *name)
{
    char path[64], line[200];
    unsigned long value = 999;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = strtoul(line + strlen(name) + 1, NULL, 10);
    if (f != NULL)
        fclose(f);
    return value;
}

/* Seen from outside: the limits, and the flags the kernel keeps. */
static void test_limits(void)
{
    for (int profile = SANDBOX_FAST; profile <= SANDBOX_LIST; profile++) {
        int p[2], q[2];
        char c;
        struct rlimit r;
        CHECK_INT(pipe2(p, O_CLOEXEC), 0);
        CHECK_INT(pipe2(q, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) {
            sandbox_enter((enum sandbox_profile)profile, (uint64_t)300 << 20);
            c = write(p[1], "x", 1) == 1 ? 0 : 1;
            _exit(read(q[0], &c, 1) == 1 ? c : 1);
        }
        CHECK_INT(read(p[0], &c, 1), 1);
        CHECK_INT(status_of(child, "NoNewPrivs"), 1);
        CHECK_INT(status_of(child, "Seccomp"), available & SANDBOX_SECCOMP ? 2 : 0);
        CHECK_INT(prlimit(child, RLIMIT_CORE, NULL, &r), 0);
        CHECK(r.rlim_cur == 0 && r.rlim_max == 0);
        CHECK_INT(prlimit(child, RLIMIT_NOFILE, NULL, &r), 0);
        CHECK(r.rlim_max <= 512);
        CHECK_INT(prlimit(child, RLIMIT_FSIZE, NULL, &r), 0);
        CHECK_INT(r.rlim_max == 0, profile != SANDBOX_LIST);
#if !defined(__SANITIZE_ADDRESS__)
        CHECK_INT(prlimit(child, RLIMIT_AS, NULL, &r), 0);
        CHECK_INT(r.rlim_max, (uint64_t)300 << 20);
#endif
        CHECK_INT(write(q[1], "", 1), 1);
        int status = 1;
        waitpid(child, &status, 0);
        CHECK_INT(status, 0);
        close(p[0]), close(p[1]), close(q[0]), close(q[1]);
    }
}

/* Memory beyond the limit is refused as memory, not by a signal. */
static void test_address_space(void)
{
#if defined(__SANITIZE_ADDRESS__)
    printf("skip test_address_space: sanitizers need the address space\n");
#else
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(SANDBOX_FAST, (uint64_t)300 << 20);
        void *little = malloc(16 << 20);
        void *volatile much = malloc((size_t)400 << 20);
        _exit(little != NULL && much == NULL ? REFUSED : GOT_THROUGH);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), REFUSED);
#endif
}

/* A descriptor that comes over the socket can be read: this is how inputs arrive. */
static void test_received_descriptor(void)
{
    int pair[2], status = 1;
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t child = fork();
    if (child == 0) {
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } control_room;
        char c, text[6];
        struct iovec v = {.iov_base = &c, .iov_len = 1};
        struct msghdr m = {.msg_iov = &v,
                           .msg_iovlen = 1,
                           .msg_control = control_room.bytes,
                           .msg_controllen = sizeof control_room.bytes};
        int fd = -1;
        close(file_fd);
        sandbox_enter(SANDBOX_FAST, 0);
        if (recvmsg(pair[1], &m, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&m) == NULL)
            _exit(1);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
        if (pread(fd, text, 6, 0) != 6 || memcmp(text, "victim", 6) != 0)
            _exit(2);
        m = (struct msghdr){.msg_iov = &v, .msg_iovlen = 1};
        _exit(sendmsg(pair[1], &m, MSG_NOSIGNAL) == 1 ? 0 : 3);
    }
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control_room = {{0}};
    char c = 'x';
    struct iovec v = {.iov_base = &c, .iov_len = 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control_room.bytes,
                       .msg_controllen = sizeof control_room.bytes};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &file_fd, sizeof file_fd);
    CHECK_INT(sendmsg(pair[0], &m, 0), 1);
    close(pair[1]);
    CHECK_INT(recv(pair[0], &c, 1, 0), 1);
    waitpid(child, &status, 0);
    CHECK_INT(status, 0);
    close(pair[0]);
}

int main(int argc, char **argv)
{
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/test_sandbox.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        perror(folder);
        return 1;
    }
    snprintf(victim, sizeof victim, "%s/victim", folder);
    parent = getpid();
    available = sandbox_available(&abi);
    printf("  layers 0x%x, Landlock %d\n", available, abi);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1);
    n += (socklen_t)sprintf(a.sun_path + 1, "slimset-test-%d", (int)parent);
    file_fd = open(victim, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    spare_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (write(file_fd, "victim", 6) != 6 || bind(listener, (struct sockaddr *)&a, n) != 0 ||
        listen(listener, 100) != 0) {
        perror("setting up");
        return 1;
    }
    RUN(test_attempts_are_real);
    RUN(test_layers);
    RUN(test_limits);
    RUN(test_address_space);
    RUN(test_received_descriptor);
    RUN(test_work_goes_on);
    RUN(test_fast);
    RUN(test_slow);
    RUN(test_fast_makes_no_code);
    RUN(test_nothing_happened);
    RUN(test_spills);
    RUN(test_list);
    if (chdir("/") == 0)
        io_remove_tree(AT_FDCWD, folder, &err);
    return check_done();
}
