# shellcheck shell=sh
# shellcheck disable=SC2154 # the plan sets adapter before
# shellcheck disable=SC3045 # dash, bash and busybox have ulimit -l
# In a probe's pod on InfiniBand: the adapter with the number $adapter, from 0, as $hca. Of all that are
# up those of the highest rate count, in the order of their PCI addresses, so that number 3 is the same
# place in every machine of a model. POSIX sh.
set -eu
top=0
list=''
for device in "${RAILYARD_INFINIBAND:-/sys/class/infiniband}"/*; do
  port=$device/ports/1
  [ "$(cat "$port/link_layer" 2>/dev/null)" = InfiniBand ] || continue
  for verbs in "$device"/device/infiniband_verbs/*; do
    [ ! -d "$verbs" ] || [ -e "${RAILYARD_DEVICES:-/dev/infiniband}/${verbs##*/}" ] || continue 2
  done
  ! grep -q -s SW_MNG "$device/device/vpd" || continue
  case $(cat "$port/state") in
    4:*) ;;
    *) continue ;;
  esac
  rate=$(cat "$port/rate")
  rate=${rate%% *}
  rate=${rate%%.*}
  [ "$rate" -le "$top" ] || { top=$rate; list=''; }
  [ "$rate" -lt "$top" ] || list="$list$(readlink -f "$device/device") ${device##*/}
"
done
hca=$(printf %s "$list" | sort | sed -n "$((adapter + 1))s/.* //p")
[ -n "$hca" ] || {
  echo "this pod has no InfiniBand adapter number $adapter that is up" >&2
  exit 1
}
[ "$(ulimit -l)" = unlimited ] || {
  echo "the memlock limit of this pod is $(ulimit -l) KiB, want unlimited" >&2
  exit 1
}
