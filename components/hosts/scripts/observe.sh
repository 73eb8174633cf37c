# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only look at one host. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.
# shellcheck source=/dev/null
. ./input.sh
# shellcheck source=/dev/null
. ./reading.sh
# shellcheck source=/dev/null
. ./driver.sh
# shellcheck source=/dev/null
. ./driver_checks.sh
# shellcheck source=/dev/null
. ./driver_repository.sh
# shellcheck source=/dev/null
. ./firmware.sh
# shellcheck source=/dev/null
. ./sriov.sh
# shellcheck source=/dev/null
. ./qos.sh
# shellcheck source=/dev/null
. ./kernel.sh
# shellcheck source=/dev/null
. ./pci.sh
# shellcheck source=/dev/null
. ./routing.sh
# shellcheck source=/dev/null
. ./docker.sh
# shellcheck source=/dev/null
. ./service.sh
# shellcheck source=/dev/null
. ./look.sh

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
