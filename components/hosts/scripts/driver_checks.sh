# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, driver_source, ... are set by input.sh and driver.sh
# What is looked at before a driver is installed or built, so that a host that cannot take it is told
# so while nothing has changed; and what a package tool's refusal means.

LOCK_WAIT_S=300 # a first boot's upgrades take minutes

check_before_install() {
  check_old_stack
  check_newer
  check_system
  check_packages
  if command -v dpkg >/dev/null || [ -n "$driver_installer" ]; then # else the modules come ready made
    check_secure_boot
    check_kernel_sources "$(uname -r)"
  fi
  check_disk
}

check_old_stack() { # one family on top of the other leaves both broken
  wanted_kind=$(value_of driver.kind "$work/desired")
  case $(driver_now):$wanted_kind in
    mlnx_ofed*:doca_ofed)
      fail "MLNX_OFED $(read_driver version) is installed, and DOCA-OFED takes its place: remove it first" \
        '(/usr/sbin/ofed_uninstall.sh --force, then a reboot), and run again; nothing was installed'
      ;;
    doca_ofed*:mlnx_ofed)
      fail "DOCA-OFED $(read_driver version) is installed, and MLNX_OFED is older: keep kind doca_ofed, or" \
        "remove it first ($(removal), then a reboot)"
      ;;
  esac
  case $(driver_now) in
    other*)
      fail "$(read_driver version) is installed, which is neither MLNX_OFED nor DOCA-OFED: remove it first" \
        '(/usr/sbin/ofed_uninstall.sh --force, then a reboot), and run again; nothing was installed'
      ;;
  esac
  mixed=$(installed_packages 'doca-ofed-generic*' | head -n 1)
  [ -z "$mixed" ] || [ -z "$driver_source" ] ||
    fail "$mixed of Ubuntu's archive is installed, and NVIDIA's packages do not go with it: remove it" \
      "(apt-get purge $mixed), or name it in driver.packages with Ubuntu's repository"
}

removal() { # of DOCA-OFED, in the words of the system
  remover='dnf remove'
  ! command -v apt-get >/dev/null || remover='apt-get purge'
  printf '%s' "$remover 'doca-*', /usr/sbin/ofed_uninstall.sh --force"
}

check_newer() { # neither apt nor dnf goes back; the installer of an archive removes what was there
  case $driver_source in *.tgz) return 0 ;; esac
  case $(driver_now) in mlnx_ofed* | doca_ofed*) ;; *) return 0 ;; esac
  there=$(read_driver version)
  wanted=$(value_of driver.version "$work/desired")
  [ -n "$wanted" ] || { there=$(read_driver line) && wanted=$(value_of driver.line "$work/desired"); }
  [ -n "$wanted" ] && [ "$there" != "$wanted" ] || return 0
  [ "$(printf '%s\n' "$there" "$wanted" | sort -V | tail -n 1)" = "$there" ] || return 0
  fail "RDMA driver $(read_driver version) is installed, which is newer than the file's $wanted, and packages do not" \
    "go back: write that version and its package, or remove it first ($(removal), then a reboot), and run again;" \
    'nothing was installed'
}

installed_packages() { # PATTERN : names of those that are wholly there
  # shellcheck disable=SC2016 # dpkg-query's own form
  dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$1" 2>/dev/null | awk '$1 == "ii" { print $2 }'
}

check_system() { # the package's own name says what it was built for
  package=${driver_source##*/}
  wanted_system=$(printf '%s\n' "$package" |
    sed -nE 's/.*[-_]((ubuntu|debian|rhel|ol|sles|fedora|openeuler|kylin)[0-9][0-9.]*(sp[0-9]+)?)[-_.].*/\1/p')
  # shellcheck source=/dev/null
  case $wanted_system in
    '' | sles*) ;; # service packs of SLES are written in several ways
    *) same_system "$wanted_system" "$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${ID_LIKE:-} ${VERSION_ID:-}" |
      tr '[:upper:]' '[:lower:]' | sed 's/ v\([^ ]*\)$/ \1/')" || # openEuler; Kylin's V10
      refuse_system ;;
  esac
  case $package:$(uname -m) in
    *x86_64*:x86_64 | *amd64*:x86_64 | *aarch64*:aarch64 | *arm64*:aarch64) ;;
    *x86_64*:* | *amd64*:* | *aarch64*:* | *arm64*:*)
      fail "the driver package $package is not for $(uname -m): take the one for this host's processor"
      ;;
  esac
}

