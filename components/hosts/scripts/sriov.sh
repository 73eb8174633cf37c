# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, setting, ... are set by input.sh
# The virtual functions of a PF: how many, what each of them carries, the mode of the card's embedded
# switch, and whether the card in the slot is the one that is meant. What was asked once is kept in
# files named qos.*, which are dropped before each reading. Forms of `ip`, devlink, lspci and of the
# files under sriov/: lab/sources.md#vfs.

split_vf() { # vf.<pci>.<number>.<setting> to $pci, $vf and $setting
  pci=${1#vf.}
  setting=${pci##*.}
  pci=${pci%.*}
  vf=${pci##*.}
  pci=${pci%.*}
}

vf_address() { # <pci>.<number>
  pci_address "${1%.*}" && number "${1##*.}" 0 254
}

vf_is_gone() { # vf.<pci>.<number>.<setting> : with the VF went what it had
  split_vf "$1"
  [ ! -e "/sys/bus/pci/devices/$pci/virtfn$vf" ]
}

vfs_are_gone() { # nic.<pci>.<setting>
  split_nic "$1"
  [ ! -e "/sys/bus/pci/devices/$pci/virtfn0" ]
}

card_is_gone() { # nic.<pci>.<setting>
  split_nic "$1"
  [ ! -d "/sys/bus/pci/devices/$pci" ]
}

find_sriov() { # PCI SETTING
  case $2 in
    vfs) find_line "/sys/bus/pci/devices/$1/sriov_numvfs" 0 ;;
    vf_mac) find_vf_macs "$1" ;;
    vf_mtu_bytes) find_vf_mtu "$1" ;;
    eswitch | eswitch_now) find_eswitch "$1" ;;
    autoprobe)
      find_line "/sys/bus/pci/devices/$1/sriov_drivers_autoprobe"
      case $value in 1) value=on ;; 0) value=off ;; *) value='' ;; esac
      ;;
    serial) value=$(card_serial "$1") ;;
  esac
}

write_sriov() { # PCI SETTING VALUE
  case $2 in
    vfs) write_vfs "$1" "/sys/bus/pci/devices/$1" "$3" ;;
    vf_mac) write_vf_macs "$1" "$3" ;;
    vf_mtu_bytes) write_vf_mtu "$1" "$3" ;;
    eswitch) write_eswitch "$1" "$3" ;;
    eswitch_now) refuse_eswitch "$1" "$3" ;;
    autoprobe) write_autoprobe "$1" "/sys/bus/pci/devices/$1" "$3" ;;
    serial) refuse_serial "$1" "$3" ;;
  esac
}

find_link_layer() { # DEVICE : of its port
  value=''
  for link_file in "$1"/infiniband/*/ports/1/link_layer; do
    [ ! -e "$link_file" ] || find_line "$link_file"
  done
}

find_vf_kind() { # DEVICE : $vf_kind, the folder by which a VF of this PF shows that it is here and not in a pod
  find_link_layer "$1"
  case $value in
    InfiniBand) vf_kind=infiniband ;; # it has a network device only with ib_ipoib
    *) vf_kind=net ;;
  esac
}

count_vfs_here() { # DEVICE : $vf_count, how many VFs are here
  find_vf_kind "$1"
  vf_count=0
  for entry in "$1"/virtfn*/"$vf_kind"/*; do
    case $entry in */'*') ;; *) vf_count=$((vf_count + 1)) ;; esac
  done
}

count_vfs_used() { # DEVICE : $vf_count, how many VFs have a driver, and are not here: in a pod, or in a machine
  find_vf_kind "$1"
  vf_count=0
  for vf_folder in "$1"/virtfn*; do
    [ -e "$vf_folder/driver" ] || continue
    find_first "$vf_folder/$vf_kind"
    case $value in absent) vf_count=$((vf_count + 1)) ;; esac
  done
}

refuse_used() { # PCI DEVICE
  count_vfs_used "$2"
  vf_used=$vf_count
  [ "$vf_used" != 0 ] || return 0
  vf_drivers=$(readlink "$2"/virtfn*/driver | sed 's,.*/,,' | sort -u | paste -s -d , -)
  case $vf_drivers in *vfio*)
    fail "VFs of $1 are bound to $vf_drivers: a virtual machine, or a program beside the kernel, has them." \
      'Stop it and give them back (driverctl unset-override), then run again' ;;
  esac
  fail "$vf_used of the $(cat "$2/sriov_numvfs") VFs of $1 are in use by pods; drain this node, then run again"
}

