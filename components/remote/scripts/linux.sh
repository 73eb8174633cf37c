# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the texts that follow use its variables; tool.sh has end_tool
# What the tools for Linux hosts begin with, after tool.sh: where a verb works, how it fails, and the lock. A
# verb that changes a host calls begin_work first. POSIX sh, as root; beside coreutils it uses flock.

begin_work() { # of what is sent to this shell, and of all that it starts
  set -u
  umask 077
  export LC_ALL=C
  PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin
  changed=''
  in_part='' # what may have changed beside the settings of $changed
  work=$(mktemp -d "${TMPDIR:-/tmp}/railyard.XXXXXX") || exit 1
  trap 'end_tool $?; rm -rf "$work"' EXIT
  trap 'exit 143' HUP INT TERM
}

fail() {
  printf 'railyard: %s\n' "$*" >&2
  printf 'railyard: changed before this: %s\n' "${changed:-nothing}$in_part" >&2
  exit 1
}

run() { # COMMAND... : its output is shown only when it fails
  run_output=$("$@" 2>&1) || fail "\`$*\` failed: ${run_output:-no output}"
}

take_lock() { # a killed engine can leave a script running here: two must not mix
  exec 9>/run/railyard.lock || fail 'cannot open /run/railyard.lock'
  flock_output=$(flock -w 120 9 2>&1) || case $flock_output in # it says nothing of a lock that is held
    '') fail 'another Railyard run holds /run/railyard.lock for 120 s; wait for it' ;;
    *) fail "cannot lock /run/railyard.lock ($flock_output): install util-linux, which has flock, then run again" ;;
  esac
}

wanted() { # KEY : of stdin, where the verb keeps it as it came
  sed -n "s/^$1=//p" "$work/input" | head -n 1
}

name_stack() { # of stdin: the folder of its records is named after it
  stack=$(wanted stack)
  case $stack in '' | *[!A-Za-z0-9._-]*) fail "bad stack name '$stack'" ;; esac
  state_dir=/var/lib/railyard/$stack
}
