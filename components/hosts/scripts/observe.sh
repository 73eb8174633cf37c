# shellcheck shell=sh
# shellcheck disable=SC2154 # work and stack are set by input.sh
# Read-only look at one host. stdin: key=value lines; their keys are what is looked at.
# stdout: the same keys with the values that the host has now.

pending_back() { # pending.back.<key>=<now> -> <before Railyard>: where such settings go when they are ours no longer
  set -- /var/lib/railyard/*/baseline
  [ -e "$1" ] || return 0
  grep -h -E "$next_boot" "$@" >"$work/recorded"
  while IFS= read -r line <&7; do
    key=${line%%=*}
    ! is_gone "$key" || continue
    find_value "${key}_current"
    now=$value
    case $now:${line#*=} in
      *unsupported* | *unknown* | *hidden* | *per_pf*) ;;
      *) printf 'pending.back.%s=%s -> %s\n' "$key" "$now" "${line#*=}" ;;
    esac
  done 7<"$work/recorded"
}

observe_owners() { # user.<name>.uid_owner=<other user> : who has a uid that is wanted and not there
  while IFS='=' read -r key uid <&8; do
    case $key in user.*.uid) ;; *) continue ;; esac
    user=${key#user.}
    find_owner "$uid"
    [ -z "$value" ] || [ "$value" = "${user%.uid}" ] || printf '%s_owner=%s\n' "$key" "$value"
  done 8<"$work/differ"
}

cat >"$work/input"
# shellcheck disable=SC2034 # input.sh asks
takes_look=yes
look=nothing
load_input "$work/input"
find_line /proc/sys/kernel/random/boot_id
printf '# boot_id=%s\n' "$value"
find_line /etc/machine-id
printf 'machine.id=%s\n' "$value"
printf 'sudo=ok\n' # this runs as root, so sudo let us
read_all "$work/desired" "$work/actual" "$work/differ"
cat "$work/actual"
observe_owners
observe_firmware
pending
pending_back
if [ "$look" = topology ]; then look_all /sys; fi
