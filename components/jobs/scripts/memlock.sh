# shellcheck shell=sh
# shellcheck disable=SC3045 # dash, bash and busybox have ulimit -l
# In a probe's pod, after the search for its device: RDMA pins memory. POSIX sh.
[ "$(ulimit -l)" = unlimited ] || {
  echo "the memlock limit of this pod is $(ulimit -l) KiB, want unlimited" >&2
  exit 1
}
