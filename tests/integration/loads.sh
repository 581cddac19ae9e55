# loads.sh - real services in a container, and what loads them from outside. Sourced behind runtimes.sh and lib.sh.
#
#	LOAD_need		skip the row where it cannot run
#	LOAD_start NAME EVENTS	in a container; returns when it serves; its data is in $ROW/NAME
#	LOAD_load NAME SECONDS	prints what it served, a second
# LOAD is postgres (TPC-B of pgbench with four clients that all want the one row of a branch) or redis (set and get of
# fifty clients).

as_postgres() { setpriv --reuid postgres --regid postgres --init-groups -- "$@"; }
postgres_bin() { find /usr/lib/postgresql/*/bin -name postgres -printf '%h\n' 2>/dev/null | tail -n 1; }

postgres_need() {
	need jq runc pgbench
	[[ -n $(postgres_bin) ]] || skip "postgres is not installed"
}
postgres_start() {
	local bin dir=$ROW/$1
	bin=$(postgres_bin)
	chmod 755 "$LAB" "$ROW"
	install -d -o postgres -g postgres -m 700 "$dir"
	as_postgres "$bin/initdb" -D "$dir" >"$ROW/initdb" 2>&1 || fail "$(cat "$ROW/initdb")"
	ct_start runc "$1" -a "io.pillion.profile=$2" -u "$(id -u postgres):$(id -g postgres)" -v "$dir:$dir" -- \
		"$bin/postgres" -D "$dir" -k "$dir" -h '' -c fsync=on -c synchronous_commit=on
	until_true 20 "$bin/pg_isready" -q -h "$dir" || fail "postgres: $(ct_output "$1")"
	as_postgres pgbench -q -i -s 1 -h "$dir" postgres >"$ROW/pgbench" 2>&1 || fail "pgbench: $(cat "$ROW/pgbench")"
}
postgres_load() {
	as_postgres pgbench -T "$2" -c 4 -h "$ROW/$1" postgres >"$ROW/pgbench" 2>&1 || fail "pgbench: $(cat "$ROW/pgbench")"
	sed -n 's/^tps = \([0-9]*\).*/\1/p' "$ROW/pgbench"
}

redis_need() { need jq runc redis-server redis-benchmark; }
redis_start() {
	local dir=$ROW/$1
	chmod 755 "$LAB" "$ROW"
	install -d -o redis -g redis -m 755 "$dir"
	ct_start runc "$1" -a "io.pillion.profile=$2" -u "$(id -u redis):$(id -g redis)" -v "$dir:$dir" -- \
		redis-server --port 0 --unixsocket "$dir/sock" --unixsocketperm 777 --save '' --dir "$dir"
	until_true 20 test -S "$dir/sock" || fail "redis: $(ct_output "$1")"
}
# Some fifty thousand of each a second.
redis_load() {
	redis-benchmark -s "$ROW/$1/sock" --csv -n $(($2 * 25000)) -t set,get >"$ROW/benchmark" 2>&1 ||
		fail "redis-benchmark: $(cat "$ROW/benchmark")"
	awk -F '"' '/^"(SET|GET)"/ { time += 1 / $4; n++ } END { printf "%.0f\n", n / time }' "$ROW/benchmark"
}
