# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, pci, setting are set by input.sh
# How each setting of a host is read. read_key KEY prints the value; `absent` or `unsupported`
# where there is none.

read_key() {
  read_value=$(read_one "$1")
  printf '%s\n' "${read_value:-unsupported}"
}

read_one() {
  case $1 in
    hostname) read_hostname ;;
    hosts.*) read_host_entry "${1#hosts.}" ;;
    user.*.uid)
      user=${1#user.}
      passwd=$(getent passwd "${user%.uid}") || { echo absent && return; }
      printf '%s\n' "$passwd" | cut -d : -f 3
      ;;
    driver.kind) read_driver | cut -d ' ' -f 1 ;;
    driver.version) read_driver | cut -d ' ' -f 2 ;;
    module.*) if [ -d "/sys/module/${1#module.}" ]; then echo loaded; else echo absent; fi ;;
    docker.*) read_docker "$1" ;;
    unit.railyard-nics.files) boot_files_digest ;;
    unit.railyard-nics.enabled)
      [ -e "$BOOT_UNIT" ] || { echo absent && return; }
      systemctl is-enabled railyard-nics.service 2>/dev/null
      ;;
    unit.*.limit_memlock)
      drop_in=$(memlock_file "$1")
      # Of several lines systemd takes the last one.
      if [ -e "$drop_in" ]; then sed -n 's/^LimitMEMLOCK=//p' "$drop_in" | tail -n 1; else echo absent; fi
      ;;
    nic.*)
      split_nic "$1"
      read_nic "$pci" "$setting"
      ;;
  esac
}

read_hostname() { # the stored and the running name; both where they differ
  stored=$(head -n 1 /etc/hostname 2>/dev/null)
  running=$(uname -n)
  if [ "$stored" = "$running" ]; then echo "$running"; else echo "$stored/$running"; fi
}

block_begin() { printf '# railyard %s: begin, do not edit\n' "${stack:-[A-Za-z0-9._-]*}"; }
block_end() { printf '# railyard %s: end\n' "${stack:-[A-Za-z0-9._-]*}"; }

block_lines() { # the entries of our part of /etc/hosts; without a stack, of any of our parts
  sed -n "/^$(block_begin)\$/,/^$(block_end)\$/p" /etc/hosts 2>/dev/null | grep -v '^#'
}

read_host_entry() {
  block_lines | awk -v name="$1" '$2 == name { print $1; found = 1 } END { if (!found) print "absent" }'
}

read_driver() { # "<kind> <version>"
  if release=$(ofed_info -s 2>/dev/null); then
    release=${release%:}
    case $release in
      MLNX_OFED_LINUX-*) echo "mlnx_ofed ${release#MLNX_OFED_LINUX-}" ;;
      *) echo "doca_ofed ${release#OFED-internal-}" ;;
    esac
  elif [ -d /sys/module/mlx5_core ]; then
    echo "inbox $(uname -r)"
  else
    echo 'absent absent'
  fi
}

first_in() { # FOLDER : the name of its first entry
  for entry in "$1"/*; do
    if [ -e "$entry" ]; then echo "${entry##*/}"; else echo absent; fi
    return
  done
}

read_nic() { # PCI SETTING
  device=/sys/bus/pci/devices/$1
  [ -d "$device" ] || { echo absent && return; }
  netdev=$(first_in "$device/net")
  net=/sys/class/net/$netdev
  case $2 in
    netdev) echo "$netdev" ;;
    model) card_model "$1" ;;
    fw_ver) firmware_version "$1" ;;
    ats | ats_current | ats_active) read_ats "$1" "$2" ;;
    link) ip link show dev "$netdev" 2>/dev/null | awk 'NR == 1 { print /[<,]UP[,>]/ ? "up" : "down" }' ;;
    address) read_addresses "$netdev" ;;
    vfs) cat "$device/sriov_numvfs" 2>/dev/null ;;
    mtu_bytes) cat "$net/mtu" 2>/dev/null ;;
    vf_mtu_bytes) read_vf_mtu "$1" ;;
    trust) qos_report "$netdev" | sed -n 's/^Priority trust state: *//p' ;;
    pfc) qos_report "$netdev" | awk '$1 == "enabled" { for (i = 2; i <= 9; i++) if ($i == "1")
      list = list (list == "" ? "" : ",") (i - 2); print list == "" ? "none" : list; exit }' ;;
    dscp*_priority)
      dscp=${2#dscp}
      qos_report "$netdev" | awk -v dscp="${dscp%_priority}" '/prio:[0-7] *dscp:/ {
        split($0, part, /prio:| *dscp:/); count = split(part[3], list, ",")
        for (i = 1; i <= count; i++) if (list[i] ~ /[0-9]/ && list[i] + 0 == dscp) print part[2] }'
      ;;
    ecn_priority_*) read_ecn "$net/ecn" "${2#ecn_priority_}" ;;
    cnp_dscp) cat "$net/ecn/roce_np/cnp_dscp" 2>/dev/null ;;
    cnp_priority) cat "$net/ecn/roce_np/cnp_802p_prio" 2>/dev/null ;;
    roce_mode) rdma_cm "$1" cat default_roce_mode ;;
    roce_tos) rdma_cm "$1" cat default_roce_tos ;;
    global_pause) ethtool -a "$netdev" 2>/dev/null | awk '$1 == "RX:" { rx = $2 }
      $1 == "TX:" { tx = $2 } END { print rx == tx ? rx : (rx == "on" ? "rx" : "tx") }' ;;
  esac
}

