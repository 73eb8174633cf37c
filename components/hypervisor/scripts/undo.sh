# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, changed, ... are set by input.sh
# Puts every setting that we own back to the value recorded before our first change, and forgets
# the record. What only a boot changes is put back for the next boot and listed as left.
# stdin: the state that was applied.

recorded() { value_of "$1" "$state_dir/baseline"; } # KEY

restore_vm() { # NAME : byte for byte, unless somebody else changed other lines
  vmx=$(vm_file "$1")
  differing_lines "$vmx" "$state_dir/$1.lines" >"$work/edits"
  if [ -s "$work/edits" ]; then
    rewrite "$vmx" "$work/edits" >"$work/text"
  else
    cat "$vmx" >"$work/text"
  fi
  if [ "$(sort "$work/text")" = "$(sort "$state_dir/$1.vmx")" ]; then
    cat "$state_dir/$1.vmx" >"$work/text"
  fi
  [ "$(sum_of "$work/text")" != "$(sum_of "$vmx")" ] || return 0
  stop_vm "$1"
  replace_vmx "$1" "$work/text"
  changed="$changed vm.$1.vmx"
}

sum_of() { md5sum "$1" | cut -d ' ' -f 1; }

restore_vms() {
  for lines in "$state_dir"/*.lines; do
    [ -e "$lines" ] || continue
    each=${lines##*/}
    each=${each%.lines}
    [ -n "$(vm_id "$each")" ] || continue # it was taken out of the inventory
    [ "$(recorded "vm.$each.power")" != off ] || stop_vm "$each"
    restore_vm "$each"
  done
}

restore_host() {
  was=$(recorded kernel.atsSupport.configured) || was=''
  case $was in
    TRUE | FALSE)
      if [ "$(read_key kernel.atsSupport.configured)" != "$was" ]; then
        write_kernel "$was"
        changed="$changed kernel.atsSupport.configured"
      fi
      ;;
  esac
  grep '^pci\.' "$state_dir/baseline" >"$work/part" || :
  while IFS= read -r line <&8; do
    split_pci "${line%%=*}"
    [ "$(read_pci "$pci" passthrough)" != "${line#*=}" ] || continue
    write_passthrough "$pci" "${line#*=}"
    changed="$changed ${line%%=*}"
  done 8<"$work/part"
}

restore_power() {
  was=$(recorded maintenance) || was=Disabled
  for each in $(split_list "$order"); do
    [ "$(recorded "vm.$each.power")" = on ] && [ -n "$(vm_id "$each")" ] || continue
    [ "$(read_key maintenance)" = Disabled ] || { write_maintenance Disabled && look; }
    start_vm "$each"
  done
  if [ "$(read_key maintenance)" != "$was" ]; then
    write_maintenance "$was"
    changed="$changed maintenance"
  fi
}

list_left() { # differences that the next boot takes away
  look
  [ "$(read_key kernel.atsSupport.configured)" = "$(read_key kernel.atsSupport.runtime)" ] ||
    left="$left${left:+,}\"kernel.atsSupport.runtime\""
  while IFS= read -r line <&8; do
    split_pci "${line%%=*}"
    [ "$(pci_field "$pci" 'Configured Owner')" = "$(pci_field "$pci" 'Current Owner')" ] ||
      left="$left${left:+,}\"pci.$pci.current_owner\""
  done 8<"$work/part"
}

take_input
take_lock
look
find_record
if [ ! -e "$state_dir/baseline" ]; then
  printf '{"changed":[],"left":[],"note":"no baseline: nothing was changed here, or it is undone"}\n'
  exit 0
fi
left=''
restore_vms
look
restore_host
look
restore_power
list_left
rm -f "$state_dir"/*.lines "$state_dir"/*.vmx "$state_dir"/*.before "$state_dir/reboot" \
  "$state_dir/baseline"
rmdir "$state_dir" "${state_dir%/*}" 2>/dev/null
print_changed ",\"left\":[$left]"
