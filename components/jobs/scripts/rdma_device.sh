# shellcheck shell=sh
# In a probe's pod: finds the RDMA device behind net1 as $hca, and as $gid the index of its RoCE v2
# GID that carries the pod's IPv4 address. Follows find_gid.sh. POSIX sh.
own=$(basename /sys/class/net/net1/device/infiniband/*)
find_gid net1 "$own"
[ -n "$gid" ] || {
  echo "no RoCE v2 GID with an IPv4 address on $own (net1)" >&2
  exit 1
}
