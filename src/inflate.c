/* SPDX-License-Identifier: Apache-2.0
 *
 * Deflate (RFC 1951) without a library. Output goes into a window of our own that holds the last
 * 32 KiB and some more, from where it is copied to the caller. Bits come into a 64-bit register.
 * While there are plenty of input and of room, symbols are decoded without looking at either
 * (fast_symbols); near the ends one at a time, and a symbol is only taken when all of its bits are
 * there (one_symbol), so that a stream may be cut anywhere. What is accepted is what zlib accepts.
 */
#include "inflate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "inflate_table.h"

enum {
    HISTORY_BYTES = 32 << 10, /* the furthest distance */
    ROOM_BYTES = 64 << 10,
    MATCH_MAX = 258,
    SLACK_BYTES = 32, /* copies write whole words */
    WINDOW_BYTES = HISTORY_BYTES + ROOM_BYTES + MATCH_MAX + SLACK_BYTES,
    LIT_BITS = 11,
    DIST_BITS = 8,
    PRE_BITS = 7,
    /* The most that 288, 32 and 19 codes of up to 15 (7) bits need with such first tables: zlib's
     * examples/enough.c */
    LIT_ENTRIES = 2342,
    DIST_ENTRIES = 402,
    PRE_ENTRIES = 128,
    FAST_LITERALS = 6, /* of a round of fast_symbols */
    ADLER_CHUNK = 5552 /* as many bytes as 32-bit sums hold */
};

enum state { BLOCK, STORED_SIZE, STORED, COUNTS, PRE_LENGTHS, LENGTHS, SYMBOLS, TRAILER, ENDED };

struct inflater {
    enum state state;
    bool last;           /* the block at work is */
    uint64_t bits;       /* the next bits of the stream, lowest first; zero above n_bits */
    unsigned n_bits;
    uint32_t stored;     /* bytes left of a stored block */
    unsigned n_lit, n_dist, n_pre, i; /* of the tables being read */
    uint8_t lengths[288 + 32];
    uint32_t adler_a, adler_b;
    size_t at, given;    /* window: end of what is decoded, of what was handed out */
    uint32_t lit[LIT_ENTRIES], dist[DIST_ENTRIES], pre[PRE_ENTRIES];
    uint8_t window[WINDOW_BYTES];
};

struct inflater *inflater_new(void) { return calloc(1, sizeof(struct inflater)); }

void inflater_free(struct inflater *z) { free(z); }

void inflater_start(struct inflater *z)
{
    z->state = BLOCK;
    z->last = false;
    z->bits = 0;
    z->n_bits = 0;
    z->adler_a = 1;
    z->adler_b = 0;
    z->at = z->given = 0;
}

size_t inflater_surplus(const struct inflater *z) { return z->n_bits / 8; }

/* ---- tables ---- */

/* Where two literals fit into the first table's bits, they become one entry. From the end, so that what
 * stands behind a literal is still single. */
static void pair_literals(uint32_t *table)
{
    const uint32_t first = table[0];
    for (unsigned i = 1u << LIT_BITS; i-- > 0;) {
        uint32_t a = table[i];
        if ((a & ENTRY_LITERAL) == 0)
            continue;
        uint32_t b = i == 0 ? first : table[i >> CODE_LEN(a)];
        if ((b & ENTRY_LITERAL) != 0 && CODE_LEN(a) + CODE_LEN(b) <= LIT_BITS)
            table[i] = (VALUE(a) | VALUE(b) << 8) << 16 | ENTRY_LITERAL | ENTRY_PAIR |
                       (CODE_LEN(a) + CODE_LEN(b));
    }
}

