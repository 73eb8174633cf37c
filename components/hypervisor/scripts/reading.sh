# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, order, pci, vm, setting are set by input.sh
# How each setting of a hypervisor is read. read_key KEY prints the value; `absent` or
# `unsupported` where there is none.

found_vm=''
found_id=''
found_vmx=''

look() { # one round of questions; read_key answers from it
  ask version esxcli system version get
  ask maintenance esxcli system maintenanceMode get
  ask pci esxcli hardware pci list
  case $(read_release) in # before 7.0 there is no such list; such a host is refused by its release
    [1-6].*) : >"$work/passthrough" ;;
    *) ask passthrough esxcli hardware pci pcipassthru list ;;
  esac
  ask vms vim-cmd vmsvc/getallvms
  # A release without the option answers with an error: it then reads as absent.
  esxcli system settings kernel list -o atsSupport >"$work/kernel" 2>/dev/null
}

ask() { # NAME COMMAND... : its answer in a file
  ask_file=$work/$1
  shift
  "$@" >"$ask_file" 2>"$work/ask" || fail "\`$*\` failed: $(cat "$ask_file" "$work/ask")"
}

read_key() {
  read_value=$(read_one "$1")
  printf '%s\n' "${read_value:-unsupported}"
}

read_one() {
  case $1 in
    release) read_release ;;
    maintenance) cat "$work/maintenance" ;;
    kernel.atsSupport.configured) kernel_column Configured ;;
    kernel.atsSupport.runtime) kernel_column Runtime ;;
    pci.*)
      split_pci "$1"
      read_pci "$pci" "$setting"
      ;;
    vm.*)
      split_vm "$1"
      read_vm "$1" "$vm" "$setting"
      ;;
  esac
}

read_release() { # 7.0.2 with Update 2 is 7.0U2
  awk '$1 == "Version:" { split($2, part, "."); release = part[1] "." part[2] }
    $1 == "Update:" { update = $2 }
    END { if (update + 0 > 0) release = release "U" update
      print release }' "$work/version"
}

kernel_column() { # HEADER : columns are found by their header, not by their place
  kernel_value=$(awk -v header="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == header) column = i }
    $1 == "atsSupport" { print toupper($column) }' "$work/kernel")
  echo "${kernel_value:-absent}"
}

read_pci() { # SBDF SETTING
  case $2 in
    passthrough)
      pci_value=$(awk -v device="$1" 'tolower($1) == device { print $2 }' "$work/passthrough")
      ;;
    current_owner) pci_value=$(pci_field "$1" 'Current Owner') ;;
  esac
  echo "${pci_value:-absent}"
}

pci_field() { # SBDF FIELD : from its own block, so that SubVendor ID is not Vendor ID
  awk -v device="$1" -v field="$2: " '/^[0-9A-Fa-f]/ { here = (tolower($1) == device) }
    here { line = $0; sub(/^[ \t]+/, "", line); sub(/[ \t\r]+$/, "", line)
      if (index(line, field) == 1) { print substr(line, length(field) + 1); exit } }' "$work/pci"
}

pci_present() { grep -q -i "^$1" "$work/pci"; }

pci_there() { # the devices that could have been meant, for a refusal
  awk '/^[0-9A-Fa-f]/ { at = $1 } /^ *Vendor Name:/ { sub(/^ *Vendor Name: */, ""); vendor = $0 }
    /^ *Device Class: *0x0[23]/ { list = list (list == "" ? "" : ", ") at " " vendor }
    END { print(list == "" ? "no network card and no GPU" : list) }' "$work/pci"
}

numa_of() { # SBDF : the node of the device; ends the run where the host does not say
  pci_present "$1" || fail "PCI device $1 was not found on this host; it has $(pci_there)"
  node=$(pci_field "$1" 'NUMA Node')
  case $node in '' | *[!0-9]*) fail "esxcli hardware pci list names no NUMA node for $1" ;; esac
}

common_node() { # "of A and B" to $node; two nodes are refused
  devices=${1#of }
  numa_of "${devices%% and *}"
  gpu_node=$node
  numa_of "${devices##* and }"
  [ "$node" = "$gpu_node" ] || fail "the GPU ${devices%% and *} is on NUMA node $gpu_node and the" \
    "card ${devices##* and } on node $node: GPUDirect RDMA would cross the processors; move one of" \
    'the two to a slot of the other node, or name a pair of one node'
}

vm_line() { # NAME : its line in the inventory; a name that is there twice is none
  awk -v name="$1" '$1 ~ /^[0-9]+$/ && $2 == name && $3 ~ /^\[/ { line = $0; found++ }
    END { if (found == 1) print line }' "$work/vms"
}

vm_id() { vm_line "$1" | awk '{ print $1 }'; }

vm_datastore() { vm_line "$1" | sed 's/^[^[]*\[\([^]]*\)\].*$/\1/'; }

vm_file() { # NAME : the path of its .vmx
  vm_line "$1" | sed -n 's|^[^[]*\[\([^]]*\)\] *\(.*\.vmx\)[[:space:]].*$|/vmfs/volumes/\1/\2|p'
}

power_of() { # ID
  case $(vim-cmd vmsvc/power.getstate "$1" 2>/dev/null | sed -n 2p) in
    'Powered on') echo on ;;
    'Powered off') echo off ;;
    Suspended) echo suspended ;;
    *) echo unknown ;;
  esac
}

