# shellcheck shell=sh
# shellcheck disable=SC2034 # the texts that follow this one use the variables
# Every setting that Railyard may own on a Linux host: how it is read, how it is written.
# This part reads stdin and asks the parts of each topic (driver, firmware, sriov, qos, kernel,
# pci, routing, docker) which keys and values there may be; they, reading.sh and writing.sh follow it in observe,
# converge, undo and the boot unit, so that one reading serves drift, comparison and restoring. POSIX sh, as root; beside coreutils it uses flock, awk,
# sed, ethtool, and mlnx_qos for the QoS of a card.
set -u
umask 077
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

changed=''
in_part='' # what may have changed beside the settings of $changed
reload_units=no
restart_units=''
reboot_required=false
driver_source=''
driver_sha256=''
stack=''
work=$(mktemp -d "${TMPDIR:-/tmp}/railyard.XXXXXX") || exit 1
trap 'end_tool $?; rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM

fail() {
  printf 'railyard: %s\n' "$*" >&2
  printf 'railyard: changed before this: %s\n' "${changed:-nothing}$in_part" >&2
  exit 1
}

run() { # COMMAND... : its output is shown only when it fails
  run_output=$("$@" 2>&1) || fail "\`$*\` failed: ${run_output:-no output}"
}

put() { # VALUE FILE : tee, because a shell's own printf hides the kernel's reason
  put_output=$({ printf '%s\n' "$1" | tee "$2" >/dev/null; } 2>&1) ||
    fail "writing $1 failed: ${put_output:-no output}"
}

json_text() { # WORDS... of this host: without what would end a text of JSON, or is in none
  printf '%s' "$*" | tr -d '\000-\037\\"'
}

take_lock() { # a killed engine can leave a script running here: two must not mix
  exec 9>/run/railyard.lock || fail 'cannot open /run/railyard.lock'
  flock_output=$(flock -w 120 9 2>&1) || case $flock_output in # it says nothing of a lock that is held
    '') fail 'another Railyard run holds /run/railyard.lock for 120 s; wait for it' ;;
    *) fail "cannot lock /run/railyard.lock ($flock_output): install util-linux, which has flock, then run again" ;;
  esac
}

number() { # VALUE LOWEST HIGHEST
  case $1 in '' | *[!0-9]* | ??????*) return 1 ;; esac
  [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

name() { # VALUE : what a host, user, unit or network device may be called
  case $1 in '' | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) return 1 ;; esac
}

split_nic() { # nic.<pci>.<setting> to $pci and $setting
  pci=${1#nic.}
  setting=${pci##*.}
  pci=${pci%.*}
}

valid_key() {
  case $1 in
    hostname) ;;
    hosts_block) ;;
    hosts.*) name "${1#hosts.}" ;; # one name: what its cloud makes, and what older versions recorded
    user.*.uid) valid_part=${1#user.} && name "${valid_part%.uid}" ;;
    docker.engine | docker.toolkit | docker.service | docker.runtime | docker.default_runtime) ;;
    unit.railyard-nics.files | unit.railyard-nics.enabled) ;;
    driver.*) driver_key "$1" ;;
    module.* | kernel.* | unit.*.limit_memlock) kernel_key "$1" ;;
    route.*) route_key "${1#route.}" ;;
    vf.????:??:??.?.*) vf_key "$1" ;;
    nic.????:??:??.?.*)
      split_nic "$1"
      case $pci in *[!0-9a-f:.]*) return 1 ;; esac
      case $setting in
        netdev | mtu_bytes | address | link) ;;
        *) firmware_key "$setting" || sriov_key "$setting" || qos_key "$setting" ;;
      esac
      ;;
    *) return 1 ;;
  esac
}

valid_value() { # KEY VALUE : of the wanted state; recorded values are our own
  case $2 in '' | *[!A-Za-z0-9\ ._:/,+-]*) return 1 ;; esac
  case $1 in
    hosts_block) case ${2##* } in ????????????????????????????????????????????????????????????????) ;; *) return 1 ;; esac ;;
    *.uid) number "$2" 1 60000 ;;
    *.mtu_bytes) number "$2" 576 9978 ;;
    *.link) [ "$2" = up ] || [ "$2" = down ] ;;
    *.address) case $2 in [1-9]*.*.*.*/[1-9]*) case $2 in *[!0-9./]*) return 1 ;; esac ;; *) return 1 ;; esac ;;
    docker.engine | docker.toolkit) [ "$2" = present ] ;;
    *.netdev | hostname) name "$2" ;;
    driver.*) driver_value "$1" "$2" ;;
    module.* | kernel.* | route.* | unit.*.limit_memlock) kernel_value "$1" "$2" ;;
    nic.* | vf.*) firmware_value "$1" "$2" && sriov_value "$1" "$2" && qos_value "$1" "$2" ;;
  esac
}

demand_room() { # a state that is cut short on the way to a full disk would read as all that is wanted
  head -c 1048576 /dev/zero 2>/dev/null >"$work/room" ||
    fail "there is no room in $work (1 MiB is needed): free it, then run again"
  : >"$work/room"
}