find_vf_mtu() { # PCI : a VF in a pod is out of sight; then what this boot applied counts
  find_line "/sys/bus/pci/devices/$1/sriov_numvfs" 0
  [ "$value" != 0 ] || { value=none && return; }
  vf_mtus=''
  cd "/sys/bus/pci/devices/$1" || return # its VFs are many, and paths of /sys are long ways
  for vf_net in virtfn*/net/*; do
    case $vf_net in */'*') break ;; esac
    find_line "$vf_net/mtu"
    case ",$vf_mtus," in *",$value,"* | *,"$value") ;; *) vf_mtus=$vf_mtus${vf_mtus:+,}$value ;; esac
  done
  cd /
  if [ -z "$vf_mtus" ]; then
    count_vfs_here "/sys/bus/pci/devices/$1"
    [ "$vf_count" != 0 ] || { find_line "/run/railyard/vf_mtu.$1" in-use && return; }
  fi
  value=$vf_mtus
  case $value in *,*) value=$(printf '%s\n' "$value" | tr , '\n' | sort -un | paste -s -d , -) ;; esac
}

write_vfs() { # PCI DEVICE COUNT
  [ -e "$2/sriov_totalvfs" ] ||
    fail "the card at $1 offers no VFs (no sriov_totalvfs): switch on SR-IOV and the IOMMU in the" \
      "BIOS, and SRIOV_EN in the firmware (mlxconfig -d $1 set SRIOV_EN=1 NUM_OF_VFS=$3), then reboot"
  find_line "$2/sriov_totalvfs"
  [ "$value" -ge "$3" ] ||
    fail "the card at $1 offers $value VFs, want $3: mlxconfig -d $1 set SRIOV_EN=1 NUM_OF_VFS=$3," \
      'then reboot; with 0 also switch on SR-IOV and the IOMMU in the BIOS'
  find_line "$2/sriov_numvfs"
  if [ "$value" != 0 ]; then
    refuse_used "$1" "$2"
    put_vfs "$1" "$2" 0 # the kernel refuses N to M with EBUSY
  fi
  [ "$3" != 0 ] || return 0
  put_vfs "$1" "$2" "$3"
  waited_s=0
  while count_vfs_here "$2" && [ "$vf_count" != "$3" ]; do # the driver probes VFs after the write returns
    find_sriov "$1" autoprobe
    [ "$value" != off ] || { refuse_driverless "$1" && break; }
    [ "$waited_s" -lt 60 ] ||
      fail "only $vf_count of $3 VFs of $1 have a $vf_kind device after 60 s; see dmesg"
    sleep 1
    waited_s=$((waited_s + 1))
  done
  restore_vfs "$1"
}

write_autoprobe() { # PCI DEVICE on|off : VFs that are there already are not probed for it; made again they are
  case $3 in on) put 1 "$2/sriov_drivers_autoprobe" ;; *) put 0 "$2/sriov_drivers_autoprobe" ;; esac
  [ "$3" = on ] && [ -e "$2/virtfn0" ] || return 0
  for vf_driver in "$2"/virtfn*/driver; do [ ! -e "$vf_driver" ] || return 0; done
  put_vfs "$1" "$2" 0
}

refuse_driverless() { # PCI : without drivers VFs have no MTU that could be set
  case $(value_of "nic.$1.vf_mtu_bytes" "$work/ordered") in
    [0-9]*)
      fail "the kernel binds no driver to VFs of $1 (sriov_drivers_autoprobe is 0), and pods need their" \
        "devices: echo 1 >/sys/bus/pci/devices/$1/sriov_drivers_autoprobe, or write sriov.autoprobe"
      ;;
  esac
}

with_vfs() { # FILE WANTED : its lines, and how many VFs WANTED has where one is of VFs: a change of the
  # mode or of the driver takes them away, and what they carry is set when they are there again
  awk -F = 'FILENAME == ARGV[1] {
      print
      has[$1]
      pci = $1
      if (sub(/^vf\./, "", pci)) sub(/\.[0-9]+\.[a-z_]+$/, "", pci)
      else if (!sub(/^nic\./, "", pci) || !sub(/\.vf_[a-z_]+$/, "", pci)) next
      of_card["nic." pci ".vfs"]
      next
    }
    ($1 in of_card) && !($1 in has)' "$1" "$2"
}

