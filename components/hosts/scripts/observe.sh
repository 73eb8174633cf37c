# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only look at one host. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.

pending_back() { # pending.back.<key>=<now> -> <before Railyard>: where such settings go when they are ours no longer
  cat /var/lib/railyard/*/baseline 2>/dev/null >"$work/recorded"
  while IFS= read -r line <&7; do
    key=${line%%=*}
    loads_at_boot "$key" || continue
    ! is_gone "$key" || continue
    now=$(read_key "${key}_current")
    case $now:${line#*=} in
      *unsupported* | *unknown* | *hidden* | *per_pf*) ;;
      *) printf 'pending.back.%s=%s -> %s\n' "$key" "$now" "${line#*=}" ;;
    esac
  done 7<"$work/recorded"
}

cat >"$work/all"
sed '/^look=/d' "$work/all" >"$work/input"
load_input "$work/input"
printf '# boot_id=%s\n' "$(show /proc/sys/kernel/random/boot_id)"
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_all "$work/desired" "$work/actual"
cat "$work/actual"
observe_firmware
pending
pending_back
if grep -q '^look=topology$' "$work/all"; then look_all /sys; fi
