/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that were taken over, seen through the real pool: the real loop of a worker, in its real
 * sandbox, whose decoder is the attacker. This program is its own worker, as in test_pool.c; the
 * behaviour of a request is in the second byte of its ticket. Descriptor 200 holds memory that the
 * worker and the test share, mapped before the worker closes what it does not need.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "convert.h"

static enum slimset_status hostile_item(struct converter *c, const struct item_request *req, const int *fds, struct buf *blob,
                                        struct slimset_error *err);

#define convert_item hostile_item
#include "../../src/worker.c" /* its loop, with the decoder exchanged */
#undef convert_item

#include "base/io.h"
#include "check.h"
#include "listing.h"
#include "pool.h"
#include "process.h"

enum { SCRIPT_FD = 200 };

enum behaviour {
    HONEST,
    /* attacks on the system */
    OPENS, CREATES, OPENS_MEMORY, WRITES_INPUT, CUTS_INPUT, FORKS, MAKES_THREAD, SIGNALS, LIMITS_PARENT, MAKES_CODE, MAKES_MEMORY, PAIRS,
    SOCKET, CONNECTS, EXECUTES, TRACES, READS_PARENT,
    /* lies to the coordinator */
    OTHER_SLOT, OTHER_TICKET, AHEAD, TWICE, TOO_LONG, ENDLESS, LONG_MESSAGE, DESCRIPTORS, REWRITES,
    FILLS, /* the disk, through its spill */
    STAYS  /* answers, and then never ends */
};

enum { NOT_TRIED, REFUSED, GOT_THROUGH };

struct script {
    uint8_t tried[256];
    volatile uint8_t outcome[32], stop, lister;
};
static struct script *script;
static uint8_t *slots_here; /* where the worker has them */

/* --- inside the worker ------------------------------------------------------------------------ */

static bool attack(enum behaviour b, int input)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct rlimit r = {1, 1};
    char c = 0;
    char *const none[] = {NULL};
    struct iovec v = {&c, 1}, from = {&script, 1};
    int pair[2];
    switch (b) {
    case OPENS: return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0;
    case CREATES: return open("hostile-made", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0;
    case OPENS_MEMORY: return open("/proc/self/mem", O_RDWR | O_CLOEXEC) >= 0;
    case WRITES_INPUT: return pwrite(input, "x", 1, 0) == 1;
    case CUTS_INPUT: return ftruncate(input, 0) == 0;
    case FORKS: {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        return child > 0;
    }
    case MAKES_THREAD: return syscall(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL, NULL, NULL, NULL) > 0;
    case SIGNALS: return kill(getppid(), 0) == 0;
    case LIMITS_PARENT: return prlimit(getppid(), RLIMIT_CORE, &r, NULL) == 0;
    case MAKES_CODE: return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    case MAKES_MEMORY: return memfd_create("hostile", MFD_CLOEXEC) >= 0;
    case PAIRS: return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
    case SOCKET: return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
    case CONNECTS: return connect(WORKER_SOCKET, (struct sockaddr *)&a, sizeof a) == 0;
    case EXECUTES: return execve("/bin/true", none, none) == 0;
    case TRACES: return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
    case READS_PARENT: return process_vm_readv(getppid(), &v, 1, &from, 1, 0) == 1;
    default: return false;
    }
}

