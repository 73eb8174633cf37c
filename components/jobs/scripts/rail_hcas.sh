# shellcheck shell=sh
# shellcheck disable=SC2154 # the plan sets interfaces before
# In each rank on shared cards: finds the RDMA device of every rail by its GID table, and runs the
# program with NCCL bound to exactly those. Without it NCCL also takes the node's other cards, which
# a pod sees as well, and which lead to other networks. POSIX sh.
set -eu
list=''
for interface in $interfaces; do
  found=''
  for entry in /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/*; do
    [ "$(cat "$entry" 2>/dev/null)" = "$interface" ] || continue
    found=${entry%/ports/1/*}
    found=${found##*/}
    break
  done
  [ -n "$found" ] || {
    echo "no RDMA device has a GID of $interface on $(hostname): is the pod on that rail?" >&2
    exit 1
  }
  list=$list${list:+,}$found:1
done
export NCCL_IB_HCA="=$list"
exec "$@"
