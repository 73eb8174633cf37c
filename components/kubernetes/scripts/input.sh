# shellcheck shell=sh
# shellcheck disable=SC2154 # work is set by linux.sh
# How the verbs of this room read the files that their stdin carries line by line.

lines_of() { # FILE : its text
  grep "^$1\.[0-9]*=" "$work/input" | sort | sed 's/^[^=]*=//'
}