/* What the symbols of the three alphabets stand for. */
static bool build_symbols(struct inflater *z)
{
    static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,
                                             15, 17, 19, 23, 27, 31, 35, 43, 51,  59,
                                             67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                             2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    uint32_t entry[288];
    for (unsigned s = 0; s < 256; s++)
        entry[s] = s << 16 | ENTRY_LITERAL;
    entry[256] = ENTRY_END;
    for (unsigned s = 0; s < 29; s++)
        entry[257 + s] = (uint32_t)length_base[s] << 16 | (uint32_t)length_extra[s] << 4;
    entry[286] = entry[287] = ENTRY_BAD; /* have codes in the fixed table */
    if (!inflate_table(z->lit, LIT_ENTRIES, LIT_BITS, z->lengths, z->n_lit, entry, true))
        return false;
    pair_literals(z->lit);
    uint32_t base = 1;
    for (unsigned s = 0; s < 30; s++) {
        unsigned extra = s < 4 ? 0 : s / 2 - 1;
        entry[s] = base << 16 | extra << 4;
        base += 1u << extra;
    }
    entry[30] = entry[31] = ENTRY_BAD;
    return inflate_table(z->dist, DIST_ENTRIES, DIST_BITS, z->lengths + z->n_lit, z->n_dist, entry, true);
}

static bool build_fixed(struct inflater *z)
{
    z->n_lit = 288;
    z->n_dist = 32;
    memset(z->lengths, 8, 144);
    memset(z->lengths + 144, 9, 112);
    memset(z->lengths + 256, 7, 24);
    memset(z->lengths + 280, 8, 8);
    memset(z->lengths + 288, 5, 32);
    return build_symbols(z);
}

/* ---- bits ---- */

/* Bytes into the register as long as both last. */
static void refill(struct inflater *z, struct inflate_io *io)
{
    while (z->n_bits < 56 && io->in_n != 0) {
        z->bits |= (uint64_t)*io->in++ << z->n_bits;
        z->n_bits += 8;
        io->in_n--;
    }
}

static unsigned take(struct inflater *z, unsigned n)
{
    unsigned v = (unsigned)(z->bits & (((uint64_t)1 << n) - 1));
    z->bits >>= n;
    z->n_bits -= n;
    return v;
}

/* What a step of the stream came to. */
enum outcome { WENT_ON, WANTS_INPUT, WANTS_ROOM, IS_BAD };

/* ---- headers of blocks ---- */

static enum outcome block(struct inflater *z)
{
    if (z->n_bits < 3)
        return WANTS_INPUT;
    z->last = take(z, 1) != 0;
    switch (take(z, 2)) {
    case 0:
        take(z, z->n_bits % 8);
        z->state = STORED_SIZE;
        return WENT_ON;
    case 1:
        z->state = SYMBOLS;
        return build_fixed(z) ? WENT_ON : IS_BAD;
    case 2:
        z->state = COUNTS;
        return WENT_ON;
    default:
        return IS_BAD;
    }
}

static enum outcome counts(struct inflater *z)
{
    if (z->n_bits < 14)
        return WANTS_INPUT;
    z->n_lit = take(z, 5) + 257;
    z->n_dist = take(z, 5) + 1;
    z->n_pre = take(z, 4) + 4;
    if (z->n_lit > 286 || z->n_dist > 30)
        return IS_BAD;
    z->i = 0;
    memset(z->lengths, 0, 19);
    z->state = PRE_LENGTHS;
    return WENT_ON;
}

static enum outcome pre_lengths(struct inflater *z)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                      11, 4,  12, 3, 13, 2, 14, 1, 15};
    for (; z->i < z->n_pre; z->i++) {
        if (z->n_bits < 3)
            return WANTS_INPUT;
        z->lengths[order[z->i]] = (uint8_t)take(z, 3);
    }
    uint32_t entry[19];
    for (unsigned s = 0; s < 19; s++)
        entry[s] = s << 16;
    z->i = 0;
    z->state = LENGTHS;
    return inflate_table(z->pre, PRE_ENTRIES, PRE_BITS, z->lengths, 19, entry, false) ? WENT_ON : IS_BAD;
}

