/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_room.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

enum { TEXT_BYTES = 16384, PATH_BYTES = 4096 };

/* A small file of the kernel's; "" when it cannot be read. */
static void read_text(const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_BYTES];
    ssize_t n = -1;
    text[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, TEXT_BYTES - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
}

/* The number behind `word` at the start of a line; 0 when there is none. */
static uint64_t number_of(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, word, n) == 0 && (line[n] == ' ' || line[n] == ':'))
            return strtoull(line + n + 1, NULL, 10);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return 0;
}

/* What the group in `folder` leaves. */
static uint64_t left_in(const char *folder, const char *limit_name, const char *used_name,
                        const char *inactive, const char *active)
{
    char text[TEXT_BYTES];
    read_text(folder, limit_name, text);
    if (text[0] < '0' || text[0] > '9') /* "max", or not there */
        return UINT64_MAX;
    uint64_t limit = strtoull(text, NULL, 10);
    if (limit >= (uint64_t)1 << 60) /* how version 1 says that there is none */
        return UINT64_MAX;
    read_text(folder, used_name, text);
    uint64_t used = strtoull(text, NULL, 10);
    read_text(folder, "memory.stat", text);
    uint64_t cache = number_of(text, inactive) + number_of(text, active);
    used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

/* The tightest of a group and those around it, up to the root. */
static uint64_t left_above(const char *root, const char *group, bool second)
{
    char folder[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    int root_n = snprintf(folder, sizeof folder, "%s%s", root, strcmp(group, "/") != 0 ? group : "");
    if (root_n < 0 || root_n >= (int)sizeof folder)
        return least;
    for (;;) {
        uint64_t left = second ? left_in(folder, "memory.max", "memory.current", "inactive_file",
                                         "active_file")
                               : left_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                         "total_inactive_file", "total_active_file");
        least = left < least ? left : least;
        if (strlen(folder) <= strlen(root))
            return least;
        *strrchr(folder, '/') = '\0';
    }
}

void memory_room_at(struct memory_room *room, const char *proc, const char *cgroup)
{
    char text[TEXT_BYTES], root[PATH_BYTES], *rest = NULL;
    *room = (struct memory_room){UINT64_MAX, UINT64_MAX};
    read_text(proc, "meminfo", text);
    uint64_t kib = number_of(text, "MemAvailable");
    if (kib != 0)
        room->machine = kib * 1024;
    read_text(proc, "self/cgroup", text);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *kinds = strchr(line, ':'), *group = kinds != NULL ? strchr(kinds + 1, ':') : NULL;
        if (group == NULL || group[1] != '/')
            continue;
        *group++ = '\0';
        bool second = kinds[1] == '\0';
        if (!second && strcmp(kinds + 1, "memory") != 0)
            continue;
        if (snprintf(root, sizeof root, "%s%s", cgroup, second ? "" : "/memory") >= (int)sizeof root)
            continue;
        uint64_t left = left_above(root, group, second);
        /* In a container the path may be the host's, and the limit lies at the root. */
        uint64_t own = left_above(root, "/", second);
        left = own < left ? own : left;
        room->group = left < room->group ? left : room->group;
    }
}

void memory_room(struct memory_room *room) { memory_room_at(room, "/proc", "/sys/fs/cgroup"); }
