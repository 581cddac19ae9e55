/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/event_request.h"

#include "oci/runtime/policy.h"
#include "shim/event/tracepoint.h"

#include <errno.h>
#include <stdio.h>

static void note_left_out(void *arg, const char *why)
{
	target_note_left_out(arg, why);
}

static int ask_policy(const struct policy_settings *policy, const struct event_spec *spec, struct err *e)
{
	const struct event_kind *k = event_kind(spec->kind);
	const struct {
		bool allowed;
		const char *key;
	} rules[] = {[NAMED_NOT] = {true, NULL},
		[NAMED_TRACEPOINT] = {policy->tracepoints, "tracepoints"},
		[NAMED_KPROBE] = {policy->kprobes, "kprobes"},
		[NAMED_UPROBE] = {policy->uprobes, "uprobes"},
		[NAMED_RAW] = {policy->raw, "raw"}};
	char name[EVENT_TEXT_MAX];
	snprintf(name, sizeof(name), "%s%s%s", k->name, spec->name[0] ? ":" : "", spec->name);
	if (!policy_lets(policy->allow_events, name))
		return err_say(
			e, -EPERM, "%s: the administrator's policy does not allow it (policy.conf: events)", name);
	return rules[k->naming].allowed
		       ? 0
		       : err_say(e, -EPERM,
				 "%s %s: the administrator's policy does not allow it (policy.conf: %s = yes)", k->name,
				 event_name(spec), rules[k->naming].key);
}

static int obey_policy(struct target_desc *d, const struct policy_settings *policy, struct err *e)
{
	struct err why = {0};
	for (uint32_t i = 0; i < d->n_events;)
		if (ask_policy(policy, &d->events[i], &why) < 0)
			target_leave_out(d, i, why.text);
		else
			i++;
	return d->n_events ? 0 : err_say(e, why.code, "%s", why.text);
}

/* Puts the note first: notes are cut at their end, and a tenant may have filled them. */
static void note_first(struct target_desc *d, uint32_t max_rate)
{
	char others[sizeof(d->notes)];
	snprintf(others, sizeof(others), "%s", d->notes);
	snprintf(d->notes, sizeof(d->notes), "rate lowered to %u Hz by policy", max_rate);
	if (others[0])
		target_note(d, others);
}

int event_request_make(const char *list, const struct policy_settings *policy, struct target_desc *d, struct err *e)
{
	const uint32_t max_rate = policy ? policy->max_rate : 0;
	size_t n = 0;
	bool clamped = false;
	struct err why = {0};
	int r = event_spec_parse_some(list, max_rate, d->events, &n, &clamped, note_left_out, d, &why);
	d->n_events = (uint32_t)n;
	if (r < 0)
		return err_say(e, r, "%s", why.text);
	if (clamped)
		note_first(d, max_rate);
	if (policy)
		r = obey_policy(d, policy, e);
	return r < 0 ? r : tracepoints_find(d, e);
}
