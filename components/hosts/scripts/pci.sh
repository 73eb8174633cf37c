# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, state_dir, ... are set by input.sh
# The PCIe path between GPU and card: ACS of its bridges, and the IOMMU by the kernel's command line. And the
# RDMA namespace mode, which the next boot gives as well.

GRUB_FILE=/etc/default/grub.d/zz-railyard.cfg
GRUB_CFG=/boot/grub/grub.cfg
NETNS_FILE=/etc/modprobe.d/zz-railyard-rdma.conf

find_pci() { # KEY
  case $1 in
    kernel.acs) find_acs ;;
    kernel.cmdline.iommu) value=$(next_cmdline | iommu_mode) ;;
    kernel.cmdline.iommu_current) value=$(iommu_mode </proc/cmdline) ;;
    kernel.rdma_netns) value=$(read_netns_mode) ;;
    kernel.rdma_netns_current) value=$(rdma system show 2>/dev/null | awk '$1 == "netns" { print $2; exit }') ;;
  esac
}

read_pci() { # KEY : the same, printed
  find_value "$1"
  echo "$value"
}

write_pci() { # KEY VALUE
  case $1 in
    kernel.acs) write_acs "$2" ;;
    kernel.cmdline.iommu) write_iommu "$2" ;;
    kernel.rdma_netns) write_netns_mode "$2" ;;
    *) fail "$1 can be read, not set" ;;
  esac
}

refuse_pci() { # before anything is recorded: without the tool the words of now cannot be put back
  [ ! -e "$state_dir/acs" ] || grep -q '^kernel\.acs=' "$state_dir/baseline" 2>/dev/null || rm -f "$state_dir/acs"
  ! asks_for acs || command -v setpci >/dev/null ||
    fail 'ACS of the bridges between GPUs and cards cannot be read: setpci is not on this host;' \
      'install pciutils, or set host_defaults.kernel.acs: keep'
}

# On HGX B200 and B300 the NVSwitches are no PCI devices: ConnectX-7 functions of class 0207 manage
# them, and only their VPD differs from a network card's (SMDL=SW_MNG).
manages_nvswitch() { # DEVICE : a folder of /sys/bus/pci/devices
  [ ! -e "$1/physfn" ] && grep -q -s SW_MNG "$1/vpd"
}

find_pci_classes() { # $work/kernel.classes: "<PCI>/class:<class>" of GPUs, InfiniBand controllers, NVSwitches' bridges
  [ "$reading_all" = no ] || [ ! -e "$work/kernel.classes" ] || return 0
  class_files=''
  ! cd /sys/bus/pci/devices 2>/dev/null || for class_pci in *; do class_files="$class_files $class_pci/class"; done
  # shellcheck disable=SC2086 # PCI addresses have no blanks
  grep -s -E '^0x(03|0207|0680)' $class_files /dev/null >"$work/kernel.classes"
  cd /
}

find_ends() { # $work/kernel.ends: "gpu <path>" of each GPU (vendor 10de, class 03), "card <path>" of each rail card:
  # the cards of the file, and all InfiniBand controllers, which it need not name. By their class, since
  # at boot the driver may still be probing.
  find_pci_classes
  set -- "$work/desired"
  [ ! -e "${state_dir:-/none}/baseline" ] || set -- "$@" "$state_dir/baseline"
  grep -s -h '^nic\.[^=]*\.netdev=' "$@" >"$work/kernel.cards"
  card_seen=' '
  {
    while IFS= read -r end_line; do
      end_pci=${end_line#nic.}
      add_end card "${end_pci%.netdev=*}"
    done <"$work/kernel.cards"
    while IFS= read -r end_line; do
      end_pci=${end_line%%/*}
      case $end_line in
        *:0x0207*) manages_nvswitch "/sys/bus/pci/devices/$end_pci" || add_end card "$end_pci" ;;
        *:0x03*)
          find_line "/sys/bus/pci/devices/$end_pci/vendor"
          case $value in 0x10de*) add_end gpu "$end_pci" ;; esac
          ;;
      esac
    done <"$work/kernel.classes"
  } >"$work/kernel.ends"
  cd /
}

add_end() { # gpu|card PCI : printed with its place in the PCIe tree, unless it is not there
  case $1:$card_seen in card:*" $2 "*) return 0 ;; card:*) card_seen="$card_seen$2 " ;; esac
  ! cd -P "/sys/bus/pci/devices/$2" 2>/dev/null || printf '%s %s\n' "$1" "$PWD"
}

# Which bridges are looked at: those on the way between a GPU and a rail card, and those before; when
# values are put back, those that were recorded. A run that was killed between the two files of the
# record has the second one alone.
find_bridges() { # $work/kernel.acs_left
  : >"$work/kernel.ends"
  [ "$restoring" = yes ] || ! asks_for acs || find_ends
  set -- "$work/kernel.ends"
  for acs_file in "${state_dir:-/none}/acs" "${state_dir:-/none}/baseline"; do
    [ ! -e "$acs_file" ] || set -- "$@" "$acs_file"
  done
  awk '
    /^gpu / { gpu[++gpus] = $2; next }
    /^card / { card[++cards] = $2; next }
    FILENAME ~ /\/acs$/ { found[$1]; next }
    sub(/^kernel\.acs=/, "") {
      count = split($0, list, ",")
      for (i = 1; i <= count; i++) if (sub(/\/.*/, "", list[i])) found[list[i]]
    }
    END {
      for (g = 1; g <= gpus; g++) for (c = 1; c <= cards; c++) {
        m = split(gpu[g], a, "/"); n = split(card[c], b, "/")
        if (a[4] != b[4]) continue
        for (i = 5; i < m && i < n && a[i] == b[i]; i++) continue
        for (j = i; j < m; j++) found[a[j]]
        for (j = i; j < n; j++) found[b[j]]
      }
      for (bridge in found) print bridge
    }' "$@" >"$work/kernel.acs_found"
  [ ! -s "$work/kernel.acs_found" ] || sort "$work/kernel.acs_found" -o "$work/kernel.acs_found"
}

