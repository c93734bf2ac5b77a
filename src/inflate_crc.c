/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32, eight bytes at a time. A table of it is linear over exclusive or, so that the entries of the
 * powers of two make all others: row k has those of a byte that k more bytes follow.
 */
#include "base/buf.h"
#include "inflate.h"

#define BIT(i, n, v) (((i) >> (n) & 1) != 0 ? (v) : 0u)
#define ONE(i, a, b, c, d, e, f, g, h)                                                             \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^      \
     BIT(i, 6, g) ^ BIT(i, 7, h))
#define FOUR(i, ...) ONE(i, __VA_ARGS__), ONE(i + 1, __VA_ARGS__), ONE(i + 2, __VA_ARGS__), ONE(i + 3, __VA_ARGS__)
#define SIXTEEN(i, ...) FOUR(i, __VA_ARGS__), FOUR(i + 4, __VA_ARGS__), FOUR(i + 8, __VA_ARGS__), FOUR(i + 12, __VA_ARGS__)
#define SIXTYFOUR(i, ...) SIXTEEN(i, __VA_ARGS__), SIXTEEN(i + 16, __VA_ARGS__), SIXTEEN(i + 32, __VA_ARGS__), SIXTEEN(i + 48, __VA_ARGS__)
#define ROW(...) {SIXTYFOUR(0, __VA_ARGS__), SIXTYFOUR(64, __VA_ARGS__), SIXTYFOUR(128, __VA_ARGS__), SIXTYFOUR(192, __VA_ARGS__)}

static const uint32_t table[8][256] = {
    ROW(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832,
        0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320),
    ROW(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08,
        0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b),
    ROW(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8,
        0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80),
    ROW(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef,
        0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b),
    ROW(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1,
        0x60e09782, 0xc1c12f04, 0x58f35849, 0xb1e6b092),
    ROW(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d,
        0x03d6029b, 0x07ac0536, 0x0f580a6c, 0x1eb014d8),
    ROW(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67,
        0x67de9cce, 0xcfbd399c, 0x440b7579, 0x8816eaf2),
    ROW(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5,
        0x7cbb312b, 0xf9766256, 0x299dc2ed, 0x533b85da),
};

uint32_t inflate_crc32(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFF;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = get_le32(p) ^ crc, b = get_le32(p + 4);
        crc = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^
              table[4][a >> 24] ^ table[3][b & 255] ^ table[2][b >> 8 & 255] ^
              table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; n != 0; n--)
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
    return ~crc;
}
