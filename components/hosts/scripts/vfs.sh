# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, setting, ... are set by input.sh
# What one virtual function carries: VLAN, rates, trust, GUIDs, the state of its link. sriov.sh makes
# the functions.

vf_row() { # PCI NUMBER : what `ip link` shows of one VF, asked once until something is written
  if [ ! -s "$work/qos.vf.$1" ]; then
    ip link show dev "$(netdev_of "$1")" 2>/dev/null |
      sed -n 's/^ *vf \([0-9][0-9]*\) /\1 /p' >"$work/qos.vf.$1"
  fi
  sed -n "s/^$2 //p" "$work/qos.vf.$1"
}

vf_field() { # WORDS [VALUE WHERE NONE] : of a row on stdin, whose fields are apart by commas
  awk -F ', ' -v words="$1 " -v none="${2:-}" '{
    for (i = 2; i <= NF; i++) if (value == "" && index($i, words) == 1) value = substr($i, length(words) + 1) }
    END { if (NR) print value == "" ? none : value }'
}

read_vf() { # KEY
  split_vf "$1"
  [ -e "/sys/bus/pci/devices/$pci/virtfn$vf" ] || { echo absent && return; }
  case $setting in
    vlan) # with its priority, VLAN/PRIORITY, where that is not 0
      vf_row "$pci" "$vf" | awk -F ', ' '{ vlan = 0
        for (i = 2; i <= NF; i++) { if ($i ~ /^vlan [0-9]+$/) vlan = substr($i, 6)
          if ($i ~ /^qos [0-9]$/) priority = "/" substr($i, 5) }
        print vlan priority }'
      ;;
    trust) vf_row "$pci" "$vf" | vf_field trust ;;
    spoofchk) vf_row "$pci" "$vf" | vf_field 'spoof checking' ;;
    min_rate_mbit_s) vf_row "$pci" "$vf" | vf_field min_tx_rate 0 | sed 's/Mbps//' ;;
    max_rate_mbit_s) vf_row "$pci" "$vf" | vf_field max_tx_rate 0 | sed 's/Mbps//' ;;
    guid) read_guid "$pci" "$vf" ;;
    link_state) read_link_state "$pci" "$vf" ;;
  esac
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
  rm -f "$work/qos.vf.$set_pci"
  set_dev=$(netdev_of "$set_pci")
  set_output=$(ip link set dev "$set_dev" vf "$set_number" "$@" 2>&1) ||
    fail "\`ip link set dev $set_dev vf $set_number $*\` failed: ${set_output:-no output}" \
      "(embedded switch in $(read_eswitch "$set_pci") mode; see dmesg)"
}

write_rate() { # KEY MBIT_S : the kernel refuses a least rate above the most, also for a moment
  min_rate=$(read_vf "vf.$pci.$vf.min_rate_mbit_s")
  max_rate=$(read_vf "vf.$pci.$vf.max_rate_mbit_s")
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

plain_guid() { sed 's/://g'; }

read_guid() { # PCI NUMBER : node's and port's; both where they differ
  guid_node=$(vf_row "$1" "$2" | vf_field NODE_GUID | plain_guid)
  guid_port=$(vf_row "$1" "$2" | vf_field PORT_GUID | plain_guid)
  if [ -z "$guid_node" ]; then # an old ip does not show them, NVIDIA's driver has files
    guid_node=$(plain_guid <"/sys/bus/pci/devices/$1/sriov/$2/node" 2>/dev/null)
    guid_port=$(plain_guid <"/sys/bus/pci/devices/$1/sriov/$2/port" 2>/dev/null)
  fi
  if [ "$guid_node" = "$guid_port" ]; then echo "$guid_node"; else echo "$guid_node/$guid_port"; fi
}

write_guid() { # PCI NUMBER GUID[/PORT GUID] : a VF takes it when a driver binds to it
  guid_node=$(printf '%s\n' "${3%%/*}" | sed 's/../&:/g; s/:$//')
  guid_port=$(printf '%s\n' "${3##*/}" | sed 's/../&:/g; s/:$//')
  guid_vf=/sys/bus/pci/devices/$1/virtfn$2
  [ ! -e "$guid_vf/driver" ] || [ "$(first_in "$guid_vf/infiniband")" != absent ] ||
    fail "VF $2 of $1 is in use by a pod, and its GUID cannot change there; drain this node, then run again"
  guid_files=/sys/bus/pci/devices/$1/sriov/$2
  if [ -e "$guid_files/node" ]; then
    rm -f "$work/qos.vf.$1"
    put "$guid_node" "$guid_files/node"
    put "$guid_port" "$guid_files/port"
  elif [ "$(first_in "/sys/bus/pci/devices/$1/net")" != absent ]; then
    set_vf "$1" "$2" node_guid "$guid_node"
    set_vf "$1" "$2" port_guid "$guid_port"
  else
    fail "no GUID can be set on VFs of $1: it has neither a network device (modprobe ib_ipoib) nor" \
      'the files of the NVIDIA driver package'
  fi
  if [ -e "$guid_vf/driver" ]; then
    guid_pci=$(basename "$(readlink "$guid_vf")")
    guid_driver=/sys/bus/pci/drivers/$(basename "$(readlink "$guid_vf/driver")")
    put "$guid_pci" "$guid_driver/unbind"
    put "$guid_pci" "$guid_driver/bind"
  fi
}

read_link_state() { # PCI NUMBER : auto follows the PF's port; NVIDIA's driver calls it Follow
  link_state=$(vf_row "$1" "$2" | vf_field link-state)
  [ -n "$link_state" ] || case $(cat "/sys/bus/pci/devices/$1/sriov/$2/policy" 2>/dev/null) in
    Follow) link_state=auto ;;
    Up) link_state=enable ;;
    Down) link_state=disable ;;
  esac
  echo "$link_state"
}

write_link_state() { # PCI NUMBER auto|enable|disable
  link_policy=/sys/bus/pci/devices/$1/sriov/$2/policy
  if [ -e "$link_policy" ]; then
    rm -f "$work/qos.vf.$1"
    case $3 in auto) put Follow "$link_policy" ;; enable) put Up "$link_policy" ;; *) put Down "$link_policy" ;; esac
  else
    set_vf "$1" "$2" state "$3"
  fi
}
