# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, ... are set by input.sh
# RoCE's quality of service on a PF: DCBX, trust, PFC, buffers, DSCP map, traffic classes, ECN
# and CNP. What RDMA devices mark is in marks.sh.

qos_read='' # the network device of which $qos_dcbx, $qos_trust, ... are known

find_qos() { # PCI SETTING : of the card at hand, whose network device is $netdev
  case $2 in
    dcbx | lldpad | cable_length_m | buffers | trust | pfc | dscp* | priority_classes | ets | tc?_rate)
      qos_ask "$netdev"
      ;;
  esac
  case $2 in
    dcbx) value=$qos_dcbx ;;
    lldpad) value=$qos_lldpad ;;
    cable_length_m) value=$qos_cable_length_m ;;
    buffers) value=$qos_buffers ;;
    trust) value=$qos_trust ;;
    pfc) value=$qos_pfc ;;
    dscp*_priority)
      dscp=${2#dscp}
      find_priority "${dscp%_priority}"
      ;;
    dscp_map) value=${qos_map# } ;;
    priority_classes) find_classes ;;
    ets) case $qos_tsa in *unknown*) ;; *,*,*,*,*,*,*,*) value=$qos_tsa ;; esac ;;
    tc?_rate)
      tc=${2#tc}
      find_rate "${tc%_rate}"
      ;;
    *traffic_class) find_traffic_class "$1" "$2" ;;
    gid) find_gid "$1" "$netdev" ;;
    ecn_priority_*) find_ecn "$1" "$net/ecn" "${2#ecn_priority_}" ;;
    cnp_dscp | cnp_priority)
      find_cnp_file "$1" "$net/ecn" "$2"
      find_line "$cnp_file"
      ;;
    roce_* | vf_roce_tos) find_rdma_cm "$1" "$2" ;;
    global_pause) find_pause "$netdev" ;;
  esac
}

write_qos() { # PCI SETTING VALUE
  find_netdev "$1"
  case $2 in
    lldpad)
      need_netdev "$1"
      need_qos_tool "$netdev" "$2"
      qos_ask "$netdev"
      [ "$qos_lldpad" = running ] ||
        fail "mlnx_qos -i $netdev says nothing, not even of lldpad: run it, or dcb pfc show dev $netdev, to see why"
      fail "lldpad runs on this host, and would overwrite PFC and DCBX of $netdev: take it off with" \
        'systemctl disable --now lldpad.socket lldpad.service, then run again'
      ;;
    vf_* | traffic_class | roce_*) write_marks "$1" "$2" "$3" ;;
    gid) wait_for_gid "$1" "$netdev" ;;
    dcbx | trust | pfc | cable_length_m | buffers | dscp*_priority | priority_classes | ets | tc?_rate)
      write_dcb "$netdev" "$2" "$3"
      ;;
    ecn_priority_*) write_ecn "$1" "/sys/class/net/$netdev/ecn" "${2##*_}" "$3" ;;
    cnp_*) write_cnp "$1" "/sys/class/net/$netdev/ecn" "$2" "$3" ;;
    global_pause) write_pause "$netdev" "$3" ;;
  esac
}

qos_ask() { # NETDEV : asked once until something is written; what it says is in $qos_dcbx, $qos_trust, ...
  if [ ! -s "$work/qos.$1" ]; then
    # -a: also classes of no priority
    if command -v mlnx_qos >/dev/null; then mlnx_qos -i "$1" -a; else ask_dcb "$1"; fi >"$work/qos.$1" 2>/dev/null ||
      : >"$work/qos.$1"
    qos_read=''
  fi
  [ "$qos_read" != "$1" ] || return 0
  qos_dcbx='' qos_lldpad='' qos_cable_length_m='' qos_size='' qos_buffers='' qos_trust='' qos_pfc='' qos_map=''
  qos_tc='' qos_tcs='' qos_tsa='' qos_rates=''
  while read -r qos_1 qos_2 qos_3 qos_4 qos_5 qos_rest || [ -n "$qos_1" ]; do
    qos_lldpad=${qos_lldpad:-absent}
    case "$qos_1 $qos_2 $qos_3 $qos_4" in
      *'WARNING: lldpad'*) qos_lldpad=running ;;
      'DCBX mode: OS controlled'*) qos_dcbx=os ;;
      'DCBX mode: Firmware controlled'*) qos_dcbx=fw ;;
      'Priority trust state: '*) qos_trust=$qos_4 ;;
      'Cable len: '*) qos_cable_length_m=$qos_3 ;;
      'Receive buffer size '*) qos_size=${qos_5%%,[a-z]*} ;;
      'prio:'[0-7]' dscp:'*) qos_map="$qos_map ${qos_1#prio:}:,${qos_2#dscp:}," ;;
      'tc: '[0-7]' ratelimit: '*) qos_class "$qos_2" "$qos_4" "$qos_5 $qos_rest" ;;
      'priority: '[0-7]*) qos_tcs="$qos_tcs $qos_2:$qos_tc" ;;
      'buffer '* | 'enabled '*)
        # shellcheck disable=SC2086 # a column for each priority
        qos_columns "$qos_1" "$qos_2" "$qos_3" "$qos_4" "$qos_5" $qos_rest
        ;;
    esac
  done <"$work/qos.$1"
  qos_read=$1
}

