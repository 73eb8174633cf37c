# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, pci, setting are set by input.sh
# How each setting of a host is read. A process for each key would make a site of hundreds of hosts
# slow, so find_... leaves what it found in $value (or in the variable that it names), in this shell;
# read_... prints it. find_value KEY gives `absent` or `unsupported` where there is no value.

newline='
'
reading_all=no
card_read='' # while all is read, the card whose device is looked up

find_value() { # KEY
  value=''
  find_one "$1"
  value=${value:-unsupported}
}

read_key() { # KEY
  find_value "$1"
  printf '%s\n' "$value"
}

read_all() { # FILE OUTPUT [DIFFER] : the keys of FILE with the values of now; the lines of FILE that are otherwise
  forget_readings
  ask_cards
  reading_all=yes
  while IFS= read -r all_line <&7; do
    find_value "${all_line%%=*}"
    case $value in *"$newline"*) value=${value%%"$newline"*} ;; esac
    printf '%s=%s\n' "${all_line%%=*}" "$value" >&6
    [ "$value" = "${all_line#*=}" ] || printf '%s\n' "$all_line" >&5
  done 7<"$1" 6>"$2" 5>"${3:-/dev/null}"
  reading_all=no
}

# shellcheck disable=SC2034 # qos.sh and vfs.sh ask
forget_answers() { # of the tools in this shell's variables, since a shell below this one may have written
  card_read=''
  qos_read=''
  vf_rows=''
}

forget_readings() { # what was kept of the tools' answers, since something may have changed
  forget_answers
  for kept_file in "$work"/hosts_block "$work"/qos.* "$work"/firmware.* "$work"/driver.* "$work"/kernel.*; do
    [ -e "$kept_file" ] || continue
    rm -rf "$work"/hosts_block "$work"/qos.* "$work"/firmware.* "$work"/driver.* "$work"/kernel.*
    return
  done
}

find_line() { # FILE [WHERE IT CANNOT BE READ] : its first line
  value=''
  { IFS= read -r value <"$1"; } 2>/dev/null || [ -n "$value" ] || [ -r "$1" ] || value=${2:-}
}

find_one() { # KEY
  find_part "$1"
  case $key_part in
    system) find_system "$1" ;;
    driver) find_driver "${1#driver.}" ;;
    docker) value=$(read_docker "$1") ;;
    kernel) find_kernel "$1" ;;
    pci) find_pci "$1" ;;
    routing) find_route "${1#route.}" ;;
    vfs) find_vf "$1" ;;
    card | firmware | sriov | qos)
      split_nic "$1"
      find_nic "$pci" "$setting"
      ;;
  esac
}

is_unsupported() { # KEY
  find_value "$1"
  [ "$value" = unsupported ]
}

find_system() { # KEY
  case $1 in
    hostname) find_hostname ;;
    hosts_block) find_hosts_block ;;
    hosts.*) find_host_entry "${1#hosts.}" ;;
    user.*) find_uid "$1" ;;
    *.files) find_boot_files_digest ;;
    *.enabled)
      value=absent
      [ ! -e "$BOOT_UNIT" ] || value=$(systemctl is-enabled railyard-nics.service 2>/dev/null)
      ;;
  esac
}

