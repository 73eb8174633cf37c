# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, ... are set by input.sh, id and vmx by the readings
# How a hypervisor and its virtual machines are changed. Every function changes one thing, or ends
# the run with the reason.

tab=$(printf '\t')

write_kernel() { # TRUE|FALSE : takes effect at the next boot
  run esxcli system settings kernel set -s atsSupport -v "$1"
}

write_passthrough() { # SBDF true|false : exit status 1 also means that it is so already
  passthrough_output=$(esxcli hardware pci pcipassthru set -d "$1" -e "$2" -a 2>&1) && return
  case $passthrough_output in
    *'already configured to'*) ;;
    *'used by vswitch'*)
      fail "$1 is an uplink of a virtual switch, so it cannot be passed through:" \
        "$passthrough_output. Remove the uplink first; the management network needs another card"
      ;;
    *) fail "passthrough of $1 cannot become $2: $passthrough_output" ;;
  esac
}

write_maintenance() { # Enabled|Disabled
  case $1 in
    Enabled) run esxcli system maintenanceMode set -e true -t 0 ;;
    *) run esxcli system maintenanceMode set -e false -t 0 ;;
  esac
}

wait_power() { # ID STATE SECONDS
  power_s=0
  until [ "$(power_of "$1")" = "$2" ]; do
    [ "$power_s" -lt "$3" ] || return 1
    sleep 1
    power_s=$((power_s + 1))
  done
}

stop_vm() { # NAME : through the guest's VMware Tools; hard only where the file says so
  id=$(vm_id "$1")
  state=$(power_of "$id")
  [ "$state" != off ] || return 0
  [ "$state" = on ] || fail "$1 is $state: resume it and shut it down, then run again"
  [ "$reboots" = allow ] || fail "$1 is running and must be shut down for this, and" \
    'disruption.reboots is deny; set it to allow, or shut it down yourself'
  if stop_output=$(vim-cmd vmsvc/power.shutdown "$id" 2>&1); then
    wait_power "$id" off "$shutdown_s" && return
    stop_output="nothing happened for $shutdown_s s"
  fi
  [ "$power_off" = hard ] || fail "$1 did not shut down: ${stop_output:-no output}. See its console and" \
    'its VMware Tools, or set power_off: hard of this hypervisor to cut the power'
  run vim-cmd vmsvc/power.off "$id"
  wait_power "$id" off 60 || fail "$1 is still $(power_of "$id") 60 s after power.off"
}

start_vm() { # NAME
  id=$(vm_id "$1")
  [ "$(power_of "$id")" != on ] || return 0
  if start_output=$(vim-cmd vmsvc/power.on "$id" 2>&1); then
    wait_power "$id" on 60 && return
  fi
  case $start_output in
    *'memory reservation'*) fail "$1 does not power on: $start_output. Write its memory in memory_mib" ;;
    *DevicePowerOn*)
      fail "$1 does not power on: $start_output. Its 64-bit window is missing or too small (mmio_gib)," \
        'or the BIOS of this host lacks "MMIO above 4 GB"'
      ;;
    *) fail "$1 does not power on: ${start_output:-no output}" ;;
  esac
}

raw_wanted() { # NAME : "<key of the .vmx><tab><value>" of all that is wanted of one machine
  vmx=$(vm_file "$1")
  grep "^vm\.$1\." "$work/desired" >"$work/own" || :
  : >"$work/raw"
  while IFS= read -r line <&6; do
    split_vm "${line%%=*}"
    value=${line#*=}
    case $setting in
      vmx.*) printf '%s\t%s\n' "${setting#vmx.}" "$value" >>"$work/raw" ;;
      gpu_pci_id)
        index=$(passthrough_index "$vmx" "$value")
        [ -n "$index" ] || refuse_gpu "$vm" "$value"
        printf 'pciPassthru%s.cfg.gpu-pci-id\t%s\n' "$index" "$value" >>"$work/raw"
        ;;
      numa_node)
        common_node "$value"
        printf 'numa.nodeAffinity\t%s\n' "$node" >>"$work/raw"
        ;;
    esac
  done 6<"$work/own"
}

refuse_gpu() { # NAME SBDF : how to give the machine this device
  dynamic_entries "$vmx" >"$work/dynamic"
  ! grep -q -i -w "$(kind_of "$2")" "$work/dynamic" ||
    fail "$1 has $2 as Dynamic DirectPath IO, if at all: its .vmx allows $(cut -d ' ' -f 2- "$work/dynamic" |
      paste_list) and this host has $(count_kind "$(kind_of "$2")") of $(kind_of "$2"), so only the next" \
      'power-on tells which one it gets. Remove that PCI device in the vSphere client, and add it again' \
      "with the choice DirectPath IO and the address $2"
  fail "$1 has no passthrough device $2: its .vmx has" \
    "$(sed -n -e 's/^pciPassthru[0-9]*\.id *= *//p' -e 's/^pciPassthru[0-9]*\.allowedDevices *= *//p' \
      "$vmx" | paste_list); add the PCI device to the machine in the vSphere client" \
    '(choice DirectPath IO), or correct vms[].gpu'
}

