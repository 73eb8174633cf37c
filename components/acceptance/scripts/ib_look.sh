#!/bin/sh
# What this host sees of its InfiniBand fabric: ports, keys, subnet managers. It changes nothing.
# `paths` holds questions, NAME,FROM,TO,KEY each: a path between two GIDs in a partition.
# `diagnose` holds the options of ibdiagnet, or `no`; one host is enough to ask the whole fabric.
set -u
: "${diagnose=no}" "${paths=}"

ask() {
  echo "=== $1"
  shift
  if command -v "$1" >/dev/null 2>&1; then
    "$@" 2>&1
    status=$?
    echo "status: $status"
  else
    status=127
    echo "missing: $1"
  fi
}

for device in /sys/class/infiniband/*; do
  port=$device/ports/1
  [ "$(cat "$port/link_layer" 2>/dev/null)" = InfiniBand ] || continue
  name=${device##*/}
  echo "=== port $name"
  for file in state phys_state rate lid sm_lid; do
    echo "$file: $(cat "$port/$file")"
  done
  echo "gid: $(cat "$port/gids/0")"
  # The key table is long, and most of it is empty.
  grep -h . "$port"/pkeys/* | sort -u | grep -v '^0x0000$' | sed 's/^/pkey: /'
  ibv_devinfo -d "$name" 2>/dev/null | grep active_mtu
done

ask sminfo sminfo
ask saquery saquery SMIR
# A question to a manager that does not answer takes seconds.
[ "$status" = 0 ] || paths=
for path in $paths; do
  rest=${path#*,}
  ends=${rest%,*}
  ask "path ${path%%,*}" saquery PR --sgid "${ends%,*}" --dgid "${ends#*,}" --pkey "${rest##*,}"
done
if [ "$diagnose" != no ]; then
  folder=$(mktemp -d)
  # shellcheck disable=SC2086 # options, one word each
  ask ibdiagnet ibdiagnet -o "$folder" $diagnose
  rm -rf "$folder"
fi
