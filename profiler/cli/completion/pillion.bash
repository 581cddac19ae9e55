# bash: what `pillion complete` offers, else files
_pillion() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("${line%%$'\t'*}")
	done < <(pillion complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	[[ ${COMP_WORDS[COMP_CWORD - 1]} != --events ]] || compopt -o nospace
}
complete -o default -F _pillion pillion
