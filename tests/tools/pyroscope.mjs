#!/usr/bin/env node
/*
 * pyroscope.mjs MODULES DIR [BYTES [SAMPLES]] - the requests in DIR (tests/tools/push_encode.c) as Pyroscope would see them: by protobufjs and
 * pprof-format of npm, below MODULES, and node's own parser of forms. Prints "series NAME=VALUE" for labels that all requests have, "metric NAME"
 * and "label NAME" for those of samples, "TYPE UNIT SUM" over all requests, sorted. What Pyroscope would refuse goes to stderr, and the exit status is 1; its rules,
 * from pkg/validation, pkg/og/convert/pprof and api/model/labelset of github.com/grafana/pyroscope:
 *
 *	names of labels are Prometheus', up to 1024 bytes, none twice; values up to 2048 bytes, UTF-8; up to 30 of a series, with those texts that
 *	its samples have; a valid __name__, a service_name; names of /ingest do not begin with "__"
 *	a profile is up to BYTES (2 MiB, which is the burst that its rate allows; of a profile 4 MiB) before compression, up to SAMPLES (16000), 100 labels of each; depth up to 1000, texts up to 65535 bytes, which
 *	would be cut; no '-' in a sample type; ids as profile.proto has them
 *	one time and set of labels is one profile: another one would be a copy of it. Ids are UUIDs, and none is there twice
 */
import fs from 'fs'
import zlib from 'zlib'
import path from 'path'
import { createRequire } from 'module'

const [modules, dir, bytes = 2 << 20, most = 16000] = process.argv.slice(2)
const require = createRequire(path.resolve(modules) + '/')
const { Profile } = require('pprof-format')
const protobuf = require('protobufjs')
const Push = protobuf.loadSync(new URL('pyroscope.proto', import.meta.url).pathname).lookupType('push.v1.PushRequest')

let wrong = 0
const said = new Set()
const complain = sentence => { wrong = 1; if (said.size < 20 && !said.has(sentence)) { said.add(sentence); console.error(sentence) } }
const sums = new Map(), seen = new Set(), ids = new Set()
const lines = new Set()
let shared

function head(file) {
	return Object.fromEntries(fs.readFileSync(file, 'utf8').trimEnd().split('\n').map(l => { const at = l.indexOf(' '); return [l.slice(0, at), l.slice(at + 1)] }))
}
const utf8 = (buffer, what) => { try { return new TextDecoder('utf-8', { fatal: true }).decode(buffer) } catch { complain(`${what} is no UTF-8`); return '' } }

// All strings of a protobuf message are checked by their bytes: decoders replace what is none.
function strings(buffer, field, visit) {
	const r = protobuf.Reader.create(buffer)
	while (r.pos < r.len) {
		const tag = r.uint32()
		if ((tag & 7) === 2 && tag >>> 3 === field) visit(r.bytes())
		else r.skipType(tag & 7)
	}
}

function checkSeries(labels, where) {
	const names = labels.map(l => l.name)
	if (new Set(names).size !== names.length) complain(`${where}: a label twice: ${names}`)
	if (names.length > 30) complain(`${where}: ${names.length} labels`)
	for (const { name, value } of labels) {
		if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) || name.length > 1024) complain(`${where}: a label is called ${name}`)
		if (Buffer.byteLength(value) > 2048 || value === '') complain(`${where}: value of ${name}: ${value}`)
	}
	const of = name => labels.find(l => l.name === name)?.value ?? ''
	if (!/^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(of('__name__'))) complain(`${where}: __name__ is ${of('__name__')}`)
	if (!of('service_name')) complain(`${where}: no service_name`)
	if (of('__delta__') !== 'false') complain(`${where}: it would be subtracted from the one before`)
}

function checkProfile(gz, labels, where, samples) {
	const plain = gz[0] === 0x1f ? zlib.gunzipSync(gz) : gz
	strings(plain, 6, text => { utf8(text, `${where}: a text`); if (text.length > 65535) complain(`${where}: a text of ${text.length} bytes`) })
	const p = Profile.decode(plain), text = i => p.stringTable.strings[Number(i)]
	if (plain.length > bytes) complain(`${where}: ${plain.length} bytes`)
	if (p.sample.length > most || !p.sample.length) complain(`${where}: ${p.sample.length} samples`)
	if (p.sample.length > samples) complain(`${where}: said to be ${samples} samples, is ${p.sample.length}`)
	const locations = new Set(p.location.map(l => Number(l.id))), functions = new Set(p.function.map(f => Number(f.id)))
	if (locations.has(0) || functions.has(0)) complain(`${where}: an id is 0`)
	const used = new Set()
	for (const s of p.sample) {
		if (s.locationId.length > 1000) complain(`${where}: ${s.locationId.length} deep`)
		if (s.label.length > 100) complain(`${where}: ${s.label.length} labels of a sample`)
		if (s.value.length !== p.sampleType.length) complain(`${where}: ${s.value.length} values`)
		for (const id of s.locationId) { used.add(Number(id)); if (!locations.has(Number(id))) complain(`${where}: no location ${id}`) }
		const all = [...labels], ofSample = s.label.filter(l => Number(l.str)).map(l => ({ name: text(l.key), value: text(l.str) }))
		for (const l of s.label) lines.add(`label ${text(l.key)}`)
		for (const l of ofSample) if (labels.some(k => k.name === l.name)) complain(`${where}: label ${l.name} of a sample is hidden by the series'`); else all.push(l)
		checkSeries(all, where)
	}
	if (used.size !== locations.size) complain(`${where}: locations that no sample has: ${locations.size - used.size}`)
	for (const l of p.location) for (const line of l.line) if (!functions.has(Number(line.functionId))) complain(`${where}: no function ${line.functionId}`)
	for (const t of p.sampleType) if (text(t.type).includes('-') || text(t.type).includes(':')) complain(`${where}: sample type ${text(t.type)}`)
	if (!p.periodType || !text(p.periodType.type)) complain(`${where}: no period type`)
	p.sampleType.forEach((t, i) => {
		const name = `${text(t.type)} ${text(t.unit)}`
		sums.set(name, (sums.get(name) ?? 0n) + p.sample.reduce((sum, s) => sum + BigInt(s.value[i]), 0n))
	})
	const key = JSON.stringify([labels.map(l => [l.name, l.value]).sort(), Math.floor(Number(BigInt(p.timeNanos) / 1000000n))])
	if (Number(p.timeNanos) && seen.has(key)) complain(`${where}: one with the same labels and time was there before`)
	seen.add(key)
	const now = new Map(labels.map(l => [l.name, l.value]))
	shared = shared ? new Map([...shared].filter(([k, v]) => now.get(k) === v)) : now
	return p
}