/* The answer as the loop would send it, with the blob already in the slot. */
static void lie(enum behaviour b, const struct item_request *req, const struct buf *blob)
{
    struct {
        struct worker_answer a;
        uint64_t more;
    } m = {.a = {.ticket = req->ticket, .slot = req->slot, .blob_bytes = blob->len}};
    memcpy(slots_here + req->slot * WORKER_SLOT_BYTES, blob->data, blob->len);
    if (b == OTHER_SLOT || b == AHEAD)
        m.a.slot++;
    if (b == OTHER_TICKET || b == AHEAD)
        m.a.ticket = (m.a.ticket & 255) + 1; /* of the next one, which is honest */
    if (b == TOO_LONG)
        m.a.blob_bytes = WORKER_SLOT_BYTES + 1;
    if (b == ENDLESS)
        m.a.blob_bytes = UINT64_MAX;
    if (b == DESCRIPTORS) {
        union {
            char bytes[CMSG_SPACE(50 * sizeof(int))];
            struct cmsghdr align;
        } control = {{0}};
        struct iovec v = {&m.a, sizeof m.a};
        struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(50 * sizeof(int));
        for (unsigned i = 0; i < 50; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &(int){WORKER_SOCKET}, sizeof(int));
        script->outcome[b] = sendmsg(WORKER_SOCKET, &h, MSG_NOSIGNAL) == sizeof m.a ? GOT_THROUGH : REFUSED;
        _exit(0);
    }
    if (!send_all(&m, b == LONG_MESSAGE ? sizeof m : sizeof m.a))
        _exit(7);
    for (uint32_t i = 0; b == REWRITES && !script->stop; i++) { /* every number in it, again and again */
        uint32_t *p = (uint32_t *)(void *)(slots_here + req->slot * WORKER_SLOT_BYTES);
        for (size_t k = 0; k < blob->len / 4; k++)
            p[k] = i * 2654435761u;
        script->outcome[b] = GOT_THROUGH;
    }
    if (b == REWRITES)
        _exit(0);
    if (b != TWICE) /* that one goes on, and the loop answers once more */
        for (;;)
            pause();
}

static enum slimset_status hostile_item(struct converter *c, const struct item_request *req, const int *fds, struct buf *blob,
                                        struct slimset_error *e)
{
    enum behaviour b = (enum behaviour)(req->ticket >> 8);
    script->tried[req->ticket & 255]++;
    if (b == FILLS) {
        signal(SIGXFSZ, SIG_IGN); /* so that it can tell how far it came */
        script->outcome[0] = pwrite(fds[1], "x", 1, (1 << 20) - 1) == 1 ? GOT_THROUGH : REFUSED;
        script->outcome[b] = pwrite(fds[1], "x", 1, 1 << 20) == 1 || ftruncate(fds[1], (off_t)1 << 40) == 0 ? GOT_THROUGH : REFUSED;
    }
    if (b > HONEST && b < OTHER_SLOT)
        script->outcome[b] = attack(b, fds[0]) ? GOT_THROUGH : REFUSED;
    enum slimset_status st = convert_item(c, req, fds, blob, e);
    if (st == SLIMSET_OK && b >= OTHER_SLOT && b != FILLS)
        lie(b, req, blob);
    return st;
}

/* --- the test's side -------------------------------------------------------------------------- */

static struct slimset_error err;
static struct slimset_recipe recipe;
static struct pool *pool;
static uint64_t culprit;
static unsigned answered, ok, crash_rejects;

static void open_pool(bool spills)
{
    slimset_recipe_init(&recipe);
    struct pool_settings s = {.recipe = &recipe, .jobs = 1, .spill_dir = -1, .spills = spills};
    answered = ok = crash_rejects = 0;
    memset(script, 0, sizeof *script);
    CHECK_INT(pool_open(&s, &pool, &err), SLIMSET_OK);
}

static struct item_request request(unsigned number, enum behaviour b)
{
    struct item_request r = {.ticket = (uint64_t)b << 8 | number, .op = ITEM_CONVERT, .n_inputs = 1, .n_fds = 1};
    r.input[0] = (struct item_input){.bytes = 9, .packed_bytes = 9, .role = SLIMSET_ROLE_COPY};
    return r;
}

