# shellcheck shell=sh
# What the texts that put files on a host begin with. The text that follows has clean_up.
umask 077
export LC_ALL=C

refuse() { # WORDS... : the last line of stderr, which is shown to the user
  printf '%s\n' "$*" >&2
  exit 1
}

give_up() { # FILE WORDS
  rm -f "$1.new"
  clean_up
  refuse "$2"
}

receive() { # FILE DIGEST WORDS : what comes on stdin is checked before it gets its name
  words=$({ cat >"$1.new" && sync "$1.new"; } 2>&1) || give_up "$1" "${words:-cannot write $1.new}"
  case $(sha256sum <"$1.new") in "$2 "*) ;; *) give_up "$1" "what arrived is not $3" ;; esac
  words=$(mv "$1.new" "$1" 2>&1) || give_up "$1" "${words:-cannot write $1}"
}
