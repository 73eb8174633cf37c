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

firmware_tool() { command -v mlxconfig || command -v mstconfig; }

mst_runs() { mst status 2>/dev/null | grep -q 'configuration module loaded'; }

firmware_device() { # PCI : its mst device while mst runs; the tools take the address itself too
  command -v mst >/dev/null || { echo "$1" && return; }
  mst status 2>/dev/null | awk -v pci="$1" '$1 ~ "^/dev/mst/" { device = $1 }
    index($0, "domain:bus:dev.fn=" pci " ") { found = device }
    END { print found == "" ? pci : found }'
}

find_rdma_version() { # PCI : its firmware's, by the RDMA driver
  value=''
  for version_file in "/sys/bus/pci/devices/$1"/infiniband/*/fw_ver; do
    { read -r value version_rest <"$version_file"; } 2>/dev/null
    [ -z "$value" ] || return 0
  done
  return 1
}

firmware_version() { # PCI : by the RDMA driver, by the card where it has no RDMA device, or by its netdev
  find_rdma_version "$1" && echo "$value" && return
  version_tool=$(command -v flint || command -v mstflint) &&
    "$version_tool" -d "$(firmware_device "$1")" query 2>/dev/null </dev/null |
    awk '/^FW Version:/ { burnt = $3 } /^FW Version\(Running\):/ { running = $3 }
      END { if (running burnt == "") exit 1; print running == "" ? burnt : running }' && return
  ethtool -i "$(find_netdev "$1" && echo "$netdev")" 2>/dev/null | sed -n 's/^firmware-version: *\([0-9][^ ]*\).*/\1/p'
}

firmware_rows() { # mlxconfig's JSON or table : "<PARAMETER> <next boot> <current>" a line, of ours only
  awk -v form="$1" -v ours="$firmware_parameters" '
    function plain(text) {
      gsub(/[^-A-Za-z0-9_.:()\/+]/, "", text)
      if (text == "" || text == "N/A") return "unknown" # mstflint: it could not be read
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
      if (name ~ "^(" ours "|INTERNAL_CPU_OFFLOAD_ENGINE|PF_NUM_OF_VF_VALID)$")
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
  rm -f "$work/fw_json.$1" "$work/fw_error.$1"
  "$table_tool" -d "$table_device" -e -j "$work/fw_json.$1" query >/dev/null 2>&1 </dev/null
  if grep -q tlv_configuration "$work/fw_json.$1" 2>/dev/null; then # it is written even when a part failed
    firmware_rows json <"$work/fw_json.$1" >"$work/firmware.$1"
  else # releases of the tools before -j print a table only
    "$table_tool" -d "$table_device" -e query >"$work/fw_text.$1" 2>&1 </dev/null
    firmware_rows table <"$work/fw_text.$1" >"$work/firmware.$1"
    [ -s "$work/firmware.$1" ] ||
      grep -e '^-E-' "$work/fw_text.$1" | grep -v "doesn't support" | tail -n 1 >"$work/fw_error.$1"
  fi
}

firmware_error() { # PCI : the tool's words where it could not read the card; fails where it could
  firmware_table "$1"
  [ -s "$work/fw_error.$1" ] && cat "$work/fw_error.$1"
}

ask_cards() { # all cards together, since each takes seconds; the ports of one after another
  cards_with_firmware >"$work/cards"
  [ -s "$work/cards" ] || return 0
  board=''
  while IFS= read -r card <&7; do
    [ "${card%.*}" != "$board" ] || continue
    board=${card%.*}
    (
      trap - EXIT
      while IFS= read -r port <&6; do
        case $port in "$board".*) firmware_table "$port" ;; esac
      done 6<"$work/cards"
    ) &
  done 7<"$work/cards"
  wait
}

firmware_row() { # PCI PARAMETER : $fw_next and $fw_current; fails where the card has no such parameter
  firmware_table "$1"
  while read -r fw_name fw_next fw_current; do
    [ "$fw_name" != "$2" ] || return 0
  done <"$work/firmware.$1"
  return 1
}

