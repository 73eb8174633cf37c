# shellcheck shell=sh
# shellcheck disable=SC3045 # dash, bash and busybox have ulimit -l
# In a probe's pod: finds the RDMA device behind net1 as $hca, and as $gid the index of its RoCE v2
# GID that carries the pod's IPv4 address. POSIX sh.
set -eu
hca=$(basename /sys/class/net/net1/device/infiniband/*)
ports=/sys/class/infiniband/$hca/ports/1
gid=''
for entry in "$ports"/gids/*; do
  index=${entry##*/}
  case $(cat "$entry") in
    0000:0000:0000:0000:0000:ffff:*) ;;
    *) continue ;;
  esac
  if [ "$(cat "$ports/gid_attrs/types/$index")" = 'RoCE v2' ] &&
    [ "$(cat "$ports/gid_attrs/ndevs/$index")" = net1 ]; then
    gid=$index
    break
  fi
done
[ -n "$gid" ] || {
  echo "no RoCE v2 GID with an IPv4 address on $hca (net1)" >&2
  exit 1
}
[ "$(ulimit -l)" = unlimited ] || {
  echo "the memlock limit of this pod is $(ulimit -l) KiB, want unlimited" >&2
  exit 1
}
