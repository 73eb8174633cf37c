# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, state_dir, ... are set by input.sh
# The PCIe path between GPU and card: ACS of its bridges, and the IOMMU by the kernel's command line.

GRUB_FILE=/etc/default/grub.d/zz-railyard.cfg
GRUB_CFG=/boot/grub/grub.cfg

pci_key() { # KEY
  case $1 in kernel.acs | kernel.cmdline.iommu | kernel.cmdline.iommu_current) ;; *) return 1 ;; esac
}

pci_value() { # KEY VALUE
  case $1 in
    kernel.acs) [ "$2" = off ] ;;
    kernel.cmdline.iommu*) [ "$2" = pt ] || [ "$2" = off ] ;;
  esac
}

read_pci() { # KEY
  case $1 in
    kernel.acs) read_acs ;;
    kernel.cmdline.iommu) next_cmdline | iommu_mode ;;
    kernel.cmdline.iommu_current) iommu_mode </proc/cmdline ;;
  esac
}

write_pci() { # KEY VALUE
  case $1 in
    kernel.acs) write_acs "$2" ;;
    kernel.cmdline.iommu) write_iommu "$2" ;;
    *) fail "$1 can be read, not set" ;;
  esac
}

refuse_pci() { # before anything is recorded: without the tool the words of now cannot be put back
  value_of kernel.acs "$state_dir/baseline" >/dev/null 2>&1 || rm -f "$state_dir/acs"
  ! grep -q '^kernel\.acs=' "$work/desired" || command -v setpci >/dev/null ||
    fail 'ACS of the bridges between GPUs and cards cannot be read: setpci is not on this host;' \
      'install pciutils, or set host_defaults.kernel.acs: keep'
}

rail_cards() { # PCI addresses of the file's cards, and of all InfiniBand controllers: it need not name them
  {
    cat "$work/desired" "${state_dir:-/none}/baseline" 2>/dev/null | sed -n 's/^nic\.\([^=]*\)\.netdev=.*/\1/p'
    # By their class, since at boot the driver may still be probing.
    grep -s -l '^0x0207' /sys/bus/pci/devices/*/class | sed 's,/class$,,; s,.*/,,'
  } | sort -u
}

acs_bridges() { # those on the way between a GPU (vendor 10de, class 03) and a rail card
  {
    grep -s -E '^0x(03|10de)' /sys/bus/pci/devices/*/class /sys/bus/pci/devices/*/vendor |
      awk -F / 'seen[$(NF - 1)]++ { print "gpu", $(NF - 1) }'
    rail_cards | sed 's/^/card /'
  } >"$work/kernel.ends"
  sed 's,.* ,/sys/bus/pci/devices/,' "$work/kernel.ends" | xargs -r readlink -f |
    paste -d ' ' "$work/kernel.ends" - | awk '
      { if ($1 == "gpu") gpu[++gpus] = $3; else card[++cards] = $3 }
      END {
        for (g = 1; g <= gpus; g++) for (c = 1; c <= cards; c++) {
          m = split(gpu[g], a, "/"); n = split(card[c], b, "/")
          if (a[4] != b[4]) continue
          for (i = 5; i < m && i < n && a[i] == b[i]; i++) continue
          for (j = i; j < m; j++) print a[j]
          for (j = i; j < n; j++) print b[j]
        }
      }' | sort -u
}

# Which bridges are on the way changes with the cards. What each had when it was first seen is kept in
# $state_dir/acs; only these are put back, and the recorded value is what they had.

record_acs() { # after the baseline was recorded, before anything is written
  grep -q '^kernel\.acs=' "$work/desired" || return 0
  touch "$state_dir/acs"
  acs_words | awk 'NR == FNR { old[$1] = 1; print; next } !($1 in old)' "$state_dir/acs" - | sort >"$work/kernel.acs_known"
  ! cmp -s "$work/kernel.acs_known" "$state_dir/acs" || return 0
  cp "$work/kernel.acs_known" "$state_dir/acs" || fail "cannot write $state_dir/acs"
  awk -v line="kernel.acs=$(list_acs <"$state_dir/acs")" '{ print index($0, "kernel.acs=") == 1 ? line : $0 }' \
    "$state_dir/baseline" >"$state_dir/baseline.new" || fail "cannot write $state_dir/baseline.new"
  sync "$state_dir/acs" "$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
}

