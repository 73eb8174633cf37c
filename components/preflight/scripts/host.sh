# shellcheck shell=sh
# Read-only look at one Linux host before anything is installed, as root. stdin: one question a line.
# stdout: `key=value`, one line a fact; what cannot be found out is no line. Nothing is written but in
# a folder of its own under /tmp. The functions of driver_signing.sh come before it.
# shellcheck disable=SC2154 # SHIM_KEY and DKMS_KEY are set there
set -u
export LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin
CONNECT_S=5 # a port on the same site answers in milliseconds, or a firewall drops it
FETCH_S=60  # an archive of some hundred MB over a fast line
work=$(mktemp -d /tmp/railyard.XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
: >"$work/trust" && : >"$work/login" # how curl speaks to the registry of the site

fact() { # KEY VALUE
  [ -z "$2" ] || printf '%s=%s\n' "$1" "$2"
}

first_line() { # FILE
  { IFS= read -r line <"$1"; } 2>/dev/null && printf '%s' "$line"
}

look_system() {
  fact time "$(date +%s)"
  fact kernel "$(uname -r)"
  fact arch "$(uname -m)"
  # shellcheck source=/dev/null
  fact os "$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID:-}" "${VERSION_ID:-}")"
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    fact cgroup v2
  elif [ -d /sys/fs/cgroup/memory ]; then
    fact cgroup v1
  fi
  fact swap "$(awk 'NR > 1 { kib += $3; name = name (name == "" ? "" : " ") $1 } END { if (kib) print kib, name }' \
    /proc/swaps 2>/dev/null)"
  for folder in / /var/lib /boot /opt; do
    fact "disk.$folder" "$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')"
  done
  gpu_driver=$(modinfo -F version nvidia 2>/dev/null | head -n 1)
  # Without modinfo, or without the module's file, the driver that runs says what it is.
  [ -n "$gpu_driver" ] || [ -e /run/nvidia/driver/usr ] ||
    gpu_driver=$(sed -n '/^NVRM version/s/.* \([0-9][0-9]*\.[0-9][0-9.]*\) .*/\1/p' \
      /proc/driver/nvidia/version 2>/dev/null)
  fact gpu_driver "$gpu_driver"
  fact gpu_loaded "$([ ! -d /sys/module/nvidia ] || echo yes)"
  for unit in k3s k3s-agent kubelet railyard-haproxy; do # what an earlier update set up has its ports
    [ ! -e "/etc/systemd/system/$unit.service" ] || fact "${unit%-agent}" "$unit"
  done
  fact selinux "$(first_line /sys/fs/selinux/enforce)" # 1: enforcing; no such file without SELinux
  [ ! -e /usr/share/selinux/packages/k3s.pp ] || fact k3s_policy there # what k3s-selinux installs
  look_signatures
}

look_signatures() { # under Secure Boot: modules on disk that the kernel refuses, and a key that signs new ones
  [ "$(secure_boot)" = enabled ] || return 0
  fact secure_boot on
  fact ofed "$(command -v ofed_info)"
  for key_file in "$SHIM_KEY" "$DKMS_KEY"; do
    case $(mokutil --test-key "$key_file" 2>&1) in *'is already enrolled'*) fact build_key "$key_file" ;; esac
  done
  for module in mlx5_core nvidia; do
    case $(modinfo -F filename "$module" 2>/dev/null) in
      '' | '(builtin)' | /lib/modules/*/kernel/*) continue ;; # the distribution signs its own
    esac
    signer=$(module_signer "$(uname -r)" "$module")
    if [ -z "$signer" ]; then
      fact "refused.$module" 'it has no signature'
    elif [ "$(signer_enrolled "$signer")" = no ]; then
      fact "refused.$module" "it is signed by '$signer'"
    fi
  done
}

look_python() { # the newest one, which Ansible takes first
  for name in python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python3; do
    command -v "$name" >/dev/null || continue
    fact python "$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
    return
  done
}

look_packages() { # whose tools are there, what they left undone, and who holds their lock
  for tool in apt-get dnf; do
    ! command -v "$tool" >/dev/null || fact packages "$tool"
  done
  # shellcheck disable=SC2016 # dpkg-query's own form
  fact half_installed "$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null |
    awk '$1 ~ /^.[FHUW]|R/ { print $2 }' | paste -s -d ' ' -)"
  look_rpm
  command -v apt-get >/dev/null || return 0
  apt-get -o DPkg::Lock::Timeout=0 check >"$work/apt" 2>&1 && return
  fact lock "$(sed -n 's/.*held by \(process [0-9]* ([^)]*)\).*/\1/p' "$work/apt" | head -n 1)"
}

