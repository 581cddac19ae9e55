/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_inproc.h"

#include "oci/base/clock.h"
#include "profiler/inproc/inproc.h"
#include "profiler/process/supervisor_link.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/crash_record.h"
#include "profiler/target/engine_state.h"
#include "profiler/target/limits.h"
#include "profiler/target/target_open.h"

static void begin_target(void *target)
{
	target_begin(target);
}

static void end_target(void *target)
{
	target_end(target);
}

static void schedule_target(void *target, int64_t ns)
{
	struct target *t = target;
	engine_schedule_target(t->engine, t, ns);
}

static void drain_rings(void *target)
{
	const struct target *t = target;
	engine_drain(t->engine, false);
}

static void take_crash(
	void *target, uint32_t event, struct process *p, const struct record *r, const struct shm_record *from)
{
	crash_record_take(target, event, p, r, from);
}

static int find_module(void *target, const struct module_key *key, struct module **ret)
{
	return target_module(target, key, target_open_file, ret);
}

static void keep_memory(void *target, uint32_t key, int memory)
{
	const struct target *t = target;
	supervisor_request(
		t->engine->host.channel, &(struct worker_request){REQUEST_KEEP_MEMORY, t->number, key}, memory);
}

static bool has_journal(const void *target)
{
	const struct target *t = target;
	return t->engine->commit;
}

static void flush_journal(void *target)
{
	const struct target *t = target;
	checkpoint_flush(t->engine->commit, t->engine, clock_now());
}

static uint64_t free_fds(const void *target)
{
	const struct target *t = target;
	return limits_fds(t->engine, engine_fds(t->engine));
}

static bool close_fd(void *target, int fd)
{
	struct target *t = target;
	return target_files_close_passed(t->engine->symbols.files, &t->fs.account, fd);
}

static int peer_level(const void *target)
{
	const struct target *t = target;
	return engine_peer_level(t->engine);
}

int target_inproc_new(struct target *t)
{
	static const struct inproc_ops ops = {.begin = begin_target,
		.end = end_target,
		.schedule = schedule_target,
		.drain = drain_rings,
		.crash = take_crash,
		.module = find_module,
		.keep_memory = keep_memory,
		.has_journal = has_journal,
		.flush_journal = flush_journal,
		.free_fds = free_fds,
		.close_fd = close_fd,
		.log_level = peer_level};
	const struct inproc_owner owner = {.sampling = &t->sampling,
		.loop = t->engine->loop,
		.marker = t->engine->host.at,
		.number = &t->number,
		.target = t,
		.ops = &ops};
	return inproc_new(&owner, t->app, &t->apps);
}
