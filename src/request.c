/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "archive.h"
#include "array_choose.h"

/* Members of one archive share a descriptor. */
static int shared_fd(const struct request *r, const struct plan *p, const struct entry *e, uint32_t n)
{
    const struct entry *first = e - n;
    if (p->listing.sources[e->source].kind != SOURCE_ARCHIVE)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (first[i].source == e->source && first[i].in_spool == e->in_spool)
            return r->item.input[i].fd_index;
    return -1;
}

/* Payloads of large inputs do not fit a slot, and a packed .npz has to be unpacked before its directory can be read. */
static bool wants_spill(const struct entry *e, const struct plan_rule *rule, const struct item_input *in)
{
    if (rule->role != SLIMSET_ROLE_ARRAY && rule->role != SLIMSET_ROLE_COPY)
        return false;
    bool npz = rule->role == SLIMSET_ROLE_ARRAY && e->path_bytes > 4 && strcasecmp(e->path + e->path_bytes - 4, ".npz") == 0;
    return in->bytes > (npz ? ITEM_SPILL_NPZ_BYTES : ITEM_SPILL_BYTES) || (npz && in->deflated != ARCHIVE_PLAIN);
}

/* The most that an input may take in a spill, in MiB. Arrays do not grow, but for headers and what a codec adds to noise; those of an
 * .npz were deflated; those that are resized are made in memory, of which a worker has less than that. */
static uint64_t spill_room_mib(const struct plan *p, const struct entry *e, const struct plan_rule *rule, const struct item_input *in)
{
    const bool npz = e->path_bytes > 4 && strcasecmp(e->path + e->path_bytes - 4, ".npz") == 0;
    const uint64_t mib = (in->bytes >> 20) + 1, packed = npz ? mib * archive_limits_default.max_ratio : 0;
    const bool resized = rule->role != SLIMSET_ROLE_COPY && plan_settings(p, rule)->resize != SLIMSET_RESIZE_NONE;
    return mib + mib / 16 + 64 + packed + (resized ? 16 << 10 : 0);
}

enum slimset_status request_open(struct request *r, const struct plan *p, uint32_t first, uint32_t n, enum item_op op,
                                 uint64_t ticket, uint32_t *failed, struct slimset_error *err)
{
    r->item.ticket = ticket;
    r->item.op = op;
    r->item.slot = 0;
    r->item.n_inputs = n;
    r->item.n_fds = 0;
    r->item.has_spill = 0;
    r->item.spill_mib = 0;
    uint64_t room_mib = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = &p->listing.entries[first + i];
        const struct plan_rule *rule = &p->rules[e->rule];
        struct item_input *in = &r->item.input[i];
        int fd = -1, shared = shared_fd(r, p, e, i);
        memset(in, 0, sizeof *in);
        in->role = rule->role;
        in->codec = rule->codec;
        in->flags = rule->flags;
        in->settings = plan_rule_settings(rule);
        if (rule->params != NULL && rule->role == SLIMSET_ROLE_IMAGE)
            sscanf(rule->params, "depth:%hu,%hu", &in->depth_lo, &in->depth_hi);
        enum slimset_status st = listing_open(&p->listing, e, &fd, in, err);
        if (st != SLIMSET_OK) {
            *failed = i;
            request_close(r);
            return st;
        }
        if (rule->role == SLIMSET_ROLE_ARRAY || rule->role == SLIMSET_ROLE_MASK || rule->role == SLIMSET_ROLE_DEPTH)
            array_choices(p, rule, p->listing.sources[e->source].webdataset, in);
        r->item.has_spill |= op != ITEM_HASH && wants_spill(e, rule, in);
        room_mib += spill_room_mib(p, e, rule, in);
        if (shared >= 0) {
            close(fd);
            in->fd_index = (uint8_t)shared;
        } else {
            in->fd_index = (uint8_t)r->item.n_fds;
            r->fds[r->item.n_fds++] = fd;
        }
    }
    if (r->item.has_spill)
        r->item.spill_mib = room_mib < UINT32_MAX ? (uint32_t)room_mib : UINT32_MAX;
    return SLIMSET_OK;
}

void request_close(struct request *r)
{
    for (uint32_t i = 0; i < r->item.n_fds; i++)
        close(r->fds[i]);
    r->item.n_fds = 0;
}

void request_readahead(const struct request *r)
{
    for (uint32_t i = 0; i < r->item.n_inputs; i++) {
        const struct item_input *in = &r->item.input[i];
        posix_fadvise(r->fds[in->fd_index], (off_t)in->offset, (off_t)in->packed_bytes + (in->zip_local ? 512 : 0),
                      POSIX_FADV_WILLNEED);
    }
}
