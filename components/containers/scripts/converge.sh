# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# Brings the keys, the SSH files and the container of one host to the state on stdin: read, compare,
# change only the difference, read again. stdout: one line of JSON evidence.

record_baseline() { # what was here before our first change
  if [ -e "$store/baseline" ]; then
    recorded=$(sed -n 's/^login=//p' "$store/baseline")
    [ "$recorded" = "$login" ] ||
      fail "the keys of this stack are in the home of $recorded, and the login is $login now:" \
        "take the payload down first (pulumi destroy --target '**$(uname -n)-container')"
    return
  fi
  for file in "$ssh_dir/id_ed25519_host" "$inner_dir" "$ssh_dir/mpicont.sh"; do
    [ ! -e "$file" ] || fail "$file exists and is not of this stack: move it away first"
  done
  mkdir -p "$store" || fail "cannot create $store"
  {
    echo "login=$login"
    echo "ssh_dir=$(mode_of "$ssh_dir")"
    for file in config authorized_keys; do
      if [ -e "$ssh_dir/$file" ]; then
        cp -p "$ssh_dir/$file" "$store/$file.orig"
        echo "$file=present"
      else
        echo "$file=absent"
      fi
    done
  } >"$store/baseline.new" || fail "cannot write $store/baseline.new"
  sync "$store/baseline.new"
  mv "$store/baseline.new" "$store/baseline"
}

verify() {
  rm -f "$work"/text.*
  while IFS= read -r line <&8; do
    now=$(read_key "${line%%=*}")
    [ "$now" = "${line#*=}" ] ||
      fail "${line%%=*} is '$now' after it was set, want '${line#*=}'"
  done 8<"$work/desired"
}

read_input
grep -E '^(key|folder|authorized_keys|mpicont|host_config|container_config|known_hosts|container)\.' \
  "$work/input" >"$work/desired"
find_home
take_lock
[ -s "$store/keys" ] ||
  fail "$store/keys is lost: have new keys made and handed out (pulumi up --replace" \
    "'**payload-keys'), and run pulumi up once more"
read_peers
record_baseline
write_folders
write_keys
write_texts
write_authorized
converge_container
verify
report "$(wc -l <"$work/desired")"
