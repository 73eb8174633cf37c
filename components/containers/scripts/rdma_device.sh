# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the plan sets netdevs before, and uses $hca, $hcas, $gid after
# In a host's container: finds the RDMA devices behind the interfaces in $netdevs as $hcas, with
# commas, the first one as $hca, and as $gid the index of their RoCE v2 GIDs with an IPv4 address;
# it is empty where they differ, since NCCL takes one index for all. Follows find_gid.sh.
hcas=''
gids=''
for netdev in $netdevs; do
  [ -d "/sys/class/net/$netdev/device/infiniband" ] || {
    echo "railyard: there is no RDMA device behind $netdev on $(uname -n)" >&2
    exit 1
  }
  own=$(basename "/sys/class/net/$netdev/device/infiniband/"*)
  hcas=$hcas${hcas:+,}$own
  find_gid "$netdev" "$own"
  [ -n "$gid" ] || {
    echo "railyard: no RoCE v2 GID with an IPv4 address of $netdev on $own of $(uname -n)" >&2
    exit 1
  }
  case " $gids " in *" $gid "*) ;; *) gids=$gids${gids:+ }$gid ;; esac
done
hca=${hcas%%,*}
gid=$gids
case $gids in
  *' '*)
    echo "railyard: the RoCE v2 GIDs of $hcas on $(uname -n) have the indexes $gids; NCCL before 2.21" \
      'can use one index only' >&2
    gid=''
    ;;
esac
