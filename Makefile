# SPDX-License-Identifier: Apache-2.0
# pillion - see `make help`
MODE ?= release
B := build/$(MODE)
PREFIX ?= /usr
DESTDIR ?=

CC_release = gcc
CC_asan = gcc
CC_tsan = gcc
CC_fuzz = clang
CC_mutants = gcc
CC := $(CC_$(MODE))
OPT_release = -O2
OPT_asan = -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_tsan = -O1 -fsanitize=thread
# for tests/mutants: quick to compile, each function says that it runs
OPT_mutants = -O1 -fno-inline -fsanitize-coverage=trace-pc
OPT_fuzz = -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# Only in release are hook and opener static: sanitizers need the dynamic runtime. With musl where that is installed: to
# start, glibc asks the CPU a hundred times what it is (CPUID), each of which a virtual machine traps: 0.6 ms where it was
# measured.
STATIC_release = -static
MUSL := $(shell command -v musl-gcc 2>/dev/null)
CC_static_release = $(or $(MUSL),$(CC))
CC_static := $(or $(CC_static_$(MODE)),$(CC))
# headers of the kernel and of libraries, which musl does not bring
KERNEL_HEADERS := $(if $(filter %musl-gcc,$(CC_static)),-idirafter /usr/include -idirafter /usr/include/$(shell gcc -print-multiarch))
VERSION := $(shell cat VERSION)

CFLAGS ?= -g
override CFLAGS += -std=gnu11 $(OPT_$(MODE)) -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wno-unused-parameter -fvisibility=hidden -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -DVERSION='"$(VERSION)"' \
	-I. -I$(B) -MMD -MP
ifneq ($(MODE),release)
override CFLAGS += -U_FORTIFY_SOURCE
endif
# clang counts what a partly written initializer leaves out, gcc only where it was meant
override CFLAGS += $(if $(filter clang,$(CC)),-Wno-missing-field-initializers)
ifdef WERROR
override CFLAGS += -Werror
endif

