# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, RULES, ... are set by api_filter_reading.sh
# Lets only the named networks reach the API's port of this host. The rules name that port alone, so that
# neither SSH nor any other service can be shut out, and the kernel takes them all at once or not at all.
# stdout: one line of JSON.

is_allowed() { # ADDRESS
  awk -v address="$1" -v networks="$(wanted allowed)" '
    function number(text, part) {
      split(text, part, ".")
      return ((part[1] * 256 + part[2]) * 256 + part[3]) * 256 + part[4] }
    BEGIN {
      count = split(networks, network, " ")
      for (i = 1; i <= count; i++) {
        split(network[i], half, "/")
        size = 2 ^ (32 - half[2])
        if (int(number(address) / size) == int(number(half[1]) / size)) found = 1
      }
      exit !found }'
}

refuse_lock_out() { # this run would no longer reach the API that it installs
  [ "$(wanted way)" = direct ] || return 0
  find_peer
  case $peer in '' | *:* | 127.*) return 0 ;; esac # by IPv6, or from here: not the way to the API
  is_allowed "$peer" ||
    fail "this host sees Railyard come from $peer, which kubernetes.api_from does not have: the API would be" \
      'out of its reach. Add that address, then run again; nothing was changed'
}

put_file() { # NAME FILE : only where it differs
  lines_of "$1" >"$work/$1"
  cmp -s "$work/$1" "$2" && return 0
  (umask 022 && mkdir -p "${2%/*}")
  run cp "$work/$1" "$2.new"
  run chmod 0644 "$2.new"
  run mv "$2.new" "$2"
  changed="$changed ${2##*/}"
}

name_stack
take_lock
command -v nft >/dev/null || fail 'nft is not installed on this host: install the package nftables, then run again'
refuse_lock_out
if [ ! -e "$state_dir/api-filter" ]; then
  [ ! -e "$UNIT_FILE" ] && [ ! -e "$RULES" ] ||
    fail "$UNIT_FILE or $RULES is here, and this stack did not make it: is another stack on this host?" \
      'Remove that first'
  run mkdir -p "$state_dir"
  echo ours >"$state_dir/api-filter" || fail "cannot write in $state_dir"
  sync "$state_dir/api-filter"
fi
lines_of rules >"$work/rules"
trial=$(nft -c -f - <"$work/rules" 2>&1) || fail "nft refuses the rules, and those in place were left alone: $trial"
put_file rules "$RULES"
put_file unit "$UNIT_FILE"
case $changed in *"$UNIT"*) run systemctl daemon-reload ;; esac
enable_unit "$UNIT"
if [ -n "$changed" ] || [ "$(read_table)" != as-installed ] || ! systemctl is-active --quiet "$UNIT"; then
  # fd 9 must not reach the service: it would hold the lock for ever. It is loaded again even where the unit
  # was active already: what is in the kernel may be another one's.
  systemctl restart "$UNIT" 9>&- >"$work/start.log" 2>&1 ||
    fail "$UNIT does not start: $(cat "$work/start.log") $(journalctl -u "$UNIT" -n 20 --no-pager 2>&1)"
  # shellcheck disable=SC2086 # family and name are two words
  nft list table $TABLE >"$work/listing" 2>&1 ||
    fail "the table is not there after it was loaded: $(cat "$work/listing")"
  run cp "$work/listing" "$LISTING"
  changed="$changed table"
fi
report_service 'allowed|way'
