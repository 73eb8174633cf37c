# shellcheck shell=sh
# shellcheck disable=SC2154 # the plan sets adapter before, ib_ports.sh sets $list
# In a probe's pod on InfiniBand: the adapter with the number $adapter, from 0, as $hca, in the order of
# their PCI addresses, so that number 3 is the same place in every machine of a model. POSIX sh.
hca=$(printf %s "$list" | sort | sed -n "$((adapter + 1))s/.* //p")
[ -n "$hca" ] || {
  echo "this pod has no InfiniBand adapter number $adapter that is up" >&2
  exit 1
}
