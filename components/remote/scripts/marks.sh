# shellcheck shell=sh
# shellcheck disable=SC2154 # the texts around this one set tools
# Which steps need a tool: a mark beside it for each, and a tool without a mark goes. POSIX sh and ash.

forget_tools() { # STEP DIGEST... : its marks go from all tools but these, and tools without a mark go
  forgotten=$1
  shift
  for folder in "$tools"/*; do
    [ -d "$folder" ] || continue
    case " $* " in *" ${folder##*/} "*) continue ;; esac
    rm -f "$folder/needed-by.$forgotten"
    for needed in "$folder"/needed-by.*; do [ ! -e "$needed" ] || continue 2; done
    rm -rf "$folder"
  done
}
