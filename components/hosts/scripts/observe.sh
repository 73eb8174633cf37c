# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only look at one host. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.
# shellcheck source=/dev/null
. ./input.sh
# shellcheck source=/dev/null
. ./reading.sh
# shellcheck source=/dev/null
. ./firmware.sh
# shellcheck source=/dev/null
. ./docker.sh

cat >"$work/input"
load_input "$work/input"
printf '# boot_id=%s\n' "$(cat /proc/sys/kernel/random/boot_id)"
printf 'sudo=ok\n' # this runs as root, so sudo let us
while IFS= read -r line; do
  printf '%s=%s\n' "${line%%=*}" "$(read_key "${line%%=*}")"
done <"$work/desired"
