/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker process may still do once it begins to look at untrusted bytes: compute, read the descriptors
 * it is handed, answer. sandbox_enter is called once, after everything is loaded and before the first request.
 *
 * Layers, each used where the kernel has it: no_new_privs; resource limits (address space, no core, no
 * file growth, few descriptors); Landlock without any rule (no path can be opened, no network, no signals or
 * abstract sockets outside); a seccomp allow-list (everything else answers EPERM; exec, ptrace and sockets kill).
 * Inputs are opened by the coordinator and passed as descriptors, so no path is ever needed here.
 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

enum sandbox_layer {
    SANDBOX_NO_NEW_PRIVS = 1,
    SANDBOX_LIMITS = 2,
    SANDBOX_LANDLOCK = 4,
    SANDBOX_SECCOMP = 8
};

enum sandbox_profile {
    SANDBOX_FAST, /* decoders of ours and libjpeg-turbo */
    SANDBOX_SLOW, /* libvips: may start threads */
    SANDBOX_LIST, /* archive listing: may make the spool file grow */
    SANDBOX_FAST_SPILLS, SANDBOX_SLOW_SPILLS /* the same two, which may also make files grow that requests bring for large payloads */
};

/* address_bytes: limit of the address space, 0 none.
 * Returns the layers that are in force, as bits of enum sandbox_layer. Never fails: what a kernel lacks is missing from the bits. */
unsigned sandbox_enter(enum sandbox_profile profile, uint64_t address_bytes);

/* What this kernel would give, without entering; landlock_abi receives the ABI (0: none). */
unsigned sandbox_available(int *landlock_abi);

#endif
