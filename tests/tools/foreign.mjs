#!/usr/bin/env node
/*
 * foreign.mjs MODULES KIND OUT - a profile that is not ours, in OUT. Of real profilers, or as their pages describe what they write:
 *
 *	node-wall, node-heap	@datadog/pprof of npm, below MODULES, of this very process
 *	python			of an interpreter, as py-spy's exporters have it: functions with files and lines, no address, no mapping
 *	java			async-profiler's (jfrconv --pprof): names with slashes, a label for the thread, one location for a method and line
 *	perf			perf_data_converter's: addresses in mappings with build-ids, no functions; "cycles_sample" and "cycles_event"
 *	old			plain, without gzip; no period, no default, ids that are neither dense nor in order
 *
 * and those that nobody should write, made byte by byte: see `hostile` below, whose names are the kinds. `foreign.mjs list` prints them, each
 * with what becomes of it: "read", or what the sentence has in it.
 */
import fs from 'fs'
import zlib from 'zlib'
import path from 'path'
import { createRequire } from 'module'

const [modules, kind, out] = process.argv.slice(2)

/* --- protobuf by hand: a message is a list of [field, number | bytes | text | message] */

function varint(n) {
	const bytes = []
	for (n = BigInt.asUintN(64, BigInt(n)); n > 127n; n >>= 7n) bytes.push(Number(n & 127n) | 128)
	bytes.push(Number(n))
	return Buffer.from(bytes)
}
function message(fields) {
	return Buffer.concat(fields.map(([field, value]) => {
		if (typeof value === 'number' || typeof value === 'bigint') return Buffer.concat([varint(field << 3), varint(value)])
		const bytes = Buffer.isBuffer(value) ? value : typeof value === 'string' ? Buffer.from(value) : message(value)
		return Buffer.concat([varint(field << 3 | 2), varint(bytes.length), bytes])
	}))
}
/* profile.proto's numbers */
const TYPE = 1, SAMPLE = 2, MAPPING = 3, LOCATION = 4, FUNCTION = 5, TEXT = 6, DROP_FRAMES = 7, TIME = 9, DURATION = 10, PERIOD_TYPE = 11, PERIOD = 12, COMMENT = 13, DEFAULT = 14

/* Two functions, two samples, 7 and 5 of "samples"; whatever is given takes the place of the part. */
function profile(parts = {}) {
	const p = {
		texts: ['', 'samples', 'count', 'main', 'work', 'thread'].map(t => [TEXT, t]),
		types: [[TYPE, [[1, 1], [2, 2]]]],
		functions: [[FUNCTION, [[1, 1], [2, 3]]], [FUNCTION, [[1, 2], [2, 4]]]],
		locations: [[LOCATION, [[1, 1], [4, [[1, 1]]]]], [LOCATION, [[1, 2], [4, [[1, 2]]]]]],
		samples: [[SAMPLE, [[1, 2], [1, 1], [2, 7]]], [SAMPLE, [[1, 1], [2, 5]]]],
		more: [], ...parts,
	}
	return message([...p.types, ...p.samples, ...p.locations, ...p.functions, ...p.texts, ...p.more])
}
const named = name => ({ texts: ['', 'samples', 'count', 'main', name, 'thread'].map(t => [TEXT, t]) })
const repeat = (n, f) => Array.from({ length: n }, (_, i) => f(i))

