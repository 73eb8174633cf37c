# shellcheck shell=sh
# shellcheck disable=SC2154 # what sends this text sets tools, step and action before it
# Looks for tools in their folder, puts one there, or takes them away. POSIX sh and ash, as root.
#   settle DIGEST...  marks those that are whole, names those that are not, removes what no step needs
#   put DIGEST        writes the tool on stdin: checked before it gets its name
#   remove            takes the marks of the sending step away, and every tool without a mark
# stdout: `lacks DIGEST` lines.
umask 077
export LC_ALL=C

refuse() { # WORDS... : the last line of stderr, which is shown to the user
  printf '%s\n' "$*" >&2
  exit 1
}

is_whole() { # DIGEST : hashed as it would be read to be run
  [ -f "$tools/$1/tool" ] || return 1
  whole=$(cat "$tools/$1/tool" 2>/dev/null)
  case $(printf '%s\n' "$whole" | sha256sum) in "$1 "*) ;; *) return 1 ;; esac
}

is_needed() { # FOLDER
  for needed in "$1"/needed-by.*; do
    [ ! -e "$needed" ] || return 0
  done
  return 1
}

sweep() { # DIGEST... : those that stay
  for folder in "$tools"/*; do
    [ -d "$folder" ] || continue
    case " $* " in *" ${folder##*/} "*) continue ;; esac
    rm -f "$folder/needed-by.$step"
    is_needed "$folder" || rm -rf "$folder"
  done
}

follow_name() { # the device had another name when these were put here: the marks of its steps follow
  for sending in "$tools"/*/needed-by.*-tools; do
    former=${sending##*/needed-by.}
    [ -e "$sending" ] && [ "$former" != "$step" ] || continue
    for mark in "$tools"/*/needed-by."${former%-tools}"-*; do
      [ ! -e "$mark" ] || mv "$mark" "${mark%/*}/needed-by.${step%-tools}${mark##*/needed-by."${former%-tools}"}"
    done
  done
}

settle() {
  complete=yes
  follow_name
  for each in "$@"; do
    if is_whole "$each"; then
      words=$({ : >"$tools/$each/needed-by.$step"; } 2>&1) || refuse "${words:-cannot write in $tools/$each}"
    else
      echo "lacks $each"
      complete=no
    fi
  done
  [ "$complete" = no ] || sweep "$@"
}

clean_up() {
  rm -f "$tools/$1/tool.new"
  rmdir "$tools/$1" "$tools" "${tools%/*}" 2>/dev/null
}

put() { # DIGEST
  words=$(mkdir -p "$tools/$1" 2>&1) || refuse "${words:-cannot make $tools/$1}"
  for each in "$tools" "$tools/$1"; do
    # shellcheck disable=SC3067 # bash, dash and busybox have it
    [ -O "$each" ] || refuse "$each is not root's"
  done
  [ ! -d "$tools/$1/tool" ] || refuse "$tools/$1/tool is a folder"
  words=$({ chmod 700 "$tools" "$tools/$1" && cat >"$tools/$1/tool.new" && sync "$tools/$1/tool.new"; } 2>&1) || {
    clean_up "$1"
    refuse "${words:-cannot write $tools/$1/tool.new}"
  }
  case $(sha256sum <"$tools/$1/tool.new") in "$1 "*) ;; *)
    clean_up "$1"
    refuse "what arrived is not the tool $1"
    ;;
  esac
  words=$(mv "$tools/$1/tool.new" "$tools/$1/tool" 2>&1) || {
    clean_up "$1"
    refuse "${words:-cannot write $tools/$1/tool}"
  }
}

remove() { # on ESXi $tools is a pattern: whichever datastore has them
  for tools in $tools; do
    [ ! -d "$tools" ] || sweep
    rmdir "$tools" "${tools%/*}" 2>/dev/null
  done
  return 0
}

"$action" "$@"
