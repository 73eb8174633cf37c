# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the texts that follow use its variables; the table of keys sets rank and topic
# Every setting that Railyard may own on a Linux host: how it is read, how it is written.
# This part reads stdin. The table of keys, the parts of each topic (driver, firmware, sriov, qos, kernel,
# pci, routing, docker), reading.sh and writing.sh follow it in observe, converge, undo and the boot unit, so
# that one reading serves drift, comparison and restoring. POSIX sh, as root; beside coreutils it uses awk,
# sed, ethtool, and mlnx_qos or dcb for the QoS of a card, and what linux.sh does.
begin_work

reload_units=no
restart_units=''
reboot_required=false
driver_source=''
driver_sha256=''
stack=''
cards=' ' # those that stdin names
of_all_cards='' # lines of stdin, without nic.*.
vfs_of_each='' # of stdin, where all cards have as many
vfs_of=' ' # <pci>=<count> of the others
topics=''
names='' # the digest of the list for /etc/hosts
takes_look=no # observe alone

put() { # VALUE FILE : once more by tee where it fails, because a shell's own printf hides the kernel's reason
  { printf '%s\n' "$1" >"$2"; } 2>/dev/null || put_once "$1" "$2" || fail "writing $1 failed: ${put_output:-no output}"
}

put_once() { # VALUE FILE : fails with the reason in $put_output
  printf '%s\n' "$1" >"$work/put"
  put_output=$(tee "$2" <"$work/put" 2>&1 >/dev/null)
}

json_text() { # WORDS... of this host: without what would end a text of JSON, or is in none
  case $* in *[[:cntrl:]\\\"]*) printf '%s' "$*" | tr -d '\000-\037\\"' ;; *) printf '%s' "$*" ;; esac
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

pci_address() { # VALUE
  case $1 in *[!0-9a-f:.]*) return 1 ;; ????:??:??.?) ;; *) return 1 ;; esac
}

# Which keys there are, and all that is known of each (valid_key, check_value, rank, interrupts, ...), is in the
# text that follows this one: components/hosts/keys/ask.py writes it from the table of keys.

valid_value() { # KEY VALUE : of the wanted state; recorded values are our own
  case $2 in '' | *[!A-Za-z0-9\ ._:/,+-]*) return 1 ;; esac
  check_value "$1" "$2"
}

demand_room() { # a state that is cut short on the way to a full disk would read as all that is wanted
  printf '%1048576s' '' 2>/dev/null >"$work/room" ||
    fail "there is no room in $work (1 MiB is needed): free it, then run again"
  : >"$work/room"
}

take_setting() { # KEY VALUE : a line of the wanted state, of a card behind those that all cards have alike
  valid_key "$1" || fail "stdin: '$1' is no setting of a host"
  valid_value "$1" "$2" || fail "stdin: '$2' is no value of $1"
  case $1 in nic.*)
    split_nic "$1"
    case $cards in *" $pci "*) ;; *) name_card "$pci" ;; esac
    [ "$setting" != vfs ] || vfs_of="$vfs_of$pci=$2 " ;;
  esac
  printf '%s=%s\n' "$1" "$2" >&5
  note_topic "$1" "$2"
}

take_for_all_cards() { # SETTING VALUE : of nic.*.SETTING, which means each card that a later line names
  valid_key "nic.0000:00:00.0.$1" || fail "stdin: 'nic.*.$1' is no setting of a card"
  valid_value "nic.0000:00:00.0.$1" "$2" || fail "stdin: '$2' is no value of nic.*.$1"
  [ "$cards" = ' ' ] || fail "stdin: 'nic.*.$1' is of all cards, and lines of single cards are before it"
  of_all_cards=$of_all_cards$1=$2$newline
  [ "$1" != vfs ] || vfs_of_each=$2
  note_topic "nic.0000:00:00.0.$1" "$2"
}

name_card() { # PCI
  cards="$cards$1 "
  card_lines=$of_all_cards
  while [ -n "$card_lines" ]; do
    printf 'nic.%s.%s\n' "$1" "${card_lines%%"$newline"*}" >&5
    card_lines=${card_lines#*"$newline"}
  done
}

take_for_all_vfs() { # PCI SETTING VALUE : of vf.PCI.*.SETTING, after the card's own lines
  valid_key "vf.$1.0.$2" || fail "stdin: 'vf.$1.*.$2' is no setting of a VF"
  valid_value "vf.$1.0.$2" "$3" || fail "stdin: '$3' is no value of vf.$1.*.$2"
  vf_count=0
  case $cards in *" $1 "*) vf_count=${vfs_of_each:-0} ;; esac
  case $vfs_of in *" $1="*)
    vf_count=${vfs_of#*" $1="}
    vf_count=${vf_count%% *} ;;
  esac
  [ "$vf_count" -gt 0 ] || fail "stdin: 'vf.$1.*.$2' is of all VFs of a card that has none"
  vf=0
  while [ "$vf" -lt "$vf_count" ]; do
    printf 'vf.%s.%s.%s=%s\n' "$1" "$vf" "$2" "$3" >&5
    vf=$((vf + 1))
  done
  note_topic "vf.$1.0.$2" "$3"
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
      toolkit_*=*) toolkit_parameter "$line" || fail "stdin: '$key' is no parameter of a run" ;;
      driver_*=*) driver_parameter "$line" || fail "stdin: '$key' is no parameter of a run" ;;
      disrupt=now | disrupt=wait) disrupt=$value ;;
      action=*) action=$value ;;
      look=*) [ "$takes_look" = yes ] || fail "stdin: '$key' is no setting of a host"
        look=$value ;;
      nic.\*.*=*) take_for_all_cards "${key#nic.\*.}" "$value" ;;
      vf.*.\*.*=*)
        vf_place=${key#vf.}
        take_for_all_vfs "${vf_place%%.\**}" "${vf_place##*.}" "$value"
        ;;
      *=*) take_setting "$key" "$value" ;;
      *) fail "stdin: '$line' is no key=value line" ;;
    esac
  done <"$1" 5>"$work/desired"
  [ -z "$of_all_cards" ] || [ "$cards" != ' ' ] ||
    fail "stdin: 'nic.*.${of_all_cards%%=*}' is of all cards, and no line names a card"
}

take_input() { # stdin of a verb that works for one stack
  cat >"$work/input"
  load_input "$work/input"
  [ -n "$stack" ] || fail 'stdin has no stack= line'
  state_dir=/var/lib/railyard/$stack
}

note_topic() { # KEY VALUE : which kinds of settings stdin names, so that the others cost no process
  case $1 in hosts_block) names=${2##* } ;; esac
  find_topic "$1" "$2" || return 0
  case $topics in *" $topic "*) ;; *) topics="$topics$topic " ;; esac
}

asks_for() { # TOPIC : whether stdin has settings of this kind; before it was read it may have all
  case $topics in '' | *" $1 "*) ;; *) return 1 ;; esac
}

kept() { # KEY VALUE : no setting that is put back; packages stay in a running system
  case $1:$2 in
    docker.service:absent | *:unsupported | *:unreadable | *:hidden | *:per_pf) ;;
    *) stays "$1" || nothing_to_undo "$1" || is_gone "$1" ;;
  esac
}

ranked() { # FILE [sort options] : its lines in the order of work
  ranked_file=$1
  shift
  case ${1:-} in -r) rank_of=rank_back ;; *) rank_of=rank ;; esac
  while IFS= read -r ranked_line; do
    "$rank_of" "${ranked_line%%=*}"
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
