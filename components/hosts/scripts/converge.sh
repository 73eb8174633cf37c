# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, changed, ... are set by input.sh
# Brings one host to the state on stdin: read, compare, change only the difference, read again.
# Safe to run twice and after half a run. stdout: one line of JSON evidence.
# shellcheck source=/dev/null
. ./input.sh
# shellcheck source=/dev/null
. ./reading.sh
# shellcheck source=/dev/null
. ./firmware.sh
# shellcheck source=/dev/null
. ./docker.sh
# shellcheck source=/dev/null
. ./writing.sh

read_all() { # FILE OUTPUT : the keys of FILE with the values of now
  rm -f "$work"/qos.* "$work"/firmware.*
  while IFS= read -r line; do
    printf '%s=%s\n' "${line%%=*}" "$(read_key "${line%%=*}")"
  done <"$1" >"$2"
}

refuse_early() { # what must not be recorded as a previous value, since it has to go first
  grep -E '^nic\.[^=]*\.address=' "$work/desired" >"$work/addresses"
  while IFS= read -r line; do
    key=${line%%=*}
    ! value_of "$key" "$state_dir/baseline" >/dev/null 2>&1 || continue
    split_nic "$key"
    refuse_address "$pci" "$(first_in "/sys/bus/pci/devices/$pci/net")" "${line#*=}" \
      "$(value_of "$key" "$work/actual")"
  done <"$work/addresses"
}

record_baseline() { # what was here before our first change, once per key
  new_keys=0
  if [ -e "$state_dir/baseline" ]; then cp "$state_dir/baseline" "$work/baseline"; else : >"$work/baseline"; fi
  while IFS= read -r line; do
    value_of "${line%%=*}" "$work/baseline" >/dev/null && continue
    printf '%s\n' "$line" >>"$work/baseline"
    new_keys=$((new_keys + 1))
  done <"$work/actual"
  [ "$new_keys" -gt 0 ] || return 0
  mkdir -p "$state_dir" || fail "cannot create $state_dir"
  if [ ! -e "$state_dir/hosts.orig" ] && [ -e /etc/hosts ] && [ -z "$(block_lines)" ]; then
    cp /etc/hosts "$state_dir/hosts.orig"
  fi
  sort "$work/baseline" >"$state_dir/baseline.new" || fail "cannot write $state_dir/baseline.new"
  sync "$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
  sync "$state_dir"
}

apply() { # KEY VALUE : re-read first, since an earlier change may have settled it
  [ "$(read_key "$1")" != "$2" ] || return 0
  write_key "$1" "$2"
  changed="$changed $1"
}

apply_all() {
  ranked "$work/desired" >"$work/ordered"
  while IFS= read -r line <&8; do
    apply "${line%%=*}" "${line#*=}"
  done 8<"$work/ordered"
}

release_dropped() { # settings that the plan no longer owns go back to what they were
  while IFS= read -r line; do
    value_of "${line%%=*}" "$work/desired" >/dev/null || printf '%s\n' "$line"
  done <"$state_dir/baseline" >"$work/dropped"
  [ -s "$work/dropped" ] || return 0
  ranked "$work/dropped" -r >"$work/ordered"
  while IFS= read -r line <&8; do
    ! kept "${line%%=*}" "${line#*=}" || continue
    apply "${line%%=*}" "${line#*=}"
  done 8<"$work/ordered"
  grep -v -x -F -f "$work/dropped" "$state_dir/baseline" >"$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
}

verify() {
  read_all "$work/desired" "$work/actual"
  while IFS= read -r line; do
    key=${line%%=*}
    value=$(value_of "$key" "$work/actual")
    [ "$value" = "${line#*=}" ] || case $key:$reboot_required in
      driver.*:true) ;; # the new driver answers after the reboot
      *) fail "$key is '$value' after it was set, want '${line#*=}'" ;;
    esac
  done <"$work/desired"
}

restart_changed_units() { # a running K3s takes a new limit only at its start
  for unit in $restart_units; do
    ! systemctl is-active --quiet "$unit.service" || run systemctl restart "$unit.service"
  done
}

report_firmware() { # the cards whose firmware is ours to set, with its version
  sed -n 's/^nic\.\([^=]*\)\.ats=.*/\1/p' "$work/desired" >"$work/cards"
  [ -s "$work/cards" ] || return 0
  versions=''
  while IFS= read -r pci; do
    versions="$versions${versions:+,}\"$pci\":\"$(firmware_version "$pci")\""
  done <"$work/cards"
  printf ',"firmware":{%s},"firmware_needs":"%s"' "$versions" "${firmware_needs:-nothing}"
}

report() {
  total=$(wc -l <"$work/desired")
  list=''
  count=0
  for key in $changed; do
    list="$list${list:+,}\"$key\""
    ! value_of "$key" "$work/desired" >/dev/null || count=$((count + 1))
  done
  printf '{"changed":[%s],"unchanged":%d,"reboot_required":%s%s}\n' \
    "$list" "$((total - count))" "$reboot_required" "$(report_firmware)"
}

cat >"$work/input"
load_input "$work/input"
[ -n "$stack" ] || fail 'stdin has no stack= line'
state_dir=/var/lib/railyard/$stack
take_lock
read_all "$work/desired" "$work/actual"
refuse_early
record_baseline
apply_all
release_dropped
[ "$reload_units" = no ] || run systemctl daemon-reload
restart_changed_units
apply_docker_config
verify
report
