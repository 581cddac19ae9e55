# SPDX-License-Identifier: Apache-2.0
# What the benchmarks run: $(B)/bench/NAME. `starts` measures; the others are measured, and are as small as programs get.
BENCH := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/*.c))

UNWINDERS := $(addprefix $(B)/bench/,record record_calls unwinders tables)
COMMIT := $(B)/bench/commit
CALLED := $(addprefix $(B)/bench/,called called-hooks called-pg)
bench-programs: $(filter-out $(UNWINDERS) $(COMMIT),$(BENCH)) $(CALLED) targets
bench-unwinders: $(UNWINDERS)
$(B)/bench/starts: $(B)/tests/bench/starts.o $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^
$(B)/bench/sampling: $(B)/tests/bench/sampling.o $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS_shim)
$(UNWINDERS) $(COMMIT): $(B)/bench/%: $(B)/tests/bench/%.o $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS_$(@F)) $(LIBS_profiler)
LIBS_unwinders = -ldw -lelf
# the same calls without hooks, with the compiler's, with gprof's; libc's own are in a library
$(CALLED): $(B)/bench/%: tests/bench/called.c
	@mkdir -p $(@D)
	gcc $(filter-out -fomit-frame-pointer,$(TARGET_CFLAGS)) $(FLAGS_$*) -o $@ $<
FLAGS_called-hooks = -finstrument-functions
FLAGS_called-pg = -pg
$(B)/bench/labels: tests/bench/labels.c $(B)/libpillion.so
	@mkdir -p $(@D)
	gcc $(TARGET_CFLAGS) -o $@ $(filter %.c %.so,$^) -Wl,-rpath,'$$ORIGIN'
# the floor of what the hook is compared with: with its C library
$(B)/bench/nothing: STATIC_CC = $(CC_static)
STATIC_CC = gcc
$(B)/bench/%: tests/bench/%.c
	@mkdir -p $(@D)
	$(STATIC_CC) $(TARGET_CFLAGS) -static -o $@ $<

.PHONY: bench-programs bench-unwinders
