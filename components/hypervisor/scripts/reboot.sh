# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, action, ... are set by input.sh
# The parts of a reboot that happen on the hypervisor, one a run (`action=`). stdout: what `read` read,
# or a line for each thing that was done. Between the parts the machine that asked waits for the
# boot. A mark on VMFS says what was begun, so that a run that was killed half way is finished by the
# next one, and nobody else's maintenance mode is ended.
#   read     settings, uptime and mark
#   quiesce  mark, shut the machines down in reverse order, enter maintenance mode
#   reboot   ask for the boot
#   resume   leave maintenance mode if we entered it, power the machines on in order
#   forget   take the mark away

refuse_strangers() { # machines that are not of the file are nobody's to shut down here
  awk '$1 ~ /^[0-9]+$/ { print $1, $2 }' "$work/vms" >"$work/inventory"
  while read -r id stranger <&8; do
    case ",$order," in *",$stranger,"*) continue ;; esac
    [ "$(power_of "$id")" != on ] || fail "$stranger runs on this host and is not in the file: move" \
      'it or shut it down; a reboot would end it'
  done 8<"$work/inventory"
}

quiesce() {
  refuse_strangers
  mkdir -p "$state_dir" || fail "cannot create $state_dir"
  if [ ! -e "$mark" ]; then
    printf 'boot=%s\nmaintenance=%s\n' "$boot" "$(cat "$work/maintenance")" >"$work/mark"
    keep "$work/mark" "$mark"
  fi
  reversed=''
  for each in $(split_list "$order"); do reversed="$each $reversed"; done
  for each in $reversed; do
    [ "$(power_of "$(vm_id "$each")")" != off ] || continue
    stop_vm "$each"
    changed="$changed vm.$each.power=off"
    echo "shut down $each"
  done
  if [ "$(cat "$work/maintenance")" = Disabled ]; then
    write_maintenance Enabled
    echo 'entered maintenance mode'
  fi
}

resume() {
  if [ "$(cat "$work/maintenance")" = Enabled ]; then
    [ "$(value_of maintenance "$mark")" = Disabled ] ||
      fail 'this host was in maintenance mode before, so its machines stay off: end that mode when' \
        'the work on it is done, then run again'
    write_maintenance Disabled
    echo 'left maintenance mode'
  fi
  for each in $(split_list "$order"); do
    [ "$(power_of "$(vm_id "$each")")" != on ] || continue
    start_vm "$each"
    echo "powered on $each"
  done
}

take_input
take_lock
look
find_state_dir
mark=$state_dir/reboot
case $action in
  read)
    read_all "$work/desired" "$work/actual"
    cat "$work/actual"
    printf 'uptime_us=%s\n' "$(esxcli system stats uptime get)"
    if [ -e "$mark" ]; then sed 's/^/mark_/' "$mark"; fi
    ;;
  quiesce) quiesce ;;
  reboot) run esxcli system shutdown reboot -d 10 -r "Railyard: settings of $stack that wait for a boot" ;;
  resume) resume ;;
  forget) rm -f "$mark" ;;
  *) fail "stdin: '$action' is no action" ;;
esac
