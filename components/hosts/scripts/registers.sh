# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, value, ... are set by input.sh
# Registers of a card that hold until its driver starts again. adaptive_routing_forced_en of ROCE_ACCL
# marks the packets as ones that a switch may spread, and the card puts those of the other end in order.
# mlxreg is MFT's name of the tool, mstreg that of the mstflint package.

register_tool() { command -v mlxreg || command -v mstreg; }

find_spreading() { # PCI
  register_program=$(register_tool) || return 0
  "$register_program" -d "$1" --reg_name ROCE_ACCL --get >"$work/roce_accl" 2>/dev/null || return 0
  while IFS=' |' read -r register_field register_value _; do
    case $register_field:$register_value in
      adaptive_routing_forced_en:0x*1) value=on ;;
      adaptive_routing_forced_en:0x*0) value=off ;;
    esac
  done <"$work/roce_accl"
}

write_spreading() { # PCI on|off
  register_program=$(register_tool) ||
    fail "cannot set adaptive_routing of the card at $1: neither mlxreg nor mstreg is on this host; install" \
      'mstflint, or the driver of NVIDIA, then run again'
  case $2 in on) register_bit=0x1 ;; *) register_bit=0x0 ;; esac
  run "$register_program" -d "$1" --reg_name ROCE_ACCL --set "adaptive_routing_forced_en=$register_bit" --yes
}