same_system() { # WANTED "ID LIKE... VERSION" : a package may name more of a version than the host, or less
  version_here=${2##* }
  case $1:" $2" in
    rhel*:*' rhel '* | rhel*:*' centos '*) name_here=rhel ;;
    *) name_here=${2%% *} ;;
  esac
  case $1 in "$name_here"[0-9]*) ;; *) return 1 ;; esac
  wanted_version=${1#"$name_here"}
  wanted_version=${wanted_version%%sp*} # no system says its service pack there
  case $wanted_version:$version_here in
    *.*:*) # 8.1 is not 8.10
      case $wanted_version. in "$version_here".*) return 0 ;; esac
      case $version_here. in "$wanted_version".*) ;; *) return 1 ;; esac
      ;;
    *:*.*) # all of it without the dot, or the first number
      case $wanted_version in "${version_here%%.*}" | "$(printf '%s' "$version_here" | tr -d .)") ;; *) return 1 ;; esac
      ;;
    *) case $wanted_version in "$version_here"*) ;; *) return 1 ;; esac ;;
  esac
}

refuse_system() {
  # shellcheck source=/dev/null
  fail "the driver package $package is for $wanted_system, and this host runs" \
    "$(. /etc/os-release && echo "$ID $VERSION_ID") with kernel $(uname -r): take the package of the same" \
    'release that was built for it; nothing was installed'
}

check_packages() { # nothing half done by another, and nobody else at work
  if command -v dpkg >/dev/null; then
    check_half_installed
    # apt itself knows who holds its lock, and asks for no network with `check`.
    check_output=$(apt-get -o DPkg::Lock::Timeout=$LOCK_WAIT_S check 2>&1) ||
      fail_packages 'apt-get check' "$check_output"
  else
    wait_for_rpm
    duplicates=$(dnf -q check --duplicates 2>/dev/null | awk 'NF { print $1 }' | paste -s -d ' ' -)
    [ -z "$duplicates" ] ||
      fail "packages are there twice, as an interrupted dnf leaves them: $duplicates. Finish it with" \
        "'dnf remove --duplicates', then run again; nothing was installed"
  fi
}

# Of these a host's RDMA driver consists; what else is unfinished is no difference of the driver.
STACK_PACKAGES='doca|ofed|mlnx|rdma|verbs|ucx|mft|^srp-|^isert?-|knem|xpmem'

unfinished_packages() { # half installed, half configured, unpacked, waiting for a trigger, or broken
  # shellcheck disable=SC2016 # dpkg-query's own form
  dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | awk '$1 ~ /^.[FHUW]|R/ { print $2 }'
}

check_half_installed() {
  half=$(unfinished_packages | paste -s -d ' ' -)
  [ -z "$half" ] || fail "packages of this host are half installed: $half. Finish them with \`dpkg --configure" \
    "-a\` and \`apt-get -f install\` (or take them out: dpkg --remove --force-remove-reinstreq $half), then" \
    'run again; nothing was installed'
}

wait_for_rpm() { # rpm holds a POSIX lock, which /proc/locks shows by inode
  rpm_lock=/var/lib/rpm/.rpm.lock
  waited_s=0
  while rpm_holder=$(awk -v inode="$(stat -c %i "$rpm_lock" 2>/dev/null)" \
    'inode != "" && $2 == "POSIX" && $6 ~ (":" inode "$") { print $5; exit }' /proc/locks 2>/dev/null) &&
    [ -n "$rpm_holder" ]; do
    [ "$waited_s" -lt "$LOCK_WAIT_S" ] ||
      fail_lock "process $rpm_holder ($(cat "/proc/$rpm_holder/comm" 2>/dev/null))" 'dnf-automatic'
    sleep 5
    waited_s=$((waited_s + 5))
  done
}

fail_lock() { # HOLDER WORDS
  fail "the package lock is held by ${1:-another process}, and was not free within $LOCK_WAIT_S s: wait for it, or" \
    "stop what runs (for example systemctl stop $2), then run again; nothing was installed"
}

