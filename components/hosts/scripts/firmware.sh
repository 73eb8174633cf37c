# shellcheck shell=sh
# shellcheck disable=SC2154 # work is set by input.sh
# shellcheck disable=SC2034 # firmware_needs is read by converge.sh
# What the card itself holds: its model, its firmware's version, and ATS (PCIe address translation
# services), which GPUDirect RDMA in a virtual machine needs. mlxconfig is MFT's name of the tool,
# mstconfig that of the mstflint package. The device is looked up by PCI address each time: its
# mst name has the model's number in it (4123 is ConnectX-6, 4125 ConnectX-6 Dx).

firmware_needs=''

firmware_tool() { command -v mlxconfig || command -v mstconfig; }

mst_runs() { mst status 2>/dev/null | grep -q 'configuration module loaded'; }

firmware_device() { # PCI : its mst device while mst runs; the tools take the address itself too
  mst status 2>/dev/null | awk -v pci="$1" '$1 ~ "^/dev/mst/" { device = $1 }
    index($0, "domain:bus:dev.fn=" pci " ") { found = device }
    END { print found == "" ? pci : found }'
}

firmware_version() { cat "/sys/bus/pci/devices/$1"/infiniband/*/fw_ver 2>/dev/null; }

ats_row() { # PCI : "<current> <next boot>", asked once until something is written
  if [ ! -s "$work/firmware.$1" ] && ats_tool=$(firmware_tool); then
    "$ats_tool" -d "$(firmware_device "$1")" -e query ATS_ENABLED 2>/dev/null |
      awk '{ for (i = 1; i < NF - 1; i++) if ($i == "ATS_ENABLED") print $(NF - 1), $NF }' \
        >"$work/firmware.$1"
  fi
  cat "$work/firmware.$1" 2>/dev/null
}

on_off() { case $1 in *'(1)') echo on ;; *'(0)') echo off ;; esac; }

read_ats() { # PCI ats|ats_current|ats_active
  case $2 in
    ats)
      ats_text=$(ats_row "$1")
      on_off "${ats_text##* }"
      ;;
    ats_current)
      ats_text=$(ats_row "$1")
      on_off "${ats_text%% *}"
      ;;
    ats_active) lspci -s "$1" -vvv 2>/dev/null | awk '/ATSCtl:/ { seen = /Enable\+/ ? "on" : "off" }
      END { print seen == "" ? "absent" : seen }' ;;
  esac
}

write_ats() { # PCI on|off : for the next boot; who reboots the machine below decides when
  ats_tool=$(firmware_tool) ||
    fail "cannot set ATS of $1: there is neither mlxconfig nor mstconfig here; install MFT (part of" \
      'DOCA-OFED and MLNX_OFED) or the mstflint package'
  [ -n "$(ats_row "$1")" ] ||
    fail "the firmware of $1 ($(firmware_version "$1")) has no ATS_ENABLED: update the firmware" \
      'with flint or mlxfwmanager; on a VF it is never there: ATS belongs to the PF'
  ats_started=no
  if command -v mst >/dev/null && ! mst_runs; then
    run mst start
    ats_started=yes
  fi
  case $2 in on) ats_value=1 ;; *) ats_value=0 ;; esac
  ats_output=$("$ats_tool" -d "$(firmware_device "$1")" -y set "ATS_ENABLED=$ats_value" 2>&1) ||
    fail "\`$ats_tool -d $(firmware_device "$1") set ATS_ENABLED=$ats_value\` failed: $ats_output"
  rm -f "$work/firmware.$1"
  case $ats_output in # a warm reboot does not load what asks for a power cycle
    *[Pp]'ower cycle'*) firmware_needs=power_cycle ;;
    *) [ -n "$firmware_needs" ] || firmware_needs=reboot ;;
  esac
  [ "$ats_started" = no ] || run mst stop
}

card_model() { # PCI : by the PF's device id (pci.ids)
  case $(cat "/sys/bus/pci/devices/$1/device" 2>/dev/null) in
    0x1017 | 0x1019) echo ConnectX-5 ;;
    0x101b) echo ConnectX-6 ;;
    0x101d) echo ConnectX-6 Dx ;;
    0x1021) echo ConnectX-7 ;;
    0x*) echo "unknown" ;;
  esac
}

model_ids() { # MODEL : its device id and its mst number, as a person meets them
  case $1 in
    ConnectX-5) echo 'device 1017, mst mt4119' ;;
    ConnectX-6) echo 'device 101b, mst mt4123' ;;
    'ConnectX-6 Dx') echo 'device 101d, mst mt4125' ;;
    ConnectX-7) echo 'device 1021, mst mt4129' ;;
    *) echo "device $(cat "/sys/bus/pci/devices/$2/device")" ;;
  esac
}

refuse_model() { # PCI WANTED
  model_now=$(card_model "$1")
  fail "the card at $1 is a $model_now ($(model_ids "$model_now" "$1")), and the file says $2" \
    "($(model_ids "$2" "$1")): correct hosts[].nics[].model, or the PCI address"
}
