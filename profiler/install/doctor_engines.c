/* SPDX-License-Identifier: Apache-2.0 */
/* The links between an engine and the hook. */
#include "profiler/install/doctor.h"

#include "oci/base/fd.h"
#include "profiler/install/engine_config.h"
#include "profiler/install/engine_exec.h"
#include "profiler/install/hooks_dir.h"
#include "profiler/install/toml_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void doctor_engines(const struct doctor *d, struct check_result *f)
{
	char list[128];
	const bool any = engine_config_engines(d->host, list, sizeof(list))[0] != 0;
	check_report(f, any ? FINDING_OK : FINDING_WARNING, "%s", any ? list : "none in the usual directories");
	if (!any)
		check_suggest_fix(f, "'pillion run' and 'pillion attach' need none");
}

static bool has_engine(const struct doctor *d, const char *name)
{
	char list[128];
	return strstr(engine_config_engines(d->host, list, sizeof(list)), name) != NULL;
}

/* --- hooks.d ------------------------------------------------------------------------------------------------- */

/* One bad file is enough for podman to start nothing. */
static bool check_file(const struct doctor *d, const char *name, struct check_result *f)
{
	char path[PATH_MAX], program[PATH_MAX], *text = NULL;
	size_t len = 0;
	struct err e = {0};
	snprintf(path, sizeof(path), HOOKS_DIR "/%s", name);
	int r = file_changes_read(d->host, path, &text, &len, &e);
	if (r == 0)
		r = hooks_dir_check(text, len, program, &e);
	free(text);
	if (r == 0)
		return true;
	check_report(f, FINDING_BROKEN, "%s: %s: with it podman starts no container, and CRI-O does not start", path,
		e.code ? e.text : strerror(-r));
	check_suggest_fix(
		f, strcmp(name, HOOKS_DIR_FILE) != 0 ? "repair or remove it" : "remove it, then 'pillion install'");
	return false;
}

/* True, with a report: an engine is configured to look elsewhere. */
static bool looks_elsewhere(const struct doctor *d, struct check_result *f)
{
	static const char *const files[] = {
		"/usr/share/containers/containers.conf", "/etc/containers/containers.conf", "/etc/crio/crio.conf"};
	static struct toml_words dirs;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *text = NULL;
		size_t len, at = 0;
		bool says = file_changes_read(d->host, files[i], &text, &len, NULL) == 0 &&
			    toml_scan_list(text, "hooks_dir", &dirs);
		free(text);
		while (says && at < dirs.n && strcmp(dirs.words[at], HOOKS_DIR) != 0)
			at++;
		if (!says || at < dirs.n)
			continue;
		if (strstr(files[i], "crio") && file_changes_exists(d->host, "/etc/crio/crio.conf.d/99-pillion.conf"))
			continue;
		check_report(f, FINDING_BROKEN, "%s has a hooks_dir without " HOOKS_DIR, files[i]);
		check_suggest_fix(
			f, strstr(files[i], "crio") ? "'pillion install' adds it" : "add \"" HOOKS_DIR "\" to it");
		return true;
	}
	return false;
}

static bool check_all(const struct doctor *d, struct check_result *f)
{
	struct dirent **names = NULL;
	bool good = true;
	fd_auto dir = fd_open_beneath(file_changes_root(d->host), HOOKS_DIR, O_RDONLY | O_DIRECTORY);
	int n = dir < 0 ? 0 : scandirat(dir, ".", &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const size_t len = strlen(names[i]->d_name);
		if (good && len > 5 && !strcmp(names[i]->d_name + len - 5, ".json"))
			good = check_file(d, names[i]->d_name, f);
		free(names[i]);
	}
	free(names);
	return good;
}

void doctor_hooksd(const struct doctor *d, struct check_result *f)
{
	const bool read = has_engine(d, "podman") || has_engine(d, "CRI-O");
	if (!check_all(d, f) || (read && looks_elsewhere(d, f)))
		return;
	if (file_changes_exists(d->host, HOOKS_DIR "/" HOOKS_DIR_FILE)) {
		check_report(
			f, FINDING_OK, HOOKS_DIR "/" HOOKS_DIR_FILE "%s", read ? "" : ", which no engine here reads");
	} else if (read) {
		check_report(f, FINDING_BROKEN,
			"there is no " HOOKS_DIR "/" HOOKS_DIR_FILE ": podman and CRI-O know of no hook");
		check_suggest_fix(f, "sudo pillion install");
	} else {
		check_report(f, FINDING_OK, "no engine here reads it");
	}
}

/* --- the hook ------------------------------------------------------------------------------------------------ */