static void submit(unsigned number, enum behaviour b)
{
    char text[16], path[64];
    struct item_request r = request(number, b);
    r.has_spill = b == FILLS;
    r.spill_mib = b == FILLS;
    snprintf(text, sizeof text, "number%03u", number);
    int w = memfd_create("input", MFD_CLOEXEC);
    CHECK_INT(io_write(w, text, 9, "input", &err), SLIMSET_OK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", w);
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* as the coordinator opens inputs */
    close(w);
    CHECK_INT(pool_submit(pool, &r, &fd, &err), SLIMSET_OK);
}

static void take(struct pool_answer *a)
{
    char text[16];
    answered++;
    snprintf(text, sizeof text, "number%03u", (unsigned)(a->ticket & 255));
    if (a->answer->status == SLIMSET_OK) {
        CHECK(item_fields(a->answer)->payload_bytes == 9 && memcmp(item_payload(a->answer), text, 9) == 0);
        ok++;
    } else {
        crash_rejects += a->answer->reject == SLIMSET_REJECT_DECODER_CRASH &&
                         memmem(item_text(a->answer), a->answer->text_bytes, "ystem call", 10) != NULL;
    }
    free(a->answer);
    if (a->spill_fd >= 0)
        close(a->spill_fd);
}

static enum slimset_status drain(void)
{
    enum slimset_status st = SLIMSET_OK;
    time_t end = time(NULL) + 20;
    memset(&err, 0, sizeof err);
    while (st == SLIMSET_OK && pool_in_flight(pool) > 0 && time(NULL) < end) {
        struct pool_answer a;
        bool got = false;
        st = pool_next(pool, 200, &a, &got, &culprit, &err);
        if (st == SLIMSET_OK && got)
            take(&a);
    }
    CHECK(st != SLIMSET_OK || pool_in_flight(pool) == 0);
    return st;
}

static unsigned open_fds(pid_t pid)
{
    unsigned n = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n - 2;
}

static pid_t only_child(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    CHECK(f != NULL && fscanf(f, "%d", &pid) == 1);
    if (f != NULL)
        fclose(f);
    return pid;
}

static size_t proc_file(pid_t pid, const char *name, char *text, size_t n)
{
    char path[64];
    size_t got = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(io_pread(fd, text, n - 1, 0, &got, path, &err), SLIMSET_OK);
    text[got] = '\0';
    close(fd);
    return got;
}

/* Nothing of ours is in a worker: no environment, no descriptor but /dev/null and its socket, no network. */
static void test_a_worker_has_nothing(void)
{
    char text[8192], path[64];
    int abi;
    setenv("SLIMSET_TEST_SECRET", "password", 1);
    int left_open = open("/etc/passwd", O_RDONLY); /* without CLOEXEC, as a careless caller has it */
    open_pool(false);
    submit(0, HONEST);
    CHECK_INT(drain(), SLIMSET_OK);
    pid_t pid = only_child();
    CHECK_INT(proc_file(pid, "environ", text, sizeof text), 0);
    CHECK_INT(proc_file(pid, "cmdline", text, sizeof text), sizeof "slimset-worker\0fast");
    CHECK(memcmp(text, "slimset-worker\0fast", sizeof "slimset-worker\0fast") == 0);
    CHECK_INT(open_fds(pid), 4);
    for (int fd = 0; fd < 4; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(path, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        CHECK(strncmp(text, fd < WORKER_SOCKET ? "/dev/null" : "socket:", 7) == 0);
    }
    proc_file(pid, "status", text, sizeof text);
    CHECK(strstr(text, "\nNoNewPrivs:\t1\n") != NULL);
    if (sandbox_available(&abi) & SANDBOX_SECCOMP)
        CHECK(strstr(text, "\nSeccomp:\t2\n") != NULL);
    pool_close(pool);
    close(left_open);
}

static void attacks(bool spills)
{
    for (enum behaviour b = OPENS; b < OTHER_SLOT; b++) {
        open_pool(spills);
        submit(1, HONEST);
        submit(2, b);
        submit(3, HONEST);
        CHECK_INT(drain(), SLIMSET_OK);
        const bool kills = b >= SOCKET;
        if (answered != 3 || script->outcome[b] != (kills ? NOT_TRIED : REFUSED))
            printf("  attack %d: outcome %d, %u answered\n", (int)b, script->outcome[b], answered);
        CHECK_INT(script->outcome[b], kills ? NOT_TRIED : REFUSED);
        CHECK_INT(ok, kills ? 2 : 3); /* the run goes on */
        CHECK_INT(crash_rejects, kills);
        CHECK_INT(script->tried[2], kills ? 2 : 1);
        pool_close(pool);
    }
    CHECK(access("hostile-made", F_OK) != 0);
}

static void test_attacks_are_refused(void)
{
    int abi;
    if (!(sandbox_available(&abi) & SANDBOX_SECCOMP)) {
        printf("skip test_attacks_are_refused: this kernel or build has no seccomp\n");
        return;
    }
    attacks(false);
    attacks(true);
}

static void test_lies_stop_the_run(void)
{
    static const enum behaviour lies[] = {OTHER_SLOT, OTHER_TICKET, AHEAD, TWICE, TOO_LONG, ENDLESS};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        open_pool(false);
        submit(1, lies[i]);
        submit(2, HONEST);
        submit(3, HONEST);
        CHECK_INT(drain(), SLIMSET_INTERNAL);
        CHECK(strstr(err.text, "a worker answered") != NULL);
        CHECK_INT(answered, lies[i] == TWICE);
        pool_close(pool);
    }
}

/* A message that is longer than an answer is none, whatever it begins with. */
static void test_long_message(void)
{
    open_pool(false);
    submit(1, LONG_MESSAGE);
    CHECK_INT(drain(), SLIMSET_LIMIT);
    CHECK_INT(answered, 0);
    CHECK_INT(script->tried[1], 2);
    pool_close(pool);
}

/* Descriptors that come with an answer do not stay with the coordinator. */
static void test_descriptors_are_dropped(void)
{
    open_pool(false);
    submit(1, HONEST);
    CHECK_INT(drain(), SLIMSET_OK);
    unsigned before = open_fds(getpid());
    submit(2, DESCRIPTORS);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK_INT(ok, 2);
    for (int ms = 0; ms < 5000 && script->outcome[DESCRIPTORS] == NOT_TRIED; ms++)
        usleep(1000); /* it tells after the answer */
    CHECK_INT(script->outcome[DESCRIPTORS], GOT_THROUGH);
    CHECK_INT(open_fds(getpid()), before);
    pool_close(pool);
}

/* The slot is rewritten while the coordinator reads it and afterwards: what it took is checked and stays. */
static void test_rewritten_slots(void)
{
    unsigned taken = 0, refused = 0;
    for (unsigned round = 0; round < 20; round++) {
        struct pool_answer a;
        struct item_request r = request(1, REWRITES);
        bool got = false;
        enum slimset_status st = SLIMSET_OK;
        open_pool(false);
        submit(1, REWRITES);
        for (int i = 0; i < 100 && st == SLIMSET_OK && !got; i++)
            st = pool_next(pool, 200, &a, &got, &culprit, &err);
        if (st == SLIMSET_OK && got) {
            size_t n = a.answer->blob_bytes;
            uint8_t *copy = malloc(n);
            memcpy(copy, a.answer, n);
            while (script->outcome[REWRITES] != GOT_THROUGH)
                usleep(1000);
            usleep(5000);
            CHECK(memcmp(copy, a.answer, n) == 0);
            CHECK_INT(item_answer_check(&r, copy, n, &err), SLIMSET_OK);
            free(copy);
            free(a.answer);
            taken++;
        } else {
            CHECK_INT(st, SLIMSET_INTERNAL);
            CHECK(err.text[0] != '\0');
            refused++;
        }
        script->stop = 1;
        pool_close(pool);
    }
    CHECK_INT(taken + refused, 20);
    printf("  %u taken, %u refused\n", taken, refused);
}

/* A spill holds what its request says and not a byte more. */
static void test_a_spill_does_not_fill_the_disk(void)
{
    open_pool(true);
    submit(1, FILLS);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK_INT(ok, 1);
    CHECK_INT(script->outcome[0], GOT_THROUGH);
    CHECK_INT(script->outcome[FILLS], REFUSED);
    pool_close(pool);
}

/* A worker that has answered everything and does not end holds nobody up. */
static void test_a_worker_that_stays_is_killed(void)
{
    open_pool(false);
    submit(1, STAYS);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK_INT(ok, 1);
    pid_t pid = only_child();
    alarm(30); /* else this would wait for ever */
    pool_close(pool);
    alarm(0);
    CHECK(kill(pid, 0) != 0);
}

/* What is no hello, or no request, ends a worker with the status that says so. */
static void test_workers_check_what_they_are_sent(void)
{
    for (int k = 0; k < 2; k++) {
        int pair[2], pid, status = 0;
        int fd = memfd_create("slots", MFD_CLOEXEC);
        struct worker_hello hello = {.recipe = recipe};
        CHECK(ftruncate(fd, (off_t)(WORKER_SLOTS * WORKER_SLOT_BYTES)) == 0);
        CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        CHECK_INT(process_start("fast", pair[1], fd, &pid, &err), SLIMSET_OK);
        if (k == 1)
            hello.recipe.n_settings = SLIMSET_SETTINGS_MAX + 1;
        CHECK_INT(process_send(pair[0], &hello, k == 0 ? sizeof hello - 1 : sizeof hello, NULL, 0, &err), SLIMSET_OK);
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status));
        CHECK_INT(WEXITSTATUS(status), EXIT_PROTOCOL);
        close(pair[0]), close(pair[1]), close(fd);
    }
}

