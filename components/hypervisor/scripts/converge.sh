# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, changed, ... are set by input.sh
# Brings one hypervisor to the state on stdin: read, compare, change only the difference, read
# again. Safe to run twice and after half a run. It reboots nothing: what waits for a boot is
# reported, and a step of its own does it. stdout: one line of JSON evidence; `stopped` are the
# machines that were shut down for the edit.

differs() { [ "$(value_of "$1" "$work/actual")" != "$2" ]; } # KEY VALUE

desired_as() { # PATTERN : the wanted lines that match
  grep "$1" "$work/desired" >"$work/part" || :
}

preflight() { # everything that can be refused is refused before the first change
  wanted=$(value_of release "$work/desired")
  actual=$(value_of release "$work/actual")
  [ "$wanted" = "$actual" ] || fail "this host runs ESXi $actual and the file says $wanted: write the" \
    'release that it runs; it decides about atsSupport'
  differs kernel.atsSupport.configured absent ||
    fail "ESXi $actual has no kernel setting atsSupport: it begins with 7.0U2"
  desired_as '^pci\.'
  while IFS= read -r line <&8; do
    split_pci "${line%%=*}"
    pci_present "$pci" || fail "PCI device $pci was not found on this host; it has $(pci_there)"
  done 8<"$work/part"
  for each in $(split_list "$order"); do
    [ -n "$(vm_id "$each")" ] || fail "there is no one virtual machine $each on this host (vim-cmd" \
      'vmsvc/getallvms); write the name that it lists in environment.hypervisors[].vms'
    [ "$(vmx_value "$(vm_file "$each")" firmware)" = efi ] || # without the line it is BIOS
      fail "$each starts by BIOS (its .vmx has no firmware = \"efi\"), which leaves the BAR1 of a" \
        'large GPU without an address: install its system again on EFI; an installed one cannot be switched'
    edits_of "$each"
  done
  [ "$reboots" = allow ] || refuse_disruption
}

refuse_disruption() {
  for each in $(split_list "$order"); do
    [ ! -s "$work/edits.$each" ] || [ "$(power_of "$(vm_id "$each")")" != on ] ||
      fail "$each must be shut down to edit its .vmx, and disruption.reboots is deny; set it to" \
        'allow, or shut it down yourself'
  done
  ! differs kernel.atsSupport.runtime TRUE ||
    fail 'atsSupport takes effect at a reboot, and disruption.reboots is deny; set it to allow'
}

record_baseline() { # what was here before our first change, once per key
  mkdir -p "$state_dir" || fail "cannot create $state_dir"
  : >"$work/baseline"
  [ ! -e "$state_dir/baseline" ] || cat "$state_dir/baseline" >"$work/baseline"
  while IFS= read -r line <&8; do
    case ${line%%=*} in
      kernel.atsSupport.configured | pci.*.passthrough | maintenance | vm.*.power)
        value_of "${line%%=*}" "$work/baseline" >/dev/null || printf '%s\n' "$line" >>"$work/baseline"
        ;;
    esac
  done 8<"$work/actual"
  keep "$work/baseline" "$state_dir/baseline"
  for each in $(split_list "$order"); do
    raw_wanted "$each"
    record_lines "$each"
  done
}

edit_vms() {
  for each in $(split_list "$order") $(dropped_vms); do
    edits_of "$each"
    [ -s "$work/edits.$each" ] || continue
    [ "$(power_of "$(vm_id "$each")")" = off ] || stopped="$stopped${stopped:+,}\"$each\""
    stop_vm "$each"
    rewrite "$vmx" "$work/edits.$each" >"$work/text"
    replace_vmx "$each" "$work/text"
    desired_as "^vm\.$each\."
    while IFS= read -r line <&8; do
      case ${line%%=*} in *.power) continue ;; esac
      ! differs "${line%%=*}" "${line#*=}" || changed="$changed ${line%%=*}"
    done 8<"$work/part"
    forget_lines "$each"
  done
}

dropped_vms() { # machines of an earlier plan
  for recorded in "$state_dir"/*.lines; do
    recorded=${recorded##*/}
    recorded=${recorded%.lines}
    case ",$order," in *",$recorded,"*) ;; *) [ -z "$(vm_id "$recorded")" ] || echo "$recorded" ;; esac
  done
}

