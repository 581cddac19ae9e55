# fish: what `pillion complete` offers, and files
complete -c pillion -a '(set -l words (commandline -opc); pillion complete $words[2..] (commandline -ct) 2>/dev/null)'
