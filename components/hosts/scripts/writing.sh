# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, ... are set by input.sh, the boot texts by the caller
# shellcheck disable=SC2034 # reload_units, restart_units, changed are read by the scripts
# How each setting of a host is written. write_key KEY VALUE changes it, or ends with the reason.

write_key() { # KEY VALUE : called in the main shell, so that fail ends the run
  case $1 in
    hostname) write_hostname "$2" ;;
    hosts.*) write_host_entry "${1#hosts.}" "$2" ;;
    user.*.uid)
      user=${1#user.}
      write_user "${user%.uid}" "$2"
      ;;
    driver.*) write_driver "$1" "$2" ;;
    docker.*) write_docker "$1" "$2" ;;
    module.*) write_module "${1#module.}" "$2" ;;
    unit.railyard-nics.files) write_boot_files "$2" ;;
    unit.railyard-nics.enabled) write_boot_enabled "$2" ;;
    unit.*.limit_memlock) write_memlock "$1" "$2" ;;
    nic.*)
      split_nic "$1"
      write_nic "$pci" "$setting" "$2"
      ;;
  esac
}

write_hostname() { # NAME, or STORED/RUNNING as it was recorded
  stored=${1%%/*}
  if [ -n "$stored" ]; then
    put "$stored" /etc/hostname
    chmod 0644 /etc/hostname
  else
    rm -f /etc/hostname
  fi
  run hostname "${1##*/}"
}

write_host_entry() { # NAME ADDRESS|absent
  [ -e /etc/hosts ] || { : >/etc/hosts && chmod 0644 /etc/hosts; }
  # Without its end our part would reach to the end of the file, and all of that would be deleted.
  [ "$(grep -c "^$(block_begin)\$" /etc/hosts)" = "$(grep -c "^$(block_end)\$" /etc/hosts)" ] ||
    fail "the part of /etc/hosts between '$(block_begin)' and '$(block_end)' lost one of these" \
      'two lines; put it back or delete the part, then run again'
  { block_lines | awk -v name="$1" '$2 != name'
    [ "$2" = absent ] || echo "$2 $1"; } | sort -k 2 >"$work/block"
  sed "/^$(block_begin)\$/,/^$(block_end)\$/d" /etc/hosts >"$work/hosts"
  if [ -s "$work/block" ]; then
    last=$(tail -c 1 "$work/hosts")
    { [ -z "$last" ] || echo
      block_begin
      cat "$work/block"
      block_end; } >>"$work/hosts"
  elif [ -e "/var/lib/railyard/$stack/hosts.orig" ] &&
    [ "$(cat "$work/hosts")" = "$(cat "/var/lib/railyard/$stack/hosts.orig")" ]; then
    cp "/var/lib/railyard/$stack/hosts.orig" "$work/hosts" # the same to the last newline
  fi
  cat "$work/hosts" >/etc/hosts || fail 'cannot write /etc/hosts'
}

write_user() { # NAME UID|absent
  if [ "$2" = absent ]; then
    run userdel "$1" # its home folder stays: it may hold data
  elif getent passwd "$1" >/dev/null; then
    user_output=$(usermod -u "$2" "$1" 2>&1) ||
      fail "the uid of $1 cannot become $2: $user_output. A user who is logged in keeps the uid:" \
        'log in as another user (hosts[].ssh.user), or name the uid it has in host_defaults.user'
  else
    run useradd -m -s /bin/bash -u "$2" "$1"
  fi
}

write_driver() { # KEY VALUE
  case $1:$2 in
    driver.kind:inbox)
      fail "driver.kind is '$(read_key driver.kind)', want inbox: Railyard does not remove driver" \
        'packages; remove them (ofed_uninstall.sh), or name the package in host_defaults.driver'
      ;;
    *) install_driver ;;
  esac
}