load_input() { # FILE : splits stdin into $work/desired and the parameters of this run
  demand_room
  : >"$work/desired"
  while IFS= read -r line || [ -n "$line" ]; do
    key=${line%%=*}
    value=${line#*=}
    case $line in
      '' | '#'*) ;;
      stack=*) name "$value" || fail "bad stack name '$value'" && stack=$value ;;
      repair=*) ;;
      driver_*=*) driver_parameter "$line" || fail "stdin: '$key' is no parameter of a run" ;;
      disrupt=now | disrupt=wait) disrupt=$value ;;
      action=*) action=$value ;;
      *=*)
        valid_key "$key" || fail "stdin: '$key' is no setting of a host"
        valid_value "$key" "$value" || fail "stdin: '$value' is no value of $key"
        printf '%s\n' "$line" >>"$work/desired"
        ;;
      *) fail "stdin: '$line' is no key=value line" ;;
    esac
  done <"$1"
}

rank() { # KEY [-r] : the order in which settings are applied; undone in reverse
  case ${2:-}$1 in # VFs come before what they carry, and PFC before buffers, also on the way back
    -rvf.* | -r*.vf_mtu_bytes | -r*.buffers) echo 38 && return ;;
    -r*.eswitch | -r*.autoprobe) echo 43 && return ;;
  esac
  case $1 in
    hostname) echo 10 ;;
    hosts_block | hosts.*) echo 11 ;;
    user.*) echo 12 ;;
    driver.gpu_* | driver.dma_buf) echo 18 ;; # only looked at, before a driver is installed
    driver.repository) echo 19 ;;
    driver.kind) echo 20 ;;
    driver.version | driver.line) echo 21 ;;
    driver.modules) echo 22 ;;
    driver.loaded) echo 23 ;;
    docker.engine) echo 24 ;;
    docker.toolkit) echo 25 ;;
    docker.service) echo 26 ;;
    docker.runtime) echo 27 ;;
    docker.*) echo 28 ;;
    module.*) echo 30 ;;
    unit.docker.limit_memlock | unit.containerd.limit_memlock) echo 23 ;; # before its first start
    kernel.hugepages.*) echo 80 ;; # after the boot unit, which gets them where this boot has too few
    kernel.*) echo 50 ;;
    route.*.table) echo 52 ;; # after the addresses that its routes name
    route.*.rule) echo 53 ;;
    *.model | *.serial) echo 37 ;; # a card that is another one gets no setting
    *.fw_floor | *.eswitch_now | *.lldpad) echo 38 ;;
    *.fw_* | *.ats) echo 39 ;; # VFs and the kind of the ports follow from it
    *.netdev | *.eswitch | *.autoprobe) echo 40 ;;
    vf.*.guid) echo 42 ;; # a driver binds to the VF anew, and its MTU starts again
    vf.*) echo 43 ;;
    *.vfs) echo 41 ;;
    *.mtu_bytes) echo 42 ;;
    *.vf_mtu_bytes) echo 43 ;;
    *.global_pause | *.dcbx) echo 44 ;; # global pause excludes PFC, firmware's DCBX overwrites it
    *.trust) echo 45 ;;
    *.dscp*_priority) echo 46 ;;
    *.cable_length_m | *.buffers) echo 48 ;; # after PFC, by which the driver judges them
    *.link) echo 48 ;;
    *.address) echo 49 ;;
    *.gid) echo 50 ;;
    nic.*) echo 47 ;;
    *.limit_memlock) echo 60 ;;
    *.files) echo 70 ;;
    *) echo 71 ;;
  esac
}

kept() { # KEY VALUE : no setting that is put back; packages stay in a running system
  case $1:$2 in
    hosts.*) grep -q '^hosts_block=' "$work/desired" ;; # an older version's: the block has them all
    driver.repository:*) return 1 ;;
    driver.* | docker.engine:* | docker.toolkit:* | docker.service:absent | *:unsupported | *:unreadable) ;;
    *.fw_floor:* | *:hidden | *:per_pf) ;;
    *) nothing_to_undo "$1" || is_gone "$1" ;;
  esac
}

ranked() { # FILE [sort options] : its lines in the order of work
  ranked_file=$1
  shift
  while IFS= read -r ranked_line; do
    rank "${ranked_line%%=*}" "${1:-}" # a line of its own, since $(rank) would be a process for each key
    printf '%s\n' "$ranked_line"
  done <"$ranked_file" | paste -d ' ' - - | sort "$@" | cut -d ' ' -f 2-
}

lines_without() { # KEYS FILE : the lines of FILE whose keys KEYS lacks
  awk -F = 'FILENAME == ARGV[1] { has[$1]; next } !($1 in has)' "$1" "$2"
}

lines_that_differ() { # ACTUAL WANTED : the lines of WANTED that are not in ACTUAL
  awk 'FILENAME == ARGV[1] { has[$0]; next } !($0 in has)' "$1" "$2"
}

value_of() { # KEY FILE : fails when the file has no such key
  awk -v key="$1=" 'index($0, key) == 1 { print substr($0, length(key) + 1); found = 1 }
    END { exit !found }' "$2"
}