# Which bridges are on the way changes with the cards. What each had when it was first seen is kept in
# $state_dir/acs; only these are put back, and the recorded value is what they had.

record_acs() { # after the baseline was recorded, before anything is written
  asks_for acs || return 0
  [ -e "$state_dir/acs" ] || : >"$state_dir/acs"
  find_acs_words
  lines_of_new_bridges >"$work/kernel.acs_new"
  [ -s "$work/kernel.acs_new" ] || return 0
  sort "$state_dir/acs" "$work/kernel.acs_new" >"$work/kernel.acs_known" || fail "cannot write $work/kernel.acs_known"
  cp "$work/kernel.acs_known" "$state_dir/acs" || fail "cannot write $state_dir/acs"
  list_acs "$state_dir/acs"
  awk -v line="kernel.acs=$value" '{ print index($0, "kernel.acs=") == 1 ? line : $0 }' \
    "$state_dir/baseline" >"$state_dir/baseline.new" || fail "cannot write $state_dir/baseline.new"
  sync "$state_dir/acs" "$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
}

lines_of_new_bridges() { # of $work/kernel.acs, those whose bridge the record lacks
  acs_known=' '
  while read -r acs_bridge acs_word; do acs_known="$acs_known$acs_bridge "; done <"$state_dir/acs"
  while read -r acs_bridge acs_word; do
    case $acs_known in *" $acs_bridge "*) ;; *) printf '%s %s\n' "$acs_bridge" "$acs_word" ;; esac
  done <"$work/kernel.acs"
}

find_acs_words() { # $work/kernel.acs: "<bridge> <control word>" of each with ACS, asked once until something is written
  [ ! -e "$work/kernel.acs" ] || return 0
  find_bridges
  acs_words=''
  acs_answered=''
  # setpci gives up at the first bridge without ACS; with -v each line begins with its bridge.
  while ask_bridges; do
    acs_before=$acs_answered
    while read -r acs_bridge acs_rest || [ -n "$acs_bridge" ]; do
      case $acs_rest in *' = '*) acs_words="$acs_words$acs_bridge ${acs_rest##* }$newline" ;; esac
      acs_answered="$acs_answered $acs_bridge "
    done <"$work/kernel.acs_out"
    [ "$acs_answered" != "$acs_before" ] || break
  done
  printf '%s' "$acs_words" >"$work/kernel.acs"
}

ask_bridges() { # those that have not answered yet; fails where there is none
  set --
  while IFS= read -r acs_bridge; do
    case $acs_answered in *" $acs_bridge "*) ;; *) set -- "$@" -s "$acs_bridge" ECAP_ACS+0x6.w ;; esac
  done <"$work/kernel.acs_found"
  [ $# -gt 0 ] || return 1
  setpci -v "$@" >"$work/kernel.acs_out" 2>/dev/null || :
}

find_acs() { # off, or the bridges whose word is not 0: "0000:02:05.0/001d,..."
  value=''
  command -v setpci >/dev/null || return 0
  find_acs_words
  list_acs "$work/kernel.acs"
}

list_acs() { # FILE
  value=''
  while read -r acs_bridge acs_word; do
    [ "$acs_word" = 0000 ] || value=$value${value:+,}$acs_bridge/$acs_word
  done <"$1"
  value=${value:-off}
}