owned_bridges() { # those on the way now and before; when values are put back, those that we recorded
  if [ "$restoring" = no ] && grep -q '^kernel\.acs=' "$work/desired"; then acs_bridges; fi
  cut -d ' ' -f 1 "${state_dir:-/none}/acs" 2>/dev/null
  # A run that was killed between the two files has the second record alone.
  value_of kernel.acs "${state_dir:-/none}/baseline" 2>/dev/null | tr , '\n' | sed -n 's,/.*,,p'
}

acs_words() { # "<bridge> <control word>" of each that has ACS, asked once until something is written
  if [ ! -e "$work/kernel.acs" ]; then
    owned_bridges | sort -u >"$work/kernel.acs_left"
    : >"$work/kernel.acs_seen"
    # setpci gives up at the first bridge without ACS; with -v each line begins with its bridge.
    while [ -s "$work/kernel.acs_left" ]; do
      sed 's/.*/-s & ECAP_ACS+0x6.w/' "$work/kernel.acs_left" | xargs setpci -v 2>/dev/null >"$work/kernel.acs_out"
      [ -s "$work/kernel.acs_out" ] || break
      cat "$work/kernel.acs_out" >>"$work/kernel.acs_seen"
      echo >>"$work/kernel.acs_seen"
      awk 'NR == FNR { seen[$1] = 1; next } !($1 in seen)' "$work/kernel.acs_out" "$work/kernel.acs_left" \
        >"$work/kernel.acs_next"
      mv "$work/kernel.acs_next" "$work/kernel.acs_left"
    done
    awk '/ = / { print $1, $NF }' "$work/kernel.acs_seen" >"$work/kernel.acs"
  fi
  cat "$work/kernel.acs"
}

read_acs() { # off, or the bridges whose word is not 0: "0000:02:05.0/001d,..."
  command -v setpci >/dev/null || return 0
  acs_words | list_acs
}

list_acs() {
  awk '$2 != "0000" { list = list (list == "" ? "" : ",") $1 "/" $2 } END { print list == "" ? "off" : list }'
}

write_acs() { # off, or what read_acs said before us; no other bridge is ever written
  acs_words | awk -v words="$1" '
    BEGIN { count = split(words, list, ","); for (i = 1; i <= count; i++) { split(list[i], pair, "/"); old[pair[1]] = pair[2] } }
    { print "-s", $1, "ECAP_ACS+0x6.w=" (old[$1] == "" ? "0000" : old[$1]) }' >"$work/kernel.acs_set"
  acs_output=$(xargs -r setpci <"$work/kernel.acs_set" 2>&1) || fail "setpci failed: $acs_output"
  rm -f "$work/kernel.acs"
  [ "$(read_acs)" = "$1" ] ||
    fail "ACS of the bridges between GPUs and cards is $(read_acs), want $1: they do not take the new" \
      'word. A kernel that is locked down (Secure Boot) refuses to write PCI registers: see' \
      '/sys/kernel/security/lockdown; switch ACS off in the BIOS and set host_defaults.kernel.acs: keep'
}

# The IOMMU is decided when the kernel starts: the setting is the next boot's command line, as GRUB
# has it. Where GRUB's files are not Debian's, it is only compared, and a person is told what to do.

next_cmdline() { # the first entry of GRUB's menu is its default
  if has_grub; then sed -n 's/^[[:space:]]*linux[a-z]*[[:space:]]\{1,\}//p' "$GRUB_CFG" | head -n 1; else cat /proc/cmdline; fi
}

has_grub() { [ -e "$GRUB_CFG" ] && command -v update-grub >/dev/null; }

cpu_maker() { sed -n 's/^vendor_id[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1; }

# What the kernel makes of the words (x86/kernel/pci-dma.c, drivers/iommu/{amd/init.c,intel/iommu.c}): each
# maker's word is read on its processors only. Of pt and nopt, and of Intel's on and off, the last one
# counts; iommu=off and amd_iommu=off are never taken back.
iommu_mode() { # stdin: a command line
  awk -v maker="$(cpu_maker)" '{ for (i = 1; i <= NF; i++) {
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
  case $1:$(cpu_maker) in
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
  if [ -e "$GRUB_FILE" ]; then
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

forget_pci() { # files of ours that the recorded state did not need
  rm -f "$state_dir/acs"
  [ ! -e "$GRUB_FILE" ] || {
    owe update-grub
    rm -f "$GRUB_FILE"
    update_grub
  }
}