# One list per part; a new source file is found in its room, NAME_ARCH.c for that machine alone (ARCHITECTURE.md).
ARCHES := x86_64 aarch64
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
sources = $(filter-out $(foreach a,$(filter-out $(ARCH),$(ARCHES)),%_$(a).c),$(sort $(shell find $(1) -name '*.c')))
GENERATORS := $(call sources,oci/isolation/gen)
SRC_oci := $(filter-out $(GENERATORS),$(call sources,oci))
SRC_shim := $(filter-out shim/libpillion/%,$(call sources,shim))
# libpillion: what lives in somebody else's process (shim/libpillion/core/syscall.h), and what of the other folders it is made with.
# Where a file takes the place of a function of libc's, that is in interpose/, which no other program is linked with.
SRC_inproc := $(call sources,shim/libpillion)
FRONT_inproc := $(wildcard shim/libpillion/interpose/*.c)
DYNAMIC_inproc := $(filter-out %/cyg_profile.c,$(FRONT_inproc))
WITH_inproc :=
MAIN_profiler := profiler/daemon/pilliond.c profiler/cli/pillion.c
SRC_profiler := $(filter-out $(MAIN_profiler),$(call sources,profiler))
GEN := $(B)/profiler/pprof/profile.pb-c.h $(B)/oci/isolation/seccomp_filters.h
obj = $(patsubst %.c,$(B)/%.o,$(1))

# musl-gcc looks into no directory of glibc's; what we use of libcap calls nothing that musl lacks
LIBS_shim = -lcap
LIBS_static := $(if $(STATIC_$(MODE)),$(shell $(CC) -print-file-name=libcap.a),$(LIBS_shim))
LIBS_profiler = -ljson-c -lunwind-$(ARCH) -lunwind -lprotobuf-c -lz -llzma -ldeflate -ldw -lelf -liberty -ldl -lm $(LIBS_shim)
EXECUTABLES := pilliond pillion pillion-hook pillion-opener pillion-runc pillion-nri

LIBRARIES := libpillion.so libpillion.a

all: $(addprefix $(B)/,$(EXECUTABLES) $(LIBRARIES)) ## build the programs (MODE=release|asan|tsan|fuzz)

# of another compiler they are other objects
S := $(B)/static-$(notdir $(CC_static))
$(B)/liboci.a: $(call obj,$(SRC_oci))
$(B)/libshim.a: $(call obj,$(SRC_shim))
$(S)/liboci.a: $(patsubst %.c,$(S)/%.o,$(SRC_oci))
$(S)/libshim.a: $(patsubst %.c,$(S)/%.o,$(SRC_shim))
$(B)/libprofiler.a: $(call obj,$(SRC_profiler)) $(B)/profiler/pprof/profile.pb-c.o
$(B)/profiler/view/flame_html.o: profiler/view/flame.html
$(B)/profiler/install/templates.o: $(wildcard hooks/engines/*.in) hooks/engines/runtimeclass.yaml
$(B)/%.a:
	@rm -f $@
	ar rcs $@ $^

$(B)/pillion-hook $(B)/pillion-opener $(B)/pillion-runc: $(B)/%: $(S)/hooks/%.o $(S)/libshim.a $(S)/liboci.a
	$(CC_static) $(CFLAGS) $(LDFLAGS) $(STATIC_$(MODE)) -o $@ $^ $(LIBS_static)
$(B)/pillion-nri: $(patsubst %.c,$(S)/%.o,$(wildcard hooks/nri_*.c) hooks/pillion-nri.c) $(S)/libshim.a $(S)/liboci.a
	$(CC_static) $(CFLAGS) $(LDFLAGS) $(STATIC_$(MODE)) -o $@ $^ $(LIBS_static)
$(B)/pilliond: $(B)/profiler/daemon/pilliond.o
$(B)/pillion: $(B)/profiler/cli/pillion.o
$(B)/pilliond $(B)/pillion: $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS_profiler)

# One file for glibc and musl: it names neither (no DT_NEEDED, no symbol versions) and takes the few functions that both
# have from whichever is there (tests/tools/inproc). Thread-local memory is where every thread has it from its beginning.
INPROC_CFLAGS := -fPIC -ftls-model=initial-exec -fno-stack-protector -U_FORTIFY_SOURCE -fno-builtin-malloc
P := $(B)/inproc
$(P)/%.o: %.c VERSION | $(GEN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(INPROC_CFLAGS) -c -o $@ $<
$(B)/libpillion.so: $(patsubst %.c,$(P)/%.o,$(SRC_inproc) $(WITH_inproc))
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -nostdlib -Wl,-soname,libpillion.so.0 -Wl,-z,relro,-z,now,-z,noexecstack -o $@ $^
# Hidden is hidden from who links it, too. What stands before libc's functions finds them by the dynamic linker: not here.
$(P)/libpillion.o: $(patsubst %.c,$(P)/%.o,$(filter-out $(DYNAMIC_inproc),$(SRC_inproc)) $(WITH_inproc))
	$(LD) -r -o $@.new $^ && objcopy --localize-hidden $@.new && mv $@.new $@
$(B)/libpillion.a: $(P)/libpillion.o
$(B)/libinproc.a: $(call obj,$(filter-out $(FRONT_inproc),$(SRC_inproc)))

# Before anything is built: the headers and commands are there, or the command that installs them is printed. Asked once.
$(B)/there-%:
	@CC=$(CC) tests/tools/setup there $*
	@mkdir -p $(@D) && touch $@
$(B)/oci/isolation/gen/%: oci/isolation/gen/%.c | $(B)/there-build
	@mkdir -p $(@D)
	$(CC) -O1 -std=gnu11 -Wall -Wextra -Wno-missing-field-initializers -D_GNU_SOURCE -I. -MMD -MP -o $@ $< -lseccomp
$(B)/oci/isolation/seccomp_filters.h: $(B)/oci/isolation/gen/seccomp_filters
	@mkdir -p $(@D)
	$< >$@.new && mv $@.new $@
$(B)/%.pb-c.c $(B)/%.pb-c.h: %.proto | $(B)/there-build
	@mkdir -p $(@D)
	protoc-c --c_out=$(B) $<
$(B)/%.pb-c.o: $(B)/%.pb-c.c
	$(CC) $(CFLAGS) -Wno-missing-prototypes -c -o $@ $<
$(S)/%.o: %.c VERSION | $(GEN)
	@mkdir -p $(@D)
	$(CC_static) $(CFLAGS) $(KERNEL_HEADERS) -c -o $@ $<
$(B)/%.o: %.c VERSION | $(GEN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

# --- unit tests: tests/unit/ROOM/test_X.c, a suite each, all in one program, linked with everything below the mains.
# Those that take longest come first.
UNIT_LONGEST := exporter push_encode minidebuginfo target_rate checkpoint_write shm_layout interval_map dwarf_lines calltree pprof alloc_sample
UNIT_SOURCES := $(call sources,tests/unit)
UNIT_NAMES := $(patsubst test_%.c,%,$(filter test_%,$(notdir $(UNIT_SOURCES))))
UNIT_SUITES := $(UNIT_LONGEST) $(filter-out $(UNIT_LONGEST),$(UNIT_NAMES))
UNITS := $(B)/unit/units
# rewritten only where the names are others
$(B)/unit/suites.c: FORCE
	@mkdir -p $(@D)
	@{ echo '#include "tests/unit/support/suites.h"'; printf 'Suite *%s_suite(void);\n' $(UNIT_SUITES); \
		echo 'const struct unit_suite unit_suites[] = {'; \
		for name in $(UNIT_SUITES); do echo "	{\"$$name\", $${name}_suite},"; done; echo '	{0}};'; } >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/unit/suites.o: $(B)/unit/suites.c
	$(CC) $(CFLAGS) -c -o $@ $<
WITH_mutants := $(B)/tests/mutants/ran.o
UNITS_OF := $(B)/unit/suites.o $(call obj,$(UNIT_SOURCES)) $(WITH_$(MODE)) $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
UNITS_LIBS := -lcheck -lsubunit -lm -lrt -lpthread $(LIBS_profiler)
$(UNITS): $(UNITS_OF)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(UNITS_LIBS)
$(call obj,$(UNIT_SOURCES)) $(B)/unit/suites.o: | $(B)/there-check
unit: $(UNITS) ## build and run the unit tests (MODE=release|asan|tsan)
	@$(UNITS)
unit-%: $(UNITS)
	@CK_VERBOSITY=$${CK_VERBOSITY:-normal} $(UNITS) $*

# --- mutants: small faults, put into the code one at a time; the unit tests have to see them
ifeq ($(MODE),mutants) # the tests do not say it: some unwind their own stacks
$(WITH_mutants) $(B)/unit/suites.o $(call obj,$(UNIT_SOURCES)): override CFLAGS += -fno-sanitize-coverage=trace-pc
endif
mutants: ## at least 120 small faults one at a time: what the unit tests do not see, and why; ONLY=MODULE
	@+$(MAKE) --no-print-directory -s -j"$$(nproc)" MODE=mutants build/mutants/unit/units
	@+$(MAKE) --no-print-directory -s MODE=mutants mutants-run
mutants-run: export COMPILE = $(CC) $(CFLAGS)
mutants-run: export LINK = $(CC) $(LDFLAGS) $(UNITS_OF) $(UNITS_LIBS)
mutants-run:
	@tests/mutants/run $(ONLY)

# --- fuzzers: tests/fuzz/fuzz_X.c with tests/fuzz/corpus/X (MODE=fuzz)
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LIBS_profiler)

include tests/targets/targets.mk
include tests/bench/bench.mk
include tests/replay/replay.mk
tools: targets

# --- what a newcomer types. Both install missing packages where they may, else print the command.
demo: ## profile a real program in a real container and print where its time went
	@echo "demo: missing packages are installed, pillion is built (a minute at first), and perl is profiled in a container"
	@tests/tools/setup demo
	@+$(MAKE) --no-print-directory -s all
	@tests/tools/demo

# --- tests, by what they cost; CONTRIBUTING.md says what each covers
check: ## lint and the unit tests: a minute, no root, no network
	@+tests/run check

test: ## check, the unit tests under sanitizers, a scenario of each capability with real runtimes: 10 minutes; root
	@tests/tools/setup test
	@+tests/run check test

test-all: ## test, and all suites, fuzzers, churn, kernels and Pods in QEMU: an hour. LEVELS=all: without test
	@tests/tools/setup test vm
	@+tests/run $(LEVELS)
LEVELS ?= check test all

# --- one test, and one row many times
B_ROWS = $(if $(filter-out release,$(MODE)),B=build/$(MODE))
suite: ## the rows of SUITE (all) whose names match ONLY, with real runtimes
	@+$(MAKE) --no-print-directory -s -j"$$(nproc)" all tools
	@ONLY='$(ONLY)' $(B_ROWS) tests/integration/run $(SUITE)

N ?= 20
LOAD ?= 2
repeat: ## the same N (20) times each, beside LOAD (2) busy loops: how often each row fails, and how
	@+$(MAKE) --no-print-directory -s -j"$$(nproc)" all tools
	@$(B_ROWS) tests/tools/repeat '$(SUITE)' '$(ONLY)' $(N) $(LOAD)

lint: ## layers, banned functions, plain English, formatting (of clang-format 14: others want other blanks)
	@tests/tools/layers
	@tests/tools/english
	@case "$$(clang-format --version 2>/dev/null)" in \
	*'version 14.'*) clang-format --dry-run -Werror $$(find oci shim profiler hooks tests -name '*.[ch]') ;; \
	*) echo "skipped: formatting: no clang-format 14 (apt install clang-format-14)" ;; \
	esac

FUZZ_SECONDS ?= 60
fuzz: ## every fuzzer for FUZZ_SECONDS (60), from its corpus
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s MODE=fuzz fuzzers
	@tests/fuzz/run $(FUZZ_SECONDS)
fuzzers: $(FUZZ)

screenshots: ## what a person sees, as PNGs in build/screenshots, by a real Chromium
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/tools/screenshots

test-vm: ## the same in QEMU: Debian's kernels 5.10 to 7, cgroup v1 and v2, systemd, 64 CPUs, Pods of a kubelet; 3 hours
	@tests/tools/setup test vm
	@+$(MAKE) --no-print-directory -s all tools
	@tests/tools/kubernetes $(CURDIR)/build/kubernetes kubelet
	@tests/vm/matrix $(MACHINES)

test-kubelet: ## Pods of a real kubelet in QEMU alone; the kubelet is built first, which takes some minutes once
	@+$(MAKE) --no-print-directory -s test-vm MACHINES=kubelet

bench: bench-hook bench-wrapper bench-nri bench-run bench-faults bench-unwind bench-commit bench-cost bench-node bench-offcpu bench-services bench-short bench-alloc bench-tree bench-labels bench-flame bench-push ## measure, print, assert nothing
	@:
bench-hook: ## the hook's own time, and what it adds to a container's start
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/hook

bench-wrapper: ## what pillion-runc adds to a container's start, by runc and by crun
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/wrapper

bench-nri: ## what pillion-nri adds to the start of a Pod's container
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/nri

bench-run: ## what `pillion run` costs a program's start and its work
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/run

bench-faults: ## how long a program waits for its main when the profiler fails, over 1,000 starts
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/faults

bench-unwind: ## samples of real programs through our unwinder, libdw and libunwind
	@tests/tools/setup bench
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/unwind

bench-commit: ## what it costs that a worker's successor can continue where it was killed
	@tests/tools/setup bench
	@+$(MAKE) --no-print-directory -s $(B)/bench/commit
	@$(B)/bench/commit

bench-cost: ## CPU time that the profiler itself takes, over ten minutes a row
	@tests/tools/setup test bench
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/cost

bench-offcpu: ## what it costs to be asked where one waits, beside perf and bpftrace
	@tests/tools/setup test bench
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/offcpu

bench-services: ## what it costs postgres and redis to be profiled, on a CPU and off it
	@tests/tools/setup test bench
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/services

bench-short: ## what short programs leave a long one beside them
	@tests/tools/setup test bench
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/short

bench-alloc: ## what it costs to know what a program allocates, beside what allocators have for it
	@tests/tools/setup test bench
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/alloc

bench-tree: ## what a call costs whose function has the compiler's hooks, beside -pg and uftrace
	@tests/tools/setup bench
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/tree

bench-labels: ## what it costs a thread to say what it works at
	@tests/tools/setup bench
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/labels

bench-flame: ## until a flame graph of 100,000 stacks is painted, and a zoom, beside d3-flame-graph and speedscope
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/flame

bench-push: ## what it costs to send profiles, beside curl, and to wait for a server that is away
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/push

bench-node: ## what one service costs with 100 containers on it, and 1,000 simulated
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/node
	@tests/bench/node --simulated 1000

# Both compare mounts, and others mount as well meanwhile.
APART := apart=tests/integration/apart; $$apart true 2>/dev/null || apart=;
SOAK_SECONDS ?= 1800
STARTS ?= 100000
SHORT ?= 5000
soak: ## half an hour of churn, kills and faults in STARTS (100000) starts; then SHORT (5000) short containers
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all tools
	@$(APART) SOAK_SECONDS=$(SOAK_SECONDS) STARTS=$(STARTS) $$apart tests/soak/soak
	@$(APART) SHORT=$(SHORT) ONLY='short containers' REQUIRE_ALL=1 $$apart tests/integration/run lifecycle
soak-ci: ## the same in two minutes, in which all tables still fill up; what is held is compared when the last kill is over
	@+FLAT=15 KILL_EVERY=10 KILL_SECONDS=50 $(MAKE) --no-print-directory -s soak SOAK_SECONDS=110 STARTS=3000 SHORT=300

# --- installation: one table; what is installed last is what engines look for, so that a half-done install starts no container
# wrongly, and it goes first. A place that ends with / takes several files.
SYSTEMD_UNITS := lib/systemd/system
DOC := share/doc/pillion
HOOK := libexec/oci/hooks.d/pillion-hook
REGISTRATION := share/containers/oci/hooks.d/50-pillion.json
MAN := $(B)/man
M := $(B)/made
# MODE SOURCE PLACE
define INSTALLED
755 $(B)/pillion bin/pillion
755 $(B)/pilliond libexec/pillion/pilliond
755 $(B)/pillion-opener libexec/pillion/pillion-opener
755 $(B)/pillion-runc libexec/pillion/pillion-runc
755 $(B)/pillion-nri libexec/pillion/pillion-nri
644 $(B)/libpillion.so lib/libpillion.so.0
link libpillion.so.0 lib/libpillion.so
link ../../lib/libpillion.so.0 libexec/pillion/libpillion.so
644 $(B)/libpillion.a lib/libpillion.a
644 $(M)/pillion.pc lib/pkgconfig/pillion.pc
644 shim/libpillion/pillion.h include/pillion.h
644 profiler/cli/completion/pillion.bash share/bash-completion/completions/pillion
644 profiler/cli/completion/_pillion share/zsh/vendor-completions/_pillion
644 profiler/cli/completion/pillion.fish share/fish/vendor_completions.d/pillion.fish
644 $(MAN)/pillion*.1 share/man/man1/
644 shim/libpillion/pillion.3 share/man/man3/
644 $(MAN)/pillion*.5 share/man/man5/
644 profiler/daemon/pilliond.8 share/man/man8/
644 hooks/man/pillion-*.8 share/man/man8/
644 README.md $(DOC)/
644 NEWS $(DOC)/
644 LICENSE $(DOC)/
644 NOTICE $(DOC)/
644 profiler/*.md $(DOC)/profiler/
644 profiler/daemon/*.md $(DOC)/profiler/daemon/
644 profiler/pprof/*.md $(DOC)/profiler/pprof/
644 profiler/push/*.md $(DOC)/profiler/push/
644 profiler/symbol/*.md $(DOC)/profiler/symbol/
644 profiler/view/*.md $(DOC)/profiler/view/
644 profiler/view/flame.svg $(DOC)/profiler/view/
644 profiler/web/*.md $(DOC)/profiler/web/
644 profiler/web/monitoring/* $(DOC)/profiler/web/monitoring/
644 hooks/*.md $(DOC)/hooks/
644 hooks/kubernetes/base/* $(DOC)/hooks/kubernetes/base/
644 hooks/kubernetes/examples/* $(DOC)/hooks/kubernetes/examples/
644 hooks/kubernetes/paranoid/* $(DOC)/hooks/kubernetes/paranoid/
644 hooks/kubernetes/push/* $(DOC)/hooks/kubernetes/push/
644 oci/*.md $(DOC)/oci/
644 shim/attach/*.md $(DOC)/shim/attach/
644 shim/event/*.md $(DOC)/shim/event/
644 shim/libpillion/*.md $(DOC)/shim/libpillion/
644 hooks/systemd/pilliond.socket $(SYSTEMD_UNITS)/pilliond.socket
644 $(M)/pilliond.service $(SYSTEMD_UNITS)/pilliond.service
644 $(M)/pillion-nri.service $(SYSTEMD_UNITS)/pillion-nri.service
644 $(M)/pillion-push.service $(SYSTEMD_UNITS)/pillion-push.service
755 $(B)/pillion-hook $(HOOK)
644 $(M)/50-pillion.json $(REGISTRATION)
endef
export INSTALLED
FILL := sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@LIBEXEC@|$(PREFIX)/libexec|; s|@BIN@|$(PREFIX)/bin|; s|@HOOK@|$(PREFIX)/$(HOOK)|'
# of the machine that runs, and not of an image that is being made
SYSTEMD := test -z "$(DESTDIR)" && test -d /run/systemd/system

# once, with the PREFIX of this time
installed: all
	@mkdir -p $(MAN) $(M)
	@for page in $$($(B)/pillion manual); do $(B)/pillion manual $$page >$(MAN)/$$page.new && mv $(MAN)/$$page.new $(MAN)/$$page || exit 1; done
	@for file in hooks/systemd/pilliond.service hooks/systemd/pillion-nri.service hooks/systemd/pillion-push.service hooks/engines/50-pillion.json shim/libpillion/pillion.pc; do \
		$(FILL) $$file.in >$(M)/$${file##*/} || exit 1; done

