# shellcheck shell=sh
# shellcheck disable=SC2154 # what sends this text sets tools, step and action before it
# Looks for tools in their folder, puts one there, or takes them away. POSIX sh and ash, as root.
#   settle DIGEST...  marks those that are whole, names those that are not, removes what no step needs
#   put DIGEST        writes the tool on stdin: checked before it gets its name
#   remove            takes the marks of the sending step away, and every tool without a mark
# stdout: `lacks DIGEST` lines. Follows marks.sh and receive.sh.

is_whole() { # DIGEST : hashed as it would be read to be run
  [ -f "$tools/$1/tool" ] || return 1
  whole=$(cat "$tools/$1/tool" 2>/dev/null)
  case $(printf '%s\n' "$whole" | sha256sum) in "$1 "*) ;; *) return 1 ;; esac
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
  [ "$complete" = no ] || forget_tools "$step" "$@"
}

clean_up() { rmdir "$folder" "$tools" "${tools%/*}" 2>/dev/null; }

put() { # DIGEST
  folder=$tools/$1
  words=$(mkdir -p "$folder" 2>&1) || refuse "${words:-cannot make $folder}"
  for each in "$tools" "$folder"; do
    # shellcheck disable=SC3067 # bash, dash and busybox have it
    [ -O "$each" ] || refuse "$each is not root's"
  done
  [ ! -d "$folder/tool" ] || refuse "$folder/tool is a folder"
  words=$(chmod 700 "$tools" "$folder" 2>&1) || give_up "$folder/tool" "$words"
  receive "$folder/tool" "$1" "the tool $1"
}

remove() { # on ESXi $tools is a pattern: whichever datastore has them
  for tools in $tools; do
    [ ! -d "$tools" ] || forget_tools "$step"
    rmdir "$tools" "${tools%/*}" 2>/dev/null
  done
  return 0
}

"$action" "$@"
