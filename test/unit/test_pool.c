/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h with real worker processes, and with scripted ones that die, hang and lie. This program
 * is its own worker: the pool starts /proc/self/exe. Descriptor 200, inherited, holds the script's
 * memory; the behaviour of a request is in the second byte of its ticket.
 */
#include "pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "check.h"
#include "convert.h"
#include "sandbox.h"
#include "worker.h"

enum { SCRIPT_FD = 200 };

enum behaviour {
    HONEST,
    CRASH, /* SIGSEGV, always */
    CRASH_ONCE,
    CRASH_UNLESS_FRESH, /* fine as the first request of a process */
    DIE_ABRT,
    DIE_BUS,
    DIE_FPE,
    DIE_ILL,
    DIE_SYS,
    KILLED, /* SIGKILL, always */
    KILLED_ONCE,
    EXITS,   /* exit status 82 */
    NO_BLOB, /* out of memory, always */
    NO_BLOB_ONCE,
    SAYS_NO_MEMORY_ONCE, /* in the answer */
    SAYS_IO,
    SPINS,
    SPINS_ONCE,
    WAITS, /* 100 ms, then honest */
    WRONG_TICKET,
    WRONG_SLOT,
    TOO_LONG,
    SHORT_BLOB,
    RANDOM_BLOB,
    MANY_FIELDS,
    SHORT_MESSAGE, /* and then lives on */
    HANGS_UP       /* closes its socket and lives on */
};

/* --- the scripted worker ---------------------------------------------------------------------- */

/* Times a request was tried, by the first byte of its ticket; shared by all processes. */
static uint8_t *script;