remember_vfs() ( # PCI : what a hand gave to VFs goes away with them, also what we do not own
  [ -n "${state_dir:-}" ] || return 0 # at boot there are none yet
  find_eswitch "$1"
  [ "$value" = legacy ] || return 0 # in the other mode they have none of it
  for vf_folder in "/sys/bus/pci/devices/$1"/virtfn*; do
    [ -e "$vf_folder" ] || break
    for vf_setting in $vf_settings; do
      key=vf.$1.${vf_folder##*/virtfn}.$vf_setting
      find_vf "$key" 2>/dev/null
      [ -z "$value" ] || printf '%s=%s\n' "$key" "$value"
    done
  done >"$work/vfs_now"
  cat "$state_dir/vfs" >"$work/vfs_old" 2>/dev/null # also of VFs that are not there just now
  { lines_without "$state_dir/baseline" "$work/vfs_now" && lines_without "$work/vfs_now" "$work/vfs_old"; } |
    sort >"$work/vfs_new" || fail "cannot write $work/vfs_new"
  keep_vfs
)

forget_vfs() { # FILE : of cards whose count it has, which is not ours any more
  [ -s "$state_dir/vfs" ] || return 0
  awk -F = 'FILENAME == ARGV[1] { if (sub(/\.vfs$/, "", $1)) gone[substr($1, 5)]; next }
    { pci = $1; sub(/^vf\./, "", pci); sub(/\.[0-9]+\.[a-z_]+$/, "", pci) }
    !(pci in gone)' "$1" "$state_dir/vfs" >"$work/vfs_new"
  keep_vfs
}

keep_vfs() { # what is not on the disk before the VFs go is lost with them
  ! cmp -s "$work/vfs_new" "$state_dir/vfs" || return 0
  { cat "$work/vfs_new" >"$state_dir/vfs.new" && sync "$state_dir/vfs.new"; } 2>/dev/null || {
    rm -f "$state_dir/vfs.new"
    fail "cannot write $state_dir/vfs, which keeps what a hand gave to VFs: is the disk full?"
  }
  mv "$state_dir/vfs.new" "$state_dir/vfs"
}

restore_vfs() { # PCI : gives it back to the VFs of the same numbers, where it is not set anyway
  [ -s "${state_dir:-/none}/vfs" ] && find_eswitch "$1" && [ "$value" = legacy ] || return 0
  grep "^vf\.$1\." "$state_dir/vfs" >"$work/vfs"
  while IFS= read -r vf_line <&7; do
    ! value_of "${vf_line%%=*}" "$work/ordered" >/dev/null || continue
    find_vf "${vf_line%%=*}"
    [ "$value" = "${vf_line#*=}" ] || write_vf "${vf_line%%=*}" "${vf_line#*=}"
  done 7<"$work/vfs"
}

put_vfs() { # PCI DEVICE COUNT : the kernel's reason in words
  [ "$3" != 0 ] || remember_vfs "$1" || exit 1
  forget_rows
  put_once "$3" "$2/sriov_numvfs" && return
  case $put_output in
    *'Cannot allocate memory'*)
      fail "the machine has no PCIe address space for $3 VFs of $1 (ENOMEM; dmesg says: not enough" \
        "MMIO resources for SR-IOV): switch on 'Above 4G Decoding' (MMIO above 4 GB) in the BIOS, or" \
        'boot with pci=realloc, or ask for fewer VFs'
      ;;
    *'out of range'*)
      fail "the firmware of $1 allows fewer VFs than $3 (ERANGE): mlxconfig -d $1 set NUM_OF_VFS=$3," \
        'then reboot'
      ;;
    *'resource busy'*) fail "VFs of $1 cannot become $3: somebody else made some just now (EBUSY); run again" ;;
    *) fail "making $3 VFs of $1 failed: ${put_output:-no output}; see dmesg" ;;
  esac
}

write_vf_mtu() { # PCI BYTES
  case $2 in *[!0-9]*) return ;; esac # recorded as none or in-use: nothing to put back
  count_vfs_here "/sys/bus/pci/devices/$1"
  if [ "$vf_count" = 0 ]; then
    [ "$restoring" = no ] || { still_used="$still_used nic.$1.vf_mtu_bytes" && return; }
    fail "no VF of $1 has a network device here that could take an MTU of $2: pods have them, or another" \
      'driver (ls -l /sys/bus/pci/devices/'"$1"'/virtfn*/driver); drain this node or give them back, then run again'
  fi
  waited_s=0
  while put_vf_mtus "$1" "$2" && find_vf_mtu "$1" && [ "$value" != "$2" ] && [ "$waited_s" -lt 5 ]; do
    sleep 1 # udev renames new VFs for a while, and one that moved under the look kept its MTU
    waited_s=$((waited_s + 1))
  done
  mark_vf_mtu "$1" "$2"
}

