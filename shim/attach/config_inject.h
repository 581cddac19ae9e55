/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_inject - what a config.json is given for its container to be profiled, by splice: the hook, and libpillion for
 * the events that are counted within the program. All else of it stays as it is, byte by byte.
 *
 * It is whoever calls a runtime that has written the config.json; what a tenant chose in it are annotation values.
 */
#pragma once

#include "oci/base/json_edit.h"

/* Twice the largest budget, so that the runtime never ends the hook; 50-pillion.json and the CDI file say the same. */
#define HOOK_TIMEOUT_S 10

/* Its text names our switch at all: without that there is nothing to do, and nothing to parse. */
bool config_inject_is_asked(const char *text, size_t len);

/* createRuntime and poststop of `hook`, with --etc where `etc` is not NULL. 0: also where it is there already. -EINVAL:
 * unclear. */
int config_inject_hook(struct json_edit *s, const char *hook, const char *etc, struct err *e);

/*
 * 1: the container's own annotation (that for its name wins) asks for an event within the program, it is no sandbox,
 * and it has no user namespace, where libpillion trusts nobody. 0: it does not. -EINVAL with a sentence: unclear, or
 * the library's mount point would be in a directory that is mounted read-only.
 */
int config_inject_wants_library(const struct json_edit *s, struct err *e);
/* A read-only mount, LD_PRELOAD behind what is there, PILLION_SOCKET. */
int config_inject_library(struct json_edit *s, const char *library, struct err *e);

/* root.path relative to the bundle, made absolute. -EINVAL also where a mount's source leaves the bundle by "..". */
int config_inject_root(struct json_edit *s, const char *bundle, struct err *e);