static ssize_t receive(void *data, size_t n, int *fd)
{
    union {
        char bytes[CMSG_SPACE(253 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec v = {.iov_base = data, .iov_len = n};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control};
    ssize_t got = recvmsg(WORKER_SOCKET, &m, 0);
    struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c != NULL)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return got;
}

static void die_of(int sig)
{
    signal(sig, SIG_DFL); /* sanitizers catch some */
    raise(sig);
    pause();
}

static void spin(void)
{
    for (volatile unsigned i = 0;; i++)
        ;
}

/* What happens before the answer. */
static void misbehave(enum behaviour b, unsigned tried, unsigned served)
{
    static const int signals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    if (b == CRASH || (b == CRASH_ONCE && tried == 1) || (b == CRASH_UNLESS_FRESH && served > 0))
        die_of(SIGSEGV);
    if (b >= DIE_ABRT && b <= DIE_SYS)
        die_of(signals[b - DIE_ABRT]);
    if (b == KILLED || (b == KILLED_ONCE && tried == 1))
        die_of(SIGKILL);
    if (b == EXITS)
        _exit(82);
    if (b == SPINS || (b == SPINS_ONCE && tried == 1))
        spin();
    if (b == WAITS)
        usleep(100000);
    if (b == HANGS_UP) {
        close(WORKER_SOCKET);
        for (;;)
            pause();
    }
}

static void lie(enum behaviour b, unsigned tried, struct buf *blob, struct worker_answer *a)
{
    struct item_answer *answer = (struct item_answer *)(void *)blob->data;
    if (b == NO_BLOB || (b == NO_BLOB_ONCE && tried == 1))
        a->blob_bytes = 0;
    if (b == WRONG_TICKET)
        a->ticket ^= 1;
    if (b == WRONG_SLOT)
        a->slot = 7;
    if (b == TOO_LONG)
        a->blob_bytes = (uint64_t)1 << 40;
    if (b == SHORT_BLOB)
        a->blob_bytes = 5;
    if (b == RANDOM_BLOB)
        memset(blob->data, 0x5a, blob->len);
    if (b == MANY_FIELDS)
        answer->n_fields = UINT32_MAX;
    if (b == SAYS_IO || (b == SAYS_NO_MEMORY_ONCE && tried == 1)) {
        *answer = (struct item_answer){.ticket = a->ticket,
                                       .status = b == SAYS_IO ? SLIMSET_IO : SLIMSET_NO_MEMORY,
                                       .os_errno = b == SAYS_IO ? EIO : 0,
                                       .text_bytes = 4,
                                       .blob_bytes = sizeof *answer + 4};
        memcpy(answer + 1, "oops", 4);
        a->blob_bytes = answer->blob_bytes;
    }
}

static int scripted_worker(void)
{
    struct worker_hello hello;
    struct item_request req;
    struct slimset_error err;
    struct buf blob = {0};
    int fd = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uint8_t *slots = mmap(NULL, WORKER_SLOTS * WORKER_SLOT_BYTES, PROT_READ | PROT_WRITE,
                          MAP_SHARED, WORKER_SLOTS_FD, 0);
    if (receive(&hello, sizeof hello, &fd) != sizeof hello || slots == MAP_FAILED)
        return 1;
    struct converter *c = converter_new(&hello.recipe, false);
    for (unsigned served = 0; receive(&req, sizeof req, &fd) > 0; served++) {
        enum behaviour b = (enum behaviour)(req.ticket >> 8);
        unsigned tried = ++script[req.ticket & 255];
        misbehave(b, tried, served);
        struct worker_answer a = {.ticket = req.ticket, .slot = req.slot};
        if (convert_item(c, &req, &fd, &blob, &err) != SLIMSET_OK)
            return 2;
        a.blob_bytes = blob.len;
        lie(b, tried, &blob, &a);
        memcpy(slots + req.slot * WORKER_SLOT_BYTES, blob.data, blob.len);
        close(fd);
        if (send(WORKER_SOCKET, &a, b == SHORT_MESSAGE ? 3 : sizeof a, MSG_NOSIGNAL) < 0)
            return 3;
    }
    return 0;
}

/* --- helpers ---------------------------------------------------------------------------------- */

static struct slimset_error err;
static struct slimset_recipe recipe;
static struct pool *pool;
static uint64_t culprit;
static unsigned answered, ok, crash_rejects; /* since the last open_pool */

static void open_pool(unsigned jobs, bool scripted, unsigned cpu_seconds, unsigned crash_limit)
{
    slimset_recipe_init(&recipe);
    struct pool_settings s = {
        .recipe = &recipe, .jobs = jobs, .cpu_seconds = cpu_seconds, .crash_limit = crash_limit};
    answered = ok = crash_rejects = 0;
    memset(script, 0, 256);
    fcntl(SCRIPT_FD, F_SETFD,
          scripted ? 0 : FD_CLOEXEC); /* a worker that finds it is a scripted one */
    CHECK_INT(pool_open(&s, &pool, &err), SLIMSET_OK);
}

static int text_fd(const char *text)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    CHECK_INT(io_write(fd, text, strlen(text), "input", &err), SLIMSET_OK);
    return fd;
}

/* A request of one text that is to be copied; the text is made of the number. */
static void submit(unsigned number, enum behaviour b)
{
    char text[32];
    struct item_request r = {
        .ticket = (uint64_t)b << 8 | number, .op = ITEM_CONVERT, .n_inputs = 1, .n_fds = 1};
    snprintf(text, sizeof text, "number %u", number);
    int fd = text_fd(text);
    r.input[0] = (struct item_input){
        .bytes = strlen(text), .packed_bytes = strlen(text), .role = SLIMSET_ROLE_COPY};
    CHECK_INT(pool_submit(pool, &r, &fd, &err), SLIMSET_OK);
}

static void take(struct pool_answer *a)
{
    char text[32];
    answered++;
    CHECK_INT(a->ticket, a->answer->ticket);
    if (a->answer->status == SLIMSET_OK) {
        snprintf(text, sizeof text, "number %u", (unsigned)(a->ticket & 255));
        CHECK(item_fields(a->answer)->payload_bytes == strlen(text) &&
              memcmp(item_payload(a->answer), text, strlen(text)) == 0);
        ok++;
    } else {
        CHECK_INT(a->answer->status, SLIMSET_BAD_INPUT);
        crash_rejects += a->answer->reject == SLIMSET_REJECT_DECODER_CRASH;
    }
    free(a->answer);
}