install: installed ## programs, units, manual, hook and its registration below DESTDIR and PREFIX (/usr)
	@test -n "$(DESTDIR)" || getent passwd pillion >/dev/null || test "$$(id -u)" != 0 || \
		useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin pillion
	@hooks/packaging/installed put "$(DESTDIR)$(PREFIX)"
	@! { $(SYSTEMD); } || systemctl daemon-reload || :

uninstall: ## the registration first, so that no container meets a missing hook
	@test -n "$(DESTDIR)" || ! test -e /var/lib/pillion/install.json || $(PREFIX)/bin/pillion uninstall
	rm -f $(DESTDIR)$(PREFIX)/$(REGISTRATION)
	@! { $(SYSTEMD); } || for unit in pilliond.socket pilliond.service pillion-nri.service pillion-push.service; do \
		systemctl disable --now $$unit 2>/dev/null || :; done # one that is not there would keep the others
	@hooks/packaging/installed remove "$(DESTDIR)$(PREFIX)"
	@! { $(SYSTEMD); } || systemctl daemon-reload || :

# --- packages, in build/packages: of the same tree and NEWS they are the same bytes. A tree of its own, with PREFIX /usr
PACKAGES := build/packages
# the day of this version's NEWS; pages of the manual have it, too
RELEASED := $(shell date -u -d "$$(sed -n '1s/.*(\(.*\)).*/\1/p' NEWS)" +%s)
package-tree:
	@rm -rf $(PACKAGES)/tree && mkdir -p $(PACKAGES)
	@+SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$(RELEASED)} $(MAKE) --no-print-directory -s install PREFIX=/usr \
		DESTDIR=$(abspath $(PACKAGES))/tree M=$(PACKAGES)/made MAN=$(PACKAGES)/man
