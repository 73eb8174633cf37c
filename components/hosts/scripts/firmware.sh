# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, state_dir, ... are set by input.sh and by the mains
# shellcheck disable=SC2034 # firmware_needs is read by converge.sh
# What the card itself holds: its model, its firmware's version, and the settings that its firmware
# takes on at its next start. mlxconfig is MFT's name of the tool, mstconfig that of the mstflint
# package. The device is looked up by PCI address each time: its mst name has the model's number in
# it (4123 is ConnectX-6, 4125 ConnectX-6 Dx).

firmware_needs=''
link_types=''
firmware_notes=/run/railyard

firmware_parameter() { # SETTING, with or without _current : $parameter becomes mlxconfig's name of it
  case ${1%_current} in
    ats) parameter=ATS_ENABLED ;;
    fw_sriov_en) parameter=SRIOV_EN ;;
    fw_num_of_vfs) parameter=NUM_OF_VFS ;;
    fw_link_type_p1) parameter=LINK_TYPE_P1 ;;
    fw_link_type_p2) parameter=LINK_TYPE_P2 ;;
    fw_advanced_pci_settings) parameter=ADVANCED_PCI_SETTINGS ;;
    fw_pci_wr_ordering) parameter=PCI_WR_ORDERING ;;
    *) return 1 ;;
  esac
}

firmware_key() { # SETTING of a PF
  case $1 in
    model | fw_ver | fw_floor | fw_needs | fw_loads | fw_vfs_offered | ats_active) ;;
    *) firmware_parameter "$1" ;;
  esac
}

firmware_value() { # KEY VALUE
  case $1 in
    *.ats | *.ats_* | *.fw_sriov_en* | *.fw_advanced_pci_settings*) [ "$2" = on ] || [ "$2" = off ] ;;
    *.fw_num_of_vfs*) number "$2" 0 1024 ;;
    *.fw_link_type_p*) [ "$2" = eth ] || [ "$2" = ib ] ;;
    *.fw_pci_wr_ordering*) [ "$2" = per_mkey ] || [ "$2" = force_relax ] ;;
    *.fw_floor) case $2 in [0-9]*.[0-9]*.[0-9]*) case $2 in *[!0-9.]*) return 1 ;; esac ;; *) return 1 ;; esac ;;
  esac
}

firmware_tool() { command -v mlxconfig || command -v mstconfig; }

mst_runs() { mst status 2>/dev/null | grep -q 'configuration module loaded'; }

firmware_device() { # PCI : its mst device while mst runs; the tools take the address itself too
  mst status 2>/dev/null | awk -v pci="$1" '$1 ~ "^/dev/mst/" { device = $1 }
    index($0, "domain:bus:dev.fn=" pci " ") { found = device }
    END { print found == "" ? pci : found }'
}

firmware_version() { # PCI : by the RDMA driver, by the card where it has no RDMA device, or by its netdev
  for version_file in "/sys/bus/pci/devices/$1"/infiniband/*/fw_ver; do
    version_now=''
    { read -r version_now version_rest <"$version_file"; } 2>/dev/null
    [ -z "$version_now" ] || { printf '%s\n' "$version_now" && return; }
  done
  version_tool=$(command -v flint || command -v mstflint) &&
    "$version_tool" -d "$(firmware_device "$1")" query 2>/dev/null </dev/null |
    awk '/^FW Version:/ { print $3; found = 1 } END { exit !found }' && return
  ethtool -i "$(netdev_of "$1")" 2>/dev/null | sed -n 's/^firmware-version: *\([0-9][^ ]*\).*/\1/p'
}