/* One code length, or a run of them. */
static enum outcome lengths(struct inflater *z)
{
    static const uint8_t extra[3] = {2, 3, 7}, least[3] = {3, 3, 11};
    unsigned n = z->n_lit + z->n_dist;
    if (z->i == n) {
        z->state = SYMBOLS;
        return z->lengths[256] != 0 && build_symbols(z) ? WENT_ON : IS_BAD;
    }
    uint32_t e = z->pre[z->bits & ((1u << PRE_BITS) - 1)];
    unsigned s = VALUE(e), more = s >= 16 ? extra[s - 16] : 0;
    if ((e & ENTRY_BAD) != 0 && z->n_bits >= PRE_BITS)
        return IS_BAD;
    if ((e & ENTRY_BAD) != 0 || z->n_bits < CODE_LEN(e) + more)
        return WANTS_INPUT;
    take(z, CODE_LEN(e));
    if (s < 16) {
        z->lengths[z->i++] = (uint8_t)s;
        return WENT_ON;
    }
    unsigned run = least[s - 16] + take(z, more);
    if (run > n - z->i || (s == 16 && z->i == 0))
        return IS_BAD;
    memset(z->lengths + z->i, s == 16 ? z->lengths[z->i - 1] : 0, run);
    z->i += run;
    return WENT_ON;
}

/* ---- contents of blocks ---- */

static enum outcome stored_size(struct inflater *z)
{
    if (z->n_bits < 32)
        return WANTS_INPUT;
    uint32_t size = take(z, 16);
    if ((size ^ take(z, 16)) != 0xFFFF)
        return IS_BAD;
    z->stored = size;
    z->state = STORED;
    return WENT_ON;
}

static enum outcome stored(struct inflater *z, struct inflate_io *io)
{
    size_t room = HISTORY_BYTES + ROOM_BYTES - z->at;
    if (z->stored == 0) {
        z->state = z->last ? TRAILER : BLOCK;
        return WENT_ON;
    }
    if (z->at >= HISTORY_BYTES + ROOM_BYTES)
        return WANTS_ROOM;
    if (z->n_bits != 0) { /* whole bytes */
        z->window[z->at++] = (uint8_t)take(z, 8);
        z->stored--;
        return WENT_ON;
    }
    if (io->in_n == 0)
        return WANTS_INPUT;
    size_t n = z->stored < room ? z->stored : room;
    n = n < io->in_n ? n : io->in_n;
    memcpy(z->window + z->at, io->in, n);
    io->in += n;
    io->in_n -= n;
    z->at += n;
    z->stored -= (uint32_t)n;
    return WENT_ON;
}

/* n bytes from `distance` before to; up to 16 bytes behind them may be overwritten. */
static inline void copy_match(uint8_t *to, size_t distance, unsigned n)
{
    const uint8_t *from = to - distance;
    uint8_t *end = to + n;
    if (distance >= 16) {
        do {
            memcpy(to, from, 16);
            to += 16;
            from += 16;
        } while (to < end);
    } else if (distance == 1) {
        memset(to, *from, n);
    } else if (distance >= 8) {
        do {
            memcpy(to, from, 8);
            to += 8;
            from += 8;
        } while (to < end);
    } else {
        do
            *to++ = *from++;
        while (to < end);
    }
}

