/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR 2 /* XXH_AVX2 */
#include <xxhash.h>

uint64_t hash_bytes_avx2(const void *p, size_t n) { return XXH3_64bits(p, n); }

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