/* Takes answers until all have come, the pool stops, or nothing comes for 20 s. */
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

static unsigned crashes(void)
{
    unsigned n, layers;
    pool_facts(pool, &n, &layers);
    return n;
}

static unsigned open_fds(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* Process ids of the workers, from the kernel. */
static unsigned children(pid_t pid[], unsigned max)
{
    unsigned n = 0;
    int value;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    while (f != NULL && n < max && fscanf(f, "%d", &value) == 1)
        pid[n++] = value;
    if (f != NULL)
        fclose(f);
    return n;
}

/* Runs a test that may hang in a child of its own, so that a hang fails it and nothing else. */
static void guarded(void (*fn)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(8);
        check_failures_here = 0;
        fn();
        fflush(stdout);
        _exit(check_failures_here != 0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        printf("  still at it after 8 s\n");
    CHECK_INT(status, 0);
}

/* --- real workers ----------------------------------------------------------------------------- */

static void test_real_workers(void)
{
    unsigned before = open_fds(), n, layers, available;
    int abi;
    open_pool(2, false, 0, 0);
    CHECK(pool_has_room(pool));
    for (unsigned i = 0; i < 200; i++) {
        while (!pool_has_room(pool)) {
            struct pool_answer a;
            bool got = false;
            CHECK_INT(pool_next(pool, 1000, &a, &got, &culprit, &err), SLIMSET_OK);
            if (got)
                take(&a);
        }
        submit(i, HONEST);
    }
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 200 && ok == 200 && pool_in_flight(pool) == 0);
    available = sandbox_available(&abi);
    pool_facts(pool, &n, &layers);
    CHECK(n == 0 && layers == available);
    struct pool_answer a; /* nothing to wait for: comes back after the time */
    bool got = true;
    CHECK_INT(pool_next(pool, 10, &a, &got, &culprit, &err), SLIMSET_OK);
    CHECK(!got);
    pool_close(pool);
    pid_t pid[8];
    CHECK_INT(children(pid, 8), 0);
    CHECK_INT(open_fds(), before); /* inputs were closed, whoever did the work */
    pool_close(NULL);
}

static void test_in_process(void)
{
    unsigned before = open_fds();
    slimset_recipe_init(&recipe);
    struct pool_settings s = {.recipe = &recipe, .in_process = true};
    answered = ok = 0;
    CHECK_INT(pool_open(&s, &pool, &err), SLIMSET_OK);
    for (unsigned i = 0; i < 20; i++) {
        CHECK(pool_has_room(pool));
        submit(i, HONEST);
        CHECK_INT(pool_in_flight(pool), 1);
        CHECK_INT(drain(), SLIMSET_OK);
    }
    CHECK(answered == 20 && ok == 20);
    submit(1, HONEST);
    pool_close(pool); /* with one never taken out */
    CHECK_INT(open_fds(), before);
}

/* The same bytes from a worker and from this process. */
static void test_same_bytes(void)
{
    struct item_answer *kept[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        struct item_request r = {.ticket = 5, .op = ITEM_CONVERT, .n_inputs = 1, .n_fds = 1};
        char ppm[16 + 40 * 30 * 3] = "P6 40 30 255\n";
        struct pool_answer a = {0};
        bool got = false;
        int fd = memfd_create("input", MFD_CLOEXEC);
        for (size_t i = 13; i < 13 + 40 * 30 * 3; i++)
            ppm[i] = (char)(i / 3 % 40 * 6);
        CHECK_INT(io_write(fd, ppm, 13 + 40 * 30 * 3, "input", &err), SLIMSET_OK);
        r.input[0] = (struct item_input){.bytes = 13 + 40 * 30 * 3,
                                         .packed_bytes = 13 + 40 * 30 * 3,
                                         .role = SLIMSET_ROLE_IMAGE,
                                         .codec = SLIMSET_CODEC_JPEG};
        slimset_recipe_init(&recipe);
        CHECK_INT(slimset_recipe_resize(&recipe, "20", &err), SLIMSET_OK);
        struct pool_settings s = {.recipe = &recipe, .jobs = 1, .in_process = k};
        fcntl(SCRIPT_FD, F_SETFD, FD_CLOEXEC);
        CHECK_INT(pool_open(&s, &pool, &err), SLIMSET_OK);
        CHECK_INT(pool_submit(pool, &r, &fd, &err), SLIMSET_OK);
        for (int i = 0; i < 50 && !got; i++)
            CHECK_INT(pool_next(pool, 200, &a, &got, &culprit, &err), SLIMSET_OK);
        kept[k] = a.answer;
        pool_close(pool);
    }
    CHECK(kept[0] != NULL && kept[1] != NULL && kept[0]->status == SLIMSET_OK &&
          kept[0]->blob_bytes == kept[1]->blob_bytes &&
          memcmp(kept[0], kept[1], kept[0]->blob_bytes) == 0);
    free(kept[0]);
    free(kept[1]);
}

/* A format that only libvips reads goes to a slow worker by itself; without libvips that is
 * said. */
static void test_slow(void)
{
    static const uint8_t gif[] =
        "GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;";
    struct item_request r = {.op = ITEM_CONVERT, .n_inputs = 1, .n_fds = 1};
    r.input[0] = (struct item_input){.bytes = sizeof gif - 1,
                                     .packed_bytes = sizeof gif - 1,
                                     .role = SLIMSET_ROLE_IMAGE,
                                     .codec = SLIMSET_CODEC_PNG};
    open_pool(1, false, 0, 0);
    for (unsigned i = 0; i < 6; i++) {
        int fd = memfd_create("input", MFD_CLOEXEC);
        CHECK_INT(io_write(fd, gif, sizeof gif - 1, "input", &err), SLIMSET_OK);
        r.ticket = i;
        CHECK_INT(pool_submit(pool, &r, &fd, &err), SLIMSET_OK);
        submit(100 + i, HONEST);
    }
    unsigned images = 0, texts = 0;
    for (int i = 0; i < 200 && pool_in_flight(pool) > 0; i++) {
        struct pool_answer a;
        bool got = false;
        CHECK_INT(pool_next(pool, 200, &a, &got, &culprit, &err), SLIMSET_OK);
        if (!got)
            continue;
        if (a.ticket >= 100) {
            texts += a.answer->status == SLIMSET_OK;
        } else if (a.answer->status == SLIMSET_OK) {
            images +=
                item_fields(a.answer)->w == 1 && item_fields(a.answer)->notes & NOTE_SLOW_PATH;
        } else {
            images += a.answer->reject == SLIMSET_REJECT_NO_DECODER;
        }
        free(a.answer);
    }
    CHECK(images == 6 && texts == 6);
    CHECK_INT(crashes(), 0);
    pool_close(pool);
}

/* A worker is killed while it holds all it may: its first is tried again, all are answered. */
static void test_killed_from_outside(void)
{
    pid_t pid[8];
    unsigned before = open_fds();
    open_pool(2, false, 0, 0);
    CHECK_INT(children(pid, 8), 2);
    kill(pid[0], SIGSTOP);
    kill(pid[1], SIGSTOP);
    for (unsigned i = 0; i < 2 * WORKER_SLOTS; i++)
        submit(i, HONEST);
    CHECK(!pool_has_room(pool));
    kill(pid[0], SIGKILL);
    kill(pid[1], SIGCONT);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 2 * WORKER_SLOTS && ok == 2 * WORKER_SLOTS);
    CHECK_INT(crashes(), 1);
    for (unsigned i = 0; i < 6; i++) /* and it goes on with as many workers */
        submit(i, HONEST);
    CHECK_INT(children(pid, 8), 2);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK_INT(ok, 2 * WORKER_SLOTS + 6);
    pool_close(pool);
    CHECK_INT(open_fds(), before);
}

