# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, state_dir, ... are set by input.sh and by the mains
# shellcheck disable=SC2034 # firmware_needs is read by converge.sh
# What is set in the cards' firmware, what then waits for their next start, and what is released when
# it is not ours any more. firmware.sh reads it.

write_firmware() { # PCI SETTING VALUE
  case $2 in
    model) refuse_model "$1" "$3" ;;
    fw_floor)
      version_now=$(firmware_version "$1")
      [ -n "$version_now" ] ||
        fail "the firmware of $1 ($(card_model "$1")) cannot be read, want $3 or later: it has no RDMA device" \
          'here, and neither flint nor ethtool tells its version: modprobe mlx5_ib, or install mstflint or' \
          'ethtool, then run again'
      fail "the firmware of $1 ($(card_model "$1")) is $version_now, want $3 or later: update" \
        'it (mlxfwmanager, or flint with the image of the card), then reboot'
      ;;
    *_current | *_active) fail "$2 of $1 can be read, not set" ;;
    *) write_parameters "$1" "$2" "$3" ;;
  esac
}

write_parameters() { # PCI SETTING VALUE : with it, all that the same card still differs in, in one call
  firmware_tool >/dev/null ||
    fail "cannot set the firmware of $1: there is neither mlxconfig nor mstconfig here; install MFT (part of" \
      'DOCA-OFED and MLNX_OFED) or the mstflint package'
  printf 'nic.%s.%s=%s\n' "$1" "$2" "$3" >"$work/fw_asked"
  ! [ -e "$work/ordered" ] || grep -F "nic.$1." "$work/ordered" | grep -v -F "nic.$1.$2=" >>"$work/fw_asked"
  words=''
  last=''
  with_it=''
  while IFS= read -r asked <&7; do
    setting=${asked%%=*}
    setting=${setting##*.}
    collect_word "$1" "$setting" "${asked#*=}" "$2"
  done 7<"$work/fw_asked"
  # shellcheck disable=SC2086 # the words are NAME=VALUE without blanks
  [ -z "$words" ] || set_firmware "$1" $words
  [ -z "$last" ] || set_firmware "$1" "$last"
  changed="$changed$with_it"
}

collect_word() { # PCI SETTING VALUE SETTING_OF_THE_CALL : adds NAME=VALUE to $words where the card differs
  case $2:$3 in
    *_current:* | *:hidden | *:unsupported | *:unreadable | *:absent | *:unknown | *:per_pf) return 0 ;;
  esac
  find_parameter_name "$2" || return 0
  firmware_row "$1" "$parameter" || { [ "$2" != "$4" ] || refuse_parameter "$1"; return 0; }
  ! { [ "$parameter" = NUM_OF_VFS ] && per_pf "$1"; } ||
    fail "each port of the card at $1 has a number of VFs of its own (PF_NUM_OF_VF_VALID is on), so that" \
      "NUM_OF_VFS does nothing: mlxconfig -d $1 set PF_NUM_OF_VF_VALID=0, or remove firmware.manage"
  firmware_row "$1" "$parameter"
  [ "$fw_next" != "$3" ] || return 0
  record_shown "nic.$1.$2" "$fw_next"
  case $3 in
    on) word=$parameter=1 ;;
    off | per_mkey) word=$parameter=0 ;;
    ib | force_relax) word=$parameter=1 ;;
    eth) word=$parameter=2 ;;
    *) word=$parameter=$3 ;;
  esac
  # What the advanced settings show must be set while they show it.
  if [ "$word" = ADVANCED_PCI_SETTINGS=0 ]; then last=$word; else words="$words $word"; fi
  [ "$2" = "$4" ] || with_it="$with_it nic.$1.$2"
}

record_shown() { # KEY VALUE : a setting that could not be read when the others were recorded
  [ -n "${state_dir:-}" ] && [ -e "$state_dir/baseline" ] || return 0
  case $2 in hidden | unsupported | unreadable | unknown | in-use | none) return 0 ;; esac
  [ -e "$work/unshown" ] ||
    grep -E '=(hidden|unsupported|unreadable|unknown|in-use)$' "$state_dir/baseline" >"$work/unshown"
  while IFS= read -r unshown_line; do
    case $unshown_line in "$1="*) replace_recorded "$1" "$2" ;; esac
  done <"$work/unshown"
}

