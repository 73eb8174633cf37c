# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, pci, setting are set by input.sh
# How each setting of a host is read. read_key KEY prints the value; `absent` or `unsupported`
# where there is none.

read_key() {
  read_value=$(read_one "$1")
  printf '%s\n' "${read_value:-unsupported}"
}

read_all() { # FILE OUTPUT : the keys of FILE with the values of now
  forget_readings
  ask_cards
  while IFS= read -r all_line <&7; do
    # Through a file and in this shell: $(...) would be a process for each key, and lose what a
    # reader keeps for the next one.
    read_one "${all_line%%=*}" >"$work/value"
    all_value=''
    IFS= read -r all_value <"$work/value" || :
    printf '%s=%s\n' "${all_line%%=*}" "${all_value:-unsupported}"
  done 7<"$1" >"$2"
}

forget_readings() { # what was kept of the tools' answers, since something may have changed
  rm -rf "$work/hosts_block"
  rm -f "$work"/qos.* "$work"/firmware.* "$work"/driver.* "$work"/kernel.*
}

show() { # FILE : its first line, without a process
  show_line=''
  { IFS= read -r show_line <"$1"; } 2>/dev/null
  [ -z "$show_line" ] || printf '%s\n' "$show_line"
}

read_one() {
  case $1 in
    hostname) read_hostname ;;
    hosts_block) read_hosts_block ;;
    hosts.*) read_host_entry "${1#hosts.}" ;;
    user.*.uid)
      user=${1#user.}
      passwd=$(getent passwd "${user%.uid}") || { echo absent && return; }
      printf '%s\n' "$passwd" | cut -d : -f 3
      ;;
    driver.*) read_driver "${1#driver.}" ;;
    module.* | kernel.* | unit.*.limit_memlock) read_kernel "$1" ;;
    route.*) read_route "${1#route.}" ;;
    vf.*) read_vf "$1" ;;
    docker.*) read_docker "$1" ;;
    unit.railyard-nics.files) boot_files_digest ;;
    unit.railyard-nics.enabled)
      [ -e "$BOOT_UNIT" ] || { echo absent && return; }
      systemctl is-enabled railyard-nics.service 2>/dev/null
      ;;
    nic.*)
      split_nic "$1"
      read_nic "$pci" "$setting"
      ;;
  esac
}

read_hostname() { # the stored and the running name; both where they differ
  stored=$(show /etc/hostname)
  running=$(uname -n)
  if [ "$stored" = "$running" ]; then echo "$running"; else echo "$stored/$running"; fi
}

block_begin() { printf '# railyard %s: begin, do not edit\n' "${stack:-[A-Za-z0-9._-]*}"; }
block_end() { printf '# railyard %s: end\n' "${stack:-[A-Za-z0-9._-]*}"; }

block_lines() { # the entries of our part of /etc/hosts; without a stack, of any of our parts
  sed -n "/^$(block_begin)\$/,/^$(block_end)\$/p" /etc/hosts 2>/dev/null | grep -v '^#'
}

read_hosts_block() { # how many names our part has, and the SHA-256 of its lines
  block_lines >"$work/block"
  if [ -s "$work/block" ]; then
    digest=$(sha256sum <"$work/block")
    echo "$(wc -l <"$work/block") names ${digest%% *}"
  else
    echo absent
  fi
}

read_host_entry() { # NAME : a site of 200 hosts asks 200 times, so the part is read once, to a file a name
  if [ ! -d "$work/hosts_block" ]; then # a search in a text would grow with the cube of the names in dash
    mkdir "$work/hosts_block"
    block_lines | awk -v folder="$work/hosts_block/" '
      $2 != "" && $2 !~ "/" { print $1 >(folder $2); close(folder $2) }'
  fi
  entry=absent
  [ ! -f "$work/hosts_block/$1" ] || IFS= read -r entry <"$work/hosts_block/$1"
  echo "$entry"
}

first_in() { # FOLDER : the name of its first entry
  for entry in "$1"/*; do
    if [ -e "$entry" ]; then echo "${entry##*/}"; else echo absent; fi
    return
  done
}

find_netdev() { # PCI : its network device in $netdev; in switchdev mode those of its VFs lie beside it
  netdev=absent
  set -- "/sys/bus/pci/devices/$1"/net/*
  [ ! -e "$1" ] || netdev=${1##*/}
  [ $# -gt 1 ] || return 0
  netdev=''
  for entry; do # the port is p0, a VF pf0vf1; older kernels name no port
    port_name=''
    { IFS= read -r port_name <"$entry/phys_port_name"; } 2>/dev/null
    case $port_name in
      p[0-9] | p[0-9][0-9]) netdev=${entry##*/} && return ;;
      '') netdev=${netdev:-${entry##*/}} ;;
    esac
  done
  netdev=${netdev:-${1##*/}}
}

netdev_of() { # PCI : the same, printed
  find_netdev "$1"
  echo "$netdev"
}

read_nic() { # PCI SETTING
  device=/sys/bus/pci/devices/$1
  [ -d "$device" ] || { echo absent && return; }
  find_netdev "$1"
  net=/sys/class/net/$netdev
  case $2 in
    netdev) echo "$netdev" ;;
    link) # IFF_UP, the lowest bit of a hexadecimal number
      show "$net/flags" >/dev/null
      case $show_line in *[13579bdf]) echo up ;; 0x*) echo down ;; esac
      ;;
    address) read_addresses "$netdev" ;;
    mtu_bytes) show "$net/mtu" ;;
    *)
      if firmware_key "$2"; then
        read_firmware "$1" "$2"
      elif sriov_key "$2"; then
        read_sriov "$1" "$2"
      else
        read_qos "$1" "$2"
      fi
      ;;
  esac
}

read_addresses() { # NETDEV : all its IPv4 addresses but those of its link alone
  ip -4 addr show dev "$1" 2>/dev/null | awk '$1 == "inet" && $0 ~ /scope global/ { print $2 }' |
    sort | paste -s -d , - | grep . || echo absent
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
