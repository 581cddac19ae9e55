#!/usr/bin/env node
/*
 * otlp.mjs MODULES DIR [BYTES [SAMPLES]] - OTLP requests in DIR (tests/tools/push_encode.c) as a receiver sees them that is not ours: by protobufjs of
 * npm, below MODULES, and otlp.proto. Prints "resource KEY=VALUE" that all requests have, "sample KEY" and "frame TYPE" and "mapping KEY" of attributes,
 * "period TYPE UNIT IS-0", "sum TYPE UNIT SUM" over all requests, "first TYPE UNIT" of the first Profile. What is against the rules goes to
 * stderr, and the exit status is 1. The rules, from profiles.proto and profiles_service.proto of opentelemetry-proto, and where it says so from a receiver:
 *
 *	content type application/x-protobuf, gzip as it says; nothing that the schema does not have, no string that is not UTF-8
 *	entry 0 of every table of the dictionary is the zero value; no table has an entry twice; every index is inside of its table
 *	each sample has one value, or as many values as timestamps; those are in the time of the Profile; attributes of one thing have different keys
 *	a Profile has a sample type, a period type with a name, an id of 16 bytes that is not 0 and that no other one has; samples (some receivers)
 *	a resource has a service.name; keys of attributes are not ""
 *	a request has up to BYTES (2 MiB), a Profile up to SAMPLES (16000) (Pyroscope); its period is not 0 but for off_cpu nanoseconds, and the
 *	type of its period is the name of a metric (Pyroscope)
 *	timestamps, and addresses, are inside of what they are of
 */
import fs from 'fs'
import zlib from 'zlib'
import path from 'path'
import { createRequire } from 'module'

const [modules, dir, bytes = 2 << 20, most = 16000] = process.argv.slice(2)
const protobuf = createRequire(path.resolve(modules) + '/')('protobufjs')
const root = protobuf.loadSync(new URL('otlp.proto', import.meta.url).pathname)
const Request = root.lookupType('otlp.ExportProfilesServiceRequest')

let wrong = 0
const said = new Set()
const complain = sentence => { wrong = 1; if (said.size < 20 && !said.has(sentence)) { said.add(sentence); console.error(sentence) } }
const sums = new Map(), ids = new Set(), lines = new Set(), times = new Set()
let shared, first, requests = 0

// Fields that the schema does not have, or with another wire type, and strings that are no UTF-8: decoders are silent of both.
const wireOf = { string: 2, bytes: 2, int32: 0, int64: 0, uint32: 0, uint64: 0, bool: 0, fixed64: 1, double: 1 }
function strict(type, buffer, where) {
	const r = protobuf.Reader.create(buffer)
	while (r.pos < r.len) {
		const tag = r.uint32(), field = type.fieldsById[tag >>> 3], wire = tag & 7
		if (!field) { complain(`${where}: ${type.name} has no field ${tag >>> 3}`); r.skipType(wire); continue }
		const inner = field.resolve().resolvedType
		const packed = field.repeated && !inner && wireOf[field.type] !== 2
		if (wire !== (inner || packed ? 2 : wireOf[field.type])) complain(`${where}: ${type.name}.${field.name} is of wire type ${wire}`)
		if (wire !== 2) { r.skipType(wire); continue }
		const value = r.bytes()
		if (inner) strict(inner, value, where)
		else if (field.type === 'string')
			try { new TextDecoder('utf-8', { fatal: true }).decode(value) } catch { complain(`${where}: a ${type.name}.${field.name} is no UTF-8`) }
		if (field.type === 'string' && value.length > 65535) complain(`${where}: a ${type.name}.${field.name} of ${value.length} bytes`)
	}
}

const number = v => BigInt(v.toString())
const valueOf = any => !any?.value ? complain('an attribute without a value') : any.value === 'arrayValue' ? any.arrayValue.values.map(valueOf).join('|') : any[any.value].toString()

