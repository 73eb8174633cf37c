# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, ... are set by input.sh
# The kernel: its modules, settings, limits, huge pages and CPU governor. What is on the PCIe path, on the
# kernel's command line, and the RDMA namespace mode is in pci.sh, routes are in routing.sh.

notes='' # what a person should know and no setting shows; converge reports it
still_used='' # what cannot be put back since another uses it: it is listed as left

HUGEPAGES=/sys/kernel/mm/hugepages
NODES=/sys/devices/system/node
GOVERNORS=/sys/devices/system/cpu/cpufreq

note() { # WORDS...
  note_text=$*
  case $note_text in *[[:cntrl:]\\\"]*) note_text=$(json_text "$note_text") ;; esac
  notes="$notes${notes:+,}\"$note_text\""
}

sysctl_name() { # NAME : dotted, as sysctl(8) prints it; a dot inside of a part is written as /
  case $1 in
    *[!A-Za-z0-9._/-]* | .* | *. | /* | */ | *..* | *//* | *./* | */.*) return 1 ;;
    *.*) ;;
    *) return 1 ;;
  esac
}

find_kernel() { # KEY
  case $1 in
    module.*) if has_module "${1#module.}"; then value=loaded; else value=absent; fi ;;
    unit.*.limit_memlock) find_memlock "$1" ;;
    kernel.limits.*) find_limit "$1" ;;
    kernel.sysctl.*) find_sysctl "${1#kernel.sysctl.}" ;;
    kernel.hugepages.*) find_hugepages_file "$1" && find_line "$pages_file" ;;
    kernel.governor) value=$(read_governor) ;;
    kernel.numa_balancing) find_numa_balancing ;;
    kernel.cgroup) if [ -e /sys/fs/cgroup/cgroup.controllers ]; then value=v2; else value=v1; fi ;;
  esac
}

has_module() { # NAME : loaded, or built into the kernel, where one without parameters has no folder
  [ ! -d "/sys/module/$1" ] || return 0
  builtin=$(printf '%s\n' "$1" | sed 's/[-_]/[-_]/g')
  ! grep -q -s "/$builtin\.ko" "/lib/modules/$(uname -r)/modules.builtin" || return 0
  case $1 in # a kernel that came without its list of modules shows them by what they bring
    rdma_cm) [ -e /sys/class/misc/rdma_cm ] ;;
    ib_uverbs) [ -e /sys/class/infiniband_verbs ] ;;
    ib_umad) [ -e /sys/class/infiniband_mad ] ;;
    br_netfilter) [ -e /proc/sys/net/bridge ] ;;
    *) false ;;
  esac
}

write_kernel() { # KEY VALUE
  case $1 in
    module.*) write_module "${1#module.}" "$2" ;;
    unit.*.limit_memlock) write_memlock "$1" "$2" ;;
    kernel.limits.*) write_limit "$1" "$2" ;;
    kernel.sysctl.*) write_sysctl "${1#kernel.sysctl.}" "$2" ;;
    kernel.hugepages.*) write_hugepages "$1" "$2" ;;
    kernel.governor) write_governor "$2" ;;
    kernel.numa_balancing) write_numa_balancing "$2" ;;
    kernel.cgroup)
      fail 'this host runs control groups v1, on which kubelet 1.35 and later does not start: boot with' \
        'systemd.unified_cgroup_hierarchy=1 on the command line of the kernel (Ubuntu 21.10, RHEL 9 and later' \
        'have v2 without it), or take Kubernetes 1.34'
      ;;
  esac
}

# Kernel settings: one process reads all that this run knows of. The shell's own read would take
# one byte at a time, and a file of /proc/sys gives its value to the first byte's reader only.

find_sysctl() { # NAME
  if [ ! -e "$work/kernel.sysctls" ]; then
    { cat "$work/desired" "${state_dir:-/none}/baseline" 2>/dev/null | sed -n 's/^kernel\.sysctl\.\([^=]*\)=.*/\1/p'
      echo "$1"; } | sort -u | tr ./ /. | sed 's,^,/proc/sys/,' | xargs grep -s -H '' |
      awk '{ at = index($0, ":"); path = substr($0, 11, at - 11); if (seen[path]++) next
        gsub(/\./, "\t", path); gsub(/\//, ".", path); gsub(/\t/, "/", path)
        value = substr($0, at + 1); gsub(/[ \t]+/, " ", value); gsub(/^ | $/, "", value)
        print path "=" (value == "" ? "(empty)" : value) }' >"$work/kernel.sysctls"
  fi
  value=''
  while IFS= read -r sysctl_line; do
    case $sysctl_line in "$1="*) value=${sysctl_line#*=} && break ;; esac
  done <"$work/kernel.sysctls"
  # Of a pair one is 0 while the other counts: 0/20 is 0, where the other is 20. A ratio alone takes 0.
  if [ "$value" = 0 ] && find_sysctl_pair "$1"; then
    find_sysctl_file "$sysctl_other"
    find_line "$sysctl_path"
    case $1:$value in *: | *_ratio:0) value=0 ;; *) value=0/$value ;; esac
  fi
}