firmware_rows() { # mlxconfig's JSON or table : "<PARAMETER> <next boot> <current>" a line, of ours only
  awk -v form="$1" '
    function plain(text) {
      gsub(/[^-A-Za-z0-9_.:()\/+]/, "", text)
      if (text == "") return "unknown"
      if (text ~ /^True[(]/) return "on"
      if (text ~ /^False[(]/) return "off"
      sub(/[(].*/, "", text)
      return tolower(text)
    }
    function part(body, name) {
      if (!match(body, "\"" name "\"[ \t]*:[ \t]*(\"[^\"]*\"|[^,}]*)")) return ""
      body = substr(body, RSTART, RLENGTH)
      sub(/^[^:]*:/, "", body)
      return body
    }
    function row(name, next_boot, current) {
      if (name ~ /^(ATS_ENABLED|SRIOV_EN|NUM_OF_VFS|LINK_TYPE_P[12]|ADVANCED_PCI_SETTINGS|PCI_WR_ORDERING|INTERNAL_CPU_OFFLOAD_ENGINE|PF_NUM_OF_VF_VALID)$/)
        print name, plain(next_boot), plain(current)
    }
    form == "table" {
      if ($1 == "Configurations:") { shows_current = / Current /; next }
      first = ($1 == "*" || $1 == "RO" || $1 == "*RO") ? 2 : 1
      if (NF > first) row($first, $NF, shows_current ? $(NF - 1) : "")
      next
    }
    { text = text $0 " " }
    END {
      while (match(text, /"[A-Z][A-Z0-9_]*"[ \t]*:[ \t]*[{][^{}]*[}]/)) {
        body = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        name = substr(body, 2)
        sub(/".*/, "", name)
        row(name, part(body, "next_value"), part(body, "current_value"))
      }
    }'
}

firmware_table() { # PCI : asks the card once until something is written
  [ ! -e "$work/firmware.$1" ] || return 0
  : >"$work/firmware.$1"
  table_tool=$(firmware_tool) || return 0
  table_device=$(firmware_device "$1")
  rm -f "$work/fw_json.$1"
  "$table_tool" -d "$table_device" -e -j "$work/fw_json.$1" query >/dev/null 2>&1 </dev/null
  if grep -q tlv_configuration "$work/fw_json.$1" 2>/dev/null; then # it is written even when a part failed
    firmware_rows json <"$work/fw_json.$1" >"$work/firmware.$1"
  else # releases of the tools before -j print a table only
    "$table_tool" -d "$table_device" -e query 2>/dev/null </dev/null | firmware_rows table >"$work/firmware.$1"
  fi
}

ask_cards() { # all cards together, since each takes seconds; the ports of one after another
  cards_with_firmware >"$work/cards"
  sed 's/\.[0-9a-f]$//' "$work/cards" | sort -u >"$work/boards"
  while IFS= read -r board <&7; do
    (
      trap - EXIT
      while IFS= read -r port <&6; do
        case $port in "$board".*) firmware_table "$port" ;; esac
      done 6<"$work/cards"
    ) &
  done 7<"$work/boards"
  wait
}

firmware_row() { # PCI PARAMETER : $fw_next and $fw_current; fails where the card has no such parameter
  firmware_table "$1"
  while read -r fw_name fw_next fw_current; do
    [ "$fw_name" != "$2" ] || return 0
  done <"$work/firmware.$1"
  return 1
}

read_firmware() { # PCI SETTING
  case $2 in
    model) card_model "$1" ;;
    fw_ver) firmware_version "$1" ;;
    fw_floor) read_floor "$1" ;;
    fw_needs) read_needs "$1" ;;
    fw_loads) reset_needs "$1" ;;
    fw_vfs_offered) cat "/sys/bus/pci/devices/$1/sriov_totalvfs" 2>/dev/null || echo 0 ;;
    ats_active) { lspci -s "$1" -vvv 2>/dev/null || echo failed; } |
      awk '/ATSCtl:/ { seen = /Enable\+/ ? "on" : "off" } /^failed/ && ! seen { seen = "unknown" }
        END { print seen == "" ? "absent" : seen }' ;;
    *) read_parameter "$1" "$2" ;;
  esac
}

