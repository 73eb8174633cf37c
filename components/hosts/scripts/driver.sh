# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, ... are set by input.sh
# The RDMA driver of a host: which one runs, how its package is installed, and its modules for each
# kernel. What is looked at before anything is installed is in driver_checks.sh, the repository in
# driver_repository.sh. The GPU driver is read here and never installed.

driver_packages=''
driver_installer=''
driver_installed=no
driver_note=''
GRUB_ENV=/boot/grub/grubenv

driver_parameter() { # LINE of stdin that says how a driver is installed
  case $1 in
    driver_source=* | driver_sha256=* | driver_key=* | driver_key_sha256=* | driver_packages=*) ;;
    driver_installer=--add-kernel-support) ;;
    *) return 1 ;;
  esac
  eval "${1%%=*}=\${1#*=}"
  case $driver_packages in *[!a-z0-9.+\ -]*) fail "bad package names '$driver_packages'" ;; esac
}

find_driver() { # SETTING
  case $1 in
    kind | version | line)
      find_driver_now
      case $1 in kind) value=${value%% *} && return ;; esac
      value=${value#* }
      [ "$1" = version ] || value=${value%%-*}
      ;;
    *) value=$(read_driver "$1") ;;
  esac
}

read_driver() { # SETTING
  case $1 in
    kind | version | line) find_driver "$1" && echo "$value" ;;
    present) read_present ;;
    modules) asked_once modules read_driver_modules ;;
    loaded) asked_once loaded read_driver_loaded ;;
    repository) read_repository rdma ;;
    gpu_host) gpu_field version ;;
    gpu_modules) read_gpu_modules ;;
    fabric_manager) read_fabric_manager ;;
    dma_buf) read_dma_buf ;;
  esac
}

asked_once() { # NAME COMMAND : until something is installed
  [ -s "$work/driver.$1" ] || "$2" >"$work/driver.$1"
  cat "$work/driver.$1"
}

find_driver_now() { # "<kind> <version>"
  [ -s "$work/driver.now" ] || ask_driver >"$work/driver.now"
  find_line "$work/driver.now"
}

driver_now() { # the same, printed
  find_driver_now
  echo "$value"
}

ask_driver() {
  if command -v ofed_info >/dev/null && release=$(ofed_info -s 2>/dev/null); then
    release=${release%:}
    case $release in
      MLNX_OFED_LINUX-*) echo "mlnx_ofed $(full_version "${release#MLNX_OFED_LINUX-}")" ;;
      OFED-internal-*) echo "doca_ofed $(full_version "${release#OFED-internal-}")" ;;
      *) echo "other $(printf '%s' "$release" | tr -cd '[:alnum:]._-')" ;; # as mlnx-en-5.8-3.0.7.0
    esac
  elif [ -d /sys/module/mlx5_core ]; then
    echo "inbox $(uname -r)"
  else
    echo 'absent absent'
  fi
}

