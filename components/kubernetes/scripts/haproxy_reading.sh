# shellcheck shell=sh
# shellcheck disable=SC2154 # work, FOLDER, ... are set by service.sh, which this text follows
# How HAProxy's settings are read on a balancer.
use_service haproxy

is_local() { # ADDRESS : all of 127.0.0.0/8 is, without being listed
  case $1 in 127.*) return 0 ;; *) ip -o -4 addr show 2>/dev/null | grep -q -F " $1/" ;; esac
}

read_ca() { # HAProxy trusts this file: another one would let it take a stranger for a server
  if [ ! -e "$FOLDER/ca.crt" ]; then
    echo absent
  elif [ "$(sha256sum "$FOLDER/ca.crt" | cut -d ' ' -f 1)" = "$(cat "$FOLDER/ca.sha256" 2>/dev/null)" ]; then
    echo as-installed
  else
    echo changed
  fi
}

read_also_listen() { # WANTED : ADDRESS:PORT; an address that is not the host's needs no listener
  if ! is_local "${1%:*}" || grep -q -x -F "    bind $1" "$FOLDER/listen.cfg" 2>/dev/null; then
    echo "$1"
  else
    echo absent
  fi
}

read_state() { # the present values of all settings, sorted
  {
    numbered haproxy.cfg "$FOLDER/haproxy.cfg"
    echo "ca=$(read_ca)"
    read_service
    read_wanted=$(wanted also_listen)
    [ -z "$read_wanted" ] || echo "also_listen=$(read_also_listen "$read_wanted")"
  } | sort
}
