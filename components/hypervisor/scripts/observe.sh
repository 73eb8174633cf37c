# shellcheck shell=sh
# shellcheck disable=SC2154 # work is set by input.sh
# Read-only look at one hypervisor. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.

cat >"$work/input"
load_input "$work/input"
read_all "$work/desired" "$work/actual"
cat "$work/actual"
