/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress - one line on stderr for who waits at a terminal: from the second second on, until something else is said.
 * Where stderr is no terminal, or a dumb one, there is none.
 *
 * A timer's signal (SIGALRM, system calls go on) writes it, so that one long step is told of, too.
 */
#pragma once

/* What is under way from now on, shown with the seconds behind it. Again for the next step: the seconds go on. */
void progress_show(const char *doing);
void progress_end(void); /* also where nothing was shown */
