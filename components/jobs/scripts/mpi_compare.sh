# shellcheck shell=sh
# shellcheck disable=SC2154 # mpi_program.sh, which runs before, sets $program
# In the launcher: runs mpirun, and then the same again over TCP, as NVIDIA's DeepOps guide compares the two.
# Both run whatever the first one ends with; a failure of either is the job's. POSIX sh.
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
