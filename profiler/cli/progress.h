/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress - one line on stderr for a user that waits at a terminal: from the second second on, until other output
 * comes. If stderr is no terminal, or a dumb one, there is none.
 *
 * A timer's signal (SIGALRM, system calls go on) writes it, so that one long step is shown, too.
 */
#pragma once

/* Sets the step under way, shown with its seconds behind it. Called again for the next step: the seconds go on. */
void progress_show(const char *doing);
void progress_end(void); /* also if no line was shown */
