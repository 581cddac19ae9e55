/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - which containers the administrator's policy.conf allows to be profiled: lists of patterns, in which * stands
 * for any text. An empty list allows all.
 */
#pragma once

#include "oci/runtime/container.h"

#include <stdbool.h>

/* Does `text` match one of `patterns`? Commas or spaces separate these (settings.allow_...). */
bool policy_lets(const char *patterns, const char *text);

/*
 * Checks the container's namespace against `namespaces` (of Kubernetes; a container of no Pod is in namespace ""), and
 * the name and number of the host's user that runs its runtime (root except for rootless containers) against `users`.
 * 0, or -EPERM with a sentence.
 */
int policy_permits(const struct settings *s, const struct container *c, struct err *e);
