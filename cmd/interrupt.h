/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C and SIGTERM: the first asks the run to stop cleanly, the second leaves at once. Only verbs
 * that have something to finish install this; the others keep the system's ways.
 */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <signal.h>

/* Installs the handlers and returns the flag they set: 0, or the number of the first signal. A
 * signal that was ignored when the program started (nohup) stays ignored. */
volatile sig_atomic_t *interrupt_install(void);

/* 130 or 143 once a signal came, else 0. */
int interrupt_exit_status(void);

#endif