/* A worker that dies while idle is nobody's fault. */
static void test_killed_idle(void)
{
    pid_t pid[8];
    open_pool(2, false, 0, 0);
    CHECK_INT(children(pid, 8), 2);
    kill(pid[0], SIGKILL);
    usleep(20000);
    for (unsigned i = 0; i < 6; i++)
        submit(i, HONEST);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 6 && ok == 6);
    pool_close(pool);
}

/* Workers do not outlive a coordinator that is killed. */
static void test_workers_end_with_the_coordinator(void)
{
    int p[2];
    pid_t pid[2];
    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        open_pool(2, false, 0, 0);
        submit(1, HONEST); /* so that they have started */
        submit(2, HONEST);
        drain();
        if (children(pid, 2) == 2 && write(p[1], pid, sizeof pid) == sizeof pid)
            pause();
        _exit(1);
    }
    CHECK_INT(read(p[0], pid, sizeof pid), sizeof pid);
    CHECK(kill(pid[0], 0) == 0 && kill(pid[1], 0) == 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        char path[64], state = ' ';
        for (int k = 0; k < 200; k++) { /* gone, or a zombie that nobody collects here */
            snprintf(path, sizeof path, "/proc/%d/stat", (int)pid[i]);
            FILE *f = fopen(path, "re");
            if (f == NULL || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
                state = 'Z';
            if (f != NULL)
                fclose(f);
            if (state == 'Z')
                break;
            usleep(10000);
        }
        CHECK_INT(state, 'Z');
    }
    close(p[0]);
    close(p[1]);
}

