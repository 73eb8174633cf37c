# shellcheck shell=sh
# shellcheck disable=SC2154 # peer is set by api_filter_reading.sh
# Read-only look at the filter before the API; follows api_filter_reading.sh. stdout: the present settings.
printf 'sudo=ok\n' # this runs as root, so sudo let us
find_peer
printf 'peer=%s\n' "${peer:-unknown}"
read_state