write_acs() { # off, or what find_acs found before us; no other bridge is ever written
  acs_wanted=,$1,
  find_acs_words
  set --
  while read -r acs_bridge acs_word; do
    acs_word=0000
    case $acs_wanted in
      *",$acs_bridge/"*)
        acs_word=${acs_wanted#*",$acs_bridge/"}
        acs_word=${acs_word%%,*}
        ;;
    esac
    set -- "$@" -s "$acs_bridge" "ECAP_ACS+0x6.w=$acs_word"
  done <"$work/kernel.acs"
  [ $# = 0 ] || acs_output=$(setpci "$@" 2>&1) || fail "setpci failed: $acs_output"
  rm -f "$work/kernel.acs"
  acs_wanted=${acs_wanted#,}
  acs_wanted=${acs_wanted%,}
  find_acs
  [ "$value" = "$acs_wanted" ] ||
    fail "ACS of the bridges between GPUs and cards is $value, want $acs_wanted: they do not take the new" \
      'word. A kernel that is locked down (Secure Boot) refuses to write PCI registers: see' \
      '/sys/kernel/security/lockdown; switch ACS off in the BIOS and set host_defaults.kernel.acs: keep'
}

# The IOMMU is decided when the kernel starts: the setting is the next boot's command line, as GRUB
# has it. Where GRUB's files are not Debian's, it is only compared, and a person is told what to do.

next_cmdline() { # the first entry of GRUB's menu is its default
  if has_grub; then
    sed -n '/^[[:space:]]*linux[a-z]*[[:space:]]\{1,\}/{s///p;q;}' "$GRUB_CFG"
  else
    cat /proc/cmdline
  fi
}

has_grub() { [ -e "$GRUB_CFG" ] && command -v update-grub >/dev/null; }

find_cpu_maker() { # $cpu_maker
  cpu_maker=''
  [ ! -e /proc/cpuinfo ] || while IFS= read -r cpu_line; do
    case $cpu_line in vendor_id*:*) cpu_maker=${cpu_line#*: } && break ;; esac
  done </proc/cpuinfo
}

# What the kernel makes of the words (x86/kernel/pci-dma.c, drivers/iommu/{amd/init.c,intel/iommu.c}): each
# maker's word is read on its processors only. Of pt and nopt, and of Intel's on and off, the last one
# counts; iommu=off and amd_iommu=off are never taken back.
iommu_mode() { # stdin: a command line
  find_cpu_maker
  awk -v maker="$cpu_maker" '{ for (i = 1; i <= NF; i++) {
      key = $i; sub(/=.*/, "", key)
      words = split(substr($i, length(key) + 2), word, ",")
      for (j = 1; j <= words; j++) {
        if (key == "iommu" && word[j] ~ /^(no)?pt/) pt = word[j] ~ /^pt/
        if (key == "iommu" && word[j] ~ /^off/) for_good = 1
        if (key == "iommu.passthrough") pt = word[j] ~ /^(1|[yY]|on)/
        if (key == "amd_iommu" && maker == "AuthenticAMD" && word[j] ~ /^off/) for_good = 1
        if (key == "intel_iommu" && maker != "AuthenticAMD" && word[j] ~ /^o(n|ff)/) off = word[j] ~ /^off/
      } } }
    END { print for_good || off ? "off" : pt ? "pt" : "absent" }'
}

iommu_words() { # pt|off : AMD has its IOMMU on without being told
  find_cpu_maker
  case $1:$cpu_maker in
    pt:AuthenticAMD) echo 'iommu=pt' ;;
    pt:*) echo 'intel_iommu=on iommu=pt' ;;
    off:AuthenticAMD) echo 'amd_iommu=off' ;;
    off:*) echo 'intel_iommu=off' ;;
  esac
}

off_for_good() { # of the next command line: the words that no later one takes back
  next_cmdline | tr ' ' '\n' | grep -E '^(amd_)?iommu=([^=]*,)?off' | while IFS= read -r word; do
    [ "$(echo "$word" | iommu_mode)" != off ] || printf '%s\n' "$word"
  done
}

