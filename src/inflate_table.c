/* SPDX-License-Identifier: Apache-2.0 */
#include "inflate_table.h"

static unsigned reverse(unsigned code, unsigned len)
{
    unsigned r = 0;
    for (unsigned i = 0; i < len; i++, code >>= 1)
        r = r << 1 | (code & 1);
    return r;
}

bool inflate_table(uint32_t *table, unsigned cap, unsigned root, const uint8_t *lengths, unsigned n,
                  const uint32_t *entry, bool one_may_be)
{
    unsigned count[CODE_BITS_MAX + 1] = {0}, offset[CODE_BITS_MAX + 2] = {0}, max = 0;
    uint16_t sorted[288];
    for (unsigned s = 0; s < n; s++)
        count[lengths[s]]++;
    count[0] = 0;
    int left = 1;
    for (unsigned len = 1; len <= CODE_BITS_MAX; len++) {
        left = 2 * left - (int)count[len];
        if (left < 0)
            return false;
        offset[len + 1] = offset[len] + count[len];
        if (count[len] != 0)
            max = len;
    }
    if (left > 0 && (!one_may_be || max > 1))
        return false;
    for (unsigned s = 0; s < n; s++)
        if (lengths[s] != 0)
            sorted[offset[lengths[s]]++] = (uint16_t)s;
    for (unsigned i = 0; i < 1u << root; i++)
        table[i] = ENTRY_BAD | 1;

    unsigned code = 0, at = 0, next = 1u << root, sub = 0, sub_bits = 0, prefix = ~0u;
    for (unsigned len = 1; len <= max; len++, code <<= 1)
        for (unsigned k = 0; k < count[len]; k++, code++, at++) {
            unsigned rev = reverse(code, len);
            uint32_t e = entry[sorted[at]] | len;
            if (len <= root) {
                for (unsigned i = rev; i < 1u << root; i += 1u << len)
                    table[i] = e;
                continue;
            }
            if ((rev & ((1u << root) - 1)) != prefix) {
                prefix = rev & ((1u << root) - 1);
                sub_bits = len - root;
                int room = 1 << sub_bits;
                for (; sub_bits + root < max; sub_bits++, room <<= 1) {
                    room -= (int)(sub_bits + root == len ? count[len] - k : count[sub_bits + root]);
                    if (room <= 0)
                        break;
                }
                sub = next;
                next += 1u << sub_bits;
                if (next > cap)
                    return false;
                for (unsigned i = sub; i < next; i++)
                    table[i] = ENTRY_BAD | 1;
                table[prefix] = sub << 16 | ENTRY_SUB | sub_bits << 4;
            }
            for (unsigned i = rev >> root; i < 1u << sub_bits; i += 1u << (len - root))
                table[sub + i] = e;
        }
    return true;
}
