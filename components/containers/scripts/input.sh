# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the plan sets stack, login and name; other parts use the rest
# What the scripts of the room share. The plan puts three lines before it: stack= names the folder
# of the records, login= the user whose ~/.ssh is set up, name= the container. POSIX sh, as root;
# beside coreutils it uses awk, sed and the docker client, and what linux.sh does.
begin_work

store=/var/lib/railyard/$stack/payload

read_input() {
  cat >"$work/input"
  [ "$(wanted stack)" = "$stack" ] || fail "stdin is of the stack '$(wanted stack)', not of $stack"
}

report() { # COUNT : of all settings
  for key in $changed; do set -- $(($1 - 1)); done
  print_changed ",\"unchanged\":$1,\"reboot_required\":false"
}

find_home() {
  home=$(getent passwd "$login" | cut -d : -f 6)
  [ -d "${home:-/nowhere}" ] || fail "$login has no home folder on this host"
  ssh_dir=$home/.ssh
  inner_dir=$ssh_dir/ssh_container
}

place_of() { # KEY : the file that a key's setting is about
  case $1 in
    key.host) echo "$ssh_dir/id_ed25519_host" ;;
    key.host_public) echo "$ssh_dir/id_ed25519_host.pub" ;;
    key.container) echo "$inner_dir/id_ed25519_cont" ;;
    key.container_public) echo "$inner_dir/id_ed25519_cont.pub" ;;
    mpicont.*) echo "$ssh_dir/mpicont.sh" ;;
    host_config.*) echo "$ssh_dir/config" ;;
    container_config.*) echo "$inner_dir/config" ;;
    known_hosts.*) echo "$inner_dir/known_hosts" ;;
  esac
}

stored() { # host.private, host.public, ... : the text that the key store holds
  sed -n "s/^$1=//p" "$store/keys" 2>/dev/null | base64 -d 2>/dev/null
}

stored_key() { # key.host, key.host_public, ...
  case $1 in
    *_public) stored_name=${1#key.} && stored "${stored_name%_public}.public" ;;
    *) stored "${1#key.}.private" ;;
  esac
}

block_begin() { printf '# railyard %s: begin, do not edit\n' "$stack"; }
block_end() { printf '# railyard %s: end\n' "$stack"; }

block_of() { # FILE : our part of a file that others write too
  sed -n "/^$(block_begin)\$/,/^$(block_end)\$/p" "$1" 2>/dev/null | sed '1d;$d'
}

rest_of() { # FILE : all but our part
  # Without its end our part would reach to the end of the file, and all of that would be lost.
  [ "$(grep -c "^$(block_begin)\$" "$1")" = "$(grep -c "^$(block_end)\$" "$1")" ] ||
    fail "the part of $1 between '$(block_begin)' and '$(block_end)' lost one of these two lines;" \
      'put it back or delete the part, then run again'
  sed "/^$(block_begin)\$/,/^$(block_end)\$/d" "$1"
}
