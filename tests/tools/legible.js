/*
 * legible.js - an expression for `browser script:`: what of the page's texts a person could not read, as a list of sentences; of a flame graph, of an
 * SVG and of any other page. Two texts on one place, text that leaves its frame or the window, letters below 11 px, a contrast below
 * 4.5 (WCAG). What is drawn on the canvas is seen by having it painted once more.
 */
(() => {
	const wrong = [], SMALLEST = 11, CONTRAST = 4.5, NEAR = 1
	const probe = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })
	const rgb = (colour, below) => { /* as it looks on what is below it */
		probe.fillStyle = below || '#fff'
		probe.fillRect(0, 0, 1, 1)
		probe.fillStyle = colour
		probe.fillRect(0, 0, 1, 1)
		return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3)
	}
	const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`
	const light = c => {
		const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 })
		return 0.2126 * r + 0.7152 * g + 0.0722 * b
	}
	const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05) }
	const texts = [] /* what, left, top, right, bottom, room: { left, right } */
	const see = (what, size, ink, back, box) => {
		what = what.trim().slice(0, 40)
		if (size < SMALLEST) wrong.push(`"${what}" has letters of ${size} px`)
		const c = contrast(ink, back)
		if (c < CONTRAST) wrong.push(`"${what}" has a contrast of ${c.toFixed(2)}`)
		texts.push({ what, ...box })
	}

	/* --- text of the document */
	const behind = e => {
		const over = []
		for (; e; e = e.parentElement) over.unshift(getComputedStyle(e).backgroundColor)
		return over.reduce((below, colour) => rgb(colour, css(below)), [255, 255, 255])
	}
	const isSvg = document.documentElement.tagName === 'svg'
	const walk = document.createTreeWalker(isSvg ? document.documentElement : document.body, NodeFilter.SHOW_TEXT)
	for (let node; (node = walk.nextNode());) {
		const e = node.parentElement, style = getComputedStyle(e)
		if (!node.data.trim() || /^(SCRIPT|STYLE|OPTION|title|desc)$/.test(e.tagName) || style.visibility === 'hidden') continue
		const range = document.createRange()
		range.selectNodeContents(node)
		const frame = isSvg && e.previousElementSibling?.tagName === 'rect' && e.parentElement.tagName === 'g' ? e.previousElementSibling.getBoundingClientRect() : null
		for (const r of range.getClientRects()) {
			if (!r.width || r.bottom < 0 || r.top > innerHeight) continue
			const back = isSvg ? rgb(frame ? e.previousElementSibling.getAttribute('fill') : '#fff') : behind(e)
			see(node.data, parseFloat(style.fontSize), rgb(isSvg ? style.fill : style.color, css(back)), back, { left: r.left, top: r.top, right: r.right, bottom: r.bottom,
				room: frame || { left: 0, right: isSvg ? document.documentElement.getBoundingClientRect().right : innerWidth } })
		}
	}
	for (const e of document.querySelectorAll('button, select, th, td'))
		if (e.offsetParent && e.scrollWidth > e.clientWidth + NEAR) wrong.push(`"${e.innerText.slice(0, 40)}" does not fit its ${e.tagName.toLowerCase()}`)

	/* --- text of the canvas */
	if (typeof paint === 'function' && typeof pen === 'object') {
		const { fillText, fillRect } = CanvasRenderingContext2D.prototype, at = canvas.getBoundingClientRect()
		const page = behind(canvas)
		let frame
		pen.fillRect = (x, y, w, h) => { frame = { x, y, w, h, fill: rgb(pen.fillStyle, css(page)), alpha: pen.globalAlpha }; fillRect.call(pen, x, y, w, h) }
		pen.fillText = (text, x, y) => {
			const back = frame.fill.map((v, i) => v * frame.alpha + page[i] * (1 - frame.alpha)), size = parseFloat(/([\d.]+)px/.exec(pen.font)[1])
			const left = at.left + x, top = at.top + y - size / 2
			see(text, size, rgb(pen.fillStyle), back, { left, top, right: left + pen.measureText(text).width, bottom: top + size,
				room: { left: at.left + frame.x, right: at.left + frame.x + frame.w } })
			fillText.call(pen, text, x, y)
		}
		paint()
		delete pen.fillRect
		delete pen.fillText
	}

	/* --- where they are */
	const seen = texts.sort((a, b) => a.top - b.top)
	seen.forEach((a, i) => {
		if (a.room && (a.left < a.room.left - NEAR || a.right > a.room.right + NEAR)) wrong.push(`"${a.what}" leaves its place by ${Math.round(Math.max(a.room.left - a.left, a.right - a.room.right))} px`)
		for (let j = i + 1; j < seen.length && seen[j].top < a.bottom - NEAR; j++) {
			const b = seen[j]
			if (a.left < b.right - NEAR && b.left < a.right - NEAR) wrong.push(`"${a.what}" and "${b.what}" are upon each other`)
		}
	})
	return { texts: texts.length, wrong: [...new Set(wrong)] }
})()
