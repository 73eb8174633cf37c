# shellcheck shell=sh
# Searches a pod for the InfiniBand adapters that are up, and keeps those of the highest rate: in $hcas as
# NCCL takes them, and one a line in $list, its place in /sys and its name. Ports of a lower rate are storage
# or management. A pod sees all devices of its node, and the PF beside a VF of its own; those that it has no
# character device of are left out. So are functions that manage the NVSwitches of an HGX B200 (VPD: SW_MNG),
# if the container may read it. POSIX sh.
set -eu
top=0
list=''
hcas=''
for device in "${RAILYARD_INFINIBAND:-/sys/class/infiniband}"/*; do
  port=$device/ports/1
  [ "$(cat "$port/link_layer" 2>/dev/null)" = InfiniBand ] || continue
  for verbs in "$device"/device/infiniband_verbs/*; do
    [ ! -d "$verbs" ] || [ -e "${RAILYARD_DEVICES:-/dev/infiniband}/${verbs##*/}" ] || continue 2
  done
  ! grep -q -s SW_MNG "$device/device/vpd" || continue
  case $(cat "$port/state") in 4:*) ;; *) continue ;; esac
  rate=$(cat "$port/rate")
  rate=${rate%% *}
  rate=${rate%%.*}
  [ "$rate" -le "$top" ] || { top=$rate; list=''; hcas=''; }
  [ "$rate" -eq "$top" ] || continue
  hcas=$hcas${hcas:+,}${device##*/}:1
  list="$list$(readlink -f "$device/device") ${device##*/}
"
done