read_present() { # what is asked for where this host has it, else "<kind> <version>", with what is wrong of it
  find_driver_now
  present_now=$value
  present_wanted=$(value_of driver.present "$work/desired") || present_wanted=''
  case $present_wanted:$present_now in
    ofed*:mlnx_ofed* | ofed*:doca_ofed* | doca*:doca_ofed*) ;;
    *) echo "$present_now" && return ;;
  esac
  case $(modinfo -F filename mlx5_core 2>/dev/null) in
    */updates/* | */extra/* | */weak-updates/*) ;;
    *) echo "$present_now without-modules" && return ;;
  esac
  [ "$(read_driver_loaded)" = installed ] || { echo "$present_now not-loaded" && return; }
  case $present_wanted in *\ *) ;; *) echo "$present_wanted" && return ;; esac
  printf '%s %s\n' "${present_now#* }" "${present_wanted#* }" |
    awk -v asked="$present_wanted" -v there="$present_now" '{
    split($1, now, /[.-]/); n = split($2, least, /[.-]/)
    for (i = 1; i <= n; i++) if (now[i] + 0 != least[i] + 0) {
      print (now[i] + 0 > least[i] + 0 ? asked : there " too-old"); exit }
    print asked }'
}

refuse_present() { # VALUE : the host has another driver than it shall have
  present_found=$(read_present)
  present_version=${present_found#* }
  present_version=${present_version%% *}
  case $present_found in
    *' without-modules')
      fail "the RDMA driver ${present_found%% *} $present_version is installed, and kernel $(uname -r) has no" \
        'modules of it: build them (dkms autoinstall; doca-kernel-support) and reboot, or boot the kernel that has them'
      ;;
    *' not-loaded')
      fail "the RDMA driver ${present_found%% *} $present_version is installed, and other modules are loaded:" \
        'reboot the host (or /etc/init.d/openibd restart), then run again'
      ;;
    *' too-old')
      fail "the RDMA driver of this host is ${present_found%% *} $present_version, older than ${1#* }: update it," \
        'or correct host_defaults.driver.at_least'
      ;;
    *)
      fail "the RDMA driver of this host is ${present_found%% *} ($present_version), want $1 to be there: install" \
        'MLNX_OFED or DOCA-OFED, let Railyard install it (driver.kind: doca_ofed with repository or source), or set' \
        'driver.flavour to what the host has'
      ;;
  esac
}

full_version() { # DOCA leaves out a last number that is 0: 25.10-1.7.1 is 25.10-1.7.1.0
  case ${1#*-} in *.*.*.*) echo "$1" ;; *.*.*) echo "$1.0" ;; *) echo "$1" ;; esac
}

driver_kernels() { # the running kernel, and that of the next boot where it is another
  running_kernel=$(uname -r)
  echo "$running_kernel"
  next_kernel=$(grubby --default-kernel 2>/dev/null) || next_kernel=$(pinned_kernel | grep .) ||
    next_kernel=$(printf '%s\n' /boot/vmlinuz-* | grep -v -e rescue -e '\.old$' | sort -V | tail -n 1)
  next_kernel=${next_kernel##*/vmlinuz-}
  case $next_kernel in '' | '*' | "$running_kernel") ;; *) echo "$next_kernel" ;; esac
}