replace_recorded() { # KEY VALUE : in the record of what was here before us
  awk -v key="$1=" -v value="$2" 'index($0, key) == 1 { print key value; next } { print }' \
    "$state_dir/baseline" >"$state_dir/baseline.new" || fail "cannot write $state_dir/baseline.new"
  rm -f "$work/unshown"
  sync "$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
}

refuse_unreadable_card() { # PCI
  fail "$(firmware_tool) cannot read the firmware of $1: $(firmware_error "$1"). Another tool may have the card," \
    'the kernel may be locked down (/sys/kernel/security/lockdown), or the card is in recovery; run again'
}

refuse_parameter() { # PCI
  ! firmware_error "$1" >/dev/null || refuse_unreadable_card "$1"
  case $parameter in
    LINK_TYPE_P*)
      fail "the card at $1 ($(card_model "$1")) has no $parameter: its ports are of one kind, or it has no" \
        'such port; correct rdma.transport, or the PCI address'
      ;;
    *)
      fail "the firmware of $1 ($(firmware_version "$1")) has no $parameter: update the firmware" \
        'with flint or mlxfwmanager; on a VF it is never there: it belongs to the PF'
      ;;
  esac
}

set_firmware() { # PCI NAME=VALUE... : in one call; an unexpected question ends it, nothing is answered blindly
  set_pci=$1
  shift
  set_tool=$(firmware_tool)
  set_started=no
  set_mst=''
  if command -v mst >/dev/null && ! mst_runs; then # the tool takes the PCI address where mst does not run
    if set_mst=$(mst start 2>&1); then set_started=yes set_mst=''; fi
  fi
  set_device=$(firmware_device "$set_pci")
  # -y says yes to every question, so what it would ask is looked at first: the end of stdin is a no.
  refuse_question "$("$set_tool" -d "$set_device" set "$@" 2>&1 </dev/null)" "$@"
  set_output=$("$set_tool" -d "$set_device" -y set "$@" 2>&1 </dev/null) ||
    fail "\`$set_tool -d $set_device set $*\` failed: $set_output${set_mst:+ (mst start: $set_mst)}"
  note_needs
  refuse_question "$set_output" "$@"
  rm -f "$work"/firmware.*
  [ "$set_started" = no ] || set_mst=$(mst stop 2>&1) || note "mst was started for $set_pci and does not stop: $set_mst"
}

refuse_question() { # OUTPUT NAME=VALUE...
  set_question=$(printf '%s\n' "$1" | grep -i '(y/n)' | grep -v 'Apply new Configuration?') || return 0
  shift
  fail "\`$set_tool -d $set_device set $*\` asked what Railyard does not know: $set_question"
}

note_needs() { # at once: the card asks for it only now
  case $set_output in # a warm reboot does not load what asks for a power cycle
    *[Pp]'ower cycle'*) set_needs=power_cycle ;;
    *) set_needs=$(reset_needs "$set_pci") ;;
  esac
  mkdir -p "$firmware_notes"
  put "$set_needs" "$firmware_notes/fw_needs.${set_pci%.*}"
  [ -d "${state_dir:-/none}" ] || return 0
  case $set_needs in # a warm reboot clears /run, and does not load this
    power_cycle) put "$set_needs" "$state_dir/fw_needs.${set_pci%.*}" ;;
    *) rm -f "$state_dir/fw_needs.${set_pci%.*}" ;;
  esac
}

owned() { # PCI SETTING : the value that the file asks for
  value_of "nic.$1.$2" "$work/desired"
}

link_type_changes() { # PCI : its port becomes another kind of port at the card's next start
  asks_for firmware || return 1
  [ -n "$link_types" ] || link_types=$(grep -c '\.fw_link_type_p' "$work/desired")
  [ "$link_types" != 0 ] || return 1
  for port_setting in fw_link_type_p1 fw_link_type_p2; do
    port_wanted=$(owned "$1" "$port_setting") || continue
    find_parameter "$1" "${port_setting}_current"
    [ "${value:-unknown}" = unknown ] || [ "$value" = "$port_wanted" ] || return 0
  done
  return 1
}