ask_dcb() { # NETDEV : what iproute2's dcb says (5.12 or later), in the words of mlnx_qos
  ! systemctl is-active --quiet lldpad.service || echo 'WARNING: lldpad'
  for dcb_object in dcbx app pfc buffer ets maxrate; do
    printf '%s ' "$dcb_object"
    dcb -j "$dcb_object" show dev "$1" || echo # it ends its line itself
  done | awk '
    function list(name,   text) { # of JSON: to v[1], v[2], ..., and how many
      text = $0
      if (!sub(".*\"" name "\":\\[", "", text)) return 0
      text = substr(text, 1, index(text, name == "dscp_prio" ? "]]" : "]") - 1)
      gsub(/[^0-9a-z,]/, "", text)
      return split(text, v, ",")
    }
    function row(head, name, by) {
      if (list(name) != 8) return
      for (i = 1; i <= 8; i++) head = head (i > 1 ? by : " ") (v[i] == "true" ? 1 : v[i] == "false" ? 0 : v[i])
      print head
    }
    $2 == "" { next }
    $1 == "dcbx" { print "DCBX mode:", (/"host":true/ ? "OS" : "Firmware"), "controlled" }
    $1 == "app" {
      entries = list("dscp_prio")
      print "Priority trust state:", (entries ? "dscp" : "pcp")
      for (i = 1; i < entries; i += 2) print "prio:" v[i + 1] " dscp:" v[i] ","
    }
    $1 == "pfc" {
      # mlx5 has the length of the cable there
      if (match($0, /"delay":[0-9]+/)) print "Cable len:", substr($0, RSTART + 8, RLENGTH - 8)
      row("enabled", "prio_pfc", " ")
    }
    $1 == "buffer" { row("Receive buffer size (bytes):", "buffer_size", ","); row("buffer", "prio_buffer", " ") }
    $1 == "ets" {
      list("tc_bw"); for (i in v) share[i] = v[i]
      list("prio_tc"); for (i in v) class[i] = v[i]
      list("tc_tsa"); for (i in v) tsa[i] = v[i] (v[i] == "ets" ? ", bw: " share[i] "%" : "")
    }
    $1 == "maxrate" && list("tc_maxrate") == 8 && 8 in tsa {
      for (i = 1; i <= 8; i++) {
        # The unit of a limit changed between releases of dcb: a limit is left out.
        print "tc: " i - 1 " ratelimit: " (v[i] + 0 ? "" : "unlimited") ", tsa: " tsa[i]
        for (up = 1; up <= 8; up++) if (class[up] == i - 1) print "priority: " up - 1
      }
    }'
}

qos_columns() { # buffer|enabled COLUMNS
  [ $# -ge 9 ] || return 0
  case $1 in
    buffer) qos_buffers=${qos_buffers:-${qos_size:+$qos_size/$2,$3,$4,$5,$6,$7,$8,$9}} ;;
    enabled)
      [ -z "$qos_pfc" ] || return 0
      for qos_flag in "0:$2" "1:$3" "2:$4" "3:$5" "4:$6" "5:$7" "6:$8" "7:$9"; do
        case $qos_flag in *:1) qos_pfc=$qos_pfc${qos_pfc:+,}${qos_flag%:1} ;; esac
      done
      qos_pfc=${qos_pfc:-none}
      ;;
  esac
}