find_uid() { # user.<name>.uid
  user=${1#user.}
  value=$(getent passwd "${user%.uid}") || { value=absent && return; }
  value=${value#*:*:}
  value=${value%%:*}
}

find_owner() { # UID : the name of the user who has it, or nothing
  value=$(getent passwd "$1") || value=''
  value=${value%%:*}
}

find_hostname() { # the stored and the running name; both where they differ
  find_line /etc/hostname
  running=$(uname -n)
  [ "$value" = "$running" ] || value=$value/$running
}

find_block_marks() { # the first and the last line of our part of /etc/hosts; without a stack, of any of our parts
  block_begin="# railyard ${stack:-[A-Za-z0-9._-]*}: begin, do not edit"
  block_end="# railyard ${stack:-[A-Za-z0-9._-]*}: end"
}

has_block() {
  find_block_marks
  grep -q "^$block_begin\$" /etc/hosts
}

find_hosts_block() { # how many lines our part has, and their SHA-256; `incomplete` where its last line is gone
  find_block_marks
  value=absent
  : >"$work/block"
  : >"$work/count"
  [ ! -e /etc/hosts ] || awk -v begin="^$block_begin\$" -v end="^$block_end\$" -v block="$work/block" '
    $0 ~ begin { begins++; ours = 1; next }
    $0 ~ end { ends++; ours = 0 }
    ours { print >block; count++ }
    END { print begins == ends ? count + 0 : "incomplete" }' /etc/hosts >"$work/count"
  find_line "$work/count" 0
  case $value in incomplete) return ;; esac
  block_lines=$value
  value=absent
  [ -s "$work/block" ] || return 0
  sha256sum <"$work/block" >"$work/digest"
  find_line "$work/digest"
  value="$block_lines names ${value%% *}"
}

find_host_entry() { # NAME : a site of 200 hosts asks 200 times, so the part is read once, to a file a name
  if [ ! -d "$work/hosts_block" ]; then # a search in a text would grow with the cube of the names in dash
    mkdir "$work/hosts_block"
    find_block_marks
    # What is more than an address and its name is shown whole: other words, and further lines.
    [ ! -e /etc/hosts ] || awk -v begin="^$block_begin\$" -v end="^$block_end\$" -v folder="$work/hosts_block/" '
      $0 ~ begin { begins++; ours = 1 }
      ours && !/^#/ && $2 != "" && $2 !~ "/" {
        entry = $0 == $1 " " $2 ? $1 : $0
        gsub(/[[:cntrl:]]/, " ", entry)
        if ($2 in entries) entry = entries[$2] "," entry
        entries[$2] = entry }
      $0 ~ end { ends++; ours = 0 }
      END {
        for (name in entries) { print entries[name] >(folder name); close(folder name) }
        if (begins != ends) print "incomplete" >(folder " ") }' /etc/hosts
  fi
  value=absent
  for entry_file in "$work/hosts_block/ " "$work/hosts_block/$1"; do # no name is a blank
    [ ! -f "$entry_file" ] || { IFS= read -r value <"$entry_file" && return; }
  done
}

find_first() { # FOLDER : the name of its first entry
  value=absent
  for first_entry in "$1"/*; do
    [ ! -e "$first_entry" ] || value=${first_entry##*/}
    return 0
  done
}

printed() { # FUNCTION ARGUMENTS... : the value that it finds
  "$@"
  echo "$value"
}

find_netdev() { # PCI : its network device in $netdev
  netdev=absent
  card_read=''
  look_own_net "/sys/bus/pci/devices/$1"
  [ ! -e "$look_net" ] || netdev=${look_net##*/}
}

find_nic() { # PCI SETTING : the settings of a card are read one after another, and its device is looked up once
  if [ "$card_read" != "$1" ] || [ "$reading_all" = no ]; then
    device=/sys/bus/pci/devices/$1
    [ -d "$device" ] || { value=absent && return; }
    find_netdev "$1"
    net=/sys/class/net/$netdev
    card_read=$1
  fi
  case $key_part:$2 in
    firmware:*) find_firmware "$1" "$2" ;;
    sriov:*) find_sriov "$1" "$2" ;;
    *:adaptive_routing) find_spreading "$1" ;;
    qos:*) find_qos "$1" "$2" ;;
    *:netdev) value=$netdev ;;
    *:boot_*) find_boot_name "$1" "$2" ;;
    *:network_manager) find_network_manager "$1" ;;
    *:link) # IFF_UP, the lowest bit of a hexadecimal number
      find_line "$net/flags"
      case $value in *[13579bdf]) value=up ;; 0x*) value=down ;; *) value='' ;; esac
      ;;
    *:address) find_addresses "$netdev" ;;
    *:mtu_bytes) find_line "$net/mtu" ;;
  esac
}

find_addresses() { # NETDEV : all its IPv4 addresses but those of its link alone, one after the other by commas
  ip -4 addr show dev "$1" >"$work/addr" 2>/dev/null
  value=''
  while read -r addr_word addr_cidr addr_rest || [ -n "$addr_word" ]; do
    case $addr_word:$addr_rest in inet:*'scope global'*) value=$value${value:+,}$addr_cidr ;; esac
  done <"$work/addr"
  case $value in
    '') value=absent ;;
    *,*) value=$(printf '%s\n' "$value" | tr , '\n' | sort | paste -s -d , -) ;;
  esac
}

BOOT_UNIT=/etc/systemd/system/railyard-nics.service
BOOT_SCRIPT=/usr/local/lib/railyard/nics.sh
BOOT_CONFIG=/etc/railyard/nics.conf

find_boot_files_digest() {
  if [ -e "$BOOT_UNIT" ] && [ -e "$BOOT_SCRIPT" ] && [ -e "$BOOT_CONFIG" ]; then
    cat "$BOOT_UNIT" "$BOOT_SCRIPT" "$BOOT_CONFIG" | sha256sum >"$work/digest"
    find_line "$work/digest"
    value=${value%"${value#????????????????}"}
  elif [ -e "$BOOT_UNIT" ] || [ -e "$BOOT_SCRIPT" ] || [ -e "$BOOT_CONFIG" ]; then
    value=incomplete
  else
    value=absent
  fi
}
