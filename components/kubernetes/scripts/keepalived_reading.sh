# shellcheck shell=sh
# shellcheck disable=SC2154 # work, FOLDER, ... are set by service.sh, which this text follows
# How keepalived's settings are read on a balancer.
use_service keepalived

own_link() { # the interface that has the host's own address, and that address with its length
  ip -o -4 addr show 2>/dev/null | awk -v own="$(wanted address)" '{
    for (i = 3; i < NF; i++) if ($i == "inet" && index($(i + 1), own "/") == 1) { print $2, $(i + 1); exit }
  }'
}

read_interface() { # of-address, or what the file names in place of that interface
  read_named=$(sed -n 's/^.INTERFACE=//p' "$FOLDER/interface.conf" 2>/dev/null)
  read_link=$(own_link)
  if [ -n "$read_named" ] && [ "$read_named" = "${read_link%% *}" ]; then
    echo of-address
  else
    echo "${read_named:-absent}"
  fi
}

read_state() { # the present values of all settings, sorted
  {
    numbered keepalived.conf "$FOLDER/keepalived.conf"
    echo "interface=$(read_interface)"
    read_service
  } | sort
}
