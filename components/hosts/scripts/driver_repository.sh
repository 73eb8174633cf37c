# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, fetched, ... are set by input.sh and driver.sh
# The site's own repository of the RDMA driver: one source file and the key that signs it, by apt or
# by dnf. Both are ours, and go when the setting goes.

driver_key=''
driver_key_sha256=''
RDMA_KEY=/etc/railyard/rdma-key
APT_SOURCE=/etc/apt/sources.list.d/railyard-rdma.list
DNF_SOURCE=/etc/yum.repos.d/railyard-rdma.repo

read_driver_repository() { # "<address> <12 digits of the key's checksum>"
  address=$(sed -n 's/^deb \[[^]]*\] \([^ ]*\) .*/\1/p' "$APT_SOURCE" 2>/dev/null)
  [ -n "$address" ] || address=$(sed -n 's/^baseurl=//p' "$DNF_SOURCE" 2>/dev/null)
  [ -n "$address" ] || { echo absent && return; }
  address=${address#file://}
  echo "${address#file:} $(cat "$RDMA_KEY".* 2>/dev/null | sha256sum | cut -c 1-12)"
}

write_driver_repository() { # "<address> <digits>", or absent
  rm -f "$APT_SOURCE" "$DNF_SOURCE" "$RDMA_KEY".*
  [ "$1" != absent ] || { rmdir "${RDMA_KEY%/*}" 2>/dev/null
    return 0; }
  [ -n "$driver_key" ] || fail "the recorded repository ${1%% *} cannot be put back: its key is not at hand"
  fetch "$driver_key" "$driver_key_sha256"
  (umask 022 && mkdir -p "${RDMA_KEY%/*}")
  # apt tells the two forms of a key apart by the name of the file.
  case $(head -c 5 "$fetched") in -----) key_file=$RDMA_KEY.asc ;; *) key_file=$RDMA_KEY.gpg ;; esac
  cp "$fetched" "$key_file" || fail "cannot write $key_file"
  chmod 0644 "$key_file"
  if command -v apt-get >/dev/null; then
    case $1 in /*) address=file:${1%% *} ;; *) address=${1%% *} ;; esac
    (umask 022 && mkdir -p "${APT_SOURCE%/*}")
    put "deb [signed-by=$key_file] $address ./" "$APT_SOURCE"
    chmod 0644 "$APT_SOURCE"
  else
    case $1 in /*) address=file://${1%% *} ;; *) address=${1%% *} ;; esac
    printf '[railyard-rdma]\nname=RDMA driver\nbaseurl=%s\nenabled=1\ngpgcheck=1\ngpgkey=file://%s\n' \
      "$address" "$key_file" >"$DNF_SOURCE" || fail "cannot write $DNF_SOURCE"
    chmod 0644 "$DNF_SOURCE"
  fi
}

install_from_repository() { # only this source is read anew: others may be out of reach
  case $(value_of driver.kind "$work/desired") in
    mlnx_ofed) wanted_packages=${driver_packages:-mlnx-ofed-all} ;;
    *) wanted_packages=${driver_packages:-doca-ofed} ;;
  esac
  if command -v apt-get >/dev/null; then
    apt_get -o "Dir::Etc::sourcelist=$APT_SOURCE" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 update
    # shellcheck disable=SC2086 # a list of names
    apt_get -y install $wanted_packages
  else
    # shellcheck disable=SC2086 # a list of names
    dnf_install $wanted_packages
  fi
}
