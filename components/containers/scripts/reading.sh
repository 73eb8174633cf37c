# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# How each setting is read. read_key KEY prints its present value, `absent` where there is none.

read_key() {
  read_value=$(read_one "$1")
  printf '%s\n' "${read_value:-absent}"
}

read_one() {
  case $1 in
    key.stored) if [ -s "$store/keys" ]; then echo yes; else echo absent; fi ;;
    key.*) read_owned_file "$1" ;;
    authorized_keys.*.digest)
      authorized=${1#authorized_keys.}
      read_authorized "${authorized%.digest}" | digest_lines
      ;;
    mpicont.digest) sha256sum "$(place_of "$1")" 2>/dev/null | cut -c 1-16 ;;
    mpicont.mode) mode_of "$(place_of "$1")" ;;
    folder.host) mode_of "$ssh_dir" ;;
    folder.container) mode_of "$inner_dir" ;;
    *.digest) keep_text "$1" && sed 's/^  BindAddress .*/  BindAddress @own@/' "$work/text.${1%%.*}" | digest_lines ;;
    *.bind) keep_text "$1" && sed -n 's/^  BindAddress //p' "$work/text.${1%%.*}" | sort -u | paste -s -d ' ' - ;;
    container.*) read_container "${1#container.}" ;;
  esac
}

digest_lines() { # of stdin; nothing of nothing
  cat >"$work/lines"
  [ ! -s "$work/lines" ] || sha256sum <"$work/lines" | cut -c 1-16
}

mode_of() { # FILE
  stat -c '%a %U' "$1" 2>/dev/null
}

read_owned_file() { # KEY : mode and owner of a key file that holds what the store holds
  key_file=$(place_of "$1")
  [ -e "$key_file" ] || return
  stored_key "$1" >"$work/stored"
  if cmp -s "$work/stored" "$key_file"; then mode_of "$key_file"; else echo 'another key'; fi
}

read_authorized() { # host|container : the options of our line with that key
  blob=$(stored "$1.public" | cut -d ' ' -f 2)
  [ -n "$blob" ] || return
  block_of "$ssh_dir/authorized_keys" | awk -v blob="$blob" '$3 == blob { print $1 }'
}

keep_text() { # KEY : read once until something is written
  [ -e "$work/text.${1%%.*}" ] || text_of "$1" >"$work/text.${1%%.*}"
}

text_of() { # KEY : the lines of a text that we write
  case $1 in
    host_config.*) block_of "$(place_of "$1")" ;;
    known_hosts.*) # the same twice: for the hosts, and for the containers
      if cmp -s "$ssh_dir/known_hosts_railyard" "$inner_dir/known_hosts"; then
        cat "$inner_dir/known_hosts"
      fi
      ;;
    *) cat "$(place_of "$1")" 2>/dev/null ;;
  esac
}

ask_docker() { # COMMAND... : what it answers; nothing where the object is not there
  if asked=$("$@" 2>/dev/null); then printf '%s\n' "$asked"; else return 1; fi
}

inspect() { # FORMAT
  ask_docker docker inspect --type container --format "$1" "$name"
}

image_id() { # IMAGE
  ask_docker docker image inspect --format '{{.Id}}' "$1"
}

label_of_image() { # IMAGE
  ask_docker docker image inspect --format '{{index .Config.Labels "railyard.build"}}' "$1"
}

read_container() {
  case $1 in
    state) inspect '{{.State.Status}}' ;;
    flags) inspect '{{index .Config.Labels "railyard.flags"}}' ;;
    build) label_of_image "$(inspect '{{.Image}}')" ;;
    image)
      container_image=$(inspect '{{.Config.Image}}') || return
      if [ "$(inspect '{{.Image}}')" = "$(image_id "$container_image")" ]; then
        echo "$container_image"
      else
        echo "an older $container_image"
      fi
      ;;
  esac
}
