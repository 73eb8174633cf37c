# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, ... are set by input.sh, the boot texts by the caller
# shellcheck disable=SC2034 # reload_units, restart_units, changed are read by the scripts
# How each setting of a host is written. write_key KEY VALUE changes it, or ends with the reason.

restoring=no # while values go back to what was recorded

write_all() { # FILE : its settings that are not as it says, in its order
  [ -s "$1" ] || return 0
  if grep '^hosts\.' "$1" >"$work/entries"; then write_host_entries "$work/entries"; fi
  while IFS= read -r all_line <&8; do
    case $all_line in hosts.*) ;; *) write_one "${all_line%%=*}" "${all_line#*=}" || continue ;; esac
    case "$changed " in *" ${all_line%%=*} "*) ;; *) changed="$changed ${all_line%%=*}" ;; esac
  done 8<"$1"
}

write_one() { # KEY VALUE : re-read first, since an earlier change may have settled it
  ! waits "$1" || return 1 # it was put off in an earlier round
  find_value "$1"
  one_now=$value
  [ "$one_now" != "$2" ] || return 1
  if must_wait "$1" "$2"; then return 1; fi
  record_shown "$1" "$one_now"
  if [ "$restoring" = yes ] && goes_back_if_taken "$1"; then
    write_back "$1" "$2"
  else
    write_key "$1" "$2" # what it ends with says nothing: it fails, or it has written
  fi
  ! is_still_used "$1"
}

write_back() { # KEY VALUE : what this machine does not take any more is told, and keeps nothing else from going back
  (trap - EXIT && write_key "$1" "$2"; exit 0) 2>"$work/refused" && return
  still_used="$still_used $1"
  note "$(sed -n '1s/^railyard: //p' "$work/refused")"
}

write_key() { # KEY VALUE : called in the main shell, so that fail ends the run
  find_part "$1"
  case $key_part in
    system) write_system "$1" "$2" ;;
    driver) write_driver "$1" "$2" ;;
    docker) write_docker "$1" "$2" ;;
    kernel) write_kernel "$1" "$2" ;;
    pci) write_pci "$1" "$2" ;;
    routing) write_route "${1#route.}" "$2" ;;
    vfs) write_vf "$1" "$2" ;;
    card | firmware | sriov | qos)
      split_nic "$1"
      write_nic "$pci" "$setting" "$2"
      ;;
  esac
}

write_system() { # KEY VALUE
  case $1 in
    hostname) write_hostname "$2" ;;
    hosts_block) write_hosts_block "$2" ;;
    hosts.*) write_host_entry "${1#hosts.}" "$2" ;;
    user.*)
      user=${1#user.}
      write_user "${user%.uid}" "$2"
      ;;
    *.files) write_boot_files "$2" ;;
    *.enabled) write_boot_enabled "$2" ;;
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
  printf 'hosts.%s=%s\n' "$1" "$2" >"$work/entry"
  write_host_entries "$work/entry"
}

write_hosts_block() { # COUNT names DIGEST|absent : the list lies beside the tools, under its digest
  : >"$work/block"
  if [ "$1" != absent ]; then
    cat "$tools/${1##* }/tool" >"$work/block" 2>/dev/null
    case $(sha256sum <"$work/block") in "${1##* } "*) ;; *)
      fail "the list of names $tools/${1##* }/tool is missing, altered or cut short: run pulumi up with" \
        'railyard:observe=always, which sends it again' ;;
    esac
  fi
  put_hosts_block
}

write_host_entries() { # FILE : hosts.<name>=<address>|absent, all in one go
  render_entries "$1" || fail "cannot write $work/block; /etc/hosts stays as it is"
  put_hosts_block
}