find_sysctl_pair() { # NAME : $sysctl_other, which the kernel makes 0 when this one is written
  # (admin-guide/sysctl/vm.rst)
  case $1 in
    vm.dirty_bytes | vm.dirty_background_bytes) sysctl_other=${1%_bytes}_ratio ;;
    vm.dirty_ratio | vm.dirty_background_ratio) sysctl_other=${1%_ratio}_bytes ;;
    vm.overcommit_kbytes) sysctl_other=vm.overcommit_ratio ;;
    vm.overcommit_ratio) sysctl_other=vm.overcommit_kbytes ;;
    *) return 1 ;;
  esac
}

went_with_module() { # kernel.sysctl.<name> : before us there was neither it nor its module
  sysctl_is_gone "$1" && find_module "$1" &&
    [ "$(value_of "module.$brings" "${state_dir:-/none}/baseline" 2>/dev/null)" = absent ]
}

sysctl_is_gone() { # KEY : its module is not loaded, or a network device has another name
  find_sysctl_file "$1"
  [ ! -e "$sysctl_path" ]
}

pages_are_gone() { # KEY
  find_hugepages_file "$1"
  [ ! -e "$pages_file" ]
}

governor_is_gone() { [ -z "$(read_governor)" ]; }

balancing_is_gone() { [ ! -e /proc/sys/kernel/numa_balancing ]; }

find_sysctl_file() { # NAME or key : $sysctl_path; a dot is a slash there, and a slash a dot
  sysctl_left=${1#kernel.sysctl.}
  sysctl_path=/proc/sys/
  while :; do
    case $sysctl_left in
      *[./]*)
        sysctl_part=${sysctl_left%%[./]*}
        sysctl_left=${sysctl_left#"$sysctl_part"}
        case $sysctl_left in
          .*) sysctl_path=$sysctl_path$sysctl_part/ ;;
          *) sysctl_path=$sysctl_path$sysctl_part. ;;
        esac
        sysctl_left=${sysctl_left#?}
        ;;
      *) sysctl_path=$sysctl_path$sysctl_left && return ;;
    esac
  done
}

write_sysctl() { # NAME VALUE
  find_sysctl_file "$1"
  [ -e "$sysctl_path" ] ||
    fail "this kernel has no setting $1 (no $sysctl_path): see sysctl -a; its module may not be" \
      'loaded, or the network device has another name. Correct it in host_defaults.kernel.sysctls'
  rm -f "$work/kernel.sysctls"
  case $1:$2 in
    *:'(empty)') put '' "$sysctl_path" ;;
    vm.*:0/*) find_sysctl_pair "$1" && write_sysctl "$sysctl_other" "${2#0/}" ;; # which makes this one 0
    vm.dirty_ratio:0) put 1 "$sysctl_path" && put 0 "$sysctl_path" ;; # 0 once more is no change to the kernel
    *) put "$2" "$sysctl_path" ;;
  esac
}

note_rivals() { # files that set one of our settings to another value at boot; our unit runs later
  asks_for sysctl || return 0
  grep '^kernel\.sysctl\.' "$work/desired" >"$work/kernel.ours" 2>/dev/null || return 0
  for rival_file in /usr/lib/sysctl.d/*.conf /run/sysctl.d/*.conf /etc/sysctl.d/*.conf /etc/sysctl.conf; do
    [ ! -e "$rival_file" ] || awk '
      NR == FNR { at = index($0, "="); ours[substr($0, 15, at - 15)] = substr($0, at + 1); next }
      /^[ \t]*[;#]/ || !/=/ { next }
      { sub(/\r$/, "") # of a file that was written on another system
        at = index($0, "="); key = substr($0, 1, at - 1); value = substr($0, at + 1)
        gsub(/^[ \t-]+|[ \t]+$/, "", key); gsub(/[ \t]+/, " ", value); gsub(/^ | $/, "", value)
        if (match(key, /[.\/]/) && substr(key, RSTART, 1) == "/") {
          gsub(/\./, "\t", key); gsub(/\//, ".", key); gsub(/\t/, "/", key) }
        if (key !~ /^[A-Za-z0-9._*\/-]+$/) next
        form = key; gsub(/\./, "[.]", form); gsub(/\*/, ".*", form)
        for (each in ours) if (each ~ "^" form "$" && ours[each] != value)
          print FILENAME " sets " key " to " value " at boot, and railyard-nics.service " each " to " \
            ours[each] " after it" }' "$work/kernel.ours" "$rival_file"
  done >"$work/kernel.rivals"
  while IFS= read -r rival; do note "$rival"; done <"$work/kernel.rivals"
}