deb: package-tree ## Debian packages, in build/packages
	@hooks/packaging/debian/build $(PACKAGES)/tree $(PACKAGES)
	@ls $(PACKAGES)/*_$(VERSION)_*.deb
# what they are linked with comes along, beside them
$(B)/portable/pilliond: $(B)/profiler/daemon/pilliond.o
$(B)/portable/pillion: $(B)/profiler/cli/pillion.o
$(B)/portable/pilliond $(B)/portable/pillion: $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/lib:$$ORIGIN/../libexec/pillion/lib',--disable-new-dtags -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS_profiler)
tarball: package-tree $(B)/portable/pilliond $(B)/portable/pillion ## for other distributions: all of it but glibc, in build/packages
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$(RELEASED)} hooks/packaging/tarball/build $(PACKAGES)/tree $(B)/portable $(PACKAGES) $(VERSION)
	@ls $(PACKAGES)/pillion-$(VERSION)-*.tar.xz

clean: ## remove what was built
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 14

.PHONY: all FORCE unit tools demo check test test-all suite repeat screenshots test-vm test-kubelet lint fuzz fuzzers bench bench-hook bench-wrapper bench-nri bench-run bench-faults bench-unwind bench-commit bench-cost bench-node bench-offcpu bench-services bench-short bench-alloc bench-tree bench-labels bench-flame bench-push soak soak-ci install installed uninstall package-tree deb tarball clean help
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
