# shellcheck shell=sh
# shellcheck disable=SC2154 # another script sets hca before
# In a probe's pod with all GPUs: the PCI address of the GPU that shares most of the way through the
# PCIe switches with $hca, as $gpu. POSIX sh.
card=$(readlink -f "/sys/class/infiniband/$hca/device")
gpu=''
best=-1
for device in /sys/bus/pci/devices/*; do
  case $(cat "$device/vendor") in 0x10de) ;; *) continue ;; esac
  case $(cat "$device/class") in 0x03*) ;; *) continue ;; esac
  way=$(readlink -f "$device")
  shared=0
  rest=$way/
  while [ -n "$rest" ]; do
    part=${rest%%/*}
    rest=${rest#*/}
    so_far=${so_far:-}$part/
    case $card/ in "$so_far"*) shared=$((shared + 1)) ;; *) break ;; esac
  done
  so_far=''
  [ "$shared" -le "$best" ] || { best=$shared; gpu=${way##*/}; }
done
[ -n "$gpu" ] || {
  echo "no GPU of this pod is under /sys/bus/pci/devices" >&2
  exit 1
}