read_addresses() { # NETDEV : all its IPv4 addresses but those of its link alone
  ip -4 addr show dev "$1" 2>/dev/null | awk '$1 == "inet" && $0 ~ /scope global/ { print $2 }' |
    sort | paste -s -d , - | grep . || echo absent
}

vf_netdev_count() { # DEVICE : VFs whose network device is here and not in a pod
  vf_count=0
  for entry in "$1"/virtfn*/net/*; do
    if [ -e "$entry" ]; then vf_count=$((vf_count + 1)); fi
  done
  echo "$vf_count"
}

read_vf_mtu() { # PCI : a VF in a pod is out of sight; then what this boot applied stands
  if [ "$(cat "/sys/bus/pci/devices/$1/sriov_numvfs" 2>/dev/null || echo 0)" = 0 ]; then
    echo none
  elif [ "$(vf_netdev_count "/sys/bus/pci/devices/$1")" = 0 ]; then
    cat "/run/railyard/vf_mtu.$1" 2>/dev/null || echo in-use
  else
    cat "/sys/bus/pci/devices/$1"/virtfn*/net/*/mtu | sort -un | paste -s -d , -
  fi
}

qos_report() { # NETDEV : asked once until something is written
  if [ ! -s "$work/qos.$1" ]; then
    mlnx_qos -i "$1" >"$work/qos.$1" 2>/dev/null || { rm -f "$work/qos.$1" && return; }
  fi
  cat "$work/qos.$1"
}

read_ecn() { # FOLDER PRIORITY : notification and reaction point together
  point_np=$(cat "$1/roce_np/enable/$2" 2>/dev/null)
  point_rp=$(cat "$1/roce_rp/enable/$2" 2>/dev/null)
  case $point_np$point_rp in
    11) echo on ;;
    00) echo off ;;
    10) echo np ;;
    01) echo rp ;;
  esac
}

rdma_cm() { # PCI COMMAND FILE : the folder of configfs binds the device; values stay without it
  rdma_cm_dir=/sys/kernel/config/rdma_cm/$(first_in "/sys/bus/pci/devices/$1/infiniband")
  if [ -d "$rdma_cm_dir" ]; then
    "$2" "$rdma_cm_dir/ports/1/$3" 2>&1
  elif mkdir "$rdma_cm_dir" 2>/dev/null; then
    "$2" "$rdma_cm_dir/ports/1/$3" 2>&1
    rdma_cm_status=$?
    rmdir "$rdma_cm_dir"
    return "$rdma_cm_status"
  else
    return 1
  fi
}

BOOT_UNIT=/etc/systemd/system/railyard-nics.service
BOOT_SCRIPT=/usr/local/lib/railyard/nics.sh
BOOT_CONFIG=/etc/railyard/nics.conf

boot_files_digest() {
  if [ -e "$BOOT_UNIT" ] && [ -e "$BOOT_SCRIPT" ] && [ -e "$BOOT_CONFIG" ]; then
    cat "$BOOT_UNIT" "$BOOT_SCRIPT" "$BOOT_CONFIG" | sha256sum | cut -c 1-16
  elif [ -e "$BOOT_UNIT" ] || [ -e "$BOOT_SCRIPT" ] || [ -e "$BOOT_CONFIG" ]; then
    echo incomplete
  else
    echo absent
  fi
}

memlock_file() { # unit.<unit>.limit_memlock
  memlock_unit=${1#unit.}
  echo "/etc/systemd/system/${memlock_unit%.limit_memlock}.service.d/10-railyard-memlock.conf"
}
