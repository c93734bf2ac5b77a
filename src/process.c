/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

enum slimset_status process_start(const char *kind, int child_socket, int child_slots, int *pid, struct slimset_error *err)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char *)"slimset-worker", (char *)(uintptr_t)kind, NULL};
    char *env[] = {NULL};
    pid_t child;
    /* duplicates behind 3 and 4 first: one of the two may sit on the other's number */
    int s = fcntl(child_socket, F_DUPFD_CLOEXEC, 5), m = child_slots >= 0 ? fcntl(child_slots, F_DUPFD_CLOEXEC, 5) : -1;
    if (s < 0 || (child_slots >= 0 && m < 0)) {
        enum slimset_status st = err_os(err, "starting a worker");
        if (s >= 0)
            close(s);
        return st;
    }
    posix_spawn_file_actions_init(&actions);
    int e = posix_spawn_file_actions_adddup2(&actions, s, WORKER_SOCKET);
    if (e == 0 && m >= 0)
        e = posix_spawn_file_actions_adddup2(&actions, m, WORKER_SLOTS_FD);
    if (e == 0)
        e = posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    close(s);
    if (m >= 0)
        close(m);
    if (e != 0) {
        errno = e;
        return err_os(err, "starting a worker process");
    }
    *pid = child;
    return SLIMSET_OK;
}

int64_t process_cpu_ns(int pid)
{
    clockid_t clock;
    struct timespec ts;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) != 0)
        return 0;
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

enum slimset_status process_send(int sock, const void *data, size_t n, const int *fds, unsigned n_fds, struct slimset_error *err)
{
    union {
        char bytes[CMSG_SPACE(253 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > 0) {
        memset(&control, 0, CMSG_SPACE(n_fds * sizeof(int)));
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(sock, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? err_os(err, "sending to a worker") : SLIMSET_OK;
}
