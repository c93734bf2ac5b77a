/* SPDX-License-Identifier: Apache-2.0
 *
 * The door to decompression of PNG's image data: a deflate stream with its Adler-32 behind it (the
 * two bytes of the zlib header are the caller's to look at), in pieces, and the CRC of chunks. Two
 * files stand behind it: inflate_isal.c over ISA-L for the program, inflate.c, which needs nothing,
 * for libslimset. What they give is the same. What they accept differs in streams that no encoder
 * writes: inflate.c is as strict as zlib, ISA-L lets some incomplete codes pass.
 */
#ifndef INFLATE_H
#define INFLATE_H

#include <stddef.h>
#include <stdint.h>

struct inflater; /* opaque; not thread-safe */

struct inflater *inflater_new(void); /* NULL without memory */
void inflater_free(struct inflater *z);

/* A new stream. */
void inflater_start(struct inflater *z);

/* Where the next input lies and where output goes; inflater_run moves all four on. */
struct inflate_io {
    const uint8_t *in;
    size_t in_n;
    uint8_t *out;
    size_t out_n;
};

enum inflate_step {
    INFLATE_GOING, /* output is full or input is used up */
    INFLATE_DONE,  /* the stream has ended and its Adler-32 is right */
    INFLATE_BAD,   /* damaged */
    INFLATE_BAD_SUM
};

/* Nothing may follow on anything but INFLATE_GOING. */
enum inflate_step inflater_run(struct inflater *z, struct inflate_io *io);

/* After INFLATE_DONE: bytes that were taken from the input and lie behind the end. */
size_t inflater_surplus(const struct inflater *z);

/* CRC-32 as PNG has it. */
uint32_t inflate_crc32(const uint8_t *p, size_t n);

#endif