install_driver() { # a firmware update is never a side effect of a driver
  [ "$reboot_required" = false ] || return 0
  package=$driver_source
  case $driver_source in
    https://*)
      package=$work/${driver_source##*/}
      run curl -fsSL --proto =https --retry 3 -o "$package" "$driver_source"
      ;;
    /*) [ -r "$package" ] || fail "driver package $package is not on this host" ;;
    *) fail "driver_source '$driver_source' is neither an absolute path nor an https address" ;;
  esac
  found=$(sha256sum "$package" | cut -d ' ' -f 1)
  [ "$found" = "$driver_sha256" ] ||
    fail "checksum of $driver_source is $found, want $driver_sha256; nothing was installed"
  umask 022 # packages expect it; what follows sets its own modes
  export DEBIAN_FRONTEND=noninteractive
  case $package in
    *.deb)
      run dpkg -i "$package"
      run apt-get -o DPkg::Lock::Timeout=600 update
      run apt-get -o DPkg::Lock::Timeout=600 -y install doca-ofed
      ;;
    *.rpm)
      run rpm -U --replacepkgs "$package"
      run dnf -y install doca-ofed
      ;;
    *.tgz)
      mkdir "$work/driver"
      run tar -xzf "$package" -C "$work/driver" --strip-components=1
      run "$work/driver/mlnxofedinstall" --without-fw-update --force -q
      ;;
    *) fail "$driver_source is none of .deb, .rpm, .tgz" ;;
  esac
  reboot_required=true # the loaded modules are still the old ones
  restart_driver
}

restart_driver() { # loads the new modules without a reboot, where nothing else holds the old ones
  [ -x /etc/init.d/openibd ] || return 0
  # The session may ride on a card: openibd would cut it, and this script with it.
  uplink=$(ip route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
  case $(readlink "/sys/class/net/${uplink:-none}/device/driver") in */mlx5_core) return 0 ;; esac
  [ ! -d /sys/module/nvidia_peermem ] || run modprobe -r nvidia_peermem # it holds ib_uverbs
  /etc/init.d/openibd restart >"$work/openibd" 2>&1 || return 0
  [ "$(cat /sys/module/mlx5_core/srcversion 2>/dev/null)" != "$(modinfo -F srcversion mlx5_core)" ] ||
    reboot_required=false
}

write_module() { # NAME loaded|absent
  if [ "$2" = absent ]; then
    run modprobe -r "$1"
    return
  fi
  [ "$1" != nvidia_peermem ] || [ ! -d /sys/module/nv_peer_mem ] ||
    fail 'the old module nv_peer_mem is loaded, and nvidia_peermem takes its place: remove its' \
      'package (nvidia-peer-memory-dkms) and unload it with modprobe -r nv_peer_mem; it is not ours to remove'
  module_output=$(modprobe "$1" 2>&1) || case $1 in
    nvidia_peermem)
      fail "modprobe nvidia_peermem: $module_output. Its GPU driver was built before the RDMA" \
        'driver, or the RDMA driver is inbox: rebuild it, or set host_defaults.peermem: false (DMA-BUF)'
      ;;
    *) fail "modprobe $1: $module_output" ;;
  esac
}

write_memlock() { # KEY VALUE|absent
  drop_in=$(memlock_file "$1")
  unit=$(basename "${drop_in%/*}" .service.d)
  if [ "$2" = absent ]; then
    rm -f "$drop_in"
    rmdir "${drop_in%/*}" 2>/dev/null
  else
    (umask 022 && mkdir -p "${drop_in%/*}")
    printf '[Service]\nLimitMEMLOCK=%s\n' "$2" >"$drop_in" || fail "cannot write $drop_in"
    chmod 0644 "$drop_in"
  fi
  reload_units=yes
  restart_units="$restart_units $unit"
}