check_kernel_sources() { # KERNEL : what modules are built with
  if command -v dpkg-query >/dev/null; then
    [ -e "/lib/modules/$1/build" ] || [ -n "$(installed_packages "linux-headers-$1")" ] ||
      fail "the headers of kernel $1 are missing, and the driver's modules are built with them: apt-get" \
        "install linux-headers-$1, then run again; nothing was installed"
    # Newer Ubuntu kernels have no such package: only where the archive knows it, it is missing.
    [ -z "$(installed_packages "linux-modules-$1")" ] || [ -n "$(installed_packages "linux-modules-extra-$1")" ] ||
      ! apt-get -qq -s install "linux-modules-extra-$1" >/dev/null 2>&1 ||
      fail "linux-modules-extra-$1 is missing, and the driver needs modules of it: apt-get install" \
        "linux-modules-extra-$1, then run again; nothing was installed"
  else
    [ -e "/lib/modules/$1/build/Makefile" ] ||
      fail "kernel-devel-$1 is missing, and the driver's modules are built with it: dnf install" \
        "kernel-devel-$1, then run again; nothing was installed"
  fi
}

check_disk() { # NVIDIA: 1 GB for an installation; the same again where it is unpacked and built
  : >"$work/space"
  need_space / 1048576
  need_space /var 1048576
  case $driver_source in *.tgz) need_space "$work" 1048576 ;; esac
  # A new initial RAM disk is written beside the one in use.
  initrd_bytes=$(stat -L -c %s "/boot/initrd.img-$(uname -r)" "/boot/initramfs-$(uname -r).img" 2>/dev/null | head -n 1)
  need_space /boot $((${initrd_bytes:-0} / 1024))
  shortage=$(awk '{ need[$1] += $2; free[$1] = $3; of[$1] = of[$1] (of[$1] == "" ? "" : ", ") $4 }
    END { for (at in need) if (free[at] < need[at])
      printf "%s%s has %d MiB free and %d MiB are needed (%s)", (n++ ? "; " : ""), at, free[at] / 1024,
        need[at] / 1024, of[at] }' "$work/space")
  [ -z "$shortage" ] || fail "there is no room for the RDMA driver: $shortage. Free it (apt-get clean; old kernels:" \
    'apt-get autoremove --purge), then run again; nothing was installed'
}

need_space() { # FOLDER KIB
  df -Pk "$1" 2>/dev/null | awk -v need="$2" -v folder="$1" 'NR == 2 { print $6, need, $4, folder }' >>"$work/space"
}

packages() { # COMMAND... : a refusal in the words of its cause
  package_output=$("$@" 2>&1) || fail_packages "$*" "$package_output"
  packages_came "$*" ''
}

packages_came() { # COMMAND OUTPUT : for the last line of a run that fails, now or later
  case $1:$2 in
    curl\ * | tar\ * | *\ update:*) ;;
    *'Could not get lock'* | *'frontend lock'* | *NO_PUBKEY* | *'is not signed'*) ;;
    *'Unable to locate package'* | *'No match for argument'* | *'nable to find a match'*) ;;
    *'-f install'* | *'--fix-broken install'* | *'unmet dependencies'* | *'held broken packages'*) ;;
    *) in_part='; packages perhaps in part' ;;
  esac
}

fail_packages() { # COMMAND OUTPUT
  packages_came "$1" "$2"
  last_words=$(printf '%s\n' "$2" | grep . | tail -n 3 | paste -s -d ' ' -)
  case $2 in
    *'Could not get lock'* | *'dpkg frontend lock'*)
      fail_lock "$(printf '%s\n' "$2" | sed -n 's/.*held by \(process [0-9]* ([^)]*)\).*/\1/p' | head -n 1)" \
        'unattended-upgrades apt-daily'
      ;;
    *'which is newer than'*'is already installed'*)
      fail "a newer package is installed than the file's, and rpm does not go back: $last_words. Write its version," \
        "or remove it first ($(removal), then a reboot)"
      ;;
    *'dpkg was interrupted'*) check_half_installed ;;
    *'No space left on device'*)
      fail "the disk filled up during \`$1\`:" \
        "$(printf '%s\n' "$2" | grep 'No space left' | head -n 1). Free it (df -h; apt-get" \
        'clean), finish what was begun (dpkg --configure -a), then run again'
      ;;
    *'Bad return status for module build'*)
      fail "the driver's modules do not build for this kernel: $(printf '%s\n' "$2" | grep -A 1 'Bad return status' |
        paste -s -d ' ' -). This release does not know this kernel:" \
        'take a later one, or boot a kernel of its release notes'
      ;;
    *NO_PUBKEY* | *'is not signed'*)
      fail "the driver's repository is signed by another key: $last_words. Correct driver.repository.key"
      ;;
    *'Unable to locate package'* | *'No match for argument'*)
      fail "no repository of this host has the driver: $last_words. Look at the repository's address, and at" \
        'driver.packages'
      ;;
    *'--fix-broken install'* | *'apt-get -f install'*) # what was so before, whatever was asked for now
      fail "packages of this host are broken: $(printf '%s\n' "$2" | sed -n 's/^ *\(.*Depends:\)/\1/p' |
        head -n 2 | paste -s -d , -)." \
        'Mend them with apt-get -f install, then run again'
      ;;
    *'unmet dependencies'* | *'held broken packages'*)
      fail "\`$1\` cannot be done with the kernel as it is (kernels are held during the installation):" \
        "$(printf '%s\n' "$2" | grep -i depends | head -n 2 | paste -s -d ' ' -). Take a driver for kernel $(uname -r)"
      ;;
  esac
  fail "\`$1\` failed: ${last_words:-no output}"
}