look_rpm() { # the same of rpm, whose lock is a POSIX lock on a file beside its database
  command -v dnf >/dev/null && command -v rpm >/dev/null || return 0
  rpm --verifydb >"$work/rpm" 2>&1 || fact package_db "$(tail -n 1 "$work/rpm" | grep . || echo "rpm --verifydb fails")"
  # What an update left twice that was cut off; of kernels and keys several may be there.
  fact half_installed "$(rpm -qa --qf '%{name}.%{arch}\n' 2>/dev/null | grep -v -e '^kernel' -e '^gpg-pubkey' |
    sort | uniq -d | paste -s -d ' ' -)"
  inode=$(stat -c %i "$(rpm --eval '%{_dbpath}')/.rpm.lock" 2>/dev/null) || return 0
  holder=$(awk -v end=":$inode" '/ WRITE / && index($6 "$", end "$") { print $5; exit }' /proc/locks)
  [ -z "$holder" ] || fact lock "process $holder ($(first_line "/proc/$holder/comm"))"
}

look_ipoib() { # the InfiniBand functions without a network device, which a selector of link types passes over
  fact ipoib "$(for port in /sys/class/infiniband/*/ports/1; do
    [ "$(first_line "$port/link_layer")" = InfiniBand ] || continue
    function=$(readlink -f "${port%/ports/1}/device")
    grep -q -s SW_MNG "$function/vpd" || [ -d "$function/net" ] || echo "${port%/ports/1}"
  done | sed 's,.*/,,' | paste -s -d ' ' -)"
}

sets_up() { # NETDEV MAC : the files that name a card; else the one by which networkd has it, as with `Name=en*`
  grep -l -s -i -E "^[^#]*\\<($1|$2)\\>" /etc/netplan/*.yaml \
    /etc/network/interfaces /etc/network/interfaces.d/* /etc/systemd/network/*.network \
    /etc/sysconfig/network-scripts/ifcfg-* /etc/NetworkManager/system-connections/* |
    while IFS= read -r file; do
      grep -q -i -x 'Unmanaged=\(yes\|true\|on\|1\)' "$file" || echo "$file"
    done | grep . && return
  # networkd calls this file private, so no more than a warning depends on it.
  state=/run/systemd/netif/links/$(first_line "/sys/class/net/$1/ifindex")
  grep -q -s '^ADMIN_STATE=unmanaged' "$state" || sed -n 's/^NETWORK_FILE=//p' "$state" 2>/dev/null
}

look_files() { # which files of this host set up its cards, and what cloud-init writes
  for net in /sys/bus/pci/devices/*/net/*; do
    pci=${net%/net/*}
    if [ ! -e "$net" ] || [ -e "$pci/physfn" ]; then continue; fi # VFs are many
    fact "files.${pci##*/}" "$(sets_up "${net##*/}" "$(first_line "$net/address" || echo none)" | paste -s -d ' ' -)"
  done
  [ -e /etc/cloud/cloud.cfg ] && [ ! -e /etc/cloud/cloud-init.disabled ] || return 0
  for setting in manage_etc_hosts preserve_hostname; do # the last one counts
    fact "cloud.$setting" "$(grep -s -H "^$setting:" /etc/cloud/cloud.cfg /etc/cloud/cloud.cfg.d/*.cfg \
      /var/lib/cloud/instance/vendor*-cloud-config.txt /var/lib/cloud/instance/cloud-config.txt |
      tail -n 1 | grep . || echo unset)"
  done
}