put_hosts_block() { # the lines of $work/block become our part of /etc/hosts; without lines it goes
  rm -rf "$work/hosts_block"
  [ -e /etc/hosts ] || { : >/etc/hosts && chmod 0644 /etc/hosts; }
  find_block_marks
  # Without its end our part would reach to the end of the file, and all of that would be deleted.
  awk -v begin="^$block_begin\$" -v end="^$block_end\$" '
    $0 ~ begin { begins++ }
    $0 ~ end { ends++ }
    END { exit begins != ends }' /etc/hosts ||
    fail "the part of /etc/hosts between '$block_begin' and '$block_end' lost one of these" \
      'two lines; put it back or delete the part, then run again'
  render_hosts || fail "cannot write $work/hosts; /etc/hosts stays as it is"
  # What is cut short on a full disk would be lost: a copy beside it shows first that there is room.
  cat "$work/hosts" >/etc/hosts.railyard || { rm -f /etc/hosts.railyard
    fail 'cannot write /etc/hosts.railyard; /etc/hosts stays as it is'; }
  rm /etc/hosts.railyard
  cat "$work/hosts" >/etc/hosts || fail 'cannot write /etc/hosts'
}

render_entries() { # FILE : our part as it is, with these entries, as $work/block
  find_block_marks
  [ ! -e /etc/hosts ] || set -- "$1" /etc/hosts
  awk -v begin="^$block_begin\$" -v end="^$block_end\$" '
    FILENAME == ARGV[1] { at = index($0, "="); new[substr($0, 7, at - 7)] = substr($0, at + 1); next }
    $0 ~ begin { ours = 1 }
    ours && !/^#/ && !($2 in new) { print }
    $0 ~ end { ours = 0 }
    END { for (name in new) if (new[name] != "absent") { sub(/ .*/, "", new[name]); print new[name], name } }' \
    "$@" >"$work/entries_new" || return
  sort -k 2 "$work/entries_new" >"$work/block"
}

render_hosts() { # the whole of the new /etc/hosts, as $work/hosts
  sed "/^$block_begin\$/,/^$block_end\$/d" /etc/hosts >"$work/hosts" || return 1
  if [ -s "$work/block" ]; then
    last=$(tail -c 1 "$work/hosts")
    { { [ -z "$last" ] || echo; } && echo "$block_begin" && cat "$work/block" && echo "$block_end"; } >>"$work/hosts"
  elif [ -e "/var/lib/railyard/$stack/hosts.orig" ] &&
    [ "$(cat "$work/hosts")" = "$(cat "/var/lib/railyard/$stack/hosts.orig")" ]; then
    cp "/var/lib/railyard/$stack/hosts.orig" "$work/hosts" # the same to the last newline
  fi
}

write_user() { # NAME UID|absent
  if [ "$2" = absent ]; then
    user_output=$(userdel "$1" 2>&1) || case $user_output in # its home folder stays: it may hold data
      *'used by process'* | *'logged in'*) still_used="$still_used user.$1.uid" ;;
      *) fail "userdel $1: ${user_output:-no output}" ;;
    esac
    return 0
  fi
  find_owner "$2"
  [ -z "$value" ] || [ "$value" = "$1" ] ||
    fail "the uid $2 belongs to $value, so $1 cannot have it: name $value in host_defaults.user, choose" \
      'another uid, or leave user out'
  if getent passwd "$1" >/dev/null; then
    user_output=$(usermod -u "$2" "$1" 2>&1) ||
      fail "the uid of $1 cannot become $2: $user_output. A user who is logged in keeps the uid:" \
        'log in as another user (hosts[].ssh.user), or name the uid it has in host_defaults.user'
  else
    run useradd -m -s /bin/bash -u "$2" "$1"
    own_home "$1" "$2"
  fi
}

own_home() { # NAME UID : a home that an earlier account of this name left belongs to nobody now
  user_home=$(getent passwd "$1" | cut -d : -f 6)
  home_owner=$(stat -c %u "$user_home" 2>/dev/null) || return 0
  [ "$home_owner" = "$2" ] || getent passwd "$home_owner" >/dev/null ||
    run chown -R --from="$home_owner" "$1:" "$user_home"
}

