# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only look at one host. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.

cat >"$work/all"
sed '/^look=/d' "$work/all" >"$work/input"
load_input "$work/input"
printf '# boot_id=%s\n' "$(show /proc/sys/kernel/random/boot_id)"
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_all "$work/desired" "$work/actual"
cat "$work/actual"
observe_firmware
pending
if grep -q '^look=topology$' "$work/all"; then look_all /sys; fi
