# shellcheck shell=sh
# In a worker whose ranks get no environment of ours, after the search for its RDMA devices: writes what
# was found into the file that every NCCL reads, and runs the program. NCCL takes the first line that
# names a variable, and a variable of the rank's environment before any line. POSIX sh.
set -eu
conf=/etc/nccl.conf
rest=$(cat "$conf" 2>/dev/null) || rest=''
printf 'NCCL_IB_HCA=%s\n%s\n' "$NCCL_IB_HCA" "$rest" >"$conf"
exec "$@"
