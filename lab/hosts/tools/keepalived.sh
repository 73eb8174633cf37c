#!/bin/sh
# shellcheck shell=sh
# keepalived of a lab host: it reads its configuration, and holds no address. All hosts of the lab
# share one loopback network, on which no address can move; the real keepalived runs in networks of
# its own in tests/lab/test_two_balancers.py. Words and exit codes are those that keepalived 2.3.3 of
# Debian 13 gave for these faults (lab/sources.md#keepalived).
file=/etc/keepalived/keepalived.conf
tested=''
for word in "$@"; do
  case $word in
    --config-test) tested=yes ;;
    --use-file=*) file=${word#*=} ;;
    --dont-fork | --log-console | --vrrp | --pid=* | --vrrp_pid=*) ;;
    *) echo "keepalived: unrecognized option '$word'" >&2; exit 1 ;;
  esac
done

included() { # FILE : with the files that it includes
  while IFS= read -r line; do
    case $line in
      'include '*) cat "${line#include }" 2>/dev/null ||
        echo "(Line 1) Config files missing '${line#include }'." >&2 ;;
      *) printf '%s\n' "$line" ;;
    esac
  done <"$1"
}

judge() {
  [ -e "$file" ] || { echo "Config files missing '$file'." >&2; return 0; }
  included "$file" | awk -v file="$file" '
    BEGIN {
      split("global_defs router_id vrrp_version vrrp_check_unicast_src enable_script_security " \
        "script_user vrrp_script script interval timeout fall rise vrrp_instance state nopreempt " \
        "interface virtual_router_id priority advert_int unicast_src_ip unicast_peer " \
        "virtual_ipaddress track_script", words)
      for (i in words) known[words[i]] = 1
      data["unicast_peer"] = data["virtual_ipaddress"] = data["track_script"] = 1
    }
    /^[$][A-Z]+=/ { split($0, pair, "="); value[pair[1]] = pair[2]; next }
    $1 == "}" { depth--; block = ""; next }
    NF == 0 || block in data { next }
    {
      if (!($1 in known)) { printf "(%s: Line %d) Unknown keyword \047%s\047\n", file, NR, $1; bad = 1 }
      if ($1 == "priority" && ($2 < 1 || $2 > 255)) {
        printf "(%s: Line %d) number \047%s\047 outside range [1, 255]\n", file, NR, $2; bad = 1
      }
      if ($1 == "interface") print "interface " (($2 in value) ? value[$2] : $2)
      if ($1 == "virtual_router_id") router = 1
      if ($1 == "vrrp_instance") instance = $2
      if ($NF == "{") { depth++; block = $1 }
    }
    END {
      if (depth) { print "There are " depth " missing \047}\047s or extra \047{\047s"; bad = 1 }
      if (instance != "" && !router) { print "(" instance ") the virtual router id must be set"; bad = 1 }
      exit bad ? 5 : 0
    }' >"/tmp/keepalived.$$" 2>&1
  rc=$?
  link=$(sed -n 's/^interface //p' "/tmp/keepalived.$$")
  sed '/^interface /d' "/tmp/keepalived.$$" >&2
  rm -f "/tmp/keepalived.$$"
  if [ -n "$link" ] && ! ip -o link show dev "$link" >/dev/null 2>&1; then
    echo "WARNING - interface $link for vrrp_instance api doesn't exist" >&2
    echo 'Non-existent interface specified in configuration' >&2
    rc=5
  fi
  return "$rc"
}

judge || exit $?
[ -z "$tested" ] || exit 0
trap judge HUP
trap 'kill "$child"; exit 0' TERM INT
while :; do
  sleep 3600 &
  child=$!
  wait "$child"
done
