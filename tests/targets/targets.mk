# What the tests need beside the product. Programs of known shape: one file each, $(B)/targets/NAME.
# They are what is profiled, so they get fixed flags in every MODE: optimised, no frame pointers, every call a call.
TARGETS := $(patsubst tests/targets/%.c,$(B)/targets/%,$(filter-out tests/targets/lib%.c,$(wildcard tests/targets/*.c)))
TARGET_CFLAGS := -std=gnu11 -O2 -g -fomit-frame-pointer -fno-optimize-sibling-calls -Wall -Wextra \
	-Wno-unused-parameter -D_GNU_SOURCE -I. -MMD -MP

targets: $(TARGETS) $(B)/targets/libtaken.so $(B)/targets/libpillion-old.so $(B)/tools/deny $(B)/tools/peer $(B)/tools/tenant $(B)/tools/herd \
	$(B)/tools/batch $(B)/tools/unfold $(B)/tools/push_encode
$(B)/tools/deny: tests/tools/deny.c
	@mkdir -p $(@D)
	gcc $(TARGET_CFLAGS) -o $@ $< -lseccomp
# The library as in a program without dlsym(3), which glibc before 2.34 had apart: a name that nobody has
$(P)/old/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(INPROC_CFLAGS) -Ddlsym=pillion_no_dlsym -Ddlopen=pillion_no_dlopen -c -o $@ $<
$(B)/targets/libpillion-old.so: $(patsubst %.c,$(P)/old/%.o,$(SRC_inproc) $(WITH_inproc))
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -nostdlib -Wl,-soname,libpillion.so.0 -Wl,-z,now -o $@ $^
# Thousands of children are forked from it: small
$(B)/tools/herd: tests/tools/herd.c tests/tools/fault.c
	@mkdir -p $(@D)
	gcc $(TARGET_CFLAGS) -static -o $@ $(filter %.c,$^)
# They speak the product's own protocol, so they are built as the product is
$(B)/tools/peer $(B)/tools/tenant: $(B)/tools/%: tests/tools/%.c $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.a,$^) $(LIBS_shim)
$(B)/tools/unfold $(B)/tools/push_encode: $(B)/tools/%: tests/tools/%.c $(B)/libprofiler.a $(B)/libinproc.a $(B)/libshim.a $(B)/liboci.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.a,$^) $(LIBS_profiler)
# what the hook's C library does otherwise
$(B)/tools/batch: tests/tools/batch.c $(S)/liboci.a
	@mkdir -p $(@D)
	$(CC_static) $(CFLAGS) $(LDFLAGS) $(STATIC_$(MODE)) -o $@ $(filter %.c %.a,$^)
$(B)/targets/%: tests/targets/%.c
	@mkdir -p $(@D)
	gcc $(TARGET_CFLAGS) -o $@ $(filter %.c %.so,$^) -pthread $(TARGET_LDFLAGS)
$(B)/targets/lib%.so: tests/targets/lib%.c
	@mkdir -p $(@D)
	gcc $(TARGET_CFLAGS) -fPIC -shared -Wl,-z,nocombreloc -Wl,-soname,$(@F) -o $@ $<
$(B)/targets/ctor: $(B)/targets/libctor.so
$(B)/targets/ctor: TARGET_LDFLAGS = -Wl,-rpath,'$$ORIGIN'
# as an installed program is linked: it finds the library beside itself
$(B)/targets/asks: $(B)/libpillion.so
$(B)/targets/asks: TARGET_LDFLAGS = -Wl,-rpath,'$$ORIGIN' -Wl,--unresolved-symbols=ignore-in-shared-libs
# libpillion is linked into it, with what that was built with
$(B)/targets/self $(B)/targets/notes: $(B)/libpillion.a
$(B)/targets/self $(B)/targets/notes: override TARGET_CFLAGS += -Ishim/libpillion
$(B)/targets/self $(B)/targets/notes: TARGET_LDFLAGS = $(B)/libpillion.a $(OPT_$(MODE))
$(B)/targets/traced: override TARGET_CFLAGS += -finstrument-functions -Wno-infinite-recursion

.PHONY: targets
