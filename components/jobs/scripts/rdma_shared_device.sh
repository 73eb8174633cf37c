# shellcheck shell=sh
# In a probe's pod on a shared card: finds the RDMA device whose RoCE v2 GID carries the IPv4 address of
# the rail's interface, as $hca, and the index of that GID as $gid. An interface on top of a card
# (macvlan) has no device of its own: only the GID table says whose it is. Follows find_gid.sh. POSIX sh.
interface=${RAIL_INTERFACE:-net1}
find_gid "$interface"
[ -n "$gid" ] || {
  echo "no RDMA device has a RoCE v2 GID with an IPv4 address of $interface" >&2
  exit 1
}