/* As one_symbol, many of them. Each round uses at most 16 bytes of input and 264 of room. */
static enum outcome fast_symbols(struct inflater *z, struct inflate_io *io)
{
    const uint64_t lit_mask = (1u << LIT_BITS) - 1, dist_mask = (1u << DIST_BITS) - 1;
    const uint8_t *in = io->in, *in_end = io->in + io->in_n;
    uint64_t bits = z->bits;
    unsigned n_bits = z->n_bits;
    uint8_t *to = z->window + z->at;
    const uint8_t *limit = z->window + HISTORY_BYTES + ROOM_BYTES - FAST_LITERALS;
    enum outcome outcome = WENT_ON;
#define REFILL() (bits |= get_le64(in) << n_bits, in += (63 - n_bits) >> 3, n_bits |= 56)
#define DROP(n) (bits >>= (n), n_bits -= (n))
#define PUT(e) (to[0] = (uint8_t)VALUE(e), to[1] = (uint8_t)(VALUE(e) >> 8), to += LITERALS(e))
    while (in_end - in >= 16 && to < limit) {
        REFILL();
        uint32_t e = z->lit[bits & lit_mask];
        if ((e & ENTRY_LITERAL) != 0) {
            DROP(CODE_LEN(e));
            PUT(e);
            e = z->lit[bits & lit_mask];
            if ((e & ENTRY_LITERAL) != 0) {
                DROP(CODE_LEN(e));
                PUT(e);
                e = z->lit[bits & lit_mask];
                if ((e & ENTRY_LITERAL) != 0) {
                    DROP(CODE_LEN(e));
                    PUT(e);
                    continue;
                }
            }
            REFILL();
        }
        if ((e & ENTRY_SUB) != 0) {
            e = z->lit[VALUE(e) + (bits >> LIT_BITS & ((1u << EXTRA(e)) - 1))];
            if ((e & ENTRY_LITERAL) != 0) {
                DROP(CODE_LEN(e));
                PUT(e);
                continue;
            }
        }
        if ((e & ENTRY_BAD) != 0) {
            outcome = IS_BAD;
            break;
        }
        DROP(CODE_LEN(e));
        if ((e & ENTRY_END) != 0) {
            z->state = z->last ? TRAILER : BLOCK;
            break;
        }
        unsigned n = VALUE(e) + (unsigned)(bits & ((1u << EXTRA(e)) - 1));
        DROP(EXTRA(e));
        e = z->dist[bits & dist_mask];
        if ((e & ENTRY_SUB) != 0)
            e = z->dist[VALUE(e) + (bits >> DIST_BITS & ((1u << EXTRA(e)) - 1))];
        DROP(CODE_LEN(e));
        size_t distance = VALUE(e) + (size_t)(bits & ((1u << EXTRA(e)) - 1));
        DROP(EXTRA(e));
        if ((e & ENTRY_BAD) != 0 || distance > (size_t)(to - z->window)) {
            outcome = IS_BAD;
            break;
        }
        copy_match(to, distance, n);
        to += n;
    }
#undef REFILL
#undef DROP
#undef PUT
    io->in_n = (size_t)(in_end - in);
    io->in = in;
    z->bits = bits & (((uint64_t)1 << n_bits) - 1);
    z->n_bits = n_bits;
    z->at = (size_t)(to - z->window);
    return outcome;
}

/* An entry for the bits behind the first `skip`; false when they may not be all there. */
static bool look_up(const struct inflater *z, const uint32_t *table, unsigned root, unsigned skip,
                    uint32_t *e)
{
    uint64_t bits = z->bits >> skip;
    *e = table[bits & ((1u << root) - 1)];
    if ((*e & ENTRY_SUB) != 0)
        *e = table[VALUE(*e) + (bits >> root & ((1u << EXTRA(*e)) - 1))];
    unsigned need = (*e & ENTRY_BAD) != 0 ? CODE_BITS_MAX : CODE_LEN(*e) + EXTRA(*e);
    return z->n_bits >= skip + need;
}

/* One symbol, taken only when all of it is there. */
static enum outcome one_symbol(struct inflater *z)
{
    uint32_t e, d;
    if (!look_up(z, z->lit, LIT_BITS, 0, &e))
        return WANTS_INPUT;
    if ((e & ENTRY_BAD) != 0)
        return IS_BAD;
    unsigned skip = CODE_LEN(e) + EXTRA(e);
    if ((e & ENTRY_LITERAL) != 0) {
        take(z, skip);
        z->window[z->at] = (uint8_t)VALUE(e);
        z->window[z->at + 1] = (uint8_t)(VALUE(e) >> 8);
        z->at += LITERALS(e);
        return WENT_ON;
    }
    if ((e & ENTRY_END) != 0) {
        take(z, skip);
        z->state = z->last ? TRAILER : BLOCK;
        return WENT_ON;
    }
    if (!look_up(z, z->dist, DIST_BITS, skip, &d))
        return WANTS_INPUT;
    take(z, CODE_LEN(e));
    unsigned n = VALUE(e) + take(z, EXTRA(e));
    take(z, CODE_LEN(d));
    size_t distance = VALUE(d) + take(z, EXTRA(d));
    if ((d & ENTRY_BAD) != 0 || distance > z->at)
        return IS_BAD;
    copy_match(z->window + z->at, distance, n);
    z->at += n;
    return WENT_ON;
}