read_parameter() { # PCI SETTING
  firmware_parameter "$2"
  if [ "$parameter" = NUM_OF_VFS ] && per_pf "$1"; then
    echo per_pf
    return
  fi
  if firmware_row "$1" "$parameter"; then
    case $2 in *_current) echo "$fw_current" ;; *) echo "$fw_next" ;; esac
    return
  fi
  case $parameter in
    LINK_TYPE_P*) # a card whose ports are of one kind has no such parameter
      [ -s "$work/firmware.$1" ] || return 0
      case $(cat "/sys/bus/pci/devices/$1"/infiniband/*/ports/1/link_layer 2>/dev/null) in
        Ethernet) echo eth ;;
        InfiniBand) echo ib ;;
      esac
      ;;
    PCI_WR_ORDERING) # some cards show it only while they run with the advanced settings
      if firmware_row "$1" ADVANCED_PCI_SETTINGS && [ "$fw_current" != on ]; then echo hidden; fi
      ;;
  esac
}

per_pf() { # PCI : each PF of the card has a number of VFs of its own, and NUM_OF_VFS does nothing
  firmware_row "$1" PF_NUM_OF_VF_VALID && [ "$fw_next" = on ]
}

read_floor() { # PCI : the oldest version that may run where that holds, else the version that runs
  floor_now=$(firmware_version "$1")
  floor_wanted=$(value_of "nic.$1.fw_floor" "$work/desired") || floor_wanted=$floor_now
  printf '%s %s\n' "${floor_now:-unknown}" "$floor_wanted" | awk '{
    split($1, now, "."); split($2, wanted, ".")
    for (i = 1; i <= 3; i++) if (now[i] + 0 != wanted[i] + 0) { print (now[i] + 0 > wanted[i] + 0 ? $2 : $1); exit }
    print $2 }'
}

dpu_mode() { # PCI : a BlueField whose own processors own the card (mstflint: offload engine enabled)
  case $(cat "/sys/bus/pci/devices/$1/device" 2>/dev/null) in 0xa2d[26c]) ;; *) return 1 ;; esac
  ! firmware_row "$1" INTERNAL_CPU_OFFLOAD_ENGINE || [ "$fw_current" != disabled ]
}

reset_needs() { # PCI : what loads new settings, where mlxconfig did not say it
  dpu_mode "$1" || { echo reboot && return; }
  reset_tool=$(command -v mlxfwreset || command -v mstfwreset) &&
    "$reset_tool" -d "$(firmware_device "$1")" query 2>/dev/null </dev/null | grep -q '^3: .*-Supported' &&
    echo mlxfwreset && return
  echo power_cycle
}

noted() { # PCI : its card's firmware was set since the boot; old firmware does not tell what it runs with
  [ -e "$firmware_notes/fw_needs.${1%.*}" ]
}

read_needs() { # PCI : what the card waits for; nothing where it runs with its settings
  firmware_table "$1"
  if awk -v noted="$(noted "$1" && echo yes)" '$1 !~ /^(INTERNAL|PF)_/ && $2 != $3 {
    if ($3 != "unknown" || noted) found = 1 } END { exit !found }' "$work/firmware.$1"; then
    cat "$firmware_notes/fw_needs.${1%.*}" 2>/dev/null || reset_needs "$1"
  else
    echo nothing
  fi
}

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
    ats | fw_*) write_parameters "$1" "$2" "$3" ;;
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
  while IFS= read -r asked <&7; do
    setting=${asked%%=*}
    setting=${setting##*.}
    collect_word "$1" "$setting" "${asked#*=}" "$2"
  done 7<"$work/fw_asked"
  # shellcheck disable=SC2086 # the words are NAME=VALUE without blanks
  [ -z "$words" ] || set_firmware "$1" $words
  [ -z "$last" ] || set_firmware "$1" "$last"
}

collect_word() { # PCI SETTING VALUE SETTING_OF_THE_CALL : adds NAME=VALUE to $words where the card differs
  case $2 in ats | fw_*) ;; *) return 0 ;; esac
  case $2:$3 in *_current:* | *:hidden | *:unsupported | *:absent | *:unknown | *:per_pf) return 0 ;; esac
  firmware_parameter "$2" || return 0
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
  [ "$2" = "$4" ] || changed="$changed nic.$1.$2"
}

record_shown() { # KEY VALUE : a setting that could not be read when the others were recorded
  [ -n "${state_dir:-}" ] && [ -e "$state_dir/baseline" ] || return 0
  case $2 in hidden | unsupported | unknown) return 0 ;; esac
  case $(value_of "$1" "$state_dir/baseline") in hidden | unsupported | unknown) ;; *) return 0 ;; esac
  awk -v key="$1=" -v value="$2" 'index($0, key) == 1 { print key value; next } { print }' \
    "$state_dir/baseline" >"$state_dir/baseline.new" || fail "cannot write $state_dir/baseline.new"
  sync "$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
}

refuse_parameter() { # PCI
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
  if command -v mst >/dev/null && ! mst_runs; then
    run mst start
    set_started=yes
  fi
  set_device=$(firmware_device "$set_pci")
  set_output=$("$set_tool" -d "$set_device" -y set "$@" 2>&1 </dev/null) ||
    fail "\`$set_tool -d $set_device set $*\` failed: $set_output"
  set_question=$(printf '%s\n' "$set_output" | grep -i '(y/n)' | grep -v 'Apply new Configuration?') &&
    fail "\`$set_tool -d $set_device set $*\` asked what Railyard does not know: $set_question"
  rm -f "$work"/firmware.*
  [ "$set_started" = no ] || run mst stop
  case $set_output in # a warm reboot does not load what asks for a power cycle
    *[Pp]'ower cycle'*) set_needs=power_cycle ;;
    *) set_needs=$(reset_needs "$set_pci") ;;
  esac
  mkdir -p "$firmware_notes"
  put "$set_needs" "$firmware_notes/fw_needs.${set_pci%.*}"
}

owned() { # PCI SETTING : the value that the file asks for
  value_of "nic.$1.$2" "$work/desired"
}

link_type_changes() { # PCI : its port becomes another kind of port at the card's next start
  [ -n "$link_types" ] || link_types=$(grep -c '\.fw_link_type_p' "$work/desired")
  [ "$link_types" != 0 ] || return 1
  for port_setting in fw_link_type_p1 fw_link_type_p2; do
    port_wanted=$(owned "$1" "$port_setting") || continue
    port_now=$(read_parameter "$1" "${port_setting}_current")
    [ "${port_now:-unknown}" = unknown ] || [ "$port_now" = "$port_wanted" ] || return 0
  done
  return 1
}

vfs_wait() { # PCI COUNT : the card offers as many VFs only once it started with its new settings
  [ "$(read_firmware "$1" fw_vfs_offered)" -lt "$2" ] || return 1
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

waits_for_boot() { # KEY VALUE : it cannot be set before the card started anew
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
      [ "$(read_parameter "$pci" "$setting")" = hidden ] && firmware_row "$pci" ADVANCED_PCI_SETTINGS &&
        [ "$fw_next" = on ]
      return
      ;;
    model | fw_* | ats*) return 1 ;;
    vfs) ! vfs_wait "$pci" "$2" || return 0 ;;
    vf | vf_*) ! { waits "nic.$pci.vfs" || waits "nic.$pci.eswitch"; } || return 0 ;; # set on VFs that go
  esac
  link_type_changes "$pci"
}

# shellcheck disable=SC2086 # the name of a stack has no blanks, and * stands for all of them
cards_with_firmware() { # the PFs whose firmware is ours to set, or was and is not loaded yet
  sed -n -E 's/^nic\.([^=]*)\.(ats|fw_(sriov|num|link|advanced|pci)[a-z0-9_]*)=.*/\1/p' \
    "$work/desired" /var/lib/railyard/${stack:-*}/released 2>/dev/null | sort -u
}

