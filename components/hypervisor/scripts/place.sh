# shellcheck shell=sh
# shellcheck disable=SC2154 # work, state_dir, ... are set by input.sh and reading.sh
# Prints the folder of the tools: on the datastore of the previous values, by the same rule.
# Read-only. stdin: stack= and order=.

take_input
look
find_state_dir
echo "${state_dir%/*}/tools"