vfs_wait() { # PCI COUNT : the card offers as many VFs only once it started with its new settings
  find_firmware "$1" fw_vfs_offered
  [ "$value" -lt "$2" ] || return 1
  owned "$1" fw_num_of_vfs >/dev/null && firmware_row "$1" NUM_OF_VFS || return 1
  [ "$fw_next" -ge "$2" ] || return 1
  case $fw_current in
    "$fw_next") ;;
    unknown)
      noted "$1"
      return
      ;;
    *) return 0 ;;
  esac
  firmware_row "$1" SRIOV_EN && [ "$fw_next" = on ] && [ "$fw_current" != on ]
}

waits_for_boot() { # KEY VALUE : it cannot be set before the card started again
  case $1 in
    nic.*) split_nic "$1" ;;
    vf.*)
      pci=${1#vf.}
      pci=${pci%.*.*}
      setting=vf
      ;;
    *) return 1 ;;
  esac
  case $setting in
    fw_pci_wr_ordering)
      find_parameter "$pci" "$setting"
      [ "$value" = hidden ] && firmware_row "$pci" ADVANCED_PCI_SETTINGS &&
        [ "$fw_next" = on ]
      return
      ;;
    network_manager) return 1 ;; # a file, for devices that appear later
    vfs) ! vfs_wait "$pci" "$2" || return 0 ;;
    vf | vf_*) ! { waits "nic.$pci.vfs" || waits "nic.$pci.eswitch"; } || return 0 ;; # set on VFs that go
  esac
  find_part "$1"
  [ "$key_part" != firmware ] && link_type_changes "$pci"
}

# shellcheck disable=SC2086 # the name of a stack has no blanks, and * stands for all of them
cards_with_firmware() { # the PFs whose firmware is ours to set, or was and is not loaded yet
  set -- /var/lib/railyard/${stack:-*}/released
  asks_for firmware || [ -e "$1" ] || return 0
  sed -n -E "s/^nic\.([^=]*)\.($firmware_settings)=.*/\1/p" \
    "$work/desired" /var/lib/railyard/${stack:-*}/released 2>/dev/null | sort -u
}

released_firmware() { # lines of what was put back, and is not asked for again; of any stack where none is told
  for released_file in /var/lib/railyard/${stack:-*}/released; do
    [ ! -s "$released_file" ] || lines_without "$work/desired" "$released_file"
  done
}

note_released() { # FILE : of the lines put back, and of those before, what the card did not start with yet
  set -- "$1" "^nic\.[^=]*\.($firmware_settings)="
  [ -e "$state_dir/released" ] || { [ -s "$1" ] && grep -q -E "$2" "$1"; } || return 0
  cat "$state_dir/released" "$1" 2>/dev/null | grep -E "$2" | sort -u >"$work/released_all"
  lines_without "$work/desired" "$work/released_all" >"$work/released_due"
  while IFS= read -r line <&7; do
    key=${line%%=*}
    ! is_gone "$key" || continue
    find_value "$key"
    next=$value
    find_value "${key}_current"
    case $value in "$next" | unsupported | unreadable) continue ;; unknown) noted "$pci" || continue ;; esac
    printf '%s=%s\n' "$key" "$next"
  done 7<"$work/released_due" >"$work/released_still"
  if [ -s "$work/released_still" ]; then
    cat "$work/released_still" >"$state_dir/released" || fail "cannot write $state_dir/released"
  else
    rm -f "$state_dir/released"
  fi
}

refuse_release() { # what firmware goes back to, once it is not ours, must do for ports and VFs that stay wanted
  [ -s "$state_dir/baseline" ] || return 0
  lines_without "$work/desired" "$state_dir/baseline" |
    grep -E '\.(fw_num_of_vfs=[0-9]+|fw_sriov_en=off|fw_link_type_p[12]=.*)$' >"$work/released"
  while IFS= read -r line <&7; do
    ! is_gone "${line%%=*}" || continue
    case $setting in
      fw_link_type_p*)
        grep -q -F "nic.$pci." "$work/desired" && [ "$(read_firmware "$pci" "$setting")" != "${line#*=}" ] || continue
        fail "the firmware of $pci is not asked for any more, and its port would go back to ${line#*=} (as before" \
          'Railyard) with the next boot. Keep firmware.manage, or take the card out of the file'
        ;;
    esac
    release_vfs=$(value_of "nic.$pci.vfs" "$work/desired") || continue
    case $line in *=off) release_to=0 ;; *) release_to=${line#*=} ;; esac
    [ "$release_to" -ge "$release_vfs" ] ||
      fail "the firmware of $pci is not asked for any more, and would go back to $release_to VFs (${line##*.}" \
        "before Railyard): the file wants $release_vfs, and the next boot would leave none. Keep" \
        'firmware.manage (with firmware.num_of_vfs), or ask for fewer in hosts[].nics[].vfs'
  done 7<"$work/released"
}

