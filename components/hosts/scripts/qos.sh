# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, ... are set by input.sh
# RoCE's quality of service on a PF: DCBX, trust, PFC, buffers, DSCP map, ECN, CNP, RDMA-CM's mode and
# ToS, the traffic class of raw verbs, and the RoCE v2 GID of its address.

qos_key() { # SETTING of a PF
  case $1 in
    trust | pfc | global_pause | cnp_dscp | cnp_priority | roce_mode | roce_tos) ;;
    dcbx | lldpad | cable_length_m | buffers | traffic_class | gid) ;;
    ecn_priority_[0-7] | dscp[0-9]_priority | dscp[1-6][0-9]_priority) ;;
    *) return 1 ;;
  esac
}

qos_value() { # KEY VALUE
  case $1 in
    vf.*) ;;
    *.dcbx) [ "$2" = os ] || [ "$2" = fw ] ;;
    *.lldpad) [ "$2" = absent ] ;;
    *.cable_length_m) number "$2" 1 999 ;;
    *.buffers) case $2 in *[!0-9,/]*) return 1 ;; *,*,*,*,*,*,*,*/*,*,*,*,*,*,*,*) ;; *) return 1 ;; esac ;;
    *.traffic_class) number "$2" 0 255 ;;
    *.gid) [ "$2" = 'RoCE v2' ] ;;
    *.cnp_dscp) number "$2" 0 63 ;;
    *.cnp_priority | *.dscp*_priority) number "$2" 0 7 ;;
    *.roce_tos) number "$2" 0 255 ;;
    *.trust) [ "$2" = dscp ] || [ "$2" = pcp ] ;;
    *.global_pause | *.ecn_priority_*) [ "$2" = on ] || [ "$2" = off ] ;;
    *.pfc) case $2 in none) ;; *[!0-7,]*) return 1 ;; esac ;;
  esac
}

read_qos() { # PCI SETTING
  find_netdev "$1"
  net=/sys/class/net/$netdev
  case $2 in dcbx | lldpad | cable_length_m | buffers | trust | dscp*_priority) qos_ask "$netdev" ;; esac
  case $2 in
    dcbx) sed -n -e 's/^DCBX mode: OS controlled.*/os/p' -e 's/^DCBX mode: Firmware controlled.*/fw/p' "$qos_answer" ;;
    lldpad) awk '/WARNING: lldpad/ { found = 1 } END { if (NR) print found ? "running" : "absent" }' "$qos_answer" ;;
    cable_length_m) sed -n 's/^Cable len: *//p' "$qos_answer" ;;
    buffers) awk '/^Receive buffer size/ { size = $5; sub(/,[a-z].*$/, "", size) }
      $1 == "buffer" && size != "" { for (i = 2; i <= 9; i++) list = list (i > 2 ? "," : "/") $i; print size list; exit }' "$qos_answer" ;;
    traffic_class) read_traffic_class "/sys/bus/pci/devices/$1/infiniband" ;;
    gid) read_gid "$1" "$netdev" ;;
    trust) sed -n 's/^Priority trust state: *//p' "$qos_answer" ;;
    pfc) read_pfc "$netdev" ;;
    dscp*_priority)
      dscp=${2#dscp}
      awk -v dscp="${dscp%_priority}" '/prio:[0-7] *dscp:/ {
        split($0, part, /prio:| *dscp:/); count = split(part[3], list, ",")
        for (i = 1; i <= count; i++) if (list[i] ~ /[0-9]/ && list[i] + 0 == dscp) print part[2] }' "$qos_answer"
      ;;
    ecn_priority_*) read_ecn "$net/ecn" "${2#ecn_priority_}" ;;
    cnp_dscp) show "$net/ecn/roce_np/cnp_dscp" ;;
    cnp_priority) show "$net/ecn/roce_np/cnp_802p_prio" ;;
    roce_mode) rdma_cm "$1" show default_roce_mode ;;
    roce_tos) rdma_cm "$1" show default_roce_tos ;;
    global_pause) ethtool -a "$netdev" 2>/dev/null | awk '$1 == "RX:" { rx = $2 }
      $1 == "TX:" { tx = $2 } END { print rx == tx ? rx : (rx == "on" ? "rx" : "tx") }' ;;
  esac
}

write_qos() { # PCI SETTING VALUE
  find_netdev "$1"
  case $2 in
    lldpad)
      need_mlnx_qos "$netdev" "$2"
      fail "lldpad runs on this host, and would overwrite PFC and DCBX of $netdev: take it off with" \
        'systemctl disable --now lldpad.socket lldpad.service, then run again'
      ;;
    traffic_class) write_traffic_class "$1" "$3" ;;
    gid) wait_for_gid "$1" "$netdev" ;;
    dcbx | trust | pfc | cable_length_m | buffers | dscp*_priority) write_dcb "$netdev" "$2" "$3" ;;
    ecn_priority_* | cnp_*) write_ecn "/sys/class/net/$netdev/ecn" "$2" "$3" ;;
    roce_*) write_rdma_cm "$1" "$2" "$3" ;;
    global_pause) write_pause "$netdev" "$3" ;;
  esac
}

qos_ask() { # NETDEV : asked once until something is written; the answer is in the file $qos_answer
  qos_answer=$work/qos.$1
  [ -s "$qos_answer" ] || mlnx_qos -i "$1" >"$qos_answer" 2>/dev/null || : >"$qos_answer"
}