pinned_kernel() { # the one whose entry GRUB is told to start by its name; by number it is not looked up
  entry=$(sed -n 's/^next_entry=//p' "$GRUB_ENV" 2>/dev/null)
  [ -n "$entry" ] || entry=$(sed -n 's/^[[:space:]]*GRUB_DEFAULT=//p' /etc/default/grub /etc/default/grub.d/*.cfg \
    2>/dev/null | tail -n 1 | tr -d "\"'")
  [ "$entry" != saved ] || entry=$(sed -n 's/^saved_entry=//p' "$GRUB_ENV" 2>/dev/null)
  for image in /boot/vmlinuz-*; do
    case "$entry " in *"with Linux ${image##*/vmlinuz-} "* | *"gnulinux-${image##*/vmlinuz-}-"*) echo "$image" ;; esac
  done | tail -n 1
}

missing_kernels() { # those for which no package brought modules: the kernel's own lie in kernel/
  for kernel in $(driver_kernels); do
    case $(modinfo -k "$kernel" -F filename mlx5_core 2>/dev/null) in
      */updates/* | */extra/* | */weak-updates/*) ;;
      *) echo "$kernel" ;;
    esac
  done
}

runs_without_modules() { missing_kernels | grep -q -x -F "$(uname -r)"; }

read_driver_modules() { # built, or unfinished:PACKAGE,..., missing:, unsigned: or untrusted:KERNEL,...
  stack_left=$(unfinished_packages | grep -E "$STACK_PACKAGES" | paste -s -d , -)
  [ -z "$stack_left" ] || { echo "unfinished:$stack_left" && return; }
  kernels=$(missing_kernels | paste -s -d , -)
  [ -z "$kernels" ] || { echo "missing:$kernels" && return; }
  kernels=$(unsigned_kernels | paste -s -d , -)
  [ -z "$kernels" ] || { echo "unsigned:$kernels" && return; }
  kernels=$(untrusted_kernels | paste -s -d , -)
  if [ -n "$kernels" ]; then echo "untrusted:$kernels"; else echo built; fi
}

read_driver_loaded() { # whether the running module is the one on disk
  find_line /sys/module/mlx5_core/srcversion
  [ -n "$value" ] || { echo absent && return; }
  if [ "$value" = "$(modinfo -F srcversion mlx5_core 2>/dev/null)" ]; then echo installed; else echo other; fi
}

gpu_field() { # version|license of the GPU module that is the host's own; one of a driver container is not
  modinfo -F "$1" nvidia 2>/dev/null | head -n 1 | grep . || running_gpu_field "$1" || echo absent
}

read_gpu_modules() {
  case $(gpu_field license) in *MIT/GPL*) echo open ;; absent) echo absent ;; *) echo proprietary ;; esac
}

read_dma_buf() { # Linux 5.12 is the first whose RDMA stack takes a DMA-BUF
  uname -r | awk -F '[.-]' '{ print ($1 > 5 || ($1 == 5 && $2 >= 12)) ? "ready" : "old-kernel" }'
}

write_driver() { # KEY VALUE
  rm -f "$work"/driver.*
  case $1:$2 in
    driver.repository:*) write_repository rdma "$2" ;;
    driver.gpu_host:absent)
      fail "the GPU driver $(gpu_field version) is installed on this host, and the GPU operator would" \
        "load another one: take its packages out (apt-get purge 'nvidia-driver-*' 'nvidia-dkms-*')," \
        'or set host_defaults.gpu_driver and operators.gpu.driver to host'
      ;;
    driver.gpu_host:*)
      fail "the GPU driver of this host is $(gpu_field version), want $2: the host owns it, so Railyard" \
        'does not install it; install that version, or correct host_defaults.gpu_driver_version'
      ;;
    driver.gpu_modules:*)
      refuse_dma_buf "the GPU kernel modules are $(read_gpu_modules), and DMA-BUF needs the open ones" \
        'install nvidia-open (or nvidia-driver-*-open)'
      ;;
    driver.dma_buf:*)
      refuse_dma_buf "DMA-BUF needs Linux 5.12, and this host runs $(uname -r)" 'boot a newer kernel'
      ;;
    driver.present:*) refuse_present "$2" ;;
    driver.fabric_manager:*) refuse_fabric_manager ;;
    driver.kind:inbox)
      fail "driver.kind is '$(read_key driver.kind)', want inbox: Railyard does not remove driver" \
        'packages; remove them (ofed_uninstall.sh), or say that they are there: host_defaults.driver {kind: present}'
      ;;
    driver.modules:*) rebuild_modules ;;
    driver.loaded:*) load_modules ;;
    *) install_driver ;;
  esac
  rm -f "$work"/driver.* "$work"/firmware.* # the tools that ask the cards come with a driver
}

refuse_dma_buf() { # REASON REMEDY : the other way, nvidia_peermem, is there with NVIDIA's RDMA driver alone
  remedy=$2
  for device in /sys/bus/pci/devices/*; do
    { IFS= read -r gpu_vendor <"$device/vendor" && IFS= read -r gpu_device <"$device/device"; } || continue
    # Volta (GV100, pci.ids 1db0 to 1dbf) and what came before it have no open modules.
    case $gpu_vendor:$gpu_device in 0x10de:0x1d[b-f]?) remedy='this GPU is a Volta, which has no open ones' ;; esac
  done 2>/dev/null
  case $(driver_now) in
    mlnx_ofed* | doca_ofed*) fail "$1: $remedy; or set host_defaults.gpu_direct: peermem" ;;
    *)
      fail "$1: $remedy; or install MLNX_OFED or DOCA-OFED (host_defaults.driver), with which" \
        'host_defaults.gpu_direct: peermem works; the inbox driver of this host has no peer memory'
      ;;
  esac
}

install_driver() { # a firmware update is never a side effect of a driver
  [ "$driver_installed" = no ] || return 0
  driver_installed=yes
  check_before_install
  umask 022 # packages expect it; what follows sets its own modes
  export DEBIAN_FRONTEND=noninteractive
  driver_kernels >"$work/kernels"
  if [ -z "$driver_source" ]; then install_from_repository; else install_from_file; fi
  refuse_new_kernel
  rm -f "$work"/driver.* # the checks have asked for the one before
  load_modules
}

install_from_file() {
  fetch "$driver_source" "$driver_sha256"
  case $fetched in
    *.deb)
      packages dpkg -i "$fetched"
      apt_get update
      apt_get -y install doca-ofed
      ;;
    *.rpm)
      packages rpm -U --replacepkgs "$fetched"
      dnf_install doca-ofed
      ;;
    *.tgz)
      mkdir -p "$work/driver"
      packages tar -xzf "$fetched" -C "$work/driver" --strip-components=1
      # shellcheck disable=SC2086 # no option, or several
      packages "$work/driver/mlnxofedinstall" --without-fw-update --force -q $driver_installer
      ;;
    *) fail "$driver_source is none of .deb, .rpm, .tgz (of an .iso there is the same release as .tgz)" ;;
  esac
}

fetch() { # SOURCE SHA256 : to $fetched, an absolute path
  fetched=$1
  case $1 in
    https://*)
      fetched=$work/${1##*/}
      packages curl -fsSL --proto =https --retry 3 -o "$fetched" "$1"
      ;;
    /*) [ -r "$fetched" ] || fail "driver package $fetched is not on this host" ;;
    *) fail "driver_source '$1' is neither an absolute path nor an https address" ;;
  esac
  found=$(sha256sum "$fetched" | cut -d ' ' -f 1)
  [ "$found" = "$2" ] || fail "checksum of $1 is $found, want $2; nothing was installed"
}

load_missing() { # nothing is loaded after a restart of openibd that failed halfway
  [ "$(read_driver_loaded)" = absent ] || return 0
  load_output=$(modprobe mlx5_core 2>&1) && rm -f "$work"/*.* && return # what was read without a driver
  load_output="no RDMA driver is loaded: $driver_note${driver_note:+; }modprobe mlx5_core: ${load_output:-no output}."
  case $load_output in
    *'Key was rejected'* | *'Required key not available'*) refuse_key "$load_output" ;;
  esac
  fail "$load_output Look at dmesg, reboot the host, and run again"
}

load_modules() { # without a reboot, where nothing else holds the old ones
  load_missing
  [ "$(read_driver_loaded)" = other ] || return 0
  check_signature
  reboot_required=true # the loaded modules are still the old ones
  [ -x /etc/init.d/openibd ] || return 0
  uplink=$(card_uplink)
  holders=$(stack_holders)
  lent=$(lent_cards)
  if [ -n "$uplink" ]; then # openibd would cut the session, and this script with it
    driver_note="the host is reached through $uplink, a port of the card"
  elif [ -n "$holders" ]; then
    driver_note="loaded and using the old RDMA modules: $holders"
  elif runs_without_modules; then # openibd would load the kernel's own
    driver_note="kernel $(uname -r) has no modules of the driver"
  elif [ -n "$lent" ]; then
    driver_note="VFs are in pods or machines: $lent"
  else
    for module in nvidia_peermem nv_peer_mem; do # they hold ib_uverbs
      [ ! -d "/sys/module/$module" ] || modprobe -r "$module" >/dev/null 2>&1 ||
        { driver_note="$module is in use, so a job runs here" && return 0; }
    done
    /etc/init.d/openibd restart >"$work/openibd" 2>&1 ||
      driver_note="openibd restart failed: $(tail -n 1 "$work/openibd" | printable)"
    rm -f "$work"/*.* # what was read of the cards before: their settings are the driver's defaults now
    load_missing
    [ "$(read_driver_loaded)" != installed ] || reboot_required=false
  fi
}

card_uplink() { # the device of the default route, or of this session, where an mlx5 card carries it
  { ip route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p'
    session=$(ssh_session)
    session=${session#* * }
    [ -z "$session" ] || ip -o addr show 2>/dev/null |
      awk -v own="${session%% *}/" 'index($4, own) == 1 { print $2 }'; } | sort -u >"$work/uplinks"
  while IFS= read -r uplink; do
    for below in "/sys/class/net/$uplink" "/sys/class/net/$uplink"/lower_* "/sys/class/net/$uplink"/lower_*/lower_*; do
      case $(readlink "$below/device/driver" 2>/dev/null) in */mlx5_core) echo "$uplink" ;; esac
    done
  done <"$work/uplinks" | head -n 1
}

