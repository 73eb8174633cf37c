# shellcheck shell=sh
# shellcheck disable=SC2154 # work, stack, changed, ... are set by input.sh
# Puts every setting that we own back to the value recorded before our first change, removes the
# files that we made, and forgets the record. stdin: the state that was applied; only stack= counts.
# shellcheck source=/dev/null
. ./input.sh
# shellcheck source=/dev/null
. ./reading.sh
# shellcheck source=/dev/null
. ./firmware.sh
# shellcheck source=/dev/null
. ./docker.sh
# shellcheck source=/dev/null
. ./writing.sh

cat >"$work/input"
load_input "$work/input"
[ -n "$stack" ] || fail 'stdin has no stack= line'
state_dir=/var/lib/railyard/$stack
take_lock
if [ ! -e "$state_dir/baseline" ]; then
  printf '{"changed":[],"left":[],"note":"no baseline: nothing was changed here, or it is undone"}\n'
  exit 0
fi

left=''
ranked "$state_dir/baseline" -r >"$work/ordered"
while IFS= read -r line <&8; do
  key=${line%%=*}
  wanted=${line#*=}
  [ "$(read_key "$key")" != "$wanted" ] || continue
  if kept "$key" "$wanted"; then
    [ "$wanted" = unsupported ] || left="$left${left:+,}\"$key\""
    [ "$key" != docker.service ] || stop_unused_docker
  else
    write_key "$key" "$wanted"
    changed="$changed $key"
  fi
done 8<"$work/ordered"
[ "$reload_units" = no ] || run systemctl daemon-reload
apply_docker_config

while IFS= read -r line <&8; do
  key=${line%%=*}
  wanted=${line#*=}
  rm -f "$work"/qos.* "$work"/firmware.*
  now=$(read_key "$key")
  case $key:$wanted in
    *.vf_mtu_bytes:in-use) ;;
    docker.default_runtime:absent) [ "$now" = absent ] || left="$left${left:+,}\"$key\"" ;; # until dockerd restarts
    *.ats:*)
      [ "$now" = "$wanted" ] || fail "$key is '$now' after it was put back, want '$wanted'"
      [ "$(read_key "${key}_current")" = "$wanted" ] || left="$left${left:+,}\"${key}_current\"" # until a reboot
      ;;
    *) kept "$key" "$wanted" || [ "$now" = "$wanted" ] || fail "$key is '$now' after it was put back, want '$wanted'" ;;
  esac
done 8<"$work/ordered"

forget_docker
rm -f "$state_dir/baseline" "$state_dir/baseline.new" "$state_dir/hosts.orig"
rm -rf /run/railyard
rmdir "$state_dir" /var/lib/railyard 2>/dev/null
list=''
for key in $changed; do list="$list${list:+,}\"$key\""; done
printf '{"changed":[%s],"left":[%s]}\n' "$list" "$left"
