/*
 * libctor - 262,144 pointers to exported symbols: ld.so looks each of them up by name when it loads this. They
 * alternate, because it remembers the last symbol only (and targets.mk keeps the linker from sorting them).
 */
#define X4(m, p) m(p##0) m(p##1) m(p##2) m(p##3)
#define X16(m, p) X4(m, p##0) X4(m, p##1) X4(m, p##2) X4(m, p##3)
#define SYMBOL(s) __attribute__((visibility("default"))) const char s = 1;
#define ENTRY(s) &s,
#define ROW X16(ENTRY, ctor_symbol_)
#define ROW8 ROW ROW ROW ROW ROW ROW ROW ROW
#define ROW64 ROW8 ROW8 ROW8 ROW8 ROW8 ROW8 ROW8 ROW8
#define ROW512 ROW64 ROW64 ROW64 ROW64 ROW64 ROW64 ROW64 ROW64
#define ROW4096 ROW512 ROW512 ROW512 ROW512 ROW512 ROW512 ROW512 ROW512

const void *ctor_table(unsigned i);

X16(SYMBOL, ctor_symbol_)
static const char *const table[] = {ROW4096 ROW4096 ROW4096 ROW4096};

__attribute__((visibility("default"))) const void *ctor_table(unsigned i)
{
	return i < sizeof(table) / sizeof(table[0]) ? table[i] : 0;
}