released_firmware() { # lines of what was put back, and is not asked for again; of any stack where none is told
  for released_file in /var/lib/railyard/${stack:-*}/released; do
    [ ! -s "$released_file" ] || lines_without "$work/desired" "$released_file"
  done
}

note_released() { # FILE : of the lines put back, and of those before, what the card did not start with yet
  [ -s "$1" ] || [ -e "$state_dir/released" ] || return 0
  cat "$state_dir/released" "$1" 2>/dev/null | grep -E '^nic\.[^=]*\.(ats|fw_[a-z_0-9]*)=' | grep -v '\.fw_floor=' |
    sort -u >"$work/released_all"
  lines_without "$work/desired" "$work/released_all" >"$work/released_due"
  while IFS= read -r line <&7; do
    key=${line%%=*}
    ! is_gone "$key" || continue
    next=$(read_key "$key")
    case $(read_key "${key}_current") in "$next" | unsupported) continue ;; unknown) noted "$pci" || continue ;; esac
    printf '%s=%s\n' "$key" "$next"
  done 7<"$work/released_due" >"$work/released_still"
  if [ -s "$work/released_still" ]; then
    cat "$work/released_still" >"$state_dir/released" || fail "cannot write $state_dir/released"
  else
    rm -f "$state_dir/released"
  fi
}