paste_list() { # lines to one line
  awk '{ list = list (NR > 1 ? ", " : "") $0 } END { print(list == "" ? "none" : list) }'
}

edits_of() { # NAME : "<key><tab><line>" for each key that must change; an empty line takes it out
  raw_wanted "$1"
  : >"$work/edits.$1"
  while IFS=$tab read -r key value <&6; do
    [ "$(vmx_value "$vmx" "$key")" = "$value" ] ||
      printf '%s\t%s = "%s"\n' "$key" "$key" "$value" >>"$work/edits.$1"
  done 6<"$work/raw"
  dropped_edits "$1"
}

dropped_edits() { # NAME : keys that are no longer ours get their recorded lines back
  [ -e "$state_dir/$1.lines" ] || return 0
  awk -F '\t' -v raw="$work/raw" 'BEGIN { while ((getline line < raw) > 0) {
      split(line, part, "\t"); wanted[part[1]] = 1 } }
    !($1 in wanted)' "$state_dir/$1.lines" >"$work/dropped"
  differing_lines "$vmx" "$work/dropped" >>"$work/edits.$1"
}

lines_of() { # FILE KEY : "<key><tab><line>" for each line of the key, in any letters; else an empty one
  awk -v key="$2" '{ at = index($0, "="); name = at ? substr($0, 1, at - 1) : ""
      gsub(/^[ \t]+|[ \t]+$/, "", name)
      if (tolower(name) == tolower(key)) { print key "\t" $0; found = 1 } }
    END { if (!found) print key "\t" }' "$1"
}

differing_lines() { # VMX LINES : of the recorded lines, those of keys that read otherwise now
  cut -f 1 "$2" | sort -u >"$work/keys"
  while IFS= read -r key <&5; do
    awk -F '\t' -v key="$key" '$1 == key' "$2" >"$work/recorded"
    [ "$(lines_of "$1" "$key")" = "$(cat "$work/recorded")" ] || cat "$work/recorded"
  done 5<"$work/keys"
}

rewrite() { # FILE EDITS : the file with each edited key once, in its place, or at the end
  awk -v edits="$2" 'BEGIN { while ((getline line < edits) > 0) {
        at = index(line, "\t"); key = tolower(substr(line, 1, at - 1)); text = substr(line, at + 1)
        if (!(key in texts)) { order[++count] = key; texts[key] = text }
        else texts[key] = texts[key] "\n" text } }
    { at = index($0, "="); name = at ? substr($0, 1, at - 1) : ""
      gsub(/^[ \t]+|[ \t]+$/, "", name); key = tolower(name)
      if (name == "" || !(key in texts)) { print; next }
      if (!(key in done) && texts[key] != "") print texts[key]
      done[key] = 1 }
    END { for (i = 1; i <= count; i++)
      if (!(order[i] in done) && texts[order[i]] != "") print texts[order[i]] }' "$1"
}

record_lines() { # NAME : the machine as it was before our first edit, and the lines of each of our keys
  [ -e "$state_dir/$1.vmx" ] || { cp "$vmx" "$work/copy" && keep "$work/copy" "$state_dir/$1.vmx"; }
  : >"$work/lines"
  [ ! -e "$state_dir/$1.lines" ] || cat "$state_dir/$1.lines" >"$work/lines"
  while IFS=$tab read -r key value <&6; do
    awk -F '\t' -v key="$key" '$1 == key { found = 1 } END { exit !found }' "$work/lines" ||
      lines_of "$vmx" "$key" >>"$work/lines"
  done 6<"$work/raw"
  keep "$work/lines" "$state_dir/$1.lines"
}

keep() { # FILE PLACE : whole or not at all
  cat "$1" >"$2.new" || fail "cannot write $2.new"
  mv "$2.new" "$2" || fail "cannot write $2"
}

replace_vmx() { # NAME TEXT : only while it is off; the host reads the file at power-on
  id=$(vm_id "$1")
  cp -p "$vmx" "$vmx.railyard" || fail "cannot write beside $vmx"
  cat "$2" >"$vmx.railyard" || fail "cannot write $vmx.railyard"
  cp -p "$vmx" "$state_dir/$1.before" || fail "cannot write $state_dir/$1.before"
  if [ "$(power_of "$id")" != off ]; then
    rm -f "$vmx.railyard"
    fail "$1 was powered on while its .vmx was to be edited: the file is as it was. Let nobody power" \
      'it on, and run again: it will be shut down first'
  fi
  mv "$vmx.railyard" "$vmx" || fail "cannot write $vmx"
  [ "$(power_of "$id")" = off ] ||
    fail "$1 was powered on while its .vmx was edited: the new settings are in the file, and the run" \
      'of now may have the old ones or may write them back. Run again: it will be shut down first'
  run vim-cmd vmsvc/reload "$id"
}
