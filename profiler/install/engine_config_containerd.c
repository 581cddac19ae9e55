/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd: a runtime handler, in a file of a directory that its configuration imports.
 *
 * containerd 1.x treats an imported file in an unexpected way: a plugin's whole section in it replaces the other's, and
 * where it names one runtime handler, containerd forgets the default one. So containerd prints its configuration before
 * and after, and all of the former must be in the latter.
 */
#include "profiler/install/engine_config.h"

#include "oci/base/fd.h"
#include "profiler/install/engine_exec.h"
#include "profiler/install/templates.h"
#include "profiler/install/toml_scan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAIN "/etc/containerd/config.toml"
#define NAME "pillion.toml"
#define CRI_2 "io.containerd.grpc.v1.cri"
#define CRI_3 "io.containerd.cri.v1.runtime"

struct containerd {
	struct engine_config *r;
	const char *program;
	char *before;	  /* its present configuration; NULL: it cannot be asked */
	const char *main; /* the text of its configuration file, "" where it has none */
	int version;
};

/*
 * Prints containerd's configuration. Exit status, or -errno; *ret: stdout alone, unless it fails. config: NULL where it
 * has no file (`dump` of 1.x needs one).
 */
static int dump_config(const struct containerd *c, const char *config, char **ret)
{
	const char *const with[] = {c->program, "--config", config, "config", "dump", NULL};
	const char *const without[] = {c->program, "config", "default", NULL};
	const char *const *argv = config ? with : without;
	int root = file_changes_root(c->r->files), n = engine_exec(root, argv, 0, ret);
	if (n > 0) {
		free(*ret);
		n = engine_exec(root, argv, 1, ret);
	}
	return n;
}

static int check_dump(const struct containerd *c, const char *after, struct err *e)
{
	const char *missing;
	size_t len;
	if (!toml_scan_has_all(c->before, after, &missing, &len))
		return err_say(e, ENGINE_CONFIG_REFUSED, "with it this containerd would forget \"%.*s\"",
			(int)(len < 120 ? len : 120), missing);
	if (!strstr(after, ENGINE_CONFIG_WRAPPER))
		return err_say(e, ENGINE_CONFIG_REFUSED, "this containerd does not read it");
	return 0;
}

static int check_candidate(void *arg, const char *candidate, struct err *e)
{
	const struct containerd *c = arg;
	char text[PATH_MAX + 100], path[128], *after = NULL;
	if (!c->before)
		return 0;
	snprintf(text, sizeof(text), "version = %d\nimports = [\"" MAIN "\", \"%s\"]\n", c->version, candidate);
	int r = c->main[0] ? file_changes_scratch(c->r->files, "check.toml", text, strlen(text), path, e) : 0;
	if (r < 0)
		return r;
	r = dump_config(c, c->main[0] ? path : candidate, &after);
	if (r > 0)
		r = err_say(e, ENGINE_CONFIG_REFUSED, "containerd refuses it: %.200s", engine_exec_last_line(after));
	else if (r == 0)
		r = check_dump(c, after, e);
	free(after);
	if (c->main[0])
		file_changes_scratch_done(c->r->files, path);
	return r;
}

/* Composes our file. with_runc: with the default handler, too. malloc'ed or NULL. */
static char *build_config(const struct containerd *c, bool with_runc)
{
	const bool systemd = c->before && strstr(c->before, "SystemdCgroup = true");
	/* of 1.7, set for each handler by itself */
	const bool mode = c->before && strstr(c->before, "sandbox_mode = \"podsandbox\"");
	const struct template_word words[] = {{"@MODE@", mode ? "  sandbox_mode = \"podsandbox\"\n" : ""},
		{"@VERSION@", c->version == 2 ? "2" : "3"}, {"@CRI@", c->version == 2 ? CRI_2 : CRI_3},
		{"@WRAPPER@", ENGINE_CONFIG_WRAPPER}, {"@SYSTEMD@", systemd ? "true" : "false"}, {0}};
	char *text = NULL, *ours = template_fill(TEMPLATE_CONTAINERD, words);
	char *runc = with_runc ? template_fill(TEMPLATE_CONTAINERD_RUNC, words) : strdup("");
	if (!ours || !runc || asprintf(&text, "%s%s", ours, runc) < 0)
		text = NULL;
	free(ours);
	free(runc);
	return text;
}

static void say_restart(struct engine_config *r)
{
	engine_config_by_hand(r, "containerd reads it as it starts: 'systemctl restart containerd' (containers go on), "
				 "then 'pillion install "
				 "--print runtimeclass | kubectl apply -f -'");
}

/* Tells the user which lines to add: our file without its version line, which is there already. */
static void say_lines(struct engine_config *r, const struct containerd *c, const char *why)
{
	char *text = build_config(c, !strstr(c->main, "runtimes.runc"));
	const char *from = text ? strstr(text, "[plugins") : NULL;
	engine_config_by_hand(r, "containerd: %s; add these lines to the end of " MAIN ", and restart it:\n\n%s", why,
		from ? from : "");
	free(text);
}

