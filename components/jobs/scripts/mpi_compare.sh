# shellcheck shell=sh
# In the launcher: as mpi_launch.sh, and after it the same again over TCP, as NVIDIA's DeepOps guide
# compares the two. Both run whatever the first one ends with; a failure of either is the job's.
# POSIX sh.
set -eu
printf '* %s\n' "$(cut -d' ' -f1,2 /root/.ssh/id_rsa.pub)" >/tmp/railyard_known_hosts
program=$(command -v "$1") || {
  echo "railyard: $1: not found: this image has none on its PATH ($PATH)" >&2
  exit 127
}
shift
code=0
echo 'railyard: launch over RDMA'
"$program" "$@" || code=$?
for word; do
  shift
  [ "$word" != NCCL_IB_DISABLE=0 ] || word=NCCL_IB_DISABLE=1
  set -- "$@" "$word"
done
echo 'railyard: launch over TCP'
"$program" "$@" || code=$?
exit "$code"
