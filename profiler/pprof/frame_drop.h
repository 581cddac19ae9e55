/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_drop - which functions a pprof file hides (profile.proto, drop_frames and keep_frames), as go tool pprof has it
 * (github.com/google/pprof, profile/prune.go): a function whose whole name fits the one pattern and not the other.
 * Names count without a list of arguments: "f(int)" is "f".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct frame_drop { /* all zero: nothing is hidden */
	struct frame_regex *drop, *keep;
	uint64_t steps; /* of the matcher that are left: all names together */
};

/* keep may be "". 0, -ENOMEM; -EINVAL or -E2BIG: a pattern that frame_regex.h does not take. */
int frame_drop_open(struct frame_drop *f, const char *drop, const char *keep);
/* 1, 0; -ENOMEM; -EFBIG: there are no steps left */
int frame_drop_hides(struct frame_drop *f, const char *name);
void frame_drop_done(struct frame_drop *f);
