# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, setting, ... are set by input.sh
# What one virtual function carries: VLAN, rates, trust, GUIDs, the state of its link. sriov.sh makes
# the functions.

vf_rows='' # the PF of whose VFs $vf_row_<number> are known
vf_numbers=''

find_vf_row() { # PCI NUMBER : $vf_row, what `ip link` shows of one VF, asked once until something is written
  [ "$vf_rows" = "$1" ] || find_vf_rows "$1"
  eval "vf_row=\${vf_row_$2-}"
}

find_vf_rows() { # PCI : $vf_row_<number> of each
  for vf_number in $vf_numbers; do unset "vf_row_$vf_number"; done
  vf_numbers=''
  find_netdev "$1"
  ask_vf_rows "$netdev"
  while read -r vf_word vf_number vf_rest || [ -n "$vf_word" ]; do
    case $vf_word:$vf_number in vf:'' | vf:*[!0-9]*) ;; vf:*)
      eval "vf_row_$vf_number=\$vf_rest"
      vf_numbers="$vf_numbers $vf_number"
      ;;
    esac
  done <"$vf_file"
  vf_rows=$1
}

ask_vf_rows() { # NETDEV : $vf_file; of all cards at once where all is read
  vf_file=$work/qos.vf.$1
  if [ "$reading_all" = yes ] && [ ! -e "$work/qos.vf." ]; then
    : >"$work/qos.vf."
    ip link show 2>/dev/null | awk -v begin="$work/qos.vf." '
      /^[0-9]+: / { name = $2; sub(/[@:].*/, "", name) }
      $1 == "vf" { print >(begin name) }'
  fi
  if [ -e "$vf_file" ]; then return; fi
  : >"$vf_file"
  [ -e "$work/qos.vf." ] || ip link show dev "$1" >"$vf_file" 2>/dev/null
}

forget_rows() { # since something is written
  vf_rows=''
  for vf_file in "$work"/qos.vf.*; do
    [ ! -e "$vf_file" ] || { rm -f "$work"/qos.vf.* && return; }
  done
}

find_vf_field() { # WORDS [VALUE WHERE NONE] : of $vf_row, whose fields are apart by commas
  value=''
  vf_left=$vf_row,
  while [ -n "$vf_left" ] && [ -z "$value" ]; do
    vf_left=${vf_left#*,}
    vf_left=${vf_left# }
    case $vf_left in "$1 "*) value=${vf_left#"$1 "} && value=${value%%,*} ;; esac
  done
  [ -z "$vf_row" ] || value=${value:-${2:-}}
}

find_vf() { # KEY
  value=''
  split_vf "$1"
  find_vf_row "$pci" "$vf"
  [ -n "$vf_row" ] || [ -e "/sys/bus/pci/devices/$pci/virtfn$vf" ] || { value=absent && return; }
  case $setting in
    vlan) find_vlan ;;
    trust) find_vf_field trust ;;
    spoofchk) find_vf_field 'spoof checking' ;;
    m??_rate_mbit_s)
      find_vf_field "${setting%%_*}_tx_rate" 0
      value=${value%Mbps}
      ;;
    guid) find_guid "$pci" "$vf" ;;
    link_state) find_link_state "$pci" "$vf" ;;
    place) find_place "/sys/bus/pci/devices/$pci/virtfn$vf" ;;
  esac
}

find_place() { # DEVICE OF A VF : away in a pod or a machine, where it has a driver and no network device here
  find_first "$1/net"
  case $value in absent) value=away ;; *) value=here ;; esac
  [ -e "$1/driver" ] || value=here
}

find_vlan() { # with its priority, VLAN/PRIORITY, where that is not 0
  [ -n "$vf_row" ] || return 0
  find_vf_field qos
  case $value in [0-9]) vf_priority=/$value ;; *) vf_priority='' ;; esac
  find_vf_field vlan 0
  case $value in *[!0-9]*) value=0 ;; esac
  value=$value$vf_priority
}

write_vf() { # KEY VALUE : of a VF that is gone there is nothing to write; reading again tells it
  split_vf "$1"
  [ -e "/sys/bus/pci/devices/$pci/virtfn$vf" ] || return 0
  vf_wanted=$2
  if [ "$2" = absent ]; then # it was not there before us: what a new one has
    case $setting in trust | spoofchk) vf_wanted=off ;; guid | link_state) return 0 ;; *) vf_wanted=0 ;; esac
  fi
  case $setting in
    vlan)
      case $vf_wanted in
        */*) set_vf "$pci" "$vf" vlan "${vf_wanted%/*}" qos "${vf_wanted#*/}" ;;
        *) set_vf "$pci" "$vf" vlan "$vf_wanted" qos 0 ;;
      esac
      ;;
    trust | spoofchk) set_vf "$pci" "$vf" "$setting" "$vf_wanted" ;;
    *_rate_mbit_s) write_rate "$1" "$vf_wanted" ;;
    guid) write_guid "$pci" "$vf" "$vf_wanted" ;;
    link_state) write_link_state "$pci" "$vf" "$vf_wanted" ;;
  esac
}

