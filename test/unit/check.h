/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest unit-test frame that says what differs. A test program has functions `static void
 * test_x(void)`, runs them with RUN(test_x) in main and returns check_done(). Each RUN prints "ok x" or "FAIL x"
 * after the failing lines; the runner (test/run.py) counts those lines.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <string.h>

static int check_failures_total, check_failures_here;

#define CHECK(cond)                                                                         \
    do {                                                                                    \
        if (!(cond)) {                                                                      \
            printf("  %s:%d: not so: %s\n", __FILE__, __LINE__, #cond);                     \
            check_failures_here++;                                                          \
        }                                                                                   \
    } while (0)

#define CHECK_INT(got, want)                                                                \
    do {                                                                                    \
        long long g_ = (long long)(got), w_ = (long long)(want);                            \
        if (g_ != w_) {                                                                     \
            printf("  %s:%d: %s is %lld, should be %lld\n", __FILE__, __LINE__, #got, g_, w_); \
            check_failures_here++;                                                          \
        }                                                                                   \
    } while (0)

#define CHECK_STR(got, want)                                                                \
    do {                                                                                    \
        const char *g_ = (got), *w_ = (want);                                               \
        if (strcmp(g_, w_) != 0) {                                                          \
            printf("  %s:%d: %s is \"%s\", should be \"%s\"\n", __FILE__, __LINE__, #got, g_, w_); \
            check_failures_here++;                                                          \
        }                                                                                   \
    } while (0)

#define RUN(fn)                                                                             \
    do {                                                                                    \
        check_failures_here = 0;                                                            \
        fn();                                                                               \
        printf("%s %s\n", check_failures_here ? "FAIL" : "ok", #fn);                        \
        check_failures_total += check_failures_here;                                        \
    } while (0)

static inline int check_done(void)
{
    return check_failures_total != 0;
}

#endif