/* Runs the hook as for a container that has ended and asked for nothing: it prints nothing and exits with 0. */
static int run_hook(struct err *e)
{
	static const char state[] = "{\"ociVersion\": \"1.0\", \"id\": \"pillion-doctor\", \"status\": \"stopped\", "
				    "\"bundle\": \"/\", \"annotations\": {\"io.pillion.profile\": \"off\"}}";
	char command[512];
	snprintf(command, sizeof(command), "printf '%%s' '%s' | " ENGINE_CONFIG_HOOK " 2>&1", state);
	char *said = NULL;
	const char *const argv[] = {"/bin/sh", "-c", command, NULL};
	fd_auto root = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	int n = engine_exec(root, argv, 1, &said);
	if (n > 0)
		err_say(e, -ENOEXEC, "it exits with %d: %.200s", n, engine_exec_last_line(said));
	else if (n < 0)
		err_set(e, n, "it cannot be run");
	free(said);
	return n == 0 ? 0 : -ENOEXEC;
}

void doctor_hook(const struct doctor *d, struct check_result *f)
{
	struct err e = {0};
	struct stat st;
	fd_auto fd = fd_open_beneath(file_changes_root(d->host), ENGINE_CONFIG_HOOK, O_PATH);
	if (fd < 0 || fstat(fd, &st) < 0) {
		check_report(f, FINDING_BROKEN, "there is no " ENGINE_CONFIG_HOOK);
		check_suggest_fix(f, "install the package, or 'make install', or 'pillion install --from DIR'");
	} else if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111)) {
		check_report(
			f, FINDING_BROKEN, ENGINE_CONFIG_HOOK " is no program: its mode is %o", st.st_mode & 07777);
		check_suggest_fix(f, "chmod 755 it, or install it anew");
	} else if (st.st_mode & 022) {
		check_report(f, FINDING_BROKEN, ENGINE_CONFIG_HOOK ", which root runs, may be written by others");
		check_suggest_fix(f, "chmod 755 it");
	} else if (d->here && run_hook(&e) < 0) {
		check_report(f, FINDING_BROKEN, ENGINE_CONFIG_HOOK ": %s", e.text);
		check_suggest_fix(f, "install it anew: it is static, and of this machine's architecture");
	} else {
		check_report(f, FINDING_OK, ENGINE_CONFIG_HOOK "%s", d->here ? " runs" : "");
	}
}

/* --- engines without hooks ----------------------------------------------------------------------------------- */

static bool says_wrapper(const struct doctor *d, const char *path)
{
	char *text = NULL;
	size_t len;
	bool says = file_changes_read(d->host, path, &text, &len, NULL) == 0 && strstr(text, ENGINE_CONFIG_WRAPPER);
	free(text);
	return says;
}

/* True: pillion-nri runs. It speaks with containerd itself, which then needs no handler. */
static bool runs_nri(const struct doctor *d)
{
	char path[300], name[32];
	bool runs = false;
	DIR *proc = d->here ? opendir("/proc") : NULL;
	for (struct dirent *p; proc && !runs && (p = readdir(proc));) {
		snprintf(path, sizeof(path), "/proc/%s/comm", p->d_name);
		runs = p->d_name[0] >= '1' && p->d_name[0] <= '9' &&
		       fd_read_text(AT_FDCWD, path, name, sizeof(name)) >= 0 && !strcmp(name, "pillion-nri");
	}
	if (proc)
		closedir(proc);
	return runs;
}

void doctor_handlers(const struct doctor *d, struct check_result *f)
{
	static const char *const containerd[] = {"/etc/containerd/config.toml", "/etc/containerd/conf.d/pillion.toml",
		"/etc/containerd/config.d/pillion.toml"};
	const bool docker = has_engine(d, "Docker"), cri = has_engine(d, "containerd");
	const bool docker_knows = says_wrapper(d, "/etc/docker/daemon.json");
	bool knows = false;
	for (size_t i = 0; i < sizeof(containerd) / sizeof(containerd[0]); i++)
		knows = knows || says_wrapper(d, containerd[i]);
	if (!docker && !cri) {
		check_report(f, FINDING_OK, "no engine here needs one");
	} else if ((knows || docker_knows) && !file_changes_exists(d->host, ENGINE_CONFIG_WRAPPER)) {
		check_report(f, FINDING_BROKEN, "%s runs " ENGINE_CONFIG_WRAPPER ", which is not there",
			docker_knows ? "Docker's runtime pillion" : "containerd's handler pillion");
		check_suggest_fix(f, "install the package anew, or 'pillion uninstall'");
	} else if (cri && !docker && !knows && runs_nri(d)) {
		check_report(f, FINDING_OK, "pillion-nri runs: containerd needs none");
	} else if ((cri && !docker && !knows) || (docker && !docker_knows)) {
		check_report(f, FINDING_WARNING, "%s has no runtime \"pillion\"", docker ? "Docker" : "containerd");
		check_suggest_fix(f,
			"'pillion install' adds it, or says which lines do; containerd 1.7 and newer may have "
			"pillion-nri "
			"instead");
	} else {
		check_report(f, FINDING_OK, "\"pillion\" of %s",
			docker_knows ? knows ? "containerd and Docker" : "Docker" : "containerd");
	}
}
