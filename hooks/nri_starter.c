/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/nri_starter.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/runtime/hook_input_child.h"
#include "oci/runtime/init_check.h"
#include "shim/attach/hook_settings.h"
#include "shim/attach/opener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct options options;
static struct hook_input_child intake;
static struct opener opener;

static enum opener_outcome attach_container(
	const struct nri_ask *ask, int64_t start, char *notes, size_t size, struct err *e)
{
	uint32_t ms = options.settings.budget_ms < ask->limit_ms ? options.settings.budget_ms : ask->limit_ms;
	int r = init_check_parked(ask->container.pid, ask->container.id, e);
	if (r == 0)
		r = hook_input_child_answered(&intake, &ask->container, e);
	if (r == 0)
		r = opener_start(&opener, &intake, &options.settings, start + ms * NSEC_PER_MSEC, e);
	return r < 0 ? OPENER_FAILED : opener_wait(&opener, notes, size, e);
}

static void report_outcome(
	const struct container *c, enum opener_outcome outcome, const char *notes, int64_t start, struct err *e)
{
	double ms = (double)(clock_now() - start) / NSEC_PER_MSEC;
	if (outcome == OPENER_ARMED) {
		log_line(notes[0] ? LOG_WARNING : LOG_INFO, "container=%s pid=%d outcome=armed ms=%.1f notes=\"%s\"",
			c->id, c->pid, ms, notes);
	} else if (outcome == OPENER_UNSAMPLED) {
		log_line(LOG_INFO,
			"container=%s pid=%d outcome=unsampled reason=\"policy: one container of %u is profiled\"",
			c->id, c->pid, options.settings.policy.sample);
		hook_settings_outcome(&options.settings, HOOK_UNSAMPLED, start);
	} else if (outcome == OPENER_FORBIDDEN) {
		log_line(LOG_WARNING, "container=%s pid=%d outcome=forbidden reason=\"%s\"", c->id, c->pid, e->text);
		hook_settings_outcome(&options.settings, HOOK_UNPROFILED, start);
	} else if (outcome == OPENER_FAILED && e->code != -EALREADY) { /* a hook was there before us */
		log_line(LOG_WARNING, "container=%s pid=%d outcome=unprofiled reason=\"%s\"", c->id, c->pid, e->text);
		hook_settings_outcome(&options.settings, HOOK_UNPROFILED, start);
	}
}

void nri_start(const struct nri_starter_spec *spec, const struct nri_ask *ask)
{
	int64_t start = clock_now();
	struct nri_told told = {.number = ask->number};
	struct err e = {0};
	char notes[640] = "";
	enum opener_outcome outcome = OPENER_NOTHING;
	bool off = options_off(spec->etc) == 1;
	int r = off ? 0 : hook_settings_settings(&options, spec->etc, spec->argc, spec->argv, &e);
	if (!off) { /* the log that our parent has open may have been rotated away */
		log_open("pillion-nri", options.settings.paths.log[0] ? options.settings.paths.log : NULL);
		log_level(options.settings.log_level);
	}
	if (r < 0)
		outcome = OPENER_FAILED;
	else if (!off && options.settings.enabled)
		outcome = attach_container(ask, start, notes, sizeof(notes), &e);
	fd_send(spec->pair, &told, sizeof(told), NULL, 0);
	report_outcome(&ask->container, outcome, notes, start, &e);
	opener_done(&opener);
	hook_input_child_done(&intake);
	_exit(0);
}
