/* SPDX-License-Identifier: Apache-2.0
 *
 * One value, however it is computed: in one go (with AVX2 where the machine has it), in pieces, and as
 * published. format_judge.py has an implementation of its own.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "check.h"

/* xxHash's own test vectors: its sanity check's buffer, seed 0. */
static void test_published_values(void)
{
    static uint8_t p[2367];
    uint64_t byte = 2654435761u;
    for (size_t i = 0; i < sizeof p; i++, byte *= 11400714785074694797u)
        p[i] = (uint8_t)(byte >> 56);
    CHECK(hash_bytes(NULL, 0) == 0x2D06800538D394C2u);
    CHECK(hash_bytes(p, 1) == 0xC44BDFF4074EECDBu);
    CHECK(hash_bytes(p, 403) == 0xCDEB804D65C6DEA4u);
    CHECK(hash_bytes(p, 2048) == 0xDD59E2C3A5F038E0u);
    CHECK(hash_bytes(p, 2367) == 0xCB37AEB9E5D361EDu);
}

static void test_in_pieces(void)
{
    enum { MOST = 70000 };
    uint8_t *p = malloc(MOST + 64);
    uint64_t seed = 3;
    for (size_t i = 0; i < MOST + 64; i++)
        p[i] = (uint8_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 56);
    for (size_t n = 0; n <= MOST; n += n < 3000 ? 1 : 997)
        for (size_t at = 0; at < 64; at += 21) {
            struct hash_stream h;
            hash_init(&h);
            hash_update(&h, p + at, n / 3);
            hash_update(&h, p + at + n / 3, n - n / 3);
            CHECK(hash_value(&h) == hash_bytes(p + at, n));
        }
    free(p);
}

int main(void)
{
    RUN(test_published_values);
    RUN(test_in_pieces);
    return check_done();
}