ssh_session() { # sudo clears SSH_CONNECTION; the shell that called sudo still has it
  ancestor=$$
  while [ "${ancestor:-0}" -gt 1 ]; do
    tr '\0' '\n' <"/proc/$ancestor/environ" 2>/dev/null | grep '^SSH_CONNECTION=' | cut -d = -f 2- | grep '' && return
    ancestor=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$ancestor/status" 2>/dev/null)
  done
}

lent_cards() { # PFs with VFs that have no network device here
  for device in /sys/bus/pci/drivers/mlx5_core/????:*; do
    vfs_made=$(cat "$device/sriov_numvfs" 2>/dev/null || echo 0)
    for netdev in "$device"/virtfn*/net/*; do
      [ ! -e "$netdev" ] || vfs_made=$((vfs_made - 1))
    done
    [ "$vfs_made" -le 0 ] || echo "${device##*/}"
  done | paste -s -d ' ' -
}

stack_holders() { # what openibd cannot unload: storage and other makers' cards (doca-driver-build)
  case $(read_driver version) in # from 26.07 on it looks at nvme too, which a root disk may need
    26.0[7-9]* | 26.1* | 2[7-9].*) nvme=nvme ;;
    *) nvme='' ;;
  esac
  for module in $nvme ib_iser ib_isert ib_srp ib_srpt nvme_rdma nvmet_rdma rpcrdma xprtrdma bnxt_re efa erdma \
    iw_cxgb4 hfi1 hns_roce ionic_rdma irdma ib_qib mana_ib ocrdma qedr rdma_rxe siw vmw_pvrdma; do
    [ ! -e "/sys/module/$module/initstate" ] || echo "$module"
  done | paste -s -d ' ' -
}