set_vf() { # PCI NUMBER WORDS...
  set_pci=$1
  set_number=$2
  shift 2
  forget_rows
  find_netdev "$set_pci"
  set_dev=$netdev
  set_output=$(ip link set dev "$set_dev" vf "$set_number" "$@" 2>&1) ||
    fail "\`ip link set dev $set_dev vf $set_number $*\` failed: ${set_output:-no output}" \
      "(embedded switch in $(printed find_eswitch "$set_pci") mode; see dmesg)"
}

write_rate() { # KEY MBIT_S : the kernel refuses a least rate above the most, also for a moment
  find_vf "vf.$pci.$vf.min_rate_mbit_s"
  min_rate=$value
  find_vf "vf.$pci.$vf.max_rate_mbit_s"
  max_rate=$value
  case $1 in
    *.min_rate_mbit_s)
      min_rate=$2
      [ "$max_rate" -ge "$min_rate" ] || max_rate=0 # 0 is no limit; the wanted one is set after this
      ;;
    *)
      max_rate=$2
      [ "$max_rate" = 0 ] || [ "$max_rate" -ge "$min_rate" ] || min_rate=0
      ;;
  esac
  split_vf "$1"
  set_vf "$pci" "$vf" min_tx_rate "$min_rate" max_tx_rate "$max_rate"
}

drop_colons() { # GUID : to $value
  IFS=:
  # shellcheck disable=SC2086 # its parts
  set -- $1
  IFS=''
  value="$*"
  unset IFS
}

find_guid() { # PCI NUMBER : node's and port's; both where they differ
  find_vf_field NODE_GUID
  guid_node=$value
  find_vf_field PORT_GUID
  guid_port=$value
  if [ -z "$guid_node" ]; then # an old ip does not show them, NVIDIA's driver has files
    find_line "/sys/bus/pci/devices/$1/sriov/$2/node"
    guid_node=$value
    find_line "/sys/bus/pci/devices/$1/sriov/$2/port"
    guid_port=$value
  fi
  drop_colons "$guid_port"
  guid_port=$value
  drop_colons "$guid_node"
  [ "$value" = "$guid_port" ] || value=$value/$guid_port
}

write_guid() { # PCI NUMBER GUID[/PORT GUID] : a VF takes it when a driver binds to it
  guid_node=$(printf '%s\n' "${3%%/*}" | sed 's/../&:/g; s/:$//')
  guid_port=$(printf '%s\n' "${3##*/}" | sed 's/../&:/g; s/:$//')
  guid_vf=/sys/bus/pci/devices/$1/virtfn$2
  [ ! -e "$guid_vf/driver" ] || [ "$(printed find_first "$guid_vf/infiniband")" != absent ] ||
    fail "VF $2 of $1 is in use by a pod, and its GUID cannot change there; drain this node, then run again"
  guid_files=/sys/bus/pci/devices/$1/sriov/$2
  if [ -e "$guid_files/node" ]; then
    forget_rows
    put "$guid_node" "$guid_files/node"
    put "$guid_port" "$guid_files/port"
  elif [ "$(printed find_first "/sys/bus/pci/devices/$1/net")" != absent ]; then
    set_vf "$1" "$2" node_guid "$guid_node"
    set_vf "$1" "$2" port_guid "$guid_port"
  else
    fail "no GUID can be set on VFs of $1: it has neither a network device (modprobe ib_ipoib) nor" \
      'the files of the NVIDIA driver package'
  fi
  [ ! -e "$guid_vf/driver" ] || rebind_vf "$1" "$2"
}

