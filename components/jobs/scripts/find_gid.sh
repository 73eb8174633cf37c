# shellcheck shell=sh
# shellcheck disable=SC2034 # the texts that follow use $hca, $ports and $gid
# Which RoCE v2 GID carries the IPv4 address of an interface. POSIX sh.
set -eu

find_gid() { # INTERFACE [DEVICE] : $gid, its index, and $hca and $ports of its RDMA device; empty without one
  gid=''
  for entry in /sys/class/infiniband/*/ports/1/gids/*; do
    ports=${entry%/gids/*}
    hca=${ports%/ports/1}
    hca=${hca##*/}
    [ "${2:-$hca}" = "$hca" ] || continue
    case $(cat "$entry") in 0000:0000:0000:0000:0000:ffff:*) ;; *) continue ;; esac
    [ "$(cat "$ports/gid_attrs/types/${entry##*/}" 2>/dev/null)" = 'RoCE v2' ] &&
      [ "$(cat "$ports/gid_attrs/ndevs/${entry##*/}" 2>/dev/null)" = "$1" ] || continue
    gid=${entry##*/}
    return
  done
}