const hostile = {
	'no-types': [{ types: [] }, 'no sample type'],
	'many-types': [{ types: repeat(11, () => [TYPE, [[1, 1], [2, 2]]]), samples: [7, 5].map((n, i) => [SAMPLE, [[1, 1 + i], ...repeat(11, k => [2, n + k])]]) }, 'read'],
	'types-that-multiply': [{ types: repeat(20000, () => [TYPE, [[1, 1], [2, 2]]]), texts: repeat(20000, () => [TEXT, '']) }, 'too many sample types .20000.'],
	'drop-frames': [{ texts: ['', 'samples', 'count', 'main', 'work', '(w[o]rk|x{1000})+'].map(t => [TEXT, t]), more: [[DROP_FRAMES, 5]] }, 'read'],
	'drop-frames-that-multiply': [{ texts: ['', 'samples', 'count', 'main', 'work', '((x{1000}){1000}){1000}'].map(t => [TEXT, t]), more: [[DROP_FRAMES, 5]] }, 'read'],
	'drop-frames-that-go-back': [{ texts: ['', 'samples', 'count', 'main', 'a'.repeat(60000), '((a*)*|(a|a)*)*b'].map(t => [TEXT, t]), more: [[DROP_FRAMES, 5]] }, 'read'],
	'type-beyond-the-texts': [{ types: [[TYPE, [[1, 999], [2, 2]]]] }, 'string 999 of 6'],
	'name-below-the-texts': [{ functions: [[FUNCTION, [[1, 1], [2, -1]]], [FUNCTION, [[1, 2], [2, 4]]]] }, 'string -1 of 6'],
	'no-texts': [{ texts: [] }, 'string 1 of 0'],
	'label-beyond-the-texts': [{ samples: [[SAMPLE, [[1, 1], [2, 7], [3, [[1, 77], [2, 3]]]]]] }, 'string 77 of 6'],
	'comment-beyond-the-texts': [{ more: [[COMMENT, 1234]] }, 'string 1234'],
	'location-twice': [{ locations: repeat(2, () => [LOCATION, [[1, 1], [4, [[1, 1]]]]]) }, 'location id 1 is there twice'],
	'location-0': [{ locations: [[LOCATION, [[1, 0], [4, [[1, 1]]]]]] }, 'location id 0 is not allowed'],
	'function-twice': [{ functions: repeat(2, () => [FUNCTION, [[1, 1], [2, 3]]]) }, 'function id 1 is there twice'],
	'no-such-location': [{ samples: [[SAMPLE, [[1, 99], [2, 1]]]] }, 'location 99, which does not exist'],
	'no-such-function': [{ locations: [[LOCATION, [[1, 1], [4, [[1, 55]]]]], [LOCATION, [[1, 2]]]] }, 'function 55, which does not exist'],
	'no-such-mapping': [{ locations: [[LOCATION, [[1, 1], [2, 8]]], [LOCATION, [[1, 2]]]] }, 'read'],
	'too-few-values': [{ samples: [[SAMPLE, [[1, 1]]]] }, 'has 0 values, not 1'],
	'too-many-values': [{ samples: [[SAMPLE, [[1, 1], [2, 1], [2, 1]]]] }, 'has 2 values, not 1'],
	'half-a-field': [Buffer.concat([profile(), Buffer.from([0x12, 0xff, 0xff, 0xff, 0xff, 0x07])]), 'not a pprof profile'],
	'text': [Buffer.from('goroutine profile: total 3\n'), 'not a pprof profile'],
	'html': [Buffer.from('<!doctype html><title>404 Not Found</title>'), 'not a pprof profile'],
	'negative': [{ samples: [[SAMPLE, [[1, 2], [1, 1], [2, -7]]], [SAMPLE, [[1, 1], [2, 5]]]] }, 'read'],
	'only-negative': [{ samples: [[SAMPLE, [[1, 2], [1, 1], [2, -7]]]] }, 'read'],
	'no-stack': [{ samples: [[SAMPLE, [[2, 7]]], [SAMPLE, [[1, 1], [2, 5]]]] }, 'read'],
	'no-line': [{ locations: [[LOCATION, [[1, 1]]], [LOCATION, [[1, 2], [3, 4096]]]] }, 'read'],
	'largest': [{ samples: repeat(3, i => [SAMPLE, [[1, 1 + i % 2], [2, 2n ** 63n - 1n]]]) }, 'read'],
	'smallest': [{ samples: repeat(3, i => [SAMPLE, [[1, 1 + i % 2], [2, -(2n ** 63n)]]]) }, 'read'],
	'times': [{ more: [[TIME, -(2n ** 63n)], [DURATION, 2n ** 63n - 1n], [PERIOD, -1]] }, 'read'],
	'late': [{ more: [[TIME, 2n ** 63n - 1n], [DURATION, -5]] }, 'read'],
	'labels': [{ samples: [[SAMPLE, [[1, 1], [2, 12], ...repeat(20000, i => [3, [[1, 5], [3, i]]])]]] }, 'read'],
	'keys': [{ texts: ['', 'samples', 'count', 'main', 'work', ...repeat(2000, i => 'key' + i)].map(t => [TEXT, t]),
		samples: [[SAMPLE, [[1, 1], [2, 12], ...repeat(2000, i => [3, [[1, 5 + i], [2, 3]]])]]] }, 'read'],
	'deep': [{ samples: [[SAMPLE, [[1, Buffer.concat(repeat(100000, i => varint(1 + i % 2)))], [2, 12]]]] }, 'read'],
	'lines': [{ locations: [[LOCATION, [[1, 1], ...repeat(5000, () => [4, [[1, 1]]])]], [LOCATION, [[1, 2], [4, [[1, 2]]]]]] }, 'read'],
	'no-utf8': [named(Buffer.from('bad\xff\xc3\xed\xa0\x80utf8', 'latin1')), 'read'],
	'markup': [named('</script><script>alert(1)</script><img src=x onerror=alert(2)>"\'&amp;'), 'read'],
	'newlines': [named('two\nlines\r\tand;a;semicolon\0nul\x1b]0;title\x07'), 'read'],
	'template': [named('std::map<int, std::vector<'.repeat(4000) + 'int' + '> >'.repeat(4000)), 'read'],
	'no-names': [named(''), 'read'],
	'other-default': [{ more: [[DEFAULT, 4]] }, 'read'],
	'unknown-fields': [{ more: [[77, 'what'], [15, 3], [900, [[1, 2]]]] }, 'read'],
	'empty-message': [Buffer.alloc(0), 'it is empty'],
	'first-text-is-some': [{ texts: ['not empty', 'samples', 'count', 'main', 'work', 'thread'].map(t => [TEXT, t]) }, 'read'],
}

