/*
 * inits - is the process that a state names one that will begin a program? A runtime's init is parked and then execs;
 * what some runtimes name instead does not, and whoever waited for it would wait for the container's end.
 */
#pragma once

#include "oci/base/err.h"

#include <sys/types.h>

/* 0, or -ENOTSUP with a sentence of who it is and what to do. By its name alone, which nobody in the container chose
 * yet. */
int init_check(pid_t init, struct err *e);
