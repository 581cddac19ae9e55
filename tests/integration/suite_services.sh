# suite_services - services that wait for disks, locks and clients, in containers: where they do is in the profile, by name.

. "$TOP/tests/integration/service.sh"
. "$TOP/tests/integration/loads.sh"
lab_install pillion-opener

span_in() { # cpu|offcpu WHAT LEAST-MS REGEX
	between "ms of $1 $2" "$(($(ns_of "$LOAD" "$1" "$4") / 1000000))" "$3" 1000000
}
test_load() { # LOAD {EVENT WHAT LEAST-MS REGEX}...
	local served
	LOAD=$1
	shift
	need_root
	"${LOAD}_need"
	begin_service
	"${LOAD}_start" "$LOAD" cpu,offcpu:min=0
	served=$("${LOAD}_load" "$LOAD" 4)
	between "$LOAD served a second" "${served:-nothing}" 10 10000000
	sleep 1 # for clients, of whom there are none
	ct_stop "$LOAD"
	until_true 15 lists 0 || fail "$LOAD is $(of "$LOAD" .state)"
	ct_rm "$LOAD"
	end_service
	while (($#)); do
		span_in "$1" "$2" "$3" "$4"
		shift 4
	done
}
row "postgres under pgbench: in queries, for the disk, for locks, for clients" test_load postgres \
	cpu 'in queries' 200 ';PostgresMain;' \
	offcpu 'for the log on its disk' 100 ';XLogFlush;.*;f(data)?sync;' \
	offcpu 'for a lock of another'"'"'s' 500 ';ProcSleep;.*;epoll_wait;.*do_epoll_wait;' \
	offcpu 'for a client' 100 ';PostgresMain;.*;secure_read;.*epoll_wait;.*do_epoll_wait;'
row "redis under redis-benchmark: on commands, for clients, in threads that have nothing to do" test_load redis \
	offcpu 'in its threads' 2000 ';pthread_cond_(timed)?wait;' \
	cpu 'on commands' 200 ';aeMain;' \
	offcpu 'for clients' 500 ';aeMain;.*epoll_wait;.*do_epoll_wait;'
