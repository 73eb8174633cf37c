# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, netdev, ... are set by input.sh and reading.sh
# What a PF and its RDMA device are called, by PCI address, from the next boot on: systemd.link(5), and a
# udev rule with rdma-core's rdma_rename. A device that is up is not renamed. The rule must run before
# rdma-core's own 60-rdma-persistent-naming.rules (kernel-boot/CMakeLists.txt of v50.0), which renames mlx5_0,
# and rdma_rename then finds no mlx5_0 any more. NAME_FIXED came with rdma-core 36.
# Also whether NetworkManager may have a card (sources.md#network-manager). It reads NM_UNMANAGED of udev when a
# device appears, and no later: the rule is for boots, new VFs and VFs that a pod gives back. What it has already
# is taken from it by nmcli, which ends its DHCP and leaves link and addresses as they are.

name_file() { # PCI boot_name|boot_rdma|network_manager : in $name_file
  case $2 in
    boot_name*) name_file=/etc/systemd/network/10-railyard-$1.link ;;
    network_manager) name_file=/etc/udev/rules.d/86-railyard-network-manager-$1.rules ;;
    *) name_file=/etc/udev/rules.d/59-railyard-rdma-$1.rules ;;
  esac
}

find_boot_name() { # PCI SETTING
  case $2 in
    boot_name_current) value=$netdev && return ;;
    boot_rdma_current) find_first "/sys/bus/pci/devices/$1/infiniband" && return ;;
  esac
  name_file "$1" "$2"
  value=absent
  [ -e "$name_file" ] || return 0
  while IFS= read -r name_line || [ -n "$name_line" ]; do
    case $name_line in
      Name=*) value=${name_line#Name=} ;;
      *NAME_FIXED\ *) value=${name_line##*NAME_FIXED } && value=${value%\"*} ;;
    esac
  done <"$name_file"
}

write_boot_name() { # PCI SETTING NAME|absent
  name_file "$1" "$2"
  case $3 in
    absent)
      rm -f "$name_file"
      note "$2 of $1 goes back at the next boot: a device that is up keeps its name"
      return
      ;;
  esac
  refuse_taken_name "$1" "$2" "$3"
  [ "$2" != boot_rdma ] || require_rdma_rename
  (umask 022 && mkdir -p "${name_file%/*}")
  case $2 in
    boot_name) printf '[Match]\nPath=pci-%s\n\n[Link]\nName=%s\n' "$1" "$3" >"$name_file" ;;
    *)
      printf 'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="%s", PROGRAM="rdma_rename %%k NAME_FIXED %s"\n' \
        "$1" "$3" >"$name_file"
      ;;
  esac || fail "cannot write $name_file"
  chmod 0644 "$name_file"
  find_boot_name "$1" "${2}_current"
  [ "$value" = "$3" ] || reboot_required=true
}

refuse_taken_name() { # PCI SETTING NAME : udev does not take a name away from another device
  case $2 in boot_name) taken_by=/sys/class/net/$3/device ;; *) taken_by=/sys/class/infiniband/$3/device ;; esac
  [ -e "${taken_by%/device}" ] || return 0
  taken_by=$(readlink -f "$taken_by")
  [ "${taken_by##*/}" != "$1" ] || return 0
  fail "$1 cannot be called $3: $(echo "${taken_by##*/}" | grep : || echo 'another device') of this host has the" \
    'name now. Choose another one in hosts[].nics'
}

require_rdma_rename() {
  for rename in /usr/lib/udev/rdma_rename /lib/udev/rdma_rename; do
    ! grep -q NAME_FIXED "$rename" 2>/dev/null || return 0
  done
  fail 'RDMA devices cannot be renamed: no rdma_rename of this host knows NAME_FIXED, which rdma-core 36 and' \
    'later has. Update rdma-core, or remove rdma: from hosts[].nics'
}

find_nm_rule() { # PCI : $nm_rule of $name_file, for the card's own device and its VFs, which are not below it in /sys
  name_file "$1" network_manager
  nm_when='SUBSYSTEM=="net", ACTION=="add|change|move",'
  nm_rule="$nm_when KERNELS==\"$1\", ENV{NM_UNMANAGED}=\"1\"$newline"
  nm_rule="$nm_rule$nm_when ATTR{device/physfn/uevent}==\"*PCI_SLOT_NAME=$1*\", ENV{NM_UNMANAGED}=\"1\"$newline"
}

find_network_manager() { # PCI : `off` with our rule, else `absent`; `managed` while NetworkManager has the card
  find_nm_rule "$1"
  nm_text=''
  [ ! -e "$name_file" ] || while IFS= read -r nm_line; do nm_text=$nm_text$nm_line$newline; done <"$name_file"
  case $nm_text in "$nm_rule") value=off ;; '') value=absent ;; *) value=altered ;; esac
  nm_manages "$netdev" || return 0
  find_addresses "$netdev"
  case $value in absent | "$(value_of "nic.$1.address" "$work/desired")") value='' ;; *) value=", has $value" ;; esac
  [ ! -e "/sys/class/net/$netdev/master" ] || value=', is part of a bond or bridge'
  case $(ip route show default) in *" dev $netdev "*) value=', has the default route' ;; esac
  [ "$restoring" = no ] || value='' # of the host's own before
  value=managed$value
}

nm_manages() { # NETDEV : asked once a reading
  [ -e "$work/qos.nm" ] || { command -v nmcli && nmcli -t -f DEVICE,STATE device; } >"$work/qos.nm" 2>/dev/null
  [ -s "$work/qos.nm" ] && grep "^$1:" "$work/qos.nm" | grep -q -v ':unmanaged$'
}

write_network_manager() { # PCI off|absent|managed
  find_nm_rule "$1"
  case $2 in
    off) (umask 022 && mkdir -p "${name_file%/*}" && printf '%s' "$nm_rule" >"$name_file") ||
      fail "cannot write $name_file" ;;
    *) rm -f "$name_file" ;;
  esac
  run udevadm control --reload
  for nm_net in "/sys/bus/pci/devices/$1"/net/* "/sys/bus/pci/devices/$1"/virtfn*/net/*; do
    case $2:$nm_net in
      *:*'*') ;;
      managed:*) run nmcli device set "${nm_net##*/}" managed yes ;;
      off:*) ! nm_manages "${nm_net##*/}" || run nmcli device set "${nm_net##*/}" managed no ;;
    esac
  done
  rm -f "$work/qos.nm"
}

refuse_managed() { # what NetworkManager set up on a card, and the file does not have, would not be there after a boot
  ! grep -m 1 '\.network_manager=managed,' "$work/actual" >"$work/nm_kept" ||
    fail "$(cat "$work/nm_kept"), from NetworkManager: give the host another way first if it is reached over the" \
      'card, then delete its profile of the card, with the address in hosts[].nics[].address if it shall stay,' \
      'or set host_defaults.manage.network_manager: false'
}
