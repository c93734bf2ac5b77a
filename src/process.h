/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a worker process of this very executable and talking to it. Used by the pool and by the listing of archives.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Starts a worker process of a kind ("fast", "slow", "list") whose descriptor 3 is child_socket and 4 child_slots
 * (or -1). Used by the pool and by archive listing. */
enum slimset_status process_start(const char *kind, int child_socket, int child_slots, int *pid, struct slimset_error *err);

/* CPU time that a child has used so far, in ns; 0 where it cannot be told. */
int64_t process_cpu_ns(int pid);

/* Sends n bytes with descriptors over a SOCK_SEQPACKET socket. */
enum slimset_status process_send(int sock, const void *data, size_t n, const int *fds, unsigned n_fds, struct slimset_error *err);

#endif