/* --- workers that crash ----------------------------------------------------------------------- */

static void test_crash_once(void)
{
    open_pool(2, true, 0, 0);
    submit(0, CRASH_ONCE);
    for (unsigned i = 1; i < 6; i++)
        submit(i, HONEST);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 6 && ok == 6);
    CHECK_INT(crashes(), 1);
    CHECK_INT(script[0], 2);
    for (unsigned i = 1; i < 6; i++)
        CHECK_INT(script[i], 1); /* nobody else was tried twice */
    pool_close(pool);
}

/* A worker answers one, dies on the next and leaves a third unread, all before the pool looks:
 * the answer that was given counts, and the one that killed is the suspect. */
static void test_blame(void)
{
    open_pool(1, true, 0, 0);
    submit(0, HONEST);
    submit(1, CRASH);
    submit(2, HONEST);
    usleep(200000);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 3 && ok == 2 && crash_rejects == 1);
    CHECK_INT(script[0], 1);
    CHECK_INT(script[1], 2);
    CHECK_INT(script[2], 1);
    CHECK_INT(crashes(), 2);
    pool_close(pool);
}

static void test_crash_always(void)
{
    static const enum behaviour ways[] = {CRASH, DIE_ABRT, DIE_BUS, DIE_FPE, DIE_ILL, DIE_SYS};
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        open_pool(2, true, 0, 0);
        for (unsigned i = 0; i < 3; i++)
            submit(i, HONEST);
        submit(3, ways[k]);
        for (unsigned i = 4; i < 12; i++)
            submit(i, HONEST); /* more than there is room for: they wait */
        CHECK_INT(drain(), SLIMSET_OK);
        CHECK(answered == 12 && ok == 11 && crash_rejects == 1);
        CHECK_INT(script[3], 2); /* twice, not more */
        CHECK_INT(crashes(), 2);
        pool_close(pool);
    }
}

/* The second time is alone in a fresh worker: what an earlier item left in a process is not
 * blamed on this one. */
