/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_json - a profile as one JSON document, for scripts:
 *
 *	{"start_ns", "duration_ns",
 *	 "types": [{"type", "unit", "total"}],
 *	 "notes": ["..."],
 *	 "functions": [{"name", "file", "flat": [...], "cum": [...]}],
 *	 "samples": [{"stack": [...], "values": [...], "labels": {"container": "web", ...}}]}
 *
 * `flat`, `cum` and `values` have a number for each type, in the order of `types`. A stack is numbers of functions,
 * counted from 0, leaf first, inlined ones too. Numbers are whole and may need 64 bits. Keys stay as they are, new ones
 * may come. Always valid UTF-8; control characters are escaped, as JSON has them.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdio.h>

int profile_json_write(const struct profile *p, FILE *out); /* 0, -ENOMEM, -EIO */
