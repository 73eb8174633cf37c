# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the plan sets netdevs before, and uses $hca and $hcas after
# In a host's container: finds the RDMA devices behind the interfaces in $netdevs as $hcas, with
# commas, the first one as $hca, and as $gid the index of its RoCE v2 GID with an IPv4 address.
set -eu
hcas=''
for netdev in $netdevs; do
  [ -d "/sys/class/net/$netdev/device/infiniband" ] || {
    echo "railyard: there is no RDMA device behind $netdev on $(uname -n)" >&2
    exit 1
  }
  hcas=$hcas${hcas:+,}$(basename "/sys/class/net/$netdev/device/infiniband/"*)
done
hca=${hcas%%,*}
ports=/sys/class/infiniband/$hca/ports/1
gid=''
for entry in "$ports"/gids/*; do
  index=${entry##*/}
  case $(cat "$entry") in
    0000:0000:0000:0000:0000:ffff:*) ;;
    *) continue ;;
  esac
  if [ "$(cat "$ports/gid_attrs/types/$index" 2>/dev/null)" = 'RoCE v2' ] &&
    [ "$(cat "$ports/gid_attrs/ndevs/$index" 2>/dev/null)" = "${netdevs%% *}" ]; then
    gid=$index
    break
  fi
done
[ -n "$gid" ] || {
  echo "railyard: no RoCE v2 GID with an IPv4 address of ${netdevs%% *} on $hca of $(uname -n)" >&2
  exit 1
}
