# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only look at one host. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.

pending_back() { # pending.back.<key>=<now> -> <before Railyard>: where such settings go when they are ours no longer
  set -- /var/lib/railyard/*/baseline
  [ -e "$1" ] || return 0
  grep -h -E '^(nic\..*\.(ats|fw_[a-z0-9_]*)|kernel\.(cmdline|rdma_netns)[^=]*)=' "$@" >"$work/recorded"
  while IFS= read -r line <&7; do
    key=${line%%=*}
    loads_at_boot "$key" || continue
    ! is_gone "$key" || continue
    find_value "${key}_current"
    now=$value
    case $now:${line#*=} in
      *unsupported* | *unknown* | *hidden* | *per_pf*) ;;
      *) printf 'pending.back.%s=%s -> %s\n' "$key" "$now" "${line#*=}" ;;
    esac
  done 7<"$work/recorded"
}

cat >"$work/input"
# shellcheck disable=SC2034 # input.sh asks
takes_look=yes
look=nothing
load_input "$work/input"
find_line /proc/sys/kernel/random/boot_id
printf '# boot_id=%s\n' "$value"
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_all "$work/desired" "$work/actual"
cat "$work/actual"
observe_firmware
pending
pending_back
if [ "$look" = topology ]; then look_all /sys; fi