put_vf_mtus() { # PCI BYTES
  for vf_net in "/sys/bus/pci/devices/$1"/virtfn*/net/*; do # what has moved away is no failure
    { printf '%s\n' "$2" >"$vf_net/mtu"; } 2>/dev/null || [ ! -e "$vf_net/mtu" ] || put "$2" "$vf_net/mtu"
  done
}

mark_vf_mtu() { # PCI BYTES
  [ -d /run/railyard ] || mkdir -p /run/railyard
  find_line "/run/railyard/vf_mtu.$1"
  [ "$value" = "$2" ] || put "$2" "/run/railyard/vf_mtu.$1"
}

mark_vf_mtus() { # also those that nothing had to be set for: soon they are in pods
  asks_for vf_mtu || return 0
  sed -n 's/^nic\.\([^=]*\)\.vf_mtu_bytes=/\1 /p' "$work/desired" >"$work/vf_mtus"
  while read -r pci bytes <&7; do
    find_vf_mtu "$pci"
    [ "$value" != "$bytes" ] || mark_vf_mtu "$pci" "$bytes"
  done 7<"$work/vf_mtus"
}

find_eswitch() { # PCI : kernels before 5.11 or so answer with an error while SR-IOV is off, and
  # nothing but devlink brings a card into switchdev: without an answer it is legacy
  eswitch_words=$(devlink dev eswitch show "pci/$1" 2>/dev/null)
  value=legacy
  eswitch_word=''
  for eswitch_next in $eswitch_words; do
    case $eswitch_word:$eswitch_next in mode:[a-z_]* | *:mode:[a-z_]*) value=${eswitch_next%%[!a-z_]*} ;; esac
    eswitch_word=$eswitch_next
  done
}

write_eswitch() { # PCI legacy|switchdev : without VFs; the count that is wanted is made after it
  device=/sys/bus/pci/devices/$1
  find_line "$device/sriov_numvfs" 0
  if [ "$value" != 0 ]; then
    refuse_used "$1" "$device"
    put_vfs "$1" "$device" 0
  fi
  eswitch_output=$(devlink dev eswitch set "pci/$1" mode "$2" 2>&1) ||
    fail "the embedded switch of $1 does not become $2: ${eswitch_output:-no output}. Old kernels" \
      'change it only while there are VFs: update the kernel or the RDMA driver, or leave' \
      'sriov.eswitch out'
}

refuse_eswitch() { # PCI WANTED
  fail "the embedded switch of $1 is in $(printed find_eswitch "$1") mode, and the file expects $2: VLAN, rates" \
    "and trust of VFs do not work there. Write hosts[].nics[].sriov.eswitch: $2 to have it changed" \
    '(its VFs are made again), or switchdev to keep it'
}

card_serial() { # PCI : [SN] of the vital product data, which only root can read
  if [ ! -s "$work/qos.serial.$1" ]; then
    lspci -vv -s "$1" 2>/dev/null | sed -n 's/.*\[SN\] Serial number: *\([^ ]*\) *$/\1/p' |
      head -n 1 >"$work/qos.serial.$1"
  fi
  cat "$work/qos.serial.$1"
}

slots_of() { # SERIAL : where a card of that serial is, of all NVIDIA (Mellanox) functions that are no VFs
  for slot in /sys/bus/pci/devices/*; do
    find_line "$slot/vendor"
    [ "$value" = 0x15b3 ] && [ ! -e "$slot/physfn" ] || continue
    [ "$(card_serial "${slot##*/}")" != "$1" ] || echo "${slot##*/}"
  done | paste -s -d ' ' -
}

moved_card() { # PCI : what is known of the card that shall be in an empty slot
  moved_serial=$(value_of "nic.$1.serial" "$work/desired" 2>/dev/null) || return 0
  moved_to=$(slots_of "$moved_serial")
  [ -z "$moved_to" ] || echo "; the card with serial $moved_serial is now at $moved_to"
}

refuse_serial() { # PCI WANTED
  command -v lspci >/dev/null ||
    fail "the serial of the card at $1 cannot be read: there is no lspci on this host; install pciutils," \
      'then run again'
  serial_now=$(card_serial "$1")
  serial_at=$(slots_of "$2")
  [ -z "$serial_at" ] ||
    fail "the card with serial $2 is now at $serial_at, and at $1 there is ${serial_now:-one without a serial}:" \
      'correct hosts[].nics[].pci, and look at the cable'
  fail "the card at $1 has serial ${serial_now:-none that can be read}, want $2, which is nowhere in this" \
    'host: was it replaced? Correct hosts[].nics[].serial'
}
