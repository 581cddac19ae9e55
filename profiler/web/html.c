/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/html.h"

#include "oci/base/utf8.h"

#include <time.h>

static const char style[] =
	":root{color-scheme:light dark;--back:#fff;--text:#1c1c1c;--dim:#595959;--line:#d0d0d0;--field:#f5f5f5;"
	"--accent:#0b57d0}\n"
	"@media(prefers-color-scheme:dark){:root{--back:#16181b;--text:#ececec;--dim:#a8a8a8;--line:#3a3d42;"
	"--field:#24272c;--accent:#8ab4f8}}\n"
	"body{background:var(--back);color:var(--text);font:14px/1.45 system-ui,sans-serif;margin:0 auto;"
	"padding:10px 20px 40px;max-width:1400px}\n"
	"h1{font-size:20px;overflow-wrap:anywhere}h2{font-size:16px;margin-top:28px}\n"
	"a{color:var(--accent)}.dim{color:var(--dim)}\n"
	"table{border-collapse:collapse;max-width:100%}th,td{text-align:left;padding:4px 12px 4px 0;"
	"border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}\n"
	"th{color:var(--dim);font-weight:600;white-space:nowrap;overflow-wrap:normal}.r{text-align:right;"
	"font-variant-numeric:tabular-nums;white-space:nowrap}td.name{min-width:10em}\n"
	"form{display:flex;flex-wrap:wrap;gap:10px 16px;align-items:end}label{display:grid;gap:2px;color:var(--dim)}\n"
	"input,select,button{font:inherit;color:var(--text);background:var(--field);border:1px solid var(--line);"
	"border-radius:5px;padding:4px 8px;min-height:32px}\n"
	"pre{font:12px/1.45 ui-monospace,monospace;background:var(--field);padding:10px;overflow:auto}\n"
	":focus-visible{outline:2px solid var(--accent);outline-offset:1px}\n";

void page_text(FILE *out, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	for (size_t len; *c; c += len) {
		len = utf8_valid(c);
		if (!len || *c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] <= 0x9f)) {
			putc(*c == '\n' ? '\n' : '?', out);
			len = len ? len : 1;
		} else if (*c == '<' || *c == '>' || *c == '&' || *c == '"' || *c == '\'') {
			fprintf(out, "&#%u;", *c);
		} else {
			fwrite(c, 1, len, out);
		}
	}
}

void page_head(FILE *out, const char *nonce, const char *title, const char *root)
{
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
		out);
	page_text(out, title);
	fprintf(out,
		" - pillion</title>\n<style nonce=\"%s\">\n%s</style>\n</head>\n<body>\n<nav><a href=\"%s\">Targets</a>"
		" &#183; <a href=\"%scrashes/\">Crashes</a></nav>\n<h1>",
		nonce, style, root, root);
	page_text(out, title);
	fputs("</h1>\n", out);
}

void page_end(FILE *out)
{
	fputs("</body>\n</html>\n", out);
}

void page_cell(FILE *out, const char *text, int right)
{
	fputs(right ? "<td class=\"r\">" : "<td>", out);
	page_text(out, text);
	fputs("</td>", out);
}

const char *page_time(int64_t seconds, char between, char buf[static 32])
{
	const time_t t = (time_t)seconds;
	struct tm tm;
	buf[0] = 0;
	if (gmtime_r(&t, &tm))
		strftime(buf, 32, between == 'T' ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	return buf;
}
