# shellcheck shell=sh
# shellcheck disable=SC2154 # work, BOOT_CONFIG, ... are set by input.sh
# Run by railyard-nics.service at each boot: VFs, MTU and QoS of a card are lost at a reboot.
# A setting that fails does not keep the others from being set; the unit then shows as failed.

take_lock
[ -s "$BOOT_CONFIG" ] || # an update that was killed, or a hand
  fail "$BOOT_CONFIG is not there, or empty: no setting of this host was made at this boot; update the stack"
load_input "$BOOT_CONFIG" # under the lock: an update may be writing it
waited_s=0
# What shows that a PF's driver has probed: its network device, or on InfiniBand its RDMA device.
awk -F = '{ pci = $1
    if (!sub(/^nic\./, "", pci)) next
    if (sub(/\.netdev$/, "", pci)) part[pci] = "net"
    else if (sub(/\.vfs$/, "", pci) && !(pci in part)) part[pci] = "infiniband" }
  END { for (pci in part) print pci, part[pci] }' "$work/desired" >"$work/cards"
while read -r pci part <&8; do
  while find_first "/sys/bus/pci/devices/$pci/$part" && [ "$value" = absent ] && [ "$waited_s" -lt 60 ]; do
    sleep 1 # the driver may still be probing
    waited_s=$((waited_s + 1))
  done
done 8<"$work/cards"
status=0
ranked "$work/desired" >"$work/ordered"
while IFS= read -r line <&8; do
  key=${line%%=*}
  wanted=${line#*=}
  find_value "$key"
  [ "$value" != "$wanted" ] || continue
  (trap - EXIT && write_key "$key" "$wanted") || status=1
  forget_answers
  find_value "$key"
  [ "$value" = "$wanted" ] || { printf 'railyard: %s is %s, want %s\n' "$key" "$value" "$wanted" >&2 && status=1; }
done 8<"$work/ordered"
mark_vf_mtus
exit "$status"