qos_class() { # NUMBER RATE WORDS : of "5.0 Gbps, tsa: ets, bw: 10%" or "unlimited, tsa: strict"
  qos_tc=$1
  qos_rates="$qos_rates $1:${2%,}"
  qos_words=${3##*tsa: }
  case $qos_words in 'ets, bw: '*) qos_words=ets:${qos_words#ets, bw: } ;; esac
  qos_tsa=$qos_tsa${qos_tsa:+,}${qos_words%\%}
}

find_classes() { # the traffic class of each priority
  for qos_up in 0 1 2 3 4 5 6 7; do
    for qos_row in $qos_tcs; do
      case $qos_row in "$qos_up:"?) value=$value${value:+,}${qos_row#*:} ;; esac
    done
  done
  case $value in ?,?,?,?,?,?,?,?) ;; *) value='' ;; esac
}

find_rate() { # TRAFFIC CLASS : unlimited, or Gbit/s with one decimal
  for qos_row in $qos_rates; do
    case $qos_row in "$1":*) value=${qos_row#*:} ;; esac
  done
}

find_priority() { # DSCP : by the tool's map, whose lines became "<priority>:,<DSCP>,<DSCP>,,"
  for qos_row in $qos_map; do
    case $qos_row in *,"$1",* | *,0"$1",*) value=${qos_row%%:*} ;; esac
  done
}

find_cnp_file() { # PCI FOLDER cnp_dscp|cnp_priority : of NVIDIA's driver, else the kernel's own, in debugfs
  cnp_file=$2/roce_np/cnp_dscp
  [ "$3" = cnp_dscp ] || cnp_file=$2/roce_np/cnp_802p_prio
  [ ! -d "$2" ] || return 0
  cnp_file=/sys/kernel/debug/mlx5/$1/cc_params/np_cnp_dscp
  [ "$3" = cnp_dscp ] || cnp_file=${cnp_file%_dscp}_prio
}

find_ecn_mask() { # PCI PRIORITY : the kernel's own driver has no switch: the firmware's mask of the port decides
  ecn_parameter=ROCE_CC_PRIO_MASK_P$((0x${1##*.} + 1))
  value=''
  firmware_row "$1" "$ecn_parameter" || return 0
  value=off
  [ $((fw_current >> $2 & 1)) = 0 ] || value=on
}

find_ecn() { # PCI FOLDER PRIORITY : notification and reaction point together
  [ -d "$2" ] || { find_ecn_mask "$1" "$3" && return; }
  shift
  point_np=''
  point_rp=''
  { IFS= read -r point_np <"$1/roce_np/enable/$2" && IFS= read -r point_rp <"$1/roce_rp/enable/$2"; } 2>/dev/null
  case $point_np$point_rp in
    11) value=on ;;
    00) value=off ;;
    10) value=np ;;
    01) value=rp ;;
  esac
}

