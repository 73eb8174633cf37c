# shellcheck shell=sh
# shellcheck disable=SC2154 # what sends this text sets files and action before it
# Looks for files that were sent, puts one there, or takes them away. POSIX sh, as root.
#   settle DIGEST/NAME...  names those that are missing or altered, and removes all others
#   put DIGEST/NAME        writes the file on stdin: checked before it gets its name
#   remove                 takes all of them away
# stdout: `lacks DIGEST` lines.
umask 077
export LC_ALL=C

refuse() { # WORDS... : the last line of stderr, which is shown to the user
  printf '%s\n' "$*" >&2
  exit 1
}

settle() {
  for folder in "$files"/*; do
    [ -e "$folder" ] || continue
    case " $* " in *" ${folder##*/}/"*) ;; *) rm -rf "$folder" ;; esac
  done
  for each in "$@"; do
    case $(sha256sum "$files/$each" 2>/dev/null) in "${each%%/*} "*) ;; *) echo "lacks ${each%%/*}" ;; esac
  done
}

put() { # DIGEST/NAME
  part=$files/${1%%/*}/.part
  words=$(mkdir -p "$files/${1%%/*}" 2>&1) || refuse "${words:-cannot make $files}"
  # shellcheck disable=SC3067 # bash, dash and busybox have it
  [ -O "$files" ] || refuse "$files is not root's"
  words=$({ cat >"$part" && sync "$part"; } 2>&1) || {
    rm -f "$part"
    refuse "${words:-cannot write $part}"
  }
  case $(sha256sum <"$part") in "${1%%/*} "*) ;; *)
    rm -f "$part"
    refuse "what arrived is not ${1#*/}"
    ;;
  esac
  words=$(mv "$part" "$files/$1" 2>&1) || refuse "${words:-cannot write $files/$1}"
}

remove() {
  rm -rf "$files"
  rmdir "${files%/*}" 2>/dev/null
  return 0
}

"$action" "$@"
