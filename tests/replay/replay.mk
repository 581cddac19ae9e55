# Recordings: what the kernel sends, as data. tests/replay/record.c says what it takes.
$(B)/replay/record: $(B)/tests/replay/record.o $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS_profiler)
record: $(B)/replay/record targets ## record a run for tests/unit/profiler/target/test_replay.c: RECORDING=NAME COMMAND='...' OPTIONS='...' (needs root)
	@test -n "$(RECORDING)" -a -n "$(COMMAND)" || { echo "make record RECORDING=NAME COMMAND='...'"; exit 2; }
	@mkdir -p tests/replay/recordings
	$(B)/replay/record $(OPTIONS) tests/replay/recordings/$(RECORDING).xz $(COMMAND)

.PHONY: record
$(B)/replay/inlined: tests/replay/inlined.cc
	@mkdir -p $(@D)
	g++ -O2 -g -fomit-frame-pointer -o $@ $<
$(B)/replay/waits: tests/replay/waits.c
	@mkdir -p $(@D)
	gcc $(TARGET_CFLAGS) -o $@ $< -pthread
