# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, FOLDER, ... are set by service.sh
# Brings keepalived to the state on stdin; follows service_change.sh. stdout: one line of JSON.

network_of() { # ADDRESS LENGTH : the first address of that network, as a number
  echo "$1 $2" | awk -F '[. ]' '{
    size = 2 ^ (32 - $5); n = (($1 * 256 + $2) * 256 + $3) * 256 + $4; printf "%d\n", n - n % size }'
}

draft() { # the folder as it shall be, under $work/draft
  own=$(wanted address)
  shared=$(wanted virtual_address)
  link=$(own_link)
  interface=${link%% *}
  length=${link##*/}
  [ -n "$link" ] || fail "$own is on no interface of this host, so nothing can carry $shared here:" \
    "correct node_ip or ssh.address ($(ip -o -4 addr show 2>&1 | awk '{ print $2, $4 }' | tr '\n' ' '))"
  [ "$(network_of "$own" "$length")" = "$(network_of "$shared" "$length")" ] ||
    fail "$shared is not in the network of $interface, ${link#* }: choose a free address of that" \
      'network as kubernetes.virtual_address.address'
  command -v curl >/dev/null ||
    fail 'curl is not installed on this host: keepalived asks HAProxy with it whether it answers'
  mkdir "$work/draft"
  lines_of keepalived.conf >"$work/draft/keepalived.conf"
  echo "\$INTERFACE=$interface" >"$work/draft/interface.conf"
  # The trial must not read the interface in place, which may be another one or none.
  sed "s|$FOLDER/interface.conf|$work/draft/interface.conf|" "$work/draft/keepalived.conf" >"$work/trial.conf"
  trial=$(keepalived --config-test --use-file="$work/trial.conf" 2>&1) ||
    fail "keepalived refuses the configuration, and the one in place was left alone: $trial"
}

refuse_others() { # before anything is changed here
  others >"$work/others"
  found=$(sed -n 's/^others.address=//p' "$work/others")
  [ -z "$found" ] ||
    fail "$shared is already used by $found on $link, which is not a balancer of this site. Choose" \
      'a free address as kubernetes.virtual_address.address, or take it from that machine; nothing was' \
      'changed here'
  found=$(sed -n 's/^others.router=//p' "$work/others")
  [ -z "$found" ] ||
    fail "$found is a VRRP router of the number $(lines_of keepalived.conf |
      awk '$1 == "virtual_router_id" { print $2 }') in the network of $(own_link): choose another" \
      'kubernetes.virtual_address.router_id; nothing was changed here'
}

refuse_others
claim
install_package 'keepalived 2.2 or later'
draft
put_files keepalived.conf interface.conf
start_service
report_service 'address|virtual_address'
