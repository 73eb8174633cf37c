# shellcheck shell=sh
# shellcheck disable=SC2154 # rdma_device.sh, which runs before, sets $hcas and $gid
# In each rank: runs the program with NCCL bound to the RDMA devices of its own host, and told the
# index of their GIDs. NCCL before 2.21 takes index 0 otherwise, which is RoCE v1 and carries no DSCP.
export NCCL_IB_HCA="=$hcas"
if [ -n "$gid" ] && [ -z "${NCCL_IB_GID_INDEX:-}" ]; then
  export NCCL_IB_GID_INDEX="$gid"
fi
exec "$@"
