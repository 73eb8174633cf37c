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
topics=''
names='' # the digest of the list for /etc/hosts
takes_look=no # observe alone
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

put() { # VALUE FILE : once more by tee where it fails, because a shell's own printf hides the kernel's reason
  { printf '%s\n' "$1" >"$2"; } 2>/dev/null || put_once "$1" "$2" || fail "writing $1 failed: ${put_output:-no output}"
}

put_once() { # VALUE FILE : fails with the reason in $put_output
  printf '%s\n' "$1" >"$work/put"
  put_output=$(tee "$2" <"$work/put" 2>&1 >/dev/null)
}

json_text() { # WORDS... of this host: without what would end a text of JSON, or is in none
  case $* in
    *[[:cntrl:]\\\"]*) printf '%s' "$*" | tr -d '\000-\037\\"' ;;
    *) printf '%s' "$*" ;;
  esac
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
  printf '%1048576s' '' 2>/dev/null >"$work/room" ||
    fail "there is no room in $work (1 MiB is needed): free it, then run again"
  : >"$work/room"
}

load_input() { # FILE : splits stdin into $work/desired and the parameters of this run
  demand_room
  topics=' '
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
      look=*) [ "$takes_look" = yes ] || fail "stdin: '$key' is no setting of a host"
        look=$value ;;
      *=*)
        valid_key "$key" || fail "stdin: '$key' is no setting of a host"
        valid_value "$key" "$value" || fail "stdin: '$value' is no value of $key"
        printf '%s\n' "$line" >&5
        note_topic "$line"
        ;;
      *) fail "stdin: '$line' is no key=value line" ;;
    esac
  done <"$1" 5>"$work/desired"
}

note_topic() { # LINE : which kinds of settings stdin names, so that the others cost no process
  case $1 in
    kernel.acs=*) topic=acs ;;
    kernel.sysctl.*) topic=sysctl ;;
    kernel.cmdline.* | kernel.rdma_netns*) topic=boot ;;
    hosts_block=*) topic=hosts && names=${1##* } ;;
    hosts.*) topic=hosts ;;
    docker.runtime=* | docker.default_runtime=*) topic=docker_config ;;
    driver.kind=*_ofed) topic=driver ;;
    nic.*.address=*) topic=address ;;
    nic.*.vf_mtu_bytes=*) topic=vf_mtu ;;
    nic.*.ats*=* | nic.*.fw_*=*) topic=firmware ;;
    *) return 0 ;;
  esac
  case $topics in *" $topic "*) ;; *) topics="$topics$topic " ;; esac
}

asks_for() { # TOPIC : whether stdin has settings of this kind; before it was read it may have all
  case $topics in '' | *" $1 "*) ;; *) return 1 ;; esac
}

rank() { # KEY [-r] : $rank, the order in which settings are applied; undone in reverse
  case ${2:-}$1 in # VFs come before what they carry, and PFC before buffers, also on the way back
    -rvf.* | -r*.vf_mtu_bytes | -r*.buffers) rank=38 && return ;;
    -r*.eswitch | -r*.autoprobe) rank=43 && return ;;
  esac
  case $1 in
    hostname) rank=10 ;;
    hosts_block | hosts.*) rank=11 ;;
    user.*) rank=12 ;;
    driver.gpu_* | driver.dma_buf) rank=18 ;; # only looked at, before a driver is installed
    driver.repository) rank=19 ;;
    driver.kind) rank=20 ;;
    driver.version | driver.line) rank=21 ;;
    driver.modules) rank=22 ;;
    driver.loaded) rank=23 ;;
    docker.engine) rank=24 ;;
    docker.toolkit) rank=25 ;;
    docker.service) rank=26 ;;
    docker.runtime) rank=27 ;;
    docker.*) rank=28 ;;
    module.*) rank=30 ;;
    unit.docker.limit_memlock | unit.containerd.limit_memlock) rank=23 ;; # before its first start
    kernel.hugepages.*) rank=80 ;; # after the boot unit, which gets them where this boot has too few
    kernel.*) rank=50 ;;
    route.*.table) rank=52 ;; # after the addresses that its routes name
    route.*.rule) rank=53 ;;
    *.model | *.serial) rank=37 ;; # a card that is another one gets no setting
    *.fw_floor | *.eswitch_now | *.lldpad) rank=38 ;;
    *.fw_* | *.ats) rank=39 ;; # VFs and the kind of the ports follow from it
    *.netdev | *.eswitch | *.autoprobe) rank=40 ;;
    vf.*.guid) rank=42 ;; # a driver binds to the VF anew, and its MTU starts again
    vf.*) rank=43 ;;
    *.vfs) rank=41 ;;
    *.mtu_bytes) rank=42 ;;
    *.vf_mtu_bytes) rank=43 ;;
    *.global_pause | *.dcbx) rank=44 ;; # global pause excludes PFC, firmware's DCBX overwrites it
    *.trust) rank=45 ;;
    *.dscp*_priority) rank=46 ;;
    *.cable_length_m | *.buffers) rank=48 ;; # after PFC, by which the driver judges them
    *.link) rank=48 ;;
    *.address) rank=49 ;;
    *.gid) rank=50 ;;
    nic.*) rank=47 ;;
    *.limit_memlock) rank=60 ;;
    *.files) rank=70 ;;
    *) rank=71 ;;
  esac
}

kept() { # KEY VALUE : no setting that is put back; packages stay in a running system
  case $1:$2 in
    hosts.*) [ -n "$names" ] ;; # an older version's: the block has them all
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
    rank "${ranked_line%%=*}" "${1:-}"
    printf '%s %s\n' "$rank" "$ranked_line"
  done <"$ranked_file" >"$work/ranked"
  [ ! -s "$work/ranked" ] || sort "$@" -o "$work/ranked" "$work/ranked" || fail "cannot write $work/ranked"
  while IFS= read -r ranked_line; do
    printf '%s\n' "${ranked_line#* }"
  done <"$work/ranked"
}

lines_without() { # KEYS FILE : the lines of FILE whose keys KEYS lacks
  [ -s "$2" ] || return 0
  awk -F = 'FILENAME == ARGV[1] { has[$1]; next } !($1 in has)' "$1" "$2"
}

value_of() { # KEY FILE : fails when the file has no such key
  awk -v key="$1=" 'index($0, key) == 1 { print substr($0, length(key) + 1); found = 1 }
    END { exit !found }' "$2"
}
