/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_inject - edits a config.json by splice, so that its container is profiled: adds the hook, and libpillion for
 * the events that are counted within the program. All other bytes stay as they are.
 *
 * The runtime's caller has written the config.json; a tenant chose only annotation values in it.
 */
#pragma once

#include "oci/base/json/json_edit.h"

/* Twice the largest budget, so that the runtime never ends the hook; 50-pillion.json and the CDI file say the same. */
#define HOOK_TIMEOUT_S 10

/* Does the text name our switch at all? If not, there is nothing to do, and nothing to parse. */
bool config_inject_is_asked(const char *text, size_t len);

/*
 * Adds `hook` at createRuntime and poststop, with --etc if `etc` is not NULL. 0: also when it is there already.
 * -EINVAL: unclear.
 */
int config_inject_hook(struct json_edit *s, const char *hook, const char *etc, struct err *e);

/*
 * 1: the container's own annotation (the one for its name wins) asks for an event within the program, and it is no
 * sandbox. 0: otherwise. -EINVAL with a sentence: unclear; or it has a user namespace, where libpillion trusts no peer;
 * or the library's mount point would be in a directory that is mounted read-only.
 */
int config_inject_wants_library(const struct json_edit *s, struct err *e);
/* Adds a read-only mount and PILLION_SOCKET, and appends to LD_PRELOAD. */
int config_inject_library(struct json_edit *s, const char *library, struct err *e);

/*
 * Makes a root.path that is relative to the bundle absolute. -EINVAL: also when a mount's source leaves the bundle by
 * "..".
 */
int config_inject_root(struct json_edit *s, const char *bundle, struct err *e);
