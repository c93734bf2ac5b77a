/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

#include <errno.h>
#include <stddef.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

/* Bits of later Landlock ABIs, for kernel headers that do not name them yet. */
enum {
    FS_ALL_ABI1 = (1 << 13) - 1, /* execute ... make_sym */
    FS_REFER = 1 << 13,          /* ABI 2 */
    FS_TRUNCATE = 1 << 14,       /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15,      /* ABI 5 */
    NET_BIND_CONNECT = 3,        /* ABI 4 */
    SCOPE_ALL = 3                /* ABI 6: abstract sockets, signals */
};

struct ruleset_attr { /* as ABI 6 has it; shorter sizes are passed to older kernels */
    uint64_t handled_access_fs, handled_access_net, scoped;
};

static int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

static bool enter_landlock(void)
{
    int abi = landlock_abi();
    if (abi < 1)
        return false;
    struct ruleset_attr attr = {.handled_access_fs = FS_ALL_ABI1};
    size_t size = 8;
    if (abi >= 2)
        attr.handled_access_fs |= FS_REFER;
    if (abi >= 3)
        attr.handled_access_fs |= FS_TRUNCATE;
    if (abi >= 4) {
        attr.handled_access_net = NET_BIND_CONNECT;
        size = 16;
    }
    if (abi >= 5)
        attr.handled_access_fs |= FS_IOCTL_DEV;
    if (abi >= 6) {
        attr.scoped = SCOPE_ALL;
        size = 24;
    }
    long fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (fd < 0)
        return false;
    bool ok = syscall(SYS_landlock_restrict_self, fd, 0) == 0;
    close((int)fd);
    return ok;
}

static void limit(int what, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(what, &now) != 0)
        return;
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
        value = now.rlim_max;
    setrlimit(what, &(struct rlimit){.rlim_cur = value, .rlim_max = value});
}

static void enter_limits(enum sandbox_profile profile, uint64_t address_bytes)
{
    limit(RLIMIT_CORE, 0);
    if (profile == SANDBOX_FAST || profile == SANDBOX_SLOW)
        limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, 512);
#if !defined(__SANITIZE_ADDRESS__)
    if (address_bytes != 0)
        limit(RLIMIT_AS, address_bytes);
#else
    (void)address_bytes;
#endif
}

#ifdef THIS_ARCH

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (name), 0, 1), ANSWER(SECCOMP_RET_ALLOW)
#define KILL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (name), 0, 1), ANSWER(SECCOMP_RET_KILL_PROCESS)
#define REFUSE(name, e) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (name), 0, 1), ANSWER(SECCOMP_RET_ERRNO | (e))

static const struct sock_filter common_filter[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
    ANSWER(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    /* the hot path first */
    ALLOW(SYS_pread64), ALLOW(SYS_fstat), ALLOW(SYS_recvmsg), ALLOW(SYS_sendmsg), ALLOW(SYS_close),
    ALLOW(SYS_futex), ALLOW(SYS_read), ALLOW(SYS_write),
    ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_brk), ALLOW(SYS_madvise), ALLOW(SYS_mprotect),
    ALLOW(SYS_lseek), ALLOW(SYS_pwrite64), ALLOW(SYS_fstatfs), ALLOW(SYS_ftruncate),
#ifdef SYS_newfstatat
    ALLOW(SYS_newfstatat),
#endif
    ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_rt_sigaction),
    ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_sigaltstack), ALLOW(SYS_clock_gettime), ALLOW(SYS_clock_nanosleep),
    ALLOW(SYS_gettimeofday), ALLOW(SYS_nanosleep), ALLOW(SYS_sched_yield), ALLOW(SYS_sched_getaffinity),
    ALLOW(SYS_getrandom), ALLOW(SYS_gettid), ALLOW(SYS_getpid), ALLOW(SYS_restart_syscall),
    ALLOW(SYS_set_robust_list),
#ifdef SYS_rseq
    ALLOW(SYS_rseq),
#endif
    KILL(SYS_execve), KILL(SYS_execveat), KILL(SYS_ptrace), KILL(SYS_socket), KILL(SYS_connect),
    KILL(SYS_process_vm_readv), KILL(SYS_process_vm_writev),
#ifdef SYS_fork
    KILL(SYS_fork), KILL(SYS_vfork),
#endif
#ifdef SYS_clone3
    REFUSE(SYS_clone3, ENOSYS), /* glibc then falls back to clone, whose flags a filter can see */
#endif
};

/* No memory that is code: only libvips' helpers (Orc, in older versions) would want it, and they do not run here. */
static const struct sock_filter no_code_filter[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
    ANSWER(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
    LOAD(args[2]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4 /* PROT_EXEC */, 0, 1),
    ANSWER(SECCOMP_RET_ERRNO | EPERM),
    ANSWER(SECCOMP_RET_ALLOW),
};

/* The last instructions: what becomes of clone, then of everything not named. */
static const struct sock_filter tail_filter[] = {
    ANSWER(SECCOMP_RET_ERRNO | EPERM),
};
static const struct sock_filter thread_tail_filter[] = {
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
    ANSWER(SECCOMP_RET_ERRNO | EPERM),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
    ANSWER(SECCOMP_RET_ALLOW),
    ANSWER(SECCOMP_RET_ERRNO | EPERM),
};

static bool install(const struct sock_filter *filter, size_t n)
{
    struct sock_fprog prog = {.len = (unsigned short)n, .filter = (struct sock_filter *)(uintptr_t)filter};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) == 0;
}

static bool enter_seccomp(bool threads)
{
    struct sock_filter filter[sizeof common_filter / sizeof common_filter[0] + 8];
    size_t n = 0;
    for (size_t i = 0; i < sizeof common_filter / sizeof common_filter[0]; i++)
        filter[n++] = common_filter[i];
    const struct sock_filter *tail = threads ? thread_tail_filter : tail_filter;
    size_t n_tail = threads ? sizeof thread_tail_filter / sizeof tail[0] : sizeof tail_filter / sizeof tail[0];
    for (size_t i = 0; i < n_tail; i++)
        filter[n++] = tail[i];
    if (!threads && !install(no_code_filter, sizeof no_code_filter / sizeof no_code_filter[0]))
        return false;
    return install(filter, n);
}

#else
static bool enter_seccomp(bool threads)
{
    (void)threads;
    return false;
}
#endif

unsigned sandbox_enter(enum sandbox_profile profile, uint64_t address_bytes)
{
    unsigned layers = SANDBOX_LIMITS;
    enter_limits(profile, address_bytes);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return layers;
    layers |= SANDBOX_NO_NEW_PRIVS;
    if (enter_landlock())
        layers |= SANDBOX_LANDLOCK;
    if (enter_seccomp(profile == SANDBOX_SLOW || profile == SANDBOX_SLOW_SPILLS))
        layers |= SANDBOX_SECCOMP;
    return layers;
}

unsigned sandbox_available(int *abi)
{
    unsigned layers = SANDBOX_LIMITS | SANDBOX_NO_NEW_PRIVS;
    *abi = landlock_abi();
    if (*abi > 0)
        layers |= SANDBOX_LANDLOCK;
#ifdef THIS_ARCH
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0)
        layers |= SANDBOX_SECCOMP;
#endif
    return layers;
}