read_pfc() { # NETDEV : the priorities, or none
  qos_ask "$1"
  awk '$1 == "enabled" { for (i = 2; i <= 9; i++) if ($i == "1")
    list = list (list == "" ? "" : ",") (i - 2); print list == "" ? "none" : list; exit }' "$qos_answer"
}

read_traffic_class() { # FOLDER OF RDMA DEVICES : the file is there with NVIDIA's driver alone
  tclass_file=$1/$(first_in "$1")/tc/1/traffic_class
  [ -e "$tclass_file" ] || return 0
  sed -n 's/^Global tclass=//p' "$tclass_file" | grep . || echo off
}

write_traffic_class() { # PCI 0-255|off
  tclass_file=/sys/bus/pci/devices/$1/infiniband/$(first_in "/sys/bus/pci/devices/$1/infiniband")/tc/1/traffic_class
  [ -e "$tclass_file" ] ||
    fail "$tclass_file does not exist: the traffic class of raw verbs is set through NVIDIA's driver" \
      '(DOCA-OFED or MLNX_OFED); with the inbox driver each job marks its packets (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS)'
  case $2 in off) put tclass=-1 "$tclass_file" ;; *) put "$2" "$tclass_file" ;; esac
}

read_gid() { # PCI NETDEV : whether its addresses have RoCE v2 GIDs; at which index is nobody's business
  gid_port=/sys/bus/pci/devices/$1/infiniband/$(first_in "/sys/bus/pci/devices/$1/infiniband")/ports/1
  gid_found='RoCE v2'
  for address in $(read_addresses "$2" | tr , ' '); do
    gid_found=absent
    gid=$(printf '%s\n' "$address" | awk -F '[./]' 'NF == 5 { printf "ffff:%02x%02x:%02x%02x", $1, $2, $3, $4 }')
    gid_files=$(grep -s -l "${gid:-no address}" "$gid_port"/gids/*)
    for gid_file in $gid_files; do
      [ "$(cat "$gid_port/gid_attrs/types/${gid_file##*/}" 2>/dev/null)" != 'RoCE v2' ] || gid_found='RoCE v2'
    done
    [ "$gid_found" != absent ] || break
  done
  echo "$gid_found"
}

wait_for_gid() { # PCI NETDEV : the kernel makes it when the address is there and the link is up
  waited_s=0
  while [ "$(read_gid "$1" "$2")" = absent ]; do
    [ "$waited_s" -lt 10 ] ||
      fail "$2 has $(read_addresses "$2"), and no RoCE v2 GID for it after 10 s: is its link up (ip link" \
        'show), and is RoCE on (devlink dev param show, enable_roce)?'
    sleep 1
    waited_s=$((waited_s + 1))
  done
}

read_ecn() { # FOLDER PRIORITY : notification and reaction point together
  point_np=''
  point_rp=''
  { IFS= read -r point_np <"$1/roce_np/enable/$2" && IFS= read -r point_rp <"$1/roce_rp/enable/$2"; } 2>/dev/null
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

need_mlnx_qos() { # NETDEV SETTING
  command -v mlnx_qos >/dev/null ||
    fail "cannot set $2 of $1: mlnx_qos is not on this host; install mlnx-tools (part of" \
      'DOCA-OFED and MLNX_OFED, or the Debian package), or take the RDMA driver from there'
}

write_dcb() { # NETDEV SETTING VALUE
  need_mlnx_qos "$1" "$2"
  case $2 in
    dcbx) set_qos "$1" -d "$3" ;;
    trust) set_qos "$1" --trust "$3" ;;
    pfc) set_qos "$1" --pfc "$(pfc_list "$3")" ;; # the driver keeps its cable length then
    # Alone it would switch PFC off: the tool sends both together, and PFC as 0 where it is not named.
    cable_length_m) set_qos "$1" --pfc "$(pfc_list "$(read_pfc "$1")")" --cable_len "$3" ;;
    buffers) set_qos "$1" --prio2buffer "${3#*/}" --buffer_size "${3%/*}" ;;
    dscp*_priority)
      dscp=${2#dscp}
      set_qos "$1" --dscp2prio "set,${dscp%_priority},$3"
      ;;
  esac
}

set_qos() { # NETDEV OPTIONS... : what the tool shows after a change is the next reading
  set_dev=$1
  shift
  mlnx_qos -i "$set_dev" "$@" >"$work/qos.$set_dev" 2>&1 || {
    set_output=$(cat "$work/qos.$set_dev")
    rm -f "$work/qos.$set_dev"
    fail "\`mlnx_qos -i $set_dev $*\` failed: ${set_output:-no output}"
  }
}

pfc_list() { # PRIORITIES|none : as eight flags
  awk -v on=",$1," 'BEGIN { for (i = 0; i < 8; i++) printf "%s%d", i ? "," : "", (index(on, "," i ",") > 0) }'
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
  command -v ethtool >/dev/null ||
    fail "cannot set global_pause of $1: ethtool is not on this host; install ethtool, then run again"
  case $2 in on | rx) pause_rx=on ;; *) pause_rx=off ;; esac
  case $2 in on | tx) pause_tx=on ;; *) pause_tx=off ;; esac
  ethtool -A "$1" rx "$pause_rx" tx "$pause_tx" >/dev/null 2>&1 || :
}