refuse_off_for_good() { # pt|off : words of somebody else that ours do not reach
  [ "$1" = pt ] || return 0
  stuck=$(off_for_good | head -n 1)
  [ -n "$stuck" ] || return 0
  stuck_files=$(grep -l -F -e "$stuck" /etc/default/grub /etc/default/grub.d/*.cfg 2>/dev/null | tr '\n' ' ')
  fail "the IOMMU is switched off by $stuck on the kernel's command line, want pt, and no later word takes that" \
    "back: take it out of ${stuck_files:-the boot loader (RHEL: grubby --update-kernel=ALL --remove-args=$stuck) }and" \
    'run again'
}

write_iommu() { # pt|off, or what was there before us: then our file goes
  if ! has_grub && [ "$restoring" = yes ]; then
    still_used="$still_used kernel.cmdline.iommu"
    note "kernel.cmdline.iommu is $(read_pci kernel.cmdline.iommu), was $1, and this host has no update-grub:" \
      "take '$(iommu_words "$(read_pci kernel.cmdline.iommu)")' off the kernel's command line by hand (RHEL:" \
      'grubby --update-kernel=ALL --remove-args=...)'
    return 0
  fi
  has_grub || {
    refuse_off_for_good "$1"
    fail "kernel.cmdline.iommu is $(read_pci kernel.cmdline.iommu), want $1, and this host has no" \
      "update-grub: add '$(iommu_words "$1")' to the kernel's command line by hand (RHEL: grubby" \
      "--update-kernel=ALL --args='$(iommu_words "$1")'), reboot, then run again"
  }
  if [ -e "$GRUB_FILE" ] || [ "$restoring" = yes ]; then # somebody may have removed our file alone
    owe update-grub
    rm -f "$GRUB_FILE"
    update_grub
  fi
  if [ "$(read_pci kernel.cmdline.iommu)" != "$1" ]; then
    others=no # another's file has it
    case $1 in off) ;; pt) [ -z "$(off_for_good)" ] || others=$restoring ;; *) others=yes ;; esac
    [ "$others" = no ] || { still_used="$still_used kernel.cmdline.iommu" && return 0; }
    refuse_off_for_good "$1"
    owe update-grub
    grub_line="GRUB_CMDLINE_LINUX_DEFAULT=\"\$GRUB_CMDLINE_LINUX_DEFAULT $(iommu_words "$1")\""
    (umask 022 && mkdir -p "${GRUB_FILE%/*}" && printf '%s\n' "$grub_line" >"$GRUB_FILE") ||
      fail "cannot write $GRUB_FILE"
    update_grub
  fi
  [ "$(read_pci kernel.cmdline.iommu_current)" = "$1" ] || {
    reboot_required=true
    note "the IOMMU is $(read_pci kernel.cmdline.iommu_current) until this host reboots, then $1" \
      "($GRUB_FILE adds: $(iommu_words "$1"))"
  }
}

update_grub() {
  run update-grub
  owe_no_more update-grub
}

# The RDMA namespace mode is a parameter of ib_core; the kernel lets it change at run time only while
# there is no other network namespace. The setting is what the next boot gives.

read_netns_mode() {
  netns_cmdline=$(sed -n 's/.*ib_core\.netns_mode=\([01]\).*/\1/p' /proc/cmdline 2>/dev/null)
  netns_option=$(cat /usr/lib/modprobe.d/*.conf /run/modprobe.d/*.conf /etc/modprobe.d/*.conf 2>/dev/null |
    sed -n 's/^[[:space:]]*options[[:space:]]\{1,\}ib_core[[:space:]].*netns_mode=\([01YNyn]\).*/\1/p' | tail -n 1)
  case ${netns_cmdline:-$netns_option} in 0 | [Nn]) echo exclusive ;; *) echo shared ;; esac
}

write_netns_mode() { # shared|exclusive
  owe update-initramfs
  rm -f "$NETNS_FILE"
  if [ "$(read_netns_mode)" != "$1" ]; then
    case $1 in exclusive) netns_number=0 ;; *) netns_number=1 ;; esac
    (umask 022 && echo "options ib_core netns_mode=$netns_number" >"$NETNS_FILE") ||
      fail "cannot write $NETNS_FILE"
  fi
  update_initramfs
  find_pci kernel.rdma_netns_current
  [ "$value" = "$1" ] || rdma system set netns "$1" >/dev/null 2>&1 || {
    reboot_required=true
    note "RDMA namespaces become $1 at the next boot: the kernel does not change them while there are" \
      'network namespaces (containers, services with PrivateNetwork); reboot this host'
  }
}

update_initramfs() { # ib_core may be loaded from there
  if command -v update-initramfs >/dev/null; then
    run update-initramfs -u
  elif command -v dracut >/dev/null; then
    run dracut -f
  fi
  owe_no_more update-initramfs
}

forget_pci() { # files of ours that the recorded state did not need
  rm -f "$state_dir/acs"
  [ ! -e "$GRUB_FILE" ] || {
    owe update-grub
    rm -f "$GRUB_FILE"
    update_grub
  }
}