report_firmware() { # JSON fields: version of each card, and what it waits for
  cards_with_firmware >"$work/cards"
  [ -s "$work/cards" ] || return 0
  versions=''
  waits=''
  firmware_needs=nothing
  while IFS= read -r pci <&7; do
    versions="$versions${versions:+,}\"$pci\":\"$(json_text "$(firmware_version "$pci")")\""
    card_needs=$(read_needs "$pci")
    [ "$card_needs" != nothing ] || { rm -f "$state_dir/fw_needs.${pci%.*}" && continue; }
    waits="$waits${waits:+,}\"$pci\":\"$card_needs\""
    case $firmware_needs:$card_needs in
      nothing:* | *:power_cycle | reboot:mlxfwreset) firmware_needs=$card_needs ;;
    esac
  done 7<"$work/cards"
  printf ',"firmware":{%s},"firmware_needs":"%s","firmware_waits":{%s}' "$versions" "$firmware_needs" "$waits"
}

observe_firmware() { # what a preview must know of the cards beside the settings
  cards_with_firmware >"$work/cards"
  awk -F = 'sub(/^nic\./, "", $1) && sub(/\.(model|vfs)$/, "", $1) && !seen[$1]++ { print $1 }' \
    "$work/desired" >"$work/pfs"
  while IFS= read -r pci <&7; do
    [ -d "/sys/bus/pci/devices/$pci" ] || continue
    for setting in fw_ver fw_vfs_offered; do
      find_firmware "$pci" "$setting"
      printf 'nic.%s.%s=%s\n' "$pci" "$setting" "${value:-unsupported}"
    done
    [ ! -s "$work/cards" ] || ! grep -q -x -F "$pci" "$work/cards" ||
      printf 'nic.%s.fw_needs=%s\nnic.%s.fw_loads=%s\n' "$pci" "$(read_needs "$pci")" "$pci" "$(reset_needs "$pci")"
  done 7<"$work/pfs"
  asks_for firmware || return 0
  sed -n -E "s/^(nic\.[^=]*\.($firmware_settings))=.*/\1_current/p" "$work/desired" >"$work/currents"
  while IFS= read -r key <&7; do
    find_value "$key"
    printf '%s=%s\n' "$key" "$value"
  done 7<"$work/currents"
}

find_card_name() { # DEVICE ID (pci.ids); the table is components/model/cards.py
  case ${1#0x} in
    1017 | 1019) value=ConnectX-5 ;;
    101b) value=ConnectX-6 ;;
    101d) value='ConnectX-6 Dx' ;;
    1021) value=ConnectX-7 ;;
    1023) value=ConnectX-8 ;;
    1025) value=ConnectX-9 ;;
    a2dc) value=BlueField-3 ;;
    '') value='' ;;
    *) value=unknown ;;
  esac
}

card_model() { # PCI
  find_firmware "$1" model
  [ -z "$value" ] || echo "$value"
}

model_ids() { # MODEL [PCI] : its device id and its mst number, as a person meets them
  case $1 in
    ConnectX-5) echo 'device 1017, mst mt4119' ;;
    ConnectX-6) echo 'device 101b, mst mt4123' ;;
    'ConnectX-6 Dx') echo 'device 101d, mst mt4125' ;;
    ConnectX-7) echo 'device 1021, mst mt4129' ;;
    ConnectX-8) echo 'device 1023, mst mt4131' ;;
    ConnectX-9) echo 'device 1025, mst mt4133' ;;
    BlueField-3) echo 'device a2dc, mst mt41692' ;;
    *) echo "device $(cat "/sys/bus/pci/devices/$2/device")" ;;
  esac
}

refuse_model() { # PCI WANTED
  model_now=$(card_model "$1")
  fail "the card at $1 is a $model_now ($(model_ids "$model_now" "$1")), and the file says $2" \
    "($(model_ids "$2" "$1")): correct hosts[].nics[].model, or the PCI address"
}