find_pause() { # NETDEV
  pause_rx='' pause_tx=''
  ethtool -a "$1" >"$work/pause" 2>/dev/null
  while read -r pause_word pause_value pause_rest || [ -n "$pause_word" ]; do
    case $pause_word in RX:) pause_rx=$pause_value ;; TX:) pause_tx=$pause_value ;; esac
  done <"$work/pause"
  case $pause_rx/$pause_tx in
    "$pause_tx/$pause_rx") value=$pause_rx ;;
    on/*) value=rx ;;
    *) value=tx ;;
  esac
}

need_qos_tool() { # NETDEV SETTING
  command -v mlnx_qos >/dev/null || command -v dcb >/dev/null ||
    fail "cannot set $2 of $1: neither mlnx_qos nor dcb is on this host; install iproute2 5.12 or later, which has" \
      'dcb, or take the RDMA driver from NVIDIA (DOCA-OFED or MLNX_OFED), which brings mlnx_qos'
}

write_dcb() { # NETDEV SETTING VALUE
  need_qos_tool "$1" "$2"
  case $2 in
    dcbx) set_qos "$1" -d "$3" ;;
    trust) set_qos "$1" --trust "$3" ;;
    pfc) set_qos "$1" --pfc "$(pfc_list "$3")" ;; # the driver keeps its cable length then
    # Alone it would switch PFC off: the tool sends both together, and PFC as 0 where it is not named.
    cable_length_m)
      qos_ask "$1"
      set_qos "$1" --pfc "$(pfc_list "$qos_pfc")" --cable_len "$3"
      ;;
    buffers) write_buffers "$1" "$3" ;;
    dscp*_priority)
      dscp=${2#dscp}
      set_qos "$1" --dscp2prio "set,${dscp%_priority},$3"
      ;;
    priority_classes) set_qos "$1" --prio_tc "$3" ;;
    ets) write_ets "$1" "$3" ;;
    tc?_rate)
      tc=${2#tc}
      write_class_rate "$1" "${tc%_rate}" "$3"
      ;;
  esac
}

write_buffers() { # NETDEV SIZES/PRIORITIES : the driver judges the priorities before it has the sizes, and lets
  # no buffer that pauses become 0, so that both change while none pauses
  qos_ask "$1"
  buffers_pfc=$qos_pfc
  [ "$buffers_pfc" = none ] || set_qos "$1" --pfc "$(pfc_list none)"
  set_qos "$1" --prio2buffer "${2#*/}" --buffer_size "${2%/*}"
  [ "$buffers_pfc" = none ] || set_qos "$1" --pfc "$(pfc_list "$buffers_pfc")"
}

write_ets() { # NETDEV ALGORITHMS
  split_ets "$2"
  set_qos "$1" --tsa "$ets_tsa" --tcbw "$ets_shares"
}

split_ets() { # strict,vendor,ets:<percent>,... of each class : $ets_tsa and $ets_shares; the others' share must be 0
  ets_left=$1,
  ets_tsa='' ets_shares=''
  while [ -n "$ets_left" ]; do
    ets_one=${ets_left%%,*}
    ets_left=${ets_left#*,}
    ets_tsa=$ets_tsa${ets_tsa:+,}${ets_one%%:*}
    case $ets_one in *:*) ets_one=${ets_one#*:} ;; *) ets_one=0 ;; esac
    ets_shares=$ets_shares${ets_shares:+,}$ets_one
  done
}

write_class_rate() { # NETDEV TRAFFIC CLASS GBIT_S|unlimited : the tool takes all eight, in whole Gbit/s
  command -v mlnx_qos >/dev/null || { set_dcb "$1" --ratelimit "$2:0bit" && return; } # dcb leaves the others alone
  qos_ask "$1"
  rates=''
  for qos_row in $qos_rates; do
    rate=${qos_row#*:}
    case $qos_row in "$2":*) rate=$3 ;; esac
    case $rate in unlimited) rate=0 ;; *.0) rate=${rate%.0} ;; *)
      fail "traffic class ${qos_row%%:*} of $1 has a limit of $rate Gbit/s, and mlnx_qos could not set that again:" \
        "it takes whole Gbit/s. Take the limit off (mlnx_qos -i $1 -r 0,0,0,0,0,0,0,0), then run again" ;; esac
    rates=$rates${rates:+,}$rate
  done
  set_qos "$1" --ratelimit "$rates"
}

set_qos() { # NETDEV OPTIONS... : what the tool shows after a change is the next reading
  set_dev=$1
  shift
  command -v mlnx_qos >/dev/null || { set_dcb "$set_dev" "$@" && return; }
  qos_read=''
  mlnx_qos -i "$set_dev" -a "$@" >"$work/qos.$set_dev" 2>&1 || {
    set_output=$(cat "$work/qos.$set_dev")
    rm -f "$work/qos.$set_dev"
    fail "\`mlnx_qos -i $set_dev $*\` failed: ${set_output:-no output}"
  }
}

set_dcb() { # NETDEV OPTIONS... of mlnx_qos : the same by dcb, which sends what it does not name as it is
  case $2:$3 in
    -d:os) set -- "$1" dcbx set host "cee ieee" ;; # all that mlx5 has
    -d:*) fail "dcb of iproute2 cannot give DCBX of $1 back to the firmware; mlnx_qos -d fw can" ;;
    --trust:dscp) set -- "$1" app add dscp-prio "$(each_of "$(seq -s , 0 63)" class)" ;; # mlx5 trusts DSCP then
    --trust:*) set -- "$1" app flush dscp-prio ;;
    --dscp2prio:*) set -- "$1" app add dscp-prio "$(printf '%s\n' "${3#set,}" | tr , :)" ;; # in place of the old one
    --pfc:*) set -- "$1" pfc set prio-pfc "$(each_of "$3" on_off)${5:+ delay $5}" ;;
    --prio2buffer:*) set -- "$1" buffer set prio-buffer "$(each_of "$3") buffer-size $(each_of "$5")" ;;
    --prio_tc:*) # dcb refuses the share of 100 that mlx5 shows of each class that has none
      qos_ask "$1"
      split_ets "$qos_tsa"
      set -- "$1" ets set prio-tc "$(each_of "$3") tc-bw $(each_of "$ets_shares")"
      ;;
    --tsa:*) set -- "$1" ets set tc-tsa "$(each_of "$3") tc-bw $(each_of "$5")" ;;
    --ratelimit:*) set -- "$1" maxrate set tc-maxrate "$3" ;;
  esac
  rm -f "$work/qos.$1"
  qos_read=''
  # shellcheck disable=SC2086 # a word for each priority
  set_output=$(dcb "$2" "$3" dev "$1" ${4:-} ${5:-} 2>&1) ||
    fail "\`dcb $2 $3 dev $1 ${4:-} ${5:-}\` failed: ${set_output:-no output}"
}

each_of() { # LIST [on_off|class] : 0:<first> 1:<second> ...
  printf '%s\n' "$1" | awk -F , -v kind="${2:-}" '{
    for (i = 1; i <= NF; i++) {
      item = kind == "on_off" ? ($i ? "on" : "off") : kind == "class" ? int($i / 8) : $i
      printf "%s%d:%s", (i > 1 ? " " : ""), i - 1, item
    } }'
}

pfc_list() { # PRIORITIES|none : as eight flags
  awk -v on=",$1," 'BEGIN { for (i = 0; i < 8; i++) printf "%s%d", i ? "," : "", (index(on, "," i ",") > 0) }'
}

write_ecn() { # PCI FOLDER PRIORITY VALUE
  [ -d "$2" ] || refuse_ecn "$1" "$3"
  case $4 in on | np) put 1 "$2/roce_np/enable/$3" ;; *) put 0 "$2/roce_np/enable/$3" ;; esac
  case $4 in on | rp) put 1 "$2/roce_rp/enable/$3" ;; *) put 0 "$2/roce_rp/enable/$3" ;; esac
}

refuse_ecn() { # PCI PRIORITY
  find_ecn_mask "$1" "$2"
  [ -n "$value" ] ||
    fail "ECN of priority $2 at $1 cannot be read: the inbox driver has no /sys/class/net/$netdev/ecn, and the" \
      "card's firmware ($ecn_parameter) needs mlxconfig or mstconfig: install mstflint, or NVIDIA's driver" \
      '(MLNX_OFED or DOCA-OFED), and say so in host_defaults.driver'
  fail "ECN of priority $2 at $1 is $value in the card's firmware ($ecn_parameter=$fw_current), and the inbox driver" \
    'cannot switch it: set host_defaults.firmware.manage: true (it holds after a reboot), or install' \
    'MLNX_OFED or DOCA-OFED and say so in host_defaults.driver'
}

write_cnp() { # PCI FOLDER SETTING VALUE
  find_cnp_file "$1" "$2" "$3"
  [ -e "$cnp_file" ] ||
    fail "$cnp_file does not exist: without NVIDIA's driver the marks of CNPs are set in debugfs (Linux 4.13;" \
      'module mlx5_ib; closed under Secure Boot, see /sys/kernel/security/lockdown): mount it (systemctl start' \
      'sys-kernel-debug.mount), or install MLNX_OFED or DOCA-OFED and say so in host_defaults.driver'
  put "$4" "$cnp_file"
}

write_pause() { # NETDEV on|off|rx|tx : ethtool -A may fail though it applied; reading again decides
  command -v ethtool >/dev/null ||
    fail "cannot set global_pause of $1: ethtool is not on this host; install ethtool, then run again"
  case $2 in on | rx) pause_rx=on ;; *) pause_rx=off ;; esac
  case $2 in on | tx) pause_tx=on ;; *) pause_tx=off ;; esac
  ethtool -A "$1" rx "$pause_rx" tx "$pause_tx" >/dev/null 2>&1 || :
}
