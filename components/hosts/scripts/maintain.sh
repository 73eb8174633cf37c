# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, action, ... are set by input.sh
# The parts of taking a host out of service and back, one a run (`action=`). Between the parts the
# machine that asked talks to Kubernetes and waits for the boot. stdin: the settings that may wait, and
# hcas=, how many InfiniBand adapters the file says.
#   look     boot id, what waits, and the mark of a run that was not finished
#   begin    leave the mark
#   reboot   ask for the boot, soon, so that this session still ends
#   ready    after the boot: the unit that sets the cards, and the RDMA devices
#   loopback     an RDMA write from each card to itself, where perftest is there; adapters passed over
#   forget       all is done: take the marks away
#   forget-mark  it did not begin after all; what waits still waits

waiting_settings() { # what is not as wanted and can be set only out of service
  while IFS= read -r line <&8; do
    key=${line%%=*}
    interrupts "$key" "${line#*=}" || continue
    now=$(read_key "$key")
    [ "$now" = "${line#*=}" ] || printf 'pending.drain.%s=%s -> %s\n' "$key" "$now" "${line#*=}"
  done 8<"$work/desired"
}

refuse_unreadable() { # what waits in a card that cannot be asked would be taken for nothing
  cards_with_firmware >"$work/cards"
  while IFS= read -r pci <&7; do
    [ ! -d "/sys/bus/pci/devices/$pci" ] || ! firmware_error "$pci" >/dev/null || refuse_unreadable_card "$pci"
  done 7<"$work/cards"
}

look() {
  refuse_unreadable
  printf 'boot_id=%s\n' "$(boot_id)"
  pending
  waiting_settings
}

begin() {
  mkdir -p "$state_dir" || fail "cannot create $state_dir"
  [ -s "$mark" ] || {
    printf 'boot=%s\n' "$(boot_id)" >"$mark.new" && sync "$mark.new" && mv "$mark.new" "$mark"
  } || {
    rm -f "$mark.new"
    fail "cannot write $mark"
  }
  sync "$state_dir"
}

rdma_problem() { # PCI : why jobs could not use this card; nothing when they can. Sets $rdma, $gid
  gid=''
  rdma=$(printed find_first "/sys/bus/pci/devices/$1/infiniband")
  [ "$rdma" != absent ] || { echo 'it has no RDMA device: is the driver loaded?' && return; }
  port=/sys/class/infiniband/$rdma/ports/1
  state=$(cat "$port/state" 2>/dev/null)
  case $state in *ACTIVE*) ;; *) echo "port 1 of $rdma is ${state:-without a state}, want ACTIVE" && return ;; esac
  case $(cat "$port/link_layer" 2>/dev/null) in
    InfiniBand) indexes=0 ;;
    *) indexes=$(grep -s -l 'RoCE v2' "$port"/gid_attrs/types/* | sed 's/.*\///') ;;
  esac
  for index in $indexes; do
    case $(cat "$port/gids/$index" 2>/dev/null) in
      '' | 0000:0000:0000:0000:0000:0000:0000:0000) ;;
      *) gid=$index && return ;;
    esac
  done
  echo "port 1 of $rdma has no GID that RDMA could use"
}

vf_problem() { # PCI : VFs that are there without an RDMA device
  [ "$(cat "/sys/bus/pci/devices/$1/sriov_drivers_autoprobe" 2>/dev/null)" != 0 ] || return 0
  vfs_now=$(cat "/sys/bus/pci/devices/$1/sriov_numvfs" 2>/dev/null || echo 0)
  vfs_rdma=0
  for entry in "/sys/bus/pci/devices/$1"/virtfn*/infiniband/*; do
    if [ -e "$entry" ]; then vfs_rdma=$((vfs_rdma + 1)); fi
  done
  [ "$vfs_rdma" = "$vfs_now" ] || echo "$vfs_rdma of its $vfs_now VFs have an RDMA device"
}

ib_adapters() { # PCI addresses of the InfiniBand functions, but not the VFs of one that is here
  grep -s -l '^0x0207' /sys/bus/pci/devices/*/class | sed 's,/class$,,' | while IFS= read -r adapter; do
    [ -e "$adapter/physfn" ] || manages_nvswitch "$adapter" || echo "${adapter##*/}"
  done
}

