/* SPDX-License-Identifier: Apache-2.0 */
/*
 * called SHAPE MILLIONS - so many calls, in one of the shapes that a call and its return can be found in; prints the
 * nanoseconds of CPU time of one. Built three times: as it is, with -finstrument-functions, with -pg.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET __attribute__((noinline, no_instrument_function)) static
#define CALL __attribute__((noinline)) static
#define WIDE 64

#define EACH(m) EIGHT(m, 0) EIGHT(m, 1) EIGHT(m, 2) EIGHT(m, 3) EIGHT(m, 4) EIGHT(m, 5) EIGHT(m, 6) EIGHT(m, 7)
#define EIGHT(m, a) m(a##0) m(a##1) m(a##2) m(a##3) m(a##4) m(a##5) m(a##6) m(a##7)
#define DEFINE(n)                                                                                                      \
	CALL void f##n(void)                                                                                           \
	{                                                                                                              \
		__asm__ volatile("");                                                                                  \
	}
EACH(DEFINE)
#define NAME(n) f##n,
static void (*const all[WIDE])(void) = {EACH(NAME)};

/* one function from one place */
CALL long narrow(long n)
{
	for (long i = 0; i < n; i++)
		f00();
	return n;
}

/* 64 functions from 64 places */
CALL long wide(long n)
{
#define FROM_HERE(m) f##m();
	for (long i = 0; i < n / WIDE; i++) {
		EACH(FROM_HERE)
	}
	return n / WIDE * WIDE;
}

/* 64 functions from one place, as by a table or a vtable */
CALL long table(long n)
{
	for (long i = 0; i < n; i++)
		all[i % WIDE]();
	return n;
}

/* 8 of them */
CALL long table8(long n)
{
	for (long i = 0; i < n; i++)
		all[i % 8]();
	return n;
}

static long fibs;
CALL long fib(long n)
{
	fibs++;
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
CALL long recursion(long n)
{
	for (fibs = 0; fibs < n;)
		fib(20);
	return fibs;
}

/* ten deep and back */
CALL void down(int n)
{
	if (n)
		down(n - 1);
	__asm__ volatile("");
}
CALL long chain(long n)
{
	for (long i = 0; i < n / 11; i++)
		down(10);
	return n / 11 * 11;
}

QUIET double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static const struct {
	const char *name;
	long (*run)(long n);
} shapes[] = {{"narrow", narrow}, {"wide", wide}, {"table", table}, {"table8", table8}, {"recursion", recursion},
	{"chain", chain}};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if (strcmp(argv[1], shapes[i].name) != 0)
			continue;
		shapes[i].run(100000);
		double began = now();
		long n = shapes[i].run((long)(atof(argv[2]) * 1e6));
		printf("%.3f\n", (now() - began) / (double)n);
		return 0;
	}
	return 2;
}