/* 0: registered, or the user is told what to do. */
static int write_config(struct engine_config *r, struct containerd *c, const char *path, struct err *e)
{
	struct err why = {0};
	int n = ENGINE_CONFIG_REFUSED;
	const unsigned refused = r->refused;
	for (int with_runc = 0; n == ENGINE_CONFIG_REFUSED && with_runc < 2; with_runc++) {
		char *text = build_config(c, with_runc);
		if (!text)
			return err_set(e, -ENOMEM, "%s", path);
		const struct file_change change = {.path = path,
			.data = text,
			.len = strlen(text),
			.mode = 0644,
			.check = check_candidate,
			.arg = c};
		n = file_changes_put(r->files, &change, &why);
		free(text);
	}
	if (n == ENGINE_CONFIG_REFUSED) {
		say_lines(r, c, why.text);
		r->refused = refused;
		return 0;
	}
	if (n < 0)
		return err_say(e, n, "%s", why.text);
	const bool written = engine_config_tell(r, path, n);
	if (written && !c->before)
		fprintf(r->out, "not checked: %s cannot be run here\n", c->program);
	if (written)
		say_restart(r);
	return 0;
}

/* Makes our path from an import of all .toml files of a directory; a relative one begins at the directory of the main
 * file. */
static bool find_imported(const char *text, char buf[PATH_MAX])
{
	static struct toml_words imports;
	if (!toml_scan_list(text, "imports", &imports))
		return false;
	for (size_t i = 0; i < imports.n; i++) {
		const char *word = imports.words[i], *slash = strrchr(word, '/'), *end = strstr(word, "*.toml");
		if (!end || end[6] || (slash && slash + 1 != end))
			continue;
		snprintf(buf, PATH_MAX, "%s%.*s" NAME, word[0] == '/' ? "" : "/etc/containerd/", (int)(end - word),
			word);
		return true;
	}
	return false;
}

static int with_main(struct engine_config *r, struct containerd *c, struct err *e)
{
	char path[PATH_MAX];
	const bool imports = find_imported(c->main, path) || (c->before && find_imported(c->before, path));
	c->version = toml_scan_number(c->main, "version");
	if (strstr(c->main, ENGINE_CONFIG_WRAPPER))
		fprintf(r->out, "as it is: " MAIN "\n");
	else if (c->version != 2 && c->version != 3)
		engine_config_by_hand(r, "containerd: " MAIN " is of version 1 of its format, which 'containerd config "
					 "migrate' prints as a newer one: put that there, then install again");
	else if (!imports && c->version == 3)
		engine_config_by_hand(r,
			"containerd: add the line imports = [\"/etc/containerd/conf.d/*.toml\"] to " MAIN
			", above its tables, then install again");
	else if (!imports)
		say_lines(r, c, "its configuration imports no directory");
	else if (!c->before && c->version == 2 && strstr(c->main, CRI_2))
		say_lines(r, c, "it cannot be run here, to see what it makes of a file that is imported");
	else
		return write_config(r, c, path, e);
	return 0;
}

/* We write the main file: containerd then has its defaults and us. */
static int without_main(struct engine_config *r, struct containerd *c, struct err *e)
{
	char *defaults = NULL;
	const char *const argv[] = {c->program, "config", "default", NULL};
	c->version = engine_exec(file_changes_root(r->files), argv, 0, &defaults) == 0
			     ? toml_scan_number(defaults, "version")
			     : -1;
	free(defaults);
	if (c->version == 2 || c->version == 3)
		return write_config(r, c, MAIN, e);
	engine_config_by_hand(r,
		"containerd: %s cannot be run here to say which configuration it reads, and there is no " MAIN
		": nothing is registered with it",
		c->program);
	return 0;
}

static int configure_containerd(struct engine_config *r, struct containerd *c, bool has_main, struct err *e)
{
	char *before = NULL;
	int n = dump_config(c, has_main ? MAIN : NULL, &before);
	if (n > 0) {
		fprintf(r->out, "not written: containerd refuses " MAIN ", which is left as it is: %s\n",
			engine_exec_last_line(before));
		r->refused++;
		free(before);
		return 0;
	}
	c->before = n == 0 ? before : NULL;
	return has_main ? with_main(r, c, e) : without_main(r, c, e);
}

int engine_config_containerd(struct engine_config *r, const char *program, struct err *e)
{
	struct containerd c = {.r = r, .program = program, .main = ""};
	char *text = NULL;
	size_t len;
	if (!engine_config_has(r, ENGINE_CONFIG_WRAPPER)) {
		engine_config_by_hand(r, "containerd: there is no " ENGINE_CONFIG_WRAPPER
					 " to register; 1.7 and newer need none where pillion-nri runs");
		return 0;
	}
	int n = file_changes_read(r->files, MAIN, &text, &len, e);
	if (n < 0 && n != -ENOENT)
		return n;
	if (n == 0)
		c.main = text;
	n = configure_containerd(r, &c, n == 0, e);
	free(text);
	free(c.before);
	return n;
}