static enum outcome symbols(struct inflater *z, struct inflate_io *io)
{
    if (z->at >= HISTORY_BYTES + ROOM_BYTES)
        return WANTS_ROOM;
    if (io->in_n >= 16 && z->at < HISTORY_BYTES + ROOM_BYTES - FAST_LITERALS)
        return fast_symbols(z, io);
    refill(z, io);
    return one_symbol(z);
}

/* ---- output ---- */

static void adler(struct inflater *z, const uint8_t *p, size_t n)
{
    uint32_t a = z->adler_a, b = z->adler_b;
    while (n != 0) {
        size_t chunk = n < ADLER_CHUNK ? n : ADLER_CHUNK;
        n -= chunk;
        for (; chunk >= 32; chunk -= 32, p += 32) {
            uint32_t sum = 0, weighted = 0;
            for (unsigned i = 0; i < 32; i++) {
                sum += p[i];
                weighted += (32 - i) * p[i];
            }
            b += 32 * a + weighted;
            a += sum;
        }
        for (; chunk != 0; chunk--) {
            a += *p++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    z->adler_a = a;
    z->adler_b = b;
}

/* Hands out what there is, as far as the caller has room; makes room in the window. */
static void hand_out(struct inflater *z, struct inflate_io *io)
{
    size_t n = z->at - z->given;
    n = n < io->out_n ? n : io->out_n;
    if (n != 0) {
        memcpy(io->out, z->window + z->given, n);
        adler(z, z->window + z->given, n);
        io->out += n;
        io->out_n -= n;
        z->given += n;
    }
    if (z->at >= HISTORY_BYTES + ROOM_BYTES && z->given >= HISTORY_BYTES) {
        size_t from = (z->given < z->at - HISTORY_BYTES ? z->given : z->at - HISTORY_BYTES);
        memmove(z->window, z->window + from, z->at - from);
        z->at -= from;
        z->given -= from;
    }
}

static enum outcome trailer(struct inflater *z, bool *right)
{
    take(z, z->n_bits % 8);
    if (z->n_bits < 32)
        return WANTS_INPUT;
    uint32_t stored = 0;
    for (unsigned i = 0; i < 4; i++)
        stored = stored << 8 | take(z, 8);
    *right = stored == (z->adler_b << 16 | z->adler_a);
    z->state = ENDED;
    return WENT_ON;
}

enum inflate_step inflater_run(struct inflater *z, struct inflate_io *io)
{
    for (;;) {
        enum outcome outcome = WENT_ON;
        bool right = true;
        hand_out(z, io);
        if (z->given < z->at && (io->out_n == 0 || z->state == TRAILER))
            return INFLATE_GOING;
        if (z->state == ENDED)
            return INFLATE_DONE;
        if (z->state != STORED && z->state != SYMBOLS)
            refill(z, io);
        switch (z->state) {
        case BLOCK:
            outcome = block(z);
            break;
        case STORED_SIZE:
            outcome = stored_size(z);
            break;
        case STORED:
            outcome = stored(z, io);
            break;
        case COUNTS:
            outcome = counts(z);
            break;
        case PRE_LENGTHS:
            outcome = pre_lengths(z);
            break;
        case LENGTHS:
            outcome = lengths(z);
            break;
        case SYMBOLS:
            outcome = symbols(z, io);
            break;
        case TRAILER:
            outcome = trailer(z, &right);
            break;
        case ENDED:
            break;
        }
        if (!right)
            return INFLATE_BAD_SUM;
        if (outcome == IS_BAD)
            return INFLATE_BAD;
        if (outcome == WANTS_INPUT) {
            hand_out(z, io);
            return INFLATE_GOING;
        }
    }
}