/* --- listers ---------------------------------------------------------------------------------- */

enum { LISTER_HONEST, LISTER_SPINS, LISTER_LEADS_OUT };

static enum slimset_status list(const char *path, uint8_t behaviour)
{
    struct slimset_run run;
    struct listing l;
    slimset_recipe_init(&recipe);
    slimset_run_init(&run);
    listing_init(&l);
    memset(script, 0, sizeof *script);
    memset(&err, 0, sizeof err);
    script->lister = behaviour;
    run.sources = &path;
    run.n_sources = 1;
    struct walk_settings s = {.recipe = &recipe, .run = &run, .work_dir = -1, .out_dir = -1, .lister_cpu_seconds = 1};
    enum slimset_status st = walk_sources(&l, &s, &err);
    CHECK_INT(l.n_entries, st == SLIMSET_OK);
    listing_fini(&l);
    return st;
}

static int hostile_lister(void)
{
    if (script->lister == LISTER_SPINS)
        for (;;)
            script->outcome[0]++;
    struct worker_list_request req;
    int fds[2];
    unsigned n_fds;
    if (receive(&req, sizeof req, fds, 2, &n_fds) != sizeof req) /* else the request may find nobody */
        return 1;
    struct {
        struct worker_member m;
        char name[16];
    } r = {.m = {.record_bytes = sizeof r, .name_bytes = 10}, .name = "a/../../b/"};
    return send_all(&r, sizeof r) ? 0 : 1;
}