# Huge pages: the kernel spreads a total over the nodes; to put a total back exactly, what each node
# had before our first change is kept beside the baseline.

find_hugepages_file() { # KEY : $pages_file
  case $1 in *.2mib*) pages_dir=hugepages-2048kB ;; *) pages_dir=hugepages-1048576kB ;; esac
  case $1 in
    *.node*) pages_file=$NODES/node${1##*.node}/hugepages/$pages_dir/nr_hugepages ;;
    *) pages_file=$HUGEPAGES/$pages_dir/nr_hugepages ;;
  esac
}

write_hugepages() { # KEY COUNT|absent
  find_hugepages_file "$1"
  [ -e "$pages_file" ] ||
    fail "$1 cannot be set: there is no $pages_file. The processor lacks this page size" \
      '(pdpe1gb in /proc/cpuinfo for 1 GiB), or the machine has no such NUMA node'
  pages_kept=${state_dir:-/none}/hugepages.${1##*.hugepages.}
  case $1:$(value_of "$1" "${state_dir:-/none}/baseline" 2>/dev/null) in
    *.node*) put "$2" "$pages_file" ;;
    *":$2") restore_hugepages "$2" ;;
    *)
      [ ! -d "${state_dir:-/none}" ] || [ -e "$pages_kept" ] ||
        grep -s -H '' "$NODES"/node*/hugepages/"$pages_dir"/nr_hugepages >"$pages_kept"
      put "$2" "$pages_file"
      ;;
  esac
  pages_now=$(cat "$pages_file")
  [ "$pages_now" = "$2" ] || case $restoring in
    yes) fail "the kernel gave back $pages_now of $2 huge pages ($1): memory is in use or in pieces; after a" \
      "reboot: echo $2 >$pages_file" ;;
    *) fail "the kernel gave $pages_now of $2 huge pages ($1): memory is in use or in pieces. Reboot:" \
      'railyard-nics.service asks for them early; or ask for fewer, or for 2 MiB pages' ;;
  esac
}

restore_hugepages() { # COUNT : the recorded total; node by node where that is known
  if [ -s "$pages_kept" ]; then
    while IFS= read -r pages_line; do # a node may have gone since
      [ ! -e "${pages_line%:*}" ] || put "${pages_line##*:}" "${pages_line%:*}"
    done <"$pages_kept"
    rm -f "$pages_kept"
  else
    put "$1" "$pages_file"
  fi
}

# The CPU governor: one word where all policies have the same, else each with its policies:
# "performance:0.2,powersave:1".

read_governor() {
  grep -s -H '' "$GOVERNORS"/policy*/scaling_governor | awk -F : '{
      sub(/.*policy/, "", $1); sub(/\/.*/, "", $1)
      if (!($2 in list)) order[++count] = $2
      list[$2] = list[$2] (list[$2] == "" ? "" : ".") $1 }
    END { if (count == 1) print order[1]
      else for (i = 1; i <= count; i++)
        printf "%s%s:%s%s", (i > 1 ? "," : ""), order[i], list[order[i]], (i < count ? "" : "\n") }'
}

write_governor() { # VALUE
  [ -n "$(read_governor)" ] ||
    fail 'this machine has no CPU frequency scaling (a virtual machine, or the BIOS keeps it to' \
      'itself): remove host_defaults.kernel.cpu_governor, or let the BIOS leave it to the system'
  policies_gone=''
  case $1 in
    *:*) printf '%s\n' "$1" | tr , '\n' >"$work/governors" ;;
    *) echo "$1" >"$work/governors" ;;
  esac
  while IFS=: read -r governor policies; do
    if [ -z "$policies" ]; then
      put_governor "$governor" "$GOVERNORS"/policy*/scaling_governor
    else
      printf '%s\n' "$policies" | tr . '\n' | sed "s,.*,$GOVERNORS/policy&/scaling_governor," >"$work/policies"
      while IFS= read -r policy <&7; do
        if [ -e "$policy" ]; then put_governor "$governor" "$policy"; else policies_gone="$policies_gone $policy"; fi
      done 7<"$work/policies"
    fi
  done <"$work/governors"
  [ -z "$policies_gone" ] ||
    fail "there is no$policies_gone any more, whose CPU governor is recorded: are these CPUs offline?"
}

