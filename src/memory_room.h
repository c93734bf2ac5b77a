/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory may still be taken: what the machine has available, and what the memory limits of
 * the control groups around this process leave (version 1 and 2; page cache counts as free).
 */
#ifndef MEMORY_ROOM_H
#define MEMORY_ROOM_H

#include <stdint.h>

struct memory_room {
    uint64_t machine; /* MemAvailable; UINT64_MAX when unknown */
    uint64_t group;   /* the tightest limit less what is used of it; UINT64_MAX without one */
};

void memory_room(struct memory_room *room);

/* The same, with other roots for /proc and /sys/fs/cgroup (tests). */
void memory_room_at(struct memory_room *room, const char *proc, const char *cgroup);

#endif
