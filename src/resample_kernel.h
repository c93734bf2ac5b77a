/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two 8-bit kernels of resample.c and resample_avx2.c share: the coefficient table of an
 * axis and the exact integer arithmetic, so that both give the same bytes.
 *
 *   vertical    m = clamp16((sum(c * sample) + 2^(7+k)) >> (8+k))         c in Q(14+k), m in Q6
 *   horizontal  d = clamp8((sum over chunks(sum(c * m) >> k) + 2^19) >> 20)
 *
 * k (struct axis, shift) is 0 for rows of up to 256 taps. Longer rows have coefficients too small
 * for Q14 and are kept finer; the chunks of KERNEL_CHUNK pairs, counted from the stored start of a
 * row, then keep the horizontal sum inside 32 bits: no coefficient of such a row exceeds 256,
 * |m| < 2^14.8, so a chunk is below 256 * 256 * 2^14.8 = 2^30.8. The rows sum to exactly 2^(14+k)
 * and their absolute values to less than 1.7 times that (the worst are planes of two samples, at
 * their edge): the other sums have room as well, and clamp16 never acts.
 */
#ifndef RESAMPLE_KERNEL_H
#define RESAMPLE_KERNEL_H

#include "image.h"

enum {
    KERNEL_ROWS = 32,   /* destination rows per block: 4 groups of 8 */
    KERNEL_CHUNK = 128, /* pairs of taps, see above */
    KERNEL_COEF_BITS = 14,
    KERNEL_MID_BITS = 6,          /* fraction of the samples between the passes */
    KERNEL_UNIT = 32,             /* samples of a row that the AVX2 vertical pass takes at once */
    KERNEL_RING_BYTES = 24 << 10, /* aim for the widened rows of a strip: they should stay in L1 */
    KERNEL_STRIP_MAX = 16         /* units */
};

/* Coefficients of one axis. Taps come in pairs (2q - parity, 2q + 1 - parity), one multiply-add of
 * 16-bit pairs each; every row has the same number of pairs, filled up with zeros. */
struct axis {
    uint32_t n_src, n_dst;
    uint32_t pairs;  /* per row, >= 1 */
    uint32_t parity; /* 0 or 1, whichever needs fewer pairs */
    uint32_t lo, hi; /* pairs [lo, hi) are all that any row uses; hi - lo >= pairs */
    uint32_t window; /* pairs from the start of a row to the furthest end of it and those before */
    const uint32_t *first; /* first pair of each row, within [lo, hi - pairs] */
    const uint8_t *shift;  /* k of each row, 0..8 */
    const int16_t *coef;   /* n_dst rows of 2 * pairs */
    const double *wide;    /* for 16-bit planes instead of coef: integers in Q22, never shifted */
};

struct kernel_job {
    const struct image_plane *src;
    struct image_plane *dst;
    const struct axis *h, *v;
    /* Scratch, aligned to 64 bytes, always initialised. ring: the source rows of a strip as 16-bit
     * pairs, the vertical results of the strip behind them; mid: all columns of a block between the
     * passes; cols: its result, column by column. The portable kernel only needs mid. */
    uint8_t *ring, *mid, *cols;
};

/* The widened pairs of rows live in a ring of a power of two of them, in which pair q has place
 * q % ring: enough for the rows that a destination row needs and those already made for others. */
static inline uint32_t kernel_ring_pairs(const struct axis *v)
{
    uint32_t n = 1;
    while (n < v->window)
        n *= 2;
    return n;
}

/* Strip width in units: all that fits, but at least a cache line of a source row. */
static inline uint32_t kernel_strip_units(uint32_t ring_pairs)
{
    uint32_t units = KERNEL_RING_BYTES / (KERNEL_UNIT * 4u) / ring_pairs;
    return units < 2 ? 2 : units > KERNEL_STRIP_MAX ? KERNEL_STRIP_MAX : units;
}

/* Bytes of scratch. */
static inline size_t kernel_ring_bytes(const struct axis *v)
{
    size_t pairs = kernel_ring_pairs(v);
    return kernel_strip_units((uint32_t)pairs) * (pairs * KERNEL_UNIT * 4 + 8 * KERNEL_UNIT * 2);
}
static inline size_t kernel_mid_bytes(const struct axis *h)
{
    size_t units = ((size_t)(h->hi - h->lo) * 2 + KERNEL_UNIT - 1) / KERNEL_UNIT;
    return units * KERNEL_UNIT * KERNEL_ROWS * 2;
}
static inline size_t kernel_cols_bytes(const struct axis *h)
{
    return ((size_t)h->n_dst + 15) / 16 * 16 * KERNEL_ROWS;
}

/* One block: destination rows [y0, y0 + rows), rows <= KERNEL_ROWS. */
typedef void kernel_block_fn(const struct kernel_job *job, uint32_t y0, uint32_t rows);

#if defined(__x86_64__)
kernel_block_fn kernel_block_avx2;
#endif

#endif
