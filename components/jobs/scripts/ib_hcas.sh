# shellcheck shell=sh
# shellcheck disable=SC2154 # ib_ports.sh, which runs before, sets $hcas
# In each rank: runs the program with NCCL and UCX bound to exactly these adapters. With ports of a lower
# rate in the list NCCL hangs at its start, and UCX at its end. POSIX sh.
[ -n "$hcas" ] || {
  echo "no active InfiniBand port on $(hostname): are the HCAs of this node in the pod?" >&2
  exit 1
}
export NCCL_IB_HCA="=$hcas" UCX_NET_DEVICES="$hcas"
exec "$@"
