# plugins.sh - a program that loads two libraries in turns, most likely at the same addresses: make_plugins makes ./loader,
# ./first.so and ./second.so, which `./loader ./first.so ./second.so` calls 30 and 300 times; it says "same" or "other".

PLUGIN='__attribute__((noinline)) static void %s(void) { __asm__ volatile(""); }
void begin(int n) { while (n--) %s(); }'
LOADER='#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
	void *places[2] = {0};
	for (int i = 0; i < 6; i++) {
		void *lib = dlopen(argv[1 + i % 2], RTLD_NOW);
		void (*begin)(int) = (void (*)(int))dlsym(lib, "begin");
		places[i % 2] = (void *)begin;
		begin(i % 2 ? 100 : 10);
		dlclose(lib);
	}
	puts(places[0] == places[1] ? "same" : "other");
}'
make_plugins() {
	local name
	for name in first second; do
		printf "$PLUGIN" $name $name >$name.c
		gcc -g -finstrument-functions -fPIC -shared -o $name.so $name.c
	done
	echo "$LOADER" >loader.c
	gcc -g -finstrument-functions -o loader loader.c
}