static void test_retry_in_a_fresh_worker(void)
{
    open_pool(2, true, 0, 0);
    for (unsigned i = 0; i < 12; i++)
        submit(i, HONEST);
    CHECK_INT(drain(), SLIMSET_OK); /* both have served some */
    submit(50, CRASH_UNLESS_FRESH);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 13 && ok == 13 && crash_rejects == 0);
    CHECK_INT(script[50], 2);
    pool_close(pool);
}

static void test_many_crashes_apart(void)
{
    open_pool(2, true, 0, 3); /* good answers in between: no end of the run */
    for (unsigned i = 0; i < 8; i++) {
        submit(2 * i, CRASH);
        CHECK_INT(drain(), SLIMSET_OK);
        submit(2 * i + 1, HONEST);
        CHECK_INT(drain(), SLIMSET_OK);
    }
    CHECK(answered == 16 && ok == 8 && crash_rejects == 8);
    pool_close(pool);
}

static void test_crash_limit(void)
{
    open_pool(1, true, 0, 5);
    for (unsigned i = 0; i < 6; i++)
        submit(i, CRASH);
    CHECK_INT(drain(), SLIMSET_LIMIT);
    CHECK(strstr(err.text, "crashes") != NULL);
    CHECK(answered <= 3);
    pool_close(pool);
    pid_t pid[8];
    CHECK_INT(children(pid, 8), 0);
}

/* --- workers that are killed, run out of memory, hang ----------------------------------------- */

static void stops(enum behaviour b, unsigned cpu_seconds, enum slimset_status want)
{
    open_pool(2, true, cpu_seconds, 0);
    submit(1, HONEST);
    submit(7, b);
    CHECK_INT(drain(), want);
    CHECK_INT(culprit, (uint64_t)b << 8 | 7);
    CHECK(err.text[0] != '\0');
    CHECK_INT(script[7], 2); /* the second time decides */
    pool_close(pool);
}

static void recovers(enum behaviour b, unsigned cpu_seconds)
{
    open_pool(2, true, cpu_seconds, 0);
    submit(1, HONEST);
    submit(7, b);
    submit(2, HONEST);
    CHECK_INT(drain(), SLIMSET_OK);
    CHECK(answered == 3 && ok == 3);
    CHECK_INT(script[7], 2);
    pool_close(pool);
}

static void test_killed(void)
{
    recovers(KILLED_ONCE, 0);
    stops(KILLED, 0, SLIMSET_LIMIT);
    stops(EXITS, 0, SLIMSET_LIMIT);
}

static void test_out_of_memory_once(void)
{
    recovers(NO_BLOB_ONCE, 0);
    recovers(SAYS_NO_MEMORY_ONCE, 0);
}

static void test_out_of_memory_always(void)
{
    open_pool(2, true, 0, 0);
    submit(7, NO_BLOB);
    CHECK_INT(drain(), SLIMSET_NO_MEMORY);
    CHECK_INT(culprit, (uint64_t)NO_BLOB << 8 | 7);
    CHECK_INT(answered, 0); /* the input is not blamed */
    pool_close(pool);
}

static void test_io_fault(void)
{
    open_pool(2, true, 0, 0);
    submit(7, SAYS_IO);
    CHECK_INT(drain(), SLIMSET_IO);
    CHECK(strstr(err.text, "oops") != NULL && err.os_errno == EIO);
    CHECK_INT(culprit, (uint64_t)SAYS_IO << 8 | 7);
    pool_close(pool);
}

static void test_hang(void)
{
    recovers(SPINS_ONCE, 1);
    stops(SPINS, 1, SLIMSET_LIMIT);
    CHECK(strstr(err.text, "CPU") != NULL);
}

static void test_close_kills(void)
{
    time_t start = time(NULL);
    pid_t pid[8];
    open_pool(2, true, 0, 0);
    submit(1, SPINS);
    submit(2, SPINS);
    submit(3, HONEST);
    usleep(50000);
    pool_close(pool);
    CHECK_INT(children(pid, 8), 0);
    CHECK(time(NULL) - start < 5);
}