/* --- as other tools do it, by npm's encoder */

function styled(f) {
	const { Profile, StringTable, ValueType, Sample, Location, Line, Function, Mapping, Label } = createRequire(path.resolve(modules) + '/')('pprof-format')
	const stringTable = new StringTable(), text = t => stringTable.dedup(t)
	return f({ stringTable, text, type: (t, u) => new ValueType({ type: text(t), unit: text(u) }), Profile, Sample, Location, Line, Function, Mapping, Label }).encode()
}
const styles = {
	python: () => styled(({ stringTable, text, type, Profile, Sample, Location, Line, Function, Label }) => new Profile({
		stringTable, sampleType: [type('samples', 'count'), type('cpu', 'nanoseconds')], periodType: type('cpu', 'nanoseconds'), period: 10000000, timeNanos: Date.now() * 1e6,
		function: ['<module>', 'fib', '<listcomp>'].map((n, i) => new Function({ id: i + 1, name: text(n), systemName: text(n), filename: text('/app/shop.py'), startLine: 10 * i })),
		location: [1, 2, 2, 3].map((f, i) => new Location({ id: i + 1, line: [new Line({ functionId: f, line: 11 + i })] })),
		sample: [[2, 1], [3, 2, 1], [4, 1], [3, 3, 3, 2, 1]].map((ids, i) => new Sample({ locationId: ids, value: [i + 1, (i + 1) * 1e7],
			label: [new Label({ key: text('thread_name'), str: text('MainThread') }), new Label({ key: text('thread_id'), num: 139872 + i })] })),
	})),
	java: () => styled(({ stringTable, text, type, Profile, Sample, Location, Line, Function, Label }) => new Profile({
		stringTable, sampleType: [type('cpu', 'nanoseconds')], timeNanos: Date.now() * 1e6, durationNanos: 30e9,
		function: ['java/lang/Thread.run', 'com/shop/Order.total', 'java/util/HashMap.get', 'libjvm.so.JavaMain', 'do_syscall_64_[k]'].map((n, i) =>
			new Function({ id: i + 1, name: text(n) })),
		location: repeat(7, i => new Location({ id: i + 1, line: [new Line({ functionId: 1 + i % 5, line: i < 3 ? 100 + i : 0 })] })),
		sample: [[3, 2, 1], [5, 2, 1], [4], [7, 6, 1]].map((ids, i) => new Sample({ locationId: ids, value: [(i + 1) * 10000000], label: [new Label({ key: text('thread'), str: text('http-' + i) })] })),
	})),
	perf: () => styled(({ stringTable, text, type, Profile, Sample, Location, Mapping, Label }) => new Profile({
		stringTable, sampleType: [type('cycles_sample', 'count'), type('cycles_event', 'count')], periodType: type('cycles', 'count'), period: 1000000,
		mapping: [['/usr/bin/shop', 0x400000], ['[kernel.kallsyms]', 0xffffffff81000000n], ['[vdso]', 0x7fff0000]].map(([f, at], i) =>
			new Mapping({ id: i + 1, memoryStart: at, memoryLimit: BigInt(at) + 0x10000n, filename: text(f), buildId: text(i ? '' : 'c0ffee00') })),
		location: [[1, 0x400123], [1, 0x400456], [2, 0xffffffff81000010n], [3, 0x7fff0010]].map(([m, a], i) => new Location({ id: i + 1, mappingId: m, address: a })),
		sample: [[1], [3, 2, 1], [4, 2, 1]].map((ids, i) => new Sample({ locationId: ids, value: [i + 1, (i + 1) * 1000000], label: [new Label({ key: text('pid'), num: 4711 }), new Label({ key: text('comm'), str: text('shop') })] })),
	})),
}
const wait = ms => new Promise(done => setTimeout(done, ms))
function burn(ms) { let n = 0; for (const end = Date.now() + ms; Date.now() < end;) n += JSON.stringify({ n }).length; return n }
const real = {
	'node-wall': async pprof => {
		pprof.time.start({ durationMillis: 1000, intervalMicros: 5000 })
		for (let i = 0; i < 10; i++) { burn(80); await wait(10) }
		return pprof.encode(pprof.time.stop())
	},
	'node-heap': async pprof => {
		pprof.heap.start(4096, 64)
		globalThis.kept = repeat(20000, i => ({ i, text: 'x'.repeat(i % 100) }))
		return pprof.encode(pprof.heap.profile())
	},
}