put_governor() { # GOVERNOR FILE...
  governor=$1
  shift
  printf '%s\n' "$governor" | tee "$@" >/dev/null 2>&1 ||
    fail "the kernel refuses the CPU governor '$governor'; this machine has:" \
      "$(cat "${1%/*}/scaling_available_governors" 2>/dev/null)"
}

find_numa_balancing() { # one digit; 2 moves pages between kinds of memory
  find_line /proc/sys/kernel/numa_balancing
  case $value in 0) value=off ;; 1) value=on ;; esac
}

write_numa_balancing() { # on|off|NUMBER
  [ -e /proc/sys/kernel/numa_balancing ] ||
    fail 'this kernel has no NUMA balancing: remove host_defaults.kernel.numa_balancing'
  case $1 in on) put 1 /proc/sys/kernel/numa_balancing ;; off) put 0 /proc/sys/kernel/numa_balancing ;;
    *) put "$1" /proc/sys/kernel/numa_balancing ;; esac
}

find_memlock_file() { # unit.<unit>.limit_memlock : $drop_in
  unit=${1#unit.}
  unit=${unit%.limit_memlock}
  drop_in=/etc/systemd/system/$unit.service.d/10-railyard-memlock.conf
}

find_memlock() { # KEY : of several lines systemd takes the last one
  find_memlock_file "$1"
  value=absent
  [ -e "$drop_in" ] || return 0
  value=''
  while IFS= read -r memlock_line || [ -n "$memlock_line" ]; do
    case $memlock_line in LimitMEMLOCK=*) value=${memlock_line#*=} ;; esac
  done <"$drop_in"
}

find_limit_file() { # kernel.limits.<user>.memlock : $limit_path
  limit_user=${1#kernel.limits.}
  limit_user=${limit_user%.memlock}
  limit_path=/etc/security/limits.d/90-railyard-$limit_user.conf
}

find_limit() { # KEY
  find_limit_file "$1"
  value=absent
  [ -e "$limit_path" ] || return 0
  while read -r limit_who limit_kind limit_item limit_value limit_rest || [ -n "$limit_who" ]; do
    case $limit_item in memlock) value=$limit_value && return ;; esac
  done <"$limit_path"
}

write_limit() { # KEY unlimited|absent
  find_limit_file "$1"
  if [ "$2" = absent ]; then
    rm -f "$limit_path"
    return
  fi
  (umask 022 && mkdir -p "${limit_path%/*}" && echo "$limit_user - memlock $2" >"$limit_path") ||
    fail "cannot write $limit_path"
}

write_module() { # NAME loaded|absent
  if [ "$2" = absent ]; then
    unload_module "$1"
    return
  fi
  check_peer_module "$1"
  module_output=$(modprobe "$1" 2>&1) || case $1 in
    nvidia_peermem)
      fail "modprobe nvidia_peermem: $module_output. Its GPU driver was built before the RDMA" \
        'driver, or the RDMA driver is inbox: rebuild it, or set host_defaults.gpu_direct: dma_buf'
      ;;
    *) fail "modprobe $1: $module_output" ;;
  esac
  [ ! -e "$work/kernel.sysctls" ] || rm -f "$work/kernel.sysctls" # it may have brought some
}

unload_module() { # NAME : what uses it by now (rdma-core's services, a container) is not ours to stop
  case $1:$(echo /sys/class/net/*/bridge) in br_netfilter:*'*'*) ;; br_netfilter:*) # pods' bridges do not hold it
    still_used="$still_used module.$1" && return ;; esac
  module_output=$(modprobe -r "$1" 2>&1) || case $module_output in
    *'in use'* | *builtin*) still_used="$still_used module.$1" ;;
    *) fail "modprobe -r $1: $module_output" ;;
  esac
}

is_still_used() { # KEY
  case " $still_used " in *" $1 "*) ;; *) return 1 ;; esac
}

write_memlock() { # KEY VALUE|absent
  find_memlock_file "$1"
  restart_memlock "$unit"
  owe daemon-reload
  reload_units=yes
  if [ "$2" = absent ]; then
    rm -f "$drop_in"
    rmdir "${drop_in%/*}" 2>/dev/null
  else
    (umask 022 && mkdir -p "${drop_in%/*}")
    printf '[Service]\nLimitMEMLOCK=%s\n' "$2" >"$drop_in" || fail "cannot write $drop_in"
    chmod 0644 "$drop_in"
  fi
}

restart_memlock() { # UNIT
  case $1 in
    docker | containerd) # its restart ends every container of Docker's
      [ -z "$(docker ps --quiet 2>/dev/null)" ] || {
        note "$1 takes its new locked-memory limit at its next start: containers run in it now"
        return 0
      }
      ;;
  esac
  owe "restart $1"
  restart_units="$restart_units $1"
}

forget_kernel() { # after an undo: what only we needed
  rm -f "$state_dir"/hugepages.*
  forget_pci
}
