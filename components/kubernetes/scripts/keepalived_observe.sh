# shellcheck shell=sh
# Read-only look at keepalived; follows its reading. stdout: the present settings, and who else has
# the address or the number before this host does.
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_state
others