write_nic() { # PCI SETTING VALUE
  device=/sys/bus/pci/devices/$1
  [ -d "$device" ] || fail "there is no PCI device $1 on this host; see lspci -D -d 15b3:"
  netdev=$(first_in "$device/net")
  net=/sys/class/net/$netdev
  case $2 in
    netdev)
      fail "the card at $1 is called $netdev, want $3: write the name that the host uses in" \
        'hosts[].nics[].netdev (an NVIDIA driver package strips np0 from the kernel name)'
      ;;
    model) refuse_model "$1" "$3" ;;
    ats) write_ats "$1" "$3" ;;
    fw_ver | ats_current | ats_active) fail "$2 of $1 can be read, not set" ;;
    link) run ip link set dev "$netdev" "$3" ;;
    address) write_address "$1" "$netdev" "$3" ;;
    vfs) write_vfs "$1" "$device" "$3" ;;
    mtu_bytes) put "$3" "$net/mtu" ;;
    vf_mtu_bytes) write_vf_mtu "$1" "$3" ;;
    trust | pfc | dscp*_priority) write_qos "$netdev" "$2" "$3" ;;
    ecn_priority_* | cnp_*) write_ecn "$net/ecn" "$2" "$3" ;;
    roce_*) write_rdma_cm "$1" "$2" "$3" ;;
    global_pause) write_pause "$netdev" "$3" ;;
  esac
}

refuse_address() { # PCI NETDEV WANTED CIDR,... : one that was here before us is the system's own
  case $3 in absent) return 0 ;; esac
  for address in $(printf '%s\n' "${4:-absent}" | tr , ' '); do
    case $address,$(read_addresses "$2"), in
      absent,* | "$3",*) ;;
      *,"$address",*) fail "$2 has $address from the system's own configuration (netplan, ifupdown)," \
        "want $3: take it out there and with ip addr del, or write it in hosts[].nics[].address" ;;
    esac
  done
}

write_address() { # PCI NETDEV CIDR[,CIDR]|absent
  refuse_address "$1" "$2" "$3" "$(value_of "nic.$1.address" "${state_dir:-/none}/baseline" 2>/dev/null)"
  if [ -n "${state_dir:-}" ]; then # at boot nothing is taken away: it is not known whose it is
    for address in $(read_addresses "$2" | tr , ' '); do
      case ,$3, in *",$address,"*) ;; *) [ "$address" = absent ] || run ip addr del "$address" dev "$2" ;; esac
    done
  fi
  [ "$3" != absent ] || return 0
  for address in $(printf '%s\n' "$3" | tr , ' '); do
    case ,$(read_addresses "$2"), in *",$address,"*) ;; *) run ip addr add "$address" dev "$2" ;; esac
  done
}

write_vfs() { # PCI DEVICE COUNT
  [ -e "$2/sriov_totalvfs" ] ||
    fail "the card at $1 offers no VFs (no sriov_totalvfs): switch on SR-IOV and the IOMMU in the" \
      "BIOS, and SRIOV_EN in the firmware (mlxconfig -d $1 set SRIOV_EN=1 NUM_OF_VFS=$3), then reboot"
  total=$(cat "$2/sriov_totalvfs")
  [ "$total" -ge "$3" ] ||
    fail "the card at $1 offers $total VFs, want $3: mlxconfig -d $1 set SRIOV_EN=1 NUM_OF_VFS=$3," \
      'then reboot; with 0 also switch on SR-IOV and the IOMMU in the BIOS'
  now=$(cat "$2/sriov_numvfs")
  if [ "$now" != 0 ]; then
    here=$(vf_netdev_count "$2")
    [ "$here" = "$now" ] ||
      fail "$((now - here)) of the $now VFs of $1 are in use by pods; drain this node, then run again"
    put 0 "$2/sriov_numvfs" # the kernel refuses N to M with EBUSY
  fi
  [ "$3" = 0 ] && return
  put "$3" "$2/sriov_numvfs"
  waited_s=0
  while [ "$(vf_netdev_count "$2")" != "$3" ]; do # the driver probes VFs after the write returns
    [ "$waited_s" -lt 60 ] ||
      fail "only $(vf_netdev_count "$2") of $3 VFs of $1 have a network device after 60 s; see dmesg"
    sleep 1
    waited_s=$((waited_s + 1))
  done
}

