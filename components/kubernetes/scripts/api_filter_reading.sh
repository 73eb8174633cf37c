# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the texts that follow use the rest; linux.sh sets work
# How the filter before the API is read; api_filter.sh and its observe and undo follow this text. Table, unit
# and file are wholly ours, beside whatever firewall the host has: a drop here is final, and nothing is
# accepted here that another one would refuse. stdin has `rules.NN` and `unit.NN`. Follows service.sh.
use_service api-filter
RULES=/etc/railyard/api-filter.nft
LISTING=/etc/railyard/api-filter.listing
TABLE='inet railyard_api'

read_table() { # what the kernel has, in nft's own words, against its words after our last change
  # shellcheck disable=SC2086 # family and name are two words
  if ! nft list table $TABLE >"$work/table" 2>/dev/null; then
    echo absent
  elif cmp -s "$work/table" "$LISTING"; then
    echo as-installed
  else
    echo changed
  fi
}

find_peer() { # the address that this session comes from, as sshd has it; empty where no parent knows it
  peer=''
  peer_pid=$$
  while [ "${peer_pid:-0}" -gt 1 ]; do
    peer=$(tr '\0' '\n' 2>/dev/null <"/proc/$peer_pid/environ" | sed -n 's/^SSH_CONNECTION=\([^ ]*\) .*/\1/p')
    [ -z "$peer" ] || break
    peer_pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$peer_pid/status" 2>/dev/null)
  done
  peer=${peer#::ffff:}
}

read_state() { # the present values of all settings, sorted
  {
    numbered rules "$RULES"
    echo "table=$(read_table)"
    read_service
  } | sort
}