need_netdev() { # PCI : of the card at hand
  [ "$netdev" != absent ] ||
    fail "the card at $1 has no network device: its port runs as InfiniBand (mlxconfig -d $1 query" \
      "LINK_TYPE_P1), or no driver has it (lspci -k -s $1)"
}

write_nic() { # PCI SETTING VALUE
  device=/sys/bus/pci/devices/$1
  [ -d "$device" ] || fail "there is no PCI device $1 on this host$(moved_card "$1"); lspci -D -d 15b3: lists its cards"
  find_netdev "$1"
  net=/sys/class/net/$netdev
  case $key_part:$2 in
    firmware:*) write_firmware "$1" "$2" "$3" ;;
    sriov:*) write_sriov "$1" "$2" "$3" ;;
    *:adaptive_routing) write_spreading "$1" "$3" ;;
    qos:*) write_qos "$1" "$2" "$3" ;;
    *:netdev)
      need_netdev "$1"
      fail "the card at $1 is called $netdev, want $3: write the name that the host uses in" \
        'hosts[].nics[].netdev (an NVIDIA driver package strips np0 from the kernel name), or let Railyard' \
        'name it (host_defaults.rail_names: true)'
      ;;
    *:boot_*) write_boot_name "$1" "$2" "$3" ;;
    *:network_manager) write_network_manager "$1" "$3" ;;
    *:link) run ip link set dev "$netdev" "$3" ;;
    *:address) write_address "$1" "$netdev" "$3" ;;
    *:mtu_bytes) put "$3" "$net/mtu" ;;
  esac
}

refuse_address() { # PCI NETDEV WANTED CIDR,... : one that was here before us is the system's own
  case $3 in absent) return 0 ;; esac
  find_addresses "$2"
  for address in $(printf '%s\n' "${4:-absent}" | tr , ' '); do
    case $address,$value, in
      absent,* | "$3",*) ;;
      *,"$address",*) fail "$2 has $address from the system's own configuration (netplan, ifupdown, NetworkManager)," \
        "want $3: take it out there and with ip addr del, or write it in hosts[].nics[].address" ;;
    esac
  done
}

write_address() { # PCI NETDEV CIDR[,CIDR]|absent
  refuse_address "$1" "$2" "$3" "$(value_of "nic.$1.address" "${state_dir:-/none}/baseline" 2>/dev/null)"
  if [ -n "${state_dir:-}" ]; then # at boot nothing is taken away: it is not known whose it is
    for address in $(printed find_addresses "$2" | tr , ' '); do
      case ,$3, in *",$address,"*) ;; *) [ "$address" = absent ] || run ip addr del "$address" dev "$2" ;; esac
    done
  fi
  [ "$3" != absent ] || return 0
  find_addresses "$2"
  for address in $(printf '%s\n' "$3" | tr , ' '); do
    case ,$value, in *",$address,"*) ;; *) run ip addr add "$address" dev "$2" ;; esac
  done
}

write_boot_files() { # DIGEST|absent
  if [ "$1" = absent ]; then
    rm -f "$BOOT_UNIT" "$BOOT_SCRIPT" "$BOOT_CONFIG"
    rmdir "${BOOT_SCRIPT%/*}" "${BOOT_CONFIG%/*}" 2>/dev/null
  else
    [ -d "${BOOT_SCRIPT%/*}" ] && [ -d "${BOOT_CONFIG%/*}" ] ||
      (umask 022 && mkdir -p "${BOOT_UNIT%/*}" "${BOOT_SCRIPT%/*}" "${BOOT_CONFIG%/*}")
    boot_unit >"$BOOT_UNIT" || fail "cannot write $BOOT_UNIT"
    { boot_head && printf '%s\n' "$t"; } >"$BOOT_SCRIPT" || fail "cannot write $BOOT_SCRIPT"
    while IFS= read -r lost_line; do
      ! is_lost "${lost_line%%=*}" || printf '%s\n' "$lost_line"
    done <"$work/desired" >"$work/lost"
    sort "$work/lost" >"$BOOT_CONFIG" || fail "cannot write $BOOT_CONFIG"
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