# The file has no more of most InfiniBand adapters than their number, and a machine may have others:
# a port for storage that has no cable. So as many as the file says must be usable.

list_cards() { # $work/cards: those that jobs need; $work/spare: adapters beyond them that are not usable
  sed -n 's/^nic\.\([^=]*\)\.vfs=.*/\1/p' "$work/desired" | sort -u >"$work/named"
  ib_adapters | sort -u >"$work/adapters"
  while IFS= read -r pci <&7; do
    [ -n "$(rdma_problem "$pci")" ] || echo "$pci"
  done 7<"$work/adapters" >"$work/usable"
  needed=usable
  [ "$(wc -l <"$work/usable")" -ge "$hcas" ] || needed=adapters
  sort -u "$work/named" "$work/$needed" >"$work/cards"
  comm -13 "$work/cards" "$work/adapters" >"$work/spare"
}

missing_adapters() { # what is said where there are fewer than the file says
  found=$(wc -l <"$work/adapters")
  there=$(paste -s -d , "$work/adapters" | sed 's/,/, /g')
  [ "$found" -ge "$hcas" ] ||
    printf 'rdma.hcas=%s InfiniBand adapters are on its PCIe bus (%s), and the file says hcas: %s\n' \
      "$found" "${there:-none}" "$hcas"
}

ready() {
  grep -q '^unit.railyard-nics.enabled=enabled' "$work/desired" &&
    printf 'unit=%s\n' "$(systemctl is-active railyard-nics.service)"
  list_cards
  missing_adapters
  while IFS= read -r pci <&8; do
    problem=$(rdma_problem "$pci")
    if [ -z "$problem" ] && grep -q -x -F "$pci" "$work/named"; then problem=$(vf_problem "$pci"); fi
    printf 'rdma.%s=%s\n' "$pci" "${problem:-ok}"
  done 8<"$work/cards"
}

LOOPBACK_PORT=18615 # TCP, of 127.0.0.1 alone; perftest's own is 18515

write_to_itself() { # PCI : `ok`, or why it did not work
  rdma_problem "$1" >"$work/problem"
  ! grep . "$work/problem" || return 0
  timeout -k 5 40 ib_write_bw -d "$rdma" -x "$gid" -p "$LOOPBACK_PORT" -n 1000 -F >"$work/server" 2>&1 &
  server=$!
  tries=0
  while :; do
    sleep 1 # the server opens its port when the card's resources are there
    if timeout -k 5 30 ib_write_bw -d "$rdma" -x "$gid" -p "$LOOPBACK_PORT" -n 1000 -F 127.0.0.1 \
      >"$work/client" 2>&1; then
      echo ok
      break
    fi
    tries=$((tries + 1))
    if [ "$tries" = 5 ]; then
      kill "$server" 2>/dev/null
      printf 'ib_write_bw from %s to itself failed: %s\n' "$rdma" \
        "$(cat "$work/client" "$work/server" | grep '[a-z]' | paste -s -d ';' - | tr -s ' ' | cut -c 1-300)"
      break
    fi
  done
  wait "$server"
}

loopback() {
  list_cards
  while IFS= read -r pci <&8; do
    printf 'spare.%s=%s\n' "$pci" "$(rdma_problem "$pci")"
  done 8<"$work/spare"
  command -v ib_write_bw >/dev/null || return 0
  while IFS= read -r pci <&8; do
    printf 'loopback.%s=%s\n' "$pci" "$(write_to_itself "$pci")"
  done 8<"$work/cards"
}

cat >"$work/asked"
hcas=$(value_of hcas "$work/asked") || hcas=0
number "$hcas" 0 16 || fail "stdin: '$hcas' is no number of InfiniBand adapters"
grep -v '^hcas=' "$work/asked" >"$work/stdin"
take_input <"$work/stdin"
mark=$state_dir/reboot
case $action in
  look) look ;;
  begin) take_lock && begin ;;
  reboot) run systemd-run --quiet --collect --on-active=2 systemctl reboot ;;
  ready) ready ;;
  loopback) loopback ;;
  forget-mark) rm -f "$mark" "$mark.new" ;;
  forget)
    rm -f "$mark" "$mark.new" "$state_dir/reboot-pending"
    rmdir "$state_dir" /var/lib/railyard 2>/dev/null
    ;;
  *) fail "stdin: '$action' is no action" ;;
esac
exit 0
