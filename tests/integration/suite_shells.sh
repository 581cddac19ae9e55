# suite_shells - what bash, zsh and fish offer behind `pillion`, each by its own way to be asked.

lab_install pillion
COMPLETION=$TOP/profiler/cli/completion

offers() { # SHELL WORD... - ./offered
	local shell=$1
	shift
	need "$shell"
	PATH=$LAB/bin:$PATH "offers_$shell" "$@" >offered 2>&1 || fail "$shell: $(cat offered)"
}
offers_bash() {
	bash --norc -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _pillion; printf "%s\n" "${COMPREPLY[@]}"' "$COMPLETION/pillion.bash" "$@"
}
offers_zsh() { # with what compsys would call in its place
	zsh -f -c '_describe() { print -l -- $offered }; _files() { print files }
		complete_it() { local -a words=("$@") CURRENT=$#; source $FILE; }; FILE=$1; shift; CURRENT=$#; words=("$@"); f() { source $FILE }; f' zsh "$COMPLETION/_pillion" "$@"
}
offers_fish() {
	HOME=$PWD fish --no-config -c 'source $argv[1]; complete -C "$argv[2]"' "$COMPLETION/pillion.fish" "$*"
}

test_shell() { # SHELL
	offers "$1" pillion to
	has "commands" "$(cat offered)" '^top'
	offers "$1" pillion top --
	has "options" "$(cat offered)" '--type'
	is "other commands' options" "$(grep -c -- --svg offered)" 0
	offers "$1" pillion run --window
	has "settings" "$(cat offered)" '^--window'
	offers "$1" pillion run --events cpu,offc
	has "events" "$(cat offered)" '^cpu,offcpu'
	offers "$1" pillion flame --type inuse
	has "sample types" "$(cat offered)" '^inuse_space'
	touch window.pb.gz
	offers "$1" pillion top window
	[[ $1 == bash ]] || has "files" "$(cat offered)" 'window|files' # bash's own default, which is not asked here
}
for shell in bash zsh fish; do row "$shell" test_shell "$shell"; done

test_every_option() { # each that a command takes is offered
	local command option
	for command in $("$LAB/bin/pillion" complete "" | cut -f1); do
		[[ $command != run && $command != attach ]] || continue
		"$LAB/bin/pillion" help "$command" | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+' >wanted || continue
		while read -r option; do
			has "$command" "$("$LAB/bin/pillion" complete "$command" "$option")" "^$option"
		done <wanted
	done
	is "nothing behind --" "$("$LAB/bin/pillion" complete run -- x --)" ""
	is "no such command" "$("$LAB/bin/pillion" complete nobody --)" ""
}
row "every option of every command" test_every_option
