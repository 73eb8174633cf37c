# shellcheck shell=sh
# shellcheck disable=SC2154 # what sends this text sets files and action before it
# Looks for files that were sent, puts one there, or takes them away. POSIX sh, as root.
#   settle DIGEST/NAME...  names those that are missing or altered, and removes all others
#   put DIGEST/NAME        writes the file on stdin: checked before it gets its name
#   remove                 takes all of them away
# stdout: `lacks DIGEST` lines. Follows receive.sh.

settle() {
  for folder in "$files"/*; do
    [ -e "$folder" ] || continue
    case " $* " in *" ${folder##*/}/"*) ;; *) rm -rf "$folder" ;; esac
  done
  for each in "$@"; do
    case $(sha256sum "$files/$each" 2>/dev/null) in "${each%%/*} "*) ;; *) echo "lacks ${each%%/*}" ;; esac
  done
}

clean_up() { :; }

put() { # DIGEST/NAME
  words=$(mkdir -p "$files/${1%%/*}" 2>&1) || refuse "${words:-cannot make $files}"
  # shellcheck disable=SC3067 # bash, dash and busybox have it
  [ -O "$files" ] || refuse "$files is not root's"
  receive "$files/$1" "${1%%/*}" "${1#*/}"
}

remove() {
  rm -rf "$files"
  rmdir "${files%/*}" 2>/dev/null
  return 0
}

"$action" "$@"