apt_get() { # ARGUMENTS : no other kernel comes along, and the pin goes with the run
  { cat /etc/apt/preferences 2>/dev/null
    printf '\nPackage: linux-image-* linux-modules-*\nPin: release *\nPin-Priority: -1\n'; } >"$work/preferences"
  set -- apt-get -o DPkg::Lock::Timeout=$LOCK_WAIT_S -o "Dir::Etc::preferences=$work/preferences" "$@"
  waited_s=0
  until package_output=$("$@" 2>&1); do
    case $package_output in *lists/lock*) ;; *) waited_s=$LOCK_WAIT_S ;; esac # for this one apt does not wait
    [ "$waited_s" -lt "$LOCK_WAIT_S" ] || fail_packages "$*" "$package_output"
    sleep 5
    waited_s=$((waited_s + 5))
  done
  packages_came "$*" ''
}

dnf_install() { # PACKAGES
  packages dnf -y --exclude=kernel --exclude=kernel-core --exclude=kernel-modules install "$@"
}

refuse_new_kernel() { # what the packages' own scripts may still have pulled
  driver_kernels >"$work/kernels.after"
  cmp -s "$work/kernels" "$work/kernels.after" ||
    fail "the installation changed the kernel of the next boot to $(tail -n 1 "$work/kernels.after"): remove it, or" \
      'boot it on purpose, then run again'
}

read_fabric_manager() { # ready, or not-running on a host whose NVSwitches need it
  fabric_manager=ready
  find_pci_classes
  while IFS= read -r device; do
    case $device in
      *:0x0680??) ;; # a bridge, where it is NVIDIA's
      *:0x0207*)
        ! manages_nvswitch "/sys/bus/pci/devices/${device%%/*}" || fabric_manager=not-running
        continue
        ;;
      *) continue ;;
    esac
    find_line "/sys/bus/pci/devices/${device%%/*}/vendor"
    [ "$value" != 0x10de ] || fabric_manager=not-running
  done <"$work/kernel.classes"
  [ "$fabric_manager" = ready ] || ! systemctl is-active --quiet nvidia-fabricmanager.service || fabric_manager=ready
  echo "$fabric_manager"
}

refuse_fabric_manager() {
  fail 'this host has NVSwitches, and nvidia-fabricmanager does not run: its GPUs do not reach each other, and' \
    "CUDA does not start (error 802). Install nvidia-fabricmanager in the driver's version ($(gpu_field version))," \
    'and systemctl enable --now nvidia-fabricmanager (on HGX B200 and later, nvlsm too)'
}

running_gpu_field() { # version|license : of the driver that runs, on a host whose image has no modinfo for it
  [ ! -e /run/nvidia/driver/usr ] || return 1 # the root of the GPU operator's driver container
  nvrm=$(sed -n 's/^NVRM version: *//p' "${nvrm_file:-/proc/driver/nvidia/version}" 2>/dev/null)
  case $1:$nvrm in
    *:) return 1 ;;
    license:*Open*) echo 'Dual MIT/GPL' ;;
    license:*) echo NVIDIA ;;
    *) printf '%s\n' "$nvrm" | grep -E -o '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1 ;;
  esac
}
