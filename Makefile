# pillion - see `make help`
MODE ?= release
B := build/$(MODE)
PREFIX ?= /usr
DESTDIR ?=

CC_release = gcc
CC_asan = gcc
CC_tsan = gcc
CC_fuzz = clang
CC := $(CC_$(MODE))
OPT_release = -O2
OPT_asan = -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_tsan = -O1 -fsanitize=thread
OPT_fuzz = -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# Only in release are hook and opener static: sanitizers need the dynamic runtime. With musl where that is installed: to
# start, glibc asks the CPU a hundred times what it is (CPUID), each of which a virtual machine traps: 0.6 ms where it was
# measured.
STATIC_release = -static
MUSL := $(shell command -v musl-gcc 2>/dev/null)
CC_static_release = $(or $(MUSL),$(CC))
CC_static := $(or $(CC_static_$(MODE)),$(CC))
# the kernel's headers, which musl does not bring
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

# One list per part; a new source file is found by its folder.
SRC_oci := $(wildcard oci/base/*.c oci/*.c)
SRC_shim := $(wildcard shim/*.c)
MAIN_profiler := profiler/pilliond.c profiler/pillion.c
SRC_profiler := $(filter-out $(MAIN_profiler),$(wildcard profiler/*.c))
GEN := $(B)/profiler/profile.pb-c.h $(B)/oci/seccomp_filters.h
obj = $(patsubst %.c,$(B)/%.o,$(1))

LIBS_profiler = -ljson-c -lunwind-x86_64 -lunwind -lprotobuf-c -lz -llzma -ldw -lelf -liberty -ldl
EXECUTABLES := pilliond pillion pillion-hook pillion-opener

all: $(addprefix $(B)/,$(EXECUTABLES)) ## build the programs (MODE=release|asan|tsan|fuzz)

# of another compiler they are other objects
S := $(B)/static-$(notdir $(CC_static))
$(B)/liboci.a: $(call obj,$(SRC_oci))
$(B)/libshim.a: $(call obj,$(SRC_shim))
$(S)/liboci.a: $(patsubst %.c,$(S)/%.o,$(SRC_oci))
$(S)/libshim.a: $(patsubst %.c,$(S)/%.o,$(SRC_shim))
$(B)/libprofiler.a: $(call obj,$(SRC_profiler)) $(B)/profiler/profile.pb-c.o
$(B)/%.a:
	@rm -f $@
	ar rcs $@ $^

$(B)/pillion-hook $(B)/pillion-opener: $(B)/%: $(S)/hooks/%.o $(S)/libshim.a $(S)/liboci.a
	$(CC_static) $(CFLAGS) $(LDFLAGS) $(STATIC_$(MODE)) -o $@ $^
$(B)/pilliond $(B)/pillion: $(B)/%: $(B)/profiler/%.o $(B)/libprofiler.a $(B)/libshim.a $(B)/liboci.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS_profiler)

$(B)/gen/%: oci/gen/%.c
	@mkdir -p $(@D)
	$(CC) -O1 -std=gnu11 -Wall -Wextra -Wno-missing-field-initializers -D_GNU_SOURCE -I. -MMD -MP -o $@ $< -lseccomp
$(B)/oci/seccomp_filters.h: $(B)/gen/seccomp-filters
	@mkdir -p $(@D)
	$< >$@.new && mv $@.new $@
$(B)/%.pb-c.c $(B)/%.pb-c.h: %.proto
	@mkdir -p $(@D)
	protoc-c --c_out=$(B) $<
$(B)/%.pb-c.o: $(B)/%.pb-c.c
	$(CC) $(CFLAGS) -Wno-missing-prototypes -c -o $@ $<
$(S)/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	$(CC_static) $(CFLAGS) $(KERNEL_HEADERS) -c -o $@ $<
$(B)/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

# --- unit tests: tests/unit/test_X.c, one program each, all linked with everything below the mains
# those that take longest first; most of them wait more than they work
UNIT_LONGEST := commit exporter debugfile lines debugdata intervals symbolizer lookup perfmap
UNIT_NAMES := $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_*.c))
UNIT := $(addprefix $(B)/unit/test_,$(UNIT_LONGEST) $(filter-out $(UNIT_LONGEST),$(UNIT_NAMES)))
$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libprofiler.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcheck -lsubunit -lm -lrt -lpthread $(LIBS_profiler)
unit-programs: $(UNIT)
unit: $(UNIT) ## build and run the unit tests
	@export CK_VERBOSITY=$${CK_VERBOSITY:-normal}; printf '%s\n' $(UNIT) | \
		xargs -P "$$(($$(nproc) + 1))" -I PROGRAM sh -c 'said=$$(PROGRAM 2>&1); status=$$?; printf "%s\n" "$$said"; exit $$status'

# --- fuzzers: tests/fuzz/fuzz_X.c with tests/fuzz/corpus/X (MODE=fuzz)
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/libprofiler.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LIBS_profiler)

include tests/targets/targets.mk
include tests/bench/bench.mk
tools: targets

# --- what a newcomer types. Both install missing packages where they may, else print the command.
demo: ## profile a real program in a real container and print where its time went
	@tests/tools/setup demo
	@+$(MAKE) --no-print-directory -s all
	@tests/tools/demo

test: ## all tests: layers, units (also under sanitizers), real runtimes; REQUIRE_ALL=1: a skip fails
	@tests/tools/setup test
	@+tests/run

lint: ## layers, banned functions, formatting
	@tests/tools/layers
	@! command -v clang-format >/dev/null || clang-format --dry-run -Werror \
		$$(git ls-files '*.c' '*.h')

FUZZ_SECONDS ?= 60
fuzz: ## every fuzzer for FUZZ_SECONDS (60), from its corpus
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s MODE=fuzz fuzzers
	@tests/fuzz/run $(FUZZ_SECONDS)
fuzzers: $(FUZZ)

test-vm: ## the integration suites in QEMU: pure cgroup v2, Debian's own kernel, perf_event_paranoid=3
	@tests/tools/setup test vm
	@+$(MAKE) --no-print-directory -s all tools
	@tests/vm/run

bench: bench-hook bench-run bench-faults bench-unwind bench-commit bench-cost bench-node bench-offcpu bench-services ## measure, print, assert nothing
	@:
bench-hook: ## the hook's own time, and what it adds to a container's start
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all
	@tests/bench/hook

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

bench-node: ## what one service costs with 100 containers on it, and 1,000 simulated
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all tools
	@tests/bench/node
	@tests/bench/node --simulated 1000

SOAK_SECONDS ?= 1800
STARTS ?= 100000
SHORT ?= 5000
soak: ## half an hour of churn, kills and faults in STARTS (100000) starts; then SHORT (5000) short containers
	@tests/tools/setup test
	@+$(MAKE) --no-print-directory -s all tools
	@SOAK_SECONDS=$(SOAK_SECONDS) STARTS=$(STARTS) tests/soak/soak
	@SHORT=$(SHORT) ONLY='short containers' REQUIRE_ALL=1 tests/integration/run lifecycle
soak-ci: ## the same in two minutes, in which all tables still fill up
	@+FLAT=10 $(MAKE) --no-print-directory -s soak SOAK_SECONDS=110 STARTS=3000 SHORT=300

# --- installation: binaries first, the registration last and by rename: a half-done install starts no container wrongly
LIBEXEC := $(DESTDIR)$(PREFIX)/libexec
HOOK := $(PREFIX)/libexec/oci/hooks.d/pillion-hook
HOOKS_D := $(DESTDIR)$(PREFIX)/share/containers/oci/hooks.d
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system
# of the machine that runs, and not of an image that is being made
SYSTEMD = test -z "$(DESTDIR)" && test -d /run/systemd/system
PUT = install -D -m $(1) $(2) $(3).new && mv $(3).new $(3)

install: all ## programs, units, hook and its registration below DESTDIR and PREFIX (/usr)
	$(call PUT,755,$(B)/pillion,$(DESTDIR)$(PREFIX)/bin/pillion)
	$(call PUT,755,$(B)/pilliond,$(LIBEXEC)/pillion/pilliond)
	$(call PUT,755,$(B)/pillion-opener,$(LIBEXEC)/pillion/pillion-opener)
	$(call PUT,755,$(B)/pillion-hook,$(DESTDIR)$(HOOK))
	@test -n "$(DESTDIR)" || getent passwd pillion >/dev/null || test "$$(id -u)" != 0 || \
		useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin pillion
	$(call PUT,644,hooks/pilliond.socket,$(UNITS)/pilliond.socket)
	@mkdir -p $(UNITS) && sed 's|@LIBEXEC@|$(PREFIX)/libexec|; s|@BIN@|$(PREFIX)/bin|' hooks/pilliond.service.in >$(UNITS)/pilliond.service.new
	mv $(UNITS)/pilliond.service.new $(UNITS)/pilliond.service
	@! { $(SYSTEMD); } || systemctl daemon-reload || :
	@mkdir -p $(HOOKS_D) && sed 's|@HOOK@|$(HOOK)|' hooks/50-pillion.json.in >$(HOOKS_D)/50-pillion.json.new
	mv $(HOOKS_D)/50-pillion.json.new $(HOOKS_D)/50-pillion.json

uninstall: ## the registration first, so that no container meets a missing hook
	rm -f $(HOOKS_D)/50-pillion.json
	@! { $(SYSTEMD); } || systemctl disable --now pilliond.socket pilliond.service 2>/dev/null || :
	rm -f $(UNITS)/pilliond.socket $(UNITS)/pilliond.service
	@! { $(SYSTEMD); } || systemctl daemon-reload || :
	rm -f $(DESTDIR)$(HOOK) $(LIBEXEC)/pillion/pilliond $(LIBEXEC)/pillion/pillion-opener \
		$(DESTDIR)$(PREFIX)/bin/pillion
	-rmdir $(LIBEXEC)/pillion 2>/dev/null

clean: ## remove what was built
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 14

.PHONY: all unit unit-programs tools demo test test-vm lint fuzz fuzzers bench bench-hook bench-run bench-faults bench-unwind bench-commit bench-cost bench-node bench-offcpu bench-services soak soak-ci install uninstall clean help
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