look_node() { # ADDRESS : the device that has it, and its MTU
  device=$(ip -o addr show 2>/dev/null | awk -v own="$1/" 'index($4, own) == 1 { print $2; exit }')
  [ -z "$device" ] || fact node "$device $(first_line "/sys/class/net/$device/mtu")"
}

look_cni() { # NET_D BIN : whether the node's own network plugin has its configuration and program there
  for file in "$1"/*.conf "$1"/*.conflist; do
    case $file in *multus*) continue ;; esac
    [ -f "$file" ] || continue
    types=$(tr -d ' \t\n' <"$file" | grep -o '"type":"[^"]*"' | cut -d '"' -f 4)
    for type in $types; do
      [ ! -x "$2/$type" ] || { echo good && return; }
    done
    echo "none of the programs of ${file##*/} in $2"
    return
  done
  echo "no configuration in $1"
}

hex_port() { printf '%04X' "$1"; }

look_port() { # PORT "ADDRESS..." : whether a program listens there, on all addresses or one of ours
  hex=$(hex_port "$1")
  own=' 00000000 00000000000000000000000000000000 '
  for address in $(printf '%s' "$2"); do
    own="$own$(printf '%s' "$address" | awk -F. '{ printf "%02X%02X%02X%02X", $4, $3, $2, $1 }') "
  done
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$hex" -v own="$own" '
    $4 == "0A" { split($2, at, ":"); if (at[2] == port && index(own, " " at[1] " ")) found = 1 }
    END { print found ? "used" : "free" }'
}

curl_says() { # ARGUMENTS... : the status, or what curl itself says
  status=$(curl -sS -o /dev/null -w '%{http_connect} %{http_code}' --connect-timeout "$CONNECT_S" -m "$FETCH_S" \
    "$@" 2>"$work/curl") && { printf '%s' "${status#* }" && return; }
  curl_failed "$?" "${status%% *}"
}

curl_failed() { # STATUS CONNECT : in curl's words, or in those of a proxy that let nothing through
  case $2 in
    '' | 000 | 200) printf 'failed %s %s' "$1" "$(grep -m 1 '^curl: ' "$work/curl" || tail -n 1 "$work/curl")" ;;
    *) printf 'failed 56 the proxy %s answers %s' "${https_proxy:-${HTTPS_PROXY:-}}" "$2" | sed 's|//[^/@]*@|//|' ;;
  esac
}

look_peer() { # ADDRESS PORT : refused is an answer of that machine, silence is none
  # shellcheck disable=SC2016 # bash expands it
  timeout "$CONNECT_S" bash -c ': <>"/dev/tcp/$0/$1"' "$1" "$2" 2>"$work/peer"
  case $?:$(tail -n 1 "$work/peer") in
    0:* | *[Rr]efused*) echo answers ;;
    124:*) echo "no answer within $CONNECT_S s" ;;
    *) sed -n 's/^.*[0-9]: //p' "$work/peer" | tail -n 1 | grep . || echo 'no connection' ;;
  esac
}

