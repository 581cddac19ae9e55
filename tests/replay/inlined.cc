// inlined SECONDS - CPU time in mix() and twist(), which are inlined into Mixer::run(int), which main calls.
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace
{
inline __attribute__((always_inline)) uint64_t twist(uint64_t x)
{
	for (int i = 0; i < 2000; i++)
		x = x * 6364136223846793005u + (x >> 33);
	return x;
}

inline __attribute__((always_inline)) uint64_t mix(uint64_t x)
{
	return twist(x ^ 0x5bd1e995) + 1;
}
} // namespace

struct Mixer {
	uint64_t state;
	__attribute__((noinline)) uint64_t run(int rounds);
};

uint64_t Mixer::run(int rounds)
{
	for (int i = 0; i < rounds; i++)
		state = mix(state);
	return state;
}

int main(int argc, char **argv)
{
	const double goal = argc > 1 ? strtod(argv[1], nullptr) : 1;
	Mixer m{1};
	while (double(clock()) / CLOCKS_PER_SEC < goal)
		m.run(100);
	return m.state == 0;
}
