# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, netdev, ... are set by input.sh and reading.sh
# What a PF and its RDMA device are called, by PCI address, from the next boot on: systemd.link(5), and a
# udev rule with rdma-core's rdma_rename. A device that is up is not renamed. The rule must run before
# rdma-core's own 60-rdma-persistent-naming.rules (kernel-boot/CMakeLists.txt of v50.0), which renames mlx5_0,
# and rdma_rename then finds no mlx5_0 any more. NAME_FIXED came with rdma-core 36.

name_file() { # PCI boot_name|boot_rdma : in $name_file
  case $2 in
    boot_name*) name_file=/etc/systemd/network/10-railyard-$1.link ;;
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
