# shellcheck shell=sh
# shellcheck disable=SC2034 # look.sh uses the variables
# Prints what is plugged into this host, for `railyard discover`. Read-only; stdin is not read.
set -u
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

serial_of() { # VPD : the SN keyword of its read-only part (PCI 3.0, appendix I)
  od -An -v -tu1 "$1" 2>/dev/null | awk '
    { for (i = 1; i <= NF; i++) byte[n++] = $i }
    END {
      at = 0
      while (at < n) {
        tag = byte[at]
        if (tag < 128) { if (tag == 120) exit; at += 1 + tag % 8; continue }
        size = byte[at + 1] + 256 * byte[at + 2]
        at += 3
        if (tag == 144)
          for (k = at; k + 2 < at + size; k += 3 + byte[k + 2])
            if (byte[k] == 83 && byte[k + 1] == 78) {
              for (c = k + 3; c < k + 3 + byte[k + 2]; c++)
                if (byte[c] > 32 && byte[c] < 127) text = text sprintf("%c", byte[c])
              print text
              exit
            }
        at += size
      }
    }'
}

look_closer() { # what one look at a host is for, and not every preview
  for look_device in /sys/bus/pci/devices/*; do
    look_at=${look_device##*/}
    look_vendor=''
    { IFS= read -r look_vendor <"$look_device/vendor"; } 2>/dev/null
    if [ "$look_vendor" != 0x15b3 ] || [ -e "$look_device/physfn" ]; then continue; fi
    if [ -r "$look_device/vpd" ]; then look_fact serial "$(serial_of "$look_device/vpd")"; fi
    look_own_net "$look_device"
    [ ! -e "$look_net" ] || look_fact addresses "$(ip -4 addr show dev "${look_net##*/}" 2>/dev/null |
      awk '$1 == "inet" { print $2 }' | sort | paste -s -d , -)"
  done
}

look_uplink() { # NET NETDEV : it and all that it stands on; NET is /sys/class/net
  look_nets=$1 look_way=''
  shift
  while [ $# -gt 0 ]; do
    look_way="$look_way${look_way:+ }$1" look_count=$#
    for look_below in "$look_nets/$1"/lower_*; do
      [ ! -e "$look_below" ] || set -- "$@" "${look_below##*/lower_}"
    done
    if [ $# = "$look_count" ] && [ ! -e "$look_nets/$1/device" ] && [ ! -e "$look_nets/$1/master" ]; then
      # A bridge of Open vSwitch tells nothing below it: its ports have the datapath as master.
      for look_below in "$look_nets"/*/master; do
        look_port=${look_below%/master}
        case $(readlink "$look_below") in */ovs-system) set -- "$@" "${look_port##*/}" ;; esac
      done
    fi
    shift
  done
  look_fact uplink "$look_way"
}

look_session() { # this host's own address of this session; sudo clears SSH_CONNECTION, its caller has it
  look_ancestor=$$
  while [ "${look_ancestor:-0}" -gt 1 ]; do
    tr '\0' '\n' <"/proc/$look_ancestor/environ" 2>/dev/null |
      sed -n 's/^SSH_CONNECTION=[^ ]* [^ ]* \([^ %]*\).*/\1/p' | grep '' && return
    look_ancestor=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$look_ancestor/status" 2>/dev/null)
  done
}

look_uplinks() { # NETS PROC : what this session comes through, and the default route
  look_defaults=$(awk '$2 == "00000000" { print $1 }' "$2/net/route" 2>/dev/null)
  # IPv6 routers on the rails (BGP unnumbered) announce themselves: where IPv4 has a route out, it tells.
  [ -n "$look_defaults" ] || look_defaults=$(awk '$1 ~ /^0+$/ && $2 == "00" && $NF != "lo" { print $NF }' \
    "$2/net/ipv6_route" 2>/dev/null | sort -u)
  look_own=$(look_session)
  [ -z "$look_own" ] || look_defaults="$look_defaults
$(ip -o addr show 2>/dev/null | awk -v own="$look_own" '
    ($4 == own || index($4, own "/") == 1) && $2 != "lo" { print $2 }')"
  for look_net in $look_defaults; do look_uplink "$1" "$look_net"; done
}

look_neighbours() { # lldpd's, where it runs: NETDEV's switch and port
  lldpcli -f keyvalue show neighbors 2>/dev/null |
    sed -n 's/^lldp\.\(.*\)\.\(chassis\.name\|port\.ifname\|port\.local\|port\.descr\)=/lldp.\1.\2=/p'
}

look_all /sys
look_closer
look_at=host
look_fact name "$(uname -n)"
look_uplinks /sys/class/net /proc
look_neighbours
exit 0
