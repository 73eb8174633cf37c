# shellcheck shell=sh
# shellcheck disable=SC2154 # work is set by linux.sh
# What the verbs of this room share.

lines_of() { # FILE : its text, which stdin carries line by line
  grep "^$1\.[0-9]*=" "$work/input" | sort | sed 's/^[^=]*=//'
}

enable_unit() { # UNIT
  [ "$(systemctl is-enabled "$1" 2>/dev/null)" != enabled ] || return 0
  run systemctl enable "$1"
  changed="$changed enabled"
}

print_file() { # FILE WORDS : why it may not be there
  [ -r "$1" ] || {
    echo "railyard: $1 does not exist: $2" >&2
    exit 1
  }
  cat "$1"
}
