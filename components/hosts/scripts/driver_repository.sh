# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, fetched, ... are set by input.sh and driver.sh
# The site's own repositories, of the RDMA driver and of the container toolkit: one source file and the
# key that signs it, by apt or by dnf. Both are ours, and go when the setting goes.

driver_key=''
driver_key_sha256=''
toolkit_key=''
toolkit_key_sha256=''

use_repository() { # rdma|toolkit
  repository_key=/etc/railyard/$1-key
  apt_source=/etc/apt/sources.list.d/railyard-$1.list
  dnf_source=/etc/yum.repos.d/railyard-$1.repo
  case $1 in
    rdma) signed_by=$driver_key signed_sha256=$driver_key_sha256 ;;
    toolkit) signed_by=$toolkit_key signed_sha256=$toolkit_key_sha256 ;;
  esac
}

toolkit_parameter() { # LINE of stdin
  case $1 in toolkit_key=* | toolkit_key_sha256=*) eval "${1%%=*}=\${1#*=}" ;; *) return 1 ;; esac
}

read_repository() { # rdma|toolkit : "<address> <12 digits of the key's checksum>"
  use_repository "$1"
  address=$(sed -n 's/^deb \[[^]]*\] \([^ ]*\) .*/\1/p' "$apt_source" 2>/dev/null)
  [ -n "$address" ] || address=$(sed -n 's/^baseurl=//p' "$dnf_source" 2>/dev/null)
  [ -n "$address" ] || { echo absent && return; }
  address=${address#file://}
  echo "${address#file:} $(cat "$repository_key".* 2>/dev/null | sha256sum | cut -c 1-12)"
}

write_repository() { # rdma|toolkit "<address> <digits>", or absent
  use_repository "$1"
  rm -f "$apt_source" "$dnf_source" "$repository_key".*
  [ "$2" != absent ] || { rmdir "${repository_key%/*}" 2>/dev/null
    return 0; }
  [ -n "$signed_by" ] || fail "the recorded repository ${2%% *} cannot be put back: its key is not at hand"
  fetch "$signed_by" "$signed_sha256"
  (umask 022 && mkdir -p "${repository_key%/*}")
  # apt tells the two forms of a key apart by the name of the file.
  case $(head -c 5 "$fetched") in -----) key_file=$repository_key.asc ;; *) key_file=$repository_key.gpg ;; esac
  cp "$fetched" "$key_file" || fail "cannot write $key_file"
  chmod 0644 "$key_file"
  if command -v apt-get >/dev/null; then
    case $2 in /*) address=file:${2%% *} ;; *) address=${2%% *} ;; esac
    (umask 022 && mkdir -p "${apt_source%/*}")
    put "deb [signed-by=$key_file] $address ./" "$apt_source"
    chmod 0644 "$apt_source"
  else
    case $2 in /*) address=file://${2%% *} ;; *) address=${2%% *} ;; esac
    printf '[railyard-%s]\nname=Railyard %s\nbaseurl=%s\nenabled=1\ngpgcheck=1\ngpgkey=file://%s\n' \
      "$1" "$1" "$address" "$key_file" >"$dnf_source" || fail "cannot write $dnf_source"
    chmod 0644 "$dnf_source"
  fi
}

update_repository() { # only this source is read again: others may be out of reach
  apt_get -o "Dir::Etc::sourcelist=$apt_source" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 update
}

install_from_repository() {
  case $(value_of driver.kind "$work/desired") in
    mlnx_ofed) wanted_packages=${driver_packages:-mlnx-ofed-all} ;;
    *) wanted_packages=${driver_packages:-doca-ofed} ;;
  esac
  if command -v apt-get >/dev/null; then
    use_repository rdma
    update_repository
    # shellcheck disable=SC2086 # a list of names
    apt_get -y install $wanted_packages
  else
    # shellcheck disable=SC2086 # a list of names
    dnf_install $wanted_packages
  fi
}
