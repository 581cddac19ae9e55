# judged.sh - for the suites of what is pushed, which source it: requests as their receivers see them, by decoders that are not ours.

PUSHED=$TOP/build/npm/pushed

push_modules() {
	need node npm
	(flock 9 && "$TOP/tests/tools/npm" "$PUSHED" protobufjs@8.8.1 pprof-format@2.3.2) 9>"$LAB/npm.lock" || skip "npm has no protobufjs or pprof-format for us"
}
judged() { # FORM DIR [BYTES [SAMPLES]] - what a receiver makes of them, in the file `judged`
	local judge=pyroscope
	[[ $1 != otlp ]] || judge=otlp
	"$TOP/tests/tools/$judge.mjs" "$PUSHED" "${@:2}" >judged || { cat judged && fail "$1: against the rules"; }
	cat judged
}
spool_sums() { # FORM FILE - as the receiver calls types; one that is 0 is not in OTLP
	{ "$TOP/tests/tools/pprof.mjs" "$PUSHED" "$2" 2>/dev/null || :; } | tr - _ | if [[ $1 == otlp ]]; then sed 's/^offcpu /off_cpu /; / 0$/d'; else cat; fi | sort
}
judged_sums() { sed -n 's/^sum //p' judged | sort; }
