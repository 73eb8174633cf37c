# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # the line that runs a tool sets f; the texts that follow use the rest
# Begins every tool: which verb is asked for, and which step needs this tool. A step that has an undo keeps
# its tool on the host by a mark beside it (keep=<step>) until the undo ran with it (drop=<step>). POSIX sh
# and ash, after marks.sh.
tool=$0
verb=${1:-none}
tools=${f:-/var/lib/railyard/tools/$tool/tool} # f is not set where the text was sent for one run
tools=${tools%"/$tool/tool"}
keep=''
drop=''
[ $# = 0 ] || shift
for word in "$@"; do # written by the plan, never by the host
  case ${word%%=*} in '' | *[!a-z_]*) echo "railyard: bad argument '$word'" >&2 && exit 64 ;; esac
  eval "${word%%=*}=\${word#*=}"
done

# shellcheck disable=SC2154 # words of the call: what curl and apt-get read
[ -z "${no_proxy:-}" ] || export http_proxy https_proxy no_proxy

new_mark=''
mark_tool() { # before the first change: a version that the undo needs must not go meanwhile
  [ -d "$tools/$tool" ] && [ ! -e "$tools/$tool/needed-by.$keep" ] || return 0
  new_mark=$tools/$tool/needed-by.$keep
  : >"$new_mark" || {
    echo "railyard: cannot write $new_mark; nothing was changed" >&2
    exit 1
  }
}

print_changed() { # MORE : one line of JSON evidence
  list=''
  for key in $changed; do list="$list${list:+,}\"$key\""; done
  printf '{"changed":[%s]%s}\n' "$list" "$1"
}

end_tool() { # STATUS : every script that has an EXIT trap of its own calls it there
  if [ "$1" != 0 ]; then # the state does not hold what failed: no undo of it will ever run
    [ -z "$new_mark" ] || rm -f "$new_mark"
    return 0
  fi
  [ -z "$keep" ] || forget_tools "$keep" "$tool"
  [ -z "$drop" ] || forget_tools "$drop"
}
trap 'end_tool $?' EXIT
[ -z "$keep" ] || mark_tool
