#!/bin/sh
# The counters of a host's cards, in one section for each card: of the interfaces `nics`, those of
# ethtool, of their RDMA device and of their VFs; without `nics`, those of each active InfiniBand
# adapter. `ports` and `rdma` are the names of files in `counters` and `hw_counters`.
set -u
: "${nics=}" "${ports=}" "${rdma=}"

show() {
  for name in $3; do
    if read -r value <"$1/$name"; then echo "$2$name: $value"; fi
  done 2>/dev/null
}

show_nic() {
  echo "=== $1"
  sudo -n ethtool -S "$1"
  device=/sys/class/net/$1/device hidden=0
  for port in "$device"/infiniband/*/ports/1; do show "$port/hw_counters" '' "$rdma"; done
  for vf in "$device"/virtfn*; do
    [ -e "$vf/driver" ] || continue
    set -- "$vf"/infiniband/*/ports/1
    [ -d "$1" ] || {
      hidden=$((hidden + 1))
      continue
    }
    own=${1%/ports/1}
    show "$1/hw_counters" "vf.${own##*/}." "$rdma"
  done
  echo "vfs_hidden: $hidden"
}

for nic in $nics; do show_nic "$nic"; done
[ -z "$nics" ] || exit 0
for device in /sys/class/infiniband/*; do
  port=$device/ports/1
  [ "$(cat "$port/link_layer" 2>/dev/null)" = InfiniBand ] || continue
  case $(cat "$port/state") in 4:*) ;; *) continue ;; esac
  echo "=== ${device##*/}"
  show "$port/counters" '' "$ports"
  show "$port/hw_counters" '' "$rdma"
done