forget_lines() { # NAME : records of keys that are back at what they were
  raw_wanted "$1"
  awk -F '\t' -v raw="$work/raw" 'BEGIN { while ((getline line < raw) > 0) {
      split(line, part, "\t"); wanted[part[1]] = 1 } }
    $1 in wanted' "$state_dir/$1.lines" >"$work/lines"
  if [ -s "$work/lines" ]; then
    keep "$work/lines" "$state_dir/$1.lines"
  else
    rm -f "$state_dir/$1.lines" "$state_dir/$1.vmx" "$state_dir/$1.before"
  fi
}

release_dropped() { # settings of the host that the plan no longer owns go back to what they were
  while IFS= read -r line; do
    value_of "${line%%=*}" "$work/desired" >/dev/null || printf '%s\n' "$line"
  done <"$state_dir/baseline" >"$work/dropped"
  while IFS= read -r line <&8; do
    case ${line%%=*} in
      pci.*)
        split_pci "${line%%=*}"
        [ "$(read_pci "$pci" passthrough)" = "${line#*=}" ] || write_passthrough "$pci" "${line#*=}"
        changed="$changed ${line%%=*}"
        ;;
    esac
  done 8<"$work/dropped"
  grep -v -x -F -f "$work/dropped" "$state_dir/baseline" >"$work/baseline" || :
  [ ! -s "$work/dropped" ] || keep "$work/baseline" "$state_dir/baseline"
}

set_host() {
  if differs kernel.atsSupport.configured TRUE; then
    write_kernel TRUE
    changed="$changed kernel.atsSupport.configured"
  fi
  desired_as '^pci\..*\.passthrough='
  while IFS= read -r line <&8; do
    differs "${line%%=*}" true || continue
    split_pci "${line%%=*}"
    write_passthrough "$pci" true
    changed="$changed ${line%%=*}"
  done 8<"$work/part"
}

look_for_pending() { # what only a boot brings
  read_all "$work/desired" "$work/now"
  while IFS= read -r line <&8; do
    case ${line%%=*} in
      *.runtime | *.current_owner)
        [ "$(value_of "${line%%=*}" "$work/now")" = "${line#*=}" ] || reboot_required=true
        ;;
    esac
  done 8<"$work/desired"
}

power_on() { # the reboot step powers on after a boot that is due; before it a device may be missing
  [ "$reboot_required" = false ] || [ "$reboots" = deny ] || return 0
  for each in $(split_list "$order"); do
    [ "$(power_of "$(vm_id "$each")")" != on ] || continue
    start_vm "$each"
    ! differs "vm.$each.power" on || changed="$changed vm.$each.power"
  done
}

verify() {
  read_all "$work/desired" "$work/now"
  while IFS= read -r line <&8; do
    key=${line%%=*}
    value=$(value_of "$key" "$work/now")
    [ "$value" = "${line#*=}" ] || case $key:$reboot_required in
      *.runtime:true | *.current_owner:true | *.power:true) ;; # the reboot step proves them
      *) fail "$key is '$value' after it was set, want '${line#*=}'" ;;
    esac
  done 8<"$work/desired"
}

report() {
  list=''
  count=0
  for key in $changed; do
    list="$list${list:+,}\"$key\""
    ! value_of "$key" "$work/desired" >/dev/null || count=$((count + 1))
  done
  printf '{"changed":[%s],"unchanged":%d,"stopped":[%s],"reboot_required":%s}\n' \
    "$list" "$(($(wc -l <"$work/desired") - count))" "$stopped" "$reboot_required"
}

stopped=''
take_input
take_lock
look
find_state_dir
read_all "$work/desired" "$work/actual"
preflight
while IFS= read -r line <&8; do
  ! differs "${line%%=*}" "${line#*=}" || echo "${line%%=*}" >>"$work/todo"
done 8<"$work/desired"
record_baseline
set_host
edit_vms
release_dropped
if differs maintenance Disabled; then
  write_maintenance Disabled
  changed="$changed maintenance"
fi
look_for_pending
power_on
verify
report