find_vm() { # NAME : $found_id and $found_vmx; asked once for the keys of one machine
  [ "$found_vm" != "$1" ] || return 0
  found_vm=$1
  found_id=$(vm_id "$1")
  found_vmx=$(vm_file "$1")
}

read_vm() { # KEY NAME SETTING
  find_vm "$2"
  [ -n "$found_id" ] || { echo absent && return; }
  case $3 in
    power) power_of "$found_id" ;;
    vmx.*) vmx_value "$found_vmx" "${3#vmx.}" ;;
    gpu_pci_id) read_gpu "$found_vmx" "$(value_of "$1" "$work/desired")" ;;
    numa_node) read_node "$found_vmx" "$(value_of "$1" "$work/desired")" ;;
  esac
}

read_gpu() { # VMX SBDF
  index=$(passthrough_index "$1" "$2")
  if [ -n "$index" ]; then
    vmx_value "$1" "pciPassthru$index.cfg.gpu-pci-id"
  else
    echo no-device
  fi
}

read_node() { # VMX "of A and B" : the same words where the affinity is the node of both
  devices=${2#of }
  affinity=$(vmx_value "$1" numa.nodeAffinity)
  if [ "$affinity" = "$(pci_field "${devices%% and *}" 'NUMA Node')" ] &&
    [ "$affinity" = "$(pci_field "${devices##* and }" 'NUMA Node')" ]; then
    echo "$2"
  else
    echo "$affinity"
  fi
}

passthrough_index() { # VMX SBDF : N of the pciPassthruN that holds the device
  bus=${2#*:}
  slot=${bus#*:}
  decimal=$(printf '%05d:%03d:%02d.%d' "$((0x${2%%:*}))" "$((0x${bus%%:*}))" \
    "$((0x${slot%%.*}))" "$((0x${slot##*.}))") # a .vmx counts in decimal
  sed -n 's/^pciPassthru\([0-9]*\)\.id *= *"*\([^"]*\)"*[[:space:]]*$/\1 \2/p' "$1" |
    awk -v id="$decimal" '$2 == id { print $1; exit }' | grep . || dynamic_index "$1" "$2"
}

dynamic_entries() { # VMX : "N <vendor:device>" of each Dynamic DirectPath IO device, which has no address
  sed -n 's/^pciPassthru\([0-9]*\)\.allowedDevices *= *"*\([^"]*\)"*[[:space:]]*$/\1 \2/p' "$1"
}

dynamic_index() { # VMX SBDF : N of the only entry that allows only this device, if the host has one of it
  dynamic_entries "$1" >"$work/dynamic"
  [ -s "$work/dynamic" ] || return 0
  kind=$(kind_of "$2")
  [ "$(grep -c -i -w "$kind" "$work/dynamic")" = 1 ] && [ "$(count_kind "$kind")" = 1 ] || return 0
  awk -v kind="$kind" 'tolower($2) == kind && NF == 2 { print $1 }' "$work/dynamic"
}

kind_of() { # SBDF : its vendor and device as an .vmx writes them, for example 0x10de:0x20f1
  echo "$(pci_field "$1" 'Vendor ID'):$(pci_field "$1" 'Device ID')" | awk '{ print tolower($0) }'
}

count_kind() { # VENDOR:DEVICE : how many functions of this host are such a device
  awk -v kind="$1" '/^ *Vendor ID:/ { vendor = $NF } /^ *Device ID:/ { device = $NF }
    /^[0-9A-Fa-f]/ { count += tolower(vendor ":" device) == kind; vendor = device = "" }
    END { print count + (tolower(vendor ":" device) == kind) }' "$work/pci"
}

vmx_value() { # FILE KEY : ESXi passes over a key in other letters, so that is none
  awk -v key="$2" '{ at = index($0, "="); name = at ? substr($0, 1, at - 1) : ""
      gsub(/^[ \t]+|[ \t]+$/, "", name); if (tolower(name) != tolower(key)) next
      count++; if (name != key) next
      value = substr($0, at + 1); gsub(/^[ \t]+|[ \t\r]+$/, "", value); gsub(/^"|"$/, "", value)
      if (toupper(value) == "TRUE" || toupper(value) == "FALSE") value = toupper(value)
      found = value }
    END { if (count > 1) found = "written " count " times"
      print(found == "" ? "absent" : found) }' "$1"
}

find_record() { # where our records of this stack are; else a name that is not there
  for state_dir in /vmfs/volumes/*/railyard/"$stack"; do
    [ ! -e "$state_dir/baseline" ] || return 0
  done
  state_dir=/vmfs/volumes/none
}

find_state_dir() { # where our records of this stack are, or will be
  find_record
  [ "$state_dir" = /vmfs/volumes/none ] || return 0
  datastore=''
  for vm in $(split_list "$order"); do
    datastore=$(vm_datastore "$vm")
    [ -z "$datastore" ] || break
  done
  [ -n "$datastore" ] || fail "none of the virtual machines $order is in the inventory of this" \
    'host (vim-cmd vmsvc/getallvms); write the names that it lists'
  state_dir=/vmfs/volumes/$datastore/railyard/$stack
}

read_all() { # FILE OUTPUT : the keys of FILE with the values of now
  look
  found_vm=''
  while IFS= read -r line <&7; do
    case $line in
      vm.*)
        split_vm "${line%%=*}"
        find_vm "$vm"
        ;;
    esac
    printf '%s=%s\n' "${line%%=*}" "$(read_key "${line%%=*}")"
  done 7<"$1" >"$2"
}
