# shellcheck shell=sh
# In a pod that has all GPUs of its node: what they say of themselves before, during and after a load.
# It judges nothing. `load` is a command whose own output is printed as it is. POSIX sh.
# Without the plan's lines before it, it takes load, bandwidth and diagnose (a level) from outside.
set -u
: "${load:=}" "${bandwidth:=nvbandwidth}" "${diagnose:=}"
say() { sed "s/^/railyard-node: $1 /"; }
core=index,pci.bus_id,name,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current
core=$core,pcie.link.width.max,temperature.gpu,power.draw,enforced.power.limit,clocks.sm,clocks.max.sm
# Drivers of 535 and later print another name for the last one, and take this one.
core=$core,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active
remap=gpu_bus_id,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure
csv=--format=csv,noheader,nounits
look() {
  echo begin "$1" | say phase
  timeout 60 nvidia-smi --query-gpu="$core" "$csv" 2>&1 | say gpu
  [ "$1" != load ] || return 0
  timeout 60 nvidia-smi --query-remapped-rows="$remap" "$csv" 2>&1 | say remap
  timeout 60 nvidia-smi --query-gpu=pci.bus_id,gpu_recovery_action "$csv" 2>/dev/null | say recovery
  timeout 60 nvidia-smi nvlink -s 2>&1 | say nvlink
  timeout 60 nvidia-smi nvlink -e 2>&1 | say nvlink
}
have() {
  command -v "$1" >/dev/null 2>&1 && return 0
  echo "$1" | say absent
  return 1
}
have nvidia-smi || { echo end | say phase; exit 0; }
look before
if have "$bandwidth"; then
  tests='host_to_device_memcpy_ce device_to_host_memcpy_ce device_to_device_memcpy_read_ce'
  # shellcheck disable=SC2086 # three words
  timeout 240 "$bandwidth" -j -t $tests 2>&1 | say nvbandwidth
fi
if [ -z "$diagnose" ]; then :; elif have dcgmi; then
  timeout 600 dcgmi diag -r "$diagnose" -j 2>&1 | say dcgm
fi
code=0
if [ -n "$load" ]; then
  (
    # A look that has begun ends: without its GPUs it would count none.
    over=
    trap 'over=1' TERM
    while sleep 2 && [ -z "$over" ]; do look load; done
  ) &
  sampler=$!
  sh -c "$load"
  code=$?
  kill "$sampler" 2>/dev/null
  wait "$sampler"
  echo "$code" | say exit
fi
look after
echo end | say phase
exit "$code"
