# shellcheck shell=sh
# In each rank: finds the node's InfiniBand adapters that are up, keeps those of the highest rate, and
# runs the program with NCCL and UCX bound to exactly them. Ports of a lower rate are storage or
# management; with them in the list NCCL hangs at its start, and UCX at its end. A pod sees all devices
# of its node, and the PF beside a VF of its own; those that it has no character device of are left out.
# So are functions that manage the NVSwitches of an HGX B200 (VPD: SW_MNG), if the container may read it.
# POSIX sh.
set -eu
top=0
list=''
for device in "${RAILYARD_INFINIBAND:-/sys/class/infiniband}"/*; do
  port=$device/ports/1
  [ -r "$port/link_layer" ] || continue
  [ "$(cat "$port/link_layer")" = InfiniBand ] || continue
  mine=yes
  for verbs in "$device"/device/infiniband_verbs/*; do
    [ ! -d "$verbs" ] || [ -e "${RAILYARD_DEVICES:-/dev/infiniband}/${verbs##*/}" ] || mine=no
  done
  ! grep -q -s SW_MNG "$device/device/vpd" || mine=no
  [ "$mine" = yes ] || continue
  case $(cat "$port/state") in
    4:*) ;;
    *) continue ;;
  esac
  rate=$(cat "$port/rate")
  rate=${rate%% *}
  rate=${rate%%.*}
  if [ "$rate" -gt "$top" ]; then
    top=$rate
    list=''
  fi
  [ "$rate" -eq "$top" ] || continue
  list=$list${list:+,}${device##*/}:1
done
[ -n "$list" ] || {
  echo "no active InfiniBand port on $(hostname): are the HCAs of this node in the pod?" >&2
  exit 1
}
export NCCL_IB_HCA="=$list" UCX_NET_DEVICES="$list"
exec "$@"
