# shellcheck shell=sh
# shellcheck disable=SC3045 # dash, bash and busybox have ulimit -l
# In a probe's pod on a shared card: finds the RDMA device whose RoCE v2 GID carries the IPv4 address of
# the rail's interface, as $hca, and the index of that GID as $gid. An interface on top of a card
# (macvlan) has no device of its own: only the GID table says whose it is. POSIX sh.
set -eu
interface=${RAIL_INTERFACE:-net1}
hca=''
gid=''
for entry in /sys/class/infiniband/*/ports/1/gids/*; do
  index=${entry##*/}
  ports=${entry%/gids/*}
  case $(cat "$entry") in
    0000:0000:0000:0000:0000:ffff:*) ;;
    *) continue ;;
  esac
  if [ "$(cat "$ports/gid_attrs/types/$index" 2>/dev/null)" = 'RoCE v2' ] &&
    [ "$(cat "$ports/gid_attrs/ndevs/$index" 2>/dev/null)" = "$interface" ]; then
    hca=${ports%/ports/1}
    hca=${hca##*/}
    gid=$index
    break
  fi
done
[ -n "$gid" ] || {
  echo "no RDMA device has a RoCE v2 GID with an IPv4 address of $interface" >&2
  exit 1
}
[ "$(ulimit -l)" = unlimited ] || {
  echo "the memlock limit of this pod is $(ulimit -l) KiB, want unlimited" >&2
  exit 1
}
