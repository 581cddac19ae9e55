/* SPDX-License-Identifier: Apache-2.0 */
/* target_open - the files of a target: opened beneath its tree, and read as modules that targets share. */
#pragma once

#include "profiler/target/target.h"

int target_module(struct target *t, const struct module_key *key, target_file_open_fn *open, struct module **ret);
/* Opens a file beneath its tree, as target_file_open_fn; arg is the target. */
int target_open_file(void *arg, const char *path, struct file *ret);
/* The same, for a path that a tenant chose: follows no symbolic link. */
int target_open_named(void *arg, const char *path, struct file *ret);
int target_open_on_host(void *arg, const char *path, struct file *ret); /* for it, beneath the host's DEBUG_DIR */