write_vf_mtu() { # PCI BYTES
  case $2 in *[!0-9]*) return ;; esac # recorded as none or in-use: nothing to put back
  for vf in "/sys/bus/pci/devices/$1"/virtfn*/net/*; do
    [ ! -e "$vf/mtu" ] || put "$2" "$vf/mtu"
  done
  mkdir -p /run/railyard
  put "$2" "/run/railyard/vf_mtu.$1"
}

write_qos() { # NETDEV SETTING VALUE
  command -v mlnx_qos >/dev/null ||
    fail "cannot set $2 of $1: mlnx_qos is not on this host; install mlnx-tools (part of" \
      'DOCA-OFED and MLNX_OFED, or the Debian package), or take the RDMA driver from there'
  rm -f "$work/qos.$1"
  case $2 in
    trust) run mlnx_qos -i "$1" --trust "$3" ;;
    pfc)
      run mlnx_qos -i "$1" --pfc "$(awk -v on=",$3," 'BEGIN { for (i = 0; i < 8; i++)
        printf "%s%d", i ? "," : "", (index(on, "," i ",") > 0) }')"
      ;;
    dscp*_priority)
      dscp=${2#dscp}
      run mlnx_qos -i "$1" --dscp2prio "set,${dscp%_priority},$3"
      ;;
  esac
}

write_ecn() { # FOLDER SETTING VALUE
  [ -d "$1" ] ||
    fail "$1 does not exist: ECN of RoCE is set through NVIDIA's driver (DOCA-OFED or MLNX_OFED);" \
      'name its package in host_defaults.driver'
  case $2 in
    cnp_dscp) put "$3" "$1/roce_np/cnp_dscp" ;;
    cnp_priority) put "$3" "$1/roce_np/cnp_802p_prio" ;;
    *)
      case $3 in on | np) put 1 "$1/roce_np/enable/${2##*_}" ;; *) put 0 "$1/roce_np/enable/${2##*_}" ;; esac
      case $3 in on | rp) put 1 "$1/roce_rp/enable/${2##*_}" ;; *) put 0 "$1/roce_rp/enable/${2##*_}" ;; esac
      ;;
  esac
}

tee_wanted() { printf '%s\n' "$rdma_cm_wanted" | tee "$1" >/dev/null; }

write_rdma_cm() { # PCI roce_mode|roce_tos VALUE
  rdma_cm_wanted=$3
  rdma_cm "$1" tee_wanted "default_$2" >"$work/rdma_cm" ||
    fail "cannot set $2 of $1: $(cat "$work/rdma_cm") (module rdma_cm and configfs are needed)"
}

write_pause() { # NETDEV on|off|rx|tx : ethtool -A may fail though it applied; reading again decides
  case $2 in on | rx) pause_rx=on ;; *) pause_rx=off ;; esac
  case $2 in on | tx) pause_tx=on ;; *) pause_tx=off ;; esac
  ethtool -A "$1" rx "$pause_rx" tx "$pause_tx" >/dev/null 2>&1 || :
}

write_boot_files() { # DIGEST|absent
  if [ "$1" = absent ]; then
    rm -f "$BOOT_UNIT" "$BOOT_SCRIPT" "$BOOT_CONFIG"
    rmdir "${BOOT_SCRIPT%/*}" "${BOOT_CONFIG%/*}" 2>/dev/null
  else
    (umask 022 && mkdir -p "${BOOT_UNIT%/*}" "${BOOT_SCRIPT%/*}" "${BOOT_CONFIG%/*}")
    printf '%s\n' "$boot_unit_text" >"$BOOT_UNIT" || fail "cannot write $BOOT_UNIT"
    printf '%s\n' "$boot_script_text" >"$BOOT_SCRIPT" || fail "cannot write $BOOT_SCRIPT"
    grep -E '^(nic|module)\.' "$work/desired" | grep -v -E '^nic\.[^=]*\.(ats|model)=' |
      sort >"$BOOT_CONFIG" || fail "cannot write $BOOT_CONFIG"
    chmod 0644 "$BOOT_UNIT" "$BOOT_SCRIPT" "$BOOT_CONFIG"
  fi
  run systemctl daemon-reload
}

write_boot_enabled() { # enabled|disabled|absent
  if [ "$1" = enabled ]; then
    run systemctl enable railyard-nics.service
  elif [ -e "$BOOT_UNIT" ]; then
    run systemctl disable --now railyard-nics.service
  fi
}
