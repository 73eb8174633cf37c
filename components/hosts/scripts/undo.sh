# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, changed, ... are set by input.sh
# Puts every setting that we own back to the value recorded before our first change, removes the
# files that we made, and forgets the record. stdin: the state that was applied; only stack= counts.

find_due() { # what differs and can be put back, and was not yet
  ranked "$work/differ" -r >"$work/ordered"
  while IFS= read -r line <&8; do
    key=${line%%=*}
    ! nothing_to_undo "$key" || continue
    if ! kept "$key" "${line#*=}"; then
      printf '%s\n' "$line"
    elif [ "$key" = docker.service ]; then
      stop_unused_docker
    fi
  done 8<"$work/ordered" >"$work/back"
  lines_without "$work/written" "$work/back" >"$work/due"
}

take_input
take_lock
if [ ! -e "$state_dir/baseline" ]; then
  printf '{"changed":[],"left":[],"note":"no baseline: nothing was changed here, or it is undone"}\n'
  exit 0
fi

take_up_due
left=''
# shellcheck disable=SC2034 # writing.sh and pci.sh ask
restoring=yes
read_all "$state_dir/baseline" "$work/actual" "$work/differ"
: >"$work/written"
while find_due && [ -s "$work/due" ]; do # new VFs lose the MTU that a round before left alone
  cat "$work/due" >>"$work/written" || fail "cannot write $work/written"
  with_vfs "$work/due" "$state_dir/baseline" >"$work/round"
  ranked "$work/round" -r >"$work/back"
  write_all "$work/back"
  take_effect
  read_all "$state_dir/baseline" "$work/actual" "$work/differ"
done
for key in $still_used; do left="$left${left:+,}\"$key\""; done

while IFS= read -r line <&8; do
  key=${line%%=*}
  wanted=${line#*=}
  ! nothing_to_undo "$key" || continue
  ! is_still_used "$key" || continue
  case $key:$wanted in
    *.vf_mtu_bytes:in-use | *:unsupported | *:unreadable | *:hidden | *:per_pf) ;;
    docker.default_runtime:absent) left="$left${left:+,}\"$key\"" ;; # until dockerd restarts
    # Neither enabled, disabled nor masked: systemctl cannot make it so.
    docker.service:[!edm]*) left="$left${left:+,}\"$key\"" ;;
    *)
      kept "$key" "$wanted" || fail "$key is '$(value_of "$key" "$work/actual")' after it was put back, want '$wanted'"
      left="$left${left:+,}\"$key\""
      ;;
  esac
done 8<"$work/ordered"
grep -E "$next_boot" "$state_dir/baseline" >"$work/next_boot"
ranked "$work/next_boot" -r >"$work/ordered"
while IFS= read -r line <&8; do
  key=${line%%=*}
  case $line in *=unsupported | *=unreadable | *=hidden | *=per_pf) continue ;; esac
  ! is_gone "$key" || continue # listed with its other settings
  find_value "${key}_current"
  case $line in # a name that udev gave by our file, and that the device has until then
    *.boot_*=absent) [ "$value" = "$(value_of "$key" "$work/desired")" ] || continue ;;
  esac
  [ "$value" = "${line#*=}" ] ||
    left="$left${left:+,}\"${key}_current\"" # until a reboot
done 8<"$work/ordered"

forget_docker
forget_kernel
[ -e "$BOOT_UNIT" ] || rm -f /etc/systemd/system/*.wants/railyard-nics.service # of a unit that a hand removed
rm -f "$state_dir/baseline" "$state_dir/baseline.new" "$state_dir/hosts.orig" "$state_dir/vfs" "$state_dir/released" \
  "$state_dir/name" \
  "$state_dir"/fw_needs.* "$state_dir/reboot" "$state_dir/reboot.new" "$state_dir/reboot-pending" "$state_dir/due"
rm -rf /run/railyard
rmdir "$state_dir" /var/lib/railyard 2>/dev/null
print_changed ",\"left\":[$left]${notes:+,\"notes\":[$notes]}"