look_sum() { # SOURCE : the digest of what is there
  case $1 in
    /*) [ -f "$1" ] || { echo absent && return; }
      sha256sum "$1" | cut -d ' ' -f 1 ;;
    *)
      connect=$(curl -fsSL --proto =https --connect-timeout "$CONNECT_S" -m "$FETCH_S" -w '%{http_connect}' \
        -o "$work/fetched" "$1" 2>"$work/curl") || { curl_failed "$?" "$connect" && return; }
      sha256sum "$work/fetched" | cut -d ' ' -f 1
      rm -f "$work/fetched"
      ;;
  esac
}

look_image() { # MANIFEST TRUST LOGIN : the status of a pull's first request, with a token where one is wanted
  types='application/vnd.oci.image.index.v1+json,application/vnd.docker.distribution.manifest.list.v2+json'
  types="$types,application/vnd.oci.image.manifest.v1+json,application/vnd.docker.distribution.manifest.v2+json"
  says=$(curl_says -K "$2" -K "$3" -I -D "$work/head" -H "Accept: $types" "$1")
  challenge=$(sed -n 's/^[Ww][Ww][Ww]-[Aa]uthenticate: *[Bb]earer *//p' "$work/head" 2>/dev/null | tr -d '\r')
  if [ "$says" = 401 ] && [ -n "$challenge" ]; then
    realm=$(printf '%s' "$challenge" | sed -n 's/.*realm="\([^"]*\)".*/\1/p')
    service=$(printf '%s' "$challenge" | sed -n 's/.*service="\([^"]*\)".*/\1/p')
    scope=$(printf '%s' "$challenge" | sed -n 's/.*scope="\([^"]*\)".*/\1/p')
    asked="$realm?service=$service&scope=$scope"
    token=$(curl -K "$2" -K "$3" -fsS -m "$FETCH_S" --connect-timeout "$CONNECT_S" "$asked" 2>/dev/null |
      sed -n 's/.*"\(access_\)\{0,1\}token" *: *"\([^"]*\)".*/\2/p')
    if [ -n "$token" ]; then # on standard input, so that no list of processes shows it
      printf 'header = "Authorization: Bearer %s"\n' "$token" >"$work/token"
      says=$(curl_says -K "$2" -K "$work/token" -I -H "Accept: $types" "$1")
    fi
  fi
  printf '%s\n' "$says"
}

while read -r ask name rest; do
  case $ask in
    tool) fact "tool.$name" "$(command -v "$name" >/dev/null && echo yes || echo no)" ;;
    module) # one that is built in or loaded is as good
      case $name in # what a module of the kernel itself brings; that has no folder without parameters
        rdma_cm) shows=/sys/class/misc/rdma_cm ;;
        ib_uverbs) shows=/sys/class/infiniband_verbs ;;
        ib_umad) shows=/sys/class/infiniband_mad ;;
        br_netfilter) shows=/proc/sys/net/bridge ;;
        *) shows=/sys/module/$name ;;
      esac
      if [ -d "/sys/module/$name" ] || [ -e "$shows" ] || modinfo "$name" >/dev/null 2>&1 ||
        grep -q -s "/$name\.ko" "/lib/modules/$(uname -r)/modules.builtin"; then echo "module.$name=there"
      else echo "module.$name=absent"; fi ;;
    name) fact "name.$name" "$(getent hosts "$name" | awk 'NR == 1 { print $1 } END { if (!NR) print "unknown" }')" ;;
    port) fact "port.$name" "$(look_port "$name" "$rest")" ;;
    peer) fact "peer.$name:$rest" "$(look_peer "$name" "$rest")" ;;
    sum) fact "sum.$name" "$(look_sum "$rest")" ;;
    reach) fact "reach.$name" "$(curl_says -I -L "$rest")" ;;
    packages) look_packages ;;
    cni) fact cni "$(look_cni "$name" "$rest")" ;;
    python) look_python ;;
    ipoib) look_ipoib ;;
    node) look_node "$name" ;;
    trust)
      printf '%s' "$rest" | base64 -d >"$work/ca"
      printf 'cacert = "%s"\n' "$work/ca" >"$work/trust" ;;
    login) printf '%s' "$rest" | base64 -d >"$work/login" ;;
    image) fact "image.$name" "$(look_image "$rest" /dev/null /dev/null)" ;;
    own) fact "image.$name" "$(look_image "$rest" "$work/trust" "$work/login")" ;;
  esac
done
look_system
look_files
# More than one packet of any size: where the way back loses full ones, the end never comes.
awk 'BEGIN { while (n++ < 200) printf "# %064d\n", n }'
echo end=yes
