# shellcheck shell=sh
# What is plugged into a host, and where: RDMA cards and GPUs, their place in the PCIe tree, the links that
# they trained. Reads /sys alone and changes nothing, and is complete in itself for discover. One line a
# fact, `look.<pci>.<field>=<value>`; what a device does not tell is no line.

look_fact() { # FIELD VALUE
  [ -z "$2" ] || printf 'look.%s.%s=%s\n' "$look_at" "$1" "$2"
}

look_file() { # FIELD FILE : its first line, without a process; some files refuse to be read
  look_text=''
  if [ -r "$2" ]; then { IFS= read -r look_text <"$2"; } 2>/dev/null; fi
  look_fact "$1" "$look_text"
}

look_link() { # what the link runs at, what the card can, and what the port above it can
  look_file link_speed "$look_device/current_link_speed"
  look_file link_width "$look_device/current_link_width"
  look_file max_speed "$look_device/max_link_speed"
  look_file max_width "$look_device/max_link_width"
  look_file slot_speed "$look_device/../max_link_speed"
  look_file slot_width "$look_device/../max_link_width"
}

look_function() { # KIND : what NICs and GPUs have alike
  look_fact kind "$1"
  look_file device "$look_device/device"
  look_file numa "$look_device/numa_node"
  look_path=$(cd -P "$look_device" 2>/dev/null && pwd -P)
  look_fact path "${look_path#*/devices/}"
}

look_own_net() { # DEVICE : its port's own network device in $look_net; in switchdev mode those of its VFs lie beside it
  set -- "$1"/net/*
  look_net=$1
  [ $# -gt 1 ] || return 0
  look_net=''
  for look_each; do # the port is p0, a VF pf0vf1; older kernels name no port
    look_text=''
    { IFS= read -r look_text <"$look_each/phys_port_name"; } 2>/dev/null
    case $look_text in
      p[0-9] | p[0-9][0-9]) look_net=$look_each && return ;;
      '') look_net=${look_net:-$look_each} ;;
    esac
  done
  look_net=${look_net:-$1}
}

look_card() {
  look_function nic
  look_link
  look_file vfs "$look_device/sriov_totalvfs"
  look_own_net "$look_device" # a function has one port since ConnectX-4
  if [ -e "$look_net" ]; then
    look_fact netdev "${look_net##*/}"
    look_file state "$look_net/operstate"
    look_file mbit_s "$look_net/speed"
  fi
  for look_rdma in "$look_device"/infiniband/*; do
    [ -e "$look_rdma" ] || continue
    look_fact rdma "${look_rdma##*/}"
    look_file fw_ver "$look_rdma/fw_ver"
    look_file link_layer "$look_rdma/ports/1/link_layer"
    look_file port_state "$look_rdma/ports/1/state"
    look_file rate "$look_rdma/ports/1/rate"
    break
  done
}

look_all() { # SYS : the root of sysfs
  look_at=host
  look_fact seen yes
  look_file nodes "$1/devices/system/node/online"
  for look_device in "$1"/bus/pci/devices/*; do
    # A VF is part of its PF; discovery of an instance that has VFs alone finds them as cards.
    if [ ! -e "$look_device/vendor" ] || [ -e "$look_device/physfn" ]; then continue; fi
    look_at=${look_device##*/}
    look_vendor='' look_class=''
    { IFS= read -r look_vendor <"$look_device/vendor"; IFS= read -r look_class <"$look_device/class"; } 2>/dev/null
    case $look_vendor:$look_class in
      0x15b3:0x0207*) grep -q -s SW_MNG "$look_device/vpd" || look_card ;; # else it manages NVSwitches
      0x15b3:0x02*) look_card ;;
      0x10de:0x03*) look_function gpu ;;
    esac
  done
}
