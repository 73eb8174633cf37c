# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the texts that follow this one use the variables; deadline_s stands before it
# What every script on an ESXi host begins with: stdin, lock, deadline, and how a failure reads.
# ESXi's busybox has neither bash, tr, flock nor `command`, and /etc is a RAM disk: what must
# survive a boot is on VMFS, beside the virtual machines.
set -u
umask 077

changed=''
reboot_required=false
stack=''
action=''
boot=''
order=''
reboots=allow
power_off=guest
shutdown_s=300
lock=/tmp/railyard.lock
locked=no
work=/tmp/railyard.$$
mkdir "$work" || exit 1
: >"$work/todo"
trap 'end_tool $?; clean_up' EXIT
trap 'fail "no end within $deadline_s s"' TERM
trap 'exit 143' HUP INT

clean_up() {
  [ "$locked" = no ] || rm -rf "$lock"
  rm -rf "$work"
}

fail() { # also says what is done and what is not: the next run goes on from there
  printf 'railyard: %s\n' "$*" >&2
  printf 'railyard: changed before this:%s\n' "${changed:- nothing}" >&2
  left=''
  while IFS= read -r key; do
    case " $changed " in *" $key "*) ;; *) left="$left $key" ;; esac
  done <"$work/todo"
  [ -z "$left" ] || printf 'railyard: not changed:%s\n' "$left" >&2
  exit 1
}

run() { # COMMAND... : its output is shown only when it fails
  run_output=$("$@" 2>&1) || fail "\`$*\` failed: ${run_output:-no output}"
}

guard() { # PID : ends a run that is over its deadline; lives at most a second longer than the run
  guard_s=0
  while kill -0 "$1"; do
    [ "$guard_s" -ne "$deadline_s" ] || kill -TERM "$1"
    [ "$guard_s" -lt "$((deadline_s + 10))" ] || kill -KILL "$1"
    sleep 1
    guard_s=$((guard_s + 1))
  done
}
# In parentheses: a function alone would keep the session's streams open beside the redirected ones.
(guard "$$") </dev/null >/dev/null 2>&1 &

take_lock() { # a killed engine can leave a script running here: two must not mix
  lock_s=0
  until mkdir "$lock" 2>/dev/null; do
    holder=$(cat "$lock/pid" 2>/dev/null)
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
      ! mv "$lock" "$work/stale" 2>/dev/null || rm -rf "$work/stale"
    else
      [ "$lock_s" -lt 120 ] || fail "another Railyard run holds $lock for 120 s; wait for it"
      sleep 1
      lock_s=$((lock_s + 1))
    fi
  done
  locked=yes
  echo "$$" >"$lock/pid"
}

number() { # VALUE LOWEST HIGHEST
  case $1 in '' | *[!0-9]* | ????????*) return 1 ;; esac
  [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

name() { # VALUE : what a stack or a virtual machine may be called
  case $1 in '' | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) return 1 ;; esac
}

sbdf() { # VALUE : a PCI address in hexadecimal
  case $1 in
    [0-9a-f][0-9a-f][0-9a-f][0-9a-f]:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f].[0-7]) ;;
    *) return 1 ;;
  esac
}

split_pci() { # pci.<sbdf>.<setting> to $pci and $setting
  pci=${1#pci.}
  setting=${pci##*.}
  pci=${pci%.*}
}

split_vm() { # vm.<name>.<setting> to $vm and $setting; a setting may have dots, a name has none
  vm=${1#vm.}
  setting=${vm#*.}
  vm=${vm%%.*}
}

valid_key() {
  case $1 in
    release | maintenance | kernel.atsSupport.configured | kernel.atsSupport.runtime) ;;
    pci.*)
      split_pci "$1"
      sbdf "$pci" || return 1
      case $setting in passthrough | current_owner) ;; *) return 1 ;; esac
      ;;
    vm.*)
      split_vm "$1"
      name "$vm" || return 1
      case $setting in
        power | gpu_pci_id | numa_node | vmx.memSize) ;;
        vmx.sched.mem.min | vmx.sched.mem.minSize | vmx.sched.mem.pin) ;;
        vmx.pciPassthru.allowP2P | vmx.pciPassthru.RelaxACSforP2P) ;;
        vmx.pciPassthru.use64bitMMIO | vmx.pciPassthru.64bitMMIOSizeGB) ;;
        *) return 1 ;;
      esac
      ;;
    *) return 1 ;;
  esac
}

valid_value() { # KEY VALUE : of the wanted state; recorded values are our own
  case $2 in '' | *[!A-Za-z0-9\ ._:-]*) return 1 ;; esac
  case $1 in
    kernel.*) [ "$2" = TRUE ] || [ "$2" = FALSE ] ;;
    maintenance) [ "$2" = Disabled ] ;;
    *.passthrough) [ "$2" = true ] ;;
    *.power) [ "$2" = on ] ;;
    *.gpu_pci_id) sbdf "$2" ;;
    *.numa_node) valid_devices "$2" ;;
    *.vmx.memSize | *.vmx.sched.mem.min | *.vmx.sched.mem.minSize) number "$2" 1 9999999 ;;
    *.64bitMMIOSizeGB) number "$2" 1 65536 ;;
  esac
}

valid_devices() { # "of <sbdf> and <sbdf>"
  devices=${1#of }
  sbdf "${devices%% and *}" && sbdf "${devices##* and }"
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
      order=*) order=$value ;;
      action=*) action=$value ;;
      boot=*) boot=$value ;;
      reboots=allow | reboots=deny) reboots=$value ;;
      power_off=guest | power_off=hard) power_off=$value ;;
      shutdown_s=*) number "$value" 1 86400 || fail "stdin: '$value' is no number of seconds" && shutdown_s=$value ;;
      *=*)
        valid_key "$key" || fail "stdin: '$key' is no setting of a hypervisor"
        valid_value "$key" "$value" || fail "stdin: '$value' is no value of $key"
        printf '%s\n' "$line" >>"$work/desired"
        ;;
      *) fail "stdin: '$line' is no key=value line" ;;
    esac
  done <"$1"
  for vm in $(split_list "$order"); do
    name "$vm" || fail "stdin: '$vm' is no name of a virtual machine"
  done
}

take_input() { # stdin of a verb that works for one stack
  cat >"$work/input"
  load_input "$work/input"
  [ -n "$stack" ] || fail 'stdin has no stack= line'
}

split_list() { # A,B,C : one a line
  split_rest=$1
  while [ -n "$split_rest" ]; do
    echo "${split_rest%%,*}"
    case $split_rest in *,*) split_rest=${split_rest#*,} ;; *) split_rest='' ;; esac
  done
}

value_of() { # KEY FILE : fails when the file has no such key
  awk -v key="$1=" 'index($0, key) == 1 { print substr($0, length(key) + 1); found = 1 }
    END { exit !found }' "$2"
}
