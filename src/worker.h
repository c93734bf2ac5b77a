/* SPDX-License-Identifier: Apache-2.0
 *
 * The other end of the pool: a process of the same executable that waits for requests, converts and answers, inside the
 * sandbox. Started as
 *      slimset-worker fast|slow|list      socket at descriptor 3, slots at descriptor 4
 * with an empty environment. It first receives struct worker_hello, then requests until the socket closes.
 *
 * A SOCK_SEQPACKET message down: struct item_request cut behind its last input, with descriptors.
 * A message up: struct worker_answer; the blob lies in the slot it names.
 */
#ifndef WORKER_H
#define WORKER_H

#include "item.h"

enum {
    WORKER_SOCKET = 3,
    WORKER_SLOTS_FD = 4,
    WORKER_SLOTS = 6 /* requests a worker may hold: one at work, the others waiting, so that it does not starve while a shard is synced */
};

/* Bytes of a slot: virtual, pages appear when they are written. */
#define WORKER_SLOT_BYTES ((size_t)(1u << 30) + (1u << 16))

enum worker_kind { WORKER_FAST, WORKER_SLOW, WORKER_LIST };

struct worker_hello {
    struct slimset_recipe recipe; /* pointers are NULL; n_settings counts those below */
    struct slimset_recipe settings[SLIMSET_SETTINGS_MAX];
    uint32_t spills;              /* requests may bring a file to write */
    uint32_t zero;
};

struct worker_answer {
    uint64_t ticket;
    uint64_t blob_bytes; /* 0: the worker could not even hold the answer (out of memory) */
    uint32_t slot;
    uint32_t layers;     /* enum sandbox_layer bits in force */
    uint32_t vips;       /* version of libvips, a byte each for major (at 16), minor and micro; 0: it is not in this worker */
    uint32_t zero;
};

/* A lister is sent one of these with the archive's descriptor (and the spool's), and streams back
 * messages of packed struct worker_member + name, then one struct worker_listed. */
struct worker_list_request {
    uint64_t offset, bytes;
    uint32_t format;       /* enum image_format of the archive */
    uint32_t has_spool;
};

struct worker_member {
    uint32_t record_bytes; /* with the name, padded to 8 */
    uint32_t name_bytes;
    uint64_t offset, packed_bytes, bytes;
    int64_t mtime_s;
    uint32_t crc32;
    uint8_t method, zip_local, has_crc, in_spool;
    uint32_t problem;      /* enum slimset_reject */
    uint32_t zero;
};

struct worker_listed {
    uint32_t record_bytes; /* 0: tells it from a member */
    uint32_t status;       /* enum slimset_status */
    uint32_t reject;
    int32_t os_errno;
    uint64_t members, spool_bytes;
    uint8_t no_end_marker, concatenated, damaged, zero[5];
    char text[512];        /* the error, or the damage */
};

#endif
