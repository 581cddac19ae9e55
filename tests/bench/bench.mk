# What the benchmarks run: $(B)/bench/NAME. `starts` measures; the others are measured, and are as small as programs get.
BENCH := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/*.c))

UNWINDERS := $(addprefix $(B)/bench/,record unwinders tables)
COMMIT := $(B)/bench/commit
bench-programs: $(filter-out $(UNWINDERS) $(COMMIT),$(BENCH)) targets
bench-unwinders: $(UNWINDERS)
$(B)/bench/starts: $(B)/tests/bench/starts.o $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^
$(B)/bench/sampling: $(B)/tests/bench/sampling.o $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^
$(UNWINDERS) $(COMMIT): $(B)/bench/%: $(B)/tests/bench/%.o $(B)/libprofiler.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS_$(@F)) $(LIBS_profiler)
LIBS_unwinders = -ldw -lelf
# the floor of what the hook is compared with: with its C library
$(B)/bench/nothing: STATIC_CC = $(CC_static)
STATIC_CC = gcc
$(B)/bench/%: tests/bench/%.c
	@mkdir -p $(@D)
	$(STATIC_CC) $(TARGET_CFLAGS) -static -o $@ $<

.PHONY: bench-programs bench-unwinders
