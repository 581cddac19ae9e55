#!/usr/bin/env node
/*
 * pprof.mjs MODULES FILE... - a profile as a reader that is not ours sees it (pprof-format of npm, below MODULES): a line "TYPE UNIT SUM" for each
 * sample type. What breaks a rule that the consumers of profiles have written down goes to stderr, and the exit status is 1:
 *
 *	string_table[0] is ""; ids are not 0 and unique; what is referred to is there; as many values as types	(profile.proto)
 *	a location's id is its place, from 1 on								(Parca)
 *	there is a period type, as what is known by it otherwise has no name				(Pyroscope)
 *	no key of a label twice; text or number; at most 100 of a sample				(profile.proto, Pyroscope)
 *	each location has a function with a name, or a mapping						(speedscope)
 */
import fs from 'fs'
import zlib from 'zlib'
import path from 'path'
import { createRequire } from 'module'

const [modules, ...files] = process.argv.slice(2)
const { Profile } = createRequire(path.resolve(modules) + '/')('pprof-format')
let wrong = 0

function check(p, complain) {
	const text = i => p.stringTable.strings[i]
	const known = list => new Set(list.map(x => Number(x.id)))
	const locations = known(p.location), functions = known(p.function), mappings = known(p.mapping)
	if (text(0) !== '') complain('string_table[0] is not empty')
	for (const [name, list, ids] of [['location', p.location, locations], ['function', p.function, functions], ['mapping', p.mapping, mappings]])
		if (ids.has(0) || ids.size !== list.length) complain(`ids of a ${name} are 0, or not unique`)
	if (!p.periodType || !text(p.periodType.type)) complain('there is no period type')
	p.location.forEach((l, i) => {
		if (Number(l.id) !== i + 1) complain(`location ${l.id} is at place ${i + 1}`)
		if (Number(l.mappingId) && !mappings.has(Number(l.mappingId))) complain(`location ${l.id} has no mapping ${l.mappingId}`)
		if (!l.line.length && !Number(l.mappingId)) complain(`location ${l.id} has neither a function nor a mapping`)
		for (const line of l.line)
			if (!functions.has(Number(line.functionId))) complain(`location ${l.id} has no function ${line.functionId}`)
	})
	for (const f of p.function) if (!text(f.name)) complain(`function ${f.id} has no name`)
	p.sample.forEach((s, i) => {
		if (s.value.length !== p.sampleType.length) complain(`sample ${i} has ${s.value.length} values`)
		for (const id of s.locationId) if (!locations.has(Number(id))) complain(`sample ${i} has no location ${id}`)
		const keys = s.label.map(l => text(l.key))
		if (new Set(keys).size !== keys.length) complain(`sample ${i} has a label twice: ${keys}`)
		if (keys.length > 100 || keys.includes('') || keys.includes(undefined)) complain(`labels of sample ${i}: ${keys}`)
		for (const l of s.label) if (Number(l.str) && Number(l.num)) complain(`label ${text(l.key)} of sample ${i} is a text and a number`)
	})
}

for (const file of files) {
	const bytes = fs.readFileSync(file), p = Profile.decode(bytes[0] === 0x1f ? zlib.gunzipSync(bytes) : bytes)
	check(p, sentence => { wrong = 1; console.error(`${path.basename(file)}: ${sentence}`) })
	p.sampleType.forEach((t, i) => console.log(p.stringTable.strings[t.type], p.stringTable.strings[t.unit],
		p.sample.reduce((sum, s) => sum + BigInt(s.value[i]), 0n).toString()))
}
process.exit(wrong)
