# shellcheck shell=sh
# shellcheck disable=SC2034 # the texts that follow this one use the variables
# Every setting that Railyard may own on a Linux host: how it is read, how it is written.
# This part reads stdin and knows which keys and values there may be; firmware.sh, docker.sh,
# reading.sh and writing.sh follow it in observe, converge, undo and the boot unit, so that one reading serves drift,
# comparison, verification and restoring. POSIX sh, as root; beside coreutils it uses flock, awk,
# sed, ethtool, and mlnx_qos for the QoS of a card.
set -u
umask 077
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

changed=''
reload_units=no
restart_units=''
reboot_required=false
driver_source=''
driver_sha256=''
stack=''
work=$(mktemp -d "${TMPDIR:-/tmp}/railyard.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM

fail() {
  printf 'railyard: %s\n' "$*" >&2
  printf 'railyard: changed before this: %s\n' "${changed:-nothing}" >&2
  exit 1
}

run() { # COMMAND... : its output is shown only when it fails
  run_output=$("$@" 2>&1) || fail "\`$*\` failed: ${run_output:-no output}"
}

put() { # VALUE FILE : tee, because a shell's own printf hides the kernel's reason
  put_output=$({ printf '%s\n' "$1" | tee "$2" >/dev/null; } 2>&1) ||
    fail "writing $1 failed: ${put_output:-no output}"
}

take_lock() { # a killed engine can leave a script running here: two must not mix
  exec 9>/run/railyard.lock || fail 'cannot open /run/railyard.lock'
  flock -w 120 9 || fail 'another Railyard run holds /run/railyard.lock for 120 s; wait for it'
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
    hostname | driver.kind | driver.version) ;;
    hosts.*) name "${1#hosts.}" ;;
    user.*.uid) valid_part=${1#user.} && name "${valid_part%.uid}" ;;
    module.*) name "${1#module.}" ;;
    docker.engine | docker.toolkit | docker.service | docker.runtime | docker.default_runtime) ;;
    unit.railyard-nics.files | unit.railyard-nics.enabled) ;;
    unit.*.limit_memlock) valid_part=${1#unit.} && name "${valid_part%.limit_memlock}" ;;
    nic.????:??:??.?.*)
      split_nic "$1"
      case $pci in *[!0-9a-f:.]*) return 1 ;; esac
      case $setting in
        netdev | vfs | mtu_bytes | vf_mtu_bytes | trust | pfc | global_pause) ;;
        cnp_dscp | cnp_priority | roce_mode | roce_tos) ;;
        model | fw_ver | address | link | ats | ats_current | ats_active) ;;
        ecn_priority_[0-7] | dscp[0-9]_priority | dscp[1-6][0-9]_priority) ;;
        *) return 1 ;;
      esac
      ;;
    *) return 1 ;;
  esac
}

valid_value() { # KEY VALUE : of the wanted state; recorded values are our own
  case $2 in '' | *[!A-Za-z0-9\ ._:/,+-]*) return 1 ;; esac
  case $1 in
    *.vfs) number "$2" 0 255 ;;
    *.mtu_bytes | *.vf_mtu_bytes) number "$2" 576 9978 ;;
    *.cnp_dscp) number "$2" 0 63 ;;
    *.cnp_priority | *.dscp*_priority) number "$2" 0 7 ;;
    *.roce_tos) number "$2" 0 255 ;;
    *.uid) number "$2" 1 60000 ;;
    *.ats | *.ats_current | *.ats_active) [ "$2" = on ] || [ "$2" = off ] ;;
    *.link) [ "$2" = up ] || [ "$2" = down ] ;;
    *.address) case $2 in [1-9]*.*.*.*/[1-9]*) case $2 in *[!0-9./]*) return 1 ;; esac ;; *) return 1 ;; esac ;;
    docker.engine | docker.toolkit) [ "$2" = present ] ;;
    *.trust) [ "$2" = dscp ] || [ "$2" = pcp ] ;;
    *.global_pause | *.ecn_priority_*) [ "$2" = on ] || [ "$2" = off ] ;;
    *.pfc) case $2 in none) ;; *[!0-7,]*) return 1 ;; esac ;;
    *.netdev | hostname) name "$2" ;;
  esac
}

load_input() { # FILE : splits stdin into $work/desired and the parameters of this run
  : >"$work/desired"
  while IFS= read -r line || [ -n "$line" ]; do
    key=${line%%=*}
    value=${line#*=}
    case $line in
      '' | '#'*) ;;
      stack=*) name "$value" || fail "bad stack name '$value'" && stack=$value ;;
      repair=*) ;;
      driver_source=*) driver_source=$value ;;
      driver_sha256=*) driver_sha256=$value ;;
      *=*)
        valid_key "$key" || fail "stdin: '$key' is no setting of a host"
        valid_value "$key" "$value" || fail "stdin: '$value' is no value of $key"
        printf '%s\n' "$line" >>"$work/desired"
        ;;
      *) fail "stdin: '$line' is no key=value line" ;;
    esac
  done <"$1"
}

rank() { # KEY : the order in which settings are applied; undone in reverse
  case $1 in
    hostname) echo 10 ;;
    hosts.*) echo 11 ;;
    user.*) echo 12 ;;
    driver.kind) echo 20 ;;
    driver.version) echo 21 ;;
    docker.engine) echo 24 ;;
    docker.toolkit) echo 25 ;;
    docker.service) echo 26 ;;
    docker.runtime) echo 27 ;;
    docker.*) echo 28 ;;
    module.*) echo 30 ;;
    *.model) echo 39 ;; # a card that is another one gets no setting
    *.netdev) echo 40 ;;
    *.vfs) echo 41 ;;
    *.mtu_bytes) echo 42 ;;
    *.vf_mtu_bytes) echo 43 ;;
    *.global_pause) echo 44 ;; # excludes PFC while it is on
    *.trust) echo 45 ;;
    *.dscp*_priority) echo 46 ;;
    *.link) echo 48 ;;
    *.address) echo 49 ;;
    nic.*) echo 47 ;;
    *.limit_memlock) echo 60 ;;
    *.files) echo 70 ;;
    *) echo 71 ;;
  esac
}

kept() { # KEY VALUE : no setting that is put back; packages stay in a running system
  case $1:$2 in
    driver.* | docker.engine:* | docker.toolkit:* | docker.service:absent | *:unsupported) ;;
    *) return 1 ;;
  esac
}

ranked() { # FILE [sort options] : its lines in the order of work
  ranked_file=$1
  shift
  while IFS= read -r ranked_line; do
    printf '%s %s\n' "$(rank "${ranked_line%%=*}")" "$ranked_line"
  done <"$ranked_file" | sort "$@" | cut -d ' ' -f 2-
}

value_of() { # KEY FILE : fails when the file has no such key
  awk -v key="$1=" 'index($0, key) == 1 { print substr($0, length(key) + 1); found = 1 }
    END { exit !found }' "$2"
}