find_firmware() { # PCI SETTING
  case $2 in
    model)
      find_line "/sys/bus/pci/devices/$1/device"
      find_card_name "$value"
      ;;
    fw_ver) find_rdma_version "$1" || value=$(firmware_version "$1") ;;
    fw_floor) value=$(read_floor "$1") ;;
    fw_needs) value=$(read_needs "$1") ;;
    fw_loads) value=$(reset_needs "$1") ;;
    fw_vfs_offered) find_line "/sys/bus/pci/devices/$1/sriov_totalvfs" 0 ;;
    ats_active) find_ats "$1" ;;
    *) find_parameter "$1" "$2" ;;
  esac
}

read_firmware() { # PCI SETTING : the same, printed
  value=''
  find_firmware "$1" "$2"
  [ -z "$value" ] || echo "$value"
}

find_ats() { # PCI : whether ATS works now
  value=absent
  lspci -s "$1" -vvv >"$work/lspci" 2>/dev/null || value=unknown
  while IFS= read -r lspci_line || [ -n "$lspci_line" ]; do
    case $lspci_line in *ATSCtl:*Enable+*) value=on ;; *ATSCtl:*) value=off ;; esac
  done <"$work/lspci"
}

find_parameter() { # PCI SETTING
  value=''
  find_parameter_name "$2"
  if [ "$parameter" = NUM_OF_VFS ] && per_pf "$1"; then
    value=per_pf
    return
  fi
  if firmware_row "$1" "$parameter"; then
    case $2 in *_current) value=$fw_current ;; *) value=$fw_next ;; esac
    return
  fi
  ! firmware_error "$1" >/dev/null || { value=unreadable && return; }
  case $parameter in
    LINK_TYPE_P*) # a card whose ports are of one kind has no such parameter
      [ -s "$work/firmware.$1" ] || return 0
      find_link_layer "/sys/bus/pci/devices/$1"
      case $value in Ethernet) value=eth ;; InfiniBand) value=ib ;; *) value='' ;; esac
      ;;
    PCI_WR_ORDERING) # some cards show it only while they run with the advanced settings
      if firmware_row "$1" ADVANCED_PCI_SETTINGS && [ "$fw_current" != on ]; then value=hidden; fi
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
  find_line "/sys/bus/pci/devices/$1/device"
  case $value in 0xa2d[26c]) ;; *) return 1 ;; esac
  ! firmware_row "$1" INTERNAL_CPU_OFFLOAD_ENGINE || [ "$fw_current" != disabled ]
}

reset_needs() { # PCI : what loads new settings, where mlxconfig did not say it
  dpu_mode "$1" || { echo reboot && return; }
  reset_tool=$(command -v mlxfwreset || command -v mstfwreset) &&
    "$reset_tool" -d "$(firmware_device "$1")" query 2>/dev/null </dev/null | grep -q '^3: .*-Supported' &&
    echo mlxfwreset && return
  echo power_cycle
}

told_needs() { # PCI : what the card asked for when it was set; a power cycle is asked for until it was done
  cat "$firmware_notes/fw_needs.${1%.*}" 2>/dev/null && return
  for told_file in /var/lib/railyard/*/fw_needs."${1%.*}"; do
    [ ! -e "$told_file" ] || { cat "$told_file" && return; }
  done
  return 1
}

noted() { # PCI : its card's firmware was set since the boot; old firmware does not tell what it runs with
  [ -e "$firmware_notes/fw_needs.${1%.*}" ]
}

read_needs() { # PCI : what the card waits for; nothing where it runs with its settings
  firmware_table "$1"
  if awk -v noted="$(noted "$1" && echo yes)" '$1 !~ /^(INTERNAL|PF)_/ && $2 != $3 {
    if ($3 != "unknown" || noted) found = 1 } END { exit !found }' "$work/firmware.$1"; then
    told_needs "$1" || reset_needs "$1"
  else
    echo nothing
  fi
}