refuse_release() { # what firmware goes back to, once it is not ours, must do for the VFs that stay wanted
  lines_without "$work/desired" "$state_dir/baseline" 2>/dev/null |
    grep -E '\.(fw_num_of_vfs=[0-9]+|fw_sriov_en=off)$' >"$work/released"
  while IFS= read -r line <&7; do
    ! is_gone "${line%%=*}" || continue
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
    [ "$card_needs" != nothing ] || continue
    waits="$waits${waits:+,}\"$pci\":\"$card_needs\""
    case $firmware_needs:$card_needs in
      nothing:* | *:power_cycle | reboot:mlxfwreset) firmware_needs=$card_needs ;;
    esac
  done 7<"$work/cards"
  printf ',"firmware":{%s},"firmware_needs":"%s","firmware_waits":{%s}' "$versions" "$firmware_needs" "$waits"
}

observe_firmware() { # what a preview must know of the cards beside the settings
  cards_with_firmware >"$work/cards"
  sed -n -E 's/^nic\.([^=]*)\.(model|vfs)=.*/\1/p' "$work/desired" | sort -u >"$work/pfs"
  while IFS= read -r pci <&7; do
    [ -d "/sys/bus/pci/devices/$pci" ] || continue
    for setting in fw_ver fw_vfs_offered; do
      printf 'nic.%s.%s=%s\n' "$pci" "$setting" "$(read_key "nic.$pci.$setting")"
    done
    ! grep -q -x -F "$pci" "$work/cards" ||
      printf 'nic.%s.fw_needs=%s\nnic.%s.fw_loads=%s\n' "$pci" "$(read_needs "$pci")" "$pci" "$(reset_needs "$pci")"
  done 7<"$work/pfs"
  sed -n -E 's/^(nic\.[^=]*\.(ats|fw_(sriov|num|link|advanced|pci)[a-z0-9_]*))=.*/\1_current/p' "$work/desired" |
    grep -v '_current_current$' >"$work/currents"
  while IFS= read -r key <&7; do
    printf '%s=%s\n' "$key" "$(read_key "$key")"
  done 7<"$work/currents"
}

card_by_id() { # DEVICE ID (pci.ids); the table is components/model/cards.py
  case ${1#0x} in
    1017 | 1019) echo ConnectX-5 ;;
    101b) echo ConnectX-6 ;;
    101d) echo ConnectX-6 Dx ;;
    1021) echo ConnectX-7 ;;
    1023) echo ConnectX-8 ;;
    a2dc) echo BlueField-3 ;;
    '') ;;
    *) echo unknown ;;
  esac
}

card_model() { # PCI
  card_by_id "$(cat "/sys/bus/pci/devices/$1/device" 2>/dev/null)"
}

model_ids() { # MODEL [PCI] : its device id and its mst number, as a person meets them
  case $1 in
    ConnectX-5) echo 'device 1017, mst mt4119' ;;
    ConnectX-6) echo 'device 101b, mst mt4123' ;;
    'ConnectX-6 Dx') echo 'device 101d, mst mt4125' ;;
    ConnectX-7) echo 'device 1021, mst mt4129' ;;
    ConnectX-8) echo 'device 1023, mst mt4131' ;;
    BlueField-3) echo 'device a2dc, mst mt41692' ;;
    *) echo "device $(cat "/sys/bus/pci/devices/$2/device")" ;;
  esac
}

refuse_model() { # PCI WANTED
  model_now=$(card_model "$1")
  fail "the card at $1 is a $model_now ($(model_ids "$model_now" "$1")), and the file says $2" \
    "($(model_ids "$2" "$1")): correct hosts[].nics[].model, or the PCI address"
}
