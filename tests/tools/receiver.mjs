#!/usr/bin/env node
/*
 * receiver.mjs DIR [CERT KEY] - a server that profiles are pushed to: writes its port into DIR/port, and answers as DIR/mode says
 * at that moment:
 *
 *	ok		200, and a body that an OTLP server would give: nothing
 *	STATUS		this one, with a body that has control characters and quotes in it
 *	STATUS N	the same with Retry-After: N
 *	large N		413 to a body of more than N bytes, else as ok
 *	partial		200, and that one profile was rejected (OTLP's partial_success)
 *	bounce		a redirect to itself, always
 *	hang		no answer, and the connection stays open
 *	cut		the connection ends in the middle of the body
 *	flood		200, and a body without an end
 *	slow N		as ok after N ms
 *	second		as ok, but 503 to every second request
 *
 * A request that was taken is DIR/NNNNNN.body, in the order of the answers, and a line of DIR/taken:
 * {"n", "at" (ms since the epoch), "method", "path", "headers"}; one that was not is a line of DIR/refused.
 */
import fs from 'fs'
import http from 'http'
import https from 'https'
import path from 'path'

const [dir, cert, key] = process.argv.slice(2)
let n = 0, asked = 0

function note(file, request, more) {
	fs.appendFileSync(path.join(dir, file), JSON.stringify({ ...more, at: Date.now(), method: request.method, path: request.url, headers: request.headers }) + '\n')
}

function take(request, body) {
	const name = String(n).padStart(6, '0')
	fs.writeFileSync(path.join(dir, name + '.body.new'), body)
	fs.renameSync(path.join(dir, name + '.body.new'), path.join(dir, name + '.body'))
	note('taken', request, { n: n++ })
}

const answers = {
	ok: (request, response, body) => { take(request, body); response.end() },
	large: (request, response, body, most) => body.length > most ? answers[413](request, response) : answers.ok(request, response, body),
	partial: (request, response, body) => {
		take(request, body)
		response.end(Buffer.from([0x0a, 0x0a, 0x08, 0x01, 0x12, 0x06, ...Buffer.from('no way')]))
	},
	bounce: (request, response) => { note('refused', request); response.writeHead(307, { Location: request.url }).end() },
	hang: request => note('refused', request),
	cut: request => { note('refused', request); request.socket.destroy() },
	flood: (request, response, body) => {
		take(request, body)
		const more = () => { while (response.writable && response.write(Buffer.alloc(65536, 'x'))); }
		response.on('drain', more)
		more()
	},
	slow: (request, response, body, ms) => setTimeout(() => answers.ok(request, response, body), ms),
	second: (request, response, body) => answers[++asked % 2 ? 'ok' : 503](request, response, body),
	503: (request, response) => { note('refused', request); response.writeHead(503).end() },
	413: (request, response) => { note('refused', request); response.writeHead(413).end('too "large"\x1b[31m') },
}

function answer(request, response, body) {
	const [mode, number] = fs.readFileSync(path.join(dir, 'mode'), 'utf8').trim().split(' ')
	if (answers[mode]) return answers[mode](request, response, body, Number(number))
	note('refused', request)
	response.writeHead(Number(mode), number ? { 'Retry-After': number } : {}).end('a "reason"\x1b[31m\nof two lines')
}

function serve(request, response) {
	const parts = []
	request.on('data', part => parts.push(part))
	request.on('end', () => answer(request, response, Buffer.concat(parts)))
}

const server = cert ? https.createServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) }, serve) : http.createServer(serve)
server.listen(Number(fs.existsSync(path.join(dir, 'port')) ? fs.readFileSync(path.join(dir, 'port'), 'utf8') : 0), '127.0.0.1', () => {
	fs.writeFileSync(path.join(dir, 'port.new'), String(server.address().port))
	fs.renameSync(path.join(dir, 'port.new'), path.join(dir, 'port'))
	fs.writeFileSync(path.join(dir, 'ready'), '')
})
