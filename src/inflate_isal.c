/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include "inflate.h"

struct inflater {
    struct inflate_state z;
};

struct inflater *inflater_new(void) { return calloc(1, sizeof(struct inflater)); }

void inflater_free(struct inflater *z) { free(z); }

void inflater_start(struct inflater *z)
{
    isal_inflate_init(&z->z);
    z->z.crc_flag = ISAL_ZLIB_NO_HDR_VER;
}

enum inflate_step inflater_run(struct inflater *z, struct inflate_io *io)
{
    struct inflate_state *s = &z->z;
    const uint32_t in = io->in_n < UINT32_MAX ? (uint32_t)io->in_n : UINT32_MAX;
    const uint32_t out = io->out_n < UINT32_MAX ? (uint32_t)io->out_n : UINT32_MAX;
    s->next_in = (uint8_t *)io->in; /* ISA-L only reads there */
    s->avail_in = in;
    s->next_out = io->out;
    s->avail_out = out;
    const int rc = isal_inflate(s);
    io->in += in - s->avail_in;
    io->in_n -= in - s->avail_in;
    io->out += out - s->avail_out;
    io->out_n -= out - s->avail_out;
    if (rc == ISAL_INCORRECT_CHECKSUM)
        return INFLATE_BAD_SUM;
    if (rc != ISAL_DECOMP_OK)
        return INFLATE_BAD;
    return s->block_state == ISAL_BLOCK_FINISH ? INFLATE_DONE : INFLATE_GOING;
}

size_t inflater_surplus(const struct inflater *z) { return (size_t)z->z.read_in_length / 8; }

uint32_t inflate_crc32(const uint8_t *p, size_t n) { return crc32_gzip_refl(0, p, n); }