function check(h, plain, where) {
	strict(Request, plain, where)
	const request = Request.decode(plain), d = request.dictionary
	if (plain.length > bytes) complain(`${where}: ${plain.length} bytes`)
	if (!d) return complain(`${where}: no dictionary`)
	const at = (table, i, what) => {
		if (!(i >= 0 && i < d[table].length)) complain(`${where}: ${what}: ${table} has no entry ${i} of ${d[table].length}`)
		return d[table][i]
	}
	for (const table of ['mappingTable', 'locationTable', 'functionTable', 'linkTable', 'attributeTable', 'stackTable', 'stringTable']) {
		const encoded = d[table].map(x => typeof x === 'string' ? x : Buffer.from(x.constructor.encode(x).finish()).toString('latin1'))
		if (encoded[0] !== '') complain(`${where}: ${table}[0] is not the zero value`)
		if (new Set(encoded).size !== encoded.length) complain(`${where}: ${table} has an entry twice`)
	}
	const text = (i, what) => at('stringTable', i, what)
	const attributes = (indices, what) => {
		const keys = indices.map(i => { if (!i) complain(`${where}: ${what}: attribute 0`); return text(at('attributeTable', i, what).keyStrindex, what) })
		if (new Set(keys).size !== keys.length || keys.includes('')) complain(`${where}: ${what}: keys ${keys}`)
		return Object.fromEntries(keys.map((k, n) => [k, valueOf(d.attributeTable[indices[n]].value)]))
	}
	for (const a of d.attributeTable) text(a.unitStrindex, 'a unit')
	for (const m of d.mappingTable) {
		text(m.filenameStrindex, 'a mapping')
		Object.keys(attributes(m.attributeIndices, 'a mapping')).forEach(k => lines.add(`mapping ${k}`))
	}
	for (const f of d.functionTable.slice(1)) {
		if (!text(f.nameStrindex, 'a function')) complain(`${where}: a function without a name`)
		text(f.systemNameStrindex, 'a function')
		text(f.filenameStrindex, 'a function')
	}
	for (const l of d.locationTable.slice(1)) {
		const m = at('mappingTable', l.mappingIndex, 'a location')
		if (l.mappingIndex && number(m.memoryLimit) && number(l.address) && (number(l.address) < number(m.memoryStart) || number(l.address) >= number(m.memoryLimit)))
			complain(`${where}: address ${l.address} is not in its mapping`)
		if (!l.lines.length) complain(`${where}: a location without lines`)
		for (const line of l.lines) if (!line.functionIndex || !at('functionTable', line.functionIndex, 'a line')) complain(`${where}: a line without a function`)
		const type = attributes(l.attributeIndices, 'a location')['profile.frame.type']
		lines.add(`frame ${type ?? 'none'}`)
		if (type && !['kernel', 'native'].includes(type)) complain(`${where}: profile.frame.type ${type}`)
	}
	for (const s of d.stackTable) {
		if (s.locationIndices.length > 1000) complain(`${where}: a stack of ${s.locationIndices.length}`)
		for (const i of s.locationIndices) if (!i || !at('locationTable', i, 'a stack')) complain(`${where}: a stack has location ${i}`)
	}
	const stacks = new Set([0])
	let samples = 0
	for (const rp of request.resourceProfiles) {
		const keys = rp.resource.attributes.map(a => a.key), now = new Map(rp.resource.attributes.map(a => [a.key, valueOf(a.value)]))
		if (new Set(keys).size !== keys.length || keys.includes('')) complain(`${where}: keys of the resource: ${keys}`)
		if (!now.get('service.name')) complain(`${where}: no service.name`)
		shared = shared ? new Map([...shared].filter(([k, v]) => now.get(k) === v)) : now
		for (const sp of rp.scopeProfiles) {
			if (sp.scope?.name !== 'pillion' || !sp.scope.version) complain(`${where}: scope ${sp.scope?.name} ${sp.scope?.version}`)
			for (const p of sp.profiles) {
				const type = text(p.sampleType.typeStrindex, 'a type'), unit = text(p.sampleType.unitStrindex, 'a type'), name = `${type} ${unit}`
				const period = text(p.periodType.typeStrindex, 'a period'), of = text(p.periodType.unitStrindex, 'a period')
				first ??= name
				if (!type || !unit || !of || !/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(period)) complain(`${where}: types ${name} ${period} ${of}`)
				lines.add(`period ${period} ${of} of ${name}${number(p.period) ? '' : ' is 0'}`)
				if ((number(p.period) === 0n) !== (name === 'off_cpu nanoseconds')) complain(`${where}: period ${p.period} of ${name}`)
				const id = Buffer.from(p.profileId).toString('hex')
				if (id.length !== 32 || /^0+$/.test(id) || ids.has(id)) complain(`${where}: id ${id}`)
				ids.add(id)
				const began = number(p.timeUnixNano), ended = began + number(p.durationNano)
				if (!began) lines.add('no time')
				if (began && times.has(`${name} ${began / 1000000n}`)) complain(`${where}: one of ${name} at ${began} was there before`)
				times.add(`${name} ${began / 1000000n}`)
				const about = attributes(p.attributeIndices, 'a profile')
				if (about['pprof.profile.comment']) lines.add('comment')
				if (!p.samples.length || p.samples.length > most) complain(`${where}: ${p.samples.length} samples`)
				samples = Math.max(samples, p.samples.length)
				for (const s of p.samples) {
					at('stackTable', s.stackIndex, 'a sample')
					stacks.add(s.stackIndex)
					if (s.linkIndex) complain(`${where}: link ${s.linkIndex}`)
					if (s.values.length !== 1 || (s.timestampsUnixNano.length && s.timestampsUnixNano.length !== 1)) complain(`${where}: ${s.values.length} values`)
					for (const t of s.timestampsUnixNano) { lines.add('timestamps'); if (number(t) < began || number(t) > ended) complain(`${where}: timestamp ${t}`) }
					const a = attributes(s.attributeIndices, 'a sample')
					for (const k of Object.keys(a)) { lines.add(`sample ${k}`); if (now.has(k)) complain(`${where}: ${k} is also the resource's`) }
					sums.set(name, (sums.get(name) ?? 0n) + number(s.values[0]))
				}
			}
		}
	}
	if (stacks.size !== d.stackTable.length) complain(`${where}: ${d.stackTable.length - stacks.size} stacks that no sample has`)
	if (samples > Number(h.samples)) complain(`${where}: said to be ${h.samples} samples, is ${samples}`)
}

for (const file of fs.readdirSync(dir).filter(f => f.endsWith('.head')).sort()) {
	const h = Object.fromEntries(fs.readFileSync(path.join(dir, file), 'utf8').trimEnd().split('\n').map(l => { const at = l.indexOf(' '); return [l.slice(0, at), l.slice(at + 1)] }))
	if (h.method !== 'POST' || h.path !== '/v1development/profiles' || h.type !== 'application/x-protobuf' || h.encoding !== 'gzip') complain(`${file}: ${JSON.stringify(h)}`)
	check(h, zlib.gunzipSync(fs.readFileSync(path.join(dir, file.replace('.head', '.body')))), file)
	requests++
}
for (const [k, v] of shared ?? []) console.log(`resource ${k}=${v}`)
for (const l of [...lines].sort()) console.log(l)
for (const [k, v] of [...sums].sort()) console.log(`sum ${k} ${v}`)
console.log(`first ${first}`)
console.log(`requests ${requests}`)
process.exit(wrong)