rebind_vf() { # PCI NUMBER : a VF takes its MAC and its GUIDs when its driver binds to it
  cd -P "/sys/bus/pci/devices/$1/virtfn$2" || fail "VF $2 of $1 is gone; run again"
  rebind_pci=${PWD##*/}
  cd -P driver || fail "VF $2 of $1 lost its driver; run again"
  rebind_driver=$PWD
  cd /
  put "$rebind_pci" "$rebind_driver/unbind"
  put "$rebind_pci" "$rebind_driver/bind"
}

find_vf_mac() { # PCI NUMBER : $vf_mac, its administrative MAC, or none; `unbound` for one of ours without a node GUID
  vf_folder=/sys/bus/pci/devices/$1/virtfn$2
  find_vf_row "$1" "$2" # link/ether MAC brd ...; before iproute2 5.4: MAC MAC, ...
  vf_mac=${vf_row#* }
  vf_mac=${vf_mac%%[ ,]*}
  find_first "$vf_folder/infiniband"
  find_line "$vf_folder/infiniband/$value/node_guid"
  case $vf_mac/$value in
    /* | 00:00:00:00:00:00/*) vf_mac=none ;;
    */0000:0000:0000:0000) [ $((0x${vf_mac##*:})) != "$2" ] || vf_mac=unbound ;;
  esac
}

has_vfio() { # DEVICE OF A VF : it is a virtual machine's, whose hypervisor gives it a MAC
  cd -P "$1/driver" 2>/dev/null || return 1
  vfio_driver=${PWD##*/}
  cd /
  case $vfio_driver in *vfio*) ;; *) return 1 ;; esac
}

find_own_mac() { # PCI : $own_mac, for its VF 0: 02, which no vendor gives out, and the end of the card's own MAC
  find_netdev "$1"
  find_line "/sys/class/net/$netdev/address"
  [ ! -e "/sys/class/net/$netdev/bonding_slave" ] || find_line "/sys/class/net/$netdev/bonding_slave/perm_hwaddr"
  own_mac=02:${value#??:??:}:00
}

find_vf_macs() { # PCI : `own` or the MAC of VF 0 if the others count up from it in their last byte; else all, by commas
  vf=-1 vf_macs='' vf_first=''
  while vf=$((vf + 1)) && [ -e "/sys/bus/pci/devices/$1/virtfn$vf" ]; do
    find_vf_mac "$1" "$vf"
    vf_macs=$vf_macs${vf_macs:+,}$vf_mac
    ! has_vfio "$vf_folder" || continue
    case $vf_mac in ??:*)
      find_place "$vf_folder"
      [ "$value" = here ] || continue # its pod may have asked for a MAC of its own
      if [ $((0x${vf_mac##*:})) = "$vf" ]; then vf_mac=${vf_mac%:*}:00; else vf_mac=several; fi
      ;;
    esac
    case $vf_first in '' | "$vf_mac") vf_first=$vf_mac ;; *) vf_first=several ;; esac
  done
  case $vf:$vf_first in
    0:*) value=none ;;
    *:several) value=$vf_macs ;;
    *:) value=$(value_of "nic.$1.vf_mac" "$work/desired") || value=in-use ;; # pods have them all
    *) find_own_mac "$1" && case $vf_first in "$own_mac") value=own ;; *) value=$vf_first ;; esac ;;
  esac
}

write_vf_macs() { # PCI VALUE : as find_vf_macs gives it
  find_own_mac "$1"
  case $2:$own_mac in
    own:02:??:??:??:??:00) set -- "$1" "$own_mac" ;;
    own:*) fail "the MAC of $netdev cannot be read, from which those of its VFs are made" ;;
  esac
  vf=-1 macs_left=$2,
  while vf=$((vf + 1)) && [ -e "/sys/bus/pci/devices/$1/virtfn$vf" ]; do
    case $2 in *,*) mac=${macs_left%%,*} ;; *:00) mac=${2%:*}:$(printf %02x "$vf") ;; *) mac=$2 ;; esac
    macs_left=${macs_left#*,}
    find_vf_mac "$1" "$vf"
    ! has_vfio "$vf_folder" || continue
    find_place "$vf_folder"
    case $vf_mac/$value in
      "$mac"/* | ??:*/away) continue ;;
      */away)
        fail "VF $vf of $1 is in use by a pod, and its MAC cannot change there; drain this node, then run again"
        ;;
    esac
    case $mac in none) mac=00:00:00:00:00:00 ;; *:*) ;; *) fail "the MAC that VF $vf of $1 had is not known" ;; esac
    set_vf "$1" "$vf" mac "$mac"
    [ ! -e "$vf_folder/driver" ] || rebind_vf "$1" "$vf"
  done
}

find_link_state() { # PCI NUMBER : auto follows the PF's port; NVIDIA's driver calls it Follow
  find_vf_field link-state
  [ -z "$value" ] || return 0
  find_line "/sys/bus/pci/devices/$1/sriov/$2/policy"
  case $value in
    Follow) value=auto ;;
    Up) value=enable ;;
    Down) value=disable ;;
    *) value='' ;;
  esac
}

write_link_state() { # PCI NUMBER auto|enable|disable
  link_policy=/sys/bus/pci/devices/$1/sriov/$2/policy
  if [ -e "$link_policy" ]; then
    forget_rows
    case $3 in auto) put Follow "$link_policy" ;; enable) put Up "$link_policy" ;; *) put Down "$link_policy" ;; esac
  else
    set_vf "$1" "$2" state "$3"
  fi
}