check_peer_module() { # NAME : before modprobe
  case $1 in
    nvidia_peermem)
      [ ! -d /sys/module/nv_peer_mem ] ||
        fail 'the old module nv_peer_mem is loaded, and nvidia_peermem takes its place: remove its' \
          'package (nvidia-peer-memory-dkms) and unload it with modprobe -r nv_peer_mem; it is not ours to remove'
      ;;
    nv_peer_mem)
      ! modinfo nvidia_peermem >/dev/null 2>&1 ||
        fail "the GPU driver $(gpu_field version) of this host brings nvidia_peermem, which took the" \
          'place of nv_peer_mem with driver 470: set host_defaults.gpu_direct: peermem (or dma_buf)'
      modinfo nv_peer_mem >/dev/null 2>&1 ||
        fail "there is no nv_peer_mem for kernel $(uname -r): its last release is 1.3 of January 2022, and" \
          'it needs MLNX_OFED 5.1 or later. Install it for this kernel, or use what took its place:' \
          'GPU driver 470 or later and host_defaults.gpu_direct: peermem (or dma_buf from Linux 5.12 on)'
      ;;
  esac
}

printable() { tr -cd '[:alnum:] ._:/,+()-' | cut -c 1-200; }

report_driver() { # why modules wait for a reboot, and what is not known of them
  driver_note=$driver_note$(unknown_signer "${driver_note:+; }")
  [ -z "$driver_note" ] || printf ',"driver":"%s"' "$(json_text "$driver_note")"
}
