# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only proof that PCIe address translation works in a virtual machine. stdin: `ats_current` and
# `ats_active` of each card. stdout: one line of JSON evidence. The bridges' ACS bit that goes with
# it is the hypervisor's: a guest neither sees it nor has to set it again after a reboot.

explain() { # PCI NEXT CURRENT ACTIVE
  case $2/$3/$4 in
    on/on/on) return 0 ;;
    unsupported/*) echo "the firmware of $1 ($version) has no ATS_ENABLED: update the firmware" ;;
    off/*) echo "ATS_ENABLED of $1 is off for the next boot: the next pulumi up sets it" ;;
    on/off/*)
      echo "ATS_ENABLED of $1 is set for the next boot and off now: the ESXi host must reboot" \
        '(a reboot of the virtual machine alone does not load it)'
      ;;
    on/on/unknown)
      echo "whether ATS works on $1 cannot be read: install pciutils, so that 'lspci -s $1 -vvv' tells it," \
        'then run again'
      ;;
    *)
      echo "the firmware of $1 has ATS on, and lspci shows ATSCtl ${4}: on the ESXi host, Runtime of" \
        'atsSupport must be TRUE (esxcli system settings kernel list -o atsSupport); where it is, the' \
        'machine lacks pciPassthru.allowP2P or pciPassthru.RelaxACSforP2P, or was not powered off and on' \
        'since they were set'
      ;;
  esac
  return 1
}

cat >"$work/input"
load_input "$work/input"
sed -n 's/^nic\.\([^=]*\)\.ats_active=.*/\1/p' "$work/desired" >"$work/cards"
list=''
problems=''
while IFS= read -r pci <&8; do
  version=$(firmware_version "$pci")
  find_value "nic.$pci.ats"
  next=$value
  find_value "nic.$pci.ats_current"
  current=$value
  find_value "nic.$pci.ats_active"
  active=$value
  reason=$(explain "$pci" "$next" "$current" "$active") || problems="$problems${problems:+; }$reason"
  list="$list${list:+,}{\"pci\":\"$pci\",\"firmware\":\"$(json_text "$version")\",\"ats_next_boot\":\"$next\""
  list="$list,\"ats_current\":\"$current\",\"ats_active\":\"$active\"}"
done 8<"$work/cards"
printf '{"cards":[%s]}\n' "$list"
[ -z "$problems" ] || { printf 'railyard: %s\n' "$problems" >&2 && exit 1; }