// The name of the metric, as /ingest finds it
function metricOf(p, config) {
	const types = p.sampleType.map(t => p.stringTable.strings[t.type])
	const display = config ?? { samples: { 'display-name': 'cpu' }, goroutine: { 'display-name': 'goroutines' }, contentions: { 'display-name': 'mutex_count' }, delay: { 'display-name': 'mutex_duration' } }
	if (types.includes('wall')) return 'wall'
	let t
	for (t of types) {
		t = display[t]?.['display-name'] || t
		if (t.includes('cpu')) return 'process_cpu'
		if (t.includes('alloc_') || t.includes('inuse_') || t === 'space' || t === 'objects') return 'memory'
		for (const word of ['mutex', 'block']) if (t.includes(word + '_')) return word
		if (t.includes('goroutines')) return 'goroutines'
	}
	return display[types.at(-1)]?.['display-name'] || types.at(-1)
}

function push(h, body, where) {
	if (h.path !== '/push.v1.PusherService/Push' || h.type !== 'application/proto' || h.encoding) complain(`${where}: ${JSON.stringify(h)}`)
	const request = Push.decode(body)
	if (Push.verify(request)) complain(`${where}: ${Push.verify(request)}`)
	if (!request.series.length) complain(`${where}: no series`)
	for (const s of request.series)
		for (const sample of s.samples) {
			if (!/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(sample.ID)) complain(`${where}: id ${sample.ID}`)
			if (ids.has(sample.ID)) complain(`${where}: id ${sample.ID} is there twice`)
			ids.add(sample.ID)
			checkProfile(Buffer.from(sample.rawProfile), s.labels, where, Number(h.samples))
		}
}

async function ingest(h, body, where) {
	const url = new URL(h.path, 'http://x')
	if (url.pathname !== '/ingest' || !h.type.startsWith('multipart/form-data; boundary=')) complain(`${where}: ${JSON.stringify(h)}`)
	if (url.searchParams.get('format')) complain(`${where}: with format= the body is not a form`)
	if (h.path.length > 8000) complain(`${where}: a path of ${h.path.length} bytes`)
	const form = await new Response(body, { headers: { 'content-type': h.type } }).formData()
	const name = url.searchParams.get('name'), m = /^([-a-zA-Z0-9._/]+)\{(.*)\}$/.exec(name)
	if (!m) return complain(`${where}: name=${name}`)
	const labels = m[2] ? m[2].split(',').map(l => ({ name: l.slice(0, l.indexOf('=')), value: l.slice(l.indexOf('=') + 1) })) : []
	for (const l of labels) if (l.name.startsWith('__') || l.name === 'service_name' || l.value !== l.value.trim()) complain(`${where}: label ${l.name}=${l.value}`)
	const config = form.get('sample_type_config') && JSON.parse(await form.get('sample_type_config').text())
	const gz = Buffer.from(await form.get('profile').arrayBuffer())
	const plain = Profile.decode(zlib.gunzipSync(gz)), metric = metricOf(plain, config)
	const from = Number(url.searchParams.get('from')), until = Number(url.searchParams.get('until'))
	if (Number(plain.timeNanos) === 0) { if (from || until) complain(`${where}: from ${from}`) } else if (from !== Math.floor(Number(BigInt(plain.timeNanos) / 1000000000n)) || until < from) complain(`${where}: from ${from} until ${until}, is ${plain.timeNanos}`)
	if (url.searchParams.get('spyName') !== 'pillion') complain(`${where}: spyName`)
	checkProfile(gz, [...labels, { name: '__name__', value: metric }, { name: '__delta__', value: 'false' }, { name: 'service_name', value: m[1] },
		{ name: 'pyroscope_spy', value: 'pillion' }], where, Number(h.samples))
}

let requests = 0
for (const file of fs.readdirSync(dir).filter(f => f.endsWith('.head')).sort()) {
	const h = head(path.join(dir, file)), body = fs.readFileSync(path.join(dir, file.replace('.head', '.body')))
	if (h.method !== 'POST') complain(`${file}: method ${h.method}`)
	await (h.path.startsWith('/ingest') ? ingest : push)(h, body, file)
	requests++
}
for (const [k, v] of shared ?? []) console.log(`series ${k}=${v}`)
for (const l of [...lines].sort()) console.log(l)
for (const [k, v] of [...sums].sort()) console.log(`sum ${k} ${v}`)
console.log(`requests ${requests}`)
process.exit(wrong)
