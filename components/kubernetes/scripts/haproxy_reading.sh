# shellcheck shell=sh
# shellcheck disable=SC2154 # work is set by linux.sh
# How the balancer's settings are read; haproxy.sh, haproxy_observe.sh and haproxy_undo.sh follow
# this text. The unit and its folder are wholly ours, beside whatever HAProxy the host runs itself.
# stdin: key=value lines; `haproxy.cfg.NN` and `unit.NN` are lines of those files. POSIX sh, as root.
begin_work

FOLDER=/etc/railyard/haproxy
UNIT=railyard-haproxy.service
UNIT_FILE=/etc/systemd/system/$UNIT

numbered() { # NAME FILE : a file in the form that stdin has it in
  [ ! -e "$2" ] ||
    awk -v name="$1" '{ printf "%s.%02d=%s\n", name, NR, $0 } END { print name ".lines=" NR }' "$2"
}

is_local() { # ADDRESS : all of 127.0.0.0/8 is, without being listed
  case $1 in
    127.*) return 0 ;;
    *) ip -o -4 addr show 2>/dev/null | grep -q -F " $1/" ;;
  esac
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
    numbered unit "$UNIT_FILE"
    echo "ca=$(read_ca)"
    echo "service.active=$(systemctl is-active "$UNIT" 2>/dev/null | head -n 1)"
    echo "service.enabled=$(systemctl is-enabled "$UNIT" 2>/dev/null | head -n 1)"
    read_wanted=$(wanted also_listen)
    [ -z "$read_wanted" ] || echo "also_listen=$(read_also_listen "$read_wanted")"
  } | sort
}

cat >"$work/input"
