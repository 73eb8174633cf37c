# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# Prints the present values of the settings on stdin. Read-only.

find_home
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
    stack=* | repair=* | registry=* | registry_user=* | peers=*) ;;
    *=*) printf '%s=%s\n' "${line%%=*}" "$(read_key "${line%%=*}")" ;;
  esac
done