const old = () => message([[TYPE, [[1, 1], [2, 2]]], [TYPE, [[1, 5], [2, 6]]], [LOCATION, [[1, 900], [3, 4096], [4, [[1, 70]]]]], [LOCATION, [[1, 3], [4, [[1, 70]]], [4, [[1, 71], [2, 9]]]]],
	[SAMPLE, [[1, 3], [1, 900], [2, 4], [2, 40]]], [SAMPLE, [[1, 900], [2, 6], [2, 60]]], [FUNCTION, [[1, 71], [2, 4]]], [FUNCTION, [[1, 70], [2, 3]]],
	...['', 'samples', 'count', 'main', 'work', 'cpu', 'nanoseconds'].map(t => [TEXT, t])])

if (modules === 'list') {
	for (const [name, [, becomes]] of Object.entries(hostile)) console.log(`${name}\t${becomes}`)
} else if (kind === 'old') {
	fs.writeFileSync(out, old())
} else if (hostile[kind]) {
	const [parts] = hostile[kind]
	fs.writeFileSync(out, Buffer.isBuffer(parts) ? parts : zlib.gzipSync(profile(parts)))
} else if (styles[kind]) {
	fs.writeFileSync(out, zlib.gzipSync(styles[kind]()))
} else if (real[kind]) {
	fs.writeFileSync(out, await real[kind](createRequire(path.resolve(modules) + '/')('@datadog/pprof')))
	process.exit(0) /* its timers */
} else {
	console.error(`foreign.mjs: what is ${kind}?`)
	process.exit(2)
}
