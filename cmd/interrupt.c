/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* A handler has no argument: this is the program's one variable that is not a constant. */
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    static const char text[] = "\nslimset: stopping; once more to leave at once\n";
    int e = errno;
    if (caught != 0)
        _exit(128 + number);
    caught = number;
    /* Said here, since the run may need up to two seconds until it hears of it. */
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        /* nobody listens: nothing to be done in a handler */
    }
    errno = e;
}

volatile sig_atomic_t *interrupt_install(void)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction now, old;
        memset(&now, 0, sizeof now);
        now.sa_handler = on_signal;
        /* No SA_RESTART: a wait for the workers shall return and look at the flag. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &now, NULL);
    }
    return &caught;
}

int interrupt_exit_status(void)
{
    return caught != 0 ? 128 + (int)caught : 0;
}
