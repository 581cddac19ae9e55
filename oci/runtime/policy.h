/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - whom the administrator's policy.conf lets have a profile: lists of patterns, in which * stands for any text.
 * An empty list lets everybody.
 */
#pragma once

#include "oci/runtime/container.h"

#include <stdbool.h>

/* `patterns` has commas or spaces between them (settings.allow_...). */
bool policy_lets(const char *patterns, const char *text);

/*
 * Is a container's namespace among `namespaces` (of Kubernetes; a container of no Pod is in namespace ""), and the
 * host's user that runs its runtime, who is root but for rootless containers, by name or number among `users`? 0, or
 * -EPERM with a sentence.
 */
int policy_permits(const struct settings *s, const struct container *c, struct err *e);
