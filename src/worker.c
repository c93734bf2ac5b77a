/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "archive.h"
#include "convert.h"
#include "sandbox.h"
#include "vips_read.h"

enum { EXIT_PROTOCOL = 81, EXIT_MEMORY = 82, MESSAGE_BYTES = 65536 };

/* Room for one picture at the pixel limit, its copies, libraries, and the slots. */
#define ADDRESS_BYTES ((uint64_t)WORKER_SLOTS * WORKER_SLOT_BYTES + ((uint64_t)8 << 30))

/* One message with up to 253 descriptors. Returns its bytes, 0 at the end, -1 on a broken one. */
static ssize_t receive(void *data, size_t n, int *fds, unsigned max_fds, unsigned *n_fds)
{
    union {
        char bytes[CMSG_SPACE(253 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    ssize_t got;
    do
        got = recvmsg(WORKER_SOCKET, &m, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *n_fds = 0;
    if (got <= 0)
        return got;
    if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        unsigned count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (count > max_fds)
            return -1;
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
        *n_fds = count;
    }
    return got;
}

static bool send_all(const void *data, size_t n)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;
    do
        sent = sendmsg(WORKER_SOCKET, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n;
}

static bool request_is_sane(const struct item_request *req, size_t got, unsigned n_fds)
{
    size_t head = offsetof(struct item_request, input);
    if (got < head || req->n_inputs == 0 || req->n_inputs > ITEM_INPUTS_MAX || req->n_fds != n_fds ||
        req->slot >= WORKER_SLOTS || got != head + req->n_inputs * sizeof req->input[0])
        return false;
    if (req->has_spill > 1 || req->n_fds <= req->has_spill)
        return false;
    for (uint32_t i = 0; i < req->n_inputs; i++)
        if (req->input[i].fd_index >= n_fds - req->has_spill || req->input[i].settings > SLIMSET_SETTINGS_MAX)
            return false;
    return true;
}

static int convert_loop(bool slow, uint8_t *slots)
{
    struct worker_hello hello;
    struct item_request req;
    int fds[253];
    unsigned n_fds;
    struct slimset_error err = {0};
    if (receive(&hello, sizeof hello, fds, 0, &n_fds) != sizeof hello)
        return EXIT_PROTOCOL;
    if (hello.recipe.n_settings > SLIMSET_SETTINGS_MAX)
        return EXIT_PROTOCOL;
    hello.recipe.settings = hello.settings;
    if (slow) {
        struct image_limits limits = image_limits_default;
        limits.max_pixels = hello.recipe.max_pixels;
        vips_start(&limits, &err); /* without it the formats answer no-decoder */
    }
    struct converter *c = converter_new(&hello.recipe, slow);
    struct buf blob = {0};
    if (c == NULL)
        return EXIT_MEMORY;
    /* libjpeg takes and gives back about a megabyte a picture: kept in the heap instead of faulted in anew each time */
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    unsigned major = 0, minor = 0, micro = 0;
    const char *version = slow ? vips_version_text() : NULL;
    if (version != NULL)
        sscanf(version, "%3u.%3u.%3u", &major, &minor, &micro);
    const uint32_t vips = major << 16 | (minor & 255) << 8 | (micro & 255);
    enum sandbox_profile profile = slow ? hello.spills ? SANDBOX_SLOW_SPILLS : SANDBOX_SLOW : hello.spills ? SANDBOX_FAST_SPILLS : SANDBOX_FAST;
    unsigned layers = sandbox_enter(profile, ADDRESS_BYTES);
    for (;;) {
        ssize_t got = receive(&req, sizeof req, fds, 253, &n_fds);
        if (got == 0)
            return 0;
        if (got < 0 || !request_is_sane(&req, (size_t)got, n_fds))
            return EXIT_PROTOCOL;
        struct worker_answer a = {.ticket = req.ticket, .slot = req.slot, .layers = layers, .vips = vips};
        if (convert_item(c, &req, fds, &blob, &err) == SLIMSET_OK && blob.len <= WORKER_SLOT_BYTES) {
            memcpy(slots + req.slot * WORKER_SLOT_BYTES, blob.data, blob.len);
            a.blob_bytes = blob.len;
        }
        for (unsigned i = 0; i < n_fds; i++)
            close(fds[i]);
        if (!send_all(&a, sizeof a))
            return EXIT_PROTOCOL;
    }
}

/* --- lister ---------------------------------------------------------------------------------------- */

struct lister {
    uint8_t message[MESSAGE_BYTES];
    size_t used;
    int spool_fd;
};

static enum slimset_status flush(struct lister *l, struct slimset_error *err)
{
    if (l->used != 0 && !send_all(l->message, l->used))
        return err_os(err, "answering");
    l->used = 0;
    return SLIMSET_OK;
}

static enum slimset_status list_member(void *arg, const struct archive_member *m, struct slimset_error *err)
{
    struct lister *l = arg;
    struct worker_member r = {
        .name_bytes = m->name_bytes, .offset = m->offset, .packed_bytes = m->packed_bytes, .bytes = m->bytes,
        .mtime_s = m->mtime_s, .crc32 = m->crc32, .method = (uint8_t)m->method, .zip_local = m->zip_local,
        .has_crc = m->has_crc, .in_spool = m->in_spool, .problem = m->problem};
    r.record_bytes = (uint32_t)((sizeof r + m->name_bytes + 7) / 8 * 8);
    if (l->used + r.record_bytes > sizeof l->message) {
        enum slimset_status st = flush(l, err);
        if (st != SLIMSET_OK)
            return st;
    }
    memset(l->message + l->used, 0, r.record_bytes);
    memcpy(l->message + l->used, &r, sizeof r);
    if (m->name_bytes != 0)
        memcpy(l->message + l->used + sizeof r, m->name, m->name_bytes);
    l->used += r.record_bytes;
    return SLIMSET_OK;
}

static int list_once(void)
{
    static struct lister l;
    struct worker_list_request req;
    struct worker_listed done = {0};
    struct archive_result result = {0};
    struct slimset_error err = {0};
    int fds[2] = {-1, -1};
    unsigned n_fds;
    sandbox_enter(SANDBOX_LIST, (uint64_t)4 << 30);
    if (receive(&req, sizeof req, fds, 2, &n_fds) != sizeof req || n_fds != 1 + req.has_spool)
        return EXIT_PROTOCOL;
    l.spool_fd = fds[1];
    enum image_format format = req.format;
    enum slimset_status st = SLIMSET_OK;
    int fd = fds[0];
    uint64_t offset = req.offset, bytes = req.bytes;
    if (format == FORMAT_GZIP || format == FORMAT_ZSTD || format == FORMAT_XZ) {
        st = archive_spool(fd, offset, bytes, format, l.spool_fd, UINT64_MAX, archive_check_space, &l.spool_fd,
                           &done.spool_bytes, &err);
        fd = l.spool_fd;
        offset = 0;
        bytes = done.spool_bytes;
        format = FORMAT_TAR;
    }
    struct archive_limits limits = archive_limits_default;
    limits.check_space = archive_check_space;
    limits.space_arg = &l.spool_fd;
    if (st == SLIMSET_OK)
        st = archive_list(fd, offset, bytes, format, 1, l.spool_fd, &limits, list_member, &l, &result, &err);
    struct slimset_error flush_err = {0};
    if (flush(&l, &flush_err) != SLIMSET_OK)
        return EXIT_PROTOCOL;
    done.status = st;
    done.reject = st == SLIMSET_BAD_INPUT ? err.reject : 0;
    done.os_errno = err.os_errno;
    done.members = result.members;
    done.no_end_marker = result.no_end_marker;
    done.concatenated = result.concatenated;
    done.damaged = result.damaged;
    const char *text = st != SLIMSET_OK ? err.text : result.damage;
    memcpy(done.text, text, strnlen(text, sizeof done.text - 1));
    return send_all(&done, sizeof done) ? 0 : EXIT_PROTOCOL;
}

int slimset_worker_main(int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[0], "slimset-worker") != 0)
        return -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* Ctrl-C goes to the whole group; the coordinator decides */
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    bool lists = strcmp(argv[1], "list") == 0;
    close_range(lists ? WORKER_SLOTS_FD : WORKER_SLOTS_FD + 1, ~0u, 0); /* what the caller of slimset left open */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        if (null >= 0 && null != fd)
            dup2(null, fd);
    if (null > 2)
        close(null);
    if (lists)
        return list_once();
    bool slow = strcmp(argv[1], "slow") == 0;
    uint8_t *slots = mmap(NULL, WORKER_SLOTS * WORKER_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_SLOTS_FD, 0);
    if (slots == MAP_FAILED)
        return EXIT_MEMORY;
    close(WORKER_SLOTS_FD);
    _exit(convert_loop(slow, slots));
}
