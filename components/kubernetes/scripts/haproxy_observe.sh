# shellcheck shell=sh
# Read-only look at the balancer; follows haproxy_reading.sh. stdout: the present settings.
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_state