/* --- workers that lie ------------------------------------------------------------------------- */

static void test_lies(void)
{
    static const enum behaviour lies[] = {WRONG_TICKET, WRONG_SLOT, TOO_LONG, RANDOM_BLOB,
                                          MANY_FIELDS};
    for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
        open_pool(1, true, 0, 0);
        submit(7, lies[k]);
        enum slimset_status st = drain();
        if (st != SLIMSET_INTERNAL)
            printf("  lie %zu\n", k);
        CHECK_INT(st, SLIMSET_INTERNAL);
        CHECK(answered == 0 && err.text[0] != '\0');
        pool_close(pool);
    }
}

/* An answer too short to be one is a lie like the others, not the machine's lack of memory. */
static void test_blob_too_short(void)
{
    open_pool(1, true, 0, 0);
    submit(7, SHORT_BLOB);
    CHECK_INT(drain(), SLIMSET_INTERNAL);
    pool_close(pool);
}

static void short_message(void)
{
    open_pool(1, true, 0, 0);
    submit(7, SHORT_MESSAGE);
    CHECK(drain() != SLIMSET_OK ||
          answered == 1); /* refused or tried again: anything but waiting for ever */
    pool_close(pool);
}

static void test_short_message(void) { guarded(short_message); }

static void hangs_up(void)
{
    open_pool(1, true, 0, 0);
    submit(7, HANGS_UP);
    CHECK(drain() != SLIMSET_OK || answered == 1);
    pool_close(pool);
}

/* A worker that closes its socket and lives on must not stop the coordinator. */
static void test_hangs_up(void) { guarded(hangs_up); }

/* --- order ------------------------------------------------------------------------------------ */

static void test_any_order(void)
{
    uint64_t order[3];
    open_pool(2, true, 0, 0);
    submit(1, WAITS);
    submit(2, HONEST);
    for (unsigned i = 0; i < 2;) {
        struct pool_answer a;
        bool got = false;
        CHECK_INT(pool_next(pool, 2000, &a, &got, &culprit, &err), SLIMSET_OK);
        if (!got)
            continue;
        order[i++] = a.ticket & 255;
        free(a.answer);
    }
    CHECK(order[0] == 2 && order[1] == 1);
    pool_close(pool);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "slimset-worker") == 0 && fcntl(SCRIPT_FD, F_GETFD) >= 0) {
        script = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, SCRIPT_FD, 0);
        _exit(script != MAP_FAILED ? scripted_worker() : 9);
    }
    int exit_status = slimset_worker_main(argc, argv);
    if (exit_status >= 0)
        return exit_status;
    int fd = memfd_create("script", MFD_CLOEXEC);
    if (ftruncate(fd, 4096) != 0 || dup2(fd, SCRIPT_FD) != SCRIPT_FD || close(fd) != 0) {
        perror("memfd");
        return 1;
    }
    script = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, SCRIPT_FD, 0);
    RUN(test_real_workers);
    RUN(test_in_process);
    RUN(test_same_bytes);
    RUN(test_slow);
    RUN(test_killed_from_outside);
    RUN(test_killed_idle);
    RUN(test_workers_end_with_the_coordinator);
    RUN(test_crash_once);
    RUN(test_blame);
    RUN(test_crash_always);
    RUN(test_retry_in_a_fresh_worker);
    RUN(test_many_crashes_apart);
    RUN(test_crash_limit);
    RUN(test_killed);
    RUN(test_out_of_memory_once);
    RUN(test_out_of_memory_always);
    RUN(test_io_fault);
    RUN(test_hang);
    RUN(test_close_kills);
    RUN(test_lies);
    RUN(test_blob_too_short);
    RUN(test_short_message);
    RUN(test_hangs_up);
    RUN(test_any_order);
    return check_done();
}