static void test_listers(void)
{
    static uint8_t tar[4 * 512]; /* one empty file "a" */
    unsigned sum = 8 * ' ';
    memcpy(tar, "a", 1);
    memcpy(tar + 124, "00000000000", 11);
    memcpy(tar + 257, "ustar\00000", 8);
    tar[156] = '0';
    for (size_t i = 0; i < 512; i++)
        sum += tar[i];
    snprintf((char *)tar + 148, 8, "%06o", sum);
    char path[] = "/tmp/test_hostile-XXXXXX";
    int fd = mkstemp(path);
    CHECK_INT(io_write(fd, tar, sizeof tar, path, &err), SLIMSET_OK);
    close(fd);
    CHECK_INT(list(path, LISTER_HONEST), SLIMSET_OK);
    CHECK_INT(list(path, LISTER_SPINS), SLIMSET_LIMIT);
    CHECK(strstr(err.text, path) != NULL && strstr(err.text, "1 s of CPU") != NULL);
    CHECK_INT(list(path, LISTER_LEADS_OUT), SLIMSET_INTERNAL);
    CHECK(strstr(err.text, path) != NULL && strstr(err.text, "nonsense") != NULL);
    unlink(path);
}

int main(int argc, char **argv)
{
    bool worker = argc == 2 && strcmp(argv[0], "slimset-worker") == 0;
    if (!worker) {
        int fd = memfd_create("script", MFD_CLOEXEC);
        if (ftruncate(fd, sizeof *script) != 0 || dup2(fd, SCRIPT_FD) != SCRIPT_FD || close(fd) != 0) {
            perror("memfd");
            return 1;
        }
    }
    script = mmap(NULL, sizeof *script, PROT_READ | PROT_WRITE, MAP_SHARED, SCRIPT_FD, 0);
    if (script == MAP_FAILED)
        return 9;
    if (worker && strcmp(argv[1], "list") == 0 && script->lister != LISTER_HONEST)
        return hostile_lister();
    if (worker && strcmp(argv[1], "list") != 0)
        slots_here = mmap(NULL, WORKER_SLOTS * WORKER_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_SLOTS_FD, 0);
    int exit_status = slimset_worker_main(argc, argv);
    if (exit_status >= 0)
        return exit_status;
    RUN(test_a_worker_has_nothing);
    RUN(test_attacks_are_refused);
    RUN(test_lies_stop_the_run);
    RUN(test_long_message);
    RUN(test_descriptors_are_dropped);
    RUN(test_rewritten_slots);
    RUN(test_a_spill_does_not_fill_the_disk);
    RUN(test_a_worker_that_stays_is_killed);
    RUN(test_workers_check_what_they_are_sent);
    RUN(test_listers);
    return check_done();
}
