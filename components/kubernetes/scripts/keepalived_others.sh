# shellcheck shell=sh
# shellcheck disable=SC2154 # FOLDER and UNIT are set by service.sh, which these texts follow
# Who else has the address of the balancers, or is a VRRP router of their number. Read-only; stdin has
# the lines of keepalived.conf, and the parameters `address` and `virtual_address`.

mac_of() { # ADDRESS LINK : who answers for it there; empty where no one does, which the kernel knows after 3 s
  ip neigh flush to "$1" dev "$2" >/dev/null 2>&1 # an older answer; not what was set by hand
  curl -s --noproxy '*' --interface "$2" --max-time 4 -o /dev/null "http://$1:9/" 2>/dev/null
  ip neigh show to "$1" dev "$2" 2>/dev/null | sed -n 's/.* lladdr \([^ ]*\).*/\1/p'
}

peers() { # the addresses of the other balancers
  lines_of keepalived.conf | awk '/unicast_peer/ { inside = 1; next } /}/ { inside = 0 } inside { print $1 }'
}

may_have_it() { # this host has the address, or may take it at any moment: it would find itself
  ip -o -4 addr show 2>/dev/null | grep -q -F " $shared/" && return 0
  [ "$(systemctl is-active "$UNIT" 2>/dev/null)" = active ] &&
    grep -q -F " $shared/32 " "$FOLDER/keepalived.conf" 2>/dev/null
}

strange_mac() { # LINK : who answers for the address and is no balancer of ours
  strange=$(mac_of "$shared" "$1")
  [ -n "$strange" ] || return 0
  for peer in $(peers); do
    [ "$(mac_of "$peer" "$1")" != "$strange" ] || return 0
  done
  echo "$strange"
}

other_router() { # LINK : another VRRP router of our number; nothing but tcpdump hears one
  command -v tcpdump >/dev/null || return 0
  number=$(lines_of keepalived.conf | awk '$1 == "virtual_router_id" { print $2 }')
  apart=$(peers | sed 's/^/ and not src host /' | tr -d '\n')
  # Three announcements of a second each, and the one that was just missed; byte 1 of VRRP is the number.
  timeout 4 tcpdump -l -n -t -i "$1" -c 1 \
    "ip proto 112 and ip[((ip[0] & 0xf) << 2) + 1] = $number$apart" 2>/dev/null | awk '{ print $2; exit }'
}

others() { # what was found, in the form of settings; nothing where this host runs with the address already
  shared=$(wanted virtual_address)
  link=$(own_link)
  link=${link%% *}
  [ -n "$shared" ] && [ -n "$link" ] && ! may_have_it || return 0
  strange=$(strange_mac "$link")
  [ -z "$strange" ] || echo "others.address=$strange"
  router=$(other_router "$link")
  [ -z "$router" ] || echo "others.router=$router"
}
